#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/log/log.h"
#include "lib/net/certificates.h"
#include "lib/net/http_settings.h"
#include "lib/net/listen_address.h"
#include "sidecar/kubernetes/kubernetes_reporter.h"

namespace triton::agent {

/// What /substitutions tells: see monitor_variables().
struct SubstitutionOptions {
    std::string version_file = "/var/fdb/version";
    std::string main_container_version;
    std::string main_container_conf_directory = "/var/dynamic-conf";
    std::string binary_directory = "/usr/bin";
    std::string binary_output_directory;  ///< in the output directory; empty: bin/VERSION
    std::string environment_file;         ///< empty: none
    std::vector<std::string> variables;   ///< further names
    int ip_family = 0;                    ///< 4, 6; 0: lists of addresses stay as they are
};

struct AgentOptions {
    std::vector<net::ListenAddress> listen;        ///< beside the sockets that are passed on
    std::vector<net::ListenAddress> probe_listen;  ///< for probes alone: plain, with slots of their own
    std::string output_directory;                  ///< empty: handed over, or none
    std::string control_socket;                    ///< empty: handed over, or none
    bool has_kubernetes = false;
    kubernetes::KubernetesSettings kubernetes;  ///< as flags and environment say it
    bool has_tls = false;
    net::CertificateFiles certificates;
    net::HttpSettings server;
    bool has_open_metrics = false;           ///< /metrics for peers without a certificate too
    bool has_ui = false;                     ///< the page at /ui
    std::string ui_token_file;               ///< empty: there is no token
    std::vector<std::string> allowed_hosts;  ///< further names by which we may be called without TLS
    SubstitutionOptions substitutions;
    std::string syslog_authority = "/etc/ssl/certs/ca-certificates.crt";  ///< of syslog daemons by TLS
    std::size_t hash_threads = 2;
    log::LogLevel log_level = log::LogLevel::info;
    log::LogFormat log_format = log::LogFormat::automatic;
    std::vector<std::string> remarks;  ///< on what the environment says, for the log
};

/// "0.1.0"
std::string agent_version();

}  // namespace triton::agent

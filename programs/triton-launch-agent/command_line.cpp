#include "programs/triton-launch-agent/command_line.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string_view>

#include "lib/flags/flags.h"

namespace triton::program {

using namespace flags;
using agent::AgentOptions;
using agent::SubstitutionOptions;

namespace {

Apply into_addresses(std::vector<net::ListenAddress>& target) {
    return [&target](std::string const& text) -> Result<> {
        target.push_back(TRY(net::parse_listen_address(text)));
        return {};
    };
}

constexpr std::array<Choice<log::LogLevel>, 6> log_levels{{{"trace", log::LogLevel::trace},
                                                           {"debug", log::LogLevel::debug},
                                                           {"info", log::LogLevel::info},
                                                           {"warning", log::LogLevel::warning},
                                                           {"error", log::LogLevel::error},
                                                           {"off", log::LogLevel::off}}};
constexpr std::array<Choice<log::LogFormat>, 3> log_formats{
    {{"auto", log::LogFormat::automatic}, {"text", log::LogFormat::text}, {"json", log::LogFormat::json}}};
constexpr std::array<Choice<bool>, 2> tls_versions{{{"1.2", false}, {"1.3", true}}};
constexpr std::array<Choice<int>, 2> families{{{"4", 4}, {"6", 6}}};

Flags make_flags(AgentOptions& options, std::string& verify_peers) {
    net::HttpLimits& limits = options.server.limits;
    SubstitutionOptions& substitutions = options.substitutions;
    kubernetes::KubernetesSettings& kubernetes = options.kubernetes;
    return {
        {"listen", "bind-address", 0, "ADDRESS", "serve on HOST:PORT, [V6]:PORT or :PORT (may be repeated)",
         into_addresses(options.listen)},
        {"probe-listen", "", 0, "ADDRESS",
         "serve only /ready, /healthz and /readyz there, without TLS (may be repeated)",
         into_addresses(options.probe_listen)},
        {"output-dir", "", 0, "DIR", "the directory whose files are served", into(options.output_directory)},
        {"control-socket", "", 0, "PATH", "the launcher's, unless the launcher starts the agent",
         into(options.control_socket)},
        {"tls", "", 0, "", "serve TLS; what no flag gives comes from FDB_TLS_*", into_switch(options.has_tls)},
        {"tls-certificate-file", "certificate-path", 0, "FILE", "the agent's certificate and its chain, PEM",
         into(options.certificates.certificate)},
        {"tls-key-file", "certificate-key-path", 0, "FILE", "its key, PEM", into(options.certificates.key)},
        {"tls-ca-file", "", 0, "FILE", "the authorities that sign the peers' certificates, PEM",
         into(options.certificates.authority)},
        {"tls-verify-peers", "", 0, "RULES", "which peers are let in; none: certificates are not asked for",
         into_any(verify_peers)},
        {"tls-ciphers", "", 0, "LIST", "ciphers of TLS 1.2, in OpenSSL's syntax (default: ECDHE+AESGCM:ECDHE+CHACHA20)",
         into(options.certificates.ciphers)},
        {"tls-min-version", "", 0, "1.2|1.3", "the lowest version of TLS (default: 1.2)",
         into_choice(options.certificates.wants_tls13, tls_versions)},
        {"open-metrics", "", 0, "", "serve /metrics also to peers without a certificate",
         into_switch(options.has_open_metrics)},
        {"ui", "", 0, "", "serve a page of what runs at /ui", into_switch(options.has_ui)},
        {"ui-token-file", "", 0, "FILE", "holds the token that commands, logs and the configuration need there",
         into(options.ui_token_file)},
        {"allow-host", "ui-host", 0, "NAME",
         "one more name by which clients may call the agent without TLS (may be repeated)",
         append_to(options.allowed_hosts)},
        {"max-connections", "", 0, "N", "limit of simultaneous connections (default: 1024)",
         into(limits.connections, 1, 1'000'000)},
        {"request-timeout", "", 0, "DURATION", "limit for a handshake, a header, a body (default: 10s)",
         into_time_limit(limits.request)},
        {"idle-timeout", "", 0, "DURATION", "limit between two requests (default: 1m)", into_time_limit(limits.idle)},
        {"max-header-bytes", "", 0, "N", "limit of the header of one request (default: 16384)",
         into(limits.header_bytes, 256, 1 << 20)},
        {"max-body-bytes", "", 0, "N", "limit of the body of one request (default: 262144)",
         into(limits.body_bytes, 0, 1 << 24)},
        {"hash-threads", "", 0, "N", "threads that compute hashes (default: 2)", into(options.hash_threads, 1, 64)},
        {"version-file", "", 0, "FILE", "holds this container's version (default: /var/fdb/version)",
         into(substitutions.version_file)},
        {"main-container-version", "", 0, "VERSION", "version of the container that the files are for",
         into_any(substitutions.main_container_version)},
        {"main-container-conf-dir", "", 0, "DIR",
         "the output directory there, for BINARY_DIR (default: /var/dynamic-conf)",
         into(substitutions.main_container_conf_directory)},
        {"binary-dir", "", 0, "DIR", "BINARY_DIR when both versions are equal (default: /usr/bin)",
         into(substitutions.binary_directory)},
        {"binary-output-dir", "", 0, "DIR",
         "the directory of binaries in the output directory, for BINARY_DIR (default: bin/VERSION)",
         into(substitutions.binary_output_directory)},
        {"additional-env-file", "", 0, "FILE", "name=value lines, looked up before the environment",
         into_any(substitutions.environment_file)},
        {"substitute-variable", "", 0, "NAME", "a further name in /substitutions (may be repeated)",
         append_to(substitutions.variables)},
        {"public-ip-family", "", 0, "4|6", "take the first address of this family from FDB_PUBLIC_IP and FDB_POD_IP",
         into_choice(substitutions.ip_family, families)},
        {"kubernetes", "", 0, "on|off", "tell the API server what happens here (default: off)",
         into_switch(options.has_kubernetes)},
        {"annotation-prefix", "", 0, "PREFIX", "prefix of the pod's annotations (default: foundationdb.org/)",
         into_key_prefix(kubernetes.annotation_prefix)},
        {"watch-node", "", 0, "", "make the node's labels variables NODE_LABEL_* for substitution",
         into_switch(kubernetes.watches_node)},
        {"pod-name", "", 0, "NAME", "(default: $FDB_POD_NAME, $POD_NAME, $HOSTNAME)", into(kubernetes.pod_name)},
        {"pod-namespace", "", 0, "NAME", "(default: $FDB_POD_NAMESPACE, $POD_NAMESPACE, that of the service account)",
         into(kubernetes.pod_namespace)},
        {"node-name", "", 0, "NAME", "(default: $FDB_NODE_NAME, $NODE_NAME, that of the pod)",
         into(kubernetes.node_name)},
        {"service-account-dir", "", 0, "DIR",
         "directory of token and ca.crt (default: /var/run/secrets/kubernetes.io/serviceaccount)",
         into(kubernetes.service_account_directory)},
        {"readiness-gate", "", 0, "TYPE", "a condition of the pod that follows readiness (default: none)",
         into(kubernetes.readiness_gate)},
        {"syslog-authority", "", 0, "FILE",
         "who may have signed certificates of syslog daemons, PEM (default: /etc/ssl/certs/ca-certificates.crt)",
         into(options.syslog_authority)},
        {"log-level", "", 0, "LEVEL", "trace, debug, info (default), warning, error or off",
         into_choice(options.log_level, log_levels)},
        {"log-format", "", 0, "FORMAT", "text, json, or auto: text on a terminal (default: auto)",
         into_choice(options.log_format, log_formats)},
    };
}

std::string help_text(Flags const& flags) {
    return "Usage: triton-launch-agent [OPTIONS]\n\n"
           "Serves hashes, presence, status and metrics over HTTP, makes network probes, and reports to Kubernetes.\n"
           "It is usually started by triton-launch, which passes it its sockets.\n\n" +
           help_rows(flags) + help_row('h', "help", "", "this text") + help_row('V', "version", "", "the version") +
           "\nEach option is also an environment variable: --max-connections is TRITON_AGENT_MAX_CONNECTIONS.\n"
           "Manual: triton-launch-agent(1).\n";
}

/// Sets a value that no flag has given to that of the first of these variables that is set.
void complete(std::string& target, char const* const* environment, std::initializer_list<std::string_view> names) {
    for (std::string_view const name : names) {
        char const* const value = variable(environment, name);
        if (target.empty() && value) target = value;
    }
}

/// Completes what TLS needs from FDB_TLS_*, where no flag has given it, and parses the rules.
Result<> complete_tls(AgentOptions& options, std::string verify_peers, char const* const* environment) {
    net::CertificateFiles& files = options.certificates;
    options.has_tls = options.has_tls || !files.certificate.empty() || !files.key.empty() || !files.authority.empty();
    if (!options.has_tls) {
        if (!verify_peers.empty()) return fail("--tls-verify-peers needs --tls");
        return {};
    }
    complete(files.certificate, environment, {"FDB_TLS_CERTIFICATE_FILE"});
    complete(files.key, environment, {"FDB_TLS_KEY_FILE"});
    complete(files.authority, environment, {"FDB_TLS_CA_FILE"});
    complete(files.password, environment, {"FDB_TLS_PASSWORD"});
    complete(verify_peers, environment, {"FDB_TLS_VERIFY_PEERS"});
    if (files.certificate.empty()) return fail("--tls: --tls-certificate-file (FDB_TLS_CERTIFICATE_FILE) is missing");
    if (files.key.empty()) return fail("--tls: --tls-key-file (FDB_TLS_KEY_FILE) is missing");
    if (verify_peers == "none") {
        files.authority.clear();
        return {};
    }
    if (files.authority.empty()) {
        return fail(
            "--tls: --tls-ca-file (FDB_TLS_CA_FILE) is missing; to ask for no certificates: "
            "--tls-verify-peers none");
    }
    auto rules = net::PeerRules::parse(verify_peers);
    if (!rules) return fail("--tls-verify-peers: " + rules.error().text());
    options.server.rules = std::move(*rules);
    return {};
}

/// Completes what only the surroundings tell, and what no flag has given. Whoever needs a value finds out whether it is
/// good, since everything else works without it.
void complete_kubernetes(kubernetes::KubernetesSettings& settings, char const* const* environment) {
    complete(settings.pod_name, environment, {"FDB_POD_NAME", "POD_NAME", "HOSTNAME"});
    complete(settings.pod_namespace, environment, {"FDB_POD_NAMESPACE", "POD_NAMESPACE"});
    complete(settings.node_name, environment, {"FDB_NODE_NAME", "NODE_NAME"});
    complete(settings.api_host, environment, {"KUBERNETES_SERVICE_HOST"});
    complete(settings.api_port, environment, {"KUBERNETES_SERVICE_PORT"});
    settings.version = agent::agent_version();
}

/// The names of all our variables, without their prefix.
std::vector<std::string> known_variables() {
    AgentOptions unused;
    std::string verify_peers;
    std::vector<std::string> names;
    for (flags::Flag const& flag : make_flags(unused, verify_peers))
        names.push_back(flags::variable_name({{}, {}, nullptr}, flag.name));
    return names;
}

}  // namespace

Result<AgentCommandLine> parse_agent_command_line(int argc, char const* const* argv, char const* const* environment) {
    AgentCommandLine line;
    AgentOptions& options = line.options;
    std::string verify_peers;
    Flags const flags = make_flags(options, verify_peers);
    std::span<char const* const> const arguments(argv + std::min(argc, 1),
                                                 static_cast<std::size_t>(std::max(argc - 1, 0)));
    flags::Program const program{"triton-launch-agent", "TRITON_AGENT_", environment};
    Words const words = TRY(parse_words(program, flags, arguments));
    if (words.wants_help) line.text = help_text(flags);
    if (words.wants_version) line.text = "triton-launch-agent " + agent::agent_version() + "\n";
    if (!line.text.empty()) return line;
    if (!words.positional.empty()) return fail("unexpected argument " + words.positional.front());
    TRY(complete_tls(options, std::move(verify_peers), environment));
    if (!options.has_ui && !options.ui_token_file.empty()) return fail("--ui-token-file needs --ui");
    if (options.has_kubernetes) complete_kubernetes(options.kubernetes, environment);
    options.remarks = flags::remarks_on_variables(program, known_variables);
    return line;
}

}  // namespace triton::program

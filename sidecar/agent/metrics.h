#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/net/http_figures.h"
#include "lib/net/open_metrics.h"
#include "sidecar/agent/routing.h"
#include "sidecar/agent/status.h"

namespace triton::agent {

/// The agent's counters of itself.
struct AgentFigures {
    std::map<std::pair<Endpoint, unsigned>, std::uint64_t> requests;  ///< by endpoint and status code
    net::HttpFigures http;
    std::uint64_t hash_hits = 0;
    std::uint64_t hash_misses = 0;
    std::uint64_t hashed_bytes = 0;
    std::uint64_t certificate_reloads = 0;
    std::uint64_t failed_certificate_reloads = 0;
    std::optional<std::int64_t> certificate_not_after;  ///< with TLS
};

using net::content_type;
using net::metrics_format;
using net::MetricsFormat;

/// All metrics; `status` is null when there is no launcher or it does not answer.
///
/// The names are documented in docs/openapi.yaml. Those that the shipped monitor had (fdbkubernetesmonitor_*) come too,
/// as far as the launcher tells what they need.
/// Source: OpenMetrics 1.0.0; Prometheus, "Exposition formats".
std::string render_metrics(SupervisionStatus const* status, AgentFigures const& figures, std::string_view agent_version,
                           MetricsFormat format);

}  // namespace triton::agent

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/probe_target.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::agent {

/// A probe that the launcher wants, or no longer wants: one reply to its method Probes.
struct ProbeOrder {
    std::int64_t id = 0;
    std::string kind;    ///< "tcp", "http", "grpc", "log"; empty: cancel the probe with this id
    std::string target;  ///< HOST:PORT, a URL, or a pattern
    Duration timeout{};  ///< for all of it
    std::vector<std::pair<std::string, std::string>> headers{};  ///< http: fields that the launcher has checked
    std::vector<config::StatusRange> status{};                   ///< http: good ones; empty: 200 to 399
    std::string service{};                                       ///< grpc: empty: the server as a whole

    bool operator==(ProbeOrder const&) const = default;
};

/// nullopt: the reply orders nothing, as the first one does.
std::optional<ProbeOrder> parse_probe_order(json::Node const& reply);

/// Lines of output for a probe of kind log: a reply of that method, too. Borrows from it. nullopt: it is not one.
struct ProbeLines {
    std::int64_t id = 0;
    json::Array const* lines = nullptr;
};
std::optional<ProbeLines> parse_probe_lines(json::Node const& reply);

/// Where the probe goes; borrows from the order. Errors: a kind that this version does not know, a target that cannot
/// be read; in words for the author of the configuration.
Result<config::ProbeTarget> target_of(ProbeOrder const& order);

/// Whether this status of HTTP is a good one.
bool is_good(ProbeOrder const& order, unsigned status);

/// What ProbeResult is called with. `problem`: why the probe failed; nullopt: it succeeded.
std::string probe_result_json(std::int64_t id, std::optional<std::string> const& problem);

}  // namespace triton::agent

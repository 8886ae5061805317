#include "sidecar/agent/probe_order.h"

#include <algorithm>

#include "lib/json/writer.h"
#include "sidecar/control/control_reply.h"

namespace triton::agent {

namespace {

// A launcher that says nothing of the kind, or nonsense, gets these.
constexpr double shortest_seconds = 0.001;
constexpr double longest_seconds = 24 * 3600;

}  // namespace

std::optional<ProbeOrder> parse_probe_order(json::Node const& reply) {
    auto const* const id = json::value_of<std::int64_t>(reply, "id");
    if (!id) return std::nullopt;
    ProbeOrder order;
    order.id = *id;
    order.kind = json::text_of(reply, "kind");
    order.target = json::text_of(reply, "target");
    double const seconds = json::real_of(reply, "timeout_seconds").value_or(0);
    order.timeout = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(std::clamp(seconds, shortest_seconds, longest_seconds)));
    return order;
}

Result<config::ProbeTarget> target_of(ProbeOrder const& order) {
    auto const* const kind = config::find_probe_kind(order.kind);
    if (!kind) return fail("probes of kind \"" + order.kind + "\" are unknown here");
    auto target = kind->parse_target(order.target);
    if (!target) return fail(std::move(target).error());
    return *target;
}

std::string probe_result_json(std::int64_t id, std::optional<std::string> const& problem) {
    json::Writer out;
    out.open('{').member("id", id).member("ok", !problem).member("detail", problem.value_or("")).close('}');
    return std::move(out).text();
}

}  // namespace triton::agent

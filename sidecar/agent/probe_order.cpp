#include "sidecar/agent/probe_order.h"

#include <algorithm>

#include "lib/json/writer.h"
#include "sidecar/control/control_reply.h"

namespace triton::agent {

namespace {

// These values are used when the launcher gives none, or nonsense.
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
    auto const& members = *reply.get<json::Object>();  // it has an id
    for (json::Node const& field : json::list_of(members, "headers"))
        order.headers.emplace_back(json::text_of(field, "name"), json::text_of(field, "value"));
    for (json::Node const& range : json::list_of(members, "status")) {
        auto const* const first = json::value_of<std::int64_t>(range, "first");
        auto const* const last = json::value_of<std::int64_t>(range, "last");
        if (first && last)
            order.status.push_back({static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)});
    }
    order.service = json::text_of(reply, "service");
    return order;
}

std::optional<ProbeLines> parse_probe_lines(json::Node const& reply) {
    auto const* const id = json::value_of<std::int64_t>(reply, "id");
    auto const* const lines = id ? json::value_of<json::Array>(reply, "lines") : nullptr;
    return lines ? std::optional(ProbeLines{*id, lines}) : std::nullopt;
}

bool is_good(ProbeOrder const& order, unsigned status) {
    if (order.status.empty()) return status < 400;
    return std::ranges::any_of(order.status, [status](config::StatusRange const& range) {
        return range.first <= status && status <= range.last;
    });
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

#include "sidecar/kubernetes/launcher_replies.h"

#include <array>
#include <charconv>
#include <cmath>

#include "lib/base/signal_text.h"
#include "lib/json/writer.h"
#include "sidecar/control/control_reply.h"

namespace triton::kubernetes {

namespace {

using json::Array;
using json::Node;
using json::Object;

std::optional<std::int64_t> microseconds(Node const& object, std::string_view name) {
    auto const seconds = json::real_of(object, name);
    if (!seconds || !(std::abs(*seconds) < 1e12)) return std::nullopt;
    return std::llround(*seconds * 1e6);
}

/// How a process has ended or why it did not start, without what differs each time.
std::string ending_of(Node const& record) {
    if (auto const* const signal = json::value_of<std::int64_t>(record, "signal"))
        return "signal " + (*signal > 0 && *signal < 128 ? signal_text(static_cast<int>(*signal)) : "?");
    if (auto const* const code = json::value_of<std::int64_t>(record, "exit_code"))
        return "exit code " + std::to_string(*code);
    return json::text_of(record, "error");
}

std::string number_text(double number) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

}  // namespace

heard::Configuration parse_configuration(Node const& reply) {
    heard::Configuration configuration;
    if (auto const* const text = json::value_of<std::string>(reply, "configuration")) configuration.text = *text;
    if (auto const* const environment = json::value_of<json::Object>(reply, "environment")) {
        for (json::Member const& variable : *environment) {
            if (auto const* const value = variable.node.get<std::string>())
                configuration.environment.emplace_back(variable.key, *value);
        }
    }
    configuration.accepted_at = microseconds(reply, "accepted_at");
    configuration.rejected_at = microseconds(reply, "rejected_at");
    if (auto const* const rejection = json::value_of<json::Array>(reply, "rejection")) {
        for (Node const& reason : *rejection) {
            if (auto const* const text = reason.get<std::string>()) configuration.rejection.push_back(*text);
        }
    }
    return configuration;
}

std::optional<heard::Record> parse_record(Node const& reply) {
    Node const* const node = json::member(reply, "event");
    if (!node || !node->get<json::Object>()) return std::nullopt;
    heard::Record record;
    record.event = json::text_of(*node, "event");
    record.message = json::text_of(*node, "message");
    record.program = json::text_of(*node, "program");
    if (auto const* const process = json::value_of<std::int64_t>(*node, "process")) record.process = *process;
    record.ending = ending_of(*node);
    record.restart_in_seconds = json::real_of(*node, "restart_in_seconds");
    record.from = json::text_of(*node, "from");
    record.to = json::text_of(*node, "to");
    record.action = json::text_of(*node, "action");
    if (auto const* const failures = json::value_of<std::int64_t>(*node, "failures")) record.failures = *failures;
    return record;
}

heard::Status parse_launcher_status(Node const& reply) {
    heard::Status status;
    Node const* const launcher = json::member(reply, "launcher");
    if (!launcher) return status;
    status.version = json::text_of(*launcher, "version");
    if (auto const* const pid = json::value_of<std::int64_t>(*launcher, "pid")) status.pid = *pid;
    auto const* const ready = json::value_of<bool>(*launcher, "ready");
    status.is_ready = ready && *ready;
    status.uptime_seconds = json::real_of(*launcher, "uptime_seconds");
    return status;
}

std::string set_pod_parameters(action::SetPod const& pod) {
    json::Writer out;
    out.open('{').member("isolated", pod.is_isolated);
    out.key("shutdown_delay_seconds").raw(number_text(std::chrono::duration<double>(pod.shutdown_delay).count()));
    return out.key("variables").raw(json_object(pod.variables)).close('}').text();
}

std::string set_reporter_parameters(action::SetReporter const& reporter) {
    json::Writer out;
    out.open('{').key("reporter").open('{').member("state", reporter.state).member("detail", reporter.detail);
    if (reporter.last_success)
        out.key("last_success").raw(number_text(static_cast<double>(*reporter.last_success) / 1e6));
    return out.close('}').close('}').text();
}

}  // namespace triton::kubernetes

#include "launcher/control/control_calls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "config/substitution.h"
#include "launcher/control/control_methods.h"
#include "lib/base/signal_names.h"
#include "lib/json/lookup.h"

namespace triton::launcher {

namespace {

constexpr double most_delay = 100.0 * 366 * 24 * 3600;  // seconds: a lifetime, and far from what a Duration can hold
constexpr double most_time = 1e12;                      // seconds since 1970: likewise for microseconds

using json::Node;

template <auto Member>
bool read_text(Node const& node, CallParameters& parameters) {
    auto const* const text = node.get<std::string>();
    if (text) parameters.*Member = *text;
    return text != nullptr;
}

template <auto Member>
bool read_flag(Node const& node, CallParameters& parameters) {
    auto const* const flag = node.get<bool>();
    if (flag) parameters.*Member = *flag;
    return flag != nullptr;
}

template <auto Member, std::int64_t Lowest, std::int64_t Highest>
bool read_number(Node const& node, CallParameters& parameters) {
    auto const* const number = node.get<std::int64_t>();
    if (!number || *number < Lowest || *number > Highest) return false;
    parameters.*Member = static_cast<std::uint32_t>(*number);
    return true;
}

/// Reads an absolute path: the caller has another working directory than we do.
bool read_path(Node const& node, CallParameters& parameters) {
    auto const* const text = node.get<std::string>();
    if (!text || !text->starts_with('/')) return false;
    parameters.path = *text;
    return true;
}

bool read_signal(Node const& node, CallParameters& parameters) {
    auto const* const text = node.get<std::string>();
    if (!text) return false;
    parameters.signo = parse_signal(text->data(), text->data() + text->size());
    return parameters.signo > 0;
}

constexpr std::array<std::string_view, 4> condition_names{"ready", "up", "down", "done"};
static_assert(condition_names.size() == static_cast<std::size_t>(WaitCondition::done) + 1);

template <auto Member, auto const& Names>
bool read_word(Node const& node, CallParameters& parameters) {
    auto const* const text = node.get<std::string>();
    auto const name = text ? std::ranges::find(Names, *text) : Names.end();
    if (name == Names.end()) return false;
    parameters.*Member = static_cast<std::remove_reference_t<decltype(parameters.*Member)>>(name - Names.begin());
    return true;
}

bool read_after(Node const& node, CallParameters& parameters) {
    auto const* const number = node.get<std::int64_t>();
    if (!number || *number < 0) return false;
    parameters.after = static_cast<std::uint64_t>(*number);
    return true;
}

bool read_id(Node const& node, CallParameters& parameters) {
    auto const* const number = node.get<std::int64_t>();
    if (!number || *number < 0) return false;
    parameters.id = static_cast<std::uint64_t>(*number);
    return true;
}

/// Reads a text for people; its beginning is enough.
bool read_detail(Node const& node, std::string& detail) {
    auto const* const text = node.get<std::string>();
    if (text) detail = text->substr(0, most_detail_bytes);
    return text != nullptr;
}

/// Returns the value if it is a number that is not negative.
std::optional<double> float_of(Node const& node) {
    auto const value = json::real_of(node);
    return value.value_or(-1) >= 0 ? value : std::nullopt;
}

/// Reads a delay. One that is longer than a lifetime is cut to that.
bool read_delay(Node const& node, CallParameters& parameters) {
    auto const seconds = float_of(node);
    if (!seconds) return false;
    parameters.pod.shutdown_delay =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(*seconds, most_delay)));
    return true;
}

bool read_isolated(Node const& node, CallParameters& parameters) {
    auto const* const flag = node.get<bool>();
    if (flag) parameters.pod.is_isolated = *flag;
    return flag != nullptr;
}

bool read_variables(Node const& node, CallParameters& parameters) {
    auto const* const members = node.get<json::Object>();
    if (!members || members->size() > most_variables) return false;
    std::size_t bytes = 0;
    for (json::Member const& member : *members) {
        auto const* const value = member.node.get<std::string>();
        if (!value || !member.key.starts_with(config::node_label_prefix) || member.key.contains('=')) return false;
        bytes += member.key.size() + value->size();
        if (bytes > most_variable_bytes) return false;
        parameters.pod.variables.emplace_back(member.key, *value);
    }
    std::ranges::sort(parameters.pod.variables);
    return true;
}

bool read_reporter(Node const& node, CallParameters& parameters) {
    auto const* const members = node.get<json::Object>();
    if (!members) return false;
    for (auto const& [key, value] : *members) {
        if (key == "state") {
            auto const* const name = value.get<std::string>();
            if (!name || std::ranges::find(reporter_state_names, *name) == reporter_state_names.end()) return false;
            parameters.reporter.state = *name;
        } else if (key == "detail") {
            if (!read_detail(value, parameters.reporter.detail)) return false;
        } else if (key == "last_success") {
            if (value.get<json::Null>()) continue;
            auto const seconds = float_of(value);
            if (!seconds || *seconds > most_time) return false;
            parameters.reporter.last_success = std::llround(*seconds * 1e6);
        } else {
            return false;
        }
    }
    return !parameters.reporter.state.empty() && varlink::find_member(*members, "detail") != nullptr;
}

constexpr ParameterRow program{"program", true, read_text<&CallParameters::program>};
constexpr ParameterRow process{"process", false,
                               read_number<&CallParameters::process, 1, std::numeric_limits<std::uint32_t>::max()>};
constexpr ParameterRow wait{"wait", false, read_flag<&CallParameters::waits>};

constexpr std::array list_parameters{ParameterRow{"program", false, read_text<&CallParameters::program>}, process,
                                     ParameterRow{"history", false, read_flag<&CallParameters::has_history>}};
constexpr std::array program_only{program};
constexpr ParameterRow alone{"alone", false, read_flag<&CallParameters::is_alone>};
constexpr std::array verb_parameters{program, process, wait, alone};
constexpr std::array signal_parameters{program, process, ParameterRow{"signal", true, read_signal}};
constexpr std::array wait_parameters{
    program, process, ParameterRow{"condition", true, read_word<&CallParameters::condition, condition_names>}};
constexpr std::array logs_parameters{
    program, process, ParameterRow{"lines", false, read_number<&CallParameters::lines, 0, most_log_lines>},
    ParameterRow{"follow", false, read_flag<&CallParameters::follows>}, ParameterRow{"after", false, read_after}};
constexpr std::array attach_parameters{
    program, process, ParameterRow{"lines", false, read_number<&CallParameters::lines, 0, most_log_lines>},
    ParameterRow{"read_only", false, read_flag<&CallParameters::is_read_only>},
    ParameterRow{"follow", false, read_flag<&CallParameters::follows>}};
constexpr std::array subscribe_parameters{ParameterRow{"live", false, read_flag<&CallParameters::is_live>}};
constexpr std::array path_only{ParameterRow{"path", true, read_path}};
constexpr std::array what_only{ParameterRow{"what", true, read_word<&CallParameters::what, staging_kind_names>}};
constexpr std::array result_parameters{
    ParameterRow{"id", true, read_id}, ParameterRow{"ok", true, read_flag<&CallParameters::is_ok>},
    ParameterRow{"detail", true,
                 [](Node const& node, CallParameters& parameters) { return read_detail(node, parameters.detail); }}};
constexpr std::array pod_parameters{ParameterRow{"isolated", true, read_isolated},
                                    ParameterRow{"shutdown_delay_seconds", true, read_delay},
                                    ParameterRow{"variables", true, read_variables}};
constexpr std::array reporter_only{ParameterRow{"reporter", true, read_reporter}};

constexpr auto person = static_cast<varlink::Role>(ControlRole::person);
constexpr auto agent = static_cast<varlink::Role>(ControlRole::agent);
constexpr auto limited = static_cast<varlink::Role>(ControlRole::limited);
constexpr auto steward = static_cast<varlink::Role>(ControlRole::steward);

// The roles that may call a method. The agent faces the network, so it may look, and ask only for what cannot hurt:
// nothing that starts, stops or replaces a program. The same holds for confined processes of our uid. Only the agent
// may call the methods that are made for it. A steward is an agent that shows a page with commands: where the command
// line asks for that page and says who may give them, it may also command programs and read their output, but not
// replace the launcher.
constexpr varlink::Roles agents = varlink::only(agent) | varlink::only(steward);
constexpr varlink::Roles persons = varlink::only(person);
constexpr varlink::Roles commanders = persons | varlink::only(steward);
constexpr varlink::Roles everyone = persons | agents | varlink::only(limited);

using M = ControlMethods;
constexpr std::array<MethodRow, 19> methods{{
    {"GetStatus", {}, everyone, &M::get_status},
    {"List", list_parameters, everyone, &M::list},
    {"Describe", program_only, everyone, &M::describe},
    {"Start", verb_parameters, commanders, &M::start},
    {"Stop", verb_parameters, commanders, &M::stop},
    {"Restart", verb_parameters, commanders, &M::restart},
    {"Signal", signal_parameters, commanders, &M::signal},
    {"Reload", {}, everyone, &M::reload},
    {"Wait", wait_parameters, persons, &M::wait},
    {"Subscribe", subscribe_parameters, everyone, &M::subscribe, true},
    {"Logs", logs_parameters, commanders, &M::logs},
    {"Attach", attach_parameters, persons, &M::attach, false, true},
    {"Upgrade", path_only, persons, &M::upgrade},
    {"Stage", what_only, everyone, &M::stage},
    {"WatchConfiguration", {}, everyone, &M::watch_configuration},
    {"Probes", {}, agents, &M::probes, true},
    {"ProbeResult", result_parameters, agents, &M::probe_result},
    {"SetPod", pod_parameters, agents, &M::set_pod},
    {"SetReporter", reporter_only, agents, &M::set_reporter},
}};

}  // namespace

std::string launcher_name(std::string_view name) { return std::string(launcher_interface).append(".").append(name); }

std::span<MethodRow const> control_methods() { return methods; }

}  // namespace triton::launcher

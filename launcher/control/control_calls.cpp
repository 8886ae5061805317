#include "launcher/control/control_calls.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "config/substitution.h"
#include "launcher/control/varlink.h"
#include "lib/base/signal_names.h"

namespace triton::launcher {

namespace {

constexpr std::int64_t most_lines = 10'000;
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

/// An absolute one: whoever calls stands elsewhere than we do.
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

bool read_id(Node const& node, CallParameters& parameters) {
    auto const* const number = node.get<std::int64_t>();
    if (!number || *number < 0) return false;
    parameters.id = static_cast<std::uint64_t>(*number);
    return true;
}

/// A text for people, of which the beginning is enough.
bool read_detail(Node const& node, std::string& detail) {
    auto const* const text = node.get<std::string>();
    if (text) detail = text->substr(0, most_detail_bytes);
    return text != nullptr;
}

/// A number that is not negative. Source: RFC 8259, section 6: std::from_chars reads all of its numbers.
std::optional<double> float_of(Node const& node) {
    double value = -1;
    if (auto const* const whole = node.get<std::int64_t>()) {
        value = static_cast<double>(*whole);
    } else if (auto const* const odd = node.get<json::OddNumber>()) {
        char const* const end = odd->text.data() + odd->text.size();
        if (std::from_chars(odd->text.data(), end, value).ec != std::errc{}) return std::nullopt;
    }
    return value >= 0 ? std::optional(value) : std::nullopt;
}

/// Longer than a lifetime is as good as one.
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
    return !parameters.reporter.state.empty() && find_member(*members, "detail") != nullptr;
}

constexpr ParameterRow program{"program", true, read_text<&CallParameters::program>};
constexpr ParameterRow process{"process", false,
                               read_number<&CallParameters::process, 1, std::numeric_limits<std::uint32_t>::max()>};
constexpr ParameterRow wait{"wait", false, read_flag<&CallParameters::waits>};

constexpr std::array interface_only{ParameterRow{"interface", true, read_text<&CallParameters::interface>}};
constexpr std::array list_parameters{ParameterRow{"program", false, read_text<&CallParameters::program>}, process};
constexpr std::array program_only{program};
constexpr std::array verb_parameters{program, process, wait};
constexpr std::array signal_parameters{program, process, ParameterRow{"signal", true, read_signal}};
constexpr std::array wait_parameters{
    program, process, ParameterRow{"condition", true, read_word<&CallParameters::condition, condition_names>}};
constexpr std::array logs_parameters{program, process,
                                     ParameterRow{"lines", false, read_number<&CallParameters::lines, 0, most_lines>},
                                     ParameterRow{"follow", false, read_flag<&CallParameters::follows>}};
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

constexpr Callers everyone = Callers::everyone;
constexpr Callers persons = Callers::persons;
constexpr Callers agents = Callers::agents;
constexpr std::array<MethodRow, 20> methods{{
    {ControlMethod::get_info, service_interface, "GetInfo", {}, everyone},
    {ControlMethod::get_interface_description, service_interface, "GetInterfaceDescription", interface_only, everyone},
    {ControlMethod::get_status, launcher_interface, "GetStatus", {}, everyone},
    {ControlMethod::list, launcher_interface, "List", list_parameters, everyone},
    {ControlMethod::describe, launcher_interface, "Describe", program_only, everyone},
    {ControlMethod::start, launcher_interface, "Start", verb_parameters, persons},
    {ControlMethod::stop, launcher_interface, "Stop", verb_parameters, persons},
    {ControlMethod::restart, launcher_interface, "Restart", verb_parameters, persons},
    {ControlMethod::signal, launcher_interface, "Signal", signal_parameters, persons},
    {ControlMethod::reload, launcher_interface, "Reload", {}, everyone},
    {ControlMethod::wait, launcher_interface, "Wait", wait_parameters, persons},
    {ControlMethod::subscribe, launcher_interface, "Subscribe", {}, everyone, true},
    {ControlMethod::logs, launcher_interface, "Logs", logs_parameters, persons},
    {ControlMethod::upgrade, launcher_interface, "Upgrade", path_only, persons},
    {ControlMethod::stage, launcher_interface, "Stage", what_only, everyone},
    {ControlMethod::watch_configuration, launcher_interface, "WatchConfiguration", {}, everyone},
    {ControlMethod::probes, launcher_interface, "Probes", {}, agents, true},
    {ControlMethod::probe_result, launcher_interface, "ProbeResult", result_parameters, agents},
    {ControlMethod::set_pod, launcher_interface, "SetPod", pod_parameters, agents},
    {ControlMethod::set_reporter, launcher_interface, "SetReporter", reporter_only, agents},
}};
static_assert(methods.size() == static_cast<std::size_t>(ControlMethod::set_reporter) + 1);

}  // namespace

std::span<MethodRow const> control_methods() { return methods; }

MethodRow const* find_method(std::string_view interface, std::string_view name) {
    for (MethodRow const& row : methods) {
        if (row.interface == interface && row.name == name) return &row;
    }
    return nullptr;
}

std::expected<CallParameters, std::string> read_parameters(MethodRow const& method, json::Object const& object) {
    for (json::Member const& member : object) {
        if (std::ranges::find(method.parameters, member.key, &ParameterRow::name) == method.parameters.end())
            return std::unexpected(member.key);
    }
    CallParameters parameters;
    for (ParameterRow const& row : method.parameters) {
        Node const* const node = find_member(object, row.name);
        bool const is_good = node ? row.read(*node, parameters) : !row.is_required;
        if (!is_good) return std::unexpected(std::string(row.name));
    }
    return parameters;
}

}  // namespace triton::launcher

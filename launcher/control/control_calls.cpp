#include "launcher/control/control_calls.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/signal_names.h"
#include "launcher/control/varlink.h"

namespace triton::launcher {

namespace {

constexpr std::int64_t most_lines = 10'000;

using config::Node;

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

bool read_signal(Node const& node, CallParameters& parameters) {
    auto const* const text = node.get<std::string>();
    if (!text) return false;
    parameters.signo = parse_signal(text->data(), text->data() + text->size());
    return parameters.signo > 0;
}

bool read_condition(Node const& node, CallParameters& parameters) {
    static constexpr std::array<std::string_view, 4> names{"ready", "up", "down", "done"};
    static_assert(names.size() == static_cast<std::size_t>(WaitCondition::done) + 1);
    auto const* const text = node.get<std::string>();
    auto const name = text ? std::ranges::find(names, *text) : names.end();
    if (name == names.end()) return false;
    parameters.condition = static_cast<WaitCondition>(name - names.begin());
    return true;
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
constexpr std::array wait_parameters{program, process, ParameterRow{"condition", true, read_condition}};
constexpr std::array logs_parameters{program, process,
                                     ParameterRow{"lines", false, read_number<&CallParameters::lines, 0, most_lines>},
                                     ParameterRow{"follow", false, read_flag<&CallParameters::follows>}};
constexpr std::array path_only{ParameterRow{"path", true, read_text<&CallParameters::path>}};

constexpr std::array<MethodRow, 14> methods{{
    {ControlMethod::get_info, service_interface, "GetInfo", {}},
    {ControlMethod::get_interface_description, service_interface, "GetInterfaceDescription", interface_only},
    {ControlMethod::get_status, launcher_interface, "GetStatus", {}},
    {ControlMethod::list, launcher_interface, "List", list_parameters},
    {ControlMethod::describe, launcher_interface, "Describe", program_only},
    {ControlMethod::start, launcher_interface, "Start", verb_parameters},
    {ControlMethod::stop, launcher_interface, "Stop", verb_parameters},
    {ControlMethod::restart, launcher_interface, "Restart", verb_parameters},
    {ControlMethod::signal, launcher_interface, "Signal", signal_parameters},
    {ControlMethod::reload, launcher_interface, "Reload", {}},
    {ControlMethod::wait, launcher_interface, "Wait", wait_parameters},
    {ControlMethod::subscribe, launcher_interface, "Subscribe", {}, true},
    {ControlMethod::logs, launcher_interface, "Logs", logs_parameters},
    {ControlMethod::upgrade, launcher_interface, "Upgrade", path_only},
}};
static_assert(methods.size() == static_cast<std::size_t>(ControlMethod::upgrade) + 1);

}  // namespace

std::span<MethodRow const> control_methods() { return methods; }

MethodRow const* find_method(std::string_view interface, std::string_view name) {
    for (MethodRow const& row : methods) {
        if (row.interface == interface && row.name == name) return &row;
    }
    return nullptr;
}

std::expected<CallParameters, std::string> read_parameters(MethodRow const& method, config::JsonObject const& object) {
    for (config::Member const& member : object) {
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

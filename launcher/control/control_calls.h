#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/json_reader.h"

namespace triton::launcher {

inline constexpr std::string_view launcher_interface = "org.tritonlaunch.Launcher";
inline constexpr std::string_view service_interface = "org.varlink.service";

/// The text of an interface description of ours, as it stands beside this file; empty for another name.
std::string_view interface_description(std::string_view interface);

enum class ControlMethod : std::uint8_t {
    get_info,
    get_interface_description,
    get_status,
    list,
    describe,
    start,
    stop,
    restart,
    signal,
    reload,
    wait,
    subscribe,
    logs,
    upgrade
};

enum class WaitCondition : std::uint8_t { ready, up, down, done };

/// What a call may say, of all methods together.
struct CallParameters {
    std::string interface;
    std::optional<std::string> program;
    std::optional<std::uint32_t> process;  ///< from 1
    std::string path;
    WaitCondition condition = WaitCondition::ready;
    int signo = 0;
    std::uint32_t lines = 10;
    bool waits = false;
    bool follows = false;
};

/// One parameter: its name in the interface description, and what reads it; false: not what it may be.
struct ParameterRow {
    std::string_view name;
    bool is_required;
    bool (*read)(config::Node const& node, CallParameters& parameters);
};

struct MethodRow {
    ControlMethod method;
    std::string_view interface;
    std::string_view name;
    std::span<ParameterRow const> parameters;
    bool needs_more = false;
};

/// In the order of the enum.
std::span<MethodRow const> control_methods();

/// nullptr: there is none.
MethodRow const* find_method(std::string_view interface, std::string_view name);

/// Errors: the name of the parameter that is missing, unknown or not what it may be.
std::expected<CallParameters, std::string> read_parameters(MethodRow const& method, config::JsonObject const& object);

}  // namespace triton::launcher

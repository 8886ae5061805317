#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/control/control_backend.h"
#include "lib/json/reader.h"

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
    upgrade,
    stage,
    watch_configuration,
    probes,
    probe_result,
    set_pod,
    set_reporter
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
    StagingKind what = StagingKind::all;
    std::uint64_t id = 0;
    bool is_ok = false;
    std::string detail;
    PodState pod;
    ReporterStatus reporter;
};

/// Bounds of what the agent tells.
inline constexpr std::size_t most_variables = 1000;
inline constexpr std::size_t most_variable_bytes = 64 * 1024;  ///< names and values together
inline constexpr std::size_t most_detail_bytes = 1024;         ///< what is longer is cut off

/// One parameter: its name in the interface description, and what reads it; false: not what it may be.
struct ParameterRow {
    std::string_view name;
    bool is_required;
    bool (*read)(json::Node const& node, CallParameters& parameters);
};

/// Who may call a method. The agent faces the network, so it may look, and have done what cannot hurt: nothing that
/// starts, stops or replaces a program. What it is there to tell, nobody else may.
enum class Callers : std::uint8_t { everyone, persons, agents };

constexpr bool may_call(Callers callers, ControlRole role) {
    return callers == Callers::everyone || (callers == Callers::agents) == (role == ControlRole::agent);
}

struct MethodRow {
    ControlMethod method;
    std::string_view interface;
    std::string_view name;
    std::span<ParameterRow const> parameters;
    Callers callers;
    bool needs_more = false;
};

/// In the order of the enum: also the table of who may call what.
std::span<MethodRow const> control_methods();

/// nullptr: there is none.
MethodRow const* find_method(std::string_view interface, std::string_view name);

/// Errors: the name of the parameter that is missing, unknown or not what it may be.
std::expected<CallParameters, std::string> read_parameters(MethodRow const& method, json::Object const& object);

}  // namespace triton::launcher

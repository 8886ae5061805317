#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/control/control_backend.h"
#include "lib/varlink/method_table.h"

namespace triton::launcher {

inline constexpr std::string_view launcher_interface = "org.tritonlaunch.Launcher";

/// The full name of an error or method of that interface.
std::string launcher_name(std::string_view name);

/// The text of its description, from the file beside this one.
std::string_view interface_description();

class ControlMethods;

enum class WaitCondition : std::uint8_t { ready, up, down, done };

/// The parameters of all methods together.
struct CallParameters {
    std::optional<std::string> program;
    std::optional<std::uint32_t> process;  ///< from 1
    std::string path;
    WaitCondition condition = WaitCondition::ready;
    int signo = 0;
    std::uint32_t lines = 10;
    std::optional<std::uint64_t> after;  ///< sequence of a line
    bool waits = false;
    bool is_alone = false;
    bool has_history = false;
    bool follows = false;
    bool is_read_only = false;
    bool is_live = false;  ///< Subscribe: without kept events
    StagingKind what = StagingKind::all;
    std::uint64_t id = 0;
    bool is_ok = false;
    std::string detail;
    PodState pod;
    ReporterStatus reporter;
};

inline constexpr std::int64_t most_log_lines = 10'000;  ///< that one call of Logs may ask for

/// Bounds of the agent's reports.
inline constexpr std::size_t most_variables = 1000;
inline constexpr std::size_t most_variable_bytes = 64 * 1024;  ///< names and values together
inline constexpr std::size_t most_detail_bytes = 1024;         ///< longer text is cut off

using ParameterRow = varlink::Parameter<CallParameters>;
using MethodRow = varlink::Method<ControlMethods, CallParameters>;

/// The methods of the interface, in the order of its description, and who may call them.
std::span<MethodRow const> control_methods();

}  // namespace triton::launcher

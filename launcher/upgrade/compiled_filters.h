#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/program_plan.h"
#include "launcher/upgrade/upgrade_state.h"
#include "lib/process/seccomp.h"

namespace triton::launcher {

// A new version is asked by `upgrade-check`, in a process of its own, which compiles the filters of the configuration.
// It leaves them in a memory file, and finds them there once it is executed as the launcher: a filter takes
// milliseconds to compile, during which nothing else would be done. Nobody but the version that has written it reads
// the file.

/// What decides what filters become, beside their settings: the file that we are, as it is now, and the library.
/// nullopt: unknown, without /proc.
std::optional<std::string> own_compiler();

/// 64 of the longest filters, and the names in a document.
constexpr std::size_t longest_compiled_filters = 4 << 20;

/// The filters of these plans, each once. `compiler`: see own_compiler().
std::string write_compiled_filters(std::span<std::shared_ptr<ProgramPlan const> const> programs,
                                   std::string_view compiler);
/// The same filters. As long as they live, equal ones are not compiled. None if another compiler has made them, or the
/// text is something else.
std::vector<process::SeccompFilter> read_compiled_filters(std::string_view text, std::string_view compiler);

/// Under this name the check finds the descriptor of the memory file in its environment.
inline constexpr char const* filters_variable = "TRITON_LAUNCH_FILTERS_FD";
/// Leaves the text in the memory file that the environment names, if there is one, unless it is too long.
void leave_compiled_filters(std::string_view text);
/// What this version's check has left, and closes the file. None if there is nothing, or nothing that can be used.
std::vector<process::SeccompFilter> take_compiled_filters(UpgradeState& state);

}  // namespace triton::launcher

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/process/start_plan.h"

namespace triton::launcher {

/// A plan for a program of our own family with these arguments, in this environment. `path` empty: for ourselves.
/// Errors: "cannot make a command: ..".
Result<std::shared_ptr<process::StartPlan const>> own_program(char const* const* environment,
                                                              std::vector<std::string> const& words,
                                                              std::string path = {});

}  // namespace triton::launcher

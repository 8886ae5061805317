#pragma once

#include <expected>

#include "config/program.h"
#include "lib/json/problem.h"
#include "lib/json/where.h"
#include "lib/process/attributes.h"
#include "lib/process/start_trial.h"

namespace triton::launcher {

/// process::resolve_attributes() of a program, with what its sockets, watchdog and readiness add. `at` is the program's
/// place in the document, `memory` what was prepared for the other programs of the same load.
/// Errors: all of them; besides those of its settings "programs.web.readiness.fd: 3 is taken by the sockets, which are
/// 3 to 4".
std::expected<process::Attributes, json::Problems> resolve_attributes(config::Program const& program,
                                                                      json::Where const& at,
                                                                      process::MachineCheck check,
                                                                      process::LoadMemory& memory,
                                                                      process::AccountFiles const& files = {});

/// The same for a program alone.
std::expected<process::Attributes, json::Problems> resolve_attributes(
    config::Program const& program, json::Where const& at,
    process::MachineCheck check = process::MachineCheck::required);

}  // namespace triton::launcher

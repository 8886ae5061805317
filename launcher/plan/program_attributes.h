#pragma once

#include <expected>

#include "config/program.h"
#include "lib/json/problem.h"
#include "lib/json/where.h"
#include "lib/process/attributes.h"

namespace triton::launcher {

/// process::resolve_attributes() of a program, with what its sockets, watchdog and readiness add. `at` is the program's
/// place in the document.
/// Errors: all of them; besides those of its settings "programs.web.readiness.fd: 3 is taken by the sockets, which are
/// 3 to 4".
std::expected<process::Attributes, json::Problems> resolve_attributes(
    config::Program const& program, json::Where const& at,
    process::MachineCheck check = process::MachineCheck::required, process::AccountFiles const& files = {});

}  // namespace triton::launcher

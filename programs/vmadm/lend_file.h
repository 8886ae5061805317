#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/result.h"

namespace triton::program {

/// Shows a file of the host to a machine that runs, read-only, at a path of its own, which is made when it is missing.
/// Whatever the machine has done to that path, nothing changes outside of its own mount namespace.
///
/// `name`: the machine's, for messages. `is_current`: asked once the leader is held by a descriptor, whether that
/// number still means the machine's PID 1. Errors: "lend <path> to VM <name> at <inside>": those of setns(2) and
/// move_mount(2).
Result<> lend_file(std::string const& name, std::int64_t leader, std::string const& path, std::string const& inside,
                   std::function<bool()> const& is_current);

}  // namespace triton::program

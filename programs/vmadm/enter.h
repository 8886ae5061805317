#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace triton::program {

/// Runs a program in the namespaces, the root directory, the control groups and with the capabilities of a machine, as
/// its root, without the keys of our session, and waits for its end. Returns its exit code; 128 and the signal when it
/// was killed. `programs`: of these the first that is there. `has_escape`: whether Ctrl-] leaves it to itself, which is
/// success.
///
/// A machine is not trusted with a terminal of the host: in place of each of the three standard files that is one, the
/// program gets one of its own, and bytes go between both. Those that are something else go in as they are, so that
/// output in a file or a pipe is unchanged.
///
/// What systemd-nspawn denies PID 1 by a filter of system calls is not denied to this program; the machine's namespaces
/// and capabilities hold.
///
/// `name`: the machine's, for messages. `is_current`: asked once the leader is held by a descriptor, whether that
/// number still means the machine's PID 1. Errors: those of the system calls; `not_found` when the leader has ended;
/// `invalid` when there is no such program.
Result<int> run_inside(std::string const& name, std::int64_t leader,
                       std::vector<std::vector<std::string>> const& programs, bool has_escape,
                       std::function<bool()> const& is_current);

}  // namespace triton::program

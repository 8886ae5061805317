#pragma once

#include <string_view>

#include "host/role/process.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::content {

/// Waits for a packet of a role, up to the deadline. `cancel`: a descriptor that becomes readable when we are to give
/// up; -1: none.
/// Errors: `refused`: "cancelled"; those of Channel::receive(). A role that has ended is reaped, and one that breaks
/// the rules is killed; the error tells how it ended.
Result<role::Packet> receive_from(role::RoleProcess& process, TimePoint deadline, int cancel,
                                  std::size_t expected_descriptors = 0);

/// Waits until a packet of a role, or its end, can be received. Returns false when the deadline comes first. `cancel`:
/// as of receive_from(). Errors: `refused`: "cancelled".
Result<bool> wait_for_message(role::RoleProcess& process, TimePoint deadline, int cancel);

/// Kills a role whose message cannot be true. Returns the error: `corrupt`: "triton-verify lies: ...".
std::unexpected<Error> distrust(role::RoleProcess& process, std::string_view why);

/// The deadline for the end of a role that has finished.
TimePoint end_deadline();

}  // namespace triton::content

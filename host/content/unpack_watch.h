#pragma once

#include "host/role/process.h"
#include "host/role/unpack_messages.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::content {

/// Watches an unpacker that is not trusted to end by itself: it may hang, run for longer than it was told, or fill the
/// disk although it was told what stays free.
class UnpackWatch {
public:
    /// `target`: what it fills, borrowed.
    UnpackWatch(int target, role::UnpackLimits const& limits);

    /// Waits for a message. Errors: `refused`: "cancelled"; `timeout`; `exhausted` when the disk is nearly full.
    Result<> wait(role::RoleProcess& process, int cancel);
    /// An unpacker that keeps to its limits reports the lack of room itself, and earlier. Errors: `exhausted`.
    [[nodiscard]] Result<> check_room() const;

private:
    int target_;
    role::UnpackLimits limits_;
    TimePoint deadline_;
};

}  // namespace triton::content

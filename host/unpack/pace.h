#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "host/role/unpack_messages.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::unpack {

/// What every long loop of an unpacker does in between: it reports that the work goes on, ends it at its deadline, and
/// leaves the free space of the file system that others need.
class Pace {
public:
    /// `root` is a descriptor on the file system that is filled; borrowed.
    Pace(int root, role::UnpackLimits const& limits);

    /// Sets what is called ten times a second while the work goes on.
    void set_report(std::function<void()> report) { report_ = std::move(report); }

    /// To be called in each round of a loop over what an archive or a tree has. `written`: bytes since the last call.
    /// Errors: `refused`: "archive takes longer than 60 seconds"; `exhausted` for a lack of room.
    Result<> step(std::uint64_t written = 0);
    /// The same, for a caller that cannot end here: the next step() does.
    void note_life();

private:
    [[nodiscard]] Result<> check_room();

    int root_;
    role::UnpackLimits limits_;
    std::function<void()> report_;
    TimePoint deadline_;
    TimePoint next_report_;
    std::uint64_t written_ = 0;  // since the last look at the room
    unsigned steps_;             // likewise; the first step looks
};

}  // namespace triton::unpack

#pragma once

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::netlink {

/// Tells that links of the network namespace have changed since it was opened. To wait for a link, open it,
/// looks, and waits as long as he has not seen what he wants: nothing is missed.
class LinkWatch {
public:
    static Result<LinkWatch> open();
    /// Waits for a change. Returns whether there was one before the deadline.
    Result<bool> wait(TimePoint deadline);

private:
    explicit LinkWatch(UniqueFd socket) : socket_(std::move(socket)) {}
    UniqueFd socket_;
};

}  // namespace triton::netlink

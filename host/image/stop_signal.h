#pragma once

#include <cerrno>
#include <cstdint>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::image {

/// A descriptor that is readable when the user wants to stop, or when a part of the work has failed.
class StopSignal {
public:
    static Result<StopSignal> make(int user) {
        UniqueFd own(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        UniqueFd both(::epoll_create1(EPOLL_CLOEXEC));
        if (!own || !both) return fail(errno, "make a signal to stop");
        for (int const fd : {own.get(), user}) {
            epoll_event event{.events = EPOLLIN, .data = {}};
            if (fd >= 0 && ::epoll_ctl(both.get(), EPOLL_CTL_ADD, fd, &event) < 0)
                return fail(errno, "make a signal to stop");
        }
        return StopSignal(std::move(own), std::move(both));
    }
    [[nodiscard]] int fd() const { return both_.get(); }
    void raise() const {
        std::uint64_t const one = 1;
        (void)!::write(own_.get(), &one, sizeof one);  // if it is full, it is raised already
    }

private:
    StopSignal(UniqueFd own, UniqueFd both) : own_(std::move(own)), both_(std::move(both)) {}
    UniqueFd own_;
    UniqueFd both_;
};

}  // namespace triton::image

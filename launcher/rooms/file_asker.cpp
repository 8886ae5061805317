#include "launcher/rooms/file_asker.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"

namespace triton::launcher {

namespace {

/// Reads up to the end; nullopt: it did not come in time.
std::optional<std::string> read_until(int fd, TimePoint deadline) {
    std::string text;
    std::array<char, 4096> some;
    for (;;) {
        auto const left = std::chrono::ceil<milliseconds>(deadline - steady_now());
        pollfd waits{fd, POLLIN, 0};
        int const count = left.count() > 0 ? ::poll(&waits, 1, static_cast<int>(left.count())) : 0;
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return std::nullopt;
        ssize_t const size = ::read(fd, some.data(), some.size());
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return text;
        text.append(some.data(), static_cast<std::size_t>(size));
    }
}

}  // namespace

std::optional<std::string> FileAsker::ask(std::function<std::string()> const& work) {
    TimePoint const now = steady_now();
    if (now < recovers_at_) return std::nullopt;
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return work();
    UniqueFd const ours{ends[0]};
    UniqueFd theirs{ends[1]};
    auto const pid = children_.start_unheard_copy(theirs.get(), [&] {
        if (!write_all(theirs.get(), work())) throw std::runtime_error("nobody reads it");
    });
    if (!pid) return work();
    theirs = {};
    auto answer = read_until(ours.get(), now + time_to_answer);
    if (answer) return answer;
    (void)sys_.signal(-*pid, SIGKILL);
    recovers_at_ = steady_now() + time_to_recover;
    return std::nullopt;
}

}  // namespace triton::launcher

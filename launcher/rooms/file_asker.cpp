#include "launcher/rooms/file_asker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "lib/base/far_files.h"
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

struct Asked {
    std::optional<std::string> answer;
    pid_t held = 0;  // the helper that was killed for not answering
};

/// Where no helper can be started the work is done here, as there is no other way.
Asked ask_helper(Sys& sys, Children& children, milliseconds time, std::function<std::string()> const& work) {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {work()};
    UniqueFd const ours{ends[0]};
    UniqueFd theirs{ends[1]};
    auto const pid = children.start_unheard_copy(theirs.get(), [&] {
        if (!write_all(theirs.get(), work())) throw std::runtime_error("nobody reads it");
    });
    if (!pid) return {work()};
    theirs = {};
    auto answer = read_until(ours.get(), steady_now() + time);
    if (answer) return {std::move(answer)};
    (void)sys.signal(-*pid, SIGKILL);
    return {std::nullopt, *pid};
}

}  // namespace

std::optional<std::string> FileAsker::ask(std::function<std::string()> const& work) {
    if (steady_now() < recovers_at_) return std::nullopt;
    std::erase_if(held_, [this](pid_t pid) { return !children_.is_companion(pid); });
    if (held_.size() >= most_held) {
        recovers_at_ = steady_now() + time_to_recover;
        return std::nullopt;
    }
    held_.reserve(held_.size() + 1);
    Asked asked = ask_helper(sys_, children_, time_to_answer, work);
    if (asked.answer) return std::move(asked.answer);
    held_.push_back(asked.held);
    recovers_at_ = steady_now() + time_to_recover;
    return std::nullopt;
}

bool PathProbe::is_answered(std::string const& path, std::function<void()> const& work) {
    TimePoint const now = steady_now();
    std::erase_if(held_, [this](Held const& one) { return !children_.is_companion(one.helper); });
    auto const is_of_path = [&](Held const& one) { return one.path == path && now < one.until; };
    if (now < rests_until_ || held_.size() >= FileAsker::most_held || std::ranges::any_of(held_, is_of_path))
        return false;
    Held held{path, 0, now + time_to_recover};
    held_.reserve(held_.size() + 1);
    Asked const asked = ask_helper(sys_, children_, FileAsker::time_to_answer, [&work] {
        work();
        return std::string();
    });
    if (asked.answer) return true;
    held.helper = asked.held;
    held_.push_back(std::move(held));
    rests_until_ = steady_now() + rest_;
    return false;
}

bool PathProbe::may_touch(std::string const& path, std::function<void()> const& look) {
    return !may_any_file_hang() || is_answered(path, look);
}

void PathProbe::change(std::string const& path, std::function<void()> const& change) {
    may_any_file_hang() ? (void)is_answered(path, change) : change();
}

}  // namespace triton::launcher

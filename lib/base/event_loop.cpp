#include "lib/base/event_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <span>
#include <vector>

#include <sys/epoll.h>

namespace triton {

namespace {

/// A registration has a serial number of its own: when a callback drops a Watch and another opens the same descriptor
/// number within one round, events of the old registration are still in flight and must not reach the new one.
struct Registration {
    std::uint32_t serial = 0;
    std::shared_ptr<std::function<void()>> call;  // null: the descriptor is not watched
};

std::uint64_t pack(int fd, std::uint32_t serial) {
    return (static_cast<std::uint64_t>(serial) << 32) | static_cast<std::uint32_t>(fd);
}

}  // namespace

struct EventLoop::State {
    std::vector<Registration> registrations;  // by descriptor: the kernel gives out the lowest free number
    std::uint32_t last_serial = 0;

    Registration* find(int fd) {
        auto const at = static_cast<std::size_t>(fd);
        return at < registrations.size() && registrations[at].call ? &registrations[at] : nullptr;
    }
};

EventLoop::Watch::Watch(Watch&& other) noexcept
    : loop_(std::exchange(other.loop_, nullptr)), fd_(std::exchange(other.fd_, -1)) {}

EventLoop::Watch& EventLoop::Watch::operator=(Watch other) noexcept {
    std::swap(loop_, other.loop_);
    std::swap(fd_, other.fd_);
    return *this;
}

EventLoop::Watch::~Watch() {
    if (loop_) loop_->remove(fd_);
}

EventLoop::EventLoop(UniqueFd epoll)
    : epoll_(std::move(epoll)), state_(std::make_unique<State>()), now_(std::chrono::steady_clock::now()) {}

EventLoop::~EventLoop() = default;

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
    UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
    int const err = errno;
    if (!epoll) return fail(err, "create an epoll instance");
    return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll)));
}

Result<EventLoop::Watch> EventLoop::add(int fd, std::uint32_t events, std::function<void()> call) {
    auto const at = static_cast<std::size_t>(std::max(fd, 0));
    if (state_->registrations.size() <= at) state_->registrations.resize(at + 1);
    std::uint32_t const serial = ++state_->last_serial;
    epoll_event event{};
    event.events = events;
    event.data.u64 = pack(fd, serial);
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        int const err = errno;
        return fail(err, "watch descriptor " + std::to_string(fd));
    }
    state_->registrations[at] = {serial, std::make_shared<std::function<void()>>(std::move(call))};
    return Watch{this, fd};
}

Result<EventLoop::Watch> EventLoop::on_readable(int fd, std::function<void()> call) {
    return add(fd, EPOLLIN, std::move(call));
}

Result<EventLoop::Watch> EventLoop::on_writable(int fd, std::function<void()> call) {
    return add(fd, EPOLLOUT, std::move(call));
}

void EventLoop::remove(int fd) {
    // The descriptor may have been closed already; then the kernel has forgotten it, which is what we want.
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    state_->registrations[static_cast<std::size_t>(fd)] = {};
}

void EventLoop::set_deadline(std::function<std::optional<TimePoint>()> next, std::function<void()> passed) {
    next_deadline_ = std::move(next);
    deadline_passed_ = std::move(passed);
}

Result<> EventLoop::wait_and_dispatch() {
    std::optional<TimePoint> const deadline = next_deadline_ ? next_deadline_() : std::nullopt;
    // epoll_wait, not epoll_pwait2: seccomp profiles of older container runtimes refuse the latter. Rounded up, so that
    // the deadline has passed when we wake.
    int timeout = -1;
    if (deadline) {
        auto const left = std::chrono::ceil<milliseconds>(*deadline - std::chrono::steady_clock::now());
        timeout = static_cast<int>(std::clamp<milliseconds::rep>(left.count(), 0, std::numeric_limits<int>::max()));
    }
    std::array<epoll_event, 16> events;
    int const count = ::epoll_wait(epoll_.get(), events.data(), events.size(), timeout);
    int const err = errno;
    if (count < 0 && err != EINTR) return fail(err, "wait for events");
    now_ = std::chrono::steady_clock::now();
    for (epoll_event const& event : std::span(events.data(), static_cast<std::size_t>(std::max(count, 0)))) {
        auto const fd = static_cast<int>(event.data.u64 & 0xffffffffU);
        auto const serial = static_cast<std::uint32_t>(event.data.u64 >> 32);
        Registration const* const registration = state_->find(fd);
        if (!registration || registration->serial != serial) continue;
        auto const call = registration->call;  // kept alive: the callback may drop its own Watch
        (*call)();
    }
    bool const has_passed = deadline && now_ >= *deadline;
    if (has_passed) deadline_passed_();
    if (round_ended_ && (has_passed || count > 0)) round_ended_();
    return {};
}

Result<> EventLoop::run() {
    running_ = true;
    while (running_)
        TRY(wait_and_dispatch());
    return {};
}

}  // namespace triton

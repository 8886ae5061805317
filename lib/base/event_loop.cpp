#include "lib/base/event_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <span>
#include <utility>
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
    std::size_t watches = 0;
    std::size_t full_batches = 0;  // one after the other, without a look at the timers
    // Not sorted: a program has a dozen timers, and looking at each costs less than the wait. There is room for all
    // that exist, so that arming one allocates nothing.
    std::vector<Timer*> armed;
    std::size_t timers = 0;
    std::uint64_t round = 1;
    bool is_calling_timers = false;
    Timer* called = nullptr;  // the one being called; null: none, or it was dropped

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
    ++state_->watches;
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
    --state_->watches;
}

EventLoop::Timer::Timer(EventLoop& loop, std::function<void()> call)
    : loop_(loop), call_(std::make_shared<std::function<void()>>(std::move(call))) {
    State& state = *loop_.state_;
    std::size_t const needed = state.timers + 1;
    if (state.armed.capacity() < needed) state.armed.reserve(2 * needed);
    state.timers = needed;
}

EventLoop::Timer::~Timer() {
    disarm();
    if (loop_.state_->called == this) loop_.state_->called = nullptr;
    --loop_.state_->timers;
}

void EventLoop::Timer::arm(TimePoint when) {
    State& state = *loop_.state_;
    when_ = when;
    armed_in_ = state.is_calling_timers ? state.round : 0;
    if (is_armed()) return;
    place_ = state.armed.size();
    state.armed.push_back(this);
}

void EventLoop::Timer::disarm() {
    if (!is_armed()) return;
    std::vector<Timer*>& armed = loop_.state_->armed;
    Timer* const last = armed.back();
    armed[place_] = last;
    last->place_ = place_;
    armed.pop_back();
    place_ = nowhere;
}

/// The timer that is due first; null: none is armed.
EventLoop::Timer* EventLoop::earliest() const {
    auto const found = std::ranges::min_element(state_->armed, {}, &Timer::when_);
    return found == state_->armed.end() ? nullptr : *found;
}

/// Milliseconds to wait, rounded up so that the timer's time has passed when we wake. -1: only descriptors can wake us.
int EventLoop::timeout() const {
    Timer const* const next = earliest();
    if (!next) return -1;
    TimePoint const now = std::chrono::steady_clock::now();
    if (next->when_ <= now) return 0;  // a difference to a time in the far past would overflow
    auto const left = std::chrono::ceil<milliseconds>(next->when_ - now);
    return static_cast<int>(std::min<milliseconds::rep>(left.count(), std::numeric_limits<int>::max()));
}

void EventLoop::call(Timer& timer) {
    auto const call = timer.call_;  // kept alive: the callback may drop its own Timer
    TimePoint const when = timer.when_;
    timer.disarm();
    state_->called = &timer;
    try {
        (*call)();
    } catch (...) {
        if (state_->called && !timer.is_armed()) timer.arm(when);
        throw;
    }
}

/// A timer that was armed by a timer's callback waits for the next round: so a round ends, whatever they arm. One that
/// a descriptor's callback has armed does not wait, or a timer that each event arms anew would never be called.
bool EventLoop::call_timers() {
    struct Guard {
        bool& flag;
        ~Guard() { flag = false; }
    } const guard{state_->is_calling_timers};
    state_->is_calling_timers = true;
    bool has_called = false;
    for (;;) {
        Timer* due = nullptr;
        for (Timer* const timer : state_->armed) {
            bool const is_due = timer->when_ <= now_ && timer->armed_in_ != state_->round;
            if (is_due && (!due || timer->when_ < due->when_)) due = timer;
        }
        if (!due) return has_called;
        has_called = true;
        call(*due);
    }
}

/// Whether more may be ready than this batch had. What was said in time counts, however late we come to hear it: timers
/// wait until each descriptor has had its turn, which epoll gives one after the other. They do not wait for
/// descriptors that are always ready.
bool EventLoop::has_yet_to_hear(std::size_t count, std::size_t most) {
    bool const may_be_more = count == most && state_->full_batches < state_->watches / most;
    state_->full_batches = may_be_more ? state_->full_batches + 1 : 0;
    return may_be_more;
}

Result<> EventLoop::wait_and_dispatch() {
    // epoll_wait, not epoll_pwait2: seccomp profiles of older container runtimes refuse the latter.
    std::array<epoll_event, 16> events;
    int const count = ::epoll_wait(epoll_.get(), events.data(), events.size(), timeout());
    int const err = errno;
    if (count < 0 && err == EINTR) return {};  // continued after a stop: nothing is heard yet
    if (count < 0) return fail(err, "wait for events");
    now_ = std::chrono::steady_clock::now();
    ++state_->round;
    for (epoll_event const& event : std::span(events.data(), static_cast<std::size_t>(count))) {
        auto const fd = static_cast<int>(event.data.u64 & 0xffffffffU);
        auto const serial = static_cast<std::uint32_t>(event.data.u64 >> 32);
        Registration const* const registration = state_->find(fd);
        if (!registration || registration->serial != serial) continue;
        auto const call = registration->call;  // kept alive: the callback may drop its own Watch
        (*call)();
    }
    bool const has_called = !has_yet_to_hear(static_cast<std::size_t>(count), events.size()) && call_timers();
    if (round_ended_ && (has_called || count > 0)) round_ended_();
    return {};
}

Result<> EventLoop::run() {
    running_ = true;
    while (running_)
        TRY(wait_and_dispatch());
    return {};
}

}  // namespace triton

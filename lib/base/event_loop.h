#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton {

/// One thread's event loop: epoll for descriptors, timers for time. Callbacks never block.
///
/// A round is one wait, then the callbacks of all descriptors that are ready, then those of all timers that are due,
/// then the end of the round. It has one time: `now()` is read once after the wait. Without an armed timer the loop
/// sleeps without a timeout.
class EventLoop {
public:
    /// A registration: the callback is called while this lives. Dropping it unregisters, from inside any callback too.
    class Watch {
    public:
        Watch() = default;
        Watch(Watch&& other) noexcept;
        Watch& operator=(Watch other) noexcept;
        ~Watch();
        explicit operator bool() const { return loop_ != nullptr; }

    private:
        friend class EventLoop;
        Watch(EventLoop* loop, int fd) : loop_(loop), fd_(fd) {}
        EventLoop* loop_ = nullptr;
        int fd_ = -1;
    };

    /// A point in time and what is called then, once for each arm(), in the first round that ends its wait at or after
    /// that time, and after whatever was ready until then. Whoever sets a deadline owns its Timer. Dropping it
    /// unregisters, from inside any callback too.
    ///
    /// arm() neither allocates nor calls the kernel: all timers share the timeout of the one wait. Those that are due
    /// in one round are called in the order of their times. What a timer's callback arms, its own timer included, is
    /// called in a later round, however long its time has passed. A callback that throws leaves its timer armed as it
    /// was.
    class Timer {
    public:
        /// `loop` outlives this.
        Timer(EventLoop& loop, std::function<void()> call);
        Timer(Timer const&) = delete;
        Timer& operator=(Timer const&) = delete;
        ~Timer();

        void arm(TimePoint when);
        /// nullopt: never.
        void arm(std::optional<TimePoint> when) { when ? arm(*when) : disarm(); }
        void disarm();
        [[nodiscard]] bool is_armed() const { return place_ != nowhere; }
        /// nullopt: it is not armed.
        [[nodiscard]] std::optional<TimePoint> when() const { return is_armed() ? std::optional(when_) : std::nullopt; }

    private:
        friend class EventLoop;
        static constexpr std::size_t nowhere = SIZE_MAX;
        EventLoop& loop_;
        std::shared_ptr<std::function<void()>> call_;
        TimePoint when_{};
        std::uint64_t armed_in_ = 0;   // the round in which a timer's callback has armed it; 0: something else has
        std::size_t place_ = nowhere;  // among the armed ones
    };

    /// Errors: those of epoll_create1(2).
    static Result<std::unique_ptr<EventLoop>> create();
    EventLoop(EventLoop const&) = delete;
    EventLoop& operator=(EventLoop const&) = delete;
    ~EventLoop();

    /// Calls `call` in each round in which `fd` (borrowed, must outlive the Watch) is readable.
    /// Errors: those of epoll_ctl(2); EEXIST when the descriptor is watched already.
    Result<Watch> on_readable(int fd, std::function<void()> call);
    /// The same for writability.
    Result<Watch> on_writable(int fd, std::function<void()> call);

    /// `call` is called after the callbacks of each round in which there were any.
    void set_round_end(std::function<void()> call) { round_ended_ = std::move(call); }

    /// The time of this round.
    [[nodiscard]] TimePoint now() const { return now_; }

    /// Runs rounds until `stop()`. Errors: those of epoll_wait(2) that are not EINTR.
    Result<> run();
    void stop() { running_ = false; }

private:
    struct State;
    explicit EventLoop(UniqueFd epoll);
    Result<Watch> add(int fd, std::uint32_t events, std::function<void()> call);
    void remove(int fd);
    Result<> wait_and_dispatch();
    [[nodiscard]] bool has_yet_to_hear(std::size_t count, std::size_t most);
    [[nodiscard]] Timer* earliest() const;
    [[nodiscard]] int timeout() const;
    bool call_timers();
    void call(Timer& timer);

    UniqueFd epoll_;
    std::unique_ptr<State> state_;
    TimePoint now_;
    bool running_ = false;
    std::function<void()> round_ended_;
};

}  // namespace triton

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton {

/// One thread's event loop: epoll for descriptors, one deadline for time. Callbacks never block.
///
/// The loop asks for the deadline anew before each wait, so that its owner can derive it from state; without a
/// deadline it sleeps without a timeout. One round has one time: `now()` is read once after each wait.
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

    /// Where the next deadline comes from (nullopt: none) and what is called when it has passed.
    void set_deadline(std::function<std::optional<TimePoint>()> next, std::function<void()> passed);

    /// What is called after the callbacks of each round in which there were any: what they have left to tell.
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

    UniqueFd epoll_;
    std::unique_ptr<State> state_;
    std::function<std::optional<TimePoint>()> next_deadline_;
    std::function<void()> deadline_passed_;
    TimePoint now_;
    bool running_ = false;
    std::function<void()> round_ended_;
};

}  // namespace triton

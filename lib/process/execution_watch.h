#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/process/spawn.h"

namespace triton::process {

/// Tells when the children have executed their programs, without waiting for it, without a descriptor for
/// each of them, and without looking again and again.
///
/// The starts between two calls of end_round() are a round. Its children inherit the write end of one close-on-exec
/// pipe, which nothing else holds when the round has ended: the pipe's end of file means that all of them have executed
/// or died. The pipe of the next round is opened at the end of one, so that nobody who has died waits for it.
/// Starts::take_left() tells which. They are also looked at whenever something else wakes the loop, and, while a child
/// that is stuck before execve may hold up the news of others, after 1 ms, 2 ms and so on up to 100 ms.
class ExecutionWatch {
public:
    /// Called once for each watched child that has executed. A child that was killed before its execve by somebody else
    /// cannot be told from one that has executed: its end follows.
    using Executed = std::function<void(Pid)>;
    /// `loop` and `starts` outlive this.
    ExecutionWatch(EventLoop& loop, Starts& starts, Executed executed)
        : loop_(loop), starts_(starts), executed_(std::move(executed)) {}

    /// Starts::spawn(), watched. Errors: those of spawn().
    std::expected<Pid, SpawnError> spawn(std::shared_ptr<StartPlan const> const& plan, ProcessNumber number,
                                         StartFiles const& files = {});
    /// A child was reaped: it is no longer watched. To be called before its pid can be used again.
    void reaped(Pid pid);
    /// Reports all that have executed by now. May call back into this.
    void look();
    void end_round();
    /// Whether it looks again by itself after a while.
    [[nodiscard]] bool waits_for_time() const { return timer_.is_armed(); }

private:
    // Where more rounds than these have a child that is stuck, time tells of the next one.
    static constexpr std::uint32_t most_pipes = 16;
    static constexpr std::uint32_t without_pipe = most_pipes;

    struct Round {
        UniqueFd pipe;  // the read end; none: time tells
        EventLoop::Watch watch;
        std::uint32_t waiting = 0;  // watched children that have not left
        bool is_shared = false;     // with an unwatched child
    };

    std::uint32_t prepare_round();
    bool open_pipe(std::uint32_t round);
    void look(std::optional<std::uint32_t> ended_round);
    void left(std::uint32_t round);
    [[nodiscard]] bool needs_time() const;
    void set_timer();

    EventLoop& loop_;
    Starts& starts_;
    Executed executed_;
    std::array<Round, most_pipes + 1> rounds_;
    std::optional<std::uint32_t> round_;  // in which children are started now
    std::optional<std::uint32_t> next_;   // whose pipe is open already
    UniqueFd write_end_;                  // of the round, or else of the next
    std::uint64_t starts_before_ = 0;     // of all, when the round's pipe was opened
    std::uint32_t started_ = 0;           // watched ones, in this round
    std::uint32_t waiting_ = 0;           // of all rounds
    std::vector<Starts::Left> left_;      // to be reported; an exception in between loses none
    std::size_t next_left_ = 0;
    bool is_looking_ = false;
    Duration delay_{};
    EventLoop::Timer timer_{loop_, [this] {
                                look();
                                set_timer();
                            }};
};

}  // namespace triton::process

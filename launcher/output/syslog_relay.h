#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// How messages for a syslog daemon over a network reach the agent: a pair of message sockets (unix(7),
/// SOCK_SEQPACKET) and a pipe for its answers, of which it is handed one end each at each start. All ends stay open
/// here, over its restarts and over our upgrades, so what it has not read yet is read by its successor.
///
/// A message to it is "NUMBER ADDRESS TEXT", numbered from 1. Its answers are lines: "begin NUMBER" when it reads its
/// first one, "done COUNT LOST" for those that it is done with. What an agent has read and not answered when it dies is
/// lost, and the difference says how many those are. Through a pipe it cannot send us descriptors, whose closing might
/// take long.
class SyslogRelay {
public:
    /// `lost`: so many messages were lost with an agent, or by it.
    using Lost = std::function<void(std::uint64_t messages)>;
    SyslogRelay(EventLoop& loop, Lost lost);

    /// Makes them, once. Errors: those of socketpair(2), pipe2(2) and epoll_ctl(2).
    Result<> open();
    /// What the agent is handed, borrowed.
    [[nodiscard]] int messages() const { return theirs_.get(); }
    [[nodiscard]] int answers() const { return write_end_.get(); }

    /// Hands one message over. False: there is no room now, or no agent.
    bool send(std::string_view address, std::string_view message);
    /// Called when the agent has answered, so that there may be room.
    void when_room(std::function<void()> call) { on_room_ = std::move(call); }

    /// At our own end, after the agent's: what is not settled by its last answers is lost.
    void finish();

    /// For an upgrade; the descriptors stay owned here.
    struct State {
        int ours = -1;
        int theirs = -1;
        int read_end = -1;
        int write_end = -1;
        std::uint64_t sent = 0;
        std::uint64_t done = 0;

        bool operator==(State const&) const = default;
    };
    [[nodiscard]] State export_state() const {
        return {ours_.get(), theirs_.get(), read_end_.get(), write_end_.get(), sent_, done_};
    }
    /// Errors: those of epoll_ctl(2).
    Result<> adopt(State const& state);

private:
    bool take_answers();
    void take_answer(std::string_view answer);

    EventLoop& loop_;
    Lost lost_;
    UniqueFd ours_;
    UniqueFd theirs_;
    UniqueFd read_end_;
    UniqueFd write_end_;
    EventLoop::Watch watch_;
    std::function<void()> on_room_;
    std::string begun_;       // of an answer whose end has not come
    std::uint64_t sent_ = 0;  // the number of the last one
    std::uint64_t done_ = 0;  // how many of them are settled
};

}  // namespace triton::launcher

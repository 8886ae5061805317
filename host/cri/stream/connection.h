#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "host/cri/monitor/message.h"
#include "host/cri/stream/negotiation.h"
#include "host/cri/stream/session.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::stream {

/// A client: its request, then the session that its token is good for.
class Connection {
public:
    static constexpr Duration head_limit = std::chrono::seconds(10);
    static constexpr Duration idle_limit = std::chrono::hours(4);
    static constexpr Duration last_output_limit = std::chrono::seconds(30);
    static constexpr Duration linger_limit = std::chrono::seconds(2);

    /// Asks for what a token is good for; the answer comes to redeemed().
    using Redeem = std::function<void(Upgrade const&)>;
    Connection(EventLoop& loop, UniqueFd socket, Redeem redeem);

    void redeemed(monitor::Received received);

    /// It can be dropped.
    [[nodiscard]] bool is_done() const { return phase_ == Phase::done; }
    /// Nobody knows yet whether its token is good.
    [[nodiscard]] bool is_stranger() const { return phase_ == Phase::head || phase_ == Phase::redeeming; }
    /// Each few seconds.
    void check_limits();
    /// It gives way to another one.
    void drop() { finish(); }

private:
    enum class Phase : std::uint8_t { head, redeeming, session, last_output, lingering, done };

    void read();
    void receive(std::string_view bytes);
    void receive_head();
    void answer(std::string text);
    void begin(monitor::Received received);
    std::unique_ptr<Session> make_session(monitor::Received received);
    void pump();
    bool flush(std::string& output);
    void watch_input(bool is_wanted);
    void enter(Phase phase);
    void finish();
    [[nodiscard]] bool has_peer_gone() const;

    EventLoop& loop_;
    UniqueFd socket_;
    UniqueFd writer_;  // the same one, to be watched apart from it
    Redeem redeem_;
    Phase phase_ = Phase::head;
    TimePoint since_;   // of the phase
    TimePoint active_;  // when the client has last sent or taken something
    Upgrade upgrade_;
    std::string input_;   // the head, and what comes after it until there is a session
    std::string output_;  // before there is a session
    std::unique_ptr<Session> session_;
    bool is_pumping_ = false;
    EventLoop::Watch readable_;
    EventLoop::Watch writable_;
};

}  // namespace triton::cri::stream

#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "launcher/output/syslog_relay.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/far_files.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// The way to one syslog daemon, for all programs that write to it: to its Unix socket, or through the agent to one
/// over a network. It never waits; what cannot be sent now is kept here, in order, up to `capacity`.
///
/// A Unix socket is one for datagrams, or one for a stream where a newline ends each message, as for syslog(3). The
/// owner of its directory is not trusted: see Place. When the daemon is not there or goes, it is looked for at most
/// once in `pace`, and nothing that was not taken is lost.
class SyslogSender {
public:
    static constexpr std::size_t capacity = 256 * 1024;
    static constexpr Duration pace = std::chrono::seconds(1);

    /// `address`: see config::parse_syslog_address(). `on_room`: called from the loop after something that waited was
    /// sent. `may_touch`: asked before the path of a Unix socket is opened; empty: it may be. Both references outlive
    /// this.
    SyslogSender(EventLoop& loop, SyslogRelay& relay, std::string address, std::function<void()> on_room,
                 MayTouch may_touch = {});

    [[nodiscard]] bool has_room(std::size_t bytes) const { return pending() + bytes <= capacity; }
    /// Takes messages, each ended by a newline, and sends what can be sent.
    void write(std::string_view messages);
    /// Tries again, unless that was done a moment ago.
    void flush();
    /// The same, and waits for the daemon to take them, at most that long.
    void drain(milliseconds limit);
    /// Something waits that no descriptor will tell about: call flush() again after a moment.
    [[nodiscard]] bool needs_retry() const { return pending() > 0 && !watch_; }

    [[nodiscard]] std::size_t pending() const { return waiting_.size() - sent_; }
    /// What waits, to be given to write() of another instance.
    [[nodiscard]] std::string_view waiting() const { return std::string_view(waiting_).substr(sent_); }
    /// Why messages wait; code 0: all is well. It stays for some time after messages are taken again, so that a daemon
    /// that comes and goes is not told about each time.
    [[nodiscard]] Error const& error() const { return error_; }
    [[nodiscard]] std::string const& address() const { return address_; }
    /// The descriptor of a Unix socket; -1: there is none now.
    [[nodiscard]] int fd() const { return socket_.get(); }

private:
    enum class Sent : bool { taken, not_now };
    [[nodiscard]] bool is_local() const { return !path_.empty(); }
    bool connect();
    [[nodiscard]] Result<UniqueFd> open_socket(int type) const;
    Sent send(std::string_view message);
    Sent send_local(std::string_view message);
    void watch(int fd);
    void disconnect(Error why);

    EventLoop& loop_;
    SyslogRelay& relay_;
    std::string address_;
    std::string path_;  // empty: through the relay
    std::function<void()> on_room_;
    MayTouch may_touch_;
    UniqueFd socket_;
    bool is_stream_ = false;
    EventLoop::Watch watch_;
    std::string waiting_;        // whole messages
    std::size_t sent_ = 0;       // of waiting_: whole messages
    std::size_t part_sent_ = 0;  // of the first one that waits, to a stream
    TimePoint not_before_{};     // the next attempt
    TimePoint failed_{};
    Error error_;
};

}  // namespace triton::launcher

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>
#include <sys/un.h>

#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/process/quarantine.h"

namespace triton::launcher {

/// What one datagram of the notify protocol says. Unknown assignments and those for a service manager's own state
/// (MAINPID, FDSTORE, ERRNO ..) are passed over.
/// Source: sd_notify(3), "Well-known assignments".
struct Notification {
    bool is_ready = false;
    bool is_reloading = false;
    bool is_stopping = false;
    bool is_watchdog_ping = false;     ///< WATCHDOG=1
    bool is_watchdog_trigger = false;  ///< WATCHDOG=trigger: handle it as if the ping had stayed away
    std::optional<std::chrono::microseconds> extend_timeout = {};
    std::optional<std::string_view> status = {};  ///< borrowed from the datagram

    bool operator==(Notification const&) const = default;
};
Notification parse_notification(std::string_view datagram);

/// A process as the caller names it.
struct NotifyKey {
    std::uint32_t program = 0;
    std::uint32_t process = 1;
    auto operator<=>(NotifyKey const&) const = default;
};

/// The sender of a datagram as it was then, though the process may be gone by now.
struct NotifySender {
    pid_t pid = 0;  ///< 0: of another PID namespace
    uid_t user = 0;
};

/// What a NotifyReceiver of another version of us continues with. Descriptors are borrowed.
struct NotifyState {
    struct Socket {
        NotifyKey key;
        int fd = -1;
        std::string address;
    };
    struct Pipe {
        NotifyKey key;
        int fd = -1;
    };
    std::vector<Socket> sockets;
    std::vector<Pipe> pipes;
};

/// Hears of the readiness of processes: by a notify socket of their own (NOTIFY_SOCKET) or by a pipe (a newline).
///
/// A process that asks for neither costs nothing. Each has its own socket: messages through it are about it, and
/// it stays over restarts, unless another user or root directory needs another one. Its address is a path where there
/// is a private directory, else, and for programs with a root directory of their own, an abstract name that the kernel
/// chooses. The sender is checked for each datagram.
class NotifyReceiver {
public:
    struct Callbacks {
        /// Whether that process may speak for `key`. For notifyAccess "main" it is the process itself, for "all" one of
        /// its control group or process group.
        std::function<bool(NotifyKey key, NotifySender sender)> is_allowed;
        std::function<void(NotifyKey key, Notification const&)> notified;
        /// About the pipe: a newline has arrived (true), or it has ended without one (false).
        std::function<void(NotifyKey key, bool is_ready)> pipe_ready;
    };

    /// `directory`: where sockets are made; empty or unusable: abstract names. Its last two parts are made at the first
    /// socket, with the modes 0755 and 0711; one that others may write to is not used. `loop` and `quarantine`, where
    /// descriptors that come with messages go, outlive this.
    NotifyReceiver(EventLoop& loop, process::Quarantine& quarantine, std::string directory, Callbacks callbacks);
    ~NotifyReceiver();
    NotifyReceiver(NotifyReceiver const&) = delete;
    NotifyReceiver& operator=(NotifyReceiver const&) = delete;

    struct SocketSettings {
        bool has_own_root = false;  ///< the process would not find a path
        std::optional<uid_t> user = {};
        std::optional<gid_t> group = {};
    };
    /// The value of NOTIFY_SOCKET for a process that is to start, valid until the next call for that key. Opened at the
    /// first one, and anew when the process could not send to the socket that there is. Errors: those of socket(2) and
    /// bind(2).
    Result<char const*> open_socket(NotifyKey key, SocketSettings const& settings);
    /// A new pipe for one start: the end that the child gets; close it after the start. Replaces an earlier one.
    /// Errors: those of pipe2(2).
    Result<UniqueFd> open_pipe(NotifyKey key);

    /// Reads waiting messages of `key` before the process is forgotten, so that none is lost. Call when it was
    /// reaped, while is_allowed() still knows it; ends its pipe, without a callback for the end.
    void process_ended(NotifyKey key);
    /// The number is no longer wanted.
    void close(NotifyKey key);

    [[nodiscard]] NotifyState export_state() const;
    /// Errors: of epoll_ctl(2), the last one; what could not be watched is kept nevertheless, deaf.
    Result<> import_state(NotifyState state);

private:
    struct Socket {
        UniqueFd fd;
        std::string address;
        EventLoop::Watch watch;
        process::Quarantine::Ticket ticket;  // while the message at its front is with somebody else
    };
    struct Pipe {
        UniqueFd fd;
        EventLoop::Watch watch;
    };
    static Result<UniqueFd> make_socket();
    bool has_directory();
    static mode_t mode_of(SocketSettings const& settings);
    bool is_fit(Socket const& socket, SocketSettings const& settings);
    static bool is_abandoned(sockaddr_un const& address);
    bool bind_path(Socket& socket, NotifyKey key, SocketSettings const& settings);
    static Result<> bind_abstract(Socket& socket);
    Result<> watch_socket(NotifyKey key, Socket& socket);
    void read_socket(NotifyKey key, int most);
    void message_is_gone(NotifyKey key);
    void read_pipe(NotifyKey key);

    EventLoop& loop_;
    process::Quarantine& quarantine_;
    std::string directory_;
    std::optional<bool> has_directory_;  // nullopt: not checked yet
    Callbacks callbacks_;
    std::map<NotifyKey, Socket> sockets_;
    std::map<NotifyKey, Pipe> pipes_;
};

}  // namespace triton::launcher

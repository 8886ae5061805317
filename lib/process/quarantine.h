#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "lib/base/event_loop.h"
#include "lib/base/unique_fd.h"

namespace triton::process {

/// The data at the front of a Unix socket that was not taken yet.
struct Peeked {
    enum class State : std::uint8_t {
        nothing,  ///< later there may be something
        message,  ///< a datagram, or bytes of a stream; of a stream without bytes and descriptors: its end
        broken,   ///< the socket has an error, or is not a socket
    };
    State state = State::nothing;
    std::size_t size = 0;          ///< of what was copied
    bool is_cut = false;           ///< the datagram has more
    bool has_descriptors = false;  ///< with the datagram; of a stream with what was copied, or behind it
    pid_t pid = 0;                 ///< of the sender, with SO_PASSCRED; 0: of another PID namespace
    uid_t user = 0;
};

/// Copies what is at the front of a socket and leaves it there. Descriptors that lie with it stay in the kernel: what
/// is given up here is a second reference, so that nothing is closed. Of a stream it copies what comes before the next
/// descriptors, or those bytes with which they come. For sockets without SO_PASSCRED.
/// Source: recvmsg(2), MSG_PEEK and MSG_CTRUNC; unix(7), SCM_RIGHTS.
Peeked peek(int socket, std::span<char> into);

/// The same for a socket with SO_PASSCRED, and only for one: elsewhere it would get descriptors.
Peeked peek_with_sender(int socket, std::span<char> into);

/// Takes what peek() has just copied into `copied`, all of it. It must have had no descriptors.
void take(int socket, std::span<char> copied);

/// Asks the kernel to refuse messages with descriptors to this socket, and to those that it will accept. Older kernels
/// cannot do that (SO_PASSRIGHTS came with Linux 6.16), so peek() has to be used all the same.
void refuse_descriptors(int socket);

/// Keeps descriptors that others have sent away from this process.
///
/// To close the last reference to a file may take as long as its owner likes: a TCP socket with SO_LINGER, a file on
/// FUSE or NFS. Whoever drops a message drops its descriptors: by recv(2) without room for them, and by close(2) of a
/// socket in whose queue they lie. So a process that must not wait takes only what has none, and leaves the rest to a
/// child: a copy of this process that has given up its descriptors, capabilities and, by a filter, all system calls but
/// seven, and that ends within seconds whatever it closes.
///
/// To read from a socket that foreigners write to:
///
///     Peeked const front = peek(socket, buffer);
///     if (front.state != Peeked::State::message) return;
///     if (front.has_descriptors) {
///         watch = {};                                                // the front stays readable until it is gone
///         ticket = quarantine.discard(socket, [this] { .. watch again .. });
///     } else {
///         take(socket, buffer.first(front.size));
///     }
///     .. what was said is in `buffer` ..
///
/// A server of streams that expects no descriptors ends the connection instead: `quarantine.close(std::move(fd))`,
/// which is how it closes all its connections.
class Quarantine {
public:
    /// `loop` outlives this.
    explicit Quarantine(EventLoop& loop);
    ~Quarantine();
    Quarantine(Quarantine const&) = delete;
    Quarantine& operator=(Quarantine const&) = delete;

    /// An unanswered request. Dropping it cancels the call.
    class Ticket {
    public:
        Ticket() = default;
        Ticket(Ticket&& other) noexcept
            : quarantine_(std::exchange(other.quarantine_, nullptr)), id_(std::exchange(other.id_, 0)) {}
        Ticket& operator=(Ticket other) noexcept {
            std::swap(quarantine_, other.quarantine_);
            std::swap(id_, other.id_);
            return *this;
        }
        ~Ticket() {
            if (quarantine_) quarantine_->forget(id_);
        }
        explicit operator bool() const { return quarantine_ != nullptr; }

    private:
        friend class Quarantine;
        Ticket(Quarantine* quarantine, std::uint64_t id) : quarantine_(quarantine), id_(id) {}
        Quarantine* quarantine_ = nullptr;
        std::uint64_t id_ = 0;
    };

    /// Has the message at the front of `socket` taken and its descriptors closed. `taken` is called when it is gone,
    /// before anything is closed; until then nobody else may read from the socket. One message of a socket is dealt
    /// with at a time, so one that is slow to close holds up the next one of its own socket alone.
    [[nodiscard]] Ticket discard(int socket, std::function<void()> taken);

    /// The same, but `got` is called with the descriptor that came, when it was one and is a connected Unix stream
    /// socket, which is quick to close. Else it is called with none.
    [[nodiscard]] Ticket receive(int socket, std::function<void(UniqueFd)> got);

    /// Closes a Unix socket: at once if it is empty, otherwise elsewhere. No process can send to it from now on.
    void close(UniqueFd socket);

    /// How many sockets wait to be closed: what a server counts among its connections.
    [[nodiscard]] std::size_t waiting() const { return closing_.size(); }

    /// Whether nothing is under way.
    [[nodiscard]] bool is_idle() const { return helpers_.empty() && wishes_.empty() && closing_.empty(); }

private:
    enum class Kind : std::uint8_t { discard, receive, close };
    struct Wish {
        std::uint64_t id = 0;
        Kind kind = Kind::discard;
        int socket = -1;
        std::function<void(UniqueFd)> answered;
    };
    struct Helper {
        pid_t pid = 0;
        Wish wish;
        UniqueFd control;
        UniqueFd end;  // a pidfd; none before Linux 5.2
        EventLoop::Watch control_watch;
        EventLoop::Watch end_watch;
    };
    struct Job;
    Ticket add(Kind kind, int socket, std::function<void(UniqueFd)> answered);
    void forget(std::uint64_t id);
    void start_helpers();
    bool start_one();
    bool start(Wish& wish);
    [[nodiscard]] bool is_in_hand(int socket) const;
    [[noreturn]] static void be_helper(Job const& job);
    void answered(Helper& helper);
    void ended(Helper& helper);

    EventLoop& loop_;
    std::vector<Wish> wishes_;       // not begun yet
    std::vector<UniqueFd> closing_;  // likewise
    std::vector<std::unique_ptr<Helper>> helpers_;
    std::uint64_t last_id_ = 0;
    EventLoop::Timer retry_timer_;
};

}  // namespace triton::process

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::role {

/// The descriptor at which a role finds its channel.
inline constexpr int channel_descriptor = 3;

inline constexpr std::size_t most_message_bytes = 64 * 1024;
inline constexpr std::size_t most_descriptors = 16;  ///< in one message

/// The content of one packet: according to its sender a JSON object, and the descriptors with it (close-on-exec).
struct Packet {
    std::string text;
    std::vector<UniqueFd> descriptors;
};

/// One end of a connection between the library and a role: a socket of type SOCK_SEQPACKET, so each message is a
/// packet. Neither end trusts the other. A packet that is too long, empty, or has more descriptors than the receiver
/// expects is an error of kind `corrupt`. Its descriptors are closed, and afterwards the channel returns only that
/// error.
class Channel {
public:
    explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}

    /// Makes two connected ends. Errors: those of socketpair(2).
    static Result<std::pair<Channel, Channel>> pair();

    /// Waits until the peer has room, up to the deadline. The descriptors are borrowed; the peer gets copies.
    /// Errors: `invalid` for a message above the limits; `timeout`; `unavailable` once the peer has closed its end, and
    /// only then; those of sendmsg(2).
    Result<> send(std::string_view text, std::span<int const> descriptors, TimePoint deadline);

    /// Waits for one packet, up to the deadline. Errors: `timeout`; `unavailable` when the peer has closed its end,
    /// and only then; `corrupt` when a packet breaks the rules above; those of recvmsg(2).
    Result<Packet> receive(TimePoint deadline, std::size_t expected_descriptors = 0);

    /// For poll(2): readable when receive() would not wait. Borrowed.
    [[nodiscard]] int fd() const { return socket_.get(); }

    /// Closes this end now.
    void close() { socket_ = UniqueFd(); }

private:
    UniqueFd socket_;
    bool is_broken_ = false;
};

}  // namespace triton::role

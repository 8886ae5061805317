#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/varlink/codec.h"

namespace triton::varlink {

/// A client's end of a connection. It blocks.
class Connection {
public:
    enum class Silence : std::uint8_t {
        ended,     ///< the server has closed the connection, or sent something other than a reply
        timed_out  ///< the deadline has passed
    };

    /// Errors: those of connect(2): ENOENT, ECONNREFUSED without a listener, EACCES.
    /// `limit`: how long to wait for a place in the queue of a server that accepts none, and to send a call to it; at
    /// its end the error is of kind timeout.
    static Result<Connection> connect(std::string const& path, Duration limit);

    /// Sends a call; a missing reply shows that it was not taken. `method`: with its interface.
    void call(std::string_view method, std::string_view parameters, bool wants_more);
    /// The same, of a call after whose reply the connection is for another protocol.
    void call_for_upgrade(std::string_view method, std::string_view parameters);
    /// The next reply, by the deadline if there is one.
    std::expected<Reply, Silence> reply(std::optional<TimePoint> deadline);
    /// The socket, to continue without this class, and what has arrived behind the last reply.
    UniqueFd take() && { return std::move(fd_); }
    std::string take_received() { return std::move(input_); }

private:
    explicit Connection(UniqueFd fd) : fd_(std::move(fd)) {}

    void send(std::string_view text);

    UniqueFd fd_;
    std::string input_;
};

}  // namespace triton::varlink

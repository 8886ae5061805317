#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/control/varlink.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// The client's end of the control socket. It blocks.
class CtlConnection {
public:
    enum class Silence : std::uint8_t {
        ended,     ///< the launcher has closed the connection, or sent what is no reply
        timed_out  ///< the deadline has passed
    };

    /// Errors: those of connect(2): ENOENT, ECONNREFUSED when nobody listens there, EACCES.
    static Result<CtlConnection> connect(std::string const& path);

    /// Sends a call; that nobody takes it is seen by the lack of a reply. `method`: with its interface.
    void call(std::string_view method, std::string_view parameters, bool wants_more);
    /// The next reply, by the deadline if there is one.
    std::expected<VarlinkReply, Silence> reply(std::optional<TimePoint> deadline);

private:
    explicit CtlConnection(UniqueFd fd) : fd_(std::move(fd)) {}

    UniqueFd fd_;
    std::string input_;
};

}  // namespace triton::launcher

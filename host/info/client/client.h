#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::info {

/// Where vminfod listens, below the root directory.
inline constexpr std::string_view socket_path = "/run/triton/vminfod.socket";

/// How long an answer is waited for.
struct Patience {
    milliseconds start = std::chrono::seconds(2);   ///< until it begins
    milliseconds whole = std::chrono::seconds(20);  ///< until it is complete
};

/// How long an endless answer is waited for. vminfod sends a heartbeat each 15 s.
struct FollowLimits {
    std::size_t longest_line = 256 << 20;  ///< one with all machines is the longest
    milliseconds silence = std::chrono::seconds(60);
    std::optional<TimePoint> deadline = {};
    int reader = -1;  ///< borrowed: a pipe that the lines go to; without a reader, the following ends
};

/// A client of vminfod's Unix socket: blocking, one connection for each request, and not a byte is believed. It
/// starts nothing, so that a command that lives for a few milliseconds can afford it.
class Client {
public:
    /// `name`: whom vminfod shows as its listener: "vmadm/0.1.0 (backup)".
    Client(std::string socket, std::string_view name);

    /// Whether there is such a socket at all.
    [[nodiscard]] bool has_socket() const;

    /// The content of an answer of at most `limit` bytes.
    /// Errors: unavailable: there is no listener; denied; timeout; corrupt: what comes is not an answer. Of answers
    /// with other statuses than 200: not_found: there is no such VM; unsupported: vminfod does not know such a request;
    /// invalid, refused, busy: as it says.
    [[nodiscard]] Result<std::string> get(std::string const& target, std::size_t limit, Patience patience = {}) const;

    /// Hands on each line of an answer, without its line feed, until `take` returns false or its reader has gone.
    /// Errors: as get(); unavailable when the answer ends; timeout at the deadline, or after this long without data.
    using TakeLine = std::function<bool(std::string_view line)>;
    Result<> follow(std::string const& target, FollowLimits const& limits, TakeLine const& take) const;

private:
    [[nodiscard]] Result<UniqueFd> ask(std::string const& target, milliseconds patience) const;

    std::string socket_;
    std::string name_;
};

}  // namespace triton::info

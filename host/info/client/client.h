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

/// How long to wait for an answer.
struct Patience {
    milliseconds start = std::chrono::seconds(2);   ///< until it begins
    milliseconds whole = std::chrono::seconds(20);  ///< until it is complete
};

/// How long to wait for an endless answer. vminfod sends a heartbeat every 15 s.
struct FollowLimits {
    std::size_t longest_line = 256 << 20;  ///< the longest one has all machines
    milliseconds silence = std::chrono::seconds(60);
    std::optional<TimePoint> deadline = {};
    int reader = -1;  ///< borrowed: a pipe for the lines; when its reader has gone, following ends
};

/// A client of vminfod's Unix socket: blocking, one connection for each request, and it trusts nothing that it reads.
/// It starts nothing, so even a command that runs for a few milliseconds can use it.
class Client {
public:
    /// `name`: how vminfod lists us: "vmadm/0.1.0 (backup)".
    Client(std::string socket, std::string_view name);

    /// Whether the socket exists at all.
    [[nodiscard]] bool has_socket() const;

    /// The content of an answer of at most `limit` bytes.
    /// Errors: unavailable: nobody listens; denied; timeout; corrupt: what was received is not an answer. For answers
    /// with a status other than 200: not_found: there is no such VM; unsupported: vminfod does not know this request;
    /// invalid, refused, busy: as it says.
    [[nodiscard]] Result<std::string> get(std::string const& target, std::size_t limit, Patience patience = {}) const;

    /// Passes on each line of an answer, without its line feed, until `take` returns false or its reader has gone.
    /// Errors: as get(); unavailable when the answer ends; timeout at the deadline, or when no data comes for this
    /// long.
    using TakeLine = std::function<bool(std::string_view line)>;
    Result<> follow(std::string const& target, FollowLimits const& limits, TakeLine const& take) const;

private:
    [[nodiscard]] Result<UniqueFd> ask(std::string const& target, milliseconds patience) const;

    std::string socket_;
    std::string name_;
};

}  // namespace triton::info

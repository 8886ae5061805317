#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::stream {

// What is kept for one direction of one stream before its writer has to wait.
inline constexpr std::size_t most_pending = 256 * 1024;
inline constexpr Duration halves_limit = std::chrono::seconds(30);  // for all streams of a client to be there

/// What the client of a connection is connected with, after the upgrade.
class Session {
public:
    virtual ~Session() = default;
    virtual void start() = 0;
    virtual void receive(std::string_view bytes) = 0;
    /// What is to be sent to the client; its owner takes from the front.
    virtual std::string& output() = 0;
    /// Something takes no more of what the client sends: it is not to be read.
    [[nodiscard]] virtual bool is_blocked() const = 0;
    /// The client does not take what it is sent, or takes it again.
    virtual void hold_output(bool is_held) = 0;
    /// The connection is to end after output().
    [[nodiscard]] virtual bool is_over() const = 0;
    /// Each few seconds.
    virtual void check_limits() = 0;
};

/// What each session gets.
struct SessionParts {
    EventLoop& loop;
    UniqueFd socket;                ///< to the monitor of the pod
    std::function<void()> changed;  ///< there is output, or is_blocked() or is_over() has changed
};

}  // namespace triton::cri::stream

#pragma once

#include <string>
#include <string_view>

#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// Speaks the notify protocol (sd_notify(3), "Notes") to the owner of NOTIFY_SOCKET. libsystemd has no static library,
/// and the protocol is one datagram.
class Notifier {
public:
    /// `address`: the value of NOTIFY_SOCKET, a path or an abstract name with @; null or unusable: nothing is ever
    /// sent.
    explicit Notifier(char const* address);

    [[nodiscard]] bool is_on() const { return static_cast<bool>(socket_); }
    /// Sends "READY=1\nSTATUS=..." and the like. Never waits; a message that cannot be delivered is lost.
    void send(std::string_view state) const;

private:
    UniqueFd socket_;
};

}  // namespace triton::launcher

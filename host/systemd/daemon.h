#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::systemd {

/// Reports our state to the service manager: "READY=1". No effect if it has not started us. Source: sd_notify(3).
void notify(std::string const& text);

/// How often it wants to hear WATCHDOG=1; nullopt: it does not. Source: sd_watchdog_enabled(3).
std::optional<Duration> watchdog_limit();

/// A listening socket that was passed to us.
struct HandedSocket {
    UniqueFd fd;
    bool is_unix = false;  ///< a Unix socket; else one of the Internet
};

/// The sockets of our socket unit, once. Errors: `invalid` when one of them is not a listening stream socket. Source:
/// sd_listen_fds(3).
Result<std::vector<HandedSocket>> take_sockets();

}  // namespace triton::systemd

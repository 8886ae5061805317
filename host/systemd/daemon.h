#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::systemd {

/// Reports our state to the service manager: "READY=1". Does nothing if no manager has started us. Source:
/// sd_notify(3).
void notify(std::string const& text);

/// How often the manager wants WATCHDOG=1; nullopt: it does not. Source: sd_watchdog_enabled(3).
std::optional<Duration> watchdog_limit();

/// A listening socket that was passed to us.
struct HandedSocket {
    UniqueFd fd;
    bool is_unix = false;  ///< otherwise one of the Internet
};

/// Takes the sockets of our socket unit; to be called once. Errors: `invalid` when one of them is not a listening
/// stream socket. Source: sd_listen_fds(3).
Result<std::vector<HandedSocket>> take_sockets();

}  // namespace triton::systemd

#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "programs/vminfod/options.h"
#include "programs/vminfod/service.h"

namespace triton::program {

struct Listener {
    UniqueFd socket;
    Entrance entrance = Entrance::unix_socket;
    std::string address;  ///< for the log
};

/// The sockets to serve on: those that systemd hands over, else a Unix socket of our own, for root and the group
/// triton-info; and the loopback address that the options or the configuration name, unless one was passed on.
/// Whoever connects waits until somebody accepts. When another program has the port that nobody has asked for on the
/// command line, the Unix socket is served all the same, and `missing` says why nothing else is.
/// Errors: `exists` when another process listens there; those of socket(2), bind(2) and listen(2).
struct Listeners {
    std::vector<Listener> open;
    std::string missing;
    std::string tcp_host;  ///< the loopback address of the TCP socket, as clients write it: "127.0.0.2", "[::1]"
};
Result<Listeners> open_listeners(DaemonOptions const& options, InfoConfiguration const& configuration);

}  // namespace triton::program

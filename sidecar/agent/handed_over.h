#pragma once

#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::agent {

/// Descriptors that our parent opened for us, because we may not.
struct HandedOver {
    std::vector<UniqueFd> listening;
    std::vector<UniqueFd> probes;  ///< listening too, for probes alone
    UniqueFd output;               ///< the output directory, O_PATH is enough
    UniqueFd launcher;             ///< the broker: see ControlClient
    UniqueFd syslog;               ///< messages for syslog daemons: see SyslogForwarder
    UniqueFd syslog_answers;       ///< the same
};

/// Takes them by the protocol of sd_listen_fds(3): LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES. "output", "launcher",
/// "syslog" and "syslog-answers" are known by their names, everything else must be a listening socket: for probes when
/// its name begins with "probe". The variables are removed from our environment. Without LISTEN_PID, or with another
/// process's, nothing is taken. Errors: variables that cannot be read; a descriptor that is none of these, or of
/// another kind than its name says.
Result<HandedOver> take_handed_over();

}  // namespace triton::agent

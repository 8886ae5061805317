#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::daemon {

/// Listens on a Unix socket of root's with mode 0600; with a group, of that group and with mode 0660. A group that does
/// not exist has no members. Missing directories above it are made, and a socket that nobody listens on any more is
/// replaced. Errors: `exists` when another process listens there; those of socket(2), bind(2) and listen(2), "listen on
/// <path>".
Result<UniqueFd> listen_on_unix_socket(std::string const& path, std::string const& group = {});

}  // namespace triton::daemon

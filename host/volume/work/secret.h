#pragma once

#include <string>

#include "lib/base/result.h"

namespace triton::volume {

/// Reads a file with a secret: credentials, or the user data of cloud-init. It must belong to root, and be readable by
/// nobody else.
///
/// A file NAME.cred was sealed by systemd-creds(1) under this name, by the TPM or the key of this host. It may be
/// readable by everybody, but only root can be able to change it. The secret itself is in memory only.
/// Errors: `refused`: "others than root can read it"; `unsupported`: "systemd-creds is not installed"; `invalid`, with
/// what systemd-creds prints; those of the read.
Result<std::string> read_secret(std::string const& path);

}  // namespace triton::volume

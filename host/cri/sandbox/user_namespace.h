#pragma once

#include "host/cri/monitor/user_mapping.h"
#include "lib/base/result.h"

namespace runtime::v1 {
class PodSandboxConfig;
class UserNamespace;
}  // namespace runtime::v1

namespace triton::cri {

/// The ids of a user namespace as a request asks for them; not set: those of the host. Errors: `invalid`: not one range
/// of users and one of groups from 0 on; `unsupported`: another mode.
Result<monitor::UserMapping> user_mapping_of(runtime::v1::UserNamespace const& options);

/// The same of a pod. Errors: also `invalid`: what it shares with the host would be out of its reach.
Result<monitor::UserMapping> user_mapping_of(runtime::v1::PodSandboxConfig const& config);

/// Whether this host has user namespaces, and mounts that overlayfs takes with mapped owners.
bool has_user_namespaces();

}  // namespace triton::cri

#pragma once

#include <string>
#include <vector>

#include "host/image/image_service.h"
#include "host/image/reference.h"
#include "lib/base/result.h"

namespace triton::cri {

/// The servers of a registry, as a directory like containerd's /etc/containerd/certs.d has them.
struct RegistryHosts {
    std::vector<image::RegistryHost> hosts;  ///< empty: it says nothing about this registry
    std::vector<std::string> warnings;       ///< what makes it less safe
};

/// Reads `<directory>/<registry>/hosts.toml`, else that of `_default`. The port of a registry may be written as in
/// "registry.example_5000_". Where that directory has no hosts.toml, its files are certificates as Docker has them:
/// *.crt of authorities, *.cert and *.key of the client. It blocks. An empty directory name: there is none.
/// Errors: those of reading a file; `invalid`, with its line.
Result<RegistryHosts> read_registry_hosts(std::string const& directory, image::RegistryReference const& reference);

}  // namespace triton::cri

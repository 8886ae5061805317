#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/cri/container/apparmor.h"
#include "host/cri/container/capability_sets.h"
#include "host/cri/container/execution.h"
#include "host/cri/container/mounts.h"
#include "host/cri/container/user.h"
#include "lib/base/result.h"

namespace runtime::v1 {
class ContainerConfig;
class LinuxContainerResources;
class PodSandboxConfig;
}  // namespace runtime::v1

namespace triton::cri {

/// A namespace of a container: its own, or that of a path.
struct SpecNamespace {
    std::string type;  ///< as of OCI: "pid", "network", "ipc", "uts", "mount", "cgroup", "user"
    std::string path = {};

    bool operator==(SpecNamespace const&) const = default;
};

/// The ids from 0 on in a user namespace are those of the host from `host` on. No ids: there is none.
struct SpecMapping {
    std::uint32_t host = 0;
    std::uint32_t count = 0;
};

/// What this host, the pod and the image add to a request.
struct SpecSurroundings {
    ImageExecution image = {};
    ContainerUser user = {};
    std::string hostname = {};
    PodFiles files = {};
    std::vector<SpecNamespace> namespaces = {};  ///< a kind that is missing is the host's
    SpecMapping users = {};                      ///< of a user namespace
    SpecMapping groups = {};
    std::map<std::string, std::string> sysctls = {};
    std::string cgroups_path = {};
    bool has_unified_cgroups = false;
    process::CapabilitySet capabilities = 0;  ///< that this host can give
    std::int64_t lowest_oom_score = -1000;    ///< that this host can give
    AppArmor apparmor = {};
    std::string selinux = "/sys/fs/selinux/enforce";  ///< a file that is there where the kernel has SELinux
};

/// A request as config.json of the Open Container Initiative. It blocks: it looks at files of the host.
/// Source: https://github.com/opencontainers/runtime-spec/blob/main/config.md
/// Errors: those of the parts, which name what is wrong with the request.
Result<std::string> make_spec(runtime::v1::ContainerConfig const& config, SpecSurroundings const& around);

/// The limits alone: "linux.resources" without devices. Errors: `unsupported`: some need control groups of version 2.
Result<std::string> make_limits(runtime::v1::LinuxContainerResources const& resources, bool has_unified_cgroups);

/// process.json of a command in a container whose config.json that is. With a terminal it has a TERM, as containers
/// with one have. Errors: `corrupt`.
Result<std::string> make_process(std::string_view spec, std::vector<std::string> const& command, bool is_terminal);

}  // namespace triton::cri

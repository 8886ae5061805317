#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::program {

/// Who makes the control groups of pods.
enum class CgroupDriver : std::uint8_t { automatic, systemd, cgroupfs };

/// What "cri" in /etc/triton/triton.json says.
struct CriConfiguration {
    std::string socket_group = {};  ///< may use the socket beside root; empty: nobody
    CgroupDriver cgroup_driver = CgroupDriver::automatic;
    std::string network_directory = "/etc/cni/net.d";
    std::string plugin_directories = "/opt/cni/bin:/usr/lib/cni";  ///< separated by colons
    milliseconds plugin_timeout{60'000};
    std::size_t parallel_pulls = 4;
    std::string registry_directory = "/etc/containerd/certs.d";  ///< the servers of registries: hosts.toml
    std::string runtime = "crun";                                ///< what starts containers: a path, or a name
    milliseconds stray_interval = std::chrono::hours(1);         ///< between two searches for what nothing knows
    std::string stream_address = "127.0.0.1:0";  ///< where exec, attach and port-forward are served; port 0: any

    bool operator==(CriConfiguration const&) const = default;
};

/// Without the file, or without "cri" in it, all is as by default. Errors: `invalid`: "<path> is not a configuration",
/// with the places of what is wrong.
Result<CriConfiguration> read_cri_configuration(std::string const& root);
Result<CriConfiguration> parse_cri_configuration(std::string_view text, std::string const& path);

/// What `automatic` is on a host: systemd where that is the service manager.
CgroupDriver settled(CgroupDriver driver, std::string const& root);

}  // namespace triton::program

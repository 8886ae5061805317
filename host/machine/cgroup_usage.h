#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace triton::machine {

/// The use and the limits of a control group. Values that the kernel does not report are missing; a missing limit may
/// also mean that there is none.
struct CgroupUsage {
    std::optional<std::uint64_t> cpu_nanoseconds = {};  ///< since the group was made
    std::optional<std::uint64_t> memory_bytes = {};
    std::optional<std::uint64_t> memory_limit = {};
    std::optional<std::uint64_t> swap_bytes = {};
    std::optional<std::uint64_t> tasks = {};
    std::optional<std::uint64_t> tasks_limit = {};
    std::optional<std::uint64_t> read_bytes = {};     ///< from disks
    std::optional<std::uint64_t> written_bytes = {};  ///< to disks
    std::optional<std::uint64_t> oom_kills = {};      ///< processes that were killed for want of memory
};

/// Reads them from the files of the kernel, for either version of control groups or both side by side. `top`: where
/// they are mounted, "/sys/fs/cgroup". `path`: "/machine.slice/...". Source: Linux
/// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,cpuacct,pids,blkio-controller}.rst.
CgroupUsage read_cgroup_usage(std::string const& top, std::string const& path);

}  // namespace triton::machine

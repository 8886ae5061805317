#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/rare.h"
#include "lib/base/rare_list.h"

namespace triton::process {

// The settings of a process besides its command and environment, as written: nothing is looked up here.
// attributes.h makes of it what the kernel takes.

constexpr std::uint64_t unlimited = UINT64_MAX;  ///< RLIM_INFINITY, "max" of a cgroup

/// A user or a group: its number, or its name (never empty).
using IdOrName = std::variant<std::uint32_t, std::string>;

/// For setrlimit(2): soft <= hard, `unlimited` is RLIM_INFINITY.
struct ResourceLimit {
    int resource = 0;  ///< RLIMIT_NOFILE ..
    std::uint64_t soft = 0;
    std::uint64_t hard = 0;

    bool operator==(ResourceLimit const&) const = default;
};

/// Absent: not written, `unlimited`: "max".
struct CgroupLimits {
    std::optional<std::uint64_t> memory_max = {};   ///< bytes
    std::optional<std::uint64_t> memory_high = {};  ///< bytes
    std::optional<std::uint64_t> memory_min = {};   ///< bytes
    std::optional<std::uint64_t> swap_max = {};     ///< bytes
    std::optional<std::uint64_t> cpu_max = {};      ///< thousandths of a CPU, at least 10: 1500 is one and a half
    std::optional<std::uint32_t> cpu_weight = {};   ///< 1 to 10000
    std::optional<std::uint64_t> pids_max = {};

    bool operator==(CgroupLimits const&) const = default;
};

/// Names as they were written, with or without CAP_, none empty. Absent: unchanged, an empty list: none.
struct CapabilitySettings {
    std::optional<std::vector<std::string>> bounding = {};
    std::optional<std::vector<std::string>> ambient = {};
    std::optional<std::vector<std::string>> inheritable = {};

    bool operator==(CapabilitySettings const&) const = default;
};

enum class SeccompProfile : std::uint8_t { standard, strict, none };  ///< standard: "default"
enum class SeccompAction : std::uint8_t { error, kill, log };         ///< error: "errno", EPERM

struct SeccompSettings {
    SeccompProfile profile = SeccompProfile::standard;
    std::vector<std::string> allow = {};  ///< names of system calls, or of groups ("@clock"); none empty
    std::vector<std::string> deny = {};   ///< the same
    SeccompAction action = SeccompAction::error;

    bool operator==(SeccompSettings const&) const = default;
};

/// Whom a process may reach: anybody, or only itself, what it starts, and what these start.
enum class LandlockReach : std::uint8_t { any, own };

/// Absolute paths, and objects without a path.
struct LandlockSettings {
    std::vector<std::string> read_only = {};
    std::vector<std::string> read_write = {};
    std::vector<std::string> execute = {};
    LandlockReach signals = LandlockReach::any;
    LandlockReach abstract_sockets = LandlockReach::any;  ///< of AF_UNIX, to connect and send to

    bool operator==(LandlockSettings const&) const = default;
};

/// All of it. Absent: as the process that starts it.
struct Settings {
    Rare<std::string> working_directory = {};
    Rare<std::string> root_directory = {};
    Rare<IdOrName> user = {};
    Rare<IdOrName> group = {};
    Rare<std::vector<IdOrName>> supplementary_groups = {};
    std::optional<std::uint32_t> umask = {};
    RareList<ResourceLimit> limits = {};  ///< each resource at most once
    std::optional<int> nice = {};
    std::optional<int> oom_score_adj = {};
    RareList<std::uint32_t> cpu_affinity = {};  ///< sorted, each once; empty: unchanged
    Rare<CapabilitySettings> capabilities = {};
    bool no_new_privileges = false;  ///< also when seccomp or landlock implies it
    Rare<SeccompSettings> seccomp = {};
    Rare<LandlockSettings> landlock = {};
    std::optional<int> parent_death_signal = {};

    bool operator==(Settings const&) const = default;
};

}  // namespace triton::process

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/cri/sandbox/cgroups.h"

namespace triton::cri {

/// CPU time at a moment.
struct CpuSample {
    std::int64_t at = 0;  ///< nanoseconds since 1970; 0: there is none
    std::uint64_t nanoseconds = 0;
};

/// How long processes have waited, as the kernel tells it. Source: Linux Documentation/accounting/psi.rst.
struct Pressure {
    struct Line {
        double last_10_seconds = 0;
        double last_60_seconds = 0;
        double last_300_seconds = 0;
        std::uint64_t total_microseconds = 0;
    };
    Line some;  ///< at least one of them
    Line full;  ///< all of them
};
std::optional<Pressure> parse_pressure(std::string_view text);

/// What a control group uses now. Values that the kernel does not tell are missing.
struct GroupUsage {
    std::int64_t at = 0;  ///< nanoseconds since 1970
    std::optional<std::uint64_t> cpu_nanoseconds = {};
    std::optional<std::uint64_t> cpu_nanocores = {};  ///< of the time since the sample before
    std::optional<std::uint64_t> memory = {};
    std::optional<std::uint64_t> working_set = {};
    std::optional<std::uint64_t> available = {};  ///< up to its limit
    std::optional<std::uint64_t> rss = {};
    std::optional<std::uint64_t> page_faults = {};
    std::optional<std::uint64_t> major_page_faults = {};
    std::optional<std::uint64_t> swap = {};
    std::optional<std::uint64_t> processes = {};
    std::optional<Pressure> cpu_pressure = {};
    std::optional<Pressure> memory_pressure = {};
    std::optional<Pressure> io_pressure = {};
};

/// Reads the files of a control group, of either version. It blocks.
/// Source: Linux Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{memory,cpuacct}.rst.
GroupUsage read_usage(Cgroups const& cgroups, std::string const& group);
/// How many processors it has used since the sample before, times 10^9.
std::optional<std::uint64_t> nanocores(CpuSample const& before, GroupUsage const& now);

struct LayerUsage {
    std::uint64_t bytes = 0;
    std::uint64_t inodes = 0;
};
/// Counts the files that a container has written.
LayerUsage measure_layer(std::string const& upper);

/// The counters of a network interface.
struct InterfaceUsage {
    std::string name;
    std::uint64_t received = 0;
    std::uint64_t receive_errors = 0;
    std::uint64_t sent = 0;
    std::uint64_t send_errors = 0;
};
/// Of /proc/net/dev, all but the loopback.
std::vector<InterfaceUsage> parse_interfaces(std::string_view text);

/// The number after a key at the beginning of a line: of memory.stat, cpu.stat.
std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key);

}  // namespace triton::cri

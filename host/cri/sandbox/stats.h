#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "host/cri/sandbox/cgroups.h"

namespace triton::cri {

/// What a container uses now. Values that the kernel does not tell are missing.
struct ContainerUsage {
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
    std::uint64_t layer_bytes = 0;
    std::uint64_t layer_inodes = 0;
};

/// Reads the files of a control group, of either version. It blocks.
/// Source: Linux Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{memory,cpuacct}.rst.
ContainerUsage read_usage(Cgroups const& cgroups, std::string const& group);

/// Counts the files that a container has written.
void measure_layer(std::string const& upper, ContainerUsage& usage);

/// The number after a key at the beginning of a line: of memory.stat, cpu.stat.
std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key);

}  // namespace triton::cri

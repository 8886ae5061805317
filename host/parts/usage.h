#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "host/machine/cgroup_usage.h"
#include "host/storage/pool.h"
#include "lib/json/reader.h"

namespace triton::parts {

inline constexpr std::uint64_t mebibyte_of_figures = 1 << 20;

/// A figure about a machine: its name in JSON, its column in a table, and its unit there.
struct Figure {
    std::string_view name;
    std::optional<std::uint64_t> machine::CgroupUsage::* member;
    std::string_view column;
    std::string_view title;
    std::uint64_t unit = 1;
};
inline constexpr std::array<Figure, 9> figures{{
    {"cpu_nanoseconds", &machine::CgroupUsage::cpu_nanoseconds, "cpu", "CPU_S", 1'000'000'000},
    {"memory_bytes", &machine::CgroupUsage::memory_bytes, "memory", "MEM_MIB", mebibyte_of_figures},
    {"memory_limit_bytes", &machine::CgroupUsage::memory_limit, "memory_limit", "MEM_MAX", mebibyte_of_figures},
    {"swap_bytes", &machine::CgroupUsage::swap_bytes, "swap", "SWAP_MIB", mebibyte_of_figures},
    {"tasks", &machine::CgroupUsage::tasks, "tasks", "TASKS"},
    {"tasks_limit", &machine::CgroupUsage::tasks_limit, "tasks_limit", "TASKS_MAX"},
    {"read_bytes", &machine::CgroupUsage::read_bytes, "read", "READ_MIB", mebibyte_of_figures},
    {"written_bytes", &machine::CgroupUsage::written_bytes, "written", "WRITE_MIB", mebibyte_of_figures},
    {"oom_kills", &machine::CgroupUsage::oom_kills, "oom_kills", "OOM"},
}};

/// The use of one machine.
struct Used {
    std::string uuid;
    std::string state;
    std::string alias;  ///< empty: none
    machine::CgroupUsage processes;
    std::optional<storage::Usage> disk;
};

/// The object of `vmadm stats -j` for it, in bytes; unknown values are left out.
json::Object usage_row(Used const& used);

}  // namespace triton::parts

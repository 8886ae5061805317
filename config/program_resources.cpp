#include <array>
#include <cmath>
#include <cstdlib>

#include <sys/resource.h>

#include "config/cpu_list.h"
#include "config/program_parser.h"

// What a program may use: limits of setrlimit(2), CPUs and a cgroup.

namespace triton::config {

namespace {

constexpr json::Shape limit_text{
    .types = "integer or string", .lowest = 0, .pattern = R"(^(unlimited|[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?)$)"};
constexpr json::Shape limit_or_pair{
    .types = "integer or string or object", .lowest = 0, .pattern = limit_text.pattern, .definition = "LimitPair"};
constexpr json::Shape size_or_max{
    .types = "integer or string", .lowest = 0, .pattern = R"(^(max|[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?)$)"};
constexpr std::string_view least_cpus = "0.01";
constexpr json::Shape cpus_or_max{
    .types = "number or string", .least = least_cpus, .pattern = R"(^(max|[0-9]+(\.[0-9]+)?%)$)"};
using PidCount = json::Integer<std::uint64_t, 1, 4194304>;
constexpr json::Shape pids_or_max{.types = "integer or string",
                                  .lowest = PidCount::shape.lowest,
                                  .highest = PidCount::shape.highest,
                                  .pattern = "^max$"};

/// A size, or the word for no limit.
std::optional<std::uint64_t> read_size_or(std::string_view word, json::Node const& node, json::Where const& at,
                                          json::Reading& reading) {
    if (auto const* const text = node.get<std::string>(); text && *text == word) return process::unlimited;
    return read_size(node, at, reading);
}

std::optional<std::uint64_t> read_limit(json::Node const& node, json::Where const& at, json::Reading& reading) {
    return read_size_or("unlimited", node, at, reading);
}

std::optional<std::uint64_t> read_size_or_max(json::Node const& node, json::Where const& at, json::Reading& reading) {
    return read_size_or("max", node, at, reading);
}

using Limit = json::Kind<read_limit, limit_text>;
using SizeOrMax = json::Kind<read_size_or_max, size_or_max>;

void check_pair(LimitPair const& pair, Present<LimitPair> present, json::Where const& at, Reading& reading) {
    if (present.has("soft") && present.has("hard") && pair.soft > pair.hard)
        reading.problems.add(json::Where{&at, "soft"}, "is more than hard");
}

template <int resource>
void parse_limit(json::Node const& node, json::Where const& at, LimitsDraft& draft, Reading& reading) {
    if (node.get<json::Object>()) {
        auto const pair = read_object<LimitPair, check_pair>(node, at, reading);
        if (pair) draft.limits.push_back({resource, pair->soft, pair->hard});
    } else if (auto const limit = read_limit(node, at, reading)) {
        draft.limits.push_back({resource, *limit, *limit});
    }
}

/// A row of `limits`.
template <int resource>
constexpr Field<LimitsDraft> limit_row(std::string_view name, std::string_view description) {
    return {.name = name, .value = {&limit_or_pair, parse_limit<resource>}, .description = description};
}

/// Cores (1.5), percent of one core ("150%") or "max", in thousandths of a core. The kernel takes no less than 1 ms of
/// each 100 ms (Linux kernel/sched/core.c, min_cfs_quota_period).
std::optional<std::uint64_t> read_cpu_max(json::Node const& node, json::Where const& at, json::Reading& reading) {
    constexpr int most_cores = 100'000;
    auto const* const text = node.get<std::string>();
    if (!text) {
        if (node.kind() != "number") {
            reading.problems.add(
                at, std::string("expected a number of CPUs (1.5, \"150%\" or \"max\"), found ").append(node.kind()));
            return std::nullopt;
        }
        std::string const range = std::string(least_cpus) + " to " + std::to_string(most_cores);
        auto const cores = read_number_within(node, at, 0.01, most_cores, range, reading);
        return cores ? std::optional(static_cast<std::uint64_t>(std::llround(*cores * 1000))) : std::nullopt;
    }
    if (*text == "max") return process::unlimited;
    char* end = nullptr;
    double const percent = std::strtod(text->c_str(), &end);  // not from_chars(): see json::real_of()
    bool const is_decimal = text->find_first_not_of("0123456789.%") == text->npos && !text->starts_with('.');
    bool const is_percent = is_decimal && std::string_view(end) == "%";
    if (is_percent && percent >= 1 && percent <= most_cores * 100.0)
        return static_cast<std::uint64_t>(std::llround(percent * 10));
    reading.problems.add(
        at, json::quoted(*text) + " is not a number of CPUs (for example 1.5, \"150%\", \"max\"; at least 1%)");
    return std::nullopt;
}

/// A count or "max".
std::optional<std::uint64_t> read_pids_max(json::Node const& node, json::Where const& at, json::Reading& reading) {
    if (auto const* const text = node.get<std::string>()) {
        if (*text == "max") return process::unlimited;
        reading.problems.add(at, json::quoted(*text) + " is neither an integer nor \"max\"");
        return std::nullopt;
    }
    return PidCount::read(node, at, reading);
}

using CpuMax = json::Kind<read_cpu_max, cpus_or_max>;
using PidsMax = json::Kind<read_pids_max, pids_or_max>;

}  // namespace

std::span<Field<LimitsDraft> const> table(TableOf<LimitsDraft>) {
    static constexpr std::array<Field<LimitsDraft>, 16> rows{{
        limit_row<RLIMIT_NOFILE>("nofile", "Open files."),
        limit_row<RLIMIT_NPROC>("nproc", "Processes of the user."),
        limit_row<RLIMIT_CORE>("core", "Size of a core file."),
        limit_row<RLIMIT_AS>("as", "Address space."),
        limit_row<RLIMIT_CPU>("cpu", "CPU time in seconds."),
        limit_row<RLIMIT_DATA>("data", "Data segment."),
        limit_row<RLIMIT_FSIZE>("fsize", "Size of a written file."),
        limit_row<RLIMIT_MEMLOCK>("memlock", "Locked memory."),
        limit_row<RLIMIT_MSGQUEUE>("msgqueue", "Bytes in POSIX message queues."),
        limit_row<RLIMIT_NICE>("nice", "20 minus the lowest nice value that a process may choose."),
        limit_row<RLIMIT_RSS>("rss", "Resident memory; without effect since Linux 2.4.30."),
        limit_row<RLIMIT_RTPRIO>("rtprio", "Real-time priority."),
        limit_row<RLIMIT_RTTIME>("rttime", "Microseconds of real-time CPU time without a blocking call."),
        limit_row<RLIMIT_SIGPENDING>("sigpending", "Queued signals."),
        limit_row<RLIMIT_STACK>("stack", "Stack of the main thread."),
        limit_row<RLIMIT_LOCKS>("locks", "File locks; without effect since Linux 2.4.25."),
    }};
    static_assert(rows.size() == RLIM_NLIMITS);
    return rows;
}

std::span<Field<LimitPair> const> table(TableOf<LimitPair>) {
    using enum json::Need;
    static constexpr std::array<Field<LimitPair>, 2> rows{{
        {.name = "soft",
         .need = required,
         .value = as<&LimitPair::soft, Limit>,
         .description = "The limit; the process itself may raise it up to `hard`."},
        {.name = "hard",
         .need = required,
         .value = as<&LimitPair::hard, Limit>,
         .description = "The highest that the process may choose."},
    }};
    return rows;
}

std::span<Field<process::CgroupLimits> const> table(TableOf<process::CgroupLimits>) {
    static constexpr std::array<Field<process::CgroupLimits>, 7> rows{{
        {.name = "memoryMax",
         .value = as<&process::CgroupLimits::memory_max, SizeOrMax>,
         .description = "memory.max: above this the kernel kills."},
        {.name = "memoryHigh",
         .value = as<&process::CgroupLimits::memory_high, SizeOrMax>,
         .description = "memory.high: above this the program is slowed down."},
        {.name = "memoryMin",
         .value = as<&process::CgroupLimits::memory_min, SizeOrMax>,
         .description = "memory.min: this much is never reclaimed."},
        {.name = "swapMax",
         .value = as<&process::CgroupLimits::swap_max, SizeOrMax>,
         .description = "memory.swap.max: swap space."},
        {.name = "cpuMax",
         .value = as<&process::CgroupLimits::cpu_max, CpuMax>,
         .description = "cpu.max: CPU time, as a number of CPUs (1.5) or as a percentage of one (`150%`)."},
        {.name = "cpuWeight",
         .value = as<&process::CgroupLimits::cpu_weight, json::Integer<std::uint32_t, 1, 10000>>,
         .description = "cpu.weight: the share of CPU time when it is scarce; the kernel's default is 100."},
        {.name = "pidsMax",
         .value = as<&process::CgroupLimits::pids_max, PidsMax>,
         .description = "pids.max: processes and threads."},
    }};
    return rows;
}

void parse_limits(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    if (auto draft = read_object<LimitsDraft>(node, at, reading)) program.limits = std::move(draft->limits);
}

void parse_cpu_affinity(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    auto const text = read_text(node, at, reading);
    if (!text) return;
    if (auto cpus = parse_cpu_list(*text)) {
        program.cpu_affinity = std::move(*cpus);
    } else {
        reading.problems.add(at, json::quoted(*text) + " is not a list of CPUs (for example 0-3,6)");
    }
}

void parse_cgroup(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    program.cgroup = read_object<process::CgroupLimits>(node, at, reading);
}

}  // namespace triton::config

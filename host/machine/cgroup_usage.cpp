#include "host/machine/cgroup_usage.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>

#include "lib/base/read_file.h"

namespace triton::machine {

namespace {

using Number = std::optional<std::uint64_t>;

constexpr std::size_t most_file_bytes = 64 << 10;
/// In version 1 the highest multiple of a page means "no limit".
constexpr std::uint64_t no_limit = std::uint64_t{1} << 62;

Number number_of(std::string_view text) {
    std::uint64_t value = 0;
    auto const [end, err] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (err != std::errc{} || end == text.data()) return std::nullopt;
    return value;
}

/// Takes the next word off a line.
std::string_view take_word(std::string_view& line) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    std::string_view const word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
    return word;
}

/// Calls `each` with every line of a file's content.
template <class Each>
void for_each_line(std::string_view text, Each each) {
    while (!text.empty()) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        each(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

Number limit_of(std::string_view text, std::string_view) {
    Number const value = number_of(text);
    return value && *value < no_limit ? value : std::nullopt;
}
Number plain(std::string_view text, std::string_view) { return number_of(text); }

/// Reads "usage_usec 17" as nanoseconds.
Number usage_usec(std::string_view text, std::string_view) {
    Number found;
    for_each_line(text, [&found](std::string_view line) {
        if (take_word(line) != "usage_usec") return;
        if (auto const value = number_of(take_word(line))) found = *value * 1000;
    });
    return found;
}

/// The number behind `key`, alone in a line: "oom_kill 2".
Number number_behind(std::string_view text, std::string_view key) {
    Number found;
    for_each_line(text, [&](std::string_view line) {
        if (take_word(line) == key) found = number_of(take_word(line));
    });
    return found;
}

/// The sum over all devices of rows such as "8:0 rbytes=17 wbytes=4", for `key` "rbytes=".
Number sum_of_pairs(std::string_view text, std::string_view key) {
    std::uint64_t sum = 0;
    for_each_line(text, [&](std::string_view line) {
        while (!line.empty()) {
            std::string_view const word = take_word(line);
            if (word.starts_with(key)) sum += number_of(word.substr(key.size())).value_or(0);
        }
    });
    return sum;
}

/// The sum over all devices of rows such as "8:0 Read 17", for `key` "Read".
Number sum_of_rows(std::string_view text, std::string_view key) {
    std::uint64_t sum = 0;
    for_each_line(text, [&](std::string_view line) {
        (void)take_word(line);
        if (take_word(line) == key) sum += number_of(take_word(line)).value_or(0);
    });
    return sum;
}

/// A figure, and one place where the kernel may report it.
struct CounterRow {
    Number CgroupUsage::* member;
    std::string_view hierarchy;  ///< its directory below the top
    std::string_view file;
    Number (*read)(std::string_view text, std::string_view key);
    std::string_view key = {};
};
constexpr std::array<CounterRow, 9> version_2{{
    {&CgroupUsage::cpu_nanoseconds, "", "cpu.stat", usage_usec},
    {&CgroupUsage::memory_bytes, "", "memory.current", plain},
    {&CgroupUsage::memory_limit, "", "memory.max", limit_of},
    {&CgroupUsage::swap_bytes, "", "memory.swap.current", plain},
    {&CgroupUsage::tasks, "", "pids.current", plain},
    {&CgroupUsage::tasks_limit, "", "pids.max", limit_of},
    {&CgroupUsage::read_bytes, "", "io.stat", sum_of_pairs, "rbytes="},
    {&CgroupUsage::written_bytes, "", "io.stat", sum_of_pairs, "wbytes="},
    {&CgroupUsage::oom_kills, "", "memory.events", number_behind, "oom_kill"},
}};
constexpr std::array<CounterRow, 9> version_1{{
    {&CgroupUsage::cpu_nanoseconds, "/cpuacct", "cpuacct.usage", plain},
    {&CgroupUsage::memory_bytes, "/memory", "memory.usage_in_bytes", plain},
    {&CgroupUsage::memory_limit, "/memory", "memory.limit_in_bytes", limit_of},
    {&CgroupUsage::swap_bytes, "/memory", "memory.memsw.usage_in_bytes", plain},  // includes memory, see below
    {&CgroupUsage::tasks, "/pids", "pids.current", plain},
    {&CgroupUsage::tasks_limit, "/pids", "pids.max", limit_of},
    {&CgroupUsage::read_bytes, "/blkio", "blkio.throttle.io_service_bytes", sum_of_rows, "Read"},
    {&CgroupUsage::written_bytes, "/blkio", "blkio.throttle.io_service_bytes", sum_of_rows, "Write"},
    {&CgroupUsage::oom_kills, "/memory", "memory.oom_control", number_behind, "oom_kill"},
}};

CgroupUsage read_rows(std::span<CounterRow const> rows, std::string const& top, std::string const& path) {
    CgroupUsage usage;
    for (CounterRow const& row : rows) {
        auto const text =
            read_file(top + std::string(row.hierarchy) + path + "/" + std::string(row.file), most_file_bytes);
        if (text) usage.*row.member = row.read(*text, row.key);
    }
    return usage;
}

}  // namespace

CgroupUsage read_cgroup_usage(std::string const& top, std::string const& path) {
    CgroupUsage usage = read_rows(version_1, top, path);
    if (usage.swap_bytes)
        usage.swap_bytes = *usage.swap_bytes - std::min(*usage.swap_bytes, usage.memory_bytes.value_or(0));
    // Where both versions are in use, each controller is in one of them; version 2 is then mounted further down.
    for (std::string const& place : {top, top + "/unified"}) {
        CgroupUsage const other = read_rows(version_2, place, path);
        for (CounterRow const& row : version_2)
            if (other.*row.member) usage.*row.member = other.*row.member;
    }
    return usage;
}

}  // namespace triton::machine

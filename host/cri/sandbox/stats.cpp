#include "host/cri/sandbox/stats.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "host/storage/walk_tree.h"
#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"

namespace triton::cri {

namespace {

constexpr std::size_t most_stat_bytes = 64 * 1024;
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;  // v1 says so by a huge number
constexpr std::uint64_t most_layer_inodes = 1'000'000;
constexpr std::uint64_t block_bytes = 512;  // of st_blocks

std::optional<std::uint64_t> parse_count(std::string_view text) {
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end == text.data()) return std::nullopt;
    return value;
}

std::string read_text(std::string const& path) { return read_file(path, most_stat_bytes).value_or(""); }
std::optional<std::uint64_t> read_count(std::string const& path) { return parse_count(read_text(path)); }

void add_memory(GroupUsage& usage, std::string const& stat, char const* inactive, char const* rss,
                std::optional<std::uint64_t> limit) {
    usage.rss = find_number(stat, rss);
    usage.page_faults = find_number(stat, "pgfault");
    usage.major_page_faults = find_number(stat, "pgmajfault");
    if (!usage.memory) return;
    usage.working_set = *usage.memory - std::min(*usage.memory, find_number(stat, inactive).value_or(0));
    if (limit && *limit < no_limit) usage.available = *limit - std::min(*limit, *usage.working_set);
}

/// Counts to a million files: more are not worth the time.
class LayerCount {
public:
    explicit LayerCount(LayerUsage& usage) : usage_(usage) {}

    Result<> enter(storage::DirectoryStack const& stack, struct stat const& status) {
        return stack.depth() == 0 ? Result<>() : add(status);  // its root is there before the container is
    }
    Result<> entry(storage::DirectoryStack const& /*stack*/, std::string const& /*name*/, struct stat const& status) {
        return add(status);
    }
    Result<> mounted(storage::DirectoryStack const& /*stack*/, std::string const& /*name*/) { return {}; }
    Result<> leave(storage::DirectoryStack const& /*stack*/) { return {}; }

private:
    Result<> add(struct stat const& status) {
        if (usage_.inodes >= most_layer_inodes) return fail(ErrorKind::exhausted, "there are too many files");
        ++usage_.inodes;
        usage_.bytes += static_cast<std::uint64_t>(status.st_blocks) * block_bytes;
        return {};
    }

    LayerUsage& usage_;
};

}  // namespace

std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key) {
    while (!text.empty()) {
        std::string_view const line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        if (line.starts_with(key) && line.substr(key.size()).starts_with(' '))
            return parse_count(line.substr(key.size() + 1));
    }
    return std::nullopt;
}

GroupUsage read_usage(Cgroups const& cgroups, std::string const& group) {
    GroupUsage usage;
    if (cgroups.is_unified()) {
        std::string const place = cgroups.top() + group;
        if (auto const microseconds = find_number(read_text(place + "/cpu.stat"), "usage_usec"))
            usage.cpu_nanoseconds = *microseconds * 1000;
        usage.memory = read_count(place + "/memory.current");
        usage.swap = read_count(place + "/memory.swap.current");
        add_memory(usage, read_text(place + "/memory.stat"), "inactive_file", "anon",
                   read_count(place + "/memory.max"));
        usage.processes = read_count(place + "/pids.current");
        usage.cpu_pressure = parse_pressure(read_text(place + "/cpu.pressure"));
        usage.memory_pressure = parse_pressure(read_text(place + "/memory.pressure"));
        usage.io_pressure = parse_pressure(read_text(place + "/io.pressure"));
        return usage;
    }
    std::string const memory = cgroups.top() + "/memory" + group;
    usage.cpu_nanoseconds = read_count(cgroups.top() + "/cpuacct" + group + "/cpuacct.usage");
    usage.memory = read_count(memory + "/memory.usage_in_bytes");
    if (auto const both = read_count(memory + "/memory.memsw.usage_in_bytes"); both && usage.memory)
        usage.swap = *both - std::min(*both, *usage.memory);
    add_memory(usage, read_text(memory + "/memory.stat"), "total_inactive_file", "total_rss",
               read_count(memory + "/memory.limit_in_bytes"));
    usage.processes = read_count(cgroups.top() + "/pids" + group + "/pids.current");
    return usage;
}

std::optional<std::uint64_t> nanocores(CpuSample const& before, GroupUsage const& now) {
    if (before.at == 0 || now.at <= before.at || !now.cpu_nanoseconds || *now.cpu_nanoseconds < before.nanoseconds)
        return std::nullopt;
    double const share =
        static_cast<double>(*now.cpu_nanoseconds - before.nanoseconds) / static_cast<double>(now.at - before.at);
    return static_cast<std::uint64_t>(share * 1e9);
}

/// The container may rename and link what is measured: each directory is opened below the one before.
LayerUsage measure_layer(std::string const& upper) {
    LayerUsage usage;
    UniqueFd root{::open(upper.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
    LayerCount count(usage);
    if (root) (void)storage::walk_tree(std::move(root), count);  // what was counted until it fails is the answer
    return usage;
}

std::optional<Pressure> parse_pressure(std::string_view text) {
    Pressure pressure;
    bool has_some = false;
    while (!text.empty()) {
        std::string line(text.substr(0, text.find('\n')));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        bool const is_some = line.starts_with("some ");
        if (!is_some && !line.starts_with("full ")) continue;
        Pressure::Line& into = is_some ? pressure.some : pressure.full;
        double* const averages[] = {&into.last_10_seconds, &into.last_60_seconds, &into.last_300_seconds};
        constexpr std::string_view names[] = {" avg10=", " avg60=", " avg300="};
        for (std::size_t i = 0; i < std::size(names); ++i)
            if (auto const at = line.find(names[i]); at != std::string::npos)
                std::from_chars(line.data() + at + names[i].size(), line.data() + line.size(), *averages[i]);
        constexpr std::string_view total = " total=";
        if (auto const at = line.find(total); at != std::string::npos)
            into.total_microseconds = parse_count(std::string_view(line).substr(at + total.size())).value_or(0);
        has_some = has_some || is_some;
    }
    return has_some ? std::optional(pressure) : std::nullopt;
}

std::vector<InterfaceUsage> parse_interfaces(std::string_view text) {
    constexpr std::size_t columns = 11;  // received: bytes packets errors ..; sent: the ninth and on
    std::vector<InterfaceUsage> found;
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        auto const colon = line.rfind(':');  // a name may have one
        if (colon == std::string_view::npos) continue;
        std::string_view name = line.substr(0, colon);
        name.remove_prefix(std::min(name.size(), name.find_first_not_of(' ')));
        line.remove_prefix(colon + 1);
        std::array<std::uint64_t, columns> numbers{};
        std::size_t count = 0;
        for (; count < columns; ++count) {
            line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
            auto const number = parse_count(line);
            if (!number) break;
            numbers[count] = *number;
            line.remove_prefix(std::min(line.size(), line.find(' ')));
        }
        if (count < columns || name == "lo") continue;
        found.push_back({std::string(name), numbers[0], numbers[2], numbers[8], numbers[10]});
    }
    return found;
}

}  // namespace triton::cri

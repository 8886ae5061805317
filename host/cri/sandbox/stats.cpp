#include "host/cri/sandbox/stats.h"

#include <algorithm>
#include <charconv>
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

void add_memory(ContainerUsage& usage, std::string const& stat, char const* inactive, char const* rss,
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
    explicit LayerCount(ContainerUsage& usage) : usage_(usage) {}

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
        if (usage_.layer_inodes >= most_layer_inodes) return fail(ErrorKind::exhausted, "there are too many files");
        ++usage_.layer_inodes;
        usage_.layer_bytes += static_cast<std::uint64_t>(status.st_blocks) * block_bytes;
        return {};
    }

    ContainerUsage& usage_;
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

ContainerUsage read_usage(Cgroups const& cgroups, std::string const& group) {
    ContainerUsage usage;
    if (cgroups.is_unified()) {
        std::string const place = cgroups.top() + group;
        if (auto const microseconds = find_number(read_text(place + "/cpu.stat"), "usage_usec"))
            usage.cpu_nanoseconds = *microseconds * 1000;
        usage.memory = read_count(place + "/memory.current");
        usage.swap = read_count(place + "/memory.swap.current");
        add_memory(usage, read_text(place + "/memory.stat"), "inactive_file", "anon",
                   read_count(place + "/memory.max"));
        return usage;
    }
    std::string const memory = cgroups.top() + "/memory" + group;
    usage.cpu_nanoseconds = read_count(cgroups.top() + "/cpuacct" + group + "/cpuacct.usage");
    usage.memory = read_count(memory + "/memory.usage_in_bytes");
    if (auto const both = read_count(memory + "/memory.memsw.usage_in_bytes"); both && usage.memory)
        usage.swap = *both - std::min(*both, *usage.memory);
    add_memory(usage, read_text(memory + "/memory.stat"), "total_inactive_file", "total_rss",
               read_count(memory + "/memory.limit_in_bytes"));
    return usage;
}

/// The container may rename and link what is measured: each directory is opened below the one before.
void measure_layer(std::string const& upper, ContainerUsage& usage) {
    UniqueFd root{::open(upper.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
    LayerCount count(usage);
    if (root) (void)storage::walk_tree(std::move(root), count);  // what was counted until it fails is the answer
}

}  // namespace triton::cri

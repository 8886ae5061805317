#include "launcher/control/process_usage.h"

#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton::launcher {

namespace {

/// A field of /proc/PID/stat by its number; 3 is the state. It starts behind the command, which may contain anything.
std::optional<std::uint64_t> field(std::string_view rest, int number) {
    for (int at = 3; at < number; ++at) {
        std::size_t const space = rest.find(' ');
        if (space == std::string_view::npos) return std::nullopt;
        rest.remove_prefix(space + 1);
    }
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    return error == std::errc{} ? std::optional(value) : std::nullopt;
}

}  // namespace

ProcessUsage read_process_usage(pid_t pid) {
    std::string const path = "/proc/" + std::to_string(pid) + "/stat";
    UniqueFd const fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    std::array<char, 1024> buffer;
    ssize_t const size = fd ? ::read(fd.get(), buffer.data(), buffer.size()) : 0;
    if (size <= 0) return {};
    std::string_view const text(buffer.data(), static_cast<std::size_t>(size));
    std::size_t const command_end = text.rfind(')');
    if (command_end == std::string_view::npos || command_end + 2 > text.size()) return {};
    std::string_view const rest = text.substr(command_end + 2);
    ProcessUsage usage;
    constexpr int utime = 14;
    constexpr int stime = 15;
    constexpr int rss = 24;  // in pages
    if (auto const pages = field(rest, rss))
        usage.memory = *pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    auto const user = field(rest, utime);
    auto const system = field(rest, stime);
    if (user && system) {
        auto const ticks = static_cast<Duration::rep>(*user + *system);
        usage.cpu_time = Duration(ticks * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
    }
    return usage;
}

}  // namespace triton::launcher

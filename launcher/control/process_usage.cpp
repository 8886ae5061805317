#include "launcher/control/process_usage.h"

#include <array>
#include <charconv>
#include <ctime>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton::launcher {

namespace {

std::optional<std::uint64_t> resident_memory(pid_t pid) {
    std::string const path = "/proc/" + std::to_string(pid) + "/statm";
    UniqueFd const fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    std::array<char, 256> buffer;
    ssize_t const size = fd ? ::read(fd.get(), buffer.data(), buffer.size()) : 0;
    if (size <= 0) return std::nullopt;
    // "size resident shared ...", in pages
    std::string_view const text(buffer.data(), static_cast<std::size_t>(size));
    std::size_t const space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    std::uint64_t pages = 0;
    auto const [end, error] = std::from_chars(text.data() + space + 1, text.data() + text.size(), pages);
    if (error != std::errc{}) return std::nullopt;
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::optional<Duration> processor_time(pid_t pid) {
    clockid_t clock = 0;
    timespec used{};
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return std::nullopt;
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

ProcessUsage read_process_usage(pid_t pid) { return {.memory = resident_memory(pid), .cpu_time = processor_time(pid)}; }

}  // namespace triton::launcher

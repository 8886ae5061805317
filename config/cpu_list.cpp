#include "config/cpu_list.h"

#include <algorithm>
#include <charconv>

namespace triton::config {

namespace {

constexpr std::uint32_t cpu_limit = 8192;

std::optional<std::uint32_t> parse_cpu(std::string_view text) {
    std::uint32_t cpu = 0;
    char const* const last = text.data() + text.size();
    auto const [end, error] = std::from_chars(text.data(), last, cpu);
    if (error != std::errc{} || end != last || cpu >= cpu_limit) return std::nullopt;
    return cpu;
}

}  // namespace

std::optional<std::vector<std::uint32_t>> parse_cpu_list(std::string_view text) {
    std::vector<bool> chosen(cpu_limit);
    while (true) {
        std::size_t const comma = text.find(',');
        std::string_view const part = text.substr(0, comma);
        std::size_t const dash = part.find('-');
        auto const first = parse_cpu(part.substr(0, dash));
        auto const last = dash == std::string_view::npos ? first : parse_cpu(part.substr(dash + 1));
        if (!first || !last || *first > *last) return std::nullopt;
        std::fill(chosen.begin() + *first, chosen.begin() + *last + 1, true);
        if (comma == std::string_view::npos) break;
        text.remove_prefix(comma + 1);
    }
    std::vector<std::uint32_t> cpus;
    for (std::uint32_t cpu = 0; cpu < cpu_limit; ++cpu) {
        if (chosen[cpu]) cpus.push_back(cpu);
    }
    return cpus;
}

}  // namespace triton::config

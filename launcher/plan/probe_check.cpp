#include "launcher/plan/probe_check.h"

#include <algorithm>
#include <array>
#include <vector>

#include "config/probe_target.h"

namespace triton::launcher {

std::optional<std::string> target_fault(NetworkProbe const& probe, bool is_numbered, std::uint64_t& budget) {
    std::vector<char> buffer(probe.target.buffer_size());
    std::array<char*, 2> argv{};
    std::uint32_t const last = is_numbered ? probe.target.highest_number() : 1;
    auto const affordable = std::max<std::uint64_t>(budget / buffer.size(), 2);
    std::uint64_t const left_out = last - std::min<std::uint64_t>(affordable, last);
    auto const first_left_out = static_cast<std::uint32_t>(affordable / 2 + 1);
    for (std::uint32_t number = 1; number <= last; ++number) {
        if (left_out > 0 && number == first_left_out) number += static_cast<std::uint32_t>(left_out);
        probe.target.render(process::ProcessNumber{number}, buffer, argv);
        budget -= std::min<std::uint64_t>(budget, buffer.size());
        auto const parsed = config::row_of(probe.kind).parse_target(argv[0]);
        if (!parsed) return (is_numbered ? "process " + std::to_string(number) + ": " : "") + parsed.error();
    }
    return std::nullopt;
}

}  // namespace triton::launcher

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace triton::config {

/// Reads "0-3,6": numbers and ranges below 8192 (the most that Linux can be built for on x86-64).
/// Returns: the CPUs, sorted, each once; nullopt for anything else, the empty text included.
std::optional<std::vector<std::uint32_t>> parse_cpu_list(std::string_view text);

}  // namespace triton::config

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace triton {

/// Reads 512, 64Ki, 1.5Gi, 10M: bytes, in powers of 1024 (Ki Mi Gi Ti) or of 1000 (k M G T). Fractions of a byte are
/// cut off. Returns nullopt for anything else, and for values that do not fit.
std::optional<std::uint64_t> parse_size(std::string_view text);

}  // namespace triton

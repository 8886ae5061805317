#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace triton {

/// Reads 500ms, 10s, 1m30s, 2h, 1.5s, 250us; a bare number means seconds. Units (h m s ms us ns) come in falling order.
/// Returns nullopt for anything else, including a sign and values that do not fit.
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

/// The shortest such text that parse_duration() reads back as the same duration: "1m30s", "1.5ms", "0s".
std::string format_duration(std::chrono::nanoseconds duration);

}  // namespace triton

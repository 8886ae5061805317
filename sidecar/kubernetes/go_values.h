#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"

namespace triton::kubernetes {

// What annotations and labels say, read as the Go programs around us read it.

/// strconv.ParseBool: 1, t, T, TRUE, true, True and their opposites. nullopt: anything else.
std::optional<bool> parse_go_bool(std::string_view text);

/// time.ParseDuration: "60s", "1.5h", "-1h15m30.918s", "0"; each number has a unit (ns us µs ms s m h).
/// nullopt: anything else, what does not fit included.
std::optional<Duration> parse_go_duration(std::string_view text);

/// Seconds since 1970: decimal digits, with a sign perhaps, as strconv.ParseInt reads them. nullopt: anything else.
std::optional<std::int64_t> parse_unix_seconds(std::string_view text);

/// The variable of a node's label: NODE_LABEL_ and the key in capitals, '/' and '.' become '_'. Hyphens stay.
std::string node_label_variable(std::string_view key);

}  // namespace triton::kubernetes

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"

namespace triton::http::grpc {

/// Reads the value of `grpc-timeout`: at most 8 digits and a unit, one of H M S m u n. nullopt: it is something else.
/// What is too long for a clock becomes the longest time that it can add.
/// Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, "Timeout".
std::optional<Duration> parse_timeout(std::string_view text);
/// The value of `grpc-timeout`, in the finest unit that 8 digits have room for. Less than nothing is nothing.
std::string timeout_text(Duration timeout);

}  // namespace triton::http::grpc

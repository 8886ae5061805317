#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace triton::verify {

/// Strict base64 with padding, without blanks. Source: RFC 4648, section 4.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace triton::verify

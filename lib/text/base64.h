#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace triton::text {

/// Strict base64 with padding, without blanks. An empty text stands for no bytes. Source: RFC 4648, section 4.
std::optional<std::string> decode_base64(std::string_view text);
std::string encode_base64(std::string_view bytes);

}  // namespace triton::text

#include "lib/http/grpc/status.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "lib/base/error_kinds.h"

namespace triton::http::grpc {

namespace {

constexpr std::array<std::string_view, 17> code_names{
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
static_assert(code_names.size() == static_cast<std::size_t>(Code::unauthenticated) + 1);
static_assert(std::ranges::all_of(error_kinds, [](ErrorKindRow const& row) {
    return row.grpc_code > 0 && row.grpc_code < static_cast<int>(code_names.size());
}));

constexpr std::size_t longest_status_text = 2048;  // peers limit the trailer fields together to 8 KiB, encoded

constexpr std::string_view digits = "0123456789ABCDEF";

std::optional<unsigned> value_of_digit(char c) {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
    return std::nullopt;
}

/// The length of the character of UTF-8 at the beginning of the text; 0: there is none. Source: RFC 3629, section 4.
std::size_t utf8_length(std::string_view text) {
    auto const byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    auto const follows = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
    unsigned const first = byte(0);
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {
        bool const is_overlong = first == 0xe0 && byte(1) < 0xa0;
        bool const is_surrogate = first == 0xed && byte(1) > 0x9f;
        return follows(1) && follows(2) && !is_overlong && !is_surrogate ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        bool const is_overlong = first == 0xf0 && byte(1) < 0x90;
        bool const is_too_large = first == 0xf4 && byte(1) > 0x8f;
        return follows(1) && follows(2) && follows(3) && !is_overlong && !is_too_large ? 4 : 0;
    }
    return 0;
}

}  // namespace

std::string_view name_of(Code code) { return code_names[static_cast<std::size_t>(code)]; }

std::optional<Code> parse_code(std::string_view text) {
    unsigned number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number >= code_names.size()) return std::nullopt;
    return static_cast<Code>(number);
}

Status status_of(Error const& error) {
    std::string message = error.text();
    for (std::string const& detail : error.details)
        message.append("; ").append(detail);
    return {static_cast<Code>(row_of(error.kind).grpc_code), std::move(message)};
}

std::string valid_utf8(std::string_view text) {
    std::string valid;
    while (!text.empty()) {
        std::size_t const length = utf8_length(text);
        valid.append(length == 0 ? "?" : text.substr(0, length));
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return valid;
}

std::string encode_message(std::string_view message) {
    std::string encoded;
    for (char const c : valid_utf8(message.substr(0, longest_status_text))) {
        auto const byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f && c != '%') {
            encoded.push_back(c);
        } else {
            encoded.push_back('%');
            encoded.push_back(digits[byte >> 4]);
            encoded.push_back(digits[byte & 0xf]);
        }
    }
    return encoded;
}

std::string decode_message(std::string_view encoded) {
    std::string message;
    for (std::size_t i = 0; i < encoded.size(); ++i) {
        auto const high = i + 2 < encoded.size() ? value_of_digit(encoded[i + 1]) : std::nullopt;
        auto const low = i + 2 < encoded.size() ? value_of_digit(encoded[i + 2]) : std::nullopt;
        if (encoded[i] != '%' || !high || !low) {
            message.push_back(encoded[i]);
            continue;
        }
        message.push_back(static_cast<char>(*high << 4 | *low));
        i += 2;
    }
    return message;
}

}  // namespace triton::http::grpc

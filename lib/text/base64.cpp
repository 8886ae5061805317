#include "lib/text/base64.h"

#include <cstddef>
#include <cstdint>

namespace triton::text {

namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
    if (text.size() % 4 != 0) return std::nullopt;
    std::size_t const padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        bool const is_padding = i >= text.size() - padding;
        std::size_t const value = is_padding ? 0 : alphabet.find(text[i]);
        if (value == alphabet.npos) return std::nullopt;
        group = group << 6 | static_cast<std::uint32_t>(value);
        if (i % 4 != 3) continue;
        for (int shift = 16; shift >= 0; shift -= 8)
            bytes += static_cast<char>(group >> shift & 0xff);
        group = 0;
    }
    bytes.resize(bytes.size() - padding);
    return bytes;
}

std::string encode_base64(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t at = i; at < i + 3; ++at)
            group = group << 8 | (at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U);
        std::size_t const letters = bytes.size() - i >= 3 ? 4 : bytes.size() - i + 1;
        for (std::size_t letter = 0; letter < 4; ++letter)
            text += letter < letters ? alphabet[group >> (18 - 6 * letter) & 63] : '=';
    }
    return text;
}

}  // namespace triton::text

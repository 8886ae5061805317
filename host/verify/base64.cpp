#include "host/verify/base64.h"

#include <cstdint>

namespace triton::verify {

std::optional<std::string> decode_base64(std::string_view text) {
    static constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (text.empty() || text.size() % 4 != 0) return std::nullopt;
    std::size_t const padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    std::string bytes;
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

}  // namespace triton::verify

#include "lib/base/uuid.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include <sys/random.h>

namespace triton {

namespace {

constexpr std::string_view form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
constexpr std::string_view hexadecimal_digits = "0123456789abcdef";

}  // namespace

std::optional<Uuid> Uuid::parse(std::string_view text) {
    std::string canonical(text);
    std::ranges::transform(canonical, canonical.begin(),
                           [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
    bool const is_uuid = std::ranges::equal(canonical, form, [](char c, char wanted) {
        return wanted == '-' ? c == '-' : hexadecimal_digits.find(c) != std::string_view::npos;
    });
    if (!is_uuid) return std::nullopt;
    return Uuid(std::move(canonical));
}

Result<Uuid> Uuid::random() {
    Bytes bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        return fail(errno, "get random bytes");
    return of_bytes(bytes, 4);
}

Uuid Uuid::of_bytes(Bytes bytes, std::uint8_t version) {
    bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0f) | version << 4);
    bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3f) | 0x80);
    std::string text;
    for (std::uint8_t const byte : bytes) {
        if (form[text.size()] == '-') text += '-';
        text += hexadecimal_digits[byte >> 4];
        text += hexadecimal_digits[byte & 15];
    }
    return Uuid(std::move(text));
}

Uuid::Bytes Uuid::bytes() const {
    Bytes bytes{};
    std::size_t digit = 0;
    for (char const c : text_) {
        if (c == '-') continue;
        std::uint8_t& byte = bytes[digit++ / 2];
        byte = static_cast<std::uint8_t>(byte << 4 | hexadecimal_digits.find(c));
    }
    return bytes;
}

std::string Uuid::digits() const {
    std::string digits = text_;
    std::erase(digits, '-');
    return digits;
}

}  // namespace triton

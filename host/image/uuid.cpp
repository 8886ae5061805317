#include "host/image/uuid.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <openssl/sha.h>
#include <sys/random.h>

namespace triton::image {

namespace {

constexpr std::size_t text_length = 36;
using Bytes = std::array<std::uint8_t, 16>;

bool has_dash_at(std::size_t position) { return position == 8 || position == 13 || position == 18 || position == 23; }

std::optional<std::uint8_t> digit_of(char c) {
    if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
    return std::nullopt;
}

std::string text_of(Bytes bytes, std::uint8_t version) {
    static constexpr char digits[] = "0123456789abcdef";
    bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0f) | version << 4);
    bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3f) | 0x80);
    std::string text;
    for (std::uint8_t const byte : bytes) {
        if (has_dash_at(text.size())) text += '-';
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

Bytes bytes_of(Uuid const& uuid) {
    Bytes bytes{};
    std::size_t nibble = 0;
    for (char const c : uuid.text()) {
        if (c == '-') continue;
        bytes[nibble / 2] = static_cast<std::uint8_t>(bytes[nibble / 2] << 4 | *digit_of(c));
        ++nibble;
    }
    return bytes;
}

}  // namespace

std::optional<Uuid> Uuid::parse(std::string_view text) {
    if (text.size() != text_length) return std::nullopt;
    std::string lower(text);
    for (std::size_t i = 0; i < lower.size(); ++i) {
        if (lower[i] >= 'A' && lower[i] <= 'F') lower[i] = static_cast<char>(lower[i] - 'A' + 'a');
        if (has_dash_at(i) ? lower[i] != '-' : !digit_of(lower[i])) return std::nullopt;
    }
    return Uuid(std::move(lower));
}

Uuid Uuid::of_name(Uuid const& space, std::string_view name) {
    Bytes const prefix = bytes_of(space);
    std::vector<unsigned char> input(prefix.begin(), prefix.end());
    input.insert(input.end(), name.begin(), name.end());
    std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
    ::SHA1(input.data(), input.size(), digest.data());
    Bytes bytes{};
    std::copy_n(digest.begin(), bytes.size(), bytes.begin());
    return Uuid(text_of(bytes, 5));
}

Result<Uuid> Uuid::random() {
    Bytes bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        return fail(errno, "get random bytes");
    return Uuid(text_of(bytes, 4));
}

Uuid const& image_space() {
    static Uuid const space = *Uuid::parse("5c1e2f0a-6f5c-4c0e-9d7b-3a0f8f4f2b61");
    return space;
}

}  // namespace triton::image

#include "host/machine/uuid.h"

#include <algorithm>
#include <cerrno>

#include <sys/random.h>

#include "lib/json/text.h"

namespace triton::machine {

namespace {

constexpr std::string_view pattern = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
constexpr std::string_view digits_of_hex = "0123456789abcdef";

}  // namespace

Result<Uuid> Uuid::parse(std::string_view text) {
    std::string canonical(text);
    std::ranges::transform(canonical, canonical.begin(), [](char c) { return c >= 'A' && c <= 'F' ? c | 0x20 : c; });
    bool const is_uuid = std::ranges::equal(canonical, pattern, [](char c, char wanted) {
        return wanted == '-' ? c == '-' : digits_of_hex.find(c) != std::string_view::npos;
    });
    if (!is_uuid) return fail(json::quoted(text) + " is not a UUID");
    return Uuid(std::move(canonical));
}

Result<std::string> random_bytes(std::size_t count) {
    std::string bytes(count, '\0');
    ssize_t const got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got != static_cast<ssize_t>(count)) return fail(errno, "get random bytes");
    return bytes;
}

Result<Uuid> Uuid::random() {
    std::string bytes = TRY(random_bytes(16));
    bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);
    bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        auto const byte = static_cast<unsigned char>(bytes[i]);
        text += digits_of_hex[byte >> 4];
        text += digits_of_hex[byte & 0xf];
    }
    return Uuid(std::move(text));
}

std::string Uuid::digits() const {
    std::string digits = text_;
    std::erase(digits, '-');
    return digits;
}

}  // namespace triton::machine

#include "host/role/digest.h"

#include <algorithm>

#include "lib/base/digits.h"
#include "lib/json/text.h"

namespace triton::role {

namespace {

constexpr std::size_t sha256_digits = 64;

std::unexpected<Error> not_a_digest(std::string_view text) {
    return fail(ErrorKind::invalid, json::quoted(text, 100) + " is not sha256: and 64 lower-case hexadecimal digits");
}

/// Source: image-spec, descriptor.md: algorithm ::= component (separator component)*, encoded ::= [a-zA-Z0-9=_-]+
bool is_of_another_algorithm(std::string_view algorithm, std::string_view encoded) {
    auto const is_word = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'z'); };
    return !algorithm.empty() && algorithm != "sha256" && !encoded.empty() &&
           std::ranges::all_of(algorithm, [&](char c) { return is_word(c) || c == '+' || c == '.' || c == '-'; }) &&
           std::ranges::all_of(encoded, [&](char c) {
               return is_word(c) || (c >= 'A' && c <= 'Z') || c == '=' || c == '-' || c == '_';
           });
}

}  // namespace

bool is_lower_hex(std::string_view text, std::size_t digits) {
    return text.size() == digits &&
           std::ranges::all_of(text, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

Result<Digest> Digest::parse(std::string_view text) {
    std::size_t const colon = text.find(':');
    if (colon == std::string_view::npos) return not_a_digest(text);
    std::string_view const algorithm = text.substr(0, colon);
    std::string_view const encoded = text.substr(colon + 1);
    if (algorithm == "sha256" && is_lower_hex(encoded, sha256_digits)) return Digest(std::string(encoded));
    if (is_of_another_algorithm(algorithm, encoded))
        return fail(ErrorKind::unsupported,
                    "digest algorithm " + json::quoted(algorithm) + " is not supported; only sha256 is");
    return not_a_digest(text);
}

Result<Digest> Digest::of_hex(std::string_view hex) {
    if (!is_lower_hex(hex, sha256_digits)) return not_a_digest(hex);
    return Digest(std::string(hex));
}

}  // namespace triton::role

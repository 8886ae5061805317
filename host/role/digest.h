#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::role {

/// The SHA-256 of something, as "sha256:<64 lower-case hexadecimal digits>". A valid one may be used in a path or a
/// URL: no text becomes one unless it is one.
/// Source: image-spec, descriptor.md, "Digests".
class Digest {
public:
    /// That of no bytes at all: also a value that comes from nowhere is safe to use.
    Digest() : hex_("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") {}
    /// Errors: `unsupported` for another algorithm of a well-formed digest; `invalid` for all else (upper case, a
    /// wrong length, a slash).
    static Result<Digest> parse(std::string_view text);
    /// Of 64 hexadecimal digits alone. Errors: the same.
    static Result<Digest> of_hex(std::string_view hex);

    [[nodiscard]] std::string const& hex() const { return hex_; }
    [[nodiscard]] std::string text() const { return "sha256:" + hex_; }

    auto operator<=>(Digest const&) const = default;

private:
    explicit Digest(std::string hex) : hex_(std::move(hex)) {}
    std::string hex_;
};

/// Whether it is `digits` lower-case hexadecimal digits.
bool is_lower_hex(std::string_view text, std::size_t digits);

}  // namespace triton::role

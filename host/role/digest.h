#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::role {

/// A SHA-256 as "sha256:<64 lower-case hexadecimal digits>". It may be used in a path or a URL, because only a valid
/// text becomes a Digest.
/// Source: image-spec, descriptor.md, "Digests".
class Digest {
public:
    /// The digest of no bytes at all: so a default value is safe to use, too.
    Digest() : hex_("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") {}
    /// Errors: `unsupported` for a well-formed digest of another algorithm; `invalid` for everything else (upper case,
    /// a wrong length, a slash).
    static Result<Digest> parse(std::string_view text);
    /// Reads 64 hexadecimal digits alone. Errors: the same.
    static Result<Digest> of_hex(std::string_view hex);

    [[nodiscard]] std::string const& hex() const { return hex_; }
    [[nodiscard]] std::string text() const { return "sha256:" + hex_; }

    auto operator<=>(Digest const&) const = default;

private:
    explicit Digest(std::string hex) : hex_(std::move(hex)) {}
    std::string hex_;
};

/// Whether the text consists of `digits` lower-case hexadecimal digits.
bool is_lower_hex(std::string_view text, std::size_t digits);

}  // namespace triton::role

#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton {

/// A UUID in its canonical form: hexadecimal digits in lower case, in groups of 8, 4, 4, 4 and 12. It is safe as a name
/// of a file, of a tree and of a unit. Source: RFC 9562, section 4.
class Uuid {
public:
    using Bytes = std::array<std::uint8_t, 16>;

    /// The one of zeros only.
    Uuid() = default;
    /// Returns nullopt for anything else; upper-case digits become lower-case ones.
    static std::optional<Uuid> parse(std::string_view text);
    /// Version 4. Errors: those of getrandom(2).
    static Result<Uuid> random();
    /// These bytes, with the bits of the version and of the variant set.
    static Uuid of_bytes(Bytes bytes, std::uint8_t version);

    [[nodiscard]] std::string const& text() const { return text_; }
    [[nodiscard]] Bytes bytes() const;
    /// Without its dashes, as systemd writes the ID of a machine.
    [[nodiscard]] std::string digits() const;
    auto operator<=>(Uuid const&) const = default;

private:
    explicit Uuid(std::string text) : text_(std::move(text)) {}
    std::string text_ = "00000000-0000-0000-0000-000000000000";
};

}  // namespace triton

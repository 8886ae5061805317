#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::image {

/// A UUID in its one canonical form: lower-case hexadecimal, 8-4-4-4-12. Source: RFC 9562, section 4.
class Uuid {
public:
    /// Returns nullopt for anything else; upper-case digits become lower-case ones.
    static std::optional<Uuid> parse(std::string_view text);

    /// Version 5: the same name in the same space always has the same UUID. Source: RFC 9562, section 5.5.
    static Uuid of_name(Uuid const& space, std::string_view name);

    /// Version 4. Errors: those of getrandom(2).
    static Result<Uuid> random();

    [[nodiscard]] std::string const& text() const { return text_; }
    auto operator<=>(Uuid const&) const = default;

private:
    explicit Uuid(std::string text) : text_(std::move(text)) {}
    std::string text_;
};

/// The space in which an image that comes without a UUID gets one, from what it holds.
Uuid const& image_space();

}  // namespace triton::image

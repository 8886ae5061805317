#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::machine {

/// A uuid in its canonical form: hexadecimal digits in lower case, in groups of 8, 4, 4, 4 and 12. It is safe as a name
/// of a file, of a tree and of a unit. Source: RFC 9562, section 4.
class Uuid {
public:
    /// The one of zeros only.
    Uuid() = default;
    /// Upper case is taken too. Errors: `invalid`, `"web" is not a UUID`.
    static Result<Uuid> parse(std::string_view text);
    /// A new one of version 4. Errors: those of getrandom(2).
    static Result<Uuid> random();

    [[nodiscard]] std::string const& text() const { return text_; }
    /// Without its dashes, as systemd writes the ID of a machine.
    [[nodiscard]] std::string digits() const;
    auto operator<=>(Uuid const&) const = default;

private:
    explicit Uuid(std::string text) : text_(std::move(text)) {}
    std::string text_ = "00000000-0000-0000-0000-000000000000";
};

/// Bytes that nobody can guess. Errors: those of getrandom(2).
Result<std::string> random_bytes(std::size_t count);

}  // namespace triton::machine

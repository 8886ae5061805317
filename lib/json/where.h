#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace triton::json {

/// Where a value is in a document. Lives on the stack and costs nothing until a problem prints it.
/// The default-constructed one is the document itself; a field is `Where{&at, "type"}`, an element `Where{&at, i}`.
struct Where {
    using Step = std::variant<std::string_view, std::size_t>;

    Where const* parent = nullptr;
    Step step;

    /// "arguments[3].values[1].type"; empty for the document itself.
    [[nodiscard]] std::string text() const;
};

/// Appends one step to such a text: ".type", "[3]". A name that would be hard to read is quoted and shortened.
void append_step(std::string& path, Where::Step const& step);

}  // namespace triton::json

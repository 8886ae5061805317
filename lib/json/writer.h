#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/clock.h"
#include "lib/json/reader.h"

namespace triton::json {

/// Whitespace between the parts of an object or array.
enum class Spacing : std::uint8_t {
    none,
    blanks,  ///< one after each comma and colon, for clients that compare the text
};

/// Writes JSON: commas by itself, any bytes as valid text. The caller closes what it opens.
class Writer {
public:
    Writer() = default;
    explicit Writer(Spacing spacing) : spacing_(spacing) {}

    Writer& open(char bracket);
    Writer& close(char bracket);
    /// `name`: a literal that needs no escapes.
    Writer& key(std::string_view name);
    /// The key of a map: any text.
    Writer& name(std::string_view text);

    Writer& value(std::string_view text);
    Writer& value(char const* text) { return value(std::string_view(text)); }  // or it would become a bool
    Writer& value(bool flag) { return raw(flag ? "true" : "false"); }
    template <std::integral Number>
        requires(!std::same_as<Number, bool>)
    Writer& value(Number number) {
        return raw(std::to_string(number));
    }
    /// Seconds with three digits. Not by a library: those know locales.
    Writer& value(Duration duration);
    /// A value that was read. A number keeps its text.
    Writer& value(Node const& node);
    Writer& value(Object const& object);
    /// Microseconds since 1970 as seconds. A double of today keeps all six digits.
    Writer& seconds(std::int64_t microseconds);
    /// Text that is already JSON.
    Writer& raw(std::string_view json);

    /// One key, which needs no escapes, with its value.
    template <class T>
    Writer& member(std::string_view name, T const& content) {
        return key(name).value(content);
    }
    template <class List>
    Writer& list(List const& items) {
        open('[');
        for (auto const& item : items)
            value(item);
        return close(']');
    }

    [[nodiscard]] std::size_t size() const { return text_.size(); }
    [[nodiscard]] std::string const& text() const& { return text_; }
    [[nodiscard]] std::string text() && { return std::move(text_); }

    /// Takes back everything that was written since size() was `size` and a member or element was complete.
    void rewind(std::size_t size) {
        text_.resize(size);
        needs_comma_ = true;
    }

private:
    void separate();
    Writer& colon();

    std::string text_;
    Spacing spacing_ = Spacing::none;
    bool needs_comma_ = false;
};

}  // namespace triton::json

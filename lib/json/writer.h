#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/json/text.h"

namespace triton::json {

/// Writes JSON: commas by itself, any bytes as valid text. The caller closes what it opens.
class Writer {
public:
    Writer& open(char bracket) {
        separate();
        text_ += bracket;
        needs_comma_ = false;
        return *this;
    }
    Writer& close(char bracket) {
        text_ += bracket;
        needs_comma_ = true;
        return *this;
    }
    /// `name`: a literal that needs no escapes.
    Writer& key(std::string_view name) {
        separate();
        text_.append("\"").append(name).append("\":");
        needs_comma_ = false;
        return *this;
    }
    /// The key of a map: any text.
    Writer& name(std::string_view text) {
        value(text);
        text_ += ':';
        needs_comma_ = false;
        return *this;
    }
    Writer& value(std::string_view text) {
        separate();
        json::append_json_string(text_, text);
        return *this;
    }
    Writer& value(std::int64_t number) { return raw(std::to_string(number)); }
    Writer& value(bool flag) { return raw(flag ? "true" : "false"); }
    Writer& value(char const* text) = delete;  // it would become a bool
    /// Seconds with three digits. Not by a library: those know locales.
    Writer& value(Duration duration);
    /// Microseconds since 1970 as seconds. A double of today keeps all six digits.
    Writer& seconds(std::int64_t microseconds);
    /// What is JSON already.
    Writer& raw(std::string_view json) {
        separate();
        text_ += json;
        return *this;
    }
    template <class List>
    Writer& list(List const& items) {
        open('[');
        for (auto const& item : items)
            value(item);
        return close(']');
    }

    [[nodiscard]] std::size_t size() const { return text_.size(); }
    [[nodiscard]] std::string const& text() const { return text_; }

private:
    void separate() {
        if (needs_comma_) text_ += ',';
        needs_comma_ = true;
    }

    std::string text_;
    bool needs_comma_ = false;
};

inline Writer& Writer::value(Duration duration) {
    auto const count =
        std::chrono::round<milliseconds>(duration < Duration::zero() ? Duration::zero() : duration).count();
    std::string digits = std::to_string(count % 1000);
    return raw(std::to_string(count / 1000) + "." + std::string(3 - digits.size(), '0') + digits);
}

inline Writer& Writer::seconds(std::int64_t microseconds) {
    if (microseconds < 0) microseconds = 0;
    std::string digits = std::to_string(microseconds % 1'000'000);
    return raw(std::to_string(microseconds / 1'000'000) + "." + std::string(6 - digits.size(), '0') + digits);
}

}  // namespace triton::json

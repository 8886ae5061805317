#include "lib/json/writer.h"

#include <algorithm>

#include "lib/json/text.h"

namespace triton::json {

namespace {

/// `number` with zeros in front.
std::string digits(std::int64_t number, std::size_t width) {
    std::string const text = std::to_string(number);
    return std::string(width - std::min(width, text.size()), '0') + text;
}

}  // namespace

void Writer::separate() {
    if (needs_comma_) text_ += spacing_ == Spacing::none ? "," : ", ";
    needs_comma_ = true;
}

Writer& Writer::colon() {
    text_ += spacing_ == Spacing::none ? ":" : ": ";
    needs_comma_ = false;
    return *this;
}

Writer& Writer::open(char bracket) {
    separate();
    text_ += bracket;
    needs_comma_ = false;
    return *this;
}

Writer& Writer::close(char bracket) {
    text_ += bracket;
    needs_comma_ = true;
    return *this;
}

Writer& Writer::key(std::string_view name) {
    separate();
    text_.append("\"").append(name).append("\"");
    return colon();
}

Writer& Writer::name(std::string_view text) { return value(text).colon(); }

Writer& Writer::value(std::string_view text) {
    separate();
    append_json_string(text_, text);
    return *this;
}

Writer& Writer::value(Duration duration) {
    auto const count = std::chrono::round<milliseconds>(std::max(duration, Duration::zero())).count();
    return raw(std::to_string(count / 1000) + "." + digits(count % 1000, 3));
}

Writer& Writer::seconds(std::int64_t microseconds) {
    microseconds = std::max<std::int64_t>(microseconds, 0);
    return raw(std::to_string(microseconds / 1'000'000) + "." + digits(microseconds % 1'000'000, 6));
}

Writer& Writer::raw(std::string_view json) {
    separate();
    text_ += json;
    return *this;
}

/// Recurses as deeply as the reader has allowed.
Writer& Writer::value(Node const& node) {
    if (auto const* const flag = node.get<bool>()) return value(*flag);
    if (auto const* const number = node.get<std::int64_t>()) return value(*number);
    if (auto const* const odd = node.get<OddNumber>()) return raw(odd->text);
    if (auto const* const text = node.get<std::string>()) return value(std::string_view(*text));
    if (auto const* const elements = node.get<Array>()) return list(*elements);
    if (auto const* const members = node.get<Object>()) return value(*members);
    return raw("null");
}

Writer& Writer::value(Object const& object) {
    open('{');
    for (Member const& one : object)
        name(one.key).value(one.node);
    return close('}');
}

}  // namespace triton::json

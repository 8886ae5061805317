#include "lib/json/lookup.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace triton::json {

Node const* member(Object const& object, std::string_view name) {
    auto const found = std::ranges::find(object, name, &Member::key);
    return found == object.end() ? nullptr : &found->node;
}

Node const* member(Node const& object, std::string_view name) {
    auto const* const members = object.get<Object>();
    return members ? member(*members, name) : nullptr;
}

std::optional<double> real_of(Node const& number) {
    if (auto const* const whole = number.get<std::int64_t>()) return static_cast<double>(*whole);
    auto const* const odd = number.get<OddNumber>();
    if (!odd) return std::nullopt;
    // from_chars() would cost a static program 90 kB. Nobody here calls setlocale(), so strtod() expects a point.
    double const value = std::strtod(odd->text.c_str(), nullptr);
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Array const& list_of(Object const& object, std::string_view name) {
    static Array const none;
    auto const* const list = value_of<Array>(object, name);
    return list ? *list : none;
}

Object const& object_of(Object const& object, std::string_view name) {
    static Object const none;
    auto const* const inner = value_of<Object>(object, name);
    return inner ? *inner : none;
}

}  // namespace triton::json

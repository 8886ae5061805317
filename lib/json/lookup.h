#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/json/reader.h"

/// Members of foreign objects, for callers that accept them as they come: a member that is not there
/// and one of another type are the same. Documents that are checked have a table (table.h).
namespace triton::json {

/// Null: there is none of that name.
Node const* member(Object const& object, std::string_view name);
/// Null: also when it is not an object.
Node const* member(Node const& object, std::string_view name);

/// The same with a type; null when it has another.
template <class T, class Holder>
T const* value_of(Holder const& object, std::string_view name) {
    Node const* const node = member(object, name);
    return node ? node->template get<T>() : nullptr;
}

template <class Holder>
std::string text_of(Holder const& object, std::string_view name) {
    auto const* const text = value_of<std::string>(object, name);
    return text ? *text : std::string();
}

template <class Holder>
std::optional<std::int64_t> number_of(Holder const& object, std::string_view name) {
    auto const* const number = value_of<std::int64_t>(object, name);
    return number ? std::optional(*number) : std::nullopt;
}

/// Of a number with or without a fraction.
std::optional<double> real_of(Node const& number);
template <class Holder>
std::optional<double> real_of(Holder const& object, std::string_view name) {
    Node const* const node = member(object, name);
    return node ? real_of(*node) : std::nullopt;
}

template <class Holder>
bool flag_of(Holder const& object, std::string_view name) {
    auto const* const flag = value_of<bool>(object, name);
    return flag && *flag;
}

/// An empty one when there is none.
Array const& list_of(Object const& object, std::string_view name);
Object const& object_of(Object const& object, std::string_view name);

}  // namespace triton::json

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/json/table.h"
#include "lib/json/writable_row.h"
#include "lib/json/writer.h"

namespace triton::machine {

template <class Object>
using Write = json::WriteMember<Object>;
template <class Object>
using Row = json::WritableRow<Object>;

// Writes the values of machines; other areas have kinds that do this themselves.

inline void write_value(json::Writer& out, std::string const& text) { out.value(std::string_view(text)); }
inline void write_value(json::Writer& out, bool flag) { out.value(flag); }
inline void write_value(json::Writer& out, std::int64_t number) { out.value(number); }
inline void write_value(json::Writer& out, json::Object const& object) { out.value(object); }
template <class T>
    requires requires(T const& value) { value.text().data(); }
void write_value(json::Writer& out, T const& value) {
    out.value(std::string_view(value.text()));
}
template <class T>
    requires requires { table(json::TableOf<T, json::Reading>{}); }
void write_value(json::Writer& out, T const& object) {
    json::write_rows(out, object);
}
template <class T>
void write_value(json::Writer& out, std::vector<T> const& list) {
    out.open('[');
    for (T const& element : list)
        write_value(out, element);
    out.close(']');
}

/// When a member is shown.
enum class Shown : std::uint8_t {
    when_set,  ///< an optional with a value, a list or a text that is not empty, anything else
    always,
    when_true,
};

template <class T>
bool is_set(std::optional<T> const& value) {
    return value.has_value();
}
template <class T>
bool is_set(T const& value) {
    if constexpr (requires { value.empty(); }) return !value.empty();
    return true;
}

template <class T>
T const& content(std::optional<T> const& value) {
    return *value;
}
template <class T>
T const& content(T const& value) {
    return value;  // NOLINT(bugprone-return-const-ref-from-parameter): of a member
}

template <class T>
bool is_true(T const& value) {
    if constexpr (requires { value == std::optional(true); }) return value == std::optional(true);
    return false;
}

template <auto Member, Shown shown, class Object>
void write_member(std::string_view name, Object const& object, json::Writer& out) {
    auto const& value = object.*Member;
    if (shown == Shown::when_set && !is_set(value)) return;
    if (shown == Shown::when_true && !is_true(value)) return;
    out.key(name);
    write_value(out, content(value));
}

template <auto Member, class Object>
void clear_member(Object& object) {
    object.*Member = std::remove_cvref_t<decltype(object.*Member)>{};
}

template <auto Member, class Kind, class Object>
constexpr Row<Object> row_of(std::string_view name, std::string_view description,
                             json::Need need = json::Need::optional) {
    return {.name = name,
            .need = need,
            .value = json::as<Member, Kind>,
            .description = description,
            .write = write_member<Member, Shown::when_set, Object>,
            .clear = clear_member<Member, Object>};
}

}  // namespace triton::machine

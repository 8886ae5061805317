#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "host/role/channel.h"
#include "host/role/digest.h"
#include "lib/base/error_kinds.h"
#include "lib/base/result.h"
#include "lib/json/table.h"
#include "lib/json/values.h"
#include "lib/json/writable_row.h"
#include "lib/json/writer.h"

namespace triton::role {

/// Messages between the library and a role. Each is an object with one member, the message's name and its content:
/// {"range":{"id":1,"offset":0,"length":4096}}. A message is a struct with `static constexpr std::string_view name` and
/// one table, from which reader and writer are made:
///
///     std::span<Row<Range> const> table(json::TableOf<Range>) {
///         static constexpr std::array<Row<Range>, 2> rows{{
///             required<&Range::id, Id>("id"),
///             optional<&Range::length, Count>("length"),
///         }};
///         return rows;
///     }
///
/// The reader accepts only what the writer writes: unknown keys, keys given twice and further members are errors. It is
/// as strict with the library as with a role.
template <class Object>
using Row = json::WritableRow<Object>;

/// A kind of value in messages: it has read() and write(), and a Shape.
using Count = json::Integer<std::uint64_t, 0, INT64_MAX>;
using Id = json::Integer<std::uint32_t, 0, UINT32_MAX>;
using Flag = json::Boolean;

std::optional<std::string> read_string(json::Node const& node, json::Where const& at, json::Reading& reading);
/// Any text, including an empty one.
using String = json::Kind<read_string, json::any_text>;

inline constexpr json::Shape digest_shape{.types = "string", .pattern = "^sha256:[0-9a-f]{64}$"};
std::optional<Digest> read_digest(json::Node const& node, json::Where const& at, json::Reading& reading);
using DigestText = json::Kind<read_digest, digest_shape>;

inline constexpr json::Shape sha1_shape{.types = "string", .pattern = "^[0-9a-f]{40}$"};
std::optional<std::string> read_sha1(json::Node const& node, json::Where const& at, json::Reading& reading);
using Sha1Text = json::Kind<read_sha1, sha1_shape>;

/// One of the names; the enum has its values in the same order.
template <class Enum, auto const& names>
struct Name {
    static constexpr json::Shape const& shape = json::Choice<Enum, names>::shape;
    static constexpr auto read = json::Choice<Enum, names>::read;
    static void write(json::Writer& writer, Enum value) { writer.value(names[static_cast<std::size_t>(value)]); }
};

inline constexpr auto error_kind_names = [] {
    std::array<std::string_view, error_kinds.size()> names{};
    for (std::size_t i = 0; i < names.size(); ++i)
        names[i] = error_kinds[i].name;
    return names;
}();
using ErrorKindName = Name<ErrorKind, error_kind_names>;

/// An array of at most `most` elements.
template <class Element, std::size_t most>
struct ListOf {
    static constexpr json::Shape shape{.types = "array", .elements = &Element::shape};
    static auto read(json::Node const& node, json::Where const& at, json::Reading& reading)
        -> decltype(json::List<Element>::read(node, at, reading)) {
        auto list = json::List<Element>::read(node, at, reading);
        if (list && list->size() > most)
            reading.problems.add(at, "has more than " + std::to_string(most) + " elements");
        return list;
    }
    template <class T>
    static void write(json::Writer& writer, std::vector<T> const& list);
};

/// An object by its table.
template <class T>
struct ObjectOf {
    static constexpr json::Shape shape{.types = "object"};
    static std::optional<T> read(json::Node const& node, json::Where const& at, json::Reading& reading) {
        return json::read_object<T>(node, at, reading);
    }
    static void write(json::Writer& writer, T const& object) { json::write_rows(writer, object); }
};

template <class Kind, class T>
void write_value(json::Writer& writer, T const& value) {
    if constexpr (requires { Kind::write(writer, value); })
        Kind::write(writer, value);
    else if constexpr (std::same_as<T, Digest>)
        writer.value(value.text());
    else
        writer.value(value);
}

template <class Element, std::size_t most>
template <class T>
void ListOf<Element, most>::write(json::Writer& writer, std::vector<T> const& list) {
    writer.open('[');
    for (T const& element : list)
        write_value<Element>(writer, element);
    writer.close(']');
}

template <auto Member>
struct MemberOf;
template <class Object, class T, T Object::* Member>
struct MemberOf<Member> {
    using ObjectType = Object;
    using Type = T;
};

template <auto Member, class Kind>
constexpr auto row(std::string_view name, json::Need need) {
    using Object = MemberOf<Member>::ObjectType;
    return Row<Object>{.name = name,
                       .need = need,
                       .value = json::as<Member, Kind>,
                       .write = [](std::string_view key, Object const& object, json::Writer& writer) {
                           auto const& value = object.*Member;
                           if constexpr (requires { value.has_value(); }) {
                               if (value) write_value<Kind>(writer.key(key), *value);
                           } else {
                               write_value<Kind>(writer.key(key), value);
                           }
                       }};
}

/// A key that is always there.
template <auto Member, class Kind>
constexpr auto required(std::string_view name) {
    return row<Member, Kind>(name, json::Need::required);
}
/// A key that may be absent: a std::optional, or a member with a default.
template <auto Member, class Kind>
constexpr auto optional(std::string_view name) {
    return row<Member, Kind>(name, json::Need::optional);
}

template <class Message>
std::string encode(Message const& message) {
    json::Writer writer;
    writer.open('{').key(Message::name);
    ObjectOf<Message>::write(writer, message);
    return std::move(writer.close('}')).text();
}

/// Reads the one member of a message. Errors: `corrupt`: "message is not an object with one member", what is wrong with
/// the JSON.
Result<json::Member> read_envelope(std::string_view text, std::size_t most_bytes = most_message_bytes);
/// Errors: `corrupt`: "message \"range\" is malformed: id: required key is missing", with all problems.
std::unexpected<Error> malformed(std::string_view name, json::Reading&& reading);
/// Errors: `corrupt`: "message \"rnage\" is not expected here".
std::unexpected<Error> unexpected_message(std::string_view name);
inline constexpr std::size_t most_problems = 5;

/// Reads one of these messages. Errors: `corrupt`, as above.
template <class... Messages>
Result<std::variant<Messages...>> decode(std::string_view text, std::size_t most_bytes = most_message_bytes) {
    json::Member const member = TRY(read_envelope(text, most_bytes));
    json::Reading reading(most_problems);
    std::optional<std::variant<Messages...>> found;
    bool is_known = false;
    auto const try_one = [&]<class Message>(std::type_identity<Message>) {
        if (member.key != Message::name) return;
        is_known = true;
        if (auto message = ObjectOf<Message>::read(member.node, json::Where{}, reading)) found = *std::move(message);
    };
    (try_one(std::type_identity<Messages>{}), ...);
    if (!is_known) return unexpected_message(member.key);
    if (!found || !reading.problems.empty() || !reading.warnings.empty())
        return malformed(member.key, std::move(reading));
    return *std::move(found);
}

/// Sends a message, up to the deadline. Errors: those of Channel::send().
template <class Message>
Result<> send(Channel& channel, Message const& message, TimePoint deadline, std::span<int const> descriptors = {}) {
    return channel.send(encode(message), descriptors, deadline);
}

}  // namespace triton::role

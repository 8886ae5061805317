#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/json/table.h"

namespace triton::json {

/// Kinds of values that many documents have. Each read_..() returns nullopt exactly when it has added a problem.

std::string const* expect_string(Node const& node, Where const& at, Reading& reading);
std::int64_t const* expect_integer(Node const& node, Where const& at, Reading& reading);

inline constexpr Shape any_text{.types = "string", .pattern = R"(^[^\u0000]*$)"};
inline constexpr Shape any_integer{.types = "integer", .lowest = INT64_MIN, .highest = INT64_MAX};

inline constexpr Shape boolean{.types = "boolean"};
std::optional<bool> read_boolean(Node const& node, Where const& at, Reading& reading);
using Boolean = Kind<read_boolean, boolean>;

/// A string that is not empty.
inline constexpr Shape some_text{.types = "string", .shortest = 1, .pattern = R"(^[^\u0000]*$)"};
std::optional<std::string> read_text(Node const& node, Where const& at, Reading& reading);
using Text = Kind<read_text, some_text>;

inline constexpr Shape absolute_path{.types = "string", .pattern = R"(^/[^\u0000]*$)"};
std::optional<std::string> read_absolute_path(Node const& node, Where const& at, Reading& reading);
using Path = Kind<read_absolute_path, absolute_path>;

/// "10s", at most a year: a sum of a few of them still fits every clock.
inline constexpr Shape duration_text{.types = "string",
                                     .pattern = R"(^([0-9]+(\.[0-9]+)?(h|m|s|ms|us|ns))+$|^[0-9]+(\.[0-9]+)?$)"};
std::optional<milliseconds> read_duration(Node const& node, Where const& at, Reading& reading);
std::optional<milliseconds> read_duration_above_zero(Node const& node, Where const& at, Reading& reading);
using DurationText = Kind<read_duration, duration_text>;
using DurationAboveZero = Kind<read_duration_above_zero, duration_text>;

/// Bytes, as an integer or as a text ("64Mi").
inline constexpr Shape size_text{
    .types = "integer or string", .lowest = 1, .pattern = R"(^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$)"};
std::optional<std::uint64_t> read_size(Node const& node, Where const& at, Reading& reading);
std::optional<std::uint64_t> read_size_above_zero(Node const& node, Where const& at, Reading& reading);
using Size = Kind<read_size_above_zero, size_text>;

std::optional<std::int64_t> read_integer_within(Node const& node, Where const& at, std::int64_t lowest,
                                                std::int64_t highest, Reading& reading);
/// `range`: "0.01 to 10", for the message: to_chars() of a double would take 100 kB of a static binary.
std::optional<double> read_number_within(Node const& node, Where const& at, double lowest, double highest,
                                         std::string_view range, Reading& reading);
/// "0027": octal digits, up to `highest`.
std::optional<std::uint32_t> read_octal(Node const& node, Where const& at, std::uint32_t highest, Reading& reading);
std::optional<std::size_t> read_choice_index(Node const& node, Where const& at,
                                             std::span<std::string_view const> choices, Reading& reading);

template <class T, std::int64_t lowest, std::int64_t highest>
struct Integer {
    static_assert(std::in_range<T>(lowest) && std::in_range<T>(highest));
    static constexpr Shape shape{.types = "integer", .lowest = lowest, .highest = highest};
    static std::optional<T> read(Node const& node, Where const& at, Reading& reading) {
        auto const value = read_integer_within(node, at, lowest, highest, reading);
        return value ? std::optional(static_cast<T>(*value)) : std::nullopt;
    }
};

template <int lowest, int highest>
struct Number {
    static constexpr Shape shape{.types = "number", .lowest = lowest, .highest = highest};
    static std::optional<double> read(Node const& node, Where const& at, Reading& reading) {
        return read_number_within(node, at, lowest, highest, std::to_string(lowest) + " to " + std::to_string(highest),
                                  reading);
    }
};

template <std::uint32_t highest>
struct Octal {
    static constexpr Shape shape{.types = "string", .pattern = "^[0-7]+$"};
    static std::optional<std::uint32_t> read(Node const& node, Where const& at, Reading& reading) {
        return read_octal(node, at, highest, reading);
    }
};

/// One of the names; the enum has its values in the same order.
template <class Enum, auto const& names>
struct Choice {
    static constexpr Shape shape{.types = "string", .choices = names};
    static std::optional<Enum> read(Node const& node, Where const& at, Reading& reading) {
        auto const index = read_choice_index(node, at, names, reading);
        return index ? std::optional(static_cast<Enum>(*index)) : std::nullopt;
    }
};

/// Errors: "expected an array, for example [\"sh\", \"-c\"], found string", of the words that were found in its place.
Array const* expect_array(Node const& node, Where const& at, Reading& reading);

/// An array; unreadable elements are left out.
template <class Element>
struct List {
    static constexpr Shape shape{.types = "array", .elements = &Element::shape};
    template <class Context>
    static auto read(Node const& node, Where const& at, Context& context) {
        using One = decltype(Element::read(node, at, context))::value_type;
        std::optional<std::vector<One>> list;
        auto const* const array = expect_array(node, at, context);
        if (!array) return list;
        list.emplace();
        for (std::size_t i = 0; i < array->size(); ++i) {
            if (auto element = Element::read((*array)[i], Where{&at, i}, context)) list->push_back(std::move(*element));
        }
        return list;
    }
};

}  // namespace triton::json

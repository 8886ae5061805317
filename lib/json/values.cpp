#include "lib/json/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lib/base/duration.h"
#include "lib/base/size.h"
#include "lib/json/lookup.h"

namespace triton::json {

namespace {

constexpr milliseconds longest_duration = std::chrono::hours(365 * 24);

/// A number's text for a message; a long one is cut and ends in "...".
std::string shortened(std::string const& text) { return text.size() > 40 ? text.substr(0, 40) + "..." : text; }

/// The value of a JSON number; NaN when the node is not a number or does not fit into a double.
double real_or_nan(Node const& node) { return real_of(node).value_or(std::nan("")); }

bool is_number(Node const& node) { return node.kind() == "number"; }

/// What stands in the place of an array, as one: the words of a short plain text, or a number. Empty: neither.
std::string array_example(Node const& node) {
    if (auto const* const number = node.get<std::int64_t>()) return "[" + std::to_string(*number) + "]";
    auto const* const text = node.get<std::string>();
    constexpr std::size_t longest = 60;
    if (!text || text->size() > longest || text->find_first_of("\"'\\`$") != text->npos) return {};
    std::string list;
    for (std::string_view rest = *text; !rest.empty();) {
        std::size_t const end = std::min(rest.find(' '), rest.size());
        if (end > 0) list.append(list.empty() ? "" : ", ").append(quoted(rest.substr(0, end)));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return list.empty() ? "" : "[" + list + "]";
}

std::string shown_node(Node const& node) {
    auto const* const odd = node.get<OddNumber>();
    return odd ? shortened(odd->text) : std::to_string(*node.get<std::int64_t>());
}

}  // namespace

std::string const* expect_string(Node const& node, Where const& at, Reading& reading) {
    return expect<std::string>("a string", node, at, reading);
}

std::int64_t const* expect_integer(Node const& node, Where const& at, Reading& reading) {
    auto const* const odd = node.get<OddNumber>();
    if (!odd) return expect<std::int64_t>("an integer", node, at, reading);
    bool const is_integer = odd->text.find_first_not_of("-0123456789") == std::string::npos;
    std::string const shown = shortened(odd->text);
    reading.problems.add(
        at, is_integer ? shown + " is beyond a 64-bit signed integer" : "expected an integer, found " + shown);
    return nullptr;
}

Array const* expect_array(Node const& node, Where const& at, Reading& reading) {
    std::string const example = node.get<Array>() ? "" : array_example(node);
    return expect<Array>(example.empty() ? "an array" : "an array, for example " + example, node, at, reading);
}

std::optional<bool> read_boolean(Node const& node, Where const& at, Reading& reading) {
    bool const* const value = expect<bool>("a boolean", node, at, reading);
    return value ? std::optional(*value) : std::nullopt;
}

std::optional<std::string> read_text(Node const& node, Where const& at, Reading& reading) {
    std::string const* const text = expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (!text->empty()) return *text;
    reading.problems.add(at, "must not be empty");
    return std::nullopt;
}

std::optional<std::string> read_absolute_path(Node const& node, Where const& at, Reading& reading) {
    auto path = read_text(node, at, reading);
    if (!path || path->starts_with('/')) return path;
    reading.problems.add(at, quoted(*path) + " is not an absolute path");
    return std::nullopt;
}

std::optional<milliseconds> read_duration(Node const& node, Where const& at, Reading& reading) {
    auto const* const text = expect<std::string>("a duration as a string (\"10s\")", node, at, reading);
    if (!text) return std::nullopt;
    auto const duration = parse_duration(*text);
    std::string fault;
    if (!duration) {
        fault = " is not a duration (for example 500ms, 10s, 1m30s)";
    } else if (*duration > longest_duration) {
        fault = " is longer than a year";
    } else if (*duration % milliseconds(1) != std::chrono::nanoseconds(0)) {
        fault = " is finer than a millisecond";
    } else {
        return std::chrono::duration_cast<milliseconds>(*duration);
    }
    reading.problems.add(at, quoted(*text) + fault);
    return std::nullopt;
}

std::optional<milliseconds> read_duration_above_zero(Node const& node, Where const& at, Reading& reading) {
    auto const duration = read_duration(node, at, reading);
    if (duration != milliseconds(0)) return duration;
    reading.problems.add(at, "must be more than 0");
    return std::nullopt;
}

std::optional<std::uint64_t> read_size(Node const& node, Where const& at, Reading& reading) {
    if (auto const* const bytes = node.get<std::int64_t>(); bytes && *bytes >= 0)
        return static_cast<std::uint64_t>(*bytes);
    auto const* const text = node.get<std::string>();
    if (!text && !is_number(node)) {
        reading.problems.add(at, std::string("expected a size (bytes, or \"64Mi\"), found ").append(node.kind()));
        return std::nullopt;
    }
    auto const size = text ? parse_size(*text) : std::nullopt;
    if (!size) {
        reading.problems.add(
            at, (text ? quoted(*text) : shown_node(node)) + " is not a size (for example 4096, \"64Mi\", \"1.5G\")");
    }
    return size;
}

std::optional<std::uint64_t> read_size_above_zero(Node const& node, Where const& at, Reading& reading) {
    auto const size = read_size(node, at, reading);
    if (size != 0U) return size;
    reading.problems.add(at, "must be more than 0");
    return std::nullopt;
}

std::optional<std::uint32_t> read_octal(Node const& node, Where const& at, std::uint32_t highest, Reading& reading) {
    auto const* const text = expect<std::string>("an octal number as a string (\"0027\")", node, at, reading);
    if (!text) return std::nullopt;
    std::uint32_t number = 0;
    char const* const last = text->data() + text->size();
    auto const [end, error] = std::from_chars(text->data(), last, number, 8);
    if (error == std::errc{} && end == last && number <= highest) return number;
    std::array<char, 16> digits;
    auto const digits_end = std::to_chars(digits.data(), digits.data() + digits.size(), highest, 8).ptr;
    reading.problems.add(at,
                         quoted(*text) + " is not an octal number from 0 to " + std::string(digits.data(), digits_end));
    return std::nullopt;
}

std::optional<std::int64_t> read_integer_within(Node const& node, Where const& at, std::int64_t lowest,
                                                std::int64_t highest, Reading& reading) {
    std::int64_t const* const value = expect_integer(node, at, reading);
    if (!value) return std::nullopt;
    if (*value >= lowest && *value <= highest) return *value;
    reading.problems.add(
        at, std::to_string(*value) + " is not within " + std::to_string(lowest) + " to " + std::to_string(highest));
    return std::nullopt;
}

std::optional<double> read_number_within(Node const& node, Where const& at, double lowest, double highest,
                                         std::string_view range, Reading& reading) {
    if (!is_number(node)) {
        reading.problems.add(at, std::string("expected a number, found ").append(node.kind()));
        return std::nullopt;
    }
    double const number = real_or_nan(node);
    if (number >= lowest && number <= highest) return number;  // written so that NaN is refused too
    reading.problems.add(at, shown_node(node) + " is not within " + std::string(range));
    return std::nullopt;
}

std::optional<std::size_t> read_choice_index(Node const& node, Where const& at,
                                             std::span<std::string_view const> choices, Reading& reading) {
    std::string const* const text = node.get<std::string>();
    auto const row = text ? std::ranges::find(choices, *text) : choices.end();
    if (row != choices.end()) return static_cast<std::size_t>(row - choices.begin());
    std::string all;
    for (std::string_view const choice : choices)
        all.append(all.empty() ? "" : ", ").append(choice);
    if (!text) {
        reading.problems.add(at, "expected one of " + all + ", found " + std::string(node.kind()));
        return std::nullopt;
    }
    reading.problems.add(at, quoted(*text) + " is not one of " + all + suggestion(*text, choices));
    return std::nullopt;
}

}  // namespace triton::json

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/json/limits.h"
#include "lib/json/problem.h"

namespace triton::json {

struct Node;
struct Member;

struct Null {};
/// A number that is not a 64-bit signed integer, as it was written.
struct OddNumber {
    std::string text;
};
using Array = std::vector<Node>;
using Object = std::vector<Member>;  // in the document's order, duplicates included

/// A JSON value. Unlike the library's own it keeps duplicate keys, and the text of numbers that would lose digits.
struct Node {
    std::variant<Null, bool, std::int64_t, OddNumber, std::string, Array, Object> value;

    /// "null", "boolean", "number", "string", "array" or "object".
    [[nodiscard]] std::string_view kind() const;

    template <class T>
    [[nodiscard]] T const* get() const {
        return std::get_if<T>(&value);
    }
};

struct Member {
    std::string key;
    Node node;
};

/// Reads one JSON document (RFC 8259, UTF-8 without BOM).
/// Returns: nullopt when it cannot be read; then `problems` says why: "line 2, column 7: ..." for syntax and encoding,
/// the limits on bytes, depth and number of values. Duplicate keys and NUL bytes are problems that do not hinder
/// reading on.
std::optional<Node> read_json(std::string_view text, Limits const& limits, ProblemList& problems);

}  // namespace triton::json

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace triton::json {

/// What a value may be, as far as a JSON Schema can say it. The schema and the reference page are made from it; a
/// reader takes its limits from the same constants (lib/json/values.h has both side by side).
struct Shape {
    std::string_view types = {};  ///< "string", "string or array"; empty: the definition says it
    std::optional<std::int64_t> lowest = {};
    std::optional<std::int64_t> highest = {};
    std::string_view least = {};  ///< a lowest number that is not an integer: "0.01"
    std::size_t shortest = 0;     ///< of a text, in characters
    std::size_t longest = 0;      ///< 0: no limit
    std::string_view pattern = {};
    std::span<std::string_view const> choices = {};  ///< only these are good
    std::span<std::string_view const> words = {};    ///< only these are good as a text; other types are good too
    std::size_t fewest = 0;                          ///< elements
    Shape const* elements = nullptr;                 ///< of an array, or of a map
    std::string_view names = {};                     ///< pattern of the keys of a map
    std::string_view definition = {};                ///< the object is described under this name
    std::string_view section = {};                   ///< of the reference page, when it is not the definition's name
    std::string_view further = {};                   ///< further members of the schema, without a comma before them
};

/// An object that is described under a name.
constexpr Shape object_shape(std::string_view definition) { return {.types = "object", .definition = definition}; }

}  // namespace triton::json

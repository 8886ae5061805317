#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace re2 {
class RE2;
}

namespace triton::machine {

struct Property;

/// The forms in which `vmadm` shows machines. A machine here is the object that `vmadm get` shows.

/// A condition on a machine: "alias=web0", "alias=~^web", "nics.*.ip=10.0.0.1".
class Filter {
public:
    static constexpr std::size_t longest_pattern = 1000;

    /// `what`: "filter" or "lookup", for the message.
    /// Errors: invalid: `Invalid filter key: "x"`; `state: "runing" is not a state; did you mean "running"?`; `alias:
    /// "(" is not a regular expression`; a pattern of more than longest_pattern bytes; text without "=".
    static Result<Filter> parse(std::string_view text, std::string_view what);

    /// Takes time that is linear in the length of the machine's texts, whatever the pattern.
    [[nodiscard]] bool matches(json::Node const& machine) const;
    /// The property that it looks at: "nics" for "nics.*.ip".
    [[nodiscard]] std::string_view property() const;
    [[nodiscard]] bool is_pattern() const { return pattern_ != nullptr; }

private:
    Result<> compile(std::string_view pattern);
    Result<> normalise(Property const& property);

    std::string key_;
    std::string value_;
    std::shared_ptr<re2::RE2 const> pattern_;  ///< null: the value must be equal
};

bool matches_all(std::span<Filter const> filters, json::Node const& machine);

/// A column of `vmadm list`: a property, or a part of one ("nics.0.ip", "tags.role").
struct ListColumn {
    std::string key;
    std::string title;
    std::size_t width = 0;
};

/// `text`: names separated by commas. `what` is for the message: "order" for the columns, or "sort".
/// Errors: invalid: `Invalid order key: "x"`.
Result<std::vector<ListColumn>> parse_columns(std::string_view text, std::string_view what = "order");

struct SortKey {
    std::string key;
    bool is_descending = false;
};
/// Reads "ram,-uuid". Errors: as above.
Result<std::vector<SortKey>> parse_sort_keys(std::string_view text);
void sort_machines(std::vector<json::Node>& machines, std::span<SortKey const> keys);

/// The text of a part of a machine; empty when it is missing.
std::string text_at(json::Node const& machine, std::string_view key);

/// A table with a header line, if that is wanted. Nothing in it moves a terminal's cursor.
std::string table_text(std::span<json::Node const> machines, std::span<ListColumn const> columns, bool with_header);
/// Values separated by ":". In a value, "\" and ":" are preceded by "\", and a line feed becomes "
/// ".
std::string parsable_text(std::span<json::Node const> machines, std::span<ListColumn const> columns,
                          bool with_header = false);

/// JSON in many lines, with two blanks for each level.
std::string pretty(json::Node const& node);

/// Only these parts of a machine, as an object.
json::Node selection(json::Node const& machine, std::span<ListColumn const> columns);

/// The text of an error for standard error. For people it has the error and its details, in printable form, because
/// machines choose names of files, and the sender of a machine chooses what is wrong with it. For programs it is one
/// JSON object.
std::string error_text(Error const& error, bool as_json);

}  // namespace triton::machine

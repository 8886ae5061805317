#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/where.h"

namespace triton::json {

/// One thing that is wrong (or odd) in a document, ready to be shown to an operator.
struct Problem {
    std::string where;      ///< "arguments[3].values[1].type", "line 3, column 7"; empty: the document as a whole
    std::string reason;     ///< "unknown type \"Foo\""
    std::string file = {};  ///< of a document of several files; empty: the one that everybody knows
    std::string key = {};   ///< of the object at `where`, as `reason` names it: for whoever looks for the file

    /// "<file>: <where>: <reason>", without what there is not.
    [[nodiscard]] std::string text() const;

    bool operator==(Problem const&) const = default;
};

using Problems = std::vector<Problem>;

/// Collects problems up to a limit and counts the rest, so that a broken document of a megabyte does not become a
/// report of fifty.
class ProblemList {
public:
    explicit ProblemList(std::size_t limit) : limit_(limit) {}

    void add(std::string where, std::string reason);
    void add(Where const& where, std::string reason);
    /// About one key of the object at `where`.
    void add_key(Where const& where, std::string_view key, std::string reason);
    /// Whether the next one is kept: for callers whose texts cost time.
    [[nodiscard]] bool has_room() const { return problems_.size() < limit_; }
    [[nodiscard]] bool empty() const { return count() == 0; }
    [[nodiscard]] std::size_t count() const { return problems_.size() + left_out_; }
    /// The kept problems, and "and 17 more" if there were others. This consumes the list.
    Problems take() &&;

private:
    std::size_t limit_;
    std::size_t left_out_ = 0;
    Problems problems_;
};

}  // namespace triton::json

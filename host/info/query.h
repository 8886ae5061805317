#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/info/document.h"
#include "host/info/view.h"
#include "host/machine/listing.h"
#include "lib/base/result.h"
#include "lib/json/writer.h"

namespace triton::info {

/// A query on all machines: conditions that each must meet, and the properties to show.
class Query {
public:
    using Pairs = std::vector<std::pair<std::string, std::string>>;
    static constexpr std::size_t most_conditions = 64;
    static constexpr std::size_t most_open_patterns = 8;  ///< for all callers: each costs memory and time
    static constexpr std::size_t most_fields = 256;

    /// `pairs`: names and values from a URL, percent-decoded: "fields" with names and commas between them, and
    /// conditions as in `vmadm lookup`: ("state", "running"), ("alias", "~^web"). Names in `others` are left to the
    /// caller.
    /// Errors: invalid: as Filter::parse(); too many conditions or fields. denied: a condition or a field is about a
    /// property that the view does not show: `customer_metadata needs the Unix socket`.
    static Result<Query> parse(Pairs const& pairs, View view, std::span<std::string_view const> others = {});

    [[nodiscard]] bool matches(Document const& document) const;
    /// The JSON to show for a machine that matches, in one line.
    [[nodiscard]] Text text(Document const& document) const;

private:
    Result<> add_condition(std::string const& text);
    Result<> add_fields(std::string_view names);
    void write_column(json::Writer& out, Document const& document, machine::ListColumn const& column) const;

    View view_ = View::open;
    std::vector<machine::Filter> filters_;
    std::size_t patterns_ = 0;
    std::optional<std::vector<machine::ListColumn>> columns_;
};

}  // namespace triton::info

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::info {

/// The table of `vminfo top`: what machines use, with the share of a processor between two looks.
class UsageTable {
public:
    enum class Order : std::uint8_t { cpu, memory, tasks, alias };
    /// Errors: invalid: `"x" is not one of cpu, memory, tasks, alias`.
    static Result<Order> parse_order(std::string_view text);

    explicit UsageTable(Order order) : order_(order) {}

    /// Takes an answer of /usage. `now`: when it was received.
    void look(json::Array const& usage, TimePoint now);
    /// The table as of the latest look, with the highest values first. Nothing in it moves a terminal's cursor.
    [[nodiscard]] std::string text() const;

private:
    struct Row {
        json::Node shown;
        std::int64_t rank = 0;
    };
    Order order_;
    std::map<std::string, std::int64_t> cpu_nanoseconds_;  ///< by uuid, at the latest look
    TimePoint seen_;
    std::vector<Row> rows_;
};

/// The first lines of a text, each cut after this many characters: what a terminal of this size can show.
std::string cut_to(std::string_view text, std::size_t lines, std::size_t columns);

}  // namespace triton::info

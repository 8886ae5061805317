#include "host/info/client/usage_table.h"

#include <algorithm>
#include <array>

#include "host/machine/listing.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/text/width.h"

namespace triton::info {

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

/// A figure that is shown as in /usage, or as a part of it.
struct Figure {
    std::string_view name;
    std::string_view column;
    std::int64_t unit;
};
constexpr auto figures = std::to_array<Figure>({{"memory_bytes", "memory", mebibyte},
                                                {"memory_limit_bytes", "memory_limit", mebibyte},
                                                {"swap_bytes", "swap", mebibyte},
                                                {"tasks", "tasks", 1},
                                                {"tasks_limit", "tasks_limit", 1},
                                                {"read_bytes", "read", mebibyte},
                                                {"written_bytes", "written", mebibyte}});

/// Tenths of a percent: "12.3".
std::string share_text(std::int64_t tenths) { return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10); }

constexpr std::array<std::string_view, 4> order_names{"cpu", "memory", "tasks", "alias"};

}  // namespace

Result<UsageTable::Order> UsageTable::parse_order(std::string_view text) {
    auto const found = std::ranges::find(order_names, text);
    if (found == order_names.end()) return fail(json::quoted(text) + " is not one of cpu, memory, tasks, alias");
    return static_cast<Order>(found - order_names.begin());
}

void UsageTable::look(json::Array const& usage, TimePoint now) {
    auto const elapsed = std::chrono::duration_cast<nanoseconds>(now - seen_).count();
    std::map<std::string, std::int64_t> const before = std::exchange(cpu_nanoseconds_, {});
    seen_ = now;
    rows_.clear();
    for (json::Node const& machine : usage) {
        std::string const uuid = json::text_of(machine, "uuid");
        json::Object row{{"uuid", json::Node{uuid}},
                         {"alias", json::Node{json::text_of(machine, "alias")}},
                         {"state", json::Node{json::text_of(machine, "state")}}};
        std::int64_t share = -1;
        auto const cpu = json::number_of(machine, "cpu_nanoseconds");
        if (cpu) cpu_nanoseconds_[uuid] = *cpu;
        auto const old = before.find(uuid);
        // less than before: the machine was started again
        if (cpu && old != before.end() && *cpu >= old->second && elapsed > 0) {
            share = static_cast<std::int64_t>(static_cast<double>(*cpu - old->second) * 1000.0 /
                                              static_cast<double>(elapsed));
            row.push_back({"cpu", json::Node{share_text(share)}});
        }
        for (Figure const& figure : figures) {
            if (auto const value = json::number_of(machine, figure.name))
                row.push_back({std::string(figure.column), json::Node{*value / figure.unit}});
        }
        std::int64_t rank = 0;
        switch (order_) {
            case Order::cpu: rank = share; break;
            case Order::memory: rank = json::number_of(machine, "memory_bytes").value_or(-1); break;
            case Order::tasks: rank = json::number_of(machine, "tasks").value_or(-1); break;
            case Order::alias: break;
        }
        rows_.push_back({json::Node{std::move(row)}, rank});
    }
    std::ranges::stable_sort(rows_, [](Row const& left, Row const& right) {
        if (left.rank != right.rank) return left.rank > right.rank;
        return json::text_of(left.shown, "alias") < json::text_of(right.shown, "alias");
    });
}

std::string UsageTable::text() const {
    static std::vector<machine::ListColumn> const columns{
        {"uuid", "UUID", 36},    {"alias", "ALIAS", 12},     {"state", "STATE", 8},
        {"cpu", "CPU%", 6},      {"memory", "MEM_MIB", 7},   {"memory_limit", "MEM_MAX", 7},
        {"swap", "SWAP", 5},     {"tasks", "TASKS", 5},      {"tasks_limit", "TASK_MAX", 8},
        {"read", "READ_MIB", 8}, {"written", "WRITE_MIB", 9}};
    std::vector<json::Node> shown;
    shown.reserve(rows_.size());
    for (Row const& row : rows_)
        shown.push_back(row.shown);
    return machine::table_text(shown, columns, true);
}

std::string cut_to(std::string_view text, std::size_t lines, std::size_t columns) {
    std::string out;
    for (; lines > 0 && !text.empty(); --lines) {
        std::size_t const end = text.find('\n');
        out += text::prefix_of_width(text.substr(0, end), columns);
        if (end == std::string_view::npos) break;
        out += '\n';
        text.remove_prefix(end + 1);
    }
    return out;
}

}  // namespace triton::info

#include "host/info/client/usage_table.h"

#include <gtest/gtest.h>

#include "host/info/client/documents.h"

namespace triton::info {
namespace {

using namespace std::chrono_literals;

json::Array usage(std::string_view text) { return read_machines(text).value_or(json::Array{}); }

constexpr std::string_view header =
    "UUID                                  ALIAS         STATE     CPU%    MEM_MIB  MEM_MAX  SWAP   TASKS  TASK_MAX  "
    "READ_MIB  WRITE_MIB\n";
constexpr std::string_view a = "00000000-0000-4000-8000-00000000000a";
constexpr std::string_view b = "00000000-0000-4000-8000-00000000000b";

std::string machine(std::string_view uuid, std::string_view alias, std::string_view more) {
    return R"({"uuid":")" + std::string(uuid) + R"(","alias":")" + std::string(alias) + R"(","state":"running")" +
           std::string(more) + "}";
}

/// Of each line: the first character of the alias and the column CPU%.
std::string shares(UsageTable const& table) {
    std::string found;
    std::string const text = table.text();
    for (std::size_t at = text.find('\n') + 1; at < text.size(); at = text.find('\n', at) + 1)
        found += text.substr(at + 38, 1) + text.substr(at + 62, 5) + ";";
    return found;
}

TEST(UsageTable, ShowsFiguresInMebibytes) {
    UsageTable table(UsageTable::Order::alias);
    table.look(
        usage("[" + machine(a, "web", R"(,"memory_bytes":3145728,"memory_limit_bytes":268435456,"tasks":7)") + "]"),
        TimePoint(5s));
    EXPECT_EQ(table.text(),
              std::string(header) + std::string(a) +
                  "  web           running   -       3        256      -      7      -         -         -\n");
}

TEST(UsageTable, SharesOfAProcessorAreBetweenTwoLooks) {
    UsageTable table(UsageTable::Order::cpu);
    auto const look = [&table](std::int64_t at, std::int64_t cpu_a, std::int64_t cpu_b) {
        table.look(usage("[" + machine(a, "a", ",\"cpu_nanoseconds\":" + std::to_string(cpu_a)) + "," +
                         machine(b, "b", ",\"cpu_nanoseconds\":" + std::to_string(cpu_b)) + "]"),
                   TimePoint(std::chrono::seconds(at)));
    };
    look(10, 1'000'000'000, 0);
    EXPECT_EQ(shares(table), "a-    ;b-    ;");
    look(12, 1'500'000'000, 4'000'000'000);
    EXPECT_EQ(shares(table), "b200.0;a25.0 ;");
    look(14, 0, 4'000'000'000);  // a was started again
    EXPECT_EQ(shares(table), "b0.0  ;a-    ;");
}

TEST(UsageTable, TheMostComesFirst) {
    std::string const machines = "[" + machine(a, "a", R"(,"memory_bytes":1,"tasks":9)") + "," +
                                 machine(b, "b", R"(,"memory_bytes":2,"tasks":3)") + "," + machine("c", "c", "") + "]";
    auto const first = [&machines](std::string_view order) {
        UsageTable table(*UsageTable::parse_order(order));
        table.look(usage(machines), TimePoint(1s));
        return table.text().substr(header.size() + 38, 1);
    };
    EXPECT_EQ(first("memory"), "b");
    EXPECT_EQ(first("tasks"), "a");
    EXPECT_EQ(first("alias"), "a");
    EXPECT_EQ(UsageTable::parse_order("size").error().text(), R"("size" is not one of cpu, memory, tasks, alias)");
}

TEST(UsageTable, NothingInItMovesACursor) {
    UsageTable table(UsageTable::Order::cpu);
    table.look(usage("[" + machine(R"(\u001b[2J)", R"(\u009b\r\n)", "") + "]"), TimePoint(1s));
    EXPECT_NE(table.text().find("\\x1b[2J"), std::string::npos);
    EXPECT_EQ(table.text().find_first_of("\x1b\r\xc2"), std::string::npos);
}

TEST(CutTo, FitsATerminal) {
    EXPECT_EQ(cut_to("abc\ndefg\nh\n", 2, 3), "abc\ndef\n");
    EXPECT_EQ(cut_to("\xc3\xa4\xc3\xb6\xc3\xbc\n", 1, 2), "\xc3\xa4\xc3\xb6\n");
    EXPECT_EQ(cut_to("a\n", 0, 9), "");
}

}  // namespace
}  // namespace triton::info

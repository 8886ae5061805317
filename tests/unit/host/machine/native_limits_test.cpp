#include "host/machine/native_limits.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace triton::machine {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

Machine some_machine() {
    Machine made;
    made.uuid = *Uuid::parse("371f18c0-9f73-6e86-94f6-c1cf71188d23");
    made.cpu_cap = 100;
    made.cpu_shares = 0;  // systemd has 1, which is its least
    made.max_physical_memory = 512;
    made.max_swap = 768;
    made.max_lwps = 2000;
    return made;
}

TEST(NativeLimits, AreReadAsSystemdWritesThem) {
    using Limits = std::vector<UnitProperty>;
    struct Row {
        std::string_view name, text;
        Limits limits;
    };
    std::vector<Row> const rows{
        {"CPUQuota", "# made by systemctl\n[Service]\nCPUQuota=25%\n", {{"CPUQuotaPerSecUSec", 250'000}}},
        {"CPUQuota", "[Service]\nCPUQuota=25.00%\n", {{"CPUQuotaPerSecUSec", 250'000}}},
        {"CPUQuota", "[Service]\nCPUQuota=\n", {{"CPUQuotaPerSecUSec", unlimited}}},
        {"MemoryMax", "[Service]\nMemoryMax=1048576\n", {{"MemoryMax", 1'048'576}}},
        {"MemoryMax", "[Service]\nMemoryMax=infinity", {{"MemoryMax", unlimited}}},
        {"MemoryMax", "[Service]\nMemoryMax=10.00%\n", {}},
        {"TasksMax", "[Service]\nTasksMax=7\nTasksMax=8\n", {{"TasksMax", 8}}},
        {"TasksMax", "[Service]\nTasksMaximal=8\n", {}},
        {"CPUWeight", "[Service]\nCPUWeight=idle\n", {}},
        {"CPUQuota", "[Service]\nCPUQuota=99999999999999999999%\n", {}},
        {"IPAccounting", "[Service]\nIPAccounting=1\n", {}},
    };
    for (Row const& row : rows)
        EXPECT_EQ(read_limit(row.name, row.text), row.limits) << row.text;
}

TEST(NativeLimits, TheLatestFileCounts) {
    Layout const layout{testing::TempDir() + "native-" + std::to_string(::getpid())};
    std::string const directory = "/systemd/system.control/" + unit_of(some_machine().uuid) + ".d/";
    for (std::string const place : {"/etc", "/run"})
        fs::create_directories(layout.root + place + directory);
    std::ofstream(layout.root + "/etc" + directory + "50-TasksMax.conf") << "[Service]\nTasksMax=5\n";
    EXPECT_THAT(native_limits(layout, some_machine().uuid), ElementsAre(UnitProperty{"TasksMax", 5}));
    std::string const passing = layout.root + "/run" + directory + "50-TasksMax.conf";
    std::ofstream(passing) << "[Service]\nTasksMax=6\n";
    fs::last_write_time(passing, fs::file_time_type::clock::now() + std::chrono::hours(1));
    EXPECT_THAT(native_limits(layout, some_machine().uuid), ElementsAre(UnitProperty{"TasksMax", 6}));
    fs::last_write_time(passing, fs::file_time_type::clock::now() - std::chrono::hours(1));
    EXPECT_THAT(native_limits(layout, some_machine().uuid), ElementsAre(UnitProperty{"TasksMax", 5}));
    fs::remove_all(layout.root);
    EXPECT_THAT(native_limits(layout, some_machine().uuid), IsEmpty());
}

TEST(NativeLimits, AMachineHasThemWhereTheyDifferFromItsProperties) {
    Machine made = some_machine();
    observe_limits(made, unit_properties(made));
    EXPECT_EQ(made.cpu_shares, 0);
    EXPECT_EQ(made.max_swap, 768);
    observe_limits(made, {{"CPUQuotaPerSecUSec", 250'000}, {"CPUWeight", 7}, {"TasksMax", 9}, {"MemoryMax", 1 << 30}});
    EXPECT_EQ(made.cpu_cap, 25);
    EXPECT_EQ(made.cpu_shares, 7);
    EXPECT_EQ(made.max_lwps, 9);
    EXPECT_EQ(made.max_physical_memory, 1024);
    observe_limits(made, {{"CPUQuotaPerSecUSec", unlimited}, {"MemoryMax", unlimited}});
    EXPECT_EQ(made.cpu_cap, std::nullopt);
    EXPECT_EQ(made.max_physical_memory, 0);
}

TEST(NativeLimits, AQuotaIsInWholeGibibytes) {
    constexpr std::uint64_t gib = std::uint64_t{1} << 30;
    struct Row {
        std::optional<std::int64_t> stored;
        std::uint64_t limit;
        std::optional<std::int64_t> seen;
    };
    std::vector<Row> const rows{{10, 10 * gib, 10},
                                {10, 8 * gib, 8},
                                {10, 0, 0},
                                {0, 0, 0},
                                {{}, 0, {}},
                                {{}, 8 * gib, 8},
                                {10, 4096, 1},
                                {10, 8 * gib + 512, 9},
                                {10, std::uint64_t{1} << 62, std::int64_t{1} << 32}};
    for (Row const& row : rows) {
        Machine made = some_machine();
        made.quota = row.stored;
        observe_quota(made, row.limit);
        EXPECT_EQ(made.quota, row.seen) << row.stored.value_or(-1) << ' ' << row.limit;
    }
}

/// The file of the machine does not take over what a native tool has set, and systemd is told only what has changed.
TEST(NativeLimits, AnUpdateOfSomethingElseStoresAndSetsNone) {
    Machine const stored = some_machine();
    Machine before = stored;
    observe_limits(before, {{"CPUQuotaPerSecUSec", 250'000}, {"TasksMax", 9}});
    observe_quota(before, std::uint64_t{8} << 30);
    Machine after = before;
    after.alias = "x";
    after.max_lwps = 10;
    EXPECT_THAT(changed_limits(before, after), ElementsAre(UnitProperty{"TasksMax", 10}));
    keep_stored_limits(after, before, stored);
    EXPECT_EQ(after.cpu_cap, 100);
    EXPECT_EQ(after.quota, stored.quota);
    EXPECT_EQ(after.max_lwps, 10);
    EXPECT_EQ(after.alias, "x");
}

}  // namespace
}  // namespace triton::machine

#include "host/machine/cgroup_usage.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace triton::machine {
namespace {

namespace fs = std::filesystem;

class CgroupUsageTest : public testing::Test {
protected:
    CgroupUsageTest() {
        std::string pattern = (fs::temp_directory_path() / "cgroup-XXXXXX").string();
        top_ = ::mkdtemp(pattern.data());
    }
    ~CgroupUsageTest() override { fs::remove_all(top_); }

    void put(std::string const& hierarchy, std::string const& file, std::string const& content) {
        fs::path const directory = top_ / hierarchy / "a";
        fs::create_directories(directory);
        std::ofstream(directory / file) << content;
    }
    [[nodiscard]] CgroupUsage read() const { return read_cgroup_usage(top_.string(), "/a"); }

private:
    fs::path top_;
};

TEST_F(CgroupUsageTest, ReadsVersion2) {
    put("", "cpu.stat", "user_usec 1\nusage_usec 17\nsystem_usec 2\n");
    put("", "memory.current", "4096\n");
    put("", "memory.max", "max\n");
    put("", "memory.swap.current", "0\n");
    put("", "pids.current", "3\n");
    put("", "pids.max", "80\n");
    put("", "io.stat", "8:0 rbytes=10 wbytes=1 rios=5\n8:16 rbytes=7 wbytes=2 rios=5\n");
    put("", "memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n");
    CgroupUsage const usage = read();
    EXPECT_EQ(usage.oom_kills, 2U);
    EXPECT_EQ(usage.cpu_nanoseconds, 17'000U);
    EXPECT_EQ(usage.memory_bytes, 4096U);
    EXPECT_EQ(usage.memory_limit, std::nullopt);
    EXPECT_EQ(usage.swap_bytes, 0U);
    EXPECT_EQ(usage.tasks, 3U);
    EXPECT_EQ(usage.tasks_limit, 80U);
    EXPECT_EQ(usage.read_bytes, 17U);
    EXPECT_EQ(usage.written_bytes, 3U);
}

TEST_F(CgroupUsageTest, ReadsVersion1) {
    put("cpuacct", "cpuacct.usage", "17\n");
    put("memory", "memory.usage_in_bytes", "4096\n");
    put("memory", "memory.limit_in_bytes", "9223372036854771712\n");
    put("memory", "memory.memsw.usage_in_bytes", "5000\n");
    put("memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
    put("pids", "pids.max", "max\n");
    put("blkio", "blkio.throttle.io_service_bytes", "8:0 Read 10\n8:0 Write 1\n8:16 Read 7\nTotal 18\n");
    CgroupUsage const usage = read();
    EXPECT_EQ(usage.oom_kills, 4U);
    EXPECT_EQ(usage.cpu_nanoseconds, 17U);
    EXPECT_EQ(usage.memory_limit, std::nullopt);
    EXPECT_EQ(usage.swap_bytes, 904U);
    EXPECT_EQ(usage.tasks, std::nullopt);
    EXPECT_EQ(usage.tasks_limit, std::nullopt);
    EXPECT_EQ(usage.read_bytes, 17U);
    EXPECT_EQ(usage.written_bytes, 1U);
}

TEST_F(CgroupUsageTest, ReadsBothSideBySide) {
    put("memory", "memory.usage_in_bytes", "4096\n");
    put("unified", "cpu.stat", "usage_usec 1\n");
    CgroupUsage const usage = read();
    EXPECT_EQ(usage.memory_bytes, 4096U);
    EXPECT_EQ(usage.cpu_nanoseconds, 1000U);
}

TEST_F(CgroupUsageTest, HasNothingOfWhatIsNotThere) {
    put("", "memory.current", "garbage");
    EXPECT_EQ(read().memory_bytes, std::nullopt);
    EXPECT_EQ(read().cpu_nanoseconds, std::nullopt);
}

}  // namespace
}  // namespace triton::machine

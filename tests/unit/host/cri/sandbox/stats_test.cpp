#include "host/cri/sandbox/stats.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>

namespace triton::cri {
namespace {

TEST(Stats, PressureIsReadAsTheKernelWritesIt) {
    auto const pressure = parse_pressure(
        "some avg10=1.50 avg60=0.25 avg300=0.00 total=123456\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=99\n");
    ASSERT_TRUE(pressure);
    EXPECT_DOUBLE_EQ(pressure->some.last_10_seconds, 1.5);
    EXPECT_DOUBLE_EQ(pressure->some.last_60_seconds, 0.25);
    EXPECT_EQ(pressure->some.total_microseconds, 123456U);
    EXPECT_DOUBLE_EQ(pressure->full.last_10_seconds, 0.5);
    EXPECT_EQ(pressure->full.total_microseconds, 99U);
    EXPECT_FALSE(parse_pressure(""));
    EXPECT_FALSE(parse_pressure("nonsense\n"));
}

TEST(Stats, InterfacesAreReadWithoutTheLoopback) {
    auto const found = parse_interfaces(
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls "
        "carrier\n"
        "    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       "
        "0\n"
        "  eth0: 1234567      89    3    0    0     0          0         0     7654      21    4    0    0     0       "
        "0\n"
        "a:b:9 1 1 1 1 1 1 1 8 1 2 1 1 1 1 1\n"
        "short: 1 2 3\n");
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].name, "eth0");
    EXPECT_EQ(found[0].received, 1234567U);
    EXPECT_EQ(found[0].receive_errors, 3U);
    EXPECT_EQ(found[0].sent, 7654U);
    EXPECT_EQ(found[0].send_errors, 4U);
    EXPECT_EQ(found[1].name, "a:b");
}

TEST(Stats, CoresAreOfTheTimeBetweenTwoSamples) {
    GroupUsage now{.at = 3'000'000'000};
    now.cpu_nanoseconds = 2'000'000'000;
    EXPECT_FALSE(nanocores({}, now));
    EXPECT_EQ(nanocores({1'000'000'000, 1'000'000'000}, now), 500'000'000U);
    EXPECT_FALSE(nanocores({3'000'000'000, 0}, now));
    EXPECT_FALSE(nanocores({1'000'000'000, 3'000'000'000}, now)) << "it is another group of that name";
}

/// A directory that looks like version 2 does.
class UnifiedGroupTest : public testing::Test {
protected:
    UnifiedGroupTest() {
        char name[] = "/tmp/triton-cgroup.XXXXXX";
        top = ::mkdtemp(name);
    }
    ~UnifiedGroupTest() override { std::filesystem::remove_all(top); }
    std::string top;
};

TEST_F(UnifiedGroupTest, IsReadWhereTheKernelTellsIt) {
    std::string const place = top + "/pod";
    std::filesystem::create_directory(place);
    auto const write = [](std::string const& path, char const* text) { std::ofstream(path) << text; };
    write(top + "/cgroup.controllers", "cpu memory\n");
    write(place + "/cpu.stat", "usage_usec 2500\nuser_usec 1\n");
    write(place + "/memory.current", "1000000\n");
    write(place + "/memory.max", "max\n");
    write(place + "/memory.stat", "anon 300000\nfile 5\ninactive_file 400000\npgfault 7\npgmajfault 2\n");
    write(place + "/pids.current", "12\n");
    write(place + "/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
    GroupUsage const usage = read_usage(Cgroups(top, false), "/pod");
    EXPECT_EQ(usage.cpu_nanoseconds, 2'500'000U);
    EXPECT_EQ(usage.memory, 1'000'000U);
    EXPECT_EQ(usage.working_set, 600'000U);
    EXPECT_EQ(usage.rss, 300'000U);
    EXPECT_EQ(usage.major_page_faults, 2U);
    EXPECT_FALSE(usage.available) << "there is no limit";
    EXPECT_FALSE(usage.swap);
    EXPECT_EQ(usage.processes, 12U);
    ASSERT_TRUE(usage.memory_pressure);
    EXPECT_EQ(usage.memory_pressure->some.total_microseconds, 5U);
    EXPECT_FALSE(usage.cpu_pressure);
}

TEST(Cgroups, PathsOfBothDrivers) {
    Cgroups const files("/sys/fs/cgroup", false);
    EXPECT_EQ(files.pod_path("/kubepods/pod1"), "/kubepods/pod1");
    EXPECT_EQ(files.pod_path(""), "");
    EXPECT_EQ(files.pod_path("/"), "") << "that is everybody's";
    Cgroups const systemd("/sys/fs/cgroup", true);
    EXPECT_EQ(systemd.pod_path("/kubepods.slice/kubepods-pod1.slice"), "/kubepods.slice/kubepods-pod1.slice");
}

}  // namespace
}  // namespace triton::cri

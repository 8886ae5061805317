#include "launcher/control/process_usage.h"

#include <chrono>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

TEST(ProcessUsage, OfOurselves) {
    ProcessUsage const before = read_process_usage(::getpid());
    ASSERT_TRUE(before.memory && before.cpu_time);
    EXPECT_GT(*before.memory, 1U << 20);
    EXPECT_LT(*before.memory, std::uint64_t{1} << 40);
    auto const burnt = [] {
        timespec used{};
        (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
    };
    Duration const enough = burnt() + std::chrono::milliseconds(50);
    while (burnt() < enough) {
    }
    EXPECT_GT(*read_process_usage(::getpid()).cpu_time, *before.cpu_time);
}

TEST(ProcessUsage, OfNobody) {
    pid_t const pid = ::fork();
    if (pid == 0) ::_exit(0);
    ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
    ProcessUsage const usage = read_process_usage(pid);
    EXPECT_FALSE(usage.memory || usage.cpu_time);
}

}  // namespace

}  // namespace triton::launcher

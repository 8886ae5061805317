#include "launcher/services/schedules.h"

#include <ctime>
#include <vector>

#include <gtest/gtest.h>

#include "config/cron.h"
#include "lib/base/event_loop.h"

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;

constexpr ProgramId hourly{3};
constexpr ProgramId often{4};

config::Schedule calendar(std::string_view text) {
    auto parsed = config::parse_cron(text);
    EXPECT_TRUE(parsed) << text;
    return parsed ? config::Schedule(*parsed) : config::Schedule();
}

class SchedulesTest : public testing::Test {
protected:
    SchedulesTest() : loop(std::move(*EventLoop::create())), schedules(make()) {}

    Schedules make() {
        return {*loop, [this](ProgramId program) {
                    due.push_back(program);
                    loop->stop();
                }};
    }

    std::unique_ptr<EventLoop> loop;
    std::vector<ProgramId> due;
    Schedules schedules;
};

}  // namespace

TEST_F(SchedulesTest, HandsOverWhenTheNextRunsAre) {
    TimePoint const now{100s};
    ASSERT_TRUE(schedules.set(hourly, calendar("0 * * * *"), now));
    ASSERT_TRUE(schedules.set(often, config::Milliseconds(5000), now));
    auto const runs = schedules.next_runs();
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(runs[0].program, hourly);
    ASSERT_TRUE(runs[0].second);
    EXPECT_EQ(*runs[0].second % 3600, 0);
    EXPECT_GT(*runs[0].second, std::time(nullptr) - 2);
    EXPECT_EQ(runs[1].when, now + 5s);

    Schedules next = make();
    TimePoint const later = now + 3s;
    ASSERT_TRUE(next.set(hourly, calendar("0 * * * *"), later));
    ASSERT_TRUE(next.set(often, config::Milliseconds(5000), later));
    for (Schedules::NextRun const& run : runs)
        next.import_next_run(run);
    EXPECT_EQ(next.next_deadline(), now + 5s);
    EXPECT_EQ(next.next_runs()[0].second, runs[0].second);
}

TEST_F(SchedulesTest, RunsWhatHasBecomeDueBeforeItWasTakenOver) {
    ASSERT_TRUE(schedules.set(hourly, calendar("0 0 1 1 *"), TimePoint{}));
    auto const usual = schedules.next_runs().front().second;
    schedules.import_next_run({hourly, {}, std::time(nullptr) - 1});
    ASSERT_TRUE(loop->run());
    EXPECT_EQ(due, std::vector{hourly});
    EXPECT_EQ(schedules.next_runs().front().second, usual);  // once, and then as ever
}

TEST_F(SchedulesTest, IgnoresAProgramThatHasNoScheduleAnyMore) {
    schedules.import_next_run({often, TimePoint{1s}, {}});
    schedules.import_next_run({hourly, {}, 1});
    EXPECT_TRUE(schedules.next_runs().empty());
    EXPECT_FALSE(schedules.next_deadline());
}

}  // namespace triton::launcher

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
    return {.when = parsed.value_or(config::CronExpression{})};
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

TEST_F(SchedulesTest, AFirstRunIsDueAtOnceButOnlyOfOneThatIsNew) {
    TimePoint const now{100s};
    config::Schedule every{.when = config::Milliseconds(5000), .has_first_run = true};
    ASSERT_TRUE(schedules.set(often, every, nullptr, now));
    EXPECT_EQ(schedules.next_deadline(), now);
    schedules.time_passed(now);
    EXPECT_EQ(due, (std::vector{often}));
    EXPECT_EQ(schedules.next_deadline(), now + 5s);
    every.when = config::Milliseconds(7000);
    ASSERT_TRUE(schedules.set(often, every, nullptr, now));
    EXPECT_EQ(schedules.next_deadline(), now + 7s);

    config::Schedule yearly = calendar("0 0 1 1 *");
    yearly.has_first_run = true;
    ASSERT_TRUE(schedules.set(hourly, yearly, nullptr, now));
    loop->run();
    EXPECT_EQ(due.back(), hourly);
    EXPECT_GT(*schedules.next_runs()[1].second, std::time(nullptr));
}

TEST_F(SchedulesTest, HandsOverWhenTheNextRunsAre) {
    TimePoint const now{100s};
    ASSERT_TRUE(schedules.set(hourly, calendar("0 * * * *"), nullptr, now));
    ASSERT_TRUE(schedules.set(often, config::Schedule{.when = config::Milliseconds(5000)}, nullptr, now));
    auto const runs = schedules.next_runs();
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(runs[0].program, hourly);
    ASSERT_TRUE(runs[0].second);
    EXPECT_EQ(*runs[0].second % 3600, 0);
    EXPECT_GT(*runs[0].second, std::time(nullptr) - 2);
    EXPECT_EQ(runs[1].when, now + 5s);

    Schedules next = make();
    TimePoint const later = now + 3s;
    ASSERT_TRUE(next.set(hourly, calendar("0 * * * *"), nullptr, later));
    ASSERT_TRUE(next.set(often, config::Schedule{.when = config::Milliseconds(5000)}, nullptr, later));
    for (Schedules::NextRun const& run : runs)
        next.import_next_run(run);
    EXPECT_EQ(next.next_deadline(), now + 5s);
    EXPECT_EQ(next.next_runs()[0].second, runs[0].second);
}

TEST_F(SchedulesTest, RunsWhatHasBecomeDueBeforeItWasTakenOver) {
    ASSERT_TRUE(schedules.set(hourly, calendar("0 0 1 1 *"), nullptr, TimePoint{}));
    auto const usual = schedules.next_runs().front().second;
    schedules.import_next_run({hourly, {}, std::time(nullptr) - 1});
    ASSERT_TRUE(loop->run());
    EXPECT_EQ(due, std::vector{hourly});
    EXPECT_EQ(schedules.next_runs().front().second, usual);  // once, and then as ever
}

TEST_F(SchedulesTest, DoesNotWaitForATimeOfAClockThatWasSetBack) {
    ASSERT_TRUE(schedules.set(hourly, calendar("0 * * * *"), nullptr, TimePoint{}));
    auto const usual = schedules.next_runs().front().second;
    schedules.import_next_run({hourly, {}, *usual + 1'000'000});
    EXPECT_EQ(schedules.next_runs().front().second, usual);
}

TEST_F(SchedulesTest, IgnoresAProgramThatHasNoScheduleAnyMore) {
    schedules.import_next_run({often, TimePoint{1s}, {}});
    schedules.import_next_run({hourly, {}, 1});
    EXPECT_TRUE(schedules.next_runs().empty());
    EXPECT_FALSE(schedules.next_deadline());
}

}  // namespace
}  // namespace triton::launcher

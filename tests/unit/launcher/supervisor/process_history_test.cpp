#include "launcher/supervisor/process_history.h"

#include <csignal>
#include <string>

#include <gtest/gtest.h>

namespace triton::launcher {
namespace {

using namespace std::chrono_literals;

ProcessId process_of(std::uint32_t program, std::uint32_t number) {
    return {ProgramId{program}, ProcessNumber{number}};
}

action::ReportExited exited(ProcessId id, int status, Duration run = 2s) {
    return {.id = id, .pid = Pid{7}, .status = status, .run = run, .restart_in = {}};
}

ProbeRecord result(ProcessId id, Helper helper, std::string why, std::string output = {}) {
    return {.program = static_cast<std::uint32_t>(id.program),
            .number = static_cast<std::uint32_t>(id.number),
            .helper = static_cast<std::uint8_t>(helper),
            .is_ok = why.empty(),
            .why = std::move(why),
            .output = std::move(output)};
}

TEST(ProcessHistory, EndsSayWhenHowAndWhy) {
    ProcessHistory history;
    ProcessId const web = process_of(0, 2);
    action::ReportExited killed = exited(web, SIGKILL, 5s);
    killed.fault = Fault::start_timeout;
    killed.was_oom_killed = true;
    history.note(Report{killed}, 1'000'000);
    history.note(Report{action::ReportStartFailed{web, {process::SpawnStage::execute, 2}, std::nullopt}}, 2'000'000);
    history.note(Report{action::ReportReady{web, 1s}}, 3'000'000);
    auto const ends = history.ends_of(web);
    ASSERT_EQ(ends.size(), 2U) << "readiness is no end";
    EXPECT_EQ(*ends[0], (EndRecord{.program = 0,
                                   .number = 2,
                                   .sequence = 1,
                                   .time = 1'000'000,
                                   .run = 5s,
                                   .status = SIGKILL,
                                   .fault = Fault::start_timeout,
                                   .was_oom_killed = true}));
    EXPECT_EQ(ends[1]->error_code, 2);
    EXPECT_EQ(ends[1]->error_stage, static_cast<std::uint8_t>(process::SpawnStage::execute));
    EXPECT_TRUE(history.ends_of(process_of(0, 1)).empty());
}

TEST(ProcessHistory, TenEndsOfAProcessWhateverOthersDo) {
    ProcessHistory history;
    history.note(Report{exited(process_of(1, 1), 1 << 8)}, 1);
    for (int i = 0; i < 100'000; ++i)
        history.note(Report{exited(process_of(0, 1), i)}, i);
    auto const ends = history.ends_of(process_of(0, 1));
    ASSERT_EQ(ends.size(), 10U);
    EXPECT_EQ(ends.front()->status, 99'990);
    EXPECT_EQ(ends.back()->status, 99'999);
    EXPECT_EQ(history.ends_of(process_of(1, 1)).size(), 1U) << "a crash loop does not push others out";
}

TEST(ProcessHistory, HasALimitWhateverTheNumberOfProcesses) {
    ProcessHistory history;
    for (std::uint32_t number = 1; number <= 10'000; ++number)
        history.note(Report{exited(process_of(0, number), 0)}, number);
    EXPECT_EQ(history.ends().size(), ProcessHistory::most_ends);
    EXPECT_LE(history.ends().size() * sizeof(EndRecord), 256U << 10);
    EXPECT_TRUE(history.ends_of(process_of(0, 1)).empty()) << "the oldest give way";
    EXPECT_EQ(history.ends_of(process_of(0, 10'000)).size(), 1U);
}

TEST(ProcessHistory, ThreeResultsOfEachCheckWithTheEndOfWhatItPrinted) {
    ProcessHistory history;
    ProcessId const web = process_of(0, 1);
    history.add(result(web, Helper::readiness, "exit code 1"));
    for (int i = 0; i < 5; ++i)
        history.add(result(web, Helper::health, "exit code " + std::to_string(i), std::string(2000, 'x') + "end"));
    auto const results = history.results_of(web);
    ASSERT_EQ(results.size(), 4U);
    EXPECT_EQ(results[1]->why, "exit code 2");
    EXPECT_EQ(results[3]->why, "exit code 4");
    EXPECT_EQ(results[3]->output.size(), 1024U);
    EXPECT_TRUE(results[3]->output.ends_with("xend"));
    ASSERT_NE(history.failure_of(web, Helper::health), nullptr);
    EXPECT_EQ(history.failure_of(web, Helper::health)->why, "exit code 4");
    history.add(result(web, Helper::health, ""));
    EXPECT_EQ(history.failure_of(web, Helper::health), nullptr) << "it has succeeded since";
    EXPECT_EQ(history.failure_of(process_of(0, 2), Helper::health), nullptr);
}

TEST(ProcessHistory, TextsHaveALimitTogether) {
    ProcessHistory history;
    for (std::uint32_t number = 1; number <= 3000; ++number)
        history.add(result(process_of(0, number), Helper::health, "exit code 1", std::string(1024, 'x')));
    std::size_t bytes = 0;
    for (ProbeRecord const& one : history.results())
        bytes += one.why.size() + one.output.size();
    EXPECT_LE(bytes, ProcessHistory::most_text);
    EXPECT_GT(bytes, ProcessHistory::most_text / 3);
    EXPECT_EQ(history.results_of(process_of(0, 3000)).size(), 1U);
}

TEST(ProcessHistory, AnIdThatIsAnothersIsForgotten) {
    ProcessHistory history;
    for (std::uint32_t program : {0U, 1U}) {
        history.note(Report{exited(process_of(program, 1), 0)}, 1);
        history.add(result(process_of(program, 1), Helper::health, "exit code 1"));
    }
    history.forget(ProgramId{0});
    EXPECT_TRUE(history.ends_of(process_of(0, 1)).empty());
    EXPECT_TRUE(history.results_of(process_of(0, 1)).empty());
    EXPECT_EQ(history.ends_of(process_of(1, 1)).size(), 1U);
    EXPECT_EQ(history.results_of(process_of(1, 1)).size(), 1U);
}

TEST(ProcessHistory, GoesOnInAnotherVersion) {
    ProcessHistory before;
    ProcessId const web = process_of(0, 1);
    for (int i = 0; i < 13; ++i)
        before.note(Report{exited(web, i)}, i);
    before.add(result(web, Helper::health, "exit code 1", "out"));
    ProcessHistory after;
    after.restore(before.ends(), before.results());
    after.note(Report{exited(web, 13)}, 13);
    auto const ends = after.ends_of(web);
    ASSERT_EQ(ends.size(), 10U);
    EXPECT_EQ(ends.front()->status, 4);
    EXPECT_EQ(ends.back()->status, 13);
    ASSERT_NE(after.failure_of(web, Helper::health), nullptr);
    EXPECT_EQ(after.failure_of(web, Helper::health)->output, "out");
}

TEST(ReadinessNews, AReasonIsReportedOnceAndChangesAtMostEveryTenSeconds) {
    ReadinessNews news;
    ProcessId const web = process_of(0, 1);
    TimePoint const start{1h};
    EXPECT_EQ(news.failed(web, "exit code 1", start), 1U);
    EXPECT_EQ(news.failed(web, "exit code 1", start + 1s), 0U);
    EXPECT_EQ(news.failed(web, "exit code 1", start + 1h), 0U) << "however long it lasts";
    EXPECT_EQ(news.failed(web, "exit code 2", start + 1h), 4U);
    EXPECT_EQ(news.failed(web, "exit code 3", start + 1h + 9s), 0U) << "too soon";
    EXPECT_EQ(news.failed(web, "exit code 3", start + 1h + 10s), 6U);
    EXPECT_EQ(news.count(web), 6U);
    EXPECT_EQ(news.failed(process_of(0, 2), "exit code 3", start), 1U) << "another process";
    news.forget(web);
    EXPECT_EQ(news.count(web), 0U);
    EXPECT_EQ(news.failed(web, "exit code 3", start + 2h), 1U) << "another run";
}

}  // namespace
}  // namespace triton::launcher

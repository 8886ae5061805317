#include "host/info/agenda.h"

#include <gtest/gtest.h>

namespace triton::info {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class AgendaTest : public testing::Test {
protected:
    Agenda agenda;
    TimePoint now = TimePoint(std::chrono::hours(1));

    /// "refresh a: stored, unit (file)" of the job to begin; "": none.
    std::string next(Parts readable = all_parts) {
        job = agenda.next(now, readable);
        if (!job) return "";
        std::string const what = job->machine ? *job->machine + ": " + job->parts.text() : "scan";
        return (job->is_refresh ? "refresh " : "") + what + " (" + job->why + ")";
    }
    std::vector<Ticket> finish(std::vector<std::string> const& machines = {}, bool has_failed = false) {
        return agenda.finished(*job, {.has_failed = has_failed, .machines = machines}, now);
    }
    void do_all() {
        while (!next().empty())
            finish();
    }

    std::optional<Job> job;
};

TEST_F(AgendaTest, NotificationsOfAMachineAreOneJob) {
    agenda.want("a", Part::stored, "file");
    agenda.want("b", Part::unit, "unit");
    agenda.want("a", Part::unit, "unit");
    agenda.want("a", Part::unit, "unit");
    EXPECT_EQ(next(), "a: stored, unit (unit)");
    finish();
    EXPECT_EQ(next(), "b: unit (unit)");
    finish();
    EXPECT_EQ(next(), "");
    EXPECT_FALSE(agenda.next_at());
}

TEST_F(AgendaTest, ALauncherThatSaysNothingIsAnAnswerAndAskedAgain) {
    Ticket const ticket = agenda.wait("a", Part::launcher);
    EXPECT_EQ(next(Part::launcher).substr(0, 11), "a: launcher");
    EXPECT_EQ(agenda.finished(*job, {.has_failed = true, .is_answer = true}, now), (std::vector<Ticket>{ticket}));
    EXPECT_EQ(next(Part::launcher), "");
    now += minutes(1);
    EXPECT_EQ(next(Part::launcher).substr(0, 11), "a: launcher");
}

TEST_F(AgendaTest, WhatIsNoticedDuringAJobIsAnother) {
    agenda.want("a", Part::stored, "file");
    next();
    agenda.want("a", Part::stored, "file");
    EXPECT_FALSE(agenda.next(now));
    finish();
    EXPECT_EQ(next(), "");
    EXPECT_EQ(agenda.next_at(), now + milliseconds(50));
    now += milliseconds(50);
    EXPECT_EQ(next(), "a: stored (file)");
}

TEST_F(AgendaTest, AFloodIsServedTwentyTimesASecond) {
    std::size_t jobs = 0;
    for (int i = 0; i < 1000; ++i) {
        agenda.want("a", Part::unit, "unit");
        if (!next().empty()) {
            ++jobs;
            finish();
        }
        now += milliseconds(1);
    }
    EXPECT_EQ(jobs, 20U);
}

TEST_F(AgendaTest, AMachineThatTellsMuchIsServedLess) {
    agenda.want("a", Part::launcher, "launcher");
    next();
    agenda.finished(*job, {.bytes = std::size_t{2} << 20}, now);
    agenda.want("a", Part::launcher, "launcher");
    EXPECT_EQ(next(), "");
    EXPECT_EQ(agenda.next_at(), now + seconds(2));
    agenda.wait("a", all_parts);
    EXPECT_EQ(next(Part::launcher), "a: launcher (asked)");
}

TEST_F(AgendaTest, ARefreshIsAScanAndAJobForEach) {
    agenda.want_scan("start", true);
    EXPECT_EQ(next(), "scan (start)");
    agenda.want("b", Part::stored, "file");
    finish({"a", "b"});
    EXPECT_TRUE(agenda.queue().is_refreshing);
    EXPECT_EQ(next(host_parts), "b: stored, unit, snapshots (file)");
    finish();
    EXPECT_EQ(next(host_parts), "refresh a: stored, unit, snapshots (refresh)");
    EXPECT_TRUE(agenda.queue().is_refreshing);
    finish();
    EXPECT_FALSE(agenda.queue().is_refreshing);
    EXPECT_EQ(next(Part::launcher), "refresh a: launcher (refresh)");
    EXPECT_EQ(agenda.next_at(host_parts), now + minutes(5));
    now += minutes(5);
    EXPECT_EQ(next(host_parts), "scan (timer)");
}

TEST_F(AgendaTest, ALossDuringARefreshIsAnotherOne) {
    agenda.want_scan("start", true);
    next();
    agenda.want_scan("impatience", false);
    agenda.want_scan("inotify overflow", true);
    EXPECT_EQ(next(), "");
    finish();
    EXPECT_EQ(next(), "scan (inotify overflow)");
    finish();
    EXPECT_EQ(next(), "");
}

TEST_F(AgendaTest, AFloodDoesNotKeepARefreshFromItsEnd) {
    agenda.want_scan("start", true);
    next();
    finish({"x", "y"});
    std::size_t jobs = 0;
    for (int i = 0; agenda.queue().is_refreshing && i < 1000; ++i) {
        agenda.want("m" + std::to_string(i), Part::unit, "unit");
        agenda.want("n" + std::to_string(i), Part::unit, "unit");
        if (!next(host_parts).empty()) finish();
        ++jobs;
    }
    EXPECT_EQ(jobs, 18U);
}

TEST_F(AgendaTest, AWaiterIsAnsweredByAJobThatBeginsLater) {
    agenda.want("a", host_parts, "file");
    next();
    Ticket const ticket = agenda.wait("a");
    EXPECT_TRUE(finish().empty());
    EXPECT_EQ(next(), "a: stored, unit, snapshots (asked)");  // at once, in spite of the pause
    EXPECT_EQ(finish(), std::vector{ticket});
    EXPECT_EQ(agenda.queue().waiters, 0U);
}

TEST_F(AgendaTest, AWaiterForTheLauncherWaitsForBothJobs) {
    Ticket const ticket = agenda.wait("a", all_parts);
    next(host_parts);
    EXPECT_TRUE(finish().empty());
    next(Part::launcher);
    EXPECT_EQ(finish(), std::vector{ticket});
}

TEST_F(AgendaTest, AWaiterForAllWaitsForAWholeRefresh) {
    agenda.want_scan("start", true);
    next();
    Ticket const ticket = agenda.wait_all();
    finish({"a"});
    next(host_parts);
    EXPECT_TRUE(finish().empty());  // of the refresh that had begun before
    EXPECT_EQ(next(host_parts), "scan (asked)");
    EXPECT_TRUE(finish({"a", "b"}).empty());
    now += seconds(1);
    next(host_parts);
    EXPECT_TRUE(finish().empty());
    next(host_parts);
    EXPECT_EQ(finish(), std::vector{ticket});
}

TEST_F(AgendaTest, AWaiterForAllIsNotHeldUpByAMachineThatFails) {
    agenda.want("a", Part::unit, "unit");
    for (int i = 0; i < 6; ++i) {
        next();
        finish({}, true);
        now += minutes(1);
    }
    next();
    finish({}, true);  // it is tried again in a minute
    Ticket const ticket = agenda.wait_all();
    EXPECT_EQ(next(host_parts), "scan (asked)");
    finish({"a", "b"});
    EXPECT_EQ(next(host_parts), "a: stored, unit, snapshots (unit)");
    EXPECT_TRUE(finish({}, true).empty());
    EXPECT_EQ(next(host_parts), "refresh b: stored, unit, snapshots (refresh)");
    EXPECT_EQ(finish(), std::vector{ticket});
    EXPECT_EQ(next(host_parts), "");  // once was enough
    EXPECT_EQ(agenda.next_at(host_parts), now + minutes(1));
}

TEST_F(AgendaTest, AWaiterForAllHurriesTheRefreshBeforeIts) {
    agenda.want("a", Part::unit, "unit");
    next();
    finish({}, true);
    agenda.want_scan("timer", true);
    next();
    finish({"a"});
    EXPECT_EQ(next(host_parts), "");
    Ticket const ticket = agenda.wait_all();
    EXPECT_EQ(next(host_parts), "a: stored, unit, snapshots (unit)");
    finish();
    EXPECT_EQ(next(host_parts), "scan (asked)");
    finish({"a"});
    EXPECT_EQ(next(host_parts), "refresh a: stored, unit, snapshots (refresh)");  // in spite of the pause
    EXPECT_EQ(finish(), std::vector{ticket});
}

TEST_F(AgendaTest, AWaiterForAllWaitsForSomeFailedScansOnly) {
    Ticket const ticket = agenda.wait_all();
    for (std::size_t i = 1; i < Agenda::most_failures; ++i) {
        EXPECT_NE(next(host_parts), "");
        EXPECT_TRUE(finish({}, true).empty());
        now += minutes(1);
    }
    next(host_parts);
    EXPECT_EQ(finish({}, true), std::vector{ticket});
    EXPECT_EQ(next(host_parts), "");
    agenda.wait_all();  // tries at once
    EXPECT_EQ(next(host_parts), "scan (retry)");
}

TEST_F(AgendaTest, AWaiterWaitsUntilAJobSucceeds) {
    Ticket const ticket = agenda.wait("a", all_parts);
    next(host_parts);
    EXPECT_TRUE(finish({}, true).empty());
    next(Part::launcher);
    EXPECT_TRUE(finish().empty());
    now += seconds(1);
    EXPECT_EQ(next(), "a: stored, unit, snapshots (asked)");
    EXPECT_EQ(finish(), std::vector{ticket});
}

TEST_F(AgendaTest, NobodyIsKeptForEver) {
    Ticket const ticket = agenda.wait("a");
    for (std::size_t i = 1; i < Agenda::most_failures; ++i) {
        next();
        EXPECT_TRUE(finish({}, true).empty());
        now += minutes(1);
    }
    next();
    EXPECT_EQ(finish({}, true), std::vector{ticket});
    EXPECT_EQ(agenda.queue().waiters, 0U);
}

TEST_F(AgendaTest, WhoeverGivesUpIsForgotten) {
    Ticket const before = agenda.wait("a");
    Ticket const during = agenda.wait("a");
    Ticket const last = agenda.wait("a");
    agenda.forget(before);
    next();
    agenda.forget(during);
    EXPECT_EQ(finish(), std::vector{last});
    agenda.forget(last);
    EXPECT_EQ(agenda.queue().waiters, 0U);
}

TEST_F(AgendaTest, WhatHasFailedIsTriedAgain) {
    agenda.want("a", Part::unit, "unit");
    for (auto const wait :
         {seconds(1), seconds(2), seconds(4), seconds(8), seconds(16), seconds(32), seconds(60), seconds(60)}) {
        EXPECT_EQ(next(), "a: unit (unit)");
        finish({}, true);
        EXPECT_EQ(next(), "");
        EXPECT_EQ(agenda.next_at(), now + wait);
        now += wait;
    }
    EXPECT_EQ(next(), "a: unit (unit)");
    finish({}, true);
    now += seconds(1);
    agenda.want("a", Part::stored, "file");  // perhaps it works now
    EXPECT_EQ(next(), "a: stored, unit (file)");
    finish();
    EXPECT_FALSE(agenda.next_at());
}

TEST_F(AgendaTest, ARetryThatNewsHaveOvertakenEndsNoPause) {
    agenda.want("a", Part::unit, "unit");
    next();
    finish({}, true);
    now += milliseconds(980);
    agenda.want("a", Part::unit, "unit");
    EXPECT_EQ(next(), "a: unit (unit)");
    finish();
    now += milliseconds(20);  // when the retry would have been
    EXPECT_EQ(next(), "");
    agenda.want("a", Part::unit, "unit");
    EXPECT_EQ(next(), "");
    now += milliseconds(30);
    EXPECT_EQ(next(), "a: unit (unit)");
}

TEST_F(AgendaTest, AFailedScanIsTriedAgainAndWaitersWaitForIt) {
    Ticket const ticket = agenda.wait_all();
    next();
    EXPECT_TRUE(finish({}, true).empty());
    EXPECT_FALSE(agenda.queue().is_refreshing);
    EXPECT_EQ(next(), "");
    EXPECT_EQ(agenda.next_at(), now + seconds(1));
    now += seconds(1);
    EXPECT_EQ(next(), "scan (retry)");
    EXPECT_EQ(finish(), std::vector{ticket});
}

TEST_F(AgendaTest, TooManyNamesBecomeAScan) {
    Agenda small({.queue = {.most_machines = 2}});
    small.want("a", Part::unit, "unit");
    small.want("b", Part::unit, "unit");
    small.want("c", Part::unit, "unit");
    EXPECT_EQ(small.next(now)->why, "too many machines");
    small.wait("d");
    EXPECT_EQ(small.queue().targeted, 2U);
}

TEST_F(AgendaTest, ForgetsMachinesOfWhichNothingIsWanted) {
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 1000; ++i)
            agenda.want(std::to_string(round * 1000 + i), Part::unit, "unit");
        do_all();
        now += seconds(1);
    }
    Agenda::Queue const queue = agenda.queue();
    EXPECT_EQ(queue.targeted + queue.refresh + queue.delayed, 0U);
}

}  // namespace
}  // namespace triton::info

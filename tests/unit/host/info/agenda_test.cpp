#include "host/info/agenda.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace triton::info {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class AgendaTest : public testing::Test {
protected:
    Agenda agenda;
    TimePoint now = TimePoint(std::chrono::hours(1));

    /// "refresh a: stored, unit (file)" of the job to begin; "": none, and the one before is the one to finish.
    std::string next(Parts readable = all_parts) {
        auto begun = agenda.next(now, readable);
        if (!begun) return "";
        job = std::move(begun);
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

// --- machines that take long ---

/// Looks at launchers by a number of threads; those whose names begin with "hung" take all the time that they get.
class LookTurnsTest : public testing::Test {
protected:
    static constexpr std::size_t at_once = 8;
    static bool is_hung(std::string const& machine) { return machine.starts_with("hung"); }

    void want(std::string const& machine) { agenda.want(machine, Part::launcher, "event"); }
    void want_many(std::string const& name, int count) {
        for (int i = 0; i < count; ++i)
            want(name + std::to_string(i));
    }
    void begin() {
        while (running.size() < at_once) {
            auto const job = agenda.next(now, Part::launcher);
            if (!job) return;
            EXPECT_TRUE(last.emplace(*job->machine, now).second || last.at(*job->machine) < now);
            last[*job->machine] = now;
            ++looks[*job->machine];
            Duration const patience = job->is_slow ? seconds(4) : seconds(1);
            Duration const took = is_hung(*job->machine) ? patience : milliseconds(2);
            running.emplace(now + took, std::pair(*job, took));
        }
    }
    [[nodiscard]] std::size_t hung_now() const {
        return static_cast<std::size_t>(
            std::ranges::count_if(running, [](auto const& one) { return is_hung(*one.second.first.machine); }));
    }
    void run_for(Duration duration) {
        TimePoint const end = now + duration;
        for (;;) {
            begin();
            std::optional<TimePoint> at = agenda.next_at(Part::launcher);
            if (running.size() == at_once) at.reset();
            if (!running.empty()) at = std::min(at.value_or(TimePoint::max()), running.begin()->first);
            if (!at || *at > end) break;
            now = std::max(now, *at);
            while (!running.empty() && running.begin()->first <= now) {
                auto const [job, took] = running.extract(running.begin()).mapped();
                (void)agenda.finished(job, {.has_failed = is_hung(*job.machine), .took = took}, now);
            }
        }
        now = end;
    }

    Agenda agenda;
    TimePoint now = TimePoint(std::chrono::hours(1));
    std::multimap<TimePoint, std::pair<Job, Duration>> running;
    std::map<std::string, TimePoint> last;
    std::map<std::string, int> looks;
};

TEST_F(LookTurnsTest, ThoseThatHangKeepNobodyElseWaiting) {
    want_many("hung", 300);
    want("quick");
    run_for(seconds(60));  // one second for each of 300, by six to eight: nobody is known yet
    EXPECT_EQ(looks["quick"], 1);
    for (int i = 0; i < 100; ++i) {
        want_many("hung", 300);  // what they tell changes nothing
        want_many("quick", 20);
        run_for(milliseconds(100));
        EXPECT_LE(hung_now(), 2U);
    }
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(looks["quick" + std::to_string(i)], 100);
}

TEST_F(LookTurnsTest, OneThatHangsIsLookedAtEverMoreRarely) {
    std::vector<std::int64_t> pauses;
    want("hung");
    run_for({});
    for (int before = 1; pauses.size() < 9; before = looks["hung"]) {
        TimePoint const began = last["hung"];
        while (looks["hung"] == before) {
            want("hung");
            run_for(milliseconds(100));
        }
        pauses.push_back(std::chrono::duration_cast<seconds>(last["hung"] - began).count());
    }
    EXPECT_EQ(pauses, (std::vector<std::int64_t>{6, 14, 24, 44, 84, 164, 304, 304, 304}));  // with the looks themselves
}

TEST_F(LookTurnsTest, WhoeverWaitsIsNotHeldUpByAPause) {
    for (int i = 0; i < 5; ++i) {
        (void)agenda.wait("hung", Part::launcher);
        run_for(seconds(4));
        EXPECT_EQ(looks["hung"], i + 1);
    }
}

TEST_F(LookTurnsTest, OneThatIsQuickAgainForSomeTimeIsAsOthers) {
    auto const next = [this] {
        want("a");
        auto const job = agenda.next(now, Part::launcher);
        return job.value_or(Job{.machine = "none"});
    };
    Job const first = next();
    EXPECT_FALSE(first.is_slow);
    (void)agenda.finished(first, {.took = seconds(1)}, now);
    EXPECT_EQ(next().machine, "none");
    for (int i = 0; i < 10; ++i) {  // it is not trusted at once, and does not pause for that
        now += minutes(1);
        Job const again = next();
        EXPECT_TRUE(again.is_slow);
        (void)agenda.finished(again, {.took = milliseconds(1)}, now);
    }
    now += seconds(1);
    Job const later = next();
    EXPECT_FALSE(later.is_slow);
    (void)agenda.finished(later, {.took = seconds(2)}, now);
    now += seconds(5);
    EXPECT_TRUE(next().is_slow) << "the pause is a first one again";
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

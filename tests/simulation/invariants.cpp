#include "tests/simulation/invariants.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "tests/simulation/text.h"

namespace triton::simulation {

namespace {

using launcher::Action;
using launcher::RestartPolicy;
using launcher::Run;
using launcher::Supervisor;
namespace event = launcher::event;
namespace action = launcher::action;

void require(bool holds, char const* what) {
    if (!holds) throw Violation{what};
}

void require(bool holds, char const* what, ProcessNumber number) {
    if (!holds) throw Violation{std::string(what) + ": process " + std::to_string(static_cast<std::uint32_t>(number))};
}

/// A failed clone is known at once: trying again at once would leave no time for anything else, a stop for example.
constexpr Duration shortest_retry = milliseconds(1);

struct Delay {
    Duration low, high;
    std::uint32_t failures;
};

bool is_short(RestartPolicy const& policy, Run run) {
    return run.length < policy.reset_after && !(run.is_clean && run.length >= policy.minimum_run);
}

/// The documented rule, by another way than the supervisor's: a power instead of a loop, bounds instead of a value.
Delay expected_delay(RestartPolicy const& policy, std::uint32_t before, Run run) {
    std::uint32_t failures = run.length >= policy.reset_after ? 0 : before;
    if (run.is_clean && run.length >= policy.minimum_run) return {Duration::zero(), Duration::zero(), failures};
    ++failures;
    if (failures == 1) return {Duration::zero(), Duration::zero(), 1};
    auto const maximum = static_cast<double>(policy.max_delay.count());
    double const plain =
        std::min(maximum, static_cast<double>(policy.delay.count()) * std::pow(policy.factor, failures - 2));
    double const rounding = 1 + plain * 1e-9;
    double const low = std::max(0.0, plain * (1 - policy.jitter) - rounding);
    double const high = std::min(maximum, plain * (1 + policy.jitter) + rounding);
    return {Duration(static_cast<Duration::rep>(low)), Duration(static_cast<Duration::rep>(high)), failures};
}

}  // namespace

void Invariants::check(launcher::Event const& event, TimePoint now, std::vector<Action> const& actions,
                       Supervisor const& supervisor, std::optional<TimePoint> deadline_before) {
    if (finished_) {
        require(actions.empty(), "nothing is done after Finish");
        require(!supervisor.next_deadline(), "nothing is waited for after Finish");
        return;
    }
    now_ = now;
    forwarded_signal_ = 0;
    no_child_left_ = false;
    left_.clear();
    std::visit([this](auto const& which) { apply(which); }, event);
    for (Action const& action : actions) {
        require(!finished_, "nothing is done after Finish");
        std::visit([this](auto const& which) { judge(which); }, action);
    }
    require(!end_, "every end is reported");
    require(!not_started_, "every start is reported");
    require(!owed_continue_, "SIGCONT follows the stop signal");
    require(forwarded_signal_ == 0 || not_forwarded_.empty(), "a signal is forwarded to every process");
    bool const is_time_event = std::holds_alternative<event::TimePassed>(event);
    if (finished_) {
        require(supervisor.phase() == Supervisor::Phase::finished, "Finish finishes");
        require(!supervisor.next_deadline(), "nothing is waited for after Finish");
        return;
    }
    check_states(supervisor);
    check_stop(supervisor);
    check_deadline(supervisor.next_deadline(), is_time_event);
    check_wakeup(actions.size(), is_time_event, deadline_before);
}

void Invariants::check_settled(Supervisor const& supervisor) const {
    for (std::size_t at = 0; at < records_.size(); ++at) {
        Record const& record = records_[at];
        auto const number = ProcessNumber(at + 1);
        require(!is_wanted(at) || (record.pid && !record.stop_sent), "what is wanted comes up", number);
        require(is_wanted(at) || (!record.pid && !record.is_pending), "what is not wanted goes down", number);
    }
    require(supervisor.running_count() == count_, "running_count() counts");
    require(!supervisor.next_deadline(), "with everything up, nothing waits for time");
}

std::optional<TimePoint> Invariants::stop_end() const {
    if (stops_ == 0) return std::nullopt;
    return stop_asked_ + policy_.stop_limit;
}

bool Invariants::is_anyone_left() const {
    return !pending_.empty() || std::ranges::any_of(records_, [](Record const& r) { return r.pid.has_value(); });
}

/// The last fifth of a stop is for dying: SIGKILL at its very end would only be followed by "still there".
TimePoint Invariants::latest_kill() const { return stop_asked_ + policy_.stop_limit * 4 / 5; }

TimePoint Invariants::kill_due(Record const& record) const {
    TimePoint const due = *record.stop_sent + policy_.stop_timeout;
    return stops_ > 0 ? std::min(due, latest_kill()) : due;
}

// What happened.

void Invariants::apply(event::ConfigurationAccepted const& event) {
    if (stops_ > 0) return;
    count_ = event.count;
    if (records_.size() < count_) records_.resize(count_);
    for (Record& record : records_) {
        record.not_before = TimePoint::min();
        record.was_short = false;
        if (record.due) record.failures = 0;
        record.due.reset();
    }
}

void Invariants::remove_pending(ProcessNumber number) {
    record(number).is_pending = false;
    std::erase(pending_, number);
}

void Invariants::apply(event::Spawned const& event) {
    remove_pending(event.number);
    Record& started = record(event.number);
    started.pid = event.pid;
    started.started = now_;
    not_started_ = event.number;
}

void Invariants::apply(event::SpawnFailed const& event) {
    remove_pending(event.number);
    End end;
    end.number = event.number;
    end.error = event.error;
    owe_report(record(event.number), end, Run{Duration::zero(), false});
}

void Invariants::apply(event::Exited const& event) {
    Record& ended = record(event.number);
    End end;
    end.number = event.number;
    end.pid = std::exchange(ended.pid, std::nullopt);
    end.status = event.status;
    end.error = event.error;
    end.run = now_ - ended.started;
    owe_report(ended, end, Run{end.run, event.status == 0 && !event.error});
}

void Invariants::owe_report(Record& record, End end, Run run) {
    end.is_wanted = is_wanted(index(end.number));
    if (!end.is_wanted) {
        record = Record{};
    } else if (record.stop_sent) {  // it was not wanted for a while: no failure of its own
        record.stop_sent.reset();
        record.kill_sent = record.was_short = false;
    } else {
        Delay delay = expected_delay(policy_.restart, record.failures, run);
        if (!end.pid) delay.low = std::max<Duration>(delay.low, shortest_retry);
        end.low = delay.low;
        end.high = std::max(delay.low, delay.high);
        record.failures = delay.failures;
        record.not_before = now_ + delay.low;
        // The short form of the rule, whatever the numbers: no program spins.
        double const shortest =
            static_cast<double>(std::min(policy_.restart.delay, policy_.restart.max_delay).count()) *
            (1 - policy_.restart.jitter);
        bool const was_short = std::exchange(record.was_short, is_short(policy_.restart, run));
        end.must_wait = shortest >= 1000 && was_short && record.was_short;
    }
    end_ = end;
}

void Invariants::apply(event::StopAsked const&) {
    if (stops_++ > 0) return;
    stop_asked_ = now_;
    for (Record& record : records_)
        record.due.reset();
}

void Invariants::apply(event::SignalReceived const& event) {
    forwarded_signal_ = event.signo;
    not_forwarded_.clear();
    for (std::size_t at = 0; at < records_.size(); ++at) {
        if (records_[at].pid) not_forwarded_.push_back(ProcessNumber(at + 1));
    }
}

void Invariants::apply(event::NoChildLeft const&) { no_child_left_ = true; }

void Invariants::apply(event::TimePassed const&) {}

// What was done about it.

void Invariants::judge(action::Spawn const& action) {
    require(static_cast<std::uint32_t>(action.number) >= 1 && is_wanted(index(action.number)),
            "only what is wanted is started", action.number);
    Record& starting = record(action.number);
    require(!starting.is_pending, "no Spawn before the result of the last one", action.number);
    require(!starting.pid && !kernel_.find(action.number), "never two live processes with one number", action.number);
    require(!starting.due || *starting.due <= now_, "no start before its backoff is over", action.number);
    require(starting.not_before <= now_, "no start before the restart policy allows it", action.number);
    starting.is_pending = true;
    starting.due.reset();
    starting.not_before = TimePoint::min();
    pending_.push_back(action.number);
}

void Invariants::judge(action::Signal const& action) {
    require(index(action.number) < records_.size(), "a signal goes to a process of ours", action.number);
    Record& receiver = record(action.number);
    require(receiver.pid == action.pid, "a reaped pid is never signalled", action.number);
    require(action.signo >= 1 && action.signo <= 64, "a signal is one", action.number);
    if (owed_continue_) {
        require(*owed_continue_ == action.number && action.signo == SIGCONT, "SIGCONT follows the stop signal",
                action.number);
        owed_continue_.reset();
        return;
    }
    switch (action.why) {
        case action::Why::stop:
            require(action.signo == policy_.stop_signal, "it is stopped by the stop signal", action.number);
            require(!is_wanted(index(action.number)), "only what is not wanted is stopped", action.number);
            require(!receiver.stop_sent, "it is asked to stop once", action.number);
            receiver.stop_sent = now_;
            owed_continue_ = action.number;
            return;
        case action::Why::kill:
            require(action.signo == SIGKILL, "it is killed by SIGKILL", action.number);
            judge_kill(receiver, action.number);
            receiver.kill_sent = true;
            return;
        case action::Why::forward:
            require(action.signo == forwarded_signal_, "only what was received is forwarded", action.number);
            require(std::erase(not_forwarded_, action.number) == 1, "a signal is forwarded once", action.number);
            return;
    }
}

void Invariants::judge_kill(Record const& record, ProcessNumber number) const {
    require(record.stop_sent.has_value(), "nothing is killed that was not asked to stop", number);
    require(!record.kill_sent, "it is killed once", number);
    bool const waited = now_ >= *record.stop_sent + policy_.stop_timeout;
    bool const stop_is_late = stops_ > 0 && now_ >= latest_kill();
    require(waited || stop_is_late || stops_ > 1, "nothing is killed before its time", number);
}

void Invariants::judge(action::Sweep const& action) {
    require(policy_.is_pid_1, "only PID 1 sweeps");
    require(stops_ > 0, "only a stop sweeps");
    require(!is_anyone_left(), "our own processes end before the sweep");
    require(action.signo == SIGKILL || (action.signo == SIGTERM && last_sweep_ == 0), "TERM, then KILL");
    require(last_sweep_ != SIGKILL, "nobody is swept by KILL twice");
    last_sweep_ = action.signo;
}

void Invariants::judge(action::Finish const& action) {
    require(stops_ > 0, "only a stop finishes");
    finished_ = true;
    if (action.exit_code == 0) {
        require(!is_anyone_left(), "a good end leaves nobody behind");
        require(!policy_.is_pid_1 || (no_child_left_ && !kernel_.has_orphans()), "as PID 1 no orphan either");
        return;
    }
    require(action.exit_code == 1, "the exit code is 0 or 1");
    require(now_ >= *stop_end(), "a stop has all of its time");
    for (std::size_t at = 0; at < records_.size(); ++at) {
        if (!records_[at].pid) continue;
        require(records_[at].kill_sent, "who is left has had SIGKILL", ProcessNumber(at + 1));
        require(std::erase(left_, ProcessNumber(at + 1)) == 1, "who is left is reported", ProcessNumber(at + 1));
    }
    require(left_.empty(), "only who is left is reported");
}

void Invariants::judge(action::ReportStarted const& action) {
    require(not_started_ == action.number && record(action.number).pid == action.pid, "only a start is reported as one",
            action.number);
    not_started_.reset();
}

void Invariants::judge(action::ReportExited const& action) {
    require(end_ && end_->number == action.number && end_->pid == action.pid, "only an end is reported as one",
            action.number);
    require(!end_->error && end_->status == action.status && end_->run == action.run, "an end is reported as it was",
            action.number);
    judge_delay(action.number, action.restart_in);
}

void Invariants::judge(action::ReportStartFailed const& action) {
    require(end_ && end_->number == action.number && end_->error == action.error,
            "only a failed start is reported as one", action.number);
    judge_delay(action.number, action.restart_in);
}

void Invariants::judge(action::ReportLeft const& action) { left_.push_back(action.number); }

void Invariants::judge_delay(ProcessNumber number, std::optional<Duration> restart_in) {
    require(restart_in.has_value() == end_->is_wanted, "what is wanted is restarted, and nothing else", number);
    if (restart_in) {
        require(*restart_in > Duration::zero() || !end_->must_wait, "nothing spins", number);
        require(*restart_in >= end_->low && *restart_in <= end_->high, "a delay is what the restart policy says",
                number);
        Record& waiting = record(number);
        if (*restart_in > Duration::zero() && !waiting.is_pending) waiting.due = now_ + *restart_in;
    }
    end_.reset();
}

// Where that leaves everybody.

void Invariants::check_states(Supervisor const& supervisor) const {
    using enum Supervisor::State;
    require(supervisor.size() >= records_.size(), "every process has a state");
    std::uint32_t alive = 0;
    for (std::size_t at = 0; at < supervisor.size(); ++at) {
        auto const number = ProcessNumber(at + 1);
        require(at < records_.size(), "nothing has a state that was never wanted", number);
        Record const& record = records_[at];
        Supervisor::State const state = supervisor.state(number);
        alive += record.pid ? 1 : 0;
        if (record.is_pending) {
            require(state == starting, "a start under way is known", number);
        } else if (record.pid) {
            require(record.stop_sent || is_wanted(at), "what is not wanted is stopped at once", number);
            require(state == (record.kill_sent   ? killing
                              : record.stop_sent ? stopping
                                                 : up),
                    "a live process is known", number);
        } else {
            require(record.due || !is_wanted(at), "a dead process is restarted, in backoff, or not wanted", number);
            require(!record.due || is_wanted(at), "nothing waits to be started that is not wanted", number);
            require(state == (record.due ? backoff : down), "a dead process is known", number);
        }
    }
    require(supervisor.running_count() == alive, "running_count() counts");
    require(supervisor.wanted_count() == (stops_ > 0 ? 0 : count_), "wanted_count() is what was accepted");
}

void Invariants::check_stop(Supervisor const& supervisor) const {
    using enum Supervisor::Phase;
    if (stops_ == 0) {
        require(supervisor.phase() == running, "only a stop ends the running");
        return;
    }
    if (is_anyone_left()) {
        require(supervisor.phase() == stopping, "a stop waits for its processes");
    } else {
        require(policy_.is_pid_1 && last_sweep_ != 0, "a stop goes on when its processes are gone");
        require(supervisor.phase() == sweeping, "PID 1 waits for what it has swept");
        require(!no_child_left_, "with nobody left, a stop is finished");
    }
    if (stops_ == 1) return;
    require(last_sweep_ == 0 || last_sweep_ == SIGKILL, "a second stop sweeps by KILL at once");
    for (std::size_t at = 0; at < records_.size(); ++at)
        require(!records_[at].pid || records_[at].kill_sent, "a second stop kills at once", ProcessNumber(at + 1));
}

void Invariants::check_deadline(std::optional<TimePoint> deadline, bool is_time_event) const {
    bool anyone_waits = false;
    auto const waits = [&](TimePoint due, ProcessNumber number) {
        anyone_waits = true;
        require(deadline && *deadline <= due, "the deadline is not after anybody's", number);
        require(!is_time_event || due > now_, "what is due is done when time has passed", number);
    };
    for (std::size_t at = 0; at < records_.size(); ++at) {
        Record const& record = records_[at];
        if (record.due) waits(*record.due, ProcessNumber(at + 1));
        if (record.stop_sent && record.pid && !record.kill_sent) waits(kill_due(record), ProcessNumber(at + 1));
    }
    if (stops_ > 0) waits(*stop_end(), ProcessNumber{0});
    require(anyone_waits || !deadline, "no deadline when nothing waits for time");
    require(!is_time_event || !deadline || *deadline > now_, "the deadline is not in the past when time has passed");
}

/// A deadline may be too early once, when what it was for has gone. More would be a busy loop.
void Invariants::check_wakeup(std::size_t actions, bool is_time_event, std::optional<TimePoint> deadline_before) {
    if (!is_time_event || actions > 0) {
        idle_wakeups_ = 0;
    } else if (deadline_before && *deadline_before <= now_) {
        require(++idle_wakeups_ <= 1, "it does not wake up for nothing again and again");
    }
}

}  // namespace triton::simulation

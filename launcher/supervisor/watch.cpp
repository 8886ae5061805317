// Timers, helpers, and what is concluded from them.

#include <algorithm>
#include <cassert>
#include <csignal>
#include <limits>
#include <utility>

#include "launcher/supervisor/places.h"

namespace triton::launcher {

namespace {

std::uint16_t bit(Helper helper) { return static_cast<std::uint16_t>(1U << static_cast<unsigned>(helper)); }

/// The time between two probes, with a minimum so that they leave time for something else.
Duration probe_interval(Duration wanted) { return std::max<Duration>(wanted, milliseconds(1)); }

/// Whether nothing happens to a process in that state by itself.
bool is_end(ProcessState state) {
    using enum ProcessState;
    return state == down || state == waiting || state == done || state == failed || state == held;
}

}  // namespace

void Supervisor::on(event::WatchdogPing const& event) {
    Place const at = place(event.id);
    bool const is_watched = at.process.state == State::up && at.process.deadline != never;
    if (is_watched) set_timer(at.process.deadline, in(at.policy().watchdog));
}

void Supervisor::on(event::ExtendTimeout const& event) {
    Place const at = place(event.id);
    State const state = at.process.state;
    bool const is_start = (state == State::executing || state == State::activating) && at.process.deadline != never;
    if (!is_start && state != State::stopping && state != State::clearing) return;
    TimePoint until = std::max(at.process.deadline, in(event.by));
    if (phase_ != Phase::running) until = std::min(until, latest_kill_);
    set_timer(at.process.deadline, until);
}

void Supervisor::on(event::HelperEnded const& event) {
    Place const at = place(event.id);
    assert(is_under_way(at.process, event.helper));
    bool const was_cancelled = (at.process.cancelled & bit(event.helper)) != 0;
    at.process.helpers = static_cast<std::uint16_t>(at.process.helpers & ~bit(event.helper));
    at.process.cancelled = static_cast<std::uint16_t>(at.process.cancelled & ~bit(event.helper));
    --at.program.helpers;
    --helpers_;
    if (!was_cancelled) --wanted_helpers_;
    switch (event.helper) {
        case Helper::pre_stop:
            if (at.process.state != State::pre_stop) return;
            // A helper that was cancelled belonged to an earlier stop, and this stop has waited for its end.
            was_cancelled ? run_helper(at, Helper::pre_stop) : send_stop(at);
            return;
        case Helper::on_failure:
            if (std::exchange(at.process.fails_once_more, false) && phase_ == Phase::running)
                run_helper(at, Helper::on_failure);
            return;
        case Helper::on_success:
            if (std::exchange(at.process.succeeds_once_more, false) && phase_ == Phase::running)
                run_helper(at, Helper::on_success);
            return;
        case Helper::on_stop:
            if (at.process.state == State::undoing) undone(at);
            return;
        case Helper::readiness:
            if (was_cancelled || at.process.state != State::activating || awaits_main(at)) return;
            if (!event.ok) return set_timer(at.process.probe_at, in(probe_interval(at.policy().probe_interval)));
            return become_ready(at);
        case Helper::health:
        case Helper::health_2:
        case Helper::health_3:
        case Helper::health_4:
        case Helper::health_5:
        case Helper::health_6:
        case Helper::health_7:
        case Helper::health_8: {
            std::size_t const check = *check_of(event.helper);
            if (was_cancelled || at.process.state != State::up || check >= at.policy().checks.size()) return;
            return judge_health(at, check, event.ok);
        }
    }
}

void Supervisor::judge_health(Place const& at, std::size_t check, bool ok) {
    Health const& health = at.policy().checks[check];
    CheckRecord& record = checks(at)[check];
    set_timer(record.probe_at, in(probe_interval(health.interval)));
    if (ok) {
        bool const was_told = record.failures >= std::max(health.retries, 1U);
        record.failures = 0;
        if (was_told) act(action::ReportHealthy{at.id, check});
        return judge_wellness(at);
    }
    if (now_ - at.process.since < health.start_period) return;
    if (record.failures < std::numeric_limits<std::uint32_t>::max()) ++record.failures;
    if (record.failures != std::max(health.retries, 1U)) return;
    std::uint32_t const failures = record.failures;
    switch (health.action) {
        case HealthAction::restart:
            at.process.has_run_badly = true;
            at.process.fault = Fault::unhealthy;
            stop(at);
            break;
        case HealthAction::report: judge_wellness(at); break;
        case HealthAction::exit: end_container(at, 1); break;
    }
    act(action::ReportUnhealthy{at.id, failures, health.action, check});
}

/// Judges whether a process that is up is ready, too: it is as long as no check that only reports has failed.
void Supervisor::judge_wellness(Place const& at) {
    std::span<CheckRecord> const mine = checks(at);
    bool is_unwell = false;
    for (std::size_t check = 0; check < mine.size(); ++check) {
        Health const& health = at.policy().checks[check];
        is_unwell |= health.action == HealthAction::report && mine[check].failures >= std::max(health.retries, 1U);
    }
    if (is_unwell == at.process.is_unwell) return;
    set_unwell(at, is_unwell);
    has_news_ = true;
}

void Supervisor::stop_checks(Place const& at) {
    for (CheckRecord& check : checks(at))
        set_timer(check.probe_at, never);
}

void Supervisor::set_unwell(Place const& at, bool is_unwell) {
    at.program.unwell += static_cast<std::uint32_t>(is_unwell) - static_cast<std::uint32_t>(at.process.is_unwell);
    at.process.is_unwell = is_unwell;
}

void Supervisor::set_to_roll(Place const& at, bool is_to_roll) {
    at.program.to_roll += static_cast<std::uint32_t>(is_to_roll) - static_cast<std::uint32_t>(at.process.is_to_roll);
    at.process.is_to_roll = is_to_roll;
}

// Time.

void Supervisor::on(event::TimePassed const&) {
    if (earliest_ > now_) return;
    if (phase_ != Phase::running && stop_deadline_ <= now_) return give_up();
    if (phase_ == Phase::sweeping && phase_deadline_ <= now_ && sweep_signal_ != SIGKILL)
        sweep(SIGKILL, stop_deadline_);
    if (phase_ == Phase::stopping) {
        if (latest_kill_ <= now_) cancel_helpers();
        advance_stop();
    }
    if (timers_ > 0) {
        starts_last_ = true;
        for_each([this](Place const& at) {
            if (at.process.deadline <= now_) time_passed(at);
            if (at.process.run_until <= now_) time_out(at, action::TimedOut::run);
            if (at.process.probe_at <= now_) probe(at);
            std::span<CheckRecord const> const mine = checks(at);
            for (std::size_t check = 0; check < mine.size(); ++check)
                if (mine[check].probe_at <= now_) probe_health(at, check);
        });
        starts_last_ = false;
    }
    recompute_deadline();
}

/// Handles a state whose deadline has passed.
void Supervisor::time_passed(Place const& at) {
    switch (at.process.state) {
        case State::backoff: return begin(at);
        case State::executing:
        case State::activating: return time_out(at, action::TimedOut::start);
        case State::up: return time_out(at, action::TimedOut::watchdog);
        case State::draining: return go_on_after_drain(at);
        case State::pre_stop: return send_stop(at);
        case State::stopping:
        case State::clearing: return after_step(at);
        case State::undoing: {
            cancel_helper(at, Helper::on_stop);
            return undone(at);
        }
        case State::down:
        case State::waiting:
        case State::starting:
        case State::killing:
        case State::done:
        case State::failed:
        case State::held: break;
    }
    assert(false && "waits for nothing");
}

void Supervisor::time_out(Place const& at, action::TimedOut what) {
    at.process.has_run_badly = true;
    switch (what) {
        case action::TimedOut::start:
            at.process.fault = Fault::start_timeout;
            kill(at);
            break;
        case action::TimedOut::run:
            at.process.fault = Fault::run_timeout;
            stop(at);
            break;
        case action::TimedOut::watchdog: {
            at.process.fault = Fault::watchdog;
            // The process hangs: a drain or a helper could not tell it anything. Its core may tell somebody where it
            // hangs.
            cancel_probes(at);
            set_state(at, State::stopping);
            at.process.stop_step = last_step;
            set_timer(at.process.deadline, in(at.policy().stop_timeout));
            signal_step(at);
            break;
        }
    }
    act(action::ReportTimedOut{at.id, what});
}

void Supervisor::probe(Place const& at) {
    if (is_under_way(at.process, Helper::readiness))  // one of an earlier run, cancelled and not yet gone
        return set_timer(at.process.probe_at, in(probe_interval(at.policy().probe_interval)));
    set_timer(at.process.probe_at, never);
    run_helper(at, Helper::readiness);
}

void Supervisor::probe_health(Place const& at, std::size_t check) {
    TimePoint& probe_at = checks(at)[check].probe_at;
    Helper const helper = helper_of_check(check);
    if (is_under_way(at.process, helper))  // likewise
        return set_timer(probe_at, in(probe_interval(at.policy().checks[check].interval)));
    set_timer(probe_at, never);
    run_helper(at, helper);
}

// Helpers.

bool Supervisor::is_under_way(ProcessRecord const& process, Helper helper) {
    return (process.helpers & bit(helper)) != 0;
}

void Supervisor::run_helper(Place const& at, Helper helper) {
    if (is_under_way(at.process, helper)) {
        assert(helper == Helper::on_failure || helper == Helper::on_success);
        (helper == Helper::on_failure ? at.process.fails_once_more : at.process.succeeds_once_more) = true;
        return;
    }
    at.process.helpers = static_cast<std::uint16_t>(at.process.helpers | bit(helper));
    ++at.program.helpers;
    ++helpers_;
    ++wanted_helpers_;
    act(action::RunHelper{at.id, helper});
}

void Supervisor::cancel_helper(Place const& at, Helper helper) {
    if ((at.process.helpers & ~at.process.cancelled & bit(helper)) == 0) return;
    at.process.cancelled = static_cast<std::uint16_t>(at.process.cancelled | bit(helper));
    --wanted_helpers_;
    act(action::CancelHelper{at.id, helper});
}

/// Cancels all helpers but those for what comes after a run.
void Supervisor::cancel_helpers_of_run(Place const& at) {
    if (at.process.helpers == 0) return;
    cancel_helper(at, Helper::pre_stop);
    cancel_probes(at);
}

void Supervisor::cancel_probes(Place const& at) {
    if (at.process.helpers == 0) return;
    cancel_helper(at, Helper::readiness);
    for (std::size_t check = 0; check < most_checks; ++check)
        cancel_helper(at, helper_of_check(check));
}

// Timers.

/// Sets the state. Whatever the old state waited for ends with it.
void Supervisor::set_state(Place const& at, State state) {
    --at.program.in_state[static_cast<std::size_t>(at.process.state)];
    ++at.program.in_state[static_cast<std::size_t>(state)];
    at.process.state = state;
    if (at.process.deadline != never) set_timer(at.process.deadline, never);
    if (at.process.probe_at != never) set_timer(at.process.probe_at, never);
    stop_checks(at);
    set_unwell(at, false);
    set_to_roll(at, false);
    bool const runs = state == State::executing || state == State::activating || state == State::up;
    if (at.process.run_until != never && !runs) set_timer(at.process.run_until, never);
    if (phase_ == Phase::running) {
        has_news_ = has_news_ || !at.program.dependants.empty() || !at.policy().binds_to.empty() ||
                    at.policy().is_sequential || at.program.to_roll > 0;
        may_be_over_ = may_be_over_ || is_end(state);
    } else {
        has_news_ = has_news_ || is_down(at.program);
    }
}

void Supervisor::set_timer(TimePoint& timer, TimePoint when) {
    timers_ += static_cast<std::uint32_t>(when != never) - static_cast<std::uint32_t>(timer != never);
    timer = when;
    if (when != never) remember_deadline(when);
}

void Supervisor::remember_deadline(TimePoint deadline) {
    // A bound in the past belongs to deadlines that no longer exist.
    if (timers_ <= 1 && phase_ == Phase::running) earliest_ = deadline;
    earliest_ = std::min(earliest_, deadline);
}

void Supervisor::recompute_deadline() {
    earliest_ = never;
    if (phase_ != Phase::running) earliest_ = stop_deadline_;
    if (phase_ == Phase::sweeping && sweep_signal_ != SIGKILL) earliest_ = std::min(earliest_, phase_deadline_);
    if (phase_ == Phase::stopping && wanted_helpers_ > 0) earliest_ = std::min(earliest_, latest_kill_);
    for (Program const& program : programs_) {
        if (phase_ == Phase::stopping && !program.is_stop_begun) earliest_ = std::min(earliest_, program.stop_at);
        if (timers_ == 0) continue;
        for (ProcessRecord const& process : program.processes)
            earliest_ = std::min({earliest_, process.deadline, process.probe_at, process.run_until});
        for (CheckRecord const& check : program.checks)
            earliest_ = std::min(earliest_, check.probe_at);
    }
}

}  // namespace triton::launcher

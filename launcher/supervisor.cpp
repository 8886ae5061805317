#include "launcher/supervisor.h"

#include <algorithm>
#include <cassert>
#include <csignal>
#include <ranges>

namespace triton::launcher {

namespace {

constexpr Duration shortest_retry = milliseconds(1);

}  // namespace

void Supervisor::handle(Event const& event, TimePoint now, std::vector<Action>& actions) {
    now_ = now;
    // Before anything changes: what follows must not stop halfway because there is no memory for an action.
    actions.reserve(actions.size() + most_actions(0));
    actions_ = &actions;
    if (phase_ != Phase::finished) std::visit([this](auto const& which) { on(which); }, event);
    actions_ = nullptr;
}

std::size_t Supervisor::most_actions(std::uint32_t count) const {
    // of a stop: two signals, SIGKILL and a report for each process, and the end
    return 4 * std::max<std::size_t>(count, processes_.size()) + 4;
}

std::optional<TimePoint> Supervisor::next_deadline() const {
    if (phase_ == Phase::finished) return std::nullopt;
    if (phase_ == Phase::running && waiting_ == 0) return std::nullopt;
    return earliest_;
}

std::uint32_t Supervisor::running_count() const {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(processes_, [](Process const& p) { return is_alive(p.state); }));
}

void Supervisor::on(event::ConfigurationAccepted const& event) {
    if (phase_ != Phase::running) return;
    if (processes_.size() < event.count) {
        actions_->reserve(actions_->size() + most_actions(event.count));
        processes_.resize(event.count);
    }
    count_ = event.count;
    for (std::size_t at = 0; at < processes_.size(); ++at) {
        Process& process = processes_[at];
        switch (process.state) {
            case State::down:
                if (is_wanted(at)) start(at);
                break;
            case State::backoff:
                // The new configuration may be what it was waiting for.
                process.failures = 0;
                is_wanted(at) ? start(at) : down(at);
                break;
            case State::up:
                if (!is_wanted(at)) stop(at);
                break;
            case State::starting:  // its result decides
            case State::stopping:  // its exit decides
            case State::killing: break;
        }
    }
}

void Supervisor::on(event::Spawned const& event) {
    std::size_t const at = index(event.number);
    Process& process = processes_[at];
    assert(process.state == State::starting);
    process.pid = event.pid;
    process.since = now_;
    set_state(process, State::up);
    actions_->push_back(action::ReportStarted{event.number, event.pid});
    if (!is_wanted(at)) stop(at);  // the stop came while it was starting
    if (in_a_hurry_) kill(at);
}

void Supervisor::on(event::SpawnFailed const& event) {
    std::size_t const at = index(event.number);
    assert(processes_[at].state == State::starting);
    // Never at once: this answer came at once too, and the two would chase each other without ever letting time pass.
    std::optional<Duration> const delay = start_again(at, {Duration::zero(), false}, shortest_retry);
    actions_->push_back(action::ReportStartFailed{event.number, event.error, delay});
    finish_stop_when_all_down();
}

void Supervisor::on(event::Exited const& event) {
    std::size_t const at = index(event.number);
    Process const before = processes_[at];
    assert(is_alive(before.state));
    Run const run{now_ - before.since, event.status == 0 && !event.error};
    std::optional<Duration> delay;
    if (before.state == State::up || !is_wanted(at)) {
        delay = start_again(at, run);
    } else {
        start(at);  // we had stopped it, and it is wanted again
        delay = Duration::zero();
    }
    if (event.error) {
        actions_->push_back(action::ReportStartFailed{event.number, *event.error, delay});
    } else {
        actions_->push_back(action::ReportExited{event.number, before.pid, event.status, run.length, delay});
    }
    finish_stop_when_all_down();
}

void Supervisor::on(event::StopAsked const&) {
    switch (phase_) {
        case Phase::running:
            phase_ = Phase::stopping;
            stop_deadline_ = now_ + policy_.stop_limit;
            latest_kill_ = now_ + policy_.stop_limit * 4 / 5;  // the rest is for dying
            remember_deadline(stop_deadline_);
            for (std::size_t at = 0; at < processes_.size(); ++at) {
                if (processes_[at].state == State::up) stop(at);
                if (processes_[at].state == State::backoff) down(at);
                if (processes_[at].state == State::stopping) {
                    processes_[at].deadline = std::min(processes_[at].deadline, latest_kill_);
                    remember_deadline(processes_[at].deadline);
                }
            }
            finish_stop_when_all_down();
            return;
        case Phase::stopping:  // asked twice
            in_a_hurry_ = true;
            for (std::size_t at = 0; at < processes_.size(); ++at) {
                if (processes_[at].state == State::stopping) kill(at);
            }
            return;
        case Phase::sweeping:
            if (sweep_signal_ != SIGKILL) sweep(SIGKILL, stop_deadline_);
            return;
        case Phase::finished: return;
    }
}

void Supervisor::on(event::SignalReceived const& event) {
    for (std::size_t at = 0; at < processes_.size(); ++at) {
        if (is_alive(processes_[at].state))
            actions_->push_back(action::Signal{number_at(at), processes_[at].pid, event.signo, action::Why::forward});
    }
}

void Supervisor::on(event::NoChildLeft const&) {
    if (phase_ != Phase::sweeping) return;
    phase_ = Phase::finished;
    actions_->push_back(action::Finish{0});
}

void Supervisor::on(event::TimePassed const&) {
    if (earliest_ > now_) return;
    if (phase_ != Phase::running && stop_deadline_ <= now_) return give_up();
    if (phase_ == Phase::sweeping && phase_deadline_ <= now_ && sweep_signal_ != SIGKILL)
        sweep(SIGKILL, stop_deadline_);
    for (std::size_t at = 0; waiting_ > 0 && at < processes_.size(); ++at) {
        Process const& process = processes_[at];
        if (!waits_for_time(process.state) || process.deadline > now_) continue;
        process.state == State::backoff ? start(at) : kill(at);
    }
    recompute_deadline();
}

void Supervisor::start(std::size_t at) {
    set_state(processes_[at], State::starting);
    actions_->push_back(action::Spawn{number_at(at)});
}

void Supervisor::stop(std::size_t at) {
    Process& process = processes_[at];
    TimePoint const kill_at = now_ + policy_.stop_timeout;
    arm(process, State::stopping, phase_ == Phase::running ? kill_at : std::min(kill_at, latest_kill_));
    actions_->push_back(action::Signal{number_at(at), process.pid, policy_.stop_signal, action::Why::stop});
    // One that was stopped by a signal would otherwise see it only at SIGKILL.
    actions_->push_back(action::Signal{number_at(at), process.pid, SIGCONT, action::Why::forward});
}

void Supervisor::kill(std::size_t at) {
    set_state(processes_[at], State::killing);
    actions_->push_back(action::Signal{number_at(at), processes_[at].pid, SIGKILL, action::Why::kill});
}

void Supervisor::down(std::size_t at) {
    set_state(processes_[at], State::down);
    // Numbers that are not wanted any more need no memory of their failures.
    processes_[at] = Process{};
}

/// Starts a process that has ended again, at once or later, or not at all. Returns the delay, nullopt for never.
std::optional<Duration> Supervisor::start_again(std::size_t at, Run run, Duration least) {
    if (!is_wanted(at)) {
        down(at);
        return std::nullopt;
    }
    Process& process = processes_[at];
    RestartDecision const decision = decide_restart(policy_.restart, process.failures, run, random());
    process.failures = decision.failures;
    Duration const delay = std::max(decision.delay, least);
    if (delay > Duration::zero()) {
        arm(process, State::backoff, now_ + delay);
    } else {
        start(at);
    }
    return delay;
}

void Supervisor::set_state(Process& process, State state) {
    not_down_ +=
        static_cast<std::uint32_t>(state != State::down) - static_cast<std::uint32_t>(process.state != State::down);
    waiting_ +=
        static_cast<std::uint32_t>(waits_for_time(state)) - static_cast<std::uint32_t>(waits_for_time(process.state));
    process.state = state;
}

void Supervisor::arm(Process& process, State state, TimePoint deadline) {
    set_state(process, state);
    process.deadline = deadline;
    remember_deadline(deadline);
}

void Supervisor::remember_deadline(TimePoint deadline) {
    // A bound that is in the past belongs to deadlines that are gone.
    if (waiting_ <= 1 && phase_ == Phase::running) earliest_ = deadline;
    earliest_ = std::min(earliest_, deadline);
}

void Supervisor::recompute_deadline() {
    earliest_ = TimePoint::max();
    if (phase_ != Phase::running) earliest_ = stop_deadline_;
    if (phase_ == Phase::sweeping && sweep_signal_ != SIGKILL) earliest_ = std::min(earliest_, phase_deadline_);
    for (Process const& process : processes_) {
        if (waits_for_time(process.state)) earliest_ = std::min(earliest_, process.deadline);
    }
}

void Supervisor::finish_stop_when_all_down() {
    if (phase_ != Phase::stopping || not_down_ > 0) return;
    if (policy_.is_pid_1) {
        if (in_a_hurry_ || latest_kill_ <= now_) return sweep(SIGKILL, stop_deadline_);
        return sweep(SIGTERM, std::min(now_ + policy_.stop_timeout, latest_kill_));
    }
    phase_ = Phase::finished;
    actions_->push_back(action::Finish{0});
}

void Supervisor::sweep(int signo, TimePoint until) {
    assert(policy_.is_pid_1);
    phase_ = Phase::sweeping;
    sweep_signal_ = signo;
    phase_deadline_ = until;
    recompute_deadline();
    actions_->push_back(action::Sweep{signo});
}

void Supervisor::give_up() {
    for (std::size_t at = 0; at < processes_.size(); ++at) {
        if (processes_[at].state == State::up || processes_[at].state == State::stopping) kill(at);
        if (is_alive(processes_[at].state)) actions_->push_back(action::ReportLeft{number_at(at), processes_[at].pid});
    }
    phase_ = Phase::finished;
    actions_->push_back(action::Finish{1});
}

/// splitmix64 (Steele, Lea, Flood, 2014), the upper 53 bits.
double Supervisor::random() {
    std::uint64_t z = (random_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

}  // namespace triton::launcher

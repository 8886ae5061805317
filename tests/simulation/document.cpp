#include "tests/simulation/document.h"

#include <csignal>
#include <numeric>
#include <utility>

namespace triton::simulation {

namespace {

using launcher::HealthAction;
using launcher::OnChange;
using launcher::ProgramId;
using launcher::ProgramKind;
using launcher::ProgramPolicy;
using launcher::Readiness;
using launcher::Restart;
using launcher::RestartPolicy;
using launcher::StartLimit;
using launcher::StopScope;
using namespace std::chrono_literals;

constexpr std::uint32_t most_programs = 6;

RestartPolicy random_backoff(Random& random) {
    static constexpr std::array<Duration, 6> delays{0s, 1ms, 100ms, 1s, 1s, 10s};
    static constexpr std::array<Duration, 5> max_delays{0s, 500ms, 10s, 60s, 1h};
    static constexpr std::array<double, 4> factors{1, 1.5, 2, 10};
    static constexpr std::array<double, 4> jitters{0, 0.1, 0.5, 1};
    static constexpr std::array<Duration, 5> resets{0s, 1s, 60s, 60s, 1h};
    static constexpr std::array<Duration, 4> minimum_runs{0s, 1s, 1s, 10s};
    return {.delay = random.pick(delays),
            .max_delay = random.pick(max_delays),
            .factor = random.pick(factors),
            .jitter = random.pick(jitters),
            .reset_after = random.pick(resets),
            .minimum_run = random.pick(minimum_runs),
            .always_waits = random.one_in(4)};
}

void add_stop(ProgramPolicy& policy, Random& random) {
    static constexpr std::array<int, 5> signals{SIGTERM, SIGTERM, SIGINT, SIGUSR1, SIGKILL};
    static constexpr std::array<Duration, 5> timeouts{0s, 1s, 10s, 10s, 1h};
    policy.stop_signal = random.pick(signals);
    policy.stop_timeout = random.pick(timeouts);
}

StartLimit random_start_limit(Random& random) {
    static constexpr std::array<Duration, 4> intervals{1s, 10s, 60s, 1h};
    StartLimit limit{.count = static_cast<std::uint32_t>(1 + random.below(4)), .interval = random.pick(intervals)};
    if (random.one_in(4)) limit.exit_code = static_cast<int>(1 + random.below(255));
    return limit;
}

launcher::Health random_health(Random& random) {
    static constexpr std::array<Duration, 4> intervals{100ms, 1s, 10s, 60s};
    static constexpr std::array<Duration, 4> periods{0s, 0s, 5s, 60s};
    static constexpr std::array<HealthAction, 5> actions{
        HealthAction::restart, HealthAction::restart, HealthAction::report, HealthAction::report, HealthAction::exit};
    return {.interval = random.pick(intervals),
            .retries = static_cast<std::uint32_t>(1 + random.below(3)),
            .start_period = random.pick(periods),
            .action = random.pick(actions)};
}

}  // namespace

Documents::Documents(Random& random)
    : random_(random),
      is_design_form_(random.one_in(8)),
      is_simple_(random.one_in(2)),
      highest_count_(static_cast<std::uint32_t>(
          is_design_form_ && random.one_in(2) ? 40 : 1 + random.below(is_design_form_ ? 8 : 5))),
      slots_(is_design_form_ ? 1 + random.below(2) : 1 + random.below(most_programs)),
      order_(slots_.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    for (std::size_t left = order_.size(); left > 1; --left)
        std::swap(order_[left - 1], order_[random_.below(left)]);
    for (Slot& slot : slots_)
        slot.policy = is_design_form_ ? policy_of_design_form() : policy();
    if (!is_design_form_ || slots_.size() < 2) return;
    slots_.back().policy = policy();
    slots_.back().policy.auxiliary = true;
}

ProgramPolicy Documents::policy_of_design_form() {
    ProgramPolicy policy;
    policy.backoff = random_backoff(random_);
    add_stop(policy, random_);
    return policy;
}

ProgramPolicy Documents::policy() {
    static constexpr std::array<ProgramKind, 6> kinds{ProgramKind::service,  ProgramKind::service,
                                                      ProgramKind::service,  ProgramKind::service,
                                                      ProgramKind::one_shot, ProgramKind::scheduled};
    static constexpr std::array<Restart, 5> restarts{Restart::always, Restart::always, Restart::always,
                                                     Restart::on_failure, Restart::never};
    static constexpr std::array<OnChange, 4> changes{OnChange::keep, OnChange::restart, OnChange::restart,
                                                     OnChange::signal};
    static constexpr std::array<Duration, 4> short_times{100ms, 1s, 5s, 60s};
    bool const is_simple = is_simple_;
    // Each key is there in some programs only, and in few where little is asked for.
    auto const some = [&](std::uint64_t n) { return random_.one_in(is_simple ? 3 * n : n); };
    ProgramPolicy policy;
    policy.kind = random_.pick(kinds);
    policy.auto_start = !some(5);
    policy.restart = random_.pick(restarts);
    if (some(4)) policy.success_ends = {1, config::signal_end + SIGSEGV};
    if (some(4)) policy.permanent_ends = {255, config::signal_end + SIGKILL};
    if (policy.kind != ProgramKind::service && random_.one_in(2)) policy.restart = Restart::never;
    policy.backoff = random_backoff(random_);
    if (some(4)) policy.start_limit = random_start_limit(random_);
    policy.critical = some(8);
    policy.is_main = policy.critical && some(4);
    policy.auxiliary = some(4);
    add_stop(policy, random_);
    if (some(3)) policy.drain = random_.pick(short_times);
    policy.has_pre_stop = some(3);
    policy.pre_stop_timeout = random_.pick(short_times);
    policy.stop_scope = random_.one_in(3) ? StopScope::tree : StopScope::process;
    policy.kills_tree = random_.one_in(2);
    policy.forks = policy.kind == ProgramKind::service && some(4);
    policy.on_change = random_.pick(changes);
    policy.change_signal = random_.one_in(2) ? SIGHUP : SIGUSR2;
    policy.has_on_failure = some(3);
    policy.has_on_success = some(3);
    policy.has_on_stop = policy.kind == ProgramKind::one_shot && some(2);
    policy.on_stop_timeout = random_.pick(short_times);
    if (policy.kind != ProgramKind::service && some(3)) policy.run_timeout = random_.pick(short_times);
    policy.makes_up = policy.kind == ProgramKind::scheduled && some(2);
    if (some(4)) {
        policy.stop_steps = {{policy.stop_signal, random_.pick(short_times)}, {SIGINT, random_.pick(short_times)}};
        if (random_.one_in(2)) policy.stop_steps.push_back({SIGQUIT, random_.one_in(2) ? Duration{} : Duration(1s)});
        policy.stop_timeout = Duration{};
        for (launcher::StopStep const& step : policy.stop_steps)
            policy.stop_timeout += step.wait;
    }
    if (some(2)) policy.readiness = random_.one_in(2) ? Readiness::notified : Readiness::probed;
    policy.probe_interval = random_.pick(short_times);
    if (some(3)) policy.start_timeout = random_.pick(short_times);
    if (policy.readiness == Readiness::notified && random_.one_in(2)) policy.watchdog = random_.pick(short_times);
    // Mostly one; more than that is a case of its own, and as many as there may be another.
    std::size_t const checks = some(3) ? (random_.one_in(2) ? 1 : random_.one_in(2) ? 2 : launcher::most_checks) : 0;
    for (std::size_t check = 0; check < checks; ++check)
        policy.checks.push_back(random_health(random_));
    policy.is_sequential = policy.kind != ProgramKind::scheduled && some(4);
    if (policy.kind != ProgramKind::scheduled && some(3)) policy.max_unavailable = random_.one_in(2) ? 1 : 2;
    policy.is_told_of_files = some(4);
    return policy;
}

/// What is scheduled from now on may still undo what it did once: one of many cases, so it is looked for.
ProgramPolicy Documents::successor(ProgramPolicy const& before) {
    ProgramPolicy next = policy();
    for (int tries = 0; before.has_on_stop && next.kind != ProgramKind::scheduled && tries < 4; ++tries)
        next = policy();
    return next;
}

Documents::Specs Documents::next() {
    bool const is_first = std::exchange(is_first_, false);
    std::vector<launcher::ProgramSpec> specs;
    bool const has_all = is_first || random_.one_in(4);
    bool const has_none = !is_first && random_.one_in(16);
    for (std::uint32_t at = 0; at < slots_.size(); ++at) {
        Slot& slot = slots_[at];
        bool const was_there = std::exchange(slot.is_there, !has_none && (has_all || !random_.one_in(5)));
        if (!slot.is_there) continue;
        // One that comes back may be the same.
        bool has_changed = is_first || !random_.one_in(2);
        if (!is_design_form_ && !is_first && has_changed && random_.one_in(3)) slot.policy = successor(slot.policy);
        if (is_first || random_.one_in(2)) slot.policy.count = count();
        // What only the supervisor cares about does not change what is started.
        if (has_changed && was_there) has_changed = is_design_form_ || !random_.one_in(8);
        specs.push_back({.id = ProgramId{at}, .policy = slot.policy, .has_changed = has_changed});
    }
    add_order(specs);
    return std::make_shared<std::vector<launcher::ProgramSpec> const>(std::move(specs));
}

/// Anew for each document: it costs nothing, and dependencies that come and go are a case of their own.
void Documents::add_order(std::vector<launcher::ProgramSpec>& specs) {
    if (is_design_form_) return;
    std::uint64_t const rarity = is_simple_ ? 6 : 3;
    for (launcher::ProgramSpec& spec : specs) {
        spec.policy.after.clear();
        spec.policy.requires_.clear();
        spec.policy.binds_to.clear();
        for (launcher::ProgramSpec const& other : specs) {
            if (order_[static_cast<std::size_t>(other.id)] >= order_[static_cast<std::size_t>(spec.id)]) continue;
            if (other.policy.auxiliary != spec.policy.auxiliary) continue;
            if (random_.one_in(rarity)) spec.policy.after.push_back(other.id);
            if (!random_.one_in(rarity)) continue;
            spec.policy.requires_.push_back(other.id);
            if (random_.one_in(3)) spec.policy.binds_to.push_back(other.id);
        }
    }
}

}  // namespace triton::simulation

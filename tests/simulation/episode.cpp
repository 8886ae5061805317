#include "tests/simulation/episode.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "tests/simulation/invariants.h"
#include "tests/simulation/kernel.h"
#include "tests/simulation/random.h"
#include "tests/simulation/text.h"

namespace triton::simulation {

namespace {

using launcher::Action;
using launcher::SpawnError;
using launcher::SpawnStage;
using launcher::Supervisor;
using launcher::SupervisorPolicy;
namespace event = launcher::event;
namespace action = launcher::action;
using namespace std::chrono_literals;

constexpr std::size_t remembered_steps = 30;
constexpr TimePoint far_future = TimePoint{} + 24h * 365 * 50;  // no jump beyond: nanoseconds end after 292 years

/// What may happen next. Each episode weighs them anew, so that some see storms of one kind and none of another.
enum class Happening : std::uint8_t {
    result,
    clone_failure,
    execute_failure,
    end,
    reap,
    configure,
    end_all,
    forward,
    wait,
    spurious_time,
    stop,
    no_child,
    orphans,
    wake,
    settle,
};
constexpr std::size_t happenings = static_cast<std::size_t>(Happening::settle) + 1;

SupervisorPolicy random_policy(Random& random) {
    static constexpr std::array<Duration, 6> delays{0s, 1ms, 100ms, 1s, 1s, 10s};
    static constexpr std::array<Duration, 5> max_delays{0s, 500ms, 10s, 60s, 1h};
    static constexpr std::array<double, 4> factors{1, 1.5, 2, 10};
    static constexpr std::array<double, 4> jitters{0, 0.1, 0.5, 1};
    static constexpr std::array<Duration, 5> resets{0s, 1s, 60s, 60s, 1h};
    static constexpr std::array<Duration, 4> minimum_runs{0s, 1s, 1s, 10s};
    static constexpr std::array<int, 5> stop_signals{SIGTERM, SIGTERM, SIGINT, SIGUSR1, SIGKILL};
    static constexpr std::array<Duration, 5> stop_timeouts{0s, 1s, 10s, 10s, 1h};
    static constexpr std::array<Duration, 5> stop_limits{0s, 5s, 30s, 30s, 2h};
    SupervisorPolicy policy;
    policy.restart = {.delay = random.pick(delays),
                      .max_delay = random.pick(max_delays),
                      .factor = random.pick(factors),
                      .jitter = random.pick(jitters),
                      .reset_after = random.pick(resets),
                      .minimum_run = random.pick(minimum_runs)};
    policy.stop_signal = random.pick(stop_signals);
    policy.stop_timeout = random.pick(stop_timeouts);
    policy.stop_limit = random.pick(stop_limits);
    policy.is_pid_1 = random.one_in(2);
    policy.seed = random.next();
    return policy;
}

}  // namespace

void Coverage::add(Coverage const& other) {
    for (std::size_t state = 0; state < states; ++state) {
        for (std::size_t at = 0; at < pairs[state].size(); ++at)
            pairs[state][at] += other.pairs[state][at];
    }
    for (std::size_t at = 0; at < phases.size(); ++at)
        phases[at] += other.phases[at];
    for (std::size_t at = 0; at < actions.size(); ++at)
        actions[at] += other.actions[at];
    settled += other.settled;
}

class Episode::Script {
public:
    Script(std::uint64_t seed, std::uint64_t most_steps)
        : random_(seed),
          most_steps_(most_steps),
          policy_(random_policy(random_)),
          is_rude_(random_.one_in(2)),
          is_prompt_(random_.one_in(2)),
          highest_count_(random_.one_in(16) ? 40 : 1 + random_.below(8)),
          kernel_(random_, policy_.stop_signal, is_rude_),
          invariants_(policy_, kernel_),
          supervisor_(policy_) {
        static constexpr std::array<std::uint64_t, 5> levels{0, 1, 4, 16, 64};
        for (std::uint64_t& weight : weights_)
            weight = random_.pick(levels);
        for (Happening const needed : {Happening::result, Happening::reap, Happening::wait, Happening::configure})
            weight(needed) += 4;
        weight(Happening::stop) = random_.below(2);
        weight(Happening::settle) = std::min<std::uint64_t>(weight(Happening::settle), 1);
    }

    Outcome run() {
        try {
            std::uint64_t const length = 20 + random_.below(random_.one_in(4) ? 2000 : 300);
            while (outcome_.steps < length && is_going_on())
                happen(choose());
            stop_to_the_end();
            for (int late = 0; late < 8 && has_steps_left(); ++late)
                happen(choose());
        } catch (Violation const& violation) {
            outcome_.violation = violation.what + "\n" + history();
        }
        return outcome_;
    }

    [[nodiscard]] std::string history() const {
        std::string text =
            "policy: delay " + simulation::text(policy_.restart.delay) + ", max_delay " +
            simulation::text(policy_.restart.max_delay) + ", factor " + std::to_string(policy_.restart.factor) +
            ", jitter " + std::to_string(policy_.restart.jitter) + ", reset_after " +
            simulation::text(policy_.restart.reset_after) + ", minimum_run " +
            simulation::text(policy_.restart.minimum_run) + ",\n        stop_signal " +
            std::to_string(policy_.stop_signal) + ", stop_timeout " + simulation::text(policy_.stop_timeout) +
            ", stop_limit " + simulation::text(policy_.stop_limit) + (policy_.is_pid_1 ? ", PID 1\n" : ", not PID 1\n");
        std::uint64_t const first = outcome_.steps > remembered_steps ? outcome_.steps - remembered_steps : 0;
        for (std::uint64_t step = first; step < outcome_.steps; ++step) {
            Step const& that = last_steps_[step % remembered_steps];
            text += "step " + std::to_string(step + 1) + " at " + simulation::text(that.now.time_since_epoch()) + ": " +
                    simulation::text(that.event) + "\n";
            for (Action const& action : that.actions)
                text += "    " + simulation::text(action) + "\n";
        }
        auto const deadline = supervisor_.next_deadline();
        return text + "then: phase " + simulation::text(supervisor_.phase()) + ", next deadline " +
               (deadline ? simulation::text(deadline->time_since_epoch()) : "none") + "\n";
    }

private:
    struct Step {
        TimePoint now;
        launcher::Event event;
        std::vector<Action> actions;
    };

    std::uint64_t& weight(Happening which) { return weights_[static_cast<std::size_t>(which)]; }
    [[nodiscard]] bool has_steps_left() const { return outcome_.steps < most_steps_; }
    [[nodiscard]] bool is_going_on() const { return has_steps_left() && !invariants_.is_finished(); }

    Happening choose() {
        std::uint64_t sum = 0;
        for (std::uint64_t const weight : weights_)
            sum += weight;
        std::uint64_t left = random_.below(sum);
        for (std::size_t at = 0;; ++at) {
            if (left < weights_[at]) return static_cast<Happening>(at);
            left -= weights_[at];
        }
    }

    void happen(Happening which) {
        switch (which) {
            case Happening::result: return answer(&Script::start);
            case Happening::clone_failure: return answer(&Script::fail_to_clone);
            case Happening::execute_failure: return answer(&Script::fail_to_execute);
            case Happening::end: return end_one();
            case Happening::reap: return reap_one();
            case Happening::configure: return handle(event::ConfigurationAccepted{random_count()});
            case Happening::end_all: return end_all();
            case Happening::forward: return handle(event::SignalReceived{random_.one_in(2) ? SIGUSR1 : SIGWINCH});
            case Happening::wait: return wait();
            case Happening::spurious_time: return handle(event::TimePassed{});
            case Happening::stop: return handle(event::StopAsked{});
            case Happening::no_child: return say_no_child();
            case Happening::orphans: return kernel_.add_orphans(policy_.is_pid_1 ? random_.below(4) : 0);
            case Happening::wake: return wake_one();
            case Happening::settle: return settle();
        }
    }

    std::uint32_t random_count() { return static_cast<std::uint32_t>(random_.below(highest_count_ + 1)); }

    /// One step: what the shell around the supervisor does with an event, and the judgement.
    void handle(launcher::Event const& event) {
        Step& step = last_steps_[outcome_.steps % remembered_steps];
        step.now = now_;
        step.event = event;
        step.actions.clear();
        ++outcome_.steps;
        count(event);
        std::optional<TimePoint> const deadline = supervisor_.next_deadline();
        supervisor_.handle(event, now_, step.actions);
        invariants_.check(event, now_, step.actions, supervisor_, deadline);
        for (Action const& action : step.actions)
            perform(action);
        if (is_prompt_ && !invariants_.is_finished()) {
            while (!invariants_.pending().empty() && has_steps_left())
                answer_promptly();
        }
    }

    void perform(Action const& action) {
        ++outcome_.coverage.actions[action.index()];
        outcome_.digest = outcome_.digest * 31 + action.index();
        if (auto const* const spawn = std::get_if<action::Spawn>(&action)) {
            outcome_.digest = outcome_.digest * 31 + static_cast<std::uint32_t>(spawn->number);
        } else if (auto const* const signal = std::get_if<action::Signal>(&action)) {
            kernel_.signal(signal->number, signal->signo);
        } else if (auto const* const sweep = std::get_if<action::Sweep>(&action)) {
            kernel_.sweep(sweep->signo);
        } else if (auto const* const exited = std::get_if<action::ReportExited>(&action)) {
            outcome_.digest =
                outcome_.digest * 31 + static_cast<std::uint64_t>(exited->restart_in.value_or(1ns).count());
        }
    }

    void count(launcher::Event const& event) {
        ++outcome_.coverage.phases[static_cast<std::size_t>(supervisor_.phase())];
        if (invariants_.is_finished()) return;
        auto const visit = [&](ProcessNumber number) {
            ++outcome_.coverage.pairs[static_cast<std::size_t>(supervisor_.state(number))][event.index()];
        };
        std::visit(
            [&](auto const& which) {
                if constexpr (requires { which.number; }) {
                    visit(which.number);
                } else {
                    for (std::uint32_t number = 1; number <= supervisor_.size(); ++number)
                        visit(ProcessNumber{number});
                }
            },
            event);
    }

    // Results of Spawn.

    void answer(void (Script::*how)(ProcessNumber)) {
        auto const& pending = invariants_.pending();
        if (pending.empty()) return wait();
        (this->*how)(pending[random_.below(pending.size())]);
    }

    void answer_promptly() {
        std::uint64_t const bad = weight(Happening::clone_failure) + weight(Happening::execute_failure);
        if (random_.below(bad + 16) < 16 || is_settling_) return answer(&Script::start);
        answer(random_.below(bad) < weight(Happening::clone_failure) ? &Script::fail_to_clone
                                                                     : &Script::fail_to_execute);
    }

    void start(ProcessNumber number) { handle(event::Spawned{number, kernel_.clone(number).pid}); }

    void fail_to_clone(ProcessNumber number) {
        handle(event::SpawnFailed{number, {SpawnStage::clone, random_.one_in(2) ? EAGAIN : ENOMEM}});
    }

    void fail_to_execute(ProcessNumber number) {
        Child& child = kernel_.clone(number);
        child.error = SpawnError{SpawnStage::execute, random_.one_in(2) ? ENOENT : EACCES};
        child.status = 127 << 8;
        handle(event::Spawned{number, child.pid});
    }

    // Ends of processes.

    std::optional<std::size_t> random_child(bool (*fits)(Child const&)) {
        auto const& children = kernel_.children();
        if (children.empty()) return std::nullopt;
        std::size_t const first = random_.below(children.size());
        for (std::size_t i = 0; i < children.size(); ++i) {
            std::size_t const at = (first + i) % children.size();
            if (fits(children[at])) return at;
        }
        return std::nullopt;
    }

    static bool is_dead(Child const& child) { return child.status.has_value(); }
    static bool can_end(Child const& child) { return !child.status && !child.is_stuck; }
    static bool is_stuck(Child const& child) { return !child.status && child.is_stuck; }

    int random_status() {
        static constexpr std::array<int, 6> statuses{0, 0, 1 << 8, 255 << 8, SIGSEGV | 0x80, SIGKILL};
        return random_.pick(statuses);
    }

    void end_one() {
        auto const child = random_child(can_end);
        if (!child) return wait();
        kernel_.end(*child, random_status());
        if (random_.one_in(2)) reap(*child);
    }

    void end_all() {
        int const status = random_status();
        for (std::size_t child = 0; child < kernel_.children().size(); ++child) {
            if (can_end(kernel_.children()[child])) kernel_.end(child, status);
        }
    }

    void reap(std::size_t child) {
        Child const ended = kernel_.reap(child);
        handle(event::Exited{ended.number, *ended.status, ended.error});
    }

    void reap_one() {
        auto const child = random_child(is_dead);
        if (!child) return wait();
        reap(*child);
    }

    void wake_one() {
        if (random_.one_in(4)) kernel_.end_orphans();
        if (auto const child = random_child(is_stuck)) kernel_.wake(*child);
    }

    /// waitpid's ECHILD. The shell may come across it at any time, but only when it is true.
    void say_no_child() {
        if (kernel_.children().empty() && !kernel_.has_orphans()) handle(event::NoChildLeft{});
    }

    // Time.

    void wait() {
        auto const deadline = supervisor_.next_deadline();
        auto const up_to = [&](Duration most) {
            return Duration(random_.below(static_cast<std::uint64_t>(most.count()) + 1));
        };
        TimePoint next = now_;
        switch (random_.below(8)) {
            case 0: break;
            case 1: next += up_to(1ms); break;
            case 2: next += up_to(2s); break;
            case 3: next += up_to(2min); break;
            case 4:
            case 5: next = deadline.value_or(now_); break;
            case 6: next = deadline.value_or(now_) + (random_.one_in(2) ? up_to(1s) : -1ns); break;
            case 7: next += random_.one_in(4) ? up_to(random_.one_in(16) ? 24h * 365 : 24h) : up_to(1h); break;
        }
        if (next <= far_future) now_ = std::max(now_, next);
        // The loop says so in the same round as a rule, but other events of the round come first.
        if (deadline && *deadline <= now_ && !random_.one_in(4)) handle(event::TimePassed{});
    }

    /// Sleeps as the loop does. Without a deadline nothing would ever happen again.
    void sleep_until_deadline() {
        auto const deadline = supervisor_.next_deadline();
        if (!deadline) throw Violation{"while something is awaited, there is a deadline"};
        now_ = std::max(now_, *deadline);
        handle(event::TimePassed{});
    }

    // Two ends that must be good.

    /// Nothing fails any more, nothing is refused: soon everything that is wanted is up, for good.
    void settle() {
        if (invariants_.stop_end()) return;
        is_settling_ = true;
        std::uint64_t const enough = outcome_.steps + 100 + 20 * supervisor_.size();
        while (has_steps_left()) {
            if (outcome_.steps > enough) throw Violation{"without failures everything comes to rest"};
            if (!invariants_.pending().empty()) {
                answer(&Script::start);
            } else if (auto const dead = random_child(is_dead)) {
                reap(*dead);
            } else if (auto const stuck = random_child(is_stuck)) {
                kernel_.wake(*stuck);
            } else if (supervisor_.next_deadline()) {
                sleep_until_deadline();
            } else {
                break;
            }
        }
        is_settling_ = false;
        if (!has_steps_left()) return;
        invariants_.check_settled(supervisor_);
        ++outcome_.coverage.settled;
    }

    /// Whatever the processes do, a stop ends in its time.
    void stop_to_the_end() {
        if (!is_going_on()) return;
        if (!invariants_.stop_end()) handle(event::StopAsked{});
        TimePoint const end = std::max(now_, *invariants_.stop_end());
        std::uint64_t const enough = outcome_.steps + 100 + 20 * supervisor_.size();
        while (is_going_on()) {
            if (outcome_.steps > enough) throw Violation{"a stop ends after finitely many events"};
            if (auto const dead = random_child(is_dead); dead && !random_.one_in(4)) {
                reap(*dead);
            } else if (!invariants_.pending().empty() && !random_.one_in(4)) {
                answer(&Script::start);
            } else if (!kernel_.has_orphans() && kernel_.children().empty() && !random_.one_in(4)) {
                handle(event::NoChildLeft{});
            } else if (random_.one_in(4)) {
                wake_one();
            } else if (random_.one_in(8)) {
                handle(event::StopAsked{});
            } else {
                sleep_until_deadline();
            }
        }
        if (invariants_.is_finished() && now_ > end) throw Violation{"a stop ends within its limit"};
    }

    Random random_;
    std::uint64_t most_steps_;
    SupervisorPolicy policy_;
    bool is_rude_;    // some processes ignore signals or are stuck
    bool is_prompt_;  // results follow Spawn at once, as from a shell that spawns by itself
    std::uint64_t highest_count_;
    Kernel kernel_;
    Invariants invariants_;
    Supervisor supervisor_;
    std::array<std::uint64_t, happenings> weights_{};
    std::array<Step, remembered_steps> last_steps_{};
    TimePoint now_ = TimePoint{} + 1h;
    bool is_settling_ = false;
    Outcome outcome_;
};

Episode::Episode(std::uint64_t seed, std::uint64_t most_steps) : script_(std::make_unique<Script>(seed, most_steps)) {}
Episode::~Episode() = default;
Outcome Episode::run() { return script_->run(); }
std::string Episode::history() const { return script_->history(); }

}  // namespace triton::simulation

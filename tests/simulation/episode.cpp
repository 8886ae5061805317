#include "tests/simulation/episode.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>
#include <string>

#include "config/substitution.h"
#include "tests/simulation/action.h"
#include "tests/simulation/document.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/kernel.h"
#include "tests/simulation/random.h"
#include "tests/simulation/text.h"

namespace triton::simulation {

namespace {

using launcher::Action;
using launcher::ProcessNumber;
using launcher::ProgramId;
using launcher::Supervisor;
using launcher::SupervisorPolicy;
using process::SpawnError;
using process::SpawnStage;
namespace event = launcher::event;
namespace action = launcher::action;
using namespace std::chrono_literals;

constexpr std::size_t remembered_steps = 40;
/// For a process: what may come of it in one round in which everything fails. It starts and starts again once, with
/// what runs before a start and after an end, and each has its result.
constexpr std::uint64_t events_of_a_round = 24;
constexpr TimePoint far_future = TimePoint{} + 24h * 365 * 50;  // no jump beyond: nanoseconds end after 292 years

/// What may happen next. Each episode weighs them anew, so that some see storms of one kind and none of another.
enum class Happening : std::uint8_t {
    result,
    clone_failure,
    execute,
    execute_failure,
    execute_news,
    flood,
    hostile_round,
    end,
    reap,
    tree_empty,
    signal_failed,
    end_all,
    oom,
    main_found,
    ready,
    ping,
    extend,
    helper_success,
    helper_failure,
    stray_message,
    schedule,
    command,
    configure,
    forward,
    wait,
    spurious_time,
    stop,
    no_child,
    orphans,
    wake,
    replace,
    settle,
};
constexpr std::size_t happenings = static_cast<std::size_t>(Happening::settle) + 1;

SupervisorPolicy random_policy(Random& random) {
    static constexpr std::array<Duration, 5> stop_limits{0s, 5s, 30s, 30s, 2h};
    static constexpr std::array<Duration, 4> sweep_timeouts{0s, 1s, 10s, 1h};
    SupervisorPolicy policy;
    policy.stop_limit = random.pick(stop_limits);
    policy.sweep_timeout = random.pick(sweep_timeouts);
    policy.is_pid_1 = random.one_in(2);
    policy.seed = random.next();
    return policy;
}

template <class Counts>
void add_to(Counts& sum, Counts const& other) {
    for (std::size_t at = 0; at < sum.size(); ++at)
        sum[at] += other[at];
}

}  // namespace

void Coverage::add(Coverage const& other) {
    for (std::size_t state = 0; state < pairs.size(); ++state)
        add_to(pairs[state], other.pairs[state]);
    add_to(phases, other.phases);
    add_to(actions, other.actions);
    add_to(whys, other.whys);
    add_to(helpers, other.helpers);
    add_to(cancelled, other.cancelled);
    add_to(auxiliary, other.auxiliary);
    settled += other.settled;
    replaced += other.replaced;
    ended += other.ended;
    refused += other.refused;
    helpers_above_count += other.helpers_above_count;
    hostile_rounds += other.hostile_rounds;
}

class Episode::Script {
public:
    Script(std::uint64_t seed, std::uint64_t most_steps)
        : random_(seed),
          most_steps_(most_steps),
          policy_(random_policy(random_)),
          documents_(random_),
          is_rude_(random_.one_in(2)),
          is_prompt_(random_.one_in(2)),
          kernel_(random_, is_rude_),
          invariants_(policy_, kernel_),
          supervisor_(policy_) {
        static constexpr std::array<std::uint64_t, 5> levels{0, 1, 4, 16, 64};
        for (std::uint64_t& weight : weights_)
            weight = random_.pick(levels);
        for (Happening const needed :
             {Happening::result, Happening::reap, Happening::wait, Happening::configure, Happening::execute,
              Happening::execute_news, Happening::ready, Happening::helper_success})
            weight(needed) += 4;
        weight(Happening::stop) = random_.below(2);
        for (Happening const rare : {Happening::settle, Happening::replace, Happening::hostile_round})
            weight(rare) = std::min<std::uint64_t>(weight(rare), 1);
        if (random_.one_in(4)) twin_ = std::make_unique<Supervisor>(policy_);
    }

    Outcome run() {
        try {
            configure();
            std::uint64_t const length = 20 + random_.below(random_.one_in(4) ? 2000 : 300);
            while (outcome_.steps < length && is_going_on())
                happen(choose());
            if (!invariants_.stop_end() && random_.one_in(4)) settle();
            stop_to_the_end();
            for (int late = 0; late < 8 && has_steps_left(); ++late)
                happen(choose());
        } catch (Violation const& violation) {
            outcome_.violation = violation.what + "\n" + history();
        }
        outcome_.coverage.auxiliary = invariants_.auxiliary();
        return outcome_;
    }

    [[nodiscard]] std::string history() const {
        std::string text = "stop_limit " + simulation::text(policy_.stop_limit) + ", sweep_timeout " +
                           simulation::text(policy_.sweep_timeout) + (policy_.is_pid_1 ? ", PID 1" : ", not PID 1") +
                           (twin_ ? ", with a twin\n" : "\n");
        for (std::uint32_t at = 0; at < supervisor_.program_count(); ++at)
            text +=
                "program " + std::to_string(at) + " now: " + simulation::text(supervisor_.policy(ProgramId{at})) + "\n";
        std::uint64_t const first = outcome_.steps > remembered_steps ? outcome_.steps - remembered_steps : 0;
        for (std::uint64_t step = first; step < outcome_.steps; ++step) {
            Step const& that = last_steps_[step % remembered_steps];
            text += "step " + std::to_string(step + 1) + " at " + simulation::text(that.now) + ": " +
                    simulation::text(that.event) + "\n";
            for (Action const& action : that.actions)
                text += "    " + simulation::text(action) + "\n";
        }
        auto const deadline = supervisor_.next_deadline();
        return text + "then: phase " + simulation::text(supervisor_.phase()) + ", next deadline " +
               (deadline ? simulation::text(*deadline) : "none") + ", states" + states() + "\n";
    }

private:
    struct Step {
        TimePoint now;
        launcher::Event event;
        std::vector<Action> actions;
    };

    [[nodiscard]] std::string states() const {
        std::string all;
        for (std::uint32_t at = 0; at < supervisor_.program_count(); ++at) {
            for (std::uint32_t number = 1; number <= supervisor_.size(ProgramId{at}); ++number) {
                ProcessId const id{ProgramId{at}, ProcessNumber{number}};
                all += " " + simulation::text(id) + " " + simulation::text(supervisor_.state(id));
            }
        }
        return all;
    }

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
            case Happening::execute: return execute_one();
            case Happening::execute_failure: return fail_to_execute();
            case Happening::execute_news: return tell_executed();
            case Happening::flood: return flood();
            case Happening::hostile_round: return fail_in_one_round();
            case Happening::end: return end_one();
            case Happening::reap: return reap_one();
            case Happening::tree_empty: return empty_tree();
            case Happening::signal_failed: return fail_signal();
            case Happening::end_all: return end_all();
            case Happening::oom: return end_by_oom();
            case Happening::main_found: return find_main();
            case Happening::ready: return say_ready();
            case Happening::ping: return ping();
            case Happening::extend: return extend();
            case Happening::helper_success:
                if (!end_helper(true)) wait();
                return;
            case Happening::helper_failure:
                if (!end_helper(false)) wait();
                return;
            case Happening::stray_message: return stray_message();
            case Happening::schedule: return schedule();
            case Happening::command: return command();
            case Happening::configure: return configure();
            case Happening::forward: return handle(event::SignalReceived{random_.one_in(2) ? SIGUSR1 : SIGWINCH});
            case Happening::wait: return wait();
            case Happening::spurious_time: return handle(event::TimePassed{});
            case Happening::stop: return ask_to_stop();
            case Happening::no_child: return say_no_child();
            case Happening::orphans: return kernel_.add_orphans(policy_.is_pid_1 ? random_.below(4) : 0);
            case Happening::wake: return wake_one();
            case Happening::replace: return replace();
            case Happening::settle: return settle();
        }
    }

    /// One step: what the shell around the supervisor does with an event, and the judgement.
    void handle(launcher::Event const& event) {
        Step& step = last_steps_[outcome_.steps % remembered_steps];
        step.now = now_;
        step.event = event;
        step.actions.clear();
        ++outcome_.steps;
        count(event);
        std::optional<TimePoint> const deadline = supervisor_.next_deadline();
        let_it_handle(step);
        ask_the_twin(step);
        invariants_.check(event, now_, step.actions, supervisor_, deadline);
        for (Action const& action : step.actions)
            perform(action);
        while (!ended_trees_.empty()) {
            ProcessId const id = ended_trees_.back();
            ended_trees_.pop_back();
            if (!invariants_.is_finished()) handle(event::Exited{id, SIGKILL});
        }
        if (is_prompt_ && !invariants_.is_finished()) {
            while (!invariants_.pending().empty() && has_steps_left())
                answer_promptly();
        }
    }

    /// As the shell does: room first, so that nothing can fail halfway.
    void let_it_handle(Step& step) {
        auto const* const accepted = std::get_if<event::ConfigurationAccepted>(&step.event);
        if (accepted && random_.one_in(8)) refuse_memory(step);
        std::size_t const most = accepted ? supervisor_.most_actions(*accepted->programs) : supervisor_.most_actions();
        if (accepted) supervisor_.reserve(*accepted->programs);
        if (accepted) specs_ = accepted->programs;
        step.actions.reserve(most);
        std::uint64_t const before = memory.allocations;
        supervisor_.handle(step.event, now_, step.actions);
        if (memory.allocations != before) throw Violation{"an event that has its room allocates nothing"};
        if (step.actions.size() > most) throw Violation{"most_actions() is an upper bound"};
    }

    /// A configuration for which there is no memory changes nothing.
    void refuse_memory(Step& step) {
        launcher::SupervisorState const before = supervisor_.state();
        Supervisor victim(policy_, before);
        memory.refused_after = 1 + random_.below(8);
        try {
            victim.handle(step.event, now_, step.actions);
        } catch (std::bad_alloc const&) {
            memory.refused_after = 0;
            ++outcome_.coverage.refused;
            launcher::SupervisorState after = victim.state();
            after.programs.resize(before.programs.size());  // room for more is not a change
            if (!(after == before) || !step.actions.empty()) throw Violation{"what finds no memory changes nothing"};
        }
        memory.refused_after = 0;
        step.actions.clear();
    }

    void ask_the_twin(Step const& step) {
        if (!twin_) return;
        twin_actions_.clear();
        if (auto const* const accepted = std::get_if<event::ConfigurationAccepted>(&step.event))
            twin_->reserve(*accepted->programs);
        twin_->handle(step.event, now_, twin_actions_);
        if (twin_actions_ != step.actions) {
            std::string text = "one made from a state does what the original does, which is:";
            for (Action const& action : twin_actions_)
                text += "\n    " + simulation::text(action);
            throw Violation{text};
        }
        if (twin_->next_deadline() != supervisor_.next_deadline())
            throw Violation{"one made from a state waits as long as the original"};
    }

    /// An upgrade: the supervisor of the next version goes on with what this one knew.
    void replace() {
        launcher::SupervisorState const state = supervisor_.state();
        supervisor_ = Supervisor(policy_, state);
        ++outcome_.coverage.replaced;
        if (!(supervisor_.state() == state)) throw Violation{"one made from a state has that state"};
        if (twin_ && !(twin_->state() == state)) throw Violation{"the state of the original is the same"};
    }

    void perform(Action const& action) {
        ++outcome_.coverage.actions[kind_of(action)];
        outcome_.digest = outcome_.digest * 31 + kind_of(action);
        auto const mix = [this](std::uint64_t value) { outcome_.digest = outcome_.digest * 31 + value; };
        if (auto const* const spawn = as<action::Spawn>(action)) {
            mix(static_cast<std::uint64_t>(spawn->id.program) * 1000 + static_cast<std::uint64_t>(spawn->id.number));
        } else if (auto const* const signal = as<action::Signal>(action)) {
            ++outcome_.coverage.whys[static_cast<std::size_t>(signal->why)];
            kernel_.signal(signal->pid, signal->signo);
        } else if (auto const* const rest = as<action::SignalRest>(action)) {
            ++outcome_.coverage.whys[static_cast<std::size_t>(rest->why)];
            if (rest->why == action::Why::kill) kernel_.empty_tree(rest->id);
        } else if (auto const* const tree = as<action::EndTree>(action)) {
            ended_trees_.push_back(tree->id);
        } else if (auto const* const helper = as<action::RunHelper>(action)) {
            ++outcome_.coverage.helpers[static_cast<std::size_t>(helper->helper)];
            render(helper->id);
            kernel_.run(helper->id, helper->helper);
        } else if (auto const* const cancelled = as<action::CancelHelper>(action)) {
            ++outcome_.coverage.cancelled[static_cast<std::size_t>(cancelled->helper)];
            kernel_.cancel(cancelled->id, cancelled->helper);
        } else if (auto const* const sweep = as<action::Sweep>(action)) {
            kernel_.sweep(sweep->signo);
        } else if (auto const* const exited = as<action::ReportExited>(action)) {
            mix(static_cast<std::uint64_t>(exited->restart_in.value_or(1ns).count()));
        } else if (as<action::Finish>(action) && !was_asked_to_stop_) {
            ++outcome_.coverage.ended;
        }
    }

    /// As the shell does: a helper is what the newest configuration has made for its count, and the process may be one
    /// of more that there were before.
    void render(ProcessId id) {
        auto const spec = std::ranges::find(*specs_, id.program, &launcher::ProgramSpec::id);
        std::uint32_t const count = spec == specs_->end() ? 0 : spec->policy.count;
        auto const number = static_cast<std::uint32_t>(id.number);
        if (number <= count) return;
        ++outcome_.coverage.helpers_above_count;
        config::Argument const argument{.type = config::ArgumentType::process_number, .multiplier = 1'000'000'000};
        auto const made = config::substitute(argument, {}, config::Variables({}, nullptr), count);
        if (!made || made->arguments(id.number).front() != std::to_string(number) + "000000000")
            throw Violation{"a helper is told the number of its process"};
    }

    void count(launcher::Event const& event) {
        ++outcome_.coverage.phases[static_cast<std::size_t>(supervisor_.phase())];
        if (invariants_.is_finished()) return;
        auto const visit = [&](ProcessId id) {
            if (static_cast<std::uint32_t>(id.program) >= supervisor_.program_count()) return;
            if (static_cast<std::uint32_t>(id.number) > supervisor_.size(id.program)) return;
            ++outcome_.coverage.pairs[static_cast<std::size_t>(supervisor_.state(id))][event.index()];
        };
        auto const visit_all = [&](std::uint32_t program) {
            for (std::uint32_t number = 1; number <= supervisor_.size(ProgramId{program}); ++number)
                visit({ProgramId{program}, ProcessNumber{number}});
        };
        std::visit(
            [&](auto const& which) {
                if constexpr (requires { which.id; }) {
                    visit(which.id);
                } else if constexpr (requires { which.number; }) {
                    if (which.number) return visit({which.program, *which.number});
                    if (static_cast<std::uint32_t>(which.program) < supervisor_.program_count())
                        visit_all(static_cast<std::uint32_t>(which.program));
                } else if constexpr (requires { which.program; }) {
                    if (static_cast<std::uint32_t>(which.program) < supervisor_.program_count())
                        visit_all(static_cast<std::uint32_t>(which.program));
                } else {
                    for (std::uint32_t program = 0; program < supervisor_.program_count(); ++program)
                        visit_all(program);
                }
            },
            event);
    }

    /// Chance alone hardly ever finds a program that is scheduled from now on and still undoes what it did once.
    void configure() {
        handle(event::ConfigurationAccepted{documents_.next()});
        auto const program = is_going_on() ? scheduled_while_undoing() : std::nullopt;
        if (program) handle(event::ScheduleDue{*program});
    }

    void ask_to_stop() {
        was_asked_to_stop_ = true;
        handle(event::StopAsked{random_.one_in(4) ? static_cast<int>(random_.below(256)) : 0});
    }

    // Results of Spawn.

    void answer(void (Script::*how)(ProcessId)) {
        auto const& pending = invariants_.pending();
        if (pending.empty()) return wait();
        (this->*how)(pending[random_.below(pending.size())]);
    }

    void answer_promptly() {
        std::uint64_t const bad = weight(Happening::clone_failure) + weight(Happening::execute_failure);
        if (random_.below(bad + 16) < 16 || is_settling_) return answer(&Script::start);
        if (random_.below(bad) < weight(Happening::clone_failure)) return answer(&Script::fail_to_clone);
        answer(&Script::start);
        fail_to_execute();
    }

    Child& clone(ProcessId id) { return kernel_.clone(id, supervisor_.policy(id.program).stop_signal); }

    void start(ProcessId id) {
        Child& child = clone(id);
        if (is_settling_) child.is_mute = false;
        handle(event::Spawned{id, child.pid});
    }

    void fail_to_clone(ProcessId id) {
        handle(event::SpawnFailed{id, {process::SpawnStage::clone, random_.one_in(2) ? EAGAIN : ENOMEM}});
    }

    // What comes of execve. The news of a success is later than it, and may be later than the process's end.

    static bool is_before_execve(Child const& child) { return can_end(child) && !child.has_executed; }
    static bool has_news(Child const& child) { return child.has_executed && !child.is_known; }

    void execute_one() {
        if (auto const child = random_child(is_before_execve)) kernel_.execute(*child);
    }

    void fail_to_execute() {
        auto const child = random_child(is_before_execve);
        if (!child) return wait();
        kernel_.fail_to_execute(*child, {process::SpawnStage::execute, random_.one_in(2) ? ENOENT : EACCES});
    }

    void tell_executed() {
        auto const child = random_child(has_news);
        if (!child) return wait();
        tell_executed(*child);
    }

    void tell_executed(std::size_t child) {
        ProcessId const id = kernel_.children()[child].id;
        kernel_.tell_executed(child);
        handle(event::Executed{id});
    }

    /// All at one time, as fast as whoever is hostile can send it.
    void flood() {
        std::uint64_t const kind = random_.below(5);
        for (std::uint64_t count = 8 + random_.below(24); count > 0 && is_going_on(); --count) {
            switch (kind) {
                case 0: handle(event::SignalReceived{SIGUSR1}); break;
                case 1: stray_message(); break;
                case 2: command(); break;
                case 3: handle(event::TimePassed{}); break;
                case 4: schedule(); break;
            }
        }
    }

    /// Time stands still, and whatever is started fails at once: at clone, at execve, which is known later than that,
    /// or by its end. Whoever answers at once is answered again in the same round, so a round must have an end of its
    /// own. Where a policy asks for restarts without a delay, it asks for what is forbidden here.
    void fail_in_one_round() {
        std::uint64_t most = 32;
        for (std::uint32_t at = 0; at < supervisor_.program_count(); ++at) {
            launcher::ProgramPolicy const& policy = supervisor_.policy(ProgramId{at});
            Duration const delay = std::min(policy.backoff.delay, policy.backoff.max_delay);
            if (delay < 1us || policy.backoff.jitter >= 1 || policy.backoff.reset_after == 0s) return;
            most += events_of_a_round * supervisor_.size(ProgramId{at});
        }
        ++outcome_.coverage.hostile_rounds;
        for (std::uint64_t events = 0; is_going_on() && fail_one(); ++events)
            if (events > most) throw Violation{"a round in which everything fails has an end"};
    }

    bool fail_one() {
        auto const deadline = supervisor_.next_deadline();
        if (!invariants_.pending().empty()) {
            answer(random_.one_in(2) ? &Script::fail_to_clone : &Script::start);
        } else if (auto const fresh = random_child(is_before_execve); fresh && random_.one_in(2)) {
            fail_to_execute();
        } else if (auto const dead = random_child(is_dead)) {
            reap(*dead);
        } else if (auto const child = random_child(can_end)) {
            kernel_.end(*child, SIGKILL);
        } else if (end_helper(false)) {
            return true;
        } else if (deadline && *deadline <= now_) {
            handle(event::TimePassed{});
        } else {
            return false;
        }
        return true;
    }

    // Ends of processes.

    template <class Fits>
    static std::optional<std::size_t> random_one(auto const& from, Random& random, Fits const& fits) {
        if (from.empty()) return std::nullopt;
        std::size_t const first = random.below(from.size());
        for (std::size_t i = 0; i < from.size(); ++i) {
            std::size_t const at = (first + i) % from.size();
            if (fits(from[at])) return at;
        }
        return std::nullopt;
    }
    std::optional<std::size_t> random_child(bool (*fits)(Child const&)) {
        return random_one(kernel_.children(), random_, fits);
    }

    static bool is_dead(Child const& child) { return child.status.has_value(); }
    static bool can_end(Child const& child) { return !child.status && !child.is_stuck; }
    static bool can_speak(Child const& child) { return can_end(child) && !child.is_mute && child.has_executed; }
    static bool is_stuck(Child const& child) { return !child.status && child.is_stuck; }

    int random_status() {
        static constexpr std::array<int, 6> statuses{0, 0, 1 << 8, 255 << 8, SIGSEGV | 0x80, SIGKILL};
        return random_.pick(statuses);
    }

    void end_one() {
        auto const child = random_child(can_end);
        if (!child) return wait();
        // Before execve it can only be killed, by somebody else.
        kernel_.end(*child, kernel_.children()[*child].has_executed ? random_status() : SIGKILL);
        if (random_.one_in(2)) reap(*child);
    }

    void end_by_oom() {
        auto const child = random_child(can_end);
        if (!child) return wait();
        kernel_.end_by_oom(*child);
    }

    void end_all() {
        int const status = random_status();
        for (std::size_t child = 0; child < kernel_.children().size(); ++child) {
            bool const has_executed = kernel_.children()[child].has_executed;
            if (can_end(kernel_.children()[child])) kernel_.end(child, has_executed ? status : SIGKILL);
        }
    }

    void reap(std::size_t child) {
        Child const ended = kernel_.reap(child);
        event::Exited exited{ended.id, *ended.status, ended.error, ended.is_oom_killed};
        launcher::ProgramPolicy const& policy = supervisor_.policy(ended.id.program);
        // Handing over for ever would never come to rest.
        bool const leaves_one = is_settling_ ? !supervisor_.takes_main(ended.id) : random_.one_in(2);
        if (policy.forks && !ended.error && leaves_one) {
            exited.successor = kernel_.leave_behind(ended.id, policy.stop_signal);
            if (!supervisor_.outlives(exited)) {  // the shell kills what is left behind
                kernel_.forget(*exited.successor);
                exited.successor.reset();
            }
        }
        bool const is_whole = !ended.error && supervisor_.gives_time_to_rest(ended.id);
        if (is_whole && !supervisor_.outlives(exited) && random_.one_in(2)) {
            exited.leaves_rest = true;
            kernel_.leave_tree(ended.id);
        }
        handle(exited);
    }

    /// Comes with a signal, and so for a process that lives; but it may have ended in the meantime.
    void fail_signal() {
        ProcessId const id = random_id();
        if (is_known(id)) handle(event::SignalFailed{id, EPERM});
    }

    /// The last of a tree has ended. The news may be too late, and is then about nothing.
    void empty_tree() {
        if (kernel_.trees().empty() || random_.one_in(8)) {
            ProcessId const id = random_id();
            if (is_known(id) && !kernel_.has_tree(id)) handle(event::TreeEmpty{id});
            return;
        }
        ProcessId const id = kernel_.trees()[random_.below(kernel_.trees().size())];
        kernel_.empty_tree(id);
        handle(event::TreeEmpty{id});
    }

    /// A pid file has changed. One that nobody waits for means nothing.
    void find_main() {
        ProcessId id = random_id();
        for (int tries = 0; tries < 8 && !is_taking_main(id); ++tries)
            id = random_id();
        if (!is_known(id)) return wait();
        if (!is_taking_main(id)) return handle(event::MainFound{id, Pid{1}});
        // Chance alone hardly ever stops one of which nobody is known.
        if (!supervisor_.view(id).pid && random_.one_in(3)) {
            auto const verb = random_.one_in(2) ? event::Verb::stop : event::Verb::restart;
            return handle(event::Command{verb, id.program, id.number});
        }
        go_on_as_another(id);
    }

    void go_on_as_another(ProcessId id) {
        auto const before = supervisor_.view(id).pid;
        Pid const pid = kernel_.leave_behind(id, supervisor_.policy(id.program).stop_signal);
        if (before) kernel_.forget(*before);
        handle(event::MainFound{id, pid});
    }

    [[nodiscard]] bool is_known(ProcessId id) const {
        return static_cast<std::uint32_t>(id.program) < supervisor_.program_count() &&
               static_cast<std::uint32_t>(id.number) <= supervisor_.size(id.program);
    }
    [[nodiscard]] bool is_taking_main(ProcessId id) const { return is_known(id) && supervisor_.takes_main(id); }

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
        bool const is_anyone_left = !kernel_.children().empty() || !kernel_.trees().empty() || kernel_.has_orphans() ||
                                    invariants_.is_awaiting();
        if (!is_anyone_left) handle(event::NoChildLeft{});
    }

    // What processes say.

    void say_ready() {
        auto const child = random_child(can_speak);
        if (!child) return wait();
        handle(event::Ready{kernel_.children()[*child].id});
    }

    void ping() {
        auto const child = random_child(can_speak);
        if (!child) return wait();
        handle(event::WatchdogPing{kernel_.children()[*child].id});
    }

    void extend() {
        auto const child = random_child(can_speak);
        if (!child) return wait();
        handle(event::ExtendTimeout{kernel_.children()[*child].id, random_extension()});
    }

    Duration random_extension() {
        static constexpr std::array<Duration, 5> by{0s, 100ms, 5s, 60s, 1h};
        return random_.pick(by);
    }

    /// Those with a helper are few, and more depends on what happens to them.
    ProcessId random_id() {
        auto const& commands = kernel_.commands();
        if (!commands.empty() && random_.one_in(4)) return commands[random_.below(commands.size())].id;
        auto const program = ProgramId(random_.below(documents_.programs()));
        return {program, ProcessNumber(1 + random_.below(documents_.highest_count() + 1))};
    }

    /// A datagram may be read after its sender has been reaped. It then belongs to no run, or to the next one.
    void stray_message() {
        ProcessId const id = random_id();
        if (static_cast<std::uint32_t>(id.program) >= supervisor_.program_count()) return;
        if (static_cast<std::uint32_t>(id.number) > supervisor_.size(id.program)) return;
        // A new child speaks with a pid that the notify socket has not seen before.
        if (supervisor_.state(id) == launcher::ProcessState::executing) return;
        switch (random_.below(3)) {
            case 0: return handle(event::Ready{id});
            case 1: return handle(event::WatchdogPing{id});
            default: return handle(event::ExtendTimeout{id, random_extension()});
        }
    }

    // Helpers.

    bool end_helper(bool ok) {
        auto const& commands = kernel_.commands();
        // The shell's timeout ends a command that hangs, in its own time.
        auto const may_end = [&](Command const& command) { return !command.hangs || command.is_cancelled || !ok; };
        // Few are ill, and what makes them well again is one of many commands.
        auto const makes_well = [&](Command const& command) {
            launcher::ProcessView const view = supervisor_.view(command.id);
            return view.state == launcher::ProcessState::up && !view.is_ready && may_end(command);
        };
        auto at = ok ? random_one(commands, random_, makes_well) : std::nullopt;
        if (!at) at = random_one(commands, random_, may_end);
        if (!at) return false;
        end_helper(*at, ok);
        return true;
    }

    void end_helper(std::size_t at, bool ok) {
        Command const ended = kernel_.end_command(at);
        handle(event::HelperEnded{ended.id, ended.helper, ok && !ended.is_cancelled});
    }

    // What the world wants.

    void schedule() {
        for (std::uint32_t tries = 0; tries < documents_.programs(); ++tries) {
            auto const program = ProgramId(random_.below(documents_.programs()));
            if (!invariants_.is_scheduled(program)) continue;
            return handle(event::ScheduleDue{program});
        }
    }

    /// Was a one-shot until a moment ago.
    std::optional<ProgramId> scheduled_while_undoing() const {
        for (Command const& command : kernel_.commands()) {
            bool const is_undoing = supervisor_.state(command.id) == launcher::ProcessState::undoing;
            if (is_undoing && invariants_.is_scheduled(command.id.program)) return command.id.program;
        }
        return std::nullopt;
    }

    void command() {
        static constexpr std::array<event::Verb, 8> verbs{
            event::Verb::renew, event::Verb::reload,  event::Verb::start,   event::Verb::start,
            event::Verb::stop,  event::Verb::restart, event::Verb::restart, event::Verb::signal};
        ProcessId const id = random_id();
        event::Command command{.verb = random_.pick(verbs), .program = id.program};
        if (random_.one_in(2)) command.number = id.number;
        if (command.verb == event::Verb::signal) command.signo = random_.one_in(2) ? SIGUSR2 : SIGTERM;
        handle(command);
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

    /// So much time is needed by all that may still be under way, in steps.
    std::uint64_t enough_steps() const {
        std::uint64_t processes = 0;
        for (std::uint32_t at = 0; at < supervisor_.program_count(); ++at)
            processes += supervisor_.size(ProgramId{at});
        return outcome_.steps + 200 + 60 * processes;
    }

    /// Nothing fails any more, nothing is refused: soon everything that is wanted is where it is to be.
    void settle() {
        if (invariants_.stop_end()) return;
        is_settling_ = true;
        std::uint64_t const enough = enough_steps();
        while (is_going_on() && settle_one()) {
            if (outcome_.steps > enough) throw Violation{"without failures everything comes to rest"};
        }
        is_settling_ = false;
        if (!is_going_on() || invariants_.stop_end()) return;
        invariants_.check_settled(supervisor_);
        ++outcome_.coverage.settled;
    }

    bool settle_one() {
        if (invariants_.stop_end()) return false;
        if (!invariants_.pending().empty()) {
            answer(&Script::start);
        } else if (auto const dead = random_child(is_dead)) {
            reap(*dead);
        } else if (!kernel_.trees().empty()) {
            empty_tree();
        } else if (auto const stuck = random_child(is_stuck)) {
            kernel_.wake(*stuck);
        } else if (auto const new_one = random_child(is_before_execve)) {
            kernel_.execute(*new_one);
        } else if (auto const news = random_child(has_news)) {
            tell_executed(*news);
        } else if (!kernel_.commands().empty()) {
            end_helper(random_.below(kernel_.commands().size()), true);
        } else if (auto const forking = invariants_.awaited_main()) {
            supervisor_.takes_main(*forking) ? go_on_as_another(*forking) : end_well(*forking);
        } else if (auto const silent = invariants_.awaited_ready()) {
            handle(event::Ready{*silent});
        } else if (auto const one_shot = invariants_.awaited_end()) {
            end_well(*one_shot);
        } else if (auto const due = invariants_.next_change()) {
            // Past what recurs for ever, such as probes of health and watchdogs that are fed.
            now_ = std::max(now_, *due);
            for (ProcessId const id : invariants_.watched())
                handle(event::WatchdogPing{id});
            handle(event::TimePassed{});
        } else {
            return false;
        }
        return true;
    }

    void end_well(ProcessId id) {
        auto const& children = kernel_.children();
        for (std::size_t at = 0; at < children.size(); ++at) {
            if (children[at].id == id) {
                kernel_.end(at, 0);
                return reap(at);
            }
        }
    }

    /// Whatever the processes do, a stop ends in its time.
    void stop_to_the_end() {
        if (!is_going_on()) return;
        if (!invariants_.stop_end()) ask_to_stop();
        if (!is_going_on()) return;
        TimePoint const end = std::max(now_, *invariants_.stop_end());
        std::uint64_t const enough = enough_steps();
        while (is_going_on()) {
            if (outcome_.steps > enough) throw Violation{"a stop ends after finitely many events"};
            if (auto const dead = random_child(is_dead); dead && !random_.one_in(4)) {
                reap(*dead);
            } else if (!invariants_.pending().empty() && !random_.one_in(4)) {
                answer(&Script::start);
            } else if (!kernel_.commands().empty() && random_.one_in(4)) {
                (void)end_helper(random_.one_in(2));  // one that hangs goes on
            } else if (!kernel_.trees().empty() && random_.one_in(4)) {
                empty_tree();
            } else if (!kernel_.has_orphans() && kernel_.children().empty() && kernel_.trees().empty() &&
                       !invariants_.is_awaiting() && !random_.one_in(4)) {
                handle(event::NoChildLeft{});
            } else if (random_.one_in(4)) {
                wake_one();
            } else if (random_.one_in(8)) {
                ask_to_stop();
            } else if (random_.one_in(8)) {
                replace();
            } else {
                sleep_until_deadline();
            }
        }
        if (invariants_.is_finished() && now_ > end) throw Violation{"a stop ends within its limit"};
    }

    Random random_;
    std::uint64_t most_steps_;
    SupervisorPolicy policy_;
    Documents documents_;
    bool is_rude_;    // some processes ignore signals, are stuck, or never say that they are ready
    bool is_prompt_;  // results follow Spawn at once, as from a shell that spawns by itself
    Kernel kernel_;
    Invariants invariants_;
    Supervisor supervisor_;
    Documents::Specs specs_ = std::make_shared<std::vector<launcher::ProgramSpec> const>();  // the newest
    std::unique_ptr<Supervisor> twin_;  // gets the same events and is never replaced
    std::vector<Action> twin_actions_;
    std::vector<ProcessId> ended_trees_;  // whose ends are to be told
    std::array<std::uint64_t, happenings> weights_{};
    std::array<Step, remembered_steps> last_steps_{};
    TimePoint now_ = TimePoint{} + 1h;
    bool is_settling_ = false;
    bool was_asked_to_stop_ = false;
    Outcome outcome_;
};

Episode::Episode(std::uint64_t seed, std::uint64_t most_steps) : script_(std::make_unique<Script>(seed, most_steps)) {}
Episode::~Episode() = default;
Outcome Episode::run() { return script_->run(); }
std::string Episode::history() const { return script_->history(); }

}  // namespace triton::simulation

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/simulation/random.h"
#include "tests/unit/launcher/supervisor/supervisor_subject.h"

// An upgrade: another supervisor goes on from what the first one knew.

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;
using simulation::Random;
using State = ProcessState;

Duration any_time(Random& random) {
    static constexpr std::array<Duration, 6> times{0s, 1ms, 1s, 5s, 20s, 1h};
    return random.pick(times);
}

ProgramPolicy any_program(Random& random, std::uint32_t id) {
    ProgramPolicy policy;
    policy.count = static_cast<std::uint32_t>(random.below(4));
    policy.kind = static_cast<ProgramKind>(random.below(3));
    policy.auto_start = !random.one_in(6);
    policy.restart = static_cast<Restart>(random.below(3));
    if (random.one_in(3)) policy.success_ends = {1, config::signal_end + SIGKILL};
    if (random.one_in(3)) policy.permanent_ends = {config::signal_end + SIGSEGV};
    policy.backoff.delay = any_time(random);
    policy.backoff.minimum_run = any_time(random);
    if (random.one_in(3)) {
        policy.start_limit = StartLimit{1 + static_cast<std::uint32_t>(random.below(4)), any_time(random), {}};
        if (random.one_in(8)) policy.start_limit->exit_code = 9;
    }
    policy.critical = random.one_in(16);
    policy.is_main = random.one_in(8);
    policy.auxiliary = id == 3;  // nothing depends on the last one
    policy.stop_timeout = any_time(random);
    if (random.one_in(2)) policy.drain = any_time(random);
    policy.has_pre_stop = random.one_in(2);
    policy.stop_scope = static_cast<StopScope>(random.below(2));
    policy.on_change = static_cast<OnChange>(random.below(3));
    policy.has_on_failure = random.one_in(2);
    policy.forks = policy.kind == ProgramKind::service && random.one_in(2);
    for (std::uint32_t other = 0; other < id && !policy.auxiliary; ++other) {
        if (random.one_in(4)) policy.after.push_back(ProgramId{other});
        if (random.one_in(4)) policy.requires_.push_back(ProgramId{other});
    }
    policy.readiness = static_cast<Readiness>(random.below(3));
    policy.probe_interval = any_time(random);
    if (random.one_in(2)) policy.start_timeout = any_time(random);
    if (random.one_in(2)) policy.watchdog = any_time(random);
    for (std::uint64_t checks = random.below(4); checks > 0; --checks) {
        policy.checks.push_back(
            {.interval = any_time(random),
             .retries = static_cast<std::uint32_t>(random.below(3)),
             .start_period = any_time(random),
             .action = random.one_in(16) ? HealthAction::exit : static_cast<HealthAction>(random.below(2))});
    }
    policy.is_sequential = random.one_in(4);
    policy.max_unavailable = static_cast<std::uint32_t>(random.below(3));
    policy.is_told_of_files = random.one_in(4);
    return policy;
}

/// Lets everything happen that may happen, without any sense.
class Chaos {
public:
    explicit Chaos(std::uint64_t seed) : random_(seed), subject_(Policies{}) {
        SupervisorPolicy policy;
        policy.is_pid_1 = random_.one_in(2);
        policy.seed = random_.next();
        policy.stop_limit = any_time(random_);
        policy.sweep_timeout = any_time(random_);
        subject_ = Subject({policy, {}});
    }

    Subject& subject() { return subject_; }

    Event next() {
        if (!random_.one_in(4)) {
            if (auto const event = of_a_process()) return *event;
        }
        switch (random_.below(24)) {
            case 0:
            case 1: return configuration();
            case 2: return event::SignalReceived{SIGUSR1};
            case 3:
            case 4: return event::ScheduleDue{any_id()};
            case 5:
            case 6: return command();
            case 7:
                if (random_.one_in(6)) return event::StopAsked{static_cast<int>(random_.below(3))};
                break;
            case 8:
                if (!is_anyone_left()) return event::NoChildLeft{};
                break;
            default: break;
        }
        auto const deadline = subject_.supervisor.next_deadline();
        if (deadline && *deadline != TimePoint::max() && random_.one_in(2)) {
            subject_.now = std::max(subject_.now, *deadline);
        } else {
            subject_.now += milliseconds(random_.below(2000));
        }
        return event::TimePassed{};
    }

private:
    [[nodiscard]] bool is_anyone_left() const {
        SupervisorState const state = subject_.supervisor.state();
        for (std::uint32_t program = 0; program < state.programs.size(); ++program) {
            for (std::uint32_t number = 1; number <= state.programs[program].processes.size(); ++number) {
                if (subject_.supervisor.view(process(program, number)).pid) return true;
                if (state.programs[program].processes[number - 1].state == State::clearing) return true;
            }
        }
        return false;
    }

    ProgramId any_id() {
        return ProgramId{static_cast<std::uint32_t>(random_.below(subject_.supervisor.program_count() + 1))};
    }

    Event configuration() {
        auto specs = std::make_shared<std::vector<ProgramSpec>>();
        for (std::uint32_t id = 0; id < 4; ++id) {
            if (random_.one_in(5)) continue;
            bool const is_kept = !random_.one_in(3) && !subject_.supervisor.is_idle(ProgramId{id});
            ProgramPolicy policy = is_kept ? subject_.supervisor.policy(ProgramId{id}) : any_program(random_, id);
            specs->push_back({ProgramId{id}, policy, !is_kept || random_.one_in(4)});
        }
        return event::ConfigurationAccepted{specs};
    }

    Event command() {
        event::Command command{static_cast<event::Verb>(random_.below(4)), any_id(), {}, SIGUSR2};
        if (random_.one_in(2)) command.number = ProcessNumber{1 + static_cast<std::uint32_t>(random_.below(4))};
        return command;
    }

    std::optional<Event> of_a_process() {
        std::uint32_t const programs = subject_.supervisor.program_count();
        if (programs == 0) return std::nullopt;
        auto const program = static_cast<std::uint32_t>(random_.below(programs));
        std::uint32_t const size = subject_.supervisor.size(ProgramId{program});
        if (size == 0) return std::nullopt;
        ProcessId const id = process(program, 1 + static_cast<std::uint32_t>(random_.below(size)));
        ProcessRecord const record =
            subject_.supervisor.state().programs[program].processes[static_cast<std::size_t>(id.number) - 1];
        if (record.helpers != 0 && random_.one_in(2)) {
            std::size_t helper = random_.below(helper_kinds);
            while (((record.helpers >> helper) & 1) == 0)
                helper = (helper + 1) % helper_kinds;
            return event::HelperEnded{id, static_cast<Helper>(helper), random_.one_in(2)};
        }
        if (record.state == State::starting) {
            if (random_.one_in(8)) return event::SpawnFailed{id, {process::SpawnStage::clone, EAGAIN}};
            return event::Spawned{id, Pid{++last_pid_}};
        }
        bool const takes_main = subject_.supervisor.takes_main(id) && random_.one_in(3);
        if (takes_main) return event::MainFound{id, Pid{++last_pid_}};
        // Nobody of it is known, and all that it has started is killed.
        if (record.state == State::killing && record.pid == Pid{}) return event::Exited{id, SIGKILL};
        if (record.state == State::clearing && random_.one_in(2)) return event::TreeEmpty{id};
        if (!subject_.supervisor.view(id).pid) return std::nullopt;
        static constexpr std::array<int, 4> statuses{0, 0, 3 << 8, SIGKILL};
        if (record.state == State::executing && random_.one_in(2)) return event::Executed{id};
        switch (random_.below(6)) {
            case 0:
            case 1: {
                event::Exited exited{id, random_.pick(statuses), {}, random_.one_in(8)};
                if (random_.one_in(2)) exited.successor = Pid{++last_pid_};
                if (!subject_.supervisor.outlives(exited)) exited.successor.reset();
                exited.leaves_rest =
                    !exited.successor && subject_.supervisor.gives_time_to_rest(id) && random_.one_in(2);
                return exited;
            }
            case 2: return event::WatchdogPing{id};
            case 3: return event::ExtendTimeout{id, any_time(random_)};
            default: return event::Ready{id};
        }
    }

    Random random_;
    Subject subject_;
    pid_t last_pid_ = 99;
};

/// What was done since, with the state that it led to.
std::string result(Subject const& subject) {
    auto const deadline = subject.deadline();
    return subject.done() + " / " + (deadline ? simulation::text(*deadline) : "no deadline");
}

TEST(SupervisorState, AnotherOneGoesOnInTheSameWay) {
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        Chaos chaos(seed);
        Subject& subject = chaos.subject();
        std::optional<Subject> other;
        for (int step = 0; step < 150; ++step) {
            Event const event = chaos.next();
            if (step % 30 == 20) {
                other = subject;
                other->supervisor = Supervisor(subject.policies.whole, subject.supervisor.state());
                ASSERT_EQ(other->supervisor.state(), subject.supervisor.state());
            }
            subject.on(event);
            if (!other) continue;
            other->now = subject.now;
            other->on(event);
            ASSERT_EQ(result(*other), result(subject))
                << "seed " << seed << ", step " << step << ": " << simulation::text(event);
            ASSERT_EQ(other->supervisor.state(), subject.supervisor.state());
        }
    }
}

/// The room for actions is made with the configuration, and enough for whatever follows from it; and a deadline that
/// has passed comes again at most for another reason.
TEST(SupervisorState, NeedsNoMoreRoomAndNoMoreTimeThanItSays) {
    std::set<std::size_t> seen;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        Chaos chaos(seed);
        Subject& subject = chaos.subject();
        for (int step = 0; step < 150; ++step) {
            Event const event = chaos.next();
            std::size_t most = subject.supervisor.most_actions();
            if (auto const* const accepted = std::get_if<event::ConfigurationAccepted>(&event))
                most = subject.supervisor.most_actions(*accepted->programs);
            subject.on(event);
            ASSERT_LE(subject.actions.size(), most) << "seed " << seed << ", step " << step;
            for (Action const& action : subject.actions)
                seen.insert(simulation::kind_of(action));
            for (int round = 0; subject.deadline().value_or(1h) <= 0s; ++round) {
                ASSERT_LT(round, 10) << "seed " << seed << ", step " << step;
                subject.time();
            }
        }
    }
    EXPECT_EQ(seen.size(), simulation::kinds_of_action) << "it is not chaotic enough";
}

TEST(SupervisorState, IsSmall) { EXPECT_LE(sizeof(ProcessRecord), 88); }

}  // namespace

}  // namespace triton::launcher

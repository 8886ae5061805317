#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/supervisor/supervisor.h"
#include "tests/simulation/kernel.h"

namespace triton::simulation {

/// What happens with auxiliary programs, for whoever wants to know that it did.
enum class AuxiliaryCase : std::uint8_t {
    alone,        ///< one lives, nothing else is to run, and the container goes on
    failed,       ///< one that is critical, or may end the container otherwise, has failed
    passed_over,  ///< one lives and is not told of a signal that is passed on
    outlived,     ///< the container ends by itself while one lives
    last,         ///< in a stop of all its turn has come with the end of others
    short_time,   ///< and that of another one before it
};
inline constexpr std::size_t auxiliary_cases = 6;

/// What a supervisor must not do; thrown by Invariants.
struct Violation {
    std::string what;
};

/// Watches a supervisor from outside. It knows what has happened, and from that alone what is owed: who is wanted, who
/// lives, whose turn it is, when the next start, signal or helper is due. It is written from the documented rules and
/// shares no code with the supervisor, the restart rule included; where a rule leaves a choice (the jitter of a delay)
/// it looks what was chosen and checks that it was allowed.
///
/// Each step: the event is applied to what is known, which yields a list of what is owed for it; each action must
/// be owed or allowed, and nothing may stay owed. Then every process must be in the state that follows, what may start
/// must have started, and the deadline must be right.
class Invariants {
public:
    Invariants(launcher::SupervisorPolicy const& policy, Kernel const& kernel) : policy_(policy), kernel_(kernel) {}

    /// Checks one step. `deadline_before` is what next_deadline() said before it.
    void check(launcher::Event const& event, TimePoint now, std::vector<launcher::Action> const& actions,
               launcher::Supervisor const& supervisor, std::optional<TimePoint> deadline_before);
    /// Nothing has failed for a while and nothing is under way: everything is where it is to be.
    void check_settled(launcher::Supervisor const& supervisor) const;

    [[nodiscard]] std::vector<ProcessId> const& pending() const { return pending_; }
    [[nodiscard]] bool is_finished() const { return finished_; }
    /// nullopt: no stop has begun.
    [[nodiscard]] std::optional<TimePoint> stop_end() const;
    [[nodiscard]] bool is_scheduled(launcher::ProgramId program) const;
    /// How often, by AuxiliaryCase.
    [[nodiscard]] std::array<std::uint64_t, auxiliary_cases> const& auxiliary() const { return auxiliary_; }

    // For an episode that wants everything to come to rest.
    /// One whose successor is to be found, or whose first process is to end.
    [[nodiscard]] std::optional<ProcessId> awaited_main() const;
    /// Whether there is one whose successor nobody knows, so that nobody can say whether it lives.
    [[nodiscard]] bool is_awaiting() const;
    [[nodiscard]] std::optional<ProcessId> awaited_ready() const;
    [[nodiscard]] std::optional<ProcessId> awaited_end() const;
    [[nodiscard]] std::vector<ProcessId> watched() const;
    /// What is due next, without what recurs for ever.
    [[nodiscard]] std::optional<TimePoint> next_change() const;

private:
    using State = launcher::ProcessState;
    static constexpr TimePoint never = TimePoint::max();
    static constexpr std::size_t aborted = 1000;  // for a step: by its watchdog

    enum class Running : std::uint8_t { no, yes, cancelled };
    struct Check {
        TimePoint probe = never;
        std::uint32_t bad = 0;  // in a row
    };
    struct Record {
        State state = State::down;
        std::optional<Pid> pid{};  // not reaped yet
        bool is_awaited = false;   // its first process has ended, and nobody knows the one that goes on
        bool has_rest = false;     // it has ended, and others of its tree have not
        bool was_oom_killed = false;
        int signal_error = 0;
        State ended_in = State::down;
        Pid last_pid{};
        bool is_main_known = false;
        bool said_ready = false;  // before that
        TimePoint started{};
        TimePoint due = never;  // of what the state waits for
        TimePoint probe = never;
        TimePoint run_due = never;  // when the run has taken too long
        bool is_share = false;      // `due` is a share of the stop limit, known but for rounding
        bool is_to_be_held = false;
        bool is_to_restart = false;
        bool went_bad = false;
        launcher::Fault fault = launcher::Fault::none;  // of the latest run
        bool is_stale = false;
        bool was_short = false;  // its last end was a short run
        bool fails_again = false;
        bool succeeds_again = false;
        std::size_t step = 0;          // of its stop signals
        bool is_untold = false;        // its start
        bool has_no_watchdog = false;  // it was started before its program had one
        bool is_to_roll = false;
        bool was_unwell = false;  // before the newest configuration
        std::uint32_t failures = 0;
        std::array<Check, launcher::most_checks> checks{};
        std::vector<TimePoint> starts{};  // since the count began anew
        std::array<Running, launcher::helper_kinds> helpers{};
        std::optional<int> last_status{};
        std::optional<process::SpawnError> last_error{};
        TimePoint last_end{};
        int exit_code = 0;
    };
    struct Program {
        launcher::ProgramPolicy policy;
        bool is_configured = false;
        bool is_held = false;
        bool is_run_owed = false;
        bool is_user = false;       // in a stop of all, of what it requires
        bool is_turn = false;       // the same
        TimePoint turn_at = never;  // and not later
        std::vector<Record> records;
    };
    struct At {
        Program& program;
        Record& record;
        ProcessId id;
        [[nodiscard]] launcher::ProgramPolicy const& policy() const { return program.policy; }
    };
    struct Bounds {
        Duration low, high;
        std::uint32_t failures;
        bool is_failure;
        bool must_wait;  // else it would spin
    };
    struct Next {
        std::optional<Duration> restart_in;  // nullopt: not by itself
        std::uint32_t failures = 0;          // as of action::ReportExited
    };

    // What happened: invariants_events.cpp
    void apply(launcher::event::ConfigurationAccepted const& event);
    void apply(launcher::event::Spawned const& event);
    void apply(launcher::event::SpawnFailed const& event);
    void apply(launcher::event::Executed const& event);
    void apply(launcher::event::Exited const& event);
    void apply(launcher::event::TreeEmpty const& event);
    void apply(launcher::event::SignalFailed const& event);
    void apply(launcher::event::MainFound const& event);
    void apply(launcher::event::Ready const& event);
    void apply(launcher::event::WatchdogPing const& event);
    static Duration watchdog(At at);
    void apply(launcher::event::ExtendTimeout const& event);
    void apply(launcher::event::HelperEnded const& event);
    void apply(launcher::event::ScheduleDue const& event);
    void apply(launcher::event::StopAsked const& event);
    void apply(launcher::event::SignalReceived const& event);
    void apply(launcher::event::Command const& event);
    void apply(launcher::event::NoChildLeft const& event);
    void apply(launcher::event::TimePassed const& event);

    /// What a configuration brings for a program.
    struct News {
        bool has_changed = false;
        bool is_new = false;
        bool is_other_kind = false;
        bool has_other_limits = false;  ///< who has failed might not have by these
    };
    void reconfigure(At at, News const& news);
    void reconfigure_running(At at, bool has_changed);
    void watch_anew(At at);
    void tell_start(At at);
    void executed(At at);
    void activate(At at);
    void come_up(At at);
    void want_again(At at);
    void forget(At at);
    [[nodiscard]] static bool goes_on(At at, launcher::event::Exited const& event);
    void go_on_as(At at, Pid pid);
    static bool awaits_main(At at) { return at.policy().forks && !at.record.is_main_known; }
    void give_time_to_rest(At at, State before);
    void ended(At at, State before);
    Next what_now(At at, State before, launcher::Run run, bool is_clone_failure);
    Next restart(At at, launcher::Run run, bool is_clone_failure);
    Bounds delay_bounds(At at, launcher::Run run, bool is_clone_failure) const;
    void end_for_good(At at, bool is_success);
    void end_container(At at, int exit_code);
    void follow();
    void start_what_may();
    void stop_what_is_bound();
    [[nodiscard]] bool is_over() const;
    void end_of_all();
    void judge_health(At at, std::size_t check, bool ok);
    void probe_health(At at, std::size_t check);
    void cancel_probes(At at);
    void stop_for_restart(At at, bool is_at_once = false);
    void stop_or_roll(At at, bool is_at_once);
    void roll();
    [[nodiscard]] static bool is_unwell(launcher::ProgramPolicy const& policy, Record const& record);
    [[nodiscard]] static std::uint32_t worst_check(Record const& record);
    void time_passed(At at);
    void probe(At at);
    bool command(At at, launcher::event::Command const& event);
    bool start_by_command(At at);
    void stop_by_command(At at);
    bool restart_by_command(At at, bool is_at_once);
    void run_what_is_owed(At at);
    void run_scheduled(launcher::ProgramId program, std::optional<launcher::ProcessNumber> number);

    // Stops: invariants_stop.cpp
    void stop(At at);
    void after_drain(At at);
    void send_stop(At at);
    void send_step(At at);
    void signal_step(At at);
    void after_step(At at);
    [[nodiscard]] static bool has_to_be_undone(launcher::ProgramPolicy const& policy, Record const& record) {
        return record.state == State::done && policy.kind == launcher::ProgramKind::one_shot && policy.has_on_stop;
    }
    /// What is not wanted any more and has something to undo: all that depends on it and is not wanted either is down.
    [[nodiscard]] bool is_to_be_undone_now(Program const& program, Record const& record, launcher::ProcessId id) const;
    void undo(At at);
    void hurry_undo(At at);
    void undone(At at);
    void kill(At at);
    void set_share(At at, Duration part, Duration next);
    void set_part(At at, Duration part, Duration next, Duration last = Duration::zero());
    void begin_stop(int exit_code);
    void plan_turns();
    [[nodiscard]] double need(Program const& program) const;
    [[nodiscard]] double longest_below(launcher::ProgramId program) const;
    [[nodiscard]] double longest_above(launcher::ProgramId program) const;
    void take_turns(bool is_time_event);
    [[nodiscard]] bool is_turn_taken_early(std::size_t program) const;
    static bool stops_before(Program const& one, Program const& other, launcher::ProgramId id);
    void hurry();
    void cancel_all_helpers();
    void give_up();
    void sweep(int signo);
    void end_stop_when_all_down();
    void settle_shares();

    // What was done about it: invariants.cpp
    void judge(launcher::Action const& action);
    void judge_spawn(launcher::action::Spawn const& action);
    void judge_signal(launcher::action::Signal const& action);
    void judge_signal(launcher::action::SignalRest const& action);
    void judge_order(ProcessId id, int signo, launcher::action::Why why);
    void check_states(launcher::Supervisor const& supervisor) const;
    static void check_view(launcher::ProcessView const& view, Program const& program, Record const& record,
                           ProcessId id);
    void check_programs(launcher::Supervisor const& supervisor) const;
    void check_helpers() const;
    void check_phase(launcher::Supervisor const& supervisor) const;
    void check_deadline(std::optional<TimePoint> deadline) const;
    void check_wakeup(std::size_t actions, bool is_time_event, std::optional<TimePoint> deadline_before);
    void check_end() const;

    void owe(launcher::Action const& action) { owed_.push_back(action); }
    void saw(AuxiliaryCase which) { ++auxiliary_[static_cast<std::size_t>(which)]; }
    void owe_signal(At at, int signo, launcher::action::Why why,
                    launcher::StopScope scope = launcher::StopScope::process);
    void run_helper(At at, Helper helper);
    void cancel_helper(At at, Helper helper);
    void enter(At at, State state);

    [[nodiscard]] std::optional<At> find(ProcessId id);
    [[nodiscard]] At at(ProcessId id);
    template <class Call>
    void for_each(Call call);
    template <class Call>
    void for_each(Call call) const;
    [[nodiscard]] static bool is_alive(Record const& record) { return record.pid.has_value(); }
    [[nodiscard]] static bool is_there(Record const& record) {
        return record.pid.has_value() || record.is_awaited || record.has_rest;
    }
    [[nodiscard]] bool is_stopping() const { return stop_began_.has_value(); }
    [[nodiscard]] bool is_wanted(Program const& program, launcher::ProcessNumber number) const;
    [[nodiscard]] bool is_wanted(At at) const { return is_wanted(at.program, at.id.number); }
    [[nodiscard]] bool is_ready(launcher::ProgramId program) const;
    [[nodiscard]] bool is_settled(launcher::ProgramId program) const;
    [[nodiscard]] bool may_start(Program const& program, launcher::ProcessNumber number) const;
    [[nodiscard]] bool is_down(Program const& program) const;
    [[nodiscard]] bool is_anyone_left() const;
    [[nodiscard]] bool is_auxiliary_alive() const;
    void look_at_auxiliary();
    [[nodiscard]] bool is_any_helper_left() const;
    [[nodiscard]] bool is_any_helper_wanted() const;
    [[nodiscard]] TimePoint latest_kill() const;
    [[nodiscard]] TimePoint in(Duration duration) const;

    launcher::SupervisorPolicy policy_;
    Kernel const& kernel_;
    std::vector<Program> programs_;
    std::vector<ProcessId> pending_;
    int stops_asked_ = 0;
    std::optional<TimePoint> stop_began_;
    int exit_code_ = 0;
    int last_sweep_ = 0;
    TimePoint sweep_due_ = never;
    bool finished_ = false;
    int idle_wakeups_ = 0;
    std::array<std::uint64_t, auxiliary_cases> auxiliary_{};

    // Of the event in hand.
    TimePoint now_{};
    std::vector<launcher::Action> const* actions_ = nullptr;
    launcher::Supervisor const* supervisor_ = nullptr;  // where a rule leaves a choice
    std::vector<launcher::Action> owed_;
    bool has_moved_ = false;  // for time alone, perhaps without an action
    bool was_stopping_ = false;
    std::optional<ProcessId> owed_continue_;  // has got the stop signal, but not yet SIGCONT
    struct Ending {
        ProcessId id;
        int exit_code;
    };
    std::optional<Ending> ending_;
};

void require(bool holds, char const* what);
void require(bool holds, char const* what, ProcessId id);

template <class Call>
void Invariants::for_each(Call call) {
    for (std::size_t program = 0; program < programs_.size(); ++program) {
        auto& records = programs_[program].records;
        for (std::size_t at = 0; at < records.size(); ++at)
            call(At{programs_[program], records[at], {launcher::ProgramId(program), launcher::ProcessNumber(at + 1)}});
    }
}

template <class Call>
void Invariants::for_each(Call call) const {
    for (std::size_t program = 0; program < programs_.size(); ++program) {
        auto const& records = programs_[program].records;
        for (std::size_t at = 0; at < records.size(); ++at)
            call(programs_[program], records[at],
                 ProcessId{launcher::ProgramId(program), launcher::ProcessNumber(at + 1)});
    }
}

}  // namespace triton::simulation

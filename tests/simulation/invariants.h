#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/supervisor.h"
#include "tests/simulation/kernel.h"

namespace triton::simulation {

/// What a supervisor must not do; thrown by Invariants.
struct Violation {
    std::string what;
};

/// Watches a supervisor from outside. It knows what has happened, and from that alone what is owed: who is wanted, who
/// lives, when the next start or SIGKILL is due. It shares no code with the supervisor, the restart rule included.
class Invariants {
public:
    Invariants(launcher::SupervisorPolicy const& policy, Kernel const& kernel) : policy_(policy), kernel_(kernel) {}

    /// Checks one step. `deadline_before` is what next_deadline() said before it.
    void check(launcher::Event const& event, TimePoint now, std::vector<launcher::Action> const& actions,
               launcher::Supervisor const& supervisor, std::optional<TimePoint> deadline_before);
    /// Nothing has failed for a while and nothing is under way: everything wanted is up, and nothing waits for time.
    void check_settled(launcher::Supervisor const& supervisor) const;

    [[nodiscard]] std::vector<ProcessNumber> const& pending() const { return pending_; }
    [[nodiscard]] bool is_finished() const { return finished_; }
    /// nullopt: no stop was asked.
    [[nodiscard]] std::optional<TimePoint> stop_end() const;

private:
    struct Record {
        bool is_pending = false;   // Spawn was asked for and has no result yet
        std::optional<Pid> pid{};  // not reaped yet
        TimePoint started{};
        std::uint32_t failures = 0;
        bool was_short = false;                   // its last end was a short run, restarted at once
        TimePoint not_before = TimePoint::min();  // of the next start
        std::optional<TimePoint> due{};           // of the start that a backoff waits for
        std::optional<TimePoint> stop_sent{};
        bool kill_sent = false;
    };
    /// An end that the step has to report.
    struct End {
        ProcessNumber number{};
        std::optional<Pid> pid{};
        int status = 0;
        std::optional<launcher::SpawnError> error{};
        Duration run{};
        bool is_wanted = false;
        Duration low{}, high{};  // bounds of the delay
        bool must_wait = false;  // else it would spin
    };

    void apply(launcher::event::ConfigurationAccepted const& event);
    void apply(launcher::event::Spawned const& event);
    void apply(launcher::event::SpawnFailed const& event);
    void apply(launcher::event::Exited const& event);
    void apply(launcher::event::StopAsked const& event);
    void apply(launcher::event::SignalReceived const& event);
    void apply(launcher::event::NoChildLeft const& event);
    void apply(launcher::event::TimePassed const& event);

    void judge(launcher::action::Spawn const& action);
    void judge(launcher::action::Signal const& action);
    void judge(launcher::action::Sweep const& action);
    void judge(launcher::action::Finish const& action);
    void judge(launcher::action::ReportStarted const& action);
    void judge(launcher::action::ReportExited const& action);
    void judge(launcher::action::ReportStartFailed const& action);
    void judge(launcher::action::ReportLeft const& action);

    void remove_pending(ProcessNumber number);
    void owe_report(Record& record, End end, launcher::Run run);
    void judge_delay(ProcessNumber number, std::optional<Duration> restart_in);
    void judge_kill(Record const& record, ProcessNumber number) const;
    void check_states(launcher::Supervisor const& supervisor) const;
    void check_stop(launcher::Supervisor const& supervisor) const;
    void check_deadline(std::optional<TimePoint> deadline, bool is_time_event) const;
    void check_wakeup(std::size_t actions, bool is_time_event, std::optional<TimePoint> deadline_before);
    [[nodiscard]] TimePoint latest_kill() const;
    [[nodiscard]] TimePoint kill_due(Record const& record) const;

    [[nodiscard]] std::size_t index(ProcessNumber number) const { return static_cast<std::size_t>(number) - 1; }
    [[nodiscard]] Record& record(ProcessNumber number) { return records_[index(number)]; }
    [[nodiscard]] Record const& record(ProcessNumber number) const { return records_[index(number)]; }
    [[nodiscard]] bool is_wanted(std::size_t at) const { return stops_ == 0 && at < count_; }
    [[nodiscard]] bool is_anyone_left() const;

    launcher::SupervisorPolicy policy_;
    Kernel const& kernel_;
    std::vector<Record> records_;
    std::vector<ProcessNumber> pending_;
    std::uint32_t count_ = 0;
    int stops_ = 0;
    TimePoint stop_asked_{};
    int last_sweep_ = 0;
    bool no_child_left_ = false;  // the event in hand says so
    bool finished_ = false;
    int idle_wakeups_ = 0;

    TimePoint now_{};
    int forwarded_signal_ = 0;                    // of the event in hand
    std::vector<ProcessNumber> not_forwarded_;    // who has not got it yet
    std::optional<ProcessNumber> owed_continue_;  // has got the stop signal, but not yet SIGCONT
    std::optional<ProcessNumber> not_started_;    // spawned, but not yet reported
    std::optional<End> end_;
    std::vector<ProcessNumber> left_;
};

}  // namespace triton::simulation

#include "launcher/shell/shell.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <exception>
#include <string>
#include <utility>

#include <unistd.h>

#include "launcher/plan/version.h"
#include "lib/base/idle_memory.h"

namespace triton::launcher {

using process::CommandRunner;
using std::chrono::steady_clock;

namespace {

constexpr Duration between_retries = milliseconds(100);
// How long a slow reader of the log may hold up our end: the last lines are what one reads a log for.
constexpr milliseconds time_to_drain{500};

/// Makes room for one more element, growing as push_back() does.
template <class T>
void make_room_for_one(std::vector<T>& list) {
    if (list.size() == list.capacity()) list.reserve(2 * list.size() + 16);
}

}  // namespace

Shell::Shell(LaunchOptions const& options, char const* const* environment, ProcessSetup setup, Sys& sys,
             EventLoop& loop)
    : options_(options),
      setup_(std::move(setup)),
      sys_(sys),
      loop_(loop),
      source_(options.source),
      log_(options.log, options.log.console == STDERR_FILENO ? &console_.err() : &console_.out()),
      supervisor_(supervisor_policy()),
      decide_timer_(loop, [this] { dispatch(event::TimePassed{}); }),
      retry_timer_(loop, [this] { loop_.stop(); }),  // run_loop() tries again
      lines_timer_(loop, [] {}),                     // end_round() goes on
      start_queue_(loop, [this] { start_those_that_wait(); }),
      table_(supervisor_),
      report_writer_(
          log_, [this](ProgramId id) { return table_.name_of(id); },
          [this](ProcessId id, std::size_t check) { return helpers_.failure_of(id, check); },
          [this](ProcessId id) { return helpers_.readiness_failures(id); }),
      children_(sys, loop, log_, *this),
      path_probe_(sys, children_),
      channels_(options, sys, loop, console_, log_, table_, supervisor_, *this, line_),
      agent_(options, source_, environment, loop, log_, supervisor_, channels_, children_, line_, *this),
      programs_(loop, log_, table_, supervisor_, children_, channels_, agent_, *this, *this),
      helpers_(loop, log_, history_, table_, supervisor_, report_writer_, children_, channels_, agent_, *this),
      keeper_(options, source_, environment, sys, loop, log_, supervisor_, children_, programs_, *this, line_),
      pid_files_(sys, loop, log_, table_, supervisor_, children_, channels_, *this),
      foreground_(sys, setup_),
      left_trees_(sys, loop, children_, channels_, *this),
      trees_(options, sys, table_, children_, channels_, pid_files_, left_trees_, supervisor_, foreground_, loop,
             line_),
      log_file_(options.log, loop, log_, start_of_writers(), FileAsker(sys, children_)),
      life_(options, setup_, sys, loop, log_, log_file_, supervisor_, agent_.pod(), *this, *this),
      upgrader_(options, environment, sys, loop, log_, console_, supervisor_, children_, line_, *this),
      port_(options, loop, log_, line_,
            {supervisor_, table_, children_, channels_, agent_, programs_, keeper_, life_, upgrader_, trees_, history_,
             *this}),
      handover_({setup_, sys, source_, supervisor_, table_, children_, channels_, agent_, programs_, keeper_,
                 pid_files_, left_trees_, foreground_, log_file_, life_, port_, helpers_, history_}) {
    channels_.set_start_of_writers(start_of_writers());
    channels_.set_path_probe(path_probe_);
    channels_.set_owner_of_forks([this](ProcessId id, pid_t pid) { return pid_files_.is_own(id, pid); });
    if (auto const limit = own_descriptor_limit()) source_.descriptor_limit = limit;
}

StartCompanion Shell::start_of_writers() {
    return [this](int kept, std::function<void()> const& work) { return children_.start_companion(kept, work); };
}

SupervisorPolicy Shell::supervisor_policy() const {
    SupervisorPolicy policy = options_.supervisor;
    policy.sweep_timeout = options_.source.defaults.stop_timeout;
    policy.is_pid_1 = setup_.is_pid_1;
    policy.seed = static_cast<std::uint64_t>(steady_clock::now().time_since_epoch().count()) * 31 +
                  static_cast<std::uint64_t>(sys_.own_pid());
    return policy;
}

// Events in.

/// Handles one event after the other: what an action causes waits until all actions before it are done.
void Shell::dispatch(Event const& event) {
    events_.push_back(event);
    if (std::holds_alternative<event::TreeEmpty>(event)) programs_.settle_soon();
    if (!is_dispatching_) catch_up();
}

/// Handles all that is queued. After an exception, the action at hand is tried again and nothing is forgotten.
void Shell::catch_up() {
    struct Guard {
        bool& flag;
        ~Guard() { flag = false; }
    } const guard{is_dispatching_};
    is_dispatching_ = true;
    for (;;) {
        for (; next_action_ < actions_.size(); ++next_action_)
            perform(actions_[next_action_]);
        actions_.clear();
        next_action_ = 0;
        if (next_event_ == events_.size()) break;
        supervisor_.handle(events_[next_event_], steady_clock::now(), actions_);
        ++next_event_;
    }
    events_.clear();
    next_event_ = 0;
    decide_timer_.arm(supervisor_.next_deadline());
    line_.state_changed();
}

void Shell::children_changed(pid_t pid) {
    foreground_.follow_stop();
    children_.note_end(pid);
}

void Shell::make_room_for_an_end() { make_room_for_one(events_); }

void Shell::process_executed(ProcessId id) { dispatch(event::Executed{id}); }

/// The kernel has forgotten the process: whatever there is no memory for, its end is dispatched.
void Shell::process_ended(ProcessId id, int status, std::optional<process::SpawnError> error) {
    foreground_.ended(id);
    event::Exited end{id, status, error};
    try {
        take_leave(end);
    } catch (std::exception const& failure) {
        end.successor.reset();
        tell_error(failure.what());
    }
    dispatch(end);
    if (table_[id.program].is_leaving(id.number)) programs_.settle_soon();
}

/// Finds out as what a program that forks goes on. When it does not, the rest of its tree is ended, and what it has
/// said last is heard.
void Shell::take_leave(event::Exited& end) {
    if (supervisor_.policy(end.id.program).forks) {
        end.successor = pid_files_.successor(end.id);
        if (supervisor_.outlives(end)) {
            if (end.successor) children_.follow(end.id, std::nullopt, *end.successor);
            return;
        }
        end.successor.reset();
    }
    end.leaves_rest = trees_.leave(end.id);
    channels_.process_ended(end.id, end.status);
    end.was_oom_killed = channels_.has_died_of_memory(end.id);
}

void Shell::orphan_reaped() {
    pid_files_.orphan_reaped();
    left_trees_.orphan_reaped();
}

void Shell::command_ended(Children::Key key, Children::Outcome const& outcome) {
    if (key == upgrade_key) return upgrader_.answered(outcome);
    if (outcome.not_executed) helpers_.tell_unexecuted(*outcome.not_executed);
    if (key == judge_key) return keeper_.judged(outcome);
    if (key == scout_key) return keeper_.scouted(outcome);
    if (key == files_key) return programs_.files_scouted(outcome);
    if (key == aside_key) return programs_.files_aside_scouted(outcome);
    if (key >= first_own_key) return agent_.staging_ended(key, outcome);
    helpers_.ended(key, outcome);
    ProcessId const id = process_of_helper(key);
    if (table_[id.program].is_leaving(id.number)) programs_.settle_soon();
}

void Shell::probe_ended(NetworkProbes::Key key, NetworkProbes::Verdict const& verdict) {
    switch (verdict.end) {
        case NetworkProbes::End::good: return helpers_.ended(key, {});
        case NetworkProbes::End::cancelled: return helpers_.ended(key, {.how = CommandRunner::How::cancelled});
        case NetworkProbes::End::bad: break;
    }
    helpers_.ended(key, {CommandRunner::How::not_started, 0, {ErrorKind::unavailable, {}, verdict.detail, {}, 0}});
}

void Shell::agent_connected(UniqueFd connection) {
    port_.open_for_agent();  // a configuration may have asked for the agent after our start
    line_.adopt(std::move(connection), options_.agent.may_command ? ControlRole::steward : ControlRole::agent);
}

void Shell::pod_told(PodState const& pod, bool have_changed) { keeper_.know_node(pod.variables, have_changed); }

/// Activates the same programs again: something else than their configuration has changed what becomes of them.
void Shell::activate_again() {
    if (supervisor_.phase() != SupervisorPhase::running) return;
    if (Result<> const done = keeper_.activate_again(); !done)
        log_.write(log::LogLevel::error, "internal-error", done.error().text());
}

void Shell::hung_up() {
    channels_.reopen_files();
    // In launch mode the signal is for us alone. With a built-in configuration it is passed on: the program that stages
    // files copies them again.
    if (!options_.built_in.configuration.empty()) dispatch(event::SignalReceived{SIGHUP});
    life_.note_reload();  // somebody asked, so the outcome is told even without a change
    keeper_.reload();
}

void Shell::make_room(std::vector<ProgramSpec> const& specs) {
    std::size_t count = 0;
    for (ProgramSpec const& spec : specs)
        count += spec.policy.count;
    supervisor_.reserve(specs);
    std::size_t const most = supervisor_.most_actions(specs);
    actions_.reserve(most);
    reports_.reserve(most);
    events_.reserve(events_.size() + count + 16);
    children_.make_room(count);
    start_queue_.reserve(count);
}

void Shell::settled() {
    children_.give_memory_back();
    gives_memory_back_ = true;
}

// Actions out.

void Shell::on(action::Spawn const& action) {
    start_queue_.next() || !start_queue_.may_start() ? start_queue_.add(action.id) : start(action.id);
}

void Shell::start(ProcessId id) {
    make_room_for_one(events_);  // all allocations come first: an exception must not lose a child
    if (auto const pid = trees_.start(id)) {
        events_.push_back(event::Spawned{id, *pid});
    } else {
        events_.push_back(event::SpawnFailed{id, pid.error()});
    }
}

/// Starts some, or none any more when all is being stopped.
void Shell::start_those_that_wait() {
    start_queue_.go_on_soon();  // also after an exception
    while (auto const id = start_queue_.next()) {
        if (supervisor_.phase() != SupervisorPhase::running) {
            make_room_for_one(events_);
            events_.push_back(event::SpawnFailed{*id, {process::SpawnStage::clone, ECANCELED}});
        } else if (start_queue_.may_start()) {
            start(*id);
        } else {
            break;
        }
        start_queue_.remove_next();
    }
    catch_up();
}

void Shell::on(action::Signal const& action) {
    make_room_for_one(events_);
    reports_.emplace_back(action);
    int const error = trees_.signal(action);
    if (error == 0 || error == ESRCH) return;
    reports_.pop_back();
    if (action.signo == SIGCONT) return;  // it accompanies another signal
    // What is passed on is told once: others choose how often it comes.
    bool const is_told = action.why != action::Why::forward || supervisor_.view(action.id).signal_error == 0;
    if (is_told) reports_.emplace_back(RefusedSignal{action, error});
    events_.emplace_back(event::SignalFailed{action.id, error});
}

void Shell::on(action::SignalRest const& action) {
    reports_.emplace_back(action);
    auto const refused = trees_.signal(action);
    if (refused.count > 0 && action.signo != SIGCONT) reports_.emplace_back(RefusedRest{action, refused});
    if (action.signo == SIGKILL) programs_.settle_soon();  // it has ended by that
}

void Shell::on(action::EndTree const& action) {
    make_room_for_one(events_);
    trees_.end(action.id);
    channels_.process_ended(action.id, SIGKILL);
    events_.push_back(event::Exited{action.id, SIGKILL, std::nullopt, channels_.has_died_of_memory(action.id)});
}

void Shell::on(action::Sweep const& action) {
    if (channels_.output()) channels_.output()->let_writers_end();
    children_.begin_sweep();
    trees_.sweep(action.signo);
}

// The loop.

void Shell::tell_reports(bool is_stopping) {
    using namespace std::chrono;
    std::int64_t const now = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
    for (Told const& told : reports_) {
        report_writer_.tell(told, is_stopping);
        Report const* const report = std::get_if<Report>(&told);
        if (!report) continue;
        history_.note(*report, now);
        helpers_.reported(*report);
    }
    reports_.clear();
}

void Shell::end_round() {
    start_queue_.end_round();
    children_.look_for_executions();
    bool const is_stopping = supervisor_.phase() != SupervisorPhase::running;
    if (is_stopping) {
        keeper_.forget_files();
        programs_.forget_files();
        channels_.end_inputs();
    }
    tell_reports(is_stopping);
    helpers_.end_round();
    if (keeper_.take_news()) life_.note_reload();
    Accepted const* const active = keeper_.active();
    life_.tell_manager(active ? std::optional(active->process_count()) : std::nullopt);
    if (channels_.lines()) channels_.lines()->catch_up();
    port_.end_round();
    if (channels_.lines() && channels_.lines()->is_to_catch_up()) lines_timer_.arm(steady_clock::now());
    log_.flush();
    log_file_.end_round();
    console_.flush();
    children_.end_round();
    if (!std::exchange(gives_memory_back_, false)) return;
    release_room(actions_);
    release_room(reports_);
    release_room(events_);
    release_idle_memory();  // comes last: later work would bring the pages around it back
}

Result<> Shell::start_loop() {
    TRY(life_.watch_signals());
    loop_.set_round_end([this] { end_round(); });
    console_.attach(loop_, [this] {
        if (channels_.output()) channels_.output()->resume();
    });
    return {};
}

/// Runs the loop, whatever happens in it: bad_alloc above all. What was interrupted is tried again with the next event,
/// and after a moment in any case. Meanwhile signals are read and children reaped.
void Shell::run_loop() {
    while (!life_.is_over()) {
        retry_timer_.disarm();
        try {
            catch_up();
            children_.reap();  // an exception may have come between SIGCHLD and this
        } catch (std::exception const& error) {
            retry_timer_.arm(steady_clock::now() + between_retries);
            tell_error(error.what());
        }
        port_.arm();                 // an exception may have kept a round from finishing
        if (life_.is_over()) break;  // because of what was reaped: nothing would wake the loop
        try {
            Result<> const ran = loop_.run();
            if (ran) continue;
            tell_error(ran.error().text().c_str());
            timespec const moment{0, 100'000'000};  // epoll itself has failed, so it cannot wait for us
            (void)::nanosleep(&moment, nullptr);
        } catch (std::exception const& error) {
            tell_error(error.what());
        }
    }
}

void Shell::tell_error(char const* what) noexcept {
    try {
        log_.write(log::LogLevel::error, "internal-error", what);
        log_.flush();
    } catch (...) {
        retry_timer_.arm(steady_clock::now() + between_retries);  // there is no memory to say that there is no memory
    }
}

int Shell::shut_down() {
    tell_reports(true);
    if (sys_.own_pid() != 1) children_.finish_hunts();  // the kernel ends all that PID 1 leaves behind
    if (channels_.output()) channels_.output()->flush(time_to_drain);
    log_.write(log::LogLevel::info, "launcher-stopped", "stopped", {{"exit_code", std::int64_t{life_.exit_code()}}});
    port_.end_round();
    log_.flush();
    console_.drain(time_to_drain);
    log_file_.drain(time_to_drain);
    log_.leave_termination_message(life_.exit_code());
    life_.reboot_if_asked();
    return life_.exit_code();
}

Result<int> Shell::run() {
    TRY(start_loop());  // what may fail comes before anything is started
    TRY(children_.check());
    if (options_.cgroup == CgroupMode::required) {
        channels_.open_groups();
        if (!channels_.has_groups()) return fail("--cgroup required: " + channels_.groups_error());
    }
    if (options_.agent.is_wanted) TRY(agent_.prepare());
    // Processes start first; what watches over their configuration is set up meanwhile.
    ConfigurationKeeper::FirstLook first = keeper_.look_first();
    bool const waits = first.rejected && !first.may_be_good;
    bool const is_the_end = waits && !keeper_.waits_for_a_good_one();
    if (first.rejected && options_.agent.is_wanted && !is_the_end) TRY(keeper_.activate_again());
    life_.tell_start();
    keeper_.tell(std::move(first));
    if (is_the_end) {
        life_.note_failure();
        return shut_down();
    }
    if (waits) keeper_.tell_waiting();
    end_round();
    port_.open({});
    keeper_.begin_to_watch();
    run_loop();
    return shut_down();
}

// For an upgrade.

void Shell::bring_up_to_date() {
    children_.reap();
    programs_.bring_up_to_date();
    end_round();
}

/// Makes as much room as a configuration would have made, so that a restart allocates nothing.
void Shell::make_room_for_what_runs() {
    std::size_t const count = keeper_.active() ? keeper_.active()->process_count() : 0;
    actions_.reserve(supervisor_.most_actions());
    reports_.reserve(supervisor_.most_actions());
    events_.reserve(count + 16);
    children_.make_room(count);
}

Result<int> Shell::take_over(UpgradeState state) {
    set_close_on_exec(state.descriptors(), true);  // no child may inherit what was handed over
    TRY(start_loop());
    handover_.restore(supervisor_policy(), state);
    make_room_for_what_runs();
    port_.open(state.control);
    Result<> const log_file = log_file_.restore(state);
    if (!log_file) log_.write(log::LogLevel::error, "log-open-failed", log_file.error().text() + "; trying again");
    bool const has_agent = std::ranges::any_of(
        table_.entries(), [](ProgramTable::Entry const& program) { return program.name == agent_name; });
    if (agent_.plan() && !has_agent) activate_again();
    log_.write(log::LogLevel::info, "upgrade-done", "upgraded from " + state.version + " to " + std::string(version()),
               {{"from", std::string_view(state.version)}, {"to", std::string_view(version())}});
    end_round();
    keeper_.begin_to_watch();
    run_loop();
    return shut_down();
}

}  // namespace triton::launcher

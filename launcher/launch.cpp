#include "launcher/launch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <unordered_map>

#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/event_loop.h"
#include "base/read_file.h"
#include "base/signal_names.h"
#include "base/signal_text.h"
#include "config/duration.h"
#include "launcher/configuration_source.h"
#include "launcher/idle_memory.h"
#include "launcher/notify.h"
#include "launcher/path_watcher.h"
#include "launcher/process_setup.h"
#include "launcher/spawn.h"
#include "launcher/supervisor.h"
#include "launcher/version.h"

namespace triton::launcher {

namespace {

using std::chrono::steady_clock;

// A burst of changes is one reload: it waits until nothing has happened for a moment, but not for ever.
constexpr Duration quiet_time = milliseconds(2);
constexpr Duration longest_burst = milliseconds(20);
constexpr Duration between_reloads = milliseconds(50);
constexpr Duration between_retries = milliseconds(100);
constexpr Duration between_looks = std::chrono::seconds(10);
// A log is read for its last lines: how long a slow reader may hold up our end.
constexpr milliseconds time_to_drain{500};
// By then the children of a start have left our memory.
constexpr Duration time_to_settle = milliseconds(250);

std::string stage_text(SpawnStage stage) {
    switch (stage) {
        case SpawnStage::clone: return "clone";
        case SpawnStage::parent_death_signal: return "set the parent death signal";
        case SpawnStage::process_group: return "make a process group";
        case SpawnStage::execute: return "execute";
    }
    std::unreachable();
}

std::string count_text(std::uint32_t count) { return std::to_string(count) + (count == 1 ? " process" : " processes"); }

double seconds(Duration duration) {
    return std::chrono::duration<double>(std::chrono::round<milliseconds>(duration)).count();
}

/// For people: three digits are enough.
std::string duration_text(Duration duration) {
    auto const rounded = duration < std::chrono::seconds(10)
                             ? Duration(std::chrono::round<milliseconds>(duration))
                             : Duration(std::chrono::round<std::chrono::seconds>(duration));
    return config::format_duration(rounded);
}

std::string restart_text(std::optional<Duration> restart_in) {
    if (!restart_in) return "";
    return *restart_in == Duration::zero() ? "; starting it again"
                                           : "; starting it again in " + duration_text(*restart_in);
}

/// For one more element, growing as push_back() does.
template <class T>
void make_room(std::vector<T>& list) {
    if (list.size() == list.capacity()) list.reserve(2 * list.size() + 16);
}

std::int64_t as_field(ProcessNumber number) { return static_cast<std::int64_t>(number); }
std::int64_t as_field(Pid pid) { return static_cast<std::int64_t>(pid); }

/// The shell around the Supervisor: turns what the kernel says into events, and actions into system calls. Everything
/// that has an effect comes before everything that only tells of it.
class Launcher {
public:
    Launcher(LaunchOptions const& options, char const* const* environment, ProcessSetup setup);

    Result<int> run();

private:
    // events in
    void dispatch(Event const& event);
    void catch_up();
    void take_signals();
    void take_signal(signalfd_siginfo const& info);
    void reap();
    void time_passed();
    void files_changed();
    [[nodiscard]] std::optional<TimePoint> next_deadline() const;

    // actions out
    void perform(Action const& action);
    void on(action::Spawn const& action);
    void on(action::Signal const& action);
    void on(action::Sweep const& action);
    void on(action::Finish const& action);
    void on(action::ReportStarted const&) {}
    void on(action::ReportExited const&) {}
    void on(action::ReportStartFailed const&) {}
    void on(action::ReportLeft const&) {}
    void report(Action const& action);

    // configuration
    [[nodiscard]] Result<std::string> read_configuration() const;
    bool load();
    void activate(Accepted accepted);
    void tell_active();
    void reject(Rejected rejected);
    void reload();
    Result<> watch_files();
    void ask_for_reload();

    void stop(int signo);
    void hang_up();
    void end_round();
    void tell_manager();
    int shut_down();
    Result<> start_loop();
    void tell_start();
    void run_loop();
    void tell_error(char const* what) noexcept;

    LaunchOptions const& options_;
    char const* const* environment_;
    ProcessSetup setup_;
    Log log_;
    Notifier notifier_;
    Supervisor supervisor_;
    Spawner spawner_;

    std::unique_ptr<EventLoop> loop_;
    EventLoop::Watch signal_watch_;
    EventLoop::Watch file_watch_;
    EventLoop::Watch log_watch_;
    std::optional<PathWatcher> path_watcher_;

    std::optional<Accepted> active_;
    std::vector<std::string> rejection_;  // the latest, so that the same one is told once
    std::vector<std::string> missing_binaries_;
    std::optional<TimePoint> reload_at_;
    TimePoint burst_began_{};
    TimePoint last_reload_{};
    std::optional<TimePoint> settle_at_;
    std::optional<TimePoint> retry_at_;  // of what an exception has interrupted
    int stop_requests_ = 0;
    bool is_forced_ = false;  // the stop itself cannot get on

    using Processes = std::unordered_map<pid_t, ProcessNumber>;
    Processes processes_;
    std::vector<Processes::node_type> spare_nodes_;  // so that a restart allocates nothing
    std::vector<Event> events_;
    std::size_t next_event_ = 0;
    std::vector<Action> actions_;
    std::size_t next_action_ = 0;
    bool is_dispatching_ = false;
    std::vector<Action> reports_;
    std::uint32_t told_running_ = 0;
    bool told_ready_ = false;
    bool told_stopping_ = false;
    bool is_reloaded_ = false;
    bool is_blind_ = false;  // changes of files go unseen
    bool reboots_ = false;
    int exit_code_ = 0;
};

SupervisorPolicy policy_of(LaunchOptions const& options, ProcessSetup const& setup) {
    SupervisorPolicy policy = options.supervisor;
    policy.is_pid_1 = setup.is_pid_1;
    policy.seed = static_cast<std::uint64_t>(steady_clock::now().time_since_epoch().count()) * 31 +
                  static_cast<std::uint64_t>(::getpid());
    return policy;
}

Launcher::Launcher(LaunchOptions const& options, char const* const* environment, ProcessSetup setup)
    : options_(options),
      environment_(environment),
      setup_(std::move(setup)),
      log_(options.log),
      notifier_(::getenv("NOTIFY_SOCKET")),
      supervisor_(policy_of(options, setup_)),
      // PID 1 needs none: the kernel ends its namespace with it.
      spawner_(setup_.inherited, setup_.is_pid_1 ? 0 : options.orphan_signal) {}

// Events in.

/// One event after the other: what an action brings about waits until all actions before it are done.
void Launcher::dispatch(Event const& event) {
    events_.push_back(event);
    if (!is_dispatching_) catch_up();
}

/// Takes up what an exception has interrupted, too: the action in hand is tried again, nothing is forgotten.
void Launcher::catch_up() {
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
}

void Launcher::take_signals() {
    std::array<signalfd_siginfo, 16> infos;
    bool child_ended = false;
    for (;;) {
        ssize_t const size = ::read(setup_.signals.get(), infos.data(), sizeof infos);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) break;
        std::size_t const count = static_cast<std::size_t>(size) / sizeof(signalfd_siginfo);
        for (std::size_t i = 0; i < count; ++i) {
            if (infos[i].ssi_signo == SIGCHLD) {
                child_ended = true;
            } else {
                take_signal(infos[i]);
            }
        }
        if (count < infos.size()) break;
    }
    if (child_ended) reap();
    end_round();
}

void Launcher::take_signal(signalfd_siginfo const& info) {
    auto const received = static_cast<int>(info.ssi_signo);
    if (received == SIGXCPU && info.ssi_code == SI_KERNEL) return;  // our own limit of processor time
    int const signo = options_.rewrite[static_cast<std::size_t>(received)];
    if (signo == 0) return;
    // Source: systemd, CONTAINER_INTERFACE, "Signals": what a machine manager tells the PID 1 of a machine.
    bool const is_shutdown = setup_.is_machine && (signo == rtmin + 3 || signo == rtmin + 4);
    reboots_ = reboots_ || (setup_.is_machine && signo == SIGINT && supervisor_.phase() == Supervisor::Phase::running);
    if (signo == SIGTERM || signo == SIGINT || signo == SIGQUIT || is_shutdown) return stop(signo);
    if (signo == SIGHUP) return hang_up();
    if (signo == SIGTTIN || signo == SIGTTOU) return;  // the terminal speaks to us, not to them
    if (signo == SIGTSTP && !setup_.is_pid_1) {
        // ^Z: they are in groups of their own and go on; we stop, as the shell expects, until it continues us.
        (void)::kill(::getpid(), SIGSTOP);
        return;
    }
    dispatch(event::SignalReceived{signo});
    log_.write(LogLevel::debug, "signal-forwarded", signal_text(signo) + " forwarded",
               {{"signal", std::int64_t{signo}}});
}

/// SIGCHLD coalesces: take all that have ended. We are the only one who reaps, and a pid is ours until we do: whether
/// it is a process of ours is one look-up, whatever other orphans there are.
void Launcher::reap() {
    for (;;) {
        // Before the kernel forgets the process: what it tells must not get lost.
        make_room(events_);
        make_room(spare_nodes_);
        int status = 0;
        pid_t const pid = ::waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) {
            dispatch(event::NoChildLeft{});
            return;
        }
        if (pid == 0) return;
        auto node = processes_.extract(pid);
        if (!node) {
            if (log_.is_enabled(LogLevel::debug)) {
                log_.write(LogLevel::debug, "orphan-reaped", "reaped orphan " + std::to_string(pid),
                           {{"pid", std::int64_t{pid}}});
            }
            continue;
        }
        ProcessNumber const number = node.mapped();
        spare_nodes_.push_back(std::move(node));
        // Killed on its way out after it had failed counts as failed: the spawner keeps the error until it is taken.
        bool const may_have_failed = WIFSIGNALED(status) || WEXITSTATUS(status) == 127;
        dispatch(event::Exited{number, status, may_have_failed ? spawner_.take_error(Pid{pid}) : std::nullopt});
    }
}

std::optional<TimePoint> Launcher::next_deadline() const {
    std::optional<TimePoint> next = supervisor_.next_deadline();
    for (std::optional<TimePoint> const& other : {reload_at_, settle_at_, retry_at_}) {
        if (other && (!next || *other < *next)) next = other;
    }
    return next;
}

void Launcher::time_passed() {
    TimePoint const now = steady_clock::now();
    if (retry_at_ && *retry_at_ <= now) return loop_->stop();  // run_loop() tries again
    dispatch(event::TimePassed{});
    if (reload_at_ && *reload_at_ <= now) reload();
    if (settle_at_ && *settle_at_ <= now) {
        settle_at_.reset();
        end_round();
        spawner_.trim();
        release_idle_memory();
    }
    end_round();
}

// Actions out.

void Launcher::perform(Action const& action) {
    std::visit([this](auto const& which) { on(which); }, action);
    bool const is_told = !std::holds_alternative<action::Spawn>(action) &&
                         !std::holds_alternative<action::Sweep>(action) &&
                         !std::holds_alternative<action::Finish>(action);
    if (is_told) reports_.push_back(action);
}

void Launcher::on(action::Spawn const& action) {
    // What allocates comes first: a child must not get lost by an exception.
    if (spare_nodes_.empty()) {
        processes_.emplace(0, action.number);
        spare_nodes_.push_back(processes_.extract(0));
    }
    make_room(events_);
    auto const pid = spawner_.spawn(active_->plan, action.number);
    if (!pid) {
        events_.push_back(event::SpawnFailed{action.number, pid.error()});
        return;
    }
    Processes::node_type node = std::move(spare_nodes_.back());
    spare_nodes_.pop_back();
    node.key() = static_cast<pid_t>(*pid);
    node.mapped() = action.number;
    processes_.insert(std::move(node));  // the table has room for all since accept()
    events_.push_back(event::Spawned{action.number, *pid});
}

void Launcher::on(action::Signal const& action) {
    auto const pid = static_cast<pid_t>(action.pid);  // not reaped, so it exists
    // SIGKILL is for all that a process has started. It may not be in its group yet, or not any more while others are.
    bool const is_kill = action.why == action::Why::kill;
    bool const reached_group = (options_.kill_group || is_kill) && ::kill(-pid, action.signo) == 0;
    if (!reached_group || is_kill) (void)::kill(pid, action.signo);
}

void Launcher::on(action::Sweep const& action) {
    // Everything that this process may signal: never unless that is a PID namespace of our own.
    if (::getpid() != 1) return;
    (void)::kill(-1, action.signo);
    if (action.signo != SIGKILL) (void)::kill(-1, SIGCONT);
    reap();
}

void Launcher::on(action::Finish const& action) {
    exit_code_ = action.exit_code;
    loop_->stop();
}

void Launcher::report(Action const& action) {
    if (auto const* started = std::get_if<action::ReportStarted>(&action)) {
        log_.write(LogLevel::info, "process-started",
                   "process " + std::to_string(as_field(started->number)) + " started, pid " +
                       std::to_string(as_field(started->pid)),
                   {{"process", as_field(started->number)}, {"pid", as_field(started->pid)}});
    } else if (auto const* exited = std::get_if<action::ReportExited>(&action)) {
        bool const by_signal = WIFSIGNALED(exited->status);
        int const code = by_signal ? WTERMSIG(exited->status) : WEXITSTATUS(exited->status);
        std::string const message = "process " + std::to_string(as_field(exited->number)) + " (pid " +
                                    std::to_string(as_field(exited->pid)) + ") ended " +
                                    (by_signal ? "by " + signal_text(code) : "with exit code " + std::to_string(code)) +
                                    " after " + duration_text(exited->run) + restart_text(exited->restart_in);
        LogField const how{by_signal ? "signal" : "exit_code", std::int64_t{code}};
        LogLevel const level = exited->status != 0 && exited->restart_in ? LogLevel::warning : LogLevel::info;
        LogField const number{"process", as_field(exited->number)};
        LogField const pid{"pid", as_field(exited->pid)};
        LogField const run{"run_seconds", seconds(exited->run)};
        if (exited->restart_in) {
            log_.write(level, "process-exited", message,
                       {number, pid, how, run, {"restart_in_seconds", seconds(*exited->restart_in)}});
        } else {
            log_.write(level, "process-exited", message, {number, pid, how, run});
        }
    } else if (auto const* failed = std::get_if<action::ReportStartFailed>(&action)) {
        std::string const stage = stage_text(failed->error.stage);
        std::string what = stage;
        if (failed->error.stage == SpawnStage::execute && active_) what.append(" ").append(active_->plan->program());
        std::string const error = what + ": " + errno_text(failed->error.code);
        std::string const message = "cannot start process " + std::to_string(as_field(failed->number)) + ": " + error +
                                    restart_text(failed->restart_in);
        LogField const number{"process", as_field(failed->number)};
        LogField const code{"errno", std::int64_t{failed->error.code}};
        if (failed->restart_in) {
            log_.write(LogLevel::error, "process-start-failed", message,
                       {number,
                        {"stage", std::string_view(stage)},
                        code,
                        {"error", std::string_view(error)},
                        {"restart_in_seconds", seconds(*failed->restart_in)}});
        } else {
            log_.write(LogLevel::error, "process-start-failed", message,
                       {number, {"stage", std::string_view(stage)}, code, {"error", std::string_view(error)}});
        }
    } else if (auto const* signal = std::get_if<action::Signal>(&action)) {
        if (signal->why == action::Why::forward) return;
        LogField const number{"process", as_field(signal->number)};
        LogField const pid{"pid", as_field(signal->pid)};
        std::string const who = "process " + std::to_string(as_field(signal->number)) + " (pid " +
                                std::to_string(as_field(signal->pid)) + ")";
        if (signal->why == action::Why::stop) {
            // In a stop of all, one line says so for all.
            bool const is_alone = supervisor_.phase() == Supervisor::Phase::running;
            log_.write(is_alone ? LogLevel::info : LogLevel::debug, "process-stopping", "stopping " + who,
                       {number, pid, {"signal", std::int64_t{signal->signo}}});
        } else if (signal->why == action::Why::kill) {
            log_.write(LogLevel::warning, "process-killed", who + " did not stop in time: killed", {number, pid});
        }
    } else if (auto const* left = std::get_if<action::ReportLeft>(&action)) {
        log_.write(LogLevel::error, "process-left",
                   "process " + std::to_string(as_field(left->number)) + " (pid " +
                       std::to_string(as_field(left->pid)) + ") did not end by SIGKILL within the stop limit",
                   {{"process", as_field(left->number)}, {"pid", as_field(left->pid)}});
    }
}

// Configuration.

Result<std::string> Launcher::read_configuration() const {
    return read_file(options_.configuration_path, config::Limits{}.document_bytes);
}

/// Returns whether a configuration was accepted or is still good.
bool Launcher::load() {
    auto loaded = load_configuration(read_configuration(), options_.source, environment_);
    if (!loaded) {
        reject(std::move(loaded.error()));
        return false;
    }
    rejection_.clear();
    missing_binaries_.clear();
    if (active_ && loaded->count == active_->count && loaded->configuration == active_->configuration &&
        *loaded->plan == *active_->plan) {
        log_.write(LogLevel::debug, "configuration-unchanged",
                   options_.configuration_path + " says what it said before",
                   {{"path", std::string_view(options_.configuration_path)}});
        return true;
    }
    try {
        activate(std::move(*loaded));
    } catch (std::bad_alloc const&) {
        reject({{"not enough memory for " + count_text(loaded->count)}, {}, {}});
        return false;
    }
    is_reloaded_ = true;
    tell_active();
    return true;
}

/// All memory that so many processes may need is taken before anything changes, so that it fails whole or not at all.
void Launcher::activate(Accepted accepted) {
    std::uint32_t const count = accepted.count;
    supervisor_.reserve(count);
    actions_.reserve(supervisor_.most_actions(count));
    reports_.reserve(supervisor_.most_actions(count));
    events_.reserve(events_.size() + count + 16);
    spare_nodes_.reserve(supervisor_.size() + count);
    processes_.reserve(supervisor_.size() + count);
    active_ = std::move(accepted);
    dispatch(event::ConfigurationAccepted{count});
    settle_at_ = steady_clock::now() + time_to_settle;
}

void Launcher::tell_active() {
    std::string_view const path = options_.configuration_path;
    if (!active_->warnings.empty()) {
        log_.write(LogLevel::warning, "configuration-warning",
                   "the configuration " + std::string(path) + " has oddities:",
                   {{"path", path}, {"warnings", std::span<std::string const>(active_->warnings)}});
    }
    std::string_view const binary = active_->plan->program();
    log_.write(LogLevel::info, "configuration-loaded",
               "configuration " + std::string(path) + " loaded: version " + active_->configuration.version + ", " +
                   count_text(active_->count) + " of " + std::string(binary),
               {{"version", std::string_view(active_->configuration.version)},
                {"processes", std::int64_t{active_->count}},
                {"binary", binary},
                {"path", path}});
}

void Launcher::reject(Rejected rejected) {
    missing_binaries_ = std::move(rejected.missing_binaries);
    if (rejected.errors == rejection_) return;
    rejection_ = std::move(rejected.errors);
    std::string_view const path = options_.configuration_path;
    std::string const what = active_ ? "; the running one stays:" : ":";
    log_.write(LogLevel::error, "configuration-rejected", "configuration " + std::string(path) + " rejected" + what,
               {{"path", path}, {"errors", std::span<std::string const>(rejection_)}});
}

/// Errors: of inotify, whose instances and watches a node may have used up.
Result<> Launcher::watch_files() {
    if (!path_watcher_) {
        PathWatcher watcher = TRY(PathWatcher::create());
        file_watch_ = TRY(loop_->on_readable(watcher.fd(), [this] { files_changed(); }));
        path_watcher_ = std::move(watcher);
    }
    std::vector<std::string> paths = missing_binaries_;
    paths.push_back(options_.configuration_path);
    if (!options_.source.environment_file.empty()) paths.push_back(options_.source.environment_file);
    return path_watcher_->watch(paths);
}

/// Watches first and reads then, so that nothing that changes in between is missed. A rejection adds paths to watch,
/// and what they wait for may have come before they were watched: hence the second look.
void Launcher::reload() {
    reload_at_.reset();
    last_reload_ = steady_clock::now();
    if (supervisor_.phase() != Supervisor::Phase::running) return;
    Result<> watched = watch_files();
    if (!load() && !missing_binaries_.empty()) {
        watched = watch_files();
        (void)load();
    }
    if (!watched) {
        // The one thing that is ever polled: a configuration that nobody can watch.
        reload_at_ = last_reload_ + between_looks;
        LogLevel const level = std::exchange(is_blind_, true) ? LogLevel::debug : LogLevel::warning;
        log_.write(level, "watch-failed",
                   watched.error().text + "; looking every " + config::format_duration(between_looks) + " instead",
                   {{"error", std::string_view(watched.error().text)}});
    } else {
        is_blind_ = false;
    }
    settle_at_ = steady_clock::now() + time_to_settle;
}

void Launcher::ask_for_reload() {
    TimePoint const now = steady_clock::now();
    if (!reload_at_) burst_began_ = now;
    TimePoint const when = std::min(now + quiet_time, burst_began_ + longest_burst);
    reload_at_ = std::max(when, last_reload_ + between_reloads);
}

void Launcher::files_changed() {
    if (path_watcher_->take_events()) ask_for_reload();
    end_round();
}

// The rest.

void Launcher::stop(int signo) {
    bool const is_first = supervisor_.phase() == Supervisor::Phase::running;
    std::uint32_t const running = supervisor_.running_count();
    if (++stop_requests_ > 2 && is_first) {  // for want of memory it never became a stop: end as we are
        is_forced_ = true;
        exit_code_ = 1;
        return loop_->stop();
    }
    reload_at_.reset();
    // The kernel frees watches after a grace period, and closing inotify waits for that: up to 20 ms at our end. Asked
    // for now, it passes while the processes stop.
    if (path_watcher_) path_watcher_->forget();
    dispatch(event::StopAsked{});
    log_.write(LogLevel::info, "stop-requested",
               is_first ? signal_text(signo) + ": stopping" + (running > 0 ? " " + count_text(running) : "")
                        : signal_text(signo) + " again: killing what is left",
               {{"signal", std::int64_t{signo}}});
}

void Launcher::hang_up() {
    Result<bool> const reopened = log_.reopen_file(true);
    if (!reopened) {
        log_.write(LogLevel::warning, "log-reopen-failed", reopened.error().text,
                   {{"error", std::string_view(reopened.error().text)}});
    } else if (*reopened) {
        log_.write(LogLevel::info, "log-reopened", "log file " + options_.log.path + " opened again",
                   {{"path", std::string_view(options_.log.path)}});
    }
    is_reloaded_ = true;  // asked for, so it is told, changed or not
    reload();
}

/// Source: sd_notify(3).
void Launcher::tell_manager() {
    if (!notifier_.is_on()) return;
    if (supervisor_.phase() != Supervisor::Phase::running) {
        if (!std::exchange(told_stopping_, true)) notifier_.send("STOPPING=1\nSTATUS=stopping");
        return;
    }
    if (!active_) return;
    std::uint32_t const running = supervisor_.running_count();
    std::string const status = "STATUS=" + std::to_string(running) + " of " + count_text(active_->count) + " running";
    if (std::exchange(is_reloaded_, false) && told_ready_) {
        timespec now{};
        (void)::clock_gettime(CLOCK_MONOTONIC, &now);
        notifier_.send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now.tv_sec * 1'000'000 + now.tv_nsec / 1000));
        notifier_.send("READY=1\n" + status);
    } else if (!std::exchange(told_ready_, true)) {
        notifier_.send("READY=1\n" + status);
    } else if (running != told_running_) {
        notifier_.send(status);
    }
    told_running_ = running;
}

void Launcher::end_round() {
    for (Action const& action : reports_)
        report(action);
    reports_.clear();
    tell_manager();
    log_.flush();
    if (!log_.is_blocked()) {
        log_watch_ = {};
    } else if (!log_watch_) {
        // Fails for kinds of files that are always writable, which are never blocked.
        if (auto watch = loop_->on_writable(STDOUT_FILENO, [this] { end_round(); })) log_watch_ = std::move(*watch);
    }
}

Result<> Launcher::start_loop() {
    loop_ = TRY(EventLoop::create());
    signal_watch_ = TRY(loop_->on_readable(setup_.signals.get(), [this] { take_signals(); }));
    loop_->set_deadline([this] { return next_deadline(); }, [this] { time_passed(); });

    return {};
}

int Launcher::shut_down() {
    for (Action const& action : reports_)
        report(action);
    reports_.clear();
    log_.write(LogLevel::info, "launcher-stopped", "stopped", {{"exit_code", std::int64_t{exit_code_}}});
    log_.drain(time_to_drain);
    if (reboots_ && ::getpid() == 1) {
        // In a PID namespace of its own this ends us by SIGHUP, which the machine manager takes for a reboot
        // (reboot(2)). Without the privilege the exit below has to do.
        (void)::reboot(RB_AUTOBOOT);
    }
    return exit_code_;
}

void Launcher::tell_start() {
    Result<> const log_file = log_.open_file();
    log_.write(
        LogLevel::info, "launcher-started", version_line() + " started, pid " + std::to_string(::getpid()),
        {{"version", std::string_view(version())}, {"pid", std::int64_t{::getpid()}}, {"pid1", setup_.is_pid_1}});
    if (!log_file) {
        log_.write(LogLevel::error, "log-open-failed", log_file.error().text + "; trying again",
                   {{"error", std::string_view(log_file.error().text)}});
    }
    for (std::string const& warning : options_.warnings)
        log_.write(LogLevel::warning, "option-warning", warning);
    if (!setup_.warning.empty()) log_.write(LogLevel::warning, "setup-warning", setup_.warning);
}

void Launcher::tell_error(char const* what) noexcept {
    try {
        log_.write(LogLevel::error, "internal-error", what);
        log_.flush();
    } catch (...) {
        retry_at_ = steady_clock::now() + between_retries;  // no memory to say that there is no memory
    }
}

/// The loop, whatever happens in it: bad_alloc above all. What was interrupted is tried again with the next event, and
/// after a moment in any case; meanwhile signals are read and children reaped.
void Launcher::run_loop() {
    while (supervisor_.phase() != Supervisor::Phase::finished && !is_forced_) {
        retry_at_.reset();
        try {
            catch_up();
            reap();  // an exception may have come between SIGCHLD and this
        } catch (std::exception const& error) {
            retry_at_ = steady_clock::now() + between_retries;
            tell_error(error.what());
        }
        try {
            Result<> const ran = loop_->run();
            if (ran) continue;
            tell_error(ran.error().text.c_str());
            timespec const moment{0, 100'000'000};  // epoll itself has failed, so it cannot do the waiting
            (void)::nanosleep(&moment, nullptr);
        } catch (std::exception const& error) {
            tell_error(error.what());
        }
    }
}

Result<int> Launcher::run() {
    TRY(start_loop());  // what may fail comes before anything is started
    // The processes next; what watches over their configuration is set up while they start.
    auto loaded = load_configuration(read_configuration(), options_.source, environment_);
    bool const is_good = loaded.has_value();
    if (loaded) activate(std::move(*loaded));
    tell_start();
    is_good ? tell_active() : reject(std::move(loaded.error()));
    if (!is_good && options_.exit_on_bad_configuration) {
        exit_code_ = 1;
        return shut_down();
    }
    if (!is_good) {
        log_.write(LogLevel::warning, "waiting-for-configuration",
                   "waiting for a good configuration in " + options_.configuration_path,
                   {{"path", std::string_view(options_.configuration_path)}});
    }
    end_round();
    reload_at_ = steady_clock::now();  // what changed before it was watched
    run_loop();
    return shut_down();
}

}  // namespace

Result<int> launch(LaunchOptions const& options, char const* const* environment) {
    ProcessSetup setup = TRY(set_up_process(options.parent_death_signal));
    return Launcher{options, environment, std::move(setup)}.run();
}

}  // namespace triton::launcher

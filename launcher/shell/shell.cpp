#include "launcher/shell/shell.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>

#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/plan/version.h"
#include "lib/base/idle_memory.h"
#include "lib/base/signal_names.h"
#include "lib/base/signal_text.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

constexpr Duration between_retries = milliseconds(100);
// A log is read for its last lines: how long a slow reader may hold up our end.
constexpr milliseconds time_to_drain{500};

/// For one more element, growing as push_back() does.
template <class T>
void make_room(std::vector<T>& list) {
    if (list.size() == list.capacity()) list.reserve(2 * list.size() + 16);
}

}  // namespace

Shell::Shell(LaunchOptions const& options, char const* const* environment, ProcessSetup setup, EventLoop& loop)
    : options_(options),
      environment_(environment),
      setup_(std::move(setup)),
      loop_(loop),
      log_(options.log, options.log.console == STDERR_FILENO ? &console_.err() : &console_.out()),
      notifier_(::getenv("NOTIFY_SOCKET")),
      supervisor_(supervisor_policy()),
      // PID 1 needs none: the kernel ends its namespace with it.
      spawner_(setup_.inherited, setup_.is_pid_1 ? 0 : options.orphan_signal),
      reporter_(log_, [this](ProgramId id) { return name_of(id); }),
      helpers_([](pid_t pid, int signo) { return ::kill(pid, signo); },
               [this](process::CommandRunner::Key key, process::CommandRunner::Outcome const& outcome) {
                   helper_ended(key, outcome);
               }),
      probes_({.send =
                   [this](std::uint64_t id, NetworkProbes::Probe const& probe) {
                       if (control_) control_->send_probe({id, probe.kind, probe.target, probe.timeout});
                   },
               .cancel =
                   [this](std::uint64_t id) {
                       if (control_) control_->cancel_probe(id);
                   },
               .done =
                   [this](NetworkProbes::Key key, NetworkProbes::Verdict const& verdict) {
                       using How = process::CommandRunner::How;
                       helper_ended(
                           key, verdict.ok
                                    ? process::CommandRunner::Outcome{}
                                    : process::CommandRunner::Outcome{
                                          How::not_started, 0, {ErrorKind::unavailable, {}, verdict.detail, {}, 0}});
                   }},
              static_cast<std::uint64_t>(steady_clock::now().time_since_epoch().count())),
      source_(options.source),
      began_(steady_clock::now()),
      decide_timer_(loop, [this] { dispatch(event::TimePassed{}); }),
      helpers_timer_(loop,
                     [this] {
                         helpers_.time_passed(steady_clock::now());
                         arm_helpers();
                     }),
      probes_timer_(loop,
                    [this] {
                        probes_.time_passed(steady_clock::now());
                        arm_probes();
                    }),
      schedules_timer_(loop,
                       [this] {
                           if (schedules_) schedules_->time_passed(steady_clock::now());
                           arm_schedules();
                       }),
      control_timer_(loop,
                     [this] {
                         if (control_) control_->time_passed();
                     }),
      reload_timer_(loop, [this] { look_again(); }),
      settle_timer_(loop, [this] { settle(); }),
      upgrade_timer_(loop, [this] { try_upgrade(); }),
      retry_timer_(loop, [this] { loop_.stop(); }),  // run_loop() tries again
      linger_timer_(loop, [this] { loop_.stop(); }) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
        source_.descriptor_limit = process::ResourceLimit{RLIMIT_NOFILE, limit.rlim_cur, limit.rlim_max};
}

SupervisorPolicy Shell::supervisor_policy() const {
    SupervisorPolicy policy = options_.supervisor;
    policy.sweep_timeout = options_.source.defaults.stop_timeout;
    policy.is_pid_1 = setup_.is_pid_1;
    policy.seed = static_cast<std::uint64_t>(steady_clock::now().time_since_epoch().count()) * 31 +
                  static_cast<std::uint64_t>(::getpid());
    return policy;
}

// Events in.

/// One event after the other: what an action brings about waits until all actions before it are done.
void Shell::dispatch(Event const& event) {
    events_.push_back(event);
    if (!is_dispatching_) catch_up();
}

/// Takes up what an exception has interrupted, too: the action in hand is tried again, nothing is forgotten.
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
    if (control_) control_->state_changed();
}

void Shell::take_signals() {
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
}

void Shell::take_signal(signalfd_siginfo const& info) {
    auto const received = static_cast<int>(info.ssi_signo);
    if (received == SIGXCPU && info.ssi_code == SI_KERNEL) return;  // our own limit of processor time
    int const signo = options_.rewrite[static_cast<std::size_t>(received)];
    if (signo == 0) return;
    // Source: systemd, CONTAINER_INTERFACE, "Signals": what a machine manager tells the PID 1 of a machine.
    bool const is_shutdown = setup_.is_machine && (signo == rtmin + 3 || signo == rtmin + 4);
    reboots_ = reboots_ || (setup_.is_machine && signo == SIGINT && supervisor_.phase() == SupervisorPhase::running);
    if (signo == SIGTERM || signo == SIGINT || signo == SIGQUIT || is_shutdown) return stop(signo);
    if (signo == SIGHUP) return hang_up();
    if (signo == SIGTTIN || signo == SIGTTOU) return;  // the terminal speaks to us, not to them
    if (signo == SIGTSTP && !setup_.is_pid_1) {
        // ^Z: they are in groups of their own and go on; we stop, as the shell expects, until it continues us.
        (void)::kill(::getpid(), SIGSTOP);
        return;
    }
    dispatch(event::SignalReceived{signo});
    log_.write(log::LogLevel::debug, "signal-forwarded", signal_text(signo) + " forwarded",
               {{"signal", std::int64_t{signo}}});
}

/// The next child that has ended, reaped. Where somebody's leftovers are to be killed that comes between its end and
/// its reaping: until then its pid, which is its group's, cannot belong to anybody else. 0: none; nullopt: no child.
std::optional<pid_t> Shell::next_dead(int& status) {
    pid_t wanted = -1;
    for (;;) {
        if (has_tree_killers_) {
            siginfo_t info{};
            int const result = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
            if (result < 0 && errno == EINTR) continue;
            if (result < 0) return std::nullopt;
            if (info.si_pid == 0) return 0;
            wanted = info.si_pid;
            kill_leftovers(wanted);
        }
        pid_t const pid = ::waitpid(wanted, &status, WNOHANG);
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) return std::nullopt;
        return pid;
    }
}

/// SIGCHLD coalesces: take all that have ended. We are the only one who reaps, and a pid is ours until we do: whether
/// it is a process of ours is one look-up, whatever other orphans there are.
void Shell::reap() {
    for (;;) {
        // Before the kernel forgets the process: what it tells must not get lost.
        make_room(events_);
        make_room(spare_nodes_);
        int status = 0;
        auto const pid = next_dead(status);
        if (!pid) return dispatch(event::NoChildLeft{});
        if (*pid == 0) return;
        reaped(*pid, status);
    }
}

void Shell::reaped(pid_t pid, int status) {
    // Killed on its way out after it had failed counts as failed: the spawner keeps the error until it is taken.
    bool const may_have_failed = WIFSIGNALED(status) || WEXITSTATUS(status) == 127;
    auto node = processes_.extract(pid);
    if (!node) {
        helper_error_ = may_have_failed ? spawner_.take_error(Pid{pid}) : std::nullopt;
        if (helpers_.on_exit(pid, status)) {
            arm_helpers();
            if (helper_error_) {
                std::string const text =
                    process::stage_text(helper_error_->stage) + ": " + errno_text(helper_error_->code);
                log_.write(log::LogLevel::error, "helper-failed", "a helper command could not be started: " + text,
                           {{"error", std::string_view(text)}});
            }
        } else if (log_.is_enabled(log::LogLevel::debug)) {
            log_.write(log::LogLevel::debug, "orphan-reaped", "reaped orphan " + std::to_string(pid),
                       {{"pid", std::int64_t{pid}}});
        }
        return;
    }
    ProcessId const id = node.mapped();
    spare_nodes_.push_back(std::move(node));
    Runtime& program = programs_[static_cast<std::size_t>(id.program)];
    process_ended(id, program);
    dispatch(event::Exited{id, status, may_have_failed ? spawner_.take_error(Pid{pid}) : std::nullopt,
                           has_died_of_memory(id, program)});
    if (!program.is_configured) settle_soon();
}

void Shell::arm_schedules() { schedules_timer_.arm(schedules_ ? schedules_->next_deadline() : std::nullopt); }

/// A burst of changes is over: what only it needed is given back.
void Shell::settle() {
    tidy();
    end_round();
    spawner_.trim();
    release_idle_memory();
}

// Telling.

/// Source: sd_notify(3).
void Shell::tell_manager() {
    if (!notifier_.is_on()) return;
    if (supervisor_.phase() != SupervisorPhase::running) {
        if (!std::exchange(told_stopping_, true)) notifier_.send("STOPPING=1\nSTATUS=stopping");
        return;
    }
    if (!active_) return;
    std::uint32_t const running = supervisor_.running_count();
    std::string const status =
        "STATUS=" + std::to_string(running) + " of " + count_text(active_->process_count()) + " running";
    if (std::exchange(is_reloaded_, false) && told_ready_) {
        timespec now{};
        (void)::clock_gettime(CLOCK_MONOTONIC, &now);
        notifier_.send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now.tv_sec * 1'000'000 + now.tv_nsec / 1000));
        notifier_.send("READY=1\n" + status);
    } else if (!told_ready_ && supervisor_.is_ready()) {
        told_ready_ = true;
        notifier_.send("READY=1\n" + status);
    } else if (running != told_running_) {
        notifier_.send(status);
    }
    told_running_ = running;
}

/// To the control socket's clients, as long as somebody wants them.
void Shell::tell_records() {
    if (control_->wants_records() == tells_records_) return;
    tells_records_ = !tells_records_;
    log_.listen(tells_records_ ? log::Log::Listener([this](log::LogLevel level, std::string_view record) {
        control_->publish(record, level >= log::LogLevel::warning);
    })
                               : nullptr);
}

void Shell::end_round() {
    bool const is_stopping = supervisor_.phase() != SupervisorPhase::running;
    if (is_stopping) forget_files();
    for (Told const& told : reports_)
        reporter_.tell(told, is_stopping);
    reports_.clear();
    tell_manager();
    if (control_) {
        control_->end_round();
        control_timer_.arm(control_->next_deadline());
        tell_records();
    }
    log_.flush();
    console_.flush();
}

Result<> Shell::start_loop() {
    signal_watch_ = TRY(loop_.on_readable(setup_.signals.get(), [this] { take_signals(); }));
    loop_.set_round_end([this] { end_round(); });
    console_.attach(loop_, [this] {
        if (output_) output_->resume();
    });
    return {};
}

int Shell::shut_down() {
    for (Told const& told : reports_)
        reporter_.tell(told, true);
    reports_.clear();
    if (output_) output_->flush(time_to_drain);
    log_.write(log::LogLevel::info, "launcher-stopped", "stopped", {{"exit_code", std::int64_t{exit_code_}}});
    if (control_) control_->end_round();
    log_.flush();
    console_.drain(time_to_drain);
    if (reboots_ && ::getpid() == 1) {
        // In a PID namespace of its own this ends us by SIGHUP, which the machine manager takes for a reboot
        // (reboot(2)). Without the privilege the exit below has to do.
        (void)::reboot(RB_AUTOBOOT);
    }
    return exit_code_;
}

void Shell::tell_start() {
    Result<> const log_file = log_.open_file();
    log_.write(
        log::LogLevel::info, "launcher-started", version_line() + " started, pid " + std::to_string(::getpid()),
        {{"version", std::string_view(version())}, {"pid", std::int64_t{::getpid()}}, {"pid1", setup_.is_pid_1}});
    if (!log_file) {
        log_.write(log::LogLevel::error, "log-open-failed", log_file.error().text() + "; trying again",
                   {{"error", std::string_view(log_file.error().text())}});
    }
    for (std::string const& warning : options_.warnings)
        log_.write(log::LogLevel::warning, "option-warning", warning);
    if (!setup_.warning.empty()) log_.write(log::LogLevel::warning, "setup-warning", setup_.warning);
}

void Shell::tell_error(char const* what) noexcept {
    try {
        log_.write(log::LogLevel::error, "internal-error", what);
        log_.flush();
    } catch (...) {
        retry_timer_.arm(steady_clock::now() + between_retries);  // no memory to say that there is no memory
    }
}

// The rest.

void Shell::stop(int signo) {
    bool const is_first = supervisor_.phase() == SupervisorPhase::running;
    if (is_first) stay_until_ = steady_clock::now() + pod_.shutdown_delay;
    if (linger_timer_.is_armed()) {
        linger_timer_.disarm();
        return loop_.stop();
    }
    std::uint32_t const running = supervisor_.running_count();
    if (++stop_requests_ > 2 && is_first) {  // for want of memory it never became a stop: end as we are
        is_forced_ = true;
        exit_code_ = 1;
        return loop_.stop();
    }
    dispatch(event::StopAsked{.exit_code = options_.built_in.is_to_finish ? 128 + signo : 0});
    forget_files();
    log_.write(log::LogLevel::info, "stop-requested",
               supervisor_.is_in_a_hurry()
                   ? signal_text(signo) + " again: killing what is left"
                   : signal_text(signo) + ": stopping" + (running > 0 ? " " + count_text(running) : ""),
               {{"signal", std::int64_t{signo}}});
}

/// The kernel frees watches after a grace period, and closing inotify waits for that: up to 20 ms at our end. Asked for
/// when a stop begins, it passes while the processes stop.
void Shell::forget_files() {
    reload_timer_.disarm();
    if (!std::exchange(has_forgotten_files_, true) && path_watcher_) path_watcher_->forget();
}

void Shell::hang_up() {
    Result<bool> const reopened = log_.reopen_file(true);
    if (!reopened) {
        log_.write(log::LogLevel::warning, "log-reopen-failed", reopened.error().text(),
                   {{"error", std::string_view(reopened.error().text())}});
    } else if (*reopened) {
        log_.write(log::LogLevel::info, "log-reopened", "log file " + options_.log.path + " opened again",
                   {{"path", std::string_view(options_.log.path)}});
    }
    if (output_) output_->reopen_files();
    // In launch mode it is for us alone; what stages files for us copies them again.
    if (!options_.built_in.configuration.empty()) dispatch(event::SignalReceived{SIGHUP});
    is_reloaded_ = true;  // asked for, so it is told, changed or not
    look_again();
}

/// The loop, whatever happens in it: bad_alloc above all. What was interrupted is tried again with the next event, and
/// after a moment in any case; meanwhile signals are read and children reaped.
void Shell::run_loop() {
    auto const is_over = [this] {
        return supervisor_.phase() == SupervisorPhase::finished && !linger_timer_.is_armed();
    };
    while (!is_over() && !is_forced_) {
        retry_timer_.disarm();
        try {
            catch_up();
            reap();  // an exception may have come between SIGCHLD and this
        } catch (std::exception const& error) {
            retry_timer_.arm(steady_clock::now() + between_retries);
            tell_error(error.what());
        }
        if (control_) control_timer_.arm(control_->next_deadline());  // an exception may have kept a round from its end
        if (is_over()) break;                                         // by what was reaped: nothing would wake the loop
        try {
            Result<> const ran = loop_.run();
            if (ran) continue;
            tell_error(ran.error().text().c_str());
            timespec const moment{0, 100'000'000};  // epoll itself has failed, so it cannot do the waiting
            (void)::nanosleep(&moment, nullptr);
        } catch (std::exception const& error) {
            tell_error(error.what());
        }
    }
}

Result<int> Shell::run() {
    TRY(start_loop());  // what may fail comes before anything is started
    if (options_.cgroup == CgroupMode::required) {
        open_cgroups();
        if (!cgroups_) return fail("--cgroup required: " + cgroup_error_);
    }
    if (options_.agent.is_wanted) TRY(prepare_agent());
    // The processes next; what watches over their configuration is set up while they start.
    auto loaded = load_configuration(read_configuration(), source_, environment_);
    bool is_good = loaded.has_value();
    Rejected rejected;
    if (!is_good) {
        rejected = std::move(loaded.error());
    } else if (Result<> activated = activate(std::move(*loaded)); !activated) {
        is_good = false;
        rejected.errors.push_back(activated.error().text());
    }
    bool const may_be_good = !is_good && may_labels_come(rejected);
    bool const is_the_end = !is_good && !may_be_good && options_.exit_on_bad_configuration;
    if (!is_good && options_.agent.is_wanted && !is_the_end) TRY(activate(std::nullopt));
    tell_start();
    is_good ? tell_active() : reject(std::move(rejected));
    if (is_the_end) {
        exit_code_ = 1;
        return shut_down();
    }
    if (!is_good && !may_be_good) {
        log_.write(log::LogLevel::warning, "waiting-for-configuration",
                   "waiting for a good configuration in " + options_.configuration_path,
                   {{"path", std::string_view(options_.configuration_path)}});
    }
    end_round();
    open_control({});
    reload_timer_.arm(steady_clock::now());  // what changed before it was watched
    run_loop();
    return shut_down();
}

}  // namespace triton::launcher

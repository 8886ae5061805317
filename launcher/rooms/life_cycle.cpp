#include "launcher/rooms/life_cycle.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <span>
#include <string>
#include <utility>

#include "launcher/plan/version.h"
#include "launcher/rooms/report.h"
#include "lib/base/signal_names.h"
#include "lib/base/signal_text.h"

namespace triton::launcher {

using std::chrono::steady_clock;

LifeCycle::LifeCycle(LaunchOptions const& options, ProcessSetup const& setup, Sys& sys, EventLoop& loop, log::Log& log,
                     LogKeeper& log_file, Supervisor const& supervisor, PodState const& pod, EventSink& events,
                     Listener& listener)
    : options_(options),
      setup_(setup),
      sys_(sys),
      loop_(loop),
      log_(log),
      log_file_(log_file),
      supervisor_(supervisor),
      pod_(pod),
      events_(events),
      listener_(listener),
      notifier_(::getenv("NOTIFY_SOCKET")),
      linger_timer_(loop, [this] { loop_.stop(); }),
      began_(steady_clock::now()) {}

// Signals.

Result<> LifeCycle::watch_signals() {
    signal_watch_ = TRY(loop_.on_readable(setup_.signals.get(), [this] { take_signals(); }));
    return {};
}

/// The signal that a received signal counts as; 0: none.
int LifeCycle::meaning(signalfd_siginfo const& info) const {
    if (info.ssi_signo == SIGXCPU && info.ssi_code == SI_KERNEL) return 0;  // our own limit of processor time
    return info.ssi_signo < options_.rewrite.size() ? options_.rewrite[info.ssi_signo] : 0;
}

/// Whether the signal asks for a stop. To PID 1, SIGPWR does: lxc-stop sends it, and nobody else has a use for it
/// there. SIGRTMIN+3 does only where systemd-nspawn says that it is the manager: elsewhere it is forwarded like any
/// other signal, as programs may use it. Source: systemd, CONTAINER_INTERFACE, "Signals"; lxc.container.conf(5),
/// "lxc.signal.halt".
bool LifeCycle::is_stop(int signo) const {
    bool const is_shutdown = setup_.is_machine && (signo == rtmin + 3 || signo == rtmin + 4);
    bool const is_power = setup_.is_pid_1 && signo == SIGPWR;
    return signo == SIGTERM || signo == SIGINT || signo == SIGQUIT || is_shutdown || is_power;
}

void LifeCycle::take_signals() {
    std::array<signalfd_siginfo, 16> infos;
    auto count = sys_.read_signals(setup_.signals.get(), infos);
    for (int tries = 0; !count && count.error() == EINTR && tries < 8; ++tries)
        count = sys_.read_signals(setup_.signals.get(), infos);
    if (!count) return;
    std::span<signalfd_siginfo const> const batch(infos.data(), *count);
    std::optional<pid_t> changed;
    for (signalfd_siginfo const& info : batch) {
        if (info.ssi_signo == SIGCHLD) changed = static_cast<pid_t>(info.ssi_pid);
        bool const is_ours = info.ssi_signo == SIGCHLD || is_from_own_terminal(info);
        if (!is_ours && is_stop(meaning(info))) stop(meaning(info));
    }
    if (changed) listener_.children_changed(*changed);
    for (signalfd_siginfo const& info : batch) {
        int const signo = meaning(info);
        if (is_from_own_terminal(info)) {
            if (info.ssi_signo == SIGCONT) listener_.continued();
            continue;
        }
        if (info.ssi_signo != SIGCHLD && signo != 0 && !is_stop(signo) && !is_idle_suspend(info)) take(signo);
    }
}

/// Whether the kernel reports what happens to our own terminal: a new size, or that a stopped process group is
/// continued because nobody else would. Programs that share the terminal hear of it from the kernel. To others it means
/// something else: httpd takes SIGWINCH for a graceful stop.
bool LifeCycle::is_from_own_terminal(signalfd_siginfo const& info) {
    return info.ssi_code == SI_KERNEL && (info.ssi_signo == SIGWINCH || info.ssi_signo == SIGCONT);
}

/// Whether that is ^Z where no shell above could continue us. The kernel does not stop such a process group either.
/// Source: POSIX.1-2017, 2.4.3, "orphaned process group".
bool LifeCycle::is_idle_suspend(signalfd_siginfo const& info) const {
    bool const is_from_terminal = info.ssi_signo == SIGTSTP && info.ssi_code == SI_KERNEL;
    return is_from_terminal && (setup_.is_pid_1 || setup_.leads_session);
}

void LifeCycle::take(int signo) {
    if (signo == SIGHUP) {
        log_file_.reopen();
        return listener_.hung_up();
    }
    if (signo == SIGTTIN || signo == SIGTTOU) return;  // the terminal speaks to us, not to them
    if (signo == SIGTSTP && !setup_.is_pid_1) {
        // ^Z: the processes go on, because they have groups of their own. We stop, as the shell expects, until it
        // continues us.
        (void)sys_.signal(sys_.own_pid(), SIGSTOP);
        return;
    }
    if (signo == SIGCONT) listener_.continued();
    events_.dispatch(event::SignalReceived{signo});
    log_.write(log::LogLevel::debug, "signal-forwarded", signal_text(signo) + " forwarded",
               {{"signal", std::int64_t{signo}}});
}

// The stop.

void LifeCycle::stop(int signo) {
    bool const is_first = supervisor_.phase() == SupervisorPhase::running;
    if (requests_.is_the_same(steady_clock::now())) {
        return log_.write(log::LogLevel::debug, "stop-repeated", signal_text(signo) + " belongs to the same request",
                          {{"signal", std::int64_t{signo}}});
    }
    reboots_ = reboots_ || (setup_.is_machine && signo == SIGINT && is_first);
    if (is_first) stay_until_ = steady_clock::now() + pod_.shutdown_delay;
    if (linger_timer_.is_armed()) {
        linger_timer_.disarm();
        return loop_.stop();
    }
    std::uint32_t const running = supervisor_.running_count();
    if (++stop_requests_ > 2 && is_first) {  // the stop did not begin, for want of memory: end without it
        is_forced_ = true;
        exit_code_ = 1;
        return loop_.stop();
    }
    // A container that never had anything to run has not done its work.
    bool const is_unfinished = options_.built_in.is_to_finish || !listener_.has_configuration();
    events_.dispatch(event::StopAsked{.exit_code = is_unfinished ? 128 + signo : 0});
    listener_.stop_asked();
    log_.write(log::LogLevel::info, "stop-requested",
               supervisor_.is_in_a_hurry()
                   ? signal_text(signo) + " again: killing what is left"
                   : signal_text(signo) + ": stopping" + (running > 0 ? " " + count_text(running) : ""),
               {{"signal", std::int64_t{signo}}});
}

void LifeCycle::finish(int exit_code) {
    exit_code_ = exit_code;
    if (!begin_linger()) loop_.stop();
}

/// Returns whether the container stays for a while although everything has ended.
bool LifeCycle::begin_linger() {
    if (!stay_until_ || *stay_until_ <= steady_clock::now() || stop_requests_ > 1) return false;
    linger_timer_.arm(stay_until_);
    return true;
}

bool LifeCycle::is_over() const {
    return is_forced_ || (supervisor_.phase() == SupervisorPhase::finished && !linger_timer_.is_armed());
}

/// Reboots if that was asked for. In a PID namespace this ends us by SIGHUP, which the machine manager takes for a
/// reboot (reboot(2)). Without the privilege our exit code must do.
void LifeCycle::reboot_if_asked() {
    if (reboots_ && sys_.own_pid() == 1) sys_.reboot();
}

void LifeCycle::tell_start() {
    Result<> const log_file = log_file_.open();
    auto const pid = std::int64_t{sys_.own_pid()};
    log_.write(log::LogLevel::info, "launcher-started", version_line() + " started, pid " + std::to_string(pid),
               {{"version", std::string_view(version())}, {"pid", pid}, {"pid1", setup_.is_pid_1}});
    if (!log_file) {
        log_.write(log::LogLevel::error, "log-open-failed", log_file.error().text() + "; trying again",
                   {{"error", std::string_view(log_file.error().text())}});
    }
    for (std::string const& warning : options_.warnings)
        log_.write(log::LogLevel::warning, "option-warning", warning);
    for (std::string const& warning : setup_.warnings)
        log_.write(log::LogLevel::warning, "setup-warning", warning);
}

// The service manager.

void LifeCycle::tell_manager(std::optional<std::uint32_t> wanted) {
    if (!notifier_.is_on()) return;
    if (supervisor_.phase() != SupervisorPhase::running) {
        if (!std::exchange(told_stopping_, true)) notifier_.send("STOPPING=1\nSTATUS=stopping");
        return;
    }
    if (wanted) tell_running(*wanted);
}

void LifeCycle::tell_running(std::uint32_t wanted) {
    std::uint32_t const running = supervisor_.running_count();
    std::string const status = "STATUS=" + std::to_string(running) + " of " + count_text(wanted) + " running";
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

// For an upgrade.

void LifeCycle::save(UpgradeState& state) const {
    state.began = began_;
    state.told_ready = told_ready_;
    state.stop_requests = stop_requests_;
    state.stop_asked_at = requests_.first();
    state.reboots = reboots_;
}

void LifeCycle::restore(UpgradeState const& state) {
    began_ = state.began;
    told_ready_ = state.told_ready;
    stop_requests_ = state.stop_requests;
    requests_.restore(state.stop_asked_at);
    reboots_ = state.reboots;
}

}  // namespace triton::launcher

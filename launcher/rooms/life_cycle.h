#pragma once

#include <cstdint>
#include <optional>

#include <sys/signalfd.h>

#include "launcher/children/process_setup.h"
#include "launcher/children/sys.h"
#include "launcher/control/control_backend.h"
#include "launcher/plan/launch_options.h"
#include "launcher/rooms/log_keeper.h"
#include "launcher/rooms/rooms.h"
#include "launcher/services/notify.h"
#include "launcher/supervisor/supervisor.h"
#include "launcher/upgrade/upgrade_state.h"
#include "lib/base/event_loop.h"
#include "lib/base/stop_requests.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// The room of the launcher's own life: which signals it gets and what they mean, the stop, whether it stays for a
/// while after that, its exit code, and the reports to the service manager above it.
///
/// Senders of signals choose how many come. A round reads one batch of them, in which those that end things come
/// first: TERM, INT, QUIT, then the children that have ended, then all others. The rest waits for the next round.
class LifeCycle {
public:
    class Listener {
    public:
        virtual ~Listener() = default;
        /// SIGCHLD has come, of `pid` and of others that have ended, or were stopped, meanwhile.
        virtual void children_changed(pid_t pid) = 0;
        /// SIGCONT: a shell may have given us the terminal.
        virtual void continued() = 0;
        /// The first request has been dispatched, or a further one.
        virtual void stop_asked() = 0;
        /// SIGHUP. The log has been opened again.
        virtual void hung_up() = 0;
        /// Whether there is, or was, anything to run.
        [[nodiscard]] virtual bool has_configuration() const = 0;
    };
    /// All outlive this.
    LifeCycle(LaunchOptions const& options, ProcessSetup const& setup, Sys& sys, EventLoop& loop, log::Log& log,
              LogKeeper& log_file, Supervisor const& supervisor, PodState const& pod, EventSink& events,
              Listener& listener);

    /// Errors: those of epoll_ctl(2).
    Result<> watch_signals();
    void take_signals();

    /// In the log, which is opened for it.
    void tell_start();
    /// All has ended: with this code, at once or after the time that the pod wants to stay.
    void finish(int exit_code);
    /// What keeps it from starting at all.
    void note_failure() { exit_code_ = 1; }
    /// Nothing is left to do.
    [[nodiscard]] bool is_over() const;
    [[nodiscard]] int exit_code() const { return exit_code_; }
    /// Restarts the machine if that was asked for. Returns where it may not.
    void reboot_if_asked();

    /// Reports a reload to the service manager, changed or not.
    void note_reload() { is_reloaded_ = true; }
    /// Reports changes. `wanted`: processes of the active configuration; nullopt: there is none. Source: sd_notify(3).
    void tell_manager(std::optional<std::uint32_t> wanted);

    [[nodiscard]] TimePoint began() const { return began_; }

    // For an upgrade.
    void save(UpgradeState& state) const;
    void restore(UpgradeState const& state);

private:
    [[nodiscard]] int meaning(signalfd_siginfo const& info) const;
    [[nodiscard]] bool is_stop(int signo) const;
    [[nodiscard]] bool is_idle_suspend(signalfd_siginfo const& info) const;
    [[nodiscard]] static bool is_from_own_terminal(signalfd_siginfo const& info);
    void take(int signo);
    void stop(int signo);
    bool begin_linger();
    void tell_running(std::uint32_t wanted);

    LaunchOptions const& options_;
    ProcessSetup const& setup_;
    Sys& sys_;
    EventLoop& loop_;
    log::Log& log_;
    LogKeeper& log_file_;
    Supervisor const& supervisor_;
    PodState const& pod_;
    EventSink& events_;
    Listener& listener_;
    Notifier notifier_;
    EventLoop::Watch signal_watch_;
    EventLoop::Timer linger_timer_;        // armed: all have ended, and the pod wants to stay for a while
    std::optional<TimePoint> stay_until_;  // the same, while they end
    TimePoint began_;
    StopRequests requests_;
    int stop_requests_ = 0;
    int exit_code_ = 0;
    std::uint32_t told_running_ = 0;
    bool is_forced_ = false;  // the stop itself cannot get on
    bool reboots_ = false;
    bool is_reloaded_ = false;
    bool told_ready_ = false;
    bool told_stopping_ = false;
};

}  // namespace triton::launcher

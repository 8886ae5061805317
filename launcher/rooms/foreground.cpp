#include "launcher/rooms/foreground.h"

#include <cerrno>
#include <csignal>

namespace triton::launcher {

bool Foreground::is_free() {
    if (!has_shell_above() || is_ours()) return true;
    pid_t const group = sys_.foreground_group();
    bool const is_of_holder = holder_ && holder_->pid == group;
    return is_of_holder || (group > 1 && sys_.signal(-group, 0) == ESRCH);
}

void Foreground::ended(ProcessId id) {
    if (!holder_ || holder_->id != id) return;
    take_back();
    holder_.reset();
}

/// Gives our foreground to the process. Returns whether we had it.
bool Foreground::hand_over() {
    if (!holder_ || !has_shell_above() || !is_ours()) return false;
    sys_.set_foreground_group(holder_->pid);
    return true;
}

void Foreground::take_back() {
    if (sys_.foreground_group() == holder_->pid) sys_.set_foreground_group(sys_.group_of(sys_.own_pid()));
}

void Foreground::follow_stop() {
    if (!holder_ || !has_shell_above()) return;
    int const signo = sys_.take_stop(holder_->pid);
    bool const wants_terminal = signo == SIGTTIN || signo == SIGTTOU;
    if (signo != SIGTSTP && !wants_terminal) return;
    // It was stopped because it did not have the terminal. The shell may have given that to us (fg) meanwhile.
    if (!wants_terminal || !hand_over()) {
        take_back();
        (void)sys_.signal(sys_.own_pid(), SIGSTOP);
        (void)hand_over();
    }
    (void)sys_.signal(-holder_->pid, SIGCONT);
}

}  // namespace triton::launcher

#pragma once

#include <optional>

#include <sys/types.h>

#include "launcher/children/process_setup.h"
#include "launcher/children/sys.h"
#include "launcher/supervisor/supervisor.h"

namespace triton::launcher {

/// The room of the terminal that is our standard input: whose process group is in its foreground. A process whose
/// `stdin` is `inherit` takes it from us, and it is ours again when that process has ended: others in our group (a
/// script, make) would read EIO, and ^C would reach nobody.
///
/// A shell above us gives the terminal to one job at a time. So nobody takes it from a job that has it, and when such a
/// process is stopped by the terminal (^Z), we stop with it until the shell continues us. Wrap mode does the same.
/// Source: tcsetpgrp(3), POSIX.1-2017, 11.1.
class Foreground {
public:
    /// Both outlive this.
    Foreground(Sys& sys, ProcessSetup const& setup) : sys_(sys), setup_(setup) {}

    /// Whether a process that starts now may take it.
    [[nodiscard]] bool is_free();
    /// It takes it when it is free, or has had it since before an upgrade.
    void started(ProcessId id, pid_t pid) { holder_ = Holder{id, pid}; }
    void ended(ProcessId id);
    /// SIGCHLD has come: stops us if that process has been stopped by the terminal.
    void follow_stop();
    /// A shell has continued us, perhaps in the foreground.
    void continued() { (void)hand_over(); }

private:
    struct Holder {
        ProcessId id;
        pid_t pid;
    };

    [[nodiscard]] bool has_shell_above() const { return !setup_.is_pid_1 && !setup_.leads_session; }
    [[nodiscard]] bool is_ours() { return sys_.foreground_group() == sys_.group_of(sys_.own_pid()); }
    bool hand_over();
    void take_back();

    Sys& sys_;
    ProcessSetup const& setup_;
    std::optional<Holder> holder_;  // the one that was started last
};

}  // namespace triton::launcher

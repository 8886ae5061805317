#include "launcher/spawn_child.h"

#include <csignal>

#include "launcher/supervisor.h"

namespace triton::launcher {

namespace {

void give_up(SpawnChild& child, SpawnStage stage, raw::Value result) {
    child.failed_stage = static_cast<unsigned char>(stage);
    child.error = static_cast<int>(-result);
    raw::exit(127);
}

}  // namespace

void run_spawn_child(void* spawn_child) {
    auto& child = *static_cast<SpawnChild*>(spawn_child);
    if (child.orphan_signal) {
        if (raw::Value const result = raw::call(SYS_prctl, 1 /* PR_SET_PDEATHSIG */, child.orphan_signal); result < 0)
            give_up(child, SpawnStage::parent_death_signal, result);
        if (raw::call(SYS_getppid) != child.parent) raw::exit(127);  // too late: it died before that
    }
    // A group of its own: the terminal's ^C is for the launcher, and the whole group can be signalled.
    if (raw::Value const result = raw::call(SYS_setpgid, 0, 0); result < 0)
        give_up(child, SpawnStage::process_group, result);
    if (child.inherited_sigchld)
        (void)raw::call(SYS_rt_sigaction, SIGCHLD, raw::address(child.inherited_sigchld), 0, sizeof(raw::SignalSet));
    (void)raw::call(SYS_rt_sigprocmask, SIG_SETMASK, raw::address(&child.inherited_mask), 0, sizeof(raw::SignalSet));
    give_up(child, SpawnStage::execute,
            raw::call(SYS_execve, raw::address(child.program), raw::address(child.argv), raw::address(child.envp)));
}

}  // namespace triton::launcher

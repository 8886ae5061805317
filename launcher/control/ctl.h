#pragma once

namespace triton::launcher {

/// `triton-launch ctl ...`: the client of the control socket. `argv` as main() has it: argv[1] is "ctl".
/// Returns the exit code: 0 done, 1 the launcher refused or failed, 2 usage, 3 the launcher cannot be reached, 4 the
/// time to wait is over. It may block; it is not the launcher.
int ctl_main(int argc, char** argv, char** envp);

}  // namespace triton::launcher

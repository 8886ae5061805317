#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace triton::agent {

/// The rights that the agent keeps. All others are given up permanently, in all threads.
struct SandboxRules {
    int output_directory = -1;           ///< borrowed; may be read below; -1: none
    std::vector<std::string> read_only;  ///< directories that may be read below, and files
    bool may_connect = false;            ///< by TCP, to anybody: probes, Kubernetes
    bool may_connect_by_path = false;    ///< by Unix sockets: the launcher's control socket
    bool may_resolve = false;            ///< by UDP too, to anybody: DNS
};

/// What came of it, for the log.
struct SandboxReport {
    bool has_landlock = false;
    bool has_seccomp = false;
    std::string missing;  ///< why something is not there; empty: all is
};

/// Before threads are made: no_new_privs, all capabilities dropped from all sets, and Landlock where the kernel has it:
/// nothing may be written, and only what the rules say may be read; from ABI 6 on, no outside process may be
/// signalled or reached by an abstract socket.
/// Errors: those of prctl(2) and capset(2), and of Landlock where it exists. Source: landlock(7), capabilities(7).
Result<> drop_rights(SandboxRules const& rules, SandboxReport& report);

/// Whether a file's permissions would let us read it, and yet it cannot be opened: what drop_rights() has left us does
/// not reach to where it is now.
bool is_out_of_reach(std::string const& path);

/// Once all threads are there: a seccomp filter for all of them with what the agent needs from now on. Anything else
/// fails with EPERM: no program is executed, no process made, no memory made executable, no socket opened except the
/// rules say (a pair of Unix streams can be made), none bound to an address and none made to listen, no file opened for
/// writing but by openat2(2), whose flags a filter cannot see (Landlock does), and no signal sent, not even by
/// fcntl(2): whose F_SETOWN, F_SETSIG and O_ASYNC would have the kernel send it. Where seccomp is not there, or
/// forbidden, the report says so. Errors: the others of seccomp(2).
Result<> filter_system_calls(SandboxRules const& rules, SandboxReport& report);

}  // namespace triton::agent

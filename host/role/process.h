#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host/role/channel.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::role {

/// The confined programs. Each has its own user, named after the program, and its own namespaces.
enum class Role : std::uint8_t { download, verify, unpack, stream };

/// The ids of the host in a role's user namespace: 0 to count-1 are first to first+count-1.
struct IdRange {
    std::uint32_t first = 0;
    std::uint32_t count = UINT32_MAX;

    bool operator==(IdRange const&) const = default;
};

struct RoleSettings {
    /// Where the programs are. Empty: TRITON_LIBEXEC, else the directory of the running program if the role is there (a
    /// build tree), else /usr/libexec/triton.
    std::string directory = {};
    /// The ids of the user namespace of `unpack`. The other roles have only their own id.
    IdRange ids = {};
};

/// Returns "triton-verify", for example: the program, and the user that it runs as.
std::string_view program_of(Role role);
/// Returns "imgadm", for example: what starts it.
std::string_view starter_of(Role role);

/// A running role. The destructor kills and reaps it. It also dies when we are killed, but for `stream`, whose clients
/// outlive us.
class RoleProcess {
public:
    /// Starts the program in new namespaces (user, PID, mount, IPC, UTS; all but `download` also network). This gives
    /// it everything that it needs to confine itself; sandbox.h does the rest.
    /// Errors: `denied` without root's rights: "cannot start triton-verify: this needs root"; those of clone(2) and
    /// execve(2), with the program's path.
    static Result<RoleProcess> start(Role role, RoleSettings const& settings = {});

    RoleProcess(RoleProcess&& other) noexcept;
    RoleProcess& operator=(RoleProcess&& other) noexcept;
    ~RoleProcess();

    Channel& channel() { return channel_; }
    [[nodiscard]] std::string_view program() const { return program_of(role_); }

    /// Readable when it has ended. Borrowed.
    [[nodiscard]] int pidfd() const { return pidfd_.get(); }
    [[nodiscard]] int pid() const { return pid_; }

    /// Closes the channel and waits for the role's end. Succeeds when it has exited with 0. Errors: `timeout`, and then
    /// it is killed; `corrupt`: "triton-verify was killed by SIGSYS", "triton-verify exited with code 1";
    /// `unavailable`: "triton-verify was killed by SIGKILL", as by a kernel that is short of memory.
    Result<> finish(TimePoint deadline);

    /// Ends it at once; finish() then has nothing to report.
    void kill();

private:
    RoleProcess(Role role, Channel channel, UniqueFd pidfd, int pid);
    Result<> reap();
    Role role_;
    Channel channel_;
    UniqueFd pidfd_;
    int pid_ = -1;  // -1: reaped
};

}  // namespace triton::role

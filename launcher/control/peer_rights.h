#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include <sys/types.h>
#include <unistd.h>

#include "launcher/control/control_backend.h"
#include "lib/varlink/socket.h"

namespace triton::launcher {

/// What /proc says of a process's rights. Source: proc(5), /proc/PID/status.
struct ProcessRights {
    pid_t parent = 0;  ///< 0: outside our PID namespace
    bool no_new_privileges = false;
    std::uint32_t filters = 0;       ///< of seccomp
    std::uint64_t capabilities = 0;  ///< permitted

    bool operator==(ProcessRights const&) const = default;
};

/// Reads one file. nullopt when the process has ended, or /proc is not there.
/// `proc`: the directory; another one is for tests.
std::optional<ProcessRights> read_rights(pid_t pid, std::string const& proc = "/proc");

/// Decides whether a connected client may command. A uid alone does not authorize anybody: a program of ours
/// may have our uid, and yet less than our rights.
class PeerRights {
public:
    explicit PeerRights(ControlBackend const& backend, std::string proc = "/proc", pid_t own = ::getpid())
        : backend_(backend), proc_(std::move(proc)), own_(own) {}

    /// What it may do, or why it is refused. `is_by_uid`: only its uid lets it in. Reads some files of /proc:
    /// its own and, where somebody may be refused, those of its ancestors, of which a hostile process can make many:
    /// at most 32 count.
    [[nodiscard]] std::expected<ControlRole, std::string> role_of(varlink::Peer const& peer, bool is_by_uid) const;

private:
    [[nodiscard]] std::optional<std::string> why_not_its_family(pid_t pid, ProcessRights rights, bool is_by_uid) const;
    [[nodiscard]] bool has_our_rights(ProcessRights const& rights) const;

    ControlBackend const& backend_;
    std::string proc_;
    pid_t own_;
    mutable std::optional<ProcessRights> own_rights_;  ///< read once: we never change them
};

}  // namespace triton::launcher

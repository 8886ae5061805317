#include "launcher/control/peer_rights.h"

#include <charconv>
#include <string_view>

#include "lib/base/read_file.h"

namespace triton::launcher {

namespace {

constexpr int most_ancestors = 32;
constexpr std::size_t longest_status = 16 * 1024;

/// The number behind "Name:" and blanks in a line of its own; 0 when it is not there.
std::uint64_t field(std::string_view status, std::string_view name, int base) {
    std::size_t at = status.find("\n" + std::string(name) + ":");
    if (at == std::string_view::npos) return 0;
    at = status.find_first_not_of(" \t", at + name.size() + 2);
    if (at == std::string_view::npos) return 0;
    std::uint64_t value = 0;
    (void)std::from_chars(status.data() + at, status.data() + status.size(), value, base);  // else it stays 0
    return value;
}

}  // namespace

std::optional<ProcessRights> read_rights(pid_t pid, std::string const& proc) {
    auto const status = read_file((proc + "/" + std::to_string(pid) + "/status").c_str(), longest_status);
    if (!status) return std::nullopt;
    return ProcessRights{.parent = static_cast<pid_t>(field(*status, "PPid", 10)),
                         .no_new_privileges = field(*status, "NoNewPrivs", 10) != 0,
                         .filters = static_cast<std::uint32_t>(field(*status, "Seccomp_filters", 10)),
                         .capabilities = field(*status, "CapPrm", 16)};
}

std::expected<ControlRole, std::string> PeerRights::role_of(varlink::Peer const& peer, bool is_by_uid) const {
    if (peer.pid == 0) return ControlRole::person;  // outside our PID namespace, so not one of our programs
    auto const rights = read_rights(peer.pid, proc_);
    if (!rights) return std::unexpected("its process has ended, so its origin is unknown");
    if (auto why = why_not_its_family(peer.pid, *rights, is_by_uid)) return std::unexpected(*std::move(why));
    return is_by_uid && !has_our_rights(*rights) ? ControlRole::limited : ControlRole::person;
}

/// Walks from the process up through its parents, to the first that we have started or that does not descend from us.
std::optional<std::string> PeerRights::why_not_its_family(pid_t pid, ProcessRights rights, bool is_by_uid) const {
    if (!backend_.has_strangers()) return std::nullopt;  // saves reading about each ancestor
    for (int i = 0; i < most_ancestors; ++i) {
        switch (backend_.owner_of(pid)) {
            case ProcessOwner::agent: return "it belongs to the agent";
            case ProcessOwner::sandboxed: return "it belongs to a program with a sandbox";
            case ProcessOwner::other_user:
                if (is_by_uid) return "it belongs to a program of another user";
                return std::nullopt;
            case ProcessOwner::program: return std::nullopt;
            case ProcessOwner::nobody: break;
        }
        if (rights.parent == own_) {
            if (backend_.has_sandboxes())
                return "its parent has ended, and may have belonged to a program with a sandbox";
            return std::nullopt;
        }
        if (rights.parent == 0 || pid == own_) return std::nullopt;
        pid = rights.parent;
        auto const parent = read_rights(pid, proc_);
        if (!parent) return "a parent of its process has ended in the meantime";
        rights = *parent;
    }
    return "it has too many ancestors";
}

/// A process with our uid and fewer rights than ours has been confined by somebody. It would get our rights by
/// commanding us.
bool PeerRights::has_our_rights(ProcessRights const& rights) const {
    if (!own_rights_) own_rights_ = read_rights(own_, proc_);
    if (!own_rights_) return false;
    bool const is_filtered =
        rights.filters > own_rights_->filters || (rights.no_new_privileges && !own_rights_->no_new_privileges);
    return !is_filtered && (own_rights_->capabilities & ~rights.capabilities) == 0;
}

}  // namespace triton::launcher

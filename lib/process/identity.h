#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/json/problem.h"
#include "lib/json/where.h"
#include "lib/process/settings.h"

namespace triton::process {

/// Which ids a process gets; absent: as ours.
struct Identity {
    std::optional<std::uint32_t> user = {};
    std::optional<std::uint32_t> group = {};
    std::optional<std::vector<std::uint32_t>> supplementary_groups = {};  ///< sorted, each once

    bool operator==(Identity const&) const = default;
};

struct User {
    std::string name;
    std::uint32_t id;
    std::uint32_t group;

    bool operator==(User const&) const = default;
};

/// Where users and groups are listed. A static program has no NSS: it knows only these files, as in containers
/// they are all that there is.
struct AccountFiles {
    std::string passwd = "/etc/passwd";
    std::string group = "/etc/group";
};

/// The content of such files. Lines that are none (fields missing, ids that are not numbers, comments) are passed over,
/// as libc does. Source: passwd(5), group(5).
class Accounts {
public:
    Accounts(std::string passwd, std::string group) : passwd_(std::move(passwd)), group_(std::move(group)) {}
    /// A file that does not exist (an image from scratch) reads as empty. Errors: those of read_file().
    static Result<Accounts> read(AccountFiles const& files);

    [[nodiscard]] std::optional<User> find_user(std::string_view name) const;
    [[nodiscard]] std::optional<User> find_user(std::uint32_t id) const;
    [[nodiscard]] std::optional<std::uint32_t> find_group(std::string_view name) const;
    /// The groups that name the user as a member, and its own: sorted, each once.
    [[nodiscard]] std::vector<std::uint32_t> groups_of(User const& user) const;

private:
    std::string passwd_;
    std::string group_;
};

/// The ids of a program's processes. Ids that equal ours are not set, so an unprivileged launcher can name its
/// own user's name. Names are those of our files, also for a program with a root directory of its own.
/// Errors: all of them: "<at>.user: no user \"www\" in /etc/passwd", "<at>.group: is needed, because user 4711 is not
/// in /etc/passwd".
std::expected<Identity, json::Problems> resolve_identity(Settings const& settings, json::Where const& at,
                                                         AccountFiles const& files);

/// Removes supplementary groups that follow from `user` or `group` alone, when both are ours already and the kernel
/// does not let us change our groups: a pod's fsGroup, no CAP_SETGID, a user namespace with /proc/self/setgroups
/// "deny". Returns whether it did.
bool keep_own_groups(Settings const& settings, Identity& identity);

}  // namespace triton::process

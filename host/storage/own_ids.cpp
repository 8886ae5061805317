#include "host/storage/own_ids.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>

#include "host/storage/attributes.h"
#include "host/storage/walk_tree.h"

namespace triton::storage {

namespace {

/// Changes the owners of one range of uids to those of another.
class Shifter {
public:
    Shifter(std::uint32_t from, std::uint32_t to) : from_(from), to_(to) {}

    Result<> enter(DirectoryStack const& /*stack*/, struct stat const& /*status*/) { return {}; }
    Result<> entry(DirectoryStack const& stack, std::string const& name, struct stat const& status) {
        // The second name of a file finds owners that are right, and attributes that need no second look.
        if (status.st_nlink > 1 && !seen_.insert(status.st_ino).second) return {};
        UniqueFd file;
        if (S_ISREG(status.st_mode))
            file = UniqueFd{::openat(stack.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
        return restore({stack.fd(), name.c_str(), file.get()}, status, stack.shown(name));
    }
    Result<> mounted(DirectoryStack const& /*stack*/, std::string const& /*name*/) { return {}; }
    /// Only then: the owner of a directory says that all below it is done.
    Result<> leave(DirectoryStack const& stack) {
        struct stat status{};
        if (::fstat(stack.fd(), &status) != 0) return fail(errno, "look at " + stack.shown());
        return restore({stack.fd(), ".", stack.fd()}, status, stack.shown());
    }
    Result<> shift_file(int file, struct stat const& status, std::string const& shown) {
        if (::fchown(file, own(status.st_uid), own(status.st_gid)) != 0)
            return fail(errno, "give " + shown + " to its machine");
        return {};
    }

private:
    [[nodiscard]] std::uint32_t own(std::uint32_t id) const {
        return id >= from_ && id - from_ < ids_of_machine ? id - from_ + to_ : id;
    }

    Result<> restore(Place const& place, struct stat const& now, std::string const& shown) {
        auto const done = restore_one(place, now);
        if (done) return {};
        return fail(done.error().kind, "give " + shown + " to its machine's own user", done.error().text());
    }

    Result<> restore_one(Place const& place, struct stat const& now) {
        // chown(2) removes capabilities, so they are read before
        auto const changed = TRY(changed_attributes(place));
        struct stat wanted = now;
        wanted.st_uid = own(now.st_uid);
        wanted.st_gid = own(now.st_gid);
        bool const is_shifted = wanted.st_uid != now.st_uid || wanted.st_gid != now.st_gid;
        if (is_shifted) TRY(set_attributes(place, wanted, now));
        for (auto const& [name, value] : changed)
            TRY(set_extended_attribute(place, name.c_str(), value));
        return {};
    }

    /// The attributes that hold ids of the host, as the machine itself would have them.
    Result<std::vector<std::pair<std::string, std::string>>> changed_attributes(Place const& place) {
        std::vector<std::pair<std::string, std::string>> changed;
        TRY(attributes_.read(
            place,
            [&](char const* name, std::string_view value) -> Result<> {
                std::string const own_value = std::string_view(name) == "security.capability" ? own_capability(value)
                                              : std::string_view(name).starts_with("system.posix_acl_")
                                                  ? own_acl(value)
                                                  : std::string(value);
                bool const is_lost = std::string_view(name) == "security.capability";  // by the change of the owner
                if (is_lost || own_value != value) changed.emplace_back(name, own_value);
                return {};
            }));
        return changed;
    }

    /// Source: Linux, include/uapi/linux/capability.h; one with a root's uid is of version 3.
    [[nodiscard]] std::string own_capability(std::string_view value) const {
        vfs_ns_cap_data data{};
        bool const has_root = value.size() == sizeof data;
        if (!has_root && value.size() != sizeof(vfs_cap_data)) return std::string(value);
        std::memcpy(&data, value.data(), value.size());
        if ((has_root ? data.rootid : 0) != from_) return std::string(value);
        data.rootid = to_;
        data.magic_etc =
            (data.magic_etc & VFS_CAP_FLAGS_EFFECTIVE) | (to_ == 0 ? VFS_CAP_REVISION_2 : VFS_CAP_REVISION_3);
        std::string own_value(to_ == 0 ? sizeof(vfs_cap_data) : sizeof data, '\0');
        std::memcpy(own_value.data(), &data, own_value.size());
        return own_value;
    }

    /// Source: Linux, include/uapi/linux/posix_acl_xattr.h
    [[nodiscard]] std::string own_acl(std::string_view value) const {
        std::string own_value(value);
        for (std::size_t at = sizeof(posix_acl_xattr_header); at + sizeof(posix_acl_xattr_entry) <= own_value.size();
             at += sizeof(posix_acl_xattr_entry)) {
            posix_acl_xattr_entry entry{};
            std::memcpy(&entry, &own_value[at], sizeof entry);
            if (entry.e_tag == ACL_USER || entry.e_tag == ACL_GROUP) entry.e_id = own(entry.e_id);
            std::memcpy(&own_value[at], &entry, sizeof entry);
        }
        return own_value;
    }

    std::uint32_t from_;
    std::uint32_t to_;
    ExtendedAttributes attributes_;
    std::unordered_set<std::uint64_t> seen_;  // inodes with several names
};

}  // namespace

Result<std::optional<uid_t>> shifted_by(int root) {
    struct stat status{};
    if (::fstat(root, &status) != 0) return fail(errno, "look at the root of a machine");
    uid_t const first = status.st_uid - status.st_uid % ids_of_machine;
    return first == 0 ? std::nullopt : std::optional(first);
}

Result<> give_ids(UniqueFd root, uid_t first) {
    struct stat status{};
    if (::fstat(root.get(), &status) != 0) return fail(errno, "look at the files of a machine");
    uid_t const from = status.st_uid - status.st_uid % ids_of_machine;
    if (from == first) return {};
    Shifter shifter(from, first);
    if (!S_ISDIR(status.st_mode)) return shifter.shift_file(root.get(), status, "a file");
    return walk_tree(std::move(root), shifter);
}

Result<> restore_own_ids(UniqueFd root) { return give_ids(std::move(root), 0); }

}  // namespace triton::storage

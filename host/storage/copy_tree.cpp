#include "host/storage/copy_tree.h"

#include <cerrno>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/attributes.h"
#include "host/storage/data_copy.h"
#include "host/storage/directory_entries.h"
#include "host/storage/directory_stack.h"
#include "host/storage/link_shelf.h"
#include "host/storage/walk_tree.h"

namespace triton::storage {

namespace {

constexpr int most_looks = 16;  // at one name

/// Whether FICLONE cannot share these files, which is not a reason to give up: a swap file, a file without copy on
/// write, a file system without this ability.
bool is_refusal_to_share(int err) {
    return err == EOPNOTSUPP || err == EXDEV || err == EINVAL || err == ETXTBSY || err == ENOTTY || err == ENOSYS;
}

class Copy {
public:
    Copy(DirectoryStack from, DirectoryStack to, CopyWay way)
        : from_(std::move(from)), to_(std::move(to)), shelf_(to_.fd()), way_(way) {}

    Result<CopyFacts> run() {
        struct stat status;
        if (::fstat(from_.fd(), &status) != 0) return fail(errno, "look at the tree");
        levels_.push_back({{}, status});
        TRY(copy_entries());
        while (from_.depth() > 0 || !levels_.back().names.empty()) {
            if (levels_.back().names.empty()) {
                TRY(leave());
            } else {
                TRY(enter());
            }
        }
        TRY(shelf_.remove());
        TRY(finish_directory());
        return facts_;
    }

private:
    struct Level {
        std::vector<std::string> names;  // of directories that have not been copied yet
        struct stat status;
    };

    std::unexpected<Error> failed(Error error, std::string const& name) const {
        error.attempted = "copy " + from_.shown(name) + (error.attempted.empty() ? "" : ": " + error.attempted);
        return std::unexpected(std::move(error));
    }

    /// Copies everything but directories, which are only noted.
    Result<> copy_entries() {
        return reader_.read(from_.fd(), [&](std::string const& name, unsigned char type) -> Result<> {
            ++facts_.entries;
            if (type == DT_DIR) {
                levels_.back().names.push_back(name);
                return {};
            }
            auto copied = type == DT_REG ? copy_file(name) : copy_other(name);
            // In a tree that is in use a name goes, or is that of something else, while it is looked at.
            for (int attempt = 1; attempt < most_looks && !copied && is_replaced(copied.error()); ++attempt)
                copied = copy_other(name);
            if (!copied && copied.error().code == ENOENT) return {};
            return copied ? Result<>{} : failed(std::move(copied).error(), name);
        });
    }

    /// Nothing has been made then.
    static std::unexpected<Error> replaced() { return fail(ErrorKind::busy, "", "it was replaced meanwhile"); }
    static bool is_replaced(Error const& error) { return error.kind == ErrorKind::busy && error.code == 0; }

    /// Opens a file of the tree, without changing its access time where that is allowed.
    UniqueFd open_file(std::string const& name) const {
        constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
        UniqueFd file{::openat(from_.fd(), name.c_str(), flags | O_NOATIME)};
        if (!file && errno == EPERM) file = UniqueFd{::openat(from_.fd(), name.c_str(), flags)};
        return file;
    }

    Result<> copy_file(std::string const& name) {
        UniqueFd const from = open_file(name);
        struct stat status;
        if (!from && (errno == ELOOP || errno == ENXIO)) return replaced();  // a link, a socket
        if (!from || ::fstat(from.get(), &status) != 0) return fail(errno, "");
        if (!S_ISREG(status.st_mode)) return replaced();
        if (TRY(shelf_.link(status, to_.fd(), name))) return {};

        UniqueFd const to{::openat(to_.fd(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                   status.st_mode & 0777)};
        struct stat made;
        if (!to || ::fstat(to.get(), &made) != 0) return fail(errno, "");
        if (status.st_size > 0) TRY(copy_content(from.get(), status, to.get()));
        TRY(copy_attributes({from_.fd(), name.c_str(), from.get()}, {to_.fd(), name.c_str(), to.get()}, status, made));
        return shelf_.keep(status, to_.fd(), name);
    }

    Result<> copy_content(int from, struct stat const& status, int to) {
        if (way_ == CopyWay::reflink) {
            if (::ioctl(to, FICLONE, from) == 0) return {};
            if (!is_refusal_to_share(errno)) return fail(errno, "");
        }
        facts_.copied_bytes += TRY(copy_data(from, status, to));
        return {};
    }

    /// Copies symbolic links, devices, FIFOs and sockets, and files whose type the file system does not tell.
    Result<> copy_other(std::string const& name) {
        struct stat status;
        if (::fstatat(from_.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return fail(errno, "");
        if (S_ISDIR(status.st_mode)) {
            levels_.back().names.push_back(name);
            return {};
        }
        if (S_ISREG(status.st_mode)) return copy_file(name);
        if (TRY(shelf_.link(status, to_.fd(), name))) return {};
        TRY(S_ISLNK(status.st_mode) ? copy_symlink(name) : copy_node(name, status));
        struct stat made;
        if (::fstatat(to_.fd(), name.c_str(), &made, AT_SYMLINK_NOFOLLOW) != 0) return fail(errno, "");
        TRY(copy_attributes({from_.fd(), name.c_str(), -1}, {to_.fd(), name.c_str(), -1}, status, made));
        return shelf_.keep(status, to_.fd(), name);
    }

    Result<> copy_symlink(std::string const& name) {
        target_.resize(PATH_MAX + 1);
        ssize_t const size = ::readlinkat(from_.fd(), name.c_str(), target_.data(), target_.size());
        if (size < 0 && errno == EINVAL) return replaced();
        if (size < 0) return fail(errno, "");
        target_.resize(static_cast<std::size_t>(size));
        if (::symlinkat(target_.c_str(), to_.fd(), name.c_str()) != 0) return fail(errno, "");
        return {};
    }

    Result<> copy_node(std::string const& name, struct stat const& status) {
        if (::mknodat(to_.fd(), name.c_str(), status.st_mode & (S_IFMT | 0700), status.st_rdev) != 0)
            return fail(errno, "");
        return {};
    }

    Result<> copy_attributes(Place const& from, Place const& to, struct stat const& wanted, struct stat const& now) {
        TRY(set_attributes(to, wanted, now));
        return attributes_.read(
            from, [&](char const* name, std::string_view value) { return set_extended_attribute(to, name, value); });
    }

    Result<> enter() {
        std::string const name = std::move(levels_.back().names.back());
        levels_.back().names.pop_back();
        auto entered = from_.enter(name);
        bool const is_foreign = !entered && entered.error().code == EXDEV;  // something is mounted there
        if (!entered && has_directory_gone(entered.error())) return {};
        if (!entered && !is_foreign) return entered;
        if (::mkdirat(to_.fd(), name.c_str(), 0700) != 0) return fail(errno, "copy " + from_.shown(name));
        if (is_foreign) return {};
        TRY(to_.enter(name));
        struct stat status;
        if (::fstat(from_.fd(), &status) != 0) return fail(errno, "copy " + from_.shown());
        levels_.push_back({{}, status});
        return copy_entries();
    }

    Result<> leave() {
        TRY(finish_directory());
        levels_.pop_back();
        TRY(from_.leave());
        return to_.leave();
    }

    /// Sets its times last, because making files in it changes them.
    Result<> finish_directory() {
        struct stat made;
        if (::fstat(to_.fd(), &made) != 0) return fail(errno, "copy " + from_.shown());
        auto copied =
            copy_attributes({from_.fd(), ".", from_.fd()}, {to_.fd(), ".", to_.fd()}, levels_.back().status, made);
        return copied ? Result<>{} : failed(std::move(copied).error(), {});
    }

    DirectoryStack from_;
    DirectoryStack to_;
    LinkShelf shelf_;
    CopyWay way_;
    DirectoryReader reader_;
    ExtendedAttributes attributes_;
    std::vector<Level> levels_;
    std::string target_;
    CopyFacts facts_;
};

}  // namespace

Result<CopyFacts> copy_tree(UniqueFd from, UniqueFd to, CopyWay way) {
    auto from_stack = TRY(DirectoryStack::create(std::move(from)));
    auto to_stack = TRY(DirectoryStack::create(std::move(to)));
    return Copy(std::move(from_stack), std::move(to_stack), way).run();
}

}  // namespace triton::storage

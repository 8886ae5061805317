#include "host/machine/file_transfer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/next_entry.h"
#include "lib/base/unique_fd.h"
#include "lib/files/confined_path.h"
#include "lib/files/copy_file.h"

namespace triton::machine {

namespace {

constexpr std::uint64_t most_entries = 1'000'000;
constexpr std::size_t most_depth = 100;
constexpr std::size_t most_names = 10;
constexpr std::size_t longest_link = 4096;

/// Makes new files belong to that id until it is destroyed. Root keeps its rights, which setfsuid(2) would otherwise
/// take.
class FileIds {
public:
    FileIds(uid_t owner, gid_t group) : bits_(::prctl(PR_GET_SECUREBITS)) {
        ::prctl(PR_SET_SECUREBITS, bits_ | SECBIT_NO_SETUID_FIXUP);
        ::setfsgid(group);
        ::setfsuid(owner);
    }
    FileIds(FileIds const&) = delete;
    FileIds& operator=(FileIds const&) = delete;
    ~FileIds() {
        ::setfsuid(0);
        ::setfsgid(0);
        ::prctl(PR_SET_SECUREBITS, bits_);
    }

private:
    int bits_;
};

struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

/// Whether a file is on a file system where the kernel takes writes for commands. Source: linux/magic.h.
bool is_of_the_kernel(int file) {
    static constexpr auto systems =
        std::to_array<long>({PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,
                             TRACEFS_MAGIC, SECURITYFS_MAGIC, BPF_FS_MAGIC, EFIVARFS_MAGIC, DEVPTS_SUPER_MAGIC});
    struct statfs system{};
    if (::fstatfs(file, &system) != 0) return true;
    return std::ranges::find(systems, static_cast<long>(system.f_type)) != systems.end();
}

std::string by_descriptor(int file) { return "/proc/self/fd/" + std::to_string(file); }

/// The last component of a path; empty when that is not a name.
std::string_view base_name_of(std::string_view path) {
    while (path.ends_with('/'))
        path.remove_suffix(1);
    std::string_view const name = path.substr(path.rfind('/') + 1);
    return name == "." || name == ".." ? std::string_view() : name;
}

/// The path before its last component.
std::string parent_of(std::string_view path) {
    while (path.ends_with('/'))
        path.remove_suffix(1);
    std::size_t const slash = path.rfind('/');
    if (slash == std::string_view::npos) return ".";
    return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

/// The path of what is in a directory.
std::string below(std::string const& directory, std::string const& name) {
    return directory + (directory.ends_with('/') ? "" : "/") + name;
}

/// A path as an operator writes it, with the machine: the host may have the same one.
std::string label(FilePlace const& place, std::string const& path) {
    return place.machine.empty() ? path : place.machine + ":" + path;
}

/// Opens a path inside the root of its place.
Result<UniqueFd> open_in(FilePlace const& place, std::string const& path, int flags) {
    auto file = files::open_confined(place.root, path, flags | O_CLOEXEC);
    if (!file) return fail(file.error().code, "open " + label(place, path));
    return file;
}

/// A file that exists and its attributes. It is open in a way that does not make it act.
struct Found {
    UniqueFd handle;
    struct stat status{};
};

Result<Found> look(FilePlace const& place) {
    Found found;
    found.handle = TRY(open_in(place, place.path, O_PATH));
    if (::fstat(found.handle.get(), &found.status) != 0) return fail(errno, "look at " + label(place, place.path));
    return found;
}

/// Looks up a name in an open directory; a symbolic link is not followed.
Result<Found> look_at(int directory, std::string const& name, std::string const& shown) {
    Found found;
    found.handle = UniqueFd(::openat(directory, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!found.handle || ::fstat(found.handle.get(), &found.status) != 0) return fail(errno, "open " + shown);
    return found;
}

/// The destination of a transfer.
struct Destination {
    UniqueFd directory;
    std::string name;
    std::string shown;  ///< directory and name for messages
};

Result<Destination> destination(FilePlace const& to, std::string_view source_name) {
    auto directory = open_in(to, to.path, O_PATH | O_DIRECTORY);
    std::string name(source_name);
    std::string path = below(to.path, name);
    if (!directory) {
        bool const is_missing = directory.error().kind == ErrorKind::not_found && !to.path.ends_with('/');
        if (!is_missing && directory.error().code != ENOTDIR) return std::unexpected(directory.error());
        directory = open_in(to, parent_of(to.path), O_PATH | O_DIRECTORY);
        if (!directory) return std::unexpected(directory.error());
        name = base_name_of(to.path);
        path = to.path;
    }
    if (name.empty()) return fail(ErrorKind::invalid, "copy to " + label(to, to.path), "the name is missing");
    if (!to.root.empty() && is_of_the_kernel(directory->get()))
        return fail(ErrorKind::refused, "copy to " + label(to, to.path), "that is a file system of the kernel");
    return Destination{std::move(*directory), std::move(name), label(to, path)};
}

/// What messages call something that is copied: where it is, and where it goes.
struct Labels {
    std::string source;
    std::string target;

    [[nodiscard]] Labels child(std::string const& name) const { return {below(source, name), below(target, name)}; }
};

class Transfer {
public:
    Transferred result;

    Result<> copy(Found const& source, int directory, std::string const& name, Labels const& labels,
                  std::size_t depth) {
        if (++entries_ > most_entries)
            return fail(ErrorKind::unsupported, "copy " + labels.source, "there are more than a million files");
        if (depth == 0) device_ = source.status.st_dev;
        if (S_ISREG(source.status.st_mode)) return copy_file(source, directory, name, labels);
        if (S_ISLNK(source.status.st_mode)) return copy_link(source, directory, name, labels);
        if (S_ISDIR(source.status.st_mode) && source.status.st_dev == device_)
            return copy_directory(source, directory, name, labels, depth);
        if (depth == 0)
            return fail(ErrorKind::unsupported, "copy " + labels.source, "it is neither a file nor a directory");
        ++result.skipped;
        if (result.skipped_names.size() < most_names) result.skipped_names.push_back(labels.source);
        return {};
    }

private:
    Result<> copy_file(Found const& source, int directory, std::string const& name, Labels const& labels) {
        // Opened by its descriptor, and again when it has changed: on the host its name would mean another file.
        files::Source const file = TRY(files::open_source(by_descriptor(source.handle.get()), labels.source));
        auto prepared = files::prepare_copy(file, {.directory = directory, .name = name, .shown = labels.target}, {});
        if (!prepared) return std::unexpected(std::move(prepared).error());
        files::Staged const staged = TRY(files::publish(std::move(*prepared), true));
        ++result.files;
        result.bytes += staged.bytes;
        return {};
    }

    Result<> copy_link(Found const& source, int directory, std::string const& name, Labels const& labels) {
        std::string target(longest_link, '\0');
        ssize_t const length = ::readlinkat(source.handle.get(), "", target.data(), target.size());
        if (length < 0) return fail(errno, "read the link " + labels.source);
        target.resize(static_cast<std::size_t>(length));
        if (::symlinkat(target.c_str(), directory, name.c_str()) != 0) {
            bool const is_replaced = errno == EEXIST && ::unlinkat(directory, name.c_str(), 0) == 0;
            if (!is_replaced || ::symlinkat(target.c_str(), directory, name.c_str()) != 0)
                return fail(errno, "make the link " + labels.target);
        }
        ++result.files;
        return {};
    }

    Result<> copy_directory(Found const& source, int directory, std::string const& name, Labels const& labels,
                            std::size_t depth) {
        if (depth == most_depth)
            return fail(ErrorKind::unsupported, "copy " + labels.source, "it is deeper than 100 directories");
        if (depth > 0) TRY(check_not_made(source, labels));
        Directory const entries = TRY(open_entries(source, labels.source));
        if (::mkdirat(directory, name.c_str(), 0700) != 0 && errno != EEXIST)
            return fail(errno, "make directory " + labels.target);
        UniqueFd const made(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        struct stat status{};
        if (!made || ::fstat(made.get(), &status) != 0) return fail(errno, "open directory " + labels.target);
        if (depth == 0) {
            first_made_ = identity(status);
            TRY(check_not_made(source, labels));
        }
        ++result.directories;
        while (dirent const* const entry = TRY(next_entry(entries.get(), labels.source))) {
            std::string const child = entry->d_name;
            if (child == "." || child == "..") continue;
            Labels const inner = labels.child(child);
            Found const found = TRY(look_at(::dirfd(entries.get()), child, inner.source));
            TRY(copy(found, made.get(), child, inner, depth + 1));
        }
        std::array const times{source.status.st_atim, source.status.st_mtim};
        if (::fchmod(made.get(), source.status.st_mode & 0777) != 0 || ::futimens(made.get(), times.data()) != 0)
            return fail(errno, "set the attributes of " + labels.target);
        return {};
    }

    /// A directory that was copied into itself would be copied again and again, until that is too deep.
    Result<> check_not_made(Found const& source, Labels const& labels) const {
        if (identity(source.status) != first_made_) return {};
        return fail(ErrorKind::invalid, "copy " + labels.source, "a directory cannot be copied into itself");
    }

    static Result<Directory> open_entries(Found const& source, std::string const& shown) {
        UniqueFd file(::openat(source.handle.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        Directory entries(file ? ::fdopendir(file.get()) : nullptr);
        if (!entries) return fail(errno, "open directory " + shown);
        (void)file.release();  // the directory owns it now
        return entries;
    }

    static std::pair<dev_t, ino_t> identity(struct stat const& status) { return {status.st_dev, status.st_ino}; }

    std::uint64_t entries_ = 0;
    std::pair<dev_t, ino_t> first_made_;
    dev_t device_ = 0;  // other mounted file systems are left alone
};

}  // namespace

Result<Transferred> transfer_files(FilePlace const& from, FilePlace const& to) {
    Found const source = TRY(look(from));
    Destination const target = TRY(destination(to, base_name_of(from.path)));
    FileIds const ids(to.owner, to.group);
    Transfer transfer;
    // "/" keeps its slash
    std::string const path = from.path.substr(0, std::max(from.path.find_last_not_of('/') + 1, std::size_t{1}));
    TRY(transfer.copy(source, target.directory.get(), target.name, {label(from, path), target.shown}, 0));
    return std::move(transfer.result);
}

}  // namespace triton::machine

#include "host/unpack/tree.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/next_entry.h"
#include "lib/json/text.h"

namespace triton::unpack {

namespace {

constexpr std::uint64_t directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
constexpr mode_t implied_mode = 0755;
/// Times of directories are kept until the end; a directory takes about this much memory.
constexpr std::size_t most_times = 4'000'000;
constexpr std::size_t largest_acl = 64 * 1024;  // XATTR_SIZE_MAX
/// Of all different lists, which are kept until the end, too.
constexpr std::uint64_t most_acl_bytes = 16U << 20U;

}  // namespace

int open_beneath(int directory, char const* path, std::uint64_t flags, std::uint64_t mode, std::uint64_t resolve) {
    open_how how{};
    how.flags = flags | O_CLOEXEC;
    how.mode = mode;
    how.resolve = resolve;
    return static_cast<int>(::syscall(SYS_openat2, directory, path, &how, sizeof how));
}

Result<std::vector<std::string>> split_name(std::string_view name, std::uint32_t most_depth) {
    std::vector<std::string> components;
    std::string_view rest = name;
    while (!rest.empty()) {
        std::size_t const slash = std::min(rest.find('/'), rest.size());
        std::string_view const component = rest.substr(0, slash);
        rest.remove_prefix(std::min(slash + 1, rest.size()));
        if (component.empty() || component == ".") continue;
        if (component == "..") return fail(ErrorKind::corrupt, "entry " + json::quoted(name) + " leads outside");
        if (components.size() == most_depth)
            return fail(ErrorKind::refused, "entry " + json::quoted(name) + " is deeper than " +
                                                std::to_string(most_depth) + " directories");
        components.emplace_back(component);
    }
    return components;
}

std::string join(std::vector<std::string> const& components, std::size_t count) {
    std::string path;
    for (std::size_t i = 0; i < count; ++i)
        path.append(i == 0 ? "" : "/").append(components[i]);
    return path;
}

bool is_left_out(int error) { return error == EOPNOTSUPP || error == ENOTSUP || error == EPERM || error == EINVAL; }

Result<> Tree::take_default_acl(int directory, std::string const& path) {
    std::string const name(default_acl_name);
    if (::fgetxattr(directory, name.c_str(), nullptr, 0) <= 0) return {};  // few have one
    std::string acl(largest_acl, '\0');
    ssize_t const size = ::fgetxattr(directory, name.c_str(), acl.data(), acl.size());
    if (size < 0 || ::fremovexattr(directory, name.c_str()) != 0)
        return fail(errno, "take the default access control list of " + path);
    acl.resize(static_cast<std::size_t>(size));
    return set_default_acl(path, std::move(acl));
}

/// Keeps what an existing directory is to have in the end.
Result<> Tree::keep(int directory, struct stat const& status, std::string const& path) {
    if (is_ending_) return {};
    if (ends_.size() < most_times) {
        End& end = ends_[path];
        if (!end.times) end.times = Times{status.st_atim, status.st_mtim};
    }
    return take_default_acl(directory, path);
}

/// Opens components[at] in its open parent.
Result<Tree::Open> Tree::enter(int parent, std::vector<std::string> const& components, std::size_t at, bool may_make) {
    char const* const name = components[at].c_str();
    bool is_new = false;
    // At most twice: the directory is made, or what is in its place is removed.
    for (int attempt = 0; attempt < 3; ++attempt) {
        UniqueFd directory(open_beneath(parent, name, directory_flags, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS));
        int error = errno;
        if (!directory && (error == ELOOP || error == ENOTDIR)) {
            // It is a file, or a link of a lower layer. Links are followed as a process with this root would.
            std::string const path = join(components, at + 1);
            directory = UniqueFd(
                open_beneath(root_, path.c_str(), O_RDONLY | O_DIRECTORY, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS));
            if (!directory && may_make && (errno == ENOTDIR || errno == ENOENT || errno == ELOOP)) {
                if (::unlinkat(parent, name, 0) != 0) return fail(errno, "replace " + path);
                error = ENOENT;
            } else if (!directory) {
                return fail(errno, "open directory " + path);
            }
        }
        if (directory) {
            struct stat status{};
            if (::fstat(directory.get(), &status) != 0) return fail(errno, "look at " + join(components, at + 1));
            if (!is_new) TRY(keep(directory.get(), status, join(components, at + 1)));
            return Open{components[at], std::move(directory), (status.st_mode & S_ISGID) != 0};
        }
        if (error != ENOENT || !may_make) return fail(error, "open directory " + join(components, at + 1));
        if (::mkdirat(parent, name, implied_mode) != 0 && errno != EEXIST)
            return fail(errno, "make directory " + join(components, at + 1));
        is_new = true;
    }
    return fail(ErrorKind::corrupt, "directory " + join(components, at + 1) + " cannot be made");
}

Result<int> Tree::walk(std::vector<std::string> const& components, std::size_t count, bool may_make) {
    if (!std::exchange(has_taken_root_, true)) TRY(take_default_acl(root_, ""));
    std::size_t same = 0;
    while (same < open_.size() && same < count && open_[same].name == components[same])
        ++same;
    open_.resize(same);
    for (std::size_t at = same; at < count; ++at) {
        int const parent = open_.empty() ? root_ : open_.back().directory.get();
        open_.push_back(TRY(enter(parent, components, at, may_make)));
    }
    return open_.empty() ? root_ : open_.back().directory.get();
}

Result<int> Tree::make_directory(std::vector<std::string> const& components, std::size_t count) {
    return walk(components, count, true);
}

Result<int> Tree::find_directory(std::vector<std::string> const& components, std::size_t count) {
    return walk(components, count, false);
}

void Tree::forget(std::vector<std::string> const& components, std::size_t count) {
    if (open_.size() < count) return;
    for (std::size_t i = 0; i < count; ++i)
        if (open_[i].name != components[i]) return;
    open_.resize(count - 1);
}

Result<> Tree::set_default_acl(std::string path, std::string acl) {
    if (acl.empty()) {
        if (auto const end = ends_.find(path); end != ends_.end()) end->second.default_acl = nullptr;
        return {};
    }
    auto const [kept, is_new] = acls_.insert(std::move(acl));
    if (is_new) acl_bytes_ += kept->size();
    if (acl_bytes_ > most_acl_bytes)
        return fail(ErrorKind::refused, "keep the default access control list of " + path,
                    "all different ones have more than " + std::to_string(most_acl_bytes) + " bytes");
    ends_[std::move(path)].default_acl = &*kept;
    return {};
}

void Tree::forget_ends(std::string const& path) {
    ends_.erase(path);
    std::string const below = path + "/";
    auto const first = ends_.lower_bound(below);
    auto last = first;
    while (last != ends_.end() && last->first.starts_with(below))
        ++last;
    ends_.erase(first, last);
}

Result<std::uint64_t> Tree::end() {
    is_ending_ = true;
    std::uint64_t left_out = 0;
    // What is set for a directory does not change its parent.
    for (auto const& [path, end] : ends_) {
        pace_.note_life();
        auto const components = TRY(split_name(path, UINT32_MAX));
        auto const directory = find_directory(components, components.size());
        if (!directory) continue;  // something else has replaced it
        if (end.default_acl && ::fsetxattr(*directory, std::string(default_acl_name).c_str(), end.default_acl->data(),
                                           end.default_acl->size(), 0) != 0) {
            if (!is_left_out(errno)) return fail(errno, "set the default access control list of " + path);
            ++left_out;
        }
        if (!end.times) continue;
        std::array<timespec, 2> const both{end.times->accessed, end.times->modified};
        if (::futimens(*directory, both.data()) != 0) return fail(errno, "set the times of " + path);
    }
    return left_out;
}

namespace {

using Directory = std::unique_ptr<DIR, decltype([](DIR* one) { ::closedir(one); })>;

}  // namespace

Result<> remove_all(int parent, std::string const& name, unsigned most_depth, Pace* pace) {
    if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && errno != EPERM) return fail(errno, "remove " + name);
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) return {};
    if (errno != ENOTEMPTY && errno != EEXIST) return fail(errno, "remove " + name);
    if (most_depth == 0) return fail(ErrorKind::refused, "remove " + name, "it is too deep");
    int const fd = open_beneath(parent, name.c_str(), directory_flags, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    Directory const directory(fd < 0 ? nullptr : ::fdopendir(fd));
    if (!directory) return fail(errno, "remove " + name);
    while (dirent const* const entry = TRY(next_entry(directory.get(), name))) {
        std::string const below = entry->d_name;
        if (below == "." || below == "..") continue;
        if (pace) pace->note_life();
        TRY(remove_all(fd, below, most_depth - 1, pace));
    }
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0) return fail(errno, "remove " + name);
    return {};
}

}  // namespace triton::unpack

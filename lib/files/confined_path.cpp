#include "lib/files/confined_path.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/new_calls.h"

namespace triton::files {

namespace {

constexpr int most_attempts = 16;
constexpr int most_rewrites = 64;  // by links and ".." of whoever may write in the directory; Linux follows 40 links
constexpr std::size_t longest_path = 4096;

/// Whether the directory has been removed: then it stays empty, whatever takes its name.
bool is_removed(int directory) {
    struct stat status;
    return ::fstat(directory, &status) == 0 && status.st_nlink == 0;
}

enum class Scope { beneath, in_root };

/// Does what openat2(2) does, one component at a time, where that call is missing. No component is opened through a
/// link, and ".." never reaches the kernel: both change the text of the path, and the walk begins again. So nothing
/// that is renamed or swapped on the way can lead outside.
class Walk {
public:
    Walk(int root, std::string path, std::uint64_t flags, Scope scope)
        : root_(root), path_(std::move(path)), flags_(static_cast<int>(flags)), scope_(scope) {}

    std::expected<UniqueFd, int> run() {
        for (int rewrite = 0; rewrite < most_rewrites && path_.size() < longest_path; ++rewrite) {
            auto opened = walk();
            if (!opened) return std::unexpected(opened.error());
            if (*opened) return std::move(*opened);
        }
        return std::unexpected(ELOOP);
    }

private:
    struct Component {
        std::size_t begin;
        std::size_t end;
    };

    /// Returns an empty descriptor when the path was rewritten.
    std::expected<UniqueFd, int> walk() {
        if (path_.empty()) return std::unexpected(ENOENT);
        if (path_.front() == '/' && scope_ == Scope::beneath) return std::unexpected(EXDEV);
        UniqueFd current{::openat(root_, ".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
        Component before{0, 0};
        for (Component at = next(0); current; at = next(at.end)) {
            std::string const name = path_.substr(at.begin, at.end - at.begin);
            if (name.empty()) return opened(::openat(current.get(), ".", flags_));
            if (name == ".") continue;
            if (name == "..") return go_up(current.get(), before, at);
            UniqueFd found{::openat(current.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)};
            struct stat status;
            if (!found || ::fstat(found.get(), &status) != 0) return std::unexpected(errno);
            bool const is_last = at.end == path_.size();
            bool const is_link = S_ISLNK(status.st_mode);
            if (is_link && !(is_last && (flags_ & O_NOFOLLOW))) return follow(found.get(), at);
            if (is_last) return open_last(current.get(), name, std::move(found), status.st_mode);
            before = at;
            current = std::move(found);
        }
        return std::unexpected(errno);
    }

    [[nodiscard]] Component next(std::size_t from) const {
        std::size_t const begin = std::min(path_.find_first_not_of('/', from), path_.size());
        return {begin, std::min(path_.find('/', begin), path_.size())};
    }

    static std::expected<UniqueFd, int> opened(int fd) {
        if (fd < 0) return std::unexpected(errno);
        return UniqueFd{fd};
    }

    std::expected<UniqueFd, int> open_last(int parent, std::string const& name, UniqueFd found, mode_t mode) const {
        if (flags_ & O_PATH) {
            if ((flags_ & O_DIRECTORY) && !S_ISDIR(mode)) return std::unexpected(ENOTDIR);
            return found;
        }
        auto file = opened(::openat(parent, name.c_str(), flags_ | O_NOFOLLOW));
        // It has become a link since.
        if (!file && file.error() == ELOOP && !(flags_ & O_NOFOLLOW)) return std::unexpected(EAGAIN);
        return file;
    }

    /// Removes ".." and the component before it, which is a directory and no link.
    std::expected<UniqueFd, int> go_up(int current, Component before, Component at) {
        struct stat status;
        if (::fstat(current, &status) != 0) return std::unexpected(errno);
        if (!S_ISDIR(status.st_mode)) return std::unexpected(ENOTDIR);
        bool const is_at_root = before.begin == before.end;
        if (is_at_root && scope_ == Scope::beneath) return std::unexpected(EXDEV);
        std::size_t const from = is_at_root ? at.begin : before.begin;
        path_.replace(from, at.end - from, ".");
        return UniqueFd{};
    }

    std::expected<UniqueFd, int> follow(int link, Component at) {
        std::array<char, longest_path> target;
        ssize_t const size = ::readlinkat(link, "", target.data(), target.size());
        if (size < 0) return std::unexpected(errno);
        std::string const text(target.data(), static_cast<std::size_t>(size));
        if (text.empty()) return std::unexpected(ENOENT);
        path_.replace(text.front() == '/' ? 0 : at.begin, text.front() == '/' ? at.end : at.end - at.begin, text);
        return UniqueFd{};
    }

    int root_;
    std::string path_;
    int flags_;
    Scope scope_;
};

std::expected<UniqueFd, int> open_in(int directory, std::string const& path, std::uint64_t flags, Scope scope) {
    open_how how{};
    how.flags = flags;
    how.resolve = scope == Scope::beneath ? RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS : RESOLVE_IN_ROOT;
    for (int attempt = 1;; ++attempt) {
        UniqueFd fd{static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how))};
        int err = errno;
        if (fd) return fd;
        if (is_missing_call(err)) {
            auto walked = Walk(directory, path, flags, scope).run();
            if (walked) return walked;
            err = walked.error();
        }
        // EAGAIN: something was renamed while ".." was resolved, and the kernel could not be sure.
        if (err != EINTR && (err != EAGAIN || attempt == most_attempts)) return std::unexpected(err);
    }
}

}  // namespace

std::expected<UniqueFd, int> open_beneath(int directory, std::string const& path, std::uint64_t flags) {
    auto opened = open_in(directory, path, flags | O_CLOEXEC, Scope::beneath);
    if (!opened && opened.error() == ENOENT && is_removed(directory)) return std::unexpected(ESTALE);
    return opened;
}

Result<UniqueFd> open_confined(std::string const& root_directory, std::string const& path, int flags) {
    if (root_directory.empty()) {
        UniqueFd fd{::open(path.c_str(), flags)};
        int const err = errno;
        if (!fd) return fail(err, "open " + path);
        return fd;
    }
    UniqueFd const root{::open(root_directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    int const err = errno;
    if (!root) return fail(err, "open " + root_directory);
    auto opened = open_in(root.get(), path, static_cast<unsigned>(flags), Scope::in_root);
    if (!opened) return fail(opened.error(), "open " + path + " inside " + root_directory);
    return std::move(*opened);
}

}  // namespace triton::files

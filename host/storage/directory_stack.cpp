#include "host/storage/directory_stack.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace triton::storage {

namespace {

constexpr std::size_t most_shown = 8;  // components of a path in a message

}  // namespace

Result<UniqueFd> open_below(int parent, std::string const& name) {
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS;
    UniqueFd fd{static_cast<int>(::syscall(SYS_openat2, parent, name.c_str(), &how, sizeof how))};
    if (!fd) return fail(errno, "open directory " + name);
    return fd;
}

Result<DirectoryStack> DirectoryStack::create(UniqueFd root) {
    DirectoryStack stack;
    TRY(stack.push(std::move(root), {}));
    return stack;
}

Result<> DirectoryStack::push(UniqueFd fd, std::string name) {
    struct stat status;
    if (::fstat(fd.get(), &status) != 0) return fail(errno, "look at " + shown(name));
    levels_.push_back({std::move(fd), status.st_dev, status.st_ino, std::move(name)});
    if (levels_.size() > most_open) levels_[levels_.size() - 1 - most_open].fd = UniqueFd{};
    return {};
}

Result<> DirectoryStack::enter(std::string const& name) {
    auto opened = open_below(fd(), name);
    if (!opened) {
        opened.error().attempted = "open directory " + shown(name);
        return std::unexpected(std::move(opened).error());
    }
    return push(std::move(*opened), name);
}

Result<> DirectoryStack::leave() {
    Level const left = std::move(levels_.back());
    levels_.pop_back();
    Level& parent = levels_.back();
    if (parent.fd) return {};
    UniqueFd up{::openat(left.fd.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    struct stat status;
    if (!up || ::fstat(up.get(), &status) != 0) return fail(errno, "go back to " + shown());
    if (status.st_dev != parent.device || status.st_ino != parent.inode)
        return fail(ErrorKind::busy, "go back to " + shown(), "a directory was moved meanwhile");
    parent.fd = std::move(up);
    return {};
}

std::string DirectoryStack::shown() const { return shown({}); }

std::string DirectoryStack::shown(std::string const& name) const {
    std::size_t const count = levels_.size();
    std::string text;
    for (std::size_t i = 1; i < count; ++i) {
        bool const is_left_out = count > most_shown && i >= most_shown / 2 && i < count - most_shown / 2;
        if (is_left_out && i == most_shown / 2) text += ".../";
        if (!is_left_out) text += levels_[i].name + '/';
    }
    text += name;
    if (name.empty() && !text.empty()) text.pop_back();
    return text.empty() ? "." : text;
}

}  // namespace triton::storage

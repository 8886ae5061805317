#include "sidecar/pending_file.h"

#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace triton::sidecar {

namespace {

// Nobody else reads or runs it before it is whole.
constexpr mode_t unfinished_mode = 0600;
constexpr int most_attempts = 100;  // at 64 random bits a second one is not to be expected

std::string hexadecimal(std::uint64_t number) {
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4)
        text += "0123456789abcdef"[(number >> shift) & 15];
    return text;
}

}  // namespace

std::string PendingFile::temporary_name() const {
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
        // Too early after boot, or refused by a filter. O_EXCL makes it right, this only makes it quick.
        timespec now{};
        (void)::clock_gettime(CLOCK_MONOTONIC, &now);
        random = static_cast<std::uint64_t>(now.tv_nsec) << 32 | static_cast<std::uint32_t>(::getpid());
    }
    std::string const end = "." + hexadecimal(random) + ".tmp";
    return "." + name_.substr(0, NAME_MAX - 1 - end.size()) + end;
}

Result<PendingFile> PendingFile::create(int directory, std::string name, std::string shown, bool may_be_unnamed) {
    PendingFile pending(directory, std::move(name), std::move(shown));
    // It is given its name through /proc: by descriptor (AT_EMPTY_PATH) that is a privilege.
    if (may_be_unnamed && ::access("/proc/self/fd", F_OK) == 0) {
        pending.file_ = UniqueFd{::openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, unfinished_mode)};
    }
    if (!pending.file_) TRY(pending.create_named());
    return pending;
}

PendingFile::PendingFile(PendingFile&& other) noexcept
    : directory_(other.directory_),
      name_(std::move(other.name_)),
      shown_(std::move(other.shown_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)) {}

PendingFile::~PendingFile() {
    if (has_name()) (void)::unlinkat(directory_, temporary_.c_str(), 0);  // nobody to tell, and nothing else to do
}

Result<> PendingFile::create_named() {
    for (int attempt = 0;; ++attempt) {
        std::string name = temporary_name();
        file_ = UniqueFd{
            ::openat(directory_, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, unfinished_mode)};
        int const err = errno;
        if (file_) {
            temporary_ = std::move(name);
            return {};
        }
        if (err != EEXIST || attempt == most_attempts) return fail(err, "create " + shown_);
    }
}

Result<> PendingFile::link_as(std::string const& name, int& err) const {
    std::string const here = "/proc/self/fd/" + std::to_string(fd());
    err = ::linkat(AT_FDCWD, here.c_str(), directory_, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
    if (err != 0) return fail(err, "create " + shown_);
    return {};
}

Result<> PendingFile::put_in_place() {
    if (!has_name()) {
        int err = 0;
        auto linked = link_as(name_, err);
        if (linked || err != EEXIST) return linked;
        // link(2) replaces nothing, so it needs a name of its own for the moment before rename(2).
        for (int attempt = 0; err == EEXIST && attempt < most_attempts; ++attempt) {
            std::string name = temporary_name();
            linked = link_as(name, err);
            if (linked) temporary_ = std::move(name);
        }
        if (!linked) return linked;
    }
    if (::renameat(directory_, temporary_.c_str(), directory_, name_.c_str()) != 0) {
        int const err = errno;
        return fail(err, "replace " + shown_);
    }
    temporary_.clear();
    return {};
}

Result<> PendingFile::publish(mode_t mode, timespec const (&times)[2]) {
    if (::fchmod(fd(), mode) != 0) {
        int const err = errno;
        return fail(err, "set the mode of " + shown_);
    }
    if (::futimens(fd(), times) != 0) {
        int const err = errno;
        return fail(err, "set the times of " + shown_);
    }
    if (::fsync(fd()) != 0) {
        int const err = errno;
        return fail(err, "write " + shown_);
    }
    return put_in_place();
}

}  // namespace triton::sidecar

#include "lib/log/log_output.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/base/write_all.h"

namespace triton::log {

namespace {

constexpr std::size_t kept = 16 * 1024;  // bytes of an empty buffer

}  // namespace

LogOutput::LogOutput(int fd) { take(fd); }

LogOutput::LogOutput(UniqueFd fd) : owned_(std::move(fd)) { take(owned_.get()); }

void LogOutput::take(int fd) {
    fd_ = fd;
    kind_ = kind_of(fd);
    if (kind_ == Kind::terminal) open_terminal();
}

LogOutput::Kind LogOutput::kind_of(int fd) {
    struct stat status;
    if (fd < 0) return Kind::none;
    // It is open, but of an unknown kind: treat it as the kind that is asked before each write.
    if (::fstat(fd, &status) != 0) return errno == EBADF ? Kind::none : Kind::terminal;
    if (S_ISREG(status.st_mode)) return Kind::file;
    if (S_ISSOCK(status.st_mode)) return Kind::socket;
    if (S_ISFIFO(status.st_mode)) return Kind::pipe;
    return ::isatty(fd) == 1 ? Kind::terminal : Kind::file;  // /dev/null takes everything at once too
}

/// Opens the terminal for us alone, where /proc and its permissions let us.
void LogOutput::open_terminal() {
    std::string const path = "/proc/self/fd/" + std::to_string(fd_);
    UniqueFd own{::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)};
    struct stat shared;
    struct stat opened;
    bool const is_same = own && ::fstat(fd_, &shared) == 0 && ::fstat(own.get(), &opened) == 0 &&
                         S_ISCHR(opened.st_mode) && shared.st_rdev == opened.st_rdev;
    if (!is_same) return;
    owned_ = std::move(own);
    fd_ = owned_.get();
    kind_ = Kind::own_terminal;
}

void LogOutput::replace(UniqueFd fd) {
    owned_ = std::move(fd);
    take(owned_.get());
    is_blocked_ = false;
    // A full disk may have cut a line off: the new file gets all of it.
    written_ = begun_line();
}

std::size_t LogOutput::begun_line() const {
    std::size_t const newline = written_ == 0 ? std::string::npos : buffer_.rfind('\n', written_ - 1);
    return newline == std::string::npos ? 0 : newline + 1;
}

void LogOutput::append(std::string_view line) {
    if (!has_room(line.size())) {
        ++dropped_;
        return;
    }
    if (written_ > 0 && buffer_.size() + line.size() > capacity) {
        std::size_t const begun = begun_line();
        buffer_.erase(0, begun);
        written_ -= begun;
    }
    buffer_ += line;
}

/// Returns what write(2) would, with EAGAIN instead of waiting. The signal that comes with EPIPE and EFBIG is taken off
/// at once: otherwise it would be read as one from outside, be forwarded, and wake the loop up for the next failure.
long LogOutput::write_some(char const* data, std::size_t size) const {
    long const result = write_unwatched(data, size);
    if (result < 0) take_signal_of(errno);
    return result;
}

long LogOutput::write_unwatched(char const* data, std::size_t size) const {
    switch (kind_) {
        case Kind::file:
        case Kind::own_terminal: return ::write(fd_, data, size);
        case Kind::socket: return ::send(fd_, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        case Kind::pipe: {
            iovec const part{const_cast<char*>(data), size};
            long const result = ::pwritev2(fd_, &part, 1, -1, RWF_NOWAIT);
            if (result >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL && errno != EPERM))
                return result;
            break;  // Linux before 6.4, or a seccomp profile without this call
        }
        case Kind::terminal: break;
        case Kind::none: errno = EBADF; return -1;
    }
    // A writable pipe has room for PIPE_BUF bytes, a terminal for one character; rarely, another writer takes it first.
    pollfd ready{fd_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    return ::write(fd_, data, std::min<std::size_t>(size, kind_ == Kind::pipe ? PIPE_BUF : 1));
}

void LogOutput::flush() {
    is_blocked_ = false;
    error_ = 0;
    if (fd_ < 0) return;  // not open yet
    while (written_ < buffer_.size()) {
        long const result = write_some(buffer_.data() + written_, buffer_.size() - written_);
        if (result > 0) {
            written_ += static_cast<std::size_t>(result);
            continue;
        }
        if (result < 0 && errno == EINTR) continue;
        error_ = result < 0 ? errno : ENOSPC;
        if (result < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
            is_blocked_ = kind_ != Kind::file;
            return;
        }
        // A full disk may have room later. A closed pipe, a hung-up terminal or a closed descriptor never comes back.
        if (kind_ == Kind::file && errno != EBADF) return;
        kind_ = Kind::none;
        error_ = 0;
        break;
    }
    // Bursts are rare, so a large buffer is not kept for the next one.
    if (buffer_.capacity() > kept)
        std::string().swap(buffer_);
    else
        buffer_.clear();
    written_ = 0;
}

}  // namespace triton::log

#pragma once

#include <cerrno>
#include <utility>

#include <unistd.h>

namespace triton {

/// Owns a file descriptor: closes it once, keeps errno while doing so. A raw `int fd` elsewhere is borrowed.
class UniqueFd {
public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
    UniqueFd& operator=(UniqueFd other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~UniqueFd() {
        if (fd_ < 0) return;
        int const keep = errno;
        ::close(fd_);
        errno = keep;
    }

    [[nodiscard]] int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    [[nodiscard]] int release() { return std::exchange(fd_, -1); }

private:
    int fd_ = -1;
};

}  // namespace triton

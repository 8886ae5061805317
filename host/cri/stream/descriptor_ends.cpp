#include "host/cri/stream/descriptor_ends.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace triton::cri::stream {

namespace {

constexpr std::size_t piece_bytes = 32 * 1024;

void stop_blocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

UniqueFd copy_of(UniqueFd const& fd) { return UniqueFd{::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)}; }

Source::Source(EventLoop& loop, UniqueFd fd, Events events)
    : loop_(loop), fd_(std::move(fd)), events_(std::move(events)) {
    if (fd_) stop_blocking(fd_.get());
}

void Source::resume() {
    if (!fd_ || watch_) return;
    auto watch = loop_.on_readable(fd_.get(), [this] { read(); });
    if (watch) watch_ = *std::move(watch);
}

void Source::read() {
    static std::array<char, piece_bytes> buffer;
    ssize_t const size = ::read(fd_.get(), buffer.data(), buffer.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size > 0) return events_.received({buffer.data(), static_cast<std::size_t>(size)});
    close();  // at the end, and for EIO of a terminal that nobody has open any more
    auto const ended = events_.ended;
    ended();
}

void Source::drain(std::size_t most) {
    std::array<char, piece_bytes> buffer;
    while (fd_ && most > 0) {
        ssize_t const size = ::read(fd_.get(), buffer.data(), std::min(buffer.size(), most));
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) break;
        most -= static_cast<std::size_t>(size);
        events_.received({buffer.data(), static_cast<std::size_t>(size)});
    }
    close();
}

void Source::close() {
    watch_ = {};
    fd_ = {};
}

Sink::Sink(EventLoop& loop, UniqueFd fd, std::function<void()> changed)
    : loop_(loop), fd_(std::move(fd)), changed_(std::move(changed)), progress_(steady_now()) {
    if (fd_) stop_blocking(fd_.get());
}

void Sink::write(std::string_view bytes) {
    if (!fd_ || is_finishing_) return;
    if (pending_.empty()) progress_ = steady_now();
    pending_ += bytes;
    if (!watch_) flush();
}

void Sink::finish() {
    if (std::exchange(is_finishing_, true)) return;
    if (!watch_) flush();
}

void Sink::flush() {
    std::size_t written = 0;
    while (written < pending_.size()) {
        ssize_t const size = ::write(fd_.get(), pending_.data() + written, pending_.size() - written);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno != EAGAIN) return close();
        if (size <= 0) break;
        written += static_cast<std::size_t>(size);
        progress_ = steady_now();
    }
    pending_.erase(0, written);
    if (pending_.empty()) {
        watch_ = {};
        if (is_finishing_ && fd_ && ::shutdown(fd_.get(), SHUT_WR) != 0) fd_ = {};
    } else if (!watch_) {
        auto watch = loop_.on_writable(fd_.get(), [this] {
            flush();
            changed_();
        });
        if (watch) watch_ = *std::move(watch);
    }
}

void Sink::close() {
    watch_ = {};
    fd_ = {};
    pending_.clear();
}

}  // namespace triton::cri::stream

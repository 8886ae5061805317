#include "host/download/pipe_sink.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace triton::download {

namespace {

/// Curl gives 16 kB at a time. Larger writes save system calls.
constexpr std::size_t enough = 256 * 1024;

}  // namespace

PipeSink::PipeSink(UniqueFd pipe) : pipe_(std::move(pipe)) {
    int const flags = ::fcntl(pipe_.get(), F_GETFL);
    if (flags < 0 || ::fcntl(pipe_.get(), F_SETFL, flags | O_NONBLOCK) != 0) is_broken_ = true;
}

bool PipeSink::has_room() const { return waiting_.size() < enough; }

bool PipeSink::take(std::string_view bytes) {
    if (!has_room()) flush();
    if (!has_room()) return false;
    if (waiting_.capacity() < enough) waiting_.reserve(enough + enough / 8);
    waiting_ += bytes;
    return true;
}

void PipeSink::flush() {
    std::size_t done = 0;
    while (done < waiting_.size() && !is_broken_) {
        ssize_t const count = ::write(pipe_.get(), waiting_.data() + done, waiting_.size() - done);
        if (count >= 0) {
            done += static_cast<std::size_t>(count);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            is_broken_ = true;
        }
    }
    written_ += done;
    waiting_.erase(0, done);
}

}  // namespace triton::download

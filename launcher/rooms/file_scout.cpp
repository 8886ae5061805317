#include "launcher/rooms/file_scout.h"

#include <utility>

namespace triton::launcher {

void FileScout::begin(std::function<void()> const& look) {
    constexpr int no_descriptor = -1;
    is_busy_ = true;
    try {
        children_.run_command(key_, time_to_look, [&] { return children_.start_copy(no_descriptor, look); });
    } catch (...) {
        is_busy_ = false;
        throw;
    }
}

void FileScout::cancel() {
    if (is_busy_) children_.cancel_command(key_);
}

FileScout::Way FileScout::ended(Children::Outcome const& outcome) {
    using How = process::CommandRunner::How;
    is_busy_ = false;
    switch (outcome.how) {
        case How::exited:
        case How::signalled:
            hangs_ = false;
            taken_since_.reset();
            return Way::clear;
        case How::timed_out: hangs_ = true; return Way::hangs;
        case How::cancelled: return Way::unknown;
        case How::not_started:
            if (outcome.error.kind != ErrorKind::busy) return Way::clear;
            if (!taken_since_) taken_since_ = steady_now();  // by one that was cancelled, and does not end
            if (steady_now() > *taken_since_ + time_to_look) hangs_ = true;
            return hangs_ ? Way::hangs : Way::taken;
    }
    std::unreachable();
}

}  // namespace triton::launcher

#include "launcher/rooms/file_scout.h"

#include <algorithm>
#include <span>
#include <utility>

#include <sys/mman.h>

namespace triton::launcher {

SeenFiles::SeenFiles() {
    void* const page = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    seen_ = page == MAP_FAILED ? nullptr : static_cast<Shared*>(page);
}

SeenFiles::~SeenFiles() {
    if (seen_) ::munmap(seen_, sizeof(Shared));
}

void SeenFiles::forget() {
    if (!seen_) return;
    seen_->is_complete = false;
    seen_->count = 0;
}

void SeenFiles::add(std::string const& path) {
    if (seen_ && seen_->count < most) seen_->paths[seen_->count++] = std::hash<std::string>{}(path);
}

void SeenFiles::complete(std::size_t texts) {
    if (!seen_) return;
    seen_->texts = texts;
    seen_->is_complete = true;
}

bool SeenFiles::have(std::string const& path) const {
    std::span<std::size_t const> const paths(seen_->paths, std::min(seen_->count, most));
    return std::ranges::find(paths, std::hash<std::string>{}(path)) != paths.end();
}

void FileScout::begin(std::function<void()> const& look, Why why) {
    using process::CommandRunner;
    constexpr int no_descriptor = -1;
    std::erase_if(held_, [this](pid_t pid) { return !children_.is_command(pid); });
    bool const is_past = why == Why::change && held_.size() < most_held;
    held_.reserve(held_.size() + 1);
    is_busy_ = true;
    auto const start = [&]() -> Result<pid_t> {
        auto const pid = children_.start_copy(no_descriptor, look);
        if (pid) helper_ = *pid;
        return pid;
    };
    try {
        children_.run_command(key_, time_to_look, start,
                              is_past ? CommandRunner::Former::left : CommandRunner::Former::awaited);
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
        case How::timed_out:
            held_.push_back(helper_);
            hangs_ = true;
            return Way::hangs;
        case How::cancelled: held_.push_back(helper_); return Way::unknown;
        case How::not_started:
            if (outcome.error.kind != ErrorKind::busy) return Way::clear;
            if (!taken_since_) taken_since_ = steady_now();  // by one that was cancelled, and does not end
            if (steady_now() > *taken_since_ + time_to_look) hangs_ = true;
            return hangs_ ? Way::hangs : Way::taken;
    }
    std::unreachable();
}

}  // namespace triton::launcher

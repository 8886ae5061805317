#include "host/verify/prefix_hasher.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "lib/base/start_thread.h"

namespace triton::verify {

PrefixHasher::PrefixHasher(int file, bool with_sha1) : file_(file), fingerprint_(with_sha1) {}

PrefixHasher::~PrefixHasher() {
    if (thread_.joinable()) (void)finish();  // nobody waits for the result
}

Result<> PrefixHasher::start() {
    thread_ = TRY(start_thread([this] { run(); }));
    return {};
}

PrefixHasher::Buffer PrefixHasher::spare() {
    if (spare_.empty()) return {};
    Buffer buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
}

PrefixHasher::Buffer PrefixHasher::take_buffer() {
    std::scoped_lock const lock(mutex_);
    return spare();
}

PrefixHasher::Buffer PrefixHasher::add(Buffer buffer) {
    position_ += buffer.size;
    std::unique_lock lock(mutex_);
    has_changed_.wait(lock, [this] { return parts_.size() < most_waiting; });
    parts_.push_back({.buffer = std::move(buffer)});
    has_changed_.notify_all();
    return spare();
}

void PrefixHasher::add_file(std::uint64_t end) {
    if (end <= position_) return;
    std::scoped_lock const lock(mutex_);
    parts_.push_back({.buffer = std::nullopt, .begin = position_, .end = end});
    position_ = end;
    has_changed_.notify_all();
}

Result<> PrefixHasher::hash(Part const& part, Buffer& own) {
    if (part.buffer) {
        fingerprint_.add({part.buffer->bytes.get(), part.buffer->size});
        return {};
    }
    for (std::uint64_t at = part.begin; at < part.end;) {
        std::size_t const wanted = std::min<std::uint64_t>(buffer_bytes, part.end - at);
        ssize_t const got = ::pread(file_, own.bytes.get(), wanted, static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(errno, "read the file again");
        if (got == 0) return fail(ErrorKind::corrupt, "the file has become shorter");
        fingerprint_.add({own.bytes.get(), static_cast<std::size_t>(got)});
        at += static_cast<std::uint64_t>(got);
    }
    return {};
}

void PrefixHasher::run() {
    Buffer own;
    std::unique_lock lock(mutex_);
    for (;;) {
        has_changed_.wait(lock, [this] { return !parts_.empty() || is_ended_; });
        if (parts_.empty()) return;
        Part& part = parts_.front();  // push_back() does not move it while it is hashed
        bool const is_good = outcome_.has_value();
        lock.unlock();
        Result<> const hashed = is_good ? hash(part, own) : Result<>();
        lock.lock();
        if (!hashed) outcome_ = hashed;
        if (part.buffer) spare_.push_back(std::move(*part.buffer));
        parts_.pop_front();
        has_changed_.notify_all();
    }
}

Result<Fingerprint> PrefixHasher::finish() {
    {
        std::scoped_lock const lock(mutex_);
        is_ended_ = true;
        has_changed_.notify_all();
    }
    thread_.join();
    if (!outcome_) return std::unexpected(outcome_.error());
    return std::move(fingerprint_);
}

}  // namespace triton::verify

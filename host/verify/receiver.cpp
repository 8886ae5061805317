#include "host/verify/receiver.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "lib/base/clock.h"

namespace triton::verify {

namespace {

constexpr milliseconds answer_patience = std::chrono::seconds(30);
constexpr milliseconds landed_interval{250};
/// A downloader writes in small pieces, and each would wake us. At a gigabyte a second its pipe of one megabyte is half
/// full after this time.
constexpr timespec nap{.tv_sec = 0, .tv_nsec = 500'000};
constexpr int pipe_bytes = 1 << 20;
constexpr std::size_t small_read = 128 * 1024;
constexpr std::uint64_t write_back_bytes = 8 << 20;

std::unexpected<Error> broken(std::string reason) { return fail(ErrorKind::corrupt, std::move(reason)); }

Result<> write_at(int file, std::span<char const> bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
        ssize_t const written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return fail(errno, "write what was downloaded");
        bytes = bytes.subspan(static_cast<std::size_t>(written));
        offset += static_cast<std::uint64_t>(written);
    }
    return {};
}

}  // namespace

Result<> check_interval(role::Interval const& interval, std::uint64_t maximum) {
    if (interval.offset > maximum || interval.length > maximum - interval.offset)
        return broken("a range goes beyond " + std::to_string(maximum) + " bytes");
    return {};
}

Receiver::Receiver(role::Channel& channel, role::Receive const& job, UniqueFd file)
    : channel_(channel),
      expected_(job.expected),
      file_(std::move(file)),
      hasher_(file_.get(), job.expected.sha1.has_value()) {
    for (role::Interval const& interval : job.landed)
        landed_.add(interval);
    hasher_.add_file(landed_.prefix());
}

/// Refuses to write over bytes that have been hashed: otherwise the hash would not be that of the file.
Result<> Receiver::check_overlap(role::Interval const& interval) const {
    bool const is_open = std::ranges::any_of(ranges_, [&interval](OpenRange const& range) {
        return interval.offset < range.end && range.begin < interval.offset + interval.length;
    });
    if (is_open || landed_.has_any(interval)) return broken("ranges overlap");
    return {};
}

Result<> Receiver::begin_range(role::Range const& range, UniqueFd pipe) {
    if (end_) return broken("a range comes after the end");
    if (ranges_.size() >= role::most_ranges) return broken("too many ranges at a time");
    std::uint64_t const room = expected_.maximum - std::min(range.offset, expected_.maximum);
    TRY(check_interval({range.offset, range.length.value_or(room)}, expected_.maximum));
    TRY(check_overlap({range.offset, range.length.value_or(room)}));
    if (::fcntl(pipe.get(), F_SETFL, O_RDONLY | O_NONBLOCK) != 0) return fail(errno, "take a pipe");
    // With a smaller pipe, its writer waits for us while we nap. Users may not be allowed that size.
    (void)::fcntl(pipe.get(), F_SETPIPE_SZ, pipe_bytes);
    OpenRange added{.id = range.id,
                    .begin = range.offset,
                    .next = range.offset,
                    .end = range.offset + range.length.value_or(room),
                    .is_open_ended = !range.length,
                    .pipe = std::move(pipe),
                    .buffer = hasher_.take_buffer()};
    added.buffer.size = 0;
    ranges_.push_back(std::move(added));
    return {};
}

Result<> Receiver::hear() {
    auto packet = TRY(channel_.receive(steady_now(), 1));
    auto const message = TRY((role::decode<role::Range, role::End>(packet.text)));
    if (auto const* const range = std::get_if<role::Range>(&message)) {
        if (packet.descriptors.size() != 1) return broken("a range comes without its pipe");
        return begin_range(*range, std::move(packet.descriptors.front()));
    }
    if (!packet.descriptors.empty()) return broken("the end comes with a descriptor");
    end_ = std::get<role::End>(message).size;
    return {};
}

/// Writes what has arrived, and hashes it when it is next. Ranges that arrived earlier, and are next now, are hashed,
/// too.
Result<> Receiver::flush(OpenRange& range) {
    PrefixHasher::Buffer& buffer = range.buffer;
    if (buffer.size == 0) return {};
    std::uint64_t const offset = range.next - buffer.size;
    TRY(write_at(file_.get(), {buffer.bytes.get(), buffer.size}, offset));
    unsynced_ += buffer.size;
    landed_.add({offset, buffer.size});
    if (offset == hasher_.position()) buffer = hasher_.add(std::move(buffer));
    buffer.size = 0;
    hasher_.add_file(landed_.prefix());
    if (unsynced_ >= write_back_bytes) {
        // Starts writing, so that little is left for fsync(2). The kernel may refuse, since it only saves time.
        (void)::sync_file_range(file_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
        unsynced_ = 0;
    }
    return {};
}

Result<> Receiver::end_range(OpenRange& range) {
    TRY(flush(range));
    range.pipe = UniqueFd();  // whatever the writer would add gets EPIPE
    return role::send(channel_, role::RangeEnded{.id = range.id, .received = range.next - range.begin},
                      steady_now() + answer_patience);
}

/// Reads once. Returns whether much more may be there at once.
Result<bool> Receiver::read_some(OpenRange& range) {
    std::uint64_t const left = range.end - range.next;
    if (left == 0 && !range.is_open_ended) return TRY(end_range(range)), false;
    char excess = 0;
    PrefixHasher::Buffer& buffer = range.buffer;
    std::size_t const wanted = std::min<std::uint64_t>(PrefixHasher::buffer_bytes - buffer.size, left);
    if (buffer.size == 0) range.unwritten_since = steady_now();
    ssize_t const got =
        ::read(range.pipe.get(), left == 0 ? &excess : buffer.bytes.get() + buffer.size, left == 0 ? 1 : wanted);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got < 0) return fail(errno, "read what was downloaded");
    if (got == 0) return TRY(end_range(range)), false;
    if (left == 0) return broken("size is more than " + std::to_string(expected_.maximum) + " bytes");
    buffer.size += static_cast<std::size_t>(got);
    range.next += static_cast<std::uint64_t>(got);
    if (buffer.size == PrefixHasher::buffer_bytes) TRY(flush(range));
    if (range.next == range.end && !range.is_open_ended) TRY(end_range(range));
    return static_cast<std::size_t>(got) >= small_read;
}

/// When the oldest bytes are to be written that are not written yet.
std::optional<TimePoint> Receiver::next_write() const {
    std::optional<TimePoint> next;
    for (OpenRange const& range : ranges_)
        if (range.buffer.size > 0) next = std::min(next.value_or(TimePoint::max()), range.unwritten_since);
    if (next) *next += landed_interval;
    return next;
}

/// Writes what has come a while ago, even if more keeps coming: what is not written is not told.
Result<> Receiver::write_what_is_due() {
    TimePoint const before = steady_now() - landed_interval;
    for (OpenRange& range : ranges_)
        if (range.unwritten_since <= before) TRY(flush(range));
    return {};
}

void Receiver::tell_landed() {
    if (steady_now() < next_landed_) return;
    next_landed_ = steady_now() + landed_interval;
    // Only for the journal: if the library is not reading now, the next message tells it, too.
    (void)role::send(channel_, role::Landed{landed_.list(role::most_intervals), landed_.total()}, steady_now());
}

/// Does one round: what the library says, then one read from each pipe. So no pipe keeps the others waiting.
Result<> Receiver::wait() {
    std::vector<pollfd> watched{{.fd = channel_.fd(), .events = POLLIN, .revents = 0}};
    if (!is_napping_)
        for (OpenRange const& range : ranges_)
            watched.push_back({.fd = range.pipe.get(), .events = POLLIN, .revents = 0});
    auto const due = next_write();
    auto const left = std::clamp(due.value_or(steady_now()) - steady_now(), Duration(0), Duration(landed_interval));
    timespec const moment{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(left).count()};
    int const ready = ::ppoll(watched.data(), watched.size(), is_napping_ ? &nap : due ? &moment : nullptr, nullptr);
    if (ready < 0 && errno != EINTR) return fail(errno, "wait for bytes");
    bool const has_napped = std::exchange(is_napping_, false);
    if (ready > 0 && watched[0].revents != 0) TRY(hear());
    if (has_napped || ready <= 0) return {};
    bool is_busy = false;
    for (std::size_t i = 1; i < watched.size(); ++i)  // begin_range() has added others behind these
        if (watched[i].revents != 0 && TRY(read_some(ranges_[i - 1]))) is_busy = true;
    std::erase_if(ranges_, [](OpenRange const& range) { return !range.pipe; });
    is_napping_ = !is_busy && !ranges_.empty();
    return {};
}

Result<role::Verified> Receiver::run() {
    TRY(hasher_.start());
    TRY(check_interval({0, expected_.size.value_or(0)}, expected_.maximum));
    TRY(check_interval({0, landed_.list(1).empty() ? 0 : landed_.total()}, expected_.maximum));
    while (!end_ || !ranges_.empty()) {
        TRY(wait());
        TRY(write_what_is_due());
        tell_landed();
    }
    return finish();
}

Result<role::Verified> Receiver::finish() {
    TRY(check_size(*end_, expected_));
    if (landed_.prefix() < *end_) return broken("bytes from " + std::to_string(landed_.prefix()) + " on are missing");
    if (landed_.total() != *end_) return broken("bytes beyond the end were downloaded");
    // Gives back room that was reserved.
    if (::ftruncate(file_.get(), static_cast<off_t>(*end_)) != 0) return fail(errno, "set the size of the file");
    Fingerprint fingerprint = TRY(hasher_.finish());
    role::Verified verified = TRY(std::move(fingerprint).check(expected_));
    if (::fsync(file_.get()) != 0) return fail(errno, "write the file to disk");
    return verified;
}

}  // namespace triton::verify

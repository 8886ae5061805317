#include "host/storage/stream_writer.h"

#include <cerrno>
#include <csignal>
#include <ctime>

#include <unistd.h>

namespace triton::storage::tree_stream {

namespace {

constexpr std::size_t flush_size = 512U << 10U;
constexpr std::size_t record_prefix_size = 5;  // letter and length of a record

/// While it exists, this thread gets an errno when a reader has gone, instead of a signal that ends the process.
class NoBrokenPipe {
public:
    NoBrokenPipe() {
        sigemptyset(&signal_);
        sigaddset(&signal_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &signal_, &before_);
    }
    NoBrokenPipe(NoBrokenPipe const&) = delete;
    NoBrokenPipe& operator=(NoBrokenPipe const&) = delete;
    ~NoBrokenPipe() {
        timespec const now{};
        if (sigismember(&before_, SIGPIPE) == 0) (void)::sigtimedwait(&signal_, nullptr, &now);
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

private:
    sigset_t signal_;
    sigset_t before_;
};

void append_number(std::string& buffer, std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
        buffer += static_cast<char>(value >> (8 * i));
}

}  // namespace

void Writer::begin(Record record) {
    begin_ = buffer_.size();
    buffer_ += static_cast<char>(record);
    buffer_.append(record_prefix_size - 1, '\0');
}

void Writer::number(std::uint64_t value) { append_number(buffer_, value, 8); }

void Writer::text(std::string_view value) {
    append_number(buffer_, value.size(), 4);
    buffer_ += value;
}

void Writer::attributes(struct stat const& status) {
    number(status.st_mode & 07777U);
    number(status.st_uid);
    number(status.st_gid);
    number(static_cast<std::uint64_t>(status.st_mtim.tv_sec));
    number(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
}

Result<> Writer::end() {
    std::string length;
    append_number(length, buffer_.size() - begin_ - record_prefix_size, 4);
    buffer_.replace(begin_ + 1, length.size(), length);
    return buffer_.size() < flush_size ? Result<>{} : flush();
}

Result<> Writer::finish() {
    hash_.add(buffer_);
    std::string const digest = std::move(hash_).take_hex();
    hash_ = files::Sha256();
    begin(Record::end);
    text(digest);
    TRY(end());
    return flush();
}

Result<> Writer::flush() {
    if (to_ < 0) {
        buffer_.clear();
        return {};
    }
    hash_.add(buffer_);
    NoBrokenPipe const quiet;
    for (std::size_t done = 0; done < buffer_.size();) {
        ssize_t const size = ::write(to_, buffer_.data() + done, buffer_.size() - done);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && (errno == EPIPE || errno == ECONNRESET))
            return fail(ErrorKind::unavailable, attempted, "its reader has gone");
        if (size < 0) return fail(errno, attempted);
        done += static_cast<std::size_t>(size);
    }
    buffer_.clear();
    return {};
}

}  // namespace triton::storage::tree_stream

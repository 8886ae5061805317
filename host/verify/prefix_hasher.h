#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "host/role/verify_messages.h"
#include "host/verify/hash.h"
#include "lib/base/result.h"

namespace triton::verify {

/// Hashes a file from its beginning, in a thread of its own, while it is being written. Each part is hashed once: from
/// the buffer in which it arrived if possible, and from the file if it arrived too early.
class PrefixHasher {
public:
    static constexpr std::size_t buffer_bytes = 512 * 1024;
    static constexpr std::size_t most_waiting = 8;

    struct Buffer {
        std::unique_ptr<char[]> bytes = std::make_unique_for_overwrite<char[]>(buffer_bytes);
        std::size_t size = 0;
    };

    /// The file is borrowed.
    PrefixHasher(int file, bool with_sha1);
    ~PrefixHasher();
    PrefixHasher(PrefixHasher const&) = delete;
    PrefixHasher& operator=(PrefixHasher const&) = delete;

    /// Starts the thread, which inherits the sandbox of its maker. To be called once; what is added before it waits.
    /// Errors: those of start_thread().
    Result<> start();

    /// How much of the file is hashed, or will be without another call.
    [[nodiscard]] std::uint64_t position() const { return position_; }

    /// Hashes a buffer that begins at position(). Waits while too many are waiting. Returns a buffer for the next
    /// bytes.
    Buffer add(Buffer buffer);
    /// Hashes the file from position() to `end`, which must be written already.
    void add_file(std::uint64_t end);
    /// Returns a buffer to fill.
    Buffer take_buffer();

    /// Waits for the end. Errors: those of pread(2); `corrupt` when the file is shorter than what was added.
    Result<Fingerprint> finish();

private:
    struct Part {
        std::optional<Buffer> buffer;
        std::uint64_t begin = 0;  // in the file, if there is no buffer
        std::uint64_t end = 0;
    };
    void run();
    Result<> hash(Part const& part, Buffer& own);
    Buffer spare();

    int file_;
    std::uint64_t position_ = 0;
    Fingerprint fingerprint_;
    std::mutex mutex_;
    std::condition_variable has_changed_;
    std::deque<Part> parts_;
    std::vector<Buffer> spare_;
    Result<> outcome_;
    bool is_ended_ = false;
    std::thread thread_;
};

}  // namespace triton::verify

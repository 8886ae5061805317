#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "host/role/unpack_messages.h"
#include "host/unpack/decompressor.h"
#include "host/unpack/pace.h"
#include "lib/base/result.h"

namespace triton::unpack {

/// An uncompressed archive: one thread decompresses it, another one hashes it, and the caller's reads it. The bytes are
/// not copied between them: they go round a ring of buffers, and the slowest thread sets the pace.
class Stream {
public:
    /// The blob is borrowed.
    Stream(int blob, std::uint64_t most_bytes);
    ~Stream();
    Stream(Stream const&) = delete;
    Stream& operator=(Stream const&) = delete;

    /// Starts the threads, which inherit the sandbox of their maker. To be called once, before the others.
    /// Errors: those of start_thread().
    Result<> start(role::Compression compression);

    /// The next bytes, valid until the next call; empty at the end.
    /// Errors: `corrupt`; `refused`: "archive is larger than 1024 bytes"; those of read(2).
    Result<std::span<unsigned char const>> next();

    struct End {
        std::uint64_t bytes;
        role::Digest diff_id;
    };
    /// Reads the rest, and waits for the hash of all of it. Errors: as of next(), and of Pace::step().
    Result<End> finish(Pace& pace);

    /// Bytes of the blob, for progress.
    [[nodiscard]] std::uint64_t bytes_read() const;
    /// Bytes of the archive, so far.
    [[nodiscard]] std::uint64_t bytes() const;

private:
    static constexpr std::size_t ring = 8;
    static constexpr std::size_t buffer_bytes = 256 * 1024;

    struct Buffer {
        std::unique_ptr<unsigned char[]> bytes = std::make_unique_for_overwrite<unsigned char[]>(buffer_bytes);
        std::size_t size = 0;
    };

    void decompress(role::Compression compression);
    Result<> decompress_all(role::Compression compression);
    void hash();

    Input input_;
    std::uint64_t most_bytes_;
    std::array<Buffer, ring> buffers_;

    mutable std::mutex mutex_;
    std::condition_variable has_changed_;
    std::uint64_t produced_ = 0;  // how many buffers in all
    std::uint64_t hashed_ = 0;
    std::uint64_t consumed_ = 0;  // given back by the reader
    bool is_holding_ = false;     // the reader has the next buffer
    bool is_abandoned_ = false;
    std::uint64_t bytes_ = 0;
    std::uint64_t bytes_read_ = 0;
    std::optional<Result<>> ended_;  // no further buffer comes, and this is why
    std::string digest_;

    std::thread decompressing_;
    std::thread hashing_;
};

}  // namespace triton::unpack

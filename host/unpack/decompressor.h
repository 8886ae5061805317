#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "host/role/unpack_messages.h"
#include "lib/base/result.h"

namespace triton::unpack {

/// The bytes of a blob, in order, with some of them in a buffer.
class Input {
public:
    /// The descriptor is borrowed.
    explicit Input(int fd) : fd_(fd) {}

    /// The available bytes. Empty only at the end of the blob. Errors: those of read(2).
    Result<std::span<unsigned char const>> peek();
    /// The same, with at least `least` bytes unless the blob ends before. `least` is small.
    Result<std::span<unsigned char const>> peek(std::size_t least);
    void use(std::size_t bytes) { begin_ += bytes; }
    [[nodiscard]] std::uint64_t bytes_read() const { return read_; }

private:
    static constexpr std::size_t buffer_bytes = 256 * 1024;
    Result<> fill();
    int fd_;
    std::unique_ptr<unsigned char[]> buffer_ = std::make_unique_for_overwrite<unsigned char[]>(buffer_bytes);
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    std::uint64_t read_ = 0;
};

/// Decompresses a stream. Several streams in a row count as one, as in gzip(1), zstd(1), xz(1) and bzip2(1). If
/// something that is not a stream follows, it is an error, except zeros behind gzip.
class Decompressor {
public:
    virtual ~Decompressor() = default;
    /// Fills the buffer as far as it can. Returns how many bytes; 0 at the end.
    /// Errors: `corrupt`: "gzip data are broken: ..."; those of read(2).
    virtual Result<std::size_t> read(std::span<unsigned char> into) = 0;
};

/// The window that zstd may ask for, and the memory of xz: 128 MiB and 256 MiB.
inline constexpr int largest_zstd_window_log = 27;
inline constexpr std::uint64_t largest_xz_memory = 256 << 20;

/// `automatic`: according to the first bytes; unknown content is not compressed. The input must outlive it.
Result<std::unique_ptr<Decompressor>> make_decompressor(role::Compression compression, Input& input);

}  // namespace triton::unpack

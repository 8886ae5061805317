#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "host/storage/pool.h"
#include "lib/base/pipe.h"
#include "lib/base/result.h"
#include "lib/base/start_thread.h"
#include "lib/files/sha256.h"

namespace triton::storage {

/// A tree with what belongs to it, as a stream of bytes for another host; docs/host/machine-stream.md has the format.
/// The reader checks everything: the writer decides the content of one tree, and what its head asks for, which is for
/// the reader's user to check.

/// What a stream is of.
struct EnvelopeKind {
    std::string_view magic;      ///< "triton-machine "
    std::string_view member;     ///< of the head, for the payload: "machine"
    std::string_view sending;    ///< for errors: "send the VM"
    std::string_view receiving;  ///< likewise: "receive a VM"
    std::string_view maker;      ///< "vmadm send"
};

/// The head before the tree.
struct EnvelopeHead {
    std::string storage;  ///< which pools can read the tree: stream_kind()
    std::string payload;  ///< JSON
};

/// "zfs", whose streams are ZFS's own, or "tree": all others, which understand each other.
std::string_view stream_kind(Backend backend);

/// Writes a stream. `to` is borrowed.
class EnvelopeWriter {
public:
    EnvelopeWriter(EnvelopeKind const& kind, int to) : kind_(kind), to_(to) {}
    /// Errors: those of write(2); `invalid` for a payload of more than 16 MiB.
    Result<> head(EnvelopeHead const& head);
    /// Passes on everything from a file as a part of the stream, and ends the stream.
    Result<> content(int from);

private:
    Result<> write(std::string_view bytes);

    EnvelopeKind kind_;
    int to_;
    files::Sha256 digest_{};
};

/// Reads a stream. `from` is borrowed; it may be a pipe, a socket or a file.
class EnvelopeReader {
public:
    EnvelopeReader(EnvelopeKind const& kind, int from) : kind_(kind), from_(from) {}
    /// Errors: `corrupt`: "receive a VM: this is not a stream of vmadm send", a head that is malformed or larger than
    /// 16 MiB, a stream that ends early; `unsupported`: another version; those of read(2).
    Result<EnvelopeHead> head();
    /// Passes the content on to a pipe, and reads to the end of the stream, whose digest must match. The pipe's reader
    /// may stop shortly before the end. Errors: `corrupt`; those of read(2) and write(2).
    Result<> content(int to);

private:
    Result<> read(char* into, std::size_t count);
    Result<std::uint32_t> read_count();
    [[nodiscard]] std::unexpected<Error> corrupt(std::string reason) const;

    EnvelopeKind kind_;
    int from_;
    files::Sha256 digest_{};
};

/// Runs the reader of a pipe in a thread of its own, and the writer in this one. Errors: usually the reader's, which
/// knows why the writer had to stop. If the stream is corrupt, the writer's.
template <class Write, class Read>
Result<> through_pipe(Write write, Read read) {
    Pipe pipe = TRY(make_pipe());
    Result<> has_read;
    std::thread reader = TRY(start_thread([&] {
        has_read = read(pipe.reader.get());
        pipe.reader = UniqueFd();
    }));
    Result<> const written = write(pipe.writer.get());
    pipe.writer = UniqueFd();
    reader.join();
    // To its reader, a stream that was cut off looks as corrupt as a wrong one: the writer's error is the better one.
    bool const is_same = !has_read && !written && has_read.error().kind == ErrorKind::corrupt &&
                         written.error().kind == ErrorKind::corrupt;
    if (!has_read && !is_same) return has_read;
    return written;
}

}  // namespace triton::storage

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/files/sha256.h"

namespace triton::machine {

/// A machine as a stream of bytes; docs/host/machine-stream.md has the format. The reader checks everything: the writer
/// decides the content of one machine, and nothing else.

/// The head before the machine's tree.
struct StreamHead {
    std::string storage;  ///< which pools can read the tree: "zfs", or "tree": all others
    std::string payload;  ///< JSON: the payload of `vmadm create`, with the uuid
};

/// Writes a stream. `to` is borrowed.
class StreamWriter {
public:
    explicit StreamWriter(int to) : to_(to) {}
    /// Errors: those of write(2); `invalid` for a machine of more than 16 MiB of properties.
    Result<> head(StreamHead const& head);
    /// Passes on everything from a file as a part of the stream, and ends the stream.
    Result<> content(int from);

private:
    Result<> write(std::string_view bytes);

    int to_;
    files::Sha256 digest_{};
};

/// Reads a stream. `from` is borrowed; it may be a pipe, a socket or a file.
class StreamReader {
public:
    explicit StreamReader(int from) : from_(from) {}
    /// Errors: `corrupt`: "receive a VM: this is not a stream of vmadm send", a head that is malformed or larger than
    /// 16 MiB, a stream that ends early; `unsupported`: another version; those of read(2).
    Result<StreamHead> head();
    /// Passes the content on to a pipe, and reads to the end of the stream, whose digest must match. The pipe's reader
    /// may stop shortly before the end. Errors: `corrupt`; those of read(2) and write(2).
    Result<> content(int to);

private:
    Result<> read(char* into, std::size_t count);
    Result<std::uint32_t> read_count();

    int from_;
    files::Sha256 digest_{};
};

}  // namespace triton::machine

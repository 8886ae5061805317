#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include "host/storage/stream_format.h"
#include "lib/base/result.h"
#include "lib/files/sha256.h"

namespace triton::storage::tree_stream {

/// Writes records to a descriptor (borrowed), in large pieces. One record at a time: begin(), its fields, end().
class Writer {
public:
    static constexpr std::string_view attempted = "write the stream";  ///< in all its errors

    /// -1: nothing is written.
    explicit Writer(int to) : to_(to) {}

    void begin(Record record);
    void number(std::uint64_t value);
    void text(std::string_view value);
    /// Writes mode, owner, group and time of the last change.
    void attributes(struct stat const& status);
    /// Ends the record. Errors: those of write(2), "write the stream"; `unavailable`: the reader has gone.
    Result<> end();

    /// Writes what must come before all records, and after them.
    void start() { buffer_ += magic; }
    Result<> finish();

private:
    Result<> flush();

    int to_;
    std::string buffer_;
    std::size_t begin_ = 0;  // of the record
    files::Sha256 hash_;
};

}  // namespace triton::storage::tree_stream

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include "host/storage/stream_format.h"
#include "lib/base/result.h"
#include "lib/files/sha256.h"

namespace triton::storage::tree_stream {

/// Reads records from a descriptor (borrowed). Their writer controls all of them: each field is asked for, and one that
/// is missing, too long or left over is an error of kind `corrupt`. Views are valid until the next record.
class Reader {
public:
    explicit Reader(int from) : from_(from) {}

    /// Reads what must come before all records.
    Result<> start();
    Result<Record> next();
    Result<std::uint64_t> number();
    Result<std::string_view> text(std::size_t longest);
    /// Reads a name in a directory.
    Result<std::string> name();
    /// Reads mode, owner, group and times; the time of the last access becomes that of the last change.
    Result<struct stat> attributes();
    /// Checks that the record has no more fields.
    Result<> done() const;
    /// For the record `end`: checks that its digest is that of everything before it.
    Result<> check_digest();

    static std::unexpected<Error> corrupt(std::string reason);

private:
    Result<> fill(std::size_t size);

    int from_;
    std::string buffer_;
    std::string_view rest_;  // of the record
    files::Sha256 hash_;
    std::string digest_;  // of everything before the record `end`
};

}  // namespace triton::storage::tree_stream

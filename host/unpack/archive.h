#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "host/role/unpack_messages.h"
#include "host/unpack/entry.h"
#include "host/unpack/pace.h"
#include "host/unpack/stream.h"
#include "lib/base/result.h"

struct archive;
struct archive_entry;

namespace triton::unpack {

/// A tar archive, read by libarchive: ustar, pax, GNU, old; with long names, sparse files, extended attributes and
/// access control lists of POSIX. What libarchive would only warn of is an error.
class Archive {
public:
    /// The stream and `pace` must outlive it.
    static Result<std::unique_ptr<Archive>> open(Stream& stream, role::UnpackLimits const& limits, Pace& pace);
    ~Archive();
    Archive(Archive const&) = delete;
    Archive& operator=(Archive const&) = delete;

    /// The next entry; none at the end. Errors: `corrupt`, `refused`, and those of the stream.
    Result<std::optional<Entry>> next();

    struct Block {
        std::span<char const> bytes;
        std::uint64_t offset;
    };
    /// The next bytes of the entry's content, with their offset; none at its end. What lies between blocks is a hole.
    Result<std::optional<Block>> next_block();

private:
    Archive(Stream& stream, role::UnpackLimits const& limits, Pace& pace)
        : stream_(stream), limits_(limits), pace_(pace) {}
    static ssize_t read(archive* reader, void* self, void const** bytes);
    std::unexpected<Error> error();
    std::unexpected<Error> warning();
    Result<Entry> convert(archive_entry* entry);

    Stream& stream_;
    role::UnpackLimits limits_;
    Pace& pace_;
    archive* reader_ = nullptr;
    std::optional<Error> stream_error_;
};

}  // namespace triton::unpack

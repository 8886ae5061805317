#include "host/disk/bytes.h"

namespace triton::disk {

Result<std::string> Bytes::read(std::uint64_t offset, std::uint64_t length) {
    if (offset > size() || length > size() - offset)
        return fail(ErrorKind::invalid, "its header points behind the end of the file");
    if (length > largest_read) return fail(ErrorKind::invalid, "its header is too large");
    return read_within(offset, static_cast<std::size_t>(length));
}

}  // namespace triton::disk

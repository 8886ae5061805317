#include "host/verify/copier.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/verify/prefix_hasher.h"

namespace triton::verify {

namespace {

constexpr std::size_t piece = 64 << 20;

/// Copies in the kernel. Returns how much: less than all when it cannot go on.
std::uint64_t copy_in_kernel(int source, int file, std::uint64_t size) {
    off_t from = 0;
    off_t to = 0;
    while (static_cast<std::uint64_t>(from) < size) {
        ssize_t const copied = ::copy_file_range(
            source, &from, file, &to, std::min<std::uint64_t>(piece, size - static_cast<std::uint64_t>(from)), 0);
        if (copied < 0 && errno == EINTR) continue;
        if (copied <= 0) break;
    }
    return static_cast<std::uint64_t>(from);
}

Result<> copy_by_hand(int source, int file, std::uint64_t at, std::uint64_t size) {
    PrefixHasher::Buffer const buffer;
    while (at < size) {
        ssize_t const got =
            ::pread(source, buffer.bytes.get(), std::min<std::uint64_t>(PrefixHasher::buffer_bytes, size - at),
                    static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(errno, "read the file to copy");
        if (got == 0) return fail(ErrorKind::corrupt, "the file to copy has become shorter");
        for (ssize_t done = 0; done < got;) {
            ssize_t const written = ::pwrite(file, buffer.bytes.get() + done, static_cast<std::size_t>(got - done),
                                             static_cast<off_t>(at) + done);
            if (written < 0 && errno != EINTR) return fail(errno, "write the copy");
            done += std::max<ssize_t>(written, 0);
        }
        at += static_cast<std::uint64_t>(got);
    }
    return {};
}

}  // namespace

Result<role::Verified> copy_and_check(int source, int file, role::Expected const& expected) {
    struct stat status{};
    if (::fstat(source, &status) != 0) return fail(errno, "look at the file to copy");
    if (!S_ISREG(status.st_mode)) return fail("what is to be copied is not a regular file");
    auto const size = static_cast<std::uint64_t>(status.st_size);
    TRY(check_size(size, expected));
    if (::ftruncate(file, 0) != 0) return fail(errno, "empty the copy");
    if (::ioctl(file, FICLONE, source) != 0) TRY(copy_by_hand(source, file, copy_in_kernel(source, file, size), size));
    // A clone has the file's current content, which may be longer than what we saw.
    if (::ftruncate(file, static_cast<off_t>(size)) != 0) return fail(errno, "set the size of the copy");
    PrefixHasher hasher(file, expected.sha1.has_value());
    TRY(hasher.start());
    hasher.add_file(size);
    Fingerprint fingerprint = TRY(hasher.finish());
    role::Verified verified = TRY(std::move(fingerprint).check(expected));
    if (::fsync(file) != 0) return fail(errno, "write the copy to disk");
    return verified;
}

}  // namespace triton::verify

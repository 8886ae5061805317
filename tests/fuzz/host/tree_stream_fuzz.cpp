// Whatever bytes a stream of a tree has: it makes something in its own directory or an error, nothing beside that
// directory, and what it has made can be removed.

#include <cstdint>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/directory_entries.h"
#include "host/storage/remove_tree.h"
#include "host/storage/tree_stream.h"

namespace {

using namespace triton;
using namespace triton::storage;

void require(bool holds) {
    if (!holds) std::abort();
}

/// A directory of our own, in memory where there is such a place.
int open_area() {
    std::string path =
        ::access("/dev/shm", W_OK) == 0 ? "/dev/shm/tree-stream-fuzz.XXXXXX" : "/tmp/tree-stream-fuzz.XXXXXX";
    require(::mkdtemp(path.data()) != nullptr);
    static std::string const kept = path;
    std::atexit([] { (void)remove_tree(AT_FDCWD, kept); });
    return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

UniqueFd content_of(std::uint8_t const* data, std::size_t size) {
    UniqueFd file{::memfd_create("stream", MFD_CLOEXEC)};
    require(file && ::write(file.get(), data, size) == static_cast<ssize_t>(size) &&
            ::lseek(file.get(), 0, SEEK_SET) == 0);
    return file;
}

}  // namespace

extern "C" int tree_stream_fuzz(std::uint8_t const* data, std::size_t size) {
    static int const area = open_area();
    UniqueFd const stream = content_of(data, size);
    auto receiver = tree_stream::Receiver::create(stream.get());
    if (!receiver) return 0;

    require(::mkdirat(area, "tree", 0700) == 0);
    UniqueFd tree{::openat(area, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    require(bool(tree));
    (void)receiver->receive(std::move(tree));

    int entries = 0;
    DirectoryReader reader;
    require(reader
                .read(area,
                      [&](std::string const& /*name*/, unsigned char /*type*/) -> Result<> {
                          ++entries;
                          return {};
                      })
                .has_value());
    require(entries == 1);
    require(remove_tree(area, "tree").has_value());
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return tree_stream_fuzz(data, size);
}
#endif

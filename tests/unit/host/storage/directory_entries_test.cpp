#include "host/storage/directory_entries.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton::storage {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Another command may remove a directory that this one has just opened.
TEST(DirectoryReader, ADirectoryThatWasRemovedIsEmpty) {
    std::string path = testing::TempDir() + "entries.XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    UniqueFd const directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::vector<std::string> names;
    DirectoryReader reader;
    auto const read = [&] {
        names.clear();
        return reader.read(directory.get(), [&](std::string const& name, unsigned char) -> Result<> {
            names.push_back(name);
            return {};
        });
    };
    ASSERT_EQ(::mkdirat(directory.get(), "a", 0700), 0);
    EXPECT_TRUE(read());
    EXPECT_THAT(names, ElementsAre("a"));
    ASSERT_EQ(::unlinkat(directory.get(), "a", AT_REMOVEDIR), 0);
    ASSERT_EQ(::rmdir(path.c_str()), 0);
    auto const removed = read();
    EXPECT_TRUE(removed) << removed.error().text();
    EXPECT_THAT(names, IsEmpty());
}

}  // namespace

}  // namespace triton::storage

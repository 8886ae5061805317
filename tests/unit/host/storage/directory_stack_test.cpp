#include "host/storage/directory_stack.h"

#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/remove_tree.h"

namespace triton::storage {
namespace {

class DirectoryStackTest : public testing::Test {
protected:
    DirectoryStackTest() {
        if (::mkdtemp(path_.data()) == nullptr) std::abort();
        area_ = UniqueFd{::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    }
    ~DirectoryStackTest() override { (void)remove_tree(AT_FDCWD, path_); }

    DirectoryStack stack() {
        return *DirectoryStack::create(UniqueFd{::openat(area_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)});
    }

    std::string path_ = "/tmp/triton-stack.XXXXXX";
    UniqueFd area_;
};

TEST_F(DirectoryStackTest, GoesDownAndUpFartherThanItHasDescriptors) {
    auto way = stack();
    struct stat root;
    ASSERT_EQ(::fstat(way.fd(), &root), 0);
    for (int level = 0; level < 200; ++level) {
        ASSERT_EQ(::mkdirat(way.fd(), "d", 0700), 0);
        ASSERT_TRUE(way.enter("d"));
    }
    EXPECT_EQ(way.depth(), 200U);
    EXPECT_EQ(way.shown("f"), "d/d/d/.../d/d/d/d/f");
    while (way.depth() > 0)
        ASSERT_TRUE(way.leave());
    struct stat back;
    ASSERT_EQ(::fstat(way.fd(), &back), 0);
    EXPECT_EQ(back.st_ino, root.st_ino);
    EXPECT_EQ(way.shown(), ".");
}

TEST_F(DirectoryStackTest, NoticesThatADirectoryWasMoved) {
    auto way = stack();
    ASSERT_EQ(::mkdirat(area_.get(), "elsewhere", 0700), 0);
    for (int level = 0; level < 100; ++level) {
        ASSERT_EQ(::mkdirat(way.fd(), "d", 0700), 0);
        ASSERT_TRUE(way.enter("d"));
    }
    // What is far above has been closed; the second directory from the top is put into another one.
    ASSERT_EQ(::renameat(area_.get(), "d/d", area_.get(), "elsewhere/d"), 0);
    Result<> left;
    while (left && way.depth() > 0)
        left = way.leave();
    ASSERT_FALSE(left);
    EXPECT_EQ(left.error().kind, ErrorKind::busy);
    EXPECT_EQ(left.error().text(), "cannot go back to d: a directory was moved meanwhile");
}

TEST_F(DirectoryStackTest, EntersNoLink) {
    ASSERT_EQ(::symlinkat("/", area_.get(), "l"), 0);
    auto way = stack();
    auto const entered = way.enter("l");
    ASSERT_FALSE(entered);
    EXPECT_EQ(entered.error().attempted, "open directory l");
    EXPECT_FALSE(open_below(area_.get(), ".."));
    EXPECT_FALSE(open_below(area_.get(), "/"));
}

}  // namespace
}  // namespace triton::storage

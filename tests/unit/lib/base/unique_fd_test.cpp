#include "lib/base/unique_fd.h"

#include <type_traits>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace triton {

namespace {

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

static_assert(!std::is_copy_constructible_v<UniqueFd> && !std::is_convertible_v<int, UniqueFd>);

TEST(UniqueFd, ClosesAtTheEndAndKeepsErrno) {
    int const fd = open_null();
    {
        UniqueFd owner{fd};
        EXPECT_TRUE(owner);
        EXPECT_EQ(owner.get(), fd);
        errno = ERANGE;
    }
    EXPECT_EQ(errno, ERANGE);
    EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, OwnsNothingByDefault) {
    errno = 0;
    {
        UniqueFd none;
        EXPECT_FALSE(none);
        EXPECT_EQ(none.get(), -1);
    }
    EXPECT_EQ(errno, 0);  // close(-1) would have said EBADF
}

TEST(UniqueFd, ErrorOfOpenIsNothingToOwn) {
    UniqueFd none{::open("/does/not/exist", O_RDONLY)};
    EXPECT_FALSE(none);
}

TEST(UniqueFd, MoveHandsOver) {
    UniqueFd first{open_null()};
    int const fd = first.get();
    UniqueFd second{std::move(first)};
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that it is empty is the promise
    EXPECT_EQ(second.get(), fd);
    EXPECT_TRUE(is_open(fd));
}

TEST(UniqueFd, AssignmentClosesWhatWasOwned) {
    UniqueFd owner{open_null()};
    UniqueFd other{open_null()};
    int const old = owner.get();
    int const taken = other.get();
    owner = std::move(other);
    EXPECT_EQ(owner.get(), taken);
    EXPECT_FALSE(is_open(old));
    EXPECT_TRUE(is_open(taken));
    owner = UniqueFd{};
    EXPECT_FALSE(is_open(taken));
}

TEST(UniqueFd, AssignmentToItselfKeepsIt) {
    UniqueFd owner{open_null()};
    UniqueFd& same = owner;
    owner = std::move(same);
    EXPECT_TRUE(owner);
    EXPECT_TRUE(is_open(owner.get()));
}

TEST(UniqueFd, ReleaseGivesUpOwnership) {
    int fd = -1;
    {
        UniqueFd owner{open_null()};
        fd = owner.release();
        EXPECT_FALSE(owner);
    }
    EXPECT_TRUE(is_open(fd));
    ::close(fd);
}

}  // namespace

}  // namespace triton

#include "host/content/landed_in_file.h"

#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton::content {
namespace {

class LandedInFile : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "landed.XXXXXX";
        file_ = UniqueFd(::mkstemp(pattern.data()));
        ASSERT_TRUE(file_);
        ::unlink(pattern.c_str());
    }
    void write(std::uint64_t offset, std::size_t count) {
        std::string const bytes(count, 'x');
        ASSERT_EQ(::pwrite(file_.get(), bytes.data(), count, static_cast<off_t>(offset)), static_cast<ssize_t>(count));
    }

    UniqueFd file_;
};

TEST_F(LandedInFile, AnEmptyFileHasNothingWhateverWasNoted) {
    EXPECT_TRUE(landed_in_file(file_.get(), Intervals({{0, 100}})).empty());
}

TEST_F(LandedInFile, KnowsMoreThanWasNotedButForTheLastPage) {
    write(0, 10 * 4096 + 100);
    EXPECT_EQ(landed_in_file(file_.get(), {}), Intervals({{0, 10 * 4096}}));
    EXPECT_EQ(landed_in_file(file_.get(), Intervals({{0, 10 * 4096 + 50}})), Intervals({{0, 10 * 4096 + 50}}));
}

TEST_F(LandedInFile, PromisedRoomIsNotContent) {
    if (::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, 1 << 20) != 0) GTEST_SKIP() << "no fallocate(2) here";
    write(0, 3 * 4096);
    write(500'000 / 4096 * 4096, 2 * 4096);
    std::uint64_t const second = 500'000 / 4096 * 4096;
    EXPECT_EQ(landed_in_file(file_.get(), {}), Intervals({{0, 2 * 4096}, {second, second + 4096}}));
}

TEST_F(LandedInFile, WhatWasNotedAndIsNotThereHasNotLanded) {
    ASSERT_EQ(::ftruncate(file_.get(), 1 << 20), 0);
    write(0, 4096);
    EXPECT_EQ(landed_in_file(file_.get(), Intervals({{0, 1 << 20}})), Intervals({{0, 4096}}));
}

}  // namespace
}  // namespace triton::content

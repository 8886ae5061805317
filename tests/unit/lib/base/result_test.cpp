#include "lib/base/result.h"

#include <cerrno>
#include <memory>

#include <gtest/gtest.h>

namespace triton {

namespace {

TEST(Result, FailureSaysWhatAndWhy) {
    Result<int> const result = fail(ENOENT, "open config/box.json");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().text(), ("cannot open config/box.json: No such file or directory"));
}

TEST(Result, FailureWithoutASystemCallHasItsOwnWords) {
    Result<> const result = fail("unknown type \"Foo\"");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().text(), ("unknown type \"Foo\""));
}

TEST(Result, ErrnoTextKnowsEveryNumber) {
    EXPECT_EQ(errno_text(EACCES), "Permission denied");
    EXPECT_EQ(errno_text(99999), "errno 99999");
    EXPECT_EQ(errno_text(-1), "errno -1");
}

Result<std::unique_ptr<int>> make(bool works) {
    if (!works) return fail(ENOMEM, "make a number");
    return std::make_unique<int>(41);
}

Result<int> one_more(bool works, bool& went_on) {
    std::unique_ptr<int> const number = TRY(make(works));  // cannot be copied: TRY has to move
    went_on = true;
    return *number + 1;
}

TEST(Try, GivesTheValue) {
    bool went_on = false;
    EXPECT_EQ(one_more(true, went_on), 42);
    EXPECT_TRUE(went_on);
}

TEST(Try, ReturnsTheErrorAsItIs) {
    bool went_on = false;
    Result<int> const result = one_more(false, went_on);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().text(), ("cannot make a number: Cannot allocate memory"));
    EXPECT_FALSE(went_on);
}

Result<> nothing(bool works) {
    if (!works) return fail("no");
    return {};
}

Result<int> after_nothing(bool works) {
    TRY(nothing(works));
    return 1;
}

TEST(Try, WorksWithoutAValue) {
    EXPECT_EQ(after_nothing(true), 1);
    EXPECT_EQ(after_nothing(false).error().text(), "no");
}

}  // namespace

}  // namespace triton

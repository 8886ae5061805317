#include "lib/text/percent.h"

#include <gtest/gtest.h>

namespace triton::text {

namespace {

TEST(Percent, OnlyWhatIsUnreservedStays) {
    EXPECT_EQ(percent_encoded("aZ09-._~"), "aZ09-._~");
    EXPECT_EQ(percent_encoded("a b/c?d=e&f%\xc3\xbc"), "a%20b%2Fc%3Fd%3De%26f%25%C3%BC");
    EXPECT_EQ(percent_encoded(std::string_view("\0", 1)), "%00");
}

}  // namespace

}  // namespace triton::text

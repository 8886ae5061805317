#include "host/cri/monitor/user_mapping.h"

#include <string>

#include <gtest/gtest.h>

namespace triton::cri::monitor {
namespace {

TEST(UserMapping, TextAndBack) {
    UserMapping const mapping{.users = {100'000, 65'536}, .groups = {200'000, 1}};
    EXPECT_EQ(mapping_text(mapping), "100000:65536:200000:1");
    EXPECT_EQ(parse_mapping(mapping_text(mapping)), mapping);
    EXPECT_EQ(mapping_text({}), "");
    EXPECT_FALSE(parse_mapping("")->is_set());
}

TEST(UserMapping, OtherTextsAreNone) {
    for (std::string const text : {"1", "1:2", "1:2:3", "1:2:3:", "1:2:3:4:5", "1:0:3:4", "1:2:3:0", ":1:2:3:4",
                                   "1:-2:3:4", "1:2:3:4294967296", "a:b:c:d", "1:2:3:4 "})
        EXPECT_FALSE(parse_mapping(text)) << text;
}

}  // namespace
}  // namespace triton::cri::monitor

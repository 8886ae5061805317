#include "lib/base/uuid.h"

#include <string_view>

#include <gtest/gtest.h>

namespace triton {
namespace {

TEST(Uuid, IsCanonical) {
    EXPECT_EQ(Uuid::parse("6BA7B810-9DAD-11D1-80B4-00C04FD430C8")->text(), "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
    for (std::string_view const bad :
         {"", "6ba7b810-9dad-11d1-80b4-00c04fd430c", "6ba7b810-9dad-11d1-80b4-00c04fd430c88",
          "6ba7b810x9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430g8",
          "../../../../../../../../etc/passwdxx", "6ba7b8109dad11d180b400c04fd430c8----"})
        EXPECT_FALSE(Uuid::parse(bad)) << bad;
}

TEST(Uuid, IsOfZerosUnlessItIsGiven) {
    EXPECT_EQ(Uuid().text(), "00000000-0000-0000-0000-000000000000");
    EXPECT_EQ(Uuid().digits(), "00000000000000000000000000000000");
}

TEST(Uuid, OfBytesHasThem) {
    Uuid const uuid = *Uuid::parse("6ba7b810-9dad-51d1-80b4-00c04fd430c8");
    EXPECT_EQ(Uuid::of_bytes(uuid.bytes(), 5), uuid);
    EXPECT_EQ(Uuid::of_bytes({}, 4).text(), "00000000-0000-4000-8000-000000000000");
}

TEST(Uuid, ARandomOneIsNew) {
    auto const first = Uuid::random();
    auto const second = Uuid::random();
    ASSERT_TRUE(first && second);
    EXPECT_NE(*first, *second);
    EXPECT_EQ(first->text()[14], '4');
    EXPECT_TRUE(Uuid::parse(first->text()));
}

}  // namespace
}  // namespace triton

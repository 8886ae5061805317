#include "host/volume/keys.h"

#include <gtest/gtest.h>

namespace triton::volume {
namespace {

TEST(VolumeKey, HasOneText) {
    std::string const uuid = "0f6a4f4e-9f2c-4b8e-8f0a-3a1c5f1b2d3e";
    auto const key = VolumeKey::parse(uuid + "#7");
    ASSERT_TRUE(key);
    EXPECT_EQ(key->generation, 7U);
    EXPECT_EQ(key->text(), uuid + "#7");
    for (std::string const& text :
         {uuid, uuid + "#", uuid + "#07", uuid + "#-1", uuid + "#7 ", uuid + "#7#a", std::string("#7"),
          "0F6A4F4E" + uuid.substr(8) + "#7", uuid + "#18446744073709551616", uuid + ".7"})
        EXPECT_FALSE(VolumeKey::parse(text)) << text;
}

TEST(ReferenceKey, NamesTheUser) {
    std::string const volume = "0f6a4f4e-9f2c-4b8e-8f0a-3a1c5f1b2d3e#0";
    auto const key = ReferenceKey::parse(volume + "#web-1");
    ASSERT_TRUE(key);
    EXPECT_EQ(key->user, "web-1");
    EXPECT_EQ(key->text(), volume + "#web-1");
    for (std::string const& text :
         {volume, volume + "#", volume + "#a/b", volume + "#..", volume + "#a\n", volume + "#a#b"})
        EXPECT_FALSE(ReferenceKey::parse(text)) << text;
}

}  // namespace
}  // namespace triton::volume

#include "host/storage/properties.h"

#include <string>

#include <gtest/gtest.h>

namespace triton::storage {
namespace {

TEST(StorageProperties, AreKeptAsTheyWere) {
    Properties const properties{{"triton:a", "1"}, {"triton:b_c", "with spaces = and \"marks\""}};
    std::string const text = "triton:a 1\ntriton:b_c with spaces = and \"marks\"\n";
    EXPECT_EQ(print_properties(properties), text);
    EXPECT_EQ(parse_properties(text), properties);
    EXPECT_EQ(parse_properties(""), Properties{});
}

TEST(StorageProperties, AreRefusedWithTheReason) {
    EXPECT_EQ(check_property("triton:", "x").error().text(),
              "a property's key is triton:[a-z_]+ of at most 64 characters");
    EXPECT_FALSE(check_property("triton:Upper", "x"));
    EXPECT_FALSE(check_property("triton:" + std::string(58, 'a'), "x"));
    EXPECT_TRUE(check_property("triton:" + std::string(57, 'a'), std::string(1000, 'x')));
    EXPECT_EQ(check_property("triton:a", std::string(1001, 'x')).error().text(),
              "the value of triton:a must have at most 1000 characters, all of them printable ASCII");
    EXPECT_FALSE(check_property("triton:a", "\t"));
}

TEST(StorageProperties, ThatAreDamagedAreCorrupt) {
    for (char const* text : {"triton:a 1", "triton:a\n", "\n", "other 1\n", "triton:a 1\n\n", "triton:a \x01\n"}) {
        auto const parsed = parse_properties(text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_EQ(parsed.error().kind, ErrorKind::corrupt);
        EXPECT_EQ(parsed.error().text(), "the properties of the tree are not lines of a key and a value");
    }
}

}  // namespace
}  // namespace triton::storage

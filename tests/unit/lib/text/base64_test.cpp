#include "lib/text/base64.h"

#include <gtest/gtest.h>

namespace triton::text {

namespace {

/// Source: RFC 4648, section 10.
TEST(Base64, IsThatOfTheRfc) {
    static constexpr std::pair<std::string_view, std::string_view> vectors[] = {
        {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}};
    for (auto const& [bytes, code] : vectors) {
        EXPECT_EQ(encode_base64(bytes), code);
        EXPECT_EQ(decode_base64(code), bytes);
    }
}

TEST(Base64, HasEachByte) {
    std::string bytes;
    for (int i = 0; i < 512; ++i)
        bytes += static_cast<char>(i * 7);
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
}

TEST(Base64, IsStrict) {
    for (std::string_view const text : {"Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v\n", " Zg=", "Zm-v", "=Zg="})
        EXPECT_EQ(decode_base64(text), std::nullopt) << text;
}

}  // namespace

}  // namespace triton::text

#include "host/role/digest.h"

#include <gtest/gtest.h>

namespace triton::role {
namespace {

std::string const hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Digest, IsSha256InLowerCase) {
    auto const digest = Digest::parse("sha256:" + hex);
    ASSERT_TRUE(digest);
    EXPECT_EQ(digest->hex(), hex);
    EXPECT_EQ(digest->text(), "sha256:" + hex);
    EXPECT_EQ(Digest::of_hex(hex), *digest);
}

TEST(Digest, OfNothingIsThatOfNoBytes) {
    EXPECT_EQ(Digest().text(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Digest, RefusesWhatCouldBeAPath) {
    struct Case {
        std::string text;
        ErrorKind kind;
        std::string message;
    };
    std::string const none = " is not sha256: and 64 lower-case hexadecimal digits";
    std::string upper = hex;
    upper[0] = 'B';
    for (Case const& one : {
             Case{"", ErrorKind::invalid, "\"\"" + none},
             {"sha256", ErrorKind::invalid, "\"sha256\"" + none},
             {"sha256:", ErrorKind::invalid, "\"sha256:\"" + none},
             {"sha256:../../x", ErrorKind::invalid, "\"sha256:../../x\"" + none},
             {"../sha256:" + hex, ErrorKind::invalid, "\"../sha256:" + hex + "\"" + none},
             {"sha256:" + upper, ErrorKind::invalid, "\"sha256:" + upper + "\"" + none},
             {"SHA256:" + hex, ErrorKind::invalid, "\"SHA256:" + hex + "\"" + none},
             {"sha256:" + hex + "0", ErrorKind::invalid, "\"sha256:" + hex + "0\"" + none},
             {"sha256:" + hex.substr(1), ErrorKind::invalid, "\"sha256:" + hex.substr(1) + "\"" + none},
             {"sha256:" + hex.substr(1) + "\n", ErrorKind::invalid, "\"sha256:" + hex.substr(1) + "\\n\"" + none},
             {"sha512:" + hex + hex, ErrorKind::unsupported,
              "digest algorithm \"sha512\" is not supported; only sha256 is"},
             {"sha256+b64u:LCa0a2j_xo", ErrorKind::unsupported,
              "digest algorithm \"sha256+b64u\" is not supported; only sha256 is"},
             {"md5:a/b", ErrorKind::invalid, "\"md5:a/b\"" + none},
         }) {
        auto const digest = Digest::parse(one.text);
        ASSERT_FALSE(digest) << one.text;
        EXPECT_EQ(digest.error().text(), one.message);
        EXPECT_EQ(digest.error().kind, one.kind) << one.text;
    }
}

}  // namespace
}  // namespace triton::role

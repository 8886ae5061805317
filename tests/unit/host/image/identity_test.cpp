// What names an image: UUIDs, ChainIDs, platforms.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "host/image/chain_id.h"
#include "host/image/platform.h"
#include "host/image/uuid.h"

namespace triton::image {
namespace {

TEST(UuidOfName, IsAlwaysTheSame) {
    // RFC 9562, appendix A.4
    Uuid const dns = *Uuid::parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8");
    EXPECT_EQ(uuid_of_name(dns, "www.example.com").text(), "2ed6657d-e927-568b-95e1-2665a8aea6a2");
}

TEST(ChainId, FollowsTheSpecification) {
    std::string const a = "sha256:" + std::string(64, 'a');
    std::string const b = "sha256:" + std::string(64, 'b');
    EXPECT_EQ(chain_id(std::array{a}), a);
    // printf 'sha256:aaa... sha256:bbb...' | sha256sum
    EXPECT_EQ(chain_id(std::array{a, b}), extend_chain(a, b));
    EXPECT_EQ(extend_chain(a, b), "sha256:ccd722928bd92476ba1745586fed6e45a102504185ad88cd89e01ff116fd146c");
    EXPECT_NE(chain_id(std::array{a, b}), chain_id(std::array{b, a}));
}

TEST(Platform, IsRead) {
    EXPECT_EQ(*parse_platform("linux/arm/v7"), (Platform{"linux", "arm", "v7"}));
    EXPECT_EQ(*parse_platform("arm64"), (Platform{"linux", "arm64", ""}));
    EXPECT_EQ(parse_platform("linux/arm/v7/x").error().text(),
              "\"linux/arm/v7/x\" is not a platform (for example linux/amd64, linux/arm/v7)");
    EXPECT_FALSE(parse_platform(""));
    EXPECT_FALSE(parse_platform("linux/"));
    EXPECT_FALSE(parse_platform("Linux/amd64"));
    EXPECT_EQ(host_platform().os, "linux");
}

TEST(Platform, TheBestThatRunsIsSelected) {
    using Offers = std::vector<std::optional<Platform>>;
    auto const select = [](Offers const& offers, std::string_view wanted) {
        return select_platform(offers, *parse_platform(wanted));
    };
    Offers const usual{Platform{"linux", "amd64", ""}, Platform{"linux", "arm", "v5"}, Platform{"linux", "arm", "v7"},
                       Platform{"linux", "arm64", "v8"}, Platform{"windows", "amd64", ""}};
    EXPECT_EQ(select(usual, "linux/amd64"), 0U);
    EXPECT_EQ(select(usual, "linux/amd64/v3"), 0U);
    EXPECT_EQ(select(usual, "linux/arm/v7"), 2U);
    EXPECT_EQ(select(usual, "linux/arm/v6"), 1U);
    EXPECT_EQ(select(usual, "linux/arm64"), 3U);
    EXPECT_EQ(select(usual, "linux/s390x"), std::nullopt);
    Offers const levels{Platform{"linux", "amd64", ""}, Platform{"linux", "amd64", "v3"},
                        Platform{"linux", "amd64", "v2"}};
    EXPECT_EQ(select(levels, "amd64"), 0U);
    EXPECT_EQ(select(levels, "linux/amd64/v2"), 2U);
    EXPECT_EQ(select(levels, "linux/amd64/v4"), 1U);
    EXPECT_EQ(select({std::nullopt}, "amd64"), 0U);
    EXPECT_EQ(select({std::nullopt, std::nullopt}, "amd64"), std::nullopt);
    EXPECT_EQ(select({}, "amd64"), std::nullopt);
}

}  // namespace
}  // namespace triton::image

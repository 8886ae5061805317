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
        auto const all = select_platforms(offers, *parse_platform(wanted));
        return all.empty() ? std::nullopt : std::optional(all.front());
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
    EXPECT_EQ(select({}, "amd64"), std::nullopt);
    // Those that name no platform are for whom their configuration says, unless another one says so itself.
    Offers const unnamed{std::nullopt, Platform{"linux", "arm64", ""}, Platform{"linux", "", ""}};
    EXPECT_EQ(select_platforms(unnamed, *parse_platform("amd64")), (std::vector<std::size_t>{0, 2}));
    EXPECT_EQ(select_platforms(unnamed, *parse_platform("arm64")), (std::vector<std::size_t>{1}));
}

TEST(Platform, OtherWordsForTheSameAreKnown) {
    struct Row {
        Platform written;
        std::string canonical;
    };
    for (Row const& row : {Row{{"linux", "x86_64", ""}, "linux/amd64"},
                           {{"Linux", "AMD64", ""}, "linux/amd64"},
                           {{"linux", "x86-64", "2"}, "linux/amd64/v2"},
                           {{"linux", "aarch64", "8"}, "linux/arm64/v8"},
                           {{"linux", "arm64", "V8"}, "linux/arm64/v8"},
                           {{"linux", "armhf", ""}, "linux/arm/v7"},
                           {{"linux", "armel", ""}, "linux/arm/v6"},
                           {{"linux", "i686", ""}, "linux/386"},
                           {{"linux", "riscv64", ""}, "linux/riscv64"},
                           {{"linux", "", ""}, "linux/"}}) {
        EXPECT_EQ(canonical(row.written).text(), row.canonical);
        EXPECT_EQ(canonical(canonical(row.written)), canonical(row.written));
    }
    EXPECT_EQ(parse_platform("linux/x86_64")->text(), "linux/amd64");
    EXPECT_TRUE(fitness({"linux", "aarch64", "8"}, {"linux", "arm64", "v8"}));
    EXPECT_TRUE(fitness({"linux", "x86_64", ""}, {"linux", "amd64", "v3"}));
    EXPECT_FALSE(fitness({"linux", "x86_64", "3"}, {"linux", "amd64", ""}));
}

}  // namespace
}  // namespace triton::image

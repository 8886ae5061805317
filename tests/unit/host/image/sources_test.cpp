#include "host/image/sources.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::image {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Sources, AreReadAndWritten) {
    auto const read = read_configuration(
        R"({"sources":[{"url":"https://images.example/"},{"type":"docker","url":"http://127.0.0.1:5000","authfile":"/a"},
            {"type":"directory","url":"/srv/images","signature":"required","keys":["/k.pub"]}],"upgradedToVer":"3.0.0"})",
        "imgadm.conf");
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_THAT(read->warnings, ElementsAre());
    EXPECT_THAT(read->configuration.sources,
                ElementsAre(Source{.url = "https://images.example"},
                            Source{.type = SourceType::registry, .url = "http://127.0.0.1:5000", .authfile = "/a"},
                            Source{.type = SourceType::directory,
                                   .url = "/srv/images",
                                   .signature = SignaturePolicy::required,
                                   .keys = {"/k.pub"}}));
    std::string const text = configuration_text(read->configuration);
    EXPECT_EQ(text,
              "{\n  \"sources\": [\n    {\"type\": \"imgapi\", \"url\": \"https://images.example\"},\n"
              "    {\"type\": \"registry\", \"url\": \"http://127.0.0.1:5000\", \"authfile\": \"/a\"},\n"
              "    {\"type\": \"directory\", \"url\": \"/srv/images\", \"signature\": \"required\", \"keys\": "
              "[\"/k.pub\"]}\n  ]\n}\n");
    EXPECT_EQ(read_configuration(text, "")->configuration.sources, read->configuration.sources);
    EXPECT_EQ(configuration_text({}), "{\n  \"sources\": []\n}\n");
}

TEST(Sources, TellWhatIsWrong) {
    auto const read = read_configuration(
        R"({"sources":[{"url":"ftp://x"},{"url":"http://x.example"},{"url":"https://x.example","signature":"required"},
            {"type":"dsapi","url":"https://x.example"},{"url":"/srv"}]})",
        "imgadm.conf");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().text(), "imgadm.conf is not a configuration of imgadm");
    EXPECT_THAT(
        read.error().details,
        ElementsAre("sources[0]: source \"ftp://x\": it begins with neither https:// nor http://",
                    "sources[1]: source \"http://x.example\": it is not encrypted; use https://, or allow it with -k",
                    "sources[2].keys: a signature is checked with keys, and there are none",
                    "sources[3].type: \"dsapi\" is not one of imgapi, directory, registry",
                    "sources[4]: source \"/srv\": only a source of type directory is a path"));
}

TEST(Sources, HaveNoUrlThatIsLessThanTheirs) {
    auto const read = read_configuration(
        R"({"sources":[{"url":"https://x.example","mirrors":["http://m.example"]},
            {"url":"https://x.example","signatures":"http://s.example"},
            {"type":"directory","url":"/srv","mirrors":["https://m.example"]},
            {"url":"http://x.example","insecure":true,"mirrors":["http://m.example"],"signatures":"/srv"}]})",
        "imgadm.conf");
    ASSERT_FALSE(read);
    EXPECT_THAT(
        read.error().details,
        ElementsAre("sources[0]: source \"http://m.example\": it is not encrypted; use https://, or allow it with -k",
                    "sources[1]: source \"http://s.example\": it is not encrypted; use https://, or allow it with -k",
                    "sources[2]: source \"/srv\": a directory of this host has no mirrors"));
}

TEST(Sources, HaveOneSpelling) {
    EXPECT_EQ(canonical_url("https://x.example"), "https://x.example");
    EXPECT_EQ(canonical_url("HTTPS://X.Example:443/Path//"), "https://x.example/Path");
    EXPECT_EQ(canonical_url("http://X:80"), "http://x");
    EXPECT_EQ(canonical_url("http://x:443/y"), "http://x:443/y");
    EXPECT_EQ(canonical_url("https://x:4430"), "https://x:4430");
    EXPECT_EQ(canonical_url("https://[::443]"), "https://[::443]");
    EXPECT_EQ(canonical_url("https://[::1]:443/"), "https://[::1]");
    EXPECT_EQ(canonical_url("/Srv/Images/"), "/Srv/Images");
    EXPECT_EQ(canonical_url("/"), "/");
    EXPECT_EQ(canonical_url(""), "");
    EXPECT_EQ(canonical_url("https://"), "https:");
    EXPECT_EQ(make_source(SourceType::imgapi, "HTTP://LocalHost:5000/", false)->url, "http://localhost:5000");
    auto const read = read_configuration(R"({"sources":[{"url":"https://X.example:443/"}]})", "imgadm.conf");
    EXPECT_EQ(read->configuration.sources.front().url, "https://x.example");
}

TEST(Sources, AreMadeFromWhatAUserTypes) {
    auto const error = [](SourceType type, std::string_view url) {
        auto const source = make_source(type, url, false);
        return source ? "none" : source.error().text();
    };
    EXPECT_EQ(make_source(SourceType::imgapi, "https://x.example//", false)->url, "https://x.example");
    EXPECT_TRUE(make_source(SourceType::imgapi, "http://x.example", true));
    EXPECT_TRUE(make_source(SourceType::registry, "http://[::1]:5000", false));
    EXPECT_EQ(error(SourceType::imgapi, "https://user:secret@x.example"),
              "source \"https://\": credentials belong in an authfile, not in the URL");
    EXPECT_EQ(error(SourceType::imgapi, "https://x.example?a"),
              "source \"https://x.example?a\": \"x.example?a\" is not a host");
    EXPECT_EQ(error(SourceType::imgapi, "https://x.example/?a"),
              "source \"https://x.example/?a\": it has a query or a fragment");
    EXPECT_EQ(error(SourceType::imgapi, "https://x.example/\n"), "source \"https://x.example/\\n\": it is not a URL");
    EXPECT_EQ(parse_source_type("dsapi").error().text(),
              "sources of type dsapi have not existed since 2013; their successor is imgapi");
    EXPECT_EQ(parse_source_type("x").error().text(), "\"x\" is not one of the types imgapi, directory, registry");
    EXPECT_EQ(*parse_source_type("docker"), SourceType::registry);
    EXPECT_THAT(configuration_reference_page(), HasSubstr("| `url` | string | required |"));
}

}  // namespace
}  // namespace triton::image

#include "host/cri/images/hosts_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace triton;
using namespace triton::cri;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char path[] = "/etc/containerd/certs.d/docker.io/hosts.toml";

std::vector<HostEntry> parsed(std::string_view text) {
    auto entries = parse_hosts_file(text, path);
    EXPECT_TRUE(entries) << entries.error().text();
    return entries ? *entries : std::vector<HostEntry>();
}

std::vector<std::string> bases(std::string_view text) {
    std::vector<std::string> all;
    for (HostEntry const& entry : parsed(text))
        all.push_back(entry.base);
    return all;
}

std::string error_of(std::string_view text) {
    auto const entries = parse_hosts_file(text, path);
    return entries ? "none" : entries.error().text();
}

TEST(HostsFile, WithoutServersIsTheRegistryItself) { EXPECT_THAT(parsed(""), ElementsAre(HostEntry{.base = ""})); }

TEST(HostsFile, KeepsTheOrderOfTheFile) {
    EXPECT_THAT(bases("server = \"https://registry.example\"\n"
                      "[host.\"https://z.example\"]\n[host.\"http://a.example:5000\"]\n[host.\"m.example\"]\n"),
                ElementsAre("https://z.example/v2", "http://a.example:5000/v2", "https://m.example/v2",
                            "https://registry.example/v2"));
    EXPECT_THAT(
        bases("host.\"https://b.example\".capabilities = [\"pull\"]\nhost.\"https://a.example\".skip_verify = true\n"),
        ElementsAre("https://b.example/v2", "https://a.example/v2", ""));
}

TEST(HostsFile, AddsTheVersionToAPathThatLacksIt) {
    EXPECT_THAT(bases("[host.\"https://a.example/v2\"]\n[host.\"https://a.example/v2/cache\"]\n"
                      "[host.\"https://a.example/v2/whole\"]\noverride_path = true\n[host.\"https://a.example/x/\"]\n"),
                ElementsAre("https://a.example/v2", "https://a.example/v2/cache/v2", "https://a.example/v2/whole",
                            "https://a.example/x/v2", ""));
}

TEST(HostsFile, DockersNameIsNotItsServer) {
    EXPECT_THAT(bases("server = \"https://docker.io\"\n"), ElementsAre("https://registry-1.docker.io/v2"));
}

TEST(HostsFile, ReadsWhatAServerNeeds) {
    HostEntry const expected{.base = "https://a.example/v2",
                             .has_content = true,
                             .resolves = false,
                             .authorities = {"/etc/containerd/certs.d/docker.io/a.crt", "/srv/b.crt"},
                             .certificate = "/srv/c.cert",
                             .key = "/etc/containerd/certs.d/docker.io/c.key",
                             .headers = {"X-A: 1", "X-B: 2", "X-B: 3"},
                             .is_unverified = true,
                             .connect = milliseconds(1500)};
    auto const entries = parsed(
        "[host.\"https://a.example\"]\ncapabilities = [\"pull\", \"push\", \"referrers\"]\nca = [\"a.crt\", "
        "\"/srv/b.crt\"]\n"
        "client = [[\"/srv/c.cert\", \"c.key\"]]\nskip_verify = true\ndial_timeout = \"1.5s\"\n"
        "[host.\"https://a.example\".header]\nX-A = \"1\"\nX-B = [\"2\", \"3\"]\n");
    ASSERT_EQ(entries.size(), 2U);
    EXPECT_EQ(entries[0], expected);
    EXPECT_EQ(entries[1], HostEntry{.base = ""});
}

TEST(HostsFile, TheFilesOwnKeysAreOfTheLastServer) {
    auto const entries = parsed("skip_verify = true\nclient = \"both.pem\"\n[host.\"https://a.example\"]\n");
    EXPECT_FALSE(entries.at(0).is_unverified);
    EXPECT_TRUE(entries.at(1).is_unverified);
    EXPECT_EQ(entries.at(1).certificate, "/etc/containerd/certs.d/docker.io/both.pem");
    EXPECT_EQ(entries.at(1).key, "");
}

TEST(HostsFile, NamesTheLineOfWhatIsWrong) {
    std::string const at = std::string(path) + ":";
    EXPECT_EQ(error_of("\nserver = 5\n"), at + "2: server: expected a string");
    EXPECT_EQ(error_of("\n\ncapabilites = []\n"), at + "3: unknown key \"capabilites\"");
    EXPECT_EQ(error_of("[host.\"https://a.example\"]\nserver = \"x\"\n"), at + "2: unknown key \"server\"");
    EXPECT_EQ(error_of("capabilities = [\"dance\"]\n"), at + "1: unknown capability \"dance\"");
    EXPECT_EQ(error_of("dial_timeout = \"0s\"\n"), at + "1: dial_timeout: \"0s\" is not a duration above zero");
    EXPECT_EQ(error_of("host.\"https://a.example\" = 1\n"), at + "1: host.\"https://a.example\": expected a table");
    EXPECT_EQ(error_of("ca = [1]\n"), at + "1: ca: expected a string");
    EXPECT_THAT(error_of("[host.\"https://a.example?x\"]\n"), HasSubstr(":1: "));
    EXPECT_THAT(error_of("[host.\"https://\"]\n"), HasSubstr(":1: "));
    EXPECT_THAT(error_of("[host"), HasSubstr(at + "1: "));
    EXPECT_THAT(error_of("x = " + std::string(60'000, '[')), HasSubstr(at + "1: "));
    EXPECT_THAT(error_of(std::string("server = \"a\0b\"", 14)), HasSubstr(at + "1: "));
}

}  // namespace

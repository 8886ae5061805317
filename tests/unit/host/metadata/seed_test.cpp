#include "host/metadata/seed.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/machine/properties.h"

namespace triton::metadata {

namespace {

using testing::HasSubstr;

std::map<std::string_view, std::string> seed(std::string const& members) {
    auto const machine =
        machine::parse_file(R"({"uuid":"6b0c8a3e-0000-4000-8000-00000000000a","brand":"lx")" + members + "}", "test");
    EXPECT_TRUE(machine) << machine.error().text();
    std::map<std::string_view, std::string> texts;
    for (SeedFile& file : seed_of(machine ? *machine : machine::Machine{}))
        texts[file.name] = std::move(file.text);
    return texts;
}

TEST(Seed, NamesTheMachineAndLeavesItsNetworkAlone) {
    auto const texts = seed("");
    EXPECT_EQ(texts.size(), 4U);
    EXPECT_EQ(
        texts.at("meta-data"),
        R"({"instance-id":"6b0c8a3e-0000-4000-8000-00000000000a","local-hostname":"6b0c8a3e-0000-4000-8000-00000000000a"})"
        "\n");
    EXPECT_EQ(texts.at("user-data"), "");
    EXPECT_THAT(texts.at("vendor-data"), HasSubstr("\n#cloud-config\n{\"disable_root\": false}\n"));
    EXPECT_EQ(texts.at("network-config"), "{\"config\": \"disabled\"}\n");
}

TEST(Seed, HasTheKeysOfRoot) {
    auto const texts = seed(R"(,"hostname":"web","customer_metadata":{"root_authorized_keys":)"
                            R"("# mine\nssh-ed25519 AAAA a\r\n\nssh-rsa BBBB \"b\": x\n"})");
    EXPECT_EQ(texts.at("meta-data"), R"({"instance-id":"6b0c8a3e-0000-4000-8000-00000000000a","local-hostname":"web",)"
                                     R"("public-keys":["ssh-ed25519 AAAA a","ssh-rsa BBBB \"b\": x"]})"
                                     "\n");
}

TEST(Seed, HasTheDataOfItsUser) {
    EXPECT_EQ(seed(R"(,"customer_metadata":{"user-data":"#cloud-config\n"})").at("user-data"), "#cloud-config\n");
    EXPECT_EQ(seed(R"(,"customer_metadata":{"user-data":"old","cloud-init:user-data":"new"})").at("user-data"), "new");
}

/// cloud-init would keep the one that it has read at the first boot.
TEST(Seed, TheScriptIsAskedForAtEachBoot) {
    auto const texts = seed(R"(,"customer_metadata":{"user-script":"echo hello"})");
    EXPECT_EQ(texts.at("vendor-data"), seed("").at("vendor-data"));
    EXPECT_THAT(texts.at("vendor-data"), HasSubstr("\n/native/usr/sbin/mdata-get user-script >"));
    EXPECT_THAT(texts.at("vendor-data"), testing::Not(HasSubstr("hello")));
}

}  // namespace

}  // namespace triton::metadata

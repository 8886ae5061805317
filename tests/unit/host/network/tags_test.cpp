#include "host/network/tags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::network {
namespace {

TEST(Tags, NameLinksOfTheHost) {
    auto const tags = Tags::parse(
        R"({"storage":{"x":1},"network":{"nic_tags":{"admin":{"bridge":"br0"},"external":{"macvlan":"eth1"}}}})", "f");
    ASSERT_TRUE(tags) << tags.error().text();
    auto const admin = tags->get("admin");
    ASSERT_TRUE(admin);
    EXPECT_EQ(admin->attachment, Attachment::bridge);
    EXPECT_EQ(admin->link, "br0");
    EXPECT_EQ(tags->get("external")->attachment, Attachment::macvlan);
    EXPECT_EQ(tags->get("adm").error().text(), "unknown nic_tag \"adm\" (known: admin, external)");
    EXPECT_EQ(Tags().get("adm").error().text(),
              "unknown nic_tag \"adm\" (this host has none: define it in network.nic_tags of triton.json)");
}

TEST(Tags, AFileThatIsNotThereHasNone) {
    auto const tags = Tags::read("/nowhere/triton.json");
    ASSERT_TRUE(tags);
    EXPECT_EQ(tags->find("admin"), nullptr);
}

TEST(Tags, WhatIsWrongIsSaidWithItsPlace) {
    struct Case {
        char const* text;
        char const* error;
    };
    for (Case const& one : {
             Case{R"({"network":[]})", "f: network: expected an object (keys: nic_tags), found array"},
             Case{R"({"network":{"nic_tags":{"a":{}}}})",
                  "f: network.nic_tags.a: expected one of \"bridge\" and \"macvlan\""},
             Case{R"({"network":{"nic_tags":{"a":{"bridge":"b","macvlan":"c"}}}})",
                  "f: network.nic_tags.a: expected one of \"bridge\" and \"macvlan\""},
             Case{R"({"network":{"nic_tags":{"a":{"bridge":"br 0"}}}})",
                  "f: network.nic_tags.a.bridge: \"br 0\" is not the name of a link"},
             Case{R"({"network":{"nic_tags":{"a":{"brigde":"b","bridge":"b"}}}})",
                  "f: network.nic_tags.a: unknown key \"brigde\"; did you mean \"bridge\"?"},
             Case{R"({"network":{"nic_tags":{"a-b":{"bridge":"b"}}}})",
                  "f: network.nic_tags.a-b: a nic_tag has letters, digits, \"_\" and \"/\" only, at most 31"},
         }) {
        auto const tags = Tags::parse(one.text, "f");
        ASSERT_FALSE(tags) << one.text;
        EXPECT_EQ(tags.error().text(), one.error);
    }
}

TEST(Links, HaveNamesThatTheKernelTakes) {
    for (char const* const good : {"br0", "eth0.5", "a", "123456789012345"})
        EXPECT_TRUE(is_link_name(good)) << good;
    for (char const* const bad : {"", ".", "..", "a b", "a/b", "1234567890123456", "a\"", "a:b", "a\n"})
        EXPECT_FALSE(is_link_name(bad)) << bad;
}

}  // namespace
}  // namespace triton::network

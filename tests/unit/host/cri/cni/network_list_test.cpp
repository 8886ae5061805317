#include "host/cri/cni/network_list.h"

#include <gtest/gtest.h>

namespace triton::cri {
namespace {

using Addresses = std::vector<std::string>;

std::string error_of(std::string_view text) { return parse_network_list(text, "F").error().text(); }

TEST(NetworkList, AllVersionsAndForms) {
    auto const one = parse_network_list(R"({"name": "n", "type": "bridge"})", "F").value();
    EXPECT_EQ(one.version, "0.1.0");
    EXPECT_EQ(one.plugins.size(), 1);
    EXPECT_FALSE(one.has_previous_results());
    auto const two =
        parse_network_list(
            R"({"name": "n", "cniVersions": ["0.4.0", "1.1.0", "9.0.0"], "plugins": [{"type": "a"}, {"type": "b"}]})",
            "F")
            .value();
    EXPECT_EQ(two.version, "1.1.0");
    EXPECT_TRUE(two.has_previous_results());
    EXPECT_EQ(error_of(R"({"name": "n", "cniVersion": "7", "type": "a"})"),
              "F: version \"7\" of the configuration is not supported");
    EXPECT_EQ(error_of(R"({"name": "n", "type": "../a"})"), "F: \"../a\" is not the type of a plugin");
    EXPECT_EQ(error_of(R"({"name": "n", "plugins": [1]})"), "F: it has no plugins");
}

TEST(NetworkList, PluginsGetWhatTheyTake) {
    auto const list =
        parse_network_list(
            R"({"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "a", "x": {"deep": [1, 2.50]}, "capabilities": {"portMappings": true, "dns": false}}]})",
            "F")
            .value();
    EXPECT_EQ(plugin_input(list, list.plugins[0], {}),
              R"({"name":"n","cniVersion":"1.0.0","type":"a","x":{"deep":[1,2.50]}})");
    EXPECT_EQ(
        plugin_input(list, list.plugins[0],
                     {.capabilities = R"({"portMappings":[],"dns":{},"more":1})", .previous_result = R"({"a":1})"}),
        R"({"name":"n","cniVersion":"1.0.0","type":"a","x":{"deep":[1,2.50]},"runtimeConfig":{"portMappings":[]},"prevResult":{"a":1}})");
}

TEST(NetworkList, AddressesAreThoseOfTheInterfaceInside) {
    constexpr char result[] =
        R"({"cniVersion": "1.0.0", "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/n"}, {"name": "eth1", "sandbox": "/n"}],
        "ips": [{"address": "fd00::2/64", "interface": 1}, {"address": "10.0.0.2/24", "interface": 1}, {"address": "10.9.0.2/24", "interface": 2},
                {"address": "10.8.0.2/24", "interface": 0}, {"address": "10.7.0.2/24", "interface": 77}, 5]})";
    EXPECT_EQ(addresses_of(result, "eth0").value(), (Addresses{"10.0.0.2", "fd00::2"}));
    EXPECT_EQ(addresses_of(R"({"ip4": {"ip": "10.1.0.2/16"}, "ip6": {"ip": "fd00::3/64"}})", "eth0").value(),
              (Addresses{"10.1.0.2", "fd00::3"}));
    EXPECT_EQ(addresses_of(R"({"ips": [{"address": "10.1.0.2/16"}]})", "eth0").value(), Addresses{"10.1.0.2"});
    EXPECT_EQ(addresses_of("{}", "eth0").value(), Addresses{});
    EXPECT_EQ(addresses_of("nothing", "eth0").error().kind, ErrorKind::corrupt);
}

TEST(NetworkList, ErrorsOfPluginsAreShown) {
    EXPECT_EQ(plugin_error("a", R"({"code": 11, "msg": "no room", "details": "x\u001b"})", "", 1).text(),
              "cannot run network plugin a: no room: x\\x1b");
    EXPECT_EQ(plugin_error("a", R"({"code": 11, "msg": "m"})", "", 1).kind, ErrorKind::busy);
    EXPECT_EQ(plugin_error("a", "", "", 7).text(), "cannot run network plugin a: it ended with 7");
    EXPECT_EQ(plugin_error("a", "x", "said", 7).text(), "cannot run network plugin a: said");
}

}  // namespace
}  // namespace triton::cri

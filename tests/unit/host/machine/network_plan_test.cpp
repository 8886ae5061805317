#include "host/machine/network_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::machine {
namespace {

using testing::ElementsAre;

network::Tags const tags({{"admin", network::Attachment::bridge, "br0"},
                          {"external", network::Attachment::macvlan, "eth1"}});

Machine machine_with_nics() {
    Machine made;
    made.uuid = *Uuid::parse("371f18c0-9f73-6e86-94f6-c1cf71188d23");
    made.nics = {{.mac = "02:00:00:00:00:01",
                  .interface = "eth0",
                  .nic_tag = "admin",
                  .vlan_id = 5,
                  .ips = {"10.0.0.2/24", "addrconf"},
                  .gateways = {"10.0.0.1", "10.0.1.1"},
                  .primary = true,
                  .mtu = 1400},
                 {.mac = "02:00:00:00:00:02", .interface = "eth1", .nic_tag = "admin", .ips = {"dhcp"}}};
    return made;
}

TEST(NetworkPlan, HasWhatTheHostAndTheMachineDo) {
    Machine made = machine_with_nics();
    made.routes = {{"10.9.0.0/16", json::Node{std::string("10.0.0.3")}},
                   {"10.8.0.0/16", json::Node{std::string("nics[1]")}},
                   {"10.7.0.0/16", json::Node{std::string("macs[2:0:0:0:0:1]")}}};
    auto const plan = network_plan(made, tags);
    ASSERT_TRUE(plan) << plan.error().text();
    network::Port const& port = plan->ports.front();
    EXPECT_EQ(port.nic, "nics[0] (02:00:00:00:00:01)");
    EXPECT_EQ(port.tag.link, "br0");
    EXPECT_EQ(port.vlan, 5);
    EXPECT_EQ(port.mtu, 1400);
    EXPECT_EQ(port.alias, "371f18c0-9f73-6e86-94f6-c1cf71188d23 eth0");
    EXPECT_THAT(port.addresses, ElementsAre("10.0.0.2"));
    EXPECT_THAT(port.rules, testing::Contains("ip saddr != { 10.0.0.2 } drop"));
    network::Interface const& first = plan->inside.interfaces[0];
    EXPECT_EQ(first.link, "eth0");
    EXPECT_EQ(first.mac, "02:00:00:00:00:01");
    EXPECT_EQ(first.mtu, 1400);
    EXPECT_TRUE(first.is_joined_by_host);
    EXPECT_TRUE(first.takes_advertisements);
    EXPECT_THAT(first.addresses, ElementsAre("10.0.0.2/24"));
    EXPECT_THAT(first.gateways, ElementsAre("10.0.0.1", "10.0.1.1"));
    EXPECT_THAT(plan->inside.interfaces[1].gateways, testing::IsEmpty());
    EXPECT_FALSE(plan->inside.interfaces[1].takes_advertisements);
    EXPECT_THAT(plan->inside.routes,
                ElementsAre(network::Route{"10.9.0.0/16", "10.0.0.3", ""}, network::Route{"10.8.0.0/16", "", "eth1"},
                            network::Route{"10.7.0.0/16", "", "eth0"}));
}

/// Its own VRRP program adds the addresses: several machines have them, and one alone may answer.
TEST(NetworkPlan, AVirtualRouterMaySendFromAddressesThatItDoesNotHaveYet) {
    Machine made = machine_with_nics();
    made.nics[1].mac = "00:00:5e:00:01:07";
    made.nics[1].ips = {"10.0.0.9/24"};
    made.nics[1].vrrp_vrid = 7;
    made.nics[1].vrrp_primary_ip = "10.0.0.2";
    auto const plan = network_plan(made, tags);
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_EQ(plan->inside.interfaces[1].mac, "00:00:5e:00:01:07");
    EXPECT_THAT(plan->inside.interfaces[1].addresses, testing::IsEmpty());
    EXPECT_THAT(plan->ports[1].rules, testing::Contains("ip saddr != { 10.0.0.9, 10.0.0.2 } drop"));
    EXPECT_THAT(plan->ports[0].rules, testing::Contains("ip saddr != { 10.0.0.2, 10.0.0.9 } drop"));
}

TEST(NetworkPlan, RefusesWhatCannotBe) {
    auto const refusal = [](auto change) {
        Machine wrong = machine_with_nics();
        change(wrong);
        auto const plan = network_plan(wrong, tags);
        return plan ? "ok" : plan.error().text();
    };
    EXPECT_EQ(refusal([](Machine& made) { made.nics[1].nic_tag = "admni"; }),
              "nics[1] (02:00:00:00:00:02): unknown nic_tag \"admni\" (known: admin, external)");
    EXPECT_EQ(refusal([](Machine& made) { made.nics[1].nic_tag = "external"; }),
              "nics[1] (02:00:00:00:00:02): nic_tag \"external\" is a macvlan, where nothing can limit what a machine "
              "sends: it needs allow_dhcp_spoofing, allow_ip_spoofing, allow_mac_spoofing and "
              "allow_restricted_traffic, and no blocked_outgoing_ports");
    EXPECT_EQ(refusal([](Machine& made) {
                  Nic& nic = made.nics[1];
                  nic.nic_tag = "external";
                  nic.allow_dhcp_spoofing = nic.allow_ip_spoofing = nic.allow_mac_spoofing = true;
                  nic.allow_restricted_traffic = true;
              }),
              "ok");
    EXPECT_EQ(refusal([](Machine& made) { made.nics[1].vlan_id = 4095; }),
              "nics[1] (02:00:00:00:00:02): invalid vlan_id for NIC: 4095 (Linux has VLANs up to 4094)");
    EXPECT_EQ(refusal([](Machine& made) { made.routes = {{"10.9.0.0/16", json::Node{std::string("nics[2]")}}}; }),
              "routes: 10.9.0.0/16: nics[2] does not exist");
    EXPECT_EQ(refusal([](Machine& made) { made.routes = {{"10.9.0.0/16", json::Node{std::string("10.5.0.1")}}}; }),
              "routes: 10.9.0.0/16: the gateway 10.5.0.1 is in no network of a NIC");
    EXPECT_EQ(refusal([](Machine& made) { made.routes = {{"10.9.0.0/16", json::Node{std::string("10.0.0.255")}}}; }),
              "routes: 10.9.0.0/16: the gateway 10.0.0.255 is the broadcast address of a network");
}

TEST(NetworkPlan, ARunningMachineKeepsItsAddressesUntilItIsStartedAgain) {
    auto const raised = network_plan(machine_with_nics(), tags)->ports;
    Machine changed = machine_with_nics();
    changed.nics[0].ips = {"10.0.0.9/24"};
    changed.nics[0].allowed_ips = {"10.3.0.0/16"};
    changed.nics.pop_back();
    auto const ports = guarded(raised, changed);
    ASSERT_EQ(ports.size(), 1U);
    EXPECT_THAT(ports[0].rules, testing::Contains("ip saddr != { 10.0.0.9, 10.3.0.0/16, 10.0.0.2 } drop"));
}

TEST(Resolvers, BecomeAFile) {
    Machine made = machine_with_nics();
    EXPECT_EQ(resolvers_text(made), "");
    made.resolvers = {"10.0.0.53", "fd00::53"};
    made.dns_domain = "example.org";
    EXPECT_EQ(resolvers_text(made),
              "# Made by vmadm from the properties resolvers and dns_domain of the machine.\nsearch example.org\n"
              "nameserver 10.0.0.53\nnameserver fd00::53\n");
}

}  // namespace
}  // namespace triton::machine

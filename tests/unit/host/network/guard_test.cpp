#include "host/network/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::network {
namespace {

using netlink::Address;
using testing::ElementsAre;
using testing::IsEmpty;

Guard guard() {
    return {.mac = *netlink::parse_hardware_address("02:08:20:0a:0b:0c"),
            .addresses = {*Address::parse("10.0.0.2"), *Address::parse("fd00::2")}};
}

TEST(Guard, LetsAMachineSendOnlyFromItsOwn) {
    EXPECT_THAT(
        guard_rules(guard()),
        ElementsAre("ether type { 8021q, 8021ad } drop", "ether saddr != 02:08:20:0a:0b:0c drop",
                    "arp saddr ether != 02:08:20:0a:0b:0c drop", "udp sport 67 drop", "udp sport 547 drop",
                    "icmpv6 type nd-router-advert drop", "ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
                    "ip saddr != { 10.0.0.2 } drop", "arp saddr ip != { 0.0.0.0, 10.0.0.2 } drop",
                    "icmpv6 type nd-neighbor-advert @th,64,128 != { "
                    "0xfd000000000000000000000000000002, 0xfe80000000000000000820fffe0a0b0c } drop",
                    "ip6 saddr != { ::, fd00::2, fe80::8:20ff:fe0a:b0c } drop", "ether type { ip, arp, ip6 } accept"));
}

TEST(Guard, EachFlagTakesItsRulesAway) {
    Guard open = guard();
    open.allows_other_addresses = true;
    open.allows_dhcp_server = true;
    EXPECT_THAT(guard_rules(open),
                ElementsAre("ether type { 8021q, 8021ad } drop", "ether saddr != 02:08:20:0a:0b:0c drop",
                            "arp saddr ether != 02:08:20:0a:0b:0c drop", "ether type { ip, arp, ip6 } accept"));
    open.allows_other_macs = true;
    open.blocked_ports = {25, 465};
    EXPECT_THAT(guard_rules(open),
                ElementsAre("ether type { 8021q, 8021ad } drop", "meta l4proto { tcp, udp } th dport { 25, 465 } drop",
                            "ether type { ip, arp, ip6 } accept"));
    open.allows_other_protocols = true;
    EXPECT_THAT(guard_rules(open), ElementsAre("ether type { 8021q, 8021ad } drop",
                                               "meta l4proto { tcp, udp } th dport { 25, 465 } drop", "accept"));
    open.blocked_ports.clear();
    EXPECT_TRUE(open.is_open());
    EXPECT_THAT(guard_rules(open), IsEmpty());
}

TEST(Guard, AnAddressThatAServerGivesIsNotKnown) {
    Guard dynamic = guard();
    dynamic.addresses.clear();
    dynamic.has_any_v4 = dynamic.has_any_v6 = true;
    EXPECT_THAT(guard_rules(dynamic),
                ElementsAre("ether type { 8021q, 8021ad } drop", "ether saddr != 02:08:20:0a:0b:0c drop",
                            "arp saddr ether != 02:08:20:0a:0b:0c drop", "udp sport 67 drop", "udp sport 547 drop",
                            "icmpv6 type nd-router-advert drop", "ether type { ip, arp, ip6 } accept"));
}

TEST(Guard, NoElementOfASetLiesInAnother) {
    Guard wide = guard();
    wide.addresses = {*Address::parse("10.0.0.2"), *Address::parse("10.0.0.0/24"), *Address::parse("10.0.0.0/24"),
                      *Address::parse("10.1.0.7/16")};
    EXPECT_THAT(guard_rules(wide), testing::Contains("ip saddr != { 10.0.0.0/24, 10.1.0.0/16 } drop"));
}

TEST(Guard, WithoutAnIpv4AddressNothingOfItIsSent) {
    Guard v6_only = guard();
    v6_only.addresses = {*Address::parse("fd00::2")};
    EXPECT_THAT(guard_rules(v6_only), testing::Contains("meta protocol ip drop"));
    EXPECT_THAT(guard_rules(v6_only), testing::Contains("arp saddr ip != { 0.0.0.0 } drop"));
}

TEST(Guard, ATransactionReplacesAllThatWasThere) {
    EXPECT_EQ(guard_transaction("tm01", {"a", "b"}),
              "add table netdev triton\nadd chain netdev triton tm01\nflush chain netdev triton tm01\n"
              "delete chain netdev triton tm01\n"
              "add chain netdev triton tm01 { type filter hook ingress device \"tm01\" priority 0; policy drop; }\n"
              "add rule netdev triton tm01 a\nadd rule netdev triton tm01 b\n");
}

}  // namespace
}  // namespace triton::network

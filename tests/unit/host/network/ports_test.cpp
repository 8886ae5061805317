#include "host/network/ports.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::network {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A kernel with one bridge and one link of hardware; it writes down what it is asked for, and fails when it is told
/// to.
class FakeHost final : public Host {
public:
    std::vector<std::string> calls;
    std::string failing;  // the beginning of a call
    ErrorKind failing_kind = ErrorKind::internal;

    Result<netlink::Link> link(std::string const& name) override {
        auto const found = links_.find(name);
        if (found == links_.end()) return fail(ErrorKind::not_found, "find the link " + name, "it does not exist");
        return found->second;
    }
    Result<> add(netlink::NewVlan const& vlan) override {
        TRY(call("vlan " + vlan.name + " " + std::to_string(vlan.id)));
        make(vlan.name, "vlan");
        links_[vlan.name].parent = vlan.parent;
        links_[vlan.name].vlan = vlan.id;
        return {};
    }
    Result<> change(int, netlink::LinkChange const& change) override {
        return call(std::string("change") + (change.mac ? " " + netlink::text_of(*change.mac) : "") +
                    (change.mtu ? " mtu " + std::to_string(*change.mtu) : "") +
                    (change.master ? " master " + std::to_string(*change.master) : "") +
                    (change.has_no_own_addresses ? " no addresses" : "") +
                    (change.is_up ? *change.is_up ? " up" : " down" : ""));
    }
    Result<> set_port_vlan(int, std::uint16_t vlan) override { return call("port vlan " + std::to_string(vlan)); }
    Result<> remove(std::string const& name) override {
        if (links_.erase(name) > 0) TRY(call("remove " + name));
        return {};
    }
    Result<> change_rules(std::string const& transaction) override {
        return call(transaction.find("policy") != std::string::npos ? "guard" : "unguard");
    }
    Result<> wait_until_known(netlink::Link const& link) override { return call("known " + link.name); }
    /// systemd-nspawn makes the next link that it was told of, until there are no more.
    Result<> wait_for_links(TimePoint) override {
        if (coming.empty()) return fail(ErrorKind::timeout, "wait for the links of the machine", "it takes too long");
        make(coming.front(), "veth");
        coming.erase(coming.begin());
        return call("wait");
    }
    std::vector<std::string> coming;

    void make(std::string const& name, std::string const& kind) {
        links_[name] = {.index = static_cast<int>(links_.size()) + 1, .name = name, .kind = kind, .mtu = 1500};
    }
    netlink::Link& known(std::string const& name) { return links_.at(name); }
    void give(std::string const& name, std::string const& alias) { links_[name].alias = alias; }
    void filter_vlans() { links_["br0"].does_filter_vlans = true; }
    [[nodiscard]] std::size_t count() const { return links_.size(); }

    FakeHost() {
        make("br0", "bridge");
        make("eth1", "");
    }

private:
    Result<> call(std::string text) {
        bool const fails = !failing.empty() && text.starts_with(failing);
        calls.push_back(std::move(text));
        if (fails) return fail(failing_kind, "do that", "it is told to fail");
        return {};
    }
    std::map<std::string, netlink::Link> links_;
};

Port port() {
    return {.nic = "nics[0] (02:08:20:0a:0b:0c)",
            .mac = "02:08:20:0a:0b:0c",
            .tag = {"admin", Attachment::bridge, "br0"},
            .alias = "x",
            .rules = {"a"}};
}

std::string text_of(Result<> const& result) { return result ? "ok" : result.error().text(); }

TEST(Ports, AreGuardedBeforeTheyAreJoined) {
    FakeHost host;
    host.coming = {"somebody else's", "tm0208200a0b0c"};
    EXPECT_EQ(text_of(join_ports(std::vector{port()}, {}, host)), "ok");
    EXPECT_THAT(host.calls, ElementsAre("wait", "wait", "change down", "change fe:08:20:0a:0b:0c mtu 1500 no addresses",
                                        "guard", "change master 1", "change up"));
    EXPECT_EQ(text_of(lower_ports(std::vector{port()}, host)), "ok");
    EXPECT_EQ(host.calls.back(), "unguard");
    EXPECT_EQ(host.count(), 3U);
    EXPECT_EQ(text_of(lower_ports(std::vector{port()}, host)), "ok");
}

TEST(Ports, AreNotWaitedForForEver) {
    FakeHost host;
    EXPECT_EQ(text_of(join_ports(std::vector{port()}, {}, host)),
              "nics[0] (02:08:20:0a:0b:0c): cannot wait for the links of the machine: it takes too long");
}

/// Where there is no nft nothing was ever guarded, and a machine can go all the same.
TEST(Ports, GoWhereNothingCanBeGuarded) {
    FakeHost host;
    host.make(port().host_link(), "veth");
    host.failing = "unguard";
    host.failing_kind = ErrorKind::unavailable;
    EXPECT_EQ(text_of(lower_ports(std::vector{port()}, host)), "ok");
    EXPECT_EQ(host.count(), 2U);
    host.failing_kind = ErrorKind::internal;
    EXPECT_THAT(text_of(lower_ports(std::vector{port()}, host)), testing::HasSubstr("it is told to fail"));
}

TEST(Ports, ThatAreNotThereYetAreNotGuarded) {
    FakeHost host;
    EXPECT_EQ(text_of(guard_ports(std::vector{port()}, host)), "ok");
    EXPECT_THAT(host.calls, IsEmpty());
    host.make(port().host_link(), "veth");
    EXPECT_EQ(text_of(guard_ports(std::vector{port()}, host)), "ok");
    EXPECT_THAT(host.calls, ElementsAre("guard"));
}

TEST(Ports, ThatHaveBecomeAnotherMachinesStay) {
    FakeHost host;
    Port own = port();
    own.alias = "5e6a4c11-0c2f-4a44-8c1f-000000000001 net0";
    host.make(own.host_link(), "veth");
    host.give(own.host_link(), "5e6a4c11-0c2f-4a44-8c1f-000000000002 net1");
    EXPECT_EQ(text_of(lower_ports(std::vector{own}, host)), "ok");
    EXPECT_EQ(text_of(guard_ports(std::vector{own}, host)), "ok");
    EXPECT_THAT(host.calls, IsEmpty());
    EXPECT_EQ(host.count(), 3U);
    host.give(own.host_link(), "5e6a4c11-0c2f-4a44-8c1f-000000000001 net1");  // its interface had another name
    EXPECT_EQ(text_of(lower_ports(std::vector{own}, host)), "ok");
    EXPECT_THAT(host.calls, ElementsAre("remove tm0208200a0b0c", "unguard"));
}

TEST(Ports, ThatAreOpenAreSoWhereNothingCanBeGuarded) {
    FakeHost host;
    host.make(port().host_link(), "veth");
    host.failing = "unguard";
    host.failing_kind = ErrorKind::unavailable;
    Port open = port();
    open.rules.clear();
    EXPECT_EQ(text_of(guard_ports(std::vector{open}, host)), "ok");
    host.failing = "guard";
    EXPECT_EQ(text_of(guard_ports(std::vector{port()}, host)), port().nic + ": cannot do that: it is told to fail");
}

TEST(Ports, AreNeverUpWhenSomethingFails) {
    for (char const* const failing : {"change fe", "guard", "change master"}) {
        FakeHost host;
        host.make("tm0208200a0b0c", "veth");
        host.failing = failing;
        EXPECT_EQ(text_of(join_ports(std::vector{port()}, {}, host)),
                  "nics[0] (02:08:20:0a:0b:0c): cannot do that: it is told to fail")
            << failing;
        EXPECT_THAT(host.calls, testing::Not(testing::Contains("change up"))) << failing;
    }
}

TEST(Ports, TellEachInterfaceItsMtu) {
    FakeHost host;
    Inside inside;
    inside.interfaces.resize(2);
    Port small = port();
    small.mtu = 1400;
    EXPECT_EQ(text_of(prepare_ports(std::vector{small, port()}, inside, host)), "ok");
    EXPECT_EQ(inside.interfaces[0].mtu, 1400);
    EXPECT_EQ(inside.interfaces[1].mtu, 1500);
    EXPECT_THAT(host.calls, IsEmpty());
    inside.interfaces.pop_back();
    EXPECT_EQ(text_of(prepare_ports(std::vector{small, port()}, inside, host)),
              "the documents of the machine's network do not belong together");
}

TEST(Ports, NeedWhatTheHostHas) {
    struct Case {
        std::function<void(Port&)> change;
        char const* error;
    };
    Case const cases[] = {
        {[](Port& port) { port.tag.link = "br9"; }, "bridge \"br9\" of nic_tag \"admin\" does not exist on this host"},
        {[](Port& port) { port.tag.link = "eth1"; }, "bridge \"eth1\" of nic_tag \"admin\" is not a bridge"},
        {[](Port& port) { port.mtu = 9000; }, "mtu 9000 is more than the 1500 of bridge \"br0\" of nic_tag \"admin\""},
        {[](Port& port) { port.vlan = 5; }, "vlan_id 5: bridge \"br0\" of nic_tag \"admin\" does not filter VLANs"},
    };
    for (Case const& one : cases) {
        FakeHost host;
        Port wrong = port();
        one.change(wrong);
        EXPECT_EQ(text_of(check_ports(std::vector{wrong}, host)), wrong.nic + ": " + one.error);
        Inside inside;
        inside.interfaces.resize(1);
        EXPECT_EQ(text_of(prepare_ports(std::vector{wrong}, inside, host)), wrong.nic + ": " + one.error);
        EXPECT_EQ(host.count(), 2U);
    }
}

TEST(Ports, OfAVlanGetItBeforeTheyAreUp) {
    FakeHost host;
    host.filter_vlans();
    host.make("tm0208200a0b0c", "veth");
    Port tagged = port();
    tagged.vlan = 5;
    EXPECT_EQ(text_of(join_ports(std::vector{tagged}, {}, host)), "ok");
    EXPECT_THAT(host.calls, ElementsAre("change down", "change fe:08:20:0a:0b:0c mtu 1500 no addresses", "guard",
                                        "change master 1", "port vlan 5", "change up"));
}

TEST(Ports, OfAMacvlanShareTheLinkOfTheirVlan) {
    FakeHost host;
    Port first = port();
    first.tag = {"external", Attachment::macvlan, "eth1"};
    first.rules.clear();
    first.vlan = 7;
    Inside inside;
    inside.interfaces.resize(1);
    EXPECT_EQ(text_of(prepare_ports(std::vector{first}, inside, host)), "ok");
    EXPECT_EQ(text_of(prepare_ports(std::vector{first}, inside, host)), "ok");
    EXPECT_THAT(host.calls, ElementsAre("vlan eth1.7 7", "change no addresses up", "known eth1.7",
                                        "change no addresses up", "known eth1.7"));
    EXPECT_EQ(text_of(join_ports(std::vector{first}, {}, host)), "ok");
}

TEST(Ports, UseTheVlanOfTheHostsOwnerAsItIs) {
    FakeHost host;
    Port tagged = port();
    tagged.tag = {"external", Attachment::macvlan, "eth1"};
    tagged.vlan = 7;
    Inside inside;
    inside.interfaces.resize(1);
    (void)host.add({"eth1.7", host.known("eth1").index, 7});
    host.known("eth1.7").is_up = true;
    host.calls.clear();
    EXPECT_EQ(text_of(prepare_ports(std::vector{tagged}, inside, host)), "ok");
    host.known("eth1.7").is_up = false;
    host.give("eth1.7", "uplink");
    EXPECT_EQ(text_of(prepare_ports(std::vector{tagged}, inside, host)), "ok");
    EXPECT_THAT(host.calls, ElementsAre("change up", "known eth1.7", "change up", "known eth1.7"));
}

TEST(Ports, DoNotTakeAnotherLinkForTheirVlan) {
    struct Case {
        char const* kind;
        int parent;
        std::uint16_t vlan;
    };
    for (Case const& one : {Case{"dummy", 0, 0}, Case{"vlan", 2, 8}, Case{"vlan", 1, 7}}) {
        FakeHost host;
        Port tagged = port();
        tagged.tag = {"external", Attachment::macvlan, "eth1"};
        tagged.vlan = 7;
        Inside inside;
        inside.interfaces.resize(1);
        host.make("eth1.7", one.kind);
        host.known("eth1.7").parent = one.parent;
        host.known("eth1.7").vlan = one.vlan;
        EXPECT_EQ(text_of(prepare_ports(std::vector{tagged}, inside, host)),
                  tagged.nic +
                      ": the link \"eth1.7\" of this host is not VLAN 7 of macvlan \"eth1\" of nic_tag \"external\"");
        EXPECT_THAT(host.calls, IsEmpty());
    }
}

TEST(Documents, AreReadAsTheyWereWritten) {
    Port full = port();
    full.vlan = 5;
    full.mtu = 1400;
    full.addresses = {"10.0.0.2"};
    auto const ports = parse_ports(ports_text({full}), "p");
    ASSERT_TRUE(ports) << ports.error().text();
    EXPECT_EQ(ports_text(*ports), ports_text({full}));
    EXPECT_EQ(ports->front().tag.link, "br0");
    Inside const inside{.interfaces = {{.nic = "n",
                                        .link = "tn1",
                                        .name = "eth0",
                                        .mac = "02:08:20:0a:0b:0c",
                                        .mtu = 1400,
                                        .is_joined_by_host = true,
                                        .takes_advertisements = true,
                                        .addresses = {"10.0.0.2/24"},
                                        .gateways = {"10.0.0.1"}}},
                        .routes = {{"10.1.0.0/16", "", "eth0"}}};
    auto const read = parse_inside(inside_text(inside), "i");
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(inside_text(*read), inside_text(inside));
    EXPECT_EQ(parse_inside("{}", "i").error().text(), "cannot read i: interfaces: required key is missing");
    EXPECT_THAT(*read_ports("/nowhere/ports.json"), IsEmpty());
}

TEST(Addresses, KnowTheirNetworks) {
    auto const address = netlink::Address::parse("10.1.2.3/20");
    ASSERT_TRUE(address);
    EXPECT_EQ(address->network().text(), "10.1.0.0/20");
    EXPECT_TRUE(address->contains(*netlink::Address::parse("10.1.15.255")));
    EXPECT_FALSE(address->contains(*netlink::Address::parse("10.1.16.0")));
    EXPECT_FALSE(address->contains(*netlink::Address::parse("::")));
    EXPECT_EQ(netlink::Address::parse("fd00::1")->text(), "fd00::1/128");
    for (char const* const bad : {"", "dhcp", "10.0.0.1/33", "10.0.0.1/", "10.0.0.1/-1", "::1/129", "10.0.0.1/1x"})
        EXPECT_FALSE(netlink::Address::parse(bad)) << bad;
    for (char const* const bad : {"", "02:08:20:0a:0b", "02:08:20:0a:0b:0g", "02-08-20-0a-0b-0c"})
        EXPECT_FALSE(netlink::parse_hardware_address(bad)) << bad;
    EXPECT_EQ(netlink::link_local_of(*netlink::parse_hardware_address("02:08:20:0a:0b:0c")).text(),
              "fe80::8:20ff:fe0a:b0c/64");
}

}  // namespace
}  // namespace triton::network

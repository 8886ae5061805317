#include "host/machine/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/machine/properties.h"
#include "host/machine/values.h"

namespace triton::machine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view image = R"("image_uuid":"5e6a4c11-0c2f-4a44-8c1f-0a1b2c3d4e5f")";

json::Object payload(std::string_view text) {
    auto read = read_payload(text);
    EXPECT_TRUE(read) << (read ? "" : read.error().text());
    return read ? *read : json::Object{};
}

Checked<Creation> creation(std::string const& members) {
    std::string const more = members.empty() ? "" : "," + members;
    return read_creation(payload(R"({"brand":"lx",)" + std::string(image) + more + "}"), 0);
}

Machine machine(std::string const& members = "") {
    auto const made = creation(members);
    EXPECT_TRUE(made) << (made ? "" : made.error().json());
    return made ? made->machine : Machine{};
}

std::string fault_of(std::string const& members) {
    auto const made = creation(members);
    return made ? "none" : made.error().reasons.front();
}

std::string changes_of(Machine const& before, std::string_view text) {
    auto const update = read_update(before, payload(text));
    if (!update) return update.error().json();
    std::string shown;
    for (Change const& change : update->changes)
        shown += change.property + ": " + change.before + " -> " + change.after + "\n";
    return shown;
}

TEST(Payload, OnlyOneObjectIsAPayload) {
    EXPECT_EQ(read_payload("[]").error().text(), "Invalid JSON payload: expected an object, found array");
    EXPECT_THAT(read_payload("{").error().text(), HasSubstr("Invalid JSON payload: line 1, column 2"));
}

TEST(Creation, WhatIsNeededIsNotNull) {
    for (std::string const nothing : {"null", "\"\""}) {
        auto const made = read_creation(payload(R"({"brand":"lx","image_uuid":)" + nothing + "}"), 0);
        ASSERT_FALSE(made);
        EXPECT_THAT(made.error().json(), HasSubstr("image_uuid"));
        EXPECT_FALSE(read_creation(payload(R"({"brand":)" + nothing + "," + std::string(image) + "}"), 0));
    }
}

/// It would be saved as an array, which is refused when it is read.
TEST(Creation, AListInAStringHasNoLineFeeds) {
    EXPECT_EQ(machine(R"("fs_allowed":"ufs,pcfs")").fs_allowed.size(), 2U);
    EXPECT_NE(fault_of(R"("fs_allowed":"ufs\npcfs")"), "none");
}

TEST(Creation, WhatIsLeftOutIsFilledIn) {
    Machine const made = machine(R"("uuid":"371F18C0-9f73-6e86-94f6-c1cf71188d23")");
    EXPECT_EQ(made.uuid.text(), "371f18c0-9f73-6e86-94f6-c1cf71188d23");
    EXPECT_EQ(made.hostname, made.uuid.text());
    EXPECT_EQ(made.owner_uuid, Uuid());
    EXPECT_EQ(made.autoboot, true);
    EXPECT_EQ(made.max_physical_memory, 256);
    EXPECT_EQ(made.max_swap, 256);
    EXPECT_EQ(made.tmpfs, 256);
    EXPECT_EQ(made.max_lwps, 2000);
    EXPECT_EQ(made.quota, 10);
    EXPECT_EQ(made.create_timestamp, "1970-01-01T00:00:00.000Z");
    EXPECT_EQ(made.phase, Phase::configuring);
}

TEST(Creation, EachMachineGetsAUuidOfItsOwn) {
    Uuid const one = machine().uuid;
    EXPECT_NE(one, Uuid());
    EXPECT_NE(one, machine().uuid);
}

TEST(Creation, ABrandThatIsUnknownIsTheOnlyFault) {
    auto const made = read_creation(payload(R"({"brand":"kvm","ram":"x"})"), 0);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().json(), R"x({"bad_brand":"kvm","reasons":["Invalid brand: \"kvm\" (known: lx)"]})x");
}

TEST(Creation, FaultsAreListedByKind) {
    auto const made = read_creation(payload(R"({"ram":"much","vcpus":2,"quota":-1})"), 0);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().bad_values, ElementsAre("quota", "ram"));
    EXPECT_THAT(made.error().bad_properties, ElementsAre("vcpus"));
    EXPECT_THAT(made.error().missing_properties, ElementsAre("brand", "image_uuid"));
    EXPECT_THAT(made.error().reasons,
                ElementsAre("vcpus: is for virtual hardware, which a container does not have",
                            "quota: -1 is not within 0 to 1073741824",
                            "ram: \"much\" is not a number of MiB (for example 2, or \"2G\")",
                            "brand: required key is missing", "image_uuid: required key is missing"));
}

TEST(Creation, WhatIsForUpdatesIsRefused) {
    EXPECT_EQ(fault_of(R"("update_nics":[])"), "update_nics: is for updates; a new VM has what nics says");
    EXPECT_EQ(fault_of(R"("remove_tags":["a"])"), "remove_tags: is for updates; a new VM has what tags says");
}

TEST(Creation, UnknownAndComputedKeysAreNamed) {
    auto const made = creation(R"("aliass":"x","state":"running","zoneid":4)");
    ASSERT_TRUE(made);
    EXPECT_THAT(made->ignored, ElementsAre("unknown property \"aliass\"; did you mean \"alias\"?",
                                           "state is not for payloads", "unknown property \"zoneid\""));
}

TEST(Creation, AKeyThatIsThereTwiceIsAFault) {
    EXPECT_EQ(read_payload(R"({"alias":"a","alias":"b"})").error().text(),
              "Invalid JSON payload: alias: duplicate key");
}

TEST(Creation, MemoryMayBeCalledRam) {
    EXPECT_EQ(machine(R"("ram":512)").max_physical_memory, 512);
    EXPECT_EQ(machine(R"("ram":512)").max_swap, 512);
    EXPECT_EQ(machine(R"("ram":512,"max_physical_memory":1024)").max_physical_memory, 1024);
    EXPECT_EQ(machine(R"("ram":"64")").max_swap, 256);
    EXPECT_EQ(machine(R"("ram":512,"max_physical_memory":null)").max_physical_memory, 512);
    EXPECT_EQ(machine(R"("ram":null)").max_physical_memory, 256);
    EXPECT_EQ(fault_of(R"("ram":"much")"), "ram: \"much\" is not a number of MiB (for example 2, or \"2G\")");
    EXPECT_EQ(fault_of(R"("ram":-1,"max_physical_memory":64)"), "ram: -1 is not within 0 to 1073741824");
    EXPECT_THAT(creation(R"("ram":512,"max_physical_memory":512)")->ignored, IsEmpty());
    EXPECT_THAT(creation(R"("ram":512,"max_physical_memory":64)")->ignored,
                ElementsAre("ram: max_physical_memory is given, too"));
}

TEST(Creation, SizesOutsideTheirBoundsAreClampedAloud) {
    auto const made = creation(R"("ram":512,"max_swap":100,"tmpfs":1000,"max_locked_memory":600)");
    ASSERT_TRUE(made);
    EXPECT_EQ(made->machine.max_swap, 512);
    EXPECT_EQ(made->machine.tmpfs, 512);
    EXPECT_EQ(made->machine.max_locked_memory, 512);
    EXPECT_THAT(made->notices,
                ElementsAre("max_swap: 100 becomes 512, which is the least with this max_physical_memory",
                            "max_locked_memory: 600 becomes 512, which is the most with this max_physical_memory",
                            "tmpfs: 1000 becomes 512, which is the most with this max_physical_memory"));
}

TEST(Creation, MemoryWithoutALimitIsTold) {
    auto const made = creation(R"("ram":0,"tmpfs":64,"max_locked_memory":8)");
    ASSERT_TRUE(made);
    EXPECT_EQ(made->machine.tmpfs, 64);
    EXPECT_EQ(made->machine.max_locked_memory, 8);
    EXPECT_THAT(made->notices,
                ElementsAre("max_physical_memory: 0 is no limit: the VM can use all memory of the host"));
    EXPECT_THAT(read_update(made->machine, *read_payload(R"({"alias":"x"})"))->notices, IsEmpty());
    EXPECT_THAT(read_update(machine(R"("ram":64)"), *read_payload(R"({"ram":0})"))->notices, SizeIs(1));
}

TEST(Creation, ItIsToldWhoseTheFilesOfTheHostAre) {
    auto const notices = [](std::string const& options) {
        return creation(R"("filesystems":[{"type":"lofs","source":"/a","target":"/x","options":)" + options + "}]")
            ->notices;
    };
    EXPECT_THAT(notices("[]"), ElementsAre(HasSubstr("filesystems[0]: the files of /a belong to nobody in the VM")));
    EXPECT_THAT(notices(R"(["idmap"])"), ElementsAre(HasSubstr("root of the VM writes there as root of the host")));
    EXPECT_THAT(notices(R"(["ro"])"), IsEmpty());
    EXPECT_THAT(notices(R"(["ro","idmap"])"), IsEmpty());
}

/// It stays changeable, and says nothing of what was asked for earlier.
TEST(Creation, OptionsThatAnEarlierVersionHasStoredAreNoFault) {
    Machine before = machine(R"("filesystems":[{"type":"lofs","source":"/a","target":"/x","options":["ro"]}])");
    before.filesystems[0].options = {"nosuid"};
    auto const update = read_update(before, *read_payload(R"({"alias":"x"})"));
    ASSERT_TRUE(update);
    EXPECT_THAT(update->notices, IsEmpty());
    EXPECT_FALSE(read_update(before, *read_payload(R"({"update_filesystems":[{"target":"/x","options":["nodev"]}]})")));
}

TEST(Creation, WhatIsAskedForInVainIsTold) {
    auto const made = creation(R"("firewall_enabled":true,"limit_priv":["proc_info"],"nowait":"true")");
    ASSERT_TRUE(made);
    EXPECT_THAT(made->notices,
                ElementsAre("firewall_enabled has no effect on this host", "limit_priv has no effect on this host",
                            "nowait has no effect on this host"));
    auto const off = creation(R"("firewall_enabled":false,"limit_priv":[],"nowait":"false","delegate_dataset":null)");
    ASSERT_TRUE(off);
    EXPECT_THAT(off->notices, IsEmpty());
    auto const both = creation(R"("init_name":"/sbin/x","launch":{"programs":{}})");
    ASSERT_TRUE(both);
    EXPECT_THAT(both->notices,
                ElementsAre("init_name: it is stored, but not used: the PID 1 of a VM with launch is triton-launch"));
}

TEST(Creation, WhatWouldLeaveItsPlaceIsRefused) {
    EXPECT_EQ(fault_of(R"("alias":"a\nb")"), "alias: must not have control characters: \"a\\nb\"");
    EXPECT_EQ(fault_of(R"("hostname":"../x")"), "hostname: \"../x\" is not a host name");
    EXPECT_EQ(fault_of(R"("uuid":"../../etc/passwd")"), "uuid: \"../../etc/passwd\" is not a UUID");
    EXPECT_EQ(fault_of(R"("init_name":"sbin/init")"), "init_name: \"sbin/init\" is not an absolute path");
    EXPECT_EQ(fault_of(R"("filesystems":[{"type":"lofs","source":"/a/../b","target":"/x"}])"),
              "filesystems[0].source: \"/a/../b\" must not have \"..\"");
    EXPECT_EQ(fault_of(R"("tags":{"a":{"b":1}})"), "tags.a: expected a string, a number or a boolean, found object");
}

TEST(Creation, DirectoriesOfTheHostHaveAKnownTypeAndAPlaceEach) {
    auto const fault = [](std::string const& type, std::string const& target) {
        return fault_of(R"("filesystems":[{"type":"lofs","source":"/a","target":"/x"},{"type":")" + type +
                        R"(","source":"/b","target":")" + target + R"("}])");
    };
    EXPECT_EQ(fault("bind", "/y"), "none");
    EXPECT_EQ(fault("zfs", "/y"), "filesystems[1].type: unknown type \"zfs\" (known: lofs, bind, volume)");
    EXPECT_EQ(fault("bind", "/x"), "filesystems[1].target: /x is there twice");
    auto const options = [](std::string const& list) {
        return fault_of(R"("filesystems":[{"type":"lofs","source":"/a","target":"/x","options":)" + list + "}]");
    };
    for (std::string const option : {"nosuid", "nodev", "noexec", "nodevices", "RO"})
        EXPECT_EQ(options("[\"ro\",\"" + option + "\"]"),
                  "filesystems[0].options: unknown option \"" + option + "\" (known: ro, readonly, rw, idmap)");
    EXPECT_EQ(options(R"(["readonly","rw"])"), "filesystems[0].options: rw and ro exclude each other");
    EXPECT_EQ(fault("bind", "/./x//"), "filesystems[1].target: /./x// is there twice");
    EXPECT_EQ(fault("bind", "/x/y"), "none");
    for (std::string const whole : {"//", "/.", "/./"})
        EXPECT_EQ(fault("bind", whole), "filesystems[1].target: would hide the whole of the machine");
}

TEST(Creation, TheFileOfAMachineReadsBackTheSame) {
    Machine made =
        machine(R"("alias":"wéb","cpu_cap":150,"tags":{"role":"web","n":1,"ok":true},"resolvers":["8.8.8.8"],)"
                R"("nics":[{"nic_tag":"external","ips":["10.0.0.2/24"],"gateways":["10.0.0.1"]}],)"
                R"("filesystems":[{"type":"lofs","source":"/data","target":"/mnt","options":["ro"]}])");
    made.phase = Phase::installed;
    made.first_uid = 1048576;
    auto const read = parse_file(file_text(made), "x.json");
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(file_text(*read), file_text(made));
    EXPECT_EQ(read->phase, Phase::installed);
    EXPECT_EQ(read->first_uid, 1048576);
    EXPECT_THAT(read->tags, IsEmpty());  // they are in a file of their own
}

TEST(Creation, AFileThatIsGarbageSaysWhere) {
    EXPECT_EQ(parse_file(R"({"uuid":7})", "m.json").error().text(),
              "cannot read m.json: uuid: expected a string, found number");
    EXPECT_EQ(parse_file("{}", "m.json").error().text(), "cannot read m.json: uuid: required key is missing");
    EXPECT_EQ(parse_file("\x01garbage", "m.json").error().kind, ErrorKind::corrupt);
}

TEST(Get, EmptyListsAndObjectsAreShownAndUnsetPropertiesAreNot) {
    std::string const text = public_text(machine());
    for (std::string_view const part :
         {R"("nics":[])", R"("resolvers":[])", R"("snapshots":[])", R"("tags":{})", R"("routes":{})",
          R"("customer_metadata":{})", R"("internal_metadata":{})", R"("firewall_enabled":false)", R"("type":"LX")"})
        EXPECT_THAT(text, HasSubstr(part));
    for (std::string_view const part : {"do_not_inventory", "alias", "first_uid", "phase", "nowait"})
        EXPECT_THAT(text, Not(HasSubstr(part)));
    EXPECT_THAT(public_text(machine(R"("do_not_inventory":true)")), HasSubstr(R"("do_not_inventory":true)"));
}

TEST(Updates, TheChangesAreListed) {
    Machine const before = machine(R"("alias":"a","cpu_cap":100)");
    EXPECT_EQ(changes_of(before, R"({"alias":"b","cpu_cap":"250","quota":10})"),
              "alias: \"a\" -> \"b\"\ncpu_cap: 100 -> 250\n");
    EXPECT_EQ(changes_of(before, R"({"alias":null,"cpu_cap":""})"), "alias: \"a\" -> \ncpu_cap: 100 -> \n");
}

TEST(Updates, WhatCannotBeChangedIsNamed) {
    auto const update = read_update(machine(), payload(R"({"uuid":"x","brand":"kvm","color":"red","state":"up"})"));
    ASSERT_TRUE(update);
    EXPECT_THAT(update->changes, IsEmpty());
    EXPECT_THAT(update->ignored, ElementsAre("uuid cannot be changed", "brand cannot be changed",
                                             "unknown property \"color\"", "state cannot be changed"));
}

TEST(Updates, APropertyOfVirtualHardwareIsRefused) {
    EXPECT_EQ(
        changes_of(machine(), R"({"vcpus":4})"),
        R"({"bad_properties":["vcpus"],"reasons":["vcpus: is for virtual hardware, which a container does not have"]})");
}

TEST(Updates, TheCompanionsOfMemoryFollowIt) {
    Machine const before = machine(R"("ram":512,"max_swap":768,"max_locked_memory":384,"tmpfs":256)");
    EXPECT_EQ(changes_of(before, R"({"ram":1024})"),
              "max_physical_memory: 512 -> 1024\nmax_swap: 768 -> 1280\nmax_locked_memory: 384 -> 896\n"
              "tmpfs: 256 -> 512\n");
    EXPECT_EQ(changes_of(before, R"({"max_physical_memory":1024,"tmpfs":1,"max_swap":2048})"),
              "max_physical_memory: 512 -> 1024\nmax_swap: 768 -> 2048\nmax_locked_memory: 384 -> 896\n"
              "tmpfs: 256 -> 1\n");
}

TEST(Updates, MemoryWithoutAValueIsTheDefault) {
    Machine const before = machine(R"("ram":512)");
    std::string const smaller =
        "max_physical_memory: 512 -> 256\nmax_swap: 512 -> 256\nmax_locked_memory: 512 -> 256\ntmpfs: 512 -> 256\n";
    EXPECT_EQ(changes_of(before, R"({"ram":null})"), smaller);
    EXPECT_EQ(changes_of(before, R"({"ram":"","max_physical_memory":null})"), smaller);
    EXPECT_THAT(changes_of(before, R"({"ram":null,"max_physical_memory":600})"), HasSubstr("512 -> 600"));
}

TEST(Updates, ASwapOnItsFloorIsTiedToTheMemoryAgain) {
    EXPECT_EQ(changes_of(machine(R"("ram":64)"), R"({"ram":512})"),
              "max_physical_memory: 64 -> 512\nmax_swap: 256 -> 512\nmax_locked_memory: 64 -> 512\n"
              "tmpfs: 64 -> 512\n");
}

TEST(Updates, KeysOfFlatObjectsAreSetAndRemoved) {
    Machine const before = machine(R"("tags":{"a":1,"b":"two"},"customer_metadata":{"k":"v"})");
    EXPECT_EQ(
        changes_of(before, R"({"set_tags":{"a":2,"c":true},"remove_tags":["b"],"remove_customer_metadata":["k"]})"),
        "tags: {\"a\":1,\"b\":\"two\"} -> {\"a\":2,\"c\":true}\ncustomer_metadata: {\"k\":\"v\"} -> {}\n");
    auto const update = read_update(before, payload(R"({"remove_tags":"z"})"));
    ASSERT_TRUE(update);
    EXPECT_THAT(update->ignored, ElementsAre("remove_tags: there is no \"z\""));
}

/// What can be set can be removed again.
TEST(Updates, AKeyWithACommaOrALineFeedIsRemoved) {
    Machine const before = machine(R"("tags":{"a,b":1,"c\nd":2})");
    EXPECT_EQ(changes_of(before, R"({"remove_tags":["a,b","c\nd"]})"), "tags: {\"a,b\":1,\"c\\nd\":2} -> {}\n");
}

constexpr char two_nics[] =
    R"("nics":[{"mac":"2:0:0:0:0:1","nic_tag":"external","ips":["10.0.0.2/24"]},)"
    R"({"mac":"02:00:00:00:00:02","nic_tag":"internal","ip":"192.168.1.2","netmask":"255.255.0.0"}])";

TEST(Updates, NicsAreAddedChangedAndRemovedByTheirMac) {
    Machine const before = machine(two_nics);
    auto const update = read_update(
        before,
        payload(R"({"add_nics":[{"mac":"02:00:00:00:00:03","nic_tag":"x","ips":["dhcp"]}],)"
                R"("update_nics":[{"mac":"2:0:0:0:0:2","ip":"192.168.1.3","netmask":"255.255.255.0","primary":true}],)"
                R"("remove_nics":["02:00:00:00:00:01","02:00:00:00:00:09"]})"));
    ASSERT_TRUE(update) << update.error().json();
    ASSERT_EQ(update->machine.nics.size(), 2U);
    EXPECT_EQ(update->machine.nics[0].ips, std::vector<std::string>{"192.168.1.3/24"});
    EXPECT_EQ(update->machine.nics[0].primary, true);
    EXPECT_EQ(update->machine.nics[0].interface, "eth1");
    EXPECT_EQ(update->machine.nics[1].ip, "dhcp");
    EXPECT_EQ(update->machine.nics[1].interface, "eth0");
    EXPECT_THAT(update->ignored, ElementsAre("remove_nics: there is no 02:00:00:00:00:09"));
    EXPECT_THAT(update->at_start(), ElementsAre("nics"));
}

TEST(Updates, TheFirstAddressIsChangedAloneByItsOldNames) {
    Machine const before =
        machine(R"("nics":[{"mac":"2:0:0:0:0:1","nic_tag":"e","ips":["fd00::5/64","10.0.0.5/24","10.0.0.6/24"],)"
                R"("gateways":["10.0.0.1","10.0.0.2"]}])");
    struct Row {
        std::string_view given;
        std::vector<std::string> ips, gateways;
    };
    std::vector<std::string> const gateways = before.nics[0].gateways;
    std::vector<Row> const rows{
        {R"("netmask":"255.255.0.0")", {"fd00::5/64", "10.0.0.5/16", "10.0.0.6/24"}, gateways},
        {R"("ip":"10.0.0.9")", {"fd00::5/64", "10.0.0.9/24", "10.0.0.6/24"}, gateways},
        {R"("ip":"dhcp")", {"fd00::5/64", "dhcp", "10.0.0.6/24"}, gateways},
        {R"("ip":"fd00::9/64")", {"fd00::5/64", "fd00::9/64", "10.0.0.6/24"}, gateways},
        {R"("ip":"10.0.0.9","ips":["10.0.0.7/24"])", {"10.0.0.7/24"}, gateways},
        {R"("gateway":"10.0.0.3")", before.nics[0].ips, {"10.0.0.3", "10.0.0.2"}},
        {R"("gateway":null)", before.nics[0].ips, {}},
    };
    for (Row const& row : rows) {
        std::string const text = R"({"update_nics":[{"mac":"2:0:0:0:0:1",)" + std::string(row.given) + "}]}";
        auto const update = read_update(before, payload(text));
        ASSERT_TRUE(update) << row.given << update.error().json();
        EXPECT_EQ(update->machine.nics[0].ips, row.ips) << row.given;
        EXPECT_EQ(update->machine.nics[0].gateways, row.gateways) << row.given;
    }
    Machine const without = machine(R"("nics":[{"mac":"2:0:0:0:0:1","nic_tag":"e","ips":["fd00::5/64"]}])");
    auto const update = read_update(
        without, payload(R"({"update_nics":[{"mac":"2:0:0:0:0:1","ip":"10.0.0.5","netmask":"255.0.0.0"}]})"));
    ASSERT_TRUE(update) << update.error().json();
    EXPECT_THAT(update->machine.nics[0].ips, ElementsAre("10.0.0.5/8", "fd00::5/64"));
}

TEST(Creation, AResolverIsOneAddress) {
    EXPECT_EQ(fault_of(R"("resolvers":["8.8.8.8","8.8.8.8/24"])"), "resolvers: \"8.8.8.8/24\" is not an address");
}

TEST(Updates, AFlagInATextMovesThePrimaryInterfaceToo) {
    for (std::string const yes : {"true", "\"true\""}) {
        auto const update = read_update(
            machine(two_nics), payload(R"({"add_nics":[{"nic_tag":"x","ips":["dhcp"],"primary":)" + yes + "}]}"));
        ASSERT_TRUE(update) << update.error().json();
        EXPECT_EQ(update->machine.nics[0].primary, std::nullopt);
        EXPECT_EQ(update->machine.nics[2].primary, true);
    }
}

/// An update is judged without its machine: by one that has all that it speaks of.
TEST(Updates, AStandInHasWhatTheyChange) {
    json::Object const update =
        payload(R"({"update_nics":[{"mac":"2:0:0:0:0:9","mtu":1400},{"mac":"02:00:00:00:00:09","vlan_id":4}],)"
                R"("remove_nics":["02:00:00:00:00:08"],"add_nics":[{"nic_tag":"e","ips":["dhcp"],"primary":true}],)"
                R"("remove_tags":["a,b"],"remove_customer_metadata":"k,l","remove_routes":["10.0.0.0/8","x"],)"
                R"("update_filesystems":[{"target":"/mnt","source":"/srv"}],"remove_filesystems":["/old"]})");
    json::Object creation_payload = stand_in(update);
    creation_payload.push_back({"brand", json::Node{std::string("lx")}});
    creation_payload.push_back({"image_uuid", json::Node{Uuid().text()}});
    auto const base = read_creation(creation_payload, 0);
    ASSERT_TRUE(base) << base.error().json();
    auto const read = read_update(base->machine, update);
    ASSERT_TRUE(read) << read.error().json();
    EXPECT_THAT(read->ignored, ElementsAre("remove_routes: there is no \"x\""));
    ASSERT_EQ(read->machine.nics.size(), 2U);
    EXPECT_EQ(read->machine.nics[0].mtu, 1400);
    EXPECT_EQ(read->machine.nics[0].vlan_id, 4);
    EXPECT_THAT(stand_in(payload(R"({"alias":"x","update_nics":5,"remove_nics":{},"add_nics":[]})")).size(), 1U);
}

TEST(Updates, AnotherInitNeedsAStart) {
    Machine const without = machine();
    Machine const with = machine(R"("launch":{"programs":{}})");
    EXPECT_THAT(read_update(without, payload(R"({"launch":{"programs":{}}})"))->at_start(), ElementsAre("launch"));
    EXPECT_THAT(read_update(with, payload(R"({"launch":null})"))->at_start(), ElementsAre("launch"));
    EXPECT_THAT(read_update(with, payload(R"({"launch":{"programs":{},"version":"1"}})"))->at_start(), IsEmpty());
}

TEST(Updates, ANicThatIsNotThereCannotBeChanged) {
    EXPECT_EQ(changes_of(machine(), R"({"update_nics":[{"mac":"02:00:00:00:00:09"}]})"),
              R"({"bad_values":["update_nics"],"reasons":["update_nics: there is no 02:00:00:00:00:09"]})");
    EXPECT_EQ(changes_of(machine(), R"({"add_nics":{}})"),
              R"({"bad_values":["add_nics"],"reasons":["add_nics must be an array."]})");
}

TEST(Nics, FormsAreBroughtIntoOne) {
    Machine const made = machine(two_nics);
    ASSERT_EQ(made.nics.size(), 2U);
    EXPECT_EQ(made.nics[0].mac, "02:00:00:00:00:01");
    EXPECT_EQ(made.nics[0].ip, "10.0.0.2");
    EXPECT_EQ(made.nics[0].netmask, "255.255.255.0");
    EXPECT_EQ(made.nics[0].primary, true);
    EXPECT_EQ(made.nics[0].interface, "eth0");
    EXPECT_EQ(made.nics[1].ips, std::vector<std::string>{"192.168.1.2/16"});
    EXPECT_EQ(made.nics[1].primary, std::nullopt);
    EXPECT_EQ(made.nics[1].interface, "eth1");
}

std::string nic_fault(std::string const& members) {
    return fault_of(R"("nics":[{"mac":"02:00:00:00:00:01","nic_tag":"e","ips":["10.0.0.2/24"]},)"
                    R"({"mac":"02:00:00:00:00:02","nic_tag":"e",)" +
                    members + "}]");
}

TEST(Nics, FaultsHaveTheWordsThatUsersKnow) {
    struct Row {
        std::string members, fault;
    };
    std::string const expected_address =
        " (expected an address with the length of its prefix or a netmask, as in 10.0.0.5/24)";
    std::string twenty_one = R"("ips":[)";
    for (int i = 10; i < 31; ++i)
        twenty_one += (i > 10 ? ",\"10.1.0." : "\"10.1.0.") + std::to_string(i) + "/24\"";
    for (Row const& row : std::vector<Row>{
             {R"("ips":["10.0.0.3/24"])", "none"},
             {R"("ips":["10.0.0.2/24"])", "Cannot add multiple NICs with the same IP: 10.0.0.2"},
             {R"("ips":["10.0.0.2/16"])", "Cannot add multiple NICs with the same IP: 10.0.0.2"},
             {R"("ips":["fe80::1/64","fe80:0::1/64"])", "Cannot add multiple NICs with the same IP: fe80::1"},
             {R"("ips":["10.0.0.3"])",
              "Invalid IP for NIC: 10.0.0.3 (without the length of its prefix, as in 10.0.0.5/24)"},
             {R"("ip":"10.0.0.3")",
              "Invalid IP for NIC: 10.0.0.3 (without the length of its prefix, as in 10.0.0.5/24)"},
             {R"("ip":"10.0.0.3","netmask":"255.0.255.0")",
              "Invalid IP for NIC: 10.0.0.3/255.0.255.0" + expected_address},
             {R"("ip":"10.0.0.3","netmask":"255.255.255.0")", "none"},
             {R"("ips":["10.0.0.300"])", "Invalid IP for NIC: 10.0.0.300" + expected_address},
             {R"("ips":["10.0.0.3/33"])", "Invalid IP for NIC: 10.0.0.3/33" + expected_address},
             {R"("ips":["fe80::1/64","addrconf"])", "none"},
             {R"("ips":["::/64"])", "Invalid IP for NIC: ::/64 (not the address of a host)"},
             {R"("ips":["::1/128"])", "Invalid IP for NIC: ::1/128 (not the address of a host)"},
             {R"("ips":["ff02::5/64"])", "Invalid IP for NIC: ff02::5/64 (not the address of a host)"},
             {R"("ips":["ff:2::5/64"])", "none"},
             {R"("ips":["0.0.0.0/24"])", "Invalid IP for NIC: 0.0.0.0/24 (not the address of a host)"},
             {R"("ips":["127.0.0.1/8"])", "Invalid IP for NIC: 127.0.0.1/8 (not the address of a host)"},
             {R"("ips":["224.0.0.5/24"])", "Invalid IP for NIC: 224.0.0.5/24 (not the address of a host)"},
             {R"("ips":["255.255.255.255/32"])", "Invalid IP for NIC: 255.255.255.255/32 (not the address of a host)"},
             {R"("ips":["10.0.0.3/24"],"gateways":["10.0.0.255"])",
              "Invalid gateway for NIC: 10.0.0.255 (the broadcast address of its network)"},
             {R"("ips":["10.0.0.254/31"],"gateways":["10.0.0.255"])", "none"},
             {R"("ips":["10.0.0.3/0"],"gateways":["255.255.255.254"])", "none"},
             {R"("ips":["dhcp"],"gateways":["0.0.0.0"])",
              "Invalid gateway for NIC: 0.0.0.0 (not the address of a host)"},
             {R"("ips":["dhcp"],"gateways":["224.0.0.1"])",
              "Invalid gateway for NIC: 224.0.0.1 (not the address of a host)"},
             {R"("ips":["dhcp"],"gateways":["127.0.0.1"])",
              "Invalid gateway for NIC: 127.0.0.1 (not the address of a host)"},
             {R"("ips":["fe80::1/64"],"mtu":1279)",
              "invalid .mtu option for NIC: 1279 (IPv6 needs 1280 or more: fe80::1/64)"},
             {R"("ips":["addrconf"],"mtu":1279)",
              "invalid .mtu option for NIC: 1279 (IPv6 needs 1280 or more: addrconf)"},
             {R"("ips":["10.0.0.3/24"],"mtu":1279)", "none"},
             {R"("ips":["fe80::1/64"],"mtu":1280)", "none"},
             {R"("ips":["dhcp"],"interface":"123")", "invalid .interface option for NIC: \"123\""},
             {R"("ips":["dhcp"],"gateways":["fe80::1"])", "Static gateways must be IPv4 addresses: fe80::1"},
             {R"("ips":["dhcp"],"primary":false)", "invalid value for NIC's primary flag: false (must be true)"},
             {R"("ips":["dhcp"],"mtu":100)", "nics[1].mtu: 100 is not within 576 to 9000"},
             {R"("ips":["dhcp"],"mtu":"1500")", "none"},
             {R"("ips":["dhcp"],"vlan_id":4096)", "nics[1].vlan_id: 4096 is not within 0 to 4095"},
             {R"("ips":["dhcp"],"allowed_dhcp_cids":["0x123"])", "Invalid DHCP client ID for NIC: 0x123"},
             {R"("ips":["dhcp"],"blocked_outgoing_ports":[25,"587"])", "none"},
             {R"("ips":["dhcp"],"blocked_outgoing_ports":[70000])", "Invalid blocked outgoing port for NIC: 70000"},
             {R"("ips":["dhcp"],"blocked_outgoing_ports":[2.5])",
              "nics[1].blocked_outgoing_ports[0]: expected a string, found number"},
             {R"("ips":["dhcp"],"vrrp_vrid":7)", "A NIC with .vrrp_vrid needs a .vrrp_primary_ip"},
             {R"("ips":["10.0.0.9/24"],"vrrp_vrid":7,"vrrp_primary_ip":"10.0.0.2")", "none"},
             {R"("ips":["10.0.0.9/24"],"vrrp_vrid":7,"vrrp_primary_ip":"10.0.0.9")",
              "Invalid vrrp_primary_ip for NIC: 10.0.0.9 (must be the IP of another NIC, without .vrrp_vrid)"},
             {twenty_one + "]", "nic.*.ips contains 21 addresses, but is limited to 20"},
         })
        EXPECT_EQ(nic_fault(row.members), row.fault) << row.members;
    for (std::string const mac : {"01:00:5e:00:00:01", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"})
        EXPECT_EQ(fault_of(R"("nics":[{"nic_tag":"e","ips":["dhcp"],"mac":")" + mac + R"("}])"),
                  "Invalid MAC for NIC: " + mac);
    EXPECT_THAT(fault_of(R"("nics":[{"ips":["dhcp"]}])"), testing::StartsWith("nic_tag is missing for NIC "));
    EXPECT_EQ(fault_of(R"("nics":[{"nic_tag":"a b","ips":["dhcp"]}])"), "invalid .nic_tag option for NIC: \"a b\"");
    EXPECT_EQ(
        fault_of(
            R"("nics":[{"nic_tag":"e","ips":["dhcp"],"primary":true},{"nic_tag":"e","ips":["dhcp"],"primary":true}])"),
        "payload specifies more than 1 primary NIC");
    EXPECT_EQ(
        fault_of(
            R"("nics":[{"mac":"2:0:0:0:0:1","nic_tag":"e","ips":["dhcp"]},{"mac":"02:00:00:00:00:01","nic_tag":"e","ips":["dhcp"]}])"),
        "Cannot add multiple NICs with the same MAC: 02:00:00:00:00:01");
}

/// As on SmartOS: the number decides the address, also when it changes.
TEST(Nics, AVirtualRouterHasTheMacOfItsNumber) {
    Machine made =
        machine(R"("nics":[{"nic_tag":"e","ips":["10.0.0.9/24"],"vrrp_vrid":26,"vrrp_primary_ip":"10.0.0.2",)"
                R"("mac":"02:00:00:00:00:09"},{"mac":"02:00:00:00:00:01","nic_tag":"e","ips":["10.0.0.2/24"]}])");
    EXPECT_EQ(made.nics[0].mac, "00:00:5e:00:01:1a");
    EXPECT_FALSE(made.nics[0].primary);
    EXPECT_EQ(made.nics[1].primary, true);
    auto const update =
        read_update(made, *read_payload(R"({"update_nics":[{"mac":"00:00:5e:00:01:1a","vrrp_vrid":7}]})"));
    ASSERT_TRUE(update) << update.error().json();
    EXPECT_EQ(update->machine.nics[0].mac, "00:00:5e:00:01:07");
    EXPECT_EQ(fault_of(R"("nics":[{"mac":"02:00:00:00:00:01","nic_tag":"e","ips":["10.0.0.2/24"]},)"
                       R"({"nic_tag":"e","ips":["10.0.0.8/24"],"vrrp_vrid":7,"vrrp_primary_ip":"10.0.0.2"},)"
                       R"({"nic_tag":"e","ips":["10.0.0.9/24"],"vrrp_vrid":7,"vrrp_primary_ip":"10.0.0.2"}])"),
              "Cannot add multiple NICs with the same VRID: 7");
}

TEST(Routes, DestinationsAndGatewaysAreChecked) {
    EXPECT_EQ(fault_of(R"("routes":{"10.2.0.0/16":"10.0.0.1","10.3.0.1":"nics[1]","10.4.0.0/16":"macs[2:0:0:0:0:1]"})"),
              "none");
    EXPECT_EQ(fault_of(R"("routes":{"here":"10.0.0.1"})"),
              "Invalid route destination: \"here\" (must be IP address or CIDR)");
    EXPECT_EQ(fault_of(R"("routes":{"10.2.0.0/16":"nics[x]"})"),
              "Invalid route gateway: \"nics[x]\" (must be IP address, nics[] or macs[])");
}

TEST(HostNames, HaveLabelsOf63Characters) {
    std::string const label(63, 'a');
    EXPECT_EQ(fault_of(R"("hostname":")" + label + "\""), "none");
    EXPECT_EQ(fault_of(R"("hostname":"a)" + label + "\""),
              "hostname: a" + label + " has 64 characters, and a label of a host name has 63 at most");
    EXPECT_EQ(fault_of(R"("hostname":"web-.example")"), "hostname: web- begins or ends with a dash");
    EXPECT_EQ(fault_of(R"("dns_domain":"a.-b")"), "dns_domain: -b begins or ends with a dash");
    // One that an earlier version has taken stays.
    Machine before = machine("");
    before.hostname = "a" + label;
    EXPECT_TRUE(read_update(before, *read_payload(R"({"alias":"x"})")));
    EXPECT_FALSE(read_update(before, *read_payload(R"({"hostname":"-"})")));
}

TEST(Sizes, MayHaveAUnit) {
    EXPECT_EQ(machine(R"("ram":"1G")").max_physical_memory, 1024);
    EXPECT_EQ(machine(R"("max_physical_memory":"1.5GiB","tmpfs":"64m")").max_physical_memory, 1536);
    EXPECT_EQ(machine(R"("quota":"2T")").quota, 2048);
    EXPECT_EQ(fault_of(R"("quota":"100M")"), "quota: \"100M\" is not a whole number of GiB (for example 2, or \"2G\")");
    EXPECT_EQ(fault_of(R"("ram":"1X")"), "ram: \"1X\" is not a number of MiB (for example 2, or \"2G\")");
    EXPECT_EQ(fault_of(R"("ram":"-1G")"), "ram: \"-1G\" is not a number of MiB (for example 2, or \"2G\")");
    EXPECT_EQ(fault_of(R"("ram":"9999999P")"), "ram: \"9999999P\" is not a number of MiB (for example 2, or \"2G\")");
    EXPECT_EQ(bytes_of("0.5K"), 512);
    EXPECT_EQ(bytes_of("nanG"), std::nullopt);
    EXPECT_EQ(bytes_of("1e3G"), std::nullopt);
}

TEST(Reference, EachPropertyThatMayBeSetIsInIt) {
    std::string const page = reference_page();
    for (Property const& property : properties()) {
        if (!property.is_settable()) continue;
        EXPECT_THAT(page, HasSubstr("`" + std::string(property.name) + "`"));
    }
}

TEST(Payload, AStreamSaysWhenItsMachineWasCreated) {
    auto payload = *read_payload(R"({"brand":"lx","create_timestamp":"2024-02-29T23:59:59.999Z"})");
    EXPECT_EQ(*take_create_timestamp(payload), "2024-02-29T23:59:59.999Z");
    EXPECT_EQ(payload.size(), 1U);
    EXPECT_EQ(*take_create_timestamp(payload), std::nullopt);
    for (char const* const value :
         {"1", "null", R"("")", R"("2023-02-29T23:59:59.999Z")", R"("2024-02-29T23:59:60.000Z")",
          R"("2024-02-29T23:59:59Z")", R"("2024-02-29t23:59:59.999Z")", R"("1969-12-31T23:59:59.999Z")",
          R"("2024-02-29T23:59:59.9999Z")", R"("+024-02-29T23:59:59.999Z")"}) {
        auto refused = *read_payload(std::string(R"({"create_timestamp":)") + value + "}");
        auto const taken = take_create_timestamp(refused);
        ASSERT_FALSE(taken) << value;
        EXPECT_THAT(taken.error().text(), HasSubstr("create_timestamp: expected a time such as 2026-")) << value;
    }
}

}  // namespace
}  // namespace triton::machine

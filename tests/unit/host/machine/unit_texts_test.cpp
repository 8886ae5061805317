#include "host/machine/unit_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::machine {
namespace {

Machine limited_machine() {
    Machine made;
    made.uuid = *Uuid::parse("371f18c0-9f73-6e86-94f6-c1cf71188d23");
    made.hostname = "web0";
    made.first_uid = 1048576;
    made.max_physical_memory = 512;
    made.max_swap = 768;
    made.max_locked_memory = 128;
    made.tmpfs = 64;
    made.cpu_cap = 150;
    made.cpu_shares = 20000;
    made.zfs_io_priority = 0;
    made.max_lwps = 300;
    return made;
}

MachinePaths const paths{"/pool/x/root", "/pool/x/config/launch", "/usr/bin/triton-launch"};
Init const systemd{.kill_signal = 37, .has_container_interface = true};

TEST(Nspawn, AMachineBootsTheInitOfItsImage) {
    EXPECT_EQ(nspawn_text(limited_machine(), paths, systemd),
              "# Made by vmadm from the properties of the machine, again at each start.\n"
              "[Exec]\nBoot=yes\nKillSignal=SIGRTMIN+3\nPrivateUsers=1048576:65536\nMachineID="
              "371f18c09f736e8694f6c1cf71188d23\n"
              "Hostname=web0\nNotifyReady=yes\nLinkJournal=no\nResolvConf=off\nTimezone=off\nLimitMEMLOCK=128M\n"
              "\n[Files]\nPrivateUsersOwnership=auto\nTemporaryFileSystem=/tmp:mode=1777,size=64M\n"
              "\n[Network]\nPrivate=yes\nVirtualEthernet=no\n");
}

TEST(Nspawn, AMachineWithALaunchConfigurationStartsTheLauncher) {
    Machine made = limited_machine();
    made.launch = json::Object{};
    made.alias = "it's \"x\"";
    made.tmpfs = 0;
    Init const launcher = init_of(made, "/nonexistent").value().value();
    EXPECT_EQ(nspawn_text(made, paths, launcher),
              "# Made by vmadm from the properties of the machine, again at each start.\n"
              "[Exec]\nBoot=no\nParameters=/run/triton/triton-launch --input-dir /run/triton/launch "
              "--input-monitor-conf config.json --control-socket /run/triton-launch/control\nKillSignal=SIGTERM\n"
              "PrivateUsers=1048576:65536\nMachineID=371f18c09f736e8694f6c1cf71188d23\nHostname=web0\nNotifyReady=yes\n"
              "LinkJournal=no\nResolvConf=off\nTimezone=off\nLimitMEMLOCK=128M\n"
              "Environment='TRITON_UUID=371f18c0-9f73-6e86-94f6-c1cf71188d23'\n"
              "Environment='TRITON_ALIAS=it'\"'\"'s \"x\"'\nEnvironment='TRITON_HOSTNAME=web0'\n"
              "Environment='TRITON_MEMORY_MIB=512'\n"
              "\n[Files]\nPrivateUsersOwnership=auto\n"
              "BindReadOnly=/usr/bin/triton-launch:/run/triton/triton-launch\n"
              "BindReadOnly=/pool/x/config/launch:/run/triton/launch\n"
              "\n[Network]\nPrivate=yes\nVirtualEthernet=no\n");
}

/// Both are read-only: what the machine changes goes through the socket.
TEST(Nspawn, MetadataIsADirectoryOfTheHost) {
    MachinePaths asked = paths;
    asked.metadata = "/run/triton/metadata/x";
    EXPECT_THAT(nspawn_text(limited_machine(), asked, systemd),
                testing::HasSubstr("\nBindReadOnly=/run/triton/metadata/x:/run/triton/metadata\n\n[Network]"));
    asked.metadata_client = "/usr/libexec/triton/triton-mdata";
    EXPECT_THAT(
        nspawn_text(limited_machine(), asked, systemd),
        testing::HasSubstr("\nBindReadOnly=/run/triton/metadata/x:/run/triton/metadata\n"
                           "BindReadOnly=/usr/libexec/triton/triton-mdata:/run/triton/metadata/usr/lib/mdata\n"));
}

TEST(Nspawn, FilesThatBelongToUidsOfTheHostStaySo) {
    MachinePaths shifted = paths;
    shifted.has_shifted_files = true;
    EXPECT_THAT(nspawn_text(limited_machine(), shifted, systemd),
                testing::HasSubstr("\nPrivateUsersOwnership=chown\n"));
}

TEST(Nspawn, AMachineWithNicsIsConnectedByItsFirstProgram) {
    MachinePaths connected = paths;
    connected.network = "/run/n/inside.json";
    connected.first_program = "/x/triton-machine-init";
    connected.links = {"VirtualEthernetExtra=tm1:eth0", "MACVLAN=eth1"};
    std::string const tail =
        "BindReadOnly=/x/triton-machine-init:/run/triton/triton-machine-init\n"
        "BindReadOnly=/run/n/inside.json:/run/triton/network.json\n"
        "\n[Network]\nPrivate=yes\nVirtualEthernet=no\nVirtualEthernetExtra=tm1:eth0\nMACVLAN=eth1\n";
    std::string const first = "[Exec]\nBoot=no\nParameters=/run/triton/triton-machine-init /run/triton/network.json";
    EXPECT_THAT(nspawn_text(limited_machine(), connected, systemd),
                testing::HasSubstr(first + "\nKillSignal=SIGRTMIN+3\n"));
    EXPECT_THAT(nspawn_text(limited_machine(), connected, systemd), testing::EndsWith(tail));
    Machine made = limited_machine();
    made.init_name = "/my init";
    EXPECT_THAT(nspawn_text(made, connected, systemd),
                testing::HasSubstr(first + " '/my init'\nKillSignal=SIGRTMIN+3\n"));
    made.launch = json::Object{};
    EXPECT_THAT(nspawn_text(made, connected, systemd),
                testing::HasSubstr(first + " /run/triton/triton-launch --input-dir "));
}

TEST(Nspawn, AnInitThatSaysNothingIsReadyWhenItRuns) {
    std::string const text = nspawn_text(limited_machine(), paths, init_of_name("busybox"));
    EXPECT_THAT(text, testing::HasSubstr("KillSignal=SIGUSR2\n"));
    EXPECT_THAT(text, testing::HasSubstr("NotifyReady=no\n"));
}

TEST(Nspawn, DirectoriesOfTheHostAreBound) {
    Machine made = limited_machine();
    made.filesystems = {{"lofs", "/da:ta", "/mnt/a b", {}, {"ro"}},
                        {"lofs", "/rw", "/rw", {}, {"rw"}},
                        {"lofs", "/ro", "/ro", {}, {"readonly", "idmap"}},
                        {"lofs", "/mine", "/mine", {}, {"idmap"}}};
    EXPECT_THAT(nspawn_text(made, paths, systemd),
                testing::HasSubstr("BindReadOnly=/da\\:ta:/mnt/a b\nBind=/rw:/rw\nBindReadOnly=/ro:/ro:idmap\n"
                                   "Bind=/mine:/mine:idmap\n"));
}

TEST(Nspawn, VolumesAreBoundByTheirLinksWithTheMachinesOwners) {
    Machine made = limited_machine();
    std::string const key = "00000000-0000-4000-8000-000000000001#0";
    made.filesystems = {{"volume", key, "/data", {}, {}}, {"volume", key, "/seen", {}, {"ro"}}};
    MachinePaths linked = paths;
    linked.volume_links = "/run/links";
    std::string const place = "/run/links/" + key;
    EXPECT_THAT(nspawn_text(made, linked, systemd),
                testing::HasSubstr("Bind=" + place + ":/data:idmap\nBindReadOnly=" + place + ":/seen:idmap\n"));
    linked.unmapped_volumes = {"another"};
    EXPECT_THAT(nspawn_text(made, linked, systemd), testing::HasSubstr("Bind=" + place + ":/data:idmap\n"));
    linked.unmapped_volumes = {key};
    EXPECT_THAT(nspawn_text(made, linked, systemd), testing::HasSubstr("Bind=" + place + ":/data\n"));
}

TEST(Environment, HasNicsAndMetadata) {
    Machine made = limited_machine();
    made.nics = {{.mac = "02:00:00:00:00:01", .nic_tag = "a", .ip = "10.0.0.1"},
                 {.mac = "02:00:00:00:00:02",
                  .interface = "eth1",
                  .nic_tag = "b",
                  .vlan_id = 7,
                  .ip = "10.0.0.2",
                  .netmask = "255.255.255.0",
                  .gateway = "10.0.0.254",
                  .primary = true},
                 {.mac = "02:00:00:00:00:03", .nic_tag = "c", .ip = "dhcp"}};
    made.dns_domain = "local";
    made.customer_metadata = {{"db.host", json::Node{"pg"}},
                              {"db-host", json::Node{"again"}},
                              {"port", json::Node{std::int64_t{5432}}},
                              {"lines", json::Node{"a\nb"}},
                              {"long", json::Node{std::string(5000, 'x')}}};
    EXPECT_THAT(launch_environment(made),
                testing::ElementsAre("TRITON_UUID=371f18c0-9f73-6e86-94f6-c1cf71188d23", "TRITON_HOSTNAME=web0",
                                     "TRITON_DNS_DOMAIN=local", "TRITON_MEMORY_MIB=512", "TRITON_NIC0_IP=10.0.0.1",
                                     "TRITON_NIC0_MAC=02:00:00:00:00:01", "TRITON_NIC0_TAG=a", "TRITON_IP=10.0.0.2",
                                     "TRITON_GATEWAY=10.0.0.254", "TRITON_NIC1_INTERFACE=eth1",
                                     "TRITON_NIC1_IP=10.0.0.2", "TRITON_NIC1_NETMASK=255.255.255.0",
                                     "TRITON_NIC1_GATEWAY=10.0.0.254", "TRITON_NIC1_MAC=02:00:00:00:00:02",
                                     "TRITON_NIC1_TAG=b", "TRITON_NIC1_VLAN=7", "TRITON_NIC2_MAC=02:00:00:00:00:03",
                                     "TRITON_NIC2_TAG=c", "TRITON_METADATA_DB_HOST=pg", "TRITON_METADATA_PORT=5432"));
}

TEST(Environment, OfNspawnGivesTheLauncherVersion2WhereTheHostHasNothingElse) {
    Machine made = limited_machine();
    EXPECT_EQ(nspawn_environment(made, true), "");
    made.launch = json::Object{};
    EXPECT_EQ(nspawn_environment(made, true), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1\n");
    EXPECT_EQ(nspawn_environment(made, false), "");
    made.tmpfs = 0;
    EXPECT_EQ(nspawn_environment(made, true), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1\nSYSTEMD_NSPAWN_TMPFS_TMP=0\n");
}

TEST(Limits, HaveTheUnitsOfSystemd) {
    EXPECT_THAT(unit_properties(limited_machine()),
                testing::ElementsAre(UnitProperty{"CPUQuotaPerSecUSec", 1'500'000}, UnitProperty{"CPUWeight", 10'000},
                                     UnitProperty{"IOWeight", 1}, UnitProperty{"MemoryHigh", 512ULL << 20},
                                     UnitProperty{"MemoryMax", 512ULL << 20},
                                     UnitProperty{"MemorySwapMax", 256ULL << 20}, UnitProperty{"TasksMax", 300}));
    Machine made = limited_machine();
    made.cpu_cap = 0;
    EXPECT_EQ(unit_properties(made).front(), (UnitProperty{"CPUQuotaPerSecUSec", unlimited}));
}

TEST(Units, NamesGoBothWays) {
    EXPECT_EQ(unit_of(limited_machine().uuid), "systemd-nspawn@371f18c0-9f73-6e86-94f6-c1cf71188d23.service");
    EXPECT_EQ(uuid_of_unit(unit_of(limited_machine().uuid)), limited_machine().uuid);
    EXPECT_EQ(uuid_of_unit("systemd-nspawn@web.service"), std::nullopt);
    EXPECT_EQ(uuid_of_unit("systemd-nspawn@.service"), std::nullopt);
    EXPECT_EQ(uuid_of_unit("ssh.service"), std::nullopt);
}

}  // namespace
}  // namespace triton::machine

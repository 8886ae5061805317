"""Links of machines on a host with a real systemd and a real nftables: what machines see, what they may send, what is left."""

import json
import subprocess
import sys
import time
import uuid as uuids

import pytest
from machine_place import configure, left_of
from test_faults import each_kill

from harness.slowness import FACTOR

BUSYBOX = "/usr/bin/busybox"
CONFIGURATION = {"network": {"nic_tags": {"internal": {"bridge": "tbr0"}, "gone": {"bridge": "tbr9"}, "external": {"macvlan": "tmac0"}, "tagged": {"bridge": "tvb0"}}}}
# The first thing that a machine does is to write down what it sees.
LOOK = f"mkdir -p /seen; cd /seen; for what in addr link route; do {BUSYBOX} ip $what >$what; done; exec {BUSYBOX} sleep 100000"


@pytest.fixture(scope="module", autouse=True)
def networks(host):
    configure(host, **CONFIGURATION)
    host.run("sh", "-ec", "ip link add tbr0 type bridge; ip addr add 10.77.0.1/24 dev tbr0; ip link set tbr0 up; ip link add tmac0 type veth peer name tmac1;"
             "ip link set tmac0 up; ip link set tmac1 up; ip addr add 10.78.0.1/24 dev tmac1", check=True)
    yield
    host.run("sh", "-ec", "ip link del tbr0; ip link del tmac0", check=True)
    configure(host)


def payload(image: str, **members) -> str:
    launch = {"programs": {"main": {"command": [BUSYBOX, "sh", "-c", LOOK]}}}
    return json.dumps({"brand": "lx", "image_uuid": image, "quota": 0, "launch": launch, **members})


def nic(number: int, **members) -> dict:
    return {"nic_tag": "internal", "mac": f"02:77:00:00:00:{number:02x}", "ips": [f"10.77.0.{number}/24"], **members}


def make(vmadm, image: str, *nics: dict, **members) -> str:
    uuid = str(uuids.uuid4())
    vmadm.ok("create", payload=payload(image, uuid=uuid, nics=list(nics), **members))
    return uuid


def sees(vmadm, uuid: str, *words: str) -> str:
    return vmadm.ok("exec", uuid, BUSYBOX, *words)


def answers(vmadm, uuid: str, address: str, *options: str) -> bool:
    return vmadm("exec", uuid, BUSYBOX, "ping", "-c", "1", "-W", "2", *options, address).returncode == 0


def links(host) -> set[str]:
    names = (line.split(":")[1].strip().split("@")[0] for line in host.run("ip", "-o", "link", check=True).stdout.splitlines())
    return {name for name in names if name.startswith(("tm0", "tn0"))}


def chains(host) -> set[str]:
    return {line.split()[1] for line in host.run("nft", "list", "chains", "netdev").stdout.splitlines() if line.strip().startswith("chain")}


def test_two_machines_find_their_network_when_they_start(host, vmadm, tiny):
    one = make(vmadm, tiny, nic(11, gateway="10.77.0.1", mtu=1400, interface="net7"), routes={"10.99.0.0/16": "10.77.0.12", "10.98.0.0/16": "nics[0]"})
    two = make(vmadm, tiny, nic(12, ips=["10.77.0.12/24", "fd77::12/64"]))
    for uuid in (one, two):
        sees(vmadm, uuid, "sh", "-c", "until [ -s /seen/route ]; do usleep 10000; done")
    assert "inet 10.77.0.11/24 brd 10.77.0.255 scope global net7" in sees(vmadm, one, "cat", "/seen/addr")
    link = sees(vmadm, one, "cat", "/seen/link")
    assert "net7@" in link and "mtu 1400" in link and "02:77:00:00:00:0b" in link and "UP" in link
    assert sorted(line.rstrip() for line in sees(vmadm, one, "cat", "/seen/route").splitlines()) == [
        "10.77.0.0/24 dev net7 scope link  src 10.77.0.11", "10.98.0.0/16 dev net7 scope link", "10.99.0.0/16 via 10.77.0.12 dev net7",
        "default via 10.77.0.1 dev net7"]
    assert "fd77::12/64 scope global" in sees(vmadm, two, "cat", "/seen/addr")
    assert answers(vmadm, one, "10.77.0.12") and answers(vmadm, two, "10.77.0.11") and answers(vmadm, one, "10.77.0.1")
    assert links(host) == {"tm02770000000b", "tm02770000000c"} == chains(host)

    leader = json.loads(vmadm.ok("get", one))["pid"]
    vmadm.ok("reboot", one)
    assert json.loads(vmadm.ok("get", one))["pid"] != leader
    assert answers(vmadm, one, "10.77.0.12")
    vmadm.ok("stop", one)
    assert links(host) == {"tm02770000000c"} == chains(host)
    vmadm.ok("start", one)
    assert answers(vmadm, two, "10.77.0.11")
    for uuid in (one, two):
        vmadm.ok("delete", uuid)
    assert links(host) == set() == chains(host)
    assert host.run("find", "/run/triton/network", "-mindepth", "1").stdout == ""


def test_a_debian_machine_has_its_address_and_its_own_init(host, vmadm, debian):
    uuid = make(vmadm, debian, nic(13), launch=None)
    leader = json.loads(vmadm.ok("get", uuid))["pid"]
    assert host.run("cat", f"/proc/{leader}/comm", check=True).stdout == "systemd\n"
    assert "10.77.0.13/24" in vmadm.ok("exec", uuid, "/usr/sbin/ip", "addr")
    assert host.run("/mnt/usr/bin/busybox", "ping", "-c", "1", "-W", "2", "10.77.0.13").returncode == 0


ADVERTISE = """
import socket, struct, sys
link = socket.if_nametoindex(sys.argv[1])
router = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
router.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
router.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, link)
prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 3600, 3600, 0) + socket.inet_pton(socket.AF_INET6, "fd79::")
router.sendto(struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + prefix, ("ff02::1", 0, 0, link))
"""


@pytest.mark.not_in_vm("its host is reached by a command only")
def test_addrconf_is_what_a_router_says(host, vmadm, tiny):
    """Also where the host gives its own settings to its namespaces, and refuses routers."""
    taker = make(vmadm, tiny, nic(31, ips=["addrconf"]))
    other = make(vmadm, tiny, nic(32))
    deadline = time.monotonic() + 30 * FACTOR
    while "fd79::" not in sees(vmadm, taker, "ip", "-6", "addr"):
        subprocess.run(["nsenter", "-t", str(host.leader), "-n", sys.executable, "-c", ADVERTISE, "tbr0"], check=True)
        assert time.monotonic() < deadline
    assert "default via fe80" in sees(vmadm, taker, "ip", "-6", "route")
    assert "fd79::" not in sees(vmadm, other, "ip", "-6", "addr")
    assert sees(vmadm, taker, "cat", "/proc/sys/net/ipv6/conf/eth0/accept_ra") == "1\n"
    assert sees(vmadm, other, "cat", "/proc/sys/net/ipv6/conf/eth0/accept_ra") == "0\n"


def test_a_virtual_router_has_its_address_and_leaves_its_ips_to_its_program(host, vmadm, tiny):
    router = {"nic_tag": "internal", "ips": ["10.77.0.99/24"], "vrrp_vrid": 7, "vrrp_primary_ip": "10.77.0.33"}
    one = make(vmadm, tiny, router, nic(33))
    nics = json.loads(vmadm.ok("get", one))["nics"]
    assert [(each["mac"], each.get("primary")) for each in nics] == [("00:00:5e:00:01:07", None), ("02:77:00:00:00:21", True)]
    assert "00:00:5e:00:01:07" in sees(vmadm, one, "ip", "link", "show", "eth0")
    assert "inet " not in sees(vmadm, one, "ip", "addr", "show", "eth0")
    two = make(vmadm, tiny, nic(34))
    assert not answers(vmadm, two, "10.77.0.99")
    sees(vmadm, one, "ip", "addr", "add", "10.77.0.99/24", "dev", "eth0")  # it is the master now
    assert answers(vmadm, two, "10.77.0.99")
    code, text = vmadm.says("create", payload=payload(tiny, nics=[{**router, "ips": ["10.77.0.98/24"], "vrrp_primary_ip": "10.77.0.35"}, nic(35)]))
    assert code == 1 and "please check the MAC, IP, and VRID" in text


def test_what_the_host_lacks_is_said_before_anything_is_made(host, vmadm, tiny):
    uuid = str(uuids.uuid4())
    for bad, text in [
        (nic(14, nic_tag="intrnal"), 'nics[0] (02:77:00:00:00:0e): unknown nic_tag "intrnal" (known: internal, gone, external, tagged)'),
        (nic(14, nic_tag="gone"), 'nics[0] (02:77:00:00:00:0e): bridge "tbr9" of nic_tag "gone" does not exist on this host'),
        (nic(14, mtu=9000), 'nics[0] (02:77:00:00:00:0e): mtu 9000 is more than the 1500 of bridge "tbr0" of nic_tag "internal"'),
        (nic(14, vlan_id=5), 'nics[0] (02:77:00:00:00:0e): vlan_id 5: bridge "tbr0" of nic_tag "internal" does not filter VLANs'),
    ]:
        assert vmadm.says("create", payload=payload(tiny, uuid=uuid, nics=[bad])) == (1, text + "\n")
        assert vmadm.says("get", uuid) == (1, f"VM {uuid} not found\n")
    code, text = vmadm.says("validate", "create", payload=payload(tiny, nics=[nic(14, nic_tag="x")]))
    assert code == 1 and 'unknown nic_tag "x"' in text
    assert links(host) == set()


def test_a_machine_sends_only_from_what_is_its_own(host, vmadm, tiny):
    one = make(vmadm, tiny, nic(21))
    make(vmadm, tiny, nic(22))
    assert answers(vmadm, one, "10.77.0.22")
    sees(vmadm, one, "ip", "addr", "add", "10.77.0.99/24", "dev", "eth0")
    assert not answers(vmadm, one, "10.77.0.22", "-I", "10.77.0.99")
    vmadm.ok("update", one, payload=json.dumps({"update_nics": [{"mac": "02:77:00:00:00:15", "allowed_ips": ["10.77.0.99"]}]}))
    assert answers(vmadm, one, "10.77.0.22", "-I", "10.77.0.99"), "rules take effect at once"
    sees(vmadm, one, "ip", "link", "set", "eth0", "address", "02:77:00:00:00:77")
    assert not answers(vmadm, one, "10.77.0.22")
    vmadm.ok("update", one, payload=json.dumps({"update_nics": [{"mac": "02:77:00:00:00:15", "allow_mac_spoofing": True}]}))
    # the other one has to hear of the new hardware address first
    assert any(answers(vmadm, one, "10.77.0.22") for _ in range(20))


def test_rules_of_machines_stay_when_the_firewall_of_the_host_changes(host, vmadm, tiny):
    one = make(vmadm, tiny, nic(23))
    make(vmadm, tiny, nic(24))
    sees(vmadm, one, "ip", "addr", "add", "10.77.0.98/24", "dev", "eth0")

    def rules_now() -> list[str]:
        return sorted(host.run("nft", "list", "table", "netdev", "triton").stdout.splitlines())

    rules = rules_now()
    assert any("10.77.0.23" in line for line in rules)
    for verb in ("start", "reload", "restart", "stop"):
        host.run("nft", "flush", "ruleset", check=True)
        host.run("systemctl", verb, "nftables", check=True)
        assert rules_now() == rules, verb
    assert answers(vmadm, one, "10.77.0.24")
    assert not answers(vmadm, one, "10.77.0.24", "-I", "10.77.0.98")
    assert "triton-machine-network: " not in host.run("journalctl", "-u", "nftables", check=True).stdout
    host.run("nft", "flush", "ruleset", check=True)
    done = host.run("/usr/libexec/triton/triton-machine-network", "guard")
    assert (done.returncode, done.stderr) == (0, "")
    assert rules_now() == rules


def test_nics_come_and_go_with_the_next_start(host, vmadm, tiny):
    uuid = make(vmadm, tiny, nic(31))
    done = vmadm("update", uuid, payload=json.dumps({"add_nics": [nic(32)]}))
    assert "note: nics takes effect when the VM is started again\n" in done.stderr
    assert links(host) == {"tm02770000001f"}
    vmadm.ok("reboot", uuid)
    assert links(host) == {"tm02770000001f", "tm027700000020"} == chains(host)
    assert "10.77.0.32" in sees(vmadm, uuid, "ip", "addr", "show", "eth1")
    vmadm.ok("update", uuid, payload=json.dumps({"remove_nics": ["02:77:00:00:00:1f"]}))
    vmadm.ok("reboot", uuid)
    assert links(host) == {"tm027700000020"} == chains(host)
    vmadm.ok("delete", uuid)
    assert links(host) == set() == chains(host)


def test_resolvers_are_written_and_maintained(host, vmadm, tiny):
    uuid = make(vmadm, tiny, resolvers=["10.0.0.53", "10.0.0.54"], dns_domain="example.org")
    text = "# Made by vmadm from the properties resolvers and dns_domain of the machine.\nsearch example.org\nnameserver 10.0.0.53\nnameserver 10.0.0.54\n"
    assert sees(vmadm, uuid, "cat", "/etc/resolv.conf") == text
    sees(vmadm, uuid, "sh", "-c", "echo mine >/etc/resolv.conf")
    vmadm.ok("update", uuid, payload='{"resolvers":["10.0.0.55"]}')
    vmadm.ok("reboot", uuid)
    assert sees(vmadm, uuid, "cat", "/etc/resolv.conf") == "mine\n"
    vmadm.ok("update", uuid, payload='{"maintain_resolvers":true}')
    assert sees(vmadm, uuid, "cat", "/etc/resolv.conf").endswith("nameserver 10.0.0.55\n")
    # a machine cannot make its host write elsewhere
    host.run("sh", "-c", "echo safe >/tmp/victim", check=True)
    sees(vmadm, uuid, "ln", "-sf", "/tmp/victim", "/etc/resolv.conf")
    vmadm.ok("update", uuid, payload='{"resolvers":["10.0.0.56"]}')
    assert sees(vmadm, uuid, "cat", "/etc/resolv.conf").endswith("nameserver 10.0.0.56\n")
    sees(vmadm, uuid, "sh", "-c", "mv /etc /etc.old; ln -s /tmp /etc")
    assert vmadm("update", uuid, payload='{"resolvers":["10.0.0.57"]}').returncode == 0
    assert host.run("ls", "/tmp/resolv.conf").returncode != 0
    assert host.run("cat", "/tmp/victim").stdout == "safe\n"


def test_a_bridge_may_be_too_small_for_ipv6(host, vmadm, tiny):
    """Below 1280 bytes the kernel has no IPv6 on a link, and refuses its settings."""
    host.run("sh", "-ec", "ip link add tvb0 type bridge; ip link set tvb0 mtu 1200; ip link set tvb0 up", check=True)
    try:
        uuid = make(vmadm, tiny, nic(0x35, nic_tag="tagged"))
        assert " mtu 1200 " in host.run("ip", "link", "show", "tm027700000035", check=True).stdout
        vmadm.ok("delete", uuid)
    finally:
        host.run("ip", "link", "del", "tvb0")


def test_ports_have_no_addresses_of_their_own(host, vmadm, tiny):
    uuid = make(vmadm, tiny, nic(0x36))
    assert "inet6" not in host.run("ip", "addr", "show", "tm027700000036", check=True).stdout
    vmadm.ok("delete", uuid)


def test_a_macvlan_is_only_for_those_who_may_send_anything(host, vmadm, tiny):
    external = {"nic_tag": "external", "mac": "02:77:00:00:00:41", "ips": ["10.78.0.41/24"]}
    code, text = vmadm.says("create", payload=payload(tiny, nics=[external]))
    assert code != 0 and text.startswith('nics[0] (02:77:00:00:00:41): nic_tag "external" is a macvlan, where nothing can limit what a machine sends: ')
    spoofing = {f"allow_{what}": True for what in ("dhcp_spoofing", "ip_spoofing", "mac_spoofing", "restricted_traffic")}
    uuid = make(vmadm, tiny, external | spoofing)
    assert answers(vmadm, uuid, "10.78.0.1")
    assert "02:77:00:00:00:41" in sees(vmadm, uuid, "ip", "link", "show", "eth0")
    vmadm.ok("delete", uuid)
    assert links(host) == set()


@pytest.fixture
def vlans(host):
    """A bridge that filters VLANs, and gives each port one that is not the usual one; and an address of the host in VLAN 5 of each."""
    made = host.run("sh", "-ec", "ip link add tvb0 type bridge vlan_filtering 1 vlan_default_pvid 9; ip link set tvb0 up; bridge vlan add dev tvb0 vid 5 self;"
                    "ip link add link tvb0 name tvb0.5 type vlan id 5; ip addr add 10.79.0.1/24 dev tvb0.5; ip link set tvb0.5 up;"
                    "ip link add link tmac1 name tmac1.5 type vlan id 5; ip addr add 10.80.0.1/24 dev tmac1.5; ip link set tmac1.5 up")
    yield made.returncode == 0 or made.stderr.strip()
    host.run("sh", "-c", "ip link del tvb0.5; ip link del tvb0; ip link del tmac1.5; ip link del tmac0.5")


def ports(host) -> dict[str, list[dict]]:
    shown = json.loads(host.run("bridge", "-j", "vlan", "show", check=True).stdout)
    return {port["ifname"]: port["vlans"] for port in shown if port["ifname"].startswith("tm0")}


def test_a_vlan_has_its_own_machines_and_no_others(host, vmadm, tiny, vlans):
    if vlans is not True:
        pytest.skip(f"this kernel has no VLANs: {vlans}")
    tagged = lambda number, vlan: nic(number, nic_tag="tagged", ips=[f"10.79.0.{number}/24"], vlan_id=vlan)  # noqa: E731
    one, two = make(vmadm, tiny, tagged(61, 5)), make(vmadm, tiny, tagged(62, 5))
    other = make(vmadm, tiny, tagged(63, 6))
    untagged = lambda vlan: [{"vlan": vlan, "flags": ["PVID", "Egress Untagged"]}]  # noqa: E731
    expected = {"tm02770000003d": untagged(5), "tm02770000003e": untagged(5), "tm02770000003f": untagged(6)}
    assert ports(host) == expected
    assert answers(vmadm, one, "10.79.0.62") and answers(vmadm, two, "10.79.0.1")
    assert not answers(vmadm, other, "10.79.0.61") and not answers(vmadm, other, "10.79.0.1")
    assert host.run("/mnt/usr/bin/busybox", "ping", "-c", "1", "-W", "2", "10.79.0.61").returncode == 0
    # what a machine tags itself goes nowhere, not even into its own VLAN
    sees(vmadm, other, "sh", "-c", "ip link add link eth0 name eth0.5 type vlan id 5 && ip addr add 10.79.0.64/24 dev eth0.5 && ip addr del 10.79.0.63/24 dev eth0 "
         "&& ip link set eth0.5 up")
    assert not answers(vmadm, other, "10.79.0.61")
    vmadm.ok("reboot", one)
    assert ports(host) == expected
    assert answers(vmadm, one, "10.79.0.62")
    vmadm.ok("update", one, payload=json.dumps({"update_nics": [{"mac": "02:77:00:00:00:3d", "vlan_id": 6}]}))
    vmadm.ok("reboot", one)
    assert ports(host)["tm02770000003d"] == untagged(6)
    assert not answers(vmadm, one, "10.79.0.62")


def test_a_vlan_of_a_macvlan_is_a_link_of_its_own(host, vmadm, tiny, vlans):
    if vlans is not True:
        pytest.skip(f"this kernel has no VLANs: {vlans}")
    spoofing = {f"allow_{what}": True for what in ("dhcp_spoofing", "ip_spoofing", "mac_spoofing", "restricted_traffic")}
    uuid = make(vmadm, tiny, {"nic_tag": "external", "mac": "02:77:00:00:00:65", "ips": ["10.80.0.65/24"], "vlan_id": 5} | spoofing)
    assert answers(vmadm, uuid, "10.80.0.1")
    assert "vlan protocol 802.1Q id 5" in host.run("ip", "-d", "link", "show", "tmac0.5", check=True).stdout
    vmadm.ok("delete", uuid)
    host.run("ip", "link", "show", "tmac0.5", check=True)  # it stays, for those that come


def test_a_network_of_nobody_is_removed_when_it_is_named(host, vmadm, tiny):
    """Where the state directory is not mounted, that of a machine that runs looks like this."""
    stray = str(uuids.uuid4())
    port = {"nic": "nics[0]", "mac": "02:77:00:00:00:51", "tag": "internal", "attachment": "bridge", "link": "tbr0", "vlan": 0, "mtu": 0,
            "alias": "x", "addresses": [], "rules": ["ether type ip accept"]}
    host.run("mkdir", "-p", f"/run/triton/network/{stray}", check=True)
    host.run("tee", f"/run/triton/network/{stray}/ports.json", input=json.dumps({"ports": [port]}), check=True)
    host.run("cp", f"/run/triton/network/{stray}/ports.json", f"/run/triton/network/{stray}/raised.json", check=True)
    host.run("ip", "link", "add", "tm027700000051", "type", "veth", "peer", "name", "tpeer", check=True)
    host.run("/usr/libexec/triton/triton-machine-network", "join", stray, check=True)
    assert links(host) == {"tm027700000051"} == chains(host)
    code, text = vmadm.says("recover")
    assert code == 0 and f"network of VM {stray}: there is no such VM; vmadm recover {stray} removes it\n" in text
    assert links(host) == {"tm027700000051"} == chains(host)
    code, text = vmadm.says("recover", stray)
    assert code == 0 and f"network of VM {stray}: removed, there is no such VM\n" in text
    assert links(host) == set() == chains(host)


def test_a_network_goes_with_what_is_killed(host, vmadm, tiny):
    """Its links, rules and files are there with the machine, or they are not."""
    uuid = str(uuids.uuid4())
    text = payload(tiny, uuid=uuid, nics=[nic(0x61)])
    port = "tm027700000061"

    def is_gone():
        assert left_of(host, uuid) == []
        assert links(host) == set() == chains(host)

    def after_create(number, is_repeated):
        if vmadm("get", uuid).returncode == 0:
            vmadm.ok("start", uuid)  # it may have been killed just before that
            assert links(host) == {port} == chains(host)
            vmadm.ok("delete", uuid)
        is_gone()

    assert each_kill(host, vmadm, "create", payload=text, after=after_create) >= 20

    def before_delete():
        if vmadm("get", uuid).returncode != 0:
            vmadm.ok("create", payload=text)

    def after_delete(number, is_repeated):
        if vmadm("get", uuid).returncode != 0:
            return is_gone()
        assert not is_repeated and number == 1, "it was killed before its first mark"
        assert links(host) == {port} == chains(host)

    assert each_kill(host, vmadm, "delete", uuid, before=before_delete, after=after_delete) > 15

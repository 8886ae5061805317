"""What a machine asks of its metadata from inside: mdata-get and its siblings, and the data that cloud-init reads."""

import contextlib
import json
import socket
import time

import pytest
from test_machines import BUSYBOX, new_uuid, payload, sleeping

GET, LIST, PUT, DELETE = (f"/usr/sbin/mdata-{name}" for name in ("get", "list", "put", "delete"))
PATIENCE = 60


def place_of(uuid):
    return f"/run/triton/metadata/{uuid}"


def metadata_of(vmadm, name, wanted):
    """By vminfod, which notices on its own what a machine has changed; what is there when the time is over counts."""
    deadline = time.monotonic() + PATIENCE
    while True:
        machine = json.loads(vmadm.ok("get", name))
        found = machine["customer_metadata"], machine["internal_metadata"]
        if found == wanted or time.monotonic() > deadline:
            return found


def test_a_machine_asks_for_its_metadata_and_changes_it(host, vmadm, debian):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(
        debian, uuid=uuid, alias="asks", hostname="asks0", tags={"role": "front"}, internal_metadata_namespaces=["ops"],
        customer_metadata={"root_authorized_keys": "ssh-ed25519 AAAA", "lines": "one\n.two\n"},
        internal_metadata={"root_pw": "secret", "hidden": "h", "ops:rack": "r1"}))
    inside = ("exec", "asks")
    assert vmadm.ok(*inside, GET, "root_authorized_keys") == "ssh-ed25519 AAAA\n"
    assert vmadm.ok(*inside, GET, "lines") == "one\n.two\n"
    assert vmadm.ok(*inside, GET, "sdc:uuid") == uuid + "\n"
    assert vmadm.ok(*inside, GET, "sdc:tags.role") == "front\n"
    assert vmadm.ok(*inside, GET, "ops:rack") == "r1\n"
    assert vmadm.ok(*inside, LIST).split() == ["root_authorized_keys", "lines", "root_pw", "ops:rack"]
    missing = vmadm(*inside, GET, "hidden")
    assert (missing.returncode, missing.stderr) == (1, "No metadata for 'hidden'\n")
    assert vmadm(*inside, GET).returncode == 3
    # Its changes are updates of the machine.
    vmadm.ok(*inside, PUT, "state", "ready")
    vmadm.ok(*inside, PUT, "from input", payload="two\nlines\n")
    vmadm.ok(*inside, PUT, "db_pw", "new")
    vmadm.ok(*inside, DELETE, "lines")
    vmadm.ok(*inside, DELETE, "nothing")
    changed = ({"root_authorized_keys": "ssh-ed25519 AAAA", "state": "ready", "from input": "two\nlines\n"},
               {"root_pw": "secret", "hidden": "h", "ops:rack": "r1", "db_pw": "new"})
    assert metadata_of(vmadm, "asks", changed) == changed
    for words in ((PUT, "sdc:alias", "x"), (PUT, "ops:rack", "x"), (DELETE, "ops:rack"), (PUT, "operator-script", "x")):
        refused = vmadm(*inside, *words)
        assert refused.returncode == 2 and refused.stderr.startswith("ERROR: "), words
    assert vmadm.ok(*inside, LIST).split("\n")[:-1] == ["root_authorized_keys", "state", "from input", "root_pw", "ops:rack", "db_pw"]
    assert metadata_of(vmadm, "asks", changed) == changed
    # What the operator changes is seen at once.
    vmadm.ok("update", "asks", payload=json.dumps({"set_customer_metadata": {"state": "changed"}}))
    assert vmadm.ok(*inside, GET, "state") == "changed\n"
    # Not in the history of commands, which a machine could fill.
    assert [json.loads(line)["command"] for line in vmadm.ok("history", "asks").splitlines()] == ["create", "update"]


def test_only_root_of_the_machine_asks(host, vmadm, debian):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(debian, uuid=uuid, alias="asks", customer_metadata={"k": "v"}))
    other = vmadm("exec", "asks", "setpriv", "--reuid=65534", "--clear-groups", GET, "k")
    assert other.returncode == 2 and "Permission denied" in other.stderr
    outside = host.run("setpriv", "--reuid=65534", "--clear-groups", "ls", place_of(uuid))
    assert outside.returncode != 0 and "Permission denied" in outside.stderr
    # Another machine has its own, and none of this one.
    vmadm.ok("create", payload=payload(debian, alias="other"))
    assert vmadm("exec", "other", GET, "k").returncode == 1
    assert vmadm.ok("exec", "other", "ls", "-A", "/run/triton/metadata").split() == [".zonecontrol", "seed", "usr"]


@pytest.mark.not_in_vm("the socket is reached from outside")
def test_what_clients_do_wrong_is_their_own_affair(host, vmadm, debian):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(debian, uuid=uuid, alias="asks", customer_metadata={"k": "v"}))
    address = host.socket(f"{place_of(uuid)}/.zonecontrol/metadata.sock")

    def connect():
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(PATIENCE)
        client.connect(address)
        return client

    with contextlib.ExitStack() as clients:
        silent = [clients.enter_context(connect()) for _ in range(14)]
        assert vmadm.ok("exec", "asks", GET, "k") == "v\n", "who keeps silent keeps nobody waiting"
        for client in silent:
            client.sendall(b"GET k\n" * 1000)
            client.shutdown(socket.SHUT_RD)  # and goes without its answers
        endless = clients.enter_context(connect())
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while True:
                endless.sendall(b"x" * (1 << 20))
        for line in (b"\0\xff\n", b"V2 1 2 3\n", b"V2 18446744073709551616 0 0 GET\n"):
            endless = clients.enter_context(connect())
            endless.sendall(line + b"NEGOTIATE V2\n")
            answer = b""
            while not answer.endswith(b"V2_OK\n"):
                answer += endless.recv(100)
    assert vmadm.ok("exec", "asks", GET, "k") == "v\n"


def test_it_ends_with_the_machine_and_comes_with_each_start(host, vmadm, debian):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(debian, uuid=uuid, alias="asks", customer_metadata={"k": "v"}))
    assert vmadm.ok("exec", "asks", GET, "k") == "v\n"
    vmadm.ok("reboot", "asks")
    assert vmadm.ok("exec", "asks", GET, "k") == "v\n"
    vmadm.ok("stop", "asks")
    assert host.run("test", "-e", place_of(uuid)).returncode == 1
    units = host.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "triton-machine-metadata@*").stdout
    assert uuid not in units
    vmadm.ok("start", "asks")
    assert vmadm.ok("exec", "asks", GET, "k") == "v\n"
    vmadm.ok("delete", "asks")
    assert host.run("test", "-e", place_of(uuid)).returncode == 1


def test_a_machine_with_a_launcher_has_it_too(host, vmadm, tiny):
    """Its image has no /usr/sbin: the commands are where machines of SmartOS have them."""
    vmadm.ok("create", payload=payload(tiny, alias="launches", customer_metadata={"k": "v"}, launch=sleeping()))
    assert vmadm.ok("exec", "launches", "/native/usr/sbin/mdata-get", "k") == "v\n"


def test_cloud_init_finds_its_data(host, vmadm, debian):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(debian, uuid=uuid, alias="cloud", hostname="cloud0", autoboot=False, customer_metadata={
        "root_authorized_keys": "ssh-ed25519 AAAA", "user-script": "echo here", "user-data": "#cloud-config\n"}))
    root = json.loads(vmadm.ok("get", "cloud"))["zonepath"] + "/root"
    assert host.run("test", "-e", f"{root}/var/lib/cloud").returncode == 1, "an image without cloud-init gets nothing of it"
    host.run("mkdir", f"{root}/etc/cloud", check=True)
    vmadm.ok("start", "cloud")
    seed = "/var/lib/cloud/seed/nocloud/"
    assert json.loads(vmadm.ok("exec", "cloud", "cat", seed + "meta-data")) == {
        "instance-id": uuid, "local-hostname": "cloud0", "public-keys": ["ssh-ed25519 AAAA"]}
    assert vmadm.ok("exec", "cloud", "cat", seed + "user-data") == "#cloud-config\n"
    assert "mdata-get user-script" in vmadm.ok("exec", "cloud", "cat", seed + "vendor-data")
    assert vmadm("exec", "cloud", "setpriv", "--reuid=65534", "--clear-groups", "cat", seed + "user-data").returncode != 0


def test_what_an_image_has_in_these_places_stays(host, vmadm, tiny):
    """A tree in which they lead elsewhere still starts, and nothing is written there."""
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="own", autoboot=False, launch=sleeping()))
    root = json.loads(vmadm.ok("get", "own"))["zonepath"] + "/root"
    host.run("sh", "-ec", f"rm {root}/native; mkdir -p /tmp/elsewhere {root}/etc/cloud; ln -s /tmp/elsewhere {root}/native;"
             f"ln -s /tmp/elsewhere {root}/usr/sbin; mkdir -p {root}/var/lib; ln -s /tmp/elsewhere {root}/var/lib/cloud", check=True)
    vmadm.ok("start", "own")
    assert host.run("ls", "-A", "/tmp/elsewhere", check=True).stdout == ""
    assert vmadm.ok("exec", "own", BUSYBOX, "readlink", "/native") == "/tmp/elsewhere\n"

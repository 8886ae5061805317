"""Clients of volumemgr that mean harm: it delays them, refuses them, and serves the others."""

import json
import os
import socket
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from volume_place import (  # noqa: E402,F401 (fixtures)
    PATIENCE, Client, Failed, area, is_created, is_gone, manager, needs_root, uuid, volume,
)

pytestmark = needs_root


def memory_of(process):
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")


def serves(manager):
    """It does what an honest client asks, soon."""
    client = manager.client()
    began = time.monotonic()
    key, config = volume()
    client.put(config)
    client.wait("VolumeStatus", key, is_created)
    client.delete(("VolumeConfig", key))
    client.wait("VolumeStatus", key, is_gone)
    client.close()
    return time.monotonic() - began


def test_ten_thousand_objects(manager):
    manager.start()
    client = manager.client()
    # They wait for content that nobody has configured: each stays, and none becomes a tree.
    made = [volume(ContentID="nothing", DisplayName="x" * 128)[1] for _ in range(10_000)]
    for begin in range(0, len(made), 500):
        client.put(*made[begin:begin + 500])
    assert len(client.statuses("VolumeStatus")) == 10_000
    assert serves(manager) < 30
    assert memory_of(manager.process) < 200 << 20
    manager.end()
    began = time.monotonic()
    manager.start()
    assert time.monotonic() - began < 20
    assert len(manager.client().statuses("VolumeStatus")) == 10_000


def test_a_thousand_watchers_that_do_not_read(manager):
    manager.start()
    client = manager.client()
    keys = [volume() for _ in range(100)]
    client.put(*(config for _, config in keys))
    for key, _ in keys:
        client.wait("VolumeStatus", key, is_created)
    deaf = []
    for _ in range(1000):
        one = Client(manager.socket)
        one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.send("Watch", more=True, follow=True)
        deaf.append(one)
    assert serves(manager) < 60
    assert memory_of(manager.process) < 300 << 20
    for one in deaf:
        one.close()
    assert serves(manager) < 30


def test_floods_and_rubbish(manager):
    manager.start()
    for rubbish in (b"\0" * 10_000, b"{" * 100_000 + b"\0", b'{"method":1}\0', b"\xff\xfe\0", b"x" * (2 << 20)):
        with socket.socket(socket.AF_UNIX) as bad:
            bad.connect(str(manager.socket))
            bad.settimeout(PATIENCE)
            try:
                bad.sendall(rubbish)
                bad.recv(1 << 16)
            except (BrokenPipeError, ConnectionResetError):
                pass
    flood = manager.client()
    _, config = volume()
    call = json.dumps({"method": "org.tritonlaunch.Volumes.Put",
                       "parameters": {"publisher": "flood", "objects": [{"kind": config[0], "config": config[1]}]}})
    flood.socket.sendall((call.encode() + b"\0") * 1000)
    assert serves(manager) < 30
    for _ in range(1000):
        flood.reply()
    assert len(manager.client().statuses("VolumeStatus")) == 1


@pytest.mark.parametrize(("publisher", "kind", "config"), [
    ("admin", "VolumeConfig", {"VolumeID": "../../../etc/passwd"}),
    ("admin", "VolumeConfig", {"VolumeID": uuid(1), "GenerationCounter": "0/../1"}),
    ("admin", "VolumeRefConfig", {"VolumeID": uuid(1), "AppUUID": "../x"}),
    ("admin", "VolumeRefConfig", {"VolumeID": uuid(1), "AppUUID": "a\nb"}),
    ("admin", "ContentTreeConfig", {"ContentID": ".."}),
    ("admin", "ContentTreeConfig", {"ContentID": "a/b"}),
    ("admin", "DatastoreConfig", {"UUID": uuid(1), "DsType": "http", "Fqdn": "file:///etc"}),
    ("admin", "DatastoreConfig", {"UUID": uuid(1), "DsType": "directory", "Fqdn": "/srv", "Dpath": "../etc"}),
    ("admin", "Nothing", {}),
    ("admin", "VolumeConfig", []),
    ("../admin", "VolumeConfig", {"VolumeID": uuid(1)}),
    ("a\nb", "VolumeConfig", {"VolumeID": uuid(1)}),
])
def test_names_lead_nowhere(manager, publisher, kind, config):
    manager.start()
    client = manager.client()
    with pytest.raises(Failed):
        client.put((kind, config), publisher=publisher)
    assert {name for name, _ in client.statuses()} <= {"VolumeMgrStatus"}  # which may come a moment later
    assert manager.trees() == []


def test_a_link_in_the_place_of_a_volume_is_not_followed(manager, area):
    """Only root can put one there; it must not lead a deletion out of the pool all the same."""
    outside = area / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    manager.start()
    client = manager.client()
    key, config = volume()
    client.put(config)
    client.wait("VolumeStatus", key, is_created)
    root = manager.tree(key) / "root"
    root.rmdir()
    root.symlink_to(outside)
    client.delete(("VolumeConfig", key))
    client.wait("VolumeStatus", key, is_gone)
    assert (outside / "kept").read_text() == "kept"


def test_only_root_may_ask(manager):
    manager.start()
    assert manager.socket.stat().st_mode & 0o777 == 0o600
    if os.geteuid() == 0:
        pid = os.fork()
        if pid == 0:
            os.setuid(65534)
            try:
                Client(manager.socket)
            except PermissionError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0

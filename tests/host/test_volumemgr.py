"""volumemgr: objects in, volumes out; what it knows outlives it."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess

import pytest
from recorded_disk import mount_fuse
from storage_places import OwnMounts
from volume_place import (  # noqa: F401 (fixtures)
    Failed, Manager, area, is_created, is_gone, manager, needs_root, uuid, volume,
)

pytestmark = needs_root


def test_a_blank_directory_is_made_and_removed(manager):
    manager.start()
    client = manager.client()
    key, config = volume(DisplayName="data")
    client.put(config)
    status = client.wait("VolumeStatus", key, is_created)
    assert (status["Publisher"], status["DisplayName"], status["ContentFormat"]) == ("admin", "data", "directory")
    root = manager.tree(key) / "root"
    assert root.is_dir() and root.stat().st_mode & 0o7777 == 0o755
    link = manager.state / "volumes/clear" / f"{key}.directory"
    assert link.resolve() == root.resolve()
    client.delete(("VolumeConfig", key))
    client.wait("VolumeStatus", key, is_gone)
    assert manager.trees() == [] and manager.left_over() == [] and not link.is_symlink()


def test_a_socket_of_systemd_is_served(manager):
    """It blocks, and who waits for a second client in accept(2) answers nobody."""
    with socket.socket(socket.AF_UNIX) as listener:
        manager.socket.parent.mkdir(parents=True)
        listener.bind(str(manager.socket))
        listener.listen()
        first = manager.client()
        manager.start(listener=listener)
        key, config = volume()
        first.put(config)
        first.wait("VolumeStatus", key, is_created)
        assert manager.client().statuses()["VolumeStatus", key]["State"] == "CREATED_VOLUME"


def test_a_blank_file_has_its_size_and_grows(manager):
    manager.start()
    client = manager.client()
    key, (kind, config) = volume(Layout="file", MaxVolSize=1 << 20)
    client.put((kind, config))
    client.wait("VolumeStatus", key, is_created)
    file = manager.tree(key) / f"{key}.raw"
    assert (file.stat().st_size, file.stat().st_mode & 0o7777) == (1 << 20, 0o600)
    file.write_bytes(b"kept")
    client.put((kind, {**config, "MaxVolSize": 4 << 20}))
    client.wait("VolumeStatus", key, lambda status: is_created(status) and status["MaxVolSize"] == 4 << 20)
    assert file.stat().st_size == 4 << 20 and file.read_bytes()[:4] == b"kept"
    client.put((kind, {**config, "MaxVolSize": 1 << 20}))
    status = client.wait("VolumeStatus", key, lambda status: "Error" in status)
    assert "cannot shrink" in status["Error"]["Text"] and "generation 1 is needed" in status["Error"]["Text"]
    assert file.read_bytes()[:4] == b"kept"


def test_what_was_made_is_there_after_a_kill(manager):
    manager.start()
    client = manager.client()
    keys = []
    for _ in range(20):
        key, config = volume()
        client.put(config)
        keys.append(key)
    for key in keys:
        client.wait("VolumeStatus", key, is_created)
    (manager.tree(keys[0]) / "root/file").write_text("kept")
    inode = manager.tree(keys[0]).stat().st_ino
    manager.end(signal.SIGKILL)
    manager.start()
    client = manager.client()
    for key in keys:
        client.wait("VolumeStatus", key, is_created)
    assert (manager.tree(keys[0]) / "root/file").read_text() == "kept"
    assert manager.tree(keys[0]).stat().st_ino == inode
    assert len(manager.trees()) == 20


def test_a_volume_in_use_stays_and_says_who_uses_it(manager):
    manager.start()
    client = manager.client()
    key, config = volume()
    reference = {"VolumeID": config[1]["VolumeID"], "GenerationCounter": 0, "AppUUID": "web"}
    client.put(config, ("VolumeRefConfig", reference))
    client.wait("VolumeStatus", key, is_created)
    assert client.statuses("VolumeRefStatus")["VolumeRefStatus", f"{key}#web"]["State"] == "CREATED_VOLUME"
    with pytest.raises(Failed) as failure:
        client.delete(("VolumeConfig", key))
    assert failure.value.reason == f"volume {key} is used by web"
    assert client.wait("VolumeStatus", key, is_created)["RefCount"] == 2
    client.delete(("VolumeRefConfig", f"{key}#web"))
    client.delete(("VolumeConfig", key))
    client.wait("VolumeStatus", key, is_gone)
    assert client.statuses() == {("VolumeMgrStatus", "volumemgr"): client.statuses()["VolumeMgrStatus", "volumemgr"]}


def test_a_file_that_is_written_has_one_user(manager):
    manager.start()
    client = manager.client()
    key, config = volume(Layout="file", MaxVolSize=4096)
    client.put(config)
    client.wait("VolumeStatus", key, is_created)
    use = lambda user: ("VolumeRefConfig", {"VolumeID": config[1]["VolumeID"], "GenerationCounter": 0, "AppUUID": user})  # noqa: E731
    client.put(use("one"))
    client.put(use("one"))
    with pytest.raises(Failed, match="a file that one writes"):
        client.put(use("two"))
    client.put((config[0], {**config[1], "ReadOnly": True}))
    client.put(use("two"))


def test_a_clone_has_what_its_source_had(manager):
    manager.start()
    client = manager.client()
    source, config = volume()
    client.put(config)
    client.wait("VolumeStatus", source, is_created)
    (manager.tree(source) / "root/file").write_text("one")
    key, clone = volume(VolumeContentOriginType="clone", Source=source)
    client.put(clone)
    client.wait("VolumeStatus", key, is_created)
    (manager.tree(source) / "root/file").write_text("two")
    assert (manager.tree(key) / "root/file").read_text() == "one"
    raw, config = volume(Layout="file", MaxVolSize=8192)
    copy, clone = volume(VolumeContentOriginType="clone", Source=raw, MaxVolSize=16384)
    client.put(clone, config)
    client.wait("VolumeStatus", copy, is_created)
    assert (manager.tree(copy) / f"{copy}.raw").stat().st_size == 16384


@pytest.mark.parametrize(("member", "value", "text"), [
    ("VolumeID", "../../etc", "VolumeConfig.VolumeID: ../../etc is no UUID"),
    ("DisplayName", "a\nb", "VolumeConfig.DisplayName: it has control characters"),
    ("MaxVolSize", -1, "VolumeConfig.MaxVolSize: expected a number"),
    ("MaxVolSize", 1 << 62, "VolumeConfig.MaxVolSize: expected a number"),
    ("ContentID", "a/../b", "VolumeConfig.ContentID: it is no name of a content tree"),
    ("Layout", "lvm", "VolumeConfig.Layout: lvm is not known"),
    ("Sizee", 1, "VolumeConfig.Sizee: unknown member"),
])
def test_what_makes_no_sense_is_refused_by_its_member(manager, member, value, text):
    manager.start()
    client = manager.client()
    _, (kind, config) = volume()
    with pytest.raises(Failed) as failure:
        client.put((kind, {**config, member: value}))
    assert failure.value.reason.startswith("objects[0]: " + text)
    assert manager.trees() == []


def test_all_objects_of_a_call_are_put_or_none(manager):
    manager.start()
    client = manager.client()
    key, config = volume()
    with pytest.raises(Failed, match=r'objects\[1\]: VolumeConfig.VolumeID: x is no UUID'):
        client.put(config, ("VolumeConfig", {"VolumeID": "x"}))
    with pytest.raises(Failed, match="there is no VolumeConfig"):
        client.call("Get", kind="VolumeConfig", key=key)
    client.put(config)
    assert client.call("Get", kind="VolumeConfig", key=key)["object"]["VolumeID"] == config[1]["VolumeID"]
    with pytest.raises(Failed, match="is published by admin"):
        client.put(config, publisher="vmadm")


def test_why_says_what_it_waits_for(manager):
    manager.start()
    client = manager.client()
    key, config = volume(ContentID="debian")
    client.put(config)
    lines = client.call("Why", key=key)["lines"]
    assert lines[-1] == "it waits for content tree debian, which nobody has configured"
    key, config = volume(Layout="file", MaxVolSize=1 << 59)
    client.put(config)
    status = client.wait("VolumeStatus", key, lambda status: "Error" in status and "Remaining" in status["Error"]["Text"])
    assert status["Error"]["Class"] == "room"
    key, config = volume(Encrypted=True)
    client.put(config)
    status = client.wait("VolumeStatus", key, lambda status: "Error" in status)
    assert (status["Error"]["Class"], status["State"]) == ("vault", "INITIAL")
    assert manager.trees() == []


def test_files_of_the_host_are_a_publisher_that_is_followed(manager):
    directory = manager.root / "etc/triton/volumes.d"
    directory.mkdir()
    first, config = volume()
    second, other = volume()
    write = lambda *objects: (directory / "volumes.json").write_text(json.dumps([{"kind": kind, "config": one} for kind, one in objects]))  # noqa: E731
    write(config)
    manager.start()
    client = manager.client()
    assert client.wait("VolumeStatus", first, is_created)["Publisher"] == "files"
    write(config, other)
    client.wait("VolumeStatus", second, is_created)
    (directory / "volumes.json").write_text("{")
    (directory / "other.json").write_text("[]")
    write(other)
    client.wait("VolumeStatus", first, is_gone)
    client.wait("VolumeStatus", second, is_created)


def test_it_ends_when_there_is_nothing_to_do_and_nobody_connected(manager):
    manager.start(idle="10ms")
    assert manager.process.wait(60) == 0
    manager.start(idle="1s")
    client = manager.client()
    key, config = volume()
    client.put(config)
    client.wait("VolumeStatus", key, is_created)
    assert manager.process.poll() is None
    client.close()
    assert manager.process.wait(60) == 0
    assert len(manager.trees()) == 1


def test_a_watcher_gets_the_latest_value_of_each_object(manager):
    manager.start()
    client = manager.client()
    slow = manager.client()
    slow.send("Watch", more=True, kind="VolumeStatus", follow=True)
    while not slow.reply().get("complete"):
        pass
    keys = []
    for _ in range(50):
        key, config = volume()
        client.put(config)
        keys.append(key)
    for key in keys:
        client.wait("VolumeStatus", key, is_created)
    seen = {}
    while not all(is_created(seen.get(key)) for key in keys):
        one = slow.reply()
        seen[one["key"]] = one["object"]
    client.delete(("VolumeConfig", keys[0]))
    while seen.get(keys[0]) is not None:
        one = slow.reply()
        seen[one["key"]] = one["object"]
    assert uuid(1) not in seen


def unclaim(manager, *keys):
    """As if who wanted them had never said so: the configurations are gone, and nobody has deleted them."""
    with contextlib.closing(sqlite3.connect(manager.state / "content/content.db")) as database:
        for key in keys:
            assert database.execute("DELETE FROM volume_object WHERE key = ?", (key,)).rowcount == 1
        database.commit()


def test_what_nobody_claims_is_collected_after_its_time_or_when_it_is_asked_for(manager):
    manager.start()
    client = manager.client()
    kept, config = volume(DisplayName="kept")
    key, unwanted = volume(DisplayName="unwanted")
    client.put(config, unwanted)
    for one in (kept, key):
        client.wait("VolumeStatus", one, is_created)
    manager.end()
    unclaim(manager, key)
    manager.start()
    client = manager.client()
    assert client.wait("VolumeStatus", key, is_created)["Publisher"] == "unknown"
    client.call("Maintenance", on=True)
    (victim,) = client.call("Collect", dry_run=True)["victims"]
    assert (victim["key"], victim["collected"]) == (key, False)
    client.call("Maintenance", on=False)
    while "publishers" in victim["reason"] or "maintenance" in victim["reason"]:  # the files are read meanwhile
        (victim,) = client.call("Collect", dry_run=True)["victims"]
    assert (victim["reason"], victim["collected"]) == ("nobody claims it", True)
    assert len(manager.trees()) == 2
    # Who claims it again has it as it was.
    (manager.tree(key) / "root/file").write_text("kept")
    client.put(unwanted)
    assert client.wait("VolumeStatus", key, lambda status: status["Publisher"] == "admin")
    assert (manager.tree(key) / "root/file").read_text() == "kept"
    manager.end()
    unclaim(manager, key)
    manager.start("--collect-after", "300ms")
    manager.client().wait("VolumeStatus", key, is_gone)
    assert manager.trees() == [kept.replace("#", ".")]


def test_a_foreign_tree_is_left_alone(manager):
    foreign = manager.pool / "volumes/clear"
    manager.start()
    client = manager.client()
    key, config = volume()
    client.put(config)
    client.wait("VolumeStatus", key, is_created)
    manager.end()
    stranger = uuid() + ".7"
    shutil.copytree(foreign / key.replace("#", "."), foreign / stranger)
    manager.start("--collect-after", "1ms")
    client = manager.client()
    client.call("Collect", dry_run=False)
    client.wait("VolumeStatus", key, is_created)
    assert sorted(manager.trees()) == sorted([stranger, key.replace("#", ".")])


def test_a_worker_that_hangs_is_replaced(area):
    """The file system of the links is frozen, as if its disk did not answer: what needs other ones goes on."""
    mounts = OwnMounts()
    frozen = area / "frozen"
    frozen.mkdir()
    disk = area / "disk"
    with disk.open("wb") as file:
        file.truncate(64 << 20)
    manager = Manager(area)
    is_frozen = False
    try:
        subprocess.run(["mkfs.ext4", "-q", disk], check=True)
        subprocess.run(["mount", "-o", "loop", disk, frozen], check=True)
        links = manager.state / "volumes"
        links.mkdir(parents=True)
        subprocess.run(["mount", "--bind", frozen, links], check=True)
        (manager.root / "etc/triton/triton.json").write_text(json.dumps(
            {"storage": {"backend": "directory"}, "volumes": {"workers": 2, "stuck_after": "200ms"}}))
        content = area / "content"
        content.write_bytes(b"x" * 1000)
        manager.start()
        client = manager.client()
        subprocess.run(["fsfreeze", "-f", frozen], check=True)
        is_frozen = True
        volumes = [volume() for _ in range(2)]
        client.put(*(config for _, config in volumes))
        # Both workers hang now. Content of this host is on another file system.
        store = uuid()
        client.put(("DatastoreConfig", {"UUID": store, "DsType": "directory", "Fqdn": str(area)}),
                   ("ContentTreeConfig", {"ContentID": "content", "RelativeURL": "content", "Format": "raw", "MaxDownloadSize": 4096,
                                          "ContentSha256": hashlib.sha256(content.read_bytes()).hexdigest(), "DatastoreIDList": [store]}))
        client.wait("ContentTreeStatus", "content", lambda status: status and status["State"] == "LOADED")
        assert "worker-stuck" in manager.log.read_text()
        subprocess.run(["fsfreeze", "-u", frozen], check=True)
        is_frozen = False
        for key, _ in volumes:
            client.wait("VolumeStatus", key, is_created)
        manager.end()
    finally:
        if is_frozen:
            subprocess.run(["fsfreeze", "-u", frozen], check=False)
        manager.end(signal.SIGKILL)
        mounts.close()


def test_a_pool_that_does_not_answer_is_said_and_waited_for(manager):
    mounts = OwnMounts()
    manager.pool.mkdir(parents=True)
    connection = None
    try:
        connection = mount_fuse(manager.pool, 0o40700)
        manager.start()
        client = manager.client()
        key, config = volume(Layout="file", MaxVolSize=4096)
        client.put(config)
        status = client.wait("VolumeStatus", key, lambda status: "Error" in (status or {}))
        assert status["Error"]["Text"] == "the free space of its file system cannot be found out"
        assert "the pool does not answer" in manager.log.read_text()
        subprocess.run(["umount", "-l", manager.pool], check=True)
        os.close(connection)
        connection = None
        client.wait("VolumeStatus", key, is_created)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    finally:
        if connection is not None:
            os.close(connection)
        manager.end(signal.SIGKILL)
        mounts.close()

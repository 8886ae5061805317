"""Snapshots as objects that somebody publishes: taken of several volumes, given back, removed, on each backend and after kills."""

import json
import os
import sqlite3

import pytest
from storage_places import BACKENDS, Lacking, OwnMounts, Place
from test_volume_backends import manager_on, run
from test_volumemgr_killed import kill_at_each_step
from volume_place import BUILD, Failed, Manager, area, is_created, is_gone, manager, needs_root, uuid, volume  # noqa: F401 (fixtures)

pytestmark = needs_root

MEGABYTE = 1 << 20


def snapshot(name, *volumes, **more):
    return "VolumesSnapshotConfig", {"SnapshotID": name, "VolumeIDs": list(volumes), **more}


def is_in(state, rollbacks=0):
    """Whether a status has that state, that many rollbacks, and no error."""
    return lambda status: status and (status["State"], status["RollbackCounter"]) == (state, rollbacks) and "Error" not in status


def fails(text):
    return lambda status: status and text in status.get("Error", {}).get("Text", "")


class Pair:
    """A directory and a file, with content that can be changed."""

    def __init__(self, manager, client):
        self.manager, self.client = manager, client
        self.directory, wanted = volume()
        self.file, self.wanted_file = volume(Layout="file", MaxVolSize=MEGABYTE)
        self.keys = [self.directory, self.file]
        client.put(wanted, self.wanted_file)
        for key in self.keys:
            client.wait("VolumeStatus", key, is_created)

    def path(self, key, suffix):
        return (self.manager.state / "volumes/clear" / f"{key}.{suffix}").resolve()

    def write(self, text):
        (self.path(self.directory, "directory") / "text").write_text(text)
        with self.path(self.file, "raw").open("r+b") as file:
            file.write(text.encode().ljust(8))

    def read(self):
        content = self.path(self.file, "raw").read_bytes()
        return [(self.path(self.directory, "directory") / "text").read_text(), content[:8].decode().strip()], len(content)

    def names(self, key):
        return [one["name"] for one in self.client.call("Snapshots", key=key)["snapshots"]]


@pytest.fixture(params=BACKENDS)
def place(request):
    mounts = OwnMounts()
    try:
        try:
            made = Place(request.param, size="600M")
        except Lacking as reason:
            pytest.skip(str(reason))
        made.manager = manager_on(made)
        made.manager.start()
        yield made
        made.manager.end(9)
        made.close()
    finally:
        mounts.close()


def test_a_snapshot_is_taken_given_back_and_removed(place):
    manager = place.manager
    client = manager.client()
    pair = Pair(manager, client)
    pair.write("old")
    client.put(snapshot("before", *pair.keys, AppUUID="web"))
    status = client.wait("VolumesSnapshotStatus", "before", is_in("CREATED"))
    assert (status["VolumeIDs"], status["AppUUID"], status["Publisher"]) == (pair.keys, "web", "admin")
    assert abs(status["TimeCreated"] - os.stat(manager.log).st_mtime) < 60
    # The methods leave it alone.
    assert pair.names(pair.directory) == []
    with pytest.raises(Failed, match="one of volumemgr's own"):
        client.call("DeleteSnapshot", key=pair.directory, name="triton-object-before")
    pair.write("new")
    client.put((pair.wanted_file[0], {**pair.wanted_file[1], "MaxVolSize": 2 * MEGABYTE}))
    client.wait("VolumeStatus", pair.file, lambda one: is_created(one) and one["MaxVolSize"] == 2 * MEGABYTE)
    client.put(snapshot("before", *pair.keys, RollbackCounter=1))
    client.wait("VolumesSnapshotStatus", "before", is_in("CREATED", 1))
    assert pair.read() == (["old", "old"], 2 * MEGABYTE), "a volume keeps the size that it has"
    # The same number again does nothing, also after a restart.
    pair.write("later")
    client.put(snapshot("before", *pair.keys, RollbackCounter=1))
    manager.end()
    manager.start()
    client = pair.client = manager.client()
    client.wait("VolumesSnapshotStatus", "before", is_in("CREATED", 1))
    assert pair.read()[0] == ["later", "later"]
    rows = json.loads(run(manager, "list", "-k", "snapshots", "-j"))
    assert [(one["SnapshotID"], one["State"]) for one in rows] == [("before", "CREATED")]
    client.delete(("VolumesSnapshotConfig", "before"))
    client.wait("VolumesSnapshotStatus", "before", is_gone)
    client.delete(*(("VolumeConfig", key) for key in pair.keys))
    for key in pair.keys:
        client.wait("VolumeStatus", key, is_gone)
    assert manager.left_over() == []


def test_a_rollback_waits_until_nobody_uses_the_volumes(manager):
    manager.start()
    client = manager.client()
    pair = Pair(manager, client)
    pair.write("old")
    client.put(snapshot("before", *pair.keys))
    client.wait("VolumesSnapshotStatus", "before", is_in("CREATED"))
    pair.write("new")
    user = ("VolumeRefConfig", {"VolumeID": pair.file.partition("#")[0], "GenerationCounter": 0, "AppUUID": "web"})
    client.put(user)
    client.put(snapshot("before", *pair.keys, RollbackCounter=1))
    client.wait("VolumesSnapshotStatus", "before", fails(f"volume {pair.file} is used by web"))
    assert pair.read()[0] == ["new", "new"]
    lines = run(manager, "why", "before")
    assert "is used by web" in lines and "it is rolled back when nobody uses it" in lines
    client.delete(("VolumeRefConfig", f"{pair.file}#web"))
    client.wait("VolumesSnapshotStatus", "before", is_in("CREATED", 1))
    assert pair.read()[0] == ["old", "old"]


def test_nobody_begins_to_use_a_volume_whose_rollback_was_begun(manager):
    """As after a kill in the middle of one."""
    manager.start()
    client = manager.client()
    pair = Pair(manager, client)
    pair.write("old")
    client.put(snapshot("before", *pair.keys))
    client.wait("VolumesSnapshotStatus", "before", is_in("CREATED"))
    with sqlite3.connect(manager.state / "content/content.db") as database:
        database.execute("UPDATE volume_snapshot SET stage = 2")
    user = ("VolumeRefConfig", {"VolumeID": pair.file.partition("#")[0], "GenerationCounter": 0, "AppUUID": "web"})
    with pytest.raises(Failed, match="is being rolled back to snapshot before"):
        client.put(user)
    pair.write("new")
    manager.end()
    manager.start()
    client = manager.client()
    client.wait("VolumesSnapshotStatus", "before", is_in("CREATED"))
    assert pair.read()[0] == ["old", "old"], "it was finished"
    client.put(user)


def test_a_snapshot_waits_for_its_volumes_and_is_refused_others(manager):
    manager.start()
    client = manager.client()
    key, wanted = volume()
    client.put(snapshot("before", key))
    client.wait("VolumesSnapshotStatus", "before", is_in("INITIAL"))
    assert f"it waits for volume {key}, which nobody has configured" in run(manager, "why", "before")
    client.put(wanted)
    client.wait("VolumesSnapshotStatus", "before", is_in("CREATED"))
    client.put(snapshot("before", key, f"{uuid()}#0"))
    client.wait("VolumesSnapshotStatus", "before", fails("it is of other volumes; another SnapshotID is needed"))
    client.put(snapshot("before", key))
    client.wait("VolumesSnapshotStatus", "before", is_in("CREATED"))
    client.delete(("VolumeConfig", key))
    client.wait("VolumesSnapshotStatus", "before", fails(f"volume {key} is not there"))
    client.delete(("VolumesSnapshotConfig", "before"))
    client.wait("VolumesSnapshotStatus", "before", is_gone)


def test_a_snapshot_of_a_publisher_that_does_not_repeat_it_goes(manager):
    manager.start()
    client = manager.client()
    key, wanted = volume()
    client.put(wanted)
    client.put(snapshot("before", key), publisher="base")
    client.wait("VolumesSnapshotStatus", "before", is_in("CREATED"))
    client.call("Restart", publisher="base")
    client.call("Complete", publisher="base")
    client.wait("VolumesSnapshotStatus", "before", is_gone)
    assert list((manager.tree(key).parent / "@snapshots").iterdir()) == []


@pytest.mark.skipif("asan" in str(BUILD), reason="a sanitizer wants to be loaded first")
@pytest.mark.parametrize("what", ["take", "give back", "remove"])
def test_a_kill_at_each_step(area, what):
    manager = Manager(area)
    keys = [f"{uuid(number)}#0" for number in (910, 911)]
    volumes = [volume(910)[1], volume(911, Layout="file", MaxVolSize=4096)[1]]
    files = [manager.tree(keys[0]) / "root/data", manager.tree(keys[1]) / f"{keys[1]}.raw"]

    def before(client):
        client.put(*volumes)
        for key in keys:
            client.wait("VolumeStatus", key, is_created)
        client.delete(("VolumesSnapshotConfig", "before"))
        client.wait("VolumesSnapshotStatus", "before", is_gone)
        for file in files:
            file.write_bytes(b"old")
        if what != "take":
            take(client)
        for file in files:
            file.write_bytes(b"new")

    def take(client):
        client.put(snapshot("before", *keys))
        client.wait("VolumesSnapshotStatus", "before", is_in("CREATED"))

    def give_back(client):
        client.put(snapshot("before", *keys, RollbackCounter=1))
        client.wait("VolumesSnapshotStatus", "before", is_in("CREATED", 1))

    def remove(client):
        client.delete(("VolumesSnapshotConfig", "before"))
        client.wait("VolumesSnapshotStatus", "before", is_gone)

    def after():
        kept = [list((manager.tree(key).parent / "@snapshots").iterdir()) for key in keys]
        assert all(len(one) == (what != "remove") for one in kept), kept
        wanted = b"old" if what == "give back" else b"new"
        assert all(file.read_bytes()[:3] == wanted for file in files)
        assert manager.left_over() == []

    assert kill_at_each_step(manager, before, {"take": take, "give back": give_back, "remove": remove}[what], after) > 5

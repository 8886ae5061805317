"""Volumes on each backend of host/storage: made, limited, snapshot, rolled back, cloned, removed; and on full disks."""

import json
import os
import subprocess

import pytest
from image_place import Layout, fill
from storage_places import BACKENDS, Lacking, OwnMounts, Place
from volume_place import BUILD, PATIENCE, Manager, area, is_created, is_gone, needs_root, volume  # noqa: F401 (fixtures)

pytestmark = needs_root

VOLUMEADM = BUILD / "volumeadm"
MEGABYTE = 1 << 20


@pytest.fixture
def places():
    made = []

    def make(backend, **more):
        mounts = OwnMounts()
        try:
            made.append((mounts, Place(backend, **more)))
        except Lacking as reason:
            mounts.close()
            pytest.skip(str(reason))
        return made[-1][1]

    yield make
    for mounts, place in made:
        place.close()
        mounts.close()


def manager_on(place):
    manager = Manager(place.root / "host", place.backend)
    storage = {"backend": place.backend}
    if place.backend == "zfs":
        storage |= {"dataset": f"{place.zpool}/volumes"}
    (manager.root / "etc/triton/triton.json").write_text(json.dumps({"storage": storage}))
    return manager


def run(manager, *words, code=0):
    done = subprocess.run([VOLUMEADM, *map(str, words)], env=manager.environment(), capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.returncode == code, f"volumeadm {words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def root_of(manager, key):
    return (manager.state / "volumes/clear" / f"{key}.directory").resolve()


@pytest.mark.parametrize("backend", BACKENDS)
def test_snapshots(places, backend):
    manager = manager_on(places(backend, size="600M"))
    manager.start()
    try:
        key = run(manager, "create", "data").strip()
        file = root_of(manager, key) / "file"
        file.write_text("one")
        run(manager, "snapshot", "data", "first")
        file.write_text("two")
        run(manager, "snapshot", "data", "second")
        assert run(manager, "snapshots", "data").split() == ["first", "second"]
        assert "exists" in run(manager, "snapshot", "data", "first", code=1)
        file.write_text("three")
        run(manager, "attach", "data", "web")
        assert "is used by web" in run(manager, "rollback", "data", "second", code=1)
        run(manager, "detach", "data", "web")
        run(manager, "rollback", "data", "second")
        assert (root_of(manager, key) / "file").read_text() == "two"
        if backend != "zfs":
            run(manager, "rollback", "data", "first")
            assert (root_of(manager, key) / "file").read_text() == "one"
        copy = run(manager, "clone", "data", "copy").strip()
        assert (root_of(manager, copy) / "file").read_text() == (root_of(manager, key) / "file").read_text()
        run(manager, "delete", "copy")
        run(manager, "delete-snapshot", "data", "first")
        assert [one["name"] for one in json.loads(run(manager, "snapshots", "-j", "data"))] == ["second"]
        run(manager, "snapshot", "data", "../x", code=1)
        run(manager, "delete", "data")
        assert manager.client().statuses("VolumeStatus") == {}
    finally:
        manager.end()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_size_is_enforced_or_refused(places, backend):
    manager = manager_on(places(backend, size="600M"))
    manager.start()
    try:
        client = manager.client()
        key, config = volume(MaxVolSize=16 * MEGABYTE)
        client.put(config)
        status = client.wait("VolumeStatus", key, lambda status: is_created(status) or (status or {}).get("Error"))
        if "Error" in status:
            assert status["Error"]["Class"] == "permanent" and "cannot limit a directory" in status["Error"]["Text"]
        else:
            with pytest.raises(OSError, match="quota|space"), (root_of(manager, key) / "file").open("wb") as file:
                for _ in range(40):
                    file.write(os.urandom(MEGABYTE))
                    file.flush()
                    os.fsync(file.fileno())
        client.delete(("VolumeConfig", key))
        client.wait("VolumeStatus", key, is_gone)
    finally:
        manager.end()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_image_becomes_a_volume(area, places, backend):
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "base", {"etc/a": "first"})])
    manager = manager_on(places(backend, size="600M"))
    manager.start()
    try:
        run(manager, "import", "app", area / "layout:1", "--format", "container")
        key = run(manager, "create", "--content", "app", "data").strip()
        (link,) = (manager.state / "volumes/clear").iterdir()
        assert link.name == f"{key}.container" and (link / "etc/a").read_text() == "first"
        run(manager, "delete", "data")
        run(manager, "delete", "-c", "app")
    finally:
        manager.end()


def fill_up(path, keep=0):
    """Leaves less than that many bytes."""
    for piece in (MEGABYTE, 4096, 512):
        try:
            with path.open("ab") as file:
                while os.statvfs(path.parent).f_bavail * os.statvfs(path.parent).f_frsize > keep:
                    file.write(bytes(piece))
                    file.flush()
                    os.fsync(file.fileno())
        except OSError:
            pass


@pytest.mark.parametrize("backend", ["directory", "reflink", "btrfs"])
def test_a_full_disk_heals_when_anybody_frees_room(places, backend):
    place = places(backend, size="600M")
    manager = manager_on(place)
    manager.start()
    try:
        client = manager.client()
        made, config = volume()
        client.put(config)
        client.wait("VolumeStatus", made, is_created)
        ballast = place.root / "ballast"
        # Something is left for the database; then nothing.
        fill_up(ballast, 30 * MEGABYTE)
        key, config = volume(Layout="file", MaxVolSize=40 * MEGABYTE)
        client.put(config)
        status = client.wait("VolumeStatus", key, lambda status: "Error" in (status or {}))
        assert status["Error"]["Class"] == "room"
        other, blank = volume()
        fill_up(place.root / "more")
        refused = None
        try:
            client.put(blank)
        except Exception as failure:  # noqa: BLE001
            refused = failure
        assert refused is None or "disk is full" in str(refused) or "space" in str(refused), refused
        (place.root / "more").unlink(missing_ok=True)
        ballast.unlink()
        client.put(blank)
        client.wait("VolumeStatus", key, is_created)
        client.wait("VolumeStatus", other, is_created)
        client.wait("VolumeStatus", made, is_created)
        assert len(client.statuses("VolumeStatus")) == 3
        client.delete(*(("VolumeConfig", one) for one in (key, other, made)))
        for one in (key, other, made):
            client.wait("VolumeStatus", one, is_gone)
    finally:
        manager.end()

"""A full disk, and one without inodes, at each stage of an import: the error is clear, what had been taken is given back,
and the same command works when there is room."""

import json
import os
import re

import pytest
from image_place import Host, Layout, Registry, area, fill, look, needs_root  # noqa: F401
from storage_places import Lacking, OwnMounts, Place, run

pytestmark = needs_root


@pytest.fixture
def small():
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


def host_on(place):
    host = Host(place.root / "host", place.backend)
    storage = {"backend": place.backend} | ({"dataset": f"{place.zpool}/i"} if place.backend == "zfs" else {})
    (host.root / "etc/triton/triton.json").write_text(json.dumps({"storage": storage}))
    return host


def free_of(path):
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize


def leave(root, room):
    """A file that leaves so many bytes free."""
    ballast = root / "ballast"
    ballast.unlink(missing_ok=True)
    with open(ballast, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free_of(root) - room, 1))


def fill_up(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(os.urandom(1 << 20))
        except OSError:
            pass


def no_room(text):
    told = (r"No space left on device", r"bytes are needed beside \d+ bytes that stay free, and \d+ are free",
            "disk is full", "out of space", "quota exceeded")
    return re.search("|".join(told), text)


def large_image(area, layout, random=6, repeated=60):
    """Megabytes of a layer that stay so many when it is compressed, and such that nearly vanish."""
    files = {f"d{number}/f": os.urandom(random << 16).hex() for number in range(8)}
    files |= {f"e{number}/f": f"{number}" * (repeated << 18) for number in range(4)}
    layout.make("1", [fill(area / "tree", files)])
    return f"oci:{layout.path}:1", look(layout.unpack("1", area / "umoci"))


def test_blocks_run_out_at_each_stage(area, small):
    place = small("directory", size="220M")
    host = host_on(place)
    reference, tree = large_image(area, Layout(area / "layout"))
    host.run("gc")  # the pool and the store are made once
    outcomes = []
    # From no room at all, by room for the blob and not for the tree, up to enough.
    for megabytes in (0, 0.1, 1, 64, 67, 68, 75, 100, 180):
        leave(place.root, int(megabytes * 1024) << 10)
        before = free_of(place.root)
        process = host.start("import", reference)
        _, errors = process.communicate(timeout=120)
        outcomes.append(process.returncode)
        if process.returncode == 0:
            break
        assert no_room(errors) and "NoSpace" in errors, f"{megabytes} MiB: {errors}"
        downloads = sum((host.state / "content/blobs/sha256" / name).stat().st_size for name in host.blobs())
        assert before - free_of(place.root) < 300_000 + downloads, f"{megabytes} MiB: not given back: {errors}"
        (place.root / "ballast").unlink()
        assert host.images() == []
        host.run("gc")
        assert host.left_over() == [] and host.layers() == []
    assert outcomes[0] == 1 and outcomes[-1] == 0 and len(outcomes) > 5
    (uuid,) = host.uuids()
    assert look(host.tree(uuid)) == tree
    # And a full disk does not keep an image from being deleted.
    leave(place.root, 0)
    host.run("delete", uuid)
    assert host.layers() == [] and host.left_over() == []


@pytest.mark.parametrize("lacking", ["blocks", "inodes"])
def test_what_makes_room_needs_none(area, small, lacking):
    place = small("directory")
    run("mount", "-t", "tmpfs", "-o", "size=200M,nr_inodes=900", "none", place.root)  # ext4 keeps some for root
    host = host_on(place)
    layout = Layout(area / "layout")
    for tag in ("1", "2", "3"):
        layout.make(tag, [fill(area / tag, {"f": tag * 1000})])
        host.run("import", f"oci:{layout.path}:{tag}")
    for words, left in ((["delete", host.uuids()[0]], 2), (["vacuum", "-f"], 0), (["gc"], 1)):
        ballast = place.root / "ballast"
        ballast.mkdir()
        for number in range(os.statvfs(place.root).f_ffree - 1 if lacking == "inodes" else 0):
            (ballast / str(number)).touch()
        fill_up(ballast / "blocks")
        facts = os.statvfs(place.root)
        assert (facts.f_bfree if lacking == "blocks" else facts.f_ffree) == 0
        host.run(*words)
        assert len(host.uuids()) == left
        run("rm", "-r", ballast)
        host.run("import", f"oci:{layout.path}:1")  # keeps the room again


@pytest.mark.parametrize("backend", ["reflink", "btrfs", "zfs"])
def test_a_full_pool_of_each_kind(area, small, backend):
    place = small(backend, size="400M" if backend == "reflink" else "300M")
    host = host_on(place)
    host.run("gc")
    reference, _ = large_image(area, Layout(area / "layout"))
    if backend == "zfs":  # one that is full gives room back by and by
        run("zfs", "set", "quota=8M", f"{place.zpool}/i")
    else:
        fill_up(place.root / "ballast")
    failed = host.run("import", reference, code=1).stderr
    assert no_room(failed) and "NoSpace" in failed, failed
    if backend == "zfs":
        run("zfs", "set", "quota=none", f"{place.zpool}/i")
    else:
        (place.root / "ballast").unlink()
        os.sync()
    assert host.images() == []
    host.run("import", reference)
    assert len(host.uuids()) == 1


def reserve_of(host):
    return {one.name: one.stat().st_blocks * 512 for one in (host.state / "content").glob("reserve.*")}


def test_a_full_btrfs_ends_no_command_by_a_signal(area, small):
    """SQLite maps the index of a write-ahead log into memory, and btrfs has no room for a page that is written there."""
    place = small("btrfs", size="300M")
    host = host_on(place)
    layout = Layout(area / "layout")
    for tag in ("1", "2"):
        layout.make(tag, [fill(area / tag, {"f": tag * 1000})])
    host.run("import", f"oci:{layout.path}:1")
    (uuid,) = host.uuids()
    fill_up(place.root / "ballast")
    os.sync()
    fill_up(place.root / "ballast2")
    failed = host.run("import", f"oci:{layout.path}:2", code=1).stderr
    assert no_room(failed) and "NoSpace" in failed, failed
    assert host.uuids() == [uuid]
    assert host.get(uuid)["manifest"]["uuid"] == uuid
    host.run("gc", "--dry-run")
    host.run("pin", uuid)
    host.run("unpin", uuid)
    host.run("delete", uuid)
    assert host.uuids() == [] and host.layers() == []


def test_only_who_makes_room_has_the_reserve_and_keeps_it_again(area, small):
    place = small("directory", size="220M")
    host = host_on(place)
    layout = Layout(area / "layout")
    for tag in ("1", "2"):
        layout.make(tag, [fill(area / tag, {"f": tag * 1000})])
        host.run("import", f"oci:{layout.path}:{tag}")
    kept = reserve_of(host)
    assert len(kept) == 8 and sum(kept.values()) >= 1 << 20
    fill_up(place.root / "ballast")
    for words in (["gc", "--dry-run"], ["vacuum", "--dry-run"], ["list"]):
        host.run(*words)
        assert reserve_of(host) == kept, words
    host.run("delete", host.uuids()[0])
    assert len(reserve_of(host)) == 8
    fill_up(place.root / "ballast2")
    host.run("delete", host.uuids()[0])
    assert host.uuids() == []


def test_a_host_that_never_had_much_room_has_a_smaller_reserve(area, small):
    place = small("directory", size="60M")
    host = host_on(place)
    host.run("gc")
    kept = reserve_of(host)
    assert len(kept) == 8 and 128 << 10 <= sum(kept.values()) < 1 << 20
    (place.root / "ballast").write_bytes(b"")
    fill_up(place.root / "ballast")
    host.run("gc")
    assert len(reserve_of(host)) == 8


def test_inodes_run_out_at_each_stage(area, small):
    place = small("directory", size="120M", inodes="900")
    host = host_on(place)
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "tree", {f"d{i % 7}/f{i}": str(i) for i in range(300)})])
    host.run("gc")
    ballast = place.root / "ballast"
    ballast.mkdir()
    outcomes = []
    for left in (0, 3, 6, 40, 70, 200, 700):
        for one in ballast.iterdir():
            one.unlink()
        for number in range(os.statvfs(place.root).f_ffree - left):
            (ballast / str(number)).touch()
        before = os.statvfs(place.root).f_ffree
        process = host.start("import", f"oci:{layout.path}:1")
        _, errors = process.communicate(timeout=120)
        outcomes.append(process.returncode)
        if process.returncode == 0:
            break
        assert re.search("No space left on device|is the disk full|inodes are free, and 64 must stay so", errors) and "NoSpace" in errors, errors
        assert before - os.statvfs(place.root).f_ffree < 20, errors
        for one in ballast.iterdir():
            one.unlink()
        host.run("gc")
        assert host.images() == [] and host.left_over() == [] and host.layers() == []
    assert outcomes[0] == 1 and outcomes[-1] == 0
    (uuid,) = host.uuids()
    assert look(host.tree(uuid)) == look(layout.unpack("1", area / "umoci"))


def test_what_a_registry_has_does_not_come_when_there_is_no_room_for_it(area, small):
    place = small("directory", size="156M")
    host = host_on(place)
    registry = Registry(area)
    try:
        layout = Layout(area / "layout")
        reference, tree = large_image(area, layout)
        name = registry.push(reference, "app:1")
        host.run("gc")
        leave(place.root, 66 << 20)
        before = free_of(place.root)
        failed = host.run("import", name, code=1).stderr
        assert re.search(r"bytes are needed beside \d+ bytes that stay free, and \d+ are free", failed) and "NoSpace" in failed, failed
        layer = max(one["size"] for one in layout.manifest("1")["layers"])
        assert layer > 2 << 20
        asked = [line for line in registry.requests("/blobs/sha256")]
        assert len(asked) <= 1, asked  # the configuration, and not the layer
        assert before - free_of(place.root) < 300_000
        (place.root / "ballast").unlink()
        host.run("import", name)
        (uuid,) = host.uuids()
        assert look(host.tree(uuid)) == tree
    finally:
        registry.close()


"""The power fails: what volumemgr has answered before is there afterwards, nothing half-made is taken for whole, and it repairs the rest.

A story of changes is played on a file system whose disk records every write and every flush. Then the disk is brought back as it is
after a cut at some of its flushes, and between them; volumemgr starts on each as after a reboot.
"""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest
from image_place import Layout, fill
from recorded_disk import RecordedDisk
from storage_places import OwnMounts, remove
from test_volume_content import datastore, tree
from volume_place import BUILD, PATIENCE, Client, Failed, Manager, is_created, is_gone, needs_root, uuid, volume

pytestmark = [needs_root, pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="the kernel has no FUSE")]

VOLUMEADM = BUILD / "volumeadm"
# How many cuts of each story are looked at, and which: another seed has other cuts, and loses other writes.
CUTS = int(os.environ.get("TRITON_POWER_CUTS", "4"))
SEED = int(os.environ.get("TRITON_POWER_CUT_SEED", "3"))
MEGABYTE = 1 << 20
DISK = random.Random(5).randbytes(300_000)
MAKE = {
    "directory": ("mkfs.ext4", "-q"),
    "reflink": ("mkfs.xfs", "-q", "-K", "-m", "reflink=1"),
    "btrfs": ("mkfs.btrfs", "-q", "-K"),
}


class Content:
    """What a volume has to have: a file's bytes, or the files of a directory by name. `meanwhile`: what it may have instead as long as
    nobody was told that it is there."""

    def __init__(self, wanted, suffix="raw", size=None, meanwhile=None):
        self.wanted = wanted
        self.suffix = suffix
        self.size = size
        self.meanwhile = meanwhile

    def check(self, manager, key):
        if isinstance(self.wanted, dict):
            root = manager.tree(key) / "root"
            found = {name: (root / name).read_bytes() if (root / name).is_file() else None for name in self.wanted}
            assert found == self.wanted
            return
        file = manager.tree(key) / f"{key}.{self.suffix}"
        found = file.read_bytes()
        assert self.size is None or len(found) == self.size, (len(found), self.size)
        assert found[:len(self.wanted)] == self.wanted and not found[len(self.wanted):].strip(b"\0")


GONE = "gone"


class Story:
    """What was asked for, what was answered, and when: by the position of the disk."""

    def __init__(self, area, disk, manager):
        self.area, self.disk, self.manager = area, disk, manager
        self.steps = []  # (position before, position after, name, {(key, snapshot): Content or GONE})
        self.images = area / "images"
        self.images.mkdir()

    @contextlib.contextmanager
    def step(self, name):
        facts = {}
        before = self.disk.position()
        yield facts
        self.steps.append((before, self.disk.position(), name, facts))

    def write(self, key, name, content, is_durable=True):
        """As a user of the volume does."""
        path = self.manager.tree(key) / name
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        if is_durable:
            directory = os.open(path.parent, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)

    def adm(self, *words):
        done = subprocess.run([VOLUMEADM, *map(str, words)], env=self.manager.environment(), capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def create(self, client, *volumes):
        client.put(*(config for _, config in volumes))
        for key, _ in volumes:
            client.wait("VolumeStatus", key, is_created)

    def delete(self, client, *keys):
        client.delete(*(("VolumeConfig", key) for key in keys))
        for key in keys:
            client.wait("VolumeStatus", key, is_gone)


def play_blank(story, client):
    """Directories and files: made, written, grown, snapshot, rolled back, cloned, removed."""
    directory, wanted = volume()
    with story.step("create a directory") as facts:
        story.create(client, (directory, wanted))
        facts[directory, None] = Content({})
    with story.step("write to it") as facts:
        facts[directory, None] = Content({"kept": b"kept"})
        story.write(directory, "root/kept", b"kept")
    file, wanted_file = volume(Layout="file", MaxVolSize=MEGABYTE)
    with story.step("create a file") as facts:
        story.create(client, (file, wanted_file))
        facts[file, None] = Content(b"", size=MEGABYTE)
    many = [volume() for _ in range(6)]
    with story.step("create several at once") as facts:
        story.create(client, *many)
        facts |= {(key, None): Content({}) for key, _ in many}
    # What was not made durable by whoever wrote it is in a snapshot, and in a clone.
    with story.step("write to the file, and take a snapshot") as facts:
        with (story.manager.tree(file) / f"{file}.raw").open("r+b") as opened:
            opened.write(b"first")
        client.call("Snapshot", key=file, name="first")
        facts[file, None] = Content(b"first", size=MEGABYTE)
        facts[file, "first"] = Content(b"first")  # the volume keeps the size that it has at a rollback
    clone, wanted = volume(VolumeContentOriginType="clone", Source=directory)
    with story.step("write to the directory, and clone it") as facts:
        story.write(directory, "root/new", b"new" * 2000, is_durable=False)
        story.create(client, (clone, wanted))
        facts[directory, None] = Content({"kept": b"kept"})
        facts[clone, None] = Content({"kept": b"kept", "new": b"new" * 2000}, meanwhile=Content({"kept": b"kept"}))
    copy, wanted = volume(VolumeContentOriginType="clone", Source=file, MaxVolSize=MEGABYTE)
    with story.step("clone the file") as facts:
        story.create(client, (copy, wanted))
        facts[copy, None] = Content(b"first", size=MEGABYTE)
    with story.step("grow the file") as facts:
        client.put((wanted_file[0], {**wanted_file[1], "MaxVolSize": 2 * MEGABYTE}))
        client.wait("VolumeStatus", file, lambda status: is_created(status) and status["MaxVolSize"] == 2 * MEGABYTE)
        facts[file, None] = Content(b"first", size=2 * MEGABYTE)
    with story.step("remove several at once") as facts:
        story.delete(client, *(key for key, _ in many[1:]))
        facts |= {(key, None): GONE for key, _ in many[1:]}
    with story.step("change the clone's source") as facts:
        facts[directory, None] = Content({"kept": b"other"})
        story.write(directory, "root/kept", b"other")
    with story.step("take a snapshot of it") as facts:
        client.call("Snapshot", key=directory, name="second")
        facts[directory, "second"] = Content({"kept": b"other"})
    with story.step("write to it again") as facts:
        facts[directory, None] = Content({"kept": b"third"})
        story.write(directory, "root/kept", b"third")
    with story.step("roll it back") as facts:
        client.call("Rollback", key=directory, name="second")
        facts[directory, None] = Content({"kept": b"other"})
    with story.step("delete its snapshot") as facts:
        client.call("DeleteSnapshot", key=directory, name="second")
        facts[directory, "second"] = GONE
    with story.step("remove the clone") as facts:
        story.delete(client, clone)
        facts[clone, None] = GONE
    with story.step("make one anew") as facts:
        story.create(client, many[1])
        facts[many[1][0], None] = Content({})


def play_content(story, client):
    """Disks, images and seeds; streams of volumes."""
    store, config = datastore("directory", story.images)
    (story.images / "disk.raw").write_bytes(DISK)
    raw, wanted = volume(ContentID="disk", MaxVolSize=MEGABYTE)
    with story.step("fetch a disk") as facts:
        client.put(config, tree("disk", store, DISK))
        story.create(client, (raw, wanted))
        facts[raw, None] = Content(DISK, size=MEGABYTE)
    again, wanted = volume(ContentID="disk")
    with story.step("use it again") as facts:
        story.create(client, (again, wanted))
        facts[again, None] = Content(DISK, size=len(DISK))
    if shutil.which("qemu-img"):
        subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", story.images / "disk.raw", story.images / "disk.qcow2"], check=True)
        packed = (story.images / "disk.qcow2").read_bytes()
        converted, wanted = volume(ContentID="packed", Format="raw", MaxVolSize=MEGABYTE)
        with story.step("convert a disk") as facts:
            client.put(tree("packed", store, packed, "disk.qcow2", "qcow2"))
            story.create(client, (converted, wanted))
            facts[converted, None] = Content(DISK, size=MEGABYTE)
    if shutil.which("xorriso"):
        user_data = story.area / "user-data"
        user_data.write_text("#cloud-config\n")
        user_data.chmod(0o600)
        seed, wanted = volume(VolumeContentOriginType="cloudInit", UserDataFile=str(user_data))
        with story.step("make a seed") as facts:
            story.create(client, (seed, wanted))
            facts[seed, None] = Content((story.manager.tree(seed) / f"{seed}.iso").read_bytes(), "iso")
    stream = story.area / "stream"
    stream.write_bytes(story.adm("send", again))
    with story.step("receive a volume") as facts:
        received = story.adm("receive", "-f", stream, "--new", "received").decode().strip()
        facts[received, None] = Content(DISK, size=len(DISK))
    layout = Layout(story.area / "layout")
    layout.make("1", [fill(story.area / "base", {"etc/a": "first"})])
    with story.step("import an image"):
        story.adm("import", "app", f"{story.area}/layout:1", "--format", "container")
    container, wanted = volume(ContentID="app")
    with story.step("make a volume of it") as facts:
        story.create(client, (container, wanted))
        facts[container, None] = Content({"etc/a": b"first"})
    with story.step("remove it, and its image") as facts:
        story.delete(client, container)
        client.delete(("ContentTreeConfig", "app"))
        client.wait("ContentTreeStatus", "app", is_gone)
        facts[container, None] = GONE
    with story.step("remove a disk's volume") as facts:
        story.delete(client, raw)
        facts[raw, None] = GONE


STORIES = {"blank": play_blank, "content": play_content}


def settle(client, key):
    """Waits until the manager has nothing to do for a volume; returns whether it is there."""
    try:
        config = client.call("Get", kind="VolumeConfig", key=key)["object"]
    except Failed:
        client.wait("VolumeStatus", key, is_gone)
        return False
    client.wait("VolumeStatus", key, lambda status: is_created(status) and status["MaxVolSize"] >= config["MaxVolSize"])
    return True


class Aftermath:
    """The host after a cut."""

    def __init__(self, manager, story, cut):
        self.manager, self.client, self.story, self.cut = manager, manager.client(), story, cut
        self.before, self.possible = {}, {}
        for begin, end, _, facts in story.steps:
            for name, fact in facts.items():
                if end <= cut.position:
                    self.before[name] = fact
                elif begin <= cut.position:
                    self.possible[name] = fact
        self.begun = [name for begin, _, name, _ in story.steps if begin <= cut.position][-1]
        self.volumes = sorted({key for key, _ in [*self.before, *self.possible]})

    def check_volume(self, key):
        """Returns whether it is there."""
        allowed = [fact for fact in (self.before.get((key, None), GONE), self.possible.get((key, None))) if fact is not None]
        is_there = settle(self.client, key)
        if not is_there:
            assert GONE in allowed, f"volume {key} is lost"
            return False
        contents = [fact for fact in allowed if fact is not GONE]
        assert contents, f"volume {key} is there again"
        possible = self.possible.get((key, None), GONE)
        if possible is not GONE and possible.meanwhile:
            contents.insert(0, possible.meanwhile)
        for content in contents[:-1]:
            with contextlib.suppress(AssertionError):
                content.check(self.manager, key)
                return True
        contents[-1].check(self.manager, key)
        return True

    def check_snapshots(self, key):
        names = {one["name"] for one in self.client.call("Snapshots", key=key)["snapshots"]}
        wanted = {name: fact for (owner, name), fact in self.before.items() if owner == key and name}
        possible = {name: fact for (owner, name), fact in self.possible.items() if owner == key and name}
        for name in {*wanted, *possible}:
            allowed = [fact for fact in (wanted.get(name, GONE), possible.get(name)) if fact is not None]
            if name not in names:
                assert GONE in allowed, f"snapshot {name} of {key} is lost"
                continue
            contents = [fact for fact in allowed if fact is not GONE]
            assert contents, f"snapshot {name} of {key} is there again"
            self.client.call("Rollback", key=key, name=name)
            contents[-1].check(self.manager, key)
        assert names <= {*wanted, *possible}

    def check_links(self, keys):
        """Each volume has its name of EVE, which leads to it, and nothing else has one."""
        place = self.manager.state / "volumes/clear"
        links = {one.name.rpartition(".")[0]: one.resolve(strict=True) for one in place.iterdir()} if place.exists() else {}
        assert sorted(links) == sorted(keys)
        for key, target in links.items():
            assert target.is_relative_to(self.manager.tree(key).resolve())

    def received(self):
        return list(self.manager.pool.glob("volumes/received/*"))

    def check_received(self):
        """What was being received may be left; the next reception removes it."""
        if not self.received():
            return
        assert self.begun == "receive a volume"
        key = self.story.adm("receive", "-f", self.story.area / "stream", "--new", "again").decode().strip()
        self.client.wait("VolumeStatus", key, is_created)
        assert self.received() == []
        self.client.delete(("VolumeConfig", key))
        self.client.wait("VolumeStatus", key, is_gone)

    def check(self):
        there = [key for key in self.volumes if self.check_volume(key)]
        assert self.manager.trees() == sorted(key.replace("#", ".") for key in there)
        assert self.manager.left_over() == []
        self.check_received()
        self.check_links(there)
        for key in there:
            self.check_snapshots(key)
        log = self.manager.log.read_text()
        assert "foreign-tree" not in log and "internal" not in log, log
        database = sqlite3.connect(self.manager.state / "content/content.db")
        with contextlib.closing(database):
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            promised = {key for (key,) in database.execute("SELECT key FROM promises WHERE key LIKE 'volume %'")}
            assert promised <= {f"volume {key}" for key in there}
        # Content that is said to be there is whole.
        scrubbed = self.client.call("Scrub")
        assert (scrubbed["bad"], scrubbed["missing"]) == ([], [])
        # And it works as before.
        new, wanted = volume()
        self.client.put(wanted)
        self.client.wait("VolumeStatus", new, is_created)
        self.client.delete(*(("VolumeConfig", key) for key in [new, *there]))
        for key in [new, *there]:
            self.client.wait("VolumeStatus", key, is_gone)
        assert self.manager.trees() == [] and self.manager.left_over() == []
        assert self.received() == []


@pytest.fixture
def area():
    place = Path(tempfile.mkdtemp(prefix="triton-power.", dir="/dev/shm"))
    mounts = OwnMounts()
    yield place
    mounts.close()
    remove(place)


def configured(root, backend):
    return Manager(root / "host", backend)


def record(area, backend, play):
    """Plays a story on a new disk."""
    disk = RecordedDisk(area, 320 * MEGABYTE, *MAKE[backend])
    manager = None
    try:
        disk.mount()
        manager = configured(disk.root, backend)
        os.sync()  # what an installer does
        story = Story(area, disk, manager)
        manager.start()
        client = manager.client()
        play(story, client)
        return disk, story
    finally:
        if manager:
            manager.end(signal.SIGKILL)
        disk.close()


def after_reboot(area, root, image, backend):
    """The disk on a host that has just booted: another boot id, and nothing in /run."""
    options = "loop,nouuid" if backend == "reflink" else "loop"
    subprocess.run(["mount", "-o", options, image, root], check=True, capture_output=True, timeout=PATIENCE)
    boot = area / "boot_id"
    boot.write_text(f"{uuid()}\n")
    subprocess.run(["mount", "--bind", boot, "/proc/sys/kernel/random/boot_id"], check=True, timeout=PATIENCE)
    manager = configured(root, backend)
    shutil.rmtree(manager.root / "run")
    (manager.root / "run").mkdir()
    manager.log.write_text("")
    return manager


@pytest.mark.parametrize("backend", MAKE)
@pytest.mark.parametrize("story", STORIES)
def test_what_was_answered_survives_a_power_cut(area, backend, story):
    if not shutil.which(MAKE[backend][0]):
        pytest.skip(f"{MAKE[backend][0]} is not installed")
    chance = random.Random(SEED)
    disk, told = record(area, backend, STORIES[story])
    image = area / "cut"
    cuts = 0
    for cut in disk.cuts(told.steps[0][0], CUTS, chance):
        disk.write_image(cut, image, chance)
        manager = after_reboot(area, disk.root, image, backend)
        aftermath = None
        try:
            manager.start()
            aftermath = Aftermath(manager, told, cut)
            aftermath.check()
        except (AssertionError, Failed, TimeoutError, OSError) as error:
            during = aftermath.begun if aftermath else "?"
            error.add_note(f"{cut}, during \"{during}\" (TRITON_POWER_CUT_SEED={SEED})\n{manager.log.read_text()[-3000:]}")
            raise
        finally:
            manager.end(signal.SIGKILL)
            subprocess.run(["umount", "/proc/sys/kernel/random/boot_id"], check=True, timeout=PATIENCE)
            subprocess.run(["umount", disk.root], check=True, timeout=PATIENCE)
        cuts += 1
    assert cuts >= min(CUTS, 4)

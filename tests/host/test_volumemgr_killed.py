"""volumemgr is killed before each step that makes something durable, and its workers at any moment: what comes after is the same as
without."""

import itertools
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest
from image_place import IMGADM
from steps import STRIDE, steps
from storage_places import OwnMounts
from test_volume_content import datastore, tree
from test_volume_vault import Vault, configure
from volume_place import (  # noqa: F401 (fixtures)
    BUILD, PATIENCE, Failed, Manager, area, is_created, is_gone, needs_qemu_img, needs_root, volume,
)

pytestmark = [needs_root,
              pytest.mark.skipif("asan" in str(BUILD), reason="a sanitizer wants to be loaded first")]

LIBRARY = BUILD / "tests/host/tool/die_at_step.so"
VOLUMEADM = BUILD / "volumeadm"
GONE = (ConnectionError, BrokenPipeError, FileNotFoundError)
DISK = b"begin" + bytes(500_000) + b"end"
MEGABYTE = 1 << 20


def work(manager, story):
    """Returns whether the story came to its end before the kill."""
    try:
        story(manager.client())
        return True
    except GONE:
        manager.process.wait(60)
        assert manager.process.returncode == -signal.SIGKILL
        return False


def create(key, *objects):
    def story(client):
        client.put(*objects)
        client.wait("VolumeStatus", key, is_created)
    return story


def remove(key):
    def story(client):
        client.delete(("VolumeConfig", key))
        client.wait("VolumeStatus", key, is_gone)
    return story


def grow(key, config, size=MEGABYTE):
    def story(client):
        client.put((config[0], {**config[1], "MaxVolSize": size}))
        client.wait("VolumeStatus", key, lambda status: is_created(status) and status["MaxVolSize"] == size)
    return story


def kill_at_each_step(manager, before, story, after):
    """`before` and `story` get a client; `after` is called when the same story once more has come to its end, whatever the kill has
    left. Returns about how many steps there are."""
    kills = 0
    for step in steps(400):
        manager.start()
        before(manager.client())
        manager.end()
        try:
            is_up = manager.start(env={"LD_PRELOAD": str(LIBRARY), "TRITON_DIE_AT": str(step)}, may_die=True)
            is_done = is_up and work(manager, story)
            kills += not is_done
        finally:
            manager.end()
        manager.start()
        assert work(manager, story)
        after()
        manager.end()
        if is_done:
            return kills * STRIDE
    raise AssertionError("there is no end to the steps")


def assert_whole(manager, key, exists, others=()):
    """Nothing but what is wanted is in the pool, also for those who look at the next start."""
    assert manager.trees() == sorted([*others, *([key.replace("#", ".")] if exists else [])])
    assert manager.left_over() == []


def kinds():
    source, source_config = volume(900, Layout="file", MaxVolSize=4096)
    return {
        "directory": volume(901),
        "file": volume(902, Layout="file", MaxVolSize=4096),
        "clone": volume(903, VolumeContentOriginType="clone", Source=source, MaxVolSize=4096),
    }, source_config


@pytest.mark.parametrize("kind", ["directory", "file", "clone"])
@pytest.mark.parametrize("what", ["create", "remove", "grow"])
def test_a_kill_at_any_step_changes_nothing_in_the_end(area, kind, what):
    if what == "grow" and kind != "file":
        pytest.skip("a clone grows as a file, and a directory only where the pool keeps quotas")
    manager = Manager(area)
    all_kinds, source = kinds()
    key, config = all_kinds[kind]
    others = []
    if kind == "clone":
        manager.start()
        work(manager, create(f"{source[1]['VolumeID']}#0", source))
        others = [f"{source[1]['VolumeID']}.0"]
        manager.end()

    def before(client):
        remove(key)(client)
        if what != "create":
            create(key, config)(client)

    def after():
        exists = what != "remove"
        assert_whole(manager, key, exists, others)
        if exists and kind != "directory":
            size = (manager.tree(key) / f"{key}.raw").stat().st_size
            assert size == (MEGABYTE if what == "grow" else 4096)

    story = {"create": create(key, config), "grow": grow(key, config), "remove": remove(key)}[what]
    assert kill_at_each_step(manager, before, story, after) > 5


def test_a_clone_that_was_given_up_leaves_no_snapshot(area):
    """Killed between the snapshot of its source and its end, and then nobody wants it any more."""
    manager = Manager(area)
    all_kinds, source = kinds()
    key, config = all_kinds["clone"]
    of_source = f"{source[1]['VolumeID']}#0"
    manager.start()
    work(manager, create(of_source, source))
    manager.end()
    seen = set()
    done = 0
    for step in range(1, 400):
        is_up = manager.start(env={"LD_PRELOAD": str(LIBRARY), "TRITON_DIE_AT": str(step)}, may_die=True)
        is_done = is_up and work(manager, create(key, config))
        manager.end()
        seen.add(len(list((manager.tree(of_source).parent / "@snapshots").iterdir())))
        manager.start()
        remove(key)(manager.client())
        assert list((manager.tree(of_source).parent / "@snapshots").iterdir()) == [], step
        assert_whole(manager, of_source, True)
        manager.end()
        # How many steps there are depends on what several threads do at the same time.
        done += is_done
        if done == 5:
            break
    assert seen == {0, 1}


class Made:
    """A volume of some origin: the objects that it needs, and its bytes."""

    def __init__(self, key, objects, suffix, content):
        self.key, self.objects, self.suffix, self.content = key, objects, suffix, content

    def assert_right(self, manager):
        assert self.bytes(manager) == self.content or self.content is None

    def bytes(self, manager):
        return (manager.tree(self.key) / f"{self.key}.{self.suffix}").read_bytes()


def made_of_disk(area):
    (area / "disk.raw").write_bytes(DISK)
    store, config = datastore("directory", area)
    key, wanted = volume(ContentID="disk", MaxVolSize=MEGABYTE)
    return Made(key, [config, tree("disk", store, DISK), wanted], "raw", DISK + bytes(MEGABYTE - len(DISK)))


def made_by_conversion(area):
    if not shutil.which("qemu-img"):
        pytest.skip("qemu-img is not installed")
    (area / "disk.raw").write_bytes(DISK)
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", area / "disk.raw", area / "disk.qcow2"], check=True, timeout=PATIENCE)
    store, config = datastore("directory", area)
    key, wanted = volume(ContentID="disk", MaxVolSize=MEGABYTE, Format="raw")
    packed = (area / "disk.qcow2").read_bytes()
    return Made(key, [config, tree("disk", store, packed, "disk.qcow2", "qcow2"), wanted], "raw", DISK + bytes(MEGABYTE - len(DISK)))


def made_of_user_data(area):
    if not shutil.which("xorriso"):
        pytest.skip("xorriso is not installed")
    (area / "user-data").write_text("#cloud-config\n")
    (area / "user-data").chmod(0o600)
    key, wanted = volume(VolumeContentOriginType="cloudInit", UserDataFile=str(area / "user-data"))
    return Made(key, [wanted], "iso", None)


ORIGINS = {"content": made_of_disk, "conversion": made_by_conversion, "seed": made_of_user_data}


def forget_content(manager, client, made):
    """As if it had never been fetched."""
    remove(made.key)(client)
    for kind, config in made.objects:
        if kind == "ContentTreeConfig":
            client.delete((kind, config["ContentID"]))
            client.wait("ContentTreeStatus", config["ContentID"], is_gone)
    done = subprocess.run([IMGADM, "gc"], env=manager.environment(), capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_kill_while_content_becomes_a_volume(area, origin):
    manager = Manager(area)
    made = ORIGINS[origin](area)
    if made.content is None:
        manager.start()
        create(made.key, *made.objects)(manager.client())
        made.content = made.bytes(manager)
        manager.end()

    def after():
        made.assert_right(manager)
        assert_whole(manager, made.key, True)

    assert kill_at_each_step(manager, lambda client: forget_content(manager, client, made), create(made.key, *made.objects), after) > 5


class Killer(threading.Thread):
    """Kills processes that volumemgr has started: each so long after it was seen, until there were enough."""

    def __init__(self, manager, name, delays):
        super().__init__()
        self.manager, self.name_of, self.delays = manager, name, list(delays)
        self.killed, self.has_ended = 0, threading.Event()

    def descendants(self, pid):
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
            children = [int(one) for task in tasks for one in open(f"/proc/{pid}/task/{task}/children").read().split()]
        except OSError:
            return
        for child in children:
            yield child
            yield from self.descendants(child)

    def run(self):
        seen = set()
        while self.delays and not self.has_ended.is_set():
            for pid in self.descendants(self.manager.process.pid):
                try:
                    name = open(f"/proc/{pid}/comm").read().strip()
                except OSError:
                    continue
                if name != self.name_of or pid in seen or not self.delays:
                    continue
                seen.add(pid)
                time.sleep(self.delays.pop(0))
                try:
                    os.kill(pid, signal.SIGKILL)
                    self.killed += 1
                except ProcessLookupError:
                    pass

    def end(self):
        self.has_ended.set()
        self.join()


@pytest.mark.parametrize(("origin", "program"), [("content", "triton-verify"), ("conversion", "triton-verify"), ("conversion", "triton-unpack"),
                                                 ("conversion", "qemu-img"), ("seed", "triton-unpack"), ("seed", "xorriso")])
def test_a_worker_that_is_killed_is_started_again(area, origin, program):
    """As the kernel does when memory ends. It says nothing about the content: the job is tried again."""
    chance = random.Random(origin + program)
    manager = Manager(area)
    made = ORIGINS[origin](area)
    kills = 0
    for _ in range(4):
        manager.start()
        forget_content(manager, manager.client(), made)
        killer = Killer(manager, program, [0, chance.uniform(0, 0.03)])
        killer.start()
        try:
            client = manager.client()
            client.put(*made.objects)
            seen = client.wait("VolumeStatus", made.key, lambda status: is_created(status) or
                               (status or {}).get("Error", {}).get("Class") == "permanent")
            assert is_created(seen), seen
            client.wait("VolumeStatus", made.key, is_created)
        finally:
            killer.end()
        kills += killer.killed
        made.assert_right(manager)
        assert_whole(manager, made.key, True)
        manager.end()
    assert kills > 0


SNAPSHOTS = {"snapshot": "Snapshot", "rollback": "Rollback", "delete": "DeleteSnapshot"}


@pytest.mark.parametrize("what", SNAPSHOTS)
@pytest.mark.parametrize("kind", ["directory", "file"])
def test_a_kill_while_a_snapshot_is_made_used_or_deleted(area, kind, what):
    manager = Manager(area)
    all_kinds, _ = kinds()
    key, config = all_kinds[kind]

    def path():
        return manager.tree(key) / ("root/data" if kind == "directory" else f"{key}.raw")

    def content():
        """Without the zeros of a file that has its size again after a rollback."""
        return path().read_bytes().rstrip(b"\0")

    def before(client):
        remove(key)(client)
        create(key, config)(client)
        path().write_bytes(b"old")
        if what != "snapshot":
            client.call("Snapshot", key=key, name="one")
            path().write_bytes(b"new")

    def story(client):
        try:
            client.call(SNAPSHOTS[what], key=key, name="one")
        except Failed as failure:  # it was done, and the kill came before the answer
            assert what != "rollback" and ("exists" in failure.reason or "no snapshot" in failure.reason), failure

    def after():
        client = manager.client()
        names = [one["name"] for one in client.call("Snapshots", key=key)["snapshots"]]
        assert names == ([] if what == "delete" else ["one"])
        assert content() == (b"new" if what == "delete" else b"old")
        if what == "snapshot":
            path().write_bytes(b"new")
            client.call("Rollback", key=key, name="one")
            assert content() == b"old"
        assert_whole(manager, key, True)

    assert kill_at_each_step(manager, before, story, after) > 2


@needs_qemu_img
def test_a_kill_while_a_qcow2_grows(area):
    manager = Manager(area)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", area / "disk.qcow2", "1M"], check=True, timeout=PATIENCE)
    packed = (area / "disk.qcow2").read_bytes()
    store, config = datastore("directory", area)
    key, wanted = volume(ContentID="disk", MaxVolSize=MEGABYTE)
    objects = [config, tree("disk", store, packed, "disk.qcow2", "qcow2"), wanted]

    def before(client):
        remove(key)(client)
        create(key, *objects)(client)

    def after():
        file = manager.tree(key) / f"{key}.qcow2"
        done = subprocess.run(["qemu-img", "check", "-f", "qcow2", file], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout
        assert_whole(manager, key, True)

    assert kill_at_each_step(manager, before, grow(key, wanted, 8 * MEGABYTE), after) > 2


@pytest.mark.parametrize("what", ["create", "remove"])
def test_a_kill_while_the_vault_changes(area, what):
    mounts = OwnMounts()
    manager = Manager(area)
    try:
        configure(manager)
        try:
            Vault(area, manager.root / "vault")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no fscrypt here: {error}")
        key, config = volume(Layout="file", MaxVolSize=4096, Encrypted=True)
        place = manager.root / "vault"

        def before(client):
            remove(key)(client)
            if what == "remove":
                create(key, config)(client)

        def after():
            found = sorted(one.name for one in (place / "volumes/vault").glob("*"))
            assert found == ([key.replace("#", ".")] if what == "create" else [])
            assert manager.trees() == [] and manager.left_over() == []
            assert [*itertools.chain((place / "@pool/building").iterdir(), (place / "@pool/trash").iterdir())] == []

        story = create(key, config) if what == "create" else remove(key)
        assert kill_at_each_step(manager, before, story, after) > 5
    finally:
        manager.end(signal.SIGKILL)
        mounts.close()


def killed_command(manager, step, *words, **more):
    """Returns whether volumeadm was killed."""
    done = subprocess.run([VOLUMEADM, *map(str, words)], capture_output=True, timeout=PATIENCE, check=False,
                          env=manager.environment({"LD_PRELOAD": str(LIBRARY), "TRITON_DIE_AT": str(step)}), **more)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_a_kill_of_send_or_receive(area, kind):
    """The command is killed before each of its steps; the next one has what the first should have had."""
    manager = Manager(area)
    all_kinds, _ = kinds()
    key, config = all_kinds[kind]
    manager.start()
    create(key, config)(manager.client())
    written = manager.tree(key) / ("root/data" if kind == "directory" else f"{key}.raw")
    written.write_bytes(b"data" * 1000)
    stream = area / "stream"

    def adm(*words):
        done = subprocess.run([VOLUMEADM, *map(str, words)], env=manager.environment(), capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    kills = 0
    for step in steps(200):
        is_killed = killed_command(manager, step, "send", key)
        kills += is_killed
        stream.write_bytes(adm("send", key))
        assert not list((manager.tree(key).parent / "@snapshots").iterdir()) and manager.left_over() == []
        assert not list((manager.state / "volumes").glob("send-*"))
        if not is_killed:
            break
    assert kills * STRIDE > 2
    remove(key)(manager.client())
    received = manager.pool / "volumes/received"
    kills = 0
    for step in steps(400):
        is_killed = killed_command(manager, step, "receive", "-f", stream)
        kills += is_killed
        client = manager.client()
        if not any(name == key for _, name in client.statuses("VolumeStatus")):
            assert adm("receive", "-f", stream).decode().strip() == key
        client.wait("VolumeStatus", key, is_created)
        assert written.read_bytes() == b"data" * 1000
        assert manager.trees() == [key.replace("#", ".")]
        remove(key)(client)
        if not is_killed:
            break
    assert kills * STRIDE > 5
    # What the last kill has left goes with the next reception, or with the next start.
    assert not received.exists() or list(received.iterdir()) == []
    manager.end()
    manager.start()
    assert manager.left_over() == []
    manager.end()


def test_a_kill_of_the_manager_while_it_takes_what_was_received(area):
    manager = Manager(area)
    all_kinds, _ = kinds()
    key, config = all_kinds["file"]
    manager.start()
    create(key, config)(manager.client())
    (manager.tree(key) / f"{key}.raw").write_bytes(b"data" * 1000)
    stream = area / "stream"
    with stream.open("wb") as out:
        subprocess.run([VOLUMEADM, "send", key], env=manager.environment(), stdout=out, check=True, timeout=PATIENCE)
    manager.end()

    def story(client):
        if any(name == key for _, name in client.statuses("VolumeStatus")):
            return client.wait("VolumeStatus", key, is_created)
        done = subprocess.run([VOLUMEADM, "receive", "-f", stream], env=manager.environment(), capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            assert manager.process.wait(PATIENCE) == -signal.SIGKILL, done.stderr
            raise ConnectionError(done.stderr)
        return None

    def after():
        manager.client().wait("VolumeStatus", key, is_created)
        assert (manager.tree(key) / f"{key}.raw").read_bytes() == b"data" * 1000
        assert_whole(manager, key, True)
        received = manager.pool / "volumes/received"
        assert not received.exists() or list(received.iterdir()) == []

    assert kill_at_each_step(manager, remove(key), story, after) > 5


def test_what_nobody_took_back_is_finished_by_the_next_one(area):
    """A kill between request and deed: the request is durable."""
    manager = Manager(area)
    manager.start()
    client = manager.client()
    key, config = volume(904)
    client.put(config)
    manager.end(signal.SIGKILL)
    manager.start()
    client = manager.client()
    client.wait("VolumeStatus", key, is_created)
    client.delete(("VolumeConfig", key))
    manager.end(signal.SIGKILL)
    manager.start()
    manager.client().wait("VolumeStatus", key, is_gone)
    assert manager.trees() == []
    manager.end(signal.SIGKILL)

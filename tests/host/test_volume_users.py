"""Machines that use volumes: who holds what, without volumemgr and beside it. What runs on volumes is in machine/test_volumes.py."""

import json
import os
import select
import signal
import socket
import subprocess

import pytest
from machine_files import MachineFiles
from steps import STRIDE, steps
from storage_places import OwnMounts
from test_volumeadm import listed, run
from volume_place import BUILD, PATIENCE, Manager, area, is_created, needs_root, volume  # noqa: F401 (fixtures)

pytestmark = needs_root

LIBRARY = BUILD / "tests/host/tool/die_at_step.so"
UP = BUILD / "triton-machine-volumes"


class Place:
    """volumemgr and machines that systemd does not know, below one directory."""

    def __init__(self, area):
        self.files = MachineFiles(area / "root")
        self.manager = Manager(area)
        self.links = area / "root/run/triton/machine-volumes"
        self.count = 0

    def machine(self, **members):
        self.count += 1
        machine = self.files.object(self.count, phase="configured", autoboot=False, nics=[], **members)
        self.files.write(machine)
        self.files.write_tags(machine["uuid"], {})
        return machine["uuid"]

    def vmadm(self, *words, payload=None, env=None):
        return subprocess.run([BUILD / "vmadm", *words], env=self.manager.environment(env), text=True, capture_output=True,
                              timeout=PATIENCE, input=None if payload is None else json.dumps(payload))

    def update(self, uuid, code=0, **payload):
        done = self.vmadm("update", uuid, payload=payload)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    def sources(self, uuid):
        shown = json.loads(self.vmadm("get", uuid).stdout)
        return [one["source"] for one in shown.get("filesystems", [])]


@pytest.fixture
def place(area):
    one = Place(area)
    yield one
    one.manager.end(signal.SIGKILL)


def use(source, *options, target="/data"):
    return {"type": "volume", "source": source, "target": target, "options": list(options)}


def test_a_machine_holds_its_volumes(place):
    manager = place.manager
    manager.start()
    key = run(manager, "create", "data").stdout.strip()
    uuid = place.machine()
    assert place.update(uuid, code=1, add_filesystems=[use("dada")]) == (
        'filesystems[0].source: there is no volume dada; volumeadm list shows all\n')
    place.update(uuid, add_filesystems=[use("data")])
    assert place.sources(uuid) == [key], "a name can mean another volume later"
    assert run(manager, "delete", "data", code=1).stderr == f"volumeadm: volume {key} is used by machine {uuid}\n"
    assert f"it is used by machine {uuid}\n" in run(manager, "why", "data").stdout
    place.update(uuid, update_filesystems=[use(key.split("#")[0], "ro")])
    assert listed(manager, "-o", "refs") == [["2"]]
    manager.end()
    assert f"it is used by machine {uuid}\n" in run(manager, "why", "data").stdout, "without volumemgr, too"
    place.update(uuid, remove_filesystems=["/data"])
    manager.start()
    run(manager, "delete", "data")
    assert manager.trees() == []


def test_volumemgr_follows_what_machines_hold(place):
    manager = place.manager
    manager.start()
    key = run(manager, "create", "data").stdout.strip()
    uuid = place.machine()
    reference = f"{key}#{uuid}"
    place.update(uuid, filesystems=[use("data")])
    client = manager.client()
    client.wait("VolumeRefStatus", reference, is_created_user)
    assert place.vmadm("delete", uuid).returncode == 0
    assert client.wait("VolumeRefStatus", reference, lambda status: status is None) is None
    run(manager, "delete", "data")


def is_created_user(status):
    return status is not None and status["State"] == "CREATED_VOLUME"


def test_a_volume_is_not_deleted_between_the_check_and_the_hold(place):
    """volumemgr is stopped when a machine takes the volume, and is asked to delete it before it has seen that."""
    manager = place.manager
    manager.start()
    key = run(manager, "create", "data").stdout.strip()
    uuid = place.machine()
    client = manager.client()
    manager.process.send_signal(signal.SIGSTOP)
    place.update(uuid, filesystems=[use("data")])
    client.send("Delete", publisher="admin", objects=[{"kind": "VolumeConfig", "key": key}])
    manager.process.send_signal(signal.SIGCONT)
    with pytest.raises(Exception) as failed:
        client.reply()
    assert f"volume {key} is used by machine {uuid}" in failed.value.reason
    assert manager.tree(key).exists()


def test_one_writer_of_a_file(place):
    manager = place.manager
    manager.start()
    key = run(manager, "create", "--layout", "file", "--size", "1Mi", "disk").stdout.strip()
    first, second = place.machine(), place.machine()
    place.update(first, filesystems=[use("disk")])
    for options in ([], ["ro"]):
        assert place.update(second, code=1, filesystems=[use("disk", *options)]) == (
            f"volume {key} is a file, which machine {first} uses: several users need it read-only, each with \"options\": [\"ro\"]\n")
        assert place.sources(second) == []
    place.update(first, filesystems=[use("disk", "ro")])
    place.update(second, filesystems=[use("disk", "ro")])
    assert "is a file that machine" in run(manager, "attach", "disk", "web", code=1).stderr
    assert "is a file, which machine" in place.update(second, code=1, filesystems=[use("disk")])
    assert listed(manager, "-o", "refs") == [["3"]]


def test_options_of_volumes(place):
    manager = place.manager
    manager.start()
    run(manager, "create", "data")
    uuid = place.machine()
    assert "a volume needs no idmap" in place.update(uuid, code=1, filesystems=[use("data", "idmap")])
    assert 'source: "data" is not an absolute path' in place.update(uuid, code=1, filesystems=[{**use("data"), "type": "lofs"}])
    client = manager.client()
    key, config = volume(7, ReadOnly=True)
    client.put(config)
    client.wait("VolumeStatus", key, is_created)
    assert "is read-only: it needs" in place.update(uuid, code=1, filesystems=[use(key)])
    place.update(uuid, filesystems=[use(key, "ro")])


def test_a_killed_change_of_volumes_is_finished(place):
    """Before and after each step of an update and of a deletion: what the machine's file names is what it holds."""
    manager = place.manager
    manager.start()
    keys = {name: run(manager, "create", name).stdout.strip() for name in ("one", "two")}
    manager.end()
    held = manager.root / "var/triton/content/content.db"

    def holds(uuid):
        import sqlite3
        with sqlite3.connect(held) as database:
            rows = database.execute("SELECT key FROM volume_object WHERE kind = 'VolumeRefConfig' AND publisher = 'vmadm'").fetchall()
        database.close()
        return sorted(row[0].removesuffix("#" + uuid) for row in rows if row[0].endswith("#" + uuid))

    for what, env in (("update", "TRITON_KILL_AT"), ("delete", "TRITON_KILL_AT"), ("update", "TRITON_DIE_AT"), ("delete", "TRITON_DIE_AT")):
        killed = 0
        for step in steps(200):
            uuid = place.machine()
            place.update(uuid, filesystems=[use("one")])
            more = {env: str(step)} | ({"LD_PRELOAD": str(LIBRARY)} if env == "TRITON_DIE_AT" else {})
            payload = {"filesystems": [use("two")]} if what == "update" else None
            done = place.vmadm(what, uuid, payload=payload, env=more)
            killed += done.returncode == -signal.SIGKILL
            recovered = place.vmadm("recover")
            assert recovered.returncode == 0, recovered.stderr
            if place.files.path(uuid).exists():
                assert holds(uuid) == place.sources(uuid), f"{what} {env}={step}"
                assert place.vmadm("delete", uuid).returncode == 0
            assert holds(uuid) == [], f"{what} {env}={step}"
            if done.returncode != -signal.SIGKILL:
                assert done.returncode == 0, done.stderr
                break
        else:
            raise AssertionError("there is no end to the steps")
        assert killed * STRIDE > 5, (what, killed)
    assert len(keys) == 2


def test_a_killed_snapshot_is_of_all_or_nothing(place):
    """Before and after each step of create-snapshot --volumes and of delete-snapshot."""
    manager = place.manager
    manager.start()
    keys = [run(manager, "create", name).stdout.strip() for name in ("one", "two")]
    manager.end()
    uuid = place.machine()
    place.update(uuid, filesystems=[use("one", target="/1"), use("two", target="/2")])

    def snapshots():
        """Of the machine, and of each volume."""
        trees = [manager.pool / "machines" / uuid, *(manager.tree(key).parent for key in keys)]
        return [len(list((tree / "@snapshots").iterdir())) if (tree / "@snapshots").exists() else 0 for tree in trees]

    def recorded():
        return json.loads(place.files.path(uuid).read_text()).get("volume_snapshots", {})

    for command in ("create-snapshot", "delete-snapshot"):
        killed = 0
        for step in steps(200):
            env = {"LD_PRELOAD": str(LIBRARY), "TRITON_DIE_AT": str(step)}
            if command == "delete-snapshot":
                assert place.vmadm("create-snapshot", uuid, "now", "--volumes").returncode == 0
            words = [command, uuid, "now"] + (["--volumes"] if command == "create-snapshot" else [])
            done = place.vmadm(*words, env=env)
            killed += done.returncode == -signal.SIGKILL
            assert place.vmadm("recover").returncode == 0
            if command == "delete-snapshot" and (done.returncode or recorded()):
                assert place.vmadm(*words).returncode in (0, 1)  # once more, as its user would
            if command == "delete-snapshot":
                assert (snapshots(), recorded()) == ([0, 0, 0], {}), f"{command} {step}"
            elif snapshots()[0]:
                assert snapshots() == [1, 1, 1] and sorted(recorded()["now"]) == sorted(keys), f"{command} {step}"
                assert place.vmadm("delete-snapshot", uuid, "now").returncode == 0
            else:
                assert (snapshots(), recorded()) == ([0, 0, 0], {}), f"{command} {step}"
            if done.returncode != -signal.SIGKILL:
                break
        else:
            raise AssertionError("there is no end to the steps")
        assert killed * STRIDE > 5, (command, killed)


def test_holds_of_a_machine_that_does_not_exist_are_named_and_released(place):
    manager = place.manager
    manager.start()
    run(manager, "create", "data")
    uuid = place.machine()
    place.update(uuid, filesystems=[use("data")])
    place.files.path(uuid).unlink()
    manager.end()
    assert f"volumes of VM {uuid}: there is no such VM; vmadm recover {uuid} releases them" in place.vmadm("recover").stderr
    assert place.vmadm("recover", uuid).returncode == 0
    manager.start()
    run(manager, "delete", "data")


class Starting:
    """triton-machine-volumes up, and what it tells systemd."""

    def __init__(self, place, uuid):
        self.path = place.manager.area / "unit"
        self.path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(PATIENCE)
        self.process = subprocess.Popen([UP, "up", uuid], env=place.manager.environment({"NOTIFY_SOCKET": str(self.path)}),
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def status(self, part):
        """Waits until its status has that part; the same one is not told twice."""
        while True:
            text = self.socket.recv(65536).decode()
            if part in text:
                return text

    def is_running(self):
        return self.process.poll() is None

    def end(self):
        code = self.process.wait(PATIENCE)
        self.socket.close()
        return code


def test_a_start_waits_for_its_volumes(place):
    manager = place.manager
    manager.start()
    key = run(manager, "create", "data").stdout.strip()
    waits = run(manager, "create", "later", "--content", "image", "--size", "1Mi", "--no-wait").stdout.strip()
    uuid = place.machine()
    place.update(uuid, filesystems=[use("data"), use("later", target="/later")])
    link = place.links / uuid
    starting = Starting(place, uuid)
    assert f"waits for volume later ({waits})" in starting.status("later")
    assert starting.is_running() and (link / key).is_dir() and not os.path.lexists(link / waits)
    assert f"volume later ({waits})" in (link / "awaited").read_text()
    manager.end(signal.SIGKILL)
    manager.start()
    content = b"disk" * 1000
    (manager.area / "image").write_bytes(content)
    import hashlib
    run(manager, "import", "image", manager.area / "image", "--sha256", hashlib.sha256(content).hexdigest(), "--size", "1Mi")
    starting.status("all volumes are attached")
    assert starting.end() == 0
    assert (link / waits).read_bytes()[:4000] == content and not (link / "awaited").exists()
    # A run keeps what it was started with.
    place.update(uuid, remove_filesystems=["/later"])
    assert f"is used by machine {uuid}" in run(manager, "delete", "later", code=1).stderr
    assert subprocess.run([UP, "down", uuid], env=manager.environment()).returncode == 0
    assert not link.exists()
    run(manager, "delete", "later")
    assert f"is used by machine {uuid}" in run(manager, "delete", "data", code=1).stderr


def test_a_start_waits_for_a_pool_that_is_not_mounted(place):
    manager = place.manager
    manager.start()
    key = run(manager, "create", "data").stdout.strip()
    manager.end()
    uuid = place.machine()
    place.update(uuid, filesystems=[use("data")])
    away = manager.pool.with_name("away")
    manager.pool.rename(away)
    starting = Starting(place, uuid)
    assert "cannot open the pool" in starting.status("waits for volume data")
    assert not manager.pool.exists() and not (place.links / uuid / key).exists()
    (away / "volumes/clear" / key.replace("#", ".") / "@tree/root").rename(away / "moved")
    away.rename(manager.pool)
    starting.status("cannot find root in")
    (manager.pool / "moved").rename(manager.tree(key) / "root")
    starting.status("all volumes are attached")
    assert starting.end() == 0


def test_where_owners_cannot_be_mapped_a_volume_belongs_to_one_machine(place):
    """ramfs has no idmapped mounts, as OpenZFS before 2.2 and FUSE have none."""
    mounts = OwnMounts()
    manager = place.manager
    try:
        manager.pool.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "ramfs", "-o", "mode=755", "none", manager.pool], check=True)
        manager.start()
        key = run(manager, "create", "data").stdout.strip()
        first, second = place.machine(), place.machine()
        root = manager.tree(key) / "root"
        (root / "tool").write_text("x")
        (root / "tool").chmod(0o4755)
        os.chown(root / "tool", 0, 1000)
        os.chmod(root / "tool", 0o4755)
        for uuid, other in ((first, second), (second, first)):
            place.update(uuid, filesystems=[use("data")])
            assert place.update(other, code=1, filesystems=[use("data", "ro")]) == (
                f"volume {key} belongs to the uids of machine {uuid}: the file system of the pool cannot map owners (idmapped mounts)\n")
            uid = json.loads(place.files.path(uuid).read_text())["first_uid"]
            for _ in range(2):
                assert subprocess.run([UP, "up", uuid], env=manager.environment()).returncode == 0
                owners = [(one.stat().st_uid - uid, one.stat().st_gid - uid, one.stat().st_mode & 0o7777) for one in (root, root / "tool")]
                assert owners == [(0, 0, 0o755), (0, 1000, 0o4755)]
            assert subprocess.run([UP, "down", uuid], env=manager.environment()).returncode == 0
            place.update(uuid, filesystems=[])
        manager.end()
        subprocess.run(["umount", manager.pool], check=True)
    finally:
        mounts.close()

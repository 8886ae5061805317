"""What goes wrong around vmadm: every kill, a full pool, a disk that takes nothing, a bus that is gone."""

import itertools
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import BUILD, Vmadm
from machine_place import UNIT, left_of, new_uuid, payload, seen_anew, sleeping

KILLED = {-9, 128 + 9}
ROUNDS = int(os.environ.get("TRITON_CREATES", "30"))  # of creation and deletion; 200 on demand
NO_BUS = "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nowhere"


@pytest.fixture(scope="session")
def marked(host, debian):
    """A second tiny image, which one can tell from the first."""
    uuid = "5e6a4c11-0c2f-4a44-8c1f-000000000003"
    host.run("sh", "-ec", "mkdir /tmp/marked; cd /tmp/marked; mkdir -p usr/bin etc tmp proc sys dev run var; "
             "cp /mnt/usr/bin/busybox usr/bin/; ln -s usr/bin bin; echo marked >etc/mark", check=True)
    host.run("imgadm", "import", "--uuid", uuid, "--name", "marked", "--image-version", "1", "/tmp/marked", check=True)
    return uuid


def with_environment(host, variable: str, *words: str, payload: str | None = None):
    return host.run("env", variable, "vmadm", *words, input=payload)


def clones(host, image: str) -> int:
    return int(host.run("imgadm", "list", "-H", "-o", "clones", f"uuid={image}", check=True).stdout)


def is_gone(host, uuid: str) -> None:
    assert left_of(host, uuid) == []
    assert host.run("find", "/var/triton/vmadm", "-name", ".*", "-type", "f").stdout == "", "no file is half written"
    assert uuid not in host.run("systemctl", "list-unit-files", "--no-legend").stdout


def is_complete(host, vmadm, uuid: str, state: str = "stopped") -> dict:
    machine = json.loads(vmadm.ok("get", uuid))
    assert machine["state"] == state
    assert host.run("test", "-e", f"{machine['zonepath']}/root/usr/bin/busybox").returncode == 0
    assert host.run("ls", "/var/triton/vmadm/journal").stdout == ""
    if state != "configured":
        assert host.run("readlink", "-e", f"/var/lib/machines/{uuid}").stdout == f"{machine['zonepath']}/root\n"
        limit = host.run("systemctl", "show", "-p", "MemoryMax", "--value", UNIT.format(uuid), check=True).stdout
        assert limit == f"{machine['max_physical_memory'] << 20}\n"
    return machine


def each_kill(host, vmadm, *words: str, before=lambda: None, after, payload=None) -> int:
    """Kills the command before and after each of its marks and steps. What is left is cared for by `recover` and by the same
    command in turns. Returns how many kills there were."""
    for number in itertools.count(1):
        text = payload(number) if callable(payload) else payload
        before()
        done = with_environment(host, f"TRITON_KILL_AT={number}", *words, payload=text)
        assert done.returncode in KILLED | {0}, f"kill {number}: {done.stderr}"
        if done.returncode == 0:
            assert number > 4, "it was hardly ever killed: the build has no such moments"
            after(number, True)
            return number - 1
        assert vmadm("list").returncode == 0
        is_repeated = number % 2 == 0
        if is_repeated:
            vmadm(*words, payload=text)
        else:
            vmadm.ok("recover")
        after(number, is_repeated)


def test_a_creation_that_is_killed(host, vmadm, tiny):
    uuid = new_uuid()

    def after(number, is_repeated):
        if is_repeated or vmadm("get", uuid).returncode == 0:
            is_complete(host, vmadm, uuid)
            vmadm.ok("delete", uuid)
        is_gone(host, uuid)
        assert clones(host, tiny) == 0

    text = payload(tiny, uuid=uuid, ram=64, autoboot=False, launch=sleeping())
    assert each_kill(host, vmadm, "create", payload=text, after=after) >= 20


def test_a_deletion_that_is_killed(host, vmadm, tiny):
    uuid = new_uuid()
    text = payload(tiny, uuid=uuid, ram=64, autoboot=False, launch=sleeping())

    def before():
        if vmadm("get", uuid).returncode != 0:
            vmadm.ok("create", payload=text)

    def after(number, is_repeated):
        if vmadm("get", uuid).returncode == 0:
            assert not is_repeated and number == 1, "it was killed before its first mark"
            is_complete(host, vmadm, uuid)
        else:
            is_gone(host, uuid)
            assert clones(host, tiny) == 0

    assert each_kill(host, vmadm, "delete", uuid, before=before, after=after) > 15


def test_an_installation_that_is_killed(host, vmadm, tiny):
    uuid = new_uuid()
    text = payload(tiny, uuid=uuid, ram=64, create_only=True, launch=sleeping())

    def before():
        vmadm.ok("create", payload=text)

    def after(number, is_repeated):
        state = vmadm.ok("list", "-p", "-o", "state", f"uuid={uuid}").strip()
        assert state == "stopped" or (state == "configured" and not is_repeated and number == 1)
        is_complete(host, vmadm, uuid, state)
        vmadm.ok("delete", uuid)
        is_gone(host, uuid)

    each_kill(host, vmadm, "install", uuid, before=before, after=after)


def test_an_update_that_is_killed(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, ram=64, alias="n0", tags={"n": 0}, autoboot=False))
    seen = set()

    def after(number, is_repeated):
        machine = is_complete(host, vmadm, uuid)
        shown = machine["tags"]["n"]
        assert (machine["alias"], machine["max_physical_memory"]) == (f"n{shown}", 64 + shown)
        assert shown == number or (shown == number - 1 and not is_repeated)
        seen.add(shown == number)

    each_kill(host, vmadm, "update", uuid, after=after,
              payload=lambda n: json.dumps({"alias": f"n{n}", "ram": 64 + n, "set_tags": {"n": n}}))
    assert seen == {True, False}


def test_a_reprovision_that_is_killed(host, vmadm, tiny, marked):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, ram=64, autoboot=False, tags={"kept": True}))
    images = [tiny, marked]

    def after(number, is_repeated):
        machine = is_complete(host, vmadm, uuid)
        assert machine["tags"] == {"kept": True}
        image = machine["image_uuid"]
        assert image == images[number % 2] or not is_repeated
        has_mark = host.run("test", "-e", f"{machine['zonepath']}/root/etc/mark").returncode == 0
        assert has_mark == (image == marked)
        assert clones(host, image) == 1 and clones(host, ({*images} - {image}).pop()) == 0
        assert host.run("sh", "-c", "ls /var/triton/pool/incoming 2>/dev/null").stdout == ""

    each_kill(host, vmadm, "reprovision", uuid, after=after, payload=lambda n: json.dumps({"image_uuid": images[n % 2]}))


def test_a_rollback_that_is_killed(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, ram=64, autoboot=False))
    version = json.loads(vmadm.ok("get", uuid))["zonepath"] + "/root/etc/version"
    host.run("sh", "-c", f"echo one >{version}", check=True)
    vmadm.ok("create-snapshot", uuid, "one")

    def before():
        host.run("sh", "-c", f"echo two >{version}", check=True)
        vmadm("create-snapshot", uuid, "two")

    def after(number, is_repeated):
        machine = is_complete(host, vmadm, uuid)
        was_begun = is_repeated or number > 1
        assert host.run("cat", version, check=True).stdout == ("one\n" if was_begun else "two\n")
        assert [one["name"] for one in machine["snapshots"]] == (["one"] if was_begun else ["two", "one"])

    each_kill(host, vmadm, "rollback-snapshot", uuid, "one", before=before, after=after)


def test_what_a_power_failure_has_interrupted_is_finished_at_the_next_boot(host, vmadm, tiny):
    uuid, half, renewed, gone = (new_uuid() for _ in range(4))
    for each in (uuid, renewed, gone):
        vmadm.ok("create", payload=payload(tiny, uuid=each, ram=64, launch=sleeping()))
    done = with_environment(host, "TRITON_KILL_AT=4", "update", uuid, payload='{"ram": 80, "alias": "after"}')
    assert done.returncode in KILLED
    done = with_environment(host, "TRITON_KILL_AT=9", "create", payload=payload(tiny, uuid=half, launch=sleeping()))
    assert done.returncode in KILLED
    # systemd starts both at boot, as far as it knows: the one is halted once more and must run, the other is no longer there
    done = with_environment(host, "TRITON_KILL_AT=6", "reprovision", renewed, payload=json.dumps({"image_uuid": tiny}))
    assert done.returncode in KILLED
    assert with_environment(host, "TRITON_KILL_AT=6", "delete", gone).returncode in KILLED
    host.run("sync", check=True)
    host.cut_power()
    host.power_on()
    assert host.run("systemctl", "is-system-running", "--wait").stdout == "running\n"
    seen_anew(host, uuid, renewed)
    is_complete(host, vmadm, renewed, "running")
    is_gone(host, gone)
    machine = is_complete(host, vmadm, uuid, "running")
    assert (machine["alias"], machine["max_physical_memory"]) == ("after", 80)
    is_gone(host, half)


# --- what is around it fails ---


def test_without_the_bus(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, ram=64, autoboot=False, launch=sleeping()))
    gone = "cannot connect to the system's bus: No such file or directory\n"
    listed = with_environment(host, NO_BUS, "list", "-p", "-o", "uuid,state")
    assert (listed.returncode, listed.stdout) == (0, f"{uuid}:stopped\n")
    for words in (["start", uuid], ["stop", uuid]):
        done = with_environment(host, NO_BUS, *words)
        assert (done.returncode, done.stderr) == (1, gone)
    for condition in ("state=stopped", "state=configured", f"uuid={uuid}"):  # one that runs would seem to be stopped
        done = with_environment(host, NO_BUS, "delete", condition)
        assert (done.returncode, done.stderr) == (1, gone)
    assert json.loads(with_environment(host, NO_BUS, "lookup", "-j").stdout)[0]["uuid"] == uuid
    done = with_environment(host, NO_BUS, "delete", uuid)
    assert (done.returncode, done.stderr) == (1, f"Failed to delete VM {uuid}: {gone}")
    assert "an interrupted delete was finished" in vmadm.says("recover")[1]
    is_gone(host, uuid)

    second = new_uuid()
    done = with_environment(host, NO_BUS, "create", payload=payload(tiny, uuid=second, ram=64, launch=sleeping()))
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, gone.strip())
    vmadm.ok("recover")
    is_gone(host, second)
    assert clones(host, tiny) == 0


def test_a_machine_that_does_not_get_ready(host, vmadm, tiny):
    """systemd gives up, if it has been told to; what is said tells where to look, and the machine can be mended or deleted."""
    uuid = new_uuid()
    drop_in = f"/run/systemd/system/{UNIT.format(uuid)}.d"
    launch = sleeping()
    launch["programs"]["main"]["readiness"] = {"type": "fd", "fd": 3}  # which it never says
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, ram=64, autoboot=False, launch=launch))
    host.run("sh", "-ec", f"mkdir -p {drop_in}; printf '[Service]\\nTimeoutStartSec=2\\n' >{drop_in}/short.conf; systemctl daemon-reload", check=True)
    try:
        code, text = vmadm.says("start", uuid)
        unit = UNIT.format(uuid)
        assert code == 1
        assert text.startswith(f'cannot start {unit}: its job ended as "failed" (')
        assert text.endswith(f"\n  the reason is in: journalctl -u {unit}\n")
        assert vmadm.ok("list", "-p", "-o", "state", f"uuid={uuid}") == "failed\n"
    finally:
        host.run("rm", "-r", drop_in, check=True)
    vmadm.ok("update", uuid, payload=json.dumps({"launch": sleeping()}))
    vmadm.ok("start", uuid)
    vmadm.ok("delete", uuid)
    is_gone(host, uuid)


def test_an_image_that_is_gone(host, vmadm, tiny):
    """Its catalog entry is there, and its tree is not."""
    uuid, image = new_uuid(), "5e6a4c11-0c2f-4a44-8c1f-000000000004"
    host.run("sh", "-ec", "mkdir -p /tmp/lost/etc; date +%N >/tmp/lost/etc/only", check=True)
    host.run("imgadm", "import", "--uuid", image, "--name", "lost", "--image-version", "1", "/tmp/lost", check=True)
    tree = json.loads(host.run("imgadm", "get", image, check=True).stdout)["tree"]
    host.run("rm", "-rf", f"/var/triton/pool/{tree}", check=True)
    code, text = vmadm.says("create", payload=payload(image, uuid=uuid, autoboot=False))
    assert code == 1 and "Successfully" not in text
    is_gone(host, uuid)
    assert clones(host, image) == 0

    vmadm.ok("create", payload=payload(tiny, uuid=uuid, ram=64, autoboot=False))
    code, text = vmadm.says("reprovision", uuid, payload=json.dumps({"image_uuid": image}))
    assert code == 1
    # the same command with an image that there is, or a deletion, is a way out
    vmadm.ok("delete", uuid)
    is_gone(host, uuid)
    assert clones(host, image) == clones(host, tiny) == 0


def test_two_commands_at_once(host, vmadm, tiny):
    uuid = new_uuid()
    text = payload(tiny, uuid=uuid, ram=64, autoboot=False)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: vmadm.says("create", payload=text), range(4)))
        assert sorted(made) == [(0, f"Successfully created VM {uuid}\n"), *[(1, f"VM with UUID {uuid} already exists\n")] * 3]
        changed = list(pool.map(lambda n: vmadm("update", uuid, payload=json.dumps({"set_tags": {f"t{n}": n}})).returncode, range(4)))
        assert changed == [0] * 4
        assert json.loads(vmadm.ok("get", uuid))["tags"] == {f"t{n}": n for n in range(4)}
        gone = list(pool.map(lambda _: vmadm.says("delete", uuid), range(3)))
    assert sorted(gone) == [(0, f"Successfully deleted VM {uuid}\n"), *[(1, f"Failed to delete VM {uuid}: VM {uuid} not found\n")] * 2]
    is_gone(host, uuid)


def test_many_machines_come_and_go(host, vmadm, tiny):
    before = host.run("find", "/var/triton", "/etc/systemd", "/run/systemd/nspawn", "/var/lib/machines", check=True).stdout.splitlines()
    for _ in range(ROUNDS):
        uuid = new_uuid()
        vmadm.ok("create", payload=payload(tiny, uuid=uuid, ram=64, autoboot=False, launch=sleeping()))
        vmadm.ok("delete", uuid)
    after = host.run("find", "/var/triton", "/etc/systemd", "/run/systemd/nspawn", "/var/lib/machines", check=True).stdout.splitlines()
    assert sorted(after) == sorted(before)


# --- where no systemd is needed ---

SMALL = """set -e
mount -t tmpfs -o size=120m tmpfs "$1"
mkdir -p "$1/image/etc"
head -c 6000000 /dev/urandom >"$1/image/data"
imgadm --root "$1" import --uuid "$2" --name small --image-version 1 "$1/image"
rm -r "$1/image"
mount -o remount,size=31m "$1"
exec "${@:3}"
"""


class Small:
    """A host on a file system that is 31 MB large once it has an image of 6, in a mount namespace of its own. No systemd is near."""

    IMAGE = "5e6a4c11-0c2f-4a44-8c1f-000000000005"

    def __init__(self, directory: Path):
        self.root = directory
        path = f"{BUILD}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "LC_ALL": "C.UTF-8", "TRITON_ROOT": str(directory), NO_BUS.split("=", 1)[0]: "unix:path=/nowhere"}
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "--", "bash", "-c", SMALL, "bash", directory, self.IMAGE, "sh", "-c", "echo up; read end"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment)
        for line in self.process.stdout:
            if line == "up\n":
                return
        raise AssertionError("it did not come up")

    def run(self, *words: str, input: str | None = None, **_) -> subprocess.CompletedProcess:
        return subprocess.run(["nsenter", "-t", str(self.process.pid), "-m", "--", *words], input=input, text=True, timeout=120,
                              stdin=subprocess.DEVNULL if input is None else None,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)

    def left_of(self, uuid: str) -> list[str]:
        """What has no name in the pool any more is taken away by the next change of the pool."""
        return self.run("find", str(self.root), "-path", "*/@pool", "-prune", "-o", "-name", f"*{uuid}*", "-print").stdout.split()

    def close(self) -> None:
        self.process.communicate("\n")


@pytest.fixture
def small():
    with tempfile.TemporaryDirectory(prefix="triton-small-") as directory:
        host = Small(Path(directory))
        yield host
        host.close()


def test_a_full_pool(small):
    vmadm = Vmadm(small)
    made = []
    while True:
        uuid = new_uuid()
        code, text = vmadm.says("create", payload=payload(Small.IMAGE, uuid=uuid, ram=64, create_only=True))
        if code != 0:
            break
        made.append(uuid)
        assert len(made) < 4, "there is room for three"
    assert "No space left on device" in text
    assert small.left_of(uuid) == []
    assert sorted(vmadm.ok("list", "-p", "-o", "uuid").split()) == sorted(made)
    small.run("sh", "-c", f"head -c 100m /dev/zero >{small.root}/filler")  # not one byte is left
    assert json.loads(vmadm.ok("get", made[0]))["state"] == "configured"
    assert vmadm.says("update", made[0], "alias=full")[0] == 0, "a full disk must not stop an update"
    assert json.loads(vmadm.ok("get", made[0]))["alias"] == "full"
    assert vmadm.says("delete", made[0])[0] == 0, "deleting is how one makes room"
    assert small.left_of(made[0]) == []
    small.run("rm", f"{small.root}/filler")
    vmadm.ok("update", made[1], "alias=room")


@pytest.mark.parametrize("room", ["0", "4K"])  # for the mark alone
def test_a_machine_is_archived_on_a_full_disk(small, room):
    vmadm = Vmadm(small)
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(Small.IMAGE, uuid=uuid, ram=64, create_only=True, archive_on_delete=True))
    vmadm.ok("update", uuid, "alias=kept")
    small.run("sh", "-c", f"head -c 100m /dev/zero >{small.root}/filler; truncate -s -{room} {small.root}/filler")
    vmadm.ok("delete", uuid)
    archive = f"{small.root}/var/triton/vmadm/archive/{uuid}.json"
    assert small.left_of(uuid) == [archive]
    assert json.loads(small.run("cat", archive).stdout)["alias"] == "kept"


def test_a_disk_that_cannot_be_written(small):
    vmadm = Vmadm(small)
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(Small.IMAGE, uuid=uuid, ram=64, create_only=True))
    small.run("mount", "-o", "remount,ro", str(small.root))
    assert vmadm.ok("list", "-p", "-o", "uuid,state") == f"{uuid}:configured\n"
    assert json.loads(vmadm.ok("get", uuid))["uuid"] == uuid
    for words in (["update", uuid, "alias=x"], ["delete", uuid], ["create-snapshot", uuid, "s"], ["install", uuid]):
        code, text = vmadm.says(*words)
        assert code == 1 and "Read-only file system" in text, (words, text)
    small.run("mount", "-o", "remount,rw", str(small.root))
    vmadm.ok("delete", uuid)
    assert small.left_of(uuid) == []


def test_an_update_without_room_changes_nothing(small):
    """It must not stand in the way of what makes room, and not come true later."""
    vmadm = Vmadm(small)
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(Small.IMAGE, uuid=uuid, ram=64, create_only=True, customer_metadata={"a": "b"}))
    vmadm.ok("create-snapshot", uuid, "s")
    pool = f"{small.root}/var/triton/pool"  # on a file system of its own, so that there is room for the mark
    moved = small.run("sh", "-ec", f"mkdir {small.root}/new; mount -t tmpfs -o size=20m tmpfs {small.root}/new; cp -a {pool}/. {small.root}/new;"
                      f"mount --move {small.root}/new {pool}; head -c 100m /dev/zero >{pool}/filler || truncate -s -32K {pool}/filler")
    assert moved.returncode == 0, moved.stderr
    large = {"alias": "large", "set_customer_metadata": {"c": "d"}, "set_tags": {"t": "x" * 100_000}}
    code, text = vmadm.says("update", uuid, payload=json.dumps(large))
    assert code == 1 and "No space left on device" in text and "taken back" not in text, text
    assert small.run("ls", f"{small.root}/var/triton/vmadm/journal").stdout == ""
    vmadm.ok("delete-snapshot", uuid, "s")
    machine = json.loads(vmadm.ok("get", uuid))
    assert (machine.get("alias"), machine["customer_metadata"], machine["tags"]) == (None, {"a": "b"}, {})
    vmadm.ok("update", uuid, payload=json.dumps(large))
    assert json.loads(vmadm.ok("get", "large"))["customer_metadata"] == {"a": "b", "c": "d"}


def test_a_full_disk_leaves_no_half_a_line_in_the_history(small):
    vmadm = Vmadm(small)
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(Small.IMAGE, uuid=uuid, ram=64, create_only=True))
    small.run("sh", "-c", f"head -c 100m /dev/zero >{small.root}/filler")
    missed = "note: the history misses this: cannot write "
    for number in range(100):  # until the last block of the file is full
        code, text = vmadm.says("delete-snapshot", uuid, f"none{number}")
        assert code == 1
        if missed in text:
            break
    assert missed in text and "No space left on device" in text
    small.run("rm", f"{small.root}/filler")
    vmadm.ok("update", uuid, "alias=room")
    history = small.root / "var/triton/vmadm/history.jsonl"
    small.run("sh", "-c", f"""printf '{{"time":"20' >>{history}""")  # of a command that was killed while it wrote
    vmadm.ok("update", uuid, "alias=later")
    told = [json.loads(line) for line in vmadm.ok("history", uuid).splitlines()]
    assert [event["command"] for event in told] == ["create"] + ["delete-snapshot"] * number + ["update"] * 2


def test_what_exists_can_be_changed_when_nothing_new_can_be_made(small):
    """Neither a block nor an inode is left. The room that is kept for deletions is not spent on what is new."""
    vmadm = Vmadm(small)
    kept, gone = new_uuid(), new_uuid()
    for uuid in (kept, gone):
        vmadm.ok("create", payload=payload(Small.IMAGE, uuid=uuid, ram=64, create_only=True))

    def fill():
        used = int(small.run("df", "--output=iused", str(small.root)).stdout.split()[1])
        small.run("mount", "-o", f"remount,nr_inodes={used}", str(small.root))
        small.run("sh", "-c", f"head -c 100m /dev/zero >>{small.root}/filler")

    small.run("touch", f"{small.root}/filler")
    for fills in (1, 2):
        fill()
        other = new_uuid()
        code, text = vmadm.says("create", payload=payload(Small.IMAGE, uuid=other, ram=64, create_only=True))
        assert code == 1 and ("No space left on device" in text or "is the disk full" in text) and "taken back" not in text, text
        assert small.left_of(other) == []
        vmadm.ok("update", kept, f"alias=full{fills}")
        assert vmadm.ok("list", "-p", "-o", "alias", f"uuid={kept}") == f"full{fills}\n"
    vmadm.ok("delete", gone)
    assert small.left_of(gone) == []
    small.run("mount", "-o", "remount,nr_inodes=100000", str(small.root))
    small.run("rm", f"{small.root}/filler")
    vmadm.ok("recover")
    vmadm.ok("create", payload=payload(Small.IMAGE, uuid=gone, ram=64, create_only=True))


LIBRARY = BUILD / "tests/host/tool/die_at_step.so"


@pytest.mark.skipif(not LIBRARY.exists(), reason="a sanitizer wants to be loaded first")
def test_every_single_durable_call_may_be_the_last(small):
    """Not only between steps: each fsync, rename, link and removal of a creation and of a deletion."""
    vmadm = Vmadm(small)
    uuid = new_uuid()
    text = payload(Small.IMAGE, uuid=uuid, ram=64, create_only=True, tags={"a": 1})

    def killed(number: int, *words: str, payload: str | None = None) -> bool:
        done = small.run("env", f"LD_PRELOAD={LIBRARY}", f"TRITON_DIE_AT={number}", "vmadm", *words, input=payload)
        assert done.returncode in KILLED | {0}, done.stderr
        return done.returncode != 0

    for number in itertools.count(1):
        was_killed = killed(number, "create", payload=text)
        assert vmadm("list").returncode == 0
        vmadm.ok("recover")
        if vmadm("get", uuid).returncode == 0:
            assert json.loads(vmadm.ok("get", uuid))["tags"] == {"a": 1}
            vmadm.ok("delete", uuid)
        assert small.left_of(uuid) == [], f"creation, call {number}"
        if not was_killed:
            break
    assert number > 20

    for number in itertools.count(1):
        if vmadm("get", uuid).returncode != 0:
            vmadm.ok("create", payload=text)
        was_killed = killed(number, "delete", uuid)
        assert vmadm("list").returncode == 0
        vmadm.ok("recover")
        if vmadm("get", uuid).returncode == 0:
            assert json.loads(vmadm.ok("get", uuid))["tags"] == {"a": 1}
        else:
            assert small.left_of(uuid) == [], f"deletion, call {number}"
        if not was_killed:
            break
    assert number > 10

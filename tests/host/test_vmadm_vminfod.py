"""vmadm says the same with vminfod and without it, whatever vminfod does."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from urllib.parse import parse_qsl, urlsplit

import pytest
from info_place import BUILD, FakeVminfod, answer, needs_root, run, stream

pytestmark = needs_root
IMAGE = "5e6a4c11-0c2f-4a44-8c1f-000000000001"
WEB, DB, TWIN, EVIL, TORN = (f"{digit}af640c5-9042-4985-bc94-ed532f77966{digit}" for digit in range(1, 6))
MACHINES = {
    WEB: {"alias": "web0", "max_physical_memory": 512, "autoboot": True, "nics": [
        {"mac": "02:08:20:00:00:01", "nic_tag": "external", "ips": ["10.0.0.7/24"], "ip": "10.0.0.7", "netmask": "255.255.255.0", "primary": True}]},
    DB: {"alias": "db", "max_physical_memory": 1024, "cpu_cap": 150, "owner_uuid": WEB},
    TWIN: {"alias": "db", "max_physical_memory": 512, "phase": "configured", "quota": 0},  # a change of it needs no systemd
    EVIL: {"alias": "a:\\b ü", "max_physical_memory": 64},
    TORN: {"alias": "torn", "max_physical_memory": 64},
}
FORMS = [line.split() for line in f"""
list
list -p
list -H
list -H -h
list -p -o uuid,alias,state,tags.role,nics.0.ip,pid,last_modified,resolvers -s -alias,uuid
list -o alias,nics.0.ip,tags.role -s nics.0.ip
list -s state
list -o alias,vcpus,zone_state,zoneid -s -vcpus
list zone_state=running
list disks.*.size=1
list alias=~^WEB|db
list nics.*.ip=10.0.0.7
list nics.0.mac=2:8:20:0:0:1
list tags.role=front
list ram=512 alias=web0
list state=unreadable
list alias=nobody
list dataset_uuid={IMAGE} -o dataset_uuid
lookup
lookup ram=512
lookup -1 alias=web0
lookup -1 ram=512
lookup -1 alias=nobody
lookup -j
lookup -j alias=web0
lookup -j -o uuid,nics.0.ip,tags,state ram=512
lookup -j -o snapshots,launch_status
get {WEB}
get web0
json 1af6
get db
get 2af640c5
get {EVIL}
get {TORN}
get torn
get nobody
get {WEB[:-1]}f
history
history {WEB}
history web0
history {WEB[:-1]}f
""".strip().splitlines()]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    write(root / "etc/triton/triton.json", json.dumps({"storage": {"backend": "directory"}}))
    (root / "var/lib").mkdir(parents=True)
    state = root / "var/triton/vmadm"
    for uuid, members in MACHINES.items():
        write(state / f"machines/{uuid}.json", json.dumps({"uuid": uuid, "brand": "lx", "image_uuid": IMAGE, "phase": "installed", **members}))
        write(root / f"var/triton/pool/machines/{uuid}/@tree/config/tags.json", json.dumps({"role": "front"} if uuid == WEB else {"tags": {"role": "back"}}))  # the other as former versions wrote it
        (root / f"var/triton/pool/machines/{uuid}/@snapshots").mkdir()
        (root / f"var/triton/pool/machines/{uuid}/@tree/root/etc").mkdir(parents=True)
    write(root / f"var/triton/pool/machines/{TORN}/@tree/config/tags.json", "[")
    write(state / "machines/0000.json", "garbage \x1b[2J")
    write(state / "history.jsonl", "".join(json.dumps({"uuid": uuid, "command": "create"}, separators=(",", ":")) + "\n" for uuid in (DB, WEB, DB)))
    return root


def says(root, *words):
    done = run("vmadm", root, *words)
    return done.returncode, done.stdout, done.stderr


class Model:
    """What a vminfod answers that knows what vmadm loads directly."""

    def __init__(self, root):
        _, out, text = says(root, "lookup", "-j")
        self.machines = json.loads(out)
        names = says(root, "list", "-p", "-o", "uuid", "state=unreadable")[1].split()
        assert len(names) == len(text.splitlines()) == 2
        self.machines += [{"uuid": name, "zonename": name, "state": "unreadable", "error": line} for name, line in zip(names, text.splitlines())]
        self.machines.sort(key=lambda machine: machine["uuid"])
        self.history = (root / "var/triton/vmadm/history.jsonl").read_text()

    @staticmethod
    def parts(node, key):
        if isinstance(node, dict) and key in node:
            return [node[key]]
        first, _, rest = key.partition(".")
        if isinstance(node, list):
            chosen = node if first == "*" else node[int(first):int(first) + 1]
        else:
            chosen = [node[first]] if isinstance(node, dict) and first in node else []
        return [part for below in chosen for part in (Model.parts(below, rest) if rest else [below])]

    @staticmethod
    def text(value):
        return value if isinstance(value, str) else json.dumps(value)

    def fulfils(self, machine, key, value):
        key = {"dataset_uuid": "image_uuid"}.get(key, key)
        if key.endswith(".mac"):
            value = ":".join(f"{int(part, 16):02x}" for part in value.split(":"))
        texts = [self.text(part) for part in self.parts(machine, key)]
        return any(re.search(value[1:], text, re.IGNORECASE) for text in texts) if value.startswith("~") else value in texts

    def __call__(self, target):
        url = urlsplit(target)
        query = parse_qsl(url.query)
        if url.path == "/history":
            wanted = dict(query).get("vm", "")
            return answer("".join(line for line in self.history.splitlines(True) if wanted in line))
        if url.path.startswith("/vms/"):
            uuid = url.path.removeprefix("/vms/")
            found = [machine for machine in self.machines if machine["uuid"] == uuid]
            return answer(json.dumps(found[0])) if found else answer(f"VM Not Found: {uuid}\n", "404 Not Found")
        assert url.path == "/vms"
        machines = [machine for machine in self.machines if all(self.fulfils(machine, key, value) for key, value in query if key not in ("fields", "fresh"))]
        fields = dict(query).get("fields")
        if fields:
            machines = [machine if "error" in machine else {key: self.parts(machine, key)[0] for key in fields.split(",") if self.parts(machine, key)}
                        for machine in machines]
        return answer(json.dumps(machines))


def test_the_same_with_and_without(root):
    without = [says(root, *form) for form in FORMS]
    assert without[0][0] == 0 and len(without[0][1].splitlines()) == 1 + len(MACHINES) + 1
    with FakeVminfod(root, Model(root)) as fake:
        for form, expected in zip(FORMS, without):
            fake.asked.clear()
            assert says(root, *form) == expected, form
            assert fake.asked, form


def test_only_what_is_shown_is_asked_for(root):
    with FakeVminfod(root, Model(root)) as fake:
        says(root, "list")
        says(root, "lookup", "alias=db")
        says(root, "get", WEB)
        says(root, "get", "web0")
    assert fake.asked == ["/vms?fields=uuid%2Cstate%2Ctype%2Cram%2Calias%2Cwaits_for", "/vms?alias=db&fields=uuid%2Cstate", "/vms?state=unreadable", f"/vms/{WEB}",
                          "/vms?fields=uuid%2Calias", f"/vms/{WEB}"]


def test_sizes_of_snapshots_are_those_of_now(root):
    """They grow while the machine writes, and nothing tells of that."""
    model = Model(root)
    web = next(machine for machine in model.machines if machine["uuid"] == WEB)
    web["snapshots"] = [{"name": "one", "size": 0}]

    def answers(target):
        if target == f"/vms/{WEB}?fresh=true":
            web["snapshots"][0]["size"] = 4096
        return model(target)

    with FakeVminfod(root, answers) as fake:
        assert json.loads(says(root, "get", WEB)[1])["snapshots"] == [{"name": "one", "size": 4096}]
        assert fake.asked == [f"/vms/{WEB}", f"/vms/{WEB}?fresh=true", f"/vms/{WEB}"]


def test_a_machine_that_cannot_be_read_is_shown_as_far_as_it_goes(root):
    code, out, text = says(root, "get", TORN)
    assert (code, json.loads(out)) == (1, {"uuid": TORN, "zonename": TORN, "state": "unreadable", "error": text.strip()})
    assert says(root, "get", "0000")[2].splitlines()[1] == f"  there is a file with that name, which is not one of a VM: {root}/var/triton/vmadm/machines/0000.json"


def test_without_vminfod_nothing_of_it_is_opened(root):
    """A pool that cannot be opened hinders nobody who need not open it."""
    model = Model(root)
    write(root / "etc/triton/triton.json", "garbage")
    with FakeVminfod(root, model):
        assert says(root, "list")[0] == says(root, "get", "web0")[0] == says(root, "lookup", "-j")[0] == says(root, "history", "web0")[0] == 0
    assert says(root, "list")[0] == 1


NOTE = "note: without vminfod, which takes longer: "


@pytest.mark.parametrize("given, why", [
    (None, "vminfod answers 404: Unsupported URL Path"),
    (answer("busy\n", "503 Service Unavailable"), "vminfod answers 503: busy"),
    (b"garbage\r\n", 'cannot read the answer of vminfod: it is not HTTP: "garbage"'),
    (answer("[1,2"), None),
    (answer('{"a":1}'), None),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[{\"uu", "cannot read the answer of vminfod: it ends too early"),
    (lambda connection: [connection.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 65536) for _ in range(1000)],
     "cannot read the answer of vminfod: a line of its head is too long"),
])
def test_an_answer_that_is_none(root, given, why):
    without = {form: says(root, *form.split()) for form in ("list", "list -p", "lookup", "get web0", "list -H", "-q lookup", "history web0")}
    with FakeVminfod(root, lambda _: given):
        for form, (code, out, text) in without.items():
            is_silent = form.endswith(("-p", "-H")) or form.startswith("-q")
            now = says(root, *form.split())
            assert now[:2] == (code, out), form
            lines = now[2].splitlines(True)
            notes = [line for line in lines if line.startswith(NOTE)]
            assert "".join(line for line in lines if line not in notes) == text, form
            assert len(notes) == (0 if is_silent else 1), form
            assert is_silent or why is None or notes == [NOTE + why + "\n"]


def test_a_vminfod_that_hangs(root):
    without = says(root, "list")
    with FakeVminfod(root, lambda _: b"", ends=False):
        begin = time.monotonic()
        code, out, text = says(root, "list")
        assert (code, out, text) == (*without[:2], NOTE + "vminfod does not answer\n" + without[2])
        assert time.monotonic() - begin < 30


def test_an_endless_answer(root):
    def endless(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n[")
        while True:
            connection.sendall(b" " * 65536)

    without = says(root, "list")
    with FakeVminfod(root, lambda _: endless):
        code, out, text = says(root, "list")
    assert (code, out) == without[:2] and text.startswith(NOTE)


def test_a_change_waits_until_vminfod_has_seen_it(root):
    with FakeVminfod(root, Model(root)) as fake:
        assert says(root, "rename", TWIN, "web1") == (0, "", f"Successfully renamed VM {TWIN} to web1\n")
        assert fake.asked == [f"/vms/{TWIN}?fresh=true"]
        fake.asked.clear()
        code, _, _ = says(root, "update", TWIN, "ram=512")
        assert (code, fake.asked) == (0, [f"/vms/{TWIN}?fresh=true"]), "a change of nothing, too"
        fake.asked.clear()
        says(root, "recover")
        assert fake.asked == ["/vms?fresh=true&fields=uuid"]
        fake.asked.clear()
        says(root, "prepare")
        assert fake.asked == []
    assert says(root, "rename", "--same-alias", TWIN, "web0") == (0, "", f"Successfully renamed VM {TWIN} to web0\n")


def test_a_change_does_not_wait_for_ever(root):
    note = "note: vminfod may not know yet what has changed: "
    with FakeVminfod(root):
        assert says(root, "rename", TWIN, "a") == (0, "", f"{note}vminfod answers 404: Unsupported URL Path\nSuccessfully renamed VM {TWIN} to a\n")
        assert says(root, "-q", "rename", TWIN, "b") == (0, "", f"Successfully renamed VM {TWIN} to b\n")
    with FakeVminfod(root, lambda _: b"", ends=False):
        assert says(root, "rename", "--same-alias", TWIN, "web0") == (0, "", f"{note}vminfod does not answer\nSuccessfully renamed VM {TWIN} to web0\n")


def test_events(root):
    model = Model(root)
    event = json.dumps({"ts": "2026-11-22T16:12:19.453Z", "type": "delete", "uuid": WEB, "alias": "x\x1b[2J"}) + "\n"
    ready = json.dumps({"ts": "2026-11-22T16:12:19.453Z", "type": "ready", "uuid": "1" * 36, "vms": []}) + "\n"

    def given(target):
        events = {"/events": stream(event), f"/events?vm={WEB}": stream(event), "/events?snapshot=true": stream(ready, event)}
        return events[target] if target.startswith("/events") else model(target)

    ended = "VminfodEventStream ended prematurely\n"
    with FakeVminfod(root, given):
        assert says(root, "events") == (1, f"[16:12:19.453Z] {WEB[:8]} x\\x1b[2J delete\n", ended)
        assert says(root, "events", "-f", "web0") == (1, f"[2026-11-22T16:12:19.453Z] {WEB} x\\x1b[2J delete\n", ended)
        assert says(root, "events", "-r")[1] == f"[16:12:19.453Z] 11111111 - ready: 0 VMs\n[16:12:19.453Z] {WEB[:8]} x\\x1b[2J delete\n"
        assert [json.loads(line)["type"] for line in says(root, "events", "-j", "-r")[1].splitlines()] == ["ready", "delete"]
        assert says(root, "events", WEB[:-1] + "f") == (1, "", f"VM {WEB[:-1]}f not found\n")
        assert says(root, "events", "nobody") == (1, "", "VM nobody not found\n")
    assert says(root, "events") == (1, "", f"cannot reach vminfod on {root}/run/triton/vminfod.socket: No such file or directory\n")


# --- the real one ---

needs_daemon = pytest.mark.skipif(not (BUILD / "vminfod").exists(), reason="vminfod is not built")


class Daemon:
    """vminfod with all of its state below a directory."""

    def __init__(self, root):
        self.log = (root / "vminfod.log").open("a")
        address = f"vminfod-test-{os.getpid()}-{id(self)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind("\0" + address)
            ready.settimeout(120)
            (root / "run/triton").mkdir(parents=True, exist_ok=True)
            self.process = subprocess.Popen([BUILD / "vminfod", "--root", root, "--listen", "none"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                            env={**os.environ, "NOTIFY_SOCKET": "@" + address})
            while b"READY=1" not in ready.recv(65536).split(b"\n"):
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(60)
        self.log.close()

    def signal(self, number):
        self.process.send_signal(number)


class Listener:
    """vminfo events -j, line by line."""

    def __init__(self, root, *words):
        self.process = subprocess.Popen([BUILD / "vminfo", "--root", root, "events", "-j", *words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=60)

    def next(self):
        assert select.select([self.process.stdout], [], [], 60)[0], "nothing has come for a minute"
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def until(self, fulfils):
        while True:
            record = self.next()
            if fulfils(record):
                return record


def changes_of(record):
    return {change["path"]: (change["from"], change["to"]) for change in record.get("changes", [])}


@needs_daemon
def test_the_real_one_says_the_same(root):
    without = [says(root, *form) for form in FORMS]
    with Daemon(root):
        for form, expected in zip(FORMS, without):
            assert says(root, *form) == expected, form
    for form, expected in zip(FORMS, without):
        code, out, text = says(root, *form)  # it was killed, and its socket is there
        assert (code, out, "".join(line for line in text.splitlines(True) if not line.startswith(NOTE))) == expected, form


@needs_daemon
def test_who_has_changed_something_sees_it(root):
    with Daemon(root) as daemon, Listener(root, "-r", TWIN) as listener:
        assert listener.next()["type"] == "ready"
        for number in range(10):
            assert says(root, "rename", TWIN, f"name{number}")[::2] == (0, f"Successfully renamed VM {TWIN} to name{number}\n")
            assert says(root, "list", "-p", "-o", "alias", f"uuid={TWIN}")[:2] == (0, f"name{number}\n")
            assert says(root, "update", TWIN, f"alias=name{number}")[0] == 0
        record = listener.until(lambda record: "alias" in changes_of(record) and changes_of(record)["alias"][1] == "name9")
        assert record["type"] == "modify" and record["uuid"] == TWIN and record["vm"]["alias"] == "name9"
        assert json.loads(run("vminfo", root, "vm", "name9").stdout)["uuid"] == TWIN

        daemon.signal(signal.SIGSTOP)
        note = "note: vminfod may not know yet what has changed: vminfod does not answer\n"
        assert says(root, "rename", TWIN, "slow")[::2] == (0, f"{note}Successfully renamed VM {TWIN} to slow\n")
        assert says(root, "list", "-p", "-o", "alias", "alias=slow")[:2] == (0, "slow\n")
        daemon.signal(signal.SIGCONT)
        listener.until(lambda record: changes_of(record).get("alias", (None, None))[1] == "slow")


@needs_daemon
def test_machines_come_and_go_by_other_hands(root):
    file = root / f"var/triton/vmadm/machines/{TWIN}.json"
    with Daemon(root), Listener(root, "-r") as listener:
        listener.next()
        kept = file.read_text()
        file.unlink()
        assert listener.until(lambda record: record["type"] == "delete")["uuid"] == TWIN
        temporary = file.with_name(".new")
        temporary.write_text(kept)
        temporary.rename(file)
        assert listener.until(lambda record: record["type"] == "create")["vm"]["alias"] == "db"
        assert run("vminfo", root, "ping").stdout == "pong\n"
        status = run("vminfo", root, "status").stdout.splitlines()
        assert any(line.startswith("numVms: ") for line in status)
        waiting = subprocess.Popen([BUILD / "vminfo", "--root", root, "events", "--until", "alias=there", TWIN], stdout=subprocess.PIPE, text=True)
        says(root, "rename", TWIN, "there")
        out, _ = waiting.communicate(timeout=60)
        assert waiting.returncode == 0 and ("alias changed" in out or out == "")


@needs_daemon
def test_a_vminfod_that_is_killed_while_somebody_listens(root):
    with Daemon(root) as daemon, Listener(root, "-r") as listener:
        listener.next()
        says(root, "rename", TWIN, "before")
        last = listener.until(lambda record: "alias" in changes_of(record))["seq"]
        daemon.signal(signal.SIGKILL)
        _, text = listener.process.communicate(timeout=60)
        assert (listener.process.returncode, text) == (3, "VminfodEventStream ended prematurely\n")
    code, out, text = says(root, "list", "-o", "alias", f"uuid={TWIN}")
    assert (code, out.split()) == (0, ["ALIAS", "before"]) and text.startswith(NOTE + "cannot reach vminfod on ")
    with Daemon(root):
        with Listener(root, "--since", str(last)) as listener:
            record = listener.until(lambda record: record["type"] == "resync")
            assert record["seq"] > last and len(record["vms"]) == len(MACHINES) + 1
        with Listener(root, "--since", str(record["seq"])) as listener:
            says(root, "rename", TWIN, "after")
            assert changes_of(listener.until(lambda record: "alias" in changes_of(record)))["alias"] == ("before", "after")

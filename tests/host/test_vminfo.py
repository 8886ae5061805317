"""vminfo with a vminfod that answers what it should, something else, or nothing."""

import json
import subprocess

import pytest
from info_place import BUILD, FakeVminfod, answer, run, stream

WEB = {"uuid": "6af640c5-9042-4985-bc94-ed532f779664", "alias": "web0", "state": "stopped"}
DB = {"uuid": "6af640c5-9042-4985-bc94-ed532f779665", "alias": "db\x1b[2J\u009b", "state": "running"}
NAMES = "/vms?fields=uuid%2Calias"


def record(kind, machine=None, changes=None, **more):
    members = {"seq": 7, "ts": "2026-11-22T16:12:19.453Z", "type": kind, **more}
    if machine:
        members |= {"uuid": machine["uuid"], "zonename": machine["uuid"], "alias": machine["alias"]}
        if kind != "delete":
            members["vm"] = machine
    if changes:
        members["changes"] = changes
    return json.dumps(members) + "\n"


def changed(path, before, after):
    return {"path": path, "prettyPath": path, "action": "changed", "from": before, "to": after}


READY = record("ready", vms=[WEB, DB], uuid="0000")
STARTED = record("modify", {**WEB, "state": "running"}, [changed("state", "stopped", "running"), changed("pid", 1, 2)])


def says(root, *words, **more):
    done = run("vminfo", root, *words, **more)
    return done.returncode, done.stdout, done.stderr


def test_nobody_there(tmp_path):
    code, out, text = says(tmp_path, "ping")
    assert (code, out) == (3, "")
    assert text == f"cannot reach vminfod on {tmp_path}/run/triton/vminfod.socket: No such file or directory\n"
    code, _, text = says(tmp_path, "-E", "ping")
    assert code == 3 and json.loads(text)["error"]["code"] == "unavailable"


def test_usage(tmp_path):
    assert says(tmp_path, "--version")[1].startswith("vminfo ")
    assert "Examples:" in says(tmp_path, "--help")[1]
    assert "\nUsage: vminfo events [-fjr] [VM]\n" in says(tmp_path, "events", "--help")[1]
    assert "\nUsage: vminfo ping\n" in says(tmp_path, "ping", "--help")[1]
    assert says(tmp_path, "pong") == (2, "", 'there is no command "pong"; did you mean "ping"?\n')
    assert says(tmp_path) == (2, "", "a command is missing; vminfo --help lists all commands\n")
    assert says(tmp_path, "-V")[1] == says(tmp_path, "--version")[1]
    assert "\nUsage: vminfo ping\n" in says(tmp_path, "help", "ping")[1]
    assert says(tmp_path, "ping", "x") == (2, "", 'ping: too many arguments: "x"\n')
    assert says(tmp_path, "events", "a", "b") == (2, "", 'too many arguments for events: "b"\n')
    assert says(tmp_path, "vm") == (2, "", "too few arguments for vm\n")
    assert says(tmp_path, "events", "--since", "yesterday") == (2, "", '--since "yesterday" is not the sequence number of an event\n')
    assert says(tmp_path, "vms", "colour=red") == (2, "", 'Invalid filter key: "colour"\n')
    assert says(tmp_path, "events", "--until", "state") == (2, "", '"state" is not a condition: expected KEY=VALUE\n')
    assert says(tmp_path, "top", "-s", "x") == (2, "", '"x" is not one of cpu, memory, tasks, alias\n')


@pytest.mark.parametrize("given, code, text", [
    (answer('{"ping":"pong"}\n'), 0, ""),
    (answer('{"ping":"ping"}'), 1, "vminfod does not answer pong\n"),
    (None, 1, "vminfod answers 404: Unsupported URL Path\n"),
    (answer("no\x1b[2J", "503 Service Unavailable"), 1, "vminfod answers 503: no\\x1b[2J\n"),
    (b"\x16\x03\x01garbage\r\n\r\n", 1, 'cannot read the answer of vminfod: it is not HTTP: "\\u0016\\u0003\\u0001garbage"\n'),
    (b"", 1, "cannot read the answer of vminfod: it ends too early\n"),
    (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, 1, "cannot read the answer of vminfod: it is longer than 1024 bytes\n"),
    (lambda connection: [connection.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 65536) for _ in range(1000)], 1,
     "cannot read the answer of vminfod: a line of its head is too long\n"),
])
def test_ping(tmp_path, given, code, text):
    with FakeVminfod(tmp_path, {"/ping": given}) as fake:
        assert says(tmp_path, "ping", env={"VMINFOD_NAME": "me\r\nX: y"}) == (code, "pong\n" if code == 0 else "", text)
        assert fake.names[0].startswith("vminfo/") and fake.names[0].endswith(" (me??X: y)")


def test_a_vminfod_that_hangs(tmp_path):
    with FakeVminfod(tmp_path, {"/ping": b""}, ends=False):
        assert says(tmp_path, "ping") == (4, "", "vminfod does not answer\n")


def test_vms_and_status(tmp_path):
    answers = {
        NAMES: answer(json.dumps([WEB, DB])),
        "/vms": answer(json.dumps([WEB, DB])),
        "/vms?alias=~%5Ew%20%26&fields=uuid%2Cstate": answer("[]"),
        "/vms?fields=alias": answer('[{"alias": "web0"}, {"alias": "\u009b"}, {}]'),
        "/vms?fields=state": answer('["running"]'),
        f"/vms/{WEB['uuid']}": answer(json.dumps(WEB)),
        f"/vms/{WEB['uuid']}?fresh=true": answer(json.dumps({**WEB, "ram": 1})),
        "/status": answer(json.dumps({"pid": 1, "queue": {"now": [], "eventsListeners": {"a\x1b[2J": {"userAgent": "x\ny"}}}, "sources": [{"name": "files"}]})),
        "/status?full": answer("{}"),
    }
    with FakeVminfod(tmp_path, answers):
        assert json.loads(says(tmp_path, "vms")[1]) == [WEB, DB]
        assert "\x1b" not in says(tmp_path, "vms")[1] and "\u009b" not in says(tmp_path, "vms")[1]
        assert says(tmp_path, "vms", "-o", "uuid,state", "alias=~^w &") == (0, "[]\n", "")
        assert json.loads(says(tmp_path, "vms", "-o", "alias")[1]) == [{"alias": "web0"}, {"alias": "\u009b"}, {}]  # without uuids
        assert says(tmp_path, "vms", "-o", "state") == (1, "", "cannot read the answer of vminfod: it is not a list of machines\n")
        assert json.loads(says(tmp_path, "vm", "web0")[1]) == WEB
        assert json.loads(says(tmp_path, "vm", "--fresh", WEB["uuid"])[1])["ram"] == 1
        assert says(tmp_path, "vm", "web") == (1, "", 'VM web not found; did you mean "web0"?\n')
        assert says(tmp_path, "vm", "6af640c5")[2].startswith("6af640c5 names 2 VMs\n")
        assert says(tmp_path, "status") == (
            0, "pid: 1\nqueue:\n  now: []\n  eventsListeners:\n    a\\x1b[2J:\n      userAgent: x\\x0ay\nsources:\n  -\n    name: files\n", "")
        assert says(tmp_path, "status", "-j", "-f") == (0, "{}\n", "")


def test_events_for_people_and_for_programs(tmp_path):
    deleted = record("delete", DB)
    answers = {
        "/events": stream(record("ack"), STARTED, record("heartbeat"), deleted),
        "/events?snapshot=true": stream(READY, STARTED),
        "/events?since=6&type=modify&type=delete&field=state": stream(STARTED),
    }
    ended = "VminfodEventStream ended prematurely\n"
    with FakeVminfod(tmp_path, answers):
        assert says(tmp_path, "events") == (
            3, '[16:12:19.453Z] 6af640c5 web0 modify: state changed :: "stopped" -> "running"\n'
            "[16:12:19.453Z] 6af640c5 web0 modify: pid changed :: 1 -> 2\n"
            "[16:12:19.453Z] 6af640c5 db\\x1b[2J\\x9b delete\n", ended)
        code, out, _ = says(tmp_path, "events", "-j")
        assert [json.loads(line) for line in out.splitlines()] == [json.loads(STARTED), json.loads(deleted)]
        assert says(tmp_path, "events", "-r", "-f")[1].splitlines()[0] == "[2026-11-22T16:12:19.453Z] 0000 - ready: 2 VMs"
        assert json.loads(says(tmp_path, "events", "-r", "-j")[1].splitlines()[0])["vms"] == [WEB, DB]
        assert says(tmp_path, "events", "--since", "6", "--type", "modify", "--type", "delete", "--field", "state")[1] != ""
        assert says(tmp_path, "events", "--field", "sate") == (2, "", 'Invalid field: "sate"\n')


def test_until(tmp_path):
    answers = {
        NAMES: answer(json.dumps([WEB, DB])),
        f"/vms/{WEB['uuid']}": answer(json.dumps(WEB)),
        f"/events?snapshot=true&vm={WEB['uuid']}": stream(record("ready", vms=[WEB]), STARTED),
        "/events?snapshot=true": stream(READY),
    }
    with FakeVminfod(tmp_path, answers, ends=False):
        code, out, text = says(tmp_path, "events", "--until", "state=running", "--until", "alias=web0", "web0")
        assert (code, len(out.splitlines()), text) == (0, 2, "")
        assert says(tmp_path, "events", "--until", "state=running") == (0, "", ""), "one runs already"
        assert says(tmp_path, "events", "--until", "state=failed", "--timeout", "0.2")[::2] == (4, "no VM has reached state=failed within 0.2 s\n")
        assert says(tmp_path, "events", "--until", "state=failed", "--until", "alias=web0", "--timeout", "0.2", "web0")[::2] == (4, "web0 has not reached state=failed and alias=web0 within 0.2 s\n")
        assert says(tmp_path, "events", "--timeout", "0.2", "-r", "--filter", "alias=x")[0] == 0
        assert says(tmp_path, "events", "--until", "state=running", "nobody") == (1, "", "VM nobody not found\n")
    for gone in (stream(record("ready", vms=[WEB]), record("delete", WEB)), stream(record("ready", vms=[])),
                 stream(record("ready", vms=[WEB]), record("resync", vms=[]))):
        with FakeVminfod(tmp_path, {**answers, f"/events?snapshot=true&vm={WEB['uuid']}": gone}, ends=False):
            assert says(tmp_path, "events", "--until", "state=running", "web0")[::2] == (1, f"VM {WEB['uuid']} was deleted\n")


def test_events_that_are_none(tmp_path):
    with FakeVminfod(tmp_path, {"/events": stream("hello\n")}):
        assert says(tmp_path, "events") == (1, "", "cannot read the answer of vminfod: line 1, column 1: syntax error while parsing value: invalid literal\n")


def test_nobody_reads_the_events(tmp_path):
    def many(connection):
        connection.sendall(stream(STARTED))
        while True:
            connection.sendall(b"%x\r\n%s\r\n" % (len(STARTED), STARTED.encode()))

    with FakeVminfod(tmp_path, {"/events": many}):
        done = subprocess.run(f"{BUILD}/vminfo --root {tmp_path} events | head -n 1; exit ${{PIPESTATUS[0]}}", shell=True, executable="/bin/bash",
                              capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_nobody_reads_and_nothing_happens(tmp_path):
    with FakeVminfod(tmp_path, {"/events": stream(STARTED)}, ends=False):
        done = subprocess.run(f"{BUILD}/vminfo --root {tmp_path} events | head -n 1; exit ${{PIPESTATUS[0]}}", shell=True, executable="/bin/bash",
                              capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_top(tmp_path):
    looks = iter(range(100))

    def usage(target):
        assert target == "/usage"
        return answer(json.dumps([
            {"uuid": WEB["uuid"], "alias": "web\x1b[2J", "state": "running", "cpu_nanoseconds": 5_000_000_000, "memory_bytes": 300 << 20, "tasks": 3},
            {"uuid": DB["uuid"], "alias": "db", "state": "running", "cpu_nanoseconds": next(looks) * 1_000_000_000, "memory_bytes": 1 << 20, "tasks": 5},
        ]))

    with FakeVminfod(tmp_path, usage) as fake:
        code, out, text = says(tmp_path, "top", "-n", "1", "-d", "1")
        assert (code, text, len(fake.asked)) == (0, "", 2)
        header, first, second = (line.split() for line in out.splitlines())
        assert header[:5] == ["UUID", "ALIAS", "STATE", "CPU%", "MEM_MIB"]
        assert first[:3] == [DB["uuid"], "db", "running"] and 10 < float(first[3]) <= 101, "a second of a processor in a second or more"
        assert second[:4] == [WEB["uuid"], "web\\x1b[2J", "running", "0.0"]
        _, first, _ = says(tmp_path, "top", "-n", "1", "-d", "1", "-s", "memory")[1].splitlines()
        assert first.startswith(WEB["uuid"])

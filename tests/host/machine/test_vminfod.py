"""vminfod on a host with systemd, machined and machines: what changes is told, whoever has changed it, and nothing is told twice."""

import http.client
import json
import re
import shutil
import socket
import time
from contextlib import contextmanager

import pytest
from machine_place import UNIT, configure, new_uuid, payload, sleeping

from harness.slowness import FACTOR

PATIENCE = 60 * FACTOR


class OverUnix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


class Vminfod:
    def __init__(self, host):
        self.host = host

    def connection(self):
        return OverUnix(self.host.socket("/run/triton/vminfod.socket"))

    def get(self, path):
        connection = self.connection()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status == 200, body
        return json.loads(body)

    def source(self, name):
        return next(source for source in self.get("/status")["sources"] if source["name"] == name)

    @contextmanager
    def events(self, query=""):
        connection = self.connection()
        connection.request("GET", f"/events{query}")
        yield Events(connection.getresponse())
        connection.close()


class Events:
    def __init__(self, answer):
        self.answer = answer
        self.first = self.next()
        self.seen = []

    def next(self):
        line = self.answer.readline()
        assert line, "the stream has ended"
        return json.loads(line)

    def until(self, is_it):
        """The first event that is it; a stream that says nothing of it for too long fails."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:  # heartbeats come for ever
            event = self.next()
            if event["type"] == "heartbeat":
                continue
            self.seen.append(event)
            if is_it(event):
                return event
        raise AssertionError(f"nothing but other events: {self.seen}")


def state(wanted):
    return lambda event: event.get("vm", {}).get("state") == wanted


def change(path, to):
    return lambda event: any(one["path"] == path and one["to"] == to for one in event.get("changes", []))


@pytest.fixture
def vminfod(host):
    host.run("systemctl", "restart", "vminfod", check=True)
    return Vminfod(host)


@pytest.fixture
def machine(vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="seen", launch=sleeping()))
    return uuid


def test_a_life_is_told(host, vmadm, vminfod, tiny):
    uuid = new_uuid()
    with vminfod.events(f"?vm={uuid}") as events:
        assert events.first["type"] == "ack"
        own = {"tags": {"role": "db"}, "customer_metadata": {"k": "v"}}
        vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="first", launch=sleeping(), **own))
        created = events.until(lambda event: event["type"] == "create")
        assert created["uuid"] == uuid
        assert {name: created["vm"][name] for name in own} == own and "launch" in created["vm"], "it is told with all that it has"
        running = events.until(state("running"))
        assert running["vm"]["pid"] == json.loads(vmadm.ok("get", uuid))["pid"]
        vmadm.ok("update", uuid, "alias=second")
        events.until(change("alias", "second"))
        vmadm.ok("create-snapshot", uuid, "one")
        assert events.until(lambda event: event.get("vm", {}).get("snapshots"))["vm"]["snapshots"][0]["name"] == "one"
        vmadm.ok("delete-snapshot", uuid, "one")
        events.until(lambda event: event["type"] == "modify" and not event["vm"].get("snapshots"))
        vmadm.ok("stop", uuid)
        events.until(state("stopped"))
        vmadm.ok("start", uuid)
        events.until(state("running"))
        vmadm.ok("delete", uuid)
        assert events.until(lambda event: event["type"] == "delete")["uuid"] == uuid
        changed = {one["path"].split(".")[0] for event in events.seen for one in event.get("changes", [])}
        assert not changed & {"tags", "customer_metadata", "launch"}, "nobody has changed them"
        sequences = [event["seq"] for event in events.seen]
        assert sequences == sorted(set(sequences))
    assert vminfod.get("/status")["missedEvents"] == 0


def test_what_others_do_is_told(host, vmadm, vminfod, machine):
    with vminfod.events(f"?vm={machine}") as events:
        host.run("machinectl", "terminate", machine, check=True)
        events.until(state("stopped"))
        vmadm.ok("start", machine)
        events.until(state("running"))
        host.run("systemctl", "stop", UNIT.format(machine), check=True)
        events.until(state("stopped"))
        host.run("systemctl", "start", UNIT.format(machine), check=True)
        events.until(state("running"))
    before = vminfod.get("/data")
    host.run("systemctl", "set-property", UNIT.format(machine), "CPUWeight=7", check=True)
    unit = wait_for(lambda: part(vminfod, machine, "unit"), lambda unit: unit["why"] == "limits")
    assert unit["generation"] > one_of(before, machine)["unit"]["generation"]
    with vminfod.events(f"?vm={machine}") as events:
        for option, cap in (([], 40), (["--runtime"], 30), ([], 50)):
            host.run("systemctl", "set-property", *option, UNIT.format(machine), f"CPUQuota={cap}%", check=True)
            events.until(change("cpu_cap", cap))
    assert vminfod.source("systemd")["working"] and vminfod.source("machined")["notifications"] > 0


def one_of(data, machine):
    return next(row for row in data if row["uuid"] == machine)


def part(vminfod, machine, name):
    return one_of(vminfod.get("/data"), machine)[name]


def wait_for(look, is_it):
    """Each look is a request that the daemon answers when it has done its work: no event tells of what has not changed."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        seen = look()
        if is_it(seen):
            return seen
    raise AssertionError(seen)


def test_processes_inside_are_told(host, vmadm, vminfod, machine):
    def processes(event):
        programs = (event["vm"].get("launch_status") or {}).get("programs") or []
        return [process for program in programs for process in program.get("processes", [])]

    with vminfod.events(f"?vm={machine}&snapshot=true") as events:
        leader = events.first["vms"][0]["pid"]
        child = host.run("pgrep", "-P", str(leader), check=True).stdout.split()[0]
        host.run("kill", "-KILL", child, check=True)
        events.until(lambda event: any(one["path"].startswith("launch_status") for one in event.get("changes", [])))
    assert vminfod.source("launchers")["working"]


def test_files_are_told_as_they_are(host, vmadm, vminfod, machine):
    path = host.path(f"/var/triton/vmadm/machines/{machine}.json")
    with vminfod.events(f"?vm={machine}") as events:
        good = path.with_suffix(".new")
        shutil.copy2(path, good)
        good.rename(path)  # an identical copy
        text = path.read_text()
        path.write_text("garbage\n")
        assert events.until(lambda event: True)["vm"]["state"] == "unreadable"
        path.write_text(text)
        assert events.until(lambda event: True)["vm"]["alias"] == "seen"
        # It is taken away and put back, which says nothing of a unit that runs.
        path.rename(good)
        events.until(lambda event: event["type"] == "delete")
        good.rename(path)
        back = events.until(lambda event: event["type"] == "create")["vm"]
        assert back["state"] == "running" and back["pid"] > 0
        # The directory is replaced by another one, where a machine has another name.
        directory = path.parent
        other = directory.with_name("other")
        shutil.copytree(directory, other)
        (other / path.name).write_text(text.replace('"seen"', '"moved"'))
        directory.rename(directory.with_name("old"))
        other.rename(directory)
        events.until(change_to_alias("moved"))
        path.write_text(text)  # the new directory is watched
        events.until(change_to_alias("seen"))
    shutil.rmtree(directory.with_name("old"))


def change_to_alias(alias):
    return lambda event: event.get("vm", {}).get("alias") == alias


def test_the_bus_is_started_again(host, vmadm, vminfod, machine):
    losses = vminfod.source("systemd")["losses"]
    with vminfod.events(f"?vm={machine}") as events:
        host.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "dbus.service", check=True)
        wait_for(lambda: vminfod.source("systemd"), lambda source: source["losses"] > losses and source["working"])
        vmadm.ok("stop", machine)
        events.until(state("stopped"))
        assert not any(state("stopped")(event) for event in events.seen[:-1])
        vmadm.ok("start", machine)
        events.until(state("running"))


def test_somebody_elses_port_is_no_reason_not_to_start(host, vmadm, vminfod, machine):
    table = host.run("cat", "/proc/net/tcp", "/proc/net/tcp6", check=True).stdout
    assert not re.search(r":2382 0+:0000 0A", table), "without a configuration it has no port"
    configure(host, info={"listen": "127.0.0.1:9090"})
    host.run("systemctl", "stop", "vminfod.service", check=True)
    host.run("systemd-run", "--quiet", "--unit=other-server", "/mnt/usr/bin/busybox", "nc", "-l", "-p", "9090", check=True)
    try:
        wait_for(lambda: host.run("cat", "/proc/net/tcp", "/proc/net/tcp6", check=True).stdout, lambda table: re.search(r"0:2382 0+:0000 0A", table))
        host.run("systemctl", "start", "vminfod.service", check=True)
        said = host.run("journalctl", "--unit=vminfod.service", "--boot", "--output=cat", "--lines=20", check=True).stdout
        assert "cannot listen on 127.0.0.1:9090" in said
        assert vminfod.get("/status")["notListening"].startswith("cannot listen on 127.0.0.1:9090")
        assert vminfod.get(f"/vms/{machine}")["uuid"] == machine
    finally:
        host.run("systemctl", "stop", "other-server.service")
        host.run("systemctl", "restart", "vminfod.service", check=True)
        status = vminfod.get("/status")
        configure(host)
        host.run("systemctl", "restart", "vminfod.service", check=True)
    assert "notListening" not in status


def test_its_sockets_are_started_as_often_as_one_likes(host):
    for socket_unit in ("vminfod.socket", "volumemgr.socket"):
        for _ in range(8):
            host.run("systemctl", "restart", socket_unit, check=True)
    host.run("systemctl", "start", "vminfod.service", check=True)
    assert host.run("vminfo", "ping", check=True).stdout == "pong\n"


def test_it_is_killed(host, vmadm, vminfod, machine):
    with vminfod.events() as events:
        sequence = events.first["seq"]
    host.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "vminfod.service", check=True)
    vmadm.ok("update", machine, "alias=while-dead")
    with vminfod.events(f"?since={sequence}") as events:
        # What happened meanwhile cannot be told, and that is said.
        record = events.first if events.first["type"] == "resync" else events.until(lambda event: event["type"] == "resync")
        assert record["seq"] > sequence
        assert [vm["alias"] for vm in record["vms"] if vm["uuid"] == machine] == ["while-dead"]


def test_a_launcher_that_hangs_delays_nobody(host, vmadm, vminfod, tiny, machine):
    hanging = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=hanging, launch=sleeping()))
    leader = str(vminfod.get(f"/vms/{hanging}")["pid"])
    host.run("kill", "-STOP", leader, check=True)  # its socket accepts, and nothing answers
    host.run("systemctl", "restart", "vminfod", check=True)
    with vminfod.events(f"?vm={machine}") as events:
        for number in range(20):
            vmadm.ok("update", machine, f"alias=number{number}")
            events.until(change("alias", f"number{number}"))
    hung = vminfod.get(f"/vms/{hanging}")
    assert hung["state"] == "running" and "launch_status" not in hung
    with vminfod.events(f"?vm={hanging}") as events:
        host.run("kill", "-CONT", leader, check=True)
        assert events.until(lambda event: True)["changes"][0]["path"] == "launch_status"

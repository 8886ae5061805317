"""Clients of every bad kind at once: processes are restarted as if nobody was there, and memory stays bounded."""

import contextlib
import datetime
import json
import select
import signal
import socket
import threading

import pytest

from harness.control import INTERFACE, Controlled, Varlink
from harness.process import BINARY, eventually, is_static

KILLS = 15
MEBIBYTE = 1024  # of VmRSS, which is in kB
STAY = ["trap", "say:up", "until:15"]


def message(method, **parameters):
    """A call, as bytes."""
    return json.dumps({"method": f"{INTERFACE}.{method}", "parameters": parameters}).encode() + b"\0"


class Client:
    """One of a flood: sends the same bytes again and again, and reads the answers or does not."""

    def __init__(self, path, data, reads):
        self.path, self.data, self.reads = str(path), data, reads
        self.socket = None
        self.sent = 0
        self.connect()

    def connect(self):
        """A connection, in place of one that the launcher has closed."""
        if self.socket:
            self.socket.close()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.setblocking(False)
        self.left = b""
        with contextlib.suppress(OSError):
            self.socket.connect(self.path)

    def act(self):
        """Sends and reads as much as goes at once."""
        try:
            with contextlib.suppress(BlockingIOError):
                for _ in range(8):
                    self.left = self.left or self.data
                    count = self.socket.send(self.left)
                    self.left = self.left[count:]
                    self.sent += count
            if self.reads:
                with contextlib.suppress(BlockingIOError):
                    while self.socket.recv(1 << 16):
                        pass
        except OSError:
            self.connect()


class Flood(threading.Thread):
    """Drives all clients until it is told to end."""

    def __init__(self, path):
        super().__init__(daemon=True)
        half = message("List")[:-20]
        kinds = [(message("List"), True)] * 8 + [(message("GetStatus") * 50, True)] * 4 + [
            (message("List") * 20, False), (message("Subscribe"), False), (b"\xff\x00garbage\0" * 10, True),
            (b"x" * 65536, True), (half, True), (b"", True), (message("Wait", program="web", condition="down"), True),
            (message("Logs", program="web", lines=10), True), (b"{}\0[]\0null\0", True),
            (json.dumps({"method": "x", "parameters": {"deep": "[" * 2000}}).encode() + b"\0", True)]
        self.clients = [Client(path, data, reads) for data, reads in kinds]
        self._enough = threading.Event()

    def run(self):
        while not self._enough.is_set():
            for client in self.clients:
                client.act()
            sockets = [client.socket for client in self.clients]
            select.select([], sockets[:1], [], 0.001)

    def finish(self):
        """Ends it. Returns how many bytes were sent."""
        self._enough.set()
        self.join()
        for client in self.clients:
            client.socket.close()
        return sum(client.sent for client in self.clients)


def when(record):
    """The time of a log record, in seconds."""
    return datetime.datetime.fromisoformat(record["time"].replace("Z", "+00:00")).timestamp()


def restart_again_and_again(controlled):
    """Kills the process so many times. Returns how long after each end the next one was started."""
    launcher = controlled.launcher
    delays = []
    pid = launcher.events_named("process-started", program="web")[-1]["pid"]
    for _ in range(KILLS):
        launcher.signal_inside(pid, signal.SIGKILL)
        ended = launcher.wait_for_event("process-exited", program="web", pid=pid)
        started = launcher.wait_for_event("process-started", program="web")
        delays.append(when(started) - when(ended))
        pid = started["pid"]
        launcher.wait_up(pid=pid)
    return delays


@pytest.fixture(name="beaten")
def start_beaten(as_pid1):
    """A launcher with a program that is killed and started again at once."""
    backoff = {"initial": "5ms", "max": "5ms", "jitter": 0}
    controlled = Controlled(as_pid1, {"web": {"steps": STAY, "backoff": backoff},
                                      "many": {"steps": ["trap", "say:up", "until:15"], "count": 50}})
    for _ in range(51):
        controlled.launcher.wait_up()
    launcher = controlled.launcher
    launcher.wait_for_event("process-started", program="web")
    return controlled


def test_restarts_in_a_flood(beaten):
    """Restarts come as soon as ever, and what clients cost is bounded and given back."""
    launcher = beaten.launcher
    alone = restart_again_and_again(beaten)
    before = int(launcher.status()["VmRSS"].split()[0])
    flood = Flood(beaten.socket)
    flood.start()
    eventually(lambda: sum(client.sent for client in flood.clients) > 1 << 20, "the flood has come")
    delays = restart_again_and_again(beaten)
    during = int(launcher.status()["VmRSS"].split()[0])
    assert flood.finish() > 1 << 20
    # Of those who share two processors with a flood, anybody may have to wait for one now and then.
    assert sorted(delays)[-3] < max(alone) + 0.5 and max(delays) < max(alone) + 5, (alone, delays)
    if is_static(BINARY):  # a sanitizer keeps what is freed
        assert during < before + 24 * MEBIBYTE
    # Everyone is served again, and all that the flood has cost is free.
    assert beaten.process("web")["state"] == "up"
    if is_static(BINARY):
        eventually(lambda: int(launcher.status()["VmRSS"].split()[0]) < before + 4 * MEBIBYTE, "memory is given back")
    assert launcher.events_named("internal-error") == []
    assert len(launcher.events_named("process-exited", program="many")) == 0


def test_a_reader_that_sleeps(beaten):
    """A subscriber that never reads loses events, is told how many, and holds up nobody."""
    sleeper = Varlink(beaten.socket)
    sleeper.send("Subscribe", {}, more=True)
    sleeper.receive()
    follower = beaten.follow("events", "--json")
    commands = 0

    def told():
        for stream in (beaten.launcher.events, beaten.launcher.probe, follower):
            stream.drain()
        return sum('"control-command"' in line for line in follower.lines)

    def signal_many():
        nonlocal commands
        commands += 1
        beaten.ctl("signal", "USR1", "many")
        return told()
    try:
        eventually(signal_many, "the other one is there")
        for _ in range(80):
            before = told()
            signal_many()
            eventually(lambda: told() > before, "the one that reads is told")
        lost = 0
        seen = 0
        while seen + lost < commands * 51:
            reply = sleeper.receive()
            assert reply is not None and reply["continues"], (seen, lost)
            lost += reply["parameters"].get("lost", 0)
            seen += "event" in reply["parameters"]
        assert seen + lost == commands * 51
        assert lost > 0
    finally:
        beaten.close()


@pytest.mark.parametrize("data", [b"\0", b"garbage\0", b"[]\0", b'{"method":1}\0',
                                  b'{"method":"x.y","parameters":[]}\0', b"{" * 5000 + b"\0", b"\xff\xfe\0", b"x" * (1 << 20)],
                         ids=["empty", "text", "list", "method", "parameters", "deep", "bytes", "long"])
def test_garbage(beaten, data):
    """What is not a call is answered by an error or the end of the connection, and by nothing else."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(beaten.socket))
        with contextlib.suppress(OSError):
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(1 << 16):
                answer += piece
    replies = [json.loads(reply) for reply in answer.split(b"\0") if reply]
    assert all("error" in reply for reply in replies), replies
    assert list(beaten.status()) == ["web", "many"]

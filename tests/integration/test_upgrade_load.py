"""A hundred upgrades in a row while everything goes on: nothing is lost, nothing happens twice, nobody notices."""

import collections
import contextlib
import fcntl
import os
import re
import signal
import socket
import threading
import time

import pytest

from harness.control import Controlled, Varlink
from harness.process import BINARY, TIMEOUT, VERSION, Exit, eventually, matcher, wait_readable

UPGRADES = 100
RTMIN = int(signal.SIGRTMIN)
AT_ONCE = {"initial": "5ms", "max": "5ms", "jitter": 0}
LINES = 200

# Each run writes its pid and the numbers 0 to LINES - 1, then ends; every line tells to whom it belongs.
TALK = f'i=0; while [ $i -lt {LINES} ]; do echo "<$$ $i>"; i=$((i+1)); [ $((i % 50)) != 0 ] || /bin/sleep 0.01; done'
SAY_READY = """
import os, socket
path = os.environ["NOTIFY_SOCKET"]
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.connect("\\0" + path[1:] if path.startswith("@") else path)
heard, barrier = os.pipe()
socket.send_fds(to, [b"READY=1\\nSTATUS=at work"], [barrier])
os.close(barrier)
os.read(heard, 1)  # its end: the message was taken, and its descriptor closed
"""
SERVE = """
import os, socket
assert os.environ["LISTEN_FDS"] == "1" and os.environ["LISTEN_PID"] == str(os.getpid())
listener = socket.socket(fileno=3)
while True:
    peer, _ = listener.accept()
    peer.sendall(str(os.getpid()).encode())
    peer.close()
"""


def python(text):
    """A command that runs this script."""
    return ["/usr/bin/python3", "-IS", "-c", text]


class Visitor(threading.Thread):
    """Connects to a listening socket all the time; every connection must be answered, by the same process."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = str(path)
        self.answers = collections.Counter()
        self.error = None
        self._enough = threading.Event()

    def run(self):
        try:
            while not self._enough.is_set():
                with socket.socket(socket.AF_UNIX) as visit:
                    visit.settimeout(20)
                    visit.connect(self.path)
                    self.answers[visit.recv(100)] += 1
                self._enough.wait(0.001)
        except OSError as error:
            self.error = error

    def finish(self):
        """Ends the visits and returns who has answered how often."""
        self.end()
        assert self.error is None, self.error
        return self.answers

    def end(self):
        """Ends them, if that has not been done."""
        self._enough.set()
        self.join()


class Reader(threading.Thread):
    """Takes what the launcher and the probes write while the test waits for something else."""

    def __init__(self, launcher):
        super().__init__(daemon=True)
        self.streams = [launcher.events, launcher.probe]
        for stream in self.streams:  # room for what is written while this thread is not given a processor
            fcntl.fcntl(stream.fd, fcntl.F_SETPIPE_SZ, 1 << 20)
        self._wake, self._finish = os.pipe()

    def run(self):
        while self._wake not in wait_readable([self._wake, *(stream.fd for stream in self.streams)],
                                              time.monotonic() + TIMEOUT):
            for stream in self.streams:
                stream.drain()

    def finish(self):
        """Ends it, if that has not been done; from now on the test reads by itself."""
        if not self.is_alive():
            return
        os.close(self._finish)
        self.join()
        os.close(self._wake)


def upgrade(controlled):
    """One upgrade, as fast as the launcher does it."""
    connection = Varlink(controlled.socket)
    begun = connection.call("Upgrade", {"path": str(BINARY)}, more=True)
    assert begun and "error" not in begun, begun
    assert connection.receive() is None
    connection.close()


def programs_under_load(area):
    """Something of every kind."""
    return {
        "steady": {"steps": ["trap", "say:up", "until:15"], "count": 3,
                   "health": {"command": ["/bin/true"], "interval": "50ms"}},
        "talk": {"command": ["/bin/sh", "-c", TALK], "count": 2, "backoff": AT_ONCE, "output": {"format": "prefix"}},
        "crash": {"steps": ["exit:3"], "count": 2, "backoff": AT_ONCE},
        "die": {"steps": ["sleep:3", "die:9"], "backoff": AT_ONCE},
        "pipe": {"command": ["/bin/sh", "-c", "echo ready >&3; exec /bin/sleep 0.05"],
                 "readiness": {"type": "fd"}, "backoff": AT_ONCE},
        "notify": {"command": python(SAY_READY), "readiness": {"type": "notify"}, "backoff": AT_ONCE},
        "once": {"steps": ["exit:0"], "oneShot": True},
        # either a line and exit code 0, or neither, whenever the stop comes
        "tick": {"steps": ["ignore:15", f"append:{area}/ticks"], "schedule": {"every": "100ms"}},
        "serve": {"command": python(SERVE), "sockets": [{"name": "web", "listen": f"unix:{area}/web"}]},
        "waits": {"steps": ["exit:1"], "backoff": {"initial": "1h", "max": "1h", "jitter": 0}},
        "held": ["trap", "say:up", "until:15"],
        "gone": {"steps": ["exit:1"], "restart": "never"},
    }


def check_processes(launcher, status, unfinished=()):
    """Every start has one end or a process that lives, and there is no process that nobody knows."""
    started = [record["pid"] for record in launcher.events_named("process-started")]
    exited = [record["pid"] for record in launcher.events_named("process-exited")]
    assert len(set(started)) == len(started)
    assert len(set(exited)) == len(exited)
    strays = set(exited) - set(started)
    assert not strays, [record for record in launcher.events.all if record.get("pid") in strays]
    living = {process["pid"] for program in status.values() for process in program["processes"].values()
              if "pid" in process}
    assert set(started) - set(exited) == living | set(unfinished)
    return started, exited


def check_lines(launcher):
    """No line is lost or comes twice, and all are in order; a run that has ended has said everything."""
    said = collections.defaultdict(list)
    for record in launcher.events.all:
        if "text" in record and (line := re.fullmatch(r"talk\[\d\] \| <(\d+) (\d+)>", record["text"])):
            said[int(line[1])].append(int(line[2]))
    for pid, numbers in said.items():
        assert numbers == list(range(len(numbers))), f"{pid}: {numbers}"
    for record in launcher.events_named("process-exited", program="talk"):
        if record.get("exit_code") == 0:
            assert len(said[record["pid"]]) == LINES, record
    return said


def test_hundred_upgrades(place, area):
    """The one test that matters: a hundred upgrades, counted, with all that may happen meanwhile."""
    controlled = Controlled(place, programs_under_load(area))
    launcher = controlled.launcher
    reader = Reader(launcher)  # else the log would drop lines, and say so
    visitor = Visitor(area / "web")
    reader.start()
    try:
        eventually(lambda: sum(record.get("text") == "up" for record in launcher.probe.all) == 4, "they trap signals")
        for name in ("steady", "serve", "pipe", "notify"):
            controlled.ctl("wait", name, "--for", "ready")
        controlled.ctl("wait", "once", "--for", "done")
        controlled.ctl("stop", "held")
        eventually(lambda: controlled.process("waits")["state"] == "backoff", "it waits for its restart")
        eventually(lambda: controlled.process("gone")["state"] == "failed", "it has failed")
        began = time.monotonic()
        before = controlled.status()
        steady = [before["steady"]["processes"][number]["pid"] for number in (1, 2, 3)]
        visitor.start()
        to_send = Varlink(controlled.socket)
        for count in range(UPGRADES):
            # On its way while the launcher becomes another.
            launcher.signal_inside(steady[count % 3], RTMIN + 5)
            with contextlib.suppress(OSError):
                to_send.send("List")
            upgrade(controlled)
            to_send = Varlink(controlled.socket)
            to_send.call("Signal", {"program": "steady", "process": 1 + count % 3, "signal": "RTMIN+6"})
        answers = visitor.finish()
        after = controlled.status()
        seconds = time.monotonic() - began

        # what lives is what lived
        assert [after["steady"]["processes"][number]["pid"] for number in (1, 2, 3)] == steady
        assert list(answers) == [str(before["serve"]["processes"][1]["pid"]).encode()], [
            record for record in launcher.events.all if record.get("program") == "serve"]
        assert sum(answers.values()) > UPGRADES
        for number in (1, 2, 3):
            assert after["steady"]["processes"][number]["starts"] == 1
        eventually(lambda: len(signals(launcher, RTMIN + 5)) == UPGRADES, "all that was sent")
        eventually(lambda: len(signals(launcher, RTMIN + 6)) == UPGRADES, "all by command")

        # what was decided stays decided
        assert after["once"]["processes"][1]["state"] == "done" and after["once"]["processes"][1]["starts"] == 1
        assert after["held"]["processes"][1]["state"] == "held"
        assert after["gone"]["processes"][1]["state"] == "failed" and after["gone"]["processes"][1]["starts"] == 1
        assert after["gone"]["processes"][1]["last_exit"] == before["gone"]["processes"][1]["last_exit"]
        then, now = (status["waits"]["processes"][1] for status in (before, after))
        assert now["state"] == then["state"] == "backoff" and now["starts"] == then["starts"]
        assert then["restart_in_seconds"] - seconds - 1 < now["restart_in_seconds"] < then["restart_in_seconds"]

        # what goes on has gone on
        for name in ("talk", "crash", "die", "pipe", "notify"):
            assert after[name]["processes"][1]["starts"] > before[name]["processes"][1]["starts"], name
        for name in ("talk", "crash", "die", "pipe", "notify"):
            controlled.ctl("wait", name, "--for", "up")

        reader.finish()
        assert launcher.stop(timeout=30) == Exit(code=0)
        assert len(launcher.events_named("upgrade-done")) == UPGRADES
        started, exited = check_processes(launcher, {})
        assert sorted(started) == sorted(exited)
        said = check_lines(launcher)
        assert len(said) > 2
        assert (area / "ticks").read_text().count("line") == len(launcher.events_named("process-exited", program="tick",
                                                                                      exit_code=0))
        for trouble in ("internal-error", "helper-failed", "log-lines-dropped", "output-dropped", "control-failed",
                        "configuration-rejected", "process-unhealthy", "output-failed", "upgrade-failed"):
            assert launcher.events_named(trouble) == []
        assert len(launcher.events_named("launcher-started")) == 1
    finally:
        # A thread that went on would poll what the next tests open under the same numbers, and keep it from closing.
        if visitor.is_alive():
            visitor.end()
        reader.finish()
        controlled.close()


def signals(launcher, number):
    """The signals of this number that the probes have seen."""
    match = matcher({"probe": "signal", "signal": number})
    return [record for record in launcher.probe.all if match(record)]


def test_signals_at_execve(place):
    """What is sent to the launcher while it becomes another is forwarded, each time."""
    controlled = Controlled(place, {"steady": {"steps": ["trap", "say:up", "until:15"], "count": 2}})
    launcher = controlled.launcher
    launcher.wait_up()
    launcher.wait_up()
    enough = threading.Event()
    sent = collections.Counter()

    def send():
        while not enough.wait(0.0005):
            launcher.signal(RTMIN + 5)
            sent[RTMIN + 5] += 1

    sender = threading.Thread(target=send, daemon=True)
    reader = Reader(launcher)  # a probe that cannot write takes no signals, of which only so many can wait
    reader.start()
    sender.start()
    try:
        for _ in range(20):
            upgrade(controlled)
    finally:
        enough.set()
        sender.join()
        reader.finish()
    assert sent[RTMIN + 5] > 20

    def arrived():
        launcher.probe.drain()
        return len(signals(launcher, RTMIN + 5)) == 2 * sent[RTMIN + 5]
    eventually(arrived, "each signal arrives at each process")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("count", [20])
def test_designs_form(place, count):
    """The design's form goes through upgrades as well: the same processes, the same restarts."""
    document = {"version": VERSION, "count": 3,
                "arguments": [{"type": "Concatenate", "values": [{"value": "n:"}, {"type": "ProcessNumber"}]},
                              {"value": "trap"}, {"value": "say:up"}, {"value": "until:10"}, {"value": "exit:5"}]}
    controlled = Controlled(place, {}, "--restart-delay", "5ms", document=document)
    launcher = controlled.launcher
    pids = {}
    for _ in range(3):
        up = launcher.wait_up()
        pids[up["n"]] = up["pid"]
    for turn in range(count):
        number = 1 + turn % 3
        launcher.signal_inside(pids[number], signal.SIGUSR1)  # its end may come during the upgrade
        upgrade(controlled)
        assert launcher.wait_for_event("process-exited", process=number)["exit_code"] == 5
        pids[number] = launcher.wait_up(n=number)["pid"]
        processes = controlled.status()[""]["processes"]
        assert {at: process["pid"] for at, process in processes.items()} == pids
    started, exited = check_processes(launcher, controlled.status())
    assert len(started) == 3 + count and len(exited) == count
    assert launcher.process_count() == 4 + (not launcher.pid1)

"""Terminals of programs (`tty`), and clients and programs that are up to no good."""

import contextlib
import json
import os
import socket
import struct
import subprocess
import time

import pytest

from harness.control import reach
from harness.person import DETACH
from harness.process import TIMEOUT, eventually

SHELL = {"command": ["/bin/sh"], "tty": True, "environment": {"PS1": "ready> ", "ENV": "/dev/null"}}
FLOOD = {"command": ["/bin/sh", "-c", "exec yes 0123456789012345678901234567890123456789"], "tty": True, "output": "null"}
DEAF = {"command": ["/bin/sh", "-c", "stty raw -echo; echo deaf; exec sleep 1000"], "tty": True}


class Client:
    """A connection that speaks in frames, or in something else."""

    def __init__(self, controlled, program, **parameters):
        connection = reach(controlled.socket)
        reply = connection.call("Attach", {"program": program, **parameters}, upgrade=True)
        assert "error" not in reply, reply
        self.socket = connection.socket
        self.rest = connection._rest  # pylint: disable=protected-access

    def send(self, what, content=b""):
        self.socket.sendall(what + len(content).to_bytes(3, "big") + content)

    def frame(self):
        """The next frame; None at the end."""
        def need(size):
            while len(self.rest) < size:
                try:
                    data = self.socket.recv(1 << 16)
                except ConnectionResetError:
                    data = b""
                if not data:
                    return False
                self.rest += data
            return True
        if not need(4):
            return None
        size = int.from_bytes(self.rest[1:4], "big")
        assert need(4 + size)
        what, content, self.rest = self.rest[:1], self.rest[4:4 + size], self.rest[4 + size:]
        return what, content

    def sees(self, text):
        """Waits for a text of the terminal."""
        seen = b""
        while text not in seen:
            frame = self.frame()
            assert frame, f"ended without {text}: {seen[-300:]}"
            seen += frame[1] if frame[0] == b"d" else b""
        return seen

    def ends(self):
        while self.frame():
            pass
        return True


def works(controlled):
    """The launcher answers at once, and other terminals work."""
    began = time.monotonic()
    controlled.ctl("status")
    client = Client(controlled, "sh")
    client.send(b"d", b"echo works-$((40+2))\n")
    client.sees(b"works-42")
    client.socket.close()
    return time.monotonic() - began


def ready(controlled):
    """The shell has its prompt."""
    def has_prompt():
        with contextlib.suppress(AssertionError):
            Client(controlled, "sh").sees(b"ready> ")
            return True
        return False
    eventually(has_prompt, "the shell is there")


def test_clients_that_never_read(run):
    """They lose output for themselves; who reads goes on, and so do the program and the launcher."""
    controlled = run({"sh": SHELL, "flood": FLOOD})
    ready(controlled)
    stuck = [Client(controlled, "flood") for _ in range(8)]
    reader = Client(controlled, "flood")
    seen = 0
    deadline = time.monotonic() + TIMEOUT
    while seen < 4 << 20:  # far more than what may wait for anybody
        seen += len(reader.frame()[1])
        assert time.monotonic() < deadline, f"only {seen} bytes in {TIMEOUT} s"
    assert works(controlled) < 10
    told = False
    deadline = time.monotonic() + TIMEOUT
    while not told and time.monotonic() < deadline:
        what, content = stuck[0].frame()
        told = what == b"l" and int(content) > 0
    assert told, "nobody has said that something is lost"


def test_client_that_is_killed_in_a_flood(run):
    """Its place is free again, and the program goes on."""
    controlled = run({"sh": SHELL, "flood": FLOOD})
    ready(controlled)
    for _ in range(40):  # more than there are places
        command = subprocess.Popen(controlled.command("attach", "flood"), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert os.read(command.stdout.fileno(), 1)
        command.kill()
        command.communicate()
    assert works(controlled) < 10


def test_places_are_limited(run):
    """The one too many is refused, and may come again."""
    controlled = run({"sh": SHELL})
    ready(controlled)
    many = [Client(controlled, "sh") for _ in range(32)]
    connection = reach(controlled.socket)
    reply = connection.call("Attach", {"program": "sh"}, upgrade=True)
    assert reply["error"].endswith("Refused") and "too many" in reply["parameters"]["reason"]
    many.pop().socket.close()
    eventually(lambda: "error" not in reach(controlled.socket).call("Attach", {"program": "sh"}, upgrade=True),
               "there is a place again")


def test_flood_of_keys_for_a_program_that_never_reads(run):
    """Only who types is held up."""
    controlled = run({"sh": SHELL, "deaf": DEAF})
    ready(controlled)
    client = Client(controlled, "deaf")
    client.sees(b"deaf")
    client.socket.settimeout(1)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while True:
            client.send(b"d", b"x" * 4096)
            sent += 4096
            assert sent < 16 << 20, "all of it is kept somewhere"
    assert works(controlled) < 10
    before = controlled.launcher.cpu_seconds()
    controlled.launcher.quiet_for(0.5)
    assert controlled.launcher.cpu_seconds() - before < 0.2, "it spins"
    controlled.ctl("stop", "deaf")
    assert client.ends()


def test_flood_of_small_frames(run):
    """A byte each, and windows without end."""
    controlled = run({"sh": SHELL, "deaf": DEAF})
    ready(controlled)
    client = Client(controlled, "sh")
    window = b"w\0\0\4" + struct.pack(">HH", 30, 90) + b"w\0\0\4" + struct.pack(">HH", 31, 91)
    client.socket.settimeout(5)
    with contextlib.suppress(TimeoutError):
        for _ in range(200):
            client.socket.sendall(window * 2000)
    assert works(controlled) < 10


@pytest.mark.parametrize("garbage", [b"\xff" * 64, b"d\0\x40\x01", b"GET / HTTP/1.1\r\n\r\n",
                                     b'{"method":"org.tritonlaunch.Launcher.Stop"}\0'])
def test_what_is_not_a_frame(run, garbage):
    """Ends that connection."""
    controlled = run({"sh": SHELL})
    ready(controlled)
    client = Client(controlled, "sh")
    client.socket.sendall(garbage)
    assert client.ends()
    assert works(controlled) < 10


def test_descriptors_are_not_taken(run):
    """They could be slow to close."""
    controlled = run({"sh": SHELL})
    ready(controlled)
    client = Client(controlled, "sh")
    ends = os.pipe()
    socket.send_fds(client.socket, [b"d"], list(ends))
    assert client.ends()
    assert works(controlled) < 10
    for fd in ends:
        os.close(fd)


def test_half_a_frame_and_nothing_more(run):
    """Costs its place alone."""
    controlled = run({"sh": SHELL})
    ready(controlled)
    client = Client(controlled, "sh")
    client.socket.sendall(b"d\0\x10")
    assert works(controlled) < 10
    client.socket.sendall(b"\0" + b"\n" * 4096)
    client.sees(b"ready> ")


def test_what_hangs_on_to_a_terminal(run):
    """A descendant that ignores hang-ups and writes on: its terminal is gone with the process, the next has another."""
    controlled = run({"sh": SHELL, "left": {
        "command": ["/bin/bash", "-c", "(trap '' HUP; while echo noise; do :; done) & sleep 0.2; exit 0"], "tty": True,
        "output": "null", "backoff": {"initial": "5ms", "max": "5ms", "jitter": 0}}})
    ready(controlled)
    eventually(lambda: controlled.status()["left"]["processes"][1]["starts"] > 3, "it is started again and again")
    assert works(controlled) < 10


def test_program_with_a_sandbox_may_not_attach(run):
    """Nor to its own terminal by way of the launcher."""
    controlled = run({"sh": SHELL, "box": {**SHELL, "noNewPrivileges": True}})
    ready(controlled)
    client = Client(controlled, "box")
    client.sees(b"ready> ")
    client.send(b"d", " ".join(controlled.command("attach", "sh")).encode() + b" </dev/null; echo code-$?\n")
    seen = client.sees(b"code-1")
    assert b"does not let this user in" in seen, json.dumps(seen.decode(errors="replace"))


@pytest.mark.parametrize("left, undone", [
    (b"\x1b]0;half a title ", rb"\x1b\\"),
    (b"\x1bP\x07", rb"\x1b\\"),  # no end of it for xterm
    (b"\x1b[?" + b"0" * 5000 + b"1049h", rb"\x1b\[\?1049l"),
    (b"\x1b[?" + b"25;" * 5000 + b"1000h", rb"\x1b\[\?1000l"),
    (b"\xc2\x9b?1000h", rb"\x1b\[\?1000l"),
    (b"\x1b[>31u" * 5000, rb"\x1b\[<5000u")], ids=["title", "string", "zeros", "numbers", "UTF-8", "keys"])
def test_what_a_program_leaves_on_a_terminal(run, people, area, left, undone):
    """Somebody leaves it: whoever sits there has a terminal that shows what is written and takes keys as before."""
    (area / "left").write_bytes(left)
    controlled = run({"evil": {"command": ["/bin/sh", "-c", "echo ready; read key; cat \"$0\"; echo all; exec sleep 1000",
                                           str(area / "left")], "tty": True}})
    controlled.running("evil")
    person = people(controlled, "evil")
    person.sees("ready")
    person.press("\r")
    person.sees("all\r\n")
    person.press(DETACH)
    assert person.leaves() == 0
    person.sees(undone + rb".*\s\[detached from evil:1\]")

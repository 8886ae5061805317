"""Configurations that are made to hold the launcher up: it refuses or takes them, and goes on serving."""

import json
import os
import time

import pytest

from harness.control import reach
from harness.process import Exit
from harness.programs import document, run, service

AT_MOST = 10.0  # seconds from writing a document to an answer about it, on a busy machine
MOST_ERRORS = 100


def many(name, count):
    """Names that mean nothing."""
    return [f"{name}_{number}" for number in range(count)]


def programs_with(count, **keys):
    """So many programs that do nothing; `keys` are the same for all."""
    return {f"p{number}": {"command": ["/bin/true"], "restart": "never", **keys} for number in range(count)}


REFUSED = {
    "unknown system calls": document(programs_with(1, seccomp={"deny": many("call", 50000)})),
    "unknown capabilities": document(programs_with(1, capabilities={"bounding": many("CAP", 50000)})),
    "unknown keys and values": document({name: {"command": 7} for name in many("p", 20000)}),
    "dependencies in a circle": document({f"p{n}": {"command": ["/bin/true"], "after": [f"p{(n + 1) % 900}"]} for n in range(900)}),
    "too deep": '{"a":' * 5000 + "1" + "}" * 5000,
    "too many values": json.dumps({"version": "1", "arguments": [1] * 400000}),
    "too large": document(programs_with(1)) + " " * (1 << 21),
    "numbers": '{"version":"1.0.0","programs":{"web":{"command":["x"],"count":' + "9" * 100000 + "}}}",
    "not UTF-8": '{"version":"\udcff\udcfe"}',
    "NUL": document(programs_with(1)).replace("/bin/true", "/bin/true\\u0000x"),
}

TAKEN = {
    "equal filters": document({"web": service("web"), **programs_with(500, seccomp={"profile": "strict"})}),
    "long arguments": document({"web": service("web"), "long": {"command": ["/bin/true", *["x" * 100] * 5000], "restart": "never"}}),
}


@pytest.fixture(name="running")
def start(as_pid1):
    """A launcher with one program, and the path of its control socket."""
    launcher = run(as_pid1, {"web": service("web")})
    launcher.wait_up()
    return launcher, as_pid1.area / "control"


def give(launcher, text):
    """Writes a document, in one step."""
    launcher.configuration.write_text(text.encode(errors="surrogateescape"))


def assert_goes_on(launcher, control):
    """Asserts that it answers, and ends in order."""
    client = reach(control)
    client.socket.settimeout(AT_MOST)
    assert client.call("GetStatus")["parameters"]["launcher"]["pid"] == 1
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("what", REFUSED)
def test_a_document_that_is_refused(running, what):
    launcher, control = running
    give(launcher, REFUSED[what])
    errors = launcher.wait_for_event("configuration-rejected", timeout=AT_MOST)["errors"]
    assert 0 < len(errors) <= MOST_ERRORS + 1
    assert sum(map(len, errors)) < 1 << 16
    assert_goes_on(launcher, control)


@pytest.mark.parametrize("what", TAKEN)
def test_a_document_that_is_large(running, what):
    launcher, control = running
    launcher.wait_for_event("configuration-loaded")
    give(launcher, TAKEN[what])
    launcher.wait_for_event("configuration-loaded", timeout=AT_MOST)
    assert_goes_on(launcher, control)


@pytest.mark.parametrize("what", ["FIFO", "endless", "directory", "socket"])
def test_a_configuration_that_is_not_a_file(running, what):
    """Whoever writes to the input directory may put there what is not a file."""
    launcher, control = running
    path = launcher.configuration.path
    os.rename(path, f"{path}.old")
    if what == "FIFO":
        os.mkfifo(path)
    elif what == "endless":
        os.symlink("/dev/zero", path)
    elif what == "directory":
        os.mkdir(path)
    else:
        os.symlink("/dev/null", path)
    began = time.monotonic()
    launcher.wait_for_event("configuration-rejected", timeout=AT_MOST)
    assert time.monotonic() - began < AT_MOST
    assert_goes_on(launcher, control)

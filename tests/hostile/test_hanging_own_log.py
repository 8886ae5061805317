"""The launcher's own log file (--log-path) on a file system whose server does not answer."""

import json
import signal

import pytest

from harness.control import Varlink
from harness.fuse import fuse  # noqa: F401  pylint: disable=unused-import
from harness.process import BINARY, Exit, eventually
from harness.programs import run, service


@pytest.fixture(name="near")
def start_near(as_pid1, area, fuse):  # noqa: F811
    """A launcher whose log is written by itself, in a directory that leads to the file system from now on."""
    (area / "logs").mkdir()
    launcher = run(as_pid1, {"web": service("web")}, "--log-path", area / "logs/log")
    launcher.web = launcher.wait_up()["pid"]
    launcher.wait_for_event("configuration-loaded")
    eventually(lambda: "configuration-loaded" in (area / "logs/log").read_text(), "it writes by itself")
    fuse.mount(launcher.launcher, area / "logs")
    return launcher


@pytest.fixture(name="running")
def start(near, fuse):  # noqa: F811
    """The same, after the log was opened again."""
    near.signal(signal.SIGHUP)
    near.wait_for_event("log-reopened")
    eventually(lambda: "log-reopened" in events(fuse), "the first line is there")
    return near


def events(fuse):  # noqa: F811
    """What the file has, as the names of its events."""
    return [json.loads(line)["event"] for line in (fuse.content("log") or "").splitlines()]


def writers(running):
    return running.children_whose("comm", lambda text: text == "log-writer\n")


def assert_serves(running):
    """Clients are answered, processes are reaped and started again, and the console tells it."""
    client = Varlink(running.area / "control")
    assert client.call("GetStatus")["parameters"]["launcher"]["pid"] == 1
    client.close()
    running.signal_inside(running.web, signal.SIGKILL)
    running.wait_for_event("process-exited", program="web")
    running.web = running.wait_up(tag="web")["pid"]


def test_a_log_that_finds_itself_elsewhere_gets_a_writer(near, fuse):  # noqa: F811
    """Nobody has told it: it looks where its name leads before it writes."""
    assert writers(near) == []
    assert_serves(near)
    eventually(lambda: len(writers(near)) == 1, "a copy writes it")
    fuse.hang()
    assert_serves(near)
    fuse.let_go()
    eventually(lambda: events(fuse).count("process-exited") == 2, "nothing is missing")
    assert near.stop() == Exit(code=0)


def test_what_is_logged_meanwhile_is_written_in_the_end(running, fuse):  # noqa: F811
    assert len(writers(running)) == 1
    fuse.hang()
    assert_serves(running)
    running.signal(signal.SIGHUP)
    failed = running.wait_for_event("log-write-failed", timeout=20)
    assert failed["error"].endswith("/logs/log: the file system does not answer")
    assert_serves(running)
    fuse.let_go()
    eventually(lambda: events(fuse).count("process-exited") == 2, "nothing is missing")
    assert running.stop() == Exit(code=0)
    assert events(fuse)[-1] == "launcher-stopped"


def test_a_stop_does_not_wait_for_it(running, fuse):  # noqa: F811
    fuse.hang()
    assert_serves(running)
    running.signal(signal.SIGTERM)
    running.wait_for_event("launcher-stopped", exit_code=0, timeout=5)
    fuse.let_go()  # the kernel does not let PID 1 end before the writer, which it cannot kill
    assert running.wait() == Exit(code=0)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_writer_outlives_an_upgrade(running, fuse, hangs):  # noqa: F811
    """The next version does not open the file: it would wait."""
    before = writers(running)
    if hangs:
        fuse.hang()
    assert_serves(running)
    running.ctl("upgrade", BINARY)
    running.wait_for_event("upgrade-done")
    assert_serves(running)
    assert writers(running) == before
    fuse.let_go()
    eventually(lambda: events(fuse).count("process-exited") == 2, "nothing is missing")
    told = events(fuse)
    assert told.count("upgrade-started") == told.count("upgrade-done") == 1
    assert running.stop() == Exit(code=0)
    assert events(fuse)[-1] == "launcher-stopped"


def test_a_writer_that_is_killed_is_replaced(running, fuse):  # noqa: F811
    (former,) = writers(running)
    running.signal_inside(former, signal.SIGKILL)
    eventually(lambda: former not in writers(running), "it has gone")
    assert_serves(running)
    eventually(lambda: "process-exited" in events(fuse), "another one has written it")
    assert running.stop() == Exit(code=0)
    assert events(fuse)[-1] == "launcher-stopped"


def test_a_full_disk_is_told_and_survived(running, fuse):  # noqa: F811
    fuse.room = 3
    assert_serves(running)
    failed = running.wait_for_event("log-write-failed")
    assert failed["error"].endswith("/logs/log: No space left on device")
    fuse.room = None
    eventually(lambda: "process-exited" in events(fuse), "nothing is missing")
    assert running.stop() == Exit(code=0)

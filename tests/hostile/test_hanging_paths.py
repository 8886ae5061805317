"""Paths of others on a file system that begins to hang while the launcher runs: the socket of a syslog daemon, the directory of
a socket that is closed, the file of an upgrade. And one look that hangs does not stand in the way of the next ones."""

import shutil

import pytest

from harness.control import Varlink
from harness.fuse import fuse  # noqa: F401  pylint: disable=unused-import
from harness.process import BINARY, Exit, eventually, run_plainly
from harness.programs import probe, run, service
from hanging import assert_serves, has_waiting_child

ANSWERED = "its file system does not answer"


@pytest.fixture(name="running")
def start(as_pid1, area, fuse):  # noqa: F811
    """A launcher with one program, beside a directory that is served."""
    (area / "far").mkdir()
    launcher = run(as_pid1, {"web": service("web")})
    launcher.web = launcher.wait_up(tag="web")["pid"]
    launcher.wait_for_event("configuration-loaded")
    fuse.mount(launcher.launcher, area / "far")
    return launcher


def test_the_socket_of_a_syslog_daemon(running, area, fuse):  # noqa: F811
    """It is not there before its file system hangs: the launcher looks for it as long as lines wait."""
    talker = probe("tag:talker", "trap", "say:up", "print:one", "until:15",
                   output={"syslog": {"address": f"unix:{area}/far/log"}})
    running.replace({"web": service("web"), "talker": talker})
    running.wait_up(tag="talker")
    running.wait_for_event("output-failed")
    fuse.hang()
    eventually(lambda: has_waiting_child(running), "a helper looks for the socket")
    for _ in range(3):
        assert_serves(running)
    assert running.stop() == Exit(code=0)


def test_the_directory_of_a_socket_that_is_closed(running, area, fuse):  # noqa: F811
    """A bind on FUSE is a node of its own kind, which this file system does not make: the directory is replaced instead."""
    near = area / "sockets"
    near.mkdir()
    sockets = [{"name": "main", "listen": f"unix:{near}/socket"}]
    running.replace({"web": service("web"), "server": service("server", sockets=sockets)})
    running.wait_up(tag="server")
    near.rename(area / "gone")
    near.symlink_to(area / "far")
    fuse.hang()
    running.replace({"web": service("web")})
    eventually(lambda: has_waiting_child(running), "a helper removes the socket")
    for _ in range(3):
        assert_serves(running)
    assert running.stop() == Exit(code=0)


def test_the_file_of_an_upgrade(running, area, fuse):  # noqa: F811
    fuse.make("new", b"x")
    fuse.hang()
    for _ in range(2):
        failed = run_plainly("ctl", "--socket", area / "control", "upgrade", area / "far/new")
        assert failed.returncode != 0
        assert ANSWERED in failed.stderr
        assert_serves(running)
    fuse.let_go()
    assert running.stop() == Exit(code=0)


def test_an_upgrade_from_elsewhere_meanwhile(running, area, fuse):  # noqa: F811
    """What hangs is one path: a file on another file system can be upgraded to."""
    shutil.copy(BINARY, area / "successor")
    fuse.make("new", b"x")
    fuse.hang()
    failed = run_plainly("ctl", "--socket", area / "control", "upgrade", area / "far/new")
    assert ANSWERED in failed.stderr
    assert run_plainly("ctl", "--socket", area / "control", "upgrade", area / "successor").returncode == 0
    running.wait_for_event("upgrade-done")
    fuse.let_go()
    assert running.stop() == Exit(code=0)


def test_a_good_configuration_after_one_that_hangs(running, area, fuse):  # noqa: F811
    """The helper that looked at the first one is still held by the kernel, which not even SIGKILL ends."""
    fuse.make("include", b"{}")
    fuse.hang_on_next()
    running.replace({"web": service("web")}, include=[f"{area}/far/include"])
    assert fuse.held.wait(20)
    running.wait_for_event("configuration-rejected", timeout=30)
    held = eventually(lambda: has_waiting_child(running), "the helper is held")
    running.replace({"web": service("web"), "other": service("other")})
    assert running.wait_for_event("configuration-loaded")["processes"] == 2
    running.wait_up(tag="other")
    assert has_waiting_child(running) == held, "it is held all the while"
    assert_serves(running)
    client = Varlink(running.area / "control")
    assert client.call("Reload")["parameters"] == {}
    client.close()
    fuse.let_go()
    eventually(lambda: not has_waiting_child(running), "it ends")
    assert running.stop() == Exit(code=0)



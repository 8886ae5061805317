"""Programs that leave their session, environment or user behind, so that nobody finds what they have started.

Without control groups, as in a plain container."""

import os
import signal

import pytest

from harness.control import Controlled, outside_pid
from harness.process import Exit, eventually

# A daemon as they are made: a session of its own, its parent gone, nothing left of its environment.
DAEMON = """
import os, sys, time
def daemon(depth):
    if os.fork():
        os._exit(0)
    os.setsid()
    if depth:
        os.fork() and time.sleep(1000)
        daemon(depth - 1)
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
    os.execve("/bin/sleep", ["sleep", "1000"], {})
if os.fork() == 0:
    daemon(int(sys.argv[2]))
time.sleep(1000)
"""


def gone(pid):
    """Whether there is no such process any more."""
    if pid is None:
        return True
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            return "Z (" in status.read()
    except (FileNotFoundError, ProcessLookupError):  # the second: it has ended between open and read
        return True


def start(place, area, depth, **keys):
    """A launcher with such a program, and the daemon's id outside."""
    marks = area / "daemons"
    marks.touch()
    marks.chmod(0o666)
    running = Controlled(place, {"web": {"command": ["/usr/bin/python3", "-c", DAEMON, str(marks), str(depth)], **keys},
                                 "other": {"command": ["/usr/bin/python3", "-c", DAEMON, f"{marks}.other", "0"]}},
                         "--cgroup", "none")
    eventually(lambda: marks.read_text().count("\n") > 0 and os.path.exists(f"{marks}.other"), "the daemon is there")
    return running, outside_pid(running.launcher, int(marks.read_text().split()[-1]))


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_daemon_ends_with_its_program(place, area, depth):
    running, daemon = start(place, area, depth)
    running.ctl("restart", "web")
    eventually(lambda: gone(daemon), "the daemon has ended")
    eventually(lambda: (area / "daemons").read_text().count("\n") == 2, "the next one is there")
    second = outside_pid(running.launcher, int((area / "daemons").read_text().split()[-1]))
    other = outside_pid(running.launcher, int((area / "daemons.other").read_text()))
    assert not gone(second) and not gone(other)
    running.upgrade()
    running.ctl("stop", "web")
    eventually(lambda: gone(second), "also after an upgrade")
    assert not gone(other)
    assert running.launcher.stop() == Exit(code=0)
    eventually(lambda: gone(other), "it was killed, and dies when it has a processor")
    running.close()


@pytest.mark.usefixtures("needs_root")
def test_a_daemon_of_another_user(place, area):
    running, daemon = start(place, area, 1, user=4711, group=4711)
    os.kill(outside_pid(running.launcher, running.pid("web")), signal.SIGKILL)
    eventually(lambda: gone(daemon), "the daemon has ended")
    running.close()

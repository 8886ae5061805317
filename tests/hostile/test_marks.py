"""Programs without control groups that change the marks by which the launcher knows what they have started: to escape the end
of their tree, to be taken for another program's daemon, or to have another program's processes killed. And trees that fork
faster than they are killed."""

import os
import random

import pytest

from harness.fuse import fuse  # noqa: F401  pylint: disable=unused-import
from harness.process import Exit, eventually, run_plainly
from harness.programs import run

NOBODY = 65534
# The two limits of the mark, as a process can set them: RLIMIT_RTTIME and RLIMIT_LOCKS.
LIMITS = """
import os, resource, signal, sys, time
MARK = {15: "Max realtime timeout", 10: "Max file locks"}

def of(pid, name):
    for line in open(f"/proc/{pid}/limits"):
        if line.startswith(name):
            value = line[len(name):].split()[1]
            return resource.RLIM_INFINITY if value == "unlimited" else int(value)

def take(pid):
    for number, name in MARK.items():
        try:
            value = of(pid, name)
            resource.setrlimit(number, (value, value))
        except (ValueError, OSError):
            pass  # raising it takes a right that is not there

def lower(*numbers):
    for number in numbers:
        value = of("self", MARK[number]) - 12345
        resource.setrlimit(number, (value, value))

def leave(path):
    if os.fork() > 0:
        return False
    os.setsid()
    open(path + ".new", "w").write(str(os.getpid()))
    os.rename(path + ".new", path)
    return True

def wait_for(path):
    while not os.path.exists(path) or os.path.getsize(path) == 0:
        time.sleep(0.01)
    return int(open(path).read())

def sleep_on():
    while True:
        signal.pause()
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can have programs of other users")


def python(script, **keys):
    return {"command": ["/usr/bin/python3", "-c", LIMITS + script], "output": {}, "stopTimeout": "2s", **keys}


def known(path):
    """The pid in a file that a program makes."""
    return int(eventually(lambda: path.exists() and path.read_text(), f"{path.name} runs"))


def is_gone(launcher, pid):
    return not launcher.is_alive(pid)


@pytest.fixture(name="start")
def starter(place):
    def started(programs):
        return run(place, programs, "--cgroup", "none")
    return started


@needs_root
def test_a_daemon_of_another_user_is_not_replaced(start, area):
    """The process was started earlier, so that the mark of RLIMIT_RTTIME is one that it may lower its own to."""
    thief = python(f"""
if not leave("{area}/thief"):
    sleep_on()
take(wait_for("{area}/first"))
open("{area}/taken", "w").close()
sleep_on()
""", user=NOBODY)
    daemon = python(f"""
open("{area}/first.new", "w").write(str(os.getpid()))
os.rename("{area}/first.new", "{area}/first")
wait_for("{area}/go")
""", pidFile=f"{area}/pid", restart="never", after=["thief"])
    launcher = start({"thief": thief, "web": daemon})
    stranger = known(area / "thief")
    eventually((area / "taken").exists, "it has changed its limits")
    (area / "pid").write_text(f"{stranger}\n")
    (area / "go").write_text("1")
    record = launcher.wait_for_event("pid-file-refused", program="web")
    assert "which the program has not started" in record["error"]
    assert not launcher.events_named("process-main")
    assert launcher.is_alive(stranger)
    assert launcher.stop().code in (0, 137)


@pytest.mark.parametrize("numbers", ["15", "10"], ids=["rttime", "locks"])
def test_one_changed_limit_is_no_escape(start, area, numbers):
    launcher = start({"web": python(f"""
if leave("{area}/escaped"):
    lower({numbers})
    open("{area}/lowered", "w").close()
sleep_on()
""")})
    pid = known(area / "escaped")
    eventually((area / "lowered").exists, "it has changed its limit")
    launcher.ctl("stop", "web")
    assert is_gone(launcher, pid)
    assert launcher.stop().code in (0, 143)


def test_another_programs_tree_is_not_killed(start, area):
    """A process that takes the mark of a program that was started after it, and ends: what has that mark goes on."""
    thief = python(f"""
take(wait_for("{area}/left"))
open("{area}/taken", "w").close()
wait_for("{area}/end")
""", restart="never")
    launcher = start({"thief": thief, "web": python(f"""
leave("{area}/left")
sleep_on()
""", after=["thief"])})
    left = known(area / "left")
    eventually((area / "taken").exists, "it has changed its limits")
    (area / "end").write_text("1")
    launcher.wait_for_event("process-exited", program="thief")
    assert launcher.ctl("status")  # a round later
    assert launcher.is_alive(left)
    launcher.ctl("stop", "web")
    assert is_gone(launcher, left)
    assert launcher.stop().code in (0, 143)


@needs_root
def test_a_fork_bomb_ends(start, area):
    """Each process is in a session of its own, and makes others for as long as it lives. When the stop is answered, there is
    none."""
    user = random.randrange(100_000, 1_000_000)  # whose processes in other namespaces would count for its limit
    bomb = python(f"""
resource.setrlimit(resource.RLIMIT_NPROC, (300, 300))
os.setresgid({user}, {user}, {user})
os.setresuid({user}, {user}, {user})
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
open("{area}/bomb", "w").write("1")
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0)
""")
    launcher = start({"bomb": bomb})

    def alive():
        found = 0
        for pid in (launcher.namespace_root / "proc").iterdir():
            try:
                found += pid.name.isdigit() and f"\nUid:\t{user}\t" in (pid / "status").read_text() and \
                    "\nState:\tZ" not in (pid / "status").read_text()
            except OSError:
                continue
        return found
    eventually(lambda: alive() > 50, "it has begun", timeout=60)
    done = run_plainly("ctl", "--socket", launcher.control, "stop", "bomb")
    if done.returncode == 0:
        assert alive() == 0
    else:  # the machine is busy with others
        assert "process 1 has ended, but not all that it has started" in done.stderr
    eventually(lambda: alive() == 0, "none is left", timeout=60)
    assert launcher.ctl("status", "--json")
    assert launcher.stop().code in (0, 137)


@pytest.mark.parametrize("scope", ["process", "tree"])
def test_what_does_not_die_is_not_a_stop(as_pid1, area, fuse, scope):  # noqa: F811
    """A process that waits in the kernel for a file system that does not answer: SIGKILL does not end it, and the stop says
    so."""
    (area / "far").mkdir()
    launcher = run(as_pid1, {"web": python(f"""
if leave("{area}/left"):
    wait_for("{area}/go")
    open("{area}/far/file").read()
sleep_on()
""", stopScope=scope)}, "--cgroup", "none")
    left = known(area / "left")
    fuse.make("file", b"x")
    fuse.mount(launcher.launcher, area / "far")
    fuse.hang_on_next()
    (area / "go").write_text("1")
    assert fuse.held.wait(20)
    said = launcher.ctl("stop", "web", expect=1)
    assert launcher.is_alive(left)
    assert "process 1 has ended, but not all that it has started" in said
    fuse.let_go()
    eventually(lambda: is_gone(launcher, left), "it ends")
    assert launcher.stop() == Exit(code=0)

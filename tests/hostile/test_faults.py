"""Every system call that the launcher makes fails, in each way that a kernel, a filter or a shortage has: expected is a clear
error at the start, or the documented degradation. Never silence, never an end by a signal, never a hang.

The list of calls is made by strace of the same scenario: a call that is new has no row here, and fails the test.
"""

import re
import shutil
from typing import NamedTuple

import pytest

from harness.control import reach
from harness.process import NO_LEAK_SEARCH, Exit, eventually, run_plainly
from harness.programs import document

ERRORS = ["EPERM", "ENOSYS", "EAGAIN", "EINTR", "ENOMEM"]
SHELL = ["/bin/sh", "-c"]
PROGRAMS = {
    "web": {"command": [*SHELL, "echo hello; exec sleep 1000"], "output": {"format": "prefix"}, "stopTimeout": "1s",
            "sockets": [{"name": "s", "listen": "tcp:127.0.0.1:0"}]},
    "db": {"command": [*SHELL, "echo ready >&3; exec sleep 1000"], "readiness": {"type": "fd", "fd": 3}, "stopTimeout": "1s"},
}


class Row(NamedTuple):
    """What is expected when a call fails, always."""
    runs: bool  # both programs come up
    says: str = ""  # in the log or on standard error; empty: nothing need be said
    refuses: bool = False  # the launcher ends by itself, with code 1; else SIGTERM ends it with code 0
    errors: tuple = tuple(ERRORS)  # others are left out: the kernel does not have them, or nothing works without the call


GOES_ON = Row(True)
NOT_AGAIN = ("EPERM", "ENOSYS", "EAGAIN", "ENOMEM")  # EINTR for ever is tried again for ever
ROWS = {
    "access": GOES_ON,
    "bind": Row(False, "cannot listen on tcp:127.0.0.1:0: "),
    "capget": GOES_ON,
    "clone": Row(False, "cannot start web: clone: "),
    "close": GOES_ON,
    "close_range": GOES_ON,
    "epoll_create1": Row(False, "cannot create an epoll instance: ", refuses=True),
    "epoll_ctl": Row(False, "cannot watch descriptor ", refuses=True),
    "faccessat2": GOES_ON,
    "fcntl": Row(False, "cannot start web: hand descriptors on: "),
    "geteuid": GOES_ON,
    "getrandom": GOES_ON,
    "getsid": GOES_ON,
    "getuid": GOES_ON,
    "inotify_add_watch": Row(True, "; looking every 10s instead"),
    "inotify_init1": Row(True, "cannot watch for changes (inotify): "),
    "inotify_rm_watch": GOES_ON,
    "ioctl": GOES_ON,
    "listen": Row(False, "cannot listen on tcp:127.0.0.1:0: "),
    "lseek": GOES_ON,
    "madvise": GOES_ON,
    "mkdir": GOES_ON,
    "mmap": Row(False, "cannot start web: clone: "),
    "newfstatat": Row(False, "rejected"),
    "openat": Row(False, "rejected"),
    "pipe2": Row(False, "cannot start web: hand descriptors on: "),
    "prctl": Row(True, "cannot become a subreaper, orphans go to PID 1: "),
    "prlimit64": GOES_ON,
    "pwritev2": Row(True, errors=("EPERM", "ENOSYS")),  # the others pass: what was not written is written later
    "readlink": GOES_ON,
    "rt_sigaction": GOES_ON,
    "rt_sigprocmask": Row(False, "cannot block signals: ", refuses=True),
    "setpgid": GOES_ON,
    "setsockopt": Row(False, "cannot listen on tcp:127.0.0.1:0: "),
    "signalfd4": Row(False, "cannot read signals from a descriptor: ", refuses=True),
    "socket": Row(False, "cannot listen on tcp:127.0.0.1:0: "),
    "statfs": GOES_ON,
    "statx": GOES_ON,
    "unlinkat": GOES_ON,
    "wait4": Row(False, "cannot wait for children: ", refuses=True, errors=NOT_AGAIN),
    "waitid": Row(False, "cannot look for children that have ended: ", refuses=True, errors=NOT_AGAIN),
}

# Without these there is no program, or the kernel cannot fail: they are left out. The last row are statmount and listmount,
# of Linux 6.8: an older strace neither names nor fails them, so test_hanging_start.py does.
LEFT_OUT = {
    "arch_prctl", "brk", "epoll_wait", "execve", "exit_group", "getpid", "kill", "mprotect", "munmap", "read", "rseq", "set_robust_list",
    "set_tid_address", "umask", "write",
    "statmount", "listmount", "syscall_0x1c9", "syscall_0x1ca",
}


@pytest.fixture(name="arguments")
def make_scenario(area):
    """The command line of a launcher with these programs."""
    directory = area / "input"
    directory.mkdir()
    (directory / "config.json").write_text(document(PROGRAMS))
    return ["--input-dir", directory, "--main-container-version", "1.0.0", "--control-socket", area / "control", "--cgroup",
            "none", "--stop-timeout", "1s"]


def start(as_child, arguments, *options):
    """The launcher, with strace as a stranger beside it, which leaves what it starts alone."""
    if not (strace := shutil.which("strace")):
        pytest.skip("needs strace, which makes a system call fail")
    return as_child.start("-D", "-qq", *options, as_child.binary, *arguments, binary=strace, env=NO_LEAK_SEARCH)


def said(launcher):
    """All that it has said so far."""
    launcher.events.drain()
    return launcher.errors() + "\n".join(str(record) for record in launcher.events.all)


def are_up(launcher):
    """Whether both programs run."""
    text = said(launcher)
    return "hello" in text and "process-ready" in text


@pytest.mark.usefixtures("needs_static")
def test_every_call_has_a_row(as_child, arguments, area):
    """What the scenario does is in the table."""
    launcher = start(as_child, arguments, "-o", area / "trace")
    eventually(lambda: are_up(launcher), "both programs run")
    assert launcher.stop() == Exit(code=0)
    calls = set(re.findall(r"^(\w+)\(", (area / "trace").read_text(), re.MULTILINE))
    assert calls - LEFT_OUT - ROWS.keys() == set()


@pytest.mark.usefixtures("needs_static")
@pytest.mark.parametrize(("call", "error"), [(call, error) for call, row in ROWS.items() for error in row.errors])
def test_a_call_that_fails(as_child, arguments, call, error):
    """It is told, and nothing worse happens."""
    row = ROWS[call]
    launcher = start(as_child, arguments, "-o", "/dev/null", "-e", f"inject={call}:error={error}")
    if row.refuses:
        assert launcher.wait() == Exit(code=1)
    else:
        eventually(lambda: row.says in said(launcher) and are_up(launcher) >= row.runs, f"it goes on, and says {row.says}")
        # Without a configuration nothing has ever run.
        end = launcher.stop()
        assert end == Exit(code=0 if launcher.events_named("configuration-loaded") else 143)
    assert row.says in said(launcher)


@pytest.mark.usefixtures("needs_static")
@pytest.mark.parametrize(("call", "error"), [("clone", "EAGAIN"), ("mmap", "ENOMEM"), ("pipe2", "EMFILE")])
def test_a_start_that_fails_once(as_child, arguments, area, call, error):
    """What was lacking for a moment keeps nothing from starting later, whichever of the calls it was."""
    for number in (1, 2):
        trace = area / f"trace{number}"
        launcher = start(as_child, arguments, "-o", trace, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}")
        eventually(lambda launcher=launcher: are_up(launcher), f"both programs run, although {call} {number} has failed")
        assert "(INJECTED)" in trace.read_text()
        assert launcher.stop() == Exit(code=0)


@pytest.mark.usefixtures("needs_static")
@pytest.mark.parametrize("call", ["epoll_create1", "signalfd4"])
def test_an_upgrade_waits_for_what_fails_once(as_child, arguments, area, call):
    """The new version has nobody who could go on in its place: what it lacks for a moment does not end it."""
    launcher = start(as_child, arguments, "-o", area / "trace", "-e", f"trace={call}", "-e", f"inject={call}:error=EMFILE:when=2")
    eventually(lambda: are_up(launcher), "both programs run")
    done = run_plainly("ctl", "--socket", area / "control", "upgrade", as_child.binary)
    assert done.returncode == 0, done
    assert "(INJECTED)" in (area / "trace").read_text()
    assert launcher.stop() == Exit(code=0)


@pytest.mark.usefixtures("needs_static")
def test_a_control_socket_without_room_is_tried_again(as_child, arguments, area):
    """A launcher that could not make its socket when it started can be asked later."""
    launcher = start(as_child, arguments, "-o", "/dev/null", "-e", "inject=socket:error=EMFILE:when=2")
    failure = launcher.wait_for_event("control-failed")
    assert failure["message"] == "no control socket: cannot make a socket: Too many open files; trying again in 10s"
    reach(area / "control").close()
    assert run_plainly("ctl", "--socket", area / "control", "version").returncode == 0
    assert launcher.stop() == Exit(code=0)


@pytest.mark.usefixtures("needs_static")
@pytest.mark.parametrize("error", ["EAGAIN", "ENOBUFS", "ENOMEM"])
def test_a_log_that_cannot_be_written_for_a_while(as_child, arguments, error):
    """What was not written is written later: nothing is lost, and the log goes on."""
    launcher = start(as_child, arguments, "-o", "/dev/null", "-e", f"inject=pwritev2:error={error}:when=1..3")
    launcher.wait_for_event("launcher-started")
    eventually(lambda: are_up(launcher), "both programs run")
    assert launcher.stop() == Exit(code=0)
    assert launcher.events_named("launcher-stopped")

"""A file system that hangs, as a network file system without its server does: whoever opens a file there waits. PID 1
does not."""

import ctypes
import os
import signal

import pytest

from harness.agent import AGENT, Agent, read_answer
from harness.control import Varlink
from harness.fuse import fuse  # noqa: F401  pylint: disable=unused-import
from harness.process import BINARY, TIMEOUT, Exit, eventually, run_plainly
from harness.programs import RESTART_AT_ONCE, document, run, service
from hanging import assert_serves, has_waiting_child

FAN_CLASS_CONTENT = 0x4
FAN_CLOEXEC = 0x1
FAN_MARK_ADD = 0x1
FAN_OPEN_PERM = 0x10000
AT_FDCWD = -100
HANGS = "looking at it takes longer than 10s: a file system does not answer"


class Hanging:
    """Files whose open(2) waits until let_go(). Source: fanotify(7)."""

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, os.O_RDONLY)
        if self.fd < 0:
            pytest.skip(f"no fanotify: {os.strerror(ctypes.get_errno())}")

    def add(self, path):
        """From now on, whoever opens it waits."""
        done = self.libc.fanotify_mark(self.fd, FAN_MARK_ADD, ctypes.c_uint64(FAN_OPEN_PERM), AT_FDCWD,
                                       os.fsencode(path))
        if done != 0:
            self.let_go()
            pytest.skip(f"no permission events: {os.strerror(ctypes.get_errno())}")

    def let_go(self):
        """Those who wait go on."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


@pytest.fixture(name="hanging")
def make_hanging(needs_root):
    made = Hanging()
    yield made
    made.let_go()


@pytest.fixture(name="running")
def start(as_pid1, hanging):
    """A launcher with one program."""
    launcher = run(as_pid1, {"web": service("web")})
    launcher.web = launcher.wait_up()["pid"]
    launcher.wait_for_event("configuration-loaded")
    launcher.wait_for_event("process-started")
    launcher.quiet_for(0.2)  # the look just after the start is over: see SECURITY.md about the moment behind a copy's look
    return launcher


def give(launcher, hanging, programs):
    """Puts a configuration in place that nobody can open."""
    new = launcher.configuration.directory / "new"
    new.write_text(document(programs))
    hanging.add(new)
    new.rename(launcher.configuration.path)


def waits_for_it(launcher):
    """Whether a child of the launcher waits in open(2)."""
    return launcher.children_whose("wchan", lambda text: "fanotify" in text)


def test_what_hangs_for_a_while_is_loaded_in_the_end(running, hanging):
    give(running, hanging, {"web": service("web"), "other": service("other")})
    eventually(lambda: waits_for_it(running), "a copy of the launcher opens it")
    assert_serves(running)
    hanging.let_go()
    assert running.wait_for_event("configuration-loaded", processes=2)
    assert running.stop() == Exit(code=0)


def test_files_that_programs_name_may_hang(as_pid1, area, fuse):  # noqa: F811
    """The copy that looks first hangs in place of PID 1, and the program that it looks for is put aside: others are restarted for
    their files. When it is over, the one that was put aside is, too."""
    (area / "far").mkdir()
    (area / "near").write_text("a")
    running = run(as_pid1, {"web": service("web")})
    running.web = running.wait_up(tag="web")["pid"]
    fuse.mount(running.launcher, area / "far")
    fuse.make("data")
    running.replace({"web": service("web"), "far": service("far", files={"paths": [f"{area}/far/data"]}),
                     "near": service("near", files={"paths": [f"{area}/near"], "quietTime": "0s"})})
    running.wait_up(tag="near")
    fuse.hang()
    (area / "near").write_text("b")
    eventually(lambda: has_waiting_child(running), "a copy of the launcher looks")
    assert_serves(running)
    running.wait_for_event("watch-failed", timeout=20, program="far", error="cannot look at them: a file system does not answer")
    running.wait_up(tag="near", timeout=30)
    assert_serves(running)
    (area / "near").write_text("c")
    running.wait_up(tag="near", timeout=9)  # a look that waits takes ten seconds
    del fuse.names["data"]
    fuse.make("data")  # another file of that name
    fuse.let_go()
    running.wait_up(tag="far", timeout=60)
    assert_serves(running)
    assert running.stop() == Exit(code=0)


def test_pid_files_may_hang(as_pid1, area, fuse):  # noqa: F811
    """A start waits a moment for its pid file, and not again for a while."""
    (area / "far").mkdir()
    running = run(as_pid1, {"web": service("web")})
    running.web = running.wait_up(tag="web")["pid"]
    fuse.mount(running.launcher, area / "far")
    running.replace({"web": service("web"), "daemon": service("daemon", pidFile=f"{area}/far/pid")})
    daemon = running.wait_up(tag="daemon")["pid"]
    running.wait_for_event("process-started", program="daemon")
    running.wait_for_event("watch-failed")  # what its file system cannot show is logged, some time after the start
    running.quiet_for(0.2)  # the looks of its start are over: SECURITY.md names the moment between a copy's look and PID 1's
    fuse.hang()
    for _ in range(3):
        running.signal_inside(daemon, signal.SIGKILL)
        daemon = running.wait_up(tag="daemon")["pid"]
        assert_serves(running)
    fuse.let_go()
    assert running.stop() == Exit(code=0)


def test_what_hangs_for_long_is_rejected_and_tried_again(running, hanging):
    give(running, hanging, {"web": service("web"), "other": service("other")})
    eventually(lambda: waits_for_it(running), "a copy of the launcher opens it")
    # The request may be about a newer file than that copy's: it is answered when a second copy has waited its ten seconds, too.
    client = Varlink(running.area / "control", timeout=3 * TIMEOUT)
    refused = client.call("Reload")
    assert refused["parameters"]["details"] == [HANGS]
    assert running.wait_for_event("configuration-rejected")["errors"] == [HANGS]
    assert_serves(running)
    hanging.let_go()
    assert running.wait_for_event("configuration-loaded", processes=2, timeout=30)
    assert running.stop() == Exit(code=0)


def test_a_stop_does_not_wait_for_it(running, hanging):
    give(running, hanging, {"web": service("web")})
    eventually(lambda: waits_for_it(running), "a copy of the launcher opens it")
    assert running.stop() == Exit(code=0)


# --- what a child opens before its program runs

# The child of the one shares the launcher's memory until its execve, that of the other has a copy.
WAYS = pytest.mark.parametrize("way", [{}, {"oomScoreAdj": 500}], ids=["shared", "copy"])


def reader(file, **keys):
    """A program that takes the file as its standard input, and says its first line as its tag."""
    return {"command": ["/bin/sh", "-c", 'read line; exec probe "tag:$line" trap say:up until:15'],
            "stdin": {"file": str(file)}, **keys}


@pytest.fixture(name="input_file")
def make_input_file(area):
    file = area / "input"
    file.write_text("read\n")
    return file


def run_with_web(place, programs):
    launcher = run(place, {**programs, "web": service("web")})
    launcher.web = launcher.wait_up(tag="web")["pid"]
    launcher.wait_for_event("configuration-loaded")
    return launcher


def assert_waits_for_its_input(launcher):
    eventually(lambda: waits_for_it(launcher), "a child of the launcher opens it")
    assert "executing" in launcher.ctl("status", "slow")
    assert_serves(launcher)


@WAYS
def test_an_input_that_hangs_holds_up_its_own_start_only(as_pid1, hanging, input_file, way):
    hanging.add(input_file)
    launcher = run_with_web(as_pid1, {"slow": reader(input_file, **way)})
    assert_waits_for_its_input(launcher)
    hanging.let_go()
    launcher.wait_up(tag="read")
    assert launcher.stop() == Exit(code=0)


@WAYS
def test_a_stop_does_not_wait_for_an_input(as_pid1, hanging, input_file, way):
    hanging.add(input_file)
    launcher = run_with_web(as_pid1, {"slow": reader(input_file, **way)})
    assert_waits_for_its_input(launcher)
    launcher.ctl("stop", "slow")
    launcher.wait_for_event("process-exited", program="slow", signal=signal.SIGTERM)
    launcher.ctl("start", "slow", "--no-wait")
    assert_waits_for_its_input(launcher)
    assert launcher.stop() == Exit(code=0)


def test_an_input_that_hangs_after_a_reload(as_pid1, hanging, input_file):
    hanging.add(input_file)
    launcher = run_with_web(as_pid1, {})
    launcher.replace({"slow": reader(input_file), "web": service("web")})
    launcher.wait_for_event("configuration-loaded", processes=2)
    assert_waits_for_its_input(launcher)
    launcher.replace({"web": service("web")})
    launcher.wait_for_event("configuration-loaded", processes=1)
    launcher.wait_for_event("process-exited", program="slow", signal=signal.SIGTERM)
    assert_serves(launcher)
    assert launcher.stop() == Exit(code=0)


def test_an_input_that_hangs_at_a_restart(as_pid1, hanging, input_file):
    launcher = run_with_web(as_pid1, {"slow": reader(input_file, backoff=RESTART_AT_ONCE)})
    pid = launcher.wait_up(tag="read")["pid"]
    hanging.add(input_file)
    launcher.signal_inside(pid, signal.SIGKILL)
    assert_waits_for_its_input(launcher)
    hanging.let_go()
    launcher.wait_up(tag="read")
    assert launcher.stop() == Exit(code=0)


@WAYS
def test_a_start_timeout_ends_who_waits_for_an_input(as_pid1, hanging, input_file, way):
    hanging.add(input_file)
    launcher = run_with_web(as_pid1, {"slow": reader(input_file, startTimeout="100ms", backoff=RESTART_AT_ONCE,
                                                     readiness={"type": "exec", "command": ["true"]}, **way)})
    for _ in range(3):
        launcher.wait_for_event("process-killed", program="slow")
    assert_serves(launcher)
    hanging.let_go()
    launcher.wait_up(tag="read")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("what", ["program", "input"])
def test_no_upgrade_while_a_program_is_not_executed(as_pid1, area, hanging, what):
    """The next version would not hear whether it is: the process would be on its way to it for ever."""
    slow = area / "slow"
    slow.write_bytes((as_pid1.programs / "probe").read_bytes())
    slow.chmod(0o755)
    hanging.add(slow)
    program = str(slow) if what == "program" else "probe"
    running = run(as_pid1, {"slow": {"command": [program, "tag:slow", "trap", "say:up", "until:15"],
                                     **({"stdin": {"file": str(slow)}} if what == "input" else {})}})
    eventually(lambda: "executing" in running.ctl("status"), "it waits in execve, or before")
    done = run_plainly("ctl", "--socket", running.control, "upgrade", BINARY)
    assert done.returncode == 1
    assert "a process has not executed its program yet: whether it does would be lost" in done.stderr
    hanging.let_go()
    running.wait_up(tag="slow")
    running.ctl("upgrade", BINARY)
    assert running.stop() == Exit(code=0)


def test_an_upgrade_does_not_wait_for_it_either(running, hanging):
    """It is refused, as its check reads the configuration; the launcher goes on as it was."""
    give(running, hanging, {"web": service("web")})
    eventually(lambda: waits_for_it(running), "a copy of the launcher opens it")
    client = Varlink(running.area / "control")
    client.send("Upgrade", {"path": str(BINARY)})
    assert_serves(running)
    hanging.let_go()
    client.receive()
    assert running.stop() == Exit(code=0)


@pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason="TRITON_AGENT names no agent")
def test_the_agent_serves_while_files_hang(area, hanging):
    for name in "abc":
        (area / name).write_text(name)
    agent = Agent("--output-dir", area)
    try:
        for name in "ab":
            hanging.add(area / name)
        asking = [agent.connect() for _ in "ab"]
        for peer, name in zip(asking, "ab"):
            peer.sendall(f"GET /check_hash/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        eventually(lambda: agent.metric("triton_agent_hash_cache_misses_total") == 2, "both are looked for")
        assert agent.get("/readyz")[0] == 200
        status, said, headers = agent.request("GET", "/is_present/c")
        assert (status, said) == (503, "cannot ask the file system: it does not answer\n") and headers["Retry-After"] == "1"
        hanging.let_go()
        assert [read_answer(peer)[0] for peer in asking] == [200, 200]
        assert agent.get("/is_present/c")[0] == 200
        for peer in asking:
            peer.close()
    finally:
        hanging.let_go()
        agent.close()

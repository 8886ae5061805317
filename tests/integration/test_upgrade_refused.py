"""Upgrades that cannot be: a clear answer, and the launcher goes on as if nobody had asked."""

import fcntl
import json
import os
import signal
import subprocess

import pytest

from harness.control import Controlled, Varlink, reach
from harness.process import BINARY, TIMEOUT, VERSION, Exit, eventually

SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


def start(place):
    """A launcher with a process and captured output."""
    controlled = Controlled(place, {"web": ["trap", "say:up", "until:15"],
                                    "talk": {"steps": ["print:hello", "trap", "say:up", "until:15"],
                                             "output": {"format": "prefix"}}})
    controlled.launcher.wait_up(tag="web")
    controlled.launcher.wait_up(tag="talk")
    return controlled


@pytest.fixture(name="running")
def start_running(place):
    """The same, in each place."""
    return start(place)


def executable(area, text, name="successor"):
    """A program of this text."""
    path = area / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def assert_goes_on(controlled, pid):
    """The same process as before, output is still taken, and a real upgrade works."""
    assert controlled.pid("web") == pid
    controlled.ctl("restart", "talk")
    controlled.launcher.wait_for_text("talk[1] | hello")
    assert controlled.upgrade().startswith("upgraded from ")
    assert controlled.pid("web") == pid


def test_a_refused_configuration_keeps_nobody_from_an_upgrade(running):
    """It had more programs, and was refused when the first of them had a place already."""
    pid = running.pid("web")
    text = json.loads(running.configuration.path.read_text())
    text["programs"]["x"] = {"command": ["/bin/true"], "output": {"file": "/nonexistent/log"}}
    text["programs"]["y"] = {"command": ["/bin/true"]}
    running.configure({}, text)
    assert "cannot open" in running.ctl("reload", expect=1)
    assert_goes_on(running, pid)


def test_a_state_that_is_too_large_for_a_file_ends_nobody(as_child):
    """A limit of the size of files also holds in memory: its SIGXFSZ was passed on, and ended all processes."""
    controlled = Controlled(as_child, {"talk": {"steps": [f"print:{100 * 'x'}"] * 200 + ["trap", "say:up", "until:15"],
                                                "output": {"format": "prefix"}}},
                            place=["--file-size", "16384"])
    controlled.launcher.wait_up()
    eventually(lambda: len(controlled.ctl("logs", "-n", 1000, "talk")) > 16384, "the lines are kept")
    assert "cannot write the state: File too large" in controlled.ctl("upgrade", BINARY, expect=1)
    controlled.launcher.signal(signal.SIGUSR1)
    assert controlled.launcher.wait_for_probe("signal")["signal"] == signal.SIGUSR1


REFUSED = {
    "nothing": (lambda area: area / "nowhere", "cannot execute {}: No such file or directory"),
    "directory": (lambda area: area, "cannot execute {}: Permission denied"),
    "true": (lambda area: "/bin/true", "it is not a launcher that can be upgraded to"),
    "shell": (lambda area: "/bin/sh", "cannot take over"),
    "text": (lambda area: executable(area, "no program\n" * 100, "text"), "cannot execute {}: Exec format error"),
    "script": (lambda area: executable(area, "#!/bin/sh\necho something else\n"), "something else"),
    "not executable": (lambda area: area / "input0" / "config.json", "cannot execute {}: Permission denied"),
    "killed": (lambda area: executable(area, "#!/bin/sh\nkill -9 $$\n"), "cannot take over"),
    "empty": (lambda area: executable(area, ""), "cannot execute {}: Exec format error"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_no_launcher(running, area, what):
    """What is not a launcher is refused before anything changes, and the answer says why."""
    make, reason = REFUSED[what]
    pid = running.pid("web")
    path = make(area)
    complaint = running.ctl("upgrade", path, expect=1)
    assert reason.format(path) in complaint, complaint
    assert running.launcher.wait_for_event("upgrade-failed")["error"] in complaint
    assert_goes_on(running, pid)


def test_what_would_be_lost(running, area):
    """The answer of a version that does not know something is handed on, line by line."""
    answer = ["would be lost: supervisor.colour", "would be lost: moods"]
    older = executable(area, f"#!/bin/sh\nprintf '%s\\n' '{answer[0]}' '{answer[1]}'\nexit 1\n")
    pid = running.pid("web")
    complaint = running.ctl("upgrade", older, expect=1)
    assert all(f"{line}\n" in complaint for line in answer)
    details = running.launcher.wait_for_event("upgrade-failed")["details"]
    assert details == answer
    assert_goes_on(running, pid)


def test_what_would_be_lost_of_the_output(running, area):
    """It is asked about all that it will be handed, the output as well."""
    older = executable(area, f"""#!/usr/bin/python3
import json, os, sys
state = json.loads(os.pread(0, 1 << 24, 0))
if state.get("output", {{}}).get("pipes"):
    sys.exit("would be lost: output.pipes[0].colour")
os.execv("{BINARY}", ["{BINARY}", *sys.argv[1:]])
""")
    pid = running.pid("web")
    assert "would be lost: output.pipes[0].colour" in running.ctl("upgrade", older, expect=1)
    assert_goes_on(running, pid)


def upgrade_check(text, *options):
    """What our binary says to a state."""
    state = os.memfd_create("state", os.MFD_ALLOW_SEALING)
    try:
        os.write(state, text)
        fcntl.fcntl(state, fcntl.F_ADD_SEALS, SEALS)
        return subprocess.run([BINARY, "upgrade-check", "--main-container-version", VERSION, *options], stdin=state,
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)
    finally:
        os.close(state)


def test_upgrade_check():
    """What a version answers to the state of another one."""
    empty = upgrade_check(b"{}")
    assert empty.returncode == 0 and empty.stdout.startswith("fit to take over: ")
    lost = upgrade_check(b'{"version":"9","moods":[1],"supervisor":{"colour":1}}')
    assert lost.returncode == 1
    assert sorted(lost.stdout.splitlines()) == ["would be lost: moods", "would be lost: supervisor.colour"]
    for garbage in (b"", b"[]", b"\x00\xff", b'{"version":', b'{"pid":"x"}', b'{"told_ready":1}', b'{"programs":[{}]}',
                    b'{"supervisor":{"programs":[{"processes":[{"state":99}]}]},"programs":[{}]}'):
        answer = upgrade_check(garbage)
        assert answer.returncode == 1 and answer.stdout.startswith("the state cannot be read: "), garbage
    assert upgrade_check(b"{}", "--no-such-option").returncode == 2
    with subprocess.Popen([BINARY, "upgrade-check", "--main-container-version", VERSION], stdin=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdout=subprocess.PIPE) as piped:
        answer = piped.communicate(b"{}", timeout=TIMEOUT)
    assert piped.returncode == 1 and b"state" in answer[1]


def test_removed_between(running, area):
    """The binary answers and is gone when it is to be executed: an error, and everything goes on."""
    fleeting = executable(area, f'#!/bin/sh\nrm -f -- {area}/successor\nexec {BINARY} "$@"\n')
    pid = running.pid("web")
    complaint = running.ctl("upgrade", fleeting, expect=1)
    assert f"{fleeting} has changed since it was asked" in complaint
    assert_goes_on(running, pid)


def test_through_a_script(running, area):
    """What answers as a launcher and becomes one is one: a wrapper works."""
    wrapper = executable(area, f'#!/bin/sh\nexec {BINARY} "$@"\n')
    pid = running.pid("web")
    running.upgrade(wrapper)
    assert_goes_on(running, pid)


def test_two_at_once(running, area):
    """The second one is refused; the first one is not disturbed."""
    os.mkfifo(area / "gate")
    slow = executable(area, f'#!/bin/sh\n[ "$1" != upgrade-check ] || read line <{area}/gate\nexec {BINARY} "$@"\n')
    first = Varlink(running.socket)
    first.send("Upgrade", {"path": str(slow)}, more=True)
    running.launcher.wait_for_event("upgrade-started")
    assert "an upgrade is under way" in running.ctl("upgrade", BINARY, expect=1)
    (area / "gate").write_text("go\n")
    assert "error" not in first.receive()
    assert first.receive() is None
    running.launcher.wait_for_event("upgrade-done")
    assert len(running.launcher.events_named("upgrade-started")) == 1


def test_no_answer_in_time(as_pid1, area):
    """A check that hangs is ended; ctl can give up earlier."""
    running = start(as_pid1)
    hanging = executable(area, "#!/bin/sh\nexec /bin/sleep 1000\n")
    pid = running.pid("web")
    running.ctl("upgrade", hanging, "--timeout", "500ms", expect=4)
    failed = running.launcher.wait_for_event("upgrade-failed")
    assert "did not answer in time" in failed["error"]
    assert_goes_on(running, pid)


def test_upgrade_while_stopping(place):
    """A launcher that stops does not become another one."""
    controlled = Controlled(place, {"stubborn": ["trap", "say:up", "until:12"]}, "--stop-timeout", "15s")
    controlled.launcher.wait_up()
    pid = controlled.pid("stubborn")
    controlled.launcher.signal(signal.SIGTERM)
    controlled.launcher.wait_signal(signal.SIGTERM)
    assert "the launcher is stopping" in controlled.ctl("upgrade", BINARY, expect=1)
    controlled.launcher.signal_inside(pid, signal.SIGUSR2)
    assert controlled.launcher.wait() == Exit(code=0)


def test_stop_during_check(running, area):
    """SIGTERM while the new version is asked: the launcher stops, and does not wait for the answer."""
    hanging = executable(area, "#!/bin/sh\nexec /bin/sleep 1000\n")
    asked = Varlink(running.socket)
    asked.send("Upgrade", {"path": str(hanging)}, more=True)
    running.launcher.wait_for_event("upgrade-started")
    assert running.launcher.stop(timeout=9) == Exit(code=0)  # a second less than the check may take
    answer = asked.receive()
    assert answer is None or answer["parameters"]["reason"] == "the launcher is stopping"


def test_stop_after_execve(running, area):
    """SIGTERM that comes while the new version is not there yet is not lost."""
    os.mkfifo(area / "gate")
    slow = executable(area, f'#!/bin/sh\n[ "$1" = upgrade-check ] || read line <{area}/gate\nexec {BINARY} "$@"\n')
    asked = Varlink(running.socket)
    asked.send("Upgrade", {"path": str(slow)}, more=True)
    assert "error" not in asked.receive()
    assert asked.receive() is None
    running.launcher.signal(signal.SIGTERM)  # the script has it blocked, as the launcher had
    (area / "gate").write_text("go\n")
    assert running.launcher.wait() == Exit(code=0)
    assert running.launcher.events_named("upgrade-done")
    assert len(running.launcher.events_named("process-exited")) == 2


def test_output_that_nobody_takes(place, programs):
    """Lines that wait for a reader of standard output are not thrown away by an upgrade."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    text = "i=0; while [ $i -lt 3000 ]; do echo \"line $i\"; i=$((i+1)); done; exec /bin/sleep 1000"
    controlled = Controlled(place, {"talk": {"command": ["/bin/sh", "-c", text], "output": {"format": "prefix"}}},
                            stdout=write_end)
    os.close(write_end)
    pid = controlled.pid("talk")
    eventually(lambda: b"sleep" in (controlled.launcher.proc(pid) / "cmdline").read_bytes(), "it has said all")
    assert controlled.pid("talk") == pid  # who answers has read it
    assert "lines would be lost" in controlled.ctl("upgrade", BINARY, expect=1)
    received = bytearray()
    os.set_blocking(read_end, False)

    def all_lines():
        try:
            received.extend(os.read(read_end, 1 << 20))
        except BlockingIOError:
            pass
        return b"talk[1] | line 2999\n" in received
    eventually(all_lines, "the lines that have waited")
    lines = [line for line in received.decode().splitlines() if line.startswith("talk[1] | ")]
    assert lines == [f"talk[1] | line {number}" for number in range(3000)]
    controlled.upgrade()
    assert controlled.pid("talk") == pid
    os.close(read_end)


def test_log_file_that_takes_nothing(place):
    """Lines for a log file on a full disk are not thrown away either."""
    controlled = Controlled(place, {"web": ["pause"]}, "--log-path", "/dev/full")
    pid = controlled.pid("web")
    assert "lines would be lost" in controlled.ctl("upgrade", BINARY, expect=1)
    assert controlled.pid("web") == pid


def test_path_is_absolute(running):
    """The launcher's working directory is nobody's: a relative path is refused by it, and completed by ctl."""
    answer = Varlink(running.socket).call("Upgrade", {"path": "triton-launch"})
    assert answer["error"].startswith(("org.varlink.service.InvalidParameter", "org.tritonlaunch.Launcher."))
    assert not running.launcher.events_named("upgrade-done")
    running.ctl("upgrade", BINARY.name, cwd=BINARY.parent)


def test_version_is_gone(place, area):
    """A successor that could not start the programs again is refused: their binary no longer exists."""
    binary = area / "bin" / "probe"
    binary.parent.mkdir()
    binary.write_bytes(place.probe.read_bytes())
    binary.chmod(0o755)
    configuration = place.configuration("trap", "say:up", "until:15")
    control = area / "control"
    launcher = place.launch(configuration, "--control-socket", control, program=binary)
    launcher.wait_up()
    binary.unlink()
    answer = reach(control).call("Upgrade", {"path": str(BINARY)})
    assert any("the active configuration is refused: " in line for line in answer["parameters"]["details"]), answer

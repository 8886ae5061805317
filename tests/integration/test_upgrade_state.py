"""What an upgrade hands over, looked at from outside: descriptors, environment, files that are watched, programs."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from harness.control import Controlled, Varlink
from harness.process import BINARY, TIMEOUT, VERSION, Exit, eventually

STAY = ["trap", "say:up", "until:15"]
REPORT = ["report", *STAY]


def descriptors(launcher, pid):
    """{number: what it is} of a process inside."""
    directory = launcher.proc(pid) / "fd"
    found = {}
    for entry in os.listdir(directory):
        try:
            found[int(entry)] = os.readlink(directory / entry)
        except FileNotFoundError:
            continue
    return found


def closes_on_exec(launcher, pid, number):
    """Whether the descriptor has FD_CLOEXEC, or is closed already."""
    try:
        text = (launcher.proc(pid) / "fdinfo" / str(number)).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    flags = next(line.split()[1] for line in text.splitlines() if line.startswith("flags:"))
    return bool(int(flags, 8) & os.O_CLOEXEC)


def own_pid(launcher):
    """The launcher's id in its namespace."""
    return 1 if launcher.pid1 else launcher.wait_for_event("launcher-started")["pid"]


def test_descriptors(place, area):
    """Children get what they always got; what the launcher holds is closed on exec, and does not become more."""
    programs = {"web": {"steps": REPORT, "sockets": [{"name": "web", "listen": f"unix:{area}/web"}]},
                "talk": {"steps": REPORT, "output": {"format": "json"}},
                "ready": {"command": ["/bin/sh", "-c", "echo up >&3; exec /bin/sleep 1000"],
                          "readiness": {"type": "fd"}}}
    controlled = Controlled(place, programs)
    launcher = controlled.launcher
    pid = own_pid(launcher)
    reports = {tag: launcher.wait_for_probe("report", tag=tag) for tag in ("web", "talk")}
    controlled.ctl("wait", "ready")
    counts = set()
    for turn in range(5):
        controlled.upgrade()
        launcher.wait_for_event("upgrade-done")
        controlled.ctl("restart", "web", "talk", "ready")
        for tag, before in reports.items():
            after = launcher.wait_for_probe("report", tag=tag)
            assert after["fds"] == before["fds"], (turn, tag)
            assert after["blocked"] == before["blocked"] and after["ignored"] == before["ignored"]
            assert after["files"] == before["files"]
            assert b"TRITON_LAUNCH_STATE_FD" not in (launcher.proc(after["pid"]) / "environ").read_bytes()
        controlled.ctl("wait", "ready")
        mine = descriptors(launcher, pid)
        assert not [target for target in mine.values() if "triton-launch-state" in target]
        kept = [number for number in mine if number > 2 and not closes_on_exec(launcher, pid, number)]
        assert kept == [], {number: mine[number] for number in kept}
        assert (launcher.proc(pid) / "environ").read_bytes().count(b"TRITON_LAUNCH_STATE_FD=") == 1
        counts.add(eventually(lambda: steady_count(launcher, pid), "the last client is gone"))
    assert len(counts) == 1, counts


def steady_count(launcher, pid):
    """How many descriptors the launcher has, while no client is connected."""
    found = descriptors(launcher, pid)
    return None if sum(target.startswith("socket:") for target in found.values()) > 2 else len(found)


def test_configuration_is_watched(place):
    """A change of the file after an upgrade is seen; a change that came during it, too."""
    controlled = Controlled(place, {"web": STAY})
    launcher = controlled.launcher
    launcher.wait_up(tag="web")
    for turn in range(3):
        controlled.upgrade()
        controlled.configure({"web": STAY, f"more{turn}": STAY})
        launcher.wait_up(tag=f"more{turn}")
    connection = Varlink(controlled.socket)
    connection.send("Upgrade", {"path": str(BINARY)}, more=True)
    controlled.configure({"web": STAY, "last": STAY})
    launcher.wait_up(tag="last")
    assert launcher.events_named("process-exited", program="web") == []


def test_bad_file_stays_rejected(place):
    """The active configuration goes on although the file has become a bad one."""
    controlled = Controlled(place, {"web": STAY})
    launcher = controlled.launcher
    launcher.wait_up()
    pid = controlled.pid("web")
    controlled.configuration.write_text("{")
    launcher.wait_for_event("configuration-rejected")
    controlled.upgrade()
    launcher.wait_for_event("configuration-rejected")
    assert controlled.pid("web") == pid
    launcher.signal_inside(pid, signal.SIGTERM)
    assert launcher.wait_up()["pid"] != pid
    assert "the configuration is rejected" in controlled.ctl("reload", expect=1)


def test_warnings_do_not_hinder(place):
    """What is odd in the configuration was odd before: nothing is lost by an upgrade."""
    controlled = Controlled(place, {"web": {"steps": STAY, "colour": "blue"}})
    controlled.launcher.wait_for_event("configuration-warning")
    pid = controlled.pid("web")
    controlled.upgrade()
    assert controlled.pid("web") == pid


def test_program_that_leaves(place, area):
    """One that is not configured any more and still stops: its output is taken to the end, and it is waited for."""
    text = (f"trap 'read line <{area}/gate; echo late words; exit 7' TERM; echo \"at work\"; "
            "while :; do /bin/sleep 0.01; done")
    os.mkfifo(area / "gate")
    controlled = Controlled(place, {"web": STAY,
                                    "old": {"command": ["/bin/sh", "-c", text], "output": {"format": "prefix"},
                                            "stopTimeout": "1h"}})
    launcher = controlled.launcher
    launcher.wait_for_text("at work")
    pid = controlled.pid("old")
    controlled.configure({"web": STAY})
    launcher.wait_for_event("process-stopping", program="old")
    for _ in range(2):
        controlled.upgrade()
        assert controlled.process("old")["pid"] == pid
    (area / "gate").write_text("go\n")
    assert launcher.wait_for_text("late words").startswith("old[1] | ")
    assert launcher.wait_for_event("process-exited", program="old")["exit_code"] == 7
    eventually(lambda: "old" not in controlled.status(), "nothing is left of it")


def test_log_file(place, area):
    """The log file is written on, not begun anew."""
    log = area / "log"
    controlled = Controlled(place, {"web": STAY}, "--log-path", log)
    controlled.launcher.wait_up()
    for _ in range(2):
        controlled.upgrade()
        controlled.launcher.wait_for_event("upgrade-done")
    assert controlled.launcher.stop() == Exit(code=0)
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert [events.count(event) for event in ("launcher-started", "upgrade-done", "launcher-stopped")] == [1, 2, 1]


def test_output_file_is_gone(place, area):
    """A program whose file cannot be opened again goes on; what it says is on standard output, and so is the reason. SIGHUP
    tries the file again."""
    (area / "logs").mkdir()
    for gate in ("gate", "second-gate"):  # a writer that is still about to close the first would be an end for the second read
        os.mkfifo(area / gate)
    text = f"echo first; read line <{area}/gate; echo second; read line <{area}/second-gate; echo third; exec /bin/sleep 1000"
    output = {"file": str(area / "logs" / "talk")}
    controlled = Controlled(place, {"talk": {"command": ["/bin/sh", "-c", text], "output": output}})
    talk = area / "logs" / "talk"
    eventually(lambda: talk.exists() and talk.read_text() == "first\n", "the file is written")
    pid = controlled.pid("talk")
    shutil.rmtree(area / "logs")
    controlled.upgrade()
    assert "cannot open" in controlled.launcher.wait_for_event("output-failed", program="talk")["error"]
    (area / "gate").write_text("go\n")
    controlled.launcher.wait_for_text("talk[1] | second")
    (area / "logs").mkdir()
    controlled.launcher.signal(signal.SIGHUP)
    eventually(talk.exists, "the file is opened")
    (area / "second-gate").write_text("go\n")
    eventually(lambda: talk.read_text() == "third\n", "the file is written")
    assert controlled.pid("talk") == pid


def test_output_is_not_taken_any_more(place, area):
    """A process that was captured when it started, and runs on by a configuration without output, is read on."""
    os.mkfifo(area / "gate")
    text = f"echo first; read line <{area}/gate; echo second; echo third; exec /bin/sleep 1000"
    program = {"command": ["/bin/sh", "-c", text]}
    controlled = Controlled(place, {"talk": {**program, "output": {"format": "prefix"}}})
    controlled.launcher.wait_for_text("talk[1] | first")
    pid = controlled.pid("talk")
    controlled.configure({"talk": program})
    controlled.launcher.wait_for_event("configuration-loaded")
    controlled.launcher.wait_for_event("configuration-loaded")
    controlled.upgrade()
    (area / "gate").write_text("go\n")
    controlled.launcher.wait_for_text("talk[1] | third")
    assert controlled.pid("talk") == pid


def test_both_destinations(place, area):
    """Standard output and error of a running process go on into their own files, each line that was begun with its end."""
    os.mkfifo(area / "gate")
    text = (f"printf 'out '; printf 'err ' >&2; echo up >{area}/up; read line <{area}/gate; echo more; echo worse >&2; "
            "exec /bin/sleep 1000")
    out, err = area / "out", area / "err"
    output = {"file": str(out), "stderr": {"file": str(err), "format": "prefix"}}
    controlled = Controlled(place, {"talk": {"command": ["/bin/sh", "-c", text], "output": output}})
    eventually((area / "up").exists, "both lines are begun")
    pid = controlled.pid("talk")
    for _ in range(2):
        controlled.upgrade()
    (area / "gate").write_text("go\n")
    eventually(lambda: err.read_text() == "talk[1] | err worse\n", "the standard error goes on")
    eventually(lambda: out.read_text() == "out more\n", "and the standard output")
    assert sorted(controlled.ctl("logs", "talk").splitlines()) == ["err worse", "out more"]
    assert controlled.pid("talk") == pid


def test_ring_and_partial_line(place, area):
    """What `ctl logs` shows goes over, and a line that was begun is ended by the same process."""
    os.mkfifo(area / "gate")
    text = f"echo first; printf 'half '; read line <{area}/gate; echo whole; exec /bin/sleep 1000"
    controlled = Controlled(place, {"talk": {"command": ["/bin/sh", "-c", text], "output": {"format": "prefix"}}})
    controlled.launcher.wait_for_text("first")
    for _ in range(2):
        controlled.upgrade()
    assert controlled.ctl("logs", "talk") == "first\n"
    (area / "gate").write_text("go\n")
    assert controlled.launcher.wait_for_text("half") == "talk[1] | half whole"
    assert controlled.ctl("logs", "talk") == "first\nhalf whole\n"


def test_helper_under_way(place, area):
    """A preStop that runs during the upgrade ends after it, and the stop goes on then."""
    os.mkfifo(area / "gate")
    programs = {"web": {"steps": ["trap", "say:up", "until:15", "exit:0"],
                        "preStop": {"command": ["/bin/sh", "-c", f"read line <{area}/gate"], "timeout": "1h"}}}
    controlled = Controlled(place, programs)
    launcher = controlled.launcher
    launcher.wait_up()
    pid = controlled.pid("web")
    controlled.ctl("stop", "--no-wait", "web")
    eventually(lambda: controlled.process("web")["state"] == "pre_stop", "the helper runs")
    controlled.upgrade()
    assert controlled.process("web")["state"] == "pre_stop"
    (area / "gate").write_text("go\n")
    assert launcher.wait_for_event("process-exited", program="web")["pid"] == pid
    eventually(lambda: controlled.process("web")["state"] == "held", "it is held")
    controlled.upgrade()
    assert controlled.process("web")["state"] == "held"
    controlled.ctl("start", "web")
    assert launcher.wait_up()["pid"] != pid


@contextlib.contextmanager
def echoing(place, area):
    """A launcher with a program that writes what comes through a pipe; its control, and that pipe."""
    os.mkfifo(area / "lines")
    controlled = Controlled(place, {"echo": {"command": ["/bin/cat", str(area / "lines")],
                                             "output": {"file": str(area / "echo.log")}}})
    try:
        with open(area / "lines", "wb", buffering=0) as lines:
            yield controlled, lines
    finally:
        controlled.close()


def test_followed_lines_are_whole(place, area):
    """`logs -f` shows each line once and in order, though they are written while one upgrade follows another."""
    with echoing(place, area) as (controlled, lines):
        lines.write(b"0\n")
        follower = controlled.follow("logs", "-f", "echo")
        follower.wait_for("0")
        written = 1
        for _ in range(4):
            upgrade = threading.Thread(target=controlled.upgrade, daemon=True)
            upgrade.start()
            for _ in range(100):
                lines.write(b"%d\n" % written)
                written += 1
            upgrade.join()
        follower.wait_for(lambda line: line == str(written - 1))
        assert follower.lines == [str(number) for number in range(written)]


def test_followed_lines_that_are_gone(place, area):
    """What is not kept any more when `logs -f` comes again is told."""
    with echoing(place, area) as (controlled, lines):
        lines.write(b"first\n")
        follower = controlled.follow("logs", "-f", "echo")
        follower.wait_for("first")
        follower.process.send_signal(signal.SIGSTOP)
        controlled.upgrade()
        for number in range(20000):
            lines.write(b"%d\n" % number)
        lines.write(b"last\n")
        eventually(lambda: controlled.ctl("logs", "-n", "1", "echo") == "last\n", "all is kept, or has been")
        follower.process.send_signal(signal.SIGCONT)
        follower.wait_for("last")
        follower.process.kill()
        assert b"lines are missing here: they were written during an upgrade and are no longer kept" in \
            follower.process.communicate()[1]


def test_follower_comes_again(place):
    """`events` and `logs -f` go on with the next version."""
    controlled = Controlled(place, {"talk": {"steps": ["print:hello", "trap", "say:up", "until:15"],
                                             "output": {"format": "prefix"}}})
    controlled.launcher.wait_up()
    try:
        events, logs = controlled.follow("events", "--json"), controlled.follow("logs", "-f", "talk")
        logs.wait_for("hello")
        # They are there, or there again, when they see a restart; until then there is nothing that could tell.
        restarts = 0

        def seen(before):
            nonlocal restarts
            controlled.ctl("restart", "talk")
            restarts += 1
            events.drain()
            logs.drain()
            ends = sum("process-exited" in line for line in events.lines)
            return ends > before and len(logs.lines) > before + 1
        eventually(lambda: seen(0), "they have come")
        controlled.upgrade()
        before = restarts
        eventually(lambda: seen(before), "they have come again")
        events.process.kill()
        assert b"events may be missing here: the connection was lost" in events.process.communicate()[1]
    finally:
        controlled.close()


def test_version_of_all(place):
    """The new one knows since when it runs, and is asked by everybody from then on."""
    controlled = Controlled(place, {"web": ["pause"]})
    before = json.loads(controlled.ctl("version", "--json"))
    controlled.upgrade()
    after = json.loads(controlled.ctl("version", "--json"))
    assert after["uptime_seconds"] > before["uptime_seconds"] and after["pid"] == before["pid"]
    assert before["version"] == after["version"]


def test_manager_is_told(place, area):
    """The service manager hears of readiness once, and of the stop by whoever stops."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(area / "manager"))
        (area / "manager").chmod(0o666)
        manager.settimeout(TIMEOUT)
        controlled = Controlled(place, {"web": STAY}, env={"NOTIFY_SOCKET": str(area / "manager")})
        controlled.launcher.wait_up()
        told = [manager.recv(4096)]
        while b"READY=1" not in told[-1]:
            told.append(manager.recv(4096))
        for _ in range(2):
            controlled.upgrade()
        assert controlled.launcher.stop() == Exit(code=0)
        while b"STOPPING=1" not in told[-1]:
            told.append(manager.recv(4096))
        assert sum(b"READY=1" in text for text in told) == 1


CGROUPS = next((Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines()
                if line.split()[2] == "cgroup2"), None)


@pytest.fixture(name="own_group")
def make_own_group(area):
    """A script that executes its arguments in a control group and a cgroup namespace of their own."""
    group = CGROUPS and CGROUPS / f"triton-it.{os.getpid()}"
    if not group or os.geteuid() != 0:
        pytest.skip("needs root and a cgroup2 mount")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    script = area / "in-group"
    script.write_text(f'#!/bin/sh\necho $$ >{group}/cgroup.procs && exec unshare --cgroup --mount -- /bin/sh -c '
                      f'\'umount -l {CGROUPS} && mount -t cgroup2 none {CGROUPS} && exec {BINARY} "$@"\' sh "$@"\n')
    script.chmod(0o755)
    yield script

    def is_removed():
        for directory, _, _ in os.walk(group, topdown=False):
            try:
                os.rmdir(directory)
            except OSError:
                return False
        return True
    eventually(is_removed, "nobody is left in the group")


def test_control_groups(own_group, as_pid1):
    """Processes stay in their groups, and whoever has escaped from the process group is still found by them."""
    controlled = Controlled(as_pid1, {"web": ["escape", "trap", "say:up", "until:15"]}, binary=own_group)
    launcher = controlled.launcher
    escaped = launcher.wait_up(role="escaped")["pid"]
    launcher.wait_up(role="main")
    before = (launcher.proc(controlled.pid("web")) / "cgroup").read_text()
    assert (launcher.proc(escaped) / "cgroup").read_text() == before
    assert before != (launcher.proc(1) / "cgroup").read_text()
    for _ in range(3):
        controlled.upgrade()
    assert (launcher.proc(controlled.pid("web")) / "cgroup").read_text() == before
    controlled.ctl("restart", "web")
    eventually(lambda: not launcher.is_alive(escaped), "what it left behind is killed")
    launcher.wait_up(role="main")
    assert (launcher.proc(controlled.pid("web")) / "cgroup").read_text() == before
    controlled.upgrade()
    assert launcher.stop() == Exit(code=0)


def processor_time(launcher):
    """Seconds that the launcher has used so far. An execve goes on counting."""
    fields = Path(f"/proc/{launcher.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_filters_are_kept(as_pid1, area):
    """A program that starts after an upgrade has its filter, which the launcher has not compiled anew: the check has."""
    different = {f"p{number}": {"command": ["/bin/sleep", "1000"], "seccomp": {"deny": ["mount"] * number}}
                 for number in range(1, 64)}
    controlled = Controlled(as_pid1, {
        "web": {"steps": ["call:getpid", "call:chroot", *STAY], "seccomp": {"profile": "none", "deny": ["chroot"]}},
        **different})
    launcher = controlled.launcher
    launcher.wait_up(tag="web")
    before = os.times()
    done = subprocess.run([BINARY, "check", controlled.configuration.path, "--main-container-version", VERSION],
                          capture_output=True, text=True, timeout=TIMEOUT, check=False)
    to_compile = os.times().children_user - before.children_user
    assert done.returncode == 0, done.stderr
    wrapper = area / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nexec {BINARY} "$@"\n')
    wrapper.chmod(0o755)
    for path in (BINARY, wrapper):
        began = processor_time(launcher)
        controlled.upgrade(path)
        launcher.wait_for_event("upgrade-done")
        assert processor_time(launcher) - began < to_compile / 2
        controlled.ctl("restart", "web")
        for said in ("getpid ok", "chroot errno 1"):
            launcher.wait_for_probe("say", text=said)
        assert not [target for target in descriptors(launcher, 1).values() if "triton-launch-filters" in target]
    assert launcher.stop() == Exit(code=0)

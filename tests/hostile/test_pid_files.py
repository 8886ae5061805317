"""Pid files that lie: whatever they are and say, only a process that the program itself has started, and that is our child, is
made its own. Others are never signalled, and PID 1 goes on."""

import json
import os
import time
from pathlib import Path

import pytest

from harness.process import Exit, eventually
from harness.programs import run

DAEMON = Path(__file__).resolve().parents[1] / "harness/daemon.py"


@pytest.fixture(params=["auto", "none"])
def start(place, request):
    def started(programs, *options, **how):
        return run(place, programs, "--cgroup", request.param, *options, **how)
    return started


def daemon(area, *words, **keys):
    return {"command": ["/usr/bin/python3", str(DAEMON), f"{area}/pid", *words], "output": {}, "pidFile": f"{area}/pid", "restart": "never", **keys}


BYSTANDER = {"command": ["sh", "-c", "exec sleep 1000"]}


def refused(launcher, text):
    record = launcher.wait_for_event("pid-file-refused", program="web")
    assert text in record["error"], record
    return record


@pytest.mark.parametrize("text, error", [
    ("1\n", "it names 1, which is "), ("0\n", "its first line is not a pid"), ("-1\n", "its first line is not a pid"),
    ("99999999999999999999\n", "its first line is not a pid"), ("12x\n", "its first line is not a pid"),
    ("\n12\n", "its first line is not a pid"), ("\x01\n", "its first line is not a pid"), ("1" * 4000, "its first line is not a pid"),
    ("1" * 5000, "it is longer than 4096 bytes"), ("4194303\n", "which does not run")])
def test_what_it_says(start, area, text, error):
    launcher = start({"web": daemon(area, f"file:{text}", "then:PID\n"), "bystander": BYSTANDER})
    refused(launcher, error)
    launcher.wait_for_event("process-main", program="web")  # the next word is good
    assert not launcher.events_named("process-exited")
    assert launcher.stop() == Exit(code=0)


def test_the_process_of_another_program(start, area):
    launcher = start({"bystander": BYSTANDER, "web": daemon(area, "none", startTimeout="2s", after=["bystander"])})
    other = launcher.wait_for_event("process-started", program="bystander")["pid"]
    launcher.wait_for_text("serves")
    (area / "pid").write_text(f"{other}\n")
    refused(launcher, f"it names {other}, which is a process of another program")
    launcher.wait_for_event("process-exited", program="web")
    assert launcher.is_alive(other)
    assert launcher.stop().code in (0, 137)


def test_an_orphan_of_another_program(start, area):
    """A child of the launcher, as a daemon is, and none of its own."""
    launcher = start({"other": {"command": ["sh", "-c", f"(setsid sh -c 'echo $$ >{area}/stranger; exec sleep 1000' &) ; exec sleep 1000"]},
                      "web": daemon(area, "none", startTimeout="2s", after=["other"])})
    launcher.wait_for_text("serves")
    eventually(lambda: (area / "stranger").exists() and (area / "stranger").read_text().strip(), "it runs")
    stranger = int((area / "stranger").read_text())
    (area / "pid").write_text(f"{stranger}\n")
    refused(launcher, f"it names {stranger}, which the program has not started")
    launcher.wait_for_event("process-exited", program="web")
    assert launcher.is_alive(stranger)
    assert launcher.stop().code in (0, 137)


def test_a_thread(start, area):
    """A number that is no process's: its end would be told to nobody."""
    script = f"""
import os, threading, time
if os.fork() > 0:
    time.sleep(0.3)
    os._exit(0)
def say():
    open("{area}/new", "w").write(str(threading.get_native_id()))
    os.rename("{area}/new", "{area}/pid")
    time.sleep(1000)
threading.Thread(target=say).start()
time.sleep(1000)
"""
    launcher = start({"web": {"command": ["/usr/bin/python3", "-c", script], "pidFile": f"{area}/pid", "startTimeout": "3s", "restart": "never"},
                      "bystander": BYSTANDER})
    refused(launcher, "which does not run")
    launcher.wait_for_event("process-timed-out", program="web")
    assert launcher.stop().code in (0, 137)


def link(path):
    target = path.parent / "target"
    target.write_text("1\n")
    path.symlink_to(target)


@pytest.mark.parametrize("make, error", [
    (link, "it is a symbolic link"), (os.mkfifo, "it is not a file"), (Path.mkdir, "it is not a file"),
    (lambda path: path.symlink_to("/dev/zero"), "it is a symbolic link"), (lambda path: path.symlink_to(path), "it is a symbolic link")],
    ids=["link", "fifo", "directory", "device", "loop"])
def test_what_it_is(start, area, make, error):
    launcher = start({"web": daemon(area, "none", startTimeout="3s"), "bystander": BYSTANDER})
    launcher.wait_for_text("serves")
    make(area / "pid")
    refused(launcher, error)
    launcher.wait_for_event("process-timed-out", program="web")
    assert launcher.stop().code in (0, 137)


def test_a_file_of_before(start, area):
    """It names a process that would be good, if it said so now; its inode and its time of change say that it does not."""
    (area / "pid").write_text("1\n")
    launcher = start({"web": daemon(area, "none", startTimeout="1s"), "bystander": BYSTANDER})
    launcher.wait_for_event("process-timed-out", program="web")
    assert not launcher.events_named("pid-file-refused")
    assert launcher.stop().code in (0, 137)


def test_a_flood_of_changes(start, area):
    """However often it changes, PID 1 looks now and then, tells a few refusals, and answers."""
    script = f"i=0; while :; do i=$((i + 1)); echo junk$i >{area}/new; mv {area}/new {area}/pid; done"
    launcher = start({"web": daemon(area, "none", startTimeout="60s"), "flood": {"command": ["bash", "-c", script]}})
    refused(launcher, "its first line is not a pid")
    for _ in range(5):
        begun = time.monotonic()
        assert json.loads(launcher.ctl("status", "--json"))
        assert time.monotonic() - begun < 5
    assert len(launcher.events_named("pid-file-refused")) <= 8
    assert launcher.stop().code in (0, 137)


def test_handing_over_for_ever(start, area):
    """One that goes on as another process whenever it is told to stop is stopped in its time all the same."""
    script = f"""
import os, signal, time
def serve():
    signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}})
    open("{area}/pid.new", "w").write(str(os.getpid()))
    os.rename("{area}/pid.new", "{area}/pid")
    while True:
        signal.sigwait({{signal.SIGTERM}})
        if os.fork() > 0:
            time.sleep(0.05)
            os._exit(0)
        open("{area}/pid.new", "w").write(str(os.getpid()))
        os.rename("{area}/pid.new", "{area}/pid")
if os.fork() > 0:
    time.sleep(0.3)
    os._exit(0)
os.setsid()
serve()
"""
    launcher = start({"web": {"command": ["/usr/bin/python3", "-c", script], "pidFile": f"{area}/pid", "stopTimeout": "1s"}})
    launcher.wait_for_event("process-main", program="web")
    begun = time.monotonic()
    launcher.ctl("stop", "web")
    launcher.wait_for_event("process-exited", program="web")
    assert time.monotonic() - begun < 10
    eventually(lambda: launcher.process_count() <= 2, "nothing of it is left")  # the launcher, and what it is a child of
    assert launcher.stop() == Exit(code=0)

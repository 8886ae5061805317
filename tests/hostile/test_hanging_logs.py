"""Log files on a file system whose server does not answer: PID 1 goes on with everything else, and in the end nothing is
missing."""

import os
import signal

import pytest

from harness.control import Varlink
from harness.fuse import fuse  # noqa: F401  pylint: disable=unused-import
from harness.process import BINARY, Exit, eventually
from harness.programs import document, run, service

MANY = 200_000


def talker(*steps, **output):
    """A program whose output goes to the file; it writes a line at each SIGUSR1."""
    return {"command": ["/bin/sh", "-c", "n=0; trap 'n=$((n+1)); echo line $n' USR1; trap exit TERM; echo begun; "
                        "while :; do sleep 100000 & wait $!; done", *steps],
            "output": output}


@pytest.fixture(name="running")
def start(as_pid1, area, fuse):  # noqa: F811
    """A launcher with a program whose log is on the file system, and another one."""
    (area / "logs").mkdir()
    launcher = run(as_pid1, {"web": service("web")})
    launcher.web = launcher.wait_up()["pid"]
    launcher.wait_for_event("configuration-loaded")
    fuse.mount(launcher.launcher, area / "logs")
    launcher.programs = {"web": service("web"), "talker": talker(file=f"{area}/logs/log", format="raw")}
    launcher.replace(launcher.programs)
    launcher.talker = launcher.wait_for_event("process-started", program="talker")["pid"]
    eventually(lambda: fuse.content("log") == "begun\n", "the first line is there")
    return launcher


def speak(running):
    running.signal_inside(running.talker, signal.SIGUSR1)


def assert_serves(running):
    """Clients are answered, processes are reaped and started again."""
    client = Varlink(running.area / "control")
    assert client.call("GetStatus")["parameters"]["launcher"]["pid"] == 1
    client.close()
    running.signal_inside(running.web, signal.SIGKILL)
    running.web = running.wait_up(tag="web")["pid"]


def writers(running):
    """The pids of the processes that write log files."""
    return running.children_whose("comm", lambda text: text == "log-writer\n")


def test_what_is_said_meanwhile_is_written_in_the_end(running, fuse):  # noqa: F811
    fuse.hang()
    speak(running)
    eventually(lambda: "line 1" in running.ctl("logs", "talker"), "it has spoken")
    assert_serves(running)
    running.signal(signal.SIGHUP)  # opens all files again
    failed = running.wait_for_event("output-failed", timeout=20)
    assert failed["error"].endswith("/logs/log: the file system does not answer")
    speak(running)
    assert_serves(running)
    fuse.let_go()
    eventually(lambda: fuse.content("log") == "begun\nline 1\nline 2\n", "nothing is missing")
    assert running.stop() == Exit(code=0)


def test_a_stop_does_not_wait_for_it(running, fuse):  # noqa: F811
    fuse.hang()
    speak(running)
    eventually(lambda: "line 1" in running.ctl("logs", "talker"), "it has spoken")
    running.signal(signal.SIGTERM)
    assert running.wait_for_event("output-lost", program="talker", timeout=5)["lines"] == 1
    running.wait_for_event("launcher-stopped", exit_code=0)
    fuse.let_go()  # the kernel does not let PID 1 end before the writer, which it cannot kill
    assert running.wait() == Exit(code=0)


def test_a_stop_writes_what_there_is(running, fuse):  # noqa: F811
    for number in range(1, 4):
        speak(running)
        eventually(lambda number=number: f"line {number}" in running.ctl("logs", "talker"), "it has spoken")
    assert running.stop() == Exit(code=0)
    assert fuse.content("log") == "begun\nline 1\nline 2\nline 3\n"
    assert not running.events_named("output-lost")


def test_a_writer_outlives_an_upgrade(running, fuse):  # noqa: F811
    """The next version does not open the file: it would wait."""
    before = writers(running)
    assert len(before) == 1
    fuse.hang()
    speak(running)
    eventually(lambda: "line 1" in running.ctl("logs", "talker"), "it has spoken")
    running.ctl("upgrade", BINARY)
    assert_serves(running)
    assert writers(running) == before
    speak(running)
    eventually(lambda: "line 2" in running.ctl("logs", "talker"), "it has spoken")
    fuse.let_go()
    eventually(lambda: fuse.content("log") == "begun\nline 1\nline 2\n", "each line is there once")
    assert running.stop() == Exit(code=0)


def test_a_writer_that_is_killed_is_replaced(running, fuse):  # noqa: F811
    fuse.hang()
    speak(running)
    eventually(lambda: "line 1" in running.ctl("logs", "talker"), "it has spoken")
    (former,) = writers(running)
    running.signal_inside(former, signal.SIGKILL)  # the kernel may keep it until the file system answers
    fuse.let_go()
    eventually(lambda: writers(running) not in ([], [former]), "there is another one")
    eventually(lambda: "line 1\n" in fuse.content("log"), "the line is not missing")
    speak(running)
    eventually(lambda: fuse.content("log").endswith("line 2\n"), "it goes on")
    assert running.stop() == Exit(code=0)


def test_signals_do_not_end_a_writer(running, fuse):  # noqa: F811
    before = writers(running)
    links = [os.readlink(running.proc(before[0]) / "fd" / str(fd)) for fd in range(3)]
    assert links == ["/dev/null"] * 3, "who reads the launcher's output would wait for it"
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGXFSZ):
        running.signal_inside(before[0], number)
    speak(running)
    eventually(lambda: fuse.content("log") == "begun\nline 1\n", "it writes")
    assert writers(running) == before
    assert running.stop() == Exit(code=0)


def test_a_program_that_leaves_takes_its_writer_along(running, fuse):  # noqa: F811
    fuse.hang()
    speak(running)
    eventually(lambda: "line 1" in running.ctl("logs", "talker"), "it has spoken")
    running.replace({"web": service("web")})
    running.wait_for_event("process-exited", program="talker")
    assert_serves(running)
    fuse.let_go()
    eventually(lambda: not writers(running), "it has nothing left to do")
    assert fuse.content("log") == "begun\nline 1\n"
    assert running.stop() == Exit(code=0)


def test_a_full_disk_is_told_and_survived(running, fuse):  # noqa: F811
    fuse.room = 3
    speak(running)
    failed = running.wait_for_event("output-failed")
    assert failed["error"].endswith("/logs/log: No space left on device")
    speak(running)
    eventually(lambda: "line 2" in running.ctl("logs", "talker"), "it has spoken")
    fuse.room = None
    eventually(lambda: fuse.content("log") == "begun\nline 1\nline 2\n", "nothing is missing")
    assert running.stop() == Exit(code=0)


def test_much_output_is_kept_in_order(running, area, fuse):  # noqa: F811
    """More than the pipes, the channel and the launcher hold, while the file system hangs."""
    running.replace({**running.programs, "many": {"command": ["/usr/bin/seq", str(MANY)], "restart": "never",
                                                   "output": {"file": f"{area}/logs/many", "maxSize": "1Gi"}}})
    eventually(lambda: len(fuse.content("many") or "") > 1000, "it has begun")
    fuse.hang()
    assert_serves(running)
    fuse.let_go()
    whole = "".join(f"{number}\n" for number in range(1, MANY + 1))
    eventually(lambda: fuse.content("many") == whole, "all is there once", timeout=60)
    assert running.stop() == Exit(code=0)

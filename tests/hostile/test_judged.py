"""A configuration that takes long is checked by a helper process: whatever becomes of it, the launcher goes on."""

import contextlib
import signal

import pytest

from harness.control import Controlled, Varlink, reach
from harness.process import Exit, eventually
from harness.programs import document, run, service

KILLED = "checking it was ended by SIGKILL"


def idle(count, **keys):
    """So many programs that are never run."""
    return {f"p{number}": {"command": ["/bin/true"], "count": 0, **keys} for number in range(count)}


def costly(count=400):
    """A document that needs a trial for each program: too much for the launcher itself."""
    programs = idle(count)
    for number, program in enumerate(programs.values()):
        program["limits"] = {"nofile": 1000 + number}
    return document({"web": service("web"), **programs})


@pytest.fixture(name="running")
def start(as_pid1):
    """A launcher with one program."""
    launcher = run(as_pid1, {"web": service("web")})
    launcher.web = launcher.wait_up()["pid"]
    launcher.wait_for_event("configuration-loaded")
    reach(launcher.area / "control").close()
    return launcher


def helper_of(launcher):
    """The pid inside of the process that judges for a launcher that is PID 1; 0: there is none."""
    text = (launcher.proc(1) / "task" / "1" / "children").read_text()
    for pid in text.split():
        with contextlib.suppress(OSError):
            if any("triton-launch-verdict" in str(entry.readlink()) for entry in (launcher.proc(pid) / "fd").iterdir()):
                return int(pid)
    return 0


def stop_helper(launcher):
    """Waits until there is a helper, and stops it there."""
    def is_stopped():
        if not (pid := helper_of(launcher)):
            return 0
        with contextlib.suppress(OSError):
            launcher.signal_inside(pid, signal.SIGSTOP)
            return pid
        return 0
    return eventually(is_stopped, "a helper checks the configuration")


def give(launcher, text):
    """Writes a document, and stops the helper that checks it. It may be too quick: then another one is given."""
    launcher.configuration.write_text(text)
    return stop_helper(launcher)


def test_the_launcher_serves_meanwhile(running):
    """Clients are answered, processes are reaped and started again, and the document is taken in the end."""
    helper = give(running, costly())
    client = Varlink(running.area / "control")
    web = client.call("GetStatus")["parameters"]["launcher"]
    assert web["pid"] == 1
    running.signal_inside(running.web, signal.SIGKILL)
    running.wait_up()
    assert not running.events_named("configuration-loaded", processes=1)[1:]
    running.signal_inside(helper, signal.SIGCONT)
    assert running.wait_for_event("configuration-loaded")["processes"] == 1
    assert len(client.call("GetStatus")["parameters"]) > 0
    assert running.stop() == Exit(code=0)


def test_a_helper_that_is_killed(running):
    """The document is rejected, the running one stays, and the next one is taken."""
    helper = give(running, costly())
    running.signal_inside(helper, signal.SIGKILL)
    assert running.wait_for_event("configuration-rejected")["errors"] == [KILLED]
    running.configuration.write_text(costly(401))
    running.wait_for_event("configuration-loaded")
    assert running.stop() == Exit(code=0)


def test_a_helper_that_hangs(running):
    """It has a time limit."""
    give(running, costly())
    assert running.wait_for_event("configuration-rejected", timeout=60)["errors"] == ["checking it takes longer than 10s"]
    running.configuration.write_text(costly(401))
    running.wait_for_event("configuration-loaded")
    assert running.stop() == Exit(code=0)


def test_a_change_while_a_helper_runs(running):
    """The later one wins."""
    helper = give(running, costly())
    running.configuration.write_text(document({"web": service("web"), "last": service("last")}))
    running.quiet_for(0.1)
    running.signal_inside(helper, signal.SIGCONT)
    running.wait_up(tag="last")
    assert running.stop() == Exit(code=0)


def test_a_reload_waits_for_the_verdict(running):
    """The client of `reload` is told what the helper has found, and others are answered meanwhile."""
    helper = give(running, costly())
    asking = Varlink(running.area / "control")
    asking.send("Reload")
    other = Varlink(running.area / "control")
    assert other.call("GetStatus")["parameters"]["launcher"]["pid"] == 1
    running.signal_inside(helper, signal.SIGCONT)
    assert asking.receive() == {"parameters": {}}
    running.configuration.write_text("{")
    assert "error" in asking.call("Reload")
    assert running.stop() == Exit(code=0)


def test_a_stop_while_a_helper_runs(running):
    """It is ended with everything else."""
    give(running, costly())
    asking = Varlink(running.area / "control")
    asking.send("Reload")
    assert Varlink(running.area / "control").call("GetStatus")["parameters"]["launcher"]["pid"] == 1
    assert running.stop() == Exit(code=0)
    assert "the launcher is stopping" in str(asking.receive())


def test_a_first_document_that_takes_long(as_pid1):
    """Signals work while the helper of the very first configuration runs."""
    configuration = as_pid1.configuration()
    configuration.write_text(costly())
    launcher = as_pid1.launch(configuration)
    stop_helper(launcher)
    assert launcher.stop() == Exit(code=143), "nothing has run"
    assert not launcher.events_named("configuration-loaded")


def test_a_first_document_that_is_refused(as_pid1):
    """Whoever wants to end with a bad configuration ends with one that a helper refuses, too."""
    configuration = as_pid1.configuration()
    configuration.write_text(document({"web": {"command": ["/nonexistent"]}, **idle(500, environment={"A": "x" * 1000})}))
    launcher = as_pid1.launch(configuration, "--exit-on-bad-config")
    assert launcher.wait() == Exit(code=1)
    assert "programs.web.command[0]: cannot execute /nonexistent: No such file or directory" in \
        launcher.events_named("configuration-rejected")[0]["errors"]


def test_an_upgrade_while_a_helper_runs(as_pid1):
    """The successor checks the document anew."""
    running = Controlled(as_pid1, {"web": ["trap", "say:up", "until:15"]}, env={"PATH": f"{as_pid1.programs}:/usr/bin:/bin"})
    running.launcher.wait_up(tag="web")
    running.configuration.write_text(costly())
    stop_helper(running.launcher)
    running.upgrade()
    running.launcher.wait_for_event("upgrade-done")
    running.launcher.wait_for_event("configuration-loaded", programs=lambda names: len(names) == 401)
    assert helper_of(running.launcher) == 0
    assert running.launcher.stop() == Exit(code=0)


def test_more_memory_than_there_is(as_pid1, needs_static):
    """A document of 500 kB that would be 1.4 gigabytes: its helper has a limit."""
    del needs_static  # the limit of memory, too
    big = {"type": "Environment", "source": "BIG"}
    words = document({f"p{number}": {"command": ["/bin/true", *[big] * 20], "count": 0} for number in range(600)})
    launcher = run(as_pid1, {"web": service("web")}, env={"BIG": "x" * 120000})
    launcher.wait_up()
    launcher.configuration.write_text(words)
    assert launcher.wait_for_event("configuration-rejected")["errors"] == ["checking it needs more than 128 MiB of memory"]
    assert launcher.stop() == Exit(code=0)

"""The image's own command beside programs: `triton-launch --input-dir DIR -- COMMAND`."""

import signal

import pytest

from harness.process import Exit, run_plainly
from harness.programs import document, probe, service
from test_terminal import INTERRUPT, Terminal, terminal  # noqa: F401 (a fixture)


def beside(place, programs, *command, start=None, **how):
    configuration = place.configuration()
    configuration.write_text(document(programs))
    options = ("--input-dir", configuration.directory, "--control-socket", place.area / "control", "--", *command)
    environment = {"PATH": f"{place.programs}:/usr/bin:/bin"}
    if start:
        return start(place, place.start, *options, env=environment, **how)
    return place.start(*options, env=environment, **how)


def test_the_command_comes_when_the_programs_are_up_and_its_end_is_the_containers(place):
    launcher = beside(place, {"db": service("db"), "migrate": probe("say:migrated", "exit:0", oneShot=True)},
                      "probe", "tag:main", "say:up", "exit:7")
    launcher.wait_up(tag="main")
    launcher.wait_signal(signal.SIGTERM, tag="db")
    assert launcher.wait() == Exit(code=7)
    told = [(record["event"], record["program"]) for record in launcher.events.all if "program" in record]
    begin = told.index(("process-started", "triton-command"))
    assert {("process-started", "db"), ("process-exited", "migrate")} <= set(told[:begin])


@pytest.mark.parametrize("code", [0, 1, 143])
def test_each_code_is_passed_on(place, code):
    launcher = beside(place, {"db": service("db")}, "probe", f"exit:{code}")
    assert launcher.wait() == Exit(code=code)


def test_a_stop_ends_with_the_commands_code(place):
    launcher = beside(place, {"db": service("db")}, "probe", "tag:main", "trap", "say:up", "until:15", "exit:3")
    launcher.wait_up(tag="main")
    launcher.signal(signal.SIGTERM)
    assert launcher.wait() == Exit(code=3)
    ended = [record["program"] for record in launcher.events_named("process-exited")]
    assert ended == ["triton-command", "db"]  # what it may use goes last


def test_a_killed_command_gives_128_and_its_signal(place):
    launcher = beside(place, {"db": service("db")}, "probe", "tag:main", "say:up", "wait")
    launcher.signal_inside(launcher.wait_up(tag="main")["pid"], signal.SIGKILL)
    assert launcher.wait() == Exit(code=137)


def test_the_command_has_the_terminal(place, terminal):  # noqa: F811
    launcher = beside(place, {"db": service("db")}, "/bin/sh", "-c", "read line; echo got-$line; exit 4",
                      start=terminal.start)
    terminal.press(b"typed\n")
    launcher.wait_for_text("got-typed")
    assert launcher.wait() == Exit(code=4)


def test_interrupt_is_for_the_command_alone(place, terminal):  # noqa: F811
    launcher = beside(place, {"db": service("db")}, "/bin/sh", "-c", "trap 'echo inter; exit 5' INT; echo re; sleep 60 & wait",
                      start=terminal.start)
    launcher.wait_for_text("re")
    terminal.press(INTERRUPT)
    launcher.wait_for_text("inter")
    assert launcher.wait() == Exit(code=5)


@pytest.mark.parametrize(("command", "code", "told"), [
    ("/nonexistent/main", 127, "cannot execute /nonexistent/main: No such file or directory"),
    ("no-such-main", 127, 'cannot find "no-such-main" in PATH (/usr/bin:/bin)'),
    ("/etc/passwd", 126, "cannot execute /etc/passwd: Permission denied"),
    ("/etc", 126, "cannot execute /etc: is not a file"),
])
def test_a_command_that_is_not_there_is_not_waited_for(tmp_path, command, code, told):
    """No configuration could mend it; a shell has the same codes. The configuration is not even looked at."""
    done = run_plainly("--input-dir", tmp_path, "--control-socket", "none", "--", command, env={"PATH": "/usr/bin:/bin"})
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"triton-launch: {told}\n")


def test_it_needs_programs_and_a_command(tmp_path):
    done = run_plainly("--input-dir", tmp_path, "--")
    assert (done.returncode, done.stderr) == (2, "triton-launch: --: a command must follow\n")
    (tmp_path / "config.json").write_text('{"version":"1","arguments":[]}')
    done = run_plainly("--input-dir", tmp_path, "--main-container-version", "1", "--exit-on-bad-config",
                       "--control-socket", "none", "--", "true")
    assert done.returncode == 1
    assert 'a command can only run beside named programs' in done.stdout + done.stderr


@pytest.mark.parametrize("text", [None, "{"], ids=["missing", "bad"])
def test_a_command_does_not_wait_for_a_good_configuration(place, text):
    configuration = place.configuration()
    if text:
        configuration.write_text(text)
    launcher = place.start("--input-dir", configuration.directory, "--control-socket", "none", "--", "true")
    assert launcher.wait() == Exit(code=1)
    assert launcher.events_named("configuration-rejected")


def test_the_command_stays_over_a_change_and_an_upgrade(place):
    launcher = beside(place, {"db": service("db")}, "probe", "tag:main", "trap", "say:up", "until:15")
    pid = launcher.wait_up(tag="main")["pid"]
    control = ("--socket", place.area / "control")
    assert run_plainly("ctl", *control, "upgrade", place.binary).returncode == 0
    launcher.wait_for_event("upgrade-done")
    launcher.signal_inside(pid, signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1, tag="main")
    assert not launcher.events_named("process-exited")
    assert launcher.stop() == Exit(code=0)

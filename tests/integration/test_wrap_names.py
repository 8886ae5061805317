"""Wrap mode under another program's name: a symbolic link is a drop-in for tini, dumb-init, catatonit, docker-init."""

import signal
import subprocess

import pytest

from harness import Exit, eventually

TRAP = ("trap", "say:up", "wait")
TINI = ["tini", "tini-static", "docker-init", "catatonit"]


def named(starter, name):
    """The binary under this name."""
    link = starter.area / name
    link.symlink_to(starter.binary)
    return link


@pytest.mark.parametrize("name", [*TINI, "dumb-init"])
@pytest.mark.parametrize("separator", [[], ["--"]], ids=["plain", "--"])
def test_command_needs_no_separator(place, name, separator):
    launcher = place.start(*separator, place.probe, "exit:5", binary=named(place, name))
    assert launcher.wait() == Exit(code=5)


@pytest.mark.parametrize("name", [*TINI, "dumb-init"])
def test_options_stop_at_the_command(place, name):
    launcher = place.start("-v", place.probe, "report", "-s", "--version", "--", binary=named(place, name))
    assert launcher.wait_for_probe("report")["argv"][1:] == ["report", "-s", "--version", "--"]


@pytest.mark.parametrize("name", TINI)
def test_those_signal_the_command_alone_and_make_no_session(place, name):
    launcher = place.start(place.probe, "report", "trap", "child", "say:up", "wait", binary=named(place, name))
    report = launcher.wait_for_probe("report")
    assert report["pgid"] == report["pid"] != report["sid"]
    child = launcher.wait_up(role="child")
    launcher.wait_up(role="main")
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1, role="main")
    launcher.signal_inside(child["pid"], signal.SIGUSR2)
    assert launcher.wait_for_probe("signal", role="child")["signal"] == signal.SIGUSR2


def test_tini_group_by_environment(place):
    launcher = place.start(place.probe, "trap", "child", "say:up", "wait", binary=named(place, "tini"),
                           env={"TINI_KILL_PROCESS_GROUP": "1"})
    launcher.wait_up(role="child")
    launcher.wait_up(role="main")
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1, role="child")


@pytest.mark.parametrize("options", [["-s"], ["-g"], ["-w"], ["-v"], ["-vvv"], ["-sgw"], ["-p", "SIGTERM"], ["-pKILL"],
                                     ["-e", "3"], ["-e3", "-g"]], ids=" ".join)
def test_options_of_tini(place, options):
    launcher = place.start(*options, "--", place.probe, "exit:3", binary=named(place, "tini"))
    assert launcher.wait() == Exit(code=0 if any("e" in option for option in options) else 3)


def test_dumb_init_makes_a_session_and_signals_all_of_it(place):
    launcher = place.start(place.probe, "report", "trap", "child", "say:up", "wait", binary=named(place, "dumb-init"))
    report = launcher.wait_for_probe("report")
    assert report["sid"] == report["pid"]
    launcher.wait_up(role="child")
    launcher.wait_up(role="main")
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1, role="main")
    launcher.wait_signal(signal.SIGUSR1, role="child")


@pytest.mark.parametrize("how", [{"options": ["-c"]}, {"options": ["--single-child"]},
                                 {"env": {"DUMB_INIT_SETSID": "0"}}], ids=str)
def test_dumb_init_single_child(place, how):
    launcher = place.start(*how.get("options", []), place.probe, "report", *TRAP, binary=named(place, "dumb-init"),
                           env=how.get("env"))
    report = launcher.wait_for_probe("report")
    assert report["sid"] != report["pid"]


def test_dumb_init_tells_the_rest_of_the_session_at_the_end(as_child):
    """As dumb-init: TERM to what the command leaves in its session."""
    launcher = as_child.start(as_child.probe, "child", "trap", "say:up", "until:10", "exit:4",
                              binary=named(as_child, "dumb-init"))
    launcher.wait_up(role="child")
    main = launcher.wait_up(role="main")
    launcher.signal_inside(main["pid"], signal.SIGUSR1)
    assert launcher.wait() == Exit(code=4)
    launcher.wait_signal_after_end(signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU])
def test_dumb_init_stops_the_session_by_a_signal_that_works(as_pid1, number):
    """Pitfall 9: TSTP does nothing to an orphaned group, which a session's first one is."""
    launcher = as_pid1.start(as_pid1.probe, "say:up", "pause", binary=named(as_pid1, "dumb-init"))
    line = launcher.wait_up()
    launcher.signal(number)
    eventually(lambda: state(launcher, line) == "T", "the command stops")
    launcher.signal(signal.SIGCONT)
    eventually(lambda: state(launcher, line) == "S", "the command goes on")


def state(launcher, line):
    return launcher.proc(line["pid"]).joinpath("stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.mark.parametrize("name", [*TINI, "dumb-init"])
def test_wrong_option_is_a_usage_error(place, name):
    launcher = place.start("--no-such-option", place.probe, "say:started", binary=named(place, name))
    assert launcher.wait() == Exit(code=1)  # as those programs have it
    assert launcher.errors().count("\n") == 1
    assert not launcher.probe.all


def test_no_command_is_a_usage_error(place):
    launcher = place.start(binary=named(place, "tini"))
    assert launcher.wait() == Exit(code=1)
    assert launcher.errors().count("\n") == 1


@pytest.mark.parametrize("name, code", [("tini", 127), ("dumb-init", 2)])
def test_missing_command_ends_as_under_that_name(place, name, code):
    launcher = place.start("/nonexistent/command", binary=named(place, name))
    assert launcher.wait() == Exit(code=code)
    assert "/nonexistent/command" in launcher.errors()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_pause_reaps_until_it_is_stopped(as_pid1, needs_root, number):
    """catatonit's -P: the PID 1 of a pod, whose other containers' orphans come to it."""
    launcher = as_pid1.start("-P", binary=named(as_pid1, "catatonit"))
    subprocess.run(["nsenter", "-t", str(launcher.pid), "-p", "-m", "--", as_pid1.probe, "orphans:100"], check=True)
    eventually(lambda: not launcher.zombies(), "the orphans are reaped")
    launcher.signal(signal.SIGUSR1)
    launcher.signal(number)
    assert launcher.wait() == Exit(code=0)

"""Wrap mode under another program's name: a symbolic link is a drop-in for tini, dumb-init, catatonit, docker-init."""

import os
import signal
import subprocess

import pytest

from harness.process import BINARY, Exit, eventually, run_plainly

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


@pytest.mark.parametrize("options", [[], ["-v"]], ids=["plain", "with libc"])
def test_tini_has_the_separator_after_the_program(place, options):
    """The usage line of tini: PROGRAM -- [ARGS]."""
    launcher = place.start(*options, place.probe, "--", "report", "exit:3", binary=named(place, "tini"))
    assert launcher.wait_for_probe("report")["argv"] == [str(place.probe), "report", "exit:3"]
    assert launcher.wait() == Exit(code=3)


def test_the_separator_after_a_program_that_is_missing(place):
    launcher = place.start("/nonexistent/command", "--", "x", binary=named(place, "tini"))
    assert launcher.wait() == Exit(code=127)
    assert launcher.errors() == "triton-launch: cannot start /nonexistent/command: No such file or directory\n"


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


SUSPENDING = {signal.SIGTSTP: signal.SIGHUP, signal.SIGTTIN: signal.SIGTERM, signal.SIGTTOU: signal.SIGINT}


@pytest.mark.parametrize("session", [[], ["-c"]], ids=["setsid", "single child"])
@pytest.mark.parametrize("received, sent", SUSPENDING.items())
def test_dumb_init_rewrites_what_would_stop_the_session(as_child, session, received, sent):
    """As dumb-init: the command gets what the user wants instead, and we stop for the shell that waits for it."""
    rewrites = [word for pair in SUSPENDING.items() for word in ("--rewrite", "{:d}:{:d}".format(*pair))]
    launcher = as_child.start(*session, *rewrites, as_child.probe, *TRAP, binary=named(as_child, "dumb-init"))
    line = launcher.wait_up()
    for _ in range(2):
        launcher.signal(received)
        launcher.wait_signal(sent)
        eventually(lambda: launcher.status()["State"].startswith("T"), "we stop")
        assert state(launcher, line) != "T"
        launcher.signal(signal.SIGCONT)
        launcher.wait_signal(signal.SIGCONT)
    launcher.signal(signal.SIGUSR1)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGUSR1


@pytest.mark.parametrize("number", SUSPENDING)
def test_dumb_init_suspends_itself_and_its_session(as_child, number):
    """As dumb-init, not PID 1: ^Z stops all, and SIGCONT continues all."""
    launcher = as_child.start(as_child.probe, "say:up", "pause", binary=named(as_child, "dumb-init"))
    line = launcher.wait_up()
    launcher.signal(number)
    eventually(lambda: state(launcher, line) == "T", "the command stops")
    eventually(lambda: launcher.status()["State"].startswith("T"), "we stop")
    launcher.signal(signal.SIGCONT)
    eventually(lambda: state(launcher, line) == "S", "the command goes on")
    launcher.signal(signal.SIGTERM)
    assert launcher.wait() == Exit(code=143)


@pytest.mark.parametrize("received, sent", SUSPENDING.items())
def test_dumb_init_as_pid1_never_stops_itself(as_pid1, received, sent):
    """There is nobody who could continue it."""
    launcher = as_pid1.start("-r", f"{received:d}:{sent:d}", as_pid1.probe, *TRAP, binary=named(as_pid1, "dumb-init"))
    launcher.wait_up()
    launcher.signal(received)
    launcher.wait_signal(sent)
    launcher.signal(signal.SIGUSR1)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGUSR1


@pytest.mark.parametrize("name", [*TINI, "dumb-init"])
def test_exit_codes_are_the_commands(place, name):
    """As all of them: its code, or 128 and the signal's number."""
    link = named(place, name)
    for step, code in {"exit:0": 0, "exit:1": 1, "exit:127": 127, "exit:255": 255, "die:1": 129, "die:6": 134,
                       "die:9": 137, "die:15": 143, "die:40": 168}.items():
        launcher = place.start("--", place.probe, step, binary=link)
        assert launcher.wait() == Exit(code=code), step
        assert launcher.errors() == ""
        launcher.close()


@pytest.mark.parametrize("name, code", [("tini", 126), ("tini-static", 126), ("docker-init", 126), ("dumb-init", 2),
                                        ("catatonit", 1)])
def test_command_that_cannot_be_executed_ends_as_under_that_name(place, name, code):
    path = place.area / "command"
    path.write_text("#!/bin/true\n")
    launcher = place.start(path, binary=named(place, name))
    assert launcher.wait() == Exit(code=code)
    assert str(path) in launcher.errors() and launcher.errors().count("\n") == 1


@pytest.mark.parametrize("name", [*TINI, "dumb-init"])
@pytest.mark.parametrize("option", ["-h", "--help", "-V", "--version"])
def test_information_under_another_name(area, name, option):
    (area / name).symlink_to(BINARY)
    done = run_plainly(option, binary=area / name)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout


@pytest.mark.parametrize("name", ["tini", "tini-static", "docker-init"])
def test_dockerd_can_read_the_version(area, name):
    """It splits at " - ", wants "tini version " in the first part and git.COMMIT as the second."""
    (area / name).symlink_to(BINARY)
    done = run_plainly("--version", binary=area / name)
    version, commit, ours = done.stdout.split(" - ")
    assert (version, commit) == ("tini version 0.19.0", "git.de40ad0")
    assert ours == run_plainly("--version").stdout


def test_catatonit_shows_its_licence(area):
    (area / "catatonit").symlink_to(BINARY)
    done = run_plainly("-L", binary=area / "catatonit")
    assert (done.returncode, done.stderr) == (0, "") and "License" in done.stdout


def state(launcher, line):
    return launcher.proc(line["pid"]).joinpath("stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.mark.parametrize("name", [*TINI, "dumb-init"])
def test_wrong_option_is_a_usage_error(place, name):
    launcher = place.start("--no-such-option", place.probe, "say:started", binary=named(place, name))
    assert launcher.wait() == Exit(code=1)  # as those programs have it
    assert launcher.errors().count("\n") == 1
    assert not launcher.probe.all


@pytest.mark.parametrize("name", [*TINI, "dumb-init"])
@pytest.mark.parametrize("arguments", [[], ["--"], ["-v"]], ids=str)
def test_no_command_is_a_usage_error(place, name, arguments):
    launcher = place.start(*arguments, binary=named(place, name))
    assert launcher.wait() == Exit(code=1)
    assert launcher.errors().count("\n") == 1


@pytest.mark.parametrize("name, code", [("tini", 127), ("dumb-init", 2), ("catatonit", 1)])
def test_missing_command_ends_as_under_that_name(place, name, code):
    launcher = place.start("/nonexistent/command", binary=named(place, name))
    assert launcher.wait() == Exit(code=code)
    assert "/nonexistent/command" in launcher.errors()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_pause_reaps_until_it_is_stopped(as_pid1, needs_root, number):
    """catatonit's -P: the PID 1 of a pod, whose other containers' orphans come to it."""
    launcher = as_pid1.start("-P", binary=named(as_pid1, "catatonit"))
    subprocess.run([*launcher.enter("pid", "mount"), as_pid1.probe, "orphans:100"], check=True)
    eventually(lambda: not launcher.zombies(), "the orphans are reaped")
    launcher.signal(signal.SIGUSR1)
    launcher.signal(number)
    assert launcher.wait() == Exit(code=0)


def is_waiting(launcher):
    """Whether it has come as far as to sleep, which as a pause it does in one place only."""
    is_started = os.readlink(f"/proc/{launcher.pid}/exe") == os.path.realpath(BINARY)
    return is_started and launcher.status()["State"].startswith("S")


@pytest.mark.parametrize("option", ["-P", "--pause"])
def test_pause_under_the_own_name(place, option):
    launcher = place.start("-r", "HUP:TERM", option)
    eventually(lambda: is_waiting(launcher), "it waits")
    launcher.signal(signal.SIGHUP)
    assert launcher.wait() == Exit(code=0)


@pytest.mark.parametrize("name, code", [("catatonit", 1), ("triton-launch", 2)])
def test_pause_runs_no_command(place, name, code):
    launcher = place.start("-P", "--", place.probe, "say:started", binary=named(place, name))
    assert launcher.wait() == Exit(code=code)
    assert launcher.errors().count("\n") == 1 and not launcher.probe.all

"""Wrap mode: orphans are collected, at any rate and in any number, and never taken for the command."""

import signal
import time

import pytest

from harness.process import Exit, eventually

MANY = 10_000


def options(place):
    return [] if place.pid1 else ["-s"]


def test_ten_thousand_orphans(place):
    """Pitfalls 2, 3: SIGCHLD coalesces, and the cost of one death does not grow with their number."""
    started = time.monotonic()
    launcher = place.wrap("trap", f"orphans:{MANY}", "say:done", "wait", options=options(place))
    launcher.wait_for_probe("say", timeout=60, text="done")
    eventually(lambda: not launcher.zombies(), "all orphans are reaped")
    assert time.monotonic() - started < 60
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1)


def test_own_exit_among_orphans_is_not_lost(place):
    """Pitfall 2: the command ends amid a storm; its code comes through."""
    launcher = place.wrap("orphans:3000", "exit:23", options=options(place))
    assert launcher.wait(timeout=60) == Exit(code=23)


@pytest.mark.parametrize("how", [{}, {"options": ["-s"]}, {"env": {"TINI_SUBREAPER": ""}},
                                 {"env": {"TRITON_LAUNCH_SUBREAPER": "1"}}], ids=str)
def test_subreaper_adopts_and_reaps(as_child, how):
    """Pitfall 19: an ordinary process adopts orphans too, asked or not."""
    launcher = as_child.wrap("trap", "escape", "say:up", "wait", **how)
    main = launcher.wait_up(role="main")
    escaped = launcher.wait_up(role="escaped")
    adopter = parent_of(launcher, main)
    eventually(lambda: parent_of(launcher, escaped) == adopter, "we adopt the orphan")
    launcher.signal_inside(escaped["pid"], signal.SIGKILL)
    eventually(lambda: not launcher.proc(escaped["pid"]).exists(), "we reap the orphan")
    assert launcher.zombies() == []


def parent_of(launcher, line):
    text = launcher.proc(line["pid"]).joinpath("stat").read_text()
    return int(text.rsplit(")", 1)[1].split()[1])


def test_warn_on_reap(place):
    launcher = place.wrap("trap", "orphans:3", "say:done", "until:10", options=["-w", *options(place)])
    launcher.wait_for_probe("say", text="done")
    eventually(lambda: launcher.errors().count("\n") >= 3, "each orphan is warned about")
    launcher.signal(10)
    launcher.wait()
    # as PID 1 we also adopt nothing else; the helpers between are reaped by the command
    assert launcher.errors().count("\n") == 3


def test_stranger_with_a_code_is_not_the_command(place, needs_root):
    """Pitfall 4: an orphan's exit ends nothing."""
    launcher = place.wrap("take-exit:3000:77", "trap", "say:up", "until:10", "exit:5", options=options(place))
    launcher.wait_up()
    eventually(lambda: not launcher.zombies(), "the orphan is reaped")
    launcher.signal(10)
    assert launcher.wait() == Exit(code=5)


def test_group_outlives_the_command_only_as_long_as_the_namespace(as_pid1):
    """Pitfall 22: when PID 1 ends, the kernel ends the rest; we do not wait for it."""
    launcher = as_pid1.wrap("trap", "escape", "until:10", "exit:0")
    launcher.wait_up(role="escaped")
    launcher.signal(signal.SIGUSR1)
    assert launcher.wait() == Exit(code=0)


def test_death_is_the_commands_not_its_pipes(place):
    """Pitfall 5: a grandchild keeps standard output open; the command's end is the end."""
    launcher = place.wrap("trap", "escape", "until:10", "exit:12")
    launcher.wait_up(role="escaped")
    launcher.signal(signal.SIGUSR1)
    assert launcher.wait() == Exit(code=12)


def test_traced_command_whose_end_we_cannot_collect(as_pid1):
    """A tracer that keeps a dead command keeps us waiting, but not turning."""
    launcher = as_pid1.wrap("trace", "trap", "say:up", "wait")
    main = launcher.wait_up(role="main")
    tracer = launcher.wait_up(role="tracer")
    launcher.signal_inside(main["pid"], signal.SIGKILL)
    eventually(lambda: main["pid"] in launcher.zombies(), "the command is dead")
    launcher.wait_signal(signal.SIGCHLD, role="tracer")
    before = launcher.switches()
    launcher.quiet_for(0.3, launcher.probe)
    assert launcher.switches() - before < 20, "it turns while it waits"
    launcher.signal_inside(tracer["pid"], signal.SIGKILL)
    assert launcher.wait() == Exit(code=128 + signal.SIGKILL)

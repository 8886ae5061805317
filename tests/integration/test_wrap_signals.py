"""Wrap mode: signals reach the command as if it had been started without us."""

import os
import select
import signal
import time

import pytest

from harness.process import FORWARDABLE, TIMEOUT, Exit, eventually, signal_mask, wait_readable

TRAP = ("trap", "say:up", "wait")


@pytest.mark.parametrize("group", [False, True], ids=["child", "group"])
def test_every_forwardable_signal_arrives(place, group):
    """Pitfalls 1, 18: signals with a default action reach us as PID 1, and real-time ones are not left out."""
    launcher = place.wrap("trap", "child", "say:up", "wait", options=["-g"] if group else [])
    launcher.wait_up(role="main")
    launcher.wait_up(role="child")
    for number in FORWARDABLE:
        launcher.signal(number)
        launcher.wait_signal(number, role="main")
        if group:
            launcher.wait_signal(number, role="child")
    launcher.probe.drain()
    assert not [line for line in launcher.probe.pending if line["probe"] == "signal"], launcher.story()


@pytest.mark.parametrize("options", [["-r", "15:3"], ["--rewrite", "15:3"], ["--rewrite=TERM:QUIT"],
                                     ["-r", "SIGTERM:SIGQUIT"], ["-r", "1:2", "-r", "15:3"]], ids=" ".join)
def test_rewrite(place, options):
    launcher = place.wrap(*TRAP, options=options)
    launcher.wait_up()
    launcher.signal(signal.SIGTERM)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGQUIT


def test_rewrite_is_not_applied_twice(place):
    launcher = place.wrap(*TRAP, options=["-r", "15:3", "-r", "3:2"])
    launcher.wait_up()
    launcher.signal(signal.SIGTERM)
    launcher.signal(signal.SIGQUIT)
    assert [launcher.wait_for_probe("signal")["signal"] for _ in range(2)] in ([3, 2], [2, 3])


def test_rewrite_to_zero_drops(place):
    launcher = place.wrap(*TRAP, options=["-r", "15:0"])
    launcher.wait_up()
    launcher.signal(signal.SIGTERM)
    launcher.signal(signal.SIGUSR1)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGUSR1


def test_rewrite_of_real_time_signal(place):
    """Pitfall 18: the stop signal of systemd-style images."""
    launcher = place.wrap(*TRAP, options=["-r", "RTMIN+3:15"])
    launcher.wait_up()
    launcher.signal(37)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGTERM


def test_group_signal_reaches_grandchildren_only_when_asked(place):
    launcher = place.wrap("trap", "child", "say:up", "wait")
    launcher.wait_up(role="main")
    child = launcher.wait_up(role="child")
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1, role="main")
    launcher.signal_inside(child["pid"], signal.SIGUSR2)
    assert launcher.wait_for_probe("signal", role="child")["signal"] == signal.SIGUSR2


# Those with which libc starts after all: by then PID 1 has blocked all signals for itself.
LATE_STARTS = pytest.mark.parametrize("how", [[], ["--stop-timeout", "5s"], ["-v"], ["-w"]], ids=" ".join)


@LATE_STARTS
def test_command_starts_with_the_inherited_mask_and_ignores(place, how):
    """Pitfall 7: what we block and ignore for ourselves is put back, and only that."""
    ignored = [signal.SIGPIPE, signal.SIGUSR2, signal.SIGTTOU]
    blocked = [signal.SIGUSR1, 40]
    options = [word for number in ignored for word in ("--ignore", str(int(number)))]
    options += [word for number in blocked for word in ("--block", str(int(number)))]
    report = place.wrap("report", options=how, place=options).wait_for_probe("report")
    assert report["ignored"] == sum(1 << (number - 1) for number in ignored)
    assert report["blocked"] == sum(1 << (number - 1) for number in blocked)


@LATE_STARTS
def test_command_starts_with_clean_signals(place, how):
    """Pitfall 7."""
    report = place.wrap("report", options=how).wait_for_probe("report")
    assert (report["ignored"], report["blocked"]) == (0, 0)


def test_signals_ignored_by_our_parent_are_forwarded_all_the_same(place):
    """Pitfall 7: `nohup` and Go parents leave signals ignored; we still hear them."""
    launcher = place.wrap(*TRAP, place=["--ignore", "1", "--ignore", "15"])
    launcher.wait_up()
    for number in (signal.SIGHUP, signal.SIGTERM):
        launcher.signal(number)
        launcher.wait_signal(number)


def test_signals_blocked_by_our_parent_are_forwarded_all_the_same(place):
    """Pitfall 7."""
    launcher = place.wrap(*TRAP, place=["--block", "1", "--block", "15", "--block", "50"])
    launcher.wait_up()
    for number in (signal.SIGHUP, signal.SIGTERM, 50):
        launcher.signal(number)
        launcher.wait_signal(number)


def test_stopped_command_is_no_dead_command(place):
    """SIGCHLD also means "stopped" and "continued"."""
    launcher = place.wrap(*TRAP)
    up = launcher.wait_up()
    for _ in range(3):
        launcher.signal_inside(up["pid"], signal.SIGSTOP)
        eventually(lambda: launcher.proc(up["pid"]).joinpath("stat").read_text().rsplit(")", 1)[1].split()[0] == "T",
                   "the command stops")
        launcher.signal_inside(up["pid"], signal.SIGCONT)
        launcher.wait_signal(signal.SIGCONT)
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1)
    launcher.signal_inside(up["pid"], signal.SIGKILL)
    assert launcher.wait() == Exit(code=128 + signal.SIGKILL)


def test_command_that_stops_itself_can_be_continued_and_ended(place):
    launcher = place.wrap("say:up", "stop", "say:continued", "exit:4")
    up = launcher.wait_up()
    eventually(lambda: "T" in launcher.proc(up["pid"]).joinpath("stat").read_text().rsplit(")", 1)[1].split()[0],
               "the command stops")
    launcher.signal(signal.SIGCONT)
    launcher.wait_for_probe("say", text="continued")
    assert launcher.wait() == Exit(code=4)


@pytest.mark.parametrize("microseconds", [0, 100, 200, 400, 700, 1000, 1500, 2000, 3000, 5000])
def test_term_at_start_always_ends_us(as_child, microseconds):
    """Pitfall 10: before exec, between fork and exec of the command, after it: the signal is never lost."""
    for _ in range(5):
        launcher = as_child.wrap("pause")
        select.select([], [], [], microseconds / 1e6)
        launcher.signal(signal.SIGTERM)
        assert launcher.wait() in (Exit(code=143), Exit(signal=signal.SIGTERM))


def test_term_as_soon_as_pid1_can_hear_it(as_pid1):
    """Pitfalls 1, 10: from the moment PID 1 holds SIGTERM, and before its command runs, no SIGTERM is lost."""
    for _ in range(20):
        launcher = as_pid1.wrap("pause")
        # while it waits in sigtimedwait(2) its mask shows nothing; then it has a child
        eventually(lambda: signal.SIGTERM in signal_mask(launcher.status(), "SigBlk") or launcher.process_count() > 1,
                   "PID 1 holds SIGTERM")
        launcher.signal(signal.SIGTERM)
        assert launcher.wait() == Exit(code=143)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_stop_timeout_kills_a_deaf_command(place, number):
    """Pitfall 12: a stop that cannot end is bounded."""
    launcher = place.wrap("trap", "say:up", "wait", options=["--stop-timeout", "1s"])
    launcher.wait_up()
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1)
    started = time.monotonic()
    launcher.signal(number)
    launcher.wait_signal(number)
    assert launcher.wait() == Exit(code=128 + signal.SIGKILL)
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize("rewrite, received, sent", [("RTMIN+3:TERM", signal.SIGRTMIN + 3, signal.SIGTERM), ("TERM:USR1", signal.SIGTERM, signal.SIGUSR1),
                                                     ("TERM:INT", signal.SIGTERM, signal.SIGINT)], ids=str)
def test_stop_timeout_begins_with_a_rewritten_stop(place, rewrite, received, sent):
    """The stop signal of a machine became TERM and had no end. What a container runtime sends is a stop, whatever the command gets."""
    launcher = place.wrap("trap", "say:up", "wait", options=["--stop-timeout", "300ms", "--rewrite", rewrite])
    launcher.wait_up()
    launcher.signal(received)
    launcher.wait_signal(sent)
    assert launcher.wait() == Exit(code=128 + signal.SIGKILL)


@pytest.mark.parametrize("rewrite, received, sent", [("INT:USR1", signal.SIGINT, signal.SIGUSR1), ("QUIT:HUP", signal.SIGQUIT, signal.SIGHUP),
                                                     ("TERM:0", signal.SIGTERM, None)], ids=str)
def test_stop_timeout_does_not_begin_with_what_is_no_stop(place, rewrite, received, sent):
    launcher = place.wrap(*TRAP, options=["--stop-timeout", "200ms", "--rewrite", rewrite])
    launcher.wait_up()
    launcher.signal(received)
    if sent:
        launcher.wait_signal(sent)
    launcher.quiet_for(0.5, launcher.probe)
    launcher.assert_running()


def test_a_repeated_stop_does_not_postpone_its_end(place):
    """Whoever asks again and again, as a supervisor above may, gets what was said the first time."""
    launcher = place.wrap("trap", "say:up", "wait", options=["--stop-timeout", "500ms"])
    launcher.wait_up()
    deadline = time.monotonic() + TIMEOUT
    while not wait_readable([launcher.pidfd], time.monotonic() + 0.05):
        assert time.monotonic() < deadline, "each SIGTERM begins the time anew"
        launcher.signal(signal.SIGTERM)
    assert launcher.wait() == Exit(code=128 + signal.SIGKILL)


def test_stop_timeout_kills_a_command_that_left_its_group(place):
    """Signals to the group reached what had stayed in it, and the command got none: we waited for ever."""
    launcher = place.wrap("trap", "child", "leave", "say:up", "wait", options=["-g", "--stop-timeout", "100ms"])
    launcher.wait_up(role="child")
    launcher.wait_up(role="main")
    assert launcher.stop() == Exit(code=128 + signal.SIGKILL)


@pytest.mark.parametrize("fault", ["EAGAIN:when=1", "ENOSYS"])
def test_wait_that_fails_without_a_timeout_kills_nobody(start_faulty, as_child, fault):
    """EAGAIN of sigtimedwait(2) was taken for the stop timeout, whether there was one or not. Where it is refused for
    good, by a seccomp profile, the command's exit code still comes through."""
    launcher = start_faulty(f"rt_sigtimedwait:error={fault}", "--", as_child.probe, "exit:5")
    assert launcher.wait() == Exit(code=5)


def test_without_stop_timeout_a_deaf_command_is_left_alone(place):
    """tini and dumb-init have no such limit: a drop-in must not bring its own."""
    launcher = place.wrap(*TRAP)
    launcher.wait_up()
    launcher.signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGTERM)
    launcher.quiet_for(0.5, launcher.probe)
    launcher.assert_running()


def test_term_in_the_first_moment_of_pid1_is_kept(as_pid1, needs_static):
    """Pitfall 10: already our first system calls block signals, which PID 1 would lose."""
    launcher = as_pid1.wrap("pause", place=["--term-after", "2"])
    assert launcher.wait() == Exit(code=143)


def test_parent_death_signal(as_child):
    """Pitfalls 21, 22: -p SIG tells us of our parent's death, and the command hears of it."""
    shell = ["-c", '"$@" & exec "$0" trap say:parent wait', as_child.probe, as_child.binary, "-p", "USR1", "--",
             as_child.probe, "n:1", *TRAP]
    launcher = as_child.start(*shell, binary="/bin/sh")
    launcher.wait_up(n=1)
    launcher.wait_for_probe("say", text="parent", n=0)
    launcher.signal(signal.SIGKILL)
    launcher.wait()
    launcher.wait_signal_after_end(signal.SIGUSR1)


def test_own_broken_pipe_is_not_forwarded(place):
    """A write of ours to a reader that is gone raises SIGPIPE for us: the command has nothing to do with it."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    launcher = place.wrap(*TRAP, options=["-vv"], stderr=write_end, place=["--ignore", "13"])  # until it traps
    os.close(write_end)
    launcher.wait_up()
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1)
    launcher.signal(signal.SIGUSR2)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGUSR2


def test_many_signals_in_a_burst(place):
    """Real-time signals queue: a hundred sent are a hundred received, in order of their number."""
    launcher = place.wrap(*TRAP)
    launcher.wait_up()
    for _ in range(50):
        launcher.signal(45)
    for _ in range(50):
        launcher.wait_signal(45)

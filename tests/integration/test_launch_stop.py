"""Launch mode: signals, and the ordered stop, which always ends."""

import os
import resource
import select
import signal
import time

import pytest

from harness.process import FORWARDABLE, ORDERED_STOP, Exit, eventually, signal_mask

UP = ("trap", "say:up", "until:15")
DEAF = ("trap", "say:up", "wait")  # hears all, ends by none
# SIGPWR asks PID 1 to stop.
KEPT = {signal.SIGPWR, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP}


@pytest.mark.parametrize("group", [False, True], ids=["processes", "groups"])
def test_every_forwardable_signal_reaches_all_processes(place, group):
    """Pitfalls 1, 18: real-time signals too; those that mean something to ourselves excepted."""
    launcher = place.launch(place.configuration("trap", "child", "say:up", "wait"), "--server-count", "2",
                            *(["--kill-group"] if group else []))
    for number in (1, 2):
        launcher.wait_up(n=number, role="main")
        launcher.wait_up(n=number, role="child")
    for number in sorted(set(FORWARDABLE) - KEPT):
        launcher.signal(number)
        for process in (1, 2):
            launcher.wait_signal(number, n=process, role="main")
            if group:
                launcher.wait_signal(number, n=process, role="child")
    launcher.probe.drain()
    assert not [line for line in launcher.probe.pending if line["probe"] == "signal"]
    assert not launcher.events_named("process-exited")


def test_own_limit_of_processor_time_is_not_forwarded(as_child):
    """The kernel's SIGXCPU speaks of our time; forwarded, its default action ended every process."""
    configuration = as_child.configuration(*DEAF)
    launcher = as_child.launch(configuration)
    launcher.wait_up()
    _, hard = resource.prlimit(launcher.pid, resource.RLIMIT_CPU)
    resource.prlimit(launcher.pid, resource.RLIMIT_CPU, (1, hard))
    bad = 0
    while launcher.cpu_seconds() < 1.2:
        bad += 1  # an error in another place each time, since the same one is told once
        configuration.write_text('{"version": "1.0.0", "arguments": [' + '{"value": "x"}, ' * (50_000 + bad) + "0]}")
        launcher.wait_for_event("configuration-rejected")
    launcher.signal(signal.SIGUSR1)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGUSR1


def test_forwarded_signal_is_told(place):
    launcher = place.launch(place.configuration(*UP), "--log-level", "debug")
    launcher.wait_up()
    launcher.signal(signal.SIGUSR1)
    assert launcher.wait_for_event("signal-forwarded", signal=10)["level"] == "debug"


def test_rewrite(place):
    launcher = place.launch(place.configuration(*DEAF), "--rewrite", "USR1:USR2", "--rewrite", "RTMIN+5:0")
    launcher.wait_up()
    launcher.signal(39)
    launcher.signal(signal.SIGUSR1)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGUSR2


def test_rewrite_to_a_stop_signal_stops(place):
    launcher = place.launch(place.configuration(*UP), "--rewrite", "RTMIN+3:TERM")
    launcher.wait_up()
    launcher.signal(37)
    assert launcher.wait() == Exit(code=0)


@pytest.mark.parametrize("number", ORDERED_STOP)
def test_ordered_stop(place, number):
    launcher = place.launch(place.configuration(*UP), "--server-count", "5", "--log-level", "debug")
    for process in range(1, 6):
        launcher.wait_up(n=process)
    launcher.signal(number)
    assert launcher.wait() == Exit(code=0)
    assert launcher.events_named("stop-requested", signal=int(number))
    assert {record["process"] for record in launcher.events_named("process-stopping", signal=15)} == {1, 2, 3, 4, 5}
    exits = launcher.events_named("process-exited", exit_code=0)
    assert {record["process"] for record in exits} == {1, 2, 3, 4, 5}
    assert not any("restart_in_seconds" in record for record in exits)
    assert launcher.events.all[-1]["event"] == "launcher-stopped" and launcher.events.all[-1]["exit_code"] == 0
    assert not launcher.events_named("process-killed")


def test_stop_waits_for_slow_processes(place):
    """The shipped launcher leaves at once: a container's end then is their SIGKILL."""
    launcher = place.launch(place.configuration("trap", "say:up", "until:15", "sleep:300", "say:flushed"))
    launcher.wait_up()
    launcher.stop()
    assert launcher.probe.take(lambda line: line.get("text") == "flushed")


@pytest.mark.parametrize("name, number", [("INT", 2), ("SIGQUIT", 3), ("RTMIN+3", 37), ("64", 64)])
def test_stop_signal(place, name, number):
    """Pitfall 18: images that expect another signal."""
    launcher = place.launch(place.configuration("trap", "say:up", f"until:{number}"), "--stop-signal", name,
                            "--log-level", "debug")
    launcher.wait_up()
    launcher.signal(signal.SIGTERM)
    launcher.wait_signal(number)
    assert launcher.wait() == Exit(code=0)
    assert launcher.events_named("process-stopping", signal=number)


def test_deaf_processes_are_killed_after_the_timeout(place):
    """Pitfall 12."""
    launcher = place.launch(place.configuration("ignore:15", "say:up", "pause"), "--server-count", "3",
                            "--stop-timeout", "200ms")
    for process in (1, 2, 3):
        launcher.wait_up(n=process)
    began = time.monotonic()
    assert launcher.stop() == Exit(code=0)
    assert 0.2 <= time.monotonic() - began < 10
    assert {record["process"] for record in launcher.events_named("process-killed")} == {1, 2, 3}
    assert len(launcher.events_named("process-exited", signal=9)) == 3


def test_stopped_process_gets_the_stop_signal(place):
    """A process in SIGSTOP sees SIGTERM only when it is continued."""
    launcher = place.launch(place.configuration("say:up", "pause"), "--stop-timeout", "1h", "--stop-limit", "1h")
    line = launcher.wait_up()
    launcher.signal_inside(line["pid"], signal.SIGSTOP)
    assert launcher.stop() == Exit(code=0)
    assert launcher.events_named("process-exited", signal=15)


@pytest.mark.parametrize("second", ORDERED_STOP)
def test_second_signal_kills_at_once(place, second):
    launcher = place.launch(place.configuration(*DEAF), "--server-count", "2", "--stop-timeout", "1h", "--stop-limit",
                            "1h")
    launcher.wait_up(n=1)
    launcher.wait_up(n=2)
    launcher.signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGTERM, n=1)
    launcher.wait_signal(signal.SIGTERM, n=2)
    launcher.hurry(lambda: launcher.signal(second))
    assert launcher.wait() == Exit(code=0)
    assert len(launcher.events_named("process-exited", signal=9)) == 2
    assert len(launcher.events_named("stop-requested")) >= 2


# A second SIGTERM that comes before the first was read is the same signal to the kernel.
@pytest.mark.parametrize("second", sorted(set(ORDERED_STOP) - {signal.SIGTERM}))
def test_two_signals_at_a_time_are_one_request(place, second):
    """timeout(1), npx and foreman signal their child and its process group. Whoever saves its data needs the time."""
    launcher = place.launch(place.configuration("trap", "say:up", "wait"), "--stop-timeout", "1h", "--stop-limit", "1h",
                            "--log-level", "debug")
    pid = launcher.wait_up()["pid"]
    launcher.signal(signal.SIGTERM)
    launcher.signal(second)
    launcher.wait_for_event("stop-requested")
    launcher.wait_for_event("stop-repeated")
    launcher.wait_signal(signal.SIGTERM)
    launcher.assert_running()
    launcher.signal_inside(pid, signal.SIGKILL)
    assert launcher.wait() == Exit(code=0)
    assert len(launcher.events_named("stop-requested")) == 1
    assert not launcher.events_named("process-killed")


@pytest.mark.parametrize("option", ["--kill-group", "-g"])
def test_stop_signal_to_the_whole_group(place, option):
    launcher = place.launch(place.configuration("trap", "child", "say:up", "wait"), option, "--stop-timeout", "1h",
                            "--stop-limit", "1h")
    launcher.wait_up(role="child")
    launcher.wait_up(role="main")
    launcher.signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGTERM, role="child")
    launcher.wait_signal(signal.SIGTERM, role="main")


def test_kill_reaches_the_whole_group(place):
    """What a killed process leaves in its group goes with it, asked or not."""
    launcher = place.launch(place.configuration("ignore:15", "child", "say:up", "pause"), "--stop-timeout", "100ms")
    child = launcher.wait_up(role="child")
    launcher.wait_up(role="main")
    launcher.stop()
    if not launcher.pid1:
        eventually(lambda: not launcher.is_alive(child["pid"]), "the group is gone")


def test_process_that_left_its_group_is_killed(place):
    """SIGKILL reached what had stayed in the group, which was taken for the process: that one lived on."""
    launcher = place.launch(place.configuration("trap", "child", "leave", "say:up", "wait"), "--stop-timeout", "100ms")
    launcher.wait_up(role="child")
    line = launcher.wait_up(role="main")
    assert launcher.stop() == Exit(code=0)
    assert launcher.events_named("process-exited", pid=line["pid"], signal=9)
    assert not launcher.events_named("process-left")


def test_processes_in_uninterruptible_state_do_not_keep_us(place):
    """Pitfall 12: even SIGKILL may not end a process soon; the whole stop is bounded all the same."""
    launcher = place.launch(place.configuration("trace", "trap", "say:up", "wait"), "--stop-timeout", "100ms",
                            "--stop-limit", "600ms")
    launcher.wait_for_probe("say", text="traced")
    launcher.wait_up(role="main")
    began = time.monotonic()
    launcher.signal(signal.SIGTERM)
    launcher.wait(timeout=15)
    assert 0.1 < time.monotonic() - began < 10
    assert launcher.exit.code is not None


def test_dead_but_traced_process_makes_nobody_turn(place):
    """A process whose end only its tracer can collect: we wait, and use no processor meanwhile."""
    launcher = place.launch(place.configuration("trace", *DEAF))
    launcher.wait_for_probe("say", text="traced")
    line = launcher.wait_started(role="main")
    tracer = launcher.wait_up(role="tracer")
    launcher.signal_inside(line["pid"], signal.SIGKILL)
    eventually(lambda: line["pid"] in launcher.zombies(), "the process is dead")
    before = launcher.switches()
    launcher.quiet_for(0.5)
    assert launcher.switches() - before < 20
    launcher.signal_inside(tracer["pid"], signal.SIGKILL)
    launcher.wait_for_event("process-exited", signal=9)


def test_stop_ends_a_backoff(place):
    """Pitfall 11: stop wins over a pending restart."""
    launcher = place.launch(place.configuration("exit:1"), "--restart-delay", "1h", "--restart-max-delay", "1h")
    launcher.wait_for_event("process-exited", restart_in_seconds=lambda delay: delay > 1000)
    launcher.signal(signal.SIGTERM)
    assert launcher.wait() == Exit(code=0)
    assert len(launcher.events_named("process-started")) == 2


def test_nothing_starts_after_the_stop(place):
    """Pitfall 11: restarts by the hundred when the stop comes."""
    launcher = place.launch(place.configuration("exit:1"), "--server-count", "20", "--restart-delay", "1ms",
                            "--restart-max-delay", "2ms")
    for _ in range(60):
        launcher.wait_for_event("process-exited")
    assert launcher.stop() == Exit(code=0)
    events = [record["event"] for record in launcher.events.all]
    after = launcher.events.all[events.index("stop-requested"):]
    # What was on its way when the stop came is told when it has executed, or with its end.
    started = [record["process"] for record in after if record["event"] == "process-started"]
    assert len(started) == len(set(started)), "none of them starts once more"


def test_stop_before_the_first_configuration(place):
    """Pitfall 10. Nothing has ever run, so the container has not done its work."""
    launcher = place.launch(place.configuration())
    launcher.wait_for_event("waiting-for-configuration")
    assert launcher.stop() == Exit(code=128 + signal.SIGTERM)


def test_new_configuration_during_the_stop_starts_nothing(place):
    """Pitfall 11."""
    configuration = place.configuration(*DEAF)
    launcher = place.launch(configuration, "--stop-timeout", "400ms")
    launcher.wait_up()
    launcher.signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGTERM)
    configuration.write(*DEAF, count=5)
    assert launcher.wait() == Exit(code=0)
    assert len(launcher.events_named("process-started")) == 1


@pytest.mark.parametrize("microseconds", [0, 200, 500, 1000, 1500, 2000, 3000, 4000, 6000, 10000])
def test_term_at_start_always_ends_us(as_child, microseconds):
    """Pitfall 10: whatever we are doing when it comes."""
    configuration = as_child.configuration("pause")
    for _ in range(5):
        launcher = as_child.launch(configuration, "--server-count", "3")
        select.select([], [], [], microseconds / 1e6)
        launcher.signal(signal.SIGTERM)
        assert launcher.wait() in (Exit(code=0), Exit(signal=signal.SIGTERM))


def test_term_as_soon_as_pid1_can_hear_it(as_pid1):
    """Pitfalls 1, 10."""
    configuration = as_pid1.configuration("pause")
    for _ in range(20):
        launcher = as_pid1.launch(configuration, "--server-count", "3")
        eventually(lambda: signal.SIGTERM in signal_mask(launcher.status(), "SigBlk"), "PID 1 holds SIGTERM")
        launcher.signal(signal.SIGTERM)
        assert launcher.wait() == Exit(code=0)


def test_term_in_the_first_moment_of_pid1_is_kept(as_pid1, needs_static):
    """PID 1 loses what comes before it blocks signals, which it did only when libc had started: `docker stop` right
    after a start waited for its SIGKILL."""
    launcher = as_pid1.launch(as_pid1.configuration("pause"), place=["--term-after", "2"])
    assert launcher.wait() == Exit(code=0)


def test_pid1_ends_what_remains_in_the_namespace(as_pid1):
    """Daemons that escaped their process are told, then killed; only then do we end."""
    launcher = as_pid1.launch(as_pid1.configuration("trap", "escape", "say:up", "until:15"), "--stop-timeout", "2s")
    launcher.wait_up(role="main")
    launcher.wait_up(role="escaped")
    assert launcher.stop() == Exit(code=0)
    signals = [line for line in launcher.probe.all if line["probe"] == "signal" and line["role"] == "escaped"]
    assert signal.SIGTERM in [line["signal"] for line in signals]


def test_pid1_waits_no_longer_than_needed_for_what_remains(as_pid1):
    launcher = as_pid1.launch(as_pid1.configuration(*UP), "--stop-timeout", "1h", "--stop-limit", "1h")
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_ordinary_process_ends_nothing_but_its_own(as_child):
    """kill(-1) is for PID 1 alone: a daemon that escaped outlives us, and so does a stranger."""
    launcher = as_child.launch(as_child.configuration("trap", "escape", "say:up", "until:15"))
    launcher.wait_up(role="main")
    escaped = launcher.wait_up(role="escaped")
    assert launcher.stop() == Exit(code=0)
    assert launcher.is_alive(escaped["pid"])
    launcher.probe.drain()
    assert not [line for line in launcher.probe.all if line["probe"] == "signal" and line["role"] == "escaped"]


def test_killed_launcher_takes_its_processes_along(as_pid1):
    """Pitfall 22: PID 1's end is everybody's."""
    launcher = as_pid1.launch(as_pid1.configuration(*UP), "--server-count", "3")
    pids = [launcher.wait_up()["pid"] for _ in range(3)]
    launcher.signal(signal.SIGKILL)
    assert launcher.wait() == Exit(signal=signal.SIGKILL)
    assert not any(launcher.proc(pid).exists() for pid in pids)


@pytest.mark.parametrize("options, expected", [([], signal.SIGTERM), (["--orphan-signal", "USR1"], signal.SIGUSR1)])
def test_processes_hear_of_a_killed_launcher(as_child, options, expected):
    """Pitfalls 21, 22: as an ordinary process our end must not orphan them silently."""
    launcher = as_child.launch(as_child.configuration(*DEAF), "--server-count", "2", *options)
    launcher.wait_up(n=1)
    launcher.wait_up(n=2)
    launcher.signal(signal.SIGKILL)
    launcher.wait()
    assert sorted(launcher.wait_signal_after_end(expected)["n"] for _ in range(2)) == [1, 2]


def test_orphan_signal_none(as_child):
    launcher = as_child.launch(as_child.configuration(*DEAF), "--orphan-signal", "none")
    line = launcher.wait_up()
    launcher.signal(signal.SIGKILL)
    launcher.wait()
    launcher.signal_inside(line["pid"], signal.SIGUSR2)
    assert launcher.wait_signal_after_end(signal.SIGUSR2)
    launcher.probe.drain()
    assert not [line for line in launcher.probe.pending if line["probe"] == "signal"]


def test_restarted_processes_live_on(as_child):
    """Pitfall 21: the parent death signal is bound to the thread that forks; a restart must not be its end."""
    launcher = as_child.launch(as_child.configuration(*DEAF), "--restart-delay", "2ms")
    for _ in range(3):
        line = launcher.wait_up()
        launcher.signal_inside(line["pid"], signal.SIGKILL)
    line = launcher.wait_up()
    launcher.quiet_for(0.1, launcher.probe)
    assert launcher.is_alive(line["pid"])


def lose_parent(as_child, name):
    """A launcher with -p whose parent, a shell, has ended."""
    configuration = as_child.configuration(*UP)
    shell = ["-c", '"$@" & exec "$0" trap say:parent wait', as_child.probe, as_child.binary, "-p", name,
             "--input-dir", configuration.directory, "--main-container-version", "1.0.0",
             "--fdbserver-path", as_child.probe, "--log-level", "debug"]
    launcher = as_child.start(*shell, binary="/bin/sh")
    launcher.wait_up(n=1)
    launcher.wait_for_probe("say", text="parent", n=0)
    launcher.signal(signal.SIGKILL)
    launcher.wait()
    return launcher


def event_after_end(launcher, name):
    """An event of the launcher, which outlives the process that the test has started."""
    def told():
        launcher.events.drain()
        return launcher.events_named(name)
    return eventually(told, f"the event {name}")[0]


def test_parent_death_signal(as_child):
    """Pitfall 21: -p TERM makes our parent's end an ordered stop."""
    launcher = lose_parent(as_child, "TERM")
    launcher.wait_signal_after_end(signal.SIGTERM)
    assert event_after_end(launcher, "launcher-stopped")["exit_code"] == 0
    assert not launcher.events_named("setup-warning")


def test_parent_death_signal_that_stops_nothing(as_child):
    """Pitfall 21: any signal will do, SIGHUP as well."""
    launcher = lose_parent(as_child, "HUP")
    event_after_end(launcher, "configuration-unchanged")
    assert not launcher.events_named("stop-requested")


def test_terminal_stop_signal_stops_us_and_continue_continues(as_child):
    """The processes are in groups of their own and go on; our shell expects that we stop."""
    launcher = as_child.launch(as_child.configuration(*DEAF))
    launcher.wait_up()
    launcher.signal(signal.SIGTSTP)
    eventually(lambda: launcher.status()["State"].startswith("T"), "we stop")
    launcher.signal(signal.SIGCONT)
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1)


# --- a machine of systemd-nspawn


MACHINE = {"container": "systemd-nspawn"}


@pytest.mark.parametrize("number", [37, 38], ids=["halt", "power off"])
def test_machine_halts(as_pid1, number):
    """Pitfall 18. Source: systemd's CONTAINER_INTERFACE: SIGRTMIN+3 halts, SIGRTMIN+4 powers off."""
    launcher = as_pid1.launch(as_pid1.configuration(*UP), env=MACHINE)
    launcher.wait_up()
    launcher.signal(number)
    assert launcher.wait() in (Exit(code=0), Exit(signal=signal.SIGINT))
    assert launcher.events_named("process-exited", exit_code=0)


def test_machine_reboots(as_pid1, needs_root):
    """SIGINT; the machine manager learns of it by PID 1's end through SIGHUP. Source: reboot(2), PID namespaces."""
    launcher = as_pid1.launch(as_pid1.configuration(*UP), env=MACHINE)
    assert os.readlink(f"/proc/{launcher.pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
    launcher.wait_up()
    launcher.signal(signal.SIGINT)
    assert launcher.wait() == Exit(signal=signal.SIGHUP)
    assert launcher.events_named("process-exited", exit_code=0)


def test_machine_stops_by_term_without_reboot(as_pid1):
    launcher = as_pid1.launch(as_pid1.configuration(*UP), env=MACHINE)
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("environment", [{}, {"container": "docker"}], ids=["none", "docker"])
def test_elsewhere_those_are_ordinary_signals(place, environment):
    launcher = place.launch(place.configuration(*DEAF), env=environment)
    launcher.wait_up()
    for number in (37, 38):
        launcher.signal(number)
        launcher.wait_signal(number)


def test_not_pid1_is_no_machine(as_child):
    """Inside a machine, but not its PID 1: its signals are not ours to act on."""
    launcher = as_child.launch(as_child.configuration(*DEAF), env=MACHINE)
    launcher.wait_up()
    launcher.signal(37)
    launcher.wait_signal(37)

"""Launch mode: what ends is started again, soon but never in a storm."""

import errno
import os
import signal
import subprocess

import pytest

from harness.process import NO_LEAK_SEARCH, Exit, eventually, has_errno

UP = ("trap", "say:up", "until:15")


def delays(launcher, count, event="process-exited"):
    """The restart delays of the first so many ends of process 1."""
    return [launcher.wait_for_event(event, process=1)["restart_in_seconds"] for _ in range(count)]


def test_backoff_doubles_up_to_its_maximum(place):
    """Pitfall 14: the first restart is at once, then they get rarer."""
    launcher = place.launch(place.configuration("exit:1"), "--restart-delay", "20ms", "--restart-max-delay", "100ms",
                            "--restart-jitter", "0")
    assert delays(launcher, 7) == [0, 0.02, 0.04, 0.08, 0.1, 0.1, 0.1]


def test_backoff_factor(place):
    launcher = place.launch(place.configuration("exit:1"), "--restart-delay", "10ms", "--restart-factor", "3",
                            "--restart-jitter", "0")
    assert delays(launcher, 5) == [0, 0.01, 0.03, 0.09, 0.27]


def test_jitter_spreads_restarts_within_its_share_and_never_over_the_maximum(place):
    launcher = place.launch(place.configuration("exit:1"), "--server-count", "20", "--restart-delay", "100ms",
                            "--restart-factor", "1", "--restart-jitter", "0.5", "--restart-max-delay", "120ms")
    seen = [launcher.wait_for_event("process-exited", restart_in_seconds=lambda delay: delay > 0)["restart_in_seconds"]
            for _ in range(40)]
    assert all(0.05 <= delay <= 0.12 for delay in seen)
    assert len(set(seen)) > 5


def test_delay_is_kept(place):
    launcher = place.launch(place.configuration("exit:1"), "--restart-delay", "200ms", "--restart-jitter", "0")
    times = [launcher.wait_for_event("process-started")["time"] for _ in range(3)]
    seconds = [float(time[17:-1]) for time in times]
    assert (seconds[2] - seconds[1]) % 60 >= 0.199


def test_long_run_forgets_failures(place):
    launcher = place.launch(place.configuration("say:up", "sleep:500", "exit:1"), "--restart-reset-after", "100ms",
                            "--restart-delay", "1h", "--restart-max-delay", "1h")
    assert delays(launcher, 4) == [0, 0, 0, 0]


def test_clean_exit_after_a_while_is_no_failure(place):
    launcher = place.launch(place.configuration("sleep:500", "exit:0"), "--restart-minimum-run", "100ms",
                            "--restart-delay", "1h", "--restart-max-delay", "1h")
    assert delays(launcher, 4) == [0, 0, 0, 0]
    assert launcher.events_named("process-exited")[0]["exit_code"] == 0


def test_clean_exits_cannot_spin(place):
    """Pitfall 14: exit 0 at once is a failure like any other, or a core burns."""
    launcher = place.launch(place.configuration("exit:0"), "--restart-delay", "50ms", "--restart-jitter", "0",
                            "--restart-minimum-run", "20s")
    assert delays(launcher, 4) == [0, 0.05, 0.1, 0.2]


def test_failure_between_clean_runs_is_remembered(place):
    """A clean run is not a failure, but only a long one forgets failures."""
    launcher = place.launch(place.configuration("trap", "say:up", "until:10", "exit:1"), "--restart-delay", "20ms",
                            "--restart-jitter", "0", "--restart-minimum-run", "0s")
    for expected in (0, 0.02, 0.04):
        launcher.signal_inside(launcher.wait_up()["pid"], signal.SIGUSR1)
        assert delays(launcher, 1) == [expected]


@pytest.mark.parametrize("step, fields", [("exit:3", {"exit_code": 3, "signal": None}),
                                          ("exit:127", {"exit_code": 127, "signal": None}),
                                          ("exit:126", {"exit_code": 126, "signal": None}),
                                          ("die:9", {"signal": 9, "exit_code": None}),
                                          ("die:11", {"signal": 11, "exit_code": None}),
                                          ("die:40", {"signal": 40, "exit_code": None})])
def test_end_is_told_as_it_was(place, step, fields):
    """Pitfall 13: a program's own 127 is an exit, not a failure to execute."""
    launcher = place.launch(place.configuration(step))
    pid = launcher.wait_for_event("process-started")["pid"]
    record = launcher.wait_for_event("process-exited", process=1, pid=pid, **fields)
    assert 0 <= record["run_seconds"] < 20
    assert not launcher.events_named("process-start-failed")


def test_other_processes_do_not_notice(place):
    script = place.area / "server"
    script.write_text(f'#!/bin/sh\n[ "$1" = n:1 ] && exit 1\nexec {place.probe} "$@"\n')
    script.chmod(0o755)
    launcher = place.launch(place.configuration(*UP), "--server-count", "3", "--restart-delay", "10ms", program=script)
    launcher.wait_up(n=2)
    launcher.wait_up(n=3)
    delays(launcher, 4)
    assert not launcher.events_named("process-exited", process=2)
    assert not launcher.events_named("process-exited", process=3)


def test_stopped_process_is_no_dead_process(place):
    """SIGCHLD also means "stopped" and "continued"."""
    launcher = place.launch(place.configuration("trap", "say:up", "wait"))
    line = launcher.wait_up()
    launcher.signal_inside(line["pid"], signal.SIGSTOP)
    eventually(lambda: "T" in launcher.proc(line["pid"]).joinpath("stat").read_text().rsplit(")", 1)[1].split()[0],
               "the process stops")
    launcher.signal_inside(line["pid"], signal.SIGCONT)
    launcher.wait_signal(signal.SIGCONT)
    assert not launcher.events_named("process-exited")
    launcher.signal_inside(line["pid"], signal.SIGKILL)
    launcher.wait_for_event("process-exited", signal=9)
    launcher.wait_up()


def test_death_is_the_processes_not_its_pipes(place):
    """Pitfall 5: a daemon of its keeps standard output open; the process's end is seen all the same."""
    launcher = place.launch(place.configuration("trap", "escape", "until:10", "exit:3"))
    launcher.wait_up(role="escaped")
    launcher.signal_inside(launcher.wait_for_event("process-started")["pid"], signal.SIGUSR1)
    launcher.wait_for_event("process-exited", exit_code=3)


def test_ten_thousand_orphans(place):
    """Pitfalls 2, 3: as PID 1 and as subreaper; and no end of an own process is lost among them."""
    launcher = place.launch(place.configuration("orphans:5000", "say:done", "exit:21"), "--server-count", "2",
                            "--restart-delay", "1h", "--restart-max-delay", "1h", "--restart-reset-after", "2h")
    for _ in range(4):  # each is restarted once, at once
        launcher.wait_for_event("process-exited", timeout=60, exit_code=21)
    eventually(lambda: not launcher.zombies(), "all orphans are reaped")
    # the launcher, and the namespace's init when that is another
    eventually(lambda: launcher.process_count() == (1 if launcher.pid1 else 2), "nothing else is left")


def test_reused_pid_is_not_taken_for_the_process_that_had_it(place, needs_root):
    """Pitfalls 4, 6: a stranger with the pid of a dead process: its end is not reported, and no signal reaches it."""
    fifo = place.area / "wanted"
    os.mkfifo(fifo)
    script = place.area / "server"
    script.write_text(f'#!/bin/sh\n[ "$1" = n:1 ] && exit 1\nread pid < {fifo}\n'
                      f'exec {place.probe} "$1" take-exit:$pid:9 take:$pid trap say:up wait\n')
    script.chmod(0o755)
    launcher = place.launch(place.configuration(*UP), "--server-count", "2", "--restart-delay", "1h",
                            "--restart-max-delay", "1h", "--log-level", "debug", program=script)
    launcher.wait_for_event("process-exited", process=1, restart_in_seconds=0)
    dead = launcher.wait_for_event("process-exited", process=1, restart_in_seconds=lambda delay: delay > 0)["pid"]
    fifo.write_text(f"{dead}\n")
    launcher.wait_up(n=2, role="main")
    stranger = launcher.wait_up(role="stranger")
    assert stranger["pid"] == dead
    assert launcher.wait_for_event("orphan-reaped", pid=dead), "the first stranger's end"
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1, n=2, role="main")
    launcher.signal_inside(dead, signal.SIGUSR2)
    assert launcher.wait_for_probe("signal", role="stranger")["signal"] == signal.SIGUSR2
    assert len(launcher.events_named("process-exited", pid=dead)) == 1


# --- what cannot be executed


def vanish(path, _):
    path.unlink()


def forbid(path, _):
    path.chmod(0o644)


def garble(path, _):
    path.unlink()
    path.write_bytes(b"\x7fELF, but not really")
    path.chmod(0o755)


def be_a_directory(path, _):
    path.unlink()
    path.mkdir()


def link_to_itself(path, _):
    path.unlink()
    path.symlink_to(path.name)


def lose_the_interpreter(path, _):
    path.unlink()
    path.write_text("#!/nonexistent\n")
    path.chmod(0o755)


def be_written(path, keep):
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    path.chmod(0o755)
    keep.append(open(path, "ab"))


def lose_the_directory(path, _):
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("a file now")


def too_many_links(path, _):
    path.unlink()
    for number in range(50):
        (path.parent / f"link{number}").symlink_to(f"link{number + 1}")
    path.symlink_to("link0")


@pytest.mark.parametrize("damage, code", [
    (vanish, errno.ENOENT), (forbid, errno.EACCES), (garble, errno.ENOEXEC), (be_a_directory, errno.EACCES),
    (link_to_itself, errno.ELOOP), (lose_the_interpreter, errno.ENOENT), (be_written, errno.ETXTBSY),
    (lose_the_directory, errno.ENOTDIR), (too_many_links, errno.ELOOP)])
def test_failed_execution_is_told_by_stage_and_errno_and_retried(place, damage, code):
    """Pitfalls 13, 14: the binary was good when the configuration was taken, and is not at the restart."""
    binary = place.area / "own" / "server"
    binary.parent.mkdir()
    binary.write_bytes(place.probe.read_bytes())
    binary.chmod(0o755)
    launcher = place.launch(place.configuration(*UP), "--restart-delay", "10ms", "--restart-max-delay", "20ms",
                            "--restart-jitter", "0", program=binary)
    line = launcher.wait_up()
    if damage is be_written and not busy_text_is_refused(place):
        pytest.skip("this kernel executes files that are open for writing")
    kept = []
    damage(binary, kept)
    launcher.signal_inside(line["pid"], signal.SIGKILL)
    launcher.wait_for_event("process-exited", signal=9)
    failed = launcher.wait_for_event("process-start-failed", process=1)
    assert has_errno(failed, code), failed
    assert failed["stage"] and os.strerror(code) in failed["error"]
    assert failed["restart_in_seconds"] <= 0.02
    assert launcher.wait_for_event("process-start-failed", restart_in_seconds=0.02)
    repair(binary, place.probe, kept)
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def busy_text_is_refused(place):
    path = place.area / "busy"
    path.write_bytes(place.probe.read_bytes())
    path.chmod(0o755)
    with open(path, "ab"):
        try:
            subprocess.run([path], check=False)
        except OSError as error:
            return error.errno == errno.ETXTBSY
    return False


def repair(binary, probe, kept):
    for file in kept:
        file.close()
    if binary.parent.is_file():
        binary.parent.unlink()
        binary.parent.mkdir()
    elif binary.is_dir():
        binary.rmdir()
    temporary = binary.with_name("new")
    temporary.write_bytes(probe.read_bytes())
    temporary.chmod(0o755)
    temporary.rename(binary)


def without_interpreter(place):
    """A program that passes every check and that execve does not find."""
    script = place.area / "server"
    script.write_text("#!/nonexistent/interpreter\n")
    script.chmod(0o755)
    return script


def test_start_that_fails_and_is_killed_on_its_way_out(place):
    """Whoever was killed after a failed execve counted as a program that had run; the reason was lost, and the memory
    of all later starts with it."""
    launcher = place.launch(place.configuration(*UP), "--restart-delay", "10ms", program=without_interpreter(place),
                            place=["--deny-exit-127"])
    for _ in range(3):
        assert has_errno(launcher.wait_for_event("process-start-failed"), errno.ENOENT)
    assert launcher.stop() == Exit(code=0)


def test_emulator_that_shares_memory_by_vfork_only(place):
    """qemu's user mode, for images of another architecture, refuses the cheaper clone: nothing could be started."""
    how = {"place": ["--deny-shared-clone"], "env": NO_LEAK_SEARCH}
    launcher = place.launch(place.configuration(*UP), "--server-count", "2", **how)
    launcher.wait_up(n=2)
    launcher.signal_inside(launcher.wait_up(n=1)["pid"], signal.SIGKILL)
    launcher.wait_up(n=1)
    assert launcher.stop() == Exit(code=0)
    failing = place.launch(place.configuration(*UP), program=without_interpreter(place), **how)
    assert has_errno(failing.wait_for_event("process-start-failed"), errno.ENOENT)


def test_arguments_that_the_kernel_refuses(place):
    """E2BIG: more than a quarter of the stack's limit, which only execve knows."""
    big = {"type": "Environment", "source": "BIG"}
    launcher = place.launch(place.configuration(*[big] * 60), "--restart-delay", "10ms", env={"BIG": "x" * 100_000})
    failed = launcher.wait_for_event("process-start-failed")
    assert has_errno(failed, errno.E2BIG)
    launcher.wait_for_event("process-start-failed", restart_in_seconds=lambda delay: delay > 0)
    assert launcher.stop() == Exit(code=0)


def test_fork_that_fails_is_told_and_retried(place, needs_root):
    """EAGAIN from RLIMIT_NPROC, for a user that nobody else is; until another process of that user ends."""
    user = ["--uid", str(1_000_000 + os.getpid())]
    other = place.start("say:other", "pause", binary=place.probe, place=user)
    other.wait_for_probe("say", text="other")
    launcher = place.launch(place.configuration(*UP), "--server-count", "2", "--restart-delay", "20ms",
                            "--restart-max-delay", "50ms", place=[*user, "--processes", "3"])
    failed = launcher.wait_for_event("process-start-failed", process=2)
    assert has_errno(failed, errno.EAGAIN)
    assert failed["stage"] == "clone"
    launcher.wait_for_event("process-start-failed", process=2, restart_in_seconds=lambda delay: delay > 0)
    launcher.wait_up(n=1)
    other.close()
    launcher.wait_up(n=2)
    assert launcher.stop() == Exit(code=0)


def test_storm_of_failures_is_bounded(place):
    """Pitfall 14: a bad binary costs next to nothing, whatever the number of processes."""
    launcher = place.launch(place.configuration("exit:1"), "--server-count", "20", "--restart-delay", "10s",
                            "--restart-jitter", "0")
    for _ in range(40):  # twice each; the third start is ten seconds away
        launcher.wait_for_event("process-exited")
    before = launcher.switches()
    launcher.quiet_for(0.2)
    assert launcher.switches() - before < 10

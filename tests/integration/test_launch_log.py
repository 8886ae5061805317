"""Launch mode: log lines are whole, none is lost without being counted, and no reader or disk stops supervision."""

import fcntl
import json
import os
import re
import signal
import socket
import time

import pytest

from harness.process import Exit, Stream, eventually, wait_readable

UP = ("trap", "say:up", "until:15")
SOON = ("--restart-delay", "1ms", "--restart-max-delay", "1ms")
TEXT_LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (trace|debug|info|warning|error) +\S")


def read_records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def restarts(launcher, count):
    """Waits for so many starts, as the processes themselves tell them; meanwhile it reads the log."""
    for _ in range(count):
        launcher.wait_up()
        if launcher.events:
            launcher.events.drain()


def narrow_pipe():
    """A pipe that holds few lines."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, 4096)
    return read_end, write_end


def test_text_format(place):
    launcher = place.launch(place.configuration(*UP), "--log-format", "text")
    launcher.wait_up()
    launcher.stop()
    lines = [record["text"] for record in launcher.events.all]
    assert lines and all(TEXT_LINE.match(line) for line in lines), lines
    assert any("process 1 started" in line for line in lines)


def test_errors_in_text_format_are_readable(place):
    configuration = place.configuration()
    configuration.write_text('{"version": 1, "runServers": 2}')
    launcher = place.launch(configuration, "--log-format", "text")
    launcher.wait_for_text("version")
    launcher.wait_for_text("runServers")


@pytest.mark.parametrize("level, events", [
    ("off", set()), ("error", set()), ("info", {"process-started", "launcher-started"}),
    ("debug", {"process-started", "signal-forwarded"})])
def test_log_level(place, level, events):
    launcher = place.launch(place.configuration(*UP), "--log-level", level)
    launcher.wait_up()
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1)
    launcher.stop()
    found = {record["event"] for record in launcher.events.all}
    assert events <= found
    assert level == "debug" or "signal-forwarded" not in found
    assert events or not found


def test_odd_names_stay_one_line(place):
    directory = place.area / 'odd "name"\nand \x1b[31m more'
    directory.mkdir()
    launcher = place.start("--input-dir", directory, "--main-container-version", "1.0.0", "--fdbserver-path",
                           place.probe)
    record = launcher.wait_for_event("waiting-for-configuration")
    assert record["path"] == str(directory / "config.json")


def test_childrens_output_is_theirs(place):
    """Pitfall 17: they inherit our descriptor, which may be a pipe or a socket that nobody can open again."""
    ours, theirs = socket.socketpair()
    launcher = place.launch(place.configuration("print:hello from a process", *UP), stdout=theirs.fileno())
    theirs.close()
    launcher.wait_up()
    launcher.stop()
    text = b""
    while data := ours.recv(1 << 16):
        text += data
    ours.close()
    lines = text.decode().splitlines()
    assert "hello from a process" in lines
    assert [json.loads(line)["event"] for line in lines if line.startswith("{")][-1] == "launcher-stopped"


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_closed_standard_output_stops_nothing(place, kind):
    """Pitfall 16; and the SIGPIPE of our own write is not the processes'."""
    if kind == "pipe":
        read_end, write_end = os.pipe()
        os.close(read_end)
    else:
        ours, theirs = socket.socketpair()
        ours.close()
        write_end = os.dup(theirs.fileno())
        theirs.close()
    launcher = place.launch(place.configuration("trap", "say:up", "wait"), "--server-count", "2", *SOON,
                            stdout=write_end)
    os.close(write_end)
    launcher.wait_up(n=2)
    for _ in range(5):
        launcher.signal_inside(launcher.wait_up(n=1)["pid"], signal.SIGKILL)
    launcher.wait_up(n=1)
    launcher.probe.drain()
    assert not [line for line in launcher.probe.all if line["probe"] == "signal"], launcher.story()
    launcher.assert_running()


def test_full_standard_output_stops_nothing_and_is_counted(place):
    """Pitfall 16: a reader that stands still. When it reads again, it is told how many lines it has missed."""
    read_end, write_end = narrow_pipe()
    launcher = place.launch(place.configuration("say:up", "exit:1"), "--server-count", "10", *SOON, stdout=write_end)
    os.close(write_end)
    restarts(launcher, 2500)  # two lines each: more than our buffer holds
    launcher.events = Stream(read_end)
    dropped = launcher.wait_for_event("log-lines-dropped")
    assert dropped["count"] > 0
    assert launcher.wait_for_event("process-started")
    assert all("event" in record for record in launcher.events.all), "no line is broken"
    assert launcher.stop() == Exit(code=0)
    os.close(read_end)


def test_process_that_fills_the_pipe_blocks_only_itself(place):
    """Pitfall 16: the policy is the kernel's: who writes waits, and nobody else."""
    read_end, write_end = os.pipe()
    script = place.area / "server"
    script.write_text(f'#!/bin/sh\n[ "$1" = n:1 ] && exec {place.probe} n:1 say:up flood:10000000\n'
                      f'exec {place.probe} "$@"\n')
    script.chmod(0o755)
    launcher = place.launch(place.configuration("trap", "say:up", "wait"), "--server-count", "2", *SOON, program=script,
                            stdout=write_end)
    os.close(write_end)
    launcher.wait_up(n=1)
    for _ in range(5):
        launcher.signal_inside(launcher.wait_up(n=2)["pid"], signal.SIGKILL)
    launcher.wait_up(n=2)
    os.close(read_end)


def read_after_a_moment(place):
    """The log of a stop that nobody reads for a moment, and how long that was."""
    read_end, write_end = narrow_pipe()
    launcher = place.launch(place.configuration(*UP), "--server-count", "100", stdout=write_end)
    os.close(write_end)
    for number in range(1, 101):
        launcher.wait_up(n=number)
    launcher.signal(signal.SIGTERM)
    began = 0

    def all_have_heard():
        nonlocal began
        now = time.monotonic()
        launcher.probe.drain()
        if sum(line["probe"] == "signal" for line in launcher.probe.all) == 100:
            return True
        began = now
        return False
    eventually(all_have_heard, "each of them ends")
    wait_readable([launcher.pidfd], time.monotonic() + 0.1)  # that moment
    launcher.events = Stream(read_end)
    eventually(lambda: launcher.events.drain() or launcher.events.ended or launcher.events_named("launcher-stopped"),
               "the end of the log")
    seconds = time.monotonic() - began
    assert launcher.wait() == Exit(code=0)
    os.close(read_end)
    return launcher.events.all, seconds


def test_slow_reader_gets_the_last_lines_too(place):
    """The end of a container is what one reads its log for: a living reader gets it, even if it takes a moment. It has
    half a second: where the machine makes more of it, that shows nothing."""
    for _ in range(10):
        records, seconds = read_after_a_moment(place)
        if seconds < 0.5:
            break
    else:
        pytest.skip("this machine is too busy to read within half a second")
    assert [record["event"] for record in records].count("process-exited") == 100
    assert records[-1]["event"] == "launcher-stopped"


def test_reader_that_never_reads_does_not_keep_us(place):
    """Pitfalls 12, 16: the wait for it is bounded."""
    read_end, write_end = narrow_pipe()
    launcher = place.launch(place.configuration(*UP), "--server-count", "100", stdout=write_end)
    os.close(write_end)
    for number in range(1, 101):
        launcher.wait_up(n=number)
    began = time.monotonic()
    assert launcher.stop() == Exit(code=0)
    assert time.monotonic() - began < 10
    os.close(read_end)


# --- the log file


def test_log_file_has_what_standard_output_has(place):
    path = place.area / "log"
    launcher = place.launch(place.configuration(*UP), "--server-count", "20", "--log-path", path)
    for number in range(1, 21):
        launcher.wait_up(n=number)
    assert launcher.stop() == Exit(code=0)
    assert read_records(path) == launcher.events.all


def test_log_file_is_appended_to(place):
    path = place.area / "log"
    path.write_text('{"event": "earlier"}\n')
    launcher = place.launch(place.configuration(*UP), "--log-path", path)
    launcher.wait_up()
    launcher.stop()
    assert [record["event"] for record in read_records(path)][:2] == ["earlier", "launcher-started"]


def rotate(launcher, path, number):
    path.rename(path.with_name(f"log.{number}"))


def rotate_and_hang_up(launcher, path, number):
    rotate(launcher, path, number)
    launcher.signal(signal.SIGHUP)
    launcher.wait_for_event("log-reopened")


@pytest.mark.parametrize("how", [rotate, rotate_and_hang_up])
def test_rotation_loses_no_line(place, how):
    path = place.area / "log"
    launcher = place.launch(place.configuration("trap", "say:up", "wait"), "--log-path", path, *SOON)
    for number in range(5):
        launcher.signal_inside(launcher.wait_up()["pid"], signal.SIGKILL)
        launcher.wait_for_event("process-exited")
        how(launcher, path, number)
    launcher.signal_inside(launcher.wait_up()["pid"], signal.SIGKILL)
    launcher.wait_for_event("process-exited")
    launcher.wait_up()
    launcher.signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGTERM)
    launcher.hurry()
    launcher.wait()
    files = [path.with_name(f"log.{number}") for number in range(5)] + [path]
    records = [record for file in files for record in read_records(file)]
    assert [record["message"] for record in records] == [record["message"] for record in launcher.events.all]
    assert all(file.stat().st_size for file in files)


def test_the_log_file_is_renamed_at_its_size(place):
    path = place.area / "log"
    launcher = place.launch(place.configuration("say:up", "exit:1"), "--log-path", path, "--log-max-size", "4k", *SOON)
    eventually(lambda: path.with_name("log.2").exists(), "it was renamed twice")
    launcher.signal(signal.SIGTERM)
    launcher.wait()
    files = [path.with_name("log.2"), path.with_name("log.1"), path]
    assert sorted(place.area.glob("log*")) == sorted(files)
    assert all(0 < file.stat().st_size <= 4000 for file in files)
    kept = [record["message"] for file in files for record in read_records(file)]
    assert kept == [record["message"] for record in launcher.events.all][-len(kept):], "no line is lost or out of order"


def test_a_log_file_that_cannot_be_renamed_grows(place):
    path = place.area / "log"
    (place.area / "log.2").mkdir()
    launcher = place.launch(place.configuration("say:up", "exit:1"), "--log-path", path, "--log-max-size", "4k", *SOON)
    failed = launcher.wait_for_event("log-rotation-failed")
    assert failed["message"] == f"cannot rename the log file {path}.1: Is a directory"
    eventually(lambda: path.stat().st_size > 6000, "it grows")
    launcher.assert_running()


def test_two_who_log_to_one_file_rename_it_once(place):
    """As the main container and the sidecar of a pod."""
    path = place.area / "log"
    options = ("--log-path", path, "--log-max-size", "16k", "--restart-delay", "1ms", "--restart-max-delay", "1ms")
    launchers = [place.launch(place.configuration(f"tag:{name}", "exit:1"), *options) for name in "ab"]
    eventually(lambda: path.with_name("log.2").exists(), "it was renamed twice")
    for launcher in launchers:
        launcher.signal(signal.SIGTERM)
        launcher.wait()
    # Whoever writes between the look and the rename of the other one goes on in the renamed file.
    assert path.with_name("log.1").stat().st_size > 12000
    assert path.with_name("log.2").stat().st_size > 12000


def test_removed_log_file_is_made_again(place):
    path = place.area / "log"
    launcher = place.launch(place.configuration("trap", "say:up", "wait"), "--log-path", path, *SOON)
    line = launcher.wait_up()
    launcher.wait_for_event("process-started")
    path.unlink()
    launcher.signal_inside(line["pid"], signal.SIGKILL)
    launcher.wait_for_event("process-started")
    eventually(lambda: path.exists() and "process-exited" in path.read_text(), "the file is back")


def test_log_directory_that_comes_later(place):
    """A file that cannot be opened is told, and its lines wait for it."""
    path = place.area / "later" / "log"
    launcher = place.launch(place.configuration("trap", "say:up", "wait"), "--log-path", path, *SOON)
    line = launcher.wait_up()
    launcher.wait_for_event("process-started")
    path.parent.mkdir()
    launcher.signal_inside(line["pid"], signal.SIGKILL)
    launcher.wait_for_event("process-started")
    eventually(lambda: path.exists() and all(event in path.read_text() for event in (
        '"launcher-started"', '"process-exited"')), "the file has all lines")


def test_full_disk_stops_nothing(place):
    """Standard output loses nothing meanwhile, and the file goes on when there is room."""
    disk = place.area / "disk"
    disk.mkdir()
    launcher = place.launch(place.configuration("say:up", "exit:1"), "--log-path", disk / "log", *SOON,
                            place=["--tmpfs", f"{disk}:size=32k"])
    inside = launcher.namespace_root / str(disk)[1:]
    restarts(launcher, 500)
    assert (inside / "log").stat().st_size <= 32768
    for _ in range(500):
        launcher.wait_for_event("process-exited")
    assert not launcher.events_named("log-lines-dropped")
    (inside / "log").rename(inside / "log.1")
    os.truncate(inside / "log.1", 0)
    restarts(launcher, 20)
    eventually(lambda: (inside / "log").exists() and (inside / "log").stat().st_size > 0, "the file grows again")


def test_file_size_limit_stops_nothing(place):
    """The SIGXFSZ of our own write is not the processes', and no reason to write again at once, for ever."""
    path = place.area / "log"
    launcher = place.launch(place.configuration("trap", "say:up", "wait"), "--server-count", "2", "--log-path", path,
                            *SOON, place=["--file-size", "4096"])
    launcher.wait_up(n=2)
    for _ in range(20):
        launcher.signal_inside(launcher.wait_up(n=1)["pid"], signal.SIGKILL)
    launcher.wait_up(n=1)
    assert path.stat().st_size <= 4096
    launcher.probe.drain()
    assert not [line for line in launcher.probe.all if line["probe"] == "signal"]
    launcher.quiet_for(0.3, launcher.probe)
    before = launcher.cpu_seconds()
    launcher.quiet_for(0.3, launcher.probe)
    assert launcher.cpu_seconds() - before < 0.1, "it turns"


def test_read_only_log_directory_is_told(place, needs_root):
    launcher = place.launch(place.configuration(*UP), "--log-path", "/read-only.log", place=["--read-only"])
    launcher.wait_up()
    assert "/read-only.log" in launcher.wait_for_event("log-open-failed")["message"]
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("target", ["/dev/full", "/dev/stdout", "/proc/self/fd/1", "/"])
def test_odd_log_files(place, target):
    """Pitfall 17: what cannot be opened or written like a file is told or works, but ends nothing."""
    launcher = place.launch(place.configuration("say:up", "sleep:20", "exit:1"), "--log-path", target, *SOON)
    restarts(launcher, 5)
    assert launcher.stop() == Exit(code=0)


def test_fifo_as_log_file_without_a_reader_does_not_hang(place):
    path = place.area / "fifo"
    os.mkfifo(path)
    launcher = place.launch(place.configuration(*UP), "--log-path", path)
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_standard_error_is_empty(place):
    """Events go to standard output; nothing is written twice."""
    launcher = place.launch(place.configuration(*UP))
    launcher.wait_up()
    launcher.stop()
    assert launcher.errors() == ""

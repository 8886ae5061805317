"""Output that goes to another program: by a pipe that outlives both, with nothing lost on the way."""

import os

from harness.process import Exit, eventually, run_plainly
from harness.programs import RESTART_AT_ONCE, run, service


def logger(path, **keys):
    """Appends each line to a file, and ends with its input."""
    script = 'while read -r line; do echo "$line" >>"$0"; done; echo end >>"$0"'
    return {"command": ["sh", "-c", script, str(path)], **keys}


def counting(count, then="exec sleep 1000"):
    """Writes so many lines, on both streams in turns."""
    script = f'i=0; while [ $i -lt {count} ]; do i=$((i+1)); echo out $i; echo err $i >&2; done; {then}'
    return {"command": ["sh", "-c", script]}


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def expected(count):
    return [f"{stream} {number}" for number in range(1, count + 1) for stream in ("out", "err")]


def test_lines_arrive_and_the_end_is_waited_for(place):
    """The writer stops first; then the reader finds the end of its input, and is given time to see it."""
    path = place.area / "log"
    launcher = run(place, {"web": {**counting(300), "output": {"to": "logger"}}, "logger": logger(path)})
    eventually(lambda: lines(path) == expected(300), "all lines are there")
    assert launcher.stop() == Exit(code=0)
    assert lines(path)[-1] == "end"
    order = [record["program"] for record in launcher.events_named("process-exited")]
    assert order == ["web", "logger"]


def test_what_was_written_last_is_read(place):
    """A container whose program ends right after its last line."""
    path = place.area / "log"
    launcher = run(place, {"web": {**counting(2000, then="exit 3"), "output": {"to": "logger"}, "restart": "never", "critical": True},
                           "logger": logger(path)})
    assert launcher.wait() == Exit(code=3)
    assert lines(path) == [*expected(2000), "end"]


def test_the_pipe_outlives_the_reader(place):
    path = place.area / "log"
    launcher = run(place, {"web": {**counting(1), "output": {"to": "logger"}},
                           "slow": service("slow", output={"to": "logger", "stderr": "inherit"}),
                           "logger": logger(path, restart="always", backoff=RESTART_AT_ONCE)})
    eventually(lambda: lines(path)[:2] == expected(1), "the first lines are there")
    launcher.ctl("stop", "logger", "--force")
    web = launcher.events_named("process-started", program="web")[0]["pid"]
    before = len(lines(path))
    launcher.ctl("restart", "web")  # writes while nobody reads
    launcher.wait_for_event("process-exited", program="web", pid=web)
    assert len(lines(path)) == before
    launcher.ctl("start", "logger")
    eventually(lambda: lines(path)[before:] == expected(1), "what was written meanwhile is there")
    assert launcher.stop() == Exit(code=0)


def test_the_pipe_outlives_the_launcher(place):
    path = place.area / "log"
    script = "while :; do if read -r line; then echo $line; fi <$0; done"
    fifo = place.area / "fifo"
    os.mkfifo(fifo, 0o600)
    launcher = run(place, {"web": {"command": ["sh", "-c", script, str(fifo)], "output": {"to": "logger"}}, "logger": logger(path)})
    fifo.write_text("one\n")
    eventually(lambda: lines(path) == ["one"], "the first line is there")
    launcher.ctl("upgrade", place.binary)
    fifo.write_text("two\n")
    eventually(lambda: lines(path) == ["one", "two"], "the second line is there")
    launcher.ctl("restart", "logger")
    fifo.write_text("three\n")
    eventually(lambda: lines(path)[-1:] == ["three"], "a reader that the new launcher has started reads")
    assert launcher.stop() == Exit(code=0)


def test_it_is_not_captured(place):
    path = place.area / "log"
    launcher = run(place, {"web": {**counting(1), "output": {"to": "logger"}}, "logger": logger(path)})
    eventually(lambda: lines(path) == expected(1), "the lines are there")
    assert "to logger" in launcher.ctl("describe", "web")
    assert run_plainly("ctl", "--socket", launcher.control, "logs", "web").returncode == 1
    assert launcher.stop() == Exit(code=0)


def test_writers_do_not_wait_for_a_reader_that_has_gone(place):
    """A new configuration has another output for them and no reader any more; they go on as they were started."""
    path = place.area / "log"
    script = 'while [ ! -e "$0" ]; do read -t 0.02 x <>"$0.fifo"; done; dd if=/dev/zero bs=65536 count=8; echo done >"$0.done"; exec sleep 1000'
    go = place.area / "go"
    os.mkfifo(f"{go}.fifo")
    web = {"command": ["bash", "-c", script, str(go)]}
    launcher = run(place, {"web": {**web, "output": {"to": "logger"}}, "logger": logger(path)})
    launcher.wait_for_event("process-started", program="web")
    launcher.replace({"web": {**web, "output": "null"}})
    launcher.wait_for_event("process-exited", program="logger")
    assert "until they are restarted" in launcher.wait_for_event("output-failed", program="logger")["error"]
    launcher.ctl("upgrade", place.binary)
    go.touch()
    eventually((place.area / "go.done").exists, "the writer has written more than a pipe holds")
    assert launcher.stop() == Exit(code=0)


def test_a_reader_that_reads_no_longer(place):
    """It stays as a program, but nobody writes to it by the new configuration."""
    launcher = run(place, {"web": service("web", output={"to": "reader"}), "reader": service("reader")})
    launcher.wait_up(tag="web")
    launcher.replace({"web": service("web"), "reader": service("reader")})
    launcher.wait_for_event("configuration-loaded")
    launcher.ctl("restart", "reader")
    launcher.wait_for_event("output-failed", program="reader")
    launcher.ctl("restart", "web")
    launcher.replace({"web": service("web", output={"to": "reader"}), "reader": service("reader")})
    launcher.ctl("restart", "web")
    assert launcher.stop() == Exit(code=0)


def test_the_end_of_another_process_takes_nothing_from_the_reader(place):
    """By a new configuration the reader is none any more, and has a second process; both go on as they were started."""
    path, go = place.area / "log", place.area / "go"
    os.mkfifo(f"{go}.fifo")
    script = 'while [ ! -e "$0" ]; do read -t 0.02 x <>"$0.fifo"; done; echo late; exec sleep 1000'
    web = {"command": ["bash", "-c", script, str(go)]}
    launcher = run(place, {"web": {**web, "output": {"to": "logger"}}, "logger": logger(path)})
    launcher.wait_for_event("process-started", program="web")
    launcher.replace({"web": {**web, "output": "null"}, "logger": {**logger(path), "count": 2}})
    launcher.wait_for_event("process-exited", program="logger", process=2)  # it has no input
    go.touch()
    eventually(lambda: "late" in lines(path), "the first one reads on")
    assert launcher.stop() == Exit(code=0)

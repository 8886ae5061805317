"""Programs: where their output goes, and that nothing of it is lost."""

import fcntl
import json
import os
import signal
from pathlib import Path

import pytest

from harness.process import Exit, eventually
from harness.programs import RESTART_AT_ONCE, USR1, order_of, probe, run, service


def test_prefix(place):
    number = {"type": "Concatenate", "values": ["print:hello ", {"type": "ProcessNumber"}]}
    launcher = run(place, {"web": probe(number, "print-error:oh", "pause", count=2, output={}),
                           "db": probe("print:one", "pause", output={"format": "prefix"})}, stderr=None)
    lines = sorted(launcher.wait_for_text("hello") for _ in range(2))
    assert lines[0].endswith("hello 1") and lines[1].endswith("hello 2")
    assert "web:1" in lines[0] or "web" in lines[0]
    assert "db" in launcher.wait_for_text("one")
    eventually(lambda: launcher.errors().count("oh") == 2, "standard error goes to standard error")
    assert "web" in launcher.errors()
    assert launcher.stop() == Exit(code=0)


def test_json(place):
    launcher = run(place, {"web": probe('print:say "hi" \\ there', "print-error:oh", "pause",
                                        output={"format": "json"})})
    line = launcher.wait_for(launcher.events, {"message": 'say "hi" \\ there'})
    assert (line["program"], line["process"], line["stream"]) == ("web", 1, "stdout")
    assert line["time"].endswith("Z")
    eventually(lambda: '"stream": "stderr"' in launcher.errors() or '"stream":"stderr"' in launcher.errors(), "stderr")
    assert launcher.stop() == Exit(code=0)


def test_inherit_and_null(place):
    launcher = run(place, {"loud": probe("print:plainly", "pause", output="inherit"),
                           "quiet": probe("print:unheard", "print-error:unheard", "say:up", "pause", output="null")})
    assert launcher.wait_for_text("plainly") == "plainly"
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)
    assert not [line for line in launcher.events.all if "unheard" in line.get("text", "")]
    assert "unheard" not in launcher.errors()


def test_a_raw_file(place):
    file = place.area / "log"
    launcher = run(place, {"web": probe("print:one", "print-error:two", "print:three", "say:up", "pause",
                                        output={"file": str(file)})})
    launcher.wait_up()
    eventually(lambda: file.read_text() == "one\ntwo\nthree\n", "both streams in their order")
    assert launcher.stop() == Exit(code=0)


def test_a_file_in_another_format(place):
    file = place.area / "log"
    launcher = run(place, {"web": probe("print:one", "pause", output={"file": str(file), "format": "prefix"})})
    eventually(lambda: file.exists() and file.read_text().endswith("one\n"), "the line")
    assert "web" in file.read_text() and file.read_text() != "one\n"
    assert launcher.stop() == Exit(code=0)


def test_rotation(place):
    file = place.area / "log"
    launcher = run(place, {"web": probe("flood:100000", "say:up", "pause",
                                        output={"file": str(file), "maxSize": "10000", "maxFiles": 3})})
    launcher.wait_up()
    kept = [place.area / name for name in ("log", "log.1", "log.2", "log.3")]
    eventually(lambda: all(path.exists() for path in kept), "rotated files")
    assert launcher.stop() == Exit(code=0)
    assert not (place.area / "log.4").exists()
    for path in kept[1:]:
        assert path.stat().st_size <= 10000 + 4096
        assert set(path.read_bytes()) <= set(b"x\n") and path.read_bytes().endswith(b"\n")


def test_sighup_opens_files_again(place):
    file = place.area / "log"
    launcher = run(place, {"web": probe("trap", "print:one", "say:up", f"until:{USR1}", "print:two", f"until:{USR1}",
                                        "print:three", "until:15", output={"file": str(file)})})
    pid = launcher.wait_up()["pid"]
    eventually(lambda: file.read_text() == "one\n", "one")
    moved = place.area / "moved"
    file.rename(moved)
    launcher.signal_inside(pid, USR1)
    eventually(lambda: moved.read_text() == "one\ntwo\n", "it goes on in the old file until then")
    launcher.signal(signal.SIGHUP)
    eventually(file.exists, "a new file")
    launcher.signal_inside(pid, USR1)
    eventually(lambda: file.read_text() == "three\n", "three")
    assert moved.read_text() == "one\ntwo\n"
    assert launcher.stop() == Exit(code=0)


def test_stderr_in_a_file_of_its_own(place):
    out, err = place.area / "out", place.area / "err"
    launcher = run(place, {"web": probe("trap", "print:one", "print-error:two", "say:up", f"until:{USR1}", "print:three",
                                        "print-error:four", "until:15",
                                        output={"file": str(out), "stderr": {"file": str(err), "format": "prefix"}})})
    pid = launcher.wait_up()["pid"]
    eventually(lambda: (out.read_text(), err.read_text()) == ("one\n", "web[1] | two\n"), "each in its own")
    err.rename(place.area / "moved")
    launcher.signal(signal.SIGHUP)
    eventually(err.exists, "a new file")
    launcher.signal_inside(pid, USR1)
    eventually(lambda: (out.read_text(), err.read_text()) == ("one\nthree\n", "web[1] | four\n"), "the rest")
    assert launcher.stop() == Exit(code=0)


def test_stderr_to_that_of_the_launcher_or_nowhere(place):
    out, err = place.area / "out", place.area / "err"
    launcher = run(place, {
        "plain": probe("print:one", "print-error:plainly", "say:up", "pause",
                       output={"file": str(out), "stderr": "inherit"}),
        "lines": probe("print:to stdout", "print-error:in lines", "say:up", "pause",
                       output={"file": str(err), "stderr": {}}),
        "quiet": probe("print:heard", "print-error:unheard", "say:up", "pause", output={"stderr": "null"})}, stderr=None)
    for _ in range(3):
        launcher.wait_up()
    assert "heard" in launcher.wait_for_text("heard")
    eventually(lambda: (out.read_text(), err.read_text()) == ("one\n", "to stdout\n"), "the files")
    eventually(lambda: "plainly" in launcher.errors().splitlines(), "as it was written")
    eventually(lambda: "lines[1] | in lines" in launcher.errors(), "through the launcher")
    assert launcher.stop() == Exit(code=0)
    assert "unheard" not in launcher.errors()


def test_nothing_is_lost_over_sigkill_of_the_writer(place):
    """What a process had written is there, to the last byte, and its unended line does not run into the next one."""
    file = place.area / "log"
    script = 'i=0; while [ $i -lt 500 ]; do echo "$$ line $i"; i=$((i+1)); done; printf "$$ last"; kill -9 $$'
    launcher = run(place, {"web": {"command": ["sh", "-c", script], "output": {"file": str(file)},
                                   "backoff": RESTART_AT_ONCE}})
    pids = [launcher.wait_for_event("process-exited", signal=9)["pid"] for _ in range(10)]
    assert launcher.stop() == Exit(code=0)
    lines = file.read_text().splitlines()
    for pid in pids:
        assert [line for line in lines if line.startswith(f"{pid} ")] == (
            [f"{pid} line {i}" for i in range(500)] + [f"{pid} last"])


def test_the_last_words_at_the_end_of_the_container(place):
    launcher = run(place, {"job": probe("flood:49152", "print:last words", "exit:3", oneShot=True,
                                        output={"format": "prefix"})})
    assert launcher.wait() == Exit(code=3)
    lines = [line["text"] for line in launcher.events.all if "text" in line]
    assert lines[-1].endswith("last words") and len(lines) == 13


def test_binary_and_long_lines_come_through(place):
    file = place.area / "log"
    blob = os.urandom(300_000)
    (place.area / "blob").write_bytes(blob)
    launcher = run(place, {"web": {"command": ["cat", str(place.area / "blob")], "oneShot": True,
                                   "output": {"file": str(file)}}})
    assert launcher.wait() == Exit(code=0)
    content = file.read_bytes()
    assert content in (blob, blob + b"\n")


class SlowReader:
    """A standard output that is read only when the test says so."""

    def __init__(self):
        self.read_end, self.write_end = os.pipe()
        fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, 65536)
        os.set_blocking(self.read_end, False)

    def read(self):
        """All that is there now."""
        data = b""
        while True:
            try:
                part = os.read(self.read_end, 65536)
            except BlockingIOError:
                return data
            if not part:
                return data
            data += part

    def close(self):
        os.close(self.read_end)


def whole_lines(data):
    """Without one that is not complete yet."""
    return data[:data.rfind(b"\n") + 1].decode().splitlines()


@pytest.fixture
def slow_reader():
    reader = SlowReader()
    yield reader
    reader.close()


def test_a_slow_reader_blocks_only_the_program_that_writes(place, slow_reader):
    file = place.area / "log"
    size = 4_096_000
    launcher = run(place, {
        "loud": probe("tag:loud", "say:up", f"flood:{size}", "say:flooded", "pause", output={"format": "prefix"}),
        "calm": probe("tag:calm", "trap", "say:up", f"until:{USR1}", "print:fine", "until:15",
                      output={"file": str(file)}),
    }, stdout=slow_reader.write_end)
    os.close(slow_reader.write_end)
    launcher.wait_up(tag="loud")
    calm = launcher.wait_up(tag="calm")["pid"]
    launcher.quiet_for(0.3, launcher.probe)  # loud stands still
    launcher.signal_inside(calm, USR1)
    launcher.wait_signal(USR1, tag="calm")
    eventually(lambda: file.read_text() == "fine\n", "the other one writes")
    got = b""

    def flooded():
        nonlocal got
        got += slow_reader.read()
        launcher.probe.drain()
        return launcher.probe.take(lambda line: line.get("text") == "flooded")

    eventually(flooded, "loud goes on when somebody reads")

    def complete():
        nonlocal got
        got += slow_reader.read()
        return sum(line.endswith("x" * 4095) for line in whole_lines(got)) == size // 4096

    eventually(complete, "nothing is lost")  # before the end, which waits for a reader half a second only
    launcher.signal(signal.SIGTERM)

    def ended():
        nonlocal got
        got += slow_reader.read()
        return b'"event": "launcher-stopped"' in got or b'"launcher-stopped"' in got

    eventually(ended, "the end")
    assert launcher.wait() == Exit(code=0)
    got += slow_reader.read()
    assert complete(), "nor comes twice"


def test_a_slow_reader_and_drop(place, slow_reader):
    size = 4_096_000
    launcher = run(place, {
        "loud": probe("trap", "tag:loud", f"flood:{size}", "say:flooded", "until:15",
                      output={"format": "prefix", "whenFull": "drop"}),
    }, stdout=slow_reader.write_end)
    os.close(slow_reader.write_end)
    launcher.wait_for_probe("say", text="flooded")
    got = b""

    def told():
        """The records of what was dropped, as soon as they and the lines that are there make up for all."""
        nonlocal got
        got += slow_reader.read()
        lines = whole_lines(got)
        records = [json.loads(line) for line in lines if "output-dropped" in line]
        kept = sum("xxx" in line for line in lines)
        return records if kept + sum(record["lines"] for record in records) == size // 4096 else None

    records = eventually(told, "each line comes or is counted")
    assert {record["program"] for record in records} == {"loud"}
    launcher.signal(signal.SIGTERM)
    eventually(lambda: told() and b'"launcher-stopped"' in got, "the end")
    assert launcher.wait() == Exit(code=0)


def test_a_full_disk_is_told_and_gets_over(as_pid1, needs_root):
    disk = as_pid1.area / "disk"
    disk.mkdir()
    launcher = run(as_pid1, {
        "web": probe("trap", "flood:163840", "say:up", f"until:{USR1}", "print:after", "until:15",
                     output={"file": str(disk / "log"), "maxSize": "10Mi"}),
    }, where=["--tmpfs", f"{disk}:size=128k"])
    failed = launcher.wait_for_event("output-failed", program="web")
    assert "No space left on device" in failed["error"]
    inside = launcher.namespace_root / str(disk)[1:]
    (inside / "log").unlink()
    launcher.signal(signal.SIGHUP)
    launcher.wait_up()
    launcher.signal_inside(launcher.events_named("process-started")[0]["pid"], USR1)
    eventually(lambda: (inside / "log").exists() and (inside / "log").read_bytes().endswith(b"after\n"), "it goes on")
    assert launcher.stop() == Exit(code=0)


def test_another_destination_by_a_new_configuration(place):
    first, second = place.area / "first", place.area / "second"
    web = probe("trap", "print:one", "say:up", f"until:{USR1}", "print:two", "until:15")
    launcher = run(place, {"web": {**web, "output": {"file": str(first)}}})
    pid = launcher.wait_up()["pid"]
    eventually(lambda: first.read_text() == "one\n", "one")
    launcher.replace({"web": {**web, "output": {"file": str(second)}}})
    launcher.wait_for_event("configuration-loaded")
    launcher.wait_for_event("configuration-loaded")
    launcher.signal_inside(pid, USR1)
    eventually(lambda: second.read_text() == "two\n", "what runs writes there too")
    assert first.read_text() == "one\n"
    assert launcher.stop() == Exit(code=0)


def test_a_renamed_program_takes_its_file_along(place):
    file = place.area / "log"
    launcher = run(place, {"old": service("old", "print:old", output={"file": str(file)})})
    launcher.wait_up(tag="old")
    launcher.replace({"new": service("new", "print:new", output={"file": str(file)})})
    launcher.wait_up(tag="new")
    eventually(lambda: file.read_text() == "old\nnew\n", "both in one file")
    assert launcher.stop() == Exit(code=0)


def test_two_programs_swap_their_files(place):
    one, two = str(place.area / "one"), str(place.area / "two")

    def programs(a, b):
        return {"a": service("a", "print:a", output={"file": a}, onConfigurationChange="restart"),
                "b": service("b", "print:b", output={"file": b}, onConfigurationChange="restart")}

    launcher = run(place, programs(one, two))
    for tag in "ab":
        launcher.wait_up(tag=tag)
    # What is still in a pipe goes where the next configuration says.
    eventually(lambda: [Path(file).read_text() for file in (one, two)] == ["a\n", "b\n"], "both were read")
    launcher.replace(programs(two, one))
    for tag in "ab":
        launcher.wait_up(tag=tag)
    eventually(lambda: (place.area / "one").read_text() == "a\nb\n", "a then b")
    eventually(lambda: (place.area / "two").read_text() == "b\na\n", "b then a")
    assert launcher.stop() == Exit(code=0)


def test_one_file_for_two_programs_is_refused(place):
    file = str(place.area / "log")
    launcher = run(place, {"a": service("a")})
    launcher.wait_up(tag="a")
    errors = launcher.reject({"a": service("a", output={"file": file}), "b": service("b", output={"file": file})})
    assert errors == [f"programs.b.output.file: {file} is also the file of programs.a.output.file"]
    assert launcher.stop() == Exit(code=0)


def test_helpers_write_where_their_program_does(place):
    file = place.area / "log"
    launcher = run(place, {"web": probe("exit:5", restart="never", output={"file": str(file)},
                                        onFailure={"command": ["echo", "from the hook"]}),
                           "other": service("other")})
    eventually(lambda: file.exists() and file.read_text() == "from the hook\n", "the hook's line")
    launcher.wait_up(tag="other")
    assert launcher.stop() == Exit(code=0)


def test_a_grandchild_that_keeps_the_pipe_holds_nobody_up(place):
    launcher = run(place, {"web": probe("escape", "print:main", "exit:0", restart="never", output={"format": "prefix"}),
                           "other": service("other")}, "--stop-timeout", "200ms")
    launcher.wait_for_text("main")
    launcher.wait_for_event("process-exited", program="web")
    launcher.wait_up(tag="other")
    assert launcher.stop() == Exit(code=0)
    assert order_of(launcher.events_named("process-exited"), "program")[0] == ("web",)

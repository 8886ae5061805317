"""Programs: files of variables, the directory as an Argument, and standard input."""

import errno
import json
import os
import signal

import pytest

from harness.process import Exit, eventually, run_plainly
from harness.programs import order_of, probe, run, service
from test_terminal import Terminal, terminal  # noqa: F401 (a fixture)


def shown(*names):
    """A shell that says these variables."""
    return ["/bin/sh", "-c", "exec probe \"tag:" + ",".join(f"${name}" for name in names) + "\" trap say:up until:15"]


# --- environmentFile


def test_files_win_over_what_is_inherited_and_the_document_over_files(place):
    first, second = place.area / "first.env", place.area / "second.env"
    first.write_text("A=first\nB=first\n# comment\nexport C=first\n")
    second.write_text("B=second\nC=second\n")
    launcher = run(place, {"web": {"command": shown("A", "B", "C", "D"), "environment": {"C": "document"},
                                   "environmentFile": [str(first), {"path": str(second)},
                                                       {"path": str(place.area / "none"), "optional": True}]}},
                   env={"A": "inherited", "D": "inherited"})
    launcher.wait_up(tag="first,second,document,inherited")
    assert launcher.stop() == Exit(code=0)


def test_a_changed_file_is_a_changed_program(place):
    file = place.area / "web.env"
    file.write_text("A=1\n")
    launcher = run(place, {"web": {"command": shown("A"), "environmentFile": str(file),
                                   "onConfigurationChange": "restart"}, "other": service("other")})
    launcher.wait_up(tag="1")
    file.write_text("A=2\n")
    launcher.wait_up(tag="2")
    assert not launcher.events_named("process-exited", program="other")
    file.unlink()
    [error] = launcher.wait_for_event("configuration-rejected")["errors"]
    assert error == f"programs.web.environmentFile[0]: cannot open {file}: No such file or directory"
    launcher.quiet_for(0.1)
    file.write_text("A=3\n")
    launcher.wait_up(tag="3")
    assert launcher.stop() == Exit(code=0)


def test_an_optional_file_that_comes_later_is_seen(place):
    file = place.area / "web.env"
    launcher = run(place, {"web": {"command": shown("A"), "onConfigurationChange": "restart",
                                   "environmentFile": {"path": str(file), "optional": True}}})
    launcher.wait_up(tag="")
    file.write_text("A=there\n")
    launcher.wait_up(tag="there")
    assert launcher.stop() == Exit(code=0)


def test_its_path_may_come_from_the_environment(place):
    (place.area / "a.env").write_text("A=found\n")
    path = {"type": "Concatenate", "values": [{"type": "Environment", "source": "WHERE"}, "/a.env"]}
    launcher = run(place, {"web": {"command": shown("A"), "environmentFile": path}}, env={"WHERE": str(place.area)})
    launcher.wait_up(tag="found")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("what", ["fifo", "device", "large"])
def test_a_file_that_is_none_holds_nothing_up(place, what):
    file = place.area / "web.env"
    launcher = run(place, {"web": service("web")})
    launcher.wait_up(tag="web")
    if what == "fifo":
        os.mkfifo(file)
    elif what == "device":
        file.symlink_to("/dev/zero")
    else:
        file.write_text("A=" + "x" * 70000)
    launcher.replace({"web": service("web"), "job": {"command": shown("A"), "environmentFile": str(file)}})
    if what == "fifo":
        launcher.wait_up(tag="")
    else:
        assert "more than 65536 bytes" in launcher.wait_for_event("configuration-rejected")["errors"][0]
    assert launcher.stop() == Exit(code=0)


def test_bad_keys_are_explained(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"programs": {
        "b": {"command": ["x"], "environmentFile": ["relative"], "stdin": "inherit"},
        "d": {"command": ["x"], "stdin": "inherit", "count": 2},
        "e": {"command": ["x"], "stdin": {"file": "relative"}},
        "f": {"command": ["x"], "stdin": "closed", "environmentFile": [{"optional": True, "path": 1}]}}}))
    done = run_plainly("check", tmp_path / "config.json")
    assert done.returncode == 1
    said = [line.split("config.json: ", 1)[1] for line in done.stderr.splitlines()]
    assert said == [
        "programs.d.stdin: only one process can have the launcher's own",
        'programs.e.stdin.file: "relative" is not an absolute path',
        'programs.f.environmentFile[0].path: expected a string or an object, for example {"type": "Environment", "source": "NAME"}, found number',
        'programs.f.stdin: "closed" is not one of null, inherit',
        'programs.d.stdin: "b" has the launcher\'s own already',
        'programs.b.environmentFile[0]: must be an absolute path, not "relative"']


# --- by number

def numbered(*parts):
    """A path with the number of the process in it."""
    return {"type": "Concatenate", "values": [part if part is not int else {"type": "ProcessNumber", "width": 2}
                                              for part in map(lambda p: p if p is int else str(p), parts)]}


HERE = ["/bin/sh", "-c", 'exec probe "tag:$(pwd),$A,$B,$C,$TRITON_PROCESS" trap say:up until:15']


def test_each_process_has_its_file_and_its_directory(place):
    """Also those that come with a higher count, and a command that is relative to the directory."""
    for number in (1, 2, 3):
        directory = place.area / f"worker-0{number}"
        directory.mkdir()
        (directory / "env").write_text(f"A={number}\nB={number}\nC={number}\n")
        (directory / "here").write_text('#!/bin/sh\nexec probe "tag:$(pwd),$A,$B,$C" trap say:up until:15\n')
        (directory / "here").chmod(0o755)
    (place.area / "all.env").write_text("B=all\n")
    worker = {"command": ["./here"], "count": 2, "workingDirectory": numbered(place.area, "/worker-", int),
              "environmentFile": [numbered(place.area, "/worker-", int, "/env"), str(place.area / "all.env")],
              "environment": {"C": {"type": "Concatenate", "values": ["c", {"type": "ProcessNumber"}]}}}
    launcher = run(place, {"worker": worker})
    for number in (1, 2):
        launcher.wait_up(tag=f"{place.area}/worker-0{number},{number},all,c{number}")
    launcher.replace({"worker": {**worker, "count": 3}})
    launcher.wait_up(tag=f"{place.area}/worker-03,3,all,c3")
    assert not launcher.events_named("process-exited", program="worker")
    launcher.replace({"worker": {**worker, "count": 1}})
    gone = {launcher.wait_for_event("process-exited", program="worker")["process"] for _ in range(2)}
    assert gone == {2, 3}
    assert launcher.stop() == Exit(code=0)


def test_a_hook_is_where_its_process_is(place):
    for number in (1, 2):
        (place.area / f"d{number:02}").mkdir()
        (place.area / f"e{number:02}").write_text(f"A=a{number}\n")
    hook = {"command": ["/bin/sh", "-c", 'echo "$PWD $A $TRITON_PROGRAM:$TRITON_PROCESS" >hooked']}
    launcher = run(place, {"web": {"command": HERE, "count": 2, "workingDirectory": numbered(place.area, "/d", int),
                                   "environmentFile": numbered(place.area, "/e", int), "preStop": hook}})
    for number in (1, 2):
        launcher.wait_up(tag=f"{place.area}/d0{number},a{number},,,")
    assert launcher.stop() == Exit(code=0)
    for number in (1, 2):
        where = place.area / f"d{number:02}"
        assert (where / "hooked").read_text() == f"{where} a{number} web:{number}\n"


def test_a_changed_file_of_one_process_is_a_changed_program(place):
    for number in (1, 2):
        (place.area / f"e{number:02}").write_text(f"A={number}\n")
    launcher = run(place, {"web": {"command": shown("A"), "count": 2, "onConfigurationChange": "restart",
                                   "environmentFile": numbered(place.area, "/e", int)}})
    launcher.wait_up(tag="1")
    launcher.wait_up(tag="2")
    (place.area / "e02").write_text("A=other\n")
    launcher.wait_up(tag="other")
    (place.area / "e02").unlink()
    [error] = launcher.wait_for_event("configuration-rejected")["errors"]
    assert error == f"programs.web.environmentFile[0]: cannot open {place.area}/e02: No such file or directory"
    assert launcher.stop() == Exit(code=0)


def test_a_missing_directory_of_one_process_is_named(place):
    (place.area / "d01").mkdir()
    launcher = run(place, {"web": {"command": HERE, "count": 2, "workingDirectory": numbered(place.area, "/d", int)}})
    launcher.wait_up(tag=f"{place.area}/d01,,,,")
    failed = launcher.wait_for_event("process-start-failed", process=2)
    assert f"web:2: enter the working directory {place.area}/d02: No such file or directory" in failed["message"]
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("count, said", [
    (2049, "more than 2048 processes with files by number in all"),
    (2048, "the environments of processes with files by number are larger than 16 MiB in all"),
])
def test_environments_by_number_have_limits(tmp_path, count, said):
    """What a document can make the launcher read and keep does not grow with its count."""
    (tmp_path / "config.json").write_text(json.dumps({"programs": {"web": {
        "command": ["/bin/true"], "count": count, "environment": {"LONG": "x" * 10000},
        "environmentFile": {"path": numbered("/none/", int), "optional": True}}}}))
    done = run_plainly("check", tmp_path / "config.json")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].endswith(f"config.json: programs.web.environmentFile: {said}")


# --- workingDirectory


def test_the_directory_may_come_from_the_environment(place):
    launcher = run(place, {"web": {"command": ["/bin/sh", "-c", 'exec probe "tag:$(pwd)" trap say:up until:15'],
                                   "workingDirectory": {"type": "Environment", "source": "WHERE"}}},
                   env={"WHERE": str(place.area)})
    launcher.wait_up(tag=str(place.area))
    reason = launcher.reject({"web": {"command": ["x"], "workingDirectory": {"type": "Literal", "value": "relative"}}})
    assert reason[0] == 'programs.web.workingDirectory: must be an absolute path, not "relative"'
    assert launcher.stop() == Exit(code=0)


# --- stdin


def test_a_file_is_read_from_its_beginning_at_each_start(place):
    file = place.area / "input"
    file.write_text("line\n")
    launcher = run(place, {"cat": {"command": ["/bin/sh", "-c", 'read a; exec probe "tag:$a" say:up exit:0'],
                                   "stdin": {"file": str(file)}, "schedule": {"every": "50ms"}}})
    for _ in range(2):
        launcher.wait_up(tag="line")
    assert launcher.stop() == Exit(code=0)


def test_a_fifo_in_its_place_is_refused_and_nothing_waits(place):
    file = place.area / "input"
    os.mkfifo(file)
    launcher = run(place, {"cat": probe("exit:0", stdin={"file": str(file)}, oneShot=True), "web": service("web")})
    launcher.wait_up(tag="web")
    failed = launcher.wait_for_event("process-start-failed", program="cat")
    assert order_of([failed], "stage", "errno", "error") == [
        ("open the file of its stdin", errno.EIO, "open the file of its stdin: Input/output error")]
    assert "cannot open the file of its stdin: Input/output error" in launcher.ctl("status", "cat")
    assert launcher.stop() == Exit(code=0)


def test_one_program_may_have_the_launchers_own(place):
    read_end, write_end = os.pipe()
    launcher = run(place, {"cat": {"command": ["/bin/sh", "-c", 'read a; exec probe "tag:$a" trap say:up until:15'],
                                   "stdin": "inherit"}, "web": service("web")}, stdin=read_end)
    launcher.wait_up(tag="web")
    os.write(write_end, b"typed\n")
    launcher.wait_up(tag="typed")
    os.close(read_end)
    os.close(write_end)
    assert launcher.stop() == Exit(code=0)


def test_it_may_read_the_terminal(place, terminal):  # noqa: F811
    def start(*arguments, **how):
        return terminal.start(place, place.start, *arguments, **how)

    configuration = place.configuration()
    configuration.write_text(json.dumps({"programs": {
        "sh": {"command": ["/bin/sh", "-c", "read line; echo got-$line; exit 6"], "stdin": "inherit", "critical": True,
               "restart": "never"}, "web": service("web")}}))
    launcher = start("--input-dir", configuration.directory, "--control-socket", "none",
                     env={"PATH": f"{place.programs}:/usr/bin:/bin"})
    terminal.press(b"typed\n")
    launcher.wait_for_text("got-typed")
    assert launcher.wait() == Exit(code=6)

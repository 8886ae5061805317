"""Programs: files of variables, the directory as an Argument, and standard input."""

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
    number = {"type": "ProcessNumber"}
    (tmp_path / "config.json").write_text(json.dumps({"programs": {
        "a": {"command": ["x"], "environmentFile": {"type": "Concatenate", "values": ["/a", number]}},
        "b": {"command": ["x"], "environmentFile": ["relative"], "stdin": "inherit"},
        "c": {"command": ["x"], "workingDirectory": {"type": "Concatenate", "values": ["/a", number]}},
        "d": {"command": ["x"], "stdin": "inherit", "count": 2},
        "e": {"command": ["x"], "stdin": {"file": "relative"}},
        "f": {"command": ["x"], "stdin": "closed", "environmentFile": [{"optional": True, "path": 1}]}}}))
    done = run_plainly("check", tmp_path / "config.json")
    assert done.returncode == 1
    said = [line.split("config.json: ", 1)[1] for line in done.stderr.splitlines()]
    assert said == [
        "programs.a.environmentFile: cannot depend on the number of the process",
        "programs.c.workingDirectory: cannot depend on the number of the process",
        "programs.d.stdin: only one process can have the launcher's own",
        'programs.e.stdin.file: "relative" is not an absolute path',
        "programs.f.environmentFile[0].path: expected a string or an object, found number",
        'programs.f.stdin: "closed" is not one of null, inherit',
        'programs.d.stdin: "b" has the launcher\'s own already',
        'programs.b.environmentFile[0]: must be an absolute path, not "relative"']


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
    assert launcher.wait_for_event("process-start-failed", program="cat")["errno"] != 0
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

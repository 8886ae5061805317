"""`triton-launch ctl attach` and programs that draw: what they show, keys, windows, and the terminal after them."""

import contextlib
import os
import re
import shutil

import pytest

from harness.person import DETACH
from harness.process import BINARY, eventually

# What programs switch, and how each is switched back; of vi, tmux and their like.
OTHER_SCREEN = "?1049"
WHILE_DRAWING = {"margins", "?12", "?25", "?2026"}  # is switched for a moment: whoever looks may come in the middle


def need(program):
    """Its path. `./dev test` installs what is needed."""
    if path := shutil.which(program):
        return path
    return (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{program} is not installed")


def modes(screen):
    """What is switched on by the end of these bytes, of the modes that have a number."""
    found = {}
    for numbers, what in re.findall(rb"\x1b\[\?([0-9;]+)([hl])", screen):
        for number in numbers.decode().split(";"):
            found[f"?{number}"] = what == b"h"
    keys = re.findall(rb"\x1b\[>4;?(\d*)m", screen)
    found[">4"] = bool(keys) and keys[-1] not in (b"", b"0")
    found["keypad"] = screen.rfind(b"\x1b=") > screen.rfind(b"\x1b>")
    found["margins"] = (re.findall(rb"\x1b\[(\d+;\d+)?r", screen) or [b""])[-1] != b""
    return {mode for mode, is_on in found.items() if is_on != (mode in ("?25", "?7"))}


def test_less(run, people):
    """The whole way: it asks for the size, draws, follows a change, takes keys and leaves its screen."""
    controlled = run({"less": {"command": [need("less"), "/proc/self/status"], "tty": True, "restart": "never"}})
    controlled.running("less")
    person = people(controlled, "less", rows=10, columns=50)
    person.sees(r"Umask")
    for columns in range(50, 70):  # in the middle of its work it takes no notice of its window
        person.resize(30, columns)
        with contextlib.suppress(AssertionError):
            person.sees("VmPeak", timeout=1)  # which is in no line that the smaller window had
            break
    person.sees(r"\x1b\[K")
    person.press("q")
    assert person.leaves() == 0
    assert modes(person.screen) == set()


def test_top(run, people):
    """It draws all of the window, smaller and larger, takes keys, and goes on without anybody."""
    controlled = run({"top": {"command": [need("top"), "-d", "0.2"], "tty": True, "environment": {"HOME": "/nonexistent"}}})
    controlled.running("top")
    person = people(controlled, "top", "--lines", 0, rows=20, columns=70)
    person.sees("Tasks:")
    person.sees("PID USER .*%MEM")
    person.resize(30, 100)
    person.sees("PID USER .*COMMAND")  # for which the smaller window has no room
    person.press("V")
    person.sees("Forest view|`-")  # of its key V, and of nothing else
    person.press(DETACH)
    assert person.leaves() == 0
    assert modes(person.screen) == set()
    pid = controlled.pid("top")
    again = people(controlled, "top")
    again.sees("COMMAND")
    assert controlled.pid("top") == pid
    again.press("q")
    assert again.leaves() == 0
    assert modes(again.screen) == set()


def vi(tmp_path, **keys):
    """A vi that has the mouse, where it is one that can."""
    text = tmp_path / "text"
    text.write_text("".join(f"line {i}\n" for i in range(1, 101)))
    tmp_path.chmod(0o755)
    return {"command": [need("vi"), "-u", "NONE", "-i", "NONE", "-N", "-n", str(text)], "tty": True, **keys}, text


def test_vi_is_left_and_found_again(run, people, tmp_path):
    """Who leaves it is on the own screen; who comes later is on its screen, with its mouse and its keys."""
    program, text = vi(tmp_path, restart="never")
    controlled = run({"vi": program})
    controlled.running("vi")
    first = people(controlled, "vi", rows=20, columns=60)
    first.sees(r"line 19\b")
    first.press(":set mouse=a ttymouse=sgr\r")
    first.press("yyP:s/line/LINE\r:redraw!\r")
    first.sees(r"(?s)LINE 1\b.*line 18\b")  # it has switched all now
    wanted = modes(first.screen)
    assert OTHER_SCREEN in wanted
    first.press(DETACH)
    assert first.leaves() == 0
    assert modes(first.screen) == set()
    assert first.screen.rindex(b"[detached from vi:1]") > first.screen.rindex(b"\x1b[?1049l"), "on the screen that stays"

    second = people(controlled, "vi", "--lines", 0, rows=20, columns=60)
    second.sees(r"LINE 1\b")
    eventually(lambda: second.look() and modes(second.screen) >= wanted - WHILE_DRAWING,
               "the terminal is as vi takes it to be")
    second.resize(40, 60)
    second.sees(r"line 38\b")  # which the smaller window did not have
    second.press(":wq\r")
    assert second.leaves() == 0
    assert modes(second.screen) == set()
    assert text.read_text().startswith("LINE 1\nline 1\n")


@pytest.mark.parametrize("how", ["killed", "followed", "upgraded", "stopped"])
def test_vi_does_not_keep_the_screen(run, people, tmp_path, how):
    """Whatever becomes of it, of the launcher, or of who looks at it."""
    program, _ = vi(tmp_path, backoff={"initial": "5ms", "max": "5ms", "jitter": 0})
    controlled = run({"vi": program})
    controlled.running("vi")
    person = people(controlled, *(["-f"] if how == "followed" else []), "vi", "--lines", 0)
    person.sees(r"line 22\b")
    assert OTHER_SCREEN in modes(person.screen)
    match how:
        case "killed":
            controlled.ctl("signal", "KILL", "vi")
            assert person.leaves() == 128 + 9
        case "followed":
            controlled.ctl("signal", "KILL", "vi")
            person.sees(r"(?s)\x1b\[\?1049l.*was ended by signal 9")
            person.sees(r"(?s)\x1b\[\?1049h.*line 22\b")  # of the next one
            person.press(DETACH)
            assert person.leaves() == 0
        case "upgraded":
            controlled.ctl("upgrade", BINARY)
            person.sees("attached again")
            person.sees(r"(?s)\x1b\[\?1049h.*line 22\b")
            person.press(DETACH)
            assert person.leaves() == 0
        case "stopped":
            person.process.send_signal(20)  # SIGTSTP
            person.sees(r"\x1b\[\?1049l")
            eventually(lambda: not person.is_raw(), "the terminal is as it was")
            assert person.look() and modes(person.screen) == set()
            person.process.send_signal(18)  # SIGCONT
            person.sees(r"(?s)\x1b\[\?1049h.*line 22\b")
            assert person.is_raw()
            person.press(DETACH)
            assert person.leaves() == 0
    assert modes(person.screen) == set()


def test_tmux(run, people, area):
    """A terminal in a terminal, with a mouse and a margin: left alone, found again, and each key is its own."""
    controlled = run({"tmux": {
        "command": [need("tmux"), "-f", "/dev/null", "-S", str(area / "tmux"), "new-session",
                    f"{need('env')} PS1='in-tmux> ' ENV=/dev/null sh", ";", "set", "-g", "mouse", "on"],
        "tty": True, "environment": {"LC_ALL": "C.UTF-8"}, "restart": "never"}})
    controlled.running("tmux")
    person = people(controlled, "tmux", "--lines", 0, rows=20, columns=70)
    person.sees("in-tmux> ")
    person.press("echo got-$((40+2)); stty size\r")
    person.sees("got-42")
    person.sees("19 70")  # and its own line
    person.resize(30, 100)
    person.press("until [ \"$(stty size)\" = '29 100' ]; do sleep 0.01; done; echo larger-$((1+1))\r")
    person.sees("larger-2")
    switched = modes(person.screen)
    assert {OTHER_SCREEN, "margins"} <= switched and any(mode.startswith("?100") for mode in switched), switched
    person.press(DETACH)
    assert person.leaves() == 0
    assert modes(person.screen) == set()
    again = people(controlled, "tmux", "--lines", 0, rows=30, columns=100)
    again.sees("in-tmux> ")
    eventually(lambda: again.look() and modes(again.screen) >= switched - WHILE_DRAWING,
               "the terminal is as tmux takes it to be")
    again.press("\x02d")  # its own keys: the client ends, the session stays
    assert again.leaves() == 0
    assert modes(again.screen) == set()


def test_nothing_is_put_back_that_nobody_has_switched(run, people):
    """Of a shell no bytes follow that it has not written."""
    controlled = run({"sh": {"command": ["/bin/sh"], "tty": True, "environment": {"PS1": "ready> ", "ENV": "/dev/null"}}})
    controlled.running("sh")
    person = people(controlled, "sh")
    person.sees("ready> ")
    person.press(DETACH)
    assert person.leaves() == 0
    assert b"\x1b" not in person.screen


def test_what_the_begun_line_switches_is_not_switched_twice(run, people):
    """Keys are put on a stack: who comes later must have them there once, as the program takes them off once."""
    program = r"printf '\033[>1u\033[?2004hready> '; read line; printf '\033[<u\033[?2004lread'; exec sleep 1000"
    controlled = run({"sh": {"command": ["/bin/sh", "-c", program], "tty": True}})
    controlled.running("sh")
    first = people(controlled, "sh")
    first.sees("ready> ")
    second = people(controlled, "sh")
    second.sees("ready> ")

    def pushed():
        assert second.look()
        depth = 0
        for kind, number in re.findall(rb"\x1b\[([<>])(\d*)u", second.screen):
            depth += 1 if kind == b">" else -int(number or 1)
        return depth
    eventually(lambda: pushed() == 1, "it is there once")
    second.press("\r")
    second.sees("read$")
    assert pushed() == 0 and modes(second.screen) == set()
    second.press(DETACH)
    assert second.leaves() == 0
    assert second.screen.endswith(b"read\r\n[detached from sh:1]\r\n"), "nothing is left to be put back"

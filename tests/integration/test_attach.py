"""`tty` and `triton-launch ctl attach`: programs with a terminal of their own, and people who sit at it."""

import errno
import json
import os
import pwd
import signal
import subprocess

import pytest

from harness.person import DETACH
from harness.process import BINARY, TIMEOUT, Exit, eventually

SHELL = {"command": ["/bin/sh"], "tty": True, "environment": {"PS1": "ready> ", "ENV": "/dev/null"}}
AT_ONCE = {"initial": "5ms", "max": "5ms", "jitter": 0}


def foreground(launcher, pid):
    """What the process group runs that has the terminal of a process."""
    def fields(of):
        return launcher.proc(of).joinpath("stat").read_text().rsplit(")", 1)[1].split()
    leader = fields(pid)[5]  # tpgid, proc_pid_stat(5)
    return launcher.proc(leader).joinpath("comm").read_text().strip()


def test_nobody_waits_for_a_process_that_cannot_be(run):
    controlled = run({"sh": {**SHELL, "count": 0}})
    assert "no process 1" in controlled.ctl("attach", "--follow", "sh", expect=1)


# --- a person at a shell

def test_shell_is_used_and_its_exit_code_is_the_command_s(run, people):
    """A prompt that was there before, an answer, its end: as at a terminal of one's own."""
    controlled = run({"sh": {**SHELL, "restart": "never"}})
    controlled.running("sh")
    person = people(controlled, "sh")
    person.sees("ready> ")
    assert person.is_raw()
    person.press("echo got-$((40+2)); tty; test -t 2 && echo is-terminal\n")
    person.sees(r"got-42\r\n/dev/pts/\d+\r\nis-terminal\r\n")
    person.press("exit 7\n")
    assert person.leaves() == 7


def test_job_control_works(run, people):
    """It is the controlling terminal of a session: the shell does not complain, and ^C ends its foreground job only."""
    controlled = run({"sh": {**SHELL, "command": ["/bin/bash", "--norc", "--noprofile", "-i"]}})
    pid = controlled.running("sh")
    person = people(controlled, "sh")
    person.sees("ready> ")
    person.press("sleep 1000; echo after-$?\n")
    person.sees("sleep 1000")
    eventually(lambda: foreground(controlled.launcher, pid) == "sleep", "the job has the terminal")
    person.press(b"\x03")
    person.sees("ready> ")
    person.press("echo still-here-$((1+1))\n")
    person.sees("still-here-2")
    assert b"no job control" not in person.screen
    assert controlled.running("sh") == pid


def test_window_is_passed_on(run, people):
    """Its size at the beginning, and at each change."""
    controlled = run({"sh": {**SHELL, "tty": {"rows": 11, "columns": 40}}})
    controlled.running("sh")
    person = people(controlled, "sh", rows=33, columns=101)
    person.sees("ready> ")
    person.press("stty size\n")
    person.sees(r"33 101\r\n")
    person.resize(20, 60)
    person.press("stty size\n")
    person.sees(r"20 60\r\n")


def test_first_size_is_that_of_the_configuration(run, people):
    """Until somebody attaches."""
    controlled = run({"size": {"command": ["/bin/sh", "-c", "stty size; exec sleep 1000"],
                               "tty": {"rows": 11, "columns": 40}}})
    eventually(lambda: "11 40" in controlled.ctl("logs", "size"), "the size is told")


def test_somebody_who_attaches_has_the_screen_drawn(run, people):
    """By SIGWINCH, also when the size is what it was."""
    controlled = run({"sh": {"command": ["/bin/bash", "-c",
                                         "trap 'echo drawn-$(stty size)' WINCH; echo up; while :; do sleep 0.1; done"],
                             "tty": True}})
    eventually(lambda: "up" in controlled.ctl("logs", "sh"), "it is up")
    people(controlled, "sh", "--lines", 0).sees("drawn-24 80")


@pytest.mark.parametrize("option, keys", [([], DETACH), (["--detach-keys", "ctrl-],x"], b"\x1dx")])
def test_person_leaves_and_comes_back(run, people, option, keys):
    """The program goes on, with what was typed so far."""
    controlled = run({"sh": SHELL})
    pid = controlled.running("sh")
    person = people(controlled, "sh", *option)
    person.sees("ready> ")
    person.press("kept=yes\n")
    person.sees("kept=yes\r\n")
    person.press(keys)
    assert person.leaves() == 0
    assert b"detached from sh:1" in person.screen
    again = people(controlled, "sh")
    again.sees("ready> ")
    again.press("echo $kept-$$\n")
    again.sees(r"yes-\d+\r\n")
    assert controlled.running("sh") == pid


def test_half_of_the_keys_is_passed_on(run, people):
    """What only begins like them is for the program."""
    controlled = run({"sh": {"command": ["/bin/sh", "-c", "stty raw -echo; echo up; exec od -An -tx1 -w1 -v"],
                             "tty": True}})
    eventually(lambda: "up" in controlled.ctl("logs", "sh"), "it is up")
    person = people(controlled, "sh", "--lines", 0)
    eventually(person.is_raw, "attached")
    person.press(b"\x10\x10x")
    for byte in ("10", "10", "78"):
        person.sees(byte)


def test_signal_ends_the_command_and_puts_the_terminal_back(run, people):
    """SIGTERM and SIGHUP: as others end by them, but for the terminal."""
    controlled = run({"sh": SHELL})
    controlled.running("sh")
    for number in (signal.SIGTERM, signal.SIGHUP):
        person = people(controlled, "sh")
        person.sees("ready> ")
        assert person.is_raw()
        person.process.send_signal(number)
        assert person.leaves() == 128 + number


def test_screen_of_a_program_is_left(run, people):
    """Who leaves a program that draws is on the own screen again, with a cursor."""
    controlled = run({"draw": {"command": ["/bin/sh", "-c", r"printf '\033[?1049h\033[?25lpicture\n'; exec sleep 1000"],
                               "tty": True}})
    eventually(lambda: "picture" in controlled.ctl("logs", "draw"), "it is drawn")
    person = people(controlled, "draw")
    person.sees("picture")
    person.press(DETACH)
    assert person.leaves() == 0
    assert person.screen.index(b"\x1b[?1049l") > person.screen.index(b"picture")
    assert person.screen.rindex(b"\x1b[?25h") > person.screen.index(b"picture")


# --- several, and those without a terminal

def test_several_see_the_same(run, people):
    """All may type; who only looks on may not, and leaves by ^C."""
    controlled = run({"sh": SHELL})
    controlled.running("sh")
    one, two = people(controlled, "sh"), people(controlled, "sh:1")
    onlooker = people(controlled, "--read-only", "sh")
    for person in (one, two, onlooker):
        person.sees("ready> ")
    assert not onlooker.is_raw()
    onlooker.press("echo not-$((1+1))\n")
    one.press("echo one-$((40+1))\n")
    for person in (one, two, onlooker):
        person.sees("one-41")
    two.press("echo two-$((40+2))\n")
    for person in (one, two, onlooker):
        person.sees("two-42")
    assert b"not-2" not in one.screen
    onlooker.process.send_signal(signal.SIGINT)
    assert onlooker.leaves() == 130
    one.press(DETACH)
    assert one.leaves() == 0
    two.press("exit 0\n")
    assert two.leaves() == 0


def attach(controlled, *arguments, keys="", timeout=TIMEOUT):
    """The command without a terminal."""
    return subprocess.run(controlled.command("attach", *arguments), input=keys.encode(), capture_output=True,
                          timeout=timeout, check=False)


def test_keys_come_from_a_pipe(run):
    """Nothing is a detach key there, and the output is waited for."""
    controlled = run({"sh": {**SHELL, "restart": "never"}})
    controlled.running("sh")
    done = attach(controlled, "sh", keys="stty -echo\necho piped-$((40+2))\nexit 3\n")
    assert done.returncode == 3, done
    assert b"piped-42\r\n" in done.stdout and done.stderr == b""


def test_attached_for_a_time(run):
    """--timeout ends it, and the program goes on."""
    controlled = run({"sh": SHELL})
    pid = controlled.running("sh")
    done = attach(controlled, "--timeout", "300ms", "sh", keys="echo timed-$((40+2))\n")
    assert done.returncode == 4 and b"timed-42" in done.stdout, done
    assert controlled.running("sh") == pid


@pytest.mark.parametrize("target, message", [
    ("plain", 'plain:1 has no terminal: its configuration does not have "tty"'),
    ("held", "held:1 does not run; with --follow you are attached when it starts"),
    ("two", "two has several processes: name one, as two:1"),
    ("two:3", "two has no process 3"),
    ("twi", "there is no program twi; did you mean two?")])
def test_refusals(run, target, message):
    """Each says why."""
    controlled = run({"plain": ["until:15"], "held": {**SHELL, "autoStart": False}, "two": {**SHELL, "count": 2}})
    controlled.running("two", 2)
    done = attach(controlled, target)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", f"triton-launch ctl: {message}\n".encode())


def test_one_that_is_left_needs_no_number(run):
    """A lower count leaves places that are empty."""
    controlled = run({"sh": {**SHELL, "count": 2}})
    controlled.running("sh", 2)
    controlled.configure({"sh": SHELL})
    controlled.launcher.wait_for_event("process-exited", program="sh", process=2)
    done = attach(controlled, "sh", keys="exit 3\n")
    assert (done.returncode, done.stderr) == (3, b"")
    controlled.configure({"sh": {**SHELL, "count": 0}})
    controlled.launcher.wait_for_event("configuration-loaded", processes=0)
    controlled.ctl("wait", "sh", "--for", "down")
    assert attach(controlled, "sh").stderr == \
        b"triton-launch ctl: sh:1 does not run; with --follow you are attached when it starts\n"


# --- its life

def test_each_process_has_a_terminal_of_its_own(run, people):
    """`count` of them, each with what was typed to it."""
    controlled = run({"sh": {**SHELL, "count": 2}})
    controlled.running("sh", 1)
    controlled.running("sh", 2)
    names = []
    for number in (1, 2):
        person = people(controlled, f"sh:{number}")
        person.sees("ready> ")
        person.press("tty\n")
        names.append(person.sees(r"/dev/pts/\d+")[0])
    assert names[0] != names[1]


def test_end_by_a_signal_and_a_fresh_terminal_for_the_next(run, people):
    """The exit code says the signal; what a program has set on its terminal is not there for the next one."""
    controlled = run({"sh": {**SHELL, "backoff": AT_ONCE}})
    controlled.running("sh")
    person, follower = people(controlled, "sh"), people(controlled, "-f", "sh")
    person.sees("ready> ")
    follower.sees("ready> ")  # it is there before the end
    person.press("stty -echo -icanon; kill -9 $$\n")
    assert person.leaves() == 128 + 9
    follower.sees(r"\[sh:1 was ended by signal 9; waiting for its next start\]")
    follower.sees(r"\[sh:1 has started\]")
    follower.sees("ready> ")
    follower.press("stty -a | grep -o ' icanon'\n")
    follower.sees(" icanon\r\n")
    follower.press(DETACH)
    assert follower.leaves() == 0


def test_follower_waits_for_the_first_start(run, people):
    """It does not run yet."""
    controlled = run({"sh": {**SHELL, "autoStart": False}})
    person = people(controlled, "-f", "sh")
    eventually(person.is_raw, "attached")
    controlled.ctl("start", "sh")
    person.sees("ready> ")
    controlled.configure({"other": ["until:15"]})
    controlled.ctl("reload")
    person.sees("sh:1: the configuration has no such process any more")
    assert person.leaves() == 1


def test_stop_signal_comes_before_any_hang_up(run, people):
    """The terminal stays open until the process has ended."""
    controlled = run({"sh": {"command": ["/bin/bash", "-c", "trap 'echo hangup' HUP; trap 'echo stopping; exit 5' TERM; "
                                         "echo up; while :; do sleep 0.05; done"], "tty": True}})
    eventually(lambda: "up" in controlled.ctl("logs", "sh"), "it is up")
    person = people(controlled, "sh")
    person.sees("up")
    controlled.ctl("stop", "sh")
    person.sees("stopping")
    assert person.leaves() == 5
    assert "hangup" not in controlled.ctl("logs", "sh")


def test_program_that_closes_its_side(run, people):
    """Nothing spins, and nobody hangs up: it may open /dev/tty again."""
    controlled = run({"sh": {"command": ["/bin/bash", "-c", "exec </dev/null >/dev/null 2>&1; sleep 0.3; "
                                         "echo again >/dev/tty; exec sleep 1000"], "tty": True}})
    controlled.running("sh")
    person = people(controlled, "sh")
    person.sees("again")
    before = controlled.launcher.cpu_seconds()
    controlled.launcher.quiet_for(0.5)
    assert controlled.launcher.cpu_seconds() - before < 0.1
    person.press(DETACH)
    assert person.leaves() == 0


def test_upgrade_keeps_the_terminal(run, people):
    """The program goes on, and who sits there is attached again."""
    controlled = run({"sh": SHELL})
    pid = controlled.running("sh")
    person = people(controlled, "sh")
    person.sees("ready> ")
    person.press("kept=yes\n")
    person.sees("ready> ")
    controlled.ctl("upgrade", BINARY)
    person.sees(r"\[the launcher was upgraded: attached again\]")
    person.press("echo $kept-$((40+2))\n")
    person.sees("yes-42")
    assert controlled.running("sh") == pid
    person.press("exit 4\n")
    assert person.leaves() == 4


# --- what is kept

@pytest.mark.parametrize("output", ["inherit", "null", {"format": "prefix"}, {"format": "json"}])
def test_lines_are_kept(run, output):
    """Whatever becomes of the output: without the CR that a terminal puts before each newline."""
    controlled = run({"sh": {"command": ["/bin/sh", "-c", "echo one; printf 'a\\rb\\n'; printf 'half'; exec sleep 1000"],
                             "tty": True, "output": output}})
    eventually(lambda: "b" in controlled.ctl("logs", "sh"), "it has spoken")
    lines = subprocess.run(controlled.command("logs", "sh"), capture_output=True, check=True).stdout
    assert lines == b"one\na\rb\n"


def test_file_has_lines(run, tmp_path):
    """As the program wrote them."""
    path = tmp_path / "log"
    tmp_path.chmod(0o755)
    run({"sh": {"command": ["/bin/sh", "-c", "echo one; echo two; exec sleep 1000"], "tty": True,
                "output": {"file": str(path)}}})
    eventually(lambda: path.exists() and path.read_bytes() == b"one\ntwo\n", "both lines are there")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes as somebody else")
def test_user_owns_the_terminal(run, people):
    """A program that opens it by its name, as `screen` and `gpg` do."""
    nobody = pwd.getpwnam("nobody").pw_uid
    controlled = run({"sh": {**SHELL, "user": "nobody"}})
    controlled.running("sh")
    person = people(controlled, "sh")
    person.sees("ready> ")
    person.press("stat -c %u $(tty); echo by-name >$(tty)\n")
    person.sees(rf"\b{nobody}\r\n")
    person.sees("by-name\r\n")


def test_term_is_set_unless_somebody_else_says(run):
    """Programs that draw need it."""
    controlled = run({"one": {"command": ["/bin/sh", "-c", "echo is-$TERM; exec sleep 1000"], "tty": True},
                      "two": {"command": ["/bin/sh", "-c", "echo is-$TERM; exec sleep 1000"], "tty": True,
                              "environment": {"TERM": "vt100"}}}, env={"PATH": "/usr/bin:/bin"})
    eventually(lambda: "is-xterm" in controlled.ctl("logs", "one"), "the default")
    eventually(lambda: "is-vt100" in controlled.ctl("logs", "two"), "what is said")


# --- what cannot be

@pytest.mark.parametrize("keys, where", [
    ({"stdin": "null"}, "stdin: cannot be used together with tty"),
    ({"output": {"stderr": "null"}}, "output.stderr: cannot be used together with tty"),
    ({"tty": "yes"}, "tty: expected a boolean or an object, found string"),
    ({"tty": {"rows": 0}}, "tty.rows: ")])
def test_what_is_refused(tmp_path, keys, where):
    """By its place."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"programs": {"sh": {**SHELL, **keys}}}))
    done = subprocess.run([BINARY, "check", path], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and f"programs.sh.{where}" in done.stderr + done.stdout, done


NO_DEVICE = "cannot open /dev/ptmx: No such file or directory; is /dev/pts mounted?"


def without_terminals(area):
    """A directory to be seen at /dev: no /dev/ptmx, and as a file what everything else here takes for /dev/null."""
    directory = area / "dev"
    directory.mkdir()
    (directory / "null").touch()
    return directory


def test_no_terminals_at_the_start(as_pid1, area):
    """The configuration is no good there, as long as it asks for one."""
    configuration = as_pid1.configuration()
    configuration.write_text(json.dumps({"programs": {"sh": SHELL}}))
    launcher = as_pid1.launch(configuration, place=["--bind", f"{without_terminals(area)}:/dev"])
    assert launcher.wait_for_event("configuration-rejected")["errors"] == [f"programs.sh.tty: {NO_DEVICE}"]
    configuration.write_text(json.dumps({"programs": {"plain": {"command": [str(as_pid1.probe), "until:15"]}}}))
    launcher.wait_for_event("process-started", program="plain")
    assert len(launcher.events_named("configuration-rejected")) == 1  # not again as soon as the file is watched
    assert not launcher.events_named("process-start-failed")
    assert launcher.stop() == Exit(code=0)


def test_terminals_go_away_and_come_back(run, area):
    """A start fails as any other does, and is tried again; a new configuration is refused; nobody else notices."""
    programs = {"plain": ["trap", "until:15"], "sh": {**SHELL, "autoStart": False, "backoff": {**AT_ONCE, "max": "20ms"}}}
    controlled = run(programs)
    launcher = controlled.launcher
    pid = controlled.running("plain")
    change = launcher.enter("mount")
    subprocess.run([*change, "mount", "--bind", str(without_terminals(area)), "/dev"], check=True)
    controlled.ctl("start", "--no-wait", "sh")
    for _ in range(3):
        failed = launcher.wait_for_event("process-start-failed", program="sh")
        assert failed["error"] == "open a terminal of its own (/dev/ptmx): No such file or directory"
        assert failed["errno"] == errno.ENOENT and failed["restart_in_seconds"] > 0
    assert "cannot open a terminal of its own (/dev/ptmx): No such file or directory" in controlled.ctl("status", "sh")
    done = attach(controlled, "sh")
    assert done.returncode == 1 and b"sh:1 does not run" in done.stderr, done

    controlled.configure({**programs, "other": SHELL})
    assert f".tty: {NO_DEVICE}" in controlled.ctl("reload", expect=1)
    assert controlled.pid("plain") == pid and "other" not in controlled.status()

    subprocess.run([*change, "umount", "/dev"], check=True)
    controlled.ctl("wait", "sh", "--for", "up")
    done = attach(controlled, "sh", keys="stty -echo\necho back-$((40+2)); exit\n")
    assert b"back-42" in done.stdout, done
    assert controlled.pid("plain") == pid
    assert launcher.stop() == Exit(code=0)

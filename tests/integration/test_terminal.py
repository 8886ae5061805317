"""Both modes on a terminal: foreground, job control, hang-up. The terminal is a pty of the test's own."""

import json
import os
import pty
import re
import signal

import pytest

from harness.process import VERSION, Exit, Stream, eventually

TRAP = ("trap", "say:up", "wait")
UP = ("trap", "say:up", "until:15")
INTERRUPT, SUSPEND, QUIT = b"\x03", b"\x1a", b"\x1c"


class Terminal:
    """A pty: tests write keys and read the screen, the launcher has the other end."""

    def __init__(self):
        self.keys, self.end = pty.openpty()
        self.screen = None

    def start(self, starter, launch, *arguments, place=(), **how):
        """Starts a launcher as the leader of a session that this is the terminal of."""
        launcher = launch(*arguments, stdin=self.end, stdout=self.end, place=["--terminal", *place], **how)
        os.close(self.end)
        self.end = -1
        self.screen = launcher.events = Stream(self.keys)
        return launcher

    def press(self, key):
        os.write(self.keys, key)

    def close(self):
        for fd in (self.keys, self.end):
            if fd >= 0:
                os.close(fd)
        self.keys = self.end = -1


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    made.close()


def stat_fields(launcher, line):
    """Of a process: state, parent, process group, session, terminal, the terminal's foreground group."""
    return launcher.proc(line["pid"]).joinpath("stat").read_text().rsplit(")", 1)[1].split()


def state(launcher, line):
    return stat_fields(launcher, line)[0]


# --- wrap mode


def test_command_has_the_foreground(place, terminal):
    """Pitfall 9: before its first instruction, in a group of its own."""
    launcher = terminal.start(place, place.wrap, "report")
    report = launcher.wait_for_probe("report")
    assert report["pgid"] == report["pid"] == report["foreground"]


def test_command_may_read_the_terminal(place, terminal):
    launcher = terminal.start(place, place.start, "--", "/bin/sh", "-c", "read line; echo got-$line")
    terminal.press(b"typed\n")
    launcher.wait_for_text("got-typed")
    assert launcher.wait() == Exit(code=0)


@pytest.mark.parametrize("key, number", [(INTERRUPT, signal.SIGINT), (QUIT, signal.SIGQUIT)], ids=["^C", "^\\"])
@pytest.mark.parametrize("options", [[], ["-g"]], ids=["child", "group"])
def test_key_reaches_the_command_once(place, terminal, key, number, options):
    """Pitfall 9: from the terminal, and not a second time from us."""
    launcher = terminal.start(place, place.wrap, *TRAP, options=options)
    launcher.wait_up()
    terminal.press(key)
    launcher.wait_signal(number)
    launcher.signal(signal.SIGUSR1)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGUSR1


def test_setsid_gives_the_terminal_to_the_new_session(place, terminal):
    """Pitfall 9: letting go of the terminal sends HUP and CONT to its foreground group: not to be forwarded."""
    launcher = terminal.start(place, place.wrap, "report", *TRAP, options=["--setsid"])
    report = launcher.wait_for_probe("report")
    assert report["sid"] == report["pid"] == report["foreground"]
    launcher.wait_up()
    launcher.signal(signal.SIGUSR1)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGUSR1
    terminal.press(INTERRUPT)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGINT


def test_setsid_leaves_the_terminal_to_the_session_that_has_it(as_child, terminal):
    """What we do not lead we cannot hand on; root could take it away from the shell above us."""
    script = f"{as_child.binary} --setsid -- {as_child.probe} report; read line </dev/tty; echo got-$line"
    launcher = terminal.start(as_child, as_child.start, "-c", script, binary="/bin/bash")
    assert launcher.wait_for_probe("report")["foreground"] == -1
    terminal.press(b"typed\n")
    launcher.wait_for_text("got-typed")
    assert launcher.wait() == Exit(code=0)


def test_command_without_a_terminal_gets_a_group_and_no_foreground(place):
    report = place.wrap("report").wait_for_probe("report")
    assert report["pgid"] == report["pid"]
    assert report["foreground"] == -1


def shell_job(terminal, starter, command):
    """An interactive shell on the terminal that is given a job."""
    launcher = terminal.start(starter, starter.start, "--norc", "--noprofile", "-i", binary="/bin/bash",
                              env={"PS1": "ready> ", "TERM": "dumb"})
    terminal.press(b"set +o emacs; echo shell-$((40+2))\n")
    launcher.wait_for_text("shell-42")
    terminal.press(command.encode() + b"\n")
    return launcher


def is_suspended_and_resumed(terminal, launcher, line):
    """By ^Z and fg in a shell, which has the terminal in between."""
    terminal.press(SUSPEND)
    eventually(lambda: state(launcher, line) == "T", "the command stops")
    terminal.press(b"echo prompt-$((40+3))\n")
    launcher.wait_for_text("prompt-43")
    terminal.press(b"fg\n")
    eventually(lambda: state(launcher, line) == "S", "the command goes on")
    terminal.press(INTERRUPT)
    eventually(lambda: not launcher.is_alive(line["pid"]), "^C ends it: it has the foreground again")
    terminal.press(b"echo code-$?\n")
    launcher.wait_for_text("code-130")


def test_suspend_and_foreground_in_a_shell(as_child, terminal):
    """Pitfall 9: ^Z stops the command and us, so that the shell's prompt comes back; fg continues both."""
    launcher = shell_job(terminal, as_child, f"{as_child.binary} -- {as_child.probe} say:up sleep:600000")
    line = launcher.wait_up()
    is_suspended_and_resumed(terminal, launcher, line)


def test_background_in_a_shell(as_child, terminal):
    """Pitfall 9: after bg the command runs on in the background, and the shell keeps the terminal."""
    launcher = shell_job(terminal, as_child, f"{as_child.binary} -- {as_child.probe} say:up sleep:600000")
    line = launcher.wait_up()
    terminal.press(SUSPEND)
    eventually(lambda: state(launcher, line) == "T", "the command stops")
    terminal.press(b"bg; echo prompt-$((40+4))\n")
    launcher.wait_for_text("prompt-44")
    eventually(lambda: state(launcher, line) == "S", "the command goes on")
    terminal.press(b"echo still-$((40+5))\n")
    launcher.wait_for_text("still-45")


def test_command_started_in_the_background_leaves_the_terminal_alone(as_child, terminal):
    """Pitfall 9: what the shell put into the background must not take the foreground."""
    launcher = shell_job(terminal, as_child, f"{as_child.binary} -- {as_child.probe} report say:up sleep:600000 &")
    report = launcher.wait_for_probe("report")
    assert report["foreground"] not in (report["pid"], report["pgid"])
    terminal.press(b"echo prompt-$((40+6))\n")
    launcher.wait_for_text("prompt-46")


@pytest.mark.parametrize("command", ["true", "/nonexistent/command"])
def test_terminal_is_given_back_at_the_end(as_child, terminal, command):
    """It stayed with the command's group, which was gone: whoever shares our group, a script for example, read EIO."""
    script = f"{as_child.binary} -- {command}; read line </dev/tty; echo got-$line"
    launcher = terminal.start(as_child, as_child.start, "-c", script, binary="/bin/bash")
    terminal.press(b"typed\n")
    launcher.wait_for_text("got-typed")
    assert launcher.wait() == Exit(code=0)


def test_terminal_is_given_back_while_the_command_is_stopped(as_child, terminal):
    """A script shares our group, and does not take the terminal by itself: it has it until we are continued."""
    script = f"{as_child.binary} -- {as_child.probe} say:up sleep:600000; echo code-$?"
    launcher = terminal.start(as_child, as_child.start, "-c", script, binary="/bin/bash")
    line = launcher.wait_up()
    fields = stat_fields(launcher, line)
    above = {"pid": int(fields[1])}
    assert fields[5] == fields[2], "the command's group has the foreground"
    terminal.press(SUSPEND)
    eventually(lambda: state(launcher, line) == state(launcher, above) == "T", "both stop")
    fields = stat_fields(launcher, above)
    assert fields[5] == fields[2], "our group has the foreground"
    launcher.signal_inside(above["pid"], signal.SIGCONT)
    eventually(lambda: state(launcher, line) == "S", "the command goes on")
    terminal.press(INTERRUPT)
    launcher.wait_for_text("code-130")


def test_command_that_reads_in_the_background_has_the_terminal_after_fg(as_child, terminal):
    """The terminal stayed with our group: the command was stopped at each try to read, and no key did anything."""
    command = f"/bin/sh -c '{as_child.probe} report; read line; echo got-$line'"
    launcher = shell_job(terminal, as_child, f"{as_child.binary} -- {command} &")
    reader = {"pid": launcher.wait_for_probe("report")["ppid"]}
    above = {"pid": int(stat_fields(launcher, reader)[1])}
    eventually(lambda: state(launcher, reader) == state(launcher, above) == "T", "both stop when it reads")
    terminal.press(b"fg\n")
    terminal.press(b"typed\n")
    launcher.wait_for_text("got-typed")
    terminal.press(b"echo prompt-$((40+7))\n")
    launcher.wait_for_text("prompt-47")


def test_keys_reach_a_command_after_fg(as_child, terminal):
    """The same for one that does not read: it was continued at each ^Z, so that no prompt came back."""
    launcher = shell_job(terminal, as_child, f"{as_child.binary} -- {as_child.probe} say:up sleep:600000 &")
    line = launcher.wait_up()
    terminal.press(b"fg\n")
    eventually(lambda: foreground_of(launcher) not in (-1, launcher.pid), "the shell puts the job into the foreground")
    terminal.press(SUSPEND)
    eventually(lambda: state(launcher, line) == "T", "the command stops")
    terminal.press(b"echo prompt-$((40+8))\n")
    launcher.wait_for_text("prompt-48")
    terminal.press(b"fg\n")
    eventually(lambda: state(launcher, line) == "S", "the command goes on")
    terminal.press(INTERRUPT)
    eventually(lambda: not launcher.is_alive(line["pid"]), "^C ends it")
    terminal.press(b"echo code-$?\n")
    launcher.wait_for_text("code-130")


def foreground_of(launcher):
    """The foreground process group of the shell's terminal."""
    with open(f"/proc/{launcher.pid}/stat", encoding="ascii") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[5])


def test_stopped_command_of_pid1_can_be_continued(as_pid1, terminal):
    """Pitfall 9: there is no shell above PID 1, which must not stop itself."""
    launcher = terminal.start(as_pid1, as_pid1.wrap, "say:up", "sleep:600000")
    line = launcher.wait_up()
    launcher.signal_inside(line["pid"], signal.SIGSTOP)
    eventually(lambda: state(launcher, line) == "T", "the command stops")
    launcher.signal(signal.SIGCONT)
    eventually(lambda: state(launcher, line) == "S", "the command goes on")
    assert not launcher.status()["State"].startswith("T")


def test_suspended_command_of_a_session_leader_can_be_continued(as_child, terminal):
    """docker exec -it, kubectl attach: no shell is above us. We stopped with the command, and nobody continued us."""
    launcher = terminal.start(as_child, as_child.wrap, "say:up", "sleep:600000")
    line = launcher.wait_up()
    terminal.press(SUSPEND)
    eventually(lambda: state(launcher, line) == "T", "the command stops")
    launcher.signal(signal.SIGTERM)
    launcher.signal_inside(line["pid"], signal.SIGCONT)
    assert launcher.wait() == Exit(code=128 + signal.SIGTERM)


def test_hang_up_reaches_the_command(place, terminal):
    """Pitfall 24: the terminal goes away; we live, forward the HUP, and end with the command."""
    launcher = terminal.start(place, place.wrap, "trap", "say:up", "until:1", "exit:9")
    launcher.wait_up()
    launcher.events = None
    terminal.close()
    launcher.wait_signal(signal.SIGHUP)
    assert launcher.wait() == Exit(code=9)


# --- launch mode


def test_human_log_on_a_terminal(place, terminal):
    launcher = terminal.start(place, place.launch, place.configuration(*UP), env={"NO_COLOR": "1"})
    text = launcher.wait_for_text("process 1 started")
    assert re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z info +process 1 started, pid \d+$", text), text


def test_json_on_a_terminal_when_asked_for(place, terminal):
    launcher = terminal.start(place, place.launch, place.configuration(*UP), "--log-format", "json")
    launcher.wait_for_event("process-started")


def test_interrupt_is_an_ordered_stop_and_no_signal_to_the_processes(place, terminal):
    """^C is for us; they are told by their stop signal, in order."""
    launcher = terminal.start(place, place.launch, place.configuration(*TRAP), "--stop-timeout", "1h", "--stop-limit",
                              "1h")
    launcher.wait_up()
    terminal.press(INTERRUPT)
    assert launcher.wait_for_probe("signal")["signal"] == signal.SIGTERM
    launcher.hurry(lambda: terminal.press(INTERRUPT))
    assert launcher.wait() == Exit(code=0)
    assert signal.SIGINT not in [line["signal"] for line in launcher.probe.all if line["probe"] == "signal"]


def test_suspend_stops_nobody_whom_no_shell_would_continue(place, terminal):
    """docker run -it, docker exec -it, kubectl attach: the launcher stopped, or stopped all processes, for ever."""
    launcher = terminal.start(place, place.launch, place.configuration(*TRAP))
    launcher.wait_up()
    terminal.press(SUSPEND)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        launcher.signal(number)
        launcher.wait_signal(number)
    assert signal.SIGTSTP not in [line["signal"] for line in launcher.probe.all if line["probe"] == "signal"]


def beside(starter, *steps):
    """A command line in the foreground of the terminal, in launch mode."""
    configuration = starter.configuration()
    configuration.write_text(json.dumps({"programs": {"web": {"command": [str(starter.probe), *UP]}}}))
    return " ".join((str(starter.binary), "--main-container-version", VERSION, "--control-socket", "none",
                     "--input-dir", str(configuration.directory), "--", str(starter.probe), *steps))


def test_suspend_and_foreground_in_launch_mode(as_child, terminal):
    """^Z stopped the command alone: the shell waited for us for ever."""
    launcher = shell_job(terminal, as_child, beside(as_child, "tag:command", "say:up", "sleep:600000"))
    line = launcher.wait_up(tag="command")
    is_suspended_and_resumed(terminal, launcher, line)


def test_program_in_the_background_of_a_shell_leaves_the_terminal_alone(as_child, terminal):
    """It took the foreground from the shell, which then read EIO or was stopped."""
    launcher = shell_job(terminal, as_child, beside(as_child, "report", "sleep:600000") + " &")
    report = launcher.wait_for_probe("report")
    assert report["foreground"] not in (report["pid"], report["pgid"])
    terminal.press(b"echo prompt-$((40+6))\n")
    launcher.wait_for_text("prompt-46")


def test_terminal_is_given_back_at_the_end_of_launch_mode(as_child, terminal):
    """Whoever shares our group, a script for example, read EIO."""
    script = beside(as_child, "exit:0") + "; read line </dev/tty; echo got-$line"
    launcher = terminal.start(as_child, as_child.start, "-c", script, binary="/bin/bash")
    terminal.press(b"typed\n")
    launcher.wait_for_text("got-typed")
    assert launcher.wait() == Exit(code=0)


def test_hang_up_stops_nothing(place, terminal):
    """Pitfall 24: EIO on the console, and a SIGHUP that only reads the configuration again."""
    launcher = terminal.start(place, place.launch, place.configuration(*TRAP), "--server-count", "2",
                              "--restart-delay", "2ms")
    launcher.wait_up(n=1)
    launcher.wait_up(n=2)
    launcher.events = None
    terminal.close()
    for _ in range(3):
        launcher.signal_inside(launcher.probe.all[-1]["pid"], signal.SIGKILL)
        launcher.wait_up()
    launcher.assert_running()
    launcher.signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGTERM)
    launcher.hurry()
    assert launcher.wait() == Exit(code=0)


def test_screen_that_nobody_reads_stops_nothing(place):
    """Its window hangs, or its log driver. A terminal tells that there is room, and a write to it waits all the same."""
    keys, end = pty.openpty()
    launcher = place.launch(place.configuration("say:up", "exit:1"), "--server-count", "5", "--restart-delay", "1ms",
                            "--restart-max-delay", "1ms", stdin=end, stdout=end, place=["--terminal"])
    os.close(end)
    launcher.events = None
    for _ in range(400):
        launcher.wait_up()
    launcher.signal(signal.SIGTERM)
    assert launcher.wait() == Exit(code=0)
    os.close(keys)


def test_frozen_screen_stops_nothing(place, terminal):
    """Pitfall 16 on a terminal: ^S holds output for as long as somebody likes."""
    launcher = terminal.start(place, place.launch, place.configuration("say:up", "exit:1"), "--server-count", "5",
                              "--restart-delay", "1ms", "--restart-max-delay", "1ms")
    launcher.wait_up()
    terminal.press(b"\x13")
    for _ in range(200):
        launcher.wait_up()
    launcher.signal(signal.SIGTERM)
    terminal.press(b"\x11")
    assert launcher.wait() == Exit(code=0)

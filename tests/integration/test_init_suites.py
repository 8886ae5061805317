"""What the suites of tini and dumb-init test, said again for our names, and for those programs where they are installed:
what holds for them is what a drop-in has to do. Their texts are not tested, but for those that others read."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.process import BINARY, TIMEOUT, eventually, signal_mask

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
NORMAL = [number for number in range(1, 32) if number not in (
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)]

# Each prints what happens to it, a line each time.
PRINT_SIGNALS = """
import os, signal
held = set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
signal.pthread_sigmask(signal.SIG_BLOCK, held)
print("ready", os.getpid(), flush=True)
while True:
    print(int(signal.sigwait(held)), flush=True)
"""
ORPHANS = """
import os, signal
for _ in range(5):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
for _ in range(5):
    os.wait()
def left():
    own = os.getppid()
    stats = [open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split() for entry in os.listdir("/proc")
             if entry.isdigit() and os.path.exists(f"/proc/{entry}/stat")]
    return [stat for stat in stats if int(stat[1]) == own and stat[0] == "Z"]
for _ in range(4000):
    try:
        if not left():
            raise SystemExit(0)
    except (FileNotFoundError, ProcessLookupError):
        pass
    signal.sigtimedwait([], 0.005)
raise SystemExit(1)
"""


@pytest.fixture(params=["ours", "theirs"])
def named(request, area):
    """A function from a name to the program under it: ours through a link, or the one that is installed."""
    def find(name):
        if request.param == "theirs":
            return shutil.which(name) or pytest.skip(f"{name} is not installed")
        link = area / name
        if not link.exists():
            link.symlink_to(BINARY)
        return str(link)
    return find


@pytest.fixture
def start():
    """Starts a command as subprocess does; what still runs at the end of the test is ended."""
    running = []

    def begin(*command, env=None, **how):
        process = subprocess.Popen([str(word) for word in command], env={**ENVIRONMENT, **(env or {})},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, **how)
        running.append(process)
        return process
    yield begin
    for process in running:
        for pid in [*descendants(process.pid), process.pid]:
            if process.poll() is None or pid != process.pid:
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)


def descendants(pid):
    """Of a process that this one has started and not reaped."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [one for child in children for one in (*descendants(child), child)]


def code_of(process):
    process.communicate(timeout=TIMEOUT)
    return process.returncode


def line_of(process):
    return process.stdout.readline().rstrip("\n")


# --- tini


@pytest.mark.parametrize("code", [0, 1, 2, 31, 32, 126, 127, 128, 143, 254, 255])
def test_tini_remaps_exactly_the_codes_that_it_is_told(named, start, code):
    command = ["sh", "-c", f"exit {code}"]
    assert code_of(start(named("tini"), "-e", code, "--", *command)) == 0
    others = [word for other in range(256) if other != code for word in ("-e", other)]
    assert code_of(start(named("tini"), *others, "--", *command)) == code


@pytest.mark.parametrize("how", [{"options": ["-s"]}, {"env": {"TINI_SUBREAPER": ""}}], ids=["option", "variable"])
@pytest.mark.parametrize("warns", [False, True], ids=["quiet", "-w"])
def test_tini_reaps_what_comes_to_it(named, start, how, warns):
    process = start(named("tini"), *how.get("options", []), *["-w"][:warns], "--", sys.executable, "-c", ORPHANS,
                    env=how.get("env"))
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors
    assert ("Reaped zombie process with pid=" in errors) == warns
    assert "zombie reaping won't work" not in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_tini_ends_as_a_shell_says_it(named, start, number):
    process = start(named("tini"), "-s", "--", "sh", "-c", "echo up; exec sleep 1000")
    assert line_of(process) == "up"
    process.send_signal(number)
    assert code_of(process) == 128 + number


@pytest.mark.parametrize("how", [{"options": ["-g"]}, {"env": {"TINI_KILL_PROCESS_GROUP": "1"}}],
                         ids=["option", "variable"])
def test_tini_tells_the_group(named, start, how):
    """The command ignores the signal, and ends because its child does not."""
    inner = "import signal; signal.signal(signal.SIGUSR1, signal.SIG_DFL); print('up', flush=True); signal.pause()"
    outer = ("import signal, subprocess, sys; signal.signal(signal.SIGUSR1, signal.SIG_IGN); "
             "raise SystemExit(-subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)")
    process = start(named("tini"), "-s", *how.get("options", []), "--", sys.executable, "-c", outer, inner,
                    env=how.get("env"))
    assert line_of(process) == "up"
    process.send_signal(signal.SIGUSR1)
    assert code_of(process) == signal.SIGUSR1


def test_tini_hands_on_what_is_ignored_and_blocked(named, start):
    ignored, blocked = {signal.SIGTTOU, signal.SIGSEGV, signal.SIGINT}, {signal.SIGTTIN, signal.SIGILL, signal.SIGTERM}

    def configure():
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    # A sanitizer's runtime takes SIGSEGV for itself.
    process = start(named("tini"), "-s", "--", "cat", "/proc/self/status", preexec_fn=configure,
                    env={"ASAN_OPTIONS": "handle_segv=0"})
    output, _ = process.communicate(timeout=TIMEOUT)
    status = {key: value.strip() for key, _, value in (line.partition(":") for line in output.splitlines())}
    assert ignored <= signal_mask(status, "SigIgn")
    assert blocked <= signal_mask(status, "SigBlk")


def test_tini_hears_of_its_parents_death(named, start):
    """What starts it ends; the command gets the signal that was asked for."""
    child = ("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); print('up', flush=True); "
             "print(int(signal.sigwait([signal.SIGUSR1])), flush=True)")
    process = start(sys.executable, "-c", "import sys, signal, subprocess\nsubprocess.Popen(sys.argv[1:])\n"
                    "signal.pause()", named("tini"), "-s", "-p", "SIGUSR1", "--", sys.executable, "-c", child)
    assert line_of(process) == "up"
    process.kill()
    assert line_of(process) == str(int(signal.SIGUSR1))


@pytest.mark.parametrize("arguments, code", [(["-z"], 1), (["--", "zzzz"], 127), (["-h"], 0), (["-l"], 0),
                                             (["--version"], 0), ([], 1)], ids=str)
def test_tini_says_by_its_code_what_is_wrong(named, start, arguments, code):
    assert code_of(start(named("tini"), *arguments)) == code


def test_tini_as_its_usage_line_has_it(named, start):
    process = start(named("tini"), "-s", "echo", "--", "a", "b")
    assert process.communicate(timeout=TIMEOUT)[0] == "a b\n"


def long_name(area):
    return "a" * 300


def below_a_file(area):
    (area / "file").touch()
    return area / "file" / "command"


def loop_of_links(area):
    (area / "loop").symlink_to("loop")
    return area / "loop"


def no_executable(area):
    (area / "text").write_text("#!/bin/true\n")
    return area / "text"


def nothing(area):
    return area / "nothing"


CANNOT_BE_EXECUTED = [(nothing, 127), (no_executable, 126), (below_a_file, 1), (loop_of_links, 1), (long_name, 1)]


@pytest.mark.parametrize("make, code", CANNOT_BE_EXECUTED)
@pytest.mark.parametrize("is_remapped", [False, True], ids=["", "remapped"])
def test_tini_ends_for_a_command_that_it_cannot_execute(named, start, area, make, code, is_remapped):
    """Its child has that code, so -e counts for it."""
    options = ["-e", code] if is_remapped else ["-e", code + 1]
    assert code_of(start(named("tini"), "-s", *options, "--", make(area))) == (0 if is_remapped else code)


@pytest.mark.parametrize("make, code", CANNOT_BE_EXECUTED)
def test_catatonit_ends_for_a_command_that_it_cannot_execute(named, start, area, make, code):
    assert code_of(start(named("catatonit"), "--", make(area))) == 1


@pytest.mark.parametrize("name", ["tini", "catatonit"])
def test_the_separator_after_the_command_goes(named, start, name):
    """tini's usage line has it there, and getopt(3) of both takes it away."""
    process = start(named(name), "echo", "--", "a", "--")
    assert process.communicate(timeout=TIMEOUT)[0] == "a --\n"


# --- dumb-init


@pytest.fixture(params=[{}, {"DUMB_INIT_DEBUG": "1"}], ids=["quiet", "debug"])
def debug(request):
    return request.param


@pytest.fixture(params=[{}, {"DUMB_INIT_SETSID": "0"}], ids=["setsid", "single child"])
def mode(request):
    return request.param


@pytest.fixture
def printing(named, start):
    """dumb-init with a child that prints each signal."""
    def begin(*options, env):
        process = start(named("dumb-init"), *options, sys.executable, "-c", PRINT_SIGNALS, env=env)
        assert line_of(process).startswith("ready ")
        return process
    return begin


def exchange(process, sent, received):
    for send, expect in zip(sent, received, strict=True):
        process.send_signal(send)
        assert line_of(process) == str(int(expect))


def test_dumb_init_forwards_every_signal(printing, debug, mode):
    exchange(printing(env=debug | mode), NORMAL, NORMAL)


def test_dumb_init_forwards_real_time_signals(named, start):
    child = ("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [34, 50, 64]); print('up', flush=True)\n"
             "while True: print(int(signal.sigwait([34, 50, 64])), flush=True)")
    process = start(named("dumb-init"), sys.executable, "-c", child)
    assert line_of(process) == "up"
    exchange(process, [34, 50, 64], [34, 50, 64])


TERM, INT, QUIT, CONT = signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGCONT


@pytest.mark.parametrize("rewrites, sent, received", [
    ({TERM: INT}, [TERM, QUIT, CONT, INT], [INT, QUIT, CONT, INT]),
    ({TERM: INT, INT: TERM, QUIT: QUIT}, [TERM, QUIT, CONT, INT], [INT, QUIT, CONT, TERM]),
    ({1: 31, 31: 1}, [1, 31], [31, 1])], ids=["one", "exchanged", "lowest and highest"])
def test_dumb_init_rewrites(printing, debug, mode, rewrites, sent, received):
    options = [word for pair in rewrites.items() for word in ("-r", "{:d}:{:d}".format(*pair))]
    exchange(printing(*options, env=debug | mode), sent, received)


def test_dumb_init_drops_what_is_rewritten_to_nothing(printing, debug, mode):
    process = printing("-r", "15:3", "-r", "2:0", "-r", "28:0", env=debug | mode)
    for number in (TERM, INT):
        process.send_signal(number)
    assert line_of(process) == str(int(QUIT))
    for number in (signal.SIGWINCH, signal.SIGHUP):
        process.send_signal(number)
    assert line_of(process) == str(int(signal.SIGHUP))


def test_dumb_init_leaves_the_directory_and_its_child_does_not(named, start, area, debug, mode):
    program = named("dumb-init")
    process = start(program, "sh", "-c", "echo up; exec sleep 1000", env=debug | mode, cwd=area)
    assert line_of(process) == "up"
    eventually(lambda: os.readlink(f"/proc/{process.pid}/cwd") == "/", "the init is in /")
    child, = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert os.readlink(f"/proc/{child}/cwd") == str(area)


def test_dumb_init_tells_a_whole_pipeline(named, start, debug, mode):
    process = start(named("dumb-init"), "sh", "-c", "sleep 1000 | cat & sleep 1000 | cat; exit 1", env=debug | mode)
    eventually(lambda: len(descendants(process.pid)) == 5, "all of it runs")
    pids = descendants(process.pid)
    process.send_signal(TERM)
    process.wait(TIMEOUT)
    if not mode:
        eventually(lambda: not any(map(is_alive, pids)), "all of it ends")
        return
    living = list(filter(is_alive, pids))
    assert len(living) == 4, "the shell alone was told"
    for pid in living:
        os.kill(pid, signal.SIGKILL)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_dumb_init_at_the_end_tells_the_session_alone(named, start, debug, mode):
    """A shell leaves a process behind: it gets TERM, unless there is no session of dumb-init's."""
    script = f"'{sys.executable}' -c \"$1\" & read line <&9; exit 0"
    read_end, write_end = os.pipe()
    process = start(named("dumb-init"), "bash", "-c", script, "bash", PRINT_SIGNALS, env=debug | mode,
                    preexec_fn=lambda: os.dup2(read_end, 9), pass_fds=(9, read_end))
    os.close(read_end)
    left = int(line_of(process).removeprefix("ready "))
    os.write(write_end, b"go on\n")
    os.close(write_end)
    assert process.wait(TIMEOUT) == 0
    if mode:
        for number in (signal.SIGHUP, INT, QUIT):
            os.kill(left, number)
            assert line_of(process) == str(int(number))
    else:
        assert line_of(process) == str(int(TERM))
    os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("arguments", [["/doesnotexist"], ["--", "/doesnotexist"], ["-c", "/doesnotexist"],
                                       ["--single-child", "--", "/doesnotexist"]], ids=" ".join)
def test_dumb_init_says_what_it_cannot_start(named, start, debug, mode, arguments):
    process = start(named("dumb-init"), *arguments, env=debug | mode)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode != 0
    assert "[dumb-init] /doesnotexist: No such file or directory\n" in errors


@pytest.mark.parametrize("code", [0, 1, 2, 32, 64, 127, 254, 255])
def test_dumb_init_ends_with_the_code(named, start, debug, mode, code):
    assert code_of(start(named("dumb-init"), "sh", "-c", f"exit {code}", env=debug | mode)) == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL])
def test_dumb_init_ends_as_a_shell_says_it(named, start, debug, mode, number):
    process = start(named("dumb-init"), "sh", "-c", f"kill -{int(number)} $$", env=debug | mode)
    assert code_of(process) == 128 + number


@pytest.mark.parametrize("option", ["-h", "--help", "-V", "--version"])
def test_dumb_init_informs(named, start, option):
    process = start(named("dumb-init"), option)
    output = "".join(process.communicate(timeout=TIMEOUT))
    assert process.returncode == 0 and re.search(r"\d+\.\d+\.\d+|[Uu]sage", output)

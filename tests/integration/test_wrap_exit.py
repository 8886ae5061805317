"""Wrap mode: how we end tells how the command ended."""

import errno
import os
import signal

import pytest

from harness.process import NO_LEAK_SEARCH, Exit, run_plainly

DEADLY = [number for number in range(1, 65)
          if number not in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT,
                            signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH)]


def test_every_exit_code_passes_through(place):
    for code in range(256):
        launcher = place.wrap(f"exit:{code}")
        assert launcher.wait() == Exit(code=code)
        launcher.close()


def test_death_by_every_signal_is_128_plus_its_number(place):
    for number in DEADLY:
        launcher = place.wrap(f"die:{number}")
        assert launcher.wait() == Exit(code=128 + number), number
        launcher.close()


@pytest.mark.parametrize("options, step, code", [
    (["-e", "143"], "die:15", 0),
    (["--remap-exit", "143"], "die:15", 0),
    (["--remap-exit=143"], "die:15", 0),
    (["-e143"], "die:15", 0),
    (["-e", "143", "-e", "7"], "exit:7", 0),
    (["-e", "143"], "exit:143", 0),
    (["-e", "143"], "exit:142", 142),
    (["-e", "0"], "exit:0", 0),
    (["-e", "255"], "exit:255", 0),
])
def test_remapped_exit_codes(place, options, step, code):
    assert place.wrap(step, options=options).wait() == Exit(code=code)


def wrap_file(place, path, *arguments):
    launcher = place.start("--", path, *arguments)
    return launcher.wait(), launcher.errors()


def test_missing_command_is_127(place):
    """Pitfall 13: what could not be executed is said, with the reason, on one line."""
    code, errors = wrap_file(place, "/nonexistent/command")
    assert code == Exit(code=127)
    assert errors.count("\n") == 1
    assert "/nonexistent/command" in errors and os.strerror(errno.ENOENT) in errors


def test_command_missing_in_path_is_127(place):
    code, errors = wrap_file(place, "no-such-command-anywhere")
    assert code == Exit(code=127)
    assert "no-such-command-anywhere" in errors and errors.count("\n") == 1


def test_command_that_exits_127_says_nothing(place):
    """Pitfall 13: a program's own 127 is not a failure to execute."""
    launcher = place.wrap("exit:127")
    assert launcher.wait() == Exit(code=127)
    assert launcher.errors() == ""


def not_executable(path):
    path.write_text("#!/bin/true\n")


def directory(path):
    path.mkdir()


def wrong_interpreter_permissions(path):
    not_executable(path.with_suffix(".interpreter"))
    path.write_text(f"#!{path.with_suffix('.interpreter')}\n")
    path.chmod(0o755)


def loop_of_links(path):
    path.symlink_to(path.name)


@pytest.mark.parametrize("make, code", [(not_executable, errno.EACCES), (directory, errno.EACCES),
                                        (wrong_interpreter_permissions, errno.EACCES), (loop_of_links, errno.ELOOP)])
def test_command_that_cannot_be_executed_is_126(place, make, code):
    """Pitfall 13."""
    path = place.area / "command"
    make(path)
    end, errors = wrap_file(place, path)
    assert end == Exit(code=126)
    assert str(path) in errors and os.strerror(code) in errors and errors.count("\n") == 1


def test_busy_text_is_126(place):
    path = place.area / "command"
    path.write_bytes(place.probe.read_bytes())
    path.chmod(0o755)
    with open(path, "ab"):
        end, errors = wrap_file(place, path)
    if end == Exit(code=0):
        pytest.skip("this kernel executes files that are open for writing")
    assert end == Exit(code=126)
    assert os.strerror(errno.ETXTBSY) in errors


def test_missing_interpreter_is_127(place):
    """execve says ENOENT for the script; the shells' code for that is 127 as well."""
    path = place.area / "command"
    path.write_text("#!/nonexistent/interpreter\n")
    path.chmod(0o755)
    end, errors = wrap_file(place, path)
    assert end == Exit(code=127)
    assert str(path) in errors


def test_script_without_interpreter_line_runs_in_sh(place):
    """As execvp does: ENOEXEC means that /bin/sh reads the file."""
    path = place.area / "script"
    path.write_text(f'exec "{place.probe}" report "$0" "$1" "exit:5" 2>/dev/null\n')
    path.chmod(0o755)
    launcher = place.start("--", path, "exit:9")
    report = launcher.wait_for_probe("report")
    assert report["argv"][2:4] == [str(path), "exit:9"]


def test_script_in_path_without_interpreter_line_runs_in_sh(place):
    path = place.area / "script-in-path"
    path.write_text("exit 6\n")
    path.chmod(0o755)
    launcher = place.start("--", "script-in-path", env={"PATH": f"/nonexistent:{place.area}:/bin"})
    assert launcher.wait() == Exit(code=6)


def test_path_search_goes_on_after_a_file_that_may_not_be_executed(place):
    """As execvp does: EACCES in one directory is remembered, and the search goes on."""
    first = place.area / "first"
    first.mkdir()
    not_executable(first / "true")
    launcher = place.start("--", "true", env={"PATH": f"{first}:/bin"})
    assert launcher.wait() == Exit(code=0)
    launcher = place.start("--", "true", env={"PATH": str(first)})
    assert launcher.wait() == Exit(code=126)


def test_command_without_path_variable_is_found(place):
    """As execvp does: an unset PATH means the system's default."""
    launcher = place.start("--", "/usr/bin/env", "-u", "PATH", place.binary, "--", "true")
    assert launcher.wait() == Exit(code=0)


def test_current_directory_in_path(place):
    """As execvp does: an empty element is the current directory."""
    script = place.area / "here"
    script.write_text("#!/bin/sh\nexit 8\n")
    script.chmod(0o755)
    launcher = place.start("--", "here", env={"PATH": ":/bin"}, place=["--directory", str(place.area)])
    assert launcher.wait() == Exit(code=8)


def test_fork_that_fails_is_told(place, needs_root):
    """EAGAIN from RLIMIT_NPROC, for a user that nobody else is."""
    launcher = place.wrap("exit:0", place=["--uid", "48154", "--processes", "1"], env=NO_LEAK_SEARCH)
    assert launcher.wait() == Exit(code=1)
    assert os.strerror(errno.EAGAIN) in launcher.errors() and launcher.errors().count("\n") == 1


def test_our_end_leaves_no_zombie_command(as_child):
    launcher = as_child.wrap("exit:0")
    launcher.wait()
    assert launcher.zombies() == []


def test_exit_code_survives_an_ignored_sigchld(place):
    """Pitfall 7: with SIGCHLD ignored by our parent the kernel would reap the command, and its code would be gone."""
    launcher = place.wrap("report", "exit:5", place=["--ignore", "17"])
    assert launcher.wait_for_probe("report")["ignored"] == 1 << 16
    assert launcher.wait() == Exit(code=5)


def test_exit_code_survives_a_storm_of_orphans(place):
    """Pitfall 2: one SIGCHLD, many deaths, and ours among them."""
    for _ in range(5):
        launcher = place.wrap("orphans:200", "exit:42", options=["-s"])
        assert launcher.wait() == Exit(code=42)


def test_standard_streams_are_the_commands(place):
    read_end, write_end = os.pipe()
    os.write(write_end, b"through\n")
    os.close(write_end)
    launcher = place.start("--", "/bin/cat", stdin=read_end)
    os.close(read_end)
    launcher.wait_for_text("through")
    assert launcher.wait() == Exit(code=0)


def test_runs_in_no_namespace_at_all():
    assert run_plainly("--", "/bin/sh", "-c", "exit 3").returncode == 3

"""Wrap mode: what the command inherits is what we were given, and nothing of ours."""

import os
import select

import pytest

from harness.process import NICE, Exit, eventually, many_files


def test_extra_descriptors_pass_through(place):
    """Pitfall 7: a drop-in hands on what it was given; shells and socket activation rely on it."""
    report = place.wrap("report", place=["--fd", "7", "--fd", "100"]).wait_for_probe("report")
    assert report["fds"] == [0, 1, 2, 7, 100]


def test_no_descriptor_of_ours_leaks(place):
    """Pitfall 7."""
    report = place.wrap("report", options=["-s", "-v", "-w", "--stop-timeout", "5s"]).wait_for_probe("report")
    assert report["fds"] == [0, 1, 2]


@pytest.mark.parametrize("refused", [[], ["--deny-close-range"]], ids=["new", "old"])
def test_our_copies_of_the_commands_descriptors_are_closed(place, refused):
    """Pitfall 7: a socket or pipe that the command closes must really be closed, hence not be kept open by us. Linux
    before 5.9 does not have close_range(2), and a seccomp profile may refuse it."""
    read_end, write_end = os.pipe()
    launcher = place.wrap("trap", f"close:{write_end}", "say:up", "wait", pass_fds=[write_end], place=refused)
    os.close(write_end)
    launcher.wait_up()
    assert select.select([read_end], [], [], 10)[0], "the launcher keeps the descriptor open"
    assert os.read(read_end, 1) == b""
    os.close(read_end)


@pytest.mark.parametrize("closed", [["0"], ["1"], ["2"], ["0", "1", "2"]], ids=",".join)
def test_closed_standard_descriptors_break_nothing(place, closed):
    """A descriptor of ours that lands on 0, 1 or 2 must not be mistaken for the command's stream."""
    options = [word for fd in closed for word in ("--close", fd)]
    launcher = place.wrap("report", "exit:3", place=options)
    report = launcher.wait_for_probe("report")
    assert set(report["fds"]) <= {0, 1, 2}
    assert launcher.wait() == Exit(code=3)


def test_listen_pid_is_the_commands(place):
    """Socket activation: LISTEN_PID names the process that may take the descriptors."""
    environment = {"LISTEN_FDS": "1", "LISTEN_PID": "1" if place.pid1 else "2", "LISTEN_FDNAMES": "web",
                   "PROBE_ENV": "LISTEN_PID LISTEN_FDS LISTEN_FDNAMES"}
    launcher = place.wrap("report", env=environment, place=["--fd", "3"])
    report = launcher.wait_for_probe("report")
    assert report["env"] == {"LISTEN_FDS": "1", "LISTEN_PID": str(report["pid"]), "LISTEN_FDNAMES": "web"}
    assert report["fds"] == [0, 1, 2, 3]


def test_listen_pid_of_somebody_else_stays(place):
    environment = {"LISTEN_FDS": "1", "LISTEN_PID": "4711", "LISTEN_PIDFDID": "12",
                   "PROBE_ENV": "LISTEN_PID LISTEN_PIDFDID"}
    report = place.wrap("report", env=environment).wait_for_probe("report")
    assert report["env"] == {"LISTEN_PID": "4711", "LISTEN_PIDFDID": "12"}


@pytest.mark.parametrize("is_first", [True, False])
def test_the_identity_behind_listen_pid_is_not_the_commands(place, is_first):
    """Newer systemd names the process twice. The second name would be ours."""
    identity = {"LISTEN_PIDFDID": "1234"}
    environment = {**(identity if is_first else {}), "LISTEN_FDS": "1", "LISTEN_PID": "1" if place.pid1 else "2",
                   **({} if is_first else identity), "LAST": "x",
                   "PROBE_ENV": "LISTEN_PID LISTEN_PIDFDID LISTEN_FDS LAST"}
    launcher = place.wrap("report", env=environment, place=["--fd", "3"])
    report = launcher.wait_for_probe("report")
    assert report["env"] == {"LISTEN_FDS": "1", "LISTEN_PID": str(report["pid"]), "LAST": "x"}


def test_umask_directory_and_environment_stay(place):
    launcher = place.wrap("report", env={"A": "b=c", "EMPTY": "", "PROBE_ENV": "A EMPTY"},
                          place=["--umask", "0137", "--directory", str(place.area)])
    report = launcher.wait_for_probe("report")
    assert (report["umask"], report["cwd"], report["env"]) == (0o137, str(place.area), {"A": "b=c", "EMPTY": ""})


def test_the_init_leaves_the_directory_of_the_start(place):
    """As dumb-init and catatonit: whoever wants to unmount it need not wait for the init."""
    launcher = place.wrap("say:up", "pause", place=["--directory", str(place.area)])
    line = launcher.wait_up()
    eventually(lambda: os.readlink(f"/proc/{launcher.pid}/cwd") == "/", "the init is in /")
    assert os.readlink(launcher.proc(line["pid"]) / "cwd") == str(place.area)


def test_limits_priority_and_oom_score_stay(place):
    """Pitfall 7: what we would raise for ourselves is not raised for the command."""
    report = place.wrap("report", place=["--files", "123", "--nice", NICE, "--oom", "321"]).wait_for_probe("report")
    assert (report["files"], report["nice"], report["oom"].strip()) == (123, int(NICE), "321")


def test_cgroup_stays(place):
    """Pitfall 23: we never move ourselves or anybody into another cgroup."""
    report = place.wrap("report").wait_for_probe("report")
    with open("/proc/self/cgroup", encoding="ascii") as own:
        assert report["cgroup"] == own.read()


def test_arguments_are_handed_on_byte_for_byte(place):
    odd = ["say:a b", "say:", 'say:"quoted"', "say:$HOME", "say:--", "say:ü"]
    launcher = place.wrap("report", *odd, "--")
    report = launcher.wait_for_probe("report")
    assert report["argv"] == [str(place.probe), "report", *odd, "--"]


def test_options_of_the_command_are_not_ours(place):
    launcher = place.start("--", "/bin/echo", "-g", "--version", "--help", "--", "-v")
    launcher.wait_for_text("-g --version --help -- -v")
    assert launcher.wait() == Exit(code=0)


def test_no_loop_over_all_descriptors(place):
    """Pitfall 8: a loop up to RLIMIT_NOFILE takes minutes where a runtime has raised that to 2^30."""
    launcher = place.wrap("report", "exit:0", place=["--deny-far-close", "--fd", "7", *many_files()])
    assert launcher.wait_for_probe("report")["files"] > 4096
    assert launcher.wait() == Exit(code=0)


def test_group_of_its_own(place):
    """The command leads a group: -g reaches it all, and a kill(0) in it does not reach us."""
    report = place.wrap("report").wait_for_probe("report")
    assert report["pgid"] == report["pid"]


def test_setsid(place):
    report = place.wrap("report", options=["--setsid"]).wait_for_probe("report")
    assert report["sid"] == report["pid"]


def test_single_child_signals_only_the_command(place):
    """dumb-init's -c, whatever the group option says by environment."""
    launcher = place.wrap("trap", "child", "say:up", "wait", options=["-c"], env={"TRITON_LAUNCH_KILL_GROUP": "1"})
    launcher.wait_up(role="main")
    child = launcher.wait_up(role="child")
    launcher.signal(10)
    launcher.wait_signal(10, role="main")
    launcher.signal_inside(child["pid"], 12)
    assert launcher.wait_for_probe("signal", role="child")["signal"] == 12

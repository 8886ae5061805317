"""Paths in directories that belong to a program: it puts links and other files where the launcher expects its own."""

import contextlib
import os
import signal
import stat
import subprocess

import pytest

from harness.process import Exit, eventually
from harness.programs import probe, run, service

SOMEBODY = 4711  # owns the directory, and what is put there

pytestmark = pytest.mark.usefixtures("needs_root")


@pytest.fixture(name="theirs")
def make_theirs(area):
    """A directory of somebody else."""
    path = area / "theirs"
    path.mkdir()
    os.chown(path, SOMEBODY, SOMEBODY)
    return path


@pytest.fixture(name="victim")
def make_victim(area):
    """A file that only root may read; a test asserts that it stays as it is."""
    path = area / "victim"
    path.write_text("secret\n")
    path.chmod(0o600)
    yield path
    status = path.stat()
    assert (path.read_text(), stat.S_IMODE(status.st_mode), status.st_uid) == ("secret\n", 0o600, 0)


def put_link(path, target):
    """Puts a symbolic link of somebody else in the place of what is there."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    path.symlink_to(target)
    os.lchown(path, SOMEBODY, SOMEBODY)


def listening(path, **keys):
    """A program with a socket (or FIFO) of that path."""
    return service("web", sockets=[{"name": "s", "listen": path, **keys}])


@pytest.mark.parametrize("kind", ["unix", "unixgram", "fifo"])
def test_a_link_in_the_place_of_a_socket(place, theirs, victim, kind):
    path = theirs / "socket"
    launcher = run(place, {"web": listening(f"{kind}:{path}")})
    launcher.wait_up()
    put_link(path, victim)
    errors = launcher.reject({"web": listening(f"{kind}:{path}", mode="0666", user=SOMEBODY)})
    assert errors == [f"programs.web.sockets[0]: cannot listen on {kind}:{path}: "
                      "another file has replaced it"]
    assert launcher.stop() == Exit(code=0)
    assert path.is_symlink()


def test_another_file_in_the_place_of_a_socket(place, theirs, victim):
    """A hard link, where the kernel does not forbid it."""
    path = theirs / "socket"
    launcher = run(place, {"web": listening(f"unix:{path}")})
    launcher.wait_up()
    path.unlink()
    os.link(victim, path)
    assert launcher.reject({"web": listening(f"unix:{path}", mode="0666")})
    assert launcher.stop() == Exit(code=0)
    assert path.exists()


def test_a_link_on_the_way_to_a_socket(place, area, theirs):
    """The directory is exchanged for a link: nothing is made or removed behind it."""
    (area / "elsewhere").mkdir()
    put_link(theirs / "run", area / "elsewhere")
    launcher = run(place, {"web": service("web")})
    launcher.wait_up()
    assert launcher.reject({"web": listening(f"unix:{theirs}/run/socket")}) == [
        f"programs.web.sockets[0]: cannot listen on unix:{theirs}/run/socket: "
        f"run on the way is a symbolic link of user {SOMEBODY}"]
    assert launcher.stop() == Exit(code=0)
    assert list((area / "elsewhere").iterdir()) == []


def test_a_changed_mode_reaches_the_socket(place, theirs):
    path = theirs / "socket"
    launcher = run(place, {"web": listening(f"unix:{path}")})
    launcher.wait_up()
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    launcher.replace({"web": listening(f"unix:{path}", mode="0606", user=SOMEBODY)})
    eventually(lambda: stat.S_IMODE(path.stat().st_mode) == 0o606, "the mode is set")
    status = path.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o606, SOMEBODY)
    assert launcher.stop() == Exit(code=0)
    assert not path.exists()


def test_a_link_in_the_place_of_a_log_file(place, theirs, victim):
    """When it is opened, and when it is opened again after SIGHUP."""
    path = theirs / "log"
    output = {"file": str(path), "mode": "0666"}
    put_link(path, victim)
    launcher = run(place, {"web": service("web")})
    launcher.wait_up()
    assert launcher.reject({"web": service("web", output=output)}) == [
        f"programs.web.output: cannot open {path}: log on the way is a symbolic link of user {SOMEBODY}"]
    path.unlink()
    launcher.replace({"web": service("web", output=output)})
    eventually(lambda: path.exists() and stat.S_IMODE(path.stat().st_mode) == 0o666, "the file is made")
    put_link(path, victim)
    launcher.signal(signal.SIGHUP)
    launcher.wait_for_event("output-failed", program="web")
    assert launcher.stop() == Exit(code=0)


def test_a_link_in_the_place_of_a_log_file_that_is_rotated(place, theirs, victim):
    path = theirs / "log"
    steps = ["trap", "say:up", f"until:{signal.SIGUSR1:d}", "flood:20000", "say:done", "until:15"]
    launcher = run(place, {"web": probe(*steps, output={"file": str(path), "maxSize": "5000"})})
    launcher.wait_up()
    put_link(path, victim)
    launcher.signal(signal.SIGUSR1)
    launcher.wait_for_probe("say", text="done")
    eventually(lambda: (theirs / "log.2").exists() and not path.is_symlink(), "the file is rotated")
    assert launcher.stop() == Exit(code=0)


def test_a_second_name_of_a_log_file(place, theirs, victim):
    os.link(victim, theirs / "log")
    launcher = run(place, {"web": service("web")})
    launcher.wait_up()
    assert launcher.reject({"web": service("web", output={"file": f"{theirs}/log"})}) == [
        f"programs.web.output: cannot log to {theirs}/log: the file has other names (hard links)"]
    assert launcher.stop() == Exit(code=0)


def test_a_link_in_the_place_of_the_launchers_own_log(place, theirs, victim):
    path = theirs / "launcher.log"
    put_link(path, victim)
    launcher = run(place, {"web": service("web")}, "--log-path", path)
    error = launcher.wait_for_event("log-open-failed")["error"]
    assert error == f"cannot open the log file {path}: launcher.log on the way is a symbolic link of user {SOMEBODY}"
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("missing", ["gone", "file"])
def test_without_a_null_device(place, area, missing):
    """What is to go nowhere does not go to the launcher's own output, nor into a file that is called /dev/null."""
    quiet = probe("print:unheard", "print-error:unheard", "say:up", "pause", output="null")
    launcher = run(place, {"web": {"command": 7}})  # so that it has not opened the device yet
    launcher.wait_for_event("waiting-for-configuration")
    launcher.wait_for_event("configuration-rejected")
    hide_null_device(launcher, area, missing)
    reason = "No such file or directory" if missing == "gone" else "it is not the null device"
    assert launcher.reject({"web": service("web"), "quiet": quiet}) == [
        f"programs.quiet.output: cannot open /dev/null: {reason}"]
    launcher.replace({"web": service("web"), "other": probe("say:other", "read:0", "pause")})
    assert launcher.wait_for_probe("say", text="other")
    assert launcher.stop() == Exit(code=0)
    assert "unheard" not in launcher.errors() + str(launcher.events.all)


def hide_null_device(launcher, area, missing):
    """Mounts an empty directory over /dev, in the launcher's mount namespace, perhaps with a file of that name."""
    (area / "dev").mkdir()
    if missing == "file":
        (area / "dev" / "null").write_text("")
    subprocess.run([*launcher.enter("mount"), "mount", "--bind", str(area / "dev"), "/dev"], check=True)


@pytest.mark.parametrize("user", [None, SOMEBODY])
def test_dev_stdout_can_be_opened(place, user):
    """By a program that is not root, as nginx and many images do it."""
    command = {"command": ["sh", "-c", "echo heard > /dev/stdout; echo hard > /dev/stderr; exec sleep 1000"], "output": {}}
    launcher = run(place, {"web": {**command, **({"user": user, "group": user} if user else {})}}, stderr=None)
    launcher.wait_for_text("heard")
    eventually(lambda: "hard" in launcher.errors(), "standard error")
    assert launcher.stop() == Exit(code=0)

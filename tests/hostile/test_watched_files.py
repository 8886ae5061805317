"""Attacks on `files`, the paths of a program that are watched for changes: whoever may write to them, or to the directories
on their way, chooses what they are and how often they change."""

import json
import os
import signal

import pytest

from harness.process import Exit
from harness.programs import run, service


class Attack:
    """A process that does one thing as fast as it can, until the block ends."""

    def __init__(self, what):
        self.what = what

    def __enter__(self):
        self.pid = os.fork()
        if self.pid == 0:
            try:
                while True:
                    self.what()
            finally:
                os._exit(1)
        return self

    def __exit__(self, *_exception):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def assert_lives(self):
        """Asserts that it attacks still: a mistake of the test would end it."""
        assert os.waitpid(self.pid, os.WNOHANG) == (0, 0)


def watched(*paths, quiet="10s", **keys):
    return {"paths": [str(path) for path in paths], "quietTime": quiet, **keys}


def assert_serves(launcher, attack, count=10):
    """Asserts that PID 1 answers, reaps and restarts while it is attacked."""
    for _ in range(count):
        assert json.loads(launcher.ctl("status", "--json", "--timeout", "5s"))["programs"]
    attack.assert_lives()


def test_more_events_than_can_be_read(place):
    """Each event is compared with each name in the directory: a queue that is filled faster than it is read never ends."""
    directory = place.area / "certs"
    directory.mkdir()
    names = [str(directory / letter) for letter in "ab"]
    for name in names:
        open(name, "w").close()
    many = {f"p{number}": service(f"p{number}", files=watched(*(directory / f"*{number}?{other}*x" for other in range(32))))
            for number in range(12)}
    launcher = run(place, many)
    launcher.wait_up(tag="p0")

    def change():
        for name in names:
            os.utime(name)
    with Attack(change) as attack:
        assert_serves(launcher, attack)
        assert launcher.stop() == Exit(code=0)


def test_a_link_that_never_stands_still(place):
    """Where it leads is walked to again and again, for each path below it."""
    for version in ("one", "two"):
        (place.area / version).mkdir()
    link = str(place.area / "current")
    os.symlink("one", link)
    many = {f"p{number}": service(f"p{number}", files=watched(*(f"{link}/{number}-{other}" for other in range(32))))
            for number in range(30)}
    launcher = run(place, many)
    launcher.wait_up(tag="p0")

    def swap():
        for version in ("one", "two"):
            os.symlink(version, link + ".new")
            os.rename(link + ".new", link)
    with Attack(swap) as attack:
        assert_serves(launcher, attack)
        assert launcher.stop() == Exit(code=0)


def test_whoever_writes_all_the_time_holds_nothing_up(place):
    """PID 1 looks at a rate, and goes on serving."""
    path = place.area / "busy"
    launcher = run(place, {"web": service("web", files=watched(path))})
    launcher.wait_up(tag="web")

    def replace():
        path.with_name("other").write_text("x")
        path.with_name("other").rename(path)
    with Attack(replace) as attack:
        assert_serves(launcher, attack, count=20)
    assert launcher.stop() == Exit(code=0)


def test_a_flood_in_one_directory_restarts_nobody_else(place):
    """The kernel's queue is one for all: what is lost from it may have been about anybody."""
    for name in ("noisy", "quiet"):
        (place.area / name).mkdir()
        (place.area / name / "a").write_text("1")
        (place.area / name / "b").write_text("1")
    launcher = run(place, {name: service(name, files=watched(place.area / name / "a", quiet="20ms"))
                           for name in ("noisy", "quiet")})
    launcher.wait_up(tag="quiet")
    names = [str(place.area / "noisy" / name) for name in "ab"]

    def change():
        for name in names:
            os.utime(name)
    with Attack(change) as attack:
        assert_serves(launcher, attack)
    launcher.wait_for_event("files-changed", program="noisy", timeout=30)
    assert not launcher.events_named("files-changed", program="quiet")
    (place.area / "quiet" / "a").write_text("2")
    launcher.wait_for_event("files-changed", program="quiet")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("kind", ["fifo", "device", "loop", "huge", "directory", "socket"])
def test_what_is_not_a_file(place, kind):
    """It is never opened, so it cannot make PID 1 wait, read or list."""
    path = place.area / "watched"
    made = {"fifo": lambda: os.mkfifo(path), "device": lambda: path.symlink_to("/dev/tty"),
            "loop": lambda: path.symlink_to(path), "directory": path.mkdir,
            "huge": lambda: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40),
            "socket": lambda: os.mknod(path, 0o140600)}
    launcher = run(place, {"web": service("web", files=watched(path, quiet="20ms"))})
    launcher.wait_up(tag="web")
    made[kind]()
    if kind == "loop":  # leads nowhere
        launcher.ctl("status")
    else:
        launcher.wait_for_event("files-changed", program="web")
        launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_a_directory_of_ten_thousand_names(place):
    """A pattern is compared with what changes, never with what is there."""
    directory = place.area / "many"
    directory.mkdir()
    for number in range(10_000):
        os.mknod(directory / f"{number}.pem", 0o100600)
    launcher = run(place, {"web": service("web", files=watched(directory / "*.pem", quiet="20ms"))})
    launcher.wait_up(tag="web")
    before = launcher.cpu_seconds()
    os.utime(directory / "5000.pem")
    assert launcher.wait_for_event("files-changed", program="web")["path"] == str(directory / "*.pem")
    launcher.wait_up(tag="web")
    assert launcher.cpu_seconds() - before < 0.5
    assert launcher.stop() == Exit(code=0)


def test_a_name_that_is_not_text(place):
    """Names of files are bytes; the log is shown on terminals."""
    directory = place.area / "odd"
    directory.mkdir()
    launcher = run(place, {"web": service("web", files=watched(directory / "*", quiet="20ms"))})
    launcher.wait_up(tag="web")
    os.mknod(os.fsencode(directory) + b"/\x1b]0;evil\x07\xff\n{}", 0o100600)
    assert launcher.wait_for_event("files-changed", program="web")["path"] == str(directory / "*")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)

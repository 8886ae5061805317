"""The file of an upgrade is exchanged between the question to it and its execution."""

import contextlib
import os

from harness.control import Controlled, outside_pid
from harness.process import BINARY

EVIL = "#!/bin/sh\necho taken > {}\nexec sleep 1000\n"


def start(place):
    """A launcher with one process, and that process's id."""
    running = Controlled(place, {"web": ["trap", "say:up", "until:15"]})
    running.launcher.wait_up(tag="web")
    return running, running.pid("web")


def executable(path, text):
    """A program of this text."""
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_link_that_changes(place, area):
    """It leads to a launcher while that is asked, and to something else from then on: the launcher is executed."""
    evil = executable(area / "evil", EVIL.format(area / "mark"))
    link = area / "link"
    good = executable(area / "good", f"#!/bin/sh\nln -sfn {evil} {link}\nexec {BINARY} \"$@\"\n")
    link.symlink_to(good)
    running, pid = start(place)
    running.upgrade(link)
    assert link.readlink() == evil and not (area / "mark").exists()
    assert running.pid("web") == pid
    running.upgrade()
    running.close()


def test_a_file_that_is_replaced(place, area):
    """By rename(2): what was asked has lost its name, and the upgrade is refused."""
    path = area / "successor"
    executable(area / "evil", EVIL.format(area / "mark"))
    executable(path, f"#!/bin/sh\n[ ! -e {area}/evil ] || mv {area}/evil {path}\nexec {BINARY} \"$@\"\n")
    running, pid = start(place)
    assert f"{path} has changed since it was asked" in running.ctl("upgrade", path, expect=1)
    assert not (area / "evil").exists() and not (area / "mark").exists()
    assert running.pid("web") == pid
    running.close()


def test_a_file_that_is_written_to(place, area):
    """The same file with another content: what was asked no longer exists, and the upgrade is refused."""
    path = area / "successor"
    evil = executable(area / "evil", EVIL.format(area / "mark"))
    executable(path, f"#!/bin/sh\ncat {evil} > {path}.new; exec {BINARY} \"$@\" $(cat {path}.new > {path})\n")
    running, pid = start(place)
    complaint = running.ctl("upgrade", path, expect=1)
    assert f"{path} has changed since it was asked" in complaint
    assert not (area / "mark").exists() and running.pid("web") == pid
    running.upgrade()
    running.close()


def test_nothing_of_it_is_left(place, area):
    """The descriptor of a script is not inherited by anybody, and the launcher has its name still."""
    wrapper = executable(area / "wrapper", f"#!/bin/sh\nexec {BINARY} \"$@\"\n")
    running, _ = start(place)
    name = comm(running.launcher)
    for path in (wrapper, BINARY):
        running.upgrade(path)
        assert comm(running.launcher) == name
        assert not [file for file in descriptors(running.launcher) if file.startswith((str(wrapper), str(BINARY)))]
    running.ctl("restart", "web")
    web = outside_pid(running.launcher, running.pid("web"))
    assert str(wrapper) not in str([os.readlink(f"/proc/{web}/fd/{fd}") for fd in os.listdir(f"/proc/{web}/fd")])
    running.close()


def comm(launcher):
    """Its name in ps(1)."""
    with open(f"/proc/{launcher.pid}/comm", encoding="utf-8") as file:
        return file.read()


def descriptors(launcher):
    """The files that it has open; some are for a moment only."""
    directory = f"/proc/{launcher.pid}/fd"
    found = []
    for fd in os.listdir(directory):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"{directory}/{fd}"))
    return found

"""The fixtures that suites share: their conftest.py import all that __all__ names. The binary under test is
TRITON_LAUNCH. Helper programs are built here, unless TRITON_TEST_PROGRAMS names the directory that holds them."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import process
from harness.control import Controlled
from harness.person import Person

__all__ = ["area", "as_child", "as_pid1", "make_people", "make_runs", "namespaces_work", "needs_root", "needs_static", "place",
           "programs", "pytest_sessionstart", "start_faulty"]


@pytest.fixture(scope="session")
def programs():
    """The directory with the helper programs, readable by every user."""
    if built := os.environ.get("TRITON_TEST_PROGRAMS"):
        yield Path(built)
        return
    with tempfile.TemporaryDirectory(prefix="triton-programs.") as name:
        directory = Path(name)
        directory.chmod(0o755)
        for source in (Path(__file__).parent / "helpers").glob("*.c"):
            subprocess.run(["gcc", "-std=gnu11", "-static", "-O1", "-o", directory / source.stem, source], check=True)
        yield directory


def pytest_sessionstart(session):
    """Ends the run when there is nothing to test."""
    if not os.access(process.BINARY, os.X_OK):
        pytest.exit(f"TRITON_LAUNCH must name the binary under test, found {process.BINARY}", returncode=2)


@pytest.fixture(scope="session", autouse=True)
def namespaces_work(programs):
    """Without namespaces nothing here can run: one reason for all."""
    done = subprocess.run([programs / "place", "--", "/bin/true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = f"no PID and mount namespaces here: {done.stderr.strip()}"
        # Where a green run is taken for a tested tree, a suite that skips itself must not be green.
        pytest.exit(reason, returncode=1) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture
def area():
    """A directory of the test's own that every user may enter."""
    directory = Path(tempfile.mkdtemp(prefix="triton-it."))
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


def starter(area, programs, pid1):
    made = process.Starter(area, programs, pid1)
    yield made
    made.close()


@pytest.fixture(params=["pid1", "child"])
def place(request, area, programs):
    """Starts launchers as PID 1 of their namespace, then as an ordinary process."""
    yield from starter(area, programs, request.param == "pid1")


@pytest.fixture
def as_pid1(area, programs):
    """Starts launchers as PID 1 of their namespace."""
    yield from starter(area, programs, True)


@pytest.fixture
def as_child(area, programs):
    """Starts launchers as ordinary processes."""
    yield from starter(area, programs, False)


@pytest.fixture(name="run")
def make_runs(as_pid1):
    """Starts a launcher with these programs, and with a control socket."""
    made = []

    def run(programs, *options, **how):
        made.append(Controlled(as_pid1, programs, *options, **how))
        return made[-1]
    yield run
    for controlled in made:
        controlled.close()


@pytest.fixture(name="people")
def make_people():
    """Makes somebody who is attached to a program's terminal; all leave at the end."""
    made = []

    def attach(controlled, *arguments, **how):
        made.append(Person(controlled.socket, *arguments, **how))
        return made[-1]
    yield attach
    for person in made:
        person.close()


@pytest.fixture
def start_faulty(as_child):
    """Starts an ordinary launcher with a system call that fails; `fault` is what strace(1) calls an injection."""
    if not (strace := shutil.which("strace")):
        pytest.skip("needs strace, which makes a system call fail")

    def start(fault, *arguments, **how):
        return as_child.start("-qq", "-o", "/dev/null", "-e", f"inject={fault}", as_child.binary, *arguments,
                              binary=strace, env=process.NO_LEAK_SEARCH, **how)
    return start


@pytest.fixture
def needs_root():
    """For what a user namespace cannot give: several users, device nodes, limits of others."""
    if os.geteuid() != 0:
        pytest.skip("needs root: switches users or raises limits")


@pytest.fixture
def needs_static():
    """For what a sanitizer's runtime, which is linked dynamically, cannot bear: no other file, no /proc, no memory."""
    if not process.is_static(process.BINARY):
        pytest.skip("the binary under test is linked dynamically")

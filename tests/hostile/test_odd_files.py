"""Files that a configuration names and somebody else may write: PID 1 reads them, so they are whatever would hold it up or
lead it astray."""

import json
import os
import time

import pytest

from harness.process import Exit
from harness.programs import document, probe, run, service

AT_MOST = 10.0


def make(path, kind):
    """Makes something that is not an ordinary small file."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "terminal":
        path.symlink_to("/dev/ptmx")
    elif kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "huge":
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    elif kind == "itself":
        path.symlink_to("/proc/self/fd/0")
    elif kind == "memory":
        path.symlink_to("/proc/self/mem")
    else:
        raise AssertionError(kind)


EMPTY = ["fifo", "itself"]  # nobody writes to it: it is at its end
KINDS = ["fifo", "endless", "terminal", "directory", "loop", "huge", "itself", "memory"]


def assert_serves(launcher):
    """Asserts that it answers at once, and ends in order."""
    assert json.loads(launcher.ctl("status", "--json", "--timeout", "5s"))["programs"]
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_environment_file(as_pid1, kind):
    path = as_pid1.area / "env"
    path.write_text("A=1\n")
    launcher = run(as_pid1, {"web": service("web"), "other": service("other", environmentFile=str(path))})
    launcher.wait_up(tag="web")
    launcher.wait_up(tag="other")
    launcher.wait_for_event("configuration-loaded")
    path.unlink()
    make(path, kind)
    began = time.monotonic()
    launcher.replace({"web": service("web"), "other": service("other", environmentFile=str(path), umask="0077")})
    if kind in EMPTY:
        launcher.wait_for_event("configuration-loaded", timeout=AT_MOST)
    else:
        rejected = launcher.wait_for_event("configuration-rejected", timeout=AT_MOST)
        assert str(path) in rejected["errors"][0], rejected
    assert time.monotonic() - began < AT_MOST
    assert_serves(launcher)


@pytest.mark.parametrize("kind", KINDS)
def test_an_included_file(as_pid1, kind):
    path = as_pid1.area / "more.json"
    launcher = run(as_pid1, {"web": service("web")})
    launcher.wait_up(tag="web")
    make(path, kind)
    launcher.configuration.write_text(document({"web": service("web")}, include=[str(path)]))
    rejected = launcher.wait_for_event("configuration-rejected", timeout=AT_MOST)
    assert str(path) in rejected["errors"][0], rejected
    assert_serves(launcher)


@pytest.mark.parametrize("zone", ["../../../../proc/self/mem", "/dev/zero", "../zoneinfo/../../../dev/zero", ".", "", "posix/../../../../etc/passwd",
                                  "Europe", "x" * 5000, "Europe/Berlin/..", "a\nb", "\u001b[2J"])
def test_a_time_zone_that_leads_elsewhere(as_pid1, zone):
    launcher = run(as_pid1, {"web": service("web")})
    launcher.wait_up(tag="web")
    job = probe("exit:0", kind="scheduled", schedule={"cron": "@daily", "timeZone": zone})
    errors = launcher.reject({"web": service("web"), "job": job})
    assert len(errors) == 1 and errors[0].startswith("programs.job.schedule") and errors[0].isprintable(), errors
    assert_serves(launcher)

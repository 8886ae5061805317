"""Who speaks for a program: nobody but it, by whatever way."""

import os
import signal
import stat

import pytest

from harness.process import Exit
from harness.programs import probe, run

NOTIFY_ALL = {"type": "notify", "notifyAccess": "all"}
DB = probe("trap", "tag:db", "report", "until:15", readiness=NOTIFY_ALL)


@pytest.fixture(name="guarded", autouse=True)
def guard(area):
    """The directory of the control socket belongs to the launcher alone, as /run/triton-launch does."""
    area.chmod(0o755)


def short_lived(area, **keys):
    """A program whose children say READY=1, when the gate opens, and are gone at once."""
    os.mkfifo(area / "gate")
    script = f"read line < {area}/gate; probe notify:READY=1; probe say:sent; exec sleep 1000"
    return {"command": ["sh", "-c", script], **keys}


def open_gate(launcher, area):
    """Has the message sent while the launcher is held, so that its sender is gone when it is looked at."""
    launcher.signal(signal.SIGSTOP)
    (area / "gate").write_text("go\n")
    launcher.wait_for_probe("say", text="sent")
    launcher.signal(signal.SIGCONT)


def test_the_socket_is_a_file(place):
    """Abstract names are there for everybody in the network namespace."""
    launcher = run(place, {"db": probe("trap", "tag:db", "report", "notify:READY=1", "until:15", readiness=NOTIFY_ALL)},
                   env={"PROBE_ENV": "NOTIFY_SOCKET"})
    address = launcher.wait_for_probe("report")["env"]["NOTIFY_SOCKET"]
    assert address.startswith(str(place.area / "notify/notify."))
    assert stat.S_IMODE((place.area / "notify").stat().st_mode) == 0o711
    launcher.wait_for_event("process-ready", program="db")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.usefixtures("needs_root")
def test_the_socket_is_for_one_user(place):
    launcher = run(place, {"db": {**DB, "user": 4711, "group": 4711}}, env={"PROBE_ENV": "NOTIFY_SOCKET"})
    address = launcher.wait_for_probe("report")["env"]["NOTIFY_SOCKET"]
    status = os.stat(address)
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (4711, 0o600)
    assert launcher.stop() == Exit(code=0)


def test_a_dead_sender_of_another_program_with_the_same_user(place, area):
    """Nobody can tell any more whose it was."""
    launcher = run(place, {"db": DB}, env={"PROBE_ENV": "NOTIFY_SOCKET"})
    address = launcher.wait_for_probe("report")["env"]["NOTIFY_SOCKET"]
    launcher.replace({"db": DB, "liar": short_lived(area, environment={"NOTIFY_SOCKET": address})})
    launcher.wait_for_event("process-started", program="liar")
    open_gate(launcher, area)
    launcher.quiet_for(0.2)
    assert not launcher.events_named("process-ready", program="db")
    assert launcher.stop() == Exit(code=0)


def test_a_dead_sender_of_the_only_program_with_that_user(place, area):
    """As scripts do it."""
    launcher = run(place, {"db": short_lived(area, readiness=NOTIFY_ALL)})
    launcher.wait_for_event("process-started", program="db")
    open_gate(launcher, area)
    launcher.wait_for_event("process-ready", program="db")
    assert launcher.stop() == Exit(code=0)

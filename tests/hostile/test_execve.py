"""Programs that cannot be executed: nothing may count as started, and nobody may take it for a program's own end."""

import pytest

from harness.control import Controlled
from harness.process import Exit

STAY = ["trap", "say:up", "until:15"]


@pytest.fixture(name="unstartable")
def write_unstartable(area):
    """A file that may be executed, and whose interpreter is missing: only execve finds out."""
    path = area / "unstartable"
    path.write_text("#!/nonexistent/interpreter\n")
    path.chmod(0o755)
    return path


def test_a_failed_execve_is_not_a_start(as_pid1, unstartable):
    """It never ran: it is not ready, nothing that needs it starts, and its error is not the exit code 127 of another."""
    running = Controlled(as_pid1, {"stay": STAY,
                                   "bad": {"command": [str(unstartable)], "restart": "never"},
                                   "last": {"steps": ["exit:127"], "restart": "never"},
                                   "web": {"steps": STAY, "requires": ["bad"]}})
    launcher = running.launcher
    launcher.wait_for_event("process-start-failed", program="bad")
    launcher.wait_for_event("process-exited", program="last")
    launcher.wait_up(tag="stay")
    status = running.status()
    error = f"cannot execute {unstartable}: No such file or directory"
    bad = status["bad"]["processes"][1]
    assert (bad["state"], bad["last_exit"]) == ("failed", {"error": error, "oom_killed": False})
    last = status["last"]["processes"][1]
    assert (last["state"], last["last_exit"]) == ("failed", {"code": 127, "oom_killed": False})
    assert status["web"]["processes"][1]["state"] == "waiting"
    assert not launcher.events_named("process-started", program="bad")
    assert launcher.events_named("process-started", program="last")
    assert error in running.ctl("status", "bad")
    assert running.run("restart", "bad").returncode != 0
    assert running.run("wait", "--for", "ready", "bad").returncode != 0
    assert launcher.stop() == Exit(code=0)
    running.close()

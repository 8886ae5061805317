"""Programs: what the log and ctl say of them, and how loudly."""

import signal

import pytest

from harness.control import Controlled
from harness.process import Exit
from harness.programs import RESTART_AT_ONCE, probe, run


def ended(launcher, name):
    return launcher.wait_for_event("process-exited", program=name)


def test_a_failure_is_told_as_one(place):
    """What fails for good is an error, what is tried again a warning, an end that was asked for is news."""
    controlled = Controlled(place, {
        "good": {"steps": ["exit:0"], "restart": "never"}, "bad": {"steps": ["exit:3"], "restart": "never"},
        "again": {"steps": ["exit:3"], "backoff": RESTART_AT_ONCE}, "web": ["trap", "say:up", "until:15", "exit:5"]})
    launcher = controlled.launcher
    assert ended(launcher, "good")["level"] == "info"
    assert ended(launcher, "bad")["level"] == "error"
    assert ended(launcher, "again")["level"] == "warning"
    launcher.wait_started(tag="web")
    controlled.ctl("restart", "web")
    assert ended(launcher, "web")["level"] == "info"
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)
    last = launcher.events_named("process-exited", program="web")[-1]
    assert last["exit_code"] == 5 and last["level"] == "info"


def test_the_end_of_the_container_by_a_failure_is_an_error(place):
    launcher = run(place, {"web": probe("exit:7", restart="never", critical=True)}, "--log-level", "error")
    assert launcher.wait() == Exit(code=7)
    assert [(record["event"], record["level"]) for record in launcher.events.all] == [
        ("process-exited", "error"), ("container-ending", "error")]


def test_a_program_killed_for_being_late_is_told_as_a_failure(place):
    launcher = run(place, {"web": probe("trap", "say:up", "until:15", readiness={"type": "notify"}, startTimeout="200ms",
                                        restart="never")})
    assert launcher.wait_for_event("process-timed-out")["level"] == "error"
    exited = ended(launcher, "web")
    assert exited["signal"] == signal.SIGKILL and exited["level"] == "error"


@pytest.mark.parametrize("verb", ["start", "restart"])
def test_what_is_to_have_no_process_cannot_be_started(place, verb):
    web = ["trap", "say:up", "until:15"]
    controlled = Controlled(place, {"web": web, "none": {"steps": web, "count": 0}})
    controlled.launcher.wait_started(tag="web")
    assert "count is 0" in controlled.ctl(verb, "none", expect=1)
    controlled.configure(None, {**controlled.document({"web": web}), "runServers": False})
    ended(controlled.launcher, "web")
    assert "runServers is false" in controlled.ctl(verb, "web", expect=1)
    assert controlled.launcher.stop() == Exit(code=0)

"""Programs that wait for a line of theirs, and write to hurt: neither PID 1 nor others are held up by what the agent is sent."""

import os
import signal
import time

import pytest

from harness.agent import AGENT
from harness.process import Exit, eventually
from harness.programs import run

if not os.access(AGENT, os.X_OK):
    pytest.skip("TRITON_AGENT names no agent", allow_module_level=True)


def waiting(script, pattern="never comes", **keys):
    return {"command": ["bash", "-c", script], "output": {"whenFull": "drop", "file": "/dev/null"},
            "readiness": {"type": "log", "pattern": pattern}, **keys}


def asked(launcher):
    """How long PID 1 takes to answer, seconds."""
    begun = time.monotonic()
    launcher.ctl("status")
    return time.monotonic() - begun


@pytest.mark.parametrize("script", [
    "exec yes 'a line'", "exec yes ''", "exec yes $'\\x01\\xff'", "exec cat /dev/zero",
    "while :; do head -c 1000000 /dev/zero | tr '\\0' a; echo; done"],
    ids=["lines", "empty", "escapes", "no-end", "long"])
def test_floods(place, area, script):
    """All of it is sent as far as the agent reads; the launcher answers, and the agent sees others' lines."""
    flood = waiting(script)
    flood["output"]["file"] = str(area / "flood")
    flood["output"] |= {"maxSize": "1M", "maxFiles": 0}
    other = waiting("sleep 0.3; echo 'here I am'; exec sleep 1000", "here I am")
    other["output"]["file"] = str(area / "other")
    launcher = run(place, {"flood": flood, "other": other}, "--agent-path", AGENT)
    launcher.wait_for_event("process-ready", program="other", timeout=60)
    assert min(asked(launcher) for _ in range(3)) < 2
    assert not launcher.events_named("process-ready", program="flood")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+$b", "(x+x+)+y", "(?:a?){500}a{500}b"])
def test_patterns_that_take_long_elsewhere(place, area, pattern):
    line = "a" * 4000
    slow = waiting(f"for i in 1 2 3 4 5 6 7 8; do echo {line}; done; exec sleep 1000", pattern)
    slow["output"]["file"] = str(area / "slow")
    other = waiting("echo 'here I am'; exec sleep 1000", "here I am")
    other["output"]["file"] = str(area / "other")
    launcher = run(place, {"slow": slow, "other": other}, "--agent-path", AGENT)
    launcher.wait_for_event("process-ready", program="other")
    assert not launcher.events_named("process-ready", program="slow")
    assert launcher.stop() == Exit(code=0)


def test_an_agent_that_does_not_read(place, area):
    """The program is never held up by it, and nothing grows: what the ring cannot keep is missed, and told."""
    script = (f"while [ ! -e {area}/go ]; do sleep 0.02; done; head -c 20000000 /dev/zero | tr '\\0' '\\n'; "
              f"touch {area}/done; exec sleep 1000")
    flood = waiting(script)
    flood["output"] |= {"file": str(area / "flood"), "maxSize": "1M", "maxFiles": 0, "whenFull": "block"}
    launcher = run(place, {"flood": flood}, "--agent-path", AGENT)
    agent = launcher.wait_for_event("process-started", program="triton-agent")["pid"]
    launcher.wait_for_event("sandbox")
    launcher.signal_inside(agent, signal.SIGSTOP)
    (area / "go").touch()
    eventually((area / "done").exists, "all of it is written", timeout=60)
    assert asked(launcher) < 2
    launcher.signal_inside(agent, signal.SIGCONT)
    launcher.wait_for_event("readiness-lines-missed", program="flood")
    assert launcher.stop() == Exit(code=0)

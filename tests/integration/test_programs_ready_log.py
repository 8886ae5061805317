"""Readiness by a line of the output: the launcher hands the lines to the agent, which has the regular expressions."""

import json
import os
import signal

import pytest

from harness.agent import AGENT
from harness.process import BINARY, Exit, eventually, run_plainly
from harness.programs import RESTART_AT_ONCE, document, run

LISTENING = {"type": "log", "pattern": "listening on .*:8080$"}

pytestmark = pytest.mark.skipif("TRITON_AGENT" not in os.environ, reason="TRITON_AGENT names no agent")


def shell(script, **keys):
    """A program whose output is captured; `wait NAME` in its script waits until the test has made the file NAME."""
    wait = "wait() { while [ ! -e $AREA/$1 ]; do read -t 0.02 x <>$AREA/fifo; done; }\n"
    return {"command": ["bash", "-c", wait + script], "output": {}, "readiness": LISTENING, **keys}


@pytest.fixture
def start(place, area):
    """Starts a launcher with these programs and an agent."""
    os.mkfifo(area / "fifo")

    def with_agent(programs, *options, **how):
        return run(place, programs, "--agent-path", AGENT, *options, env={"AREA": str(area)}, **how)
    return with_agent


def test_a_line_makes_it_ready(start, area):
    launcher = start({
        "db": shell("echo starting; echo 'not listening on :80801'; wait go; echo now listening on 0.0.0.0:8080; wait never"),
        "web": {"command": ["sh", "-c", "echo web runs; exec sleep 1000"], "output": {}, "requires": ["db"]}})
    launcher.wait_for_event("process-started", program="triton-agent")
    launcher.quiet_for(0.2, launcher.probe)
    assert not launcher.events_named("process-ready")
    (area / "go").touch()
    launcher.wait_for_event("process-ready", program="db", process=1)
    launcher.wait_for_event("process-started", program="web")
    assert launcher.stop() == Exit(code=0)


def test_a_stop_before_the_line_comes_is_no_failure(start, area):
    """The probe waits for a line until somebody cancels it."""
    launcher = start({"db": shell("echo starting >&2; wait never")})
    launcher.wait_for_event("process-started", program="triton-agent")
    launcher.wait_for_event("process-started", program="db")
    launcher.ctl("restart", "--no-wait", "db")
    launcher.wait_for_event("process-exited", program="db")
    assert launcher.stop() == Exit(code=0)
    assert not launcher.events_named("helper-failed")


@pytest.mark.parametrize("stream, is_ready", [(None, True), ("stderr", True), ("stdout", False)])
def test_streams(start, stream, is_ready):
    readiness = LISTENING if stream is None else {**LISTENING, "stream": stream}
    launcher = start({"db": shell("echo listening on :8080 >&2; wait never", readiness=readiness,
                                  startTimeout="20s" if is_ready else "300ms", restart="never")})
    if is_ready:
        launcher.wait_for_event("process-ready", program="db")
        assert launcher.stop() == Exit(code=0)
    else:
        late = launcher.wait_for_event("process-timed-out", program="db")
        assert late["pattern"] == LISTENING["pattern"]
        assert 'no line has matched "listening on .*:8080$"' in late["message"]


def test_each_number_has_its_own(start, area):
    pattern = {"type": "Concatenate", "values": ["^number ", {"type": "ProcessNumber"}, " listens$"]}
    launcher = start({"db": shell("echo number $NUMBER listens; echo number 2 listens; wait never", count=3,
                                  environment={"NUMBER": {"type": "ProcessNumber", "offset": -1}},
                                  readiness={"type": "log", "pattern": pattern})})
    launcher.wait_for_event("process-ready", program="db", process=2)
    launcher.quiet_for(0.3, launcher.probe)
    assert not launcher.events_named("process-ready", process=1)
    assert not launcher.events_named("process-ready", process=3)
    assert launcher.stop() == Exit(code=0)


def test_what_an_earlier_run_said_does_not_count(start, area):
    launcher = start({"db": shell("if [ -e $AREA/second ]; then wait go; else touch $AREA/second; fi\n"
                                  "echo listening on :8080; [ -e $AREA/go ] || exit 3; wait never",
                                  backoff=RESTART_AT_ONCE)})
    launcher.wait_for_event("process-exited", program="db", exit_code=3)
    launcher.wait_for_event("process-started", program="db")
    launcher.quiet_for(0.3, launcher.probe)
    assert len(launcher.events_named("process-ready")) <= 1  # of the first run, if the agent was there in time
    before = len(launcher.events_named("process-ready"))
    (area / "go").touch()
    eventually(lambda: len(launcher.events_named("process-ready", program="db")) > before, "the second run is ready")
    assert launcher.stop() == Exit(code=0)


def test_a_wait_that_nobody_needs_any_longer_has_not_failed(start):
    """Neither when its process is stopped before it is ready, nor when that ends by itself."""
    launcher = start({"stopped": shell("echo runs; wait never"), "ended": shell("echo runs; exit 0", restart="never")})
    launcher.wait_for_event("process-started", program="triton-agent")
    launcher.wait_for_event("process-exited", program="ended")
    launcher.ctl("restart", "stopped", "--no-wait")
    launcher.wait_for_event("process-exited", program="stopped")
    assert launcher.stop() == Exit(code=0)
    assert not launcher.events_named("helper-failed")


def test_lines_outlive_the_agent(start, area):
    """What was said while no agent was there is read again from what the launcher keeps."""
    launcher = start({"db": shell("wait go; echo listening on :8080; touch $AREA/said; wait never")})
    launcher.wait_for_event("process-started", program="triton-agent")
    agent = launcher.events_named("process-started", program="triton-agent")[0]["pid"]
    launcher.signal_inside(agent, signal.SIGSTOP)
    (area / "go").touch()
    eventually((area / "said").exists, "it goes on, whatever the agent does")
    launcher.quiet_for(0.1, launcher.probe)
    assert not launcher.events_named("process-ready")
    launcher.signal_inside(agent, signal.SIGKILL)
    launcher.wait_for_event("process-ready", program="db")
    assert launcher.stop() == Exit(code=0)


def test_over_an_upgrade(start, area):
    launcher = start({"db": shell("echo early words; wait go; echo listening on :8080; wait never"),
                      "old": shell("echo listening on :8080; wait go", readiness={"type": "log", "pattern": "nothing"})})
    launcher.wait_for_event("process-started", program="triton-agent")
    launcher.wait_for_event("process-started", program="db")
    launcher.ctl("upgrade", BINARY)
    launcher.wait_for_event("upgrade-done")
    (area / "go").touch()
    launcher.wait_for_event("process-ready", program="db")
    assert launcher.stop() == Exit(code=0)


def test_lines_before_an_upgrade_count(start, area):
    """The agent is stopped before it sees them, and its successor is asked by the next launcher."""
    launcher = start({"db": shell("wait go; echo listening on :8080; touch $AREA/said; wait never")})
    launcher.wait_for_event("process-started", program="triton-agent")
    agent = launcher.events_named("process-started", program="triton-agent")[0]["pid"]
    launcher.signal_inside(agent, signal.SIGSTOP)
    (area / "go").touch()
    eventually((area / "said").exists, "it goes on, whatever the agent does")
    launcher.ctl("upgrade", BINARY)
    launcher.wait_for_event("upgrade-done")
    launcher.signal_inside(agent, signal.SIGKILL)
    launcher.wait_for_event("process-ready", program="db")
    assert launcher.stop() == Exit(code=0)


def checked(area, programs, *options, agent=AGENT):
    (area / "config.json").write_text(document(programs))
    done = run_plainly("check", area / "config.json", "--agent-path", agent, *options)
    return done.returncode, done.stdout, done.stderr


BAD = {"db": {"command": ["/bin/true"], "output": {}, "readiness": {"type": "log", "pattern": "a(b"}},
       "web": {"command": ["/bin/true"], "output": {}, "readiness": {"type": "log", "pattern": "good"}},
       "zoo": {"command": ["/bin/true"], "output": {}, "readiness": {"type": "log", "pattern": "(?=ahead)"}}}


def test_check_finds_a_bad_pattern(area):
    code, _, errors = checked(area, BAD)
    assert code == 1
    lines = [line.split("config.json: ")[1] for line in errors.splitlines()]
    assert lines == ['programs.db.readiness.pattern: "a(b" is not a regular expression: missing ): a(b',
                     'programs.zoo.readiness.pattern: "(?=ahead)" is not a regular expression: '
                     'invalid perl operator: (?=']


def test_check_says_when_it_cannot_tell(area):
    code, out, _ = checked(area, BAD, agent="/nonexistent/agent")
    assert code == 0
    assert "# patterns cannot be checked: cannot execute /nonexistent/agent: No such file or directory" in out
    code, out, _ = checked(area, BAD, "--format", "json", agent="/nonexistent/agent")
    assert json.loads(out)["remarks"] == ["patterns cannot be checked: cannot execute /nonexistent/agent: "
                                          "No such file or directory"]
    code, _, errors = checked(area, BAD, "--strict", agent="/bin/false")
    assert code == 1 and "patterns cannot be checked: cannot ask /bin/false: " in errors


def test_a_launcher_refuses_a_bad_pattern(start):
    launcher = start(BAD)
    errors = launcher.wait_for_event("configuration-rejected")["errors"]
    assert errors[0].startswith('programs.db.readiness.pattern: "a(b" is not a regular expression: ')
    launcher.replace({"db": shell("echo listening on :8080; wait never")})
    launcher.wait_for_event("process-ready", program="db")
    assert "a(b" in launcher.reject({"db": shell("true", readiness={"type": "log", "pattern": "a(b"})})[0]
    assert launcher.stop() == Exit(code=0)

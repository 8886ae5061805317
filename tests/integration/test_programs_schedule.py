"""Programs: runs that a clock asks for."""

import signal

from harness.control import Controlled
from harness.process import Exit, eventually
from harness.programs import RESTART_AT_ONCE, USR1, probe, run, seconds, service


def test_every(place):
    launcher = run(place, {"job": probe("exit:0", schedule={"every": "500ms"})})
    loaded = launcher.wait_for_event("configuration-loaded")
    assert loaded["processes"] == 0
    started = [launcher.wait_for_event("process-started", program="job")]
    assert seconds(started[0]) - seconds(loaded) >= 0.25, "the first is one interval away"
    # What is written late on a busy machine makes a distance longer and the next one shorter: some are right.
    for _ in range(30):
        started.append(launcher.wait_for_event("process-started", program="job"))
        if len(started) > 3 and 1.4 <= seconds(started[-1]) - seconds(started[-4]) <= 1.7:
            break
    else:
        raise AssertionError([record["time"] for record in started])
    launcher.assert_running()
    assert launcher.stop() == Exit(code=0)


def test_a_run_that_is_still_going_on_is_not_overlapped(place):
    launcher = run(place, {"job": probe("trap", "say:up", f"until:{USR1}", schedule={"every": "60ms"})})
    pid = launcher.wait_up()["pid"]
    skipped = launcher.wait_for_event("schedule-skipped", program="job")
    assert skipped["message"] == "run of job skipped: the previous run has not ended"
    launcher.wait_for_event("schedule-skipped", program="job")
    assert len(launcher.events_named("process-started")) == 1
    launcher.signal_inside(pid, USR1)
    second = launcher.wait_up()["pid"]
    launcher.signal(signal.SIGTERM)
    launcher.signal_inside(second, USR1)
    assert launcher.wait() == Exit(code=0)


def test_what_a_command_holds_is_neither_run_nor_told_of(as_pid1):
    every = {"every": "50ms"}
    controlled = Controlled(as_pid1, {"job": {"steps": ["exit:0"], "schedule": every},
                                      "clock": {"steps": ["exit:0"], "schedule": every}})
    launcher = controlled.launcher
    launcher.wait_for_event("process-exited", program="job")
    controlled.ctl("stop", "job")
    launcher.events.drain()
    runs = len(launcher.events_named("process-started", program="job"))
    launcher.wait_for_event("process-started", program="clock")
    for _ in range(4):
        launcher.wait_for_event("process-exited", program="clock")
    assert len(launcher.events_named("process-started", program="job")) == runs
    assert not launcher.events_named("schedule-skipped", program="job")
    controlled.ctl("start", "job")
    eventually(lambda: len(launcher.events_named("process-started", program="job")) > runs + 1, "its schedule goes on")
    controlled.close()
    assert launcher.stop() == Exit(code=0)


def test_a_run_that_cannot_begin_is_refused(as_pid1):
    """A command that reports success has begun one."""
    run_once = {"steps": ["trap", "say:up", "until:15"], "schedule": {"every": "1h"}}
    controlled = Controlled(as_pid1, {"job": {**run_once, "count": 2}, "made_up": {**run_once, "schedule": {"every": "1h", "missed": "run"}},
                                      "web": {"steps": ["trap", "say:up", "until:15"]}})
    launcher = controlled.launcher
    for number in (1, 2):
        controlled.ctl("start", "job")
        assert launcher.wait_for_event("process-started", program="job")["process"] == number
    for target in ("job", "job:2"):
        assert "a run is under way" in controlled.ctl("start", target, expect=1)
    controlled.ctl("start", "all")
    assert not launcher.events_named("schedule-skipped")
    controlled.ctl("stop", "job:2")
    controlled.ctl("start", "job:2")
    controlled.ctl("start", "made_up")
    controlled.ctl("start", "made_up")
    started = launcher.wait_for_event("process-started", program="made_up")
    controlled.ctl("signal", "TERM", "made_up")
    assert launcher.wait_for_event("process-started", program="made_up")["pid"] != started["pid"]
    controlled.close()
    assert launcher.stop() == Exit(code=0)


def test_count_allows_overlap(place):
    launcher = run(place, {"job": probe("trap", "say:up", "until:15", schedule={"every": "50ms"}, count=2)})
    for number in (1, 2):
        assert launcher.wait_for_event("process-started", program="job")["process"] == number
    launcher.wait_for_event("schedule-skipped", program="job")
    assert len(launcher.events_named("process-started")) == 2
    assert launcher.stop() == Exit(code=0)


def test_a_failed_run_is_not_repeated_and_the_next_comes(place):
    launcher = run(place, {"job": probe("exit:3", schedule={"every": "100ms"})})
    for _ in range(3):
        ended = launcher.wait_for_event("process-exited", program="job", exit_code=3)
        assert "restart_in_seconds" not in ended
    launcher.assert_running()
    assert launcher.stop() == Exit(code=0)


def test_a_failed_run_with_on_failure_is_repeated(place):
    launcher = run(place, {"job": probe("exit:3", schedule={"every": "300ms"}, restart="on-failure",
                                        backoff=RESTART_AT_ONCE)})
    assert "restart_in_seconds" in launcher.wait_for_event("process-exited", program="job")
    launcher.wait_for_event("process-exited", program="job")
    assert launcher.stop() == Exit(code=0)


def test_a_schedule_keeps_the_container(place):
    launcher = run(place, {"job": probe("exit:0", schedule={"cron": "0 0 1 1 *"}),
                           "web": service("web", restart="never")})
    pid = launcher.wait_up(tag="web")["pid"]
    launcher.signal_inside(pid, signal.SIGTERM)
    launcher.wait_for_event("process-exited", program="web")
    launcher.quiet_for(0.1)
    launcher.assert_running()
    assert launcher.stop() == Exit(code=0)


def test_nobody_waits_for_a_schedule(as_pid1):
    launcher = run(as_pid1, {"job": probe("exit:0", schedule={"every": "1s"}), "web": service("web", after=["job"])},
                   "--exit-on-bad-config")
    errors = launcher.wait_for_event("configuration-rejected")["errors"]
    assert errors == ['programs.web.after[0]: "job" runs on a schedule: it cannot be waited for']
    assert launcher.wait() == Exit(code=1)


def wait_until_none_runs(launcher):
    """Until the log has an end for each run of the job: the last one may outlive what ended its schedule."""
    def ended():
        return (len(launcher.events_named("process-started", program="job")) ==
                len(launcher.events_named("process-exited", program="job")))
    eventually(ended, "no job runs")


def test_a_schedule_comes_changes_and_goes(place):
    launcher = run(place, {"web": service("web")})
    launcher.wait_up(tag="web")
    launcher.replace({"web": service("web"), "job": probe("say:run", schedule={"every": "50ms"})})
    launcher.wait_for_probe("say", text="run")
    launcher.replace({"web": service("web"), "job": probe("say:other", schedule={"every": "70ms"})})
    launcher.wait_for_probe("say", text="other")
    launcher.wait_for_probe("say", text="other")
    launcher.replace({"web": service("web")})
    launcher.wait_for_event("configuration-loaded", programs=["web"])
    launcher.wait_for_event("configuration-loaded", programs=["web"])
    wait_until_none_runs(launcher)
    launcher.quiet_for(0.2)
    assert launcher.stop() == Exit(code=0)


def test_run_servers_false_stops_the_clock(place):
    job = {"job": probe("say:run", schedule={"every": "50ms"})}
    launcher = run(place, job)
    launcher.wait_for_probe("say", text="run")
    launcher.replace(job, runServers=False)
    launcher.wait_for_event("configuration-loaded")
    launcher.wait_for_event("configuration-loaded")
    wait_until_none_runs(launcher)
    launcher.quiet_for(0.2)
    launcher.replace(job)
    launcher.wait_for_probe("say", text="run")
    assert launcher.stop() == Exit(code=0)

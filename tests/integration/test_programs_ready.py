"""Programs: readiness, start timeout, watchdog, health, and what the launcher tells its own manager of them."""

import os
import signal
import socket

import pytest

from harness.process import TIMEOUT, Exit
from harness.programs import RESTART_AT_ONCE, USR1, probe, run, seconds, service

NOTIFY = {"type": "notify"}
NOTIFY_ALL = {"type": "notify", "notifyAccess": "all"}


def test_notify_by_the_process_itself(place):
    launcher = run(place, {
        "db": probe("trap", "tag:db", "say:up", f"until:{USR1}", "notify:READY=1\nSTATUS=fine", "until:15",
                    readiness=NOTIFY),
        "web": service("web", requires=["db"]),
    })
    db = launcher.wait_up(tag="db")["pid"]
    launcher.quiet_for(0.05, launcher.probe)
    launcher.signal_inside(db, USR1)
    launcher.wait_for_event("process-ready", program="db", process=1)
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_notify_main_is_deaf_to_children(place):
    launcher = run(place, {
        "db": probe("trap", "tag:db", "notify-child:READY=1", f"until:{USR1}", "notify:READY=1", "until:15",
                    readiness=NOTIFY),
        "web": service("web", requires=["db"]),
    })
    launcher.wait_up(role="child")
    launcher.wait_for_event("process-started", program="db")
    launcher.quiet_for(0.1)
    assert not launcher.events_named("process-ready")
    launcher.signal_inside(launcher.events_named("process-started", program="db")[0]["pid"], USR1)
    launcher.wait_for_event("process-ready", program="db")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_notify_all_hears_children(place):
    launcher = run(place, {
        "db": probe("trap", "tag:db", "notify-child:READY=1", "until:15", readiness=NOTIFY_ALL),
        "web": service("web", requires=["db"]),
    })
    launcher.wait_for_event("process-ready", program="db")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_nobody_speaks_for_another_program(place):
    """Even when it knows the address."""
    db = probe("trap", "report", f"until:{USR1}", "notify:READY=1", "until:15", readiness=NOTIFY_ALL)
    launcher = run(place, {"db": db}, env={"PROBE_ENV": "NOTIFY_SOCKET"})
    report = launcher.wait_for_probe("report")
    address = report["env"]["NOTIFY_SOCKET"]
    launcher.replace({"db": db, "liar": service("liar", "notify:READY=1", environment={"NOTIFY_SOCKET": address})})
    launcher.wait_started(tag="liar")
    launcher.quiet_for(0.1)
    assert not launcher.events_named("process-ready")
    launcher.signal_inside(report["pid"], USR1)
    launcher.wait_for_event("process-ready", program="db")
    assert launcher.stop() == Exit(code=0)


def test_the_address_goes_to_those_who_asked_only(place):
    launcher = run(place, {
        "db": probe("tag:db", "trap", "report", "notify:READY=1", "until:15", readiness=NOTIFY),
        "web": probe("tag:web", "trap", "report", "until:15", after=["db"]),
    }, env={"PROBE_ENV": "NOTIFY_SOCKET WATCHDOG_USEC", "NOTIFY_SOCKET": "/nonexistent"})
    assert launcher.wait_for_probe("report", tag="db")["env"].keys() == {"NOTIFY_SOCKET"}
    assert launcher.wait_for_probe("report", tag="web")["env"] == {}
    assert launcher.stop() == Exit(code=0)


def test_readiness_by_a_descriptor(place):
    launcher = run(place, {
        "db": probe("tag:db", "trap", "report", f"until:{USR1}", "write:5:", "until:15",
                    readiness={"type": "fd", "fd": 5}),
        "web": service("web", requires=["db"]),
    })
    report = launcher.wait_for_probe("report", tag="db")
    assert report["fds"] == [0, 1, 2, 5]
    launcher.wait_for_event("process-started", program="db")
    launcher.quiet_for(0.05)
    launcher.signal_inside(report["pid"], USR1)
    launcher.wait_for_event("process-ready", program="db")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_a_descriptor_that_is_closed_without_a_word_is_no_readiness(place):
    launcher = run(place, {
        "db": probe("tag:db", "trap", "close:3", "say:up", "until:15", readiness={"type": "fd"}, startTimeout="1s"),
    }, "--restart-delay", "20s")
    launcher.wait_up(tag="db")
    late = launcher.wait_for_event("process-timed-out", program="db")
    assert late["what"] == "start" and late["message"] == "db was not ready in time: killed"
    launcher.wait_for_event("process-exited", program="db", signal=int(signal.SIGKILL))
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("steps", [("exit:0",), ("die:9",)])
def test_ready_in_its_last_breath_counts(place, steps):
    """What it said before its end is heard before its end."""
    launcher = run(place, {
        "db": probe("tag:db", "notify:READY=1", *steps, readiness=NOTIFY, restart="never"),
        "web": service("web", after=["db"]),
    })
    launcher.wait_for_event("process-ready", program="db")
    launcher.wait_for_event("process-exited", program="db")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_start_timeout_is_a_failed_start(place):
    launcher = run(place, {
        "db": probe("tag:db", "trap", "say:up", "wait", readiness=NOTIFY, startTimeout="1s", backoff=RESTART_AT_ONCE,
                    startLimit={"count": 2, "interval": "60s"}, onFailure={"command": ["probe", "say:failed"]}),
        "web": service("web", requires=["db"]),
        "other": service("other"),
    })
    for _ in range(2):
        launcher.wait_up(tag="db")
        launcher.wait_for_event("process-timed-out", program="db", what="start")
        launcher.wait_for_event("process-exited", program="db", signal=9)
    gave_up = launcher.wait_for_event("process-gave-up", program="db")
    assert gave_up["starts"] == 2 and gave_up["message"] == "db is given up: started 2 times in too short a time"
    launcher.wait_for_probe("say", text="failed")
    assert not launcher.events_named("process-started", program="web")
    assert launcher.stop() == Exit(code=0)


def test_the_start_timeout_can_be_extended(place):
    launcher = run(place, {
        "db": probe("tag:db", "trap", "notify:EXTEND_TIMEOUT_USEC=60000000", "say:up", f"until:{USR1}",
                    "notify:READY=1", "until:15", readiness=NOTIFY, startTimeout="1s"),
    })
    db = launcher.wait_started(tag="db")["pid"]
    launcher.quiet_for(1.2)
    launcher.signal_inside(db, USR1)
    assert launcher.wait_for_event("process-ready", program="db")["after_seconds"] > 1.1
    assert launcher.stop() == Exit(code=0)


def test_watchdog(place):
    launcher = run(place, {
        "db": probe("tag:db", "report", "notify:READY=1", "pause", readiness=NOTIFY, watchdog="150ms",
                    backoff=RESTART_AT_ONCE),
    }, env={"PROBE_ENV": "WATCHDOG_USEC WATCHDOG_PID"})
    report = launcher.wait_for_probe("report")
    assert report["env"] == {"WATCHDOG_USEC": "150000", "WATCHDOG_PID": str(report["pid"])}
    late = launcher.wait_for_event("process-timed-out", program="db")
    assert late["what"] == "watchdog" and late["message"] == "db missed its watchdog: aborted"
    assert launcher.wait_for_event("process-exited", program="db")["signal"] == signal.SIGABRT
    launcher.wait_for_probe("report")
    assert launcher.stop() == Exit(code=0)


def test_watchdog_is_fed(as_pid1):
    feed = "while :; do probe notify:WATCHDOG=1; sleep 0.05; done"
    launcher = run(as_pid1, {
        "db": {"command": ["sh", "-c", f"probe notify:READY=1; {feed}"], "readiness": NOTIFY_ALL, "watchdog": "4s"},
    })
    launcher.wait_for_event("process-ready", program="db")
    launcher.quiet_for(4.5)
    assert launcher.stop() == Exit(code=0)


def test_a_watchdog_that_abort_does_not_impress(place):
    launcher = run(place, {
        "db": probe("tag:db", "trap", "notify:READY=1", "wait", readiness=NOTIFY, watchdog="100ms", stopTimeout="1s",
                    backoff=RESTART_AT_ONCE),
    })
    launcher.wait_for_event("process-timed-out", what="watchdog")
    launcher.wait_signal(signal.SIGABRT)
    launcher.wait_for_event("process-killed", program="db")
    launcher.wait_for_event("process-exited", program="db", signal=9)
    launcher.wait_for_event("process-started", program="db")
    assert launcher.stop() == Exit(code=0)


def test_watchdog_trigger(place):
    launcher = run(place, {
        "db": probe("notify:READY=1", "notify:WATCHDOG=trigger", "pause", readiness=NOTIFY, watchdog="60s"),
    })
    assert launcher.wait_for_event("process-exited", program="db")["signal"] == signal.SIGABRT
    assert launcher.stop() == Exit(code=0)


def health(flag, **keys):
    return {"command": ["test", "!", "-e", str(flag)], "interval": "20ms", "retries": 2, **keys}


def test_health_restarts(place):
    flag = place.area / "ill"
    launcher = run(place, {"web": service("web", health=health(flag)), "other": service("other")})
    launcher.wait_up(tag="web")
    launcher.wait_up(tag="other")
    flag.touch()
    ill = launcher.wait_for_event("process-unhealthy", program="web")
    assert (ill["failures"], ill["action"]) == (2, "restart")
    assert ill["message"] == "web is unhealthy: 2 probes in a row have failed, the last one: exit code 1"
    launcher.wait_signal(signal.SIGTERM, tag="web")
    flag.unlink()
    launcher.wait_for_event("process-exited", program="web", exit_code=0)
    launcher.wait_up(tag="web")
    assert not launcher.events_named("process-exited", program="other")
    assert launcher.stop() == Exit(code=0)


def test_health_reports_once_and_again_after_it_was_well(place):
    flag = place.area / "ill"
    command = ["sh", "-c", f"[ ! -e {flag} ] && exec probe say:well"]
    launcher = run(place, {"web": service("web", health=health(flag, action="report", command=command))})
    launcher.wait_started(tag="web")
    for _ in range(2):
        flag.touch()
        assert launcher.wait_for_event("process-unhealthy", program="web")["action"] == "report"
        launcher.quiet_for(0.2)
        launcher.probe.drain()
        launcher.probe.pending.clear()  # of what was before
        flag.unlink()
        for _ in range(2):  # with the second one the launcher has heard of the first
            launcher.wait_for_probe("say", text="well")
        launcher.quiet_for(0.2)
    assert launcher.stop() == Exit(code=0)


def test_another_action_comes_though_it_has_failed_long_ago(place):
    """The new action follows when the new number of failures has come since the change, not never."""
    flag = place.area / "ill"
    flag.touch()
    programs = {"web": service("web", health=health(flag, action="report"))}
    launcher = run(place, programs)
    launcher.wait_up(tag="web")
    launcher.wait_for_event("process-unhealthy", program="web", action="report")
    launcher.replace({"web": service("web", health=health(flag, action="restart"))})
    assert launcher.wait_for_event("process-unhealthy", program="web", action="restart")["failures"] == 2
    launcher.wait_for_event("process-exited", program="web", exit_code=0)
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_health_ends_the_container(place):
    flag = place.area / "ill"
    launcher = run(place, {"web": service("web", health=health(flag, action="exit")), "db": service("db")})
    launcher.wait_up(tag="web")
    flag.touch()
    assert launcher.wait_for_event("process-unhealthy", program="web")["action"] == "exit"
    assert launcher.wait_for_event("container-ending", program="web")["exit_code"] == 1
    assert launcher.wait() == Exit(code=1)
    assert len(launcher.events_named("process-exited")) == 2


def test_a_probe_that_hangs_counts_as_failed_and_leaves_nothing(place):
    launcher = run(place, {
        "web": service("web", health={"command": ["sh", "-c", "sleep 1000 & wait"], "interval": "10ms",
                                      "timeout": "50ms", "retries": 2, "action": "report"}),
    })
    launcher.wait_for_event("process-unhealthy", program="web")
    assert launcher.stop() == Exit(code=0)


def test_the_start_period_forgives(place):
    launcher = run(place, {
        "web": service("web", health={"command": ["false"], "interval": "10ms", "retries": 1, "startPeriod": "1s",
                                      "action": "report"}),
    })
    started = launcher.wait_for_event("process-started", program="web")
    ill = launcher.wait_for_event("process-unhealthy", program="web")
    assert seconds(ill) - seconds(started) >= 0.5  # the period begins before that is written
    assert launcher.stop() == Exit(code=0)


def test_helpers_know_whose_they_are(place):
    names = {"environment": {"PROBE_ENV": "TRITON_PROGRAM TRITON_PROCESS OWN"}}
    launcher = run(place, {
        "web": service("web", count=2, **{"environment": {**names["environment"], "OWN": "x"}},
                       readiness={"type": "exec", "command": ["probe", "tag:probe", "report"], "interval": "10ms"}),
    })
    seen = set()
    for _ in range(2):
        env = launcher.wait_for_probe("report", tag="probe")["env"]
        assert env.pop("TRITON_PROGRAM") == "web" and env.pop("OWN") == "x"
        seen.add(env.pop("TRITON_PROCESS"))
        assert env == {}
    assert seen == {"1", "2"}
    assert launcher.stop() == Exit(code=0)


def test_ready_of_the_launcher_follows_the_programs(place):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    address = str(place.area / "manager")
    manager.bind(address)
    os.chmod(address, 0o666)
    manager.settimeout(0.2)
    launcher = run(place, {
        "db": probe("trap", "tag:db", "say:up", f"until:{USR1}", "notify:READY=1", "until:15", readiness=NOTIFY),
        "setup": probe("tag:setup", "exit:0", oneShot=True),
        "web": service("web", requires=["db", "setup"]),
    }, env={"NOTIFY_SOCKET": address})
    db = launcher.wait_up(tag="db")["pid"]
    launcher.wait_for_event("process-exited", program="setup")
    with pytest.raises(TimeoutError):
        while "READY=1" not in manager.recv(4096).decode():
            pass
    manager.settimeout(TIMEOUT)
    launcher.signal_inside(db, USR1)
    while "READY=1" not in (text := manager.recv(4096).decode()):
        pass
    assert "STATUS=" in text
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)
    manager.close()


def test_several_checks_have_consequences_of_their_own(place):
    """What only reports makes a process that goes on not ready; what is bound to it stops meanwhile."""
    ill, dead = place.area / "ill", place.area / "dead"
    launcher = run(place, {
        "db": service("db", health=[health(ill, name="serves", action="report"), health(dead, name="lives")]),
        "web": service("web", bindsTo=["db"]),
    })
    launcher.wait_up(tag="web")
    ill.touch()
    report = launcher.wait_for_event("process-unhealthy", program="db")
    assert (report["check"], report["action"]) == ("serves", "report")
    assert report["message"] == "db is unhealthy: 2 probes of serves in a row have failed, the last one: exit code 1"
    launcher.wait_for_event("process-exited", program="web")
    assert not launcher.events_named("process-exited", program="db")
    ill.unlink()
    well = launcher.wait_for_event("process-healthy", program="db")
    assert (well["check"], well["message"]) == ("serves", "db is healthy again (serves)")
    launcher.wait_up(tag="web")
    dead.touch()
    launcher.wait_for_event("process-unhealthy", program="db", check="lives", action="restart")
    dead.unlink()
    launcher.wait_up(tag="db")
    assert launcher.stop() == Exit(code=0)

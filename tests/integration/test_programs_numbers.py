"""The numbers of one program among each other: starts in order, and restarts that leave enough of them in service."""

from harness.process import Exit
from harness.programs import RESTART_AT_ONCE, USR1, probe, run, service


def ready_later(tag, **keys):
    """Is ready once USR1 has come."""
    return probe(f"tag:{tag}", "trap", "say:up", f"until:{USR1}", "notify:READY=1", "until:15",
                 readiness={"type": "notify"}, **keys)


def started(launcher):
    return [record["process"] for record in launcher.events_named("process-started", program="web")]


def test_in_order(place):
    launcher = run(place, {"web": ready_later("web", count=3, order="sequential")})
    for number in (1, 2, 3):
        pid = launcher.wait_started(tag="web")["pid"]
        assert started(launcher) == list(range(1, number + 1))
        launcher.quiet_for(0.05, launcher.probe)
        launcher.signal_inside(pid, USR1)
        launcher.wait_for_event("process-ready", program="web", process=number)
    assert launcher.stop() == Exit(code=0)


def test_one_that_has_failed_for_good_is_not_waited_for(place):
    launcher = run(place, {"web": probe("exit:1", count=2, order="sequential", restart="never"), "other": service("other")})
    for number in (1, 2):
        launcher.wait_for_event("process-exited", program="web", process=number)
    assert launcher.stop() == Exit(code=0)


def test_a_rolling_restart(place):
    """By command: at no time are two away."""
    launcher = run(place, {"web": service("web", count=4, maxUnavailable=1, backoff=RESTART_AT_ONCE)})
    for _ in range(4):
        launcher.wait_up(tag="web")
    launcher.events.drain()
    before = len(launcher.events.all)
    launcher.ctl("restart", "web")
    for _ in range(4):
        launcher.wait_up(tag="web")
    launcher.events.drain()
    order = []
    away = set()
    for record in launcher.events.all[before:]:
        if record.get("program") != "web":
            continue
        if record["event"] == "process-exited":
            away.add(record["process"])
            order.append(record["process"])
            assert len(away) == 1
        elif record["event"] == "process-started":
            away.discard(record["process"])
    assert order == [1, 2, 3, 4]
    assert launcher.stop() == Exit(code=0)


def test_it_goes_no_further_than_what_comes_back(place):
    """A new version that is never ready takes one process, not all."""
    launcher = run(place, {"web": service("web", count=3, maxUnavailable=1, onConfigurationChange="restart")})
    for number in (1, 2, 3):
        launcher.wait_up(tag="web")
        launcher.wait_for_event("process-started", process=number)  # before it one is not available, and costs nothing
    launcher.wait_for_event("configuration-loaded")
    launcher.replace({"web": ready_later("bad", count=3, maxUnavailable=1, onConfigurationChange="restart")})
    launcher.wait_for_event("configuration-loaded")
    bad = launcher.wait_up(tag="bad")["pid"]
    launcher.quiet_for(0.1)
    assert len(launcher.events_named("process-exited", program="web")) == 1
    launcher.signal_inside(bad, USR1)
    launcher.wait_started(tag="bad")
    assert len(launcher.events_named("process-exited", program="web")) == 2
    assert launcher.stop() == Exit(code=0)

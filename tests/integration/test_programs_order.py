"""Programs: what waits for what at the start, and the way back at the stop."""

import signal

import pytest

from harness.process import Exit
from harness.programs import USR1, document, order_of, probe, run, service


def test_programs_run_with_their_names_in_the_log(place):
    launcher = run(place, {"web": service("web"), "db": service("db", count=2)})
    loaded = launcher.wait_for_event("configuration-loaded")
    assert (loaded["programs"], loaded["processes"]) == (["web", "db"], 3)
    assert loaded["message"].endswith("loaded: 2 programs, 3 processes")
    started = [launcher.wait_for_event("process-started") for _ in range(3)]
    started.sort(key=lambda event: (event["program"], event["process"]))  # told as each has executed its program
    assert order_of(started, "program", "process") == [("db", 1), ("db", 2), ("web", 1)]
    assert started[1]["message"].startswith("db:2 started, pid ")
    assert started[2]["message"].startswith("web started, pid ")
    for tag in ("web", "db", "db"):
        launcher.wait_up(tag=tag)
    assert launcher.stop() == Exit(code=0)


def test_after_waits_for_readiness(place):
    gate = place.area / "gate"
    launcher = run(place, {
        "web": service("web", after=["db"]),
        "db": service("db", readiness={"type": "exec", "command": ["test", "-e", str(gate)], "interval": "10ms"}),
    })
    launcher.wait_started(tag="db")
    launcher.quiet_for(0.1, launcher.probe)
    gate.touch()
    ready = launcher.wait_for_event("process-ready", program="db", process=1)
    assert ready["after_seconds"] >= 0.1 and ready["message"].startswith("db is ready after ")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_what_is_bound_stops_and_starts_with_the_other(as_pid1):
    launcher = run(as_pid1, {
        "web": service("web", bindsTo=["db"], restart="never"),
        "db": service("db", backoff={"initial": "1ms", "max": "1ms", "jitter": 0}),
        "early": probe("tag:early", "say:early", "exit:0", oneShot=True, before=["db"]),
    })
    launcher.wait_for_event("process-exited", program="early")
    db, web = launcher.wait_up(tag="db")["pid"], launcher.wait_up(tag="web")["pid"]
    launcher.signal_inside(db, signal.SIGKILL)
    ended = launcher.wait_for_event("process-exited", program="web")
    assert (ended["pid"], ended["level"], ended["restart_in_seconds"]) == (web, "info", 0)
    assert launcher.wait_up(tag="db")["pid"] != db and launcher.wait_up(tag="web")["pid"] != web
    assert next(line["tag"] for line in launcher.probe.all if line["probe"] == "say") == "early"
    assert launcher.stop() == Exit(code=0)


def test_a_one_shot_first(place):
    launcher = run(place, {
        "web": service("web", requires=["setup"]),
        "setup": probe("tag:setup", "trap", "say:up", f"until:{USR1}", oneShot=True),
    })
    pid = launcher.wait_up(tag="setup")["pid"]
    launcher.quiet_for(0.1, launcher.probe)
    launcher.signal_inside(pid, USR1)
    ended = launcher.wait_for_event("process-exited", program="setup")
    assert ended["exit_code"] == 0 and "restart_in_seconds" not in ended
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_a_failed_one_shot_keeps_its_dependants_waiting(place):
    launcher = run(place, {
        "setup": probe("exit:3", oneShot=True),
        "web": service("web", requires=["setup"]),
        "other": service("other", after=["setup"]),
    })
    launcher.wait_for_event("process-exited", program="setup", exit_code=3)
    launcher.wait_up(tag="other")  # `after` asks for an end, whatever it was
    launcher.quiet_for(0.1, launcher.probe)
    assert not launcher.events_named("process-started", program="web")
    launcher.assert_running()
    assert launcher.stop() == Exit(code=0)


def test_a_failed_one_shot_that_all_others_wait_for_ends_the_container(place):
    launcher = run(place, {
        "setup": probe("exit:3", oneShot=True),
        "web": service("web", requires=["setup"]),
        "api": service("api", requires=["web"]),
    })
    ending = launcher.wait_for_event("container-ending")
    assert (ending["program"], ending["process"], ending["exit_code"]) == ("setup", 1, 3)
    assert ending["message"] == "the container ends with exit code 3, because of setup"
    assert launcher.wait() == Exit(code=3)
    assert not launcher.events_named("process-started", program="web")


def test_a_one_shot_that_succeeds_at_last(place):
    marker = place.area / "marker"
    script = f"if [ -e {marker} ]; then exit 0; fi; touch {marker}; exit 7"
    launcher = run(place, {
        "setup": {"command": ["sh", "-c", script], "oneShot": True, "restart": "on-failure"},
        "web": service("web", requires=["setup"]),
    }, "--restart-delay", "10ms")
    first = launcher.wait_for_event("process-exited", program="setup")
    assert first["exit_code"] == 7 and first["restart_in_seconds"] >= 0
    assert launcher.wait_for_event("process-exited", program="setup")["exit_code"] == 0
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("keys, error", [
    ({"a": {"after": ["b"]}, "b": {"requires": ["c"]}, "c": {"after": ["a"]}}, "a -> b -> c -> a"),
    ({"a": {"after": ["a"]}}, "a"),
    ({"a": {"requires": ["nobody"]}}, "nobody"),
])
def test_dependencies_that_cannot_be(as_pid1, keys, error):
    launcher = run(as_pid1, {name: probe("pause", **own) for name, own in keys.items()}, "--exit-on-bad-config")
    errors = launcher.wait_for_event("configuration-rejected")["errors"]
    assert len(errors) == 1 and error in errors[0], errors
    assert errors[0].startswith("programs.")
    assert launcher.wait() == Exit(code=1)


def test_the_stop_goes_the_other_way(place):
    """Each waits for the end of what depends on it."""
    slow = ["trap", "say:up", "until:15", "say:stopping", f"until:{USR1}"]
    launcher = run(place, {
        "db": probe("tag:db", *slow),
        "api": probe("tag:api", *slow, requires=["db"]),
        "web": probe("tag:web", *slow, after=["api"]),
    })
    pids = {tag: launcher.wait_up(tag=tag)["pid"] for tag in ("db", "api", "web")}
    launcher.signal(signal.SIGTERM)
    for tag in ("web", "api", "db"):
        launcher.wait_for_probe("say", text="stopping", tag=tag)
        launcher.wait_signal(signal.SIGCONT, tag=tag)  # a stopped process could not obey
        launcher.quiet_for(0.05, launcher.probe)
        launcher.signal_inside(pids[tag], USR1)
        launcher.wait_signal(USR1, tag=tag)
    assert launcher.wait() == Exit(code=0)
    assert order_of(launcher.events_named("process-exited"), "program") == [("web",), ("api",), ("db",)]


def test_a_stop_of_many_without_dependencies_is_for_all_at_once(place):
    slow = ["trap", "say:up", "until:15", "say:stopping", f"until:{USR1}"]
    launcher = run(place, {name: probe(f"tag:{name}", *slow) for name in ("a", "b", "c")})
    pids = [launcher.wait_up(tag=tag)["pid"] for tag in ("a", "b", "c")]
    launcher.signal(signal.SIGTERM)
    for tag in ("a", "b", "c"):
        launcher.wait_for_probe("say", text="stopping", tag=tag)
    for pid in pids:
        launcher.signal_inside(pid, USR1)
    assert launcher.wait() == Exit(code=0)


def test_a_stop_while_some_wait(place):
    """What waits never starts, and what it waits for is stopped."""
    launcher = run(place, {
        "db": service("db", readiness={"type": "exec", "command": ["false"], "interval": "10ms"}),
        "web": service("web", requires=["db"]),
    })
    launcher.wait_up(tag="db")
    assert launcher.stop() == Exit(code=0)
    assert order_of(launcher.events_named("process-started"), "program") == [("db",)]


def test_the_second_signal_kills_at_once(place):
    stubborn = ["trap", "say:up", "wait"]
    launcher = run(place, {"db": probe("tag:db", *stubborn), "web": probe("tag:web", *stubborn, requires=["db"])})
    launcher.wait_up(tag="web")
    launcher.signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGTERM, tag="web")
    launcher.hurry()
    assert launcher.wait() == Exit(code=0)
    killed = launcher.events_named("process-killed")
    assert sorted(order_of(killed, "program")) == [("db",), ("web",)]


def test_a_restart_waits_for_what_it_requires(place):
    gate = place.area / "gate"
    gate.touch()
    launcher = run(place, {
        "db": service("db", readiness={"type": "exec", "command": ["test", "-e", str(gate)], "interval": "10ms"}),
        "web": service("web", requires=["db"]),
    })
    db = launcher.wait_up(tag="db")["pid"]
    web = launcher.wait_up(tag="web")["pid"]
    gate.unlink()
    launcher.signal_inside(db, signal.SIGKILL)
    launcher.wait_up(tag="db")
    launcher.signal_inside(web, signal.SIGKILL)
    launcher.wait_for_event("process-exited", program="web")
    launcher.quiet_for(0.1, launcher.probe)
    gate.touch()
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_signals_reach_every_program(place):
    launcher = run(place, {"a": service("a"), "b": service("b", count=2)})
    for tag in ("a", "b", "b"):
        launcher.wait_up(tag=tag)
    launcher.signal(USR1)
    for tag in ("a", "b", "b"):
        launcher.wait_signal(USR1, tag=tag)
    assert launcher.stop() == Exit(code=0)


def test_run_servers_false_runs_nothing(place):
    launcher = run(place, {"web": service("web")})
    launcher.wait_up(tag="web")
    launcher.configuration.write_text(document({"web": service("web")}, runServers=False))
    launcher.wait_for_event("process-exited", program="web")
    launcher.quiet_for(0.05, launcher.probe)
    launcher.configuration.write_text(document({"web": service("web")}))
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)

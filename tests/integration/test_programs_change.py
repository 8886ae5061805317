"""Programs: what a new configuration changes, and what it must not touch."""

import json
import os
import resource
import signal
import socket

import pytest

from harness.control import Controlled
from harness.process import Exit, eventually, free_port
from harness.programs import USR1, order_of, probe, run, service


def test_keep_is_the_default(place):
    launcher = run(place, {"web": service("one")})
    pid = launcher.wait_up(tag="one")["pid"]
    launcher.replace({"web": service("two")})
    launcher.wait_for_event("configuration-loaded")
    launcher.wait_for_event("configuration-loaded")
    launcher.quiet_for(0.1, launcher.probe)
    launcher.signal_inside(pid, signal.SIGTERM)
    launcher.wait_up(tag="two")  # its successor has the new one
    assert launcher.stop() == Exit(code=0)


def test_restart_on_change(place):
    launcher = run(place, {"web": service("one", onConfigurationChange="restart"), "db": service("db")})
    launcher.wait_up(tag="one")
    launcher.wait_up(tag="db")
    launcher.replace({"web": service("two", onConfigurationChange="restart"), "db": service("db")})
    launcher.wait_signal(signal.SIGTERM, tag="one")
    launcher.wait_for_event("process-stopping", program="web")
    ended = launcher.wait_for_event("process-exited", program="web")
    assert ended["exit_code"] == 0 and ended["restart_in_seconds"] == 0
    launcher.wait_started(tag="two")
    launcher.quiet_for(0.1)
    assert len(launcher.events_named("process-started", program="db")) == 1
    assert launcher.stop() == Exit(code=0)


def test_signal_on_change(place):
    keys = {"onConfigurationChange": "signal", "reloadSignal": "USR1"}
    launcher = run(place, {"web": service("one", count=2, **keys), "db": service("db", **keys)})
    for tag in ("one", "one", "db"):
        launcher.wait_up(tag=tag)
    launcher.replace({"web": service("two", count=2, **keys), "db": service("db", **keys)})
    for _ in range(2):
        launcher.wait_signal(USR1, tag="one")
        told = launcher.wait_for_event("process-signalled", program="web", signal=USR1)
        assert told["message"].endswith(": its configuration has changed")
    launcher.quiet_for(0.1, launcher.probe)
    assert not launcher.events_named("process-exited")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("change", ["environment file", "order of keys", "white space"])
def test_what_changes_the_start_is_a_change_and_what_does_not_is_none(place, change):
    env_file = place.area / "env"
    env_file.write_text("SIZE=1\n")
    size = {"type": "Environment", "source": "SIZE"}
    web = {"command": ["probe", {"type": "Concatenate", "values": ["tag:", size]}, "trap", "say:up", "until:15"],
           "onConfigurationChange": "restart"}
    launcher = run(place, {"web": web}, "--additional-env-file", env_file, "--log-level", "debug")
    launcher.wait_up(tag="1")
    if change == "environment file":
        env_file.write_text("SIZE=2\n")
        launcher.wait_up(tag="2")
    else:
        turned = dict(reversed(web.items())) if change == "order of keys" else web
        launcher.configuration.write_text(json.dumps({"programs": {"web": turned}, "version": "1.0.0"}, indent=3))
        launcher.wait_for_event("configuration-unchanged")
        launcher.quiet_for(0.1, launcher.probe)
    assert launcher.stop() == Exit(code=0)


def test_programs_come_and_go(place):
    launcher = run(place, {"a": service("a"), "b": service("b")})
    a = launcher.wait_up(tag="a")["pid"]
    launcher.wait_up(tag="b")
    launcher.replace({"a": service("a"), "c": service("c")})
    launcher.wait_signal(signal.SIGTERM, tag="b")
    gone = launcher.wait_for_event("process-exited", program="b")
    assert "restart_in_seconds" not in gone
    launcher.wait_up(tag="c")
    launcher.replace({"b": service("b"), "a": service("a")})
    launcher.wait_for_event("process-exited", program="c")
    launcher.wait_up(tag="b")
    assert launcher.is_alive(a) and len(launcher.events_named("process-started", program="a")) == 1
    assert launcher.stop() == Exit(code=0)


def test_a_program_that_is_renamed_is_another_one(place):
    launcher = run(place, {"old": service("web")})
    launcher.wait_up(tag="web")
    launcher.replace({"new": service("web")})
    assert launcher.wait_for_event("process-started", program="new")
    launcher.wait_for_event("process-exited", program="old")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_a_program_that_comes_back_while_it_stops(place):
    """Never two of one number: the new one starts when the old one has ended."""
    web = probe("tag:web", "trap", "say:up", "until:15", "say:stopping", f"until:{USR1}")
    launcher = run(place, {"web": web, "other": service("other")})
    pid = launcher.wait_up(tag="web")["pid"]
    launcher.replace({"other": service("other")})
    launcher.wait_for_probe("say", text="stopping")
    launcher.replace({"web": web, "other": service("other")})
    launcher.wait_for_event("configuration-loaded", programs=["web", "other"])
    launcher.wait_for_event("configuration-loaded", programs=["web", "other"])
    assert len(launcher.events_named("process-started", program="web")) == 1
    launcher.signal_inside(pid, USR1)
    launcher.wait_for_event("process-exited", program="web")
    second = launcher.wait_up(tag="web")["pid"]
    launcher.signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGTERM, pid=second)
    launcher.signal_inside(second, USR1)
    assert launcher.wait() == Exit(code=0)


def test_counts_change(place):
    number = {"type": "Concatenate", "values": ["n:", {"type": "ProcessNumber"}]}

    def web(count):
        return {"web": probe(number, "trap", "say:up", "until:15", count=count)}

    launcher = run(place, web(2))
    launcher.wait_up(n=1)
    launcher.wait_up(n=2)
    launcher.replace(web(4))
    launcher.wait_up(n=3)
    launcher.wait_up(n=4)
    launcher.replace(web(1))
    for n in (2, 3, 4):
        launcher.wait_signal(signal.SIGTERM, n=n)
        launcher.wait_for_event("process-exited", process=n)
    launcher.replace(web(0))
    launcher.wait_for_event("process-exited", process=1)
    launcher.quiet_for(0.1)
    launcher.replace(web(1))
    launcher.wait_up(n=1)
    assert launcher.stop() == Exit(code=0)


def test_who_leaves_is_stopped_by_the_hook_of_the_new_configuration(place):
    """Its numbers are above the count for which that one was made, and longer than any of it."""
    large = {"type": "ProcessNumber", "multiplier": 1000000000000}

    def web(count, tag):
        hook = [{"type": "Concatenate", "values": ["tag:", tag, "-", large]}]
        numbered = {"NUMBERED": large, "PROBE_ENV": "NUMBERED"}
        stop = {"command": ["probe", *hook, "report"]}
        return {"web": service("web", count=count, environment=numbered, preStop=stop), "db": service("db")}

    launcher = run(place, web(12, "old"))
    for _ in range(12):
        launcher.wait_up(tag="web")
    launcher.replace(web(1, "new"))
    for number in range(2, 13):
        value = f"{number}000000000000"
        assert launcher.wait_for_probe("report", tag=f"new-{value}")["env"]["NUMBERED"] == value
        launcher.wait_for_event("process-exited", program="web", process=number)
    launcher.replace(web(0, "none"))
    launcher.wait_for_probe("report", tag="none-1000000000000")
    launcher.wait_for_event("process-exited", program="web", process=1)
    assert not launcher.events_named("helper-failed")
    assert launcher.stop() == Exit(code=0)


def test_another_count_is_no_change_for_who_stays(place):
    def web(count):
        return {"web": probe({"type": "Concatenate", "values": ["n:", {"type": "ProcessNumber"}]}, "trap", "say:up",
                             "until:15", count=count, onConfigurationChange="restart")}

    launcher = run(place, web(9))
    for n in range(1, 10):
        launcher.wait_up(n=n)
    launcher.replace(web(12))
    for n in range(10, 13):
        launcher.wait_up(n=n)
    launcher.replace(web(2))
    for n in range(3, 13):
        launcher.wait_for_event("process-exited", process=n)
    launcher.quiet_for(0.1)
    assert not launcher.events_named("process-exited", process=1)
    assert not launcher.events_named("process-exited", process=2)
    assert launcher.stop() == Exit(code=0)


def test_from_the_designs_form_to_programs_and_back(place):
    launcher = run(place, {"web": service("web")}, "--fdbserver-path", place.probe)
    launcher.wait_up(tag="web")
    launcher.configuration.write("tag:plain", "trap", "say:up", "until:15")
    plain = launcher.wait_up(tag="plain")["pid"]
    launcher.wait_for_event("process-exited", program="web")
    started = launcher.wait_for_event("process-started", pid=plain)
    assert "program" not in started and started["process"] == 1
    launcher.replace({"web": service("web")})
    launcher.wait_up(tag="web")
    launcher.wait_for_event("process-exited", pid=plain)
    assert launcher.stop() == Exit(code=0)


def test_dependencies_change_while_somebody_waits(place):
    never = {"type": "exec", "command": ["false"], "interval": "10ms"}
    launcher = run(place, {"db": service("db", readiness=never), "web": service("web", requires=["db"])})
    launcher.wait_up(tag="db")
    launcher.replace({"db": service("db", readiness=never), "web": service("web")})
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_what_is_given_up_is_tried_again_when_it_changes(place):
    launcher = run(place, {"job": probe("exit:5", restart="never"), "web": service("web")})
    launcher.wait_for_event("process-exited", program="job")
    launcher.wait_up(tag="web")
    launcher.replace({"job": service("job"), "web": service("web")})
    launcher.wait_up(tag="job")
    assert launcher.stop() == Exit(code=0)


# --- configurations that are refused

@pytest.mark.parametrize("keys, error", [
    ({"command": ["nonexistent-program"]}, 'programs.web.command[0]: cannot find "nonexistent-program" in PATH'),
    ({"command": ["/nonexistent/program"]}, "programs.web.command[0]: cannot execute /nonexistent/program: No such"),
    ({"command": ["/etc/passwd"]}, "programs.web.command[0]: cannot execute /etc/passwd: Permission denied"),
    ({"command": []}, "programs.web.command"),
    ({"user": "nobody-here"}, "programs.web.user: "),
    ({"group": "nobody-here"}, "programs.web.group: "),
    ({"environment": {"X": {"type": "Environment", "source": "MISSING"}}}, "programs.web.environment.X"),
    ({"restart": "sometimes"}, "programs.web.restart"),
    ({"stopTimeout": "10 parsecs"}, "programs.web.stopTimeout"),
    ({"oneShot": True, "schedule": {"every": "1s"}}, "programs.web"),
    ({"output": {"file": "/nonexistent/log"}}, "programs.web.output: cannot open /nonexistent/log"),
    ({"sockets": [{"name": "x", "listen": "unix:/nonexistent/socket"}]}, "programs.web.sockets[0]: cannot listen on "),
    ({"landlock": {"readOnly": ["/nonexistent"]}}, "programs.web.landlock"),
    ({"seccomp": {"deny": ["no_such_call"]}}, "programs.web.seccomp.deny[0]"),
    ({"capabilities": {"bounding": ["CAP_NOTHING"]}}, "programs.web.capabilities.bounding[0]"),
    ({"cpuAffinity": "8191"}, "programs.web.cpuAffinity: "),
    ({"rootDirectory": "/nonexistent"}, "programs.web.rootDirectory: cannot enter the root directory /nonexistent: "),
    ({"rootDirectory": "/usr", "command": ["/usr/bin/env"]},
     "programs.web.command[0]: cannot execute /usr/bin/env inside /usr: "),
    ({"watchdog": "1s"}, "programs.web.watchdog"),
    ({"limits": {"nofile": {"soft": 10, "hard": 5}}}, "programs.web.limits.nofile"),
])
def test_a_bad_program_is_refused_and_what_runs_stays(as_pid1, keys, error):
    launcher = run(as_pid1, {"web": service("web")})
    pid = launcher.wait_up(tag="web")["pid"]
    errors = launcher.reject({"web": service("web", **keys), "new": service("new")})
    assert len(errors) == 1 and errors[0].startswith(error), errors
    launcher.quiet_for(0.05, launcher.probe)
    assert launcher.is_alive(pid)
    launcher.replace({"web": service("web"), "fine": service("fine")})
    launcher.wait_up(tag="fine")
    assert launcher.is_alive(pid)
    assert launcher.stop() == Exit(code=0)


def test_some_descriptors_stay_for_the_launcher(as_pid1):
    """With all of them given away it could neither be asked nor get another configuration."""
    launcher = run(as_pid1, {"web": service("web")})
    launcher.wait_up(tag="web")
    resource.prlimit(launcher.pid, resource.RLIMIT_NOFILE, (128, 128))
    captured = {"output": {}, "limits": {"nofile": 100}}  # not the limit that the launcher was started with
    assert launcher.reject({"web": service("web", count=17, **captured)}) == [
        "programs: their pipes and sockets need 68 open files, and the launcher itself 64, but its hard limit "
        "(RLIMIT_NOFILE) is 128"]
    launcher.replace({"web": service("web", count=16, **captured)})
    for _ in range(15):
        launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_all_reasons_are_told_at_once(as_pid1):
    launcher = run(as_pid1, {"a": probe("pause", restart="x"), "b": {"command": ["/nonexistent"]},
                             "c": probe("pause", after=["z"])}, "--exit-on-bad-config")
    errors = launcher.wait_for_event("configuration-rejected")["errors"]
    assert [text.split(":")[0] for text in errors] == ["programs.a.restart", "programs.c.after[0]",
                                                       "programs.b.command[0]"]
    assert launcher.wait() == Exit(code=1)


@pytest.mark.parametrize("more", [{"arguments": []}, {"count": 2}])
def test_top_level_keys_that_do_not_go_together(as_pid1, more):
    launcher = run(as_pid1, {"web": service("web")})
    launcher.wait_up(tag="web")
    errors = launcher.reject({"web": service("web")}, **more)
    assert errors == [f"{next(iter(more))}: cannot be used together with programs"]
    assert launcher.stop() == Exit(code=0)


def test_a_refused_configuration_leaves_no_trace(place):
    """Its sockets are closed again, and a log file that it moved somebody to is not used."""
    first = place.area / "first"
    second = place.area / "second"
    port = free_port()
    web = service("web", "print:one", f"until:{USR1}", "print:two")
    launcher = run(place, {"web": {**web, "output": {"file": str(first)}}})
    pid = launcher.wait_for_event("process-started")["pid"]
    eventually(lambda: first.read_text() == "one\n", "the first line")
    errors = launcher.reject({
        "web": {**web, "output": {"file": str(second)}},
        "api": service("api", sockets=[{"name": "http", "listen": f"tcp:127.0.0.1:{port}"},
                                       {"name": "path", "listen": f"unix:{place.area}/refused"}]),
        "bad": service("bad", output={"file": "/nonexistent/log"}),
    })
    assert len(errors) == 1 and errors[0].startswith("programs.bad.output: ")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert not (place.area / "refused").exists()
    launcher.signal_inside(pid, USR1)
    launcher.wait_up(tag="web")
    eventually(lambda: first.read_text() == "one\ntwo\n", "the second line")
    assert launcher.stop() == Exit(code=0)


def test_a_binary_that_appears_later(place):
    """What a refused configuration waits for is watched."""
    late = place.area / "late"
    launcher = run(place, {"web": {"command": [str(late), "say:up", "pause"]}})
    assert len(launcher.wait_for_event("configuration-rejected")["errors"]) == 1
    temporary = place.area / "temporary"
    temporary.write_bytes(place.probe.read_bytes())
    temporary.chmod(0o755)
    temporary.rename(late)
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_unknown_keys_are_warnings(as_pid1):
    launcher = run(as_pid1, {"web": service("web", colour="green")})
    warning = launcher.wait_for_event("configuration-warning")["warnings"]
    assert len(warning) == 1 and warning[0] == 'programs.web: unknown key "colour"'
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_unknown_keys_are_told_where_nothing_else_changes(as_pid1):
    """Whoever adds one key, mistyped, sees nothing happen and is told why: once for each document."""
    web = {"steps": ["trap", "say:up", "until:15"]}
    controlled = Controlled(as_pid1, {"web": web})
    launcher = controlled.launcher
    launcher.wait_up(tag="web")
    for key in ("maxUnavailble", "stopTimout"):
        controlled.configure({"web": {**web, key: 1}})
        controlled.ctl("reload")
        warnings = launcher.wait_for_event("configuration-warning")["warnings"]
        assert len(warnings) == 1 and f'unknown key "{key}"' in warnings[0]
        controlled.ctl("reload")
    controlled.configure({"web": web})
    controlled.ctl("reload")
    assert launcher.stop() == Exit(code=0)
    assert len(launcher.events_named("configuration-warning")) == 2
    controlled.close()


def test_many_changes_leave_nothing_behind(as_pid1):
    """Programs that come and go: descriptors, sockets and table entries are given back."""
    def programs(round_number):
        return {f"p{round_number}": service(f"r{round_number}", output={"format": "prefix"}, readiness={"type": "exec",
                "command": ["true"]})}

    launcher = run(as_pid1, programs(0))
    launcher.wait_up(tag="r0")
    for round_number in range(1, 9):
        launcher.replace(programs(round_number))
        launcher.wait_up(tag=f"r{round_number}")
        launcher.wait_for_event("process-exited", program=f"p{round_number - 1}")

    def descriptors():
        return len(os.listdir(f"/proc/{launcher.pid}/fd"))

    eventually(lambda: descriptors() <= 20, "descriptors are given back")
    before = descriptors()
    launcher.replace(programs(99))
    launcher.wait_up(tag="r99")
    eventually(lambda: descriptors() <= before, "descriptors are given back")
    assert launcher.stop() == Exit(code=0)
    assert order_of(launcher.events_named("process-started"), "program")[-1] == ("p99",)


def test_the_document_may_have_no_version(place):
    launcher = run(place, {"web": service("web")})
    launcher.wait_up(tag="web")
    launcher.configuration.write_text(json.dumps({"programs": {"api": service("api")}}))
    launcher.wait_up(tag="api")
    assert launcher.stop() == Exit(code=0)

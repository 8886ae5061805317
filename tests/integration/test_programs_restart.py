"""Programs: what follows when a process ends, up to the end of the container and its exit code."""

import signal

import pytest

from harness.process import Exit, eventually, has_errno
from harness.programs import RESTART_AT_ONCE, USR1, probe, run, service


@pytest.mark.parametrize("restart, step, is_restarted", [
    ("always", "exit:0", True),
    ("always", "exit:4", True),
    ("on-failure", "exit:0", False),
    ("on-failure", "exit:4", True),
    ("on-failure", "die:9", True),
    ("never", "exit:0", False),
    ("never", "exit:4", False),
    ("never", "die:15", False),
])
def test_restart_policies(as_pid1, restart, step, is_restarted):
    launcher = run(as_pid1, {"job": probe("say:up", step, restart=restart, backoff=RESTART_AT_ONCE),
                             "other": service("other")})
    launcher.wait_started(tag="other")
    ended = launcher.wait_for_event("process-exited", program="job")
    assert ("restart_in_seconds" in ended) == is_restarted
    if is_restarted:
        launcher.wait_for_event("process-exited", program="job")
    else:
        launcher.quiet_for(0.1)
    assert launcher.stop() == Exit(code=0)


def test_further_codes_are_successes(as_pid1):
    launcher = run(as_pid1, {
        "java": probe("exit:143", oneShot=True, successCodes=[143]),
        "worker": probe("die:15", restart="on-failure", successCodes=["TERM"]),
        "last": probe("say:up", "exit:0", oneShot=True, requires=["java", "worker"]),
    })
    ended = launcher.wait_for_event("process-exited", program="java")
    assert (ended["exit_code"], ended["level"]) == (143, "info")
    assert ended["message"].startswith("java (pid ") and " ended with exit code 143, a success, after " in ended["message"]
    launcher.wait_for_event("process-exited", program="last")
    assert launcher.wait() == Exit(code=0)


def test_a_permanent_failure_is_not_started_again(as_pid1, area):
    launcher = run(as_pid1, {
        "job": probe("exit:78", backoff=RESTART_AT_ONCE, permanentFailureCodes=[78],
                     onFailure={"command": ["touch", str(area / "told")]}),
        "other": service("other"),
    })
    ended = launcher.wait_for_event("process-exited", program="job")
    assert "restart_in_seconds" not in ended and ended["level"] == "error"
    assert "with exit code 78, a permanent failure, after " in ended["message"]
    eventually((area / "told").exists, "onFailure has run")
    assert launcher.stop() == Exit(code=0)


def test_backoff_of_a_program(place):
    launcher = run(place, {
        "job": probe("exit:1", backoff={"initial": "40ms", "factor": 2, "max": "100ms", "jitter": 0}),
    })
    delays = [launcher.wait_for_event("process-exited")["restart_in_seconds"] for _ in range(5)]
    assert delays == [0, 0.04, 0.08, 0.1, 0.1]
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("step, delays", [("exit:1", [0.04, 0.08, 0.1, 0.1]), ("exit:0", [0.04, 0.04, 0.04])])
def test_each_restart_waits_where_that_is_asked(place, step, delays):
    launcher = run(place, {
        "job": probe(step, backoff={"initial": "40ms", "factor": 2, "max": "100ms", "jitter": 0, "always": True}),
    }, "--restart-minimum-run", "0")
    ends = [launcher.wait_for_event("process-exited") for _ in delays]
    assert [end["restart_in_seconds"] for end in ends] == delays
    assert [end["failures"] for end in ends] == ([1, 2, 3, 4] if step == "exit:1" else [0, 0, 0])
    assert launcher.stop() == Exit(code=0)


def test_backoff_is_forgotten_after_a_long_run(place):
    launcher = run(place, {
        "job": probe("trap", "say:up", f"until:{USR1}", "exit:1",
                     backoff={"initial": "30ms", "max": "10s", "jitter": 0, "resetAfter": "2s"}),
    }, "--stop-timeout", "200ms")
    for delay in (0, 0.03, 0.06):
        pid = launcher.wait_up()["pid"]
        launcher.signal_inside(pid, USR1)
        assert launcher.wait_for_event("process-exited")["restart_in_seconds"] == delay
    pid = launcher.wait_started()["pid"]
    launcher.quiet_for(2.1, launcher.probe)
    launcher.signal_inside(pid, USR1)
    assert launcher.wait_for_event("process-exited")["restart_in_seconds"] == 0
    assert launcher.stop() == Exit(code=0)


def test_each_process_has_a_backoff_of_its_own(place):
    number = {"type": "Concatenate", "values": ["n:", {"type": "ProcessNumber"}]}
    launcher = run(place, {"job": probe(number, "trap", "say:up", f"until:{USR1}", "exit:1", count=2,
                                        backoff={"initial": "20s", "jitter": 0})}, "--stop-timeout", "200ms")
    first = launcher.wait_up(n=1)["pid"]
    second = launcher.wait_up(n=2)["pid"]
    launcher.signal_inside(first, USR1)
    first = launcher.wait_up(n=1)["pid"]
    launcher.signal_inside(first, USR1)
    assert launcher.wait_for_event("process-exited", restart_in_seconds=20)["process"] == 1
    launcher.signal_inside(second, USR1)
    assert launcher.wait_for_event("process-exited", process=2)["restart_in_seconds"] == 0
    launcher.wait_up(n=2)
    assert launcher.stop() == Exit(code=0)


# --- start limits

def test_start_limit_gives_up_and_the_others_go_on(place):
    launcher = run(place, {
        "job": probe("exit:5", backoff=RESTART_AT_ONCE, startLimit={"count": 3, "interval": "60s"}),
        "web": service("web"),
    })
    gave_up = launcher.wait_for_event("process-gave-up", program="job", process=1)
    assert gave_up["starts"] == 3
    assert len(launcher.events_named("process-started", program="job")) == 3
    assert "restart_in_seconds" not in launcher.events_named("process-exited", program="job")[-1]
    launcher.wait_started(tag="web")
    launcher.quiet_for(0.1)
    assert launcher.stop() == Exit(code=0)


def test_start_limit_ends_the_container(place):
    launcher = run(place, {
        "job": probe("exit:5", backoff=RESTART_AT_ONCE,
                     startLimit={"count": 2, "interval": "60s", "action": "exit", "exitCode": 77}),
        "web": service("web"),
    })
    assert launcher.wait_for_event("container-ending", program="job")["exit_code"] == 77
    assert launcher.wait() == Exit(code=77)
    assert launcher.events_named("process-gave-up", program="job")
    assert len(launcher.events_named("process-exited", program="web")) == len(
        launcher.events_named("process-started", program="web")), "nobody is left behind"


def test_starts_that_are_far_apart_are_no_matter(as_pid1):
    launcher = run(as_pid1, {"job": probe("exit:5", backoff={"initial": "100ms", "max": "100ms", "jitter": 0},
                                          startLimit={"count": 2, "interval": "80ms"})})
    for _ in range(5):
        launcher.wait_for_event("process-exited", program="job")
    assert not launcher.events_named("process-gave-up")
    assert launcher.stop() == Exit(code=0)


def test_a_program_that_cannot_be_executed_has_the_same_limits(place):
    script = place.area / "script"
    script.write_text("#!/nonexistent/interpreter\n")
    script.chmod(0o755)
    launcher = run(place, {"job": {"command": [str(script)], "backoff": RESTART_AT_ONCE,
                                   "startLimit": {"count": 2, "interval": "60s"}}})
    failed = launcher.wait_for_event("process-start-failed", program="job")
    assert has_errno(failed, 2) and failed["stage"] == "execute"
    assert launcher.wait_for_event("process-gave-up", program="job")["starts"] == 2
    assert launcher.wait_for_event("container-ending")["exit_code"] == 127
    assert launcher.wait() == Exit(code=127)


# --- the end of the container

@pytest.mark.parametrize("step, code", [("exit:0", 0), ("exit:6", 6), ("die:9", 137), ("die:15", 143)])
def test_a_critical_program_that_is_not_restarted_ends_the_container(place, step, code):
    launcher = run(place, {
        "main": probe("trap", "say:up", f"until:{USR1}", step, critical=True, restart="never"),
        "web": service("web"),
    })
    pid = launcher.wait_up(tag="")["pid"]
    launcher.wait_up(tag="web")
    launcher.signal_inside(pid, USR1)
    ending = launcher.wait_for_event("container-ending")
    assert (ending["program"], ending["process"], ending["exit_code"]) == ("main", 1, code)
    assert launcher.wait() == Exit(code=code)
    assert launcher.events_named("process-exited", program="web", exit_code=0)


def test_a_critical_program_that_is_restarted_does_not(place):
    launcher = run(place, {"main": probe("say:up", "exit:1", critical=True, backoff=RESTART_AT_ONCE)})
    for _ in range(3):
        launcher.wait_up()
    launcher.assert_running()
    assert launcher.stop() == Exit(code=0)


def test_a_critical_program_that_is_given_up_ends_the_container(place):
    launcher = run(place, {
        "main": probe("exit:9", critical=True, backoff=RESTART_AT_ONCE, startLimit={"count": 2, "interval": "60s"}),
        "web": service("web"),
    })
    assert launcher.wait() == Exit(code=9)
    assert launcher.events_named("process-gave-up", program="main")


def test_the_first_cause_wins(place):
    launcher = run(place, {
        "main": probe("tag:main", "trap", "say:up", "until:15", "exit:6", critical=True, restart="never"),
        "side": probe("tag:side", "trap", "say:up", f"until:{USR1}", "exit:8", critical=True, restart="never"),
    })
    launcher.wait_up(tag="main")
    side = launcher.wait_up(tag="side")["pid"]
    launcher.signal_inside(side, USR1)
    assert launcher.wait() == Exit(code=8)
    assert launcher.events_named("process-exited", program="main", exit_code=6)


def test_sigterm_gives_zero_whatever_the_processes_say(place):
    launcher = run(place, {"main": probe("trap", "say:up", "until:15", "exit:6", critical=True, restart="never")})
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)
    assert not launcher.events_named("container-ending")


@pytest.mark.parametrize("document, code, because", [
    ({"a": probe("exit:0", oneShot=True)}, 0, "a"),
    ({"a": probe("exit:4", oneShot=True)}, 4, "a"),
    ({"a": probe("die:9", restart="never")}, 137, "a"),
    ({"a": probe("exit:0", restart="on-failure"), "b": probe("exit:0", restart="never")}, 0, None),
    ({"a": probe("exit:0", oneShot=True), "b": probe("exit:5", oneShot=True, requires=["a"])}, 5, "b"),
    ({"a": probe("exit:3", oneShot=True), "b": probe("exit:5", oneShot=True, after=["a"])}, 3, "a"),
    ({"a": probe("exit:3", backoff=RESTART_AT_ONCE, startLimit={"count": 1, "interval": "60s"})}, 3, "a"),
    ({"a": probe("exit:0", oneShot=True, count=3), "none": probe("pause", count=0)}, 0, "a"),
])
def test_the_container_ends_when_nothing_is_left(place, document, code, because):
    launcher = run(place, document)
    ending = launcher.wait_for_event("container-ending")
    assert ending["exit_code"] == code and because in (None, ending["program"])
    assert launcher.wait() == Exit(code=code)


def test_a_service_that_is_left_keeps_the_container(place):
    launcher = run(place, {"setup": probe("exit:0", oneShot=True), "web": service("web", after=["setup"])})
    launcher.wait_started(tag="web")
    launcher.quiet_for(0.1)
    launcher.assert_running()
    assert launcher.stop() == Exit(code=0)


def test_no_program_at_all_keeps_the_container(place):
    launcher = run(place, {})
    assert launcher.wait_for_event("configuration-loaded")["processes"] == 0
    launcher.quiet_for(0.1)
    launcher.assert_running()
    launcher.replace({"web": service("web")})
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


# --- onFailure

def test_on_failure_runs_once_when_it_is_given_up(place):
    launcher = run(place, {
        "job": probe("exit:5", backoff=RESTART_AT_ONCE, startLimit={"count": 2, "interval": "60s"},
                     environment={"PROBE_ENV": "TRITON_PROGRAM TRITON_PROCESS"},
                     onFailure={"command": ["probe", "tag:hook", "report"]}),
        "web": service("web"),
    })
    report = launcher.wait_for_probe("report", tag="hook")
    assert report["env"] == {"TRITON_PROGRAM": "job", "TRITON_PROCESS": "1"}
    launcher.wait_up(tag="web")
    launcher.quiet_for(0.1, launcher.probe)
    assert launcher.stop() == Exit(code=0)


HOOK_NAMES = ("TRITON_RESULT", "TRITON_EXIT_CODE", "TRITON_EXIT_SIGNAL", "TRITON_ERROR", "TRITON_PID", "TRITON_RUN_SECONDS",
              "TRITON_RESTARTS")


def told(launcher, tag):
    """What a hook has found in its environment."""
    env = launcher.wait_for_probe("report", tag=tag)["env"]
    return {name.removeprefix("TRITON_"): value for name, value in env.items() if value is not None}


@pytest.mark.parametrize("steps, expected", [
    (["exit:5"], {"RESULT": "exit-code", "EXIT_CODE": "5"}),
    (["die:15"], {"RESULT": "signal", "EXIT_SIGNAL": "SIGTERM"}),
])
def test_a_hook_is_told_how_it_ended(place, steps, expected):
    launcher = run(place, {
        "job": probe(*steps, restart="never", environment={"PROBE_ENV": " ".join(HOOK_NAMES)},
                     onFailure={"command": ["probe", "tag:hook", "report"]}),
        "web": service("web"),
    })
    found = told(launcher, "hook")
    pid = launcher.wait_for_event("process-exited", program="job")["pid"]
    assert float(found.pop("RUN_SECONDS")) < 20
    assert found == {**expected, "PID": str(pid), "RESTARTS": "0"}
    assert launcher.stop() == Exit(code=0)


def test_a_hook_is_told_why_there_was_no_start(place):
    program = place.area / "program"
    program.write_text("#!/nonexistent/interpreter\n")
    program.chmod(0o755)
    launcher = run(place, {
        "job": {"command": [str(program)], "backoff": RESTART_AT_ONCE, "environment": {"PROBE_ENV": " ".join(HOOK_NAMES)},
                "startLimit": {"count": 3, "interval": "60s"}, "onFailure": {"command": ["probe", "tag:hook", "report"]}},
        "web": service("web"),
    })
    assert told(launcher, "hook") == {"RESULT": "start-failed", "RESTARTS": "2",
                                      "ERROR": f"execute {program}: No such file or directory"}
    assert launcher.stop() == Exit(code=0)


def test_a_hook_before_a_stop_is_told_for_what(as_pid1, area):
    hook = {"command": ["probe", "tag:hook", "report"]}
    gate = area / "ill"
    launcher = run(as_pid1, {
        "web": service("web", environment={"PROBE_ENV": " ".join(HOOK_NAMES)}, preStop=hook,
                       health={"command": ["test", "!", "-e", str(gate)], "interval": "20ms", "retries": 1}),
    })
    pid = launcher.wait_up()["pid"]
    gate.touch()
    found = told(launcher, "hook")
    assert (found["RESULT"], found["PID"], found["RESTARTS"]) == ("unhealthy", str(pid), "0")
    assert "EXIT_CODE" not in found
    gate.unlink()
    launcher.wait_for_event("process-started", pid=launcher.wait_up()["pid"])
    assert launcher.stop() == Exit(code=0)
    found = [line["env"] for line in launcher.probe.all if line.get("tag") == "hook" and "env" in line][-1]
    assert (found["TRITON_RESULT"], found["TRITON_RESTARTS"]) == ("stop", "1")


def test_on_failure_is_not_for_success_nor_for_a_stop(place):
    hook = {"command": ["probe", "say:hook"]}
    launcher = run(place, {"ok": probe("exit:0", oneShot=True, onFailure=hook), "web": service("web", onFailure=hook)})
    launcher.wait_for_event("process-exited", program="ok")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)
    assert not [line for line in launcher.probe.all if line.get("text") == "hook"]


def test_the_container_waits_for_on_failure(as_pid1):
    """It is what was asked for when the last program fails: it must not be cut off by the end that follows."""
    marker = as_pid1.area / "marker"
    launcher = run(as_pid1, {"job": probe("exit:5", restart="never",
                                          onFailure={"command": ["sh", "-c", f"sleep 0.2; echo done > {marker}"]})})
    assert launcher.wait() == Exit(code=5)
    assert marker.read_text() == "done\n"


@pytest.mark.parametrize("command, timeout, error", [
    (["false"], "1h", "exit code 1"),
    (["sleep", "1000"], "300ms", "it took too long"),
    (["sh", "-c", "kill -9 $$"], "1h", "SIGKILL"),
])
def test_on_failure_that_fails_is_told(as_pid1, command, timeout, error):
    launcher = run(as_pid1, {"job": probe("exit:5", restart="never",
                                          onFailure={"command": command, "timeout": timeout}),
                             "web": service("web")})
    failed = launcher.wait_for_event("helper-failed", program="job", process=1)
    assert (failed["helper"], failed["level"]) == ("onFailure", "warning")
    assert error in failed["error"] and failed["message"].startswith("onFailure of job has failed: ")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_many_processes_in_a_crash_loop_are_all_collected(place):
    launcher = run(place, {f"job{n}": probe("exit:1", backoff={"initial": "5ms", "max": "10ms"}, count=3)
                           for n in range(5)})
    for _ in range(100):
        launcher.wait_for_event("process-exited")
    assert launcher.stop() == Exit(code=0)


def test_a_process_that_is_killed_from_outside_is_a_failure(place):
    launcher = run(place, {"web": service("web", restart="on-failure", backoff=RESTART_AT_ONCE)})
    launcher.signal_inside(launcher.wait_up()["pid"], signal.SIGKILL)
    assert launcher.wait_for_event("process-exited")["signal"] == signal.SIGKILL
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)

"""Why a process is not ready, and why it ended at night: what checks say, past ends, and the message for Kubernetes."""

import json
import signal

import pytest

from harness.agent import AGENT
from harness.process import BINARY, Exit, eventually
from harness.programs import RESTART_AT_ONCE, probe, run, service

from test_agent_started import ask, port_of

CHECK = "[ -e {area}/good ] && exit 0; echo trying; echo no route >&2; exit $(cat {area}/code)"


def past(launcher, name):
    """The ends and the results of checks of process 1."""
    program = json.loads(launcher.ctl("--json", "history", name))["programs"][0]
    return program["processes"][0]["ends"], program["processes"][0]["checks"]


def waiting(area, **keys):
    """A program that is ready once there is a file `good`; its probe ends with the exit code in `code`."""
    (area / "code").write_text("7")
    readiness = {"type": "exec", "command": ["/bin/sh", "-c", CHECK.format(area=area)], "interval": "10ms"}
    return service("web", readiness=readiness, backoff=RESTART_AT_ONCE, **keys)


def test_why_a_program_is_not_ready_is_in_the_log_once(place, area):
    launcher = run(place, {"web": waiting(area)})
    record = launcher.wait_for_event("process-not-ready", program="web")
    assert record["message"] == "web is not ready: exit code 7: no route" and record["level"] == "info"
    ends, checks = eventually(lambda: (found := past(launcher, "web"))[1][2:] and found, "three results")
    assert ends == [] and len(checks) == 3
    assert checks[0].items() >= {"check": "readiness", "ok": False, "why": "exit code 7", "output": "trying\nno route\n"}.items()
    (area / "good").touch()
    ready = launcher.wait_for_event("process-ready", program="web")
    assert ready["failures"] >= 3 and f"{ready['failures']} failed probes" in ready["message"]
    assert len(launcher.events_named("process-not-ready")) == 1, "the reason was the same"
    described = launcher.ctl("describe", "web")
    assert "web:1 readiness, " in described and "ago, failed: exit code 7\n    trying\n    no route\n" in described
    assert launcher.stop() == Exit(code=0)


def test_a_start_that_takes_too_long_says_what_was_missing(place, area):
    launcher = run(place, {"web": waiting(area, startTimeout="200ms")})
    record = launcher.wait_for_event("process-timed-out", program="web")
    assert record["error"] == "exit code 7: no route"
    assert "was not ready in time: killed; " in record["message"] and "has failed: exit code 7: no route" in record["message"]
    ends, _ = eventually(lambda: (found := past(launcher, "web"))[0] and found, "an end")
    assert ends[0]["reason"] == "start_timeout" and ends[0]["signal"] == "SIGKILL" and not ends[0]["oom_killed"]
    assert ends[0]["run_seconds"] >= 0.2
    assert "was not ready in time" in launcher.ctl("history")
    assert launcher.stop() == Exit(code=0)


def test_a_check_may_print_what_it_likes(place):
    """More than a pipe holds, without an end that anybody keeps."""
    loud = ["/bin/sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo; echo done"]
    launcher = run(place, {"web": service("web", readiness={"type": "exec", "command": loud, "timeout": "10s"})})
    launcher.wait_for_event("process-ready", program="web")
    check = past(launcher, "web")[1][0]
    assert check["ok"] and len(check["output"]) == 1024 and check["output"].endswith("xx\ndone\n")
    assert launcher.stop() == Exit(code=0)


def test_past_ends_have_time_reason_and_run_and_survive_an_upgrade(place, area):
    script = area / "script"
    script.write_text("#!/nowhere\n")
    script.chmod(0o755)
    launcher = run(place, {"web": probe("tag:web", "trap", "say:up", "until:15", "exit:3", backoff=RESTART_AT_ONCE),
                           "gone": {"command": [str(script)], "backoff": {"initial": "1h"}}})
    for _ in range(12):
        pid = launcher.wait_up(tag="web")["pid"]
        launcher.signal_inside(pid, signal.SIGTERM)
        launcher.wait_for_event("process-exited", program="web", pid=pid)
    launcher.wait_up(tag="web")
    before, _ = past(launcher, "web")
    assert len(before) == 10
    assert all(end["code"] == 3 and "reason" not in end and end["run_seconds"] >= 0 for end in before)
    assert [end["time"] for end in before] == sorted(end["time"] for end in before)
    failed, _ = past(launcher, "gone")
    assert failed[0]["error"] == f"cannot execute {script}: No such file or directory"
    launcher.ctl("upgrade", str(BINARY))
    launcher.wait_for_event("upgrade-done")
    assert past(launcher, "web")[0] == before
    launcher.ctl("restart", "web")
    assert past(launcher, "web")[0][-1]["reason"] == "stopped"
    assert "was stopped" in launcher.ctl("history", "web") and ", " in launcher.ctl("status", "web")
    assert " ago" in launcher.ctl("status", "web")
    assert launcher.stop() == Exit(code=0)


def test_checks_go_on_across_an_upgrade(place, area):
    """One that runs in that moment is read by the next version, too."""
    check = ["/bin/sh", "-c", f"echo begun; : >{area}/begun; while [ ! -e {area}/go ]; do sleep 0.01; done; echo ended; exit 5"]
    readiness = {"type": "exec", "command": check, "timeout": "1m", "interval": "1h"}
    launcher = run(place, {"web": service("web", readiness=readiness)})
    eventually((area / "begun").exists, "the probe runs")
    launcher.ctl("upgrade", str(BINARY))
    launcher.wait_for_event("upgrade-done")
    (area / "go").touch()
    assert launcher.wait_for_event("process-not-ready")["message"] == "web is not ready: exit code 5: ended"
    assert past(launcher, "web")[1][0]["output"] == "begun\nended\n"
    assert launcher.stop() == Exit(code=0)


def test_the_agent_shows_them(place, area):
    launcher = run(place, {"web": waiting(area)}, "--listen", "127.0.0.1:0", "--agent-path", AGENT)
    launcher.wait_for_event("process-not-ready")
    port = port_of(launcher)

    def check():
        status, text = ask(port, "/v1/status")
        assert status == 200, text
        web = next(program for program in json.loads(text)["programs"] if program["name"] == "web")
        return web["processes"][0].get("checks")
    assert eventually(check, "a result")[0]["output"] == "trying\nno route\n"
    launcher.stop()


# Why the container has ended.


def message(place, area, programs, content=""):
    """What is in the file for it, after these programs have ended."""
    path = area / "termination"
    path.write_text(content)
    ended = run(place, programs, "--termination-log", path).wait()
    return ended, path.read_text()


def test_the_message_of_a_container_that_fails(place, area):
    critical = probe("exit:3", critical=True, restart="never")
    ended, text = message(place, area, {"web": critical})
    assert ended == Exit(code=3)
    first, last = text.splitlines()
    assert first.startswith("web (pid ") and " ended with exit code 3 after " in first
    assert last == "the container ends with exit code 3, because of web"


@pytest.mark.parametrize("code, content", [(0, ""), (3, "the program's own\n")])
def test_a_container_that_does_not_fail_or_has_said_why_leaves_it(place, area, code, content):
    ended, text = message(place, area, {"web": probe(f"exit:{code}", critical=True, restart="never")}, content)
    assert ended == Exit(code=code) and text == content


def test_the_message_is_written_to_an_empty_file_alone(place, area):
    """Not through a link, and not where there is none."""
    target = area / "target"
    target.touch()
    (area / "link").symlink_to(target)
    for path in (area / "link", area / "missing"):
        launcher = run(place, {"web": probe("exit:3", critical=True, restart="never")}, "--termination-log", path)
        assert launcher.wait() == Exit(code=3)
    assert target.read_text() == "" and not (area / "missing").exists()

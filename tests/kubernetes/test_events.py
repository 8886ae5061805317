"""Events of the pod: what a person sees with kubectl describe, and how few objects they are."""

import json

from harness.process import BINARY
from rig import VERSION, tells_of

SERVE = ("say:up", "trap", "until:15")
SOON = ("--restart-delay", "10ms", "--restart-max-delay", "10ms")
BURST = 25  # writes of events at once


def test_a_load_and_a_rejection(reporting):
    loaded = reporting.wait_event("ConfigurationLoaded")
    assert loaded["type"] == "Normal" and loaded["count"] == 1
    reporting.configure_text(json.dumps({"version": 7, "arguments": [{"type": "Unknown"}], "count": -1}))
    record = reporting.launcher.wait_for_event("configuration-rejected")
    assert len(record["errors"]) == 3
    rejected = reporting.wait_event("ConfigurationRejected")
    assert rejected["type"] == "Warning"
    for reason in record["errors"]:
        assert reason in rejected["message"]
    text = reporting.configure(*SERVE, "say:again")
    again = reporting.wait_event("ConfigurationLoaded", tells_of(text))
    assert again["message"].startswith(f"configuration {VERSION} (sha256 ") and again["count"] == 1


def test_another_bad_document_is_rejected_anew(reporting):
    """For the same reason as the one before; whoever writes it has to see that it is refused, too."""
    for number in range(3):
        reporting.configure_text(json.dumps({"version": 7, "description": str(number), "arguments": []}))
        reporting.launcher.wait_for_event("configuration-rejected")
        reporting.wait_event("ConfigurationRejected", lambda event, count=number + 1: event["count"] == count)


def test_the_object_is_as_clients_expect_it(reporting, namespace):
    event = reporting.wait_event("ConfigurationLoaded")
    pod = reporting.object()["metadata"]
    about = event["involvedObject"]
    assert (about["kind"], about["name"], about["namespace"], about["uid"]) == (
        "Pod", pod["name"], namespace.name, pod["uid"])
    assert event["source"]["component"] and event["metadata"]["name"].startswith(pod["name"] + ".")
    assert event["firstTimestamp"] <= event["lastTimestamp"]
    described = namespace.kubectl("describe", "pod", reporting.name)
    line, = (line for line in described.splitlines() if "ConfigurationLoaded" in line)
    assert line.split()[0] == "Normal" and event["message"] in line


def test_the_same_reason_for_rejection_is_one_object(reporting):
    for number in range(3):
        reporting.configure_text("{")
        reporting.launcher.wait_for_event("configuration-rejected")
        reporting.load(*SERVE, f"say:{number}")
    rejected = reporting.wait_event("ConfigurationRejected", lambda event: event["count"] == 3)
    assert [event["metadata"]["name"] for event in reporting.events("ConfigurationRejected")] == [
        rejected["metadata"]["name"]]


def test_a_crash_loop_is_one_event_that_counts(pod):
    """A hundred failures, a few writes."""
    pod.configure("exit:3")
    pod.start(*SOON)
    for _ in range(100):
        pod.launcher.wait_for_event("process-exited")
    event = pod.wait_event("CrashLooping")
    assert event["type"] == "Warning" and "exit code 3" in event["message"]
    assert len(pod.events("CrashLooping")) == 1
    assert len(pod.namespace.requests(resource="events")) <= BURST + 1


def test_one_failure_is_no_crash_loop(reporting):
    up = reporting.launcher.wait_started()
    reporting.launcher.signal_inside(up["pid"], 9)
    reporting.launcher.wait_started()
    text = reporting.configure(*SERVE, "say:again")
    reporting.wait_reported(text)
    reporting.wait_event("ConfigurationLoaded", tells_of(text))
    assert reporting.events("CrashLooping") == []


def test_the_start_limit(reporting):
    probe = str(reporting.programs / "probe")
    reporting.configure_text(json.dumps({"programs": {
        "db": {"command": [probe, *SERVE]},
        "web": {"command": [probe, "exit:1"], "startLimit": {"count": 3, "interval": "1m"},
                "backoff": {"initial": "1ms", "max": "1ms"}}}}))
    reporting.launcher.wait_for_event("process-gave-up")
    event = reporting.wait_event("StartLimitHit")
    assert event["type"] == "Warning" and "web" in event["message"]


def test_what_happens_before_the_agent_can_listen(pod):
    """It is started beside the processes, which may have failed for good before it has come up."""
    pod.configure_text(json.dumps({"programs": {
        "db": {"command": [str(pod.programs / "probe"), *SERVE]},
        "web": {"command": [str(pod.programs / "probe"), "exit:1"], "startLimit": {"count": 2, "interval": "1m"},
                "backoff": {"initial": "1ms", "max": "1ms"}},
        "job": {"command": [str(pod.programs / "probe"), "exit:1"], "startLimit": {"count": 1, "interval": "1m"}}}}))
    pod.start()
    for _ in range(2):
        pod.launcher.wait_for_event("process-gave-up")
    for program in ("web", "job"):
        pod.wait_event("StartLimitHit", lambda event, program=program: program in event["message"])


def test_an_upgrade(reporting):
    reporting.wait_event("ConfigurationLoaded")
    reporting.ctl("upgrade", BINARY)
    event = reporting.wait_event("LauncherUpgraded")
    assert event["type"] == "Normal"
    reporting.wait_reporter("ok")
    reporting.wait_event("ConfigurationLoaded", tells_of(reporting.configure(*SERVE, "say:again")))
    assert [loaded["count"] for loaded in reporting.events("ConfigurationLoaded")] == [1, 1], "the upgrade loads nothing"
    assert len(reporting.events("LauncherUpgraded")) == 1


def test_a_flood_of_different_rejections(reporting):
    """Sixty different messages: ten objects and one that stands for the rest, and never more writes than a burst."""
    for number in range(60):
        reporting.configure_text(json.dumps({"version": VERSION, "arguments": [{"type": f"Unknown{number}"}]}))
        reporting.launcher.wait_for_event("configuration-rejected")
    reporting.wait_event("ConfigurationRejected", lambda event: event["message"].startswith("(combined"))
    assert len(reporting.events("ConfigurationRejected")) <= 11
    assert len(reporting.namespace.requests(resource="events")) <= BURST + 1


def test_very_long_reasons_are_cut(reporting):
    """An event holds 1,024 bytes of message; the server refuses what is longer."""
    arguments = [{"type": "Unknown", "value": "ä" * 100} for _ in range(40)]
    reporting.configure_text(json.dumps({"version": VERSION, "arguments": arguments}))
    record = reporting.launcher.wait_for_event("configuration-rejected")
    assert len("".join(record["errors"])) > 1024
    event = reporting.wait_event("ConfigurationRejected")
    assert len(event["message"].encode()) <= 1024 and record["errors"][0] in event["message"]

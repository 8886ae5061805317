"""A readiness gate: the pod's condition follows what the launcher knows, at once and without a probe."""

from harness.process import BINARY
from rig import EXAMPLE

GATE = "example.org/up"
OPTION = f"--agent-option=--readiness-gate={GATE}"
SERVE = ("say:up", "trap", "until:15")


def make_gated(make_pod):
    """A pod that waits for the condition."""
    pod = make_pod()
    pod.delete()
    pod.create(readinessGates=[{"conditionType": GATE}])
    return pod


def condition_of(pod):
    """Its status: "True", "False", or None when there is none."""
    found = [one for one in pod["status"].get("conditions", []) if one["type"] == GATE]
    return found[0]["status"] if found else None


def wait_condition(pod, wanted, **how):
    """Waits until the condition has this status; returns the pod."""
    return pod.namespace.wait_for("pod", pod.name, match=lambda found: condition_of(found) == wanted, **how)


def test_the_condition_follows(namespace, make_pod):
    namespace.kubectl("apply", "-f", EXAMPLE / "options" / "readiness-gate.yaml")
    pod = make_gated(make_pod)
    namespace.kubectl("patch", "pod", pod.name, "--subresource=status", "--type=merge", "-p",
                      '{"status": {"conditions": [{"type": "example.org/theirs", "status": "True"}]}}')
    pod.start()
    pod.wait_reporter("ok")
    pod.launcher.stop()
    assert condition_of(pod.object()) is None  # it is asked for by a flag
    pod.start(OPTION)
    wait_condition(pod, "True")
    pod.load("sleep:0", "exit:1")
    pod.launcher.signal_inside(pod.launcher.wait_up()["pid"], 9)
    wait_condition(pod, "False")
    pod.configure(*SERVE)
    found = wait_condition(pod, "True")
    assert {one["type"] for one in found["status"]["conditions"]} == {GATE, "example.org/theirs"}
    pod.ctl("upgrade", BINARY)
    pod.wait_reporter("ok")
    assert condition_of(pod.object()) == "True"


def test_without_the_permission(make_pod):
    """It is named, and the annotations are written all the same."""
    pod = make_gated(make_pod)
    text = pod.configure(*SERVE)
    pod.start(OPTION)
    pod.wait_reported(text)
    told = pod.launcher.wait_for_event("permission-missing")
    assert 'verb "patch" on resource "pods/status"' in told["message"]
    assert condition_of(pod.object()) is None

"""What the pod's annotations say: what is active, byte for byte, whatever happens to the launcher, to its agent and to
the annotations themselves."""

import json

import pytest

from harness.process import BINARY, eventually
from rig import CONFIGURATION, ENVIRONMENT, POKE, PREFIX, probe_configuration

SERVE = ("say:up", "trap", "until:15")


def environment_of(pod):
    """The second annotation, parsed."""
    return json.loads(pod["metadata"]["annotations"][ENVIRONMENT])


def test_content(pod):
    """Not a document that means the same, but its very bytes; and every variable that it names, as it was chosen."""
    steps = [*SERVE, {"type": "Environment", "source": "FDB_ZONE_ID"}, {"type": "IPList", "source": "FDB_POD_IP",
                                                                     "ipFamily": 6}]
    text = " \n" + json.dumps(probe_configuration(*steps), indent=3, ensure_ascii=False).replace(
        '"version"', '"\\u0076ersion"') + "\t\n"
    pod.configure_text(text)
    pod.start(env={"FDB_ZONE_ID": 'ä "b" \\ \t', "FDB_POD_IP": "10.1.2.3,fd00::7", "UNNAMED": "x"})
    found = pod.wait_reported(text)
    assert environment_of(found) == {"FDB_ZONE_ID": 'ä "b" \\ \t', "FDB_POD_IP": "fd00::7",
                                     "BINARY_DIR": str(pod.programs)}
    eventually(lambda: pod.status()["reporter"]["state"] == "ok", "the launcher is told that the API server has agreed")


def test_variables_of_the_additional_file(pod):
    file = pod.area / "environment"
    file.write_text("FDB_ZONE_ID=from-the-file\n")
    text = pod.configure(*SERVE, {"type": "Environment", "source": "FDB_ZONE_ID"})
    pod.start("--additional-env-file", file, env={"FDB_ZONE_ID": "from-the-environment"})
    assert environment_of(pod.wait_reported(text))["FDB_ZONE_ID"] == "from-the-file"


def test_every_change_is_reported_and_no_rejection(reporting):
    for number in range(3):
        text = reporting.configure(*SERVE, "pause", f"say:{number}")
        reporting.wait_reported(text)
        reporting.configure_text("{")
        reporting.launcher.wait_for_event("configuration-rejected")
        reporting.wait_event("ConfigurationRejected")
        assert reporting.annotations()[CONFIGURATION] == text


def test_a_pod_that_is_to_run_nothing_reports_too(reporting):
    text = reporting.configure(*SERVE, runServers=False)
    reporting.wait_reported(text)


def test_only_our_own_keys_are_written(make_pod):
    """Neither what others have put there before nor what they change meanwhile is touched, owned, or sent along."""
    pod = make_pod(metadata={"annotations": {"example.org/theirs": "1", PREFIX + "theirs": "2"}})
    pod.start()
    pod.wait_annotated(CONFIGURATION, bool)
    pod.annotate(theirs="3", mine="4")
    pod.wait_reported(pod.configure(*SERVE, "say:again"))
    found = pod.object()["metadata"]
    others = {key: text for key, text in found["annotations"].items() if key not in (CONFIGURATION, ENVIRONMENT)}
    assert others == {
        "example.org/theirs": "1", PREFIX + "theirs": "3", PREFIX + "mine": "4"}
    ours, = (entry for entry in found["managedFields"] if entry["manager"] == "triton-launch")
    assert ours["fieldsV1"] == {"f:metadata": {"f:annotations": {f"f:{CONFIGURATION}": {}, f"f:{ENVIRONMENT}": {}}}}
    for request in pod.namespace.requests("patch", "pods"):
        written = request["requestObject"]
        assert (set(written), set(written["metadata"])) == ({"metadata"}, {"annotations"})
        assert set(written["metadata"]["annotations"]) == {CONFIGURATION, ENVIRONMENT}
        assert request["objectRef"]["name"] == pod.name


def test_another_prefix(pod):
    text = pod.configure(*SERVE)
    pod.start("--annotation-prefix", "launch.example.org/")
    found = pod.wait_annotated("launch.example.org/launcher-current-configuration", text)
    assert not [key for key in found["metadata"]["annotations"] if key.startswith(PREFIX)]
    pod.namespace.kubectl("annotate", "pod", pod.name, "launch.example.org/isolate-process-group=true")
    eventually(lambda: pod.status()["isolated"], "the launcher is isolated")


@pytest.mark.parametrize("damage", [{"launcher_current_configuration": "{}"}, {"launcher_current_configuration": None},
                                    {"launcher_environment": "x", "launcher_current_configuration": None}], ids=str)
def test_what_somebody_else_changes_is_written_again(reporting, damage):
    before = reporting.annotations()
    reporting.annotate(**damage)
    reporting.wait_reported(reporting.first)
    assert reporting.wait_annotated(ENVIRONMENT, before[ENVIRONMENT])


def test_what_the_pod_has_already_is_not_written_again(reporting):
    """Neither by another agent nor by another launcher with the same configuration."""
    writes = len(eventually(lambda: reporting.namespace.requests("patch", "pods"), "the server has told of the first"))
    kill_agent(reporting)
    reporting.launcher.wait_for_event("process-started", program="triton-agent")
    reporting.launcher.stop()
    reporting.start()
    reporting.wait_reporter("ok")
    assert len(reporting.namespace.requests("patch", "pods")) == writes
    reporting.wait_reported(reporting.configure(*SERVE, "say:other"))
    eventually(lambda: len(reporting.namespace.requests("patch", "pods")) == writes + 1, "one more, and no other")


def kill_agent(pod):
    """SIGKILL for the agent alone."""
    started = pod.launcher.events_named("process-started", program="triton-agent")[-1]
    pod.launcher.signal_inside(started["pid"], 9)


def test_a_killed_agent_is_followed_by_one_that_reports(reporting):
    for number in range(2):
        kill_agent(reporting)
        text = reporting.configure(*SERVE, f"say:{number}")
        reporting.wait_reported(text)
    up, = reporting.launcher.events_named("process-started", program=lambda name: name != "triton-agent")
    assert reporting.launcher.is_alive(up["pid"])


def test_after_an_upgrade_of_the_launcher(reporting):
    """The new version speaks of the same pod, through the same agent."""
    agent, = reporting.launcher.events_named("process-started", program="triton-agent")
    for number in range(2):
        reporting.ctl("upgrade", BINARY)
        text = reporting.configure(*SERVE, f"say:{number}")
        reporting.wait_reported(text)
        reporting.wait_reporter("ok")
        assert environment_of(reporting.object())["BINARY_DIR"] == str(reporting.programs)
    assert len(reporting.launcher.events_named("process-started", program="triton-agent")) == 1
    assert reporting.launcher.is_alive(agent["pid"])


def test_lost_annotations_come_back_after_an_upgrade(reporting):
    """Whoever reports after the upgrade looks at what the pod has."""
    reporting.cluster.kill_api()
    text = reporting.configure(*SERVE, "say:unreported")
    reporting.launcher.wait_for_event("configuration-loaded")
    reporting.ctl("upgrade", BINARY)
    reporting.cluster.start_api()
    reporting.wait_reported(text, timeout=60)


def test_one_that_no_annotation_can_hold(reporting):
    """A pod takes 256 KiB of annotations. The server says so; it is told once, and the next that fits is reported."""
    big = json.dumps(probe_configuration(*SERVE, *(["say:" + "x" * (30 << 10)] * 10)))
    reporting.configure_text(big)
    reporting.launcher.wait_for_event("configuration-loaded")
    assert "annotations" in reporting.wait_reporter("failing")["detail"]
    reporting.wait_reported(reporting.configure(*SERVE, "say:small"))
    reporting.wait_reporter("ok")


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_ipv6(pod, host):
    text = pod.configure(*SERVE)
    pod.start(host=host)
    pod.wait_reported(text)


@pytest.mark.parametrize("options, env", [
    (["--kubernetes", "off"], {}), ([], {"KUBERNETES_SERVICE_HOST": ""})], ids=["off", "not in a cluster"])
def test_silence_when_it_is_off(pod, options, env):
    pod.start(*options, env=env)
    pod.launcher.wait_started()
    pod.launcher.quiet_for(1)
    assert not pod.launcher.events_named("process-started", program="triton-agent")
    assert pod.namespace.requests(stage=None) == []
    assert pod.reporter().get("state", "off") == "off"


def test_names_from_the_usual_variables(pod):
    """Without the variables of FoundationDB: the host's name, and the namespace of the service account."""
    text = pod.configure(*SERVE)
    pod.start(env={"FDB_POD_NAME": "", "FDB_POD_NAMESPACE": "", "HOSTNAME": pod.name})
    pod.wait_reported(text)


def test_programs_are_reported_as_they_stand(pod):
    """The form with named programs, its variables, and a poke that is there before the launcher is."""
    pod.annotate(outdated_config_map_seen="1")
    text = pod.configure_text(json.dumps({"programs": {"web": {
        "command": [str(pod.programs / "probe"), *SERVE],
        "environment": {"A": {"type": "Environment", "source": "ZONE"}}}}}))
    pod.start(env={"ZONE": "a"})
    found = pod.wait_reported(text)
    assert environment_of(found)["ZONE"] == "a"
    assert found["metadata"]["annotations"][POKE] == "1"

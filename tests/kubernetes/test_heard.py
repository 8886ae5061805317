"""What the launcher hears from its pod and its node: read the configuration again, stop but keep the pod, end later,
and labels as variables."""

import json
import subprocess
import time

import pytest

from harness.process import BINARY, Exit, eventually
from rig import CONFIGURATION, ENVIRONMENT, Volume, probe_configuration

SERVE = ("say:up", "trap", "until:15")


class Hidden:
    """A change of the configuration that no watch can notice: another directory is mounted over that of the pod, in the
    launcher's namespace. Only a launcher that is told looks again."""

    def __init__(self, pod):
        self.pod = pod
        self.count = 0

    def write(self, text):
        """The configuration is this text from here on."""
        self.count += 1
        volume = Volume(self.pod.area / f"hidden{self.count}")
        volume.write(config__json=text)
        subprocess.run(["nsenter", "--target", str(self.pod.launcher.pid), "--mount", "--", "mount", "--bind",
                        volume.directory, self.pod.configuration.directory], check=True)
        return text


@pytest.fixture
def hidden(reporting):
    return Hidden(reporting)


def loads(pod):
    """How often a configuration has become active."""
    return len(pod.launcher.events_named("configuration-loaded"))


def wait_isolated(pod, wanted):
    """Waits until the launcher is isolated, or no longer: then it has heard all that the pod said before, too."""
    eventually(lambda: pod.status()["isolated"] is wanted, f"isolated is {wanted}")


def accepted_second(pod):
    """When the active configuration was accepted, as the annotation counts."""
    return int(pod.status()["configuration_time"])


def test_a_poke_reads_the_configuration_again(reporting, hidden):
    for number in range(2):
        text = hidden.write(json.dumps(probe_configuration(*SERVE, f"say:{number}")))
        reporting.annotate(outdated_config_map_seen=accepted_second(reporting) + 1 + number)
        reporting.wait_reported(text)


@pytest.mark.parametrize("value", ["0", "1700000000", "the second of the load", "soon", "", "-5",
                                   "99999999999999999999", "1.5"])
def test_a_poke_of_the_past_or_none_at_all(reporting, hidden, value):
    """Only what is later than the second of the last load is news. The load that follows is that of the last poke."""
    hidden.write(json.dumps(probe_configuration(*SERVE, "say:hidden")))
    before = loads(reporting)
    second = accepted_second(reporting)
    reporting.annotate(outdated_config_map_seen=second if value == "the second of the load" else value)
    reporting.annotate(isolate_process_group="true")
    wait_isolated(reporting, True)
    assert loads(reporting) == before
    assert not reporting.launcher.events_named("reload-requested")
    reporting.annotate(outdated_config_map_seen=second + 1)
    reporting.launcher.wait_for_event("configuration-loaded")


def test_a_poke_of_a_clock_that_is_ahead(reporting, hidden):
    """It is one request, not one each time that the pod changes, though no load ever is later than it."""
    ahead = accepted_second(reporting) + 3600
    first = hidden.write(json.dumps(probe_configuration(*SERVE, "say:first")))
    reporting.annotate(outdated_config_map_seen=ahead)
    reporting.wait_reported(first)
    second = hidden.write(json.dumps(probe_configuration(*SERVE, "say:second")))
    reporting.annotate(isolate_process_group="true")
    wait_isolated(reporting, True)
    assert len(reporting.launcher.events_named("reload-requested")) == 1
    assert reporting.annotations()[CONFIGURATION] == first
    reporting.annotate(outdated_config_map_seen=ahead + 1)
    reporting.wait_reported(second)


def test_a_poke_of_a_clock_that_is_behind(reporting, hidden):
    """Whose second value is later than its first one means what it says."""
    behind = accepted_second(reporting) - 3600
    reporting.annotate(outdated_config_map_seen=behind)
    text = hidden.write(json.dumps(probe_configuration(*SERVE, "say:behind")))
    reporting.annotate(outdated_config_map_seen=behind + 5)
    reporting.wait_reported(text)


def test_isolated_processes_stop_and_the_pod_stays(reporting):
    reporting.launcher.wait_started()
    for _ in range(6):  # each change counts, however fast they follow
        reporting.annotate(isolate_process_group="true")
        reporting.launcher.wait_for_event("process-exited")
        wait_isolated(reporting, True)
        reporting.annotate(isolate_process_group="false")
        reporting.launcher.wait_started()
        wait_isolated(reporting, False)
    reporting.launcher.assert_running()
    assert reporting.annotations()[CONFIGURATION] == reporting.first  # the configuration is what it was


@pytest.mark.parametrize("value, isolated", [("1", True), ("T", True), ("TRUE", True), ("yes", False), ("0", False),
                                             ("", False), (None, False)])
def test_values_of_isolation(reporting, value, isolated):
    """Booleans as Go reads them; what is none means false."""
    reporting.annotate(isolate_process_group="true" if not isolated else "false")
    wait_isolated(reporting, not isolated)
    reporting.annotate(isolate_process_group=value)
    wait_isolated(reporting, isolated)


def test_isolation_outlives_agent_and_launcher(reporting):
    """Neither an upgrade nor an agent that begins anew starts what was stopped."""
    reporting.launcher.wait_started()
    reporting.annotate(isolate_process_group="true")
    reporting.launcher.wait_for_event("process-exited")
    reporting.ctl("upgrade", BINARY)
    wait_isolated(reporting, True)
    agent = reporting.launcher.events_named("process-started", program="triton-agent")[-1]
    reporting.launcher.signal_inside(agent["pid"], 9)
    reporting.launcher.wait_for_event("process-started", program="triton-agent",
                                      pid=lambda pid: pid != agent["pid"])
    reporting.wait_reporter("ok")
    wait_isolated(reporting, True)
    reporting.launcher.probe.drain()
    assert len([line for line in reporting.launcher.probe.all if line.get("text") == "up"]) == 1
    reporting.annotate(isolate_process_group=None)
    reporting.launcher.wait_up()


def test_isolated_from_the_start(pod):
    pod.annotate(isolate_process_group="true")
    pod.start()
    wait_isolated(pod, True)
    pod.wait_annotated(CONFIGURATION, bool)
    eventually(lambda: all(not pod.launcher.is_alive(line["pid"]) for line in pod.launcher.probe.all), "nothing runs")


def test_a_delayed_shutdown(reporting):
    """Processes stop at once; the pod, and with it the name that others know it by, stays for that long."""
    reporting.launcher.wait_started()
    reporting.annotate(delay_shutdown="4500ms")
    assert "4.5s" in reporting.launcher.wait_for_event("shutdown-delay")["message"]
    began = time.monotonic()
    reporting.launcher.signal(15)
    reporting.launcher.wait_for_event("process-exited")
    assert time.monotonic() - began < 4.5
    assert reporting.launcher.wait() == Exit(code=0)
    assert time.monotonic() - began >= 4.5


@pytest.mark.parametrize("value", ["soon", "-5s", "0", "5"])
def test_what_is_no_duration_delays_nothing(reporting, value):
    reporting.annotate(delay_shutdown=value)
    reporting.annotate(isolate_process_group="true")
    wait_isolated(reporting, True)
    assert reporting.launcher.stop() == Exit(code=0)
    assert not reporting.launcher.events_named("shutdown-delay")


# ---- the node


ZONE = "NODE_LABEL_TOPOLOGY_KUBERNETES_IO_ZONE"


@pytest.fixture
def node(cluster, fresh_name):
    """A node with labels."""
    name = fresh_name("node")
    cluster.kubectl("create", "-f", "-", document={"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": name, "labels": {"topology.kubernetes.io/zone": "zone-a", "rack-row": "7"}}})
    yield name
    cluster.kubectl("delete", "node", name)


def with_variable(name, *steps):
    """The text of a configuration that needs a variable."""
    return json.dumps(probe_configuration(*SERVE, {"type": "Environment", "source": name}, *steps))


def environment_of(pod):
    return json.loads(pod["metadata"]["annotations"][ENVIRONMENT])


@pytest.mark.parametrize("is_named", [True, False], ids=["by the environment", "by the pod"])
def test_labels_of_the_node_are_variables(make_pod, namespace, node, is_named):
    namespace.allow_nodes()
    pod = make_pod(node=node)
    text = pod.configure_text(with_variable(ZONE, {"type": "Environment", "source": "NODE_LABEL_RACK-ROW"}))
    pod.start("--enable-node-watch", "--exit-on-bad-config", node_name=is_named)
    found = environment_of(pod.wait_reported(text))
    assert (found[ZONE], found["NODE_LABEL_RACK-ROW"]) == ("zone-a", "7")
    assert pod.launcher.events_named("waiting-for-labels")
    assert not pod.launcher.events_named("configuration-rejected"), "that they come later is not a fault"


def test_a_label_that_never_comes_is_a_fault(make_pod, namespace, node):
    namespace.allow_nodes()
    pod = make_pod(node=node)
    pod.configure_text(with_variable("NODE_LABEL_NOWHERE"))
    pod.start("--enable-node-watch", "--exit-on-bad-config")
    rejected = pod.launcher.wait_for_event("configuration-rejected")
    assert "NODE_LABEL_NOWHERE" in json.dumps(rejected["errors"])
    assert pod.launcher.wait(timeout=30).code == 1


def test_a_label_that_changes(cluster, make_pod, namespace, node):
    """What starts from then on has the new value; what needs one that is gone is refused."""
    namespace.allow_nodes()
    pod = make_pod(node=node)
    text = pod.configure_text(with_variable(ZONE))
    pod.start("--enable-node-watch")
    pod.wait_reported(text)
    cluster.kubectl("label", "--overwrite", "node", node, "topology.kubernetes.io/zone=zone-b", "rack-row-")
    pod.wait_annotated(ENVIRONMENT, lambda value: json.loads(value)[ZONE] == "zone-b")
    pod.configure_text(with_variable("NODE_LABEL_RACK-ROW"))
    pod.launcher.wait_for_event("configuration-rejected", errors=lambda told: "NODE_LABEL_RACK-ROW" in json.dumps(told))


def test_labels_are_not_read_unless_asked_for(make_pod, namespace, node):
    namespace.allow_nodes()
    pod = make_pod(node=node)
    pod.configure_text(with_variable(ZONE))
    pod.start()
    pod.launcher.wait_for_event("configuration-rejected")
    pod.wait_reporter("ok")
    assert namespace.requests(resource="nodes", stage=None) == []


def test_labels_without_the_permission(make_pod, node):
    """The verb is named; all that needs no label goes on."""
    pod = make_pod(node=node)
    text = pod.configure_text(json.dumps(probe_configuration(*SERVE)))
    pod.start("--enable-node-watch")
    pod.wait_reported(text)
    told = pod.launcher.wait_for_event("permission-missing")
    assert 'verb "watch" on resource "nodes"' in told["message"]
    pod.annotate(isolate_process_group="true")
    wait_isolated(pod, True)
    assert pod.launcher.events_named("permission-missing") == [told]



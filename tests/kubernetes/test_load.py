"""Figures: how much the launcher asks of the API server, and how soon what it says is there."""

import http.client
import json
import time

from harness.process import eventually, wait_readable
from rig import CONFIGURATION, PORT

SERVE = ("say:up", "trap", "until:15")
WRITES = 30  # of annotations in a minute of changes: their distance grows to 4 s
BURST = 25   # of events


def test_a_thousand_changes_in_a_minute(reporting):
    """The writes stay few, none of them conflicts, and the last state wins."""
    before = len(reporting.namespace.requests("patch", "pods"))
    began = time.monotonic()
    for number in range(1000):
        text = reporting.configure(*SERVE, f"say:{number}")
        wait_readable([reporting.launcher.events.fd], began + (number + 1) * 0.06)
        reporting.launcher.events.drain()
    reporting.wait_reported(text)
    seconds = time.monotonic() - began
    writes = reporting.namespace.requests("patch", "pods")[before:]
    assert len(writes) <= WRITES * max(1.0, seconds / 60)
    assert {request["responseStatus"]["code"] for request in writes} == {200}
    assert not reporting.launcher.events_named("annotations-changed")  # its own writes are not somebody else's
    assert len(reporting.namespace.requests(resource="events")) <= BURST + 1
    assert [event["count"] for event in reporting.events("ConfigurationLoaded")] != [1]
    line = reporting.launcher.wait_up()
    assert reporting.launcher.is_alive(line["pid"])


def test_an_idle_launcher_asks_nothing(reporting):
    """But its watches, which last ten minutes and more."""
    reporting.wait_event("ConfigurationLoaded")
    watches = eventually(lambda: reporting.namespace.requests(verb="watch", stage="ResponseStarted"), "the watch")
    assert len(watches) == 1 and "metadata.name%3D" + reporting.name in watches[0]["requestURI"]

    def counted(seconds):
        before = len(reporting.namespace.requests(stage=None))
        reporting.launcher.quiet_for(seconds)
        return before if len(reporting.namespace.requests(stage=None)) == before else None
    eventually(lambda: counted(1), "what it has asked at its start is told of")
    assert counted(5)
    assert int(watches[0]["requestURI"].split("timeoutSeconds=")[1].split("&")[0]) >= 600


class AnnotationWatch:
    """A watch of the pod on a connection of its own, with less delay than a program's output has."""

    def __init__(self, pod):
        cluster = pod.cluster
        self.connection = http.client.HTTPSConnection(cluster.host, PORT, timeout=20,
                                                      context=cluster.authority.client(cluster.admin))
        self.connection.request("GET", f"/api/v1/namespaces/{pod.namespace.name}/pods?watch=1&timeoutSeconds=300&"
                                       f"fieldSelector=metadata.name%3D{pod.name}")
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200

    def wait_for(self, text):
        """When the annotation was seen to be this text."""
        while True:
            pod = json.loads(self.answer.readline())["object"]
            if pod["metadata"].get("annotations", {}).get(CONFIGURATION) == text:
                return time.monotonic()

    def close(self):
        """Ends it."""
        self.connection.close()


def test_every_change_that_is_not_followed_at_once_is_seen(reporting):
    """Each as a state of its own by another client. How soon is measured by bench/run --only annotation."""
    watch = AnnotationWatch(reporting)
    for number in range(5):
        reporting.launcher.quiet_for(0.6)  # changes that are closer together wait for each other, by intent
        text = reporting.configure(*SERVE, f"say:{number}")
        watch.wait_for(text)
        reporting.launcher.wait_for_event("configuration-loaded")
    watch.close()

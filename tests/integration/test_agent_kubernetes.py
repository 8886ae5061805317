"""The Kubernetes reporter of the agent against a server that misbehaves on demand, and a launcher of a few lines. What
a real API server does is tested against a real one (tests/kubernetes)."""

import json
import os
import signal
import socket
import threading
import time

import pytest

from harness.agent import Agent, Authority, FakeLauncher
from harness.kubernetes_standin import PREFIX, StandIn, status_body
from harness.process import TIMEOUT, Exit, eventually, wait_readable

RECOVERY = 60  # seconds: backoff after what a server fails at is 30 s at most


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates") / "ca")


@pytest.fixture(scope="module")
def certificate(authority):
    return authority.issue("api", alternatives="IP:127.0.0.1,IP:::1")


@pytest.fixture
def api(certificate):
    server = StandIn(certificate)
    yield server
    server.close()


class Launcher(FakeLauncher):
    """Says what configuration is active, and what happens."""

    def __init__(self):
        self.sequence = 0
        self.state = {"configuration": None, "environment": {}, "accepted_at": None, "rejection": []}
        self.about = {"version": "1.0", "pid": 1, "ready": True}
        self.errors = {}  # by method: what it is answered with
        self.held = {}  # by method: an event; until then there is no answer
        super().__init__(self.answer)

    def answer(self, call):
        method = call["method"].rsplit(".", 1)[1]
        if method in self.held:
            assert self.held[method].wait(TIMEOUT)
        if method in self.errors:
            return [self.errors[method]]
        if method in ("Probes", "Subscribe"):
            return [{"parameters": {}, "continues": True}]
        if method == "WatchConfiguration":
            return [{"parameters": self.configuration(), "continues": True}]
        if method == "GetStatus":
            return [{"parameters": {"launcher": self.about}}]
        return [{"parameters": {}}]

    def configuration(self):
        return {"sequence": self.sequence, **self.state}

    def activate(self, text, accepted_at=1_700_000_000.5, **more):
        """A configuration has been loaded."""
        self.sequence += 1
        self.state = {"configuration": text, "environment": {"A": "1"}, "accepted_at": accepted_at, "rejection": [],
                      **more}
        if any(call["method"].endswith("WatchConfiguration") for call in list(self.calls)):
            self.tell("WatchConfiguration", self.configuration())

    def happen(self, **record):
        """A record of the log."""
        self.tell("Subscribe", {"event": record})

    def wait_state(self, state, detail="", timeout=RECOVERY):
        """Waits until the reporter's latest state is this one; returns its detail."""
        def found():
            reports = self.called("SetReporter")
            last = reports[-1]["reporter"] if reports else {"state": None, "detail": ""}
            return last if last["state"] == state and detail in last["detail"] else None
        with self._changed:
            assert self._changed.wait_for(found, timeout), f"not {state} {detail}: {self.called('SetReporter')[-3:]}"
            return found()["detail"]


@pytest.fixture
def launcher():
    fake = Launcher()
    fake.activate("c1")
    yield fake
    fake.close()


@pytest.fixture
def account(area, authority):
    directory = area / "account"
    directory.mkdir()
    (directory / "token").write_text("secret\n")
    (directory / "namespace").write_text("ns")
    (directory / "ca.crt").write_bytes(authority.certificate.read_bytes())
    return directory


@pytest.fixture
def start(api, launcher, account):
    agents = []

    def start_agent(*arguments, host="127.0.0.1", port=None, named=True, user=None, hand_over=None, **env):
        name = ["--pod-name", "pod"] if named else []
        agent = Agent("--kubernetes", "on", *name, "--service-account-dir", account, *arguments, listen=False,
                      serves=False, user=user, hand_over={"launcher": launcher.broker.fileno(), **(hand_over or {})},
                      env={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port or api.port), **env})
        agents.append(agent)
        return agent

    yield start_agent
    for agent in agents:
        agent.close()


def test_what_is_written_and_how_it_is_asked(api, launcher, start):
    start()
    api.wait_annotation("c1")
    launcher.wait_state("ok")
    watch, = [request for request in api.requests if request.kind == "watch pods"]
    assert watch.query["fieldSelector"] == "metadata.name=pod" and watch.query["allowWatchBookmarks"] == "true"
    assert int(watch.query["timeoutSeconds"]) >= 600 and "resourceVersion" not in watch.query
    patch, = [request for request in api.requests if request.kind == "patch pods"]
    assert patch.body == {"metadata": {"annotations": {PREFIX + "launcher-current-configuration": "c1",
                                                       PREFIX + "launcher-environment": '{"A":"1"}'}}}
    assert patch.headers["authorization"] == "Bearer secret"
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert patch.headers["user-agent"].startswith("triton-launch-agent/")
    assert "PartialObjectMetadata" in patch.headers["accept"]
    event = api.wait_request("create events").body
    assert (event["reason"], event["involvedObject"]["uid"]) == ("ConfigurationLoaded", "uid-1")
    assert api.accepted == 2  # one connection for requests, one for the watch
    launcher.activate("c2", 1_700_000_001.0)
    api.wait_annotation("c2")
    assert api.accepted == 2


def test_what_the_pod_says_reaches_the_launcher(api, launcher, start):
    start("--watch-node")
    launcher.wait_for(lambda: launcher.called("SetPod"), "SetPod")
    assert launcher.called("SetPod") == [
        {"isolated": False, "shutdown_delay_seconds": 0, "variables": {"NODE_LABEL_ZONE": "a"}}]
    api.change({PREFIX + "isolate-process-group": "true", PREFIX + "delay-shutdown": "1500ms"})
    launcher.wait_for(lambda: launcher.called("SetPod")[1:], "SetPod again")
    assert launcher.called("SetPod")[1] == {"isolated": True, "shutdown_delay_seconds": 1.5,
                                            "variables": {"NODE_LABEL_ZONE": "a"}}
    assert launcher.called("Reload") == []
    api.change({PREFIX + "outdated-config-map-seen": "1700000001"})
    launcher.wait_for(lambda: launcher.called("Reload"), "Reload")


def test_a_reload_that_lasts_delays_nothing_else(api, launcher, start):
    """An agent that runs as an ordinary program is answered when the reload is done."""
    done = launcher.held["Reload"] = threading.Event()
    start("--readiness-gate", "example.org/ready")
    launcher.wait_state("ok")
    api.change({PREFIX + "outdated-config-map-seen": "1700000001"})
    launcher.wait_for(lambda: launcher.called("Reload"), "Reload")
    before = len(launcher.called("GetStatus"))
    launcher.happen(event="process-ready", message="web is ready", program="web", process=1)
    launcher.wait_for(lambda: len(launcher.called("GetStatus")) > before, "GetStatus")
    assert len(launcher.called("Reload")) == 1
    done.set()


def test_records_that_were_lost_are_told(api, launcher, start):
    agent = start()
    launcher.wait_state("ok")
    launcher.tell("Subscribe", {"lost": 3})
    lost = agent.wait_for_event("records-lost")
    assert lost["message"] == "3 records of the launcher were lost: events in Kubernetes may be missing"


@pytest.mark.parametrize("stage", ["accept", "handshake", "patch pods"])
def test_a_server_that_hangs(api, launcher, start, stage):
    """It costs its time limit, and then all is as it should be."""
    api.faults[stage] = [api.hang, api.hang]
    agent = start()
    launcher.wait_state("failing", "no answer within")
    launcher.activate("c2", 1_700_000_001.0)
    api.wait_annotation("c2", RECOVERY)
    launcher.wait_state("ok")
    assert agent.stop() == Exit(code=0)


def test_a_server_that_hangs_within_its_answer(api, launcher, start):
    def half(client, _):
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"metadata\"")
        api.hang()

    api.faults["patch pods"] = [half]
    start()
    launcher.wait_state("failing", "no answer within 15s")
    api.wait_annotation("c1", RECOVERY)
    launcher.wait_state("ok")


def test_nobody_listens(api, launcher, start):
    with socket.socket() as taken:  # and nobody else can
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        agent = start(port=port)
        detail = launcher.wait_state("failing", "Connection refused")
    assert f"127.0.0.1:{port}" in detail
    assert agent.stop() == Exit(code=0)


def test_a_connection_that_ends_is_replaced(api, launcher, start):
    """Kept and closed by the server meanwhile: that is not even a failure."""
    start()
    api.wait_request("create events")
    api.faults["patch pods"] = [api.tear]
    launcher.activate("c2", 1_700_000_001.0)
    api.wait_annotation("c2")
    assert api.count("patch pods") == 3
    assert not [one for one in launcher.called("SetReporter") if one["reporter"]["state"] == "failing"]


@pytest.mark.parametrize("answer, detail", [
    (b"nonsense\r\n\r\n", "the answer is not HTTP"),
    (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n", "the answer is too long"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", "the answer is too long"),
    (b"", "the connection ended before the answer did")], ids=["garbage", "long header", "long body", "nothing"])
def test_strange_answers(api, launcher, start, answer, detail):
    def strange(client, _):
        client.send(answer)
        api.tear(client)

    api.faults["patch pods"] = [strange]
    start()
    launcher.wait_state("failing", detail)
    api.wait_annotation("c1", RECOVERY)
    launcher.wait_state("ok")


def test_a_success_that_makes_no_sense_is_none(api, launcher, start):
    """Of a proxy, say."""
    api.faults["patch pods"] = [lambda client, _: client.answer(200, "<html>")]
    start()
    launcher.wait_state("failing", "cannot be understood")
    api.wait_annotation("c1", RECOVERY)
    launcher.wait_state("ok")


def test_retry_after(api, launcher, start):
    times = []

    def slow_down(client, _):
        times.append(time.monotonic())
        client.fail(429, "slow down", Retry_After=2)

    api.faults["patch pods"] = [slow_down]
    start()
    launcher.wait_state("failing", "HTTP status 429: slow down")
    api.wait_annotation("c1", RECOVERY)
    assert time.monotonic() - times[0] >= 2


def test_500_and_409_are_tried_again(api, launcher, start):
    api.faults["patch pods"] = [lambda client, _: client.fail(500, "broken"),
                                lambda client, _: client.fail(409, "the object has been modified"),
                                lambda client, _: client.answer(503, "<html>gateway")]
    start()
    api.wait_annotation("c1", RECOVERY)
    launcher.wait_state("ok")
    assert api.count("patch pods") == 4


@pytest.mark.parametrize("code, why", [
    (413, "Request entity too large: limit is 3145728"),
    (422, 'Pod "pod" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes')])
def test_refused_annotations_are_told_once_for_each_content(api, launcher, start, code, why):
    api.faults["patch pods"] = lambda client, _: client.fail(code, why)

    def refusals():
        return [one for one in api.events.values() if one["reason"] == "AnnotationsRefused"]
    start()
    launcher.wait_state("failing", f"HTTP status {code}: {why}")
    first = api.wait_for(refusals, "the event")[0]
    assert first["type"] == "Warning" and first["message"].endswith(f"cannot be written to the pod: HTTP status {code}: {why}")
    launcher.activate("another")
    both = api.wait_for(lambda: refusals() if len(refusals()) == 2 else None, "the other content")
    assert both[0] is first and both[1]["message"] != first["message"]
    assert [one["count"] for one in both] == [1, 1]
    api.faults["patch pods"] = []
    launcher.activate("small")
    api.wait_annotation("small")
    launcher.wait_state("ok")


@pytest.mark.parametrize("kind, verb, resource", [
    ("watch pods", "watch", "pods"), ("patch pods", "patch", "pods"), ("create events", "create", "events"),
    ("watch nodes", "watch", "nodes"), ("patch status", "patch", "pods/status")])
def test_a_permission_is_missing(api, launcher, start, kind, verb, resource):
    message = f'{resource} is forbidden: User "sa" cannot {verb} resource "{resource}" in API group ""'
    api.faults[kind] = lambda client, _: client.fail(403, message)
    agent = start("--watch-node", "--readiness-gate", "example.org/ready")
    told = agent.wait_for_event("permission-missing")
    assert f'verb "{verb}" on resource "{resource}"' in told["message"] and message in told["message"]
    launcher.wait_state("failing", f'verb "{verb}"')
    if kind != "patch pods":
        api.wait_annotation("c1")
    launcher.wait_for(lambda: launcher.called("SetPod") or kind == "watch pods", "SetPod")
    if kind != "create events":
        api.wait_for(lambda: [one for one in api.events.values() if one["reason"] == "MissingPermission"], "the event")
    del api.faults[kind]
    launcher.wait_state("ok")
    api.wait_annotation("c1")


def test_401_reads_the_token_again(api, launcher, start, account):
    """The same file, rewritten in place within one clock tick or not: the server's word counts."""
    api.token = "fresh"
    start()
    launcher.wait_state("failing", "HTTP status 401")
    (account / "token").write_text("fresh")
    api.wait_annotation("c1", RECOVERY)
    launcher.wait_state("ok")


def test_no_service_account_yet(api, launcher, start, account):
    (account / "token").rename(account / "elsewhere")
    start()
    launcher.wait_state("failing", "token: No such file or directory")
    (account / "elsewhere").rename(account / "token")
    api.wait_annotation("c1", RECOVERY)
    launcher.wait_state("ok")


def test_another_authority(api, launcher, start, account, tmp_path):
    other = Authority(tmp_path / "other")
    good = (account / "ca.crt").read_bytes()
    (account / "ca.crt").write_bytes(other.certificate.read_bytes())
    start()
    launcher.wait_state("failing", f"the certificate of 127.0.0.1:{api.port} is not trusted: unable to get local issuer")
    assert api.requests == []
    (account / "ca.crt").write_bytes(good)
    api.wait_annotation("c1", RECOVERY)


def test_a_certificate_for_another_address(launcher, start, authority):
    server = StandIn(authority.issue("elsewhere", alternatives="IP:127.0.0.2,DNS:127.0.0.1"))
    try:
        start(port=server.port)
        launcher.wait_state("failing", "IP address mismatch")
        assert server.requests == []
    finally:
        server.close()


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_ipv6(launcher, start, certificate, host):
    server = StandIn(certificate, host="::1")
    try:
        start(host=host, port=server.port)
        server.wait_annotation("c1")
        assert server.requests[0].headers["host"] == f"[::1]:{server.port}"
    finally:
        server.close()


@pytest.mark.parametrize("host", ["under_score.example", "10.0.0.256", "a..b", "[kubernetes]", "-x", "api.example:443"])
def test_what_is_no_host_is_refused_with_a_reason(launcher, start, host):
    """All else goes on."""
    agent = start(host=host)
    reason = "neither an address nor the name of a host"
    message = agent.wait_for_event("kubernetes-off")["message"]
    assert reason in message and host in message
    reporter = eventually(lambda: launcher.called("SetReporter"), "the launcher is told")[0]["reporter"]
    assert reporter["state"] == "failing" and reason in reporter["detail"]
    assert agent.stop() == Exit(code=0), "it has gone on"


@pytest.mark.parametrize("env, reason", [
    ({"port": "tcp://10.0.0.1:443"}, 'KUBERNETES_SERVICE_PORT: "tcp://10.0.0.1:443" is not a whole number'),
    ({"host": ""}, "KUBERNETES_SERVICE_HOST is not set"),
    ({"FDB_POD_NAME": ""}, "the pod's name is unknown")],
    ids=["port", "no host", "no pod name"])
def test_surroundings_that_are_no_good_are_told_of(launcher, start, env, reason):
    """All else goes on; each version of the launcher is told."""
    agent = start(named="FDB_POD_NAME" not in env, **env)
    assert reason in agent.wait_for_event("kubernetes-off")["message"]
    for times in (1, 2):
        reports = launcher.wait_for(lambda n=times: launcher.called("SetReporter")[n - 1:], "the launcher is told")
        assert reports[0]["reporter"]["state"] == "failing" and reason in reports[0]["reporter"]["detail"]
        launcher.drop_connections()
    assert agent.stop() == Exit(code=0), "it has gone on"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_token_for_another_user(api, launcher, account, start):
    (account / "token").chmod(0o600)
    start(user=65534)
    detail = launcher.wait_state("failing", "token: Permission denied")
    assert "the agent is user 65534: see --agent-user and fsGroup" in detail
    (account / "token").chmod(0o644)
    api.wait_annotation("c1", RECOVERY)


def test_a_launcher_that_refuses(api, launcher, start):
    """It says which call, and what of it."""
    launcher.errors["SetPod"] = {"error": "org.varlink.service.InvalidParameter",
                                 "parameters": {"parameter": "variables"}}
    agent = start("--watch-node")
    reason = "the launcher refuses SetPod: org.varlink.service.InvalidParameter: variables"
    assert agent.wait_for_event("launcher-refused")["message"] == reason
    launcher.wait_state("failing", reason)
    del launcher.errors["SetPod"]
    api.change({PREFIX + "isolate-process-group": "true"})
    launcher.wait_state("ok")


def test_a_launcher_that_takes_nothing_from_it(api, launcher, start):
    """It runs as an ordinary program of the launcher's."""
    denied = {"error": "org.varlink.service.PermissionDenied", "parameters": {}}
    launcher.errors = {"SetPod": denied, "SetReporter": denied}
    agent = start()
    told = agent.wait_for_event("launcher-refused")["message"]
    assert "isolation" in told and "delay" in told and "labels" in told
    calls = len(launcher.called("SetPod"))
    api.wait_request("create events")
    for value in ("true", "false", "true"):
        api.change({PREFIX + "isolate-process-group": value})
    api.change({PREFIX + "outdated-config-map-seen": "1700000001"})
    launcher.wait_for(lambda: launcher.called("Reload"), "Reload")  # later than all of that
    assert len(launcher.called("SetPod")) == calls
    agent.stop()
    assert [line["event"] for line in agent.log.all].count("launcher-refused") == 1


# ---- the end


def test_the_last_words(api, launcher, start):
    """A program is given up, and the container ends with it at once."""
    api.pod["status"] = {"conditions": [{"type": "example.org/ready", "status": "True"}]}
    agent = start("--readiness-gate", "example.org/ready")
    api.wait_request("create events")
    assert api.count("patch status") == 0
    launcher.happen(event="process-gave-up", program="web", process=1, message="web:1 is given up")
    assert agent.stop() == Exit(code=0)
    assert [one["message"] for one in api.events.values() if one["reason"] == "StartLimitHit"] == ["web:1 is given up"]
    condition, = api.wait_request("patch status").body["status"]["conditions"]
    assert condition["status"] == "False" and api.count("patch status") == 1


@pytest.mark.parametrize("insists", [False, True], ids=["once", "twice"])
def test_the_last_words_are_short(api, launcher, start, insists):
    """A server that takes them and says nothing: a second, and none when the signal comes again."""
    api.faults["create events"] = [None, api.hang]
    agent = start()
    api.wait_request("create events")
    launcher.happen(event="process-gave-up", program="web", process=1, message="web:1 is given up")
    api.wait_request("create events", 2)
    began = time.monotonic()
    agent.process.send_signal(signal.SIGTERM)
    agent.wait_for_event("stop-requested")
    if insists:  # after half a second: what comes earlier is the same request
        def has_ended():
            agent.process.send_signal(signal.SIGTERM)
            return agent.process.poll() is not None
        eventually(has_ended, "the agent ends")
    assert agent.wait() == Exit(code=0)
    took = time.monotonic() - began
    assert took < 0.9 if insists else 0.9 < took < 5


def test_where_the_api_is_away_the_end_is_at_once(api, launcher, start):
    agent = start()
    api.wait_request("create events")
    api.faults["accept"] = api.tear
    api.wait_watch().stream.shutdown(socket.SHUT_RDWR)
    launcher.wait_state("failing")
    launcher.happen(event="process-gave-up", program="web", process=1, message="web:1 is given up")
    began = time.monotonic()
    assert agent.stop() == Exit(code=0)
    assert time.monotonic() - began < 0.9


# ---- watches


def test_a_torn_watch_is_resumed_where_it_was(api, launcher, start):
    start()
    api.wait_annotation("c1")
    client = api.wait_watch()
    client.event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "777"}})
    client.chunk('{"type":"MODI')  # half a line is none
    client.stream.shutdown(socket.SHUT_RDWR)
    assert api.wait_request("watch pods", 2).query["resourceVersion"] == "777"
    assert not [one for one in launcher.called("SetReporter") if one["reporter"]["state"] == "failing"]


@pytest.mark.parametrize("how", ["answer", "event"])
def test_410_begins_anew(api, launcher, start, how):
    def gone(client, request):
        assert "resourceVersion" in request.query
        if how == "answer":
            return client.fail(410, "too old resource version")
        client.begin_watch()
        return client.event("ERROR", status_body(410, "too old resource version"))

    api.faults["watch pods"] = [None, gone]
    start()
    api.wait_annotation("c1")
    api.wait_watch().stream.shutdown(socket.SHUT_RDWR)
    assert "resourceVersion" not in api.wait_request("watch pods", 3).query
    api.wait_watch()
    api.change({PREFIX + "isolate-process-group": "1"})
    launcher.wait_for(lambda: [one for one in launcher.called("SetPod") if one["isolated"]], "isolated")


@pytest.mark.parametrize("line", ["<html>", '{"type":"ADDED"}', "[" * 5000, "x" * (5 << 20)],
                         ids=["html", "no object", "deep", "giant"])
def test_nonsense_in_a_watch(api, launcher, start, line):
    def nonsense(client, _):
        client.begin_watch()
        client.chunk(line + "\n")

    api.faults["watch pods"] = [nonsense]
    agent = start()
    launcher.wait_state("failing", "the pod cannot be watched: ")
    api.wait_request("watch pods", 2)
    launcher.wait_state("ok")
    api.wait_annotation("c1")
    assert agent.stop() == Exit(code=0)


def test_lines_come_in_any_pieces(api, launcher, start):
    """A byte a chunk, two lines in one, and a pod of 2 MB."""
    def pieces(client, _):
        client.begin_watch()
        item = api.new_pod("uid-1", filler="x" * (2 << 20))
        text = json.dumps({"type": "ADDED", "object": item}) + "\n"
        for byte in text[:300]:
            client.chunk(byte)
        item = api.new_pod("uid-1", **{PREFIX + "isolate-process-group": "true"})
        item["metadata"]["resourceVersion"] = "101"
        client.chunk(text[300:] + json.dumps({"type": "MODIFIED", "object": item}) + "\n")

    api.faults["watch pods"] = [pieces]
    start()
    launcher.wait_for(lambda: [one for one in launcher.called("SetPod") if one["isolated"]], "isolated")


def test_a_pod_that_goes_and_comes_back(api, launcher, start):
    start()
    api.wait_annotation("c1")
    client = api.wait_watch()
    gone, api.pod = api.pod, None
    client.event("DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": "900"}})
    launcher.wait_state("failing", "there is no pod ns/pod")
    api.version = 1000
    api.change(pod=api.new_pod("uid-2"))
    api.wait_annotation("c1", RECOVERY)
    launcher.wait_state("ok")
    api.wait_for(lambda: api.pod["metadata"]["uid"] == "uid-2", "the new pod")


# ---- events and readiness


def test_events_count_and_are_made_again(api, launcher, start):
    start()
    api.wait_request("create events")
    for number in range(4):
        launcher.happen(event="process-exited", program="web", process=1, exit_code=3, message="x",
                        restart_in_seconds=float(number))
    event = api.wait_for(lambda: [one for one in api.events.values()
                                  if one["reason"] == "CrashLooping" and one["count"] == 2], "a count of two")[0]
    assert event["message"] == "web:1 keeps failing: exit code 3" and event["type"] == "Warning"
    api.events.clear()  # its time was over
    launcher.happen(event="process-exited", program="web", process=1, exit_code=3, message="x", restart_in_seconds=8.0)
    again = api.wait_for(lambda: list(api.events.values()), "a new one")[0]
    assert again["count"] == 3 and again["metadata"]["name"] != event["metadata"]["name"]
    launcher.activate("c1", rejection=["arguments[0]: bad", "version: missing"])
    api.wait_for(lambda: [one for one in api.events.values()
                          if one["message"] == "rejected: arguments[0]: bad; version: missing"], "the rejection")


def test_an_upgraded_launcher_hears_it_all_again(api, launcher, start):
    start()
    launcher.wait_for(lambda: launcher.called("SetPod"), "SetPod")
    launcher.wait_state("ok")
    launcher.wait_for(lambda: launcher.called("GetStatus"), "GetStatus")
    told = len(launcher.called("SetPod"))
    launcher.about["version"] = "1.1"
    launcher.drop_connections()
    launcher.wait_for(lambda: len(launcher.called("SetPod")) > told, "SetPod to the new version")
    event = api.wait_for(lambda: [one for one in api.events.values() if one["reason"] == "LauncherUpgraded"],
                         "the event")[0]
    assert event["message"] == "upgraded from 1.0 to 1.1"


def test_a_readiness_gate(api, launcher, start):
    start("--readiness-gate", "example.org/ready")
    patch = api.wait_request("patch status")
    condition, = patch.body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("example.org/ready", "True")
    assert patch.headers["content-type"] == "application/strategic-merge-patch+json"
    launcher.about["ready"] = False
    launcher.happen(event="process-exited", program="web", process=1, exit_code=3, message="x")
    condition, = api.wait_request("patch status", 2).body["status"]["conditions"]
    assert condition["status"] == "False"


def test_a_readiness_gate_stays_while_the_agent_is_replaced(api, launcher, start, authority, area):
    for directory in ("here/v1", "far/away"):
        (area / directory).mkdir(parents=True)
        for name, file in zip(("tls.crt", "tls.key"), authority.issue(f"{area.name}-{directory[-2:]}")):
            (area / directory / name).write_bytes(file.read_bytes())
    (area / "here/current").symlink_to("v1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        agent = start("--readiness-gate", "example.org/ready", "--tls-certificate-file", area / "here/current/tls.crt", "--tls-key-file",
                      area / "here/current/tls.key", "--tls-verify-peers", "none", hand_over={"http": listener.fileno()})
        if agent.wait_for_event("sandbox")["landlock"] == "no":
            pytest.skip("this kernel has no Landlock")
        api.wait_request("patch status")
        (area / "here/new").symlink_to(area / "far/away")
        (area / "here/new").rename(area / "here/current")
        agent.wait_for_event("certificate-out-of-reach")
        assert agent.wait() == Exit(code=3)
        assert api.count("patch status") == 1


def test_silence_when_nothing_happens(api, launcher, start):
    """Not even a look at the launcher."""
    agent = start()
    api.wait_request("create events")
    launcher.wait_state("ok")
    def count():
        return len(launcher.calls), len(api.requests)

    def is_quiet(seconds):
        agent.log.drain()
        before = count()
        return not wait_readable([agent.log.fd], time.monotonic() + seconds) and count() == before

    eventually(lambda: is_quiet(0.5), "the end of what follows from the start")
    before = agent.status()["voluntary_ctxt_switches"]
    assert is_quiet(2)
    assert int(agent.status()["voluntary_ctxt_switches"]) - int(before) <= 5

"""The agent and its launcher: status, readiness, metrics and copies, over the control socket. The launcher here is a
few lines of the test's own, so that it can be slow, wrong and gone."""

import json
import os
import socket
import threading
import time

import pytest

from harness.agent import Agent, Authority, FakeLauncher, read_answer
from harness.process import TIMEOUT, Exit, eventually

INTERFACE = "org.tritonlaunch.Launcher."


def process(number=1, state="up", ready=True, **more):
    return {"number": number, "state": state, "ready": ready, "starts": 1, "restarts": 0, "memory_bytes": 4096,
            "uptime_seconds": 12.5 if state in ("up", "activating") else None, **more}


def program(name, *processes, ready=True, kind="service", **more):
    return {"name": name, "kind": kind, "wanted": len(processes), "ready": ready, "processes": list(processes), **more}


class Launcher:
    """What the fake launcher says; a test changes it while it runs."""

    def __init__(self):
        self.about = {"version": "0.1.0 (abc)", "pid": 1, "uptime_seconds": 60.0, "phase": "running",
                      "configuration": "c",
                      "has_configuration": True, "ready": True, "rejection": [], "programs": ["web"]}
        self.lists = [[program("web", process(), process(2))]]
        self.stage = {"parameters": {"files": [], "errors": []}}
        self.breaks = set()  # methods whose next call is answered by the end of the connection
        self.asked = threading.Event()
        self.copies = threading.Event()  # as soon as it is set
        self.copies.set()
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, call):
        self.asked.set()
        self.go_on.wait()
        method = call["method"].removeprefix(INTERFACE)
        if method in self.breaks:
            self.breaks.remove(method)
            return "close"
        if method == "GetStatus":
            return [{"parameters": {"launcher": self.about}}]
        if method == "List":
            assert call["more"] is True
            parts = [{"parameters": {"programs": part}, "continues": True} for part in self.lists]
            del parts[-1]["continues"]
            return parts
        if method == "Stage":
            self.copies.wait()
            return self.stage if self.stage == "close" else [self.stage]
        if method == "Probes":
            return [{"parameters": {}, "continues": True}]
        return [{"error": "org.varlink.service.MethodNotFound", "parameters": {"method": call["method"]}}]


@pytest.fixture
def launcher():
    return Launcher()


@pytest.fixture
def fake(launcher, area):
    server = FakeLauncher(launcher, path=area / "control")
    yield server
    launcher.go_on.set()
    launcher.copies.set()
    server.close()


@pytest.fixture
def agent(fake, area):
    started = Agent("--control-socket", area / "control")
    yield started
    started.close()


def test_ready_when_all_programs_are(agent):
    assert agent.get("/readyz") == (200, "[+]web ok\nready\n")


@pytest.mark.parametrize("about, lists, status, text", [
    ({}, [[program("web", process(), process(2, "backoff", False), process(3, "done", False), ready=False)]], 503,
     "[-]web not ready: process 2 backoff\nnot ready\n"),
    ({}, [[program("", process(1, "failed", False), ready=False)]], 503,
     "[-]processes not ready: process 1 failed\nnot ready\n"),
    ({}, [[program("a", process()), program("b", process(1, "waiting", False), ready=False)]], 503,
     "[+]a ok\n[-]b not ready: process 1 waiting\nnot ready\n"),
    ({}, [[program("job", process(1, "down", False), ready=False, kind="scheduled")]], 200, "ready\n"),
    ({}, [[program("web", process()), program("triton-agent", process(1, "backoff", False), ready=False,
                                              internal=True)]], 200, "[+]web ok\nready\n"),
    ({}, [[program("off")]], 200, "[+]off ok\nready\n"), ({}, [[]], 200, "ready\n"),
    ({"phase": "stopping"}, [[program("web", process())]], 503, "[-]launcher stopping\n[+]web ok\nnot ready\n"),
    ({"has_configuration": False}, [[]], 503, "[-]configuration none\nnot ready\n"),
    ({}, [[program("big", process(), ready=False)], [program("big", process(2, "starting", False), ready=False)]], 503,
     "[-]big not ready\nnot ready\n")])
def test_readiness(agent, launcher, about, lists, status, text):
    if len(lists) == 2:  # `wanted` counts them all, in each part
        for part in lists:
            part[0]["wanted"] = 2
        text = "[-]big not ready: process 2 starting\nnot ready\n"
    launcher.about |= about
    launcher.lists = lists
    assert agent.get("/readyz") == (status, text)


def test_status_is_what_the_launcher_says(agent, launcher):
    launcher.lists = [[program("web", process(status='a "b"\u2028'))], [program("db", process(cpu_seconds=0.125))]]
    status, body = agent.get("/v1/status")
    said = json.loads(body)
    assert status == 200 and said["ready"] is True
    assert said["launcher"] == launcher.about
    assert said["programs"] == launcher.lists[0] + launcher.lists[1]
    assert said["agent"]["version"] and said["agent"]["open_connections"] == 1


def test_metrics_of_the_processes(agent, launcher):
    launcher.about |= {"configuration_changes": 7, "configuration_time": 1700000000.5}
    launcher.lists = [[program("web", process(starts=3, version="7.1.61"), process(2, "backoff", False, starts=9,
                                                                                         started_seconds_ago=20.0),
                               version="7.1.62"), program("", process(version="7.1.61")),
                       program("triton-agent", process(starts=4), internal=True)]]
    text = agent.get("/metrics")[1]
    for line in ('triton_launch_reachable 1', 'triton_launch_process_starts_total{program="web",process="2"} 9',
                 'triton_launch_process_up{program="web",process="2"} 0',
                 'triton_launch_process_ready{program="web",process="1"} 1',
                 'triton_launch_process_state{program="web",process="2",state="backoff"} 1',
                 'triton_launch_program_wanted_processes{program="web"} 2',
                 'triton_launch_configuration_changes_total 7',
                 'triton_launch_process_starts_total{program="triton-agent",process="1"} 4',
                 'fdbkubernetesmonitor_restart_count{process="web:1"} 3',
                 'fdbkubernetesmonitor_restart_count{process="1"} 1',
                 'fdbkubernetesmonitor_configuration_change_count 7', 'triton_launch_configuration_rejected 0',
                 'fdbkubernetesmonitor_last_applied_configuration_timestamp 1700000000.5',
                 'fdbkubernetesmonitor_running_version{version="7.1.61"} 1',
                 'fdbkubernetesmonitor_running_version{version="7.1.62"} 0',
                 'fdbkubernetesmonitor_desired_version{version="7.1.61"} 0',
                 'fdbkubernetesmonitor_desired_version{version="7.1.62"} 1'):
        assert line in text.splitlines(), line
    for number, ago in ((1, 12.5), (2, 20)):
        started = next(line for line in text.splitlines()
                       if line.startswith(f'fdbkubernetesmonitor_start_timestamp{{process="web:{number}"}}'))
        assert abs(float(started.split()[-1]) - (time.time() - ago)) < 5
    assert not any("triton-agent" in line for line in text.splitlines() if "fdbkubernetesmonitor" in line)


@pytest.mark.parametrize("path, what", [("/copy_files", "files"), ("/copy_binaries", "binaries"),
                                        ("/copy_libraries", "libraries"), ("/copy_monitor_conf", "monitor_conf")])
def test_copies_are_asked_of_the_launcher_in_one_word(agent, fake, launcher, path, what):
    assert agent.post(path, '{"path": "/etc/passwd"}') == (200, "OK\n")
    assert fake.calls == [{"method": INTERFACE + "Stage", "parameters": {"what": what}}]
    launcher.stage = {"parameters": {"files": [], "errors": ["cannot open /in/a: No such file or directory", "b"]}}
    assert agent.post(path) == (500, "cannot open /in/a: No such file or directory\nb\n")
    launcher.stage = {"error": INTERFACE + "Failed", "parameters": {"reason": "disk full", "details": []}}
    assert agent.post(path) == (500, f"{INTERFACE}Failed: disk full\n")
    launcher.stage = {"error": "org.varlink.service.MethodNotFound", "parameters": {"method": INTERFACE + "Stage"}}
    assert agent.post(path)[0] == 501


def test_what_was_copied_is_told_as_json(agent, fake, launcher):
    launcher.stage = {"parameters": {"files": ["/out/a", '/out/"b"'], "errors": []}}
    status, body, headers = agent.request("POST", "/v1/stage", body='{"what": "binaries"}')
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert json.loads(body) == launcher.stage["parameters"]
    launcher.stage = {"parameters": {"files": ["/out/a"], "errors": ["cannot open /in/b: No such file or directory"]}}
    status, body = agent.post("/v1/stage")
    assert status == 500 and json.loads(body) == launcher.stage["parameters"]
    assert fake.called("Stage") == [{"what": "binaries"}, {"what": "all"}]
    for wrong in ("[]", "{", '{"what": "/etc/passwd"}', '{"what": 3}'):
        status, body = agent.post("/v1/stage", wrong)
        assert status == 400 and set(json.loads(body)) == {"error"}
    assert len(fake.called("Stage")) == 2


def test_many_questions_are_one_to_the_launcher(agent, fake):
    """Whoever floods the agent does not flood PID 1."""
    begun = time.monotonic()
    for _ in range(200):
        assert agent.get("/readyz")[0] == 200
    taken = time.monotonic() - begun
    asked = sum(call["method"] == INTERFACE + "GetStatus" for call in fake.calls)
    assert asked <= taken / 0.25 + 1


def test_questions_at_the_same_time_wait_for_one_answer(agent, fake, launcher):
    launcher.go_on.clear()
    peers = [agent.connect() for _ in range(20)]
    for peer in peers:
        peer.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert launcher.asked.wait(10)
    assert agent.get("/ready") == (200, "OK\n"), "only those who ask for it wait"
    launcher.go_on.set()
    for peer in peers:
        assert b"200 OK" in peer.recv(4096)
        peer.close()
    assert len(fake.calls) == 2


def test_a_launcher_that_does_not_answer_is_not_waited_for_long(agent, launcher):
    launcher.go_on.clear()
    begun = time.monotonic()
    answer = "[-]launcher: the launcher has not answered in time\nnot ready\n"
    assert agent.get("/readyz") == (503, answer)
    assert time.monotonic() - begun < 10
    launcher.go_on.set()
    # The late answers belong to the calls that gave up, not to those that come after.
    eventually(lambda: agent.get("/readyz")[0] == 200, "it answers again")
    assert json.loads(agent.get("/v1/status")[1])["launcher"] == launcher.about


def test_a_launcher_that_comes_later_and_again(area, launcher):
    agent = Agent("--control-socket", area / "control")
    try:
        status, text = agent.get("/readyz")
        assert status == 503 and "No such file or directory" in text
        assert agent.get("/metrics")[1].startswith("# TYPE triton_launch_reachable gauge")
        assert agent.metric("triton_launch_reachable") == 0
        assert agent.get("/ready") == (200, "OK\n")
        assert agent.post("/copy_files")[0] == 503
        for _ in range(2):
            fake = FakeLauncher(launcher, path=area / "control")
            eventually(lambda: agent.get("/readyz")[0] == 200, "it is reached")
            fake.close()
            (area / "control").unlink()
            eventually(lambda: agent.get("/readyz")[0] == 503, "it is missed")
    finally:
        agent.close()


@pytest.mark.parametrize("answer", ["close", [{"parameters": []}], [[]], [{"error": "x"}], [{}, {}, {}],
                                    [{"parameters": {"launcher": 3}}], [{"parameters": {"a": "x" * 5_000_000}}]],
                         ids=["close", "array", "no-object", "error", "too-many", "wrong-type", "too-long"])
def test_answers_that_are_wrong_harm_nobody(area, answer):
    fake = FakeLauncher(lambda call: answer, path=area / "control")
    agent = Agent("--control-socket", area / "control")
    try:
        for _ in range(3):
            assert agent.get("/readyz")[0] == 503
            assert agent.get("/v1/status")[0] == 200
            assert agent.get("/ready") == (200, "OK\n")
    finally:
        agent.close()
        fake.close()


@pytest.fixture
def started(launcher):
    """A launcher that has started an agent, and that agent."""
    fake = FakeLauncher(launcher)
    agent = Agent(hand_over={"launcher": fake.broker.fileno()})
    yield fake, agent
    agent.close()
    launcher.go_on.set()
    launcher.copies.set()
    fake.close()


def test_the_launcher_is_reached_through_a_broker(started):
    fake, agent = started
    assert agent.get("/readyz") == (200, "[+]web ok\nready\n")
    assert agent.post("/copy_files") == (200, "OK\n")
    assert fake.wait_for(lambda: fake.called("Probes"), "it takes probes") == [{}]
    assert fake.called("Stage") == [{"what": "files"}]


def test_a_launcher_that_became_another_version(started, launcher):
    """Each of its connections ends, and the broker stays: whatever comes next is answered."""
    fake, agent = started
    assert agent.get("/readyz")[0] == 200
    for _ in range(20):
        fake.drop_connections()
        assert agent.post("/copy_files") == (200, "OK\n")
    launcher.go_on.clear()
    launcher.asked.clear()
    with agent.connect() as peer:
        peer.sendall(b"POST /copy_files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        assert launcher.asked.wait(TIMEOUT)
        launcher.stage = "close"
        launcher.go_on.set()
        answer = read_answer(peer)
    assert answer == (503, "the connection to the launcher has ended\n")
    launcher.stage = {"parameters": {"files": [], "errors": []}}
    assert agent.post("/copy_files") == (200, "OK\n")


def test_what_only_reads_is_asked_again_when_the_connection_ends(started, launcher):
    fake, agent = started
    launcher.breaks = {"GetStatus", "List"}
    assert agent.get("/readyz") == (200, "[+]web ok\nready\n")
    assert not launcher.breaks and len(fake.called("GetStatus")) == len(fake.called("List")) == 2


def test_a_copy_is_asked_for_again_when_the_connection_ends(started, launcher):
    """It may be done twice: what has been copied is not copied again."""
    fake, agent = started
    launcher.breaks = {"Stage"}
    assert agent.post("/copy_files") == (200, "OK\n")
    assert fake.called("Stage") == [{"what": "files"}] * 2
    launcher.stage = "close"
    assert agent.post("/copy_files")[0] == 503
    assert len(fake.called("Stage")) == 4, "twice, and no more"


def test_nothing_waits_behind_a_copy_nor_it_for_who_has_gone(started, launcher):
    fake, agent = started
    launcher.copies.clear()
    peers = [agent.connect() for _ in range(4)]
    for peer in peers:
        peer.sendall(b"POST /copy_files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    fake.wait_for(lambda: len(fake.called("Stage")) == 4, "all are asked for at once")
    assert agent.get("/readyz") == (200, "[+]web ok\nready\n")
    assert agent.post("/copy_files")[0] == 503, "too many already"
    for peer in peers[1:]:
        peer.close()
    eventually(lambda: json.loads(agent.get("/v1/status")[1])["agent"]["open_connections"] == 2, "they are not waited for")
    launcher.copies.set()
    assert read_answer(peers[0]) == (200, "OK\n")
    peers[0].close()


def test_it_ends_when_the_launcher_does(started, launcher):
    fake, agent = started
    assert agent.get("/readyz")[0] == 200
    fake.close()
    agent.wait_for_event("launcher-ended")
    assert agent.wait() == Exit(code=1)


def test_it_reports_to_kubernetes(launcher, area):
    """The sandbox lets it read the service account and connect; how that goes on is the reporter's own tests' matter."""
    account = area / "account"
    account.mkdir()
    (account / "token").write_text("secret")
    (account / "ca.crt").write_bytes(Authority(area / "pki").certificate.read_bytes())
    fake = FakeLauncher(lambda call: [{"parameters": {}, "continues": True}] if call.get("more") else launcher(call))
    with socket.create_server(("127.0.0.1", 0)) as api:
        api.settimeout(TIMEOUT)
        agent = Agent("--kubernetes", "on", "--pod-name", "web-0", "--pod-namespace", "shop", "--service-account-dir",
                      account, listen=False, serves=False, hand_over={"launcher": fake.broker.fileno()},
                      env={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.getsockname()[1])})
        try:
            peer, _ = api.accept()
            with peer:
                peer.settimeout(TIMEOUT)
                assert peer.recv(3)[:2] == b"\x16\x03"  # a handshake of TLS
            fake.wait_for(lambda: any(call["reporter"]["state"] == "failing" for call in fake.called("SetReporter")),
                          "the launcher is told that this is no API server")
        finally:
            agent.close()
            fake.close()


def test_what_it_keeps_of_its_rights(area, launcher):
    """As root and as an ordinary user: no capability, and a filter on all threads."""
    (area / "out").mkdir()
    (area / "out/a").write_text("a")
    fake = FakeLauncher(launcher, path=area / "control")
    (area / "control").chmod(0o666)
    for user in [None] + ([65534] if os.geteuid() == 0 else []):
        agent = Agent("--output-dir", area / "out", "--control-socket", area / "control", user=user)
        try:
            assert agent.get("/is_present/a") == (200, "OK\n")
            assert agent.get("/readyz")[0] == 200
            tasks = os.listdir(f"/proc/{agent.pid}/task")
            assert len(tasks) == 3
            for task in tasks:
                with open(f"/proc/{agent.pid}/task/{task}/status", encoding="ascii") as file:
                    status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
                assert status["NoNewPrivs"] == "1"
                assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
                if agent.log.all[0]["seccomp"] == "yes":
                    assert status["Seccomp"] == "2"
            if user is None and os.geteuid() == 0:  # nobody else may take from the bounding set
                assert agent.status()["CapBnd"] == "0" * 16
            # An orderly end works under the filter too.
            assert agent.stop().code == 0
        finally:
            agent.close()
    fake.close()


def test_private_memory_when_idle(area):
    """After work too, and with it given back: what a hundred connections needed stays with nobody."""
    (area / "out").mkdir()
    (area / "out/a").write_text("a")
    authority = Authority(area / "pki")
    server, client = authority.issue("server"), authority.issue("client")
    agent = Agent("--output-dir", area / "out", "--tls-certificate-file", server[0], "--tls-key-file", server[1],
                  "--tls-ca-file", authority.certificate)
    try:
        if agent.log.all[0]["seccomp"] != "yes":
            pytest.skip("a build with sanitizers")
        context = authority.client(client)
        idle = agent.private_memory()
        held = [context.wrap_socket(agent.connect()) for _ in range(100)]
        assert agent.get("/check_hash/a", context=context)[0] == 200
        busy = agent.private_memory()
        # 26 kB each: what OpenSSL keeps. The rest is pages of the program that had not been touched.
        assert busy - idle <= 100 * (40 << 10) + (4 << 20)
        for connection in held:
            connection.close()
        # Not a share of what was used: beside another agent the program's pages are nobody's alone.
        eventually(lambda: agent.private_memory() <= idle + (1 << 20), "memory is given back")
        assert agent.private_memory() <= 6 << 20
    finally:
        agent.close()

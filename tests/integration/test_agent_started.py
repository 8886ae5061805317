"""The agent as the launcher starts it: in every mode, with sockets that outlive it, and with nothing to fear from it."""

import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from harness.agent import AGENT, Authority
from harness.control import Varlink, reach
from harness.kubernetes_standin import PREFIX, StandIn
from harness.process import BINARY, TIMEOUT, Exit, eventually, free_port, is_static, run_plainly
from harness.programs import RESTART_AT_ONCE, probe, run, service

LISTEN = ("--listen", "127.0.0.1:0", "--agent-path", AGENT)
CONTENT = b"x" * 1000


def port_of(launcher):
    """Where the agent listens; it says so itself."""
    return int(launcher.wait_for_event("listening")["address"].rsplit(":", 1)[1])


def ask(port, path, method="GET", body=None):
    """Status and text of one answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def agent_of(area):
    """The agent's process as the launcher tells it."""
    connection = reach(area / "control")
    try:
        programs = connection.call("List", {"program": "triton-agent"})["parameters"]["programs"]
        return programs[0]["processes"][0]
    finally:
        connection.close()


def pid_of_agent(area):
    """Once it runs."""
    return eventually(lambda: agent_of(area).get("pid"), "the agent runs")


def sidecar(place, area, *options, mode="sidecar", **how):
    for name in ("in", "usr"):
        (area / name).mkdir(exist_ok=True)
    (area / "usr" / "fdbserver").write_bytes(CONTENT)
    (area / "usr" / "fdbserver").chmod(0o755)
    (area / "version").write_text("7.3.63\n")
    return place.start("--mode", mode, "--input-dir", area / "in", "--output-dir", area / "out", "--binary-dir",
                       area / "usr", "--version-file", area / "version", "--control-socket", area / "control",
                       "--copy-binary", "fdbserver", *LISTEN, *options, **how)


def test_the_agent_gets_its_own_variables_alone(place, area):
    """What a container's environment holds for its programs is not for the one that talks to networks."""
    configuration = place.configuration("trap", "say:up", "until:15")
    launcher = place.launch(configuration, *LISTEN, "--control-socket", area / "control", "--agent-option",
                            "substitute-variable=WANTED",
                            env={"DATABASE_PASSWORD": "secret", "WANTED": "1", "FDB_ZONE_ID": "z", "POD_NAME": "p",
                                 "TRITON_AGENT_IDLE_TIMEOUT": "50s", "LD_PRELOAD_OF_OURS": "x"})
    launcher.wait_up()
    port = port_of(launcher)
    pid = pid_of_agent(area)
    with open(launcher.namespace_root / "proc" / str(pid) / "environ", "rb") as file:
        names = {entry.split(b"=")[0].decode() for entry in file.read().split(b"\0") if entry}
    assert {"WANTED", "FDB_ZONE_ID", "POD_NAME", "TRITON_AGENT_IDLE_TIMEOUT"} <= names
    assert not names & {"DATABASE_PASSWORD", "LD_PRELOAD_OF_OURS", "PATH", "HOME"}, names
    assert json.loads(ask(port, "/substitutions")[1])["WANTED"] == "1"


def test_probes_have_a_socket_of_their_own(place, area):
    configuration = place.configuration("trap", "say:up", "until:15")
    launcher = place.launch(configuration, "--probe-listen", "127.0.0.1:0", "--agent-path", AGENT)
    launcher.wait_up()
    port = int(launcher.wait_for_event("probe-listening")["address"].rsplit(":", 1)[1])
    eventually(lambda: ask(port, "/readyz")[0] == 200, "ready")
    assert [ask(port, path)[0] for path in ("/healthz", "/ready", "/metrics", "/v1/status")] == [200, 200, 404, 404]


def test_the_design_form_with_an_agent(place, area):
    configuration = place.configuration("trap", "say:up", "until:15")
    launcher = place.launch(configuration, *LISTEN, "--control-socket", area / "control")
    launcher.wait_up()
    port = port_of(launcher)
    eventually(lambda: ask(port, "/readyz")[0] == 200, "ready")
    status = json.loads(ask(port, "/v1/status")[1])
    assert status["ready"] is True
    assert [program["name"] for program in status["programs"]] == ["", "triton-agent"]
    assert "fdbkubernetesmonitor_restart_count" in ask(port, "/metrics")[1]
    assert launcher.stop() == Exit(code=0)


def test_it_has_no_rights(place, area, needs_root):
    launcher = run(place, {"web": service("web")}, *LISTEN)
    port_of(launcher)
    fields = launcher.proc(agent_of(area)["pid"])
    status = dict(line.split(":\t", 1) for line in (fields / "status").read_text().splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["65534"] * 4
    assert status["Gid"].split() == ["65534"] * 4
    assert "0" not in status["Groups"].split()
    assert all(int(status[name], 16) == 0 for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"))
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2" or not is_static(AGENT)  # a sanitizer's runtime calls what it likes
    assert launcher.stop() == Exit(code=0)


def test_it_runs_from_where_its_user_may_not_look(place, area, needs_root):
    (area / "closed").mkdir(mode=0o700)
    shutil.copy(AGENT, area / "closed" / "agent")
    launcher = run(place, {"web": service("web")}, "--listen", "127.0.0.1:0", "--agent-path", area / "closed" / "agent")
    port = port_of(launcher)
    assert str(area / "closed" / "agent") in held_files(launcher)
    launcher.signal_inside(pid_of_agent(area), signal.SIGKILL)
    launcher.wait_for_event("process-exited", program="triton-agent")
    assert ask(port, "/healthz")[0] == 200
    assert (launcher.proc(pid_of_agent(area)) / "comm").read_text() == "triton-launch-a\n"
    assert launcher.stop() == Exit(code=0)


def test_it_is_not_held_open_where_its_user_may_look(place, area):
    shutil.copy(AGENT, area / "agent")
    launcher = run(place, {"web": service("web")}, "--listen", "127.0.0.1:0", "--agent-path", area / "agent")
    port_of(launcher)
    assert str(area / "agent") not in held_files(launcher), "another one of that name is to be started next"
    assert launcher.stop() == Exit(code=0)


def held_files(launcher):
    """What the launcher's descriptors lead to."""
    files = []
    for entry in os.scandir(f"/proc/{launcher.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it has been closed since
            files.append(os.readlink(entry))
    return files


def test_it_is_restarted_behind_the_same_socket(place, area):
    launcher = run(place, {"web": service("web")}, *LISTEN)
    port = port_of(launcher)
    for _ in range(2):
        before = agent_of(area)["pid"]
        launcher.signal_inside(before, signal.SIGKILL)
        launcher.wait_for_event("process-exited", program="triton-agent")
        assert ask(port, "/healthz")[0] == 200, "whoever connects meanwhile waits for the next one"
        assert agent_of(area)["pid"] != before
    eventually(lambda: ask(port, "/readyz")[0] == 200, "ready")
    assert launcher.stop() == Exit(code=0)


def test_certificates_that_are_moved_away_are_read_by_the_next_one(place, area):
    """The sandbox lets nobody look there who was started before."""
    authority = Authority(area / "ca")
    for directory in ("here/v1", "far/away"):
        (area / directory).mkdir(parents=True)
        pair = authority.issue(directory.replace("/", "-"), "/CN=agent")
        for name, file in zip(("tls.crt", "tls.key"), pair):
            shutil.copy(file, area / directory / name)
            (area / directory / name).chmod(0o644)  # for the agent's user
    (area / "here/current").symlink_to("v1")
    launcher = run(place, {"web": service("web")}, *LISTEN, "--tls-certificate-file", area / "here/current/tls.crt",
                   "--tls-key-file", area / "here/current/tls.key", "--tls-verify-peers", "none")
    if launcher.wait_for_event("sandbox")["landlock"] == "no":
        pytest.skip("this kernel has no Landlock")
    port = port_of(launcher)

    def serial():
        with authority.client().wrap_socket(socket.create_connection(("127.0.0.1", port), TIMEOUT)) as connection:
            return connection.getpeercert()["serialNumber"]
    old = serial()
    (area / "here/new").symlink_to(area / "far/away")
    (area / "here/new").rename(area / "here/current")
    launcher.wait_for_event("certificate-out-of-reach")
    assert launcher.wait_for_event("process-exited", program="triton-agent")["exit_code"] == 3
    assert serial() != old, "whoever connects meanwhile waits for the next one"
    assert launcher.stop() == Exit(code=0)


def test_it_keeps_nothing_alive(place, area):
    """A container ends with its programs, and with their exit code."""
    launcher = run(place, {"job": {"command": ["sh", "-c", "exit 7"], "oneShot": True}}, *LISTEN)
    assert launcher.wait() == Exit(code=7)


def test_it_gets_no_forwarded_signal(as_child, area):
    launcher = run(as_child, {"web": service("web")}, *LISTEN)
    launcher.wait_up(tag="web")
    port = port_of(launcher)
    pid = agent_of(area)["pid"]
    launcher.signal(signal.SIGUSR1)
    launcher.wait_signal(signal.SIGUSR1)
    assert agent_of(area)["pid"] == pid
    assert ask(port, "/healthz")[0] == 200
    assert launcher.stop() == Exit(code=0)


def test_not_ready_without_a_good_configuration(place, area):
    configuration = place.configuration()
    configuration.write_text("{")
    launcher = place.launch(configuration, *LISTEN, "--control-socket", area / "control")
    port = port_of(launcher)
    status, text = ask(port, "/readyz")
    assert status == 503, text
    configuration.write("trap", "say:up", "until:15")
    launcher.wait_up()
    eventually(lambda: ask(port, "/readyz")[0] == 200, "ready")
    assert launcher.stop() == Exit(code=0)


def test_it_needs_no_control_socket(place, area):
    configuration = place.configuration("trap", "say:up", "until:15")
    launcher = place.launch(configuration, *LISTEN, "--control-socket", "none")
    launcher.wait_up()
    port = port_of(launcher)
    eventually(lambda: ask(port, "/readyz")[0] == 200, "ready")
    assert launcher.stop() == Exit(code=0)


def test_an_upgrade_of_the_launcher_does_not_touch_it(place, area):
    launcher = run(place, {"web": service("web", "report")}, *LISTEN)
    inherited = launcher.wait_for_probe("report")["fds"]
    port = port_of(launcher)
    eventually(lambda: ask(port, "/readyz")[0] == 200, "ready")
    pid = agent_of(area)["pid"]
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    kept.request("GET", "/healthz")
    assert kept.getresponse().read()
    for _ in range(3):
        done = subprocess.run([BINARY, "ctl", "--socket", area / "control", "upgrade", BINARY], text=True,
                              capture_output=True, timeout=TIMEOUT, check=False)
        assert done.returncode == 0, done.stderr
        launcher.wait_for_event("upgrade-done")
        eventually(lambda: ask(port, "/readyz")[0] == 200, "ready")
        launcher.ctl("restart", "web")
        assert launcher.wait_for_probe("report")["fds"] == inherited, "of the agent's sockets nobody else has one"
    kept.request("GET", "/readyz")
    assert kept.getresponse().status == 200
    assert agent_of(area)["pid"] == pid
    kept.close()
    assert launcher.stop() == Exit(code=0)


def test_what_can_never_report_still_serves(place, area):
    """What is not a host in place of the API server's is told by ctl; the agent serves all the same."""
    launcher = run(place, {"web": service("web")}, *LISTEN, "--kubernetes", "on",
                   env={"KUBERNETES_SERVICE_HOST": "api_example", "KUBERNETES_SERVICE_PORT": "443", "FDB_POD_NAME": "p",
                        "FDB_POD_NAMESPACE": "n"})
    port = port_of(launcher)
    assert "api_example" in launcher.wait_for_event("kubernetes-off")["message"]
    eventually(lambda: ask(port, "/readyz")[0] == 200, "ready")
    connection = Varlink(area / "control")
    reporter = eventually(lambda: connection.call("GetStatus")["parameters"]["launcher"].get("reporter"), "it is told")
    assert reporter["state"] == "failing" and "api_example" in reporter["detail"]
    connection.close()
    assert launcher.stop() == Exit(code=0)


def test_the_event_of_what_ends_the_container_arrives(place, area, tmp_path):
    """The agent is stopped last, and stays for it."""
    authority = Authority(tmp_path / "ca")
    api = StandIn(authority.issue("api", alternatives="IP:127.0.0.1"))
    account = area / "account"
    account.mkdir()
    (account / "token").write_text("secret")
    (account / "ca.crt").write_bytes(authority.certificate.read_bytes())
    os.mkfifo(area / "go")  # the first run waits until we read it
    (area / "go").chmod(0o666)
    job = probe(f"append:{area / 'go'}", "exit:5", backoff=RESTART_AT_ONCE,
                startLimit={"count": 3, "interval": "60s", "action": "exit", "exitCode": 77})
    go = None
    try:
        launcher = run(place, {"job": job}, "--agent-path", AGENT, "--kubernetes", "on", env={
            "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.port), "FDB_POD_NAME": "pod",
            "FDB_POD_NAMESPACE": "ns", "TRITON_AGENT_SERVICE_ACCOUNT_DIR": str(account)})
        api.wait_request("create events")
        go = os.open(area / "go", os.O_RDONLY | os.O_NONBLOCK)
        assert launcher.wait() == Exit(code=77)
        assert "StartLimitHit" in [event["reason"] for event in api.events.values()]
    finally:
        if go is not None:
            os.close(go)
        api.close()


@pytest.fixture
def cluster(area, tmp_path):
    """An API server, and the environment of a pod that finds it."""
    authority = Authority(tmp_path / "ca")
    api = StandIn(authority.issue("api", alternatives="IP:127.0.0.1"))
    account = area / "account"
    account.mkdir()
    (account / "token").write_text("secret")
    (account / "ca.crt").write_bytes(authority.certificate.read_bytes())
    api.environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.port),
                       "FDB_POD_NAME": "pod", "FDB_POD_NAMESPACE": "ns",
                       "TRITON_AGENT_SERVICE_ACCOUNT_DIR": str(account)}
    yield api
    api.close()


def test_a_pod_that_is_isolated_before_its_start_runs_nothing(place, cluster):
    cluster.pod = cluster.new_pod("uid-1", **{PREFIX + "isolate-process-group": "true"})
    launcher = run(place, {"web": service("web")}, "--agent-path", AGENT, "--kubernetes", "on", "--wait-for-pod", "1m",
                   env=cluster.environment)
    launcher.wait_for_event("waiting-for-pod")
    launcher.wait_for_event("isolated")
    launcher.wait_for_event("configuration-loaded")
    assert not launcher.events_named("process-started", program="web")
    cluster.change({PREFIX + "isolate-process-group": "false"})
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_the_wait_for_the_pod_has_an_end(place, cluster):
    cluster.faults["accept"] = cluster.hang
    launcher = run(place, {"web": service("web")}, "--agent-path", AGENT, "--kubernetes", "on", "--wait-for-pod",
                   "100ms", env=cluster.environment)
    assert launcher.wait_for_event("pod-unknown")["message"] == (
        "the annotations of the pod did not come within 100ms; starting without them")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_files_of_launch_mode(place, area):
    (area / "shared").mkdir()
    (area / "shared" / "a").write_bytes(b"hello")
    configuration = place.configuration("trap", "say:up", "until:15")
    launcher = place.launch(configuration, *LISTEN, "--control-socket", area / "control", "--output-dir",
                            area / "shared")
    port = port_of(launcher)
    assert ask(port, "/check_hash/a") == (200, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
    assert ask(port, "/check_hash/../version")[0] == 403
    assert launcher.stop() == Exit(code=0)


# --- modes sidecar and init


def test_sidecar_with_a_listener(place, area):
    launcher = sidecar(place, area)
    port = port_of(launcher)
    eventually(lambda: ask(port, "/readyz")[0] == 200, "staged, hence ready")
    assert ask(port, "/is_present/bin/7.3.63/fdbserver") == (200, "OK\n")
    assert ask(port, "/check_hash/bin/7.3.63/fdbserver") == (200, hashlib.sha256(CONTENT).hexdigest())
    assert json.loads(ask(port, "/substitutions")[1])["BINARY_DIR"] == "/var/dynamic-conf/bin/7.3.63"
    assert launcher.stop() == Exit(code=0)
    assert (area / "out" / "bin" / "7.3.63" / "fdbserver").read_bytes() == CONTENT


def test_substitutions_have_the_directory_that_binaries_get(place, area):
    launcher = sidecar(place, area, "--binary-output-dir", "x/y")
    port = port_of(launcher)
    assert json.loads(ask(port, "/substitutions")[1])["BINARY_DIR"] == "/var/dynamic-conf/x/y"
    assert launcher.stop() == Exit(code=0)


def test_sidecar_copies_on_request(place, area):
    (area / "in").mkdir()
    (area / "in" / "fdb.cluster").write_text("one")
    launcher = sidecar(place, area, "--copy-file", "fdb.cluster")
    port = port_of(launcher)
    eventually(lambda: ask(port, "/readyz")[0] == 200, "staged")
    (area / "in" / "fdb.cluster").write_text("two")
    (area / "usr" / "fdbserver").write_bytes(b"other")
    assert ask(port, "/copy_files", "POST") == (200, "OK\n")
    assert (area / "out" / "fdb.cluster").read_text() == "two"
    assert (area / "out" / "bin" / "7.3.63" / "fdbserver").read_bytes() == CONTENT, "only files were asked for"
    assert ask(port, "/copy_binaries", "POST") == (200, "OK\n")
    assert (area / "out" / "bin" / "7.3.63" / "fdbserver").read_bytes() == b"other"
    (area / "in" / "fdb.cluster").unlink()
    status, text = ask(port, "/copy_files", "POST")
    assert status == 500 and "fdb.cluster" in text
    assert (area / "out" / "fdb.cluster").read_text() == "two"
    assert launcher.stop() == Exit(code=0)


def test_a_200_means_done_with_equal_versions_too(place, area):
    """The operator asks for hashes and copies until the hashes are right; only binaries are the main container's own."""
    (area / "in").mkdir()
    (area / "in" / "fdb.cluster").write_text("one")
    (area / "in" / "monitor.conf").write_text("[fdbserver]\ncommand = $BINARY_DIR/fdbserver\n")
    launcher = sidecar(place, area, "--copy-file", "fdb.cluster", "--input-monitor-conf", "monitor.conf",
                       "--main-container-version", "7.3.63")
    port = port_of(launcher)
    eventually(lambda: ask(port, "/readyz")[0] == 200, "staged, hence ready")
    assert (area / "out" / "fdb.cluster").read_text() == "one"
    (area / "in" / "fdb.cluster").write_text("two")
    assert ask(port, "/check_hash/fdb.cluster")[1] != hashlib.sha256(b"two").hexdigest()
    for what in ("copy_files", "copy_monitor_conf", "copy_binaries", "copy_libraries"):
        assert ask(port, f"/{what}", "POST") == (200, "OK\n"), what
    assert ask(port, "/check_hash/fdb.cluster") == (200, hashlib.sha256(b"two").hexdigest())
    assert (area / "out" / "fdbmonitor.conf").read_text() == f"[fdbserver]\ncommand = {area}/usr/fdbserver\n"
    assert ask(port, "/is_present/bin/7.3.63/fdbserver")[0] == 404, "it is the main container's own"
    assert launcher.stop() == Exit(code=0)


def test_every_round_has_its_summary(place, area):
    """One that is asked for prints it as the others do, on the standard output of the launcher."""
    (area / "in").mkdir()
    (area / "in" / "f").write_text("one")
    output = area / "output"
    with open(output, "ab") as out:
        launcher = sidecar(place, area, "--copy-file", "f", "--format", "json", stdout=out.fileno())
    port = int(eventually(lambda: re.search(r'"listening".*"address":"[^"]*:(\d+)"',
                                            output.read_text() + launcher.errors()), "the agent listens")[1])
    eventually(lambda: ask(port, "/readyz")[0] == 200, "staged")
    assert ask(port, "/copy_files", "POST") == (200, "OK\n")
    (area / "in" / "f").unlink()
    assert ask(port, "/copy_files", "POST")[0] == 500
    assert launcher.stop() == Exit(code=0)
    printed = map(json.loads, output.read_text().splitlines())
    first, second, third = (record for record in printed if "files" in record)
    assert [file["result"] for file in first["files"]] == ["copied", "copied"]
    assert [(file["path"], file["result"]) for file in second["files"]] == [(str(area / "out" / "f"), "reused")]
    assert third == {"files": [], "errors": [f"cannot open {area}/in/f: No such file or directory"]}


def test_sidecar_copies_again_on_hangup(place, area):
    (area / "in").mkdir()
    (area / "in" / "f").write_text("one")
    launcher = sidecar(place, area, "--copy-file", "f")
    port = port_of(launcher)
    eventually(lambda: ask(port, "/readyz")[0] == 200, "staged")
    (area / "in" / "f").write_text("two")
    launcher.signal(signal.SIGHUP)
    eventually(lambda: (area / "out" / "f").read_text() == "two", "copied again")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("mode", ["init", "sidecar"])
def test_what_cannot_be_staged_ends_it(place, area, mode):
    launcher = sidecar(place, area, "--copy-file", "missing", mode=mode)
    assert launcher.wait() == Exit(code=1)
    assert not list((area / "out").rglob("*"))


def test_init_with_a_listener_ends(place, area):
    launcher = sidecar(place, area, mode="init")
    assert launcher.wait() == Exit(code=0)
    assert (area / "out" / "7.3" / "fdbserver").read_bytes() == CONTENT


def test_init_that_is_stopped_has_failed(place, area):
    """Whoever waits for it must not take a part for the whole."""
    (area / "in").mkdir()
    with open(area / "in" / "large", "wb") as large:
        for piece in range(20_000):  # with a hole behind each, so that there is much to do and little to write
            large.seek(piece << 20)
            large.write(b"x")
    launcher = sidecar(place, area, "--copy-file", "large", mode="init")
    launcher.wait_for_event("process-started", program="stage")
    assert launcher.stop() == Exit(code=128 + signal.SIGTERM)


def test_what_needs_a_listener_says_so(area):
    done = run_plainly("--mode", "sidecar", "--output-dir", area, "--control-socket", area / "control")
    assert (done.returncode, done.stderr) == (2, "triton-launch: --control-socket: needs --listen\n")


def test_a_sidecar_can_be_upgraded(place, area):
    launcher = sidecar(place, area)
    port = port_of(launcher)
    eventually(lambda: ask(port, "/readyz")[0] == 200, "staged")
    done = subprocess.run([BINARY, "ctl", "--socket", area / "control", "upgrade", BINARY], text=True,
                          capture_output=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    launcher.wait_for_event("upgrade-done")
    eventually(lambda: ask(port, "/readyz")[0] == 200, "ready")
    assert launcher.stop() == Exit(code=0)


# --- probes over the network


def serving(port, area):
    """A program that accepts connections on a port of loopback from the moment that a file is there."""
    wait = f"while [ ! -e {area}/serve ]; do read -t 0.01 x <>{area}/fifo; done"
    return ["bash", "-c", f"{wait}; exec python3 -m http.server --bind 127.0.0.1 {port} --directory {area}"]


@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_readiness_over_the_network(place, area, kind):
    """The launcher starts the agent by itself when a configuration needs it."""
    os.mkfifo(area / "fifo")
    port = free_port()
    target = {"address": f"127.0.0.1:{port}"} if kind == "tcp" else {"url": f"http://127.0.0.1:{port}/fifo-not-there"}
    if kind == "http":
        target["url"] = f"http://127.0.0.1:{port}/page"
        (area / "page").write_text("fine")
    launcher = run(place, {
        "db": {"command": serving(port, area), "readiness": {"type": kind, "interval": "20ms", **target}},
        "web": service("web", requires=["db"]),
    }, "--agent-path", AGENT)
    launcher.wait_for_event("process-started", program="db")
    launcher.wait_for_event("process-started", program="triton-agent")
    launcher.quiet_for(0.1, launcher.probe)
    assert not launcher.events_named("process-ready")
    (area / "serve").touch()
    launcher.wait_for_event("process-ready", program="db")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_health_over_the_network_survives_the_agent(place, area):
    os.mkfifo(area / "fifo")
    (area / "serve").touch()
    (area / "page").write_text("fine")
    port = free_port()
    launcher = run(place, {
        "db": {"command": serving(port, area), "readiness": {"type": "tcp", "address": f"127.0.0.1:{port}"},
               "health": {"type": "http", "url": f"http://127.0.0.1:{port}/page", "interval": "20ms", "retries": 2,
                          "timeout": "10s"}},
    }, "--agent-path", AGENT)
    launcher.wait_for_event("process-ready", program="db")
    for _ in range(3):
        launcher.signal_inside(pid_of_agent(area), signal.SIGKILL)
        launcher.wait_for_event("process-exited", program="triton-agent")
    launcher.wait_for_event("process-started", program="triton-agent")
    assert not launcher.events_named("process-unhealthy")
    (area / "page").unlink()  # 404
    launcher.wait_for_event("process-unhealthy", program="db")
    assert launcher.stop() == Exit(code=0)


# --- what is wrong


@pytest.mark.parametrize("options, code, text", [
    (("--listen", "nowhere:80"), 2, '--listen: "nowhere:80" is not an address; known: IPV4:PORT, [IPV6]:PORT, :PORT'),
    (("--listen", "127.0.0.1:0", "--agent-path", "/nonexistent/agent"), 1, "--agent-path: "),
    (("--listen", "127.0.0.1:0", "--agent-path", str(AGENT), "--agent-user", "no-such-user"), 1, "--agent-user: "),
    (("--kubernetes", "maybe"), 2, '--kubernetes: unknown value "maybe" (known: auto on off)'),
])
def test_refused_at_the_start(area, options, code, text):
    (area / "config.json").write_text(json.dumps({"programs": {"web": {"command": ["/bin/true"]}}}))
    done = run_plainly("--input-dir", area, "--control-socket", "none", *options)
    assert done.returncode == code
    assert text in done.stderr, done.stderr


def test_a_taken_address_is_refused_at_the_start(area):
    (area / "config.json").write_text(json.dumps({"programs": {"web": {"command": ["/bin/true"]}}}))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run_plainly("--input-dir", area, "--control-socket", "none", "--agent-path", AGENT, "--listen", address)
    assert done.returncode == 1
    assert f"--listen: cannot listen on tcp:{address}: Address already in use" in done.stderr


def test_no_program_can_have_its_name(place):
    configuration = place.configuration()
    configuration.write_text(json.dumps({"programs": {"triton-agent": {"command": ["/bin/true"]}}}))
    launcher = place.launch(configuration)
    assert "triton-agent" in launcher.wait_for_event("configuration-rejected")["errors"][0]

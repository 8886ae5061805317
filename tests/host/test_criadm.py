"""criadm: the operator's command, on real pods of tritoncrid in namespaces of the test's own."""

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cri_place import PATIENCE
from image_place import BUILD, area, needs_root  # noqa: F401 (fixtures)
from pod_place import PodHost, busybox, children_of, command_of, family_of, pods  # noqa: F401 (fixture)

pytestmark = needs_root
CRIADM = BUILD / "criadm"


@pytest.fixture
def image(pods):
    return pods.install("busybox", busybox())


class Operator:
    def __init__(self, pods):
        self.pods = pods
        self.words = pods.lab.words(CRIADM, "--socket", pods.socket)

    def run(self, *words, code=0):
        result = subprocess.run([*self.words, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE)
        assert result.returncode == code, result
        return result

    def says(self, *words, code=0):
        return self.run(*words, code=code).stdout

    def json(self, *words, code=0):
        return json.loads(self.says(*words, code=code))

    def begin(self, *words):
        return subprocess.Popen([*self.words, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def operator(pods):
    if not CRIADM.exists():
        pytest.skip(f"{CRIADM} is not built")
    return Operator(pods)


def test_lists_pods_and_containers(pods, image, operator):
    assert operator.says("list").split() == ["ID", "OBJECT", "ATTEMPT", "STATE", "AGE", "CONTAINERS", "ADDRESSES"]
    assert operator.json("list", "-j") == []
    pod = pods.run_pod(pods.pod_config("web", attempt=2))
    container = pods.run_container(pod, image, "sleep", "1000", name="nginx")
    ended = pods.run_container(pod, image, "sh", "-c", "exit 3", name="job")
    pods.wait_for_end(ended)
    row = operator.says("list", "-H").split()
    assert row[:4] == [pod[:13], "default/web", "2", "ready"] and row[5:] == ["2", "-"]
    rows = [line.split() for line in operator.says("list", "-c", "-H", "-o", "object,state,exit,reason,full-id").splitlines()]
    assert rows == [["default/web/job", "exited", "3", "Error", ended], ["default/web/nginx", "running", "-", "-", container]]
    (shown,) = operator.json("list", "--json")
    assert (shown["id"], shown["state"], shown["knownToKubelet"], shown["uid"]) == (pod, "ready", True, "uid-web")
    assert [one["name"] for one in shown["containers"]] == ["job", "nginx"]
    assert operator.json("show", "default/web") == shown
    one = operator.json("show", "default/web/job")
    assert (one["exitCode"], one["reason"], one["pod"]) == (3, "Error", pod)
    assert one["startedAt"] <= one["finishedAt"] and Path(one["logPath"]).exists()
    assert operator.json("show", "default/web/nginx")["pid"] > 1
    assert "there is no column colour" in operator.run("list", "-o", "colour", code=2).stderr


def test_names_of_objects(pods, image, operator):
    first = pods.run_pod(pods.pod_config("web", attempt=0))
    second = pods.run_pod(pods.pod_config("web", attempt=1))
    assert operator.json("show", "default/web")["id"] == second
    assert operator.json("show", first[:20])["id"] == first
    assert operator.json("show", first)["id"] == first
    assert operator.run("show", "default/nothing", code=1).stderr == "criadm: there is no pod and no container default/nothing\n"
    assert "too few arguments for show" in operator.run("show", code=2).stderr
    assert "an OBJECT is not empty" in operator.run("show", "", code=2).stderr
    pods.remove_pod(first)
    assert operator.run("-E", "why", first, code=1).stderr.startswith('{"error":{"code":"notFound"')


def test_says_why(pods, image, operator):
    pod = pods.run_pod(pods.pod_config("web"))
    container = pods.run_container(pod, image, "sh", "-c", "exit 3", name="job")
    pods.wait_for_end(container)
    assert operator.says("why", "default/web").splitlines() == [
        f"default/web  {pod}  ready", "  It is ready: its monitor runs, and it uses the network of the node.",
        "  job: It has exited with 3."]
    assert operator.says("why", container) == f"default/web/job  {container}  exited\n  It has exited with 3.\n"
    (monitor,) = pods.monitors_of(pod)
    os.kill(monitor, signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while "not-ready" not in (text := operator.says("why", pod)):
        assert time.monotonic() < until, text
    assert "  It is not ready: its monitor (triton-pod) has ended" in text
    findings = operator.json("check", "-j", code=1)
    assert [(one["kind"], one["id"]) for one in findings] == [("monitor", pod)]


def test_says_what_hangs_and_tries_again(pods, image, operator):
    """A plugin that hangs is visible while it does, also of a pod that kubelet does not see; one that fails is called again at once."""
    gate = pods.area / "gate"
    os.mkfifo(gate)
    mark = pods.area / "fails"
    mark.touch()
    pods.plugin("odd", f"""case $CNI_COMMAND in
ADD) cat {gate} >/dev/null; echo '{{"cniVersion":"1.0.0","ips":[{{"address":"10.99.0.5/24"}}]}}';;
DEL) [ ! -e {mark} ] || {{ echo '{{"code":7,"msg":"the switch is off"}}'; exit 1; }};;
esac""")
    pods.configure_network({"cniVersion": "1.0.0", "name": "odd", "plugins": [{"type": "odd"}]})
    config = pods.pod_config("web", network=0)
    waiting = pods.begin("RunPodSandbox", pods.messages.RunPodSandboxRequest(config=config))
    until = time.monotonic() + PATIENCE
    text = ""
    while "the plugins make its network" not in text:
        assert time.monotonic() < until, text
        text = operator.says("why", "default/web") if operator.says("list", "-H") else ""
    assert "1 call of RunPodSandbox waits for that." in text and "That has taken " in text
    assert not pods.call("ListPodSandbox").items  # kubelet does not see it
    assert operator.json("show", "default/web")["knownToKubelet"] is False
    with gate.open("w"):
        pass
    pod = waiting.result().pod_sandbox_id
    assert operator.json("show", "default/web")["addresses"] == ["10.99.0.5"]
    assert "the switch is off" in operator.run("stop", "default/web", code=1).stderr
    text = operator.says("why", pod)
    assert "The last attempt has failed: " in text and "the switch is off" in text
    (finding,) = operator.json("check", "--json", code=1)
    assert (finding["kind"], finding["id"], finding["repaired"]) == ("retry", pod, False)
    mark.unlink()
    assert "(tried again)" in operator.says("recover")
    while operator.json("show", pod)["state"] != "stopped":
        assert time.monotonic() < until
    assert operator.json("check", "-j") == []
    operator.says("remove", pod)
    assert operator.says("list", "-H") == ""


def test_stops_and_removes(pods, image, operator):
    pod = pods.run_pod(pods.pod_config("web"))
    polite = pods.run_container(pod, image, "sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done", name="polite")
    deaf = pods.run_container(pod, image, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done", name="deaf")
    other = pods.run_container(pod, image, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done", name="other")
    for one in (polite, deaf, other):
        pods.wait_for_log(one, "up")
    operator.says("stop", "--grace", "60", "default/web/polite")
    assert pods.container_status(polite).exit_code == 7
    began = time.monotonic()
    operator.says("stop", "default/web", "--grace", "2")
    assert 1.9 < time.monotonic() - began < 60
    assert {pods.container_status(one).exit_code for one in (deaf, other)
} == {137}
    assert operator.json("show", pod)["state"] == "stopped"
    operator.says("remove", polite)
    assert operator.run("show", polite, code=1).stderr
    operator.says("remove", "default/web")
    assert operator.says("list", "-H") == ""
    pods.check_nothing_is_left()


def test_prints_logs(pods, image, operator):
    pod = pods.run_pod(pods.pod_config("web"))
    script = "echo one; echo two >&2; printf 'no end'; head -c 40000 /dev/zero | tr '\\0' x; echo; printf '\\033[2Jlast'"
    container = pods.run_container(pod, image, "sh", "-c", script, name="job")
    pods.wait_for_end(container)
    result = operator.run("logs", "default/web")
    assert (result.stdout, result.stderr) == ("one\nno end" + 40000 * "x" + "\n\033[2Jlast\n", "two\n")
    assert operator.says("logs", "-n", "1", container) == "\033[2Jlast\n"
    assert operator.says("logs", "--tail", "0", container) == ""
    line, _ = operator.says("logs", "-t", "--tail", "1", container).split(" ", 1)
    assert line.endswith("Z") and line.startswith("20")
    second = pods.run_container(pod, image, "true", name="second")
    pods.wait_for_end(second)
    assert "a pod with one container" in operator.run("logs", "default/web", code=2).stderr
    assert operator.says("logs", "default/web/second") == ""
    Path(pods.container_status(second).log_path).unlink()
    assert "No such file or directory" in operator.run("logs", second, code=1).stderr


def test_a_terminal_is_not_taken_over(pods, image, operator):
    pod = pods.run_pod(pods.pod_config("web"))
    container = pods.run_container(pod, image, "printf", "\\033[2Jclear\\n")
    pods.wait_for_end(container)
    for words, expected in ((["logs"], b"\\x1b[2Jclear"), (["logs", "--raw"], b"\x1b[2Jclear")):
        ours, theirs = os.openpty()
        with os.fdopen(theirs, "wb") as terminal:
            subprocess.run([*operator.words, *words, container], stdout=terminal, timeout=PATIENCE, check=True)
        assert expected in os.read(ours, 65536)
        os.close(ours)


def test_follows_logs_through_rotations(pods, image, operator):
    pod = pods.run_pod(pods.pod_config("web"))
    script = "echo ready; read go; i=0; while [ ! -e /tmp/end ]; do echo line $i; i=$((i+1)); [ $((i % 10)) != 0 ] || usleep 3000; done"
    writer = pods.run_container(pod, image, "sh", "-c", script, name="writer", stdin=True, tty=False)
    path = Path(pods.container_status(writer).log_path)
    following = operator.begin("logs", "-f", "default/web/writer")
    assert following.stdout.readline() == "ready\n"
    (pid,) = [pid for pid in family_of(pods.lab.init) if command_of(pid)[:2] == ["sh", "-c"] and "echo ready" in command_of(pid)[2]]
    seen = ""
    for number in range(5):
        path.rename(f"{path}.{number}")
        pods.call("ReopenContainerLog", request=pods.messages.ReopenContainerLogRequest(container_id=writer))
        if number == 0:
            Path(f"/proc/{pid}/fd/0").write_text("go\n")
        until = time.monotonic() + PATIENCE
        while not path.stat().st_size:
            assert time.monotonic() < until
        first = path.read_text().split("\n")[0].split(" ", 3)[3]
        while first not in seen.splitlines():  # it has come to this file
            seen += following.stdout.readline()
    pods.call("ExecSync", request=pods.messages.ExecSyncRequest(container_id=writer, cmd=["touch", "/tmp/end"]))
    lines = (seen + following.stdout.read()).splitlines()
    assert following.wait(PATIENCE) == 0
    assert lines == [f"line {i}" for i in range(len(lines))] and lines[-1] == pods.text_of(writer).splitlines()[-1]


def test_prints_events(pods, image, operator):
    following = operator.begin("events", "-j")
    pod = None
    lines = []
    until = time.monotonic() + PATIENCE
    while not lines:  # it listens when it prints
        assert time.monotonic() < until
        pod = pods.run_pod(pods.pod_config("web", attempt=int(time.monotonic() * 1000) % 1000000))
        readable, _, _ = select.select([following.stdout], [], [], 0.5)
        if readable:
            lines.append(json.loads(following.stdout.readline()))
        else:
            pods.remove_pod(pod)
    while lines[0]["id"] != pod:  # it began to listen a while ago, for one before
        lines[0] = json.loads(following.stdout.readline())
    assert lines[0]["isPod"] and (lines[0]["event"], lines[0]["id"], lines[0]["object"]) == ("started", pod, "default/web")
    container = pods.run_container(pod, image, "sh", "-c", "exit 4", name="job")
    pods.wait_for_end(container)
    pods.remove_container(container)
    events = [json.loads(following.stdout.readline()) for _ in range(4)]
    assert [one["event"] for one in events] == ["created", "started", "stopped", "deleted"]
    assert {one["id"] for one in events} == {container} and events[2]["exitCode"] == 4
    assert events[1]["object"] == "default/web/job"
    pods.end()
    assert following.wait(PATIENCE) == 3
    assert following.stderr.read() == "criadm: tritoncrid has ended\n"
    pods.start()
    assert operator.says("events", "--timeout", "0.1") == ""


class Strays:
    """What nobody knows: files, a layer, a pinned namespace, and a group with a process. `foreign` only looks like it."""

    def __init__(self, pods):
        self.pods = pods
        self.root = Path(f"/proc/{pods.lab.init}/root{pods.host.root}")
        self.ids = [digit * 64 for digit in "abcdef"]
        self.paths = [f"run/triton/cri/pods/{self.ids[0]}", f"var/lib/triton/cri/pods/{self.ids[1]}.d",
                      f"var/lib/triton/cri/containers/{self.ids[2]}", f"run/triton/cri/runtime/{self.ids[3]}", f"run/netns/triton-{self.ids[4]}"]
        inside = pods.host.root  # as the lab has it
        # What is under way, and what is nobody's by its form, is left alone.
        self.foreign = ["run/netns/cni-1", f"var/lib/triton/cri/pods/.{self.ids[1]}.0123456789abcdef.tmp"]
        pods.lab.run("mkdir", "-p", inside / "run/netns")
        for one in [*self.foreign, self.paths[4]]:
            pods.lab.run("touch", inside / one)
        self.groups = [group / self.ids[5] for group in pods.groups()]
        self.sleeper = subprocess.Popen(pods.lab.words("sh", "-c", "echo; exec sleep 1000"), stdout=subprocess.PIPE)
        assert self.sleeper.stdout.readline() == b"\n"
        for group in self.groups:
            group.mkdir()
        (self.groups[0] / "cgroup.procs").write_text(str(children_of(self.sleeper.pid)[0]))
        pods.lab.run("mount", "--bind", "/proc/self/ns/net", inside / self.paths[4])
        for one in self.paths[:4]:
            pods.lab.run("mkdir", "-p", inside / one / "c")

    def check_only_they_are_gone(self):
        assert self.sleeper.wait(PATIENCE) in (-signal.SIGKILL, 128 + signal.SIGKILL)  # as nsenter passes it on
        assert not any((self.root / one).exists() for one in self.paths) and not any(group.exists() for group in self.groups)
        for one in self.foreign:
            assert (self.root / one).exists()
            self.pods.lab.run("rm", self.pods.host.root / one)

    def close(self):
        self.sleeper.kill()
        self.sleeper.wait()


def test_finds_and_removes_what_is_left_over(pods, image, operator):
    pod = pods.run_pod(pods.pod_config("web"))
    container = pods.run_container(pod, image, "sleep", "1000")
    assert operator.json("check", "-j") == []
    strays = Strays(pods)
    try:
        found = operator.json("check", "-j", code=1)
        assert {one["id"] for one in found} == set(strays.ids) and {one["kind"] for one in found} == {"stray"}
        assert operator.json("check", "-j", code=1) == found
        assert operator.run("check", code=1).stderr == "criadm: 6 things are left over, or failing; `criadm recover` repairs what can be\n"
        repaired = operator.json("recover", "-j")
        assert all(one["repaired"] for one in repaired) and {one["id"] for one in repaired} == set(strays.ids)
        assert operator.says("check") == ""
        strays.check_only_they_are_gone()
    finally:
        strays.close()
    assert pods.state(container) == "CONTAINER_RUNNING"  # nothing of what lives was touched


def test_what_is_left_over_is_searched_for_now_and_then(area):
    pods = PodHost(area, {"stray_interval": "300ms"})
    try:
        pod = pods.run_pod(pods.pod_config("web"))
        container = pods.run_container(pod, pods.install("busybox", busybox()), "sleep", "1000")
        # It must not find a half of them. nsenter stops with it, and lets it go on.
        os.kill(pods.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pods.process.pid, os.WSTOPPED)
        strays = Strays(pods)
        try:
            os.kill(pods.process.pid, signal.SIGCONT)
            until = time.monotonic() + PATIENCE
            while any((strays.root / one).exists() for one in strays.paths) or any(group.exists() for group in strays.groups):
                assert time.monotonic() < until, pods.log.read_text()[-3000:]
                time.sleep(0.05)
            strays.check_only_they_are_gone()
        finally:
            strays.close()
        log = pods.log.read_text()
        for what, one in zip(("files of a pod", "record of a pod", "layer of a container", "state of the runtime for a container",
                              "network namespace of a pod", "control group of a container"), strays.ids):
            assert f"removed: {what} {one}, which does not exist" in log
        assert pods.state(container) == "CONTAINER_RUNNING"
        pods.remove_everything()
        pods.check_nothing_is_left()
    finally:
        pods.close()


def test_nothing_is_taken_for_a_stray_while_pods_come_and_go(pods, image, operator):
    """The enemy of a check: everything is under way."""
    starts = [operator.begin("recover", "-j")]
    waiting = []
    for number in range(12):
        waiting.append(pods.begin("RunPodSandbox", pods.messages.RunPodSandboxRequest(config=pods.pod_config(f"pod{number}"))))
        starts.append(operator.begin("recover", "-j"))
    running = [pods.run_container(one.result().pod_sandbox_id, image, "sleep", "1000") for one in waiting]
    for one in waiting[::2]:
        pods.remove_pod(one.result().pod_sandbox_id)
        starts.append(operator.begin("recover", "-j"))
    for one in starts:
        output, errors = one.communicate(timeout=PATIENCE)
        assert (one.returncode, json.loads(output), errors) == (0, [], "")
    assert {pods.state(one) for one in running[1::2]} == {"CONTAINER_RUNNING"}


def test_without_the_daemon_it_says_what_helps(pods, operator):
    pods.end()
    result = operator.run("list", code=3)
    assert result.stderr.startswith(f"criadm: cannot connect to {pods.socket}: ")
    assert "systemctl start tritoncrid.socket" in result.stderr
    pods.start()
    assert operator.says("status").startswith("tritoncrid ")
    conditions = operator.json("status", "-j")["conditions"]
    assert {one["type"] for one in conditions} == {"RuntimeReady", "NetworkReady"}
    network = next(one for one in conditions if one["type"] == "NetworkReady")
    assert not network["status"] and network["reason"] == "NetworkNotConfigured"


def test_verbose_status_has_the_reasons_for_crictl(pods, image):
    pod = pods.run_pod()
    container = pods.run_container(pod, image, "sleep", "1000")
    messages = pods.messages
    answer = pods.call("PodSandboxStatus", request=messages.PodSandboxStatusRequest(pod_sandbox_id=pod, verbose=True))
    info = json.loads(answer.info["info"])
    (monitor,) = pods.monitors_of(pod)
    assert info["why"] == ["It is ready: its monitor runs, and it uses the network of the node."]
    assert command_of(monitor) and info["pid"] > 0
    answer = pods.call("ContainerStatus", request=messages.ContainerStatusRequest(container_id=container, verbose=True))
    info = json.loads(answer.info["info"])
    assert (info["sandboxID"], info["why"]) == (pod, ["It runs."]) and info["pid"] > 0
    assert not pods.call("ContainerStatus", request=messages.ContainerStatusRequest(container_id=container)).info

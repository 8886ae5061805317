"""Commands in containers, what containers use, and what is told of them."""

import os
import signal
import threading
import time
from pathlib import Path

import grpc
import pytest
from cri_place import PATIENCE, code_of
from image_place import area, needs_root  # noqa: F401 (fixtures)
from pod_place import PodHost, busybox, command_of, family_of, pods  # noqa: F401 (fixture)

pytestmark = needs_root


@pytest.fixture
def image(pods):
    return pods.install("busybox", busybox())


@pytest.fixture
def sleeper(pods, image):
    return pods.run_container(pods.run_pod(), image, "sleep", "1000", security={"run_as_user": pods.messages.Int64Value(value=1000), "no_new_privs": True},
                              envs=[pods.messages.KeyValue(key="A", value=b"1")], working_dir="/tmp")


def begin(pods, container, *command, timeout=0):
    return pods.begin("ExecSync", pods.messages.ExecSyncRequest(container_id=container, cmd=list(command), timeout=timeout))


def execute(pods, container, *command, timeout=0):
    done = begin(pods, container, *command, timeout=timeout).result()
    return done.exit_code, done.stdout.decode(), done.stderr.decode()


def sleeping(pods, seconds):
    return [pid for pid in family_of(pods.lab.init) if command_of(pid)[:2] == ["sleep", str(seconds)]]


def test_a_command_is_like_the_program(pods, sleeper):
    script = "id -u; echo $A; pwd; grep NoNewPrivs /proc/self/status; echo error >&2; exit 9"
    assert execute(pods, sleeper, "sh", "-c", script) == (9, "1000\n1\n/tmp\nNoNewPrivs:\t1\n", "error\n")
    assert execute(pods, sleeper, "true") == (0, "", "")
    assert execute(pods, sleeper, "sh", "-c", "kill -9 $$")[0] == 137
    code, text = code_of(lambda: execute(pods, sleeper, "/not/there"))
    assert "/not/there" in text
    assert code_of(lambda: execute(pods, sleeper))[0] == grpc.StatusCode.INVALID_ARGUMENT
    assert code_of(lambda: execute(pods, "x", "true"))[0] == grpc.StatusCode.NOT_FOUND


def test_a_command_that_takes_too_long_is_killed(pods, sleeper):
    begun = time.monotonic()
    code, text = code_of(lambda: execute(pods, sleeper, "sh", "-c", "sleep 777 & sleep 777; true", timeout=1))
    assert code == grpc.StatusCode.DEADLINE_EXCEEDED and text.endswith("it did not end within 1 s")
    assert 1 <= time.monotonic() - begun < 5
    until = time.monotonic() + PATIENCE
    while sleeping(pods, 777):
        assert time.monotonic() < until, "it is still there"
    assert pods.state(sleeper) == "CONTAINER_RUNNING"


def test_a_child_that_keeps_the_pipes_is_not_waited_for(pods, sleeper):
    assert execute(pods, sleeper, "sh", "-c", "sleep 776 & echo done", timeout=60) == (0, "done\n", "")


def test_a_client_that_goes_takes_its_command_along(pods, sleeper):
    call = begin(pods, sleeper, "sleep", "775")
    until = time.monotonic() + PATIENCE
    while not sleeping(pods, 775):
        assert time.monotonic() < until
    call.cancel()
    while sleeping(pods, 775):
        assert time.monotonic() < until


# Its runtime has started a command, and has not told anybody yet.
SLOW_RUNTIME = """#!/bin/sh
case " $* " in
*" exec "*) crun "$@"; code=$?; echo started > {gate}; read -r go < {gate}; exit $code;;
esac
exec crun "$@"
"""


@pytest.mark.parametrize("way", ["client goes", "timeout"])
def test_an_end_while_the_command_is_being_started(area, way):
    runtime, gate = area / "slow-runtime", area / "gate"
    os.mkfifo(gate)
    runtime.write_text(SLOW_RUNTIME.format(gate=gate))
    runtime.chmod(0o755)
    pods = PodHost(area, {"runtime": str(runtime)})
    try:
        container = pods.run_container(pods.run_pod(), pods.install("busybox", busybox()), "sleep", "1000")
        call = begin(pods, container, "sleep", "778", timeout=1 if way == "timeout" else 0)
        assert gate.read_text() == "started\n"
        assert sleeping(pods, 778)
        if way == "timeout":
            assert code_of(call.result)[0] == grpc.StatusCode.DEADLINE_EXCEEDED
        else:
            call.cancel()
            pods.call("Version")  # on the same connection: the daemon has read that the client has gone
        gate.write_text("go\n")
        until = time.monotonic() + PATIENCE
        while sleeping(pods, 778):
            assert time.monotonic() < until, "it runs for ever"
        pods.remove_everything()
        pods.check_nothing_is_left()
    finally:
        pods.close()


def test_much_output_is_bounded(pods, sleeper):
    channel = grpc.insecure_channel(f"unix:/proc/{pods.lab.init}/root{pods.socket}", options=[("grpc.max_receive_message_length", 64 << 20)])
    with channel:
        call = channel.unary_unary("/runtime.v1.RuntimeService/ExecSync", request_serializer=lambda message: message.SerializeToString(),
                                response_deserializer=pods.messages.ExecSyncResponse.FromString)
        answer = call(pods.messages.ExecSyncRequest(container_id=sleeper, cmd=["sh", "-c", "head -c 30000000 /dev/zero | tr '\\0' x"]), timeout=PATIENCE)
    assert answer.exit_code == 0 and len(answer.stdout) == 15 << 20


def test_many_commands_at_once(pods, sleeper):
    calls = [begin(pods, sleeper, "sh", "-c", f"echo {number}", timeout=60) for number in range(30)]
    assert [call.result().stdout.decode() for call in calls] == [f"{number}\n" for number in range(30)]


def test_a_daemon_that_is_killed_during_a_command(pods, sleeper):
    call = begin(pods, sleeper, "sleep", "2")
    until = time.monotonic() + PATIENCE
    while not sleeping(pods, 2):
        assert time.monotonic() < until
    pods.end(signal.SIGKILL)
    pods.start()
    assert call.exception()
    assert execute(pods, sleeper, "true")[0] == 0


def test_usage(pods, image):
    pod = pods.run_pod()
    busy = pods.run_container(pod, image, "sh", "-c", "head -c 5000000 /dev/zero > /tmp/file; echo up; while :; do :; done", name="busy", resources={"memory_limit_in_bytes": 100 << 20})
    idle = pods.run_container(pod, image, "sleep", "1000", name="idle")
    ended = pods.run_container(pod, image, "true", name="ended")
    pods.wait_for_end(ended)
    pods.wait_for_log(busy, "up\n")
    request = pods.messages.ContainerStatsRequest(container_id=busy)
    first = pods.call("ContainerStats", request=request).stats
    until = time.monotonic() + PATIENCE
    while (second := pods.call("ContainerStats", request=request).stats).cpu.usage_core_nano_seconds.value <= first.cpu.usage_core_nano_seconds.value + 50_000_000:
        assert time.monotonic() < until
    assert second.cpu.usage_nano_cores.value > 0 and second.cpu.timestamp > first.cpu.timestamp
    assert 0 < second.memory.working_set_bytes.value <= second.memory.usage_bytes.value
    assert 0 < second.memory.available_bytes.value <= 100 << 20
    assert second.writable_layer.used_bytes.value >= 5_000_000 and second.writable_layer.inodes_used.value >= 1
    assert second.attributes.metadata.name == "busy"
    every = pods.call("ListContainerStats").stats
    assert {one.attributes.id for one in every} == {busy, idle}
    listed = pods.call("ListContainerStats", request=pods.messages.ListContainerStatsRequest(filter=pods.messages.ContainerStatsFilter(id=idle))).stats
    assert [one.attributes.id for one in listed] == [idle]
    assert code_of(lambda: pods.call("ContainerStats", request=pods.messages.ContainerStatsRequest(container_id=ended)))[0] == grpc.StatusCode.NOT_FOUND


def test_events(pods, image):
    call = pods.channel.unary_stream("/runtime.v1.RuntimeService/GetContainerEvents", request_serializer=lambda message: message.SerializeToString(),
                                     response_deserializer=pods.messages.ContainerEventResponse.FromString)
    stream = call(pods.messages.GetEventsRequest(), timeout=PATIENCE)
    pods.call("Version")  # the stream's request came before it
    told = []

    def listen():
        for event in stream:
            told.append((event.container_id, event.container_event_type, len(event.containers_statuses)))
            if event.container_event_type == 3 and event.container_id == pod[0]:
                return

    pod = [""]
    thread = threading.Thread(target=listen)
    thread.start()
    pod[0] = pods.run_pod()
    container = pods.run_container(pod[0], image, "true")
    pods.wait_for_end(container)
    pods.remove_container(container)
    pods.stop_pod(pod[0])
    pods.remove_pod(pod[0])
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert told == [(pod[0], 1, 0), (container, 0, 1), (container, 1, 1), (container, 2, 1), (container, 3, 0), (pod[0], 2, 0), (pod[0], 3, 0)]


def test_privileged(pods, image):
    container = pods.run_container(pods.run_pod(), image, "sh", "-c", "grep CapEff /proc/self/status; ls /dev/full /dev/net; mount -t tmpfs x /tmp && echo mounted; grep Seccomp: /proc/self/status",
                                   security={"privileged": True, "seccomp": pods.messages.SecurityProfile(profile_type=0)})
    pods.wait_for_end(container)
    text = pods.text_of(container)
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapBnd")).split()[1]
    assert f"CapEff:\t{own}" in text and "mounted\n" in text and "Seccomp:\t0" in text
    assert os.path.exists("/dev/full") and "/dev/full" in text


def test_the_default_seccomp_profile(pods, image):
    container = pods.run_container(pods.run_pod(), image, "sh", "-c", "unshare -m true; mount -t tmpfs x /tmp; echo still here",
                                   security={"seccomp": pods.messages.SecurityProfile(profile_type=0), "capabilities": pods.messages.Capability(add_capabilities=["MKNOD"])})
    pods.wait_for_end(container)
    text = pods.text_of(container)
    assert text.count("Operation not permitted") + text.count("ermission denied") >= 2 and "still here\n" in text  # two pipes have no order


def test_processes_of_another_container(pods, image):
    messages = pods.messages
    pod = pods.run_pod()
    target = pods.run_container(pod, image, "sleep", "774", name="target")
    context = {"namespace_options": messages.NamespaceOption(pid=3, target_id=target)}
    seen = pods.run_container(pod, image, "sh", "-c", "ps", name="debug", security=context)
    pods.wait_for_end(seen)
    assert "sleep 774" in pods.text_of(seen)
    assert code_of(lambda: pods.create(pod, pods.container_config(image, "true", name="lost", security={
        "namespace_options": messages.NamespaceOption(pid=3, target_id="x")})))[0] == grpc.StatusCode.FAILED_PRECONDITION
    node = pods.run_container(pod, image, "sh", "-c", "ps", name="node", security={"namespace_options": messages.NamespaceOption(pid=2)})
    pods.wait_for_end(node)
    assert "triton-pod" in pods.text_of(node)


# Limits.


def update(pods, container, **resources):
    request = pods.messages.UpdateContainerResourcesRequest(container_id=container, linux=pods.messages.LinuxContainerResources(**resources))
    pods.call("UpdateContainerResources", request=request)


def memory_limit(pods, container):
    """As the kernel has it, of either version."""
    (place,) = [group / container for group in pods.groups() if (group / container / "memory.limit_in_bytes").exists() or (group / container / "memory.max").exists()]
    file = place / "memory.max"
    return int((file if file.exists() else place / "memory.limit_in_bytes").read_text())


def test_limits_change_while_it_runs(pods, image):
    pod = pods.run_pod()
    script = "echo up; while [ ! -e /tmp/eat ]; do usleep 20000; done; head -c 30000000 /dev/zero > /dev/shm/file; echo eaten; sleep 1000"
    container = pods.run_container(pod, image, "sh", "-c", script, resources={"memory_limit_in_bytes": 200 << 20, "cpu_shares": 512, "oom_score_adj": 100})
    update(pods, container, memory_limit_in_bytes=150 << 20)
    assert memory_limit(pods, container) == 150 << 20
    resources = pods.container_status(container).resources.linux
    assert (resources.memory_limit_in_bytes, resources.cpu_shares, resources.oom_score_adj) == (150 << 20, 512, 100)
    # What is refused changes nothing: too little memory, and a processor that this machine does not have.
    execute(pods, container, "touch", "/tmp/eat")
    pods.wait_for_log(container, "eaten\n")
    code, text = code_of(lambda: update(pods, container, memory_limit_in_bytes=4 << 20, cpu_shares=100))
    assert code == grpc.StatusCode.FAILED_PRECONDITION and "more than the new limit" in text
    code, text = code_of(lambda: update(pods, container, memory_limit_in_bytes=120 << 20, cpuset_cpus="4000"))
    assert code == grpc.StatusCode.INTERNAL
    assert memory_limit(pods, container) == 150 << 20
    assert pods.container_status(container).resources.linux == resources
    # Devices are as they were, and the daemon that comes next knows the limits.
    assert execute(pods, container, "sh", "-c", "echo x > /dev/null; mknod /tmp/mem c 1 1 && cat /tmp/mem")[0] != 0
    pods.end(signal.SIGKILL)
    pods.start()
    assert pods.container_status(container).resources.linux == resources
    update(pods, container, memory_limit_in_bytes=180 << 20)
    assert memory_limit(pods, container) == 180 << 20
    pods.stop_container(container)
    assert code_of(lambda: update(pods, container, cpu_shares=5))[0] == grpc.StatusCode.FAILED_PRECONDITION
    assert code_of(lambda: update(pods, "x", cpu_shares=5))[0] == grpc.StatusCode.NOT_FOUND


def test_many_changes_at_once(pods, image):
    container = pods.run_container(pods.run_pod(), image, "sleep", "1000")
    calls = [pods.begin("UpdateContainerResources", pods.messages.UpdateContainerResourcesRequest(
        container_id=container, linux=pods.messages.LinuxContainerResources(memory_limit_in_bytes=size << 20))) for size in range(100, 108)]
    for call in calls:
        call.result()
    assert memory_limit(pods, container) == pods.container_status(container).resources.linux.memory_limit_in_bytes


# Pods as a whole.


def test_usage_of_a_pod(pods, image):
    pods.configure_network(pods.bridge())
    pod = pods.run_pod(pods.pod_config(network=0))
    first = pods.run_container(pod, image, "sh", "-c", "wget -q -T 1 http://10.88.0.1:1/; echo asked; while :; do :; done", name="first")
    pods.run_container(pod, image, "sleep", "1000", name="second")
    pods.wait_for_log(first, "asked\n")
    request = pods.messages.PodSandboxStatsRequest(pod_sandbox_id=pod)
    one = pods.call("PodSandboxStats", request=request).stats
    until = time.monotonic() + PATIENCE
    while (two := pods.call("PodSandboxStats", request=request).stats).linux.cpu.usage_core_nano_seconds.value <= one.linux.cpu.usage_core_nano_seconds.value:
        assert time.monotonic() < until
    assert two.attributes.metadata.name == "pod" and two.attributes.labels["app"] == "pod"
    assert two.linux.cpu.usage_nano_cores.value > 0 and two.linux.memory.usage_bytes.value > 0
    assert two.linux.process.process_count.value >= 2
    assert two.linux.network.default_interface.name == "eth0" and two.linux.network.default_interface.tx_bytes.value > 0
    assert sorted(container.attributes.metadata.name for container in two.linux.containers) == ["first", "second"]
    other = pods.run_pod(pods.pod_config("other"))
    assert {stats.attributes.id for stats in pods.call("ListPodSandboxStats").stats} == {pod, other}
    filtered = pods.messages.ListPodSandboxStatsRequest(filter=pods.messages.PodSandboxStatsFilter(label_selector={"app": "other"}))
    (stats,) = pods.call("ListPodSandboxStats", request=filtered).stats
    assert stats.attributes.id == other and not stats.linux.HasField("network"), "its network is the node's"
    pods.stop_pod(pod)
    assert code_of(lambda: pods.call("PodSandboxStats", request=request))[0] == grpc.StatusCode.NOT_FOUND


# A PID namespace for all containers.


def shared(pods, **more):
    return {"namespace_options": pods.messages.NamespaceOption(pid=0), **more}


def test_processes_of_the_pod(pods, image):
    pod = pods.run_pod(pods.pod_config(pid=0))
    first = pods.run_container(pod, image, "sh", "-c", "sleep 1001 & sleep 1000", name="first", security=shared(pods))
    script = "ps -o pid,comm; ls /proc/1/root; readlink /proc/1/exe; grep Cap /proc/1/status; (true & exec true); usleep 100000; grep -l '^State:.Z' /proc/[0-9]*/status; echo end"
    second = pods.run_container(pod, image, "sh", "-c", script, name="second", security=shared(pods))
    assert pods.wait_for_end(second).exit_code == 0
    text = pods.text_of(second)
    assert "    1 triton-pod\n" in text and text.count(" sleep\n") == 2, text
    assert "ls: /proc/1/root: Permission denied" in text and str(pods.host.root) not in text, "the first process shows nothing of the host"
    assert "/status" not in text, "it reaps"
    assert all(int(line.split()[1], 16) == 0 for line in text.splitlines() if line.startswith("Cap"))
    # The end of a container takes along what it has started, although its namespace lives.
    pods.stop_container(first)
    until = time.monotonic() + PATIENCE
    while sleeping(pods, 1001):
        assert time.monotonic() < until, "it is still there"
    assert pods.is_ready(pod)
    third = pods.run_container(pod, image, "sleep", "1000", name="third", security=shared(pods))
    (monitor,) = pods.monitors_of(pod)
    (init,) = [pid for pid in family_of(monitor) if command_of(pid)[1:2] == ["first-process"]]
    os.kill(init, signal.SIGKILL)
    pods.wait_for_end(third)
    until = time.monotonic() + PATIENCE
    while pods.is_ready(pod):
        assert time.monotonic() < until, "a pod without its first process is none"


def test_a_privileged_container_finds_nothing_of_the_host_in_the_first_process(pods, image):
    pod = pods.run_pod(pods.pod_config(pid=0))
    script = "ls -a /proc/1/root/ | grep -v '^[.]*$'; cat /proc/1/exe > /tmp/copy; : 2>/dev/null > /proc/1/exe && echo written; echo end"
    container = pods.run_container(pod, image, "sh", "-c", script, security=shared(pods, privileged=True))
    pods.wait_for_end(container)
    assert "written" not in pods.text_of(container) and "usr" not in pods.text_of(container)


def test_a_pid_namespace_needs_the_pods(pods, image):
    pod = pods.run_pod()
    code, text = code_of(lambda: pods.run_container(pod, image, "true", security=shared(pods)))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "no PID namespace" in text

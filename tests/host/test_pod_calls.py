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
from pod_place import busybox, command_of, family_of, pods  # noqa: F401 (fixture)

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

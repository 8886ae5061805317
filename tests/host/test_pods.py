"""Pods and containers as kubelet asks for them: real processes in namespaces of the test's own."""

import json
import os
import re
import select
import signal
import threading
import time
from pathlib import Path

import grpc
import pytest
from cri_place import code_of
from image_place import area, needs_root  # noqa: F401 (fixtures)
from pod_place import busybox, command_of, family_of, pods  # noqa: F401 (fixture)

pytestmark = needs_root


@pytest.fixture
def image(pods):
    return pods.install("busybox", busybox(), ["--config.env", "FROM=image", "--config.cmd", "id", "--config.stopsignal", "QUIT"])


def test_a_pod_from_its_start_to_its_end(pods, image):
    pod = pods.run_pod()
    assert re.fullmatch("[0-9a-f]{64}", pod)
    status = pods.pod_status(pod)
    assert (status.metadata.name, status.metadata.namespace, status.state) == ("pod", "default", pods.messages.SANDBOX_READY)
    assert dict(status.labels) == {"app": "pod"} and dict(status.annotations) == {"note": "pod"}
    assert status.linux.namespaces.options.network == 2
    container = pods.create(pod, pods.container_config(image, "sh", "-c", "echo one; echo two >&2; exit 3"))
    assert pods.state(container) == "CONTAINER_CREATED"
    pods.start_container(container)
    status = pods.wait_for_end(container)
    assert (status.exit_code, status.reason) == (3, "Error")
    assert 0 < status.created_at <= status.started_at <= status.finished_at
    assert status.image_id == status.image_ref == image
    lines = pods.log_lines(container)
    assert sorted((stream, tag, text) for _, stream, tag, text in lines) == [("stderr", "F", "two"), ("stdout", "F", "one")]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", time) for time, *_ in lines)
    assert [one.id for one in pods.call("ListContainers").containers] == [container]
    pods.remove_container(container)
    assert not pods.call("ListContainers").containers
    pods.stop_pod(pod)
    assert not pods.is_ready(pod)
    assert not pods.monitors()
    pods.stop_pod(pod)
    pods.remove_pod(pod)
    pods.remove_pod(pod)
    assert code_of(lambda: pods.pod_status(pod)) == (grpc.StatusCode.NOT_FOUND, f"pod sandbox {pod} does not exist")
    pods.check_nothing_is_left()


def test_stop_asks_first_and_kills_then(pods, image):
    pod = pods.run_pod()
    polite = pods.run_container(pod, image, "sh", "-c", "trap 'echo told; exit 7' QUIT; echo up; while :; do sleep 0.05; done", name="polite")
    deaf = pods.run_container(pod, image, "sh", "-c", "trap '' QUIT TERM; echo up; while :; do sleep 0.05; done", name="deaf")
    pods.wait_for_log(polite, "up")
    pods.wait_for_log(deaf, "up")
    pods.stop_container(polite, 60)
    status = pods.container_status(polite)
    assert (status.exit_code, pods.text_of(polite)) == (7, "up\ntold\n")
    assert status.stop_signal == pods.messages.Signal.Value("SIGNAL_SIGQUIT")
    waiting = pods.begin_stop(deaf, 3600)
    pods.stop_container(deaf, 1)  # the later one counts
    waiting.result()
    assert (pods.container_status(deaf).exit_code, pods.container_status(deaf).reason) == (137, "Error")
    pods.stop_container(deaf)


def test_a_container_that_was_never_started(pods, image):
    pod = pods.run_pod()
    container = pods.create(pod, pods.container_config(image, "true"))
    pods.stop_container(container, 30)
    assert pods.state(container) == "CONTAINER_EXITED"
    assert code_of(lambda: pods.start_container(container))[0] == grpc.StatusCode.FAILED_PRECONDITION
    pods.remove_container(container)
    again = pods.create(pod, pods.container_config(image, "sleep", "1000"))
    pods.start_container(again)
    assert code_of(lambda: pods.start_container(again))[0] == grpc.StatusCode.FAILED_PRECONDITION
    pods.remove_container(again)  # kills it
    pods.stop_pod(pod)
    assert code_of(lambda: pods.create(pod, pods.container_config(image, "true"))) == (
        grpc.StatusCode.FAILED_PRECONDITION, f"pod sandbox {pod} is not ready")


def test_a_removed_image_goes_with_its_last_container(pods, image):
    pod = pods.run_pod()
    running = pods.run_container(pod, image, "sleep", "1000")
    created = pods.create(pod, pods.container_config(image, "true", name="created"))
    pods.remove(image)
    pods.remove(image)
    (left,) = pods.images()
    assert left.id == image and not left.repo_tags and not left.repo_digests
    pods.remove_container(created)
    assert pods.status(image), "one still has it"
    pods.end(signal.SIGKILL)
    pods.start()
    assert pods.status(image) and pods.state(running) == "CONTAINER_RUNNING"
    pods.remove_container(running)
    assert pods.images() == [] and pods.host.layers() == [] and pods.host.blobs() == []


def test_equal_requests_are_one(pods, image):
    waiting = [pods.begin("RunPodSandbox", pods.messages.RunPodSandboxRequest(config=pods.pod_config())) for _ in range(4)]
    (pod,) = {one.result().pod_sandbox_id for one in waiting}
    other = pods.pod_config()
    other.labels["more"] = "x"
    code, text = code_of(lambda: pods.run_pod(other))
    assert (code, text) == (grpc.StatusCode.ALREADY_EXISTS, f"another pod sandbox of that name and attempt exists: {pod}")
    request = pods.messages.CreateContainerRequest(pod_sandbox_id=pod, config=pods.container_config(image, "true"))
    waiting = [pods.begin("CreateContainer", request) for _ in range(4)]
    (container,) = {one.result().container_id for one in waiting}
    request.config.command[0] = "false"
    assert code_of(lambda: pods.call("CreateContainer", request=request)) == (
        grpc.StatusCode.ALREADY_EXISTS, f"another container of that name and attempt exists: {container}")


def test_a_client_that_gives_up_finds_its_pod(pods):
    with pytest.raises(grpc.RpcError):
        pods.run_pod(timeout=0.001)
    pod = pods.run_pod()
    assert [one.id for one in pods.call("ListPodSandbox").items] == [pod]


@pytest.mark.parametrize("setting", ["image", "image_user", "numbers", "name", "strict"])
def test_users_and_groups(pods, image, setting):
    messages = pods.messages
    cases = {
        "image": ({}, "uid=0(root) gid=0(root) groups=0(root)"),
        "image_user": ({"run_as_username": "web"}, "uid=1000(web) gid=1001(web) groups=1001(web),2000(extra)"),
        "numbers": ({"run_as_user": messages.Int64Value(value=1234), "run_as_group": messages.Int64Value(value=77), "supplemental_groups": [5, 6]},
                    "uid=1234 gid=77 groups=5,6,77"),
        "name": ({"run_as_user": messages.Int64Value(value=1000), "supplemental_groups": [5]}, "uid=1000(web) gid=1001(web) groups=5,1001(web),2000(extra)"),
        "strict": ({"run_as_user": messages.Int64Value(value=1000), "supplemental_groups": [5], "supplemental_groups_policy": 1},
                   "uid=1000(web) gid=1001(web) groups=5,1001(web)"),
    }
    security, expected = cases[setting]
    container = pods.run_container(pods.run_pod(), image, security=security)
    assert pods.wait_for_end(container).exit_code == 0
    assert pods.text_of(container).strip() == expected
    user = pods.container_status(container).user.linux
    assert f"uid={user.uid}" == re.match(r"uid=\d+", expected)[0]


def test_a_group_needs_a_user(pods, image):
    group = pods.messages.Int64Value(value=77)
    code, text = code_of(lambda: pods.run_container(pods.run_pod(), image, "true", security={"run_as_group": group}))
    assert (code, text) == (grpc.StatusCode.INVALID_ARGUMENT, "run_as_group needs a run_as_user or run_as_username")
    config = pods.pod_config("other")
    config.linux.security_context.run_as_group.CopyFrom(group)
    assert code_of(lambda: pods.run_pod(config))[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_what_a_program_finds(pods, image):
    script = 'pwd; env | grep -v _=; hostname; cat /etc/hostname; grep -E "Cap(Bnd|Inh)|NoNewPrivs|Seccomp:" /proc/self/status; cat /proc/self/oom_score_adj; echo $$'
    messages = pods.messages
    container = pods.run_container(
        pods.run_pod(), image, "sh", "-c", script, working_dir="/made/by/it", envs=[messages.KeyValue(key="A", value=b"b c"), messages.KeyValue(key="FROM", value=b"request")],
        security={"no_new_privs": True, "seccomp": messages.SecurityProfile(profile_type=0),
                  "capabilities": messages.Capability(add_capabilities=["NET_ADMIN"], drop_capabilities=["ALL"])},
        resources={"oom_score_adj": 500})
    assert pods.wait_for_end(container).exit_code == 0
    text = pods.text_of(container)
    name = pods.lab.run("hostname").stdout.strip()
    assert text.startswith("/made/by/it\n")
    for line in ("A=b c", "FROM=request", "HOME=/root", f"HOSTNAME={name}", f"{name}\n{name}", "CapBnd:\t0000000000001000", "CapInh:\t0000000000000000",
                 "NoNewPrivs:\t1", "Seccomp:\t2", "500\n1\n"):
        assert line in text


def test_mounts_devices_and_hidden_files(pods, image):
    source = pods.area / "volume"
    source.mkdir()
    (source / "file").write_text("from the host")
    messages = pods.messages
    mounts = [messages.Mount(container_path="/data", host_path=str(source)), messages.Mount(container_path="/data/read", host_path=str(source), readonly=True),
              messages.Mount(container_path="/new", host_path=str(pods.area / "not/there"))]
    script = """cat /data/read/file; echo written > /data/out; echo no > /data/read/out2; head -c 1 /proc/version | wc -c; echo x > /proc/sys/kernel/printk;
touch /root-file; ls -d /new; head -c 4 /dev/fuse-copy | wc -c; ls /dev/pts; stat -f -c %T /dev/shm"""
    container = pods.run_container(
        pods.run_pod(), image, "sh", "-c", script, mounts=mounts, devices=[messages.Device(container_path="/dev/fuse-copy", host_path="/dev/zero", permissions="rwm")],
        security={"readonly_rootfs": True, "masked_paths": ["/proc/version", "/proc/not-there"], "readonly_paths": ["/proc/sys"]})
    pods.wait_for_end(container)
    text = pods.text_of(container)
    assert (source / "out").read_text() == "written\n" and not (source / "out2").exists()
    assert (pods.area / "not/there").is_dir()
    assert "can't create /data/read/out2: Read-only file system" in text
    assert "can't create /proc/sys/kernel/printk: Read-only file system" in text
    assert "touch: /root-file: Read-only file system" in text
    assert "from the host0\n" in text and "\n4\n" in text and "/new\n" in text and "tmpfs\n" in text
    assert [one.container_path for one in pods.container_status(container).mounts] == ["/data", "/data/read", "/new"]


def test_the_log_survives_the_daemon(pods, image):
    pod = pods.run_pod()
    script = "n=0; while [ ! -e /data/stop ]; do n=$((n+1)); echo line $n; sleep 0.01; done; echo end $n; exit 5"
    shared = pods.area / "shared"
    shared.mkdir()
    container = pods.run_container(pod, image, "sh", "-c", script, mounts=[pods.messages.Mount(container_path="/data", host_path=str(shared))])
    pods.wait_for_log(container, "line 5\n")
    pods.end(signal.SIGKILL)
    (shared / "stop").touch()
    pods.start()
    status = pods.wait_for_end(container)
    assert (status.exit_code, status.reason) == (5, "Error")
    assert status.started_at > 0 and status.finished_at > status.started_at
    lines = pods.text_of(container).splitlines()
    assert lines[-1] == f"end {len(lines) - 1}"
    assert lines[:-1] == [f"line {n}" for n in range(1, len(lines))], "a line is missing or doubled"
    assert pods.is_ready(pod)
    assert [one.id for one in pods.call("ListContainers").containers] == [container]


def test_a_killed_daemon_finds_all_as_it_was(pods, image):
    pod = pods.run_pod()
    running = pods.run_container(pod, image, "sleep", "1000", name="running")
    created = pods.create(pod, pods.container_config(image, "true", name="created"))
    ended = pods.run_container(pod, image, "false", name="ended")
    pods.wait_for_end(ended)
    before = [pods.container_status(one) for one in (running, created, ended)]
    status = pods.pod_status(pod)
    pods.end(signal.SIGKILL)
    pods.start()
    assert [pods.container_status(one) for one in (running, created, ended)] == before
    assert pods.pod_status(pod) == status
    assert pods.run_pod() == pod, "the same request is still the same pod"
    pods.start_container(created)
    assert pods.wait_for_end(created).exit_code == 0
    pods.stop_container(running)


def test_a_killed_monitor_is_the_end_of_its_pod(pods, image):
    pod, other = pods.run_pod(), pods.run_pod(pods.pod_config("other"))
    container = pods.run_container(pod, image, "sh", "-c", "sleep 1000 & sleep 1000")
    stays = pods.run_container(other, image, "sleep", "1000")
    (monitor,) = [pid for pid in pods.monitors() if any("sleep" in command_of(one) for one in family_of(pid)) and command_of(pid)[1].endswith(pod)]
    os.kill(monitor, signal.SIGKILL)
    status = pods.wait_for_end(container)
    assert (status.exit_code, status.reason) == (137, "MonitorLost")
    assert not pods.is_ready(pod) and pods.is_ready(other)
    assert pods.state(stays) == "CONTAINER_RUNNING"
    again = pods.run_pod(pods.pod_config(attempt=1))
    assert pods.is_ready(again)
    pods.stop_pod(pod)
    assert len(pods.monitors()) == 2


def test_a_monitor_and_the_daemon_killed_together(pods, image):
    pod = pods.run_pod()
    container = pods.run_container(pod, image, "sleep", "1000")
    (monitor,) = pods.monitors()
    pods.end(signal.SIGKILL)
    os.kill(monitor, signal.SIGKILL)
    pods.start()
    status = pods.container_status(container)
    assert (status.exit_code, status.reason) == (255, "Unknown")
    assert not pods.is_ready(pod)


def test_out_of_memory_is_told(pods, image):
    pod = pods.run_pod()
    container = pods.run_container(pod, image, "sh", "-c", "x=$(yes | head -c 200000000); echo never", resources={"memory_limit_in_bytes": 20 << 20})
    status = pods.wait_for_end(container)
    assert (status.exit_code, status.reason) == (137, "OOMKilled")


def test_reopening_a_log_loses_nothing(pods, image):
    pod = pods.run_pod()
    container = pods.run_container(pod, image, "sh", "-c", "n=0; while [ $n -lt 3000 ]; do n=$((n+1)); echo line $n; done")
    status = pods.container_status(container)
    files = []
    for number in range(20):
        if pods.state(container) != "CONTAINER_RUNNING":
            break
        files.append(Path(f"{status.log_path}.{number}"))
        os.rename(status.log_path, files[-1])
        try:
            pods.call("ReopenContainerLog", request=pods.messages.ReopenContainerLogRequest(container_id=container))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
            break
    pods.wait_for_end(container)
    if Path(status.log_path).exists():
        files.append(Path(status.log_path))
    lines = [line.split(" ", 3)[3] for file in files for line in file.read_text().splitlines()]
    assert lines == [f"line {n}" for n in range(1, 3001)]


def test_pods_at_once(pods, image):
    made = []

    def one(number):
        pod = pods.run_pod(pods.pod_config(f"pod{number}"))
        container = pods.run_container(pod, image, "sh", "-c", f"echo {number}")
        made.append((number, pod, container, pods.wait_for_end(container).exit_code))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 10
    assert {(number, code, pods.text_of(container)) for number, _, container, code in made} == {(n, 0, f"{n}\n") for n in range(10)}
    pods.remove_everything()
    pods.check_nothing_is_left()


def test_bad_requests_are_refused(pods, image):
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    pod = pods.run_pod()
    config = pods.pod_config("other")
    config.linux.sysctls["kernel.panic"] = "1"
    assert code_of(lambda: pods.run_pod(config)) == (invalid, 'sysctl "kernel.panic" is not one of a namespace')
    assert code_of(lambda: pods.run_pod(pods.messages.PodSandboxConfig()))[0] == invalid
    assert code_of(lambda: pods.create(pod, pods.container_config("not-there", "true"))) == (
        grpc.StatusCode.NOT_FOUND, 'image "not-there" is not here')
    assert code_of(lambda: pods.create(pod, pods.container_config(image, "true", security={"run_as_username": "nobody-here"})))[1] == (
        'the image has no user "nobody-here" in /etc/passwd')
    code, text = code_of(lambda: pods.run_container(pod, image, "/not/there"))
    assert "/not/there" in text
    assert not [one for one in pods.call("ListContainers").containers if one.state == pods.messages.CONTAINER_RUNNING]
    assert not (pods.host.root / "var/lib/triton/cri/containers/x").exists()
    assert json.loads(pods.host.run("list", "-j").stdout)


def own_memory_of(pid):
    """KiB that it has written: its program is in the page cache once for all monitors."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))


@pytest.mark.skipif("asan" in os.environ.get("TRITON_BUILD", ""), reason="sanitizers need more memory")
def test_a_monitor_that_is_idle_is_small(pods, image):
    """Also one that was busy: what only work has needed is given back."""
    pod = pods.run_pod()
    script = "i=0; while [ $i -lt 40 ]; do head -c 100000 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done; echo done; exec sleep 1000"
    container = pods.run_container(pod, image, "sh", "-c", script)
    others = [pods.run_container(pod, image, "sleep", "1000", name=f"other{number}") for number in range(3)]
    pods.wait_for_log(container, "done")
    for one in (container, *others):
        pods.call("ExecSync", request=pods.messages.ExecSyncRequest(container_id=one, cmd=["true"]))
    (monitor,) = pods.monitors_of(pod)
    until = time.monotonic() + 30
    while (size := own_memory_of(monitor)) > 192:
        assert time.monotonic() < until, f"{size} KiB"
        select.select([], [], [], 0.1)
    print(f"a monitor with 4 containers has {size} KiB of its own")

"""What images and containers may try against the node that runs them."""

import os
import sys
from pathlib import Path

import grpc
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from cri_place import code_of  # noqa: E402
from image_place import area, needs_root  # noqa: E402, F401 (fixtures)
from pod_place import busybox, pods  # noqa: E402, F401 (fixture)

pytestmark = needs_root


def test_links_of_an_image_lead_nowhere(pods):
    secret = pods.area / "secret"
    secret.write_text("web:x:0:0::/:/bin/sh\n")
    files = busybox({"escape": ("link", "/"), "up": ("link", "../../../../../.." + str(pods.area)), "data": ("link", str(pods.area)), "dev-link/x": None})
    del files["etc/passwd"]
    image = pods.install("links", {**files, "etc/passwd": ("link", str(secret))})
    pod = pods.run_pod()
    code, text = code_of(lambda: pods.create(pod, pods.container_config(image, "true", security={"run_as_username": "web"})))
    assert (code, text) == (grpc.StatusCode.INVALID_ARGUMENT, 'the image has no user "web" in /etc/passwd')
    volume = pods.area / "volume"
    volume.mkdir()
    for number, path in enumerate(("/data/a", "/up/b", "/escape/c")):
        mount = pods.messages.Mount(container_path=path, host_path=str(volume))
        try:
            container = pods.run_container(pod, image, "sh", "-c", f"echo {number} > {path}/file", mounts=[mount], name=f"c{number}")
        except grpc.RpcError as error:
            assert error.details()  # refused, with a reason
            continue
        pods.wait_for_end(container)
        assert (volume / "file").read_text() == f"{number}\n", "the target is inside of the container"
    assert not (pods.area / "a").exists() and not (pods.area / "b").exists() and not Path("/c").exists()


def test_proc_and_sys_of_an_image_are_not_used(pods):
    image = pods.install("proc", busybox({"proc": ("link", "/tmp"), "sys": ("link", "/etc")}))
    pod = pods.run_pod()
    try:
        container = pods.run_container(pod, image, "sh", "-c", "ls /proc/1/status")
    except grpc.RpcError as error:
        assert error.details()  # refused, with a reason
        return
    pods.wait_for_end(container)


def test_a_huge_account_file_is_not_read(pods):
    image = pods.install("huge", busybox())
    (holder,) = [one for one in pods.host.pool.glob("layers/*/@snapshots/*/root/etc/passwd")]
    os.truncate(holder, 1 << 30)
    code, text = code_of(lambda: pods.create(pods.run_pod(), pods.container_config(image, "true")))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "/etc/passwd of the image" in text


def test_a_flood_of_output_is_bounded_and_ends(pods):
    image = pods.install("flood", busybox())
    pod = pods.run_pod()
    flood = pods.run_container(pod, image, "sh", "-c", "yes $(head -c 5000 /dev/zero | tr '\\0' x)", name="flood")
    quiet = pods.run_container(pod, image, "sh", "-c", "echo quiet", name="quiet")
    assert pods.wait_for_end(quiet).exit_code == 0 and pods.text_of(quiet) == "quiet\n"
    pods.stop_container(flood)
    (monitor,) = pods.monitors()
    resident = next(int(line.split()[1]) for line in Path(f"/proc/{monitor}/status").read_text().splitlines() if line.startswith("VmRSS"))
    assert resident < 16 * 1024, f"{resident} kB"
    assert all(len(text) == 5000 for _, _, _, text in pods.log_lines(flood)[:-1])


def test_one_line_without_an_end(pods):
    image = pods.install("line", busybox())
    container = pods.run_container(pods.run_pod(), image, "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x")
    pods.wait_for_end(container)
    lines = pods.log_lines(container)
    assert {tag for _, _, tag, _ in lines[:-1]} == {"P"} and lines[-1][2] == "F"
    assert sum(len(text) for _, _, _, text in lines) == 1000000


@pytest.mark.parametrize("grace", [0, 1])
def test_a_fork_bomb_ends(pods, grace):
    image = pods.install("bomb", busybox())
    pod = pods.run_pod()
    container = pods.run_container(pod, image, "sh", "-c", "trap '' TERM; f() { sleep 0.2; f & f; }; for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'trap \"\" TERM; sleep 1000 & wait' & done; echo up; f",
                                   resources={"memory_limit_in_bytes": 256 << 20})
    pods.wait_for_log(container, "up\n")
    pods.stop_container(container, grace)
    assert pods.container_status(container).exit_code == 137


def test_a_full_log_disk_does_not_stop_a_program(pods):
    image = pods.install("full", busybox())
    pods.logs.mkdir()
    pods.lab.run("mount", "-t", "tmpfs", "-o", "size=64k", "small", pods.logs)
    container = pods.run_container(pods.run_pod(), image, "sh", "-c", "n=0; while [ $n -lt 5000 ]; do n=$((n+1)); echo a line of some length $n; done; exit 4")
    assert pods.wait_for_end(container).exit_code == 4
    pods.mounts_before = [*pods.mounts_before, *[line for line in pods.lab.mounts() if str(pods.logs) in line]]


def test_names_and_paths_of_requests(pods):
    image = pods.install("names", busybox())
    pod = pods.run_pod()
    config = pods.container_config(image, "true")
    config.log_path = "../../../../etc/x.log"
    assert code_of(lambda: pods.create(pod, config))[0] == grpc.StatusCode.INVALID_ARGUMENT
    for pod_config in (pods.pod_config("a"), pods.pod_config("b")):
        pod_config.linux.cgroup_parent = "/../../x"
        assert code_of(lambda: pods.run_pod(pod_config))[0] == grpc.StatusCode.INVALID_ARGUMENT
    config = pods.container_config(image, "true", name="../../x\n\0")
    config.log_path = ""
    container = pods.create(pod, config)  # a name is only a name
    pods.remove_container(container)
    config.command[0] = "a\0b"
    assert code_of(lambda: pods.create(pod, config))[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_enormous_requests(pods):
    image = pods.install("enormous", busybox())
    pod = pods.run_pod()
    huge = pods.container_config(image, "true", *["x" * 100_000] * 100)
    assert pods.wait_for_end(pods.run_container(pod, image, *huge.command)).exit_code != 0, "the kernel takes no such command"
    labels = pods.container_config(image, "true", name="labels")
    for number in range(20_000):
        labels.labels[f"label{number}"] = "x" * 100
    container = pods.create(pod, labels)
    assert len(pods.container_status(container).labels) == 20_001
    assert pods.call("Version")

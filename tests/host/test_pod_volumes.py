"""User namespaces of pods, and volumes that are not simply a directory of the host."""

import os
import subprocess
from pathlib import Path

import grpc
import pytest
from cri_place import code_of
from image_place import area, needs_root  # noqa: F401 (fixtures)
from pod_place import busybox, command_of, family_of, pods  # noqa: F401 (fixture)

pytestmark = needs_root
FIRST, COUNT = 1_000_000, 65_536


@pytest.fixture
def image(pods):
    return pods.install("busybox", busybox({"home/web/file": "mine\n"}))


def mapping(pods, host=FIRST, count=COUNT):
    return [pods.messages.IDMapping(host_id=host, container_id=0, length=count)]


def users(pods, **more):
    return pods.messages.UserNamespace(mode=more.pop("mode", 0), uids=more.pop("uids", mapping(pods)), gids=more.pop("gids", mapping(pods)))


def private(pods, name="pod", pid=1, **more):
    """A pod with a user namespace."""
    config = pods.pod_config(name, network=0, pid=pid, hostname=name)
    config.linux.security_context.namespace_options.userns_options.CopyFrom(users(pods, **more))
    return config


def inside(pods, pid=1, **more):
    return {"namespace_options": pods.messages.NamespaceOption(pid=pid, userns_options=users(pods)), **more}


def run_to_end(pods, pod, image, script, **more):
    container = pods.run_container(pod, image, "sh", "-c", script, **more)
    status = pods.wait_for_end(container)
    return status.exit_code, pods.text_of(container)


@pytest.mark.parametrize("pid", [1, 0])
def test_root_of_a_pod_is_nobody_here(pods, image, pid):
    pods.configure_network(pods.bridge())
    volume = pods.area / "volume"
    volume.mkdir()
    (volume / "before").write_text("x")
    os.chown(volume / "before", 1000, 1000)
    pod = pods.run_pod(private(pods, pid=pid))
    assert pods.pod_status(pod).network.ip.startswith("10.88.0.")
    mount = pods.messages.Mount(container_path="/volume", host_path=str(volume), uidMappings=mapping(pods), gidMappings=mapping(pods))
    script = """id -u; hostname; stat -c '%u %g' /bin/busybox /volume/before /etc/passwd; touch /file /volume/made; chown 5:6 /volume/made
ip addr show eth0 | grep -c 'inet '; hostname changed 2>/dev/null; cat /proc/self/uid_map; ip link set lo down && ip link set lo up; echo up; exec sleep 1003"""
    container = pods.run_container(pod, image, "sh", "-c", script, mounts=[mount], security=inside(pods, pid))
    pods.wait_for_log(container, "up\n")
    lines = pods.text_of(container).split("\n")
    assert lines[:6] == ["0", "pod", "0 0", "1000 1000", "0 0", "1"], lines
    assert "".join(lines[6].split()) == f"0{FIRST}{COUNT}"
    # On the host all of it is of the pod's ids, and the volume has the container's.
    (program,) = [pid for pid in family_of(pods.lab.init) if command_of(pid)[:2] == ["sleep", "1003"]]
    assert os.stat(f"/proc/{program}").st_uid == FIRST
    upper = pods.host.root / f"var/lib/triton/cri/containers/{container}/upper"
    assert (upper / "file").stat().st_uid == FIRST
    assert ((volume / "made").stat().st_uid, (volume / "made").stat().st_gid) == (5, 6)
    # Commands are the container's, too.
    done = pods.call("ExecSync", request=pods.messages.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "id -u; cat /volume/before; touch /volume/more"], timeout=10))
    assert (done.exit_code, done.stdout) == (0, b"0\nx")
    assert (volume / "more").stat().st_uid == 0
    # Two containers are in one namespace, as two users of it.
    other = pods.run_container(pod, image, "sh", "-c", "id -u; readlink /proc/self/ns/user; cat /home/web/file; cat /dev/shm/note; sleep 1000", name="other",
                               security=inside(pods, pid, run_as_user=pods.messages.Int64Value(value=1000)))
    pods.wait_for_log(other, "mine\n")
    namespace = pods.text_of(other).split("\n")[1]
    assert namespace == os.readlink(f"/proc/{program}/ns/user") != os.readlink("/proc/self/ns/user")


def test_it_gets_at_nothing_of_the_host(pods, image):
    pods.configure_network(pods.bridge())
    secret = pods.area / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    pod = pods.run_pod(private(pods, pid=0))
    mount = pods.messages.Mount(container_path="/secret", host_path=str(secret))
    script = "cat /secret; echo 1 > /proc/sys/vm/overcommit_memory; mount -t tmpfs x /tmp && echo mounted; ls /proc/1/root; mknod /tmp/mem c 1 1 && cat /tmp/mem; echo end"
    capabilities = pods.messages.Capability(add_capabilities=["ALL"])
    code, text = run_to_end(pods, pod, image, script, mounts=[mount], security=inside(pods, 0, capabilities=capabilities))
    assert code == 0 and "end\n" in text, text
    assert "mknod: /tmp/mem: Operation not permitted" in text
    assert "cat: can't open '/secret': Permission denied" in text and "overcommit_memory: Permission denied" in text
    assert "ls: /proc/1/root" in text or not [line for line in text.split("\n") if line in ("usr", "etc", "work")]


@pytest.mark.parametrize("change, text", [
    ({"uids": []}, "exactly one mapping of users, and has 0"), ({"mode": 1}, "is the pod's or the node's"),
    ({"gids": "two"}, "exactly one mapping of groups, and has 2"), ({"uids": "later"}, "does not begin with 0"),
    ({"uids": "end"}, "does not begin with 0, or is not one"), ({"mode": 2}, "mappings without a user namespace")])
def test_mappings_that_are_none(pods, change, text):
    odd = {"two": mapping(pods) * 2, "later": [pods.messages.IDMapping(host_id=5, container_id=1, length=2)], "end": mapping(pods, 2**32 - 2, 5)}
    change = {key: odd.get(value, value) if isinstance(value, str) else value for key, value in change.items()}
    code, told = code_of(lambda: pods.run_pod(private(pods, **change)))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and text in told


def test_a_user_namespace_is_the_whole_pods(pods, image):
    pods.configure_network(pods.bridge())
    config = private(pods)
    config.linux.security_context.namespace_options.network = 2
    assert "cannot have the network" in code_of(lambda: pods.run_pod(config))[1]
    pod = pods.run_pod(private(pods))
    other = {"namespace_options": pods.messages.NamespaceOption(pid=1, userns_options=users(pods, uids=mapping(pods, 5)))}
    assert "not that of its pod" in code_of(lambda: pods.run_container(pod, image, "true", security=other))[1]
    mount = pods.messages.Mount(container_path="/x", host_path="/tmp", uidMappings=mapping(pods, 5), gidMappings=mapping(pods))
    assert "are not mapped as the pod's are" in code_of(lambda: pods.run_container(pod, image, "true", mounts=[mount], security=inside(pods)))[1]
    fine = pods.run_pod(pods.pod_config("plain"))
    assert "not mapped" in code_of(lambda: pods.run_container(fine, image, "true", mounts=[mount]))[1]
    assert pods.call("Status").runtime_handlers[0].features.user_namespaces


def test_a_file_system_without_mapped_owners_is_named(pods, image):
    pods.configure_network(pods.bridge())
    pod = pods.run_pod(private(pods))
    mount = pods.messages.Mount(container_path="/x", host_path="/proc/sys", uidMappings=mapping(pods), gidMappings=mapping(pods))
    code, text = code_of(lambda: pods.run_container(pod, image, "true", mounts=[mount], security=inside(pods)))
    assert "cannot map the owners of /proc/sys: its file system, or one below it, cannot do that (proc)" in text


def test_read_only_with_all_that_is_mounted_below(pods, image):
    volume = pods.area / "volume"
    (volume / "below").mkdir(parents=True)
    pods.lab.run("mount", "-t", "tmpfs", "below", volume / "below")
    try:
        pod = pods.run_pod()
        script = "touch /v/a; touch /v/below/b; echo end"
        plain = pods.messages.Mount(container_path="/v", host_path=str(volume), readonly=True)
        assert "/v/below/b" not in run_to_end(pods, pod, image, script, mounts=[plain])[1]
        whole = pods.messages.Mount(container_path="/v", host_path=str(volume), readonly=True, recursive_read_only=True)
        text = run_to_end(pods, pod, image, script, mounts=[whole], name="whole")[1]
        assert "/v/a: Read-only file system" in text and "/v/below/b: Read-only file system" in text
        whole.readonly = False
        assert code_of(lambda: pods.run_container(pod, image, "true", mounts=[whole], name="odd"))[0] == grpc.StatusCode.INVALID_ARGUMENT
        assert pods.call("Status").runtime_handlers[0].features.recursive_read_only_mounts
        pods.remove_everything()
    finally:
        pods.lab.run("umount", volume / "below")


@pytest.mark.parametrize("has_users", [False, True])
def test_an_image_as_a_volume(pods, image, has_users):
    pods.configure_network(pods.bridge())
    data = pods.install("data", {"models/one/weights": "numbers\n", "models/run": "echo it runs\n", "up": ("link", "/etc"), "out": ("link", "../../../../../../tmp")})
    pod = pods.run_pod(private(pods) if has_users else pods.pod_config())
    security = inside(pods) if has_users else None
    spec = pods.messages.ImageSpec(image=data)
    mounts = [pods.messages.Mount(container_path="/data", image=spec, readonly=True),
              pods.messages.Mount(container_path="/one", image=spec, image_sub_path="models/one", readonly=True)]
    script = "cat /data/models/one/weights /one/weights; stat -c %u /data/models; touch /data/x; sh /data/models/run; echo end; exec sleep 1000"
    container = pods.run_container(pod, image, "sh", "-c", script, mounts=mounts, security=security)
    pods.wait_for_log(container, "end\n")
    text = pods.text_of(container)
    assert text.startswith("numbers\nnumbers\n0\n") and "Read-only file system" in text and "it runs\n" in text, text
    for _ in range(2):
        shown = pods.container_status(container).mounts
        assert [(one.image.image, one.image.image_ref) for one in shown] == [(data, data)] * 2, "kubelet tells which image it is"
        pods.end()
        pods.start()
    writable = pods.messages.Mount(container_path="/x", image=spec)
    assert code_of(lambda: pods.run_container(pod, image, "true", mounts=[writable], security=security, name="writable")) == (
        grpc.StatusCode.INVALID_ARGUMENT, "a volume that is an image must be read-only")
    for number, (path, reference) in enumerate((("not/there", data), ("", "sha256:" + "0" * 64))):
        odd = pods.messages.Mount(container_path="/x", image=pods.messages.ImageSpec(image=reference), image_sub_path=path, readonly=True)
        code, told = code_of(lambda: pods.run_container(pod, image, "true", mounts=[odd], security=security, name=f"odd{number}"))
        assert told.startswith("ImageVolumeMountFailed: "), told
    for number, path in enumerate(("up", "out")):
        odd = pods.messages.Mount(container_path="/x", image=spec, image_sub_path=path, readonly=True)
        assert code_of(lambda: pods.run_container(pod, image, "true", mounts=[odd], security=security, name=f"link{number}"))[1].startswith("ImageVolumeMountFailed"), "it leads out"
    pods.remove(data)
    assert pods.status(data), "it is in use"
    pods.remove_everything()
    assert pods.status(data) is None, "it goes with the last container"


def test_what_was_not_made_holds_no_image(pods, image):
    pod = pods.run_pod()
    data = pods.install("data", {"file": "x"})
    for user in ("nobody-here",):
        code, _ = code_of(lambda: pods.run_container(pod, data, "/file", security={"run_as_username": user}))
        assert code == grpc.StatusCode.INVALID_ARGUMENT
    pods.remove(data)
    assert pods.status(data) is None

"""tritoncrid as kubelet meets it: what it says of itself, and its images, from a real registry."""

import base64
import os
import re
import signal
import stat
import subprocess

import grpc
import pytest
from cri_place import PATIENCE, PROGRAM, PROTOCOL, Cri, Served, code_of, cri, publish  # noqa: F401 (fixture)
from fault_server import FaultServer
from image_place import Layout, area, needs_root, registry  # noqa: F401 (fixtures)

pytestmark = needs_root


@pytest.fixture
def layout(area):
    return Layout(area / "layout")


# --- What it says of itself


def test_version_and_configuration(cri):
    version = cri.call("Version")
    assert (version.version, version.runtime_name, version.runtime_api_version) == ("0.1.0", "triton", "v1")
    assert re.fullmatch(r"\d+\.\d+\.\d+", version.runtime_version)
    driver = cri.messages.CgroupDriver.Name(cri.call("RuntimeConfig").linux.cgroup_driver)
    assert driver == "CGROUPFS", "the root of the test has no systemd"


def test_status_names_what_is_missing(cri):
    def conditions():
        return {one.type: one for one in cri.call("Status").status.conditions}

    assert conditions()["RuntimeReady"].status
    network = conditions()["NetworkReady"]
    directory = cri.host.root / "etc/cni/net.d"
    assert not network.status
    assert (network.reason, network.message) == ("NetworkNotConfigured", f"no network is configured in {directory}")
    directory.mkdir(parents=True)
    (directory / "10-a.conflist").write_text('{"cniVersion": "0.3.0", "name": "a", "plugins": [{"type": "bridge"}]}')
    assert conditions()["NetworkReady"].status
    assert [handler.name for handler in cri.call("Status").runtime_handlers] == [""]


def test_images_that_cannot_be_used_are_a_condition_which_goes_away(area):
    pool = area / "root/var/triton"
    daemon = Cri(area, configuration='{"storage": {"backend": "zfs"}}')  # without a dataset
    try:
        condition = daemon.call("Status").status.conditions[0]
        assert (condition.type, condition.status, condition.reason) == ("RuntimeReady", False, "ImagesUnavailable")
        assert condition.message
        (daemon.host.root / "etc/triton/triton.json").write_text('{"storage": {"backend": "directory"}}')
        for _ in range(100):  # each asks for another attempt
            if daemon.call("Status").status.conditions[0].status:
                break
        else:
            pytest.fail("the images stay unavailable")
        assert pool.exists()
    finally:
        daemon.close()


def test_all_methods_of_the_protocol_are_known(cri):
    served = 0
    service = ""
    for line in PROTOCOL.read_text().splitlines():
        if line.startswith("service "):
            service = line.split()[1]
        found = re.search(r"rpc (\w+)\((\w+)\) returns \((stream )?", line)
        if not found:
            continue
        served += 1
        name = found[1]
        make = cri.channel.unary_stream if found[3] else cri.channel.unary_unary
        call = make(f"/runtime.v1.{service}/{name}")
        goes_on = name == "GetContainerEvents"  # a stream without an end: our deadline ends it
        try:
            answer = call(b"", timeout=1 if goes_on else PATIENCE)
            assert isinstance(list(answer) if found[3] else answer, (bytes, list))
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                assert error.details() == f"{name} is not served by this version"
            else:
                refused = (grpc.StatusCode.DEADLINE_EXCEEDED,) if goes_on else (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
                assert error.code() in refused, name
    assert served == 46
    assert code_of(lambda: cri.channel.unary_unary("/runtime.v1.RuntimeService/Dance")(b"")) == (
        grpc.StatusCode.UNIMPLEMENTED, '"/runtime.v1.RuntimeService/Dance" is not a method of the container runtime interface')


def test_what_is_not_there(cri):
    assert not cri.call("ListPodSandbox").items
    assert not cri.call("ListContainers").containers
    assert not cri.call("ListContainerStats").stats
    cri.call("StopPodSandbox", request=cri.messages.StopPodSandboxRequest(pod_sandbox_id="x"))
    cri.call("RemovePodSandbox", request=cri.messages.RemovePodSandboxRequest(pod_sandbox_id="../x"))
    cri.call("StopContainer", request=cri.messages.StopContainerRequest(container_id="x"))
    cri.call("RemoveContainer", request=cri.messages.RemoveContainerRequest(container_id="x"))
    for name, member, what in (("ContainerStatus", "container_id", "container"), ("PodSandboxStatus", "pod_sandbox_id", "pod sandbox"),
                               ("StartContainer", "container_id", "container"), ("ReopenContainerLog", "container_id", "container")):
        request = getattr(cri.messages, f"{name}Request")(**{member: "x"})
        assert code_of(lambda: cri.call(name, request=request)) == (grpc.StatusCode.NOT_FOUND, f"{what} x does not exist")
    assert code_of(lambda: cri.call("Attach")) == (grpc.StatusCode.INVALID_ARGUMENT, "missing required container_id")
    assert code_of(lambda: cri.call("CheckpointContainer"))[0] == grpc.StatusCode.UNIMPLEMENTED


def test_bytes_that_are_no_message_are_an_error(cri):
    call = cri.channel.unary_unary("/runtime.v1.ImageService/PullImage")
    assert code_of(lambda: call(b"\xff\xff", timeout=PATIENCE)) == (grpc.StatusCode.INTERNAL, "the request is not a valid message")


# --- The daemon


def test_the_socket_is_for_root(cri):
    status = os.stat(cri.socket)
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert (status.st_uid, status.st_gid) == (0, 0)


def test_there_is_one_daemon(cri):
    second = subprocess.run([PROGRAM], capture_output=True, text=True, env=cri.environment(), timeout=PATIENCE)
    assert second.returncode == 1
    assert second.stderr == f"tritoncrid: cannot start tritoncrid: another one runs and has locked {cri.host.root}/run/triton/cri/lock\n"
    assert cri.call("Version")


def test_a_bad_configuration_is_named(area):
    (area / "root/etc/triton").mkdir(parents=True)
    path = area / "root/etc/triton/triton.json"
    path.write_text('{"cri": {"parallel_pulls": 0}}')
    done = subprocess.run([PROGRAM, "--root", area / "root"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tritoncrid: {path} is not a configuration\n  cri.parallel_pulls: ")


def test_systemd_may_hand_the_socket_over(cri, area):
    """As systemd-socket-activate does: descriptor 3, LISTEN_FDS and our own pid."""
    import socket

    cri.end()
    path = area / "handed"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        script = f'exec 3<&{listener.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0"'
        process = subprocess.Popen(["/bin/bash", "-c", script, str(PROGRAM)], pass_fds=[listener.fileno()], env=cri.environment(),
                                   stderr=cri.log.open("a"))
    try:
        channel = grpc.insecure_channel(f"unix:{path}")
        assert channel.unary_unary("/runtime.v1.RuntimeService/Version")(b"", timeout=PATIENCE, wait_for_ready=True)
        channel.close()
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


# --- Images


def test_an_image_is_pulled_listed_and_removed(cri, registry, layout):
    reference, image_id = publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"}, ["--config.user", "1000:100"])
    assert cri.images() == [] and cri.status(reference) is None
    assert cri.pull(reference) == image_id
    (image,) = cri.images()
    assert image.id == image_id
    assert list(image.repo_tags) == [reference]
    (digest,) = image.repo_digests
    assert re.fullmatch(re.escape(f"{registry.host}/team/app@sha256:") + "[0-9a-f]{64}", digest)
    assert image.size > 0 and image.uid.value == 1000 and image.username == "" and not image.pinned
    for name in (reference, digest, image_id, image_id.split(":")[1], image_id.split(":")[1][:12]):
        assert cri.status(name) == image, name
        assert cri.images(name) == [image], name
    assert cri.status(f"{registry.host}/team/app:2.0") is None
    assert cri.pull(reference) == image_id
    cri.remove(reference)
    assert cri.images() == [] and cri.status(image_id) is None
    cri.remove(reference)
    cri.remove(image_id)
    assert cri.host.layers() == [] and cri.host.blobs() == [] and cri.host.left_over() == []


def test_an_image_has_all_of_its_names(cri, registry, layout):
    first, image_id = publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"})
    second = registry.push(f"oci:{layout.path}:1.0", "other/app:2.0")
    assert cri.pull(first) == cri.pull(second) == image_id
    (image,) = cri.images()
    assert list(image.repo_tags) == sorted([first, second])
    digests = list(image.repo_digests)
    assert [name.split("@")[0] for name in digests] == [f"{registry.host}/other/app", f"{registry.host}/team/app"]
    third = registry.push(f"oci:{layout.path}:1.0", "third/app:1").rsplit(":", 1)[0] + "@" + digests[0].split("@")[1]
    assert cri.pull(third) == image_id
    assert third in cri.status(third).repo_digests
    cri.remove(second)
    assert cri.images() == [], "by any of its names it goes with all"


def test_a_tag_means_what_the_registry_says_now(cri, registry, layout):
    reference, old = publish(registry, layout, "1.0", "team/app:1.0", {"a": "old"})
    assert cri.pull(reference) == old
    _, new = publish(registry, layout, "1.1", "team/app:1.0", {"a": "new"})
    assert cri.pull(reference) == new != old
    assert cri.status(reference).id == new
    left = cri.status(old)
    assert list(left.repo_tags) == [] and len(left.repo_digests) == 1, "kubelet collects it by its id"
    cri.remove(old)
    assert [image.id for image in cri.images()] == [new]


def test_streamed_images_are_the_listed_ones(cri, registry, layout):
    call = cri.channel.unary_stream("/runtime.v1.ImageService/StreamImages",
                                    response_deserializer=cri.messages.StreamImagesResponse.FromString)
    assert list(call(b"", timeout=PATIENCE)) == []
    cri.pull(publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"})[0])
    assert [image for part in call(b"", timeout=PATIENCE) for image in part.images] == cri.images()


def test_images_of_imgadm_are_there_and_pins_count(cri, registry, layout):
    reference, image_id = publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"}, ["--config.user", "www-data"])
    cri.host.run("import", reference)
    image = cri.status(reference)
    assert image.id == image_id and image.username == "www-data" and not image.HasField("uid")
    (uuid,) = cri.host.uuids()
    cri.host.run("pin", uuid)
    assert cri.status(image_id).pinned
    code, text = code_of(lambda: cri.remove(image_id))
    assert code == grpc.StatusCode.FAILED_PRECONDITION and text.startswith(f"image {uuid} is pinned")
    cri.host.run("unpin", uuid)
    cri.remove(image_id)
    assert cri.host.uuids() == []


def test_the_space_of_images_grows_and_shrinks(cri, registry, layout):
    empty = cri.usage()
    assert os.path.isdir(empty.fs_id.mountpoint) and empty.timestamp > 10**18
    reference, image_id = publish(registry, layout, "1.0", "team/app:1.0", {f"file{i}": "x" * 100_000 for i in range(20)})
    cri.pull(reference)
    full = cri.usage()
    assert full.used_bytes.value >= empty.used_bytes.value + 2_000_000
    assert full.inodes_used.value >= empty.inodes_used.value + 20
    cri.remove(image_id)
    after = cri.usage()
    assert after.used_bytes.value < empty.used_bytes.value + 1_000_000
    assert after.inodes_used.value < empty.inodes_used.value + 20


def test_what_is_not_an_image_is_refused(cri, registry):
    assert code_of(lambda: cri.pull("/etc/passwd"))[0] == grpc.StatusCode.INVALID_ARGUMENT
    assert code_of(lambda: cri.pull(""))[0] == grpc.StatusCode.INVALID_ARGUMENT
    assert code_of(lambda: cri.status("A b"))[0] == grpc.StatusCode.INVALID_ARGUMENT
    code, text = code_of(lambda: cri.pull(f"{registry.host}/no/such:1"))
    assert code == grpc.StatusCode.NOT_FOUND and f"{registry.host}" in text


# --- Registries that log in, stall and lie


@pytest.fixture
def server():
    with FaultServer() as started:
        yield started


@pytest.mark.parametrize("auth", [
    {"username": "alice", "password": "pa:ss"},
    {"auth": base64.b64encode(b"alice:pa:ss").decode()},
    {"username": "alice", "password": "pa:ss", "server_address": "HOST"},
], ids=["name", "encoded", "server"])
def test_a_registry_gets_the_credentials_of_the_request(cri, area, server, auth):
    served = Served(area, server, "alice:pa:ss")
    assert code_of(lambda: cri.pull(served.reference))[0] == grpc.StatusCode.PERMISSION_DENIED
    auth = {key: value.replace("HOST", f"127.0.0.1:{server.port}") for key, value in auth.items()}
    assert cri.pull(served.reference, **auth) == served.id
    assert cri.pull(served.reference, **auth) == served.id
    assert cri.status(served.reference).id == served.id, "what is here needs no credentials"
    assert "pa:ss" not in cri.log.read_text()


def test_credentials_of_another_server_are_not_sent(cri, area, server):
    served = Served(area, server, "alice:secret")
    code, _ = code_of(lambda: cri.pull(served.reference, username="alice", password="secret", server_address="other.example"))
    assert code == grpc.StatusCode.PERMISSION_DENIED
    assert not any("Authorization" in headers for _, headers in server.requests)


def test_tokens_of_the_request(cri, area, server):
    """An identity token goes to the token service, which gives one for the registry; a token of the registry goes there itself."""
    served = Served(area, server)
    served.accepted, served.challenge = "Bearer tok-en", f'Bearer realm="{server.url("/token")}",service="reg"'
    asked = []

    def give(request):
        asked.append((request.command, getattr(request, "form", "")))
        request.send(200, b'{"access_token": "tok-en"}')

    server.on("/token", give)
    assert cri.pull(served.reference, identity_token="secret&more") == served.id
    method, form = asked[0]
    assert method == "POST" and "grant_type=refresh_token" in form and "refresh_token=secret%26more" in form
    assert not any("secret" in (header or "") for header in server.headers("Authorization"))
    cri.remove(served.reference)
    asked.clear()
    assert cri.pull(served.reference, registry_token="tok-en") == served.id
    assert not asked, "it is no password for another one"
    assert "secret" not in cri.log.read_text() and "tok-en" not in cri.log.read_text()


def test_two_pulls_of_one_image_are_one(cri, area, server):
    served = Served(area, server)
    waits, goes_on = served.hold_layer()
    first = cri.begin_pull(served.reference)
    assert waits.wait(PATIENCE)
    second = cri.begin_pull(served.reference)
    assert cri.call("Version")  # the second one has arrived
    goes_on.set()
    assert first.result().image_ref == second.result().image_ref == served.id
    assert server.paths().count("/v2/app/manifests/1") == 1


def test_a_pull_that_waits_delays_nobody_and_outlives_its_client(cri, area, server):
    served = Served(area, server)
    waits, goes_on = served.hold_layer()
    pull = cri.begin_pull(served.reference)
    assert waits.wait(PATIENCE)
    for _ in range(5):
        assert cri.images() == [] and cri.call("Status") and cri.usage()
    pull.cancel()
    again = cri.begin_pull(served.reference)
    assert cri.call("Version")
    goes_on.set()
    assert again.result().image_ref == served.id
    assert server.paths().count("/v2/app/manifests/1") == 1, "the second one joins the first one"


def test_images_survive_restarts(cri, area, registry, layout):
    reference, image_id = publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"})
    assert cri.pull(reference) == image_id
    before = cri.images()
    assert cri.end() == 0
    cri.start()
    assert cri.images() == before
    cri.end(signal.SIGKILL)
    cri.start()
    assert cri.images() == before and cri.pull(reference) == image_id
    cri.remove(reference)
    assert cri.images() == []


def test_a_daemon_that_is_killed_during_a_pull_leaves_nothing(cri, area, server):
    served = Served(area, server)
    waits, goes_on = served.hold_layer()
    pull = cri.begin_pull(served.reference)
    assert waits.wait(PATIENCE)
    cri.end(signal.SIGKILL)
    with pytest.raises((grpc.RpcError, grpc.FutureCancelledError)):
        pull.result()
    goes_on.set()
    cri.start()
    assert cri.images() == [] and cri.host.layers() == [] and cri.host.left_over() == []
    assert cri.pull(served.reference) == served.id
    assert len(cri.host.layers()) == 1 and cri.host.left_over() == []


def test_a_signal_gives_pulls_up(cri, area, server):
    served = Served(area, server)
    waits, _ = served.hold_layer()
    pull = cri.begin_pull(served.reference)
    assert waits.wait(PATIENCE)
    cri.process.send_signal(signal.SIGTERM)
    with pytest.raises(grpc.RpcError) as given_up:
        pull.result()
    assert given_up.value.code() == grpc.StatusCode.FAILED_PRECONDITION and given_up.value.details() == "cancelled"
    assert cri.process.wait(PATIENCE) == 0


def test_a_registry_that_is_not_there_has_the_text_that_kubelet_looks_for(cri):
    code, text = code_of(lambda: cri.pull("127.0.0.1:1/app:1"))
    assert code == grpc.StatusCode.UNKNOWN and text.startswith("RegistryUnavailable: ")

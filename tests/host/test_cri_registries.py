"""The servers of registries, as containerd's users configure them: hosts.toml, with real registries and a server that misbehaves."""

import base64
import os
import shutil
import subprocess

import grpc
import pytest
from cri_place import PATIENCE, Cri, Served, code_of, cri, publish  # noqa: F401 (fixture)
from fault_server import FaultServer
from image_place import Layout, Registry, area, free_port, needs_root, program, registry, wait_for_port  # noqa: F401 (fixtures)
from proxy_place import Proxy

pytestmark = needs_root
NAME = "registry.example:5000"  # which does not exist


@pytest.fixture
def layout(area):
    return Layout(area / "layout")


@pytest.fixture
def server():
    with FaultServer() as started:
        yield started


@pytest.fixture
def other():
    with FaultServer() as started:
        yield started


def directory_of(cri, name=NAME):
    place = cri.host.root / "etc/containerd/certs.d" / name
    place.mkdir(parents=True, exist_ok=True)
    return place


def configure(cri, text, name=NAME):
    path = directory_of(cri, name) / "hosts.toml"
    path.write_text(text)
    return path


def warnings(cri):
    return [line for line in cri.log.read_text().splitlines() if "image-warning" in line]


def make_authority(place):
    """An authority, and certificates of a server and of a client by it."""

    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], cwd=place, check=True, capture_output=True, timeout=PATIENCE)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.crt")
    for name in ("server", "client"):
        openssl("req", *key, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-copy_extensions", "copy", "-out", f"{name}.cert")


class SecureRegistry:
    """A second docker-registry on the content of another one, which wants a certificate of its clients."""

    def __init__(self, area, registry):
        self.area = area / "secure"
        self.area.mkdir()
        make_authority(self.area)
        self.host = f"127.0.0.1:{free_port()}"
        configuration = self.area / "config.yml"
        configuration.write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {registry.area / 'data'}}}}}\n"
            f"http: {{addr: '{self.host}', tls: {{certificate: {self.area / 'server.cert'}, key: {self.area / 'server.key'}, "
            f"clientcas: [{self.area / 'ca.crt'}]}}}}\n")
        self.process = subprocess.Popen([program("docker-registry"), "serve", configuration], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_for_port(int(self.host.split(":")[1]), self.process)

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


@pytest.fixture
def secure(area, registry):
    started = SecureRegistry(area, registry)
    yield started
    started.close()


def test_mirrors_are_asked_in_the_order_of_the_file(cri, registry, layout, server):
    _, image_id = publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"})
    configure(cri, f'[host."http://127.0.0.1:1"]\n[host."http://127.0.0.1:{server.port}"]\n[host."http://{registry.host}"]\n')
    assert cri.pull(f"{NAME}/team/app:1.0") == image_id
    (image,) = cri.images()
    assert list(image.repo_tags) == [f"{NAME}/team/app:1.0"], "it is named as it was asked for"
    assert server.paths()[0] == "/v2/team/app/manifests/1.0?ns=registry.example%3A5000"
    first, second = warnings(cri)
    assert f"{NAME}/team/app:1.0: another server is asked: 127.0.0.1:1: " in first
    assert f"another server is asked: http://127.0.0.1:{server.port}/v2/team/app/manifests/1.0 answers 404" in second


def test_the_error_has_what_each_server_said(cri, server, other):
    configure(cri, f'server = "http://127.0.0.1:{other.port}"\n[host."http://127.0.0.1:{server.port}"]\n')
    other.on("/v2/team/app/manifests/1.0", lambda request: request.send(403))
    code, text = code_of(lambda: cri.pull(f"{NAME}/team/app:1.0"))
    assert code == grpc.StatusCode.NOT_FOUND
    assert f"http://127.0.0.1:{server.port}/v2/team/app/manifests/1.0 answers 404" in text
    assert f"http://127.0.0.1:{other.port}/v2/team/app/manifests/1.0 answers 403" in text
    assert server.paths() == ["/v2/team/app/manifests/1.0?ns=registry.example%3A5000", "/v2/"], "it may hide what it has from strangers"


def test_a_mirror_that_does_not_resolve_is_asked_for_digests_only(cri, area, server, other):
    served = Served(area, server)
    other.routes = {path: route for path, route in server.routes.items() if "/blobs/" in path}
    configure(cri, f'server = "http://127.0.0.1:{server.port}"\n[host."http://127.0.0.1:{other.port}"]\ncapabilities = ["pull"]\n')
    assert cri.pull(f"{NAME}/app:1") == served.id
    assert server.paths() == ["/v2/app/manifests/1?ns=registry.example%3A5000"], "a tag means what the registry says"
    assert other.paths() and all("/blobs/" in path or "/manifests/sha256:" in path for path in other.paths())
    assert not warnings(cri)
    configure(cri, 'capabilities = ["pull"]\n')
    assert code_of(lambda: cri.pull(f"{NAME}/app:1")) == (
        grpc.StatusCode.FAILED_PRECONDITION, f"cannot import {NAME}/app:1: no server of it may resolve tags")


def test_certificates_of_a_server_and_of_its_clients(cri, secure, registry, layout):
    _, image_id = publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"})
    name = f"{NAME}/team/app:1.0"
    place = directory_of(cri)
    configure(cri, f'server = "https://{secure.host}"\n')
    code, text = code_of(lambda: cri.pull(name))
    assert code == grpc.StatusCode.PERMISSION_DENIED and secure.host in text and "certificate" in text
    shutil.copy(secure.area / "ca.crt", place / "mine.crt")
    configure(cri, f'server = "https://{secure.host}"\nca = "mine.crt"\n')
    code, text = code_of(lambda: cri.pull(name))
    assert secure.host in text, "it wants a certificate of its client"
    configure(cri, f'server = "https://{secure.host}"\nca = ["mine.crt"]\nclient = [["{secure.area}/client.cert", "{secure.area}/client.key"]]\n')
    assert cri.pull(name) == image_id
    cri.remove(image_id)
    (place / "both.pem").write_text((secure.area / "client.cert").read_text() + (secure.area / "client.key").read_text())
    configure(cri, f'server = "{secure.host}"\nskip_verify = true\nclient = "both.pem"\n')
    assert cri.pull(name) == image_id
    (warning,) = warnings(cri)
    assert f"{NAME}/team/app:1.0: {place} lets https://{secure.host}/v2 have any certificate (skip_verify)" in warning
    assert "PRIVATE KEY" not in cri.log.read_text()


def test_certificates_as_docker_has_them(cri, secure, registry, layout):
    _, image_id = publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"})
    place = directory_of(cri, secure.host.replace(":", "_") + "_")
    for name in ("ca.crt", "client.cert", "client.key"):
        shutil.copy(secure.area / name, place / name)
    # A registry on loopback is asked by plain HTTP, unless imgadm has another address for it.
    cri.host.run("sources", "-f", "-a", f"https://{secure.host}", "-t", "registry")
    assert cri.pull(f"{secure.host}/team/app:1.0") == image_id


def test_headers_and_whole_paths(cri, area, server, other):
    served = Served(area, other)
    other.requests.clear()

    def guarded(path):
        def answer(request):
            if request.headers.get("X-Token") != "secret" or request.headers.get_all("X-More") != ["a", "b"]:
                return request.send(403)
            return request.send(307, Location=f"http://127.0.0.1:{other.port}/v2/app/{path}")
        return answer

    for path in ("manifests/1", f"blobs/{served.id}", f"blobs/{served.layer['digest']}"):
        server.on(f"/cache/app/{path}", guarded(path))
    configure(cri, f'[host."http://127.0.0.1:{server.port}/cache"]\noverride_path = true\ndial_timeout = "5s"\n'
                   f'[host."http://127.0.0.1:{server.port}/cache".header]\nX-Token = "secret"\nX-More = ["a", "b"]\n')
    assert cri.pull(f"{NAME}/app:1") == served.id
    assert other.paths() and other.headers("X-Token") == [None] * len(other.requests), "another host does not see them"


def test_only_the_registry_sees_credentials(cri, area, server, other):
    served = Served(area, server, "alice:secret")
    other.on("/v2/app/manifests/1", lambda request: request.send(401, WWW_Authenticate='Basic realm="test"'))
    configure(cri, f'server = "http://127.0.0.1:{server.port}"\n[host."http://127.0.0.1:{other.port}"]\n')
    assert cri.pull(f"{NAME}/app:1", username="alice", password="secret") == served.id
    assert other.headers("Authorization") == [None] * len(other.requests) and other.requests
    cri.remove(served.id)
    encoded = base64.b64encode(b"alice:secret").decode()
    configure(cri, f'[host."http://127.0.0.1:{server.port}"]\nheader = {{ Authorization = "Basic {encoded}" }}\n')
    assert cri.pull(f"{NAME}/app:1") == served.id
    assert "secret" not in cri.log.read_text() and encoded not in cri.log.read_text()


def test_the_default_is_for_all_that_have_no_directory(cri, registry, layout):
    _, image_id = publish(registry, layout, "1.0", "library/nginx:1.0", {"a": "b"})
    configure(cri, f'[host."http://{registry.host}"]\n', "_default")
    assert cri.pull("nginx:1.0") == image_id
    assert list(cri.status(image_id).repo_tags) == ["docker.io/library/nginx:1.0"]
    assert registry.requests("/v2/library/nginx/manifests/1.0?ns=docker.io")
    configure(cri, 'server = "http://127.0.0.1:1"\n', "docker.io")
    assert code_of(lambda: cri.pull("nginx:1.0"))[0] == grpc.StatusCode.UNKNOWN


@pytest.mark.parametrize("text, wrong", [
    ('server = "https://a.example"\ncapabilites = ["pull"]\n', ':2: unknown key "capabilites"'),
    ('[host."https://a.example"]\n\nmirror = true\n', ':3: unknown key "mirror"'),
    ('capabilities = ["pull", "dance"]\n', ':1: unknown capability "dance"'),
    ('client = [["a", "b"], ["c", "d"]]\n', ":1: client: more than one certificate for a server is not supported"),
    ('skip_verify = "yes"\n', ":1: skip_verify: expected true or false"),
    ('header = { "X Y" = "z" }\n', ':1: "X Y" is not the name of a header'),
    ('header = { X = "a\\r\\nHost: b" }\n', ":1: header.X: has a control character"),
    ('server = "https://user:word@a.example"\n', ":1: source \"https://\": credentials belong in an authfile"),
    ('server = "ftp://a.example"\n', ":1: "),
    ('server = "https://a.example"\nserver = "https://b.example"\n', ":2: "),
    ('host = "x"\n', ":1: host: expected a table"),
    ("= broken\n", ":1: "),
    ("x = " + "[" * 10_000, ":1: "),
    ('ca = "missing.crt"\n', "missing.crt: No such file or directory"),
    ('ca = "hosts.toml"\n', "it has no certificate or key in PEM"),
    ("# " + "x" * 70_000, "it has more than 65536 bytes"),
    ("".join(f'[host."https://h{i}.example"]\n' for i in range(33)), "host: has more than 32 servers"),
])
def test_what_is_wrong_in_a_file_is_named_and_concerns_only_its_registry(cri, registry, layout, text, wrong):
    reference, image_id = publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"})
    path = configure(cri, text)
    code, answer = code_of(lambda: cri.pull(f"{NAME}/team/app:1.0"))
    assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
    assert wrong in answer and str(path.parent) in answer, answer
    assert cri.pull(reference) == image_id


def test_files_that_are_no_files(cri, area, registry, layout):
    reference, image_id = publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"})
    place = directory_of(cri)
    path = place / "hosts.toml"

    def refusal():
        code, text = code_of(lambda: cri.pull(f"{NAME}/team/app:1.0"))
        assert str(place) in text, text
        return code, text

    os.symlink("hosts.toml", path)
    assert "Too many levels of symbolic links" in refusal()[1]
    path.unlink()
    path.mkdir()
    assert "Is a directory" in refusal()[1]
    path.rmdir()
    os.symlink("/dev/zero", path)
    assert "it has more than 65536 bytes" in refusal()[1]
    path.unlink()
    path.write_text('ca = "endless.crt"\n')
    os.symlink("/dev/zero", place / "endless.crt")
    assert "it has more than 1048576 bytes" in refusal()[1]
    path.unlink()
    for name in ("a.cert", "b.cert"):
        (place / name).write_text("x")
    assert "more than one certificate for a server is not supported" in refusal()[1]
    shutil.rmtree(place)
    os.symlink("loop", place.parent / "loop")
    os.symlink("loop", place)
    assert "Too many levels of symbolic links" in refusal()[1]
    place.unlink()
    place.write_text("no directory")
    assert "Not a directory" in refusal()[1]
    assert cri.pull(reference) == image_id


def test_mirrors_are_reached_through_the_proxy(area, server, other, monkeypatch):
    served = Served(area, server, "alice:secret")
    server.on("/v2/", lambda request: request.send(401, WWW_Authenticate=served.challenge))
    with Proxy(server.port) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        daemon = Cri(area, configuration='{"storage": {"backend": "directory"}}')
        try:
            configure(daemon, f'server = "http://origin.example"\n[host."http://127.0.0.1:{other.port}"]\n'
                              '[host."http://mirror.example"]\nheader = { X-Token = "for-mirrors" }\n')
            assert daemon.pull(f"{NAME}/app:1", username="alice", password="secret") == served.id
        finally:
            daemon.close()
        targets = proxy.targets()
        assert "GET http://mirror.example/v2/app/manifests/1?ns=registry.example%3A5000" in targets
        assert "GET http://origin.example/v2/app/manifests/1?ns=registry.example%3A5000" in targets
        assert not any("127.0.0.1" in target for target in targets) and other.paths(), "this machine is asked directly"
    seen = list(zip(server.headers("x-token"), server.headers("authorization")))  # as the proxy spells them
    assert ("for-mirrors", None) in seen and (None, served.accepted) in seen
    assert ("for-mirrors", served.accepted) not in seen, "a mirror sees no credentials, even through the same proxy"


def test_a_file_is_read_for_each_pull_and_may_be_elsewhere(area, registry, layout):
    _, image_id = publish(registry, layout, "1.0", "team/app:1.0", {"a": "b"})
    daemon = Cri(area, configuration='{"storage": {"backend": "directory"}, "cri": {"registry_directory": "/etc/mirrors"}}')
    try:
        configure(daemon, "broken")
        place = daemon.host.root / "etc/mirrors" / NAME
        place.mkdir(parents=True)
        os.mkfifo(place / "hosts.toml")  # without a writer: an empty file
        assert code_of(lambda: daemon.pull(f"{NAME}/team/app:1.0"))[0] == grpc.StatusCode.UNKNOWN
        (place / "hosts.toml").unlink()
        (place / "hosts.toml").write_text(f'server = "http://{registry.host}"\n')
        assert daemon.pull(f"{NAME}/team/app:1.0") == image_id
    finally:
        daemon.close()

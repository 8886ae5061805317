"""The fetcher against real servers: Debian's nginx and docker-registry, on loopback."""

import crypt
import hashlib
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import time

import pytest
from content_place import needs_root, place  # noqa: F401 (fixture)
from fault_server import digest_of

pytestmark = needs_root
CONTENT = random.Random(5).randbytes(40 << 20)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(process, port):
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)


def program(name):
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if not path:
        pytest.skip(f"{name} is not there; ./dev test unpacks it")
    return path


@pytest.fixture
def nginx(place):
    port, web = free_port(), place.directory / "web"
    web.mkdir()
    temporary = "".join(f"{kind}_temp_path {place.directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (place.directory / "nginx.conf").write_text(
        f"daemon off; pid {place.directory}/pid; error_log {place.directory}/error.log; user root; events {{}}"
        f"http {{ access_log {place.directory}/access.log; {temporary} server {{ listen 127.0.0.1:{port}; root {web}; }} }}"
    )
    process = subprocess.Popen([program("nginx"), "-c", place.directory / "nginx.conf"], stderr=subprocess.DEVNULL)
    wait_for_port(process, port)
    yield web, f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()


def test_nginx_gives_ranges(place, nginx):
    web, url = nginx
    (web / "blob").write_bytes(CONTENT)
    blob = place.fetch(url=f"{url}/blob", digest=digest_of(CONTENT), size=len(CONTENT))
    assert blob["digest"] == digest_of(CONTENT)
    assert place.content(blob["digest"]) == CONTENT
    lines = (place.directory / "access.log").read_text().splitlines()
    assert [line.split('"')[2].split()[0] for line in lines] == ["206"] * 3


def test_nginx_has_another_file_by_now(place, nginx):
    web, url = nginx
    (web / "blob").write_bytes(CONTENT[::-1])
    process = place.start("fetch", url=f"{url}/blob", digest=digest_of(CONTENT), size=len(CONTENT), rate=20_000_000, progress=1)
    for line in process.stdout:
        if json.loads(line).get("bytes", 0) > 5_000_000:
            break
    process.kill()
    process.communicate()
    assert place.ingests() != []
    (web / "new").write_bytes(CONTENT)
    os.utime(web / "new", (1, 1))
    (web / "new").rename(web / "blob")
    blob = place.fetch(url=f"{url}/blob", digest=digest_of(CONTENT), size=len(CONTENT))
    assert blob.get("digest") == digest_of(CONTENT), blob
    assert place.content(blob["digest"]) == CONTENT


class Registry:
    def __init__(self, place, port, password=None):
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.storage = place.directory / "registry"
        self.password = password

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        if self.password:
            import base64

            headers["Authorization"] = "Basic " + base64.b64encode(f"alice:{self.password}".encode()).decode()
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 300, (answer.status, text)
        return answer

    def push(self, name, content):
        where = self.ask("POST", f"/v2/{name}/blobs/uploads/").headers["Location"]
        path = where.split(f":{self.port}", 1)[-1]
        self.ask("PUT", f"{path}&digest={digest_of(content)}", content, Content_Type="application/octet-stream")
        return digest_of(content)

    def push_image(self, name, tag, layer):
        config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]}}).encode()
        kind = "application/vnd.oci.image"
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{kind}.manifest.v1+json",
            "config": {"mediaType": f"{kind}.config.v1+json", "digest": self.push(name, config), "size": len(config)},
            "layers": [{"mediaType": f"{kind}.layer.v1.tar", "digest": self.push(name, layer), "size": len(layer)}],
        }
        text = json.dumps(manifest).encode()
        self.ask("PUT", f"/v2/{name}/manifests/{tag}", text, Content_Type=manifest["mediaType"])
        return text

    def file_of(self, digest):
        hex_digits = digest.removeprefix("sha256:")
        return self.storage / "docker/registry/v2/blobs/sha256" / hex_digits[:2] / hex_digits / "data"


@pytest.fixture(params=[None, "correct-horse"], ids=["open", "with-password"])
def registry(place, request):
    port = free_port()
    settings = f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {place.directory}/registry\nhttp:\n  addr: 127.0.0.1:{port}\n"
    if request.param:
        users = place.directory / "users"
        users.write_text("alice:" + crypt.crypt(request.param, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=32)) + "\n")
        settings += f"auth:\n  htpasswd:\n    realm: test\n    path: {users}\n"
        (place.directory / "password").write_text(request.param)
    (place.directory / "registry.yml").write_text(settings)
    process = subprocess.Popen(
        [program("docker-registry"), "serve", place.directory / "registry.yml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for_port(process, port)
    yield Registry(place, port, request.param)
    process.terminate()
    process.wait()


def words_for(registry, place):
    words = {"scope": "repository:library/thing:pull"}
    if registry.password:
        words |= {"host": f"127.0.0.1:{registry.port}", "user": "alice", "password_file": place.directory / "password"}
    return words


def test_a_manifest_and_its_layer_come_from_a_registry(place, registry):
    manifest = registry.push_image("library/thing", "1.0", CONTENT)
    words = words_for(registry, place)
    kinds = ["application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"]
    got = place.run("document", url=f"{registry.url}/v2/library/thing/manifests/1.0", accept=kinds, **words)[-1]
    assert got["digest"] == digest_of(manifest)
    layer = json.loads(got["json"])["layers"][0]
    blob = place.fetch(url=f"{registry.url}/v2/library/thing/blobs/{layer['digest']}", digest=layer["digest"], size=layer["size"], **words)
    assert blob["digest"] == digest_of(CONTENT)
    assert place.content(blob["digest"]) == CONTENT


def test_a_blob_that_rotted_in_the_registry_is_refused(place, registry):
    """It is served with its right headers, Docker-Content-Digest too."""
    registry.push("library/thing", CONTENT)
    file = registry.file_of(digest_of(CONTENT))
    rotten = bytearray(file.read_bytes())
    rotten[len(rotten) // 2] ^= 1
    file.write_bytes(rotten)
    url = f"{registry.url}/v2/library/thing/blobs/{digest_of(CONTENT)}"
    result = place.fetch(url=url, digest=digest_of(CONTENT), size=len(CONTENT), **words_for(registry, place))
    assert result["error"] == "corrupt" and hashlib.sha256(rotten).hexdigest() in result["text"]
    assert place.blobs() == [] and place.ingests() == []

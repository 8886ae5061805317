"""imgadm and what registries and sources answer: whatever it is, a refusal names the place."""

import json
import threading

import pytest
from fault_server import FaultServer
from image_place import Layout, area, fill, host, needs_root  # noqa: F401

pytestmark = needs_root

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
UUID = "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b"
IMGAPI = {"v": 2, "uuid": UUID, "name": "web", "version": "1", "type": "lxd", "os": "linux", "state": "active"}


@pytest.fixture
def server():
    with FaultServer() as started:
        yield started


class Image:
    """An image of a layout, which a test serves as a registry does, or not quite."""

    def __init__(self, area):
        self.layout = Layout(area / "layout")
        self.layout.make("1", [fill(area / "base", {"a": "b"})])
        self.manifest = self.layout.blob(self.layout.descriptor("1")["digest"]).read_bytes()

    def serve(self, server):
        for blob in (self.layout.path / "blobs/sha256").iterdir():
            server.file(f"/v2/app/blobs/sha256:{blob.name}", blob.read_bytes())
        server.on("/v2/app/manifests/1", lambda request: request.send(200, self.manifest, Content_Type=MANIFEST))
        return f"127.0.0.1:{server.port}/app:1"


@pytest.fixture
def image(area):
    return Image(area)


@pytest.mark.parametrize(("body", "kind", "reason"), [
    (b"", MANIFEST, "document is not acceptable JSON"),
    (b"\x1f\x8b\x08\x00", MANIFEST, "document is not acceptable JSON"),
    (b"{}", MANIFEST, "document is neither an image manifest nor an index"),
    (None, INDEX, f'document is not "{INDEX}", as it should be'),
])
def test_a_bad_manifest_is_named(host, server, image, body, kind, reason):
    reference = image.serve(server)
    url = server.url("/v2/app/manifests/1")
    body = image.manifest if body is None else body
    server.on("/v2/app/manifests/1", lambda request: request.send(200, body, Content_Type=kind))
    assert f"imgadm: error (DownloadError): cannot use {url}: {reason}\n" in host.run("import", reference, code=1).stderr


def test_a_layer_that_is_missing_ends_the_import(area, host, server):
    """The others may have gigabytes to come."""
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "base", {"a": "b"}), fill(area / "upper", {"c": "d"})])
    manifest = layout.blob(layout.descriptor("1")["digest"]).read_bytes()
    document = json.loads(manifest)
    slow, missing = (one["digest"] for one in document["layers"])
    is_left = threading.Event()

    def hold(request):
        request.begin(200, document["layers"][0]["size"])
        request.connection.recv(1)  # until the client has gone
        is_left.set()

    server.on("/v2/app/manifests/1", lambda request: request.send(200, manifest, Content_Type=MANIFEST))
    config = document["config"]["digest"]
    server.file(f"/v2/app/blobs/{config}", layout.blob(config).read_bytes())
    server.on(f"/v2/app/blobs/{slow}", hold)
    url = server.url(f"/v2/app/blobs/{missing}")
    said = host.run("import", f"127.0.0.1:{server.port}/app:1", code=1).stderr
    assert said == f"imgadm: error (ResourceNotFound): cannot fetch {url}: {url} answers 404\n"
    # It may have been too early for the other one.
    assert server.paths().count(f"/v2/app/blobs/{slow}") == 0 or is_left.wait(60)


@pytest.mark.parametrize("path", ["/images", f"/images/{UUID}", "/ping", "/index.json"])
def test_a_bad_answer_of_a_source_is_named(host, server, path):
    words = {"/images": ["avail"], f"/images/{UUID}": ["show", UUID], "/ping": ["sources", "-c"], "/index.json": ["avail"]}[path]
    server.on(path, lambda request: request.send(200, b"<html>"))
    host.run("sources", "-f", "-a", server.url(""), "-t", "directory" if "index" in path else "imgapi")
    done = host.run(*words, code=1)
    assert f"cannot use {server.url(path)}: document is not acceptable JSON" in done.stdout + done.stderr


@pytest.mark.parametrize("body", [b"", b"{}", b"true", b"OK"])
def test_a_registry_may_answer_whatever_it_likes_when_it_is_checked(host, server, body):
    server.on("/v2/", lambda request: request.send(200, body))
    host.run("sources", "-a", server.url(""), "-t", "registry")
    assert host.run("sources", "-c").stdout == f"{server.url('')}: ok\n"
    assert host.blobs() == []
    server.on("/v2/", lambda request: request.send(404))
    assert f"{server.url('/v2/')} answers 404" in host.run("sources", "-c", code=1).stdout


def test_one_bad_manifest_of_a_source_does_not_hide_the_others(host, server):
    bad = [{**IMGAPI, "v": 3}, 5, {**IMGAPI, "uuid": "../x"}, {**IMGAPI, "name": "n" * 513}, {}, {**IMGAPI, "files": "x"}]
    server.on("/images", lambda request: request.send(200, json.dumps([*bad, IMGAPI]).encode()))
    host.run("sources", "-f", "-a", server.url(""))
    done = host.run("avail", "-H", "-o", "uuid")
    assert done.stdout == f"{UUID}\n"
    for i in range(len(bad)):
        assert f"imgadm: warning: {server.url('/images')}[{i}] " in done.stderr
    assert len(done.stderr.splitlines()) == len(bad)


def test_a_channel_is_one_value_whatever_is_in_it(host, server):
    server.on("/images", lambda request: request.send(200, b"[]"))
    host.run("sources", "-f", "-a", server.url(""), "--channel", "a&b c#d\u00e9%~")
    host.run("avail")
    assert server.paths() == ["/images?channel=a%26b%20c%23d%C3%A9%25~"]

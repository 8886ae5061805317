"""The blobs of content as volumemgr shows them: BlobStatus, DownloaderStatus, VerifyImageStatus, and Content of a volume."""

import contextlib
import json
import signal
import threading

import pytest
from fault_server import FaultServer
from image_place import Layout, fill
from test_volume_content import DISK, datastore, has_error, is_loaded, sha256, tree
from test_volumeadm import listed, run
from volume_place import (  # noqa: F401 (fixtures)
    PATIENCE, Manager, area, is_created, is_gone, manager, needs_root, uuid, volume,
)

pytestmark = needs_root

BLOB = sha256(DISK)


@contextlib.contextmanager
def half_way(content=DISK):
    """A server that sends half of a file, and the rest when `rest` is set."""
    rest = threading.Event()

    def serve(request):
        begin, end = request.range() or (0, len(content) - 1)
        part = content[begin : end + 1]
        request.begin(206 if request.range() else 200, len(part), ETag='"1"', **({"Content_Range": f"bytes {begin}-{end}/{len(content)}"} if request.range() else {}))
        request.body(part[: len(part) // 2])
        request.wfile.flush()
        rest.wait(PATIENCE)
        request.body(part[len(part) // 2 :])

    with FaultServer() as server:
        server.on("/disk.raw", serve)
        yield server, rest
        rest.set()


def images(area):
    place = area / "images"
    place.mkdir()
    (place / "disk.raw").write_bytes(DISK)
    return datastore("directory", place)


def test_a_blob_is_shown_as_long_as_content_needs_it(manager, area):
    store, config = images(area)
    manager.start()
    client = manager.client()
    client.put(config, tree("first", store, DISK))
    client.wait("ContentTreeStatus", "first", is_loaded)
    status = client.wait("BlobStatus", BLOB, lambda one: one and one["State"] == "LOADED")
    assert status == {"Sha256": BLOB, "State": "LOADED", "RelativeURL": "disk.raw", "TotalSize": len(DISK), "CurrentSize": len(DISK),
                      "Progress": 100, "RefCount": 1}
    client.put(tree("second", store, DISK))
    client.wait("BlobStatus", BLOB, lambda one: one["RefCount"] == 2)
    kinds = {kind for kind, key in client.statuses()}
    assert "DownloaderStatus" not in kinds and "VerifyImageStatus" not in kinds
    # After a kill, and without the program, it is the same.
    manager.end(signal.SIGKILL)
    assert listed(manager, "-k", "blobs", "-o", "sha256,state,refs,url") == [[BLOB, "LOADED", "2", "disk.raw"]]
    manager.start()
    client = manager.client()
    assert client.wait("BlobStatus", BLOB, lambda one: one and one["RefCount"] == 2) == {**status, "RefCount": 2}
    assert json.loads(run(manager, "get", BLOB).stdout)["Sha256"] == BLOB
    client.delete(("ContentTreeConfig", "first"))
    client.wait("BlobStatus", BLOB, lambda one: one["RefCount"] == 1)
    client.delete(("ContentTreeConfig", "second"))
    client.wait("BlobStatus", BLOB, is_gone)


def test_a_volume_lists_what_it_is_made_of(manager, area):
    store, config = images(area)
    manager.start()
    client = manager.client()
    key, wanted = volume(ContentID="disk")
    blank, other = volume()
    client.put(config, tree("disk", store, DISK), wanted, other)
    client.wait("VolumeStatus", key, is_created)
    client.wait("VolumeStatus", blank, is_created)
    status = client.wait("VolumeStatus", key, lambda one: one.get("Content") and one["Content"][0]["State"] == "LOADED")
    assert [one["Sha256"] for one in status["Content"]] == [BLOB]
    statuses = client.statuses("VolumeStatus")
    assert "Content" not in statuses["VolumeStatus", blank]
    manager.end(signal.SIGKILL)
    (offline,) = [one for one in json.loads(run(manager, "list", "-j").stdout) if "Content" in one]
    assert offline["Content"] == status["Content"]


def test_an_image_has_a_blob_for_each_of_its_parts_root_first(manager, area):
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "base", {"etc/a": "first"}), fill(area / "more", {"etc/b": "second"})])
    manager.start()
    client = manager.client()
    store, config = datastore("directory", area)
    key, wanted = volume(ContentID="app")
    client.put(config, tree("app", store, None, "layout:1", "container"), wanted)
    client.wait("VolumeStatus", key, is_created)
    status = client.wait("VolumeStatus", key, lambda one: len(one.get("Content", [])) >= 4)
    root = client.statuses("ContentTreeStatus")["ContentTreeStatus", "app"]["ContentSha256"]
    assert status["Content"][0]["Sha256"] == root
    assert all(one["State"] == "LOADED" for one in status["Content"])
    assert [("layer" in one["MediaType"]) for one in status["Content"]] == [False, False, True, True]
    assert {one["Sha256"] for one in status["Content"]} == set(manager.blobs())
    assert sum(one["TotalSize"] for one in status["Content"]) == sum((manager.state / "content/blobs/sha256" / name).stat().st_size for name in manager.blobs())


def test_what_is_downloaded_is_shown_by_its_downloader(manager):
    with half_way() as (server, rest):
        manager.start()
        client = manager.client()
        store, config = datastore("http", server.url(""))
        key, wanted = volume(ContentID="disk")
        client.put(config, tree("disk", store, DISK), wanted)
        status = client.wait("DownloaderStatus", BLOB, lambda one: one and one["CurrentSize"] > 0)
        assert (status["ImageSha256"], status["Name"], status["State"]) == (BLOB, "disk.raw", "DOWNLOADING")
        assert 0 < status["CurrentSize"] < status["TotalSize"] == len(DISK) and 0 < status["Progress"] < 100
        assert client.statuses("BlobStatus")["BlobStatus", BLOB]["State"] == "DOWNLOADING"
        assert client.wait("VolumeStatus", key, lambda one: bool(one.get("Content")))["Content"][0]["State"] == "DOWNLOADING"
        assert listed(manager, "-k", "downloads", "-o", "sha256,state") == [[BLOB, "DOWNLOADING"]]
        rest.set()
        client.wait("VolumeStatus", key, is_created)
        client.wait("DownloaderStatus", BLOB, is_gone)
        client.wait("VerifyImageStatus", BLOB, is_gone)


def test_a_download_that_fails_says_so_in_its_status(manager):
    with FaultServer() as server:
        manager.start()
        client = manager.client()
        store, config = datastore("http", server.url(""))
        client.put(config, tree("disk", store, DISK))
        status = client.wait("DownloaderStatus", BLOB, has_error)
        assert status["State"] == "DOWNLOADING" and status["Error"]["Class"] == "server"
        blob = client.statuses("BlobStatus")["BlobStatus", BLOB]
        assert blob["Error"] == status["Error"] and ("VerifyImageStatus", BLOB) not in client.statuses()
        server.file("/disk.raw", DISK)
        client.call("Retry")
        client.wait("DownloaderStatus", BLOB, is_gone)
        assert "Error" not in client.statuses("BlobStatus")["BlobStatus", BLOB]


def test_a_verification_that_fails_says_so_in_its_status(manager, area):
    store, config = images(area)
    (area / "key.pub").write_text("untrusted comment: minisign public key E7620F1842B4E81F\nRWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n")
    (area / "key.pub").chmod(0o644)
    manager.start()
    client = manager.client()
    client.put(config, tree("disk", store, DISK, Signature={"Kind": "minisign", "KeyFile": str(area / "key.pub")}))
    status = client.wait("VerifyImageStatus", BLOB, has_error)
    assert (status["ImageSha256"], status["State"], status["Size"]) == (BLOB, "VERIFYING", len(DISK))
    assert "must be signed" in status["Error"]["Text"]
    download = client.statuses("DownloaderStatus")["DownloaderStatus", BLOB]
    assert download["State"] == "DOWNLOADED" and "Error" not in download
    assert listed(manager, "-k", "verifications", "-o", "sha256,state") == [[BLOB, "VERIFYING"]]
    client.put(tree("disk", store, DISK))
    client.wait("VerifyImageStatus", BLOB, is_gone)


def test_what_a_volume_takes_is_a_metric(manager):
    manager.start()
    client = manager.client()
    key, wanted = volume(Layout="file", MaxVolSize=1 << 20)
    client.put(wanted)
    client.wait("VolumeStatus", key, is_created)
    (manager.tree(key) / f"{key}.raw").write_bytes(b"x" * 8192)
    manager.end()
    manager.start()
    status = manager.client().wait("AppDiskMetric", key, lambda one: one is not None)
    assert status == {"VolumeID": key.split("#")[0], "GenerationCounter": 0, "DiskPath": str(manager.state / f"volumes/clear/{key}.raw"),
                      "DiskType": "raw", "ProvisionedBytes": 1 << 20, "UsedBytes": 8192}
    client = manager.client()
    client.delete(("VolumeConfig", key))
    client.wait("AppDiskMetric", key, is_gone)


@pytest.mark.parametrize("kind", ["volumes", "content", "blobs", "downloads", "verifications", "certificates", "users", "snapshots", "disks"])
def test_each_kind_is_listed(kind, manager):
    manager.start()
    (header,) = run(manager, "list", "-k", kind).stdout.splitlines()
    assert header.split()
    assert run(manager, "list", "-k", kind, "-j").stdout == "[]\n"


def test_an_unknown_kind_is_named(manager):
    failed = run(manager, "list", "-k", "bolb", code=2)
    assert failed.stderr.startswith("volumeadm: --kind is one of volumes, content, blobs, ")

"""Volumes of content: fetched, verified, kept, and given up."""

import base64
import contextlib
import hashlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess

import pytest
from fault_server import FaultServer
from image_place import IMGADM, Layout, fill
from volume_place import (  # noqa: F401 (fixtures)
    PATIENCE, Failed, Manager, area, is_created, is_gone, manager, needs_qemu_img, needs_root, uuid, volume,
)

pytestmark = needs_root

ROLES = ("triton-download", "triton-verify", "triton-unpack", "volumemgr")
DISK = random.Random(3).randbytes(300_000)


@pytest.fixture
def server():
    with FaultServer() as started:
        yield started


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def datastore(kind, address, **more):
    config = {"UUID": uuid(), "DsType": kind, "Fqdn": str(address), **more}
    return config["UUID"], ("DatastoreConfig", config)


def tree(name, store, content=None, url="disk.raw", format="raw", **more):
    config = {"ContentID": name, "DatastoreIDList": [store] if isinstance(store, str) else store, "RelativeURL": url,
              "Format": format, **more}
    if content is not None:
        config |= {"ContentSha256": sha256(content), "MaxDownloadSize": len(content)}
    return ("ContentTreeConfig", config)


def is_loaded(status):
    return status is not None and status["State"] == "LOADED" and "Error" not in status


def has_error(status):
    return status is not None and "Error" in status


def imgadm(manager, *words):
    done = subprocess.run([IMGADM, *words], env=manager.environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def owners(manager):
    with contextlib.closing(sqlite3.connect(manager.state / "content/content.db")) as database:
        return sorted(database.execute("SELECT owner_kind, owner_id FROM blob_references"))


def test_a_disk_comes_by_http_and_becomes_a_volume(manager, server):
    server.file("/disks/disk.raw", DISK)
    manager.start()
    client = manager.client()
    store, config = datastore("http", server.url(""), Dpath="disks")
    key, wanted = volume(ContentID="disk", MaxVolSize=1 << 20)
    client.put(wanted, tree("disk", store, DISK), config)
    status = client.wait("VolumeStatus", key, is_created)
    assert (status["ContentFormat"], status["ContentID"]) == ("raw", "disk")
    file = manager.tree(key) / f"{key}.raw"
    assert file.read_bytes() == DISK + bytes((1 << 20) - len(DISK))
    assert owners(manager) == [("contentTree", "disk")]
    assert "contentTree" in imgadm(manager, "why", "sha256:" + sha256(DISK))
    assert imgadm(manager, "gc") == "0 in all, 0 bytes\n"
    assert len(server.requests) == 1
    # What one has written, the next does not see.
    file.write_bytes(b"other")
    other, wanted = volume(ContentID="disk")
    client.put(wanted)
    client.wait("VolumeStatus", other, is_created)
    assert (manager.tree(other) / f"{other}.raw").read_bytes() == DISK
    assert len(server.requests) == 1
    client.delete(("VolumeConfig", key), ("VolumeConfig", other), ("ContentTreeConfig", "disk"))
    client.wait("ContentTreeStatus", "disk", is_gone)
    client.wait("VolumeStatus", key, is_gone)
    client.wait("VolumeStatus", other, is_gone)
    assert owners(manager) == []
    imgadm(manager, "gc")
    assert manager.blobs() == []


@needs_qemu_img
def test_a_disk_of_this_host_keeps_its_format(manager, area):
    (area / "images").mkdir()
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", area / "images/disk.qcow2", "1M"], check=True)
    disk = (area / "images/disk.qcow2").read_bytes()
    manager.start()
    client = manager.client()
    store, config = datastore("directory", area / "images")
    key, wanted = volume(ContentID="disk", ReadOnly=True)
    client.put(config, tree("disk", store, disk, "disk.qcow2", "qcow2"), wanted)
    client.wait("VolumeStatus", key, is_created)
    assert (manager.tree(key) / f"{key}.qcow2").read_bytes() == disk
    assert (manager.state / "volumes/clear" / f"{key}.qcow2").read_bytes() == disk


def test_wrong_bytes_become_no_volume(manager, area):
    (area / "images").mkdir()
    (area / "images/disk.raw").write_bytes(DISK[:-1] + b"x")
    manager.start()
    client = manager.client()
    store, config = datastore("directory", area / "images")
    key, wanted = volume(ContentID="disk")
    client.put(config, tree("disk", store, DISK), wanted)
    status = client.wait("ContentTreeStatus", "disk", has_error)
    assert status["State"] != "LOADED" and status["Error"]["Class"] in ("server", "permanent")
    assert manager.trees() == [] and manager.blobs() == []
    (area / "images/disk.raw").write_bytes(DISK)
    client.call("Retry")
    client.wait("VolumeStatus", key, is_created)


def test_the_next_datastore_is_asked_and_a_new_one_is_tried_at_once(manager, server):
    manager.start()
    client = manager.client()
    bad, bad_config = datastore("http", server.url(""), Dpath="nothing")
    good, good_config = datastore("http", server.url(""), Dpath="disks")
    client.put(bad_config, tree("disk", [bad, good], DISK))
    status = client.wait("ContentTreeStatus", "disk", has_error)
    assert status["Error"]["Class"] == "server"
    lines = client.call("Why", kind="ContentTreeConfig", key="disk")["lines"]
    assert any("the next attempt is in" in line for line in lines), lines
    server.file("/disks/disk.raw", DISK)
    client.put(good_config)
    client.wait("ContentTreeStatus", "disk", is_loaded)


def test_an_image_becomes_a_directory_and_its_tag_is_latched(manager, area):
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "base", {"etc/a": "first"})])
    manager.start()
    client = manager.client()
    store, config = datastore("directory", area)
    key, wanted = volume(ContentID="app")
    client.put(config, tree("app", store, None, "layout:1", "container"), wanted)
    status = client.wait("VolumeStatus", key, is_created)
    assert status["ContentFormat"] == "container"
    assert (manager.tree(key) / "root/etc/a").read_text() == "first"
    digest = client.statuses("ContentTreeStatus")["ContentTreeStatus", "app"]["ContentSha256"]
    # The tag moves; what was resolved stays, also after a kill.
    layout.make("1", [fill(area / "other", {"etc/a": "second"})])
    manager.end(signal.SIGKILL)
    manager.start()
    client = manager.client()
    client.wait("ContentTreeStatus", "app", is_loaded)
    assert client.statuses("ContentTreeStatus")["ContentTreeStatus", "app"]["ContentSha256"] == digest
    other, wanted = volume(ContentID="app")
    client.put(wanted)
    client.wait("VolumeStatus", other, is_created)
    assert (manager.tree(other) / "root/etc/a").read_text() == "first"
    (image,) = imgadm(manager, "list", "-H", "-o", "uuid").split()
    done = subprocess.run([IMGADM, "delete", image], env=manager.environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "contentTree app" in done.stderr
    client.delete(("VolumeConfig", key), ("VolumeConfig", other), ("ContentTreeConfig", "app"))
    client.wait("ContentTreeStatus", "app", is_gone)
    imgadm(manager, "delete", image)


def test_content_can_be_verified_before_a_volume_is_wanted(manager, server):
    server.file("/disk.raw", DISK)
    manager.start()
    client = manager.client()
    store, config = datastore("http", server.url(""))
    key, wanted = volume(ContentID="disk")
    use = {"VolumeID": wanted[1]["VolumeID"], "GenerationCounter": 0, "AppUUID": "web", "VerifyOnly": True}
    client.put(config, ("VolumeRefConfig", use))
    client.put(wanted, tree("disk", store, DISK))
    client.wait("ContentTreeStatus", "disk", is_loaded)
    assert client.wait("VolumeStatus", key, is_loaded)["State"] == "LOADED"
    assert manager.trees() == []
    client.put(("VolumeRefConfig", {**use, "VerifyOnly": False}))
    client.wait("VolumeStatus", key, is_created)


def test_a_kill_in_the_middle_of_a_download_fetches_little_twice(manager, server):
    large = random.Random(4).randbytes(6 << 20)
    server.file("/disk.raw", large, pause=0.02)
    manager.start()
    client = manager.client()
    store, config = datastore("http", server.url(""))
    client.put(config, tree("disk", store, large))
    client.wait("ContentTreeStatus", "disk", lambda status: status is not None and status["CurrentSize"] > len(large) // 2)
    manager.end(signal.SIGKILL)
    manager.start()
    client = manager.client()
    client.wait("ContentTreeStatus", "disk", is_loaded)
    key, wanted = volume(ContentID="disk")
    client.put(wanted)
    client.wait("VolumeStatus", key, is_created)
    assert (manager.tree(key) / f"{key}.raw").read_bytes() == large


def test_promised_room_is_not_downloaded_into(manager, server):
    manager.start()
    client = manager.client()
    free = client.wait("VolumeMgrStatus", "volumemgr", lambda status: status is not None)["RemainingSpace"]
    key, wanted = volume(Layout="file", MaxVolSize=free - (1 << 30))
    client.put(wanted)
    client.wait("VolumeStatus", key, is_created)
    other, wanted = volume(Layout="file", MaxVolSize=2 << 30)
    client.put(wanted)
    assert client.wait("VolumeStatus", other, has_error)["Error"]["Class"] == "room"
    lines = client.call("Why", key=other)["lines"]
    assert any("bytes are promised to others and not written yet" in line for line in lines)
    client.delete(("VolumeConfig", key))
    client.wait("VolumeStatus", other, is_created)


def test_credentials_that_others_can_read_are_refused(manager, server, area):
    secret = area / "secret"
    secret.write_text("user:very-secret-word\n")
    secret.chmod(0o644)
    server.file("/disk.raw", DISK)
    manager.start()
    client = manager.client()
    store, config = datastore("http", server.url(""), CredentialsFile=str(secret))
    client.put(config, tree("disk", store, DISK))
    assert "others than root can read it" in client.wait("ContentTreeStatus", "disk", has_error)["Error"]["Text"]
    secret.chmod(0o600)
    client.call("Retry")
    client.wait("ContentTreeStatus", "disk", is_loaded)
    assert "very-secret-word" not in str(client.statuses())
    assert b"very-secret-word" not in (manager.state / "content/content.db").read_bytes()
    assert "very-secret-word" not in manager.log.read_text()


@pytest.mark.skipif(not shutil.which("systemd-creds"), reason="systemd-creds is not installed")
def test_credentials_can_be_sealed(manager, server, area):
    key = {"SYSTEMD_CREDENTIAL_SECRET": str(area / "key")}  # in place of that of this host

    def seal(name, path):
        subprocess.run(["systemd-creds", "encrypt", "--with-key=host", f"--name={name}", "-", path], env={**os.environ, **key}, check=True,
                       input=b"user:very-secret-word", capture_output=True, timeout=PATIENCE)

    sealed, renamed = area / "store.cred", area / "renamed.cred"
    seal("store.cred", sealed)
    seal("store.cred", renamed)
    right = "Basic " + base64.b64encode(b"user:very-secret-word").decode()
    server.on("/disk.raw", lambda request: request.serve(DISK) if request.headers.get("Authorization") == right
              else request.send(401, WWW_Authenticate='Basic realm="x"'))
    manager.start(env=key)
    client = manager.client()
    store, config = datastore("http", server.url(""), CredentialsFile=str(renamed))
    client.put(config, tree("disk", store, DISK))
    error = client.wait("ContentTreeStatus", "disk", has_error)["Error"]
    assert error["Class"] == "permanent" and "Embedded credential name 'store.cred' does not match" in error["Text"]
    sealed.chmod(0o666)
    client.put((config[0], {**config[1], "CredentialsFile": str(sealed)}))
    client.wait("ContentTreeStatus", "disk", lambda status: "others than root can change it" in (status or {}).get("Error", {}).get("Text", ""))
    sealed.chmod(0o644)
    client.call("Retry")
    client.wait("ContentTreeStatus", "disk", is_loaded)
    assert "very-secret-word" not in str(client.statuses()) + manager.log.read_text()
    assert b"very-secret-word" not in (manager.state / "content/content.db").read_bytes()


def test_what_lies_elsewhere_is_not_a_name(manager):
    manager.start()
    client = manager.client()
    store, _ = datastore("directory", "/srv")
    for url in ("../etc/shadow", "/etc/shadow", "a//b", "a/./b", "a\nb"):
        with pytest.raises(Failed, match="ContentTreeConfig.RelativeURL"):
            client.put(tree("disk", store, DISK, url))


def test_content_that_went_bad_is_fetched_again_when_it_is_needed(manager, server):
    server.file("/disk.raw", DISK)
    manager.start()
    client = manager.client()
    store, config = datastore("http", server.url(""))
    client.put(config, tree("disk", store, DISK))
    client.wait("ContentTreeStatus", "disk", is_loaded)
    (blob,) = manager.blobs()
    path = manager.state / "content/blobs/sha256" / blob
    path.chmod(0o600)
    path.write_bytes(DISK[:-1] + b"x")
    scrubbed = subprocess.run([IMGADM, "scrub"], env=manager.environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert manager.blobs() == [], scrubbed.stderr
    key, wanted = volume(ContentID="disk")
    client.put(wanted)
    client.wait("VolumeStatus", key, is_created)
    assert (manager.tree(key) / f"{key}.raw").read_bytes() == DISK
    assert len(server.requests) == 2


def test_only_the_downloader_has_a_network(manager, server, area):
    """A trace of everything that runs while content comes and becomes a volume."""
    server.file("/disk.raw", DISK)
    trace = area / "trace"
    wrapper = area / "wrapper"
    wrapper.write_text(f"#!/bin/sh\nexec strace -f -y -qq -o {trace} -e trace=socket,execve,execveat {manager.program} \"$@\"\n")
    wrapper.chmod(0o755)
    manager.program = wrapper
    manager.start(idle="100ms")
    client = manager.client()
    store, config = datastore("http", server.url(""))
    key, wanted = volume(ContentID="disk")
    client.put(config, tree("disk", store, DISK), wanted)
    client.wait("VolumeStatus", key, is_created)
    client.close()
    assert manager.process.wait(PATIENCE) == 0
    programs = {}
    talkers = set()
    for line in trace.read_text().splitlines():
        pid, call = line.split(None, 1)
        if call.startswith("execve"):
            programs[pid] = next((name for name in ROLES if name in call), "another program")
        elif call.startswith(("socket(AF_INET", "socket(AF_INET6", "socket(AF_PACKET")):
            talkers.add(programs.get(pid, "volumemgr"))
    assert "triton-verify" in programs.values()
    assert talkers == {"triton-download"}

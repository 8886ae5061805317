"""Encrypted volumes: a vault on fscrypt, which is locked and unlocked, and directories that only look like one."""

import fcntl
import json
import os
import signal
import struct
import subprocess

import pytest
from recorded_disk import mount_fuse
from storage_places import OwnMounts
from test_volume_content import DISK, datastore, has_error, tree
from volume_place import (  # noqa: F401 (fixtures)
    PATIENCE, Failed, Manager, area, is_created, is_gone, needs_root, volume,
)

pytestmark = needs_root

# Source: Linux, include/uapi/linux/fscrypt.h
SET_POLICY, ADD_KEY, REMOVE_KEY = 0x800C6613, 0xC0506617, 0xC0406618
BY_IDENTIFIER = 2
KEY = bytes(range(64))
MARK = b"a word that is nowhere on the disk" * 100


class Vault:
    """A file system with a directory that has a policy; the key can go and come."""

    def __init__(self, area, place):
        self.image = area / "vault.image"
        with self.image.open("wb") as file:
            file.truncate(192 << 20)
        self.run("mkfs.ext4", "-q", "-O", "encrypt", self.image)
        self.mount = area / "vault.mount"
        self.mount.mkdir()
        self.run("mount", "-o", "loop", self.image, self.mount)
        self.identifier = None
        self.unlock()
        (self.mount / "vault").mkdir(mode=0o700)
        policy = struct.pack("<BBBBB3x16s", 2, 1, 4, 3, 0, self.identifier)
        self.call(self.mount / "vault", SET_POLICY, policy)
        place.mkdir()
        self.run("mount", "--bind", self.mount / "vault", place)

    def run(self, *words):
        subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=PATIENCE)

    def call(self, path, number, argument):
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            buffer = bytearray(argument)
            fcntl.ioctl(directory, number, buffer)
            return bytes(buffer)
        finally:
            os.close(directory)

    def unlock(self):
        answer = self.call(self.mount, ADD_KEY, struct.pack("<II32xII32x", BY_IDENTIFIER, 0, len(KEY), 0) + KEY)
        self.identifier = answer[8:24]

    def lock(self):
        os.sync()
        self.call(self.mount, REMOVE_KEY, struct.pack("<II16s16xI20x", BY_IDENTIFIER, 0, self.identifier, 0))


def configure(manager, path="/vault"):
    (manager.root / "etc/triton/triton.json").write_text(
        json.dumps({"storage": {"backend": "directory"}, "volumes": {"vault": {"backend": "directory", "path": path}}}))


@pytest.fixture
def mounts():
    own = OwnMounts()
    yield own
    own.close()


@pytest.fixture
def manager(area, mounts):
    one = Manager(area)
    configure(one)
    yield one
    one.end(signal.SIGKILL)


@pytest.fixture
def vault(area, manager):
    try:
        return Vault(area, manager.root / "vault")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no fscrypt here: {error}")


def in_vault(manager):
    place = manager.root / "vault/volumes/vault"
    return sorted(one.name for one in place.iterdir()) if place.exists() else []


def path_in_vault(manager, key):
    return manager.root / "vault/volumes/vault" / key.replace("#", ".") / "@tree"


def test_an_encrypted_volume_is_in_the_vault_and_nowhere_in_the_clear(manager, vault, area):
    (area / "images").mkdir()
    (area / "images/disk").write_bytes(DISK)
    secret = area / "user-data"
    secret.write_bytes(MARK)
    secret.chmod(0o600)
    manager.start()
    client = manager.client()
    store, config = datastore("directory", area / "images")
    disk, wanted_disk = volume(ContentID="disk", Encrypted=True, MaxVolSize=1 << 20)
    blank, wanted_blank = volume(Encrypted=True)
    clear, wanted_clear = volume()
    client.put(config, tree("disk", store, DISK, "disk"), wanted_disk, wanted_blank, wanted_clear)
    for key in (disk, blank, clear):
        status = client.wait("VolumeStatus", key, lambda status: is_created(status) or has_error(status))
        assert is_created(status), status
    assert in_vault(manager) == sorted(key.replace("#", ".") for key in (disk, blank))
    assert manager.trees() == [clear.replace("#", ".")]
    file = manager.state / "volumes/vault" / f"{disk}.raw"
    assert file.read_bytes()[:len(DISK)] == DISK
    (path_in_vault(manager, blank) / "root/secret").write_bytes(MARK)
    os.sync()
    assert MARK[:34] not in vault.image.read_bytes()
    # Snapshots and clones stay inside.
    client.call("Snapshot", key=blank, name="first")
    clone, wanted = volume(VolumeContentOriginType="clone", Source=blank, Encrypted=True)
    client.put(wanted)
    client.wait("VolumeStatus", clone, is_created)
    assert (path_in_vault(manager, clone) / "root/secret").read_bytes() == MARK
    outside, wanted = volume(VolumeContentOriginType="clone", Source=blank)
    client.put(wanted)
    assert "must be encrypted" in client.wait("VolumeStatus", outside, has_error)["Error"]["Text"]
    client.delete(*(("VolumeConfig", key) for key in (clone, outside, disk, blank)))
    for key in (clone, disk, blank):
        client.wait("VolumeStatus", key, is_gone)
    assert in_vault(manager) == []
    # Nothing of the manager keeps it from being unmounted.
    vault.run("umount", manager.root / "vault")


def test_a_locked_vault_is_waited_for(manager, vault):
    manager.start()
    client = manager.client()
    kept, wanted = volume(Encrypted=True)
    client.put(wanted)
    client.wait("VolumeStatus", kept, is_created)
    client.close()
    manager.end()
    vault.lock()
    manager.start()
    client = manager.client()
    status = client.wait("VolumeStatus", kept, has_error)
    assert status["State"] == "CREATED_VOLUME" and status["Error"]["Class"] == "vault"
    assert "is locked: the key of its fscrypt policy is not there" in status["Error"]["Text"]
    other, wanted = volume(Encrypted=True)
    client.put(wanted)
    status = client.wait("VolumeStatus", other, has_error)
    assert status["State"] == "INITIAL" and "is locked" in status["Error"]["Text"]
    gone, wanted_gone = volume()
    client.put(wanted_gone)
    client.wait("VolumeStatus", gone, is_created)  # the rest works
    assert manager.trees() == [gone.replace("#", ".")]
    client.delete(("VolumeConfig", kept))
    assert client.wait("VolumeStatus", kept, has_error)["Error"]["Class"] == "vault"
    vault.unlock()
    client.wait("VolumeStatus", other, is_created)
    client.wait("VolumeStatus", kept, is_gone)
    assert in_vault(manager) == [other.replace("#", ".")]


@pytest.mark.parametrize("kind", ["missing", "clear", "unmounted"])
def test_what_is_not_encrypted_is_no_vault(kind, manager, vault):
    place = manager.root / "vault"
    if kind != "clear":
        vault.run("umount", place)
    if kind == "missing":
        place.rmdir()
    if kind == "clear":
        configure(manager, "/vault-of-nothing")
        place = manager.root / "vault-of-nothing"
        place.mkdir()
    manager.start()
    client = manager.client()
    key, wanted = volume(Encrypted=True)
    client.put(wanted)
    error = client.wait("VolumeStatus", key, has_error)["Error"]
    assert error["Class"] == "vault"
    assert ("is not there" if kind == "missing" else "is not encrypted: it is in the clear") in error["Text"]
    assert manager.trees() == [] and (kind == "missing" or list(place.iterdir()) == [])


def test_a_vault_that_does_not_answer_holds_up_nobody(manager):
    """Its file system is one that nobody serves, as that of a dead disk or server."""
    place = manager.root / "vault"
    place.mkdir()
    try:
        connection = mount_fuse(place, 0o40700)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    try:
        manager.start()
        client = manager.client()
        encrypted, wanted = volume(Encrypted=True, Layout="file", MaxVolSize=4096)
        client.put(wanted)
        error = client.wait("VolumeStatus", encrypted, has_error)["Error"]
        assert (error["Class"], error["Text"]) == ("vault", "the vault does not answer")
        others = [volume(Layout="file", MaxVolSize=4096) for _ in range(20)]
        client.put(*(config for _, config in others))
        for key, _ in others:
            client.wait("VolumeStatus", key, is_created)
        client.call("Snapshot", key=others[0][0], name="first")
        client.delete(*(("VolumeConfig", key) for key, _ in others))
        for key, _ in others:
            client.wait("VolumeStatus", key, is_gone)
    finally:
        os.close(connection)  # and everything that waits fails
    client.wait("VolumeStatus", encrypted, lambda status: has_error(status) and "is not there" in status["Error"]["Text"])


def test_without_a_vault_nothing_encrypted_is_made(manager):
    (manager.root / "etc/triton/triton.json").write_text(json.dumps({"storage": {"backend": "directory"}}))
    manager.start()
    client = manager.client()
    key, wanted = volume(Encrypted=True)
    client.put(wanted)
    error = client.wait("VolumeStatus", key, has_error)["Error"]
    assert error["Class"] == "vault" and "this host has no vault" in error["Text"]
    assert manager.trees() == []

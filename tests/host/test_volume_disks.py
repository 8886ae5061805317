"""Disk images made by the real programs: which ones become content and volumes, and which ones are refused."""

import json
import shutil
import struct
import subprocess

import pytest
from test_volume_content import datastore, has_error, is_loaded, tree
from volume_place import (  # noqa: F401 (fixtures)
    PATIENCE, area, is_created, manager, needs_qemu_img, needs_root, volume,
)

pytestmark = [needs_root, needs_qemu_img]

SIZE = 4 << 20


def qemu_img(*words):
    subprocess.run(["qemu-img", *words], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)


def create(place, name, driver, *options, size=SIZE):
    path = place / name
    qemu_img("create", "-q", "-f", driver, *options, path, str(size))
    return path


def patch(path, *changes):
    with path.open("r+b") as file:
        for at, content in changes:
            file.seek(at)
            file.write(content)
    return path


@pytest.fixture
def images(area):
    place = area / "images"
    place.mkdir()
    (place / "base").write_bytes(bytes(SIZE))
    return place


def publish(manager, images, disks, **more):
    """Publishes each disk as content and as a volume. `disks`: path and format by name."""
    client = manager.client()
    store, config = datastore("directory", images)
    client.put(config)
    keys = {}
    for name, (path, format) in disks.items():
        keys[name], wanted = volume(ContentID=name, **more)
        client.put(wanted, tree(name, store, path.read_bytes(), path.name, format))
    return client, keys


def test_each_format_stays_what_it_is(manager, images):
    content = images / "content"
    content.write_bytes(b"begin" + bytes(SIZE - 8) + b"end")
    disks = {"raw": (content, "raw")}
    for name, driver, options, format in (
        ("qcow", "qcow", (), "qcow"), ("qcow2", "qcow2", (), "qcow2"), ("qcow2-v2", "qcow2", ("-o", "compat=0.10"), "qcow2"),
        ("qcow2-zstd", "qcow2", ("-c", "-o", "compression_type=zstd"), "qcow2"), ("vmdk", "vmdk", (), "vmdk"),
        ("vmdk-stream", "vmdk", ("-o", "subformat=streamOptimized"), "vmdk"), ("vhd", "vpc", (), "vhd"),
        ("vhd-fixed", "vpc", ("-o", "subformat=fixed"), "vhd"), ("vhdx", "vhdx", (), "vhdx"),
        ("vhdx-fixed", "vhdx", ("-o", "subformat=fixed"), "vhdx"),
    ):
        qemu_img("convert", "-f", "raw", "-O", driver, *options, content, images / name)
        disks[name] = images / name, format
    if shutil.which("xorriso"):
        subprocess.run(["xorriso", "-as", "mkisofs", "-quiet", "-o", images / "iso", content], check=True, timeout=PATIENCE)
        disks["iso"] = images / "iso", "iso"
    manager.start()
    client, keys = publish(manager, images, disks)
    for name, (path, format) in disks.items():
        status = client.wait("VolumeStatus", keys[name], lambda status: is_created(status) or has_error(status))
        assert is_created(status), (name, status)
        assert status["ContentFormat"] == format
        assert (manager.tree(keys[name]) / f"{keys[name]}.{format}").read_bytes() == path.read_bytes(), name


def differencing(path):
    footer = bytearray(path.read_bytes()[-512:])
    struct.pack_into(">II", footer, 60, 4, 0)
    struct.pack_into(">I", footer, 64, ~sum(footer) & 0xFFFFFFFF)
    return patch(path, (0, footer), (path.stat().st_size - 512, footer))


def hostile(images):
    """Disks that an attacker has made: path, format and a part of the reason why each is refused."""
    base = images / "base"
    secret = ("--object", "secret,id=word,data=x")
    flat = images / "flat"
    flat.write_text('# Disk DescriptorFile\nversion=1\nCID=12345678\nparentCID=ffffffff\ncreateType="monolithicFlat"\n'
                    'RW 8 FLAT "/etc/shadow" 0\n')
    vmdk = create(images, "vmdk", "vmdk")
    return {
        "qcow-backing": (create(images, "a", "qcow", "-b", base, "-F", "raw"), "qcow", "backing file"),
        "qcow2-backing": (create(images, "b", "qcow2", "-b", base, "-F", "raw"), "qcow2", "backing file"),
        "qcow2-json": (create(images, "c", "qcow2", "-u", "-b", 'json:{"driver":"file","filename":"/etc/shadow"}', "-F", "raw"),
                       "qcow2", "backing file"),
        "qcow2-data": (create(images, "d", "qcow2", "-o", f"data_file={images}/data"), "qcow2", "external data file"),
        "qcow2-key": (create(images, "e", "qcow2", *secret, "-o", "encrypt.format=aes,encrypt.key-secret=word"), "qcow2",
                      "it is encrypted"),
        "qcow2-huge": (patch(create(images, "f", "qcow2"), (24, struct.pack(">Q", 1 << 63))), "qcow2",
                       "claims 9223372036854775808 bytes"),
        "qcow2-overflow": (patch(create(images, "g", "qcow2"), (40, b"\xff" * 8)), "qcow2", "behind the end"),
        "vmdk-parent": (create(images, "h", "vmdk", "-b", vmdk, "-F", "vmdk"), "vmdk", "it has a parent"),
        "vmdk-flat": (flat, "vmdk", "not an image of format vmdk"),
        "vmdk-hint": (patch(create(images, "i", "vmdk"), (12, bytes(8))), "vmdk", "no capacity"),
        "vhd-parent": (differencing(create(images, "j", "vpc")), "vhd", "it has a parent"),
        "raw-qcow2": (create(images, "k", "qcow2"), "raw", "another format: qcow2"),
        "raw-flat": (flat, "raw", "another format: vmdk"),
        "iso-raw": (base, "iso", "not an image of format iso"),
        "vhdx-raw": (base, "vhdx", "not an image of format vhdx"),
    }


def test_an_image_that_names_a_file_never_becomes_content(manager, images):
    disks = hostile(images)
    manager.start()
    client, keys = publish(manager, images, {name: disk[:2] for name, disk in disks.items()})
    for name, (_, _, reason) in disks.items():
        status = client.wait("ContentTreeStatus", name, has_error)
        assert reason in status["Error"]["Text"], name
        assert status["Error"]["Class"] == "permanent" and status["State"] != "LOADED", name
        assert client.wait("VolumeStatus", keys[name], has_error)["State"] != "CREATED_VOLUME", name
    assert manager.trees() == []
    assert "SIGSYS" not in manager.log.read_text()


def test_a_corrected_format_is_tried_at_once_and_not_downloaded_again(manager, images):
    disk = create(images, "disk", "qcow2")
    manager.start()
    client, keys = publish(manager, images, {"disk": (disk, "raw")})
    client.wait("ContentTreeStatus", "disk", has_error)
    content = disk.read_bytes()
    disk.unlink()
    store, config = datastore("directory", images)
    client.put(config, tree("disk", store, content, "disk", "qcow2"))
    client.wait("ContentTreeStatus", "disk", is_loaded)
    client.wait("VolumeStatus", keys["disk"], is_created)


def test_the_disk_must_fit_and_not_only_its_file(manager, images):
    disk = create(images, "disk", "qcow2", size=1 << 30)
    manager.start()
    client, keys = publish(manager, images, {"disk": (disk, "qcow2")}, MaxVolSize=1 << 29)
    error = client.wait("VolumeStatus", keys["disk"], has_error)["Error"]
    assert error == {"Class": "permanent", "Text": "its disk has 1073741824 bytes, and MaxVolSize is 536870912"}
    assert manager.trees() == []


def allocated(path):
    return path.stat().st_blocks * 512


def test_content_of_any_format_becomes_raw(manager, images):
    content = images / "content"
    content.write_bytes(b"begin" + bytes(SIZE - 8) + b"end")
    disks = {}
    for driver, format in (("qcow", "qcow"), ("qcow2", "qcow2"), ("vmdk", "vmdk"), ("vpc", "vhd"), ("vhdx", "vhdx")):
        qemu_img("convert", "-f", "raw", "-O", driver, content, images / format)
        disks[format] = images / format, format
    disks["raw"] = content, "raw"
    manager.start()
    client, keys = publish(manager, images, disks, Format="raw", MaxVolSize=16 << 20)
    for name in disks:
        status = client.wait("VolumeStatus", keys[name], lambda status: is_created(status) or has_error(status))
        assert is_created(status), (name, status)
        assert status["ContentFormat"] == "raw"
        made = manager.tree(keys[name]) / f"{keys[name]}.raw"
        assert made.stat().st_size == 16 << 20 and made.stat().st_mode & 0o777 == 0o600
        with made.open("rb") as file:
            assert file.read(len(content.read_bytes())) == content.read_bytes(), name
            assert not file.read().strip(b"\0"), name
        assert name == "raw" or allocated(made) < 1 << 20, name  # what was a hole stays one
    # The format is that of the beginning: another one needs a new generation.
    _, wanted = volume(int(keys["qcow2"].split("#")[0][-12:], 16), ContentID="qcow2", MaxVolSize=16 << 20)
    client.put(wanted)
    client.wait("VolumeStatus", keys["qcow2"], lambda status: not has_error(status))


def virtual_size(path, format="qcow2"):
    done = subprocess.run(["qemu-img", "info", "--output=json", "-f", format, path], check=True, capture_output=True, timeout=PATIENCE)
    return json.loads(done.stdout)["virtual-size"]


def test_a_qcow2_grows_when_nobody_writes_it(manager, images):
    content = images / "content"
    content.write_bytes(b"begin" + bytes(SIZE - 8) + b"end")
    qemu_img("convert", "-f", "raw", "-O", "qcow2", content, images / "disk.qcow2")
    manager.start()
    client, keys = publish(manager, images, {"disk": (images / "disk.qcow2", "qcow2")}, MaxVolSize=SIZE)
    key = keys["disk"]
    client.wait("VolumeStatus", key, is_created)
    wanted = client.call("Get", kind="VolumeConfig", key=key)["object"]
    file = manager.tree(key) / f"{key}.qcow2"

    def grow(size):
        client.put(("VolumeConfig", {**wanted, "MaxVolSize": size}))

    def has_grown(size):
        return lambda status: is_created(status) and status["MaxVolSize"] == size and not has_error(status)

    grow(64 << 20)
    client.wait("VolumeStatus", key, has_grown(64 << 20))
    assert virtual_size(file) == 64 << 20 and file.stat().st_mode & 0o7777 == 0o600
    reference = {"VolumeID": wanted["VolumeID"], "GenerationCounter": 0, "AppUUID": "vm"}
    client.put(("VolumeRefConfig", reference))
    grow(1 << 30)
    error = client.wait("VolumeStatus", key, has_error)["Error"]
    assert error["Text"] == "a qcow2 file grows when nobody writes it, and it is used by vm"
    assert virtual_size(file) == 64 << 20
    client.delete(("VolumeRefConfig", f"{key}#vm"))
    client.wait("VolumeStatus", key, has_grown(1 << 30))
    assert virtual_size(file) == 1 << 30
    qemu_img("convert", "-f", "qcow2", "-O", "raw", file, images / "read")
    with (images / "read").open("rb") as read:
        assert read.read(SIZE) == content.read_bytes() and not read.read(SIZE).strip(b"\0")


def test_a_qcow2_that_its_user_has_changed_leads_nowhere(manager, images):
    """Its header names another file since: it is not followed, and nothing of it changes."""
    disk = create(images, "disk", "qcow2")
    manager.start()
    client, keys = publish(manager, images, {"disk": (disk, "qcow2")}, MaxVolSize=SIZE)
    key = keys["disk"]
    client.wait("VolumeStatus", key, is_created)
    file = manager.tree(key) / f"{key}.qcow2"
    qemu_img("rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", str(images / "base"), file)
    before = file.read_bytes()
    wanted = client.call("Get", kind="VolumeConfig", key=key)["object"]
    client.put(("VolumeConfig", {**wanted, "MaxVolSize": 2 * SIZE}))
    error = client.wait("VolumeStatus", key, has_error)["Error"]
    assert error["Class"] == "permanent" and "it names another file" in error["Text"]
    assert file.read_bytes() == before


def test_other_formats_do_not_grow(manager, images):
    disk = create(images, "disk", "vmdk")
    manager.start()
    client, keys = publish(manager, images, {"disk": (disk, "vmdk")}, MaxVolSize=SIZE)
    client.wait("VolumeStatus", keys["disk"], is_created)
    wanted = client.call("Get", kind="VolumeConfig", key=keys["disk"])["object"]
    client.put(("VolumeConfig", {**wanted, "MaxVolSize": 2 * SIZE}))
    error = client.wait("VolumeStatus", keys["disk"], has_error)["Error"]
    assert error["Text"] == "vmdk files cannot grow; generation 1 is needed"


def test_a_broken_image_becomes_no_volume(manager, images):
    """Its header is right; what follows leads nowhere."""
    qemu_img("convert", "-f", "raw", "-O", "qcow2", "-c", images / "base", images / "base.qcow2")
    disk = create(images, "disk", "qcow2")
    length = disk.stat().st_size
    patch(disk, (length - 8, struct.pack(">Q", 1 << 63 | 512)))
    manager.start()
    client, keys = publish(manager, images, {"disk": (disk, "qcow2")}, Format="raw")
    error = client.wait("VolumeStatus", keys["disk"], has_error)["Error"]
    assert error["Class"] == "permanent" and "run qemu-img" in error["Text"]
    assert "/var/" not in error["Text"] and manager.left_over() == []


def test_a_conversion_sees_two_files_and_no_network(manager, images, area):
    """A trace of qemu-img in its sandbox."""
    trace = area / "trace"
    wrapper = area / "wrapper"
    wrapper.write_text(f"#!/bin/sh\nexec strace -f -qq -o {trace} -e trace=openat,open,socket,execve,pwrite64,connect {manager.program} \"$@\"\n")
    wrapper.chmod(0o755)
    manager.program = wrapper
    disk = create(images, "disk", "qcow2")
    manager.start(idle="100ms")
    client, keys = publish(manager, images, {"disk": (disk, "qcow2")}, Format="raw")
    client.wait("VolumeStatus", keys["disk"], is_created)
    client.close()
    assert manager.process.wait(PATIENCE) == 0
    calls = [line.split(None, 1) for line in trace.read_text().splitlines()]
    (begin,) = [index for index, (_, call) in enumerate(calls) if call.startswith('execve("/usr/bin/qemu-img"')]
    pid = calls[begin][0]
    opened = {call.split('"')[1] for own, call in calls[begin:] if own == pid and call.startswith(("open", "openat")) and "= -1" not in call}
    assert {"/image", "/target"} <= opened
    assert all(path in ("/image", "/target") or path.startswith(("/usr/", "/lib", "/etc/ld.so.cache", "/proc/", "/sys/", "/dev/")) for path in opened)
    assert not any(call.startswith(("socket", "connect")) for own, call in calls[begin:] if own == pid)

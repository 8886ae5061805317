"""The life of a machine on each storage backend that is better than copies: all that touches its tree."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import BUILD, IS_VM, TINY, TINY_SCRIPT, Vmadm, install
from test_machines import BUSYBOX, left_of, new_uuid, payload, sleeping
from test_vminfod import Vminfod, change
from testhost import TestHost

from harness.process import eventually

sys.path.insert(0, str(Path(__file__).parents[1]))
from storage_places import Lacking, OwnMounts, Place  # noqa: E402

# systemd-nspawn marks a tree that it is giving to other uids by uid 0xfffe0000, which zfs-fuse cannot store (OpenZFS can). So its
# work is done before it: it leaves a tree alone that is its machine's already.
GIVE_TREE = """#!/bin/sh
first=$(sed -n 's/^PrivateUsers=\\([0-9]*\\):.*/\\1/p' /run/systemd/nspawn/$1.nspawn)
find /srv/machines/$1/root | while read -r file; do
    chown -h $((first + $(stat -c %u "$file") % 65536)):$((first + $(stat -c %g "$file") % 65536)) "$file"
done
"""
OTHER = "5e6a4c11-0c2f-4a44-8c1f-000000000003"


@contextlib.contextmanager
def booted(backend, *options):
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="triton-testhost-") as directory:
        host = TestHost(f"triton-{backend}-{os.getpid()}", Path(directory), BUILD, options)
        try:
            host.install_package(Path(directory) / "package")
            yield host
        finally:
            host.stop()


@contextlib.contextmanager
def host_on_mount(backend):
    """A host whose pool is on a file system of its own; mounted in a namespace of this process."""
    mounts = OwnMounts()
    try:
        place = Place(backend, size="600M")
    except Lacking as reason:
        mounts.close()
        pytest.skip(str(reason))
    try:
        with booted(backend, f"--bind={place.root}:/srv") as host:
            yield host, {"backend": backend, "path": "/srv/pool"}
    finally:
        place.close()
        mounts.close()


def copy_program(host, name):
    """With the libraries that the host lacks."""
    program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") or pytest.skip(f"{name} is not installed")
    shutil.copy(program, host.path("/usr/sbin"))
    linked = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    for library in re.findall(r"/\S+\.so\S*", linked):
        inside = host.path("/usr/lib/x86_64-linux-gnu") / Path(library).name
        if not inside.exists():
            shutil.copy(os.path.realpath(library), inside)


@contextlib.contextmanager
def host_on_zfs():
    """A host with a zfs-fuse of its own."""
    with booted("zfs") as host:
        for name in ("zfs-fuse", "zfs", "zpool"):
            copy_program(host, name)
        # It writes there after a rollback: nothing that a test may do to the machine below.
        host.run("sh", "-ec", "mkdir -p /run/lock /var/lib/zfs; touch /run/drop_caches; mount --bind /run/drop_caches /proc/sys/vm/drop_caches;"
                 "systemd-run --quiet --unit zfs-fuse zfs-fuse --no-daemon", check=True)
        eventually(lambda: host.run("zpool", "list").returncode == 0, "zfs-fuse answers")
        host.run("sh", "-ec", "truncate -s 600M /root/disk; zpool create -m none tank /root/disk", check=True)
        host.run("install", "-m", "755", "/dev/stdin", "/usr/local/bin/give-tree", input=GIVE_TREE, check=True)
        drop_in = "/etc/systemd/system/systemd-nspawn@.service.d"
        host.run("mkdir", "-p", drop_in, check=True)
        host.run("tee", f"{drop_in}/give-tree.conf", input="[Service]\nExecStartPre=/usr/local/bin/give-tree %i\n", check=True)
        host.run("systemctl", "daemon-reload", check=True)
        yield host, {"backend": "zfs", "path": "/srv", "dataset": "tank/pool"}


@contextlib.contextmanager
def host_in_vm(host):
    """It has OpenZFS, and no image yet."""
    yield host, host.CONFIGURATION["storage"]


@pytest.fixture(scope="module", params=["openzfs"] if IS_VM else ["reflink", "btrfs", "zfs"])
def pool_host(request):
    if request.param == "openzfs":
        place = host_in_vm(request.getfixturevalue("host"))
    else:
        place = host_on_zfs() if request.param == "zfs" else host_on_mount(request.param)
    with place as (host, storage):
        host.run("mkdir", "-p", "/etc/triton", check=True)
        host.run("tee", "/etc/triton/triton.json", input=json.dumps({"storage": storage}), check=True)
        install(host, TINY, "tiny", TINY_SCRIPT)
        install(host, OTHER, "other", TINY_SCRIPT + "; touch $1/etc/other")
        host.run("systemctl", "restart", "vminfod.service", check=True)  # it knows the pool that it was started with
        yield host


def test_the_life_of_a_machine(pool_host):
    host, vmadm, uuid = pool_host, Vmadm(pool_host), new_uuid()
    vmadm.ok("create", payload=payload(TINY, uuid=uuid, alias="vm", launch=sleeping()))
    assert json.loads(vmadm.ok("get", "vm"))["zonepath"].startswith("/var/triton/pool/" if IS_VM else "/srv/")

    def mark(text):
        vmadm.ok("exec", "vm", BUSYBOX, "sh", "-c", f"echo {text} >/etc/mark")

    def marked(name="vm"):
        return vmadm.ok("exec", name, BUSYBOX, "cat", "/etc/mark")

    mark("one")
    vmadm.ok("create-snapshot", "vm", "one")
    mark("two")
    vmadm.ok("create-snapshot", "vm", "two")
    vmadm.ok("clone", "vm", "alias=copy")
    vmadm.ok("clone", "vm", "--snapshot", "one", "alias=older")
    assert (marked("copy"), marked("older")) == ("two\n", "one\n")
    vmadm.ok("rollback-snapshot", "vm", "one")
    assert marked() == "one\n"
    assert [snapshot["name"] for snapshot in json.loads(vmadm.ok("get", "vm"))["snapshots"]] == ["one"]

    host.run("sh", "-ec", "vmadm -q send vm >/var/tmp/stream", check=True)
    vmadm.ok("delete", "vm")
    assert left_of(host, uuid) == []
    assert (marked("copy"), marked("older")) == ("two\n", "one\n")
    vmadm.ok("receive", "-f", "/var/tmp/stream")
    vmadm.ok("start", "vm")
    assert marked() == "one\n"

    vmadm.ok("reprovision", "vm", payload=json.dumps({"image_uuid": OTHER}))
    assert vmadm("exec", "vm", BUSYBOX, "sh", "-c", "test -e /etc/other && ! test -e /etc/mark").returncode == 0
    assert host.run("imgadm", "delete", OTHER).returncode == 1
    vmadm.ok("delete", "vm", "copy", "older")
    host.run("imgadm", "delete", OTHER, check=True)
    host.run("imgadm", "delete", TINY, check=True)
    if host.run("zfs", "list").returncode == 0:
        left = host.run("zfs", "list", "-H", "-o", "name", "-t", "all", check=True).stdout.split()
        assert not [name for name in left if "@" in name or name.count("/") > 2], left
    else:
        assert host.run("ls", "/srv/pool").stdout == "@pool\n"


@pytest.mark.not_in_vm("OpenZFS refuses a quota below what a tree holds")
@pytest.mark.parametrize("pool_host", ["btrfs"], indirect=True)
def test_a_machine_that_holds_more_than_its_quota_can_be_changed(pool_host):
    """Its owner, or a quota that was set too low, must not make a machine that nobody can change, stop or roll back."""
    host, vmadm, uuid = pool_host, Vmadm(pool_host), new_uuid()
    vmadm.ok("create", payload=payload(TINY, uuid=uuid, quota=1, launch=sleeping()))
    tree = json.loads(vmadm.ok("get", uuid))["zonepath"]
    vmadm.ok("exec", uuid, BUSYBOX, "dd", "if=/dev/urandom", "of=/filler", "bs=1M", "count=8")
    host.run("sync", check=True)

    host.run("btrfs", "qgroup", "limit", "4M", tree, check=True)
    code, text = vmadm.says("exec", uuid, BUSYBOX, "sh", "-c", "echo x >/more")
    assert code != 0 and "Disk quota exceeded" in text
    vmadm.ok("update", uuid, payload=json.dumps({"set_tags": {"a": 1}, "alias": "full"}))
    assert (machine := json.loads(vmadm.ok("get", "full")))["tags"] == {"a": 1} and machine["quota"] == 1
    code, text = vmadm.says("exec", uuid, BUSYBOX, "sh", "-c", "echo x >/more")
    assert code != 0 and "Disk quota exceeded" in text  # that quota is in force again
    vmadm.ok("create-snapshot", uuid, "s")
    vmadm.ok("rollback-snapshot", uuid, "s")
    vmadm.ok("clone", uuid, "alias=copy")
    vmadm.ok("stop", uuid)
    vmadm.ok("update", uuid, "quota=2")
    vmadm.ok("start", uuid)
    vmadm.ok("delete", uuid, "copy")
    assert left_of(host, uuid) == []


# How native tools limit a tree: as vmadm does, by their other kind of limit, and not at all.
NATIVE = {
    "btrfs": (("btrfs", "qgroup", "limit", "8G", "{tree}"), ("btrfs", "qgroup", "limit", "-e", "7G", "{tree}"),
              ("btrfs", "qgroup", "limit", "none", "{tree}")),
    "zfs": tuple(("zfs", "set", limit, "tank/pool/machines/{uuid}") for limit in ("refquota=8G", "quota=7G", "refquota=none")),
}


@pytest.mark.not_in_vm("test_on_openzfs.py has the same with the events of OpenZFS")
@pytest.mark.parametrize("pool_host, tools", NATIVE.items(), indirect=["pool_host"], ids=NATIVE)
def test_a_quota_of_a_native_tool_is_shown_told_and_kept(pool_host, tools):
    host, vmadm, vminfod, uuid = pool_host, Vmadm(pool_host), Vminfod(pool_host), new_uuid()
    as_ours, other, none = tools
    vmadm.ok("create", payload=payload(TINY, uuid=uuid, alias="limited", autoboot=False, quota=10))
    tree = json.loads(vmadm.ok("get", uuid))["zonepath"]
    record = f"/var/triton/vmadm/machines/{uuid}.json"

    def limit(tool, seen):
        host.run(*(word.format(tree=tree, uuid=uuid) for word in tool), check=True)
        with vminfod.events(f"?vm={uuid}") as events:
            host.run("vminfo", "vm", "--fresh", uuid, check=True)
            events.until(change("quota", seen))
        return quota()

    def quota():
        """With vminfod and without it."""
        told = json.loads(vmadm.ok("get", uuid))["quota"]
        host.run("systemctl", "stop", "vminfod.socket", "vminfod.service", check=True)
        try:
            assert json.loads(vmadm.ok("get", uuid))["quota"] == told
            assert vmadm.ok("list", "-p", "-o", "quota", f"uuid={uuid}") == f"{told}\n"
        finally:
            host.run("systemctl", "reset-failed", "vminfod.socket", "vminfod.service")  # so many starts in a row are too many for it
            host.run("systemctl", "start", "vminfod.socket", "vminfod.service", check=True)
        return told

    assert limit(as_ours, 8) == 8
    vmadm.ok("update", uuid, "alias=renamed")
    assert quota() == 8 and json.loads(host.run("cat", record, check=True).stdout)["quota"] == 10
    assert limit(other, 7) == 7
    vmadm.ok("update", uuid, "alias=again")
    assert quota() == 7
    vmadm.ok("update", uuid, "quota=10")
    assert quota() == 10
    assert limit(none, 0) == 0
    vmadm.ok("update", uuid, "alias=free")
    assert quota() == 0
    vmadm.ok("update", uuid, "quota=9")
    assert quota() == 9 and json.loads(host.run("cat", record, check=True).stdout)["quota"] == 9
    vmadm.ok("delete", uuid)


@pytest.mark.not_in_vm("nothing can stop OpenZFS, which is a part of the kernel")
@pytest.mark.parametrize("pool_host", ["zfs"], indirect=True)
def test_zfs_keeps_a_tree_as_it_is_asked_to(pool_host):
    host, vmadm, uuid = pool_host, Vmadm(pool_host), new_uuid()
    def values():
        return host.run("zfs", "get", "-Hp", "-o", "value,source", "compression,recordsize", f"tank/pool/machines/{uuid}", check=True).stdout

    vmadm.ok("create", payload=payload(TINY, uuid=uuid, autoboot=False, zfs_root_compression="gzip-9", zfs_root_recsize=8192))
    assert values() == "gzip-9\tlocal\n8192\tlocal\n"
    vmadm.ok("create-snapshot", uuid, "s")
    (snapshot,) = json.loads(vmadm.ok("get", uuid))["snapshots"]
    assert snapshot["name"] == "s" and snapshot["size"] >= 0 and snapshot["created_at"] > "2020"
    code, text = vmadm.says("update", uuid, payload='{"zfs_root_compression": "on", "zfs_root_recsize": null}')
    assert (code, text) == (0, f"Successfully updated VM {uuid}\n")
    assert values().splitlines()[0] == "on\tlocal" and "local" not in values().splitlines()[1]
    # what this ZFS does not have is said
    code, text = vmadm.says("update", uuid, "zfs_snapshot_limit=9")
    assert code == 0 and text.startswith("zfs_*: they are stored, but not in force: "), text
    vmadm.ok("delete", uuid)


@pytest.mark.parametrize("pool_host", ["zfs"], indirect=True)
def test_a_pool_that_hangs_is_told_and_what_was_known_is_served(pool_host):
    host, vmadm, vminfod, uuid = pool_host, Vmadm(pool_host), Vminfod(pool_host), new_uuid()
    vmadm.ok("create", payload=payload(TINY, uuid=uuid, alias="known", autoboot=False))
    record = f"/var/triton/vmadm/machines/{uuid}.json"

    def state_of_vminfod():
        return json.loads(host.run("vminfo", "status", "-j", check=True).stdout)["state"]

    def signal_pool(name):
        host.run("systemctl", "kill", "--kill-whom=main", f"--signal={name}", "zfs-fuse.service", check=True)

    signal_pool("STOP")
    try:
        host.run("sh", "-ec", f"cp {record} /var/tmp/again; mv /var/tmp/again {record}", check=True)  # a reason to look
        eventually(lambda: state_of_vminfod() == "stuck", "the hanging look is told", timeout=120)
        assert f"has been reading {uuid}" in vminfod.get("/status")["status"]
        fresh = host.run("vminfo", "vm", "--fresh", uuid)
        assert (fresh.returncode, fresh.stdout) == (1, "") and f"has been reading {uuid}" in fresh.stderr
        host.run("vminfo", "ping", check=True)
        assert json.loads(vmadm.ok("get", "known"))["uuid"] == uuid
        assert [vm["uuid"] for vm in vminfod.get("/vms?alias=known")] == [uuid]
    finally:
        signal_pool("CONT")
    eventually(lambda: state_of_vminfod() == "running", "the look has ended")
    vmadm.ok("update", "known", "alias=later")
    assert vminfod.get(f"/vms/{uuid}")["alias"] == "later"
    said = host.run("journalctl", "--output=cat", "--unit=vminfod.service", check=True).stdout
    assert said.index('"event":"stuck"') < said.index('"event":"goes-on"')
    vmadm.ok("delete", "later")

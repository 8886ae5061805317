"""The life of a machine on each storage backend that is better than copies: all that touches its tree."""

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import BUILD, TINY, TINY_SCRIPT, Vmadm, install
from test_machines import BUSYBOX, left_of, new_uuid, payload, sleeping
from testhost import TestHost

sys.path.insert(0, str(Path(__file__).parents[1]))
from storage_places import Lacking, OwnMounts, Place  # noqa: E402

OTHER = "5e6a4c11-0c2f-4a44-8c1f-000000000003"


@pytest.fixture(scope="module", params=["reflink", "btrfs"])
def pool_host(request):
    """A host whose pool is on a file system of its own; mounted in a namespace of this process."""
    mounts = OwnMounts()
    try:
        place = Place(request.param, size="600M")
    except Lacking as reason:
        mounts.close()
        pytest.skip(str(reason))
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="triton-testhost-") as directory:
        host = TestHost(f"triton-{request.param}-{os.getpid()}", Path(directory), BUILD, (f"--bind={place.root}:/srv",))
        try:
            host.install_package(Path(directory) / "package")
            host.run("mkdir", "-p", "/etc/triton", check=True)
            configuration = {"storage": {"backend": request.param, "path": "/srv/pool"}}
            host.run("tee", "/etc/triton/triton.json", input=json.dumps(configuration), check=True)
            install(host, TINY, "tiny", TINY_SCRIPT)
            install(host, OTHER, "other", TINY_SCRIPT + "; touch $1/etc/other")
            host.run("systemctl", "restart", "vminfod.service", check=True)  # it knows the pool that it was started with
            yield host
        finally:
            host.stop()
            place.close()
            mounts.close()


def test_the_life_of_a_machine(pool_host):
    host, vmadm, uuid = pool_host, Vmadm(pool_host), new_uuid()
    vmadm.ok("create", payload=payload(TINY, uuid=uuid, alias="vm", launch=sleeping()))
    assert json.loads(vmadm.ok("get", "vm"))["zonepath"].startswith("/srv/pool/")

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
    assert host.run("ls", "/srv/pool").stdout == "@pool\n"

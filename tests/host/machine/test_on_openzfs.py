"""What only a kernel with OpenZFS shows; in the virtual machine of `./dev test vm`."""

import json
import re

import pytest
from conftest import IS_VM
from machine_place import UNIT, left_of, new_uuid, payload, sleeping
from test_vminfod import Vminfod, change, change_to_alias, state, wait_for

from harness.slowness import FACTOR

pytestmark = pytest.mark.skipif(not IS_VM, reason="the test host in a container has no OpenZFS: ./dev test vm")
BUSYBOX = "/usr/bin/busybox"
GROUP = "tank/triton/machines"
# A kill at each step, and trees of many files, take hours on a processor that is emulated; a fuse does not differ there.
CONFORMANCE = "zfs and not killed_at_any_step and not may_be"


@pytest.fixture
def vminfod(host):
    host.run("systemctl", "restart", "vminfod", check=True)
    return Vminfod(host)


def test_storage_conforms(host):
    """The suite of host/storage, where Python looks at the trees itself: it runs in the machine."""
    environment = ["env", "TRITON_BUILD=/build", f"TRITON_TEST_SLOWNESS={FACTOR}", "PYTHONDONTWRITEBYTECODE=1"]
    suite = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=5", "-k", CONFORMANCE, "/tests/host/test_storage_conformance.py"]
    done = host.run(*environment, *suite, timeout=600)
    print(done.stdout)
    summary = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert int(re.search(r"(\d+) passed", summary)[1]) >= 28, summary


def test_vminfod_hears_of_what_an_operator_does_with_zfs(host, vmadm, vminfod, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="seen", autoboot=False))
    assert vminfod.source("zfs")["working"]
    with vminfod.events(f"?vm={uuid}") as events:
        host.run("zfs", "snapshot", f"{GROUP}/{uuid}@by-hand", check=True)
        vmadm.ok("create-snapshot", uuid, "ours")
        seen = events.until(lambda event: any(one["name"] == "ours" for one in event.get("vm", {}).get("snapshots", [])))
        vmadm.ok("delete-snapshot", uuid, "ours")
        events.until(lambda event: event["type"] == "modify" and not any(one["name"] == "ours" for one in event["vm"].get("snapshots", [])))
    assert seen["uuid"] == uuid
    assert vminfod.source("zfs")["notifications"] > 0


def test_vminfod_listens_again_when_zpool_events_ends(host, vmadm, vminfod, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="first", autoboot=False, launch=sleeping()))
    wait_for(lambda: vminfod.source("zfs"), lambda source: source["working"])
    host.run("pkill", "-KILL", "-x", "zpool", check=True)
    wait_for(lambda: vminfod.source("zfs"), lambda source: source["working"] and host.run("pgrep", "-x", "zpool").returncode == 0)
    with vminfod.events(f"?vm={uuid}") as events:
        vmadm.ok("update", uuid, "alias=second")
        events.until(change_to_alias("second"))
        vmadm.ok("start", uuid)
        events.until(state("running"))


def test_a_quota_stops_the_machine_and_nobody_else(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, quota=1, launch=sleeping()))
    assert host.run("zfs", "get", "-Hp", "-o", "value", "refquota", f"{GROUP}/{uuid}", check=True).stdout == f"{1 << 30}\n"
    host.run("zfs", "set", f"refquota={8 << 20}", f"{GROUP}/{uuid}", check=True)
    done = vmadm("exec", uuid, BUSYBOX, "dd", "if=/dev/urandom", "of=/big", "bs=1M", "count=16")
    assert done.returncode != 0 and "Disk quota exceeded" in done.stderr
    vmadm.ok("exec", uuid, BUSYBOX, "rm", "/big")
    vmadm.ok("update", uuid, "quota=2")
    assert host.run("zfs", "get", "-Hp", "-o", "value", "refquota", f"{GROUP}/{uuid}", check=True).stdout == f"{2 << 30}\n"


def test_a_quota_that_zfs_sets_is_an_event_and_stays(host, vmadm, tiny, vminfod):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, quota=10, autoboot=False))
    for limit, seen in (("refquota=8G", 8), ("quota=7G", 7), ("quota=none", 8)):
        with vminfod.events(f"?vm={uuid}") as events:
            host.run("zfs", "set", limit, f"{GROUP}/{uuid}", check=True)
            events.until(change("quota", seen))
        vmadm.ok("update", uuid, f"alias=after-{seen}")
        assert json.loads(vmadm.ok("get", uuid))["quota"] == seen
    vmadm.ok("delete", uuid)


def of_unit(host, uuid, file):
    return host.run("cat", f"/sys/fs/cgroup/machine.slice/{UNIT.format(uuid)}/{file}", check=True).stdout


def test_one_process_that_takes_too_much_memory_does_not_end_its_machine(host, vmadm, tiny):
    """Version 2 tells systemd of each process that the kernel ends; a unit without delegation would be stopped for it. The caller
    may be exempt, as many a service is: the program is not, else the kernel would take systemd-nspawn in its place."""
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, ram=64, launch=sleeping()))
    leader = json.loads(vmadm.ok("get", uuid))["pid"]
    done = host.run("choom", "--adjust", "-1000", "--", "vmadm", "exec", uuid, BUSYBOX, "tail", "/dev/zero")
    assert done.returncode == 128 + 9
    assert int(dict(line.split() for line in of_unit(host, uuid, "memory.events").splitlines())["oom_kill"]) >= 1
    assert json.loads(vmadm.ok("get", uuid))["pid"] == leader
    assert vmadm.ok("exec", uuid, BUSYBOX, "echo", "alive") == "alive\n"
    main = host.run("systemctl", "show", "-P", "MainPID", UNIT.format(uuid), check=True).stdout.strip()
    assert host.run("cat", f"/proc/{main}/oom_score_adj", f"/proc/{leader}/oom_score_adj", check=True).stdout == "-1000\n0\n"


def test_programs_of_a_launch_configuration_have_limits_of_their_own(host, vmadm, tiny):
    """Without systemd in the image, systemd-nspawn would give the machine version 1 of control groups."""
    uuid = new_uuid()
    launch = sleeping()
    launch["programs"]["main"]["cgroup"] = {"memoryMax": "8Mi", "pidsMax": 20}
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=launch))
    assert " /sys/fs/cgroup cgroup2 rw" in vmadm.ok("exec", uuid, BUSYBOX, "cat", "/proc/mounts")
    limits = host.run("sh", "-c", f"find /sys/fs/cgroup/machine.slice/{UNIT.format(uuid)}/payload -mindepth 2 -name pids.max -o -mindepth 2 -name memory.max | xargs cat",
                      check=True).stdout.split()
    assert {"20", str(8 << 20)} <= set(limits)


def test_a_machine_that_is_in_use_elsewhere_is_deleted_later(host, vmadm, tiny):
    """A service that has mounts of its own, as every second one of systemd's has, holds no tree."""
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping()))
    host.run("systemd-run", "--unit=holder", "-p", "ProtectSystem=strict", "-p", "PrivateTmp=yes", "sleep", "100000", check=True)
    try:
        vmadm.ok("delete", uuid)
    finally:
        host.run("systemctl", "stop", "holder.service")
    assert left_of(host, uuid) == []
    assert uuid not in host.run("zfs", "list", "-H", "-o", "name", "-t", "all", "-r", "tank", check=True).stdout

"""Each limit of a machine, by the kernel's own files: a property that reads back shows only what systemd was told."""

import json

import pytest
from machine_place import UNIT, inside_cgroup, new_uuid, payload, sleeping

MEBIBYTE = 1 << 20
# property, the controller and its files of cgroup v1 and of v2 (empty: that version has no such limit), what stands in them
LIMITS = [
    ("cpu_cap", "cpu", "cpu.cfs_quota_us", "cpu.max", lambda percent: ({str(percent * 1000)}, {f"{percent * 1000} 100000"})),
    ("cpu_shares", "cpu", "cpu.shares", "cpu.weight", lambda weight: ({str(weight * 1024 // 100)}, {str(weight)})),
    ("zfs_io_priority", "io", "", "io.weight", lambda weight: (set(), {f"default {weight}"})),
    ("max_physical_memory", "memory", "memory.limit_in_bytes", "memory.max", lambda mib: ({str(mib * MEBIBYTE)}, {str(mib * MEBIBYTE)})),
    ("max_physical_memory", "memory", "", "memory.high", lambda mib: (set(), {str(mib * MEBIBYTE)})),
    ("max_swap", "memory", "", "memory.swap.max", lambda mib: (set(), {str((mib - 128) * MEBIBYTE)})),
    ("max_lwps", "pids", "pids.max", "pids.max", lambda count: ({str(count)}, {str(count)})),
]
FIRST = {"cpu_cap": 30, "cpu_shares": 250, "zfs_io_priority": 200, "max_physical_memory": 128, "max_swap": 300, "max_lwps": 60, "max_locked_memory": 4, "tmpfs": 24}
SECOND = {**FIRST, "cpu_cap": 150, "cpu_shares": 50, "zfs_io_priority": 70, "max_swap": 400, "max_lwps": 90}


def files_of(host) -> dict[tuple[str, str], tuple[str, int]]:
    """Where the limits stand here: (property, file) -> its path in a unit, and which of the two expectations holds."""
    unified = host.run("sh", "-c", "cat /sys/fs/cgroup/cgroup.controllers /sys/fs/cgroup/unified/cgroup.controllers 2>/dev/null").stdout.split()
    found = {}
    for name, controller, old, new, _ in LIMITS:
        if old and host.run("test", "-d", f"/sys/fs/cgroup/{controller}").returncode == 0:
            found[name, old] = (f"/sys/fs/cgroup/{controller}/machine.slice/%s/{old}", 0)
        elif new and controller in unified:
            found[name, new] = (f"/sys/fs/cgroup/machine.slice/%s/{new}", 1)
    return found


def are_in_force(host, uuid: str, wanted: dict[str, int]) -> None:
    found = files_of(host)
    for name, _, old, new, expected in LIMITS:
        for file in {old, new}:
            if (name, file) in found:
                path, version = found[name, file]
                text = host.run("cat", path % UNIT.format(uuid), check=True).stdout.strip()
                assert text in expected(wanted[name])[version], (name, file)


@pytest.fixture
def limited(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping(), **FIRST))
    return uuid


def test_limits_are_in_force_from_the_start_and_after_each_change(host, vmadm, limited):
    are_in_force(host, limited, FIRST)
    leader = json.loads(vmadm.ok("get", limited))["pid"]
    vmadm.ok("update", limited, payload=json.dumps(SECOND))
    are_in_force(host, limited, SECOND)
    assert json.loads(vmadm.ok("get", limited))["pid"] == leader, "it is not started again for that"
    vmadm.ok("stop", limited)
    vmadm.ok("start", limited)
    are_in_force(host, limited, SECOND)


def test_every_limit_has_a_file_here(host):
    found = files_of(host)
    missing = [f"{name}: {new}" for name, _, old, new, _ in LIMITS if (name, old) not in found and (name, new) not in found]
    if missing:
        pytest.skip(f"this kernel has no controller of cgroup v2 for {', '.join(missing)}")


def test_limits_of_processes_and_of_tmp(host, vmadm, limited):
    leader = json.loads(vmadm.ok("get", limited))["pid"]
    lines = host.run("cat", f"/proc/{leader}/limits", check=True).stdout.splitlines()
    locked = next(line for line in lines if line.startswith("Max locked memory")).split()
    assert locked[3:5] == [str(4 * MEBIBYTE)] * 2
    # what vmadm was called with does not count
    inside = ["/usr/bin/busybox", "sh", "-c", "ulimit -l; cat /proc/self/oom_score_adj"]
    done = host.run("prlimit", "--memlock=65536:", "choom", "--adjust", "500", "--", "vmadm", "exec", limited, *inside)
    assert (done.returncode, done.stdout.split()) == (0, ["4096", host.run("cat", f"/proc/{leader}/oom_score_adj").stdout.strip()])
    size = vmadm.ok("exec", limited, "/usr/bin/busybox", "df", "-k", "/tmp").splitlines()[-1].split()
    assert (size[0], size[1]) == ("tmpfs", str(24 * 1024))


def test_what_goes_beyond_a_limit_is_stopped(host, vmadm, limited):
    busybox = "/usr/bin/busybox"
    assert vmadm("exec", limited, busybox, "tail", "/dev/zero").returncode == 128 + 9, "the kernel ends what takes more memory"
    script = "n=0; while [ $n -lt 200 ]; do busybox sleep 1000 </dev/null >/dev/null 2>&1 & n=$((n+1)); done; echo all"
    done = vmadm("exec", limited, busybox, "sh", "-c", script)
    assert "all" not in done.stdout and done.returncode != 0, "it cannot have that many processes"
    assert vmadm("get", limited).returncode == 0


def test_a_program_gets_into_a_group_with_a_long_path_or_does_not_run(host, vmadm, limited):
    """A machine with control groups of its own can make groups in them, and remove them at any moment."""
    leader = json.loads(vmadm.ok("get", limited))["pid"]
    before = host.run("cat", f"/proc/{leader}/cgroup", check=True).stdout.splitlines()
    place = next(line.split(":", 2) for line in before if line.split(":")[1] in ("pids", ""))
    top = "/sys/fs/cgroup/pids" if place[1] else "/sys/fs/cgroup"
    script = """
cd "$1$2"
if test "$4" = down; then
    name=$(printf %0250d 0); left=$((4080 - ${#2}))
    while test $left -gt 255; do mkdir $name; cd -P $name; left=$((left - 251)); done
    name=$(printf %0"$left"d 0); mkdir $name; cd -P $name
fi
echo $3 >cgroup.procs
"""
    def move(where):
        host.run("bash", "-ec", script, "bash", top, place[2], str(leader), where, check=True)

    move("down")
    try:
        inside = "cat /proc/1/cgroup; echo; cat /proc/self/cgroup"
        leaders, own = vmadm.ok("exec", limited, "/usr/bin/busybox", "sh", "-c", inside).split("\n\n")
        assert leaders.strip() == own.strip()
        assert max(map(len, host.run("cat", f"/proc/{leader}/cgroup", check=True).stdout.splitlines())) > 4070
    finally:
        move("up")
        host.run("find", f"{top}{place[2]}", "-mindepth", "1", "-type", "d", "-delete")


@pytest.mark.not_in_vm("to write a gigabyte takes minutes there, and test_on_openzfs.py has a smaller quota")
def test_a_quota_is_enforced_or_said_not_to_be(host, vmadm, tiny):
    uuid = new_uuid()
    code, text = vmadm.says("create", payload=payload(tiny, uuid=uuid, autoboot=False, quota=1))
    assert code == 0
    if "quota: it is stored, but not enforced" in text:
        pytest.skip(f"this pool has no quotas, and vmadm says so: {text.splitlines()[0]}")
    root = json.loads(vmadm.ok("get", uuid))["zonepath"]
    assert host.run("sh", "-c", f"head -c 1100m /dev/zero >{root}/root/big").returncode != 0


def test_limits_that_native_tools_set_are_shown_and_stay(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="native", launch=sleeping(), ram=64, cpu_cap=100))
    unit = UNIT.format(uuid)
    seen = lambda: json.loads(vmadm.ok("get", uuid))  # noqa: E731

    def now():
        host.run("vminfo", "vm", "--fresh", uuid, check=True)
        return seen()["cpu_cap"], inside_cgroup(host, "cpu", uuid, "cpu.cfs_quota_us")

    host.run("systemctl", "set-property", unit, "CPUQuota=40%", "TasksMax=77", check=True)
    assert now() == (40, 40000)
    assert seen()["max_lwps"] == 77
    vmadm.ok("update", uuid, "alias=renamed")
    assert now() == (40, 40000)
    assert json.loads(host.run("cat", f"/var/triton/vmadm/machines/{uuid}.json", check=True).stdout)["cpu_cap"] == 100
    vmadm.ok("stop", uuid)
    vmadm.ok("start", uuid)
    assert now() == (40, 40000)
    host.run("systemctl", "set-property", "--runtime", unit, "CPUQuota=30%", check=True)
    assert now() == (30, 30000)
    vmadm.ok("update", uuid, "ram=80")
    assert now() == (30, 30000)
    vmadm.ok("update", uuid, "cpu_cap=60")
    assert now() == (60, 60000)
    assert json.loads(host.run("cat", f"/var/triton/vmadm/machines/{uuid}.json", check=True).stdout)["cpu_cap"] == 60
    vmadm.ok("delete", uuid)


def test_a_start_whose_launcher_rejects_its_document_ends_with_the_reason(host, vmadm, tiny):
    uuid = new_uuid()
    missing = {"programs": {"main": {"command": ["/nowhere"]}}}  # which the host cannot see
    code, text = vmadm.says("create", payload=payload(tiny, uuid=uuid, launch=missing))
    assert code == 1 and text.startswith(f"cannot start VM {uuid}: its launcher rejects the launch configuration\n")
    assert "programs.main.command[0]: cannot execute /nowhere: No such file or directory\n" in text
    assert vmadm.ok("list", "-p", "-o", "state", f"uuid={uuid}") == "stopped\n"
    code, text = vmadm.says("start", uuid)
    assert code == 1 and "cannot execute /nowhere" in text
    vmadm.ok("update", uuid, payload=json.dumps({"launch": sleeping()}))
    vmadm.ok("start", uuid)
    vmadm.ok("delete", uuid)

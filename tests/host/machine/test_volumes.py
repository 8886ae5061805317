"""Machines on volumes, on a booted host: whose the files are inside, and that nothing starts before its volumes are there."""

import json

import pytest
from machine_place import UNIT, new_uuid, payload, seen_anew, sleeping

BUSYBOX = "/usr/bin/busybox"


def use(source, *options, target="/data"):
    return {"type": "volume", "source": source, "target": target, "options": list(options)}


@pytest.fixture
def volumeadm(host):
    def run(*words, code=0):
        done = host.run("volumeadm", *words, timeout=120)
        assert done.returncode == code, f"volumeadm {words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout.strip() if code == 0 else done.stderr
    yield run
    # After the machines: the fixture vmadm, which is asked for later, ends first.
    for key in run("list", "-H", "-o", "key").split():
        run("delete", key)


def test_files_of_a_volume_are_the_machines_own(host, volumeadm, vmadm, tiny):
    data = volumeadm("create", "data")
    disk = volumeadm("create", "--layout", "file", "--size", "1Mi", "disk")
    uuid, other = new_uuid(), new_uuid()
    given = [use("data"), use("data", "ro", target="/seen"), use("disk", target="/disk")]
    code, text = vmadm.says("create", payload=payload(tiny, uuid=uuid, launch=sleeping(), filesystems=given))
    assert code == 0, text

    def inside(machine, script):
        return vmadm("exec", machine, BUSYBOX, "sh", "-c", script)

    done = inside(uuid, "cd /data; busybox stat -c '%u %g' .; echo x >file; chown 1000:1000 file; cp /usr/bin/busybox tool; chmod 4755 tool")
    assert done.stdout == "0 0\n", done
    assert inside(uuid, "echo x >/seen/new").returncode != 0 and inside(uuid, "cat /seen/file").stdout == "x\n"
    assert inside(uuid, "stat -c '%u %a %s' /disk; echo block >/disk; head -c 5 /disk").stdout == "0 600 1048576\nblock"
    place = f"/var/triton/volumes/clear/{data}.directory"
    assert host.run("stat", "-L", "-c", "%u %a", f"{place}/file", f"{place}/tool", check=True).stdout == "1000 644\n0 4755\n"
    # The setuid program of root is behind directories that nobody else can enter.
    path = host.run("readlink", "-f", place, check=True).stdout.strip()
    nobody = host.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", "stat", path)
    assert nobody.returncode != 0 and "Permission denied" in nobody.stderr
    # Another machine has other uids on the host, and the same files.
    assert vmadm.says("create", payload=payload(tiny, uuid=other, launch=sleeping(), filesystems=[use(data)]))[0] == 0
    assert inside(other, "stat -c '%u %g' /data/file; echo y >/data/other").stdout == "1000 1000\n"
    assert inside(uuid, "cat /seen/other").stdout == "y\n"
    code, text = vmadm.says("create", payload=payload(tiny, launch=sleeping(), filesystems=[use("disk")]))
    assert code == 1 and f"volume {disk} is a file, which machine {uuid} uses" in text
    assert json.loads(vmadm.ok("get", uuid))["filesystems"][2]["source"] == disk
    vmadm.ok("delete", other)
    assert f"is used by machine {uuid}" in volumeadm("delete", "data", code=1)
    vmadm.ok("reboot", uuid)
    assert inside(uuid, "cat /data/file").stdout == "x\n"
    # What it runs with it keeps until it is stopped.
    vmadm.ok("update", uuid, payload=json.dumps({"remove_filesystems": ["/disk"]}))
    assert f"is used by machine {uuid}" in volumeadm("delete", "disk", code=1)
    vmadm.ok("stop", uuid)
    volumeadm("delete", "disk")
    vmadm.ok("delete", uuid)
    volumeadm("delete", "data")


def test_a_clone_and_a_reprovision_hold_the_volumes(host, volumeadm, vmadm, tiny):
    volumeadm("create", "data")
    volumeadm("create", "--layout", "file", "--size", "1Mi", "disk")
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping(), filesystems=[use("data")]))
    copy = new_uuid()
    vmadm.ok("clone", uuid, f"uuid={copy}")
    vmadm.ok("reprovision", uuid, payload=json.dumps({"image_uuid": tiny}))
    assert vmadm("exec", uuid, BUSYBOX, "ls", "/data").returncode == 0
    vmadm.ok("update", uuid, payload=json.dumps({"add_filesystems": [use("disk", target="/disk")]}))
    code, text = vmadm.says("clone", uuid)
    assert code == 1 and f"is a file, which machine {uuid} uses" in text
    vmadm.ok("delete", uuid)
    assert f"is used by machine {copy}" in volumeadm("delete", "data", code=1)
    vmadm.ok("delete", copy)
    volumeadm("delete", "data")
    volumeadm("delete", "disk")


def test_a_machine_waits_for_its_volumes(host, volumeadm, vmadm, tiny):
    """As at the boot of the host, when the disk of a volume comes late: the unit is started by systemd."""
    key = volumeadm("create", "data")
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, autoboot=False, launch=sleeping(), filesystems=[use("data")]))
    root = host.run("readlink", "-f", f"/var/triton/volumes/clear/{key}.directory", check=True).stdout.strip()
    host.run("sh", "-ec", f"echo x >{root}/file; mv {root} {root}.away", check=True)
    unit, waiting = UNIT.format(uuid), f"waits for volume data ({key})"
    host.run("systemctl", "start", "--no-block", unit, check=True)
    host.run("sh", "-ec", f"until systemctl show -P StatusText {unit} | grep -qF '{waiting}'; do sleep 0.1; done", check=True, timeout=60)
    assert host.run("systemctl", "show", "-P", "ActiveState", "-P", "MainPID", unit, check=True).stdout.split() == ["0", "activating"]
    assert waiting in host.run("systemctl", "status", "--no-pager", unit).stdout
    seen_anew(host, uuid)
    assert vmadm.ok("list", "-p", "-o", "state", f"uuid={uuid}") == "starting\n"
    awaited = f"volume data ({key}): cannot find root in volumes/clear/{key.replace('#', '.')}: No such file or directory"
    assert vmadm.ok("list", "-H", "-o", "state,uuid", f"uuid={uuid}").split("  ")[0] == f"starting, waits for {awaited}"
    assert json.loads(host.run("vminfo", "vm", uuid, check=True).stdout)["waits_for"] == awaited
    assert json.loads(vmadm.ok("get", uuid))["waits_for"] == awaited
    # It can be stopped meanwhile, and waits again at its next start.
    vmadm.ok("stop", uuid)
    host.run("systemctl", "start", "--no-block", unit, check=True)
    host.run("mv", f"{root}.away", root, check=True)
    vmadm.ok("start", uuid)
    assert vmadm("exec", uuid, BUSYBOX, "cat", "/data/file").stdout == "x\n"
    assert "waits_for" not in json.loads(vmadm.ok("get", uuid))
    vmadm.ok("delete", uuid)
    volumeadm("delete", "data")


def test_snapshots_of_a_machine_with_its_volumes(host, volumeadm, vmadm, tiny):
    data, seen, disk = volumeadm("create", "data"), volumeadm("create", "seen"), volumeadm("create", "--layout", "file", "--size", "1Mi", "disk")
    uuid = new_uuid()
    given = [use("data"), use("seen", "ro", target="/seen"), use("disk", target="/disk")]
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping(), filesystems=given))

    def inside(script):
        done = vmadm("exec", uuid, BUSYBOX, "sh", "-ec", script)
        assert done.returncode == 0, done
        return done.stdout

    def write(text):
        inside(f"for file in /etc/file /data/file /disk; do printf '{text}\\n' | dd of=$file conv=notrunc 2>/dev/null; done")

    def read():
        return inside("for file in /etc/file /data/file /disk; do head -n 1 $file; done").split()

    write("one")
    vmadm.ok("create-snapshot", uuid, "one", "--volumes")
    shown, = json.loads(vmadm.ok("get", uuid))["snapshots"]
    assert shown["name"] == "one" and sorted(shown["volumes"]) == sorted([data, disk]), shown
    assert json.loads(host.run("vminfo", "vm", uuid, check=True).stdout)["snapshots"][0]["volumes"] == shown["volumes"]
    assert vmadm.says("create-snapshot", uuid, "one", "--volumes") == (1, 'snapshot with name "one" already exists.\n')
    write("two")
    vmadm.ok("create-snapshot", uuid, "two", "--volumes")
    write("three")
    volumeadm("attach", "data", "web")
    code, text = vmadm.says("rollback-snapshot", uuid, "one")
    assert code == 1 and f"volume {data} is also used by web" in text and read() == ["three"] * 3
    volumeadm("detach", "data", "web")
    vmadm.ok("rollback-snapshot", uuid, "one")
    assert read() == ["one"] * 3
    assert [one["name"] for one in json.loads(vmadm.ok("get", uuid))["snapshots"]] == ["one"]
    assert [len(json.loads(volumeadm("snapshots", "-j", name))) for name in ("data", "seen", "disk")] == [1, 0, 1]
    vmadm.ok("delete-snapshot", uuid, "one")
    assert [len(json.loads(volumeadm("snapshots", "-j", name))) for name in ("data", "disk")] == [0, 0]
    # A machine takes its snapshots of volumes along.
    vmadm.ok("create-snapshot", uuid, "last", "--volumes")
    vmadm.ok("delete", uuid)
    assert [len(json.loads(volumeadm("snapshots", "-j", name))) for name in ("data", "disk")] == [0, 0]
    for name in ("data", "seen", "disk"):
        volumeadm("delete", name)

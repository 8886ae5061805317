"""What the tests of machines share."""

import json
import uuid as uuids

UNIT = "systemd-nspawn@{}.service"


def payload(image: str, **members) -> str:
    return json.dumps({"brand": "lx", "image_uuid": image, "quota": 0, **members})


def configure(host, **members) -> None:
    """Writes the host's configuration: what it says of its pool, and these members."""
    host.run("mkdir", "-p", "/etc/triton", check=True)
    host.run("tee", "/etc/triton/triton.json", input=json.dumps(host.CONFIGURATION | members), check=True)


def new_uuid() -> str:
    return str(uuids.uuid4())


def seen_anew(host, *uuids: str) -> None:
    """What systemd has done by itself, vminfod knows a moment later than systemd: has it look now."""
    for uuid in uuids:
        host.run("vminfo", "vm", "--fresh", uuid, check=True)


def sleeping(seconds: int = 100000) -> dict:
    """A launch configuration of one program that does nothing."""
    return {"programs": {"main": {"command": ["/usr/bin/busybox", "sleep", str(seconds)]}}}


VERSION_2 = {"memory.limit_in_bytes": "memory.max", "cpu.cfs_quota_us": "cpu.max"}


def inside_cgroup(host, controller: str, uuid: str, file: str) -> int:
    """The kernel's own limit, as the host sees it: properties that read back are not a proof. `file`: its name in version 1."""
    top = f"/sys/fs/cgroup/{controller}"
    if host.run("test", "-d", top).returncode != 0:
        top, file = "/sys/fs/cgroup", VERSION_2.get(file, file)
    return int(host.run("cat", f"{top}/machine.slice/{UNIT.format(uuid)}/{file}", check=True).stdout.split()[0])


def lose_tree(host, tree: str) -> list[str]:
    """Takes the tree of a stopped machine away, behind the pool's back. Returns the command that then removes it."""
    if tree.endswith("/@tree"):
        host.run("mv", tree, tree.removesuffix("tree") + "gone", check=True)
        return ["rm", "-r", tree.removesuffix("/@tree")]
    dataset = host.run("zfs", "list", "-H", "-o", "name", tree, check=True).stdout.strip()
    gone = f"{dataset.split('/')[0]}/gone"
    host.run("zfs", "rename", dataset, gone, check=True)
    return ["zfs", "destroy", "-r", gone]


def left_of(host, uuid: str) -> list[str]:
    """All files of the host that have the uuid in their names."""
    found = host.run("find", "/var/triton", "/run/triton", "/run/systemd/nspawn", "/var/lib/machines", "/etc/systemd",
                     "/run/systemd/machines", "-name", f"*{uuid}*").stdout
    return found.split()

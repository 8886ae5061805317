"""What the tests of machines share."""

import json
import uuid as uuids

UNIT = "systemd-nspawn@{}.service"


def payload(image: str, **members) -> str:
    return json.dumps({"brand": "lx", "image_uuid": image, "quota": 0, **members})


def new_uuid() -> str:
    return str(uuids.uuid4())


def seen_anew(host, *uuids: str) -> None:
    """What systemd has done by itself, vminfod knows a moment later than systemd: has it look now."""
    for uuid in uuids:
        host.run("vminfo", "vm", "--fresh", uuid, check=True)


def sleeping(seconds: int = 100000) -> dict:
    """A launch configuration of one program that does nothing."""
    return {"programs": {"main": {"command": ["/usr/bin/busybox", "sleep", str(seconds)]}}}


def inside_cgroup(host, controller: str, uuid: str, file: str) -> int:
    """The kernel's own limit, as the host sees it: properties that read back are not a proof."""
    return int(host.run("cat", f"/sys/fs/cgroup/{controller}/machine.slice/{UNIT.format(uuid)}/{file}", check=True).stdout)


def left_of(host, uuid: str) -> list[str]:
    """All files of the host that have the uuid in their names."""
    found = host.run("find", "/var/triton", "/run/systemd/nspawn", "/var/lib/machines", "/etc/systemd", "/run/systemd/machines",
                     "-name", f"*{uuid}*").stdout
    return found.split()

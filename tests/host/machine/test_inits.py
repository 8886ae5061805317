"""Machines that boot the init of their image, which need not be systemd."""

import json
import time

import pytest
from conftest import install
from machine_place import new_uuid, payload

BUSYBOX = "/usr/bin/busybox"
FILL = "mkdir -p $1/usr/bin $1/etc $1/tmp $1/proc $1/sys $1/dev $1/run $1/var $1/sbin $1/usr/lib; echo ID=test >$1/usr/lib/os-release; cp /mnt/usr/bin/busybox $1/usr/bin/; ln -s usr/bin $1/bin; "
LATER = 60  # seconds, of a command that has not done what it should


def script(text: str) -> str:
    return f"printf '#!/usr/bin/busybox sh\\n{text}\\n' >$1/sbin/init; chmod 755 $1/sbin/init"


@pytest.mark.parametrize(
    ("number", "fill"),
    [
        (11, "ln -s ../usr/bin/busybox $1/sbin/init; echo ::respawn:/usr/bin/busybox sleep 9999 >$1/etc/inittab"),
        (12, script('trap \\"exit 0\\" TERM; while :; do busybox sleep 1; done')),
    ],
    ids=["busybox", "script"],
)
def test_an_init_that_tells_nobody_that_it_is_ready(host, vmadm, number, fill):
    image = f"5e6a4c11-0c2f-4a44-8c1f-0000000000{number}"
    install(host, image, f"init{number}", FILL + fill)
    uuid = new_uuid()
    begin = time.monotonic()
    assert vmadm.says("create", payload=payload(image, uuid=uuid)) == (0, f"Successfully created VM {uuid}\n")
    assert json.loads(vmadm.ok("get", uuid))["state"] == "running"
    assert vmadm.ok("exec", uuid, BUSYBOX, "echo", "inside") == "inside\n"
    assert vmadm.says("reboot", uuid) == (0, f"Successfully completed reboot for VM {uuid}\n")
    assert vmadm.says("stop", uuid) == (0, f"Successfully completed stop for VM {uuid}\n")
    assert time.monotonic() - begin < LATER, "it was waited for, or killed"

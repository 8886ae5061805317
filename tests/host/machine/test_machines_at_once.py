"""Two commands at once on one machine, or on a machine and its image: one comes after the other or is refused in clear words, and
nothing is left behind."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from machine_place import UNIT, left_of, new_uuid, payload, sleeping

ROUNDS = int(os.environ.get("TRITON_AT_ONCE", "3"))  # 20 on demand


def at_once(host, *commands):
    """Runs the commands at the same time. Returns the exit code and what each has said."""
    with ThreadPoolExecutor(len(commands)) as pool:
        done = list(pool.map(lambda words: host.run(*words[0], input=words[1]), commands))
    return [(one.returncode, one.stderr or one.stdout) for one in done]


def vmadm_at_once(host, *commands):
    return at_once(host, *[(("vmadm", *words), None) for words in commands])


def is_gone(host, uuid):
    # systemd-machined hears of the end of a machine a moment after systemd
    host.run("sh", "-c", f"while test -e /run/systemd/machines/{uuid}; do :; done", check=True)
    assert left_of(host, uuid) == []
    assert host.run("find", "/var/triton/vmadm", "-name", ".*", "-type", "f").stdout == ""
    assert host.run("ls", "/var/triton/vmadm/journal").stdout == ""
    assert UNIT.format(uuid) not in host.run("systemctl", "list-units", "--all", "--plain").stdout
    assert uuid not in host.run("systemctl", "list-unit-files", "--no-legend").stdout


def made(vmadm, image, **members):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(image, uuid=uuid, launch=sleeping(), **members))
    return uuid


def test_one_machine_is_created_once(host, vmadm, tiny):
    for _ in range(ROUNDS):
        uuid = new_uuid()
        text = payload(tiny, uuid=uuid, launch=sleeping())
        said = sorted(at_once(host, *[(("vmadm", "create"), text)] * 3))
        assert said == [(0, f"Successfully created VM {uuid}\n"), *[(1, f"VM with UUID {uuid} already exists\n")] * 2]
        assert json.loads(vmadm.ok("get", uuid))["state"] == "running"
        vmadm.ok("delete", uuid)
        is_gone(host, uuid)


@pytest.mark.parametrize("words", [("start",), ("stop",), ("delete",), ("reboot",), ("create-snapshot", "a"), ("update", "ram=99"),
                                   ("send",)], ids=lambda words: words[0])
def test_whatever_comes_while_a_machine_is_deleted(host, vmadm, tiny, words):
    for _ in range(ROUNDS):
        uuid = made(vmadm, tiny, autoboot=words[0] != "start")
        act = f"vmadm {words[0]} {uuid} {' '.join(words[1:])} >/var/tmp/said"  # which is not always a text
        (code, text), deleted = at_once(host, (("sh", "-c", act), None), (("vmadm", "delete", uuid), None))
        gone = (f"VM {uuid} not found\n", "it was told to stop meanwhile\n", "it has stopped instead\n", 'its job ended as "failed"')
        assert deleted == (0, f"Successfully deleted VM {uuid}\n") or (words[0] == "delete" and deleted[1].endswith(gone[0])), deleted
        assert code == 0 or (code == 1 and any(word in text for word in gone)), text
        assert code == 0 or deleted[0] == 0
        is_gone(host, uuid)


def test_an_update_and_a_stop_and_a_reprovision_and_a_start(host, vmadm, tiny):
    uuid = made(vmadm, tiny)
    for number in range(ROUNDS):
        said = vmadm_at_once(host, ("update", uuid, f"ram={100 + number}"), ("stop", uuid))
        assert [code for code, _ in said] == [0, 0], said
        machine = json.loads(vmadm.ok("get", uuid))
        assert (machine["state"], machine["ram"]) == ("stopped", 100 + number)
        new, started = at_once(host, (("vmadm", "reprovision", uuid), json.dumps({"image_uuid": tiny})), (("vmadm", "start", uuid), None))
        stopped = ("it was told to stop meanwhile\n", 'its job ended as "failed"')
        assert new[0] == 0 and (started[0] == 0 or any(word in started[1] for word in stopped)), (new, started)
        assert json.loads(vmadm.ok("get", uuid))["state"] == "running"
    vmadm.ok("delete", uuid)
    is_gone(host, uuid)


def test_an_image_is_deleted_while_a_machine_is_made_of_it(host, vmadm):
    host.run("sh", "-ec", "mkdir -p /tmp/short/usr/bin /tmp/short/etc; cp /mnt/usr/bin/busybox /tmp/short/usr/bin/", check=True)
    image = new_uuid()
    for _ in range(ROUNDS):
        host.run("imgadm", "import", "--uuid", image, "--name", "short", "--image-version", "1", "/tmp/short", check=True)
        uuid = new_uuid()
        (code, text), (deleted, reason) = at_once(
            host, (("vmadm", "create"), payload(image, uuid=uuid, autoboot=False)), (("imgadm", "delete", image), None))
        assert (code == 0) != (deleted == 0), (text, reason)
        if code == 0:
            assert f"image {image} has dependent clones: " in reason and uuid in reason, reason
            vmadm.ok("delete", uuid)
            host.run("imgadm", "delete", image, check=True)
        else:
            assert f"image {image} is not installed" in text.lower(), text
        is_gone(host, uuid)
        assert image not in host.run("imgadm", "list", "-H", "-o", "uuid", check=True).stdout
        assert left_of(host, image) == []

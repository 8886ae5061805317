"""Machines that boot the init of their image, which need not be systemd."""

import json
import re
import time

import pytest
from conftest import install
from harness.slowness import FACTOR
from machine_place import UNIT, new_uuid, payload

BUSYBOX = "/usr/bin/busybox"
FILL = "mkdir -p $1/usr/bin $1/etc $1/tmp $1/proc $1/sys $1/dev $1/run $1/var $1/sbin $1/usr/lib; echo ID=test >$1/usr/lib/os-release; cp /mnt/usr/bin/busybox $1/usr/bin/; ln -s usr/bin $1/bin; "
LATER = 60 * FACTOR  # seconds, of a command that has not done what it should


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


def never_ready() -> dict:
    """Its program is ready when it says so on a descriptor, which it never does."""
    return {"programs": {"main": {"command": [BUSYBOX, "sleep", "99999"], "readiness": {"type": "fd", "fd": 3}}}}


def ready_after(command: str) -> dict:
    """Its program is ready when this command of busybox succeeds."""
    wait = f"until {command}; do busybox sleep 0.1; done; echo >&3; exec busybox sleep 99999"
    return {"programs": {"main": {"command": [BUSYBOX, "sh", "-c", wait], "readiness": {"type": "fd", "fd": 3}}}}


def until_launched(vmadm, uuid: str) -> dict:
    """The machine, when its launcher has begun to start the programs."""
    deadline = time.monotonic() + LATER
    while True:
        machine = json.loads(vmadm("get", uuid).stdout or "{}")
        if machine.get("launch_status", {}).get("programs"):
            return machine
        assert time.monotonic() < deadline, machine


def test_a_machine_that_goes_on_starting_can_be_stopped(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, autoboot=False, launch=never_ready()))
    assert host.run("systemctl", "show", "-P", "TimeoutStartUSec", UNIT.format(uuid)).stdout == "infinity\n"
    starting = host.popen("sh", "-c", f"exec vmadm start {uuid} 2>&1")
    assert until_launched(vmadm, uuid)["state"] == "starting"
    begin = time.monotonic()
    assert vmadm.says("stop", uuid) == (0, f"Successfully completed stop for VM {uuid}\n")
    assert time.monotonic() - begin < LATER / 2, "it has waited for the other command"
    assert (starting.wait(timeout=LATER), starting.stdout.readline()) == (1, f"cannot start {UNIT.format(uuid)}: it was told to stop meanwhile\n")
    assert json.loads(vmadm.ok("get", uuid))["state"] == "stopped"


def test_whoever_starts_a_machine_that_is_starting_waits_for_it(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, autoboot=False, launch=ready_after("busybox test -e /var/go")))
    both = [host.popen("sh", "-c", f"exec vmadm start {uuid} 2>&1")]
    until_launched(vmadm, uuid)
    vmadm.ok("update", uuid, "autoboot=false")
    both.append(host.popen("sh", "-c", f"exec vmadm start {uuid} 2>&1"))
    deadline = time.monotonic() + LATER
    while not json.loads(vmadm.ok("get", uuid))["autoboot"]:
        assert time.monotonic() < deadline and both[1].poll() is None
    assert [one.poll() for one in both] == [None, None]
    vmadm.ok("exec", uuid, BUSYBOX, "touch", "/var/go")
    for one in both:
        assert (one.wait(timeout=LATER), one.stdout.readline()) == (0, f"Successfully started VM {uuid}\n")
    assert json.loads(vmadm.ok("get", uuid))["state"] == "running"


def test_a_reboot_ends_when_the_machine_is_stopped_meanwhile(host, vmadm, tiny):
    uuid = new_uuid()
    once = "busybox mkdir /var/first"  # it is ready at its first start only
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=ready_after(once)))
    rebooting = host.popen("sh", "-c", f"exec vmadm reboot {uuid} 2>&1")
    deadline = time.monotonic() + LATER
    while json.loads(vmadm.ok("get", uuid))["state"] != "starting":
        assert time.monotonic() < deadline
    vmadm.ok("stop", uuid)
    assert (rebooting.wait(timeout=LATER), rebooting.stdout.readline()) == (1, f"cannot reboot {UNIT.format(uuid)}: it has stopped instead\n")


def test_a_clone_that_is_starting_leaves_its_source_alone(host, vmadm, tiny):
    source, clone = new_uuid(), new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=source, autoboot=False, launch=never_ready()))
    assert vmadm.says("clone", source, f"uuid={source}") == (1, f"VM with UUID {source} already exists\n")
    cloning = host.popen("sh", "-c", f"exec vmadm clone {source} uuid={clone} autoboot=true 2>&1")
    until_launched(vmadm, clone)
    begin = time.monotonic()
    vmadm.ok("update", source, "alias=source")
    assert time.monotonic() - begin < LATER / 2, "it has waited for the other command"
    vmadm.ok("delete", clone)
    assert (cloning.wait(timeout=LATER), cloning.stdout.read()) == (1, f"cannot start {UNIT.format(clone)}: it was told to stop meanwhile\n")


def test_an_image_without_an_init_is_named_as_such(host, vmadm):
    image = "5e6a4c11-0c2f-4a44-8c1f-000000000013"
    install(host, image, "noinit", FILL)
    uuid = new_uuid()
    stays = f"  VM {uuid} is complete and stays: vmadm start {uuid} tries again, vmadm delete removes it\n"
    tried = "/usr/lib/systemd/systemd, /lib/systemd/systemd, /sbin/init"
    none = f"its image has no init (tried: {tried}): name a program in init_name, or several in launch"
    assert vmadm.says("create", payload=payload(image, uuid=uuid)) == (1, f"cannot start VM {uuid}: {none}\n{stays}")
    vmadm.ok("update", uuid, "init_name=/usr/bin/nothing")
    code, text = vmadm.says("start", uuid)
    assert (code, text) == (1, f"cannot start VM {uuid}: its init_name /usr/bin/nothing is not a program of its image\n")
    assert json.loads(vmadm.ok("get", uuid))["state"] == "stopped"


def test_an_image_needs_neither_usr_nor_os_release(host, vmadm):
    """systemd-nspawn wants one for any start, the other where it looks for the init."""
    image = "5e6a4c11-0c2f-4a44-8c1f-000000000017"
    install(host, image, "scratch", "mkdir -p $1/sbin $1/etc; cp /mnt/usr/bin/busybox $1/sbin/; ln -s busybox $1/sbin/init; echo ::respawn:/sbin/busybox sleep 9999 >$1/etc/inittab")
    uuid = new_uuid()
    code, text = vmadm.says("create", payload=payload(image, uuid=uuid))
    assert (code, text) == (0, f"note: the image of VM {uuid} has no /usr: an empty one was made, as systemd-nspawn needs it\nSuccessfully created VM {uuid}\n")
    assert vmadm.ok("exec", uuid, "/sbin/busybox", "echo", "inside") == "inside\n"
    assert vmadm.says("reboot", uuid) == (0, f"Successfully completed reboot for VM {uuid}\n")
    assert vmadm.says("stop", uuid) == (0, f"Successfully completed stop for VM {uuid}\n")


def test_a_machine_that_does_not_start_stays(host, vmadm):
    image = "5e6a4c11-0c2f-4a44-8c1f-000000000014"
    install(host, image, "broken", FILL + "echo no program >$1/sbin/init")
    uuid = new_uuid()
    code, text = vmadm.says("create", payload=payload(image, uuid=uuid))
    early = 'its job ended as "failed" (exit-code)'  # before systemd-nspawn has told that it is up
    assert code == 1 and re.match(f"cannot start {re.escape(UNIT.format(uuid))}: (it ended at once.*|{re.escape(early)})\n", text)
    assert text.endswith(f"  VM {uuid} is complete and stays: vmadm start {uuid} tries again, vmadm delete removes it\n")
    vmadm.ok("stop", uuid)  # waits for its end
    assert vmadm.ok("list", "-p", "-o", "state", f"uuid={uuid}") == "stopped\n"


def test_a_start_that_fails_shows_what_was_said_last(host, vmadm):
    """It is a tenant who speaks, to the operator's terminal."""
    image = "5e6a4c11-0c2f-4a44-8c1f-000000000016"
    words = r'echo one; echo -e "red \\033[31m"; busybox yes a | busybox head -c 2000 | busybox tr -d "\\n"; echo; exit 7'
    # systemd-nspawn waits until one of this name says that it is ready
    install(host, image, "speaks", FILL + "mkdir $1/usr/lib/systemd; " + script(words).replace("sbin/init", "usr/lib/systemd/systemd"))
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(image, uuid=uuid, autoboot=False))
    unit = UNIT.format(uuid)
    code, text = vmadm.says("start", uuid)
    assert text.count("\n") > 2, text
    first, *said, last = text.splitlines()
    assert (code, last) == (1, f"  the reason is in: journalctl -u {unit}"), text
    assert first.startswith(f"cannot start {unit}: its job ended as \"failed\" (exit-code)"), text
    assert 1 <= len(said) <= 3 and all(line.startswith("  it said: ") for line in said), text
    assert "\x1b" not in text and all(len(line) < 350 for line in said), text
    assert any("a" * 100 in line or "red" in line for line in said), text
    vmadm.ok("delete", uuid)


def test_an_init_that_ends_at_once_says_how(host, vmadm):
    image = "5e6a4c11-0c2f-4a44-8c1f-000000000015"
    install(host, image, "brief", FILL + script("exit 7"))
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(image, uuid=uuid, autoboot=False))
    code, text = vmadm.says("start", uuid)
    if code != 0:  # else vmadm has seen it run
        how = r'it ended at once( \(exit status 7\))?|its job ended as "failed" \(exit-code\)'
        assert code == 1 and re.match(f"cannot start {re.escape(UNIT.format(uuid))}: ({how})\n", text), text
    vmadm.ok("stop", uuid)  # waits for the end of its unit
    assert json.loads(vmadm.ok("get", uuid))["exit_status"] == 7


def until_state(vmadm, uuid: str, *states: str) -> None:
    deadline = time.monotonic() + LATER
    while vmadm("list", "-p", "-o", "state", f"uuid={uuid}").stdout.strip() not in states:
        assert time.monotonic() < deadline, vmadm.ok("get", uuid)


def test_a_stop_reaches_a_machine_that_has_just_been_started(host, vmadm, tiny):
    """Before its PID 1 has a handler, the kernel drops the signal, and systemd-nspawn sends only one."""
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, autoboot=False, launch=never_ready()))
    for _ in range(5):
        starting = host.popen("sh", "-c", f"exec vmadm start {uuid} 2>&1")
        until_state(vmadm, uuid, "starting")
        begin = time.monotonic()
        assert vmadm.says("stop", uuid) == (0, f"Successfully completed stop for VM {uuid}\n")
        assert time.monotonic() - begin < LATER / 2, "it did not notice, and was killed"
        starting.wait(timeout=LATER)


def test_a_start_waits_for_the_end_of_a_stop(host, vmadm, tiny):
    uuid = new_uuid()
    deaf = {"command": [BUSYBOX, "sh", "-c", "trap '' TERM; while :; do busybox sleep 1; done"], "stopTimeout": "3s"}
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch={"programs": {"main": deaf}}))
    stopping = host.popen("sh", "-c", f"exec vmadm stop {uuid} 2>&1")
    until_state(vmadm, uuid, "stopping")
    assert vmadm.says("start", uuid) == (0, f"Successfully started VM {uuid}\n")
    assert stopping.wait(timeout=LATER) == 0
    assert json.loads(vmadm.ok("get", uuid))["state"] == "running"


def test_a_stop_may_take_as_long_as_it_is_told(host, vmadm, tiny):
    """Longer than systemd itself would wait for the machine, or for the end of a job."""
    uuid = new_uuid()
    ends = "trap '' TERM; until busybox test -e /var/go; do busybox sleep 0.1; done; echo >/var/ended"
    slow = {"command": [BUSYBOX, "sh", "-c", ends], "stopTimeout": "10m"}
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch={"programs": {"main": slow}}))
    unit, tree = UNIT.format(uuid), json.loads(vmadm.ok("get", uuid))["zonepath"]
    assert host.run("systemctl", "show", "-P", "TimeoutStopUSec", unit).stdout == "infinity\n"
    drop_in = f"/run/systemd/system/{unit}.d"
    host.run("sh", "-ec", f"mkdir -p {drop_in}; printf '[Unit]\\nJobRunningTimeoutSec=1\\n' >{drop_in}/60-short.conf; systemctl daemon-reload", check=True)
    stopping = host.popen("sh", "-c", f"exec vmadm stop -t 600 {uuid} 2>&1")
    jobs, deadline = set(), time.monotonic() + LATER
    while len(jobs) < 2:  # the first one has reached its limit
        jobs |= {host.run("systemctl", "show", "-P", "Job", unit).stdout.strip()} - {"", "0"}
        assert time.monotonic() < deadline and stopping.poll() is None, jobs
    host.run("touch", f"{tree}/root/var/go", check=True)
    assert stopping.wait(timeout=LATER) == 0
    assert host.run("test", "-e", f"{tree}/root/var/ended").returncode == 0, "it was killed"

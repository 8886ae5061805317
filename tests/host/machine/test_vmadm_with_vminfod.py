"""vminfod as the package installs it: vmadm is answered by it, waits for it, and goes on without it."""

import json

from machine_place import new_uuid, payload, sleeping

SOCKET = "/run/triton/vminfod.socket"
ASK = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"]


def pid_of(host):
    return int(host.run("systemctl", "show", "-P", "MainPID", "vminfod.service", check=True).stdout)


def wait_for_launcher(host, name):
    """vminfod asks the launcher of a machine a moment after it has seen the machine."""
    listener = host.popen("vminfo", "events", "-j", "-r", name)
    assert any("launch_status" in line for line in listener.stdout)
    listener.stdout.close()
    listener.wait(60)


def test_it_runs_and_says_whom_it_serves(host, vmadm):
    assert host.run("systemctl", "is-active", "vminfod.service", "vminfod.socket").stdout.split() == ["active", "active"]
    assert host.run("stat", "-c", "%U:%G %a", SOCKET, check=True).stdout == "root:triton-info 660\n"
    assert host.run("vminfo", "ping").stdout == "pong\n"
    status = json.loads(host.run("vminfo", "status", "-j", check=True).stdout)
    assert status["state"] in ("running", "refreshing") and status["pid"] == pid_of(host)
    assert {"files", "systemd"} <= {source["name"] for source in status["sources"] if source["working"]}, status["sources"]
    denied = host.run("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "vminfo", "ping")
    assert (denied.returncode, denied.stderr) == (1, f"cannot reach vminfod on {SOCKET}: Permission denied\n")
    assert host.run("setpriv", "--reuid=nobody", "--regid=triton-info", "--clear-groups", "vminfo", "ping").stdout == "pong\n"


def test_each_change_is_seen_by_the_next_look(host, vmadm, tiny):
    uuid = new_uuid()
    assert vmadm.says("create", payload=payload(tiny, uuid=uuid, alias="seen", launch=sleeping())) == (0, f"Successfully created VM {uuid}\n")
    machine = json.loads(vmadm.ok("get", "seen"))
    assert machine["state"] == "running" and machine["launch_status"]["programs"][0]["name"] == "main"
    wait_for_launcher(host, "seen")
    asked = json.loads(host.run("vminfo", "vm", "seen", check=True).stdout)
    assert asked["pid"] == machine["pid"] and asked["launch_status"] == machine["launch_status"]
    for words, state in ((["stop", "seen"], "stopped"), (["start", "seen"], "running"), (["reboot", "-F", "seen"], "running")):
        vmadm.ok(*words)
        assert vmadm.says("list", "-p", "-o", "state", f"uuid={uuid}")[0] == 0
        assert vmadm.ok("list", "-p", "-o", "state", f"uuid={uuid}") == f"{state}\n", words
    vmadm.ok("create-snapshot", uuid, "one")
    assert [snapshot["name"] for snapshot in json.loads(vmadm.ok("get", uuid))["snapshots"]] == ["one"]
    vmadm.ok("update", uuid, "ram=128")
    assert vmadm.ok("list", "-p", "-o", "ram", f"uuid={uuid}") == "128\n"
    assert [json.loads(line)["command"] for line in vmadm.ok("history", uuid).splitlines()] == ["create", "stop", "start", "reboot", "create-snapshot", "update"]

    secret = {"customer_metadata": {"password": "hunter2"}}
    vmadm.ok("update", uuid, payload=json.dumps(secret))
    assert json.loads(vmadm.ok("get", uuid))["customer_metadata"] == secret["customer_metadata"]
    vmadm.ok("delete", uuid)
    assert vmadm.ok("lookup", f"uuid={uuid}") == ""
    assert vmadm.says("get", uuid) == (1, f"VM {uuid} not found\n")


def test_what_systemd_does_is_an_event(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="left", launch=sleeping()))
    host.run("systemctl", "stop", f"systemd-nspawn@{uuid}.service", check=True)
    assert host.run("vminfo", "events", "--until", "state=stopped", "--timeout", "60", "left").returncode == 0
    host.run("systemctl", "start", f"systemd-nspawn@{uuid}.service", check=True)
    assert host.run("vminfo", "events", "--until", "state=running", "--timeout", "60", "left").returncode == 0
    usage = host.run("vminfo", "top", "-n", "1", "-d", "1", check=True).stdout
    assert any(line.split()[:3] == [uuid, "left", "running"] for line in usage.splitlines())


def test_the_same_with_and_without_it(host, vmadm, tiny):
    vmadm.ok("create", payload=payload(tiny, alias="one", launch=sleeping(), tags={"role": "a:b"}))
    vmadm.ok("create", payload=payload(tiny, alias="two", autoboot=False))
    vmadm.ok("create-snapshot", "two", "kept")
    wait_for_launcher(host, "one")
    forms = [line.split() for line in ("list -p", "list -p -o alias,pid,state,boot_timestamp,exit_status,tags.role,last_modified -s alias", "lookup -j", "lookup",
                                       "get one", "get two", "lookup -j -o alias,launch_status,snapshots", "history", "history one")]
    with_it = [vmadm.ok(*form) for form in forms]
    host.run("systemctl", "stop", "vminfod.socket", "vminfod.service", check=True)
    try:
        assert vmadm.says("list") == (0, f"note: without vminfod, which takes longer: cannot reach vminfod on {SOCKET}: No such file or directory\n")
        for form, expected in zip(forms, with_it):
            assert vmadm.ok(*form) == expected, form
        assert vmadm.says("rename", "two", "three")[1].startswith("Successfully renamed VM ")
    finally:
        host.run("systemctl", "start", "vminfod.service", check=True)
    assert vmadm.ok("list", "-p", "-o", "alias", "-s", "alias") == "one\nthree\n"


def test_it_comes_back_when_it_is_killed(host, vmadm, tiny):
    before = pid_of(host)
    host.run("kill", "-9", str(before), check=True)
    assert vmadm.says("create", payload=payload(tiny, alias="again", autoboot=False))[0] == 0
    assert json.loads(vmadm.ok("get", "again"))["alias"] == "again"
    assert host.run("systemctl", "start", "vminfod.service").returncode == 0
    assert pid_of(host) != before
    assert vmadm.says("list", "-o", "alias", "-H") == (0, "")

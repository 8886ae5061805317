"""Machines on a host with a real systemd: what vmadm says, what the kernel does, and what is left."""

import json
import time
from datetime import datetime

from machine_place import UNIT, inside_cgroup, left_of, new_uuid, payload, sleeping


def test_a_debian_machine_from_create_to_delete(host, vmadm, debian):
    uuid = new_uuid()
    code, text = vmadm.says("create", payload=payload(debian, uuid=uuid, alias="deb0", hostname="deb0", ram=100, cpu_cap=20, max_lwps=80))
    assert (code, text) == (0, f"Successfully created VM {uuid}\n")
    assert vmadm.ok("list", "-p", "-o", "uuid,type,ram,state,alias") == f"{uuid}:LX:100:running:deb0\n"

    leader = json.loads(vmadm.ok("get", "deb0"))["pid"]
    assert host.run("cat", f"/proc/{leader}/comm", check=True).stdout == "systemd\n"
    assert vmadm.ok("exec", "deb0", "cat", "/etc/hostname", "/proc/sys/kernel/hostname") == "deb0\ndeb0\n"  # the image has a name of its own
    first, _, count = host.run("cat", f"/proc/{leader}/uid_map", check=True).stdout.split()[-3:]
    assert (first, count) == ("0", "65536")
    assert inside_cgroup(host, "memory", uuid, "memory.limit_in_bytes") == 100 << 20
    assert inside_cgroup(host, "cpu", uuid, "cpu.cfs_quota_us") == 20000
    assert inside_cgroup(host, "pids", uuid, "pids.max") == 80

    code, text = vmadm.says("update", "deb0", "ram=120", "cpu_cap=50")
    assert code == 0 and text.endswith(f"Successfully updated VM {uuid}\n")
    assert inside_cgroup(host, "memory", uuid, "memory.limit_in_bytes") == 120 << 20
    assert inside_cgroup(host, "cpu", uuid, "cpu.cfs_quota_us") == 50000
    assert json.loads(vmadm.ok("get", uuid))["pid"] == leader, "an update must not restart it"

    vmadm.ok("update", "deb0", "hostname=deb1")
    assert vmadm.says("reboot", "deb0") == (0, f"Successfully completed reboot for VM {uuid}\n")
    assert vmadm.ok("exec", "deb0", "cat", "/proc/sys/kernel/hostname") == "deb1\n"
    assert json.loads(vmadm.ok("get", uuid))["pid"] != leader
    assert inside_cgroup(host, "memory", uuid, "memory.limit_in_bytes") == 120 << 20
    assert vmadm.says("stop", "deb0") == (0, f"Successfully completed stop for VM {uuid}\n")
    assert vmadm.says("stop", "deb0") == (0, f"VM {uuid} is already not 'running' (currently: stopped)\n")
    assert vmadm.says("reboot", "deb0") == (1, 'Cannot reboot vm from state "stopped", must be "running"\n')
    assert vmadm.says("delete", "deb0") == (0, f"Successfully deleted VM {uuid}\n")
    assert left_of(host, uuid) == []
    assert UNIT.format(uuid) not in host.run("systemctl", "list-units", "--all", "--plain").stdout


def test_start_and_stop_decide_what_starts_with_the_host(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, autoboot=False, launch=sleeping()))
    enabled = lambda: host.run("systemctl", "is-enabled", UNIT.format(uuid)).stdout.strip()  # noqa: E731
    assert (vmadm.ok("list", "-p", "-o", "state", f"uuid={uuid}"), enabled()) == ("stopped\n", "disabled")
    assert vmadm.says("start", uuid[:8]) == (0, f"Successfully started VM {uuid}\n")
    assert vmadm.says("start", uuid) == (0, f"VM {uuid} is already 'running'\n")
    assert enabled() == "enabled"
    assert vmadm.says("kill", "-9", uuid) == (0, f'Sent signal "SIGKILL" to init process for VM {uuid}\n')
    vmadm.ok("stop", uuid)
    assert enabled() == "disabled"
    assert vmadm.says("kill", uuid) == (1, f"Cannot find running init PID for VM {uuid}\n")


def test_how_a_machine_ended_outlives_its_unit(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping()))
    ended = lambda: [json.loads(vmadm.ok("get", uuid)).get(name) for name in ("exit_status", "exit_timestamp")]  # noqa: E731
    kept = host.path(f"/var/triton/vmadm/exits/{uuid}.json")
    assert ended() == [None, None]
    assert not kept.exists()
    vmadm.ok("kill", "-9", uuid)
    host.run("sh", "-c", f"while systemctl is-active --quiet {UNIT.format(uuid)}; do :; done", check=True)
    vmadm.ok("stop", uuid)
    before = ended()
    host.run("systemctl", "reset-failed", UNIT.format(uuid))  # then systemd has nothing of it
    assert host.run("systemctl", "show", "-P", "ExecMainExitTimestamp", UNIT.format(uuid), check=True).stdout == "\n"
    assert ended() == before
    killed, when = before
    assert killed == json.loads(kept.read_text())["exit_status"] != 0
    assert when > "2020"

    vmadm.ok("start", uuid)
    assert ended() == [None, None]
    vmadm.ok("stop", uuid)
    stopped, later = ended()
    assert stopped == json.loads(kept.read_text())["exit_status"]
    assert later > when
    kept.write_text("garbage")
    host.run("systemctl", "restart", "vminfod", check=True)
    assert ended() == [None, None]


def test_the_launcher_is_pid_1_and_loads_what_update_gives(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="feed", customer_metadata={"db.host": "pg"}, launch=sleeping()))
    machine = json.loads(vmadm.ok("get", "feed"))
    leader = machine["pid"]
    assert host.run("cat", f"/proc/{leader}/comm", check=True).stdout == "triton-launch\n"
    environment = host.run("cat", f"/proc/{leader}/environ", check=True).stdout.split("\0")
    assert f"TRITON_UUID={uuid}" in environment and "TRITON_METADATA_DB_HOST=pg" in environment
    assert machine["launch_status"]["launcher"]["version"]
    assert [program["name"] for program in machine["launch_status"]["programs"]] == ["main"]

    two = sleeping()
    two["programs"]["second"] = {"command": ["/usr/bin/busybox", "sleep", "99999"]}
    vmadm.ok("update", "feed", payload=json.dumps({"launch": two}))
    assert json.loads(host.run("cat", f"/proc/{leader}/root/run/triton/launch/config.json", check=True).stdout) == two

    missing = {"programs": {"main": {"command": ["/nowhere"]}}}  # which the host cannot see
    for _ in range(2):  # the second time its reasons are the old ones
        code, text = vmadm.says("update", "feed", payload=json.dumps({"launch": missing}))
        assert code == 1
        assert text.startswith("the launcher rejects the launch configuration, and keeps the one that it has\n")
        assert "programs.main.command[0]: cannot execute /nowhere: No such file or directory\n" in text
        assert json.loads(vmadm.ok("get", "feed"))["launch"] == two
        assert json.loads(host.run("cat", f"/proc/{leader}/root/run/triton/launch/config.json", check=True).stdout) == two
        missing["programs"]["main"]["stopTimeout"] = "7s"
    assert vmadm.says("update", "feed", payload=json.dumps({"launch": two})) == (0, f"note: nothing has changed\nSuccessfully updated VM {uuid}\n")

    bad = {"programs": {"main": {"comand": []}}}
    code, text = vmadm.says("update", "feed", payload=json.dumps({"launch": bad}))
    assert code == 1 and text.startswith("triton-launch refuses the launch configuration\n") and "comand" in text
    code, text = vmadm.says("validate", "create", payload=payload(tiny, launch=bad))
    assert code == 1 and "comand" in text
    assert vmadm.says("stop", "feed") == (0, f"Successfully completed stop for VM {uuid}\n")


def test_snapshots(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, autoboot=False, tags={"v": 1}))
    root = json.loads(vmadm.ok("get", uuid))["zonepath"] + "/root"
    host.run("sh", "-c", f"echo one >{root}/etc/version", check=True)
    assert vmadm.says("create-snapshot", uuid, "one") == (0, f"Created snapshot one for VM {uuid}\n")
    assert vmadm.says("create-snapshot", uuid, "one") == (1, 'snapshot with name "one" already exists.\n')
    assert vmadm.says("create-snapshot", uuid, "../x") == (1, "Invalid snapshot name\n")
    host.run("sh", "-c", f"echo two >{root}/etc/version", check=True)
    vmadm.ok("update", uuid, payload='{"set_tags":{"v":2}}')
    vmadm.ok("create-snapshot", uuid, "two")
    assert [s["name"] for s in json.loads(vmadm.ok("get", uuid))["snapshots"]] == ["two", "one"]
    assert vmadm.says("rollback-snapshot", uuid, "one") == (0, f"Rolled back snapshot one for VM {uuid}\n")
    assert host.run("cat", f"{root}/etc/version", check=True).stdout == "one\n"
    machine = json.loads(vmadm.ok("get", uuid))
    assert machine["tags"] == {"v": 1} and [s["name"] for s in machine["snapshots"]] == ["one"]
    assert vmadm.says("delete-snapshot", uuid, "two") == (1, f'No snapshot named "two" for {uuid}\n')
    assert vmadm.says("delete-snapshot", uuid, "one") == (0, f"Deleted snapshot one for VM {uuid}\n")


def test_reprovision_keeps_all_but_the_content(host, vmadm, tiny, debian):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="again", tags={"a": 1}, launch=sleeping()))
    vmadm.ok("exec", "again", BUSYBOX, "touch", "/etc/old")
    before = json.loads(vmadm.ok("get", "again"))
    code, text = vmadm.says("reprovision", "again", payload=json.dumps({"image_uuid": debian}))
    assert (code, text) == (0, f"Successfully reprovisioned VM {uuid}\n")
    after = json.loads(vmadm.ok("get", "again"))
    assert after["state"] == "running" and after["pid"] != before["pid"] and after["image_uuid"] == debian
    assert after["tags"] == {"a": 1} and after["launch"] == before["launch"]
    assert vmadm("exec", "again", "/bin/sh", "-c", "test -e /etc/debian_version && ! test -e /etc/old").returncode == 0
    assert vmadm.says("reprovision", "again", payload="{}") == (1, "image_uuid: required key is missing\n")
    assert vmadm.says("reprovision", "again", payload='{"image_uuid":"x"}')[1].startswith("image x is not installed\n")
    assert vmadm.says("reprovision", "again", payload='{"image_uuid":1}') == (1, "image_uuid: expected a string, found number\n")
    assert vmadm.says("reprovision", "again", payload=json.dumps({"dataset_uuid": debian})) == (0, f"Successfully reprovisioned VM {uuid}\n")


def test_a_machine_of_words(vmadm, tiny):
    """create IMAGE KEY=VALUE..., by each name that an image has."""
    name = "tiny"
    code, text = vmadm.says("create", name, "alias=words", "ram=0.125G", "autoboot=false")
    assert code == 0 and text.startswith("Successfully created VM "), text
    assert "quota" not in text, "nobody has asked for one"
    machine = json.loads(vmadm.ok("get", "words"))
    assert (machine["image_uuid"], machine["max_physical_memory"], machine["brand"]) == (tiny, 128, "lx")
    for words, code, expected in [
        (["create", tiny, "alias=words"], 1, f'alias words is that of VM {machine["uuid"]} already; --same-alias gives it to both\n'),
        (["create", name, "memory=64"], 1, 'unknown property "memory"'),
        (["create", name, "autoboot=no"], 1, 'cannot create VM: autoboot: expected true or false, found "no"\n'),
        (["create", "tinny"], 1, 'image tinny is not installed; did you mean "tiny"?\n'),
        (["create", "alias=words"], 2, "expected: create IMAGE [KEY=VALUE...], see imgadm list\n"),
        (["create", name, "-f", "x"], 2, "create takes either a file or IMAGE and key=value words\n"),
        (["update", "words", "memory=512"], 1, 'unknown property "memory"'),
        (["update", "words", "brand=lx"], 1, "brand "),
        (["list", "state=runing"], 1, 'state: "runing" is not a state; did you mean "running"?\n'),
        (["list", "-o", "uuid,stat"], 1, 'Invalid order key: "stat"; did you mean "state"?\n'),
    ]:
        got = vmadm.says(*words)
        assert got[0] == code and got[1].startswith(expected), (words, got)
    assert json.loads(vmadm.ok("get", "words")) == machine
    second = new_uuid()
    vmadm.ok("create", f"{name}@1", "--same-alias", "alias=words", f"uuid={second}", "autoboot=false")
    assert vmadm.says("get", "words")[1].startswith("words names 2 VMs\n")
    vmadm.ok("rename", second, "other")
    assert vmadm.says("rename", second, "words")[0] == 1
    assert vmadm.says("update", second, "alias=words")[0] == 1
    assert vmadm.ok("list", "-p", "-o", "alias", "ram=128M") == "words\n"
    assert "# Properties of machines" in vmadm.ok("reference")


def test_an_end_that_nobody_asked_for_is_in_the_history(host, vmadm, tiny):
    uuid = new_uuid()
    hungry = {"version": "1.0.0", "programs": {"hungry": {
        "command": [BUSYBOX, "sh", "-c", f"while [ ! -e /go ]; do {BUSYBOX} sleep 0.1; done; x=x; while :; do x=$x$x; done"], "restart": "never", "critical": True}}}
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="why", ram=64, launch=hungry))
    vmadm.ok("exec", "why", BUSYBOX, "touch", "/go")
    host.run("vminfo", "events", "--until", "exit_reason=~.", "--timeout", "60", "why", check=True)
    machine = json.loads(vmadm.ok("get", uuid))
    assert "the kernel killed 1 process for want of memory" in machine["exit_reason"], machine
    line = json.loads(vmadm.ok("history", uuid).splitlines()[-1])
    assert (line["command"], line["outcome"], line["time"][:16]) == ("exit", machine["exit_reason"], machine["exit_timestamp"][:16])
    assert line["detail"]["oom_kills"] == 1
    vmadm.ok("stop", uuid)
    assert json.loads(vmadm.ok("history", uuid).splitlines()[-1])["command"] == "stop"
    assert machine["exit_reason"] in vmadm.ok("list", "-H", "-o", "exit_reason", "alias=why")


def test_several_machines_at_once(host, vmadm, tiny):
    """What one command does to several is done side by side: each waits for its own machine only."""
    uuids = [new_uuid() for _ in range(3)]
    slow = {"version": "1.0.0", "programs": {"slow": {"command": [BUSYBOX, "sh", "-c", f"trap '{BUSYBOX} sleep 2; exit 0' TERM; while :; do {BUSYBOX} sleep 0.1; done"],
                                                      "stopTimeout": "20s"}}}
    for number, uuid in enumerate(uuids):
        vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias=f"many{number}", tags={"many": "yes"}, launch=slow))
    code, text = vmadm.says("stop", "tags.many=yes")
    assert code == 0 and sorted(text.splitlines()) == sorted(f"Successfully completed stop for VM {uuid}" for uuid in uuids)
    stopped = [json.loads(line)["time"] for line in vmadm.ok("history").splitlines() if json.loads(line)["command"] == "stop"][-3:]
    seconds = [datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() for time in stopped]
    assert max(seconds) - min(seconds) < 2, "they stopped one after the other"
    vmadm.ok("create-snapshot", "many0", "one")
    (snapshot,) = json.loads(vmadm.ok("list-snapshots", "-j", "tags.many=yes"))
    assert (snapshot["uuid"], snapshot["alias"], snapshot["name"]) == (uuids[0], "many0", "one")
    assert vmadm.ok("list-snapshots", "-H", "many0").split()[:3] == [uuids[0], "many0", "one"]
    assert vmadm.ok("list-snapshots", "-p", "many1") == ""
    assert [machine["alias"] for machine in json.loads(vmadm.ok("list", "-j", "-o", "alias,state", "-s", "alias", "tags.many=yes"))] == [
        "many0", "many1", "many2"]
    table = vmadm.ok("history", "-t", "many1").splitlines()
    assert table[0].split() == ["TIME", "UUID", "COMMAND", "OUTCOME"] and [line.split()[1:] for line in table[1:]] == [
        [uuids[1], "create", "ok"], [uuids[1], "stop", "ok"]]
    code, text = vmadm.says("delete", "-n", "tags.many=yes")
    assert code == 0 and sorted(text.splitlines()) == sorted(f"would delete VM {uuid} many{number}" for number, uuid in enumerate(uuids))
    answer = lambda word: host.run("sh", "-c", f"echo {word} | script -qec 'vmadm delete tags.many=yes' /dev/null").stdout  # noqa: E731
    assert "Nothing was deleted." in answer("n") and len(vmadm.ok("list", "-H", "tags.many=yes").splitlines()) == 3
    assert answer("y").count("Successfully deleted") == 3
    code, text = vmadm.says("delete", "-y", "tags.many=yes")
    assert (code, text) == (1, "no VM fulfils these conditions\n")
    code, text = vmadm.says("start", *uuids[:2])
    assert code == 1 and sorted(text.splitlines()) == sorted(f"VM {uuid} not found" for uuid in uuids[:2])


def test_a_machine_made_in_two_halves(vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, create_only=True))
    assert vmadm.ok("list", "-p", "-o", "state", f"uuid={uuid}") == "configured\n"
    code, text = vmadm.says("start", uuid)
    assert (code, text) == (1, f'Unable to start VM {uuid}: Cannot start vm from state "configured", must be "stopped".\n')
    assert vmadm.says("install", uuid) == (0, f"Successfully installed VM {uuid}\n")
    assert vmadm.ok("list", "-p", "-o", "state", f"uuid={uuid}") == "stopped\n"
    assert vmadm.says("install", uuid) == (1, f"Cannot install VM {uuid}: it is already installed\n")


def test_messages_and_exit_codes(vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="msg", autoboot=False, indestructible_zoneroot=True))
    missing = "11111111-2222-4333-8444-555555555555"
    for words, text, code, expected in [
        (["list", "color=x"], None, 1, 'Invalid filter key: "color"\n'),
        (["list", "msg"], None, 2, '"msg" is not a condition: expected KEY=VALUE\n'),
        (["lookup", "-1", "alias=none"], None, 1, "Requested unique lookup but found 0 results.\n"),
        (["lookup", "-o", "uuid"], None, 1, "Cannot specify -o without -j\n"),
        (["get"], None, 2, "Invalid or missing UUID for get: which VM? vmadm list shows all\n"),
        (["get", ""], None, 2, "Invalid or missing UUID for get: which VM? vmadm list shows all\n"),
        (["stop", ""], None, 2, "Invalid or missing UUID for stop: which VM? vmadm list shows all\n"),
        (["rename", "msg", ""], None, 2, "Missing new alias for rename\n"),
        (["--root", "/nowhere", "list"], None, 1, "cannot open the root directory /nowhere: No such file or directory\n"),
        (["get", missing], None, 1, f"VM {missing} not found\n"),
        (["create", "-f", "/nowhere"], None, 1, "File: /nowhere does not exist.\n"),
        (["create"], payload(missing, uuid=new_uuid()), 1, f"image {missing} is not installed\n"),
        (["create"], payload(tiny, uuid=uuid), 1, f"VM with UUID {uuid} already exists\n"),
        (["create"], "{", 1, "Invalid JSON payload: line 1, column 2: "),
        (["delete", "msg"], None, 1, f"Failed to delete VM {uuid}: indestructible_zoneroot is set, cannot delete\n"),
        (["kill", "-s", "SIGX", "msg"], None, 1, 'Unknown signal "SIGX"\n'),
        (["info", "msg"], None, 1, "no info types supported for brand lx\n"),
        (["validate", "create"], payload(tiny), 0, "VALID 'create' payload for lx brand VMs.\n"),
        (["validate", "create", "-q"], payload(tiny, aliass="x"), 0, "VALID 'create' payload for lx brand VMs.\n"),
        (["validate", "create"], payload(tiny, aliass="x", max_swap=1), 0,
         'ignored: unknown property "aliass"; did you mean "alias"?\n'
         "note: max_swap: 1 becomes 256, which is the least with this max_physical_memory\nVALID 'create' payload for lx brand VMs.\n"),
        (["validate", "create", "--strict"], payload(tiny, aliass="x"), 1,
         'cannot validate the payload: unknown property "aliass"; did you mean "alias"?\n'),
        (["validate", "create"], payload(tiny, launch={}), 1,
         "cannot validate the payload: launch: triton-launch refuses the launch configuration\n  launch: version: required key is missing\n"),
        (["validate", "update", "lx", "--strict"], '{"update_nics":[{"mac":"02:00:00:00:00:09","mtu":1400}],"remove_tags":["a"]}', 0,
         "VALID 'update' payload for lx brand VMs.\n"),
        (["validate", "update", "lx"], '{"update_nics":[{"mac":"02:00:00:00:00:09","mtu":1}]}', 1,
         "cannot validate the payload: nics[0].mtu: 1 is not within 576 to 9000\n"),
        (["stats", missing], None, 1, f"VM {missing} not found\n"),
        (["validate", "update", "lx"], '{"ram":64}', 0, "VALID 'update' payload for lx brand VMs.\n"),
        (["update", "msg", "ram=64", "-n", "--strict", "x=1"], None, 1, 'unknown property "x"\n'),
        (["-E", "get", missing], None, 1, f'{{"error":{{"code":"notFound","message":"VM {missing} not found","details":[]}}}}\n'),
        (["-E", "kill", "msg", uuid], None, 1,
         f'{{"error":{{"code":"refused","message":"Cannot find running init PID for VM {uuid}","details":[]}}}}\n' * 2),
    ]:
        got = vmadm.says(*words, payload=text)
        assert got[0] == code and got[1].startswith(expected), (words, got)
    code, text = vmadm.says("frobnicate")
    assert code == 2 and text == 'there is no command "frobnicate"; vmadm --help lists all commands\n'
    code, text = vmadm.says("stop", "-F", "-t", "5", "msg")
    assert code == 2 and "-F excludes -t" in text
    assert vmadm.ok("update", "msg", "-n", "alias=other", "ram=64").splitlines()[0] == 'alias: "msg" -> "other"'
    assert json.loads(vmadm.ok("get", "msg"))["alias"] == "msg"
    vmadm.ok("update", "msg", "indestructible_zoneroot=false")
    assert [json.loads(line)["command"] for line in vmadm.ok("history", uuid).splitlines()][:2] == ["create", "create"]
    assert vmadm.says("history", missing) == (1, f"VM {missing} not found\n")
    vmadm.ok("delete", uuid)
    assert json.loads(vmadm.ok("history", uuid).splitlines()[-1])["command"] == "delete"


def test_the_line_is_read_as_it_stands(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="line", launch=sleeping()))
    error = lambda text: f'{{"error":{{"code":"invalid","message":{json.dumps(text)},"details":[]}}}}\n'  # noqa: E731
    for words, code, expected in [
        (["-E", "list", "line"], 2, error('"line" is not a condition: expected KEY=VALUE')),
        (["list", "-E", "line"], 2, error('"line" is not a condition: expected KEY=VALUE')),
        (["-E", "frobnicate"], 2, error('there is no command "frobnicate"; vmadm --help lists all commands')),
        (["-E"], 2, error("a command is missing; vmadm --help lists all commands")),
        (["-E", "list", "--wrong"], 2, error("list has no option --wrong; vmadm list --help lists them")),
        (["--root", "/", "kill", "-CONT", "line"], 0, f'Sent signal "SIGCONT" to init process for VM {uuid}\n'),
        (["-q", "kill", "line", "-18"], 0, f'Sent signal "SIGCONT" to init process for VM {uuid}\n'),
        (["kill", "-v", "line", "-s", "CONT"], 0, f'Sent signal "SIGCONT" to init process for VM {uuid}\n'),
    ]:
        assert vmadm.says(*words) == (code, expected), words
    assert vmadm.ok("help", "start") == vmadm.ok("start", "--help") == vmadm.ok("help", "boot")
    assert "Examples:\n  vmadm start web0\n" in vmadm.ok("help", "start")
    assert vmadm.ok("-q", "--help") == vmadm.ok("help") == vmadm.ok("-?")
    assert vmadm.says("help", "frobnicate")[1].startswith('there is no command "frobnicate"')
    # each step is told where it is asked for, also to a pipe
    code, text = vmadm.says("-v", "update", "line", "ram=64")
    assert code == 0 and text.startswith("update: file of the machine\n")
    code, text = vmadm.says("update", "line", "ram=65", "--debug")
    assert code == 0 and "debug: 0." in text and "s: update: file of the machine\n" in text and f"waits until vminfod has looked: /vms/{uuid}" in text
    host.run("env", "REQ_ID=77-a", "vmadm", "update", "line", "ram=66", check=True)
    requests = [json.loads(line).get("request") for line in vmadm.ok("history", uuid).splitlines()]
    assert requests[-2:] == [None, "77-a"]


def test_each_command_has_an_example(vmadm):
    commands = [line.split()[0] for line in vmadm.ok("help").splitlines() if line.startswith("  ") and line[2].isalpha()]
    for command in set(commands) - {"vmadm", "info", "sysrq", "prepare"}:
        assert f"Examples:\n  " in vmadm.ok("help", command), command


def test_machines_are_stopped_by_filter(vmadm, tiny):
    made = [new_uuid() for _ in range(3)]
    for number, uuid in enumerate(made):
        vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias=f"bulk{number}", launch=sleeping(), tags={"group": "even" if number % 2 == 0 else "odd"}))
    code, text = vmadm.says("stop", "tags.group=even")
    assert code == 0 and text.count("Successfully completed stop") == 2
    assert vmadm.ok("list", "-p", "-o", "alias,state", "-s", "alias", "alias=~^bulk") == "bulk0:stopped\nbulk1:running\nbulk2:stopped\n"
    assert vmadm.says("stop", "tags.group=none") == (1, "no VM fulfils these conditions\n")


def test_a_file_that_is_garbage_hides_no_other(host, vmadm, tiny):
    uuid, broken = new_uuid(), new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, autoboot=False))
    host.run("sh", "-c", f"echo garbage >/var/triton/vmadm/machines/{broken}.json", check=True)
    listed = vmadm("list", "-p", "-o", "uuid,state")
    deadline = time.monotonic() + 60  # vminfod notices on its own what vmadm has not written
    while broken not in listed.stdout and time.monotonic() < deadline:
        listed = vmadm("list", "-p", "-o", "uuid,state")
    assert listed.returncode == 0
    assert sorted(listed.stdout.split()) == sorted([f"{uuid}:stopped", f"{broken}:unreadable"])
    assert f"cannot read /var/triton/vmadm/machines/{broken}.json" in listed.stderr
    stats = vmadm("stats", "-j")
    assert stats.returncode == 0 and [row["uuid"] for row in json.loads(stats.stdout)].count(uuid) == 1 and broken not in stats.stdout
    assert f"cannot read /var/triton/vmadm/machines/{broken}.json" in stats.stderr
    assert f"cannot read /var/triton/vmadm/machines/{broken}.json" in vmadm("stop", "alias=nobody").stderr
    host.run("cp", f"/var/triton/vmadm/machines/{broken}.json", f"/var/triton/vmadm/machines/{uuid}.json", check=True)
    for gone in (broken, uuid):
        vmadm.ok("delete", gone)
        assert left_of(host, gone) == []
    assert "machine" not in host.run("imgadm", "get", tiny, check=True).stdout, "it must hold no image any more"


BUSYBOX = "/usr/bin/busybox"


def test_a_command_runs_as_the_machines_root_within_its_limits(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="exec", launch=sleeping()))
    assert vmadm.ok("exec", "exec", BUSYBOX, "id", "-u") == "0\n"
    assert vmadm.ok("exec", "exec", "--", BUSYBOX, "cat", "-", payload="through\n") == "through\n"
    # a session of its own, without a terminal on our side too: that of the caller would take characters for typed ones
    status = vmadm.ok("exec", "exec", BUSYBOX, "cat", "/proc/self/stat").rsplit(")", 1)[1].split()
    assert int(status[3]) > 0, "the session is one of the machine, and not one outside"
    for code in (7, 125, 255):
        assert vmadm("exec", "exec", BUSYBOX, "sh", "-c", f"exit {code}").returncode == code
    assert vmadm("exec", "exec", BUSYBOX, "sh", "-c", "kill -9 $$").returncode == 128 + 9
    careless = ("env", "--ignore-signal=CHLD", "--block-signal=ALRM", "vmadm")  # as some callers leave these signals
    assert host.run(*careless, "exec", "exec", BUSYBOX, "sh", "-c", "exit 7").returncode == 7
    wrong = host.run(*careless, "validate", "create", input=payload(tiny, launch={"programs": {"main": {"command": 1}}}))
    assert wrong.returncode == 1 and "VALID" not in wrong.stdout + wrong.stderr, wrong
    assert host.run("env", "PATH=/nowhere", "/usr/bin/vmadm", "exec", "exec", "busybox", "true").returncode == 0, "the caller's PATH is of no use"
    assert vmadm.says("exec", "exec", "/nowhere") == (127, "vmadm: cannot execute /nowhere: No such file or directory\n")
    assert vmadm.says("exec", "exec", "/usr") == (126, "vmadm: cannot execute /usr: Permission denied\n")
    assert vmadm.says("exec", "-it", "exec", BUSYBOX) == (2, "exec has no option -it: it takes a terminal if it is run in one\n")
    assert vmadm.says("exec", "exec") == (2, "Missing command for exec\n")
    same = [BUSYBOX, "sh", "-c", "for p in self 1; do cat /proc/$p/cgroup; grep CapBnd /proc/$p/status; for n in /proc/$p/ns/*; do readlink $n; done; done"]
    lines = vmadm.ok("exec", "exec", *same).splitlines()
    assert lines[: len(lines) // 2] == lines[len(lines) // 2 :], "it must be where PID 1 is, with no more rights"
    terminal = f"vmadm exec exec {BUSYBOX} sh -c 'test -t 0 && echo terminal; exit 3'"
    done = host.run("script", "-qec", terminal, "/dev/null", input="")
    assert done.returncode == 3
    assert "terminal" in done.stdout  # beside it, the echo of the end of script's own input
    # of what is redirected nothing goes through a terminal, and of what is not nothing is the host's
    own = "for n in 3 4 5; do test $(stat -Lc %d /proc/self/fd/$n) = $(stat -c %d /dev/pts) && echo $n; done"
    script = f"exec 3<&0 4>&1 5>&2\nprintf 'a\\nb\\n'; echo error >&2; {own}; if test \"$1\"; then cat; fi\n"
    host.run("tee", "/tmp/inside", input=script, check=True)
    vmadm.ok("cp", "/tmp/inside", "exec:/inside")
    run = f"vmadm exec exec {BUSYBOX} sh /inside"

    def shown(command):
        """At a terminal, without its CRs, and the echo of the end of script's own input."""
        done = host.run("sh", "-c", 'script -qec "$1" /dev/null </dev/null | tr -d "\\r"', "sh", command)
        return done.stdout.replace("^D\b\b", "")

    def read(file):
        return host.run("sh", "-c", f'tr "\\r" R <{file}').stdout

    assert shown(f"echo in | {run} cat") == "a\nb\nerror\n4\n5\nin\n"
    assert (shown(f"{run} </dev/null >/tmp/shown"), read("/tmp/shown")) == ("error\n", "a\nb\n5\n")
    text = shown(f"{run} >/tmp/shown 2>/tmp/shown-errors")
    assert "a" not in text and "error" not in text, text
    assert (read("/tmp/shown"), read("/tmp/shown-errors")) == ("a\nb\n3\n", "error\n")
    vmadm.ok("stop", "exec")
    assert vmadm.says("exec", "exec", BUSYBOX) == (1, f"Cannot execute a command in VM {uuid}: it is not running\n")


def test_who_waits_for_a_command_stays_outside_of_the_machine(host, vmadm, tiny):
    """Or the machine could freeze it, and its terminal would stay as it is when the machine is killed."""
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping()))
    script = 'vmadm exec "$1" /usr/bin/busybox sh -c "echo; sleep 100000" >/tmp/begun 2>&1 & until [ -s /tmp/begun ]; do sleep 0.05; done; cat /proc/$!/cgroup; echo $!'
    *groups, pid = host.run("sh", "-c", "rm -f /tmp/begun; " + script, "sh", uuid, check=True).stdout.splitlines()
    try:
        assert not [group for group in groups if uuid in group], groups
        inside = host.run("sh", "-c", f"cat /proc/$(pgrep -P {pid})/cgroup", check=True).stdout
        assert uuid in inside, "what stands for it in the machine has the machine's limits"
    finally:
        host.run("kill", "-9", pid)
    vmadm.ok("delete", uuid)


def test_a_command_goes_with_who_waits_for_it(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping()))
    script = 'rm -f /tmp/begun; vmadm exec "$1" /usr/bin/busybox sh -c "echo; exec sleep 31415" >/tmp/begun 2>&1 & until [ -s /tmp/begun ]; do sleep 0.05; done; kill -9 $!'
    host.run("sh", "-c", script, "sh", uuid, check=True)
    host.run("timeout", "20", "sh", "-c", "while pgrep -f 'sleep [3]1415'; do sleep 0.05; done", check=True)
    vmadm.ok("delete", uuid)


def test_a_command_at_a_terminal_ends_without_what_it_has_left_behind(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping()))
    command = f"vmadm exec {uuid} {BUSYBOX} sh -c 'setsid sleep 27182 & seq 2000; exit 3'"
    done = host.run("script", "-qec", command, "/dev/null", input="", timeout=60)
    written = [word for word in done.stdout.split() if word != "^@"]  # the end of script's own input
    assert (done.returncode, written[-1]) == (3, "2000"), "all that it has written is shown"
    assert host.run("pgrep", "-f", "sleep 27182").returncode == 0
    vmadm.ok("delete", uuid)


def test_what_a_machine_writes_moves_no_terminal(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping()))
    vmadm.ok("exec", uuid, BUSYBOX, "sh", "-c", r"printf '\033[2Jhello\tthere\n' >/dev/console")
    logs = host.popen("vmadm", "logs", "-f", "-n", "1000", uuid)
    try:
        assert next(line for line in logs.stdout if "hello" in line) == "hello there\n", "without what would clear the screen"
    finally:
        logs.kill()
        logs.wait()
    done = host.run("sh", "-c", '{ vmadm logs -f "$1"; echo $? >&2; } | grep -q hello', "sh", uuid, timeout=60)
    assert (done.returncode, done.stderr) == (0, "0\n"), "it ends with its reader, although the machine writes no more"
    lost = host.run("sh", "-c", 'exec vmadm logs "$1" >/dev/full', "sh", uuid)
    assert (lost.returncode, lost.stderr) == (1, "cannot write the output: No space left on device\n")


def test_a_machine_cannot_lead_its_host_elsewhere(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping()))
    vmadm.ok("exec", uuid, BUSYBOX, "ln", "-sf", "/run/systemd/private", "/run/triton-launch/control")
    assert "launch_status" not in json.loads(host.run("vminfo", "vm", "--fresh", uuid, check=True).stdout)
    assert "launch_status" not in json.loads(vmadm.ok("get", uuid))
    vmadm.ok("exec", uuid, BUSYBOX, "sh", "-c", "rm -r /run/triton-launch; ln -s /proc/1/root /run/triton-launch")
    assert "launch_status" not in json.loads(vmadm.ok("get", uuid))


def test_an_image_that_a_machine_needs_is_not_deleted(host, vmadm, tiny, debian):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, autoboot=False))
    vmadm.ok("create", payload=payload(debian, autoboot=False))  # other tests need that image, too
    refused = host.run("imgadm", "delete", tiny)
    assert refused.returncode == 1
    assert refused.stderr == f"imgadm: error (Busy): image {tiny} has dependent clones: machine {uuid}\n"
    host.run("imgadm", "vacuum", "-f", check=True)
    assert {tiny, debian} <= set(host.run("imgadm", "list", "-H", "-o", "uuid", check=True).stdout.split())

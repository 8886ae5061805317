"""The host goes down and comes up again: what was to run does, from files that are made anew, and nothing else."""

import json
import uuid as uuids

from machine_place import UNIT, configure, inside_cgroup, left_of, lose_tree, new_uuid, payload, seen_anew, sleeping

SERVICE = "triton-machines.service"


def state_of_boot(host) -> str:
    """Returns when all that starts with the host has started, or has failed."""
    return host.run("systemctl", "is-system-running", "--wait").stdout.strip()


def shown(host, unit: str, *properties: str) -> dict[str, str]:
    words = [word for name in properties for word in ("-p", name)]
    return dict(line.split("=", 1) for line in host.run("systemctl", "show", *words, unit, check=True).stdout.splitlines())


def running_machines(host) -> set[str]:
    return {line.split()[0] for line in host.run("machinectl", "list", "--no-legend", check=True).stdout.splitlines()}


def states(vmadm) -> dict[str, str]:
    return dict(line.split(":") for line in vmadm.ok("list", "-p", "-o", "uuid,state").split())


def test_what_starts_with_the_host(host, vmadm, tiny, debian):
    auto, deb, off, stopped, lost, broken = (new_uuid() for _ in range(6))
    vmadm.ok("create", payload=payload(tiny, uuid=auto, ram=96, launch=sleeping()))
    vmadm.ok("create", payload=payload(debian, uuid=deb, ram=256))
    vmadm.ok("create", payload=payload(tiny, uuid=off, autoboot=False, launch=sleeping()))
    for uuid in (stopped, lost, broken):
        vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping()))
    vmadm.ok("stop", stopped)
    assert shown(host, SERVICE, "ActiveState", "UnitFileState") == {"ActiveState": "active", "UnitFileState": "enabled"}
    ended = [json.loads(vmadm.ok("get", stopped))[name] for name in ("exit_status", "exit_timestamp")]
    trees = {uuid: json.loads(vmadm.ok("get", uuid))["zonepath"] for uuid in (auto, lost)}

    host.run("systemctl", "stop", UNIT.format(lost), UNIT.format(broken), check=True)
    host.run("rm", f"/var/lib/machines/{auto}", check=True)
    host.run("tee", f"/var/triton/vmadm/machines/{broken}.json", input="garbage\n", check=True)
    remove = lose_tree(host, trees[lost])
    host.power_off()
    host.power_on()

    assert state_of_boot(host) == "degraded"  # two machines cannot be what they should
    seen_anew(host, auto, deb)
    assert states(vmadm) == {auto: "running", deb: "running", off: "stopped", stopped: "stopped", lost: "failed", broken: "unreadable"}
    assert [json.loads(vmadm.ok("get", stopped))[name] for name in ("exit_status", "exit_timestamp")] == ended
    assert running_machines(host) == {auto, deb}
    assert host.run("readlink", f"/var/lib/machines/{auto}", check=True).stdout == f"{trees[auto]}/root\n"
    derived = host.run("sh", "-c", "cd /run/systemd/nspawn && echo *.nspawn", check=True).stdout.split()
    assert derived == sorted(f"{uuid}.nspawn" for uuid in (auto, deb, off, stopped))
    assert host.run("cat", f"/proc/{json.loads(vmadm.ok('get', auto))['pid']}/comm", check=True).stdout == "triton-launch\n"
    assert inside_cgroup(host, "memory", auto, "memory.limit_in_bytes") == 96 << 20
    assert shown(host, UNIT.format(broken), "ActiveState", "AssertResult") == {"ActiveState": "inactive", "AssertResult": "no"}
    said = host.run("journalctl", "--boot", "--output=cat", f"--unit={SERVICE}", check=True).stdout
    assert f"VM {broken}: cannot read /var/triton/vmadm/machines/{broken}.json" in said
    assert f"VM {lost}: the pool does not have its tree machines/{lost}" in said

    vmadm.ok("delete", broken)
    vmadm.ok("delete", lost)
    host.run(*remove, check=True)
    assert left_of(host, lost) == []
    host.run("systemctl", "restart", SERVICE, check=True)  # now all is well, and what runs does not notice
    assert running_machines(host) == {auto, deb}


def test_a_start_that_failed_is_seen(host, vmadm, tiny):
    """With vminfod and without it: by the boot of the host, and by a command."""
    one, other = new_uuid(), new_uuid()
    nic = {"nic_tag": "lan", "ips": ["10.79.0.2/24"], "mac": "02:79:00:00:00:02"}
    configure(host, network={"nic_tags": {"lan": {"bridge": "fbr0"}}})
    host.run("ip", "link", "add", "fbr0", "type", "bridge", check=True)
    vmadm.ok("create", payload=payload(tiny, uuid=one, alias="one", launch=sleeping(), nics=[nic]))
    vmadm.ok("create", payload=payload(tiny, uuid=other, launch=sleeping()))
    assert json.loads(vmadm.ok("get", one)).get("failure") is None
    host.power_off()  # the bridge is gone with it
    host.power_on()
    assert state_of_boot(host) == "degraded"
    seen_anew(host, one, other)

    def seen(state: str, reason: str | None) -> None:
        for stopped in (False, True):
            if stopped:
                host.run("systemctl", "stop", "vminfod.socket", "vminfod.service", check=True)
            try:
                machine = json.loads(vmadm.ok("get", one))
                assert machine["state"] == state, machine
                assert (machine.get("failure") is None) == (reason is None) and (reason or "") in machine.get("failure", ""), machine
                assert states(vmadm) == {one: state, other: "running"}
                assert vmadm.ok("list", "-p", "-o", "uuid", f"state={state}").split() == sorted([one, *([other] if state == "running" else [])])
            finally:
                if stopped:
                    host.run("systemctl", "start", "vminfod.socket", "vminfod.service", check=True)

    seen("failed", 'bridge "fbr0" of nic_tag "lan" does not exist on this host')
    code, text = vmadm.says("start", one)
    assert code == 1 and 'bridge "fbr0"' in text
    assert vmadm.says("reboot", one) == (1, 'Cannot reboot vm from state "failed", must be "running"\n')
    assert vmadm.says("stop", one) == (0, f"VM {one} is already not 'running' (currently: stopped)\n")
    seen("stopped", None)
    host.run("systemctl", "start", UNIT.format(one))
    seen_anew(host, one)
    seen("failed", 'bridge "fbr0"')
    host.run("ip", "link", "add", "fbr0", "type", "bridge", check=True)
    assert vmadm.says("start", one) == (0, f"Successfully started VM {one}\n")
    seen("running", None)
    vmadm.ok("delete", one)
    host.run("ip", "link", "del", "fbr0", check=True)
    configure(host)


def test_the_host_is_up_though_a_machine_never_gets_ready(host, vmadm, tiny):
    """It held up machines.target, the default target and the end of the boot for ever."""
    uuid = new_uuid()
    launch = sleeping()
    launch["programs"]["main"]["readiness"] = {"type": "fd", "fd": 3}  # which it never says
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, ram=64, autoboot=False, launch=launch))
    vmadm.ok("update", uuid, "autoboot=true")
    unit = UNIT.format(uuid)
    assert shown(host, unit, "JobRunningTimeoutUSec") == {"JobRunningTimeoutUSec": "5min"}
    drop_in = f"/etc/systemd/system/{unit}.d"
    host.run("sh", "-ec", f"mkdir -p {drop_in}; printf '[Unit]\nJobRunningTimeoutSec=2\n' >{drop_in}/60-short.conf", check=True)
    host.power_off()
    host.power_on()
    assert state_of_boot(host) in ("running", "degraded")
    assert shown(host, unit, "ActiveState") == {"ActiveState": "activating"}
    assert shown(host, "multi-user.target", "ActiveState") == {"ActiveState": "active"}
    vmadm.ok("stop", uuid)
    code, text = vmadm.says("start", uuid)
    assert (code, "takes longer" in text) == (1, True), text
    assert shown(host, unit, "ActiveState") == {"ActiveState": "activating"}
    vmadm.ok("delete", uuid)


def test_the_unit_of_a_machine_has_our_settings_without_a_reload(host, vmadm, tiny):
    uuid = new_uuid()
    before = host.run("journalctl", "--boot", "--output=cat", "_PID=1", "--grep=Reloading", check=False).stdout.count("Reloading")
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, launch=sleeping()))
    unit = UNIT.format(uuid)
    assert shown(host, unit, "TimeoutStartUSec", "JobRunningTimeoutUSec") == {"TimeoutStartUSec": "infinity", "JobRunningTimeoutUSec": "5min"}
    after = host.run("journalctl", "--boot", "--output=cat", "_PID=1", "--grep=Reloading", check=False).stdout.count("Reloading")
    assert after == before
    # One that systemd has loaded without them, as after an upgrade, gets them with its next start.
    vmadm.ok("stop", uuid)
    link = f"/etc/systemd/system/{unit}.d/50-triton.conf"
    host.run("sh", "-ec", f"rm {link}; systemctl daemon-reload; systemctl show -P TimeoutStartUSec {unit}; systemctl add-wants machines.target {unit}", check=True)
    vmadm.ok("start", uuid)
    assert shown(host, unit, "TimeoutStartUSec") == {"TimeoutStartUSec": "infinity"}
    assert host.run("readlink", link, check=True).stdout == "/usr/lib/triton/machine.conf\n"
    vmadm.ok("delete", uuid)
    assert left_of(host, uuid) == []


def test_a_machine_of_somebody_else_needs_nothing_of_ours(host):
    name = str(uuids.uuid4())
    host.run("sh", "-ec", f"""mkdir -p /var/lib/machines/{name}/usr /run/systemd/nspawn
        cp -a /mnt/. /var/lib/machines/{name}""", check=True)
    try:
        host.run("systemctl", "start", UNIT.format(name), check=True)
        assert name in running_machines(host)
        assert "TimeoutStopUSec=infinity" not in host.run("systemctl", "show", UNIT.format(name), check=True).stdout
        assert "triton" not in host.run("systemctl", "cat", UNIT.format(name), check=True).stdout
    finally:
        host.run("systemctl", "stop", UNIT.format(name), check=True)
        host.run("rm", "-rf", f"/var/lib/machines/{name}", f"/var/lib/machines/.#{name}.lck", check=True)

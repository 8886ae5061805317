"""Commands below another root directory (--root), with the files of machines that this host runs."""

import json
from contextlib import contextmanager

from machine_place import UNIT, new_uuid, payload, sleeping

NIC = {"nic_tag": "internal", "mac": "02:77:00:00:02:01", "ips": ["10.78.0.1/24"]}
LINK = "tm027700000201"
ROOT = "/var/tmp/other-root"
COVERS = f"needs the running host; --root covers the files below {ROOT} and the pool that its configuration names\n"


@contextmanager
def other_root(host, **members):
    """A directory with the files of this host's machines, as a backup of its disk has them, and a pool of its own."""
    network = {"nic_tags": {"internal": {"bridge": "trootbr"}}}
    host.run("sh", "-ec", f"""
        mkdir -p {ROOT}/etc/triton {ROOT}/run {ROOT}/var/lib {ROOT}/var/triton/vmadm
        cp -a /var/triton/vmadm/machines {ROOT}/var/triton/vmadm/
        cp -a /run/triton {ROOT}/run/
        rm -f {ROOT}/run/triton/*.socket""", check=True)
    host.run("tee", f"{ROOT}/etc/triton/triton.json", input=json.dumps({"storage": {"backend": "directory"}, "network": network, **members}), check=True)
    try:
        yield
    finally:
        host.run("rm", "-rf", "--one-file-system", ROOT, check=True)


@contextmanager
def bridge(host):
    kept = host.run("cat", "/etc/triton/triton.json", check=True).stdout
    host.run("ip", "link", "add", "trootbr", "type", "bridge", check=True)
    host.run("ip", "link", "set", "trootbr", "up", check=True)
    network = {"network": {"nic_tags": {"internal": {"bridge": "trootbr"}}}}
    host.run("tee", "/etc/triton/triton.json", input=json.dumps(json.loads(kept) | network), check=True)
    try:
        yield
    finally:
        host.run("tee", "/etc/triton/triton.json", input=kept, check=True)
        host.run("ip", "link", "del", "trootbr", check=True)


def test_nothing_of_this_host_is_reached_below_another_root(host, vmadm, tiny):
    uuid = new_uuid()
    with bridge(host):
        vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="same", launch=sleeping(), nics=[NIC]))
        runs = json.loads(vmadm.ok("get", uuid))
        autostart = host.run("systemctl", "is-enabled", UNIT.format(uuid)).stdout
        with other_root(host):
            refused = f"VM {uuid} runs on this host: below --root it cannot be changed\n"
            for words, text in (
                (["stop", "same"], refused),
                (["stop", "-F", uuid], refused),
                (["start", "same"], refused),
                (["reboot", "-F", "same"], refused),
                (["update", "same", "ram=64"], refused),
                (["delete", "same"], f"Failed to delete VM {uuid}: {refused}"),
                (["kill", "-KILL", "same"], "kill " + COVERS),
                (["exec", "same", "/bin/true"], "exec " + COVERS),
                (["logs", "same"], "logs " + COVERS),
                (["prepare"], "prepare " + COVERS),
            ):
                assert vmadm.says("--root", ROOT, *words) == (1, text)
            assert vmadm.ok("--root", ROOT, "list", "-p", "-o", "alias,state") == "same:stopped\n"
            assert "pid" not in json.loads(vmadm.ok("--root", ROOT, "get", "same"))
        after = json.loads(vmadm.ok("get", uuid))
        assert (after["pid"], after["state"], after["max_physical_memory"]) == (runs["pid"], "running", runs["max_physical_memory"])
        assert host.run("systemctl", "is-enabled", UNIT.format(uuid)).stdout == autostart
        assert host.run("ip", "link", "show", LINK).returncode == 0
        vmadm.ok("delete", uuid)


def test_what_fails_below_another_root_takes_no_link_of_this_host(host, vmadm, tiny):
    """The undo of a failed receive has removed the NIC of the machine with that address."""
    runs, sent = new_uuid(), new_uuid()
    with bridge(host):
        vmadm.ok("create", payload=payload(tiny, uuid=sent, launch=sleeping(), autoboot=False, nics=[NIC]))
        host.run("sh", "-ec", f"vmadm send {sent} >/var/tmp/sent", check=True)
        vmadm.ok("delete", sent)
        vmadm.ok("create", payload=payload(tiny, uuid=runs, launch=sleeping(), nics=[NIC]))
        with other_root(host):
            host.run("rm", "-r", f"{ROOT}/var/triton/vmadm/machines", check=True)
            assert vmadm.says("--root", ROOT, "receive", "-f", "/var/tmp/sent") == (1, "receive " + COVERS)
            assert host.run("find", ROOT, "-name", f"*{sent}*").stdout == ""
        assert host.run("ip", "link", "show", LINK).returncode == 0
        vmadm.ok("delete", runs)
        host.run("rm", "/var/tmp/sent", check=True)


def test_vminfod_below_another_root_tells_nothing_of_this_host(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="same", launch=sleeping()))
    with other_root(host):
        unit = "other-vminfod.service"
        host.run("systemd-run", "--quiet", "--service-type=notify", f"--unit={unit}", "vminfod", "--root", ROOT, check=True)
        try:
            machine = json.loads(host.run("vminfo", "--root", ROOT, "vm", "same", check=True).stdout)
            assert (machine["state"], machine.get("pid")) == ("stopped", None)
            sources = {each["name"]: each for each in json.loads(host.run("vminfo", "--root", ROOT, "status", "-j", check=True).stdout)["sources"]}
            assert (sources["systemd"]["working"], sources["systemd"]["note"]) == (False, "below another root nothing runs")
            stats = json.loads(host.run("vmadm", "--root", ROOT, "stats", "-j", check=True).stdout)
            assert "memory_bytes" not in stats[0]
        finally:
            host.run("systemctl", "stop", unit, check=True)


def test_a_dataset_of_this_host_is_not_used_below_another_root(host, vmadm, tiny):
    kept = host.run("cat", "/etc/triton/triton.json", check=True).stdout
    configured = json.loads(kept).get("storage", {}).get("dataset")
    with other_root(host, storage={"dataset": configured or "tank/triton"}):
        try:
            if not configured:
                host.run("tee", "/etc/triton/triton.json", input=json.dumps({"storage": {"dataset": "tank"}}), check=True)
            text = f"cannot use the pool of {ROOT}: its dataset {configured or 'tank/triton'} is in use by this host (\"storage\" in /etc/triton/triton.json)\n"
            assert vmadm.says("--root", ROOT, "list") == (1, text)
            said = host.run("imgadm", "--root", ROOT, "list")
            assert (said.returncode, said.stderr) == (1, f"imgadm: error (Refused): {text}")
        finally:
            host.run("tee", "/etc/triton/triton.json", input=kept, check=True)

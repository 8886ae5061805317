"""Machines that exist as files only, for what reads them: vminfod and vmadm below a root directory of their own."""

import json
import uuid as uuids
from pathlib import Path

KINDS = ("web", "db", "cache", "queue", "build", "mail")


class MachineFiles:
    def __init__(self, root):
        self.root = Path(root)
        self.machines = self.root / "var/triton/vmadm/machines"
        self.machines.mkdir(parents=True)
        configuration = self.root / "etc/triton/triton.json"
        configuration.parent.mkdir(parents=True)
        configuration.write_text(json.dumps({"storage": {"backend": "directory"}}))

    def path(self, uuid):
        return self.machines / f"{uuid}.json"

    def object(self, number, **members):
        """What vmadm keeps of an installed machine."""
        kind, uuid = KINDS[number % len(KINDS)], str(uuids.uuid5(uuids.NAMESPACE_OID, str(number)))
        ram = 256 << number % 5
        return {
            "uuid": uuid, "alias": f"{kind}{number}", "brand": "lx", "image_uuid": str(uuids.uuid5(uuids.NAMESPACE_OID, kind)),
            "hostname": f"{kind}{number}.example", "zonename": uuid, "zpool": "zones", "owner_uuid": str(uuids.UUID(int=0)),
            "billing_id": str(uuids.UUID(int=0)), "autoboot": True, "cpu_shares": 100, "max_physical_memory": ram, "max_swap": ram,
            "max_locked_memory": ram, "tmpfs": ram, "max_lwps": 2000, "quota": 10, "max_msg_ids": 4096, "max_sem_ids": 4096,
            "max_shm_ids": 4096, "max_shm_memory": ram, "zfs_io_priority": 100, "dns_domain": "local", "mdata_exec_timeout": 300,
            "firewall_enabled": False,
            "nics": [{"mac": f"02:08:20:00:{number >> 8:02x}:{number & 255:02x}", "interface": "eth0", "nic_tag": "external",
                      "ips": [f"10.0.{number >> 8}.{number & 255}/16"], "ip": f"10.0.{number >> 8}.{number & 255}",
                      "netmask": "255.255.0.0", "primary": True}],
            "create_timestamp": "2026-11-22T12:00:00.000Z", "v": 1, "phase": "installed", "first_uid": 65536 * (number + 8),
            **members}

    def text(self, machine):
        return json.dumps(machine, ensure_ascii=False)

    def write(self, machine):
        """Replaces its file as vmadm does."""
        path = self.path(machine["uuid"])
        pending = path.with_suffix(".pending")
        pending.write_text(self.text(machine))
        pending.rename(path)

    def config(self, uuid):
        """The directory of a machine's tree where its metadata and tags are."""
        tree = self.root / "var/triton/pool/machines" / uuid
        (tree / "@snapshots").mkdir(parents=True, exist_ok=True)
        (tree / "@tree/config").mkdir(parents=True, exist_ok=True)
        return tree / "@tree/config"

    def write_tags(self, uuid, tags):
        (self.config(uuid) / "tags.json").write_text(json.dumps(tags))

    def fill(self, count):
        """Machines number 0 to count."""
        made = [self.object(number) for number in range(count)]
        for machine in made:
            self.write(machine)
        return made

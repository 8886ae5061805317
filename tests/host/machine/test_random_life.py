"""A life of random machines: whatever is done to them, and killed on the way, vmadm and systemd agree with a model.

TRITON_RANDOM_SEED and TRITON_RANDOM_STEPS: other lives, and longer ones. A failure prints its seed and its story."""

import json
import os
import random
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from machine_place import UNIT, inside_cgroup, left_of, new_uuid, payload, seen_anew, sleeping

SEED = int(os.environ.get("TRITON_RANDOM_SEED", "1"))
STEPS = int(os.environ.get("TRITON_RANDOM_STEPS", "30"))
MOST = 3  # machines at once
STATE = "/var/triton/vmadm"
REJECTED = {"programs": {"main": {"command": ["/nowhere"]}}}  # only a launcher inside can see that


@dataclass
class Model:
    """What a machine is meant to be."""

    alias: str
    state: str
    ram: int = 64
    cpu_cap: int | None = None
    mark: str = ""  # in a file of its root
    launch: dict = field(default_factory=sleeping)
    snapshots: dict = field(default_factory=dict)  # the mark in each


class Life:
    def __init__(self, seed, host, vmadm, image):
        self.random = random.Random(seed)
        self.host, self.vmadm, self.image = host, vmadm, image
        self.machines = {}
        self.gone = set()
        self.story = [f"seed {seed}"]
        self.names = 0
        self.is_full = False

    def told(self, *words):
        self.story.append(" ".join(map(str, words)))

    def one_in(self, number):
        return self.random.randrange(number) == 0

    def name(self, kind):
        self.names += 1
        return f"{kind}{self.names}"

    def some(self, *states):
        fitting = [uuid for uuid, machine in self.machines.items() if not states or machine.state in states]
        return self.random.choice(fitting) if fitting else None

    def fail(self, text):
        pytest.fail(text + "\n" + "\n".join(self.story), pytrace=False)

    # --- changes: each may be killed, or find the disk full ---

    def change(self, uuid, after, *words, payload=None, fails=False):
        """Runs a command that makes `after` of a machine (None: no machine). Killed or on a full disk, it has done that or nothing."""
        before = deepcopy(self.machines.get(uuid))
        at = self.random.randint(1, 24) if self.one_in(4) else 0
        self.told(f"TRITON_KILL_AT={at}" if at else "", *words, "" if uuid in words else uuid)
        done = self.host.run("env", f"TRITON_KILL_AT={at}", "vmadm", *words, input=payload, timeout=400)
        was_killed = done.returncode in (-9, 137)
        if was_killed or (self.is_full and done.returncode != 0):
            self.make_room()
            recovered = self.vmadm("recover", uuid)
            if recovered.returncode != 0 and recovered.stderr != f"VM {uuid} not found\n":  # killed before it had made anything
                self.fail(f"recover {uuid}: {recovered.returncode} {recovered.stderr}")
            after = self.settled(uuid, before, after)
        elif fails != (done.returncode != 0):
            self.fail(f"{words}: {done.returncode} {done.stderr}")
        elif fails:
            after = before if words[0] == "update" else after
        if after is None:
            self.machines.pop(uuid, None)
            self.gone.add(uuid)
        else:
            self.machines[uuid] = after

    def settled(self, uuid, before, after):
        """Which of the two it has become; what runs after a killed start, stop or reboot is up to the moment of the kill."""
        seen = self.vmadm("get", uuid)
        if seen.returncode != 0:
            if before is not None and after is not None:
                self.fail(f"{uuid} was lost: {seen.stderr}")
            return None
        machine = json.loads(seen.stdout)
        chosen = next((model for model in (after, before) if model and self.is_like(model, machine)), None)
        if not chosen:
            self.fail(f"{uuid} is neither\n{before}\nnor\n{after}\nbut\n{seen.stdout}")
        chosen = deepcopy(chosen)
        chosen.state = machine["state"]
        if chosen.state not in ("running", "stopped", "configured"):
            self.vmadm("stop", "-F", uuid)
            chosen.state = "stopped"
        return chosen

    def is_like(self, model, machine):
        named = {snapshot["name"] for snapshot in machine["snapshots"]}
        return (machine["alias"], machine["ram"], machine.get("cpu_cap"), machine["launch"], named, self.mark_of(machine)) == (
            model.alias, model.ram, model.cpu_cap, model.launch, set(model.snapshots), model.mark)

    def mark_of(self, machine):
        return self.host.run("cat", machine["zonepath"] + "/root/etc/mark").stdout

    def create(self):
        if len(self.machines) >= MOST:
            return
        uuid, alias = new_uuid(), self.name("m")
        kind = self.random.choice(["running", "running", "stopped", "configured", "rejected"])
        options = {"running": {}, "stopped": {"autoboot": False}, "configured": {"create_only": True}, "rejected": {"launch": REJECTED}}[kind]
        after = Model(alias, "stopped" if kind == "rejected" else kind, launch=options.get("launch", sleeping()))
        self.change(uuid, after, "create", payload=payload(self.image, **{"uuid": uuid, "alias": alias, "ram": 64, "launch": sleeping(), **options}),
                    fails=kind == "rejected")

    def delete(self):
        if uuid := self.some():
            self.change(uuid, None, "delete", uuid)

    def update(self):
        uuid = self.some()
        if not uuid:
            return
        after = deepcopy(self.machines[uuid])
        key = self.random.choice(["alias", "ram", "cpu_cap"])
        value = {"alias": self.name("u"), "ram": self.random.choice([48, 64, 96]), "cpu_cap": self.random.choice([50, 80, 150])}[key]
        setattr(after, key, value)
        self.change(uuid, after, "update", uuid, f"{key}={value}")

    def update_launch(self):
        uuid = self.some("running", "stopped", "configured")
        if not uuid:
            return
        after = deepcopy(self.machines[uuid])
        after.launch = self.random.choice([sleeping(self.random.randint(1000, 9999)), REJECTED])
        is_rejected = after.launch == REJECTED and after.state == "running" and self.machines[uuid].launch != REJECTED
        self.change(uuid, after, "update", uuid, payload=json.dumps({"launch": after.launch}), fails=is_rejected)

    def install(self):
        if uuid := self.some("configured"):
            after = deepcopy(self.machines[uuid])
            after.state = "stopped"
            self.change(uuid, after, "install", uuid)

    def start(self):
        if uuid := self.some("stopped"):
            after = deepcopy(self.machines[uuid])
            is_rejected = after.launch == REJECTED
            after.state = "stopped" if is_rejected else "running"
            self.change(uuid, after, "start", uuid, fails=is_rejected)

    def stop(self):
        if uuid := self.some("running", "stopped"):
            after = deepcopy(self.machines[uuid])
            after.state = "stopped"
            self.change(uuid, after, *self.random.choice([("stop",), ("stop", "-F")]), uuid)

    def reboot(self):
        uuid = self.some("running")
        if uuid and self.machines[uuid].launch != REJECTED:
            self.change(uuid, deepcopy(self.machines[uuid]), *self.random.choice([("reboot",), ("reboot", "-F")]), uuid)

    def snapshot(self):
        if uuid := self.some("running", "stopped"):
            after = deepcopy(self.machines[uuid])
            name = self.name("s")
            after.snapshots[name] = after.mark
            self.change(uuid, after, "create-snapshot", uuid, name)

    def rollback(self):
        uuid = self.some("stopped")
        if uuid and self.machines[uuid].snapshots:
            after = deepcopy(self.machines[uuid])
            name = list(after.snapshots)[-1]  # ZFS goes back to the latest one only
            after.mark = after.snapshots[name]
            # The properties in the tree are those of the snapshot; others stay.
            self.make_room()
            self.told("rollback-snapshot", uuid, name)
            self.vmadm.ok("rollback-snapshot", uuid, name)
            after.launch = json.loads(self.vmadm.ok("get", uuid))["launch"]
            self.machines[uuid] = after

    # --- what others do ---

    def write(self):
        if uuid := self.some("running", "stopped"):
            mark = self.name("w")
            self.told("writes", mark, uuid)
            path = json.loads(self.vmadm.ok("get", uuid))["zonepath"]
            self.host.run("sh", "-c", f"printf {mark} >{path}/root/etc/mark", check=True)
            self.machines[uuid].mark = mark

    def native_stop(self):
        if uuid := self.some("running"):
            words = self.random.choice([["systemctl", "stop", UNIT.format(uuid)], ["machinectl", "terminate", uuid]])
            self.told(*words)
            self.host.run(*words, check=True)
            self.host.run("systemctl", "stop", UNIT.format(uuid), check=True)  # returns when it is down
            self.machines[uuid].state = "stopped"

    def native_start(self):
        uuid = self.some("stopped")
        if uuid and self.machines[uuid].launch != REJECTED:
            self.told("systemctl start", uuid)
            self.host.run("systemctl", "start", UNIT.format(uuid), check=True)
            self.machines[uuid].state = "running"

    def native_limit(self):
        if uuid := self.some("running", "stopped"):
            cap = self.random.choice([30, 70, 110])
            self.told("systemctl set-property", uuid, f"CPUQuota={cap}%")
            self.host.run("systemctl", "set-property", UNIT.format(uuid), f"CPUQuota={cap}%", check=True)
            self.machines[uuid].cpu_cap = cap

    def fill(self):
        self.told("the disk of the state is full")
        self.host.run("sh", "-c", f"head -c 100m /dev/zero >{STATE}/filler")
        self.is_full = True

    def make_room(self):
        if self.is_full:
            self.told("the disk has room again")
            self.host.run("rm", f"{STATE}/filler", check=True)
            self.is_full = False

    # --- the comparison ---

    def check(self):
        seen_anew(self.host, *self.machines)
        rows = sorted(self.vmadm.ok("list", "-p", "-o", "uuid,alias,state,ram,cpu_cap").splitlines())
        wanted = sorted(f"{uuid}:{m.alias}:{m.state}:{m.ram}:{m.cpu_cap or ''}" for uuid, m in self.machines.items())
        if rows != wanted:
            self.fail(f"vmadm list:\n{rows}\nthe model:\n{wanted}")
        for uuid, model in self.machines.items():
            machine = json.loads(self.vmadm.ok("get", uuid))
            if not self.is_like(model, machine):
                self.fail(f"{uuid} is not like\n{model}\nbut\n{machine}\nmark {self.mark_of(machine)!r}")
            is_up = self.host.run("systemctl", "is-active", UNIT.format(uuid)).stdout == "active\n"
            if is_up != (model.state == "running"):
                self.fail(f"{uuid}: systemd says otherwise than {model.state}")
            if is_up and model.cpu_cap and inside_cgroup(self.host, "cpu", uuid, "cpu.cfs_quota_us") != model.cpu_cap * 1000:
                self.fail(f"{uuid}: its control group has another cpu_cap than {model.cpu_cap}")
        for uuid in self.gone:
            if left := [path for path in left_of(self.host, uuid) if "/history" not in path]:
                self.fail(f"{uuid} has left {left}")


@contextmanager
def small_state(host):
    """The state of machines on a disk of its own, which can become full."""
    host.run("mkdir", "-p", STATE, check=True)
    host.run("mount", "-t", "tmpfs", "-o", "size=4m,mode=0755", "tmpfs", STATE, check=True)
    host.run("systemctl", "try-restart", "vminfod.service", check=True)
    try:
        yield
    finally:
        host.run("systemctl", "stop", "vminfod.service", check=True)
        host.run("umount", STATE, check=True)


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_a_random_life(host, vmadm, tiny, seed):
    with small_state(host):
        life = Life(seed, host, vmadm, tiny)
        steps = [life.create] * 4 + [life.delete, life.update, life.update, life.update_launch, life.update_launch, life.install, life.start,
                                     life.start, life.stop, life.reboot, life.snapshot, life.rollback, life.write, life.native_stop,
                                     life.native_start, life.native_limit]
        for _ in range(STEPS):
            if life.one_in(8):
                life.fill()
            life.random.choice(steps)()
            life.make_room()
            life.check()
        for uuid in list(life.machines):
            vmadm.ok("delete", uuid)
            life.gone.add(uuid)
        life.machines = {}
        life.check()

#!/usr/bin/python3
"""The process of a virtual machine, with the lines to its monitor and to the agent inside.

`qemu.py save DIRECTORY` boots the machine that `build` has put there and keeps what it is then. The saved state belongs to what stands
here: `build` makes it anew when this file has changed."""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BOOT_SECONDS = 900
MEMORY_MIB = 2560
GOODS_BYTES = 2 << 30  # the disk by which files come in has always the same size: the state knows it


class Qemu:
    """A process of qemu, with the lines to its monitor and to the agent inside. `directory`: of sockets and of what it writes."""

    def __init__(self, machine: Path, directory: Path, disks: tuple[Path, Path], goods: Path, incoming: Path | None = None):
        self.directory = directory
        monitor, agent = directory / "monitor", directory / "agent"
        drives = [f"file={disks[0]},format={disks[0].suffix[1:].replace('img', 'raw')},if=virtio,cache=unsafe",
                  f"file={disks[1]},format=qcow2,if=virtio,cache=unsafe", f"file={goods},format=raw,if=virtio,readonly=on"]
        words = ["nice", "-n", "10", "qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=512", "-machine", "pc", "-cpu", "max", "-smp", "2", "-m", str(MEMORY_MIB),
                 "-nographic", "-nodefaults", "-no-shutdown", "-nic", "none", "-serial", f"file:{directory / 'console'}",
                 "-kernel", machine / "vmlinuz", "-initrd", machine / "initrd.img",
                 "-append", "console=ttyS0 root=/dev/vda rw panic=-1 quiet mitigations=off",
                 *itertools.chain.from_iterable(("-drive", drive) for drive in drives),
                 "-device", "virtio-serial", "-chardev", f"socket,id=agent,path={agent},server=on,wait=off",
                 "-device", "virtserialport,chardev=agent,name=triton.agent",
                 "-qmp", f"unix:{monitor},server=on,wait=off"]
        if incoming:
            words += ["-incoming", f"exec:cat {incoming}"]
        with (directory / "qemu.log").open("w") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.monitor = Monitor(self.connect(monitor), self.process)
        self.agent = Agent(self.connect(agent))

    def connect(self, path: Path) -> socket.socket:
        end = time.monotonic() + 60
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(path))
                return connection
            except OSError:
                connection.close()
                assert self.process.poll() is None and time.monotonic() < end, f"qemu has not started: {(self.directory / 'qemu.log').read_text()}"
                time.sleep(0.05)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Monitor:
    """qemu's own commands and events (QMP)."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen):
        self.lines = connection.makefile("rw")
        self.process = process
        self.events: list[dict] = []
        self.read()
        self("qmp_capabilities")

    def read(self) -> dict:
        line = self.lines.readline()
        assert line, f"qemu has ended: {self.process.poll()}"
        return json.loads(line)

    def __call__(self, command: str, **arguments) -> dict:
        self.lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            answer = self.read()
            if "event" in answer:
                self.events.append(answer)
                continue
            assert "error" not in answer, f"{command}: {answer}"
            return answer["return"]

    def wait_for_status(self, wanted: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self("query-status")["status"] != wanted:
            assert time.monotonic() < end, f"the machine is not {wanted}: {self('query-status')}"
            time.sleep(0.1)

    def wait_for_migration(self) -> None:
        while (info := self("query-migrate")).get("status") not in (None, "completed"):
            assert info["status"] != "failed", info
            time.sleep(0.1)


class Agent:
    """Commands inside, by way of agent.py; its comment tells what the lines are."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.writing = threading.Lock()
        self.numbers = itertools.count(int(time.time() * 1000))  # what an earlier one has asked for does not answer to us
        self.queues: dict[int, queue.SimpleQueue] = {}
        self.boots: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        with self.connection.makefile("rb") as lines:
            for line in lines:
                try:
                    message = json.loads(line)
                except ValueError:
                    continue  # half a line, of before it was reset
                if "boot" in message:
                    self.boots.put(message["boot"])
                elif message.get("id") in self.queues:
                    self.queues[message["id"]].put(message)
        for each in list(self.queues.values()):
            each.put({"end": -1})

    def tell(self, **message) -> None:
        with self.writing:
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def begin(self, **message) -> tuple[int, queue.SimpleQueue]:
        number = next(self.numbers)
        self.queues[number] = queue.SimpleQueue()
        self.tell(id=number, **message)
        return number, self.queues[number]

    def send(self, number: int, data: bytes) -> None:
        for begin in range(0, len(data), 48 << 10):
            self.tell(id=number, **{"in": base64.b64encode(data[begin:begin + (48 << 10)]).decode()})

    def wait_for_boot(self, seconds: float) -> str:
        """It says so at its start; what has been running is asked."""
        end = time.monotonic() + seconds
        while True:
            try:
                return self.boots.get(timeout=2)
            except queue.Empty:
                assert time.monotonic() < end, "the machine does not come up"
                self.tell(hello=True)


def save(machine: Path) -> None:
    """Boots the machine, and keeps its memory and what its disk then has."""
    with tempfile.TemporaryDirectory() as directory:
        goods = Path(directory) / "goods"
        goods.touch()
        os.truncate(goods, GOODS_BYTES)
        qemu = Qemu(machine, Path(directory), (machine / "disk.img", machine / "pool.qcow2"), goods)
        try:
            qemu.agent.wait_for_boot(BOOT_SECONDS)
            number, answers = qemu.agent.begin(run=["sh", "-c", "systemctl is-system-running --wait; systemctl --failed --no-legend; sync"], env={"PATH": "/usr/sbin:/usr/bin"})
            qemu.agent.tell(id=number, close=True)
            said = b""
            while "end" not in (message := answers.get(timeout=BOOT_SECONDS)):
                said += base64.b64decode(message.get("out", ""))
            assert said.startswith(b"running"), f"the machine is not as it should be: {said.decode()}"
            qemu.monitor("stop")
            qemu.monitor("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            qemu.monitor("migrate", uri=f"exec:cat >{machine / 'state'}")
            qemu.monitor.wait_for_migration()
        finally:
            shutil.copy(Path(directory) / "console", machine / "console")
            qemu.end()


if __name__ == "__main__":
    assert sys.argv[1] == "save"
    save(Path(sys.argv[2]))

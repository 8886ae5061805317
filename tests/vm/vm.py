#!/usr/bin/python3
"""A virtual machine as a host of tests: systemd is its PID 1, it has OpenZFS, cgroup v2 and VLANs, and it goes on from a booted state.

`vm.py save DIRECTORY` boots the machine that `build` has put there and keeps what it is then."""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from harness.slowness import FACTOR  # noqa: E402

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


class Command:
    """What subprocess.Popen is for a program of this machine, as far as the suites use it: its output is text that is read here."""

    def __init__(self, agent: Agent, words: tuple[str, ...], environment: dict[str, str]):
        self.agent = agent
        self.number, self.queue = agent.begin(run=list(words), env=environment)
        self.returncode: int | None = None
        self.errors = b""
        reader, self.writer = os.pipe()
        self.stdout = os.fdopen(reader, "r")
        self.feeder = threading.Thread(target=self.feed, daemon=True)
        self.feeder.start()

    def feed(self) -> None:
        while True:
            message = self.queue.get()
            if "end" in message:
                self.returncode = message["end"]
                break
            self.errors += base64.b64decode(message.get("err", ""))
            try:
                os.write(self.writer, base64.b64decode(message.get("out", "")))
            except BrokenPipeError:
                self.send_signal(signal.SIGPIPE)
        os.close(self.writer)

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self.feeder.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a command in the virtual machine", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        self.agent.tell(id=self.number, signal=number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class VmHost:
    """Has the same face as TestHost of tests/testhost. The build directory's programs, without what a debugger needs, are at /build."""

    ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/build", "LC_ALL": "C.UTF-8", "HOME": "/root"}
    CONFIGURATION = {"storage": {"backend": "zfs", "dataset": "tank/triton", "path": "/var/triton/pool"}}

    def __init__(self, directory: Path, build: Path, machine: Path | None = None):
        self.machine = machine or Path(subprocess.run([HERE / "build"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])
        self.build = build
        self.directory = directory
        goods = directory / "goods"
        pack(build, goods)
        disks = tuple(directory / name for name in ("disk.qcow2", "pool.qcow2"))
        for disk, base, kind in zip(disks, ("disk.img", "pool.qcow2"), ("raw", "qcow2")):
            run("qemu-img", "create", "-q", "-f", "qcow2", "-b", self.machine / base, "-F", kind, disk)
        self.qemu = Qemu(self.machine, directory, disks, goods, self.machine / "state")
        self.qemu.monitor.wait_for_status("paused", 120)
        self.qemu.monitor("cont")
        self.boot = self.qemu.agent.wait_for_boot(60)
        self.run("date", "-s", f"@{time.time():.3f}", check=True)
        # The first page may be known from the boot, when it was empty.
        self.run("sh", "-ec", "blockdev --flushbufs /dev/vdc; mkdir -p /build; tar -x -f /dev/vdc -C /; zpool create -m none tank /dev/vdb", check=True)

    def popen(self, *words: str) -> Command:
        return Command(self.qemu.agent, words, self.ENVIRONMENT)

    def run(self, *words: str, input: str | None = None, timeout: float = 120, check: bool = False) -> subprocess.CompletedProcess:
        agent = self.qemu.agent
        number, answers = agent.begin(run=[str(word) for word in words], env=self.ENVIRONMENT)
        if input is not None:
            agent.send(number, input.encode())
        agent.tell(id=number, close=True)
        end = time.monotonic() + timeout * FACTOR
        said = {"out": b"", "err": b""}
        while True:
            try:
                message = answers.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                agent.tell(id=number, signal=signal.SIGKILL)
                raise subprocess.TimeoutExpired(words, timeout * FACTOR, said["out"], said["err"]) from None
            for name in said:
                said[name] += base64.b64decode(message.get(name, ""))
            if "end" in message:
                break
        del agent.queues[number]
        done = subprocess.CompletedProcess(words, message["end"], said["out"].decode(), said["err"].decode())
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def path(self, inside: str) -> "VmPath":
        return VmPath(self, inside)

    def socket(self, inside: str) -> str:
        """By which path a socket of the machine is reached from outside: each connection there becomes one inside."""
        path = self.directory / f"{inside.replace('/', '_')}.{next(self.qemu.agent.numbers)}"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(1)
        threading.Thread(target=self.forward, args=(listener, inside), daemon=True).start()
        return str(path)

    def forward(self, listener: socket.socket, inside: str) -> None:
        with listener:
            connection, _ = listener.accept()
        agent = self.qemu.agent
        number, answers = agent.begin(connect=inside)

        def outwards():
            while "end" not in (message := answers.get()):
                try:
                    connection.sendall(base64.b64decode(message.get("out", "")))
                except OSError:
                    break
            connection.close()

        threading.Thread(target=outwards, daemon=True).start()
        try:
            while data := connection.recv(48 << 10):
                agent.send(number, data)
        except OSError:
            pass
        agent.tell(id=number, close=True)

    def install_package(self, directory: Path) -> None:
        """Makes triton-host of the build, and installs it as an operator would; the launcher, which it recommends, is copied."""
        script = HERE.parents[1] / "packaging/build"
        package = run(script, "triton-host", self.build, directory).stdout.strip()
        self.path("/root/triton-host.deb").write_bytes(Path(package).read_bytes())
        self.run("dpkg", "--install", "/root/triton-host.deb", check=True)
        self.run("cp", "/build/triton-launch", "/usr/bin/triton-launch", check=True)

    def power_off(self) -> None:
        """Shuts it down as its power button does; what is in its files stays."""
        self.popen("systemctl", "poweroff")
        self.qemu.monitor.wait_for_status("shutdown", BOOT_SECONDS)

    def cut_power(self) -> None:
        """Ends it without asking anybody."""
        self.qemu.monitor("stop")

    def power_on(self) -> None:
        """Boots it, and returns when its systemd says that it is up."""
        while not self.qemu.agent.boots.empty():
            self.qemu.agent.boots.get()
        before = self.boot
        self.qemu.monitor("system_reset")
        self.qemu.monitor("cont")
        while self.boot == before:
            self.boot = self.qemu.agent.wait_for_boot(BOOT_SECONDS)
        self.run("systemctl", "is-system-running", "--wait", timeout=BOOT_SECONDS)

    def stop(self) -> None:
        self.qemu.end()


def run(*words) -> subprocess.CompletedProcess:
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done


class VmPath:
    """A file of the machine; of pathlib.Path what the suites use."""

    def __init__(self, host: VmHost, path: str):
        self.host, self.path = host, path

    def exists(self) -> bool:
        return self.host.run("test", "-e", self.path).returncode == 0

    def read_bytes(self) -> bytes:
        return base64.b64decode(self.host.run("base64", "-w", "0", self.path, check=True).stdout)

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> None:
        self.host.run("sh", "-ec", 'base64 -d >"$0"', self.path, input=base64.b64encode(data).decode(), check=True)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode())

    def iterdir(self) -> list[str]:
        return self.host.run("ls", "-A", self.path, check=True).stdout.split()


PROGRAMS = ("triton-launch", "imgadm", "vmadm", "vminfo", "vminfod", "triton-download", "triton-verify", "triton-unpack", "triton-machine-init",
            "triton-machine-network", "triton-machine-exit", "tests/host/storage_tool")


def pack(build: Path, goods: Path) -> None:
    """The build's programs, stripped, and the tests, as an archive with room behind it."""
    with tempfile.TemporaryDirectory() as directory:
        stage = Path(directory)
        for program in PROGRAMS:
            to = stage / "build" / program
            to.parent.mkdir(parents=True, exist_ok=True)
            run("strip", "-o", to, build / program)
        shutil.copytree(HERE.parent, stage / "tests", ignore=shutil.ignore_patterns("__pycache__", "corpus"))
        run("tar", "-c", "-f", goods, "--owner=0", "--group=0", "-C", stage, "build", "tests")
    os.truncate(goods, GOODS_BYTES)


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

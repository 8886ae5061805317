"""A virtual machine as a host of tests: systemd is its PID 1, it has OpenZFS, cgroup v2 and VLANs, and it goes on from a booted state."""

from __future__ import annotations

import base64
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
sys.path[:0] = [str(HERE.parent), str(HERE)]
from qemu import BOOT_SECONDS, GOODS_BYTES, Agent, Qemu  # noqa: E402

from harness.slowness import FACTOR  # noqa: E402


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

"""A Debian host with systemd, D-Bus and machined, booted in namespaces and cgroups of its own, for tests of the host's programs."""

import os
import select
import shutil
import signal
import socket
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
BOOT_SECONDS = 120  # of a machine that is loaded; it takes two


class TestHost:
    """Is made of a copy of the cached root, with the build directory at /build, and is gone at the end."""

    __test__ = False
    CONFIGURATION: dict = {}  # of imgadm and vmadm: what they have without one

    def __init__(self, name: str, directory: Path, build: Path, options: tuple[str, ...] = ()):
        """`options`: more of systemd-nspawn's."""
        roots = subprocess.run([HERE / "build"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        self.name = name
        self.build = build
        self.options = options
        self.root = directory / "host"
        self.machine_root = Path(roots[1])
        subprocess.run(["cp", "-a", "--reflink=auto", roots[0], self.root], check=True)
        (self.root / "build").mkdir()
        self.log = directory / "host.log"
        self.power_on()

    def power_on(self) -> None:
        """Boots it, and returns when its systemd says that it is up."""
        address = self.log.with_name("notify")
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, self.log.open("a") as log:
            ready.bind(str(address))
            self.process = subprocess.Popen(
                [HERE / "boot", self.name, self.root, "--notify-ready=yes", f"--bind-ro={self.build}:/build",
                 f"--bind-ro={self.machine_root}:/mnt", *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "NOTIFY_SOCKET": str(address)})
            self.leader = self._wait_until_ready(ready)

    def power_off(self) -> None:
        """Shuts it down as its power button does; what is in its files stays."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.cut_power()

    def cut_power(self) -> None:
        """Ends it without asking anybody."""
        os.kill(self.leader, signal.SIGKILL)
        self.process.wait(60)

    def _wait_until_ready(self, ready: socket.socket) -> int:
        leader = 0
        exited = os.pidfd_open(self.process.pid)
        try:
            while True:
                readable, _, _ = select.select([ready, exited], [], [], BOOT_SECONDS)
                assert ready in readable, f"the test host did not come up: {self.log.read_text()[-2000:]}"
                for line in ready.recv(65536).decode().splitlines():
                    key, _, value = line.partition("=")
                    if key == "X_NSPAWN_LEADER_PID":
                        leader = int(value)
                    elif line == "READY=1":
                        assert leader > 0
                        return leader
        finally:
            os.close(exited)

    ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/build", "LC_ALL": "C.UTF-8"}

    def _words(self, words: tuple[str, ...]) -> list[str]:
        return ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w", *words]

    def popen(self, *words: str) -> subprocess.Popen:
        """Starts a program in the host, whose output is read by the caller, who ends it."""
        return subprocess.Popen(self._words(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=self.ENVIRONMENT)

    def run(self, *words: str, input: str | None = None, timeout: float = 120, check: bool = False) -> subprocess.CompletedProcess:
        """Runs a program in the host."""
        done = subprocess.run(
            self._words(words),
            input=input, stdin=subprocess.DEVNULL if input is None else None,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout,
            env=self.ENVIRONMENT)
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def path(self, inside: str) -> Path:
        """Of a file of the host, for looking at it from outside: nothing on the way may be a link that leads elsewhere."""
        return self.root / inside.lstrip("/")

    def socket(self, inside: str) -> str:
        """By which path a socket of the host is reached from outside."""
        return f"/proc/{self.leader}/root{inside}"

    def install_package(self, directory: Path) -> None:
        """Makes triton-host of the build, and installs it as an operator would; the launcher, which it recommends, is copied."""
        script = HERE.parents[1] / "packaging/build"
        package = subprocess.run([script, "triton-host", self.build, directory], check=True, stdout=subprocess.PIPE, text=True)
        shutil.copy(package.stdout.strip(), self.path("/root/triton-host.deb"))
        self.run("dpkg", "--install", "/root/triton-host.deb", check=True)
        subprocess.run(["strip", "-o", self.path("/usr/bin/triton-launch"), self.build / "triton-launch"], check=True)

    def stop(self) -> None:
        self.power_off()
        shutil.rmtree(self.root)

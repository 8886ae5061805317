import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCE / "tests/testhost"), str(SOURCE / "tests/host"), str(SOURCE / "tests/vm")]
from machine_place import configure  # noqa: E402
from testhost import TestHost  # noqa: E402
from vm import VmHost  # noqa: E402

BUILD = Path(os.environ.get("TRITON_BUILD", SOURCE / "build/dev"))
TINY = "5e6a4c11-0c2f-4a44-8c1f-000000000001"
DEBIAN = "5e6a4c11-0c2f-4a44-8c1f-000000000002"
IS_VM = os.environ.get("TRITON_TEST_HOST") == "vm"  # the virtual machine of ./dev test vm, with its pool on OpenZFS
TINY_SCRIPT = "mkdir -p $1/usr/bin $1/etc $1/tmp $1/proc $1/sys $1/dev $1/run $1/var; cp /mnt/usr/bin/busybox $1/usr/bin/; ln -s usr/bin $1/bin"


def pytest_collection_modifyitems(items):
    needed = ("mmdebstrap", "qemu-system-x86_64" if IS_VM else "systemd-nspawn", "scdoc", "dpkg-shlibdeps")
    missing = [program for program in needed if not shutil.which(program)]
    reason = "needs root" if os.geteuid() != 0 else f"needs {', '.join(missing)}" if missing else None
    for item in items:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        elif IS_VM and (marker := item.get_closest_marker("not_in_vm")):
            item.add_marker(pytest.mark.skip(reason=f"not in a virtual machine: {marker.args[0]}"))


def pytest_configure(config):
    config.addinivalue_line("markers", "not_in_vm(reason): what a test looks at is not there where the host is a virtual machine on OpenZFS")


@pytest.fixture(scope="session")
def host():
    place = "/var/tmp" if IS_VM else "/dev/shm"  # no disk to wait for, as long as it fits
    with tempfile.TemporaryDirectory(dir=place, prefix="triton-testhost-") as directory:
        host = VmHost(Path(directory), BUILD) if IS_VM else TestHost(f"triton-{os.getpid()}", Path(directory), BUILD)
        try:
            configure(host)
            host.install_package(Path(directory) / "package")
            yield host
        finally:
            host.stop()


def install(host, uuid: str, name: str, script: str) -> None:
    """An image of a directory that the script fills."""
    directory = f"/tmp/{name}"
    host.run("sh", "-ec", f"rm -rf {directory}; mkdir {directory}; {script}", "sh", directory, check=True)
    host.run("imgadm", "import", "--uuid", uuid, "--name", name, "--image-version", "1", directory, check=True)


@pytest.fixture(scope="session")
def tiny(host):
    install(host, TINY, "tiny", TINY_SCRIPT)
    return TINY


@pytest.fixture(scope="session")
def debian(host):
    install(host, DEBIAN, "debian", "cp -a /mnt/. $1")
    return DEBIAN


class Vmadm:
    def __init__(self, host):
        self.host = host

    def __call__(self, *words: str, payload: str | None = None) -> subprocess.CompletedProcess:
        return self.host.run("vmadm", *words, input=payload, timeout=400)  # a start is waited for 5 minutes

    def ok(self, *words: str, payload: str | None = None) -> str:
        done = self(*words, payload=payload)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def says(self, *words: str, payload: str | None = None) -> tuple[int, str]:
        done = self(*words, payload=payload)
        return done.returncode, done.stderr


@pytest.fixture
def vmadm(host):
    vmadm = Vmadm(host)
    yield vmadm
    left = vmadm("list", "-p", "-o", "uuid").stdout.split()
    for uuid in left:
        vmadm.ok("delete", uuid)

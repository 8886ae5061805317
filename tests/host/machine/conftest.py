import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCE / "tests/testhost"), str(SOURCE / "tests/host")]
from testhost import TestHost  # noqa: E402

BUILD = Path(os.environ.get("TRITON_BUILD", SOURCE / "build/dev"))
TINY = "5e6a4c11-0c2f-4a44-8c1f-000000000001"
DEBIAN = "5e6a4c11-0c2f-4a44-8c1f-000000000002"
TINY_SCRIPT = "mkdir -p $1/usr/bin $1/etc $1/tmp $1/proc $1/sys $1/dev $1/run $1/var; cp /mnt/usr/bin/busybox $1/usr/bin/; ln -s usr/bin $1/bin"


def pytest_collection_modifyitems(items):
    missing = [program for program in ("mmdebstrap", "systemd-nspawn", "scdoc", "dpkg-shlibdeps") if not shutil.which(program)]
    reason = "needs root" if os.geteuid() != 0 else f"needs {', '.join(missing)}" if missing else None
    for item in items:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def host():
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="triton-testhost-") as directory:  # no disk to wait for
        host = TestHost(f"triton-{os.getpid()}", Path(directory), BUILD)
        try:
            host.install_package(Path(directory) / "package")
            yield host
        finally:
            host.stop()


def install(host, uuid: str, name: str, script: str) -> None:
    """An image of a directory that the script fills."""
    directory = f"/tmp/{name}"
    host.run("sh", "-ec", f"mkdir {directory}; {script}", "sh", directory, check=True)
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
        return self.host.run("vmadm", *words, input=payload)

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

"""Each role of the wall in an attacker's hands: it has confined itself as it always does, and then tries to get out. The program
role_probe (tests/host/helpers) plays it; host/role alone makes its sandbox, as it does for the real ones."""

import os
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TRITON_BUILD", Path(__file__).parents[3] / "build/dev"))
PROBE = BUILD / "tests/host/probe/role_probe"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start roles"),
    pytest.mark.skipif(
        PROBE.exists() and b"__asan_init" in PROBE.read_bytes(), reason="the sanitizers' runtime needs calls that the shipped filter kills for"
    ),
]

KILLED = "SIGSYS"
MISSING = "No such file or directory"
READ_ONLY = "Read-only file system"
BUSY = "Resource temporarily unavailable"

# attempt -> what comes of it, by role: verify, unpack, download
ATTEMPTS = {
    "nothing": ("succeeded", "succeeded", "succeeded"),
    "thread": ("succeeded", "succeeded", "succeeded"),
    "open": (KILLED, KILLED, MISSING),
    "openat2": (KILLED, MISSING, KILLED),
    "open-proc": (KILLED, MISSING, KILLED),
    "escape": (KILLED, MISSING, KILLED),
    "escape-far": (KILLED, MISSING, KILLED),
    "escape-root": (KILLED, MISSING, KILLED),
    "chmod-outside": (KILLED, MISSING, KILLED),
    "create-inside": (KILLED, "succeeded", KILLED),
    "chown-inside": (KILLED, "succeeded", KILLED),
    "create-root": (KILLED, "succeeded", KILLED),
    "device": (KILLED, KILLED, KILLED),
    "connect": (KILLED, KILLED, "Connection refused"),
    "abstract": (KILLED, KILLED, "Address family not supported by protocol"),
    "netlink": (KILLED, KILLED, "succeeded"),
    "netlink-diag": (KILLED, KILLED, KILLED),
    "packet": (KILLED, KILLED, KILLED),
    "ptrace": (KILLED, KILLED, KILLED),
    "read-memory": (KILLED, KILLED, KILLED),
    "exec": (KILLED, KILLED, KILLED),
    "fork": (KILLED, KILLED, KILLED),
    "mount": (KILLED, KILLED, KILLED),
    "unshare": (KILLED, KILLED, KILLED),
    "chroot": (KILLED, KILLED, KILLED),
    "kill": (KILLED, KILLED, KILLED),
    "setuid": (KILLED, KILLED, KILLED),
    "bpf": (KILLED, KILLED, KILLED),
    "io-uring": (KILLED, KILLED, KILLED),
    "keyctl": (KILLED, KILLED, KILLED),
    "userfaultfd": (KILLED, KILLED, KILLED),
    "perf": (KILLED, KILLED, KILLED),
    "terminal": (KILLED, KILLED, KILLED),
    "code": (KILLED, KILLED, KILLED),
    "large-file": (KILLED, KILLED, "Permission denied"),
    "memory": ("Cannot allocate memory", "Cannot allocate memory", "Cannot allocate memory"),
    "descriptors": (KILLED, "Too many open files", KILLED),
    "duplicates": (KILLED, KILLED, "Too many open files"),
    "threads": (BUSY, BUSY, BUSY),
    "memory-file": (KILLED, KILLED, KILLED),
    "reserve-blocks": (KILLED, KILLED, KILLED),
    "chmod-null": (KILLED, READ_ONLY, KILLED),
    "chown-null": (KILLED, READ_ONLY, KILLED),
    "attribute-null": (KILLED, READ_ONLY, KILLED),
    "times-null": (KILLED, READ_ONLY, KILLED),
    "chmod-blob": (KILLED, READ_ONLY, KILLED),
    "chown-blob": (KILLED, READ_ONLY, KILLED),
    "chown-blob-at": (KILLED, READ_ONLY, KILLED),
    "attribute-blob": (KILLED, READ_ONLY, KILLED),
    "no-attribute-blob": (KILLED, READ_ONLY, KILLED),
    "times-blob": (KILLED, READ_ONLY, KILLED),
    "cut-blob": ("Invalid argument", "Invalid argument", KILLED),
    "flags-blob": (KILLED, KILLED, KILLED),
    "link-blob": (KILLED, MISSING, KILLED),
    "core": (KILLED, KILLED, KILLED),
}
ROLES = ("verify", "unpack", "download")


@pytest.fixture
def lent(tmp_path):
    """A directory of the host whose descriptor the role gets (unpack: as its root), with a secret beside it; the role also gets
    that file, as triton-unpack gets an archive."""
    (tmp_path / "outside").write_text("secret")
    os.setxattr(tmp_path / "outside", "user.kept", b"x")
    directory = tmp_path / "lent"
    directory.mkdir()
    (directory / "file").write_text("x")
    return directory


def probe(role: str, attempt: str, lent: Path) -> str:
    done = subprocess.run([PROBE, role, attempt, lent], capture_output=True, text=True, timeout=60)
    return done.stdout


def facts(path: Path) -> tuple:
    status = path.stat()
    return status.st_mode, status.st_uid, status.st_gid, status.st_ctime_ns, os.listxattr(path), path.read_text()


def expected(role: str, outcome: str) -> str:
    return f"triton-{role} was killed by SIGSYS\n" if outcome == KILLED else f"{outcome}\nended well\n"


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_role_can_do_its_work_and_nothing_else(attempt, lent):
    before = facts(lent.parent / "outside")
    outcomes = {role: probe(role, attempt, lent) for role in ROLES}
    assert outcomes == {role: expected(role, outcome) for role, outcome in zip(ROLES, ATTEMPTS[attempt], strict=True)}
    assert facts(lent.parent / "outside") == before


def test_unpacker_makes_files_for_its_namespace(lent):
    assert probe("unpack", "create-root", lent) == "succeeded\nended well\n"
    status = (lent / "new").stat()
    assert (status.st_uid, status.st_gid) == (0, 0)


def test_role_is_not_started_by_hand():
    done = subprocess.run([PROBE.with_name("triton-verify"), "0", "0"], stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 3


def test_role_needs_root(lent):
    done = subprocess.run([PROBE, "verify", "nothing"], capture_output=True, text=True, timeout=60, user=65534)
    assert done.stdout == "not started: cannot start triton-verify: this needs root\n"

"""One system call of imgadm fails, the next time another one: the command says what and why, lists nothing half, and leaves nothing behind.

strace counts the calls of each process and thread, so that also one of triton-unpack and triton-verify fails.
"""

import errno
import os
import re
import shutil
import subprocess

import pytest
from image_place import IMGADM, PATIENCE, Host, Layout, area, fill, look, needs_root, tarball  # noqa: F401

pytestmark = [needs_root, pytest.mark.skipif(not shutil.which("strace"), reason="needs strace, which makes a system call fail")]

# How a failure of a process without a file is told, when it cannot tell more.
BARE = "triton-(unpack|verify) (exited|was killed)|a role has ended"


class Faulty:
    """imgadm of a host, of which the n-th call fails."""

    def __init__(self, host):
        self.host = host
        self.trace = host.area / "trace"

    def run(self, call, error, number, *words, where=()):
        """Returns the exit code and what it said; None when it has no such call."""
        self.trace.unlink(missing_ok=True)
        done = subprocess.run(
            ["strace", "-f", "-qq", "-o", self.trace, *where, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}",
             IMGADM, *map(str, words)],
            capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, env=self.host.environment())
        if "(INJECTED)" not in self.trace.read_text():
            return None
        assert done.returncode in (0, 1), f"{call} {number}: exit code {done.returncode}: {done.stderr}"
        return done.returncode, done.stderr

    def each(self, call, error, *words, where=()):
        """Fails the first call, the second one and so on, later every third one, until there is none. Yields the number, the exit code
        and what was said."""
        number = 1
        while (ended := self.run(call, error, number, *words, where=where)) is not None:
            yield (number, *ended)
            number += 1 if number < 8 else 3


def of_two_layers(area):
    """An image of which the upper layer hides what a directory of the lower one has."""
    layout = Layout(area / "layout")
    base = fill(area / "base", {"etc/a": "a", "etc/b": "b", "bin/x": ("link", "y")})
    layout.make("1", [base, fill(area / "upper", {"etc/.wh..wh..opq": "", "etc/c": "c"})])
    return f"oci:{layout.path}:1", look(layout.unpack("1", area / "umoci"))


@pytest.mark.parametrize(("call", "error"), [
    ("clone3", "EAGAIN"), ("getdents64", "EIO"), ("mkdirat", "ENOSPC"), ("sendmsg", "ENOMEM"), ("syncfs", "EIO")])
def test_an_import(area, call, error):
    reference, tree = of_two_layers(area)
    host = Host(area / "host")
    host.run("gc")  # the pool and the store are made once
    reason = {"EAGAIN": "Resource temporarily unavailable", "EIO": "Input/output error", "ENOSPC": "No space left on device",
              "ENOMEM": "Cannot allocate memory"}[error]
    where = ("-P", host.pool) if call == "mkdirat" else ()  # the sandboxes make many directories
    count = 0
    for number, code, said in Faulty(host).each(call, error, "import", reference, where=where):
        count += 1
        assert code == 0 or re.search(f"{reason}|{BARE}", said), f"{call} {number}: {said}"
        uuids = host.uuids()
        assert code == 1 or len(uuids) == 1, f"{call} {number}: it says that it has worked"
        for uuid in uuids:
            assert look(host.tree(uuid)) == tree, f"{call} {number}: the image is not whole"
            host.run("delete", uuid)
        if not uuids:
            host.run("gc")
        assert host.layers() == [] and host.left_over() == [], f"{call} {number}: {said}"
    assert count > 0
    host.run("import", reference)


@pytest.mark.parametrize(("call", "error", "reason"), [
    ("clone3", "EAGAIN", "Resource temporarily unavailable"), ("clone", "EAGAIN", "Resource temporarily unavailable"),
    ("sendmsg", "ENOMEM", "Cannot allocate memory")])
def test_a_creation(area, call, error, reason):
    """tar, which then has nobody who reads, is not what is to blame."""
    host = Host(area / "host")
    host.run("gc")
    out = area / "out"
    for number, code, said in Faulty(host).each(call, error, "create", fill(area / "tree", {"etc/a": "a"}), "-o", out):
        assert code == 0 or re.search(f"{reason}|{BARE}", said), f"{call} {number}: {said}"
        assert code == 1 or len(list(out.iterdir())) == 2
        shutil.rmtree(out, ignore_errors=True)


@pytest.mark.parametrize(("call", "error", "is_about_blobs"), [("openat", "EMFILE", True), ("clone3", "EAGAIN", False), ("getdents64", "EIO", True)])
def test_a_scrub_takes_no_good_blob_for_a_bad_one(area, call, error, is_about_blobs):
    """What the system lacks says nothing about a blob."""
    host = Host(area / "host")
    host.run("import", tarball(fill(area / "tree", {"etc/a": "a"}), area / "a.tar"))
    blobs = host.blobs()
    where = ("-P", host.state / "content/blobs/sha256") if is_about_blobs else ()
    faults = list(Faulty(host).each(call, error, "scrub", where=where))
    if call == "clone3":
        assert faults.pop(0)[1] == 0, "the first one asks only whether a filter knows the call"
    assert [code for _, code, _ in faults] == [1] * len(faults) != []
    assert all(os.strerror(getattr(errno, error)) in said for _, _, said in faults), faults
    assert host.blobs() == blobs
    assert host.run("scrub").stderr == ""


def test_the_database_that_cannot_be_opened_is_named(area):
    host = Host(area / "host")
    host.run("gc")
    database = host.state / "content/content.db"
    faults = list(Faulty(host).each("newfstatat", "EIO", "list", where=("-P", database)))
    assert any(code == 1 for _, code, _ in faults)
    assert all(code == 0 or (str(database) in said and "Input/output error" in said) for _, code, said in faults), faults


def test_a_lock_that_cannot_be_looked_at_is_not_tried_for_ever(area):
    host = Host(area / "host")
    host.run("gc")
    ended = Faulty(host).run("newfstatat", "EIO", "1+", "gc", where=("-P", host.state / "content/locks"))
    assert ended is not None and ended[0] == 1 and "Input/output error" in ended[1]

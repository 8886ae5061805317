"""The measurements of staged files: how fast they are copied, and hashed."""

import ctypes
import os
import shutil
import time

from meter import MeasureError
from serving import Server

MEBIBYTE = 1 << 20
SMALL = 4096  # bytes of a small file
libc = ctypes.CDLL(None, use_errno=True)


def fill(path, size):
    """Makes a file of bytes that no file system can make smaller."""
    piece = os.urandom(MEBIBYTE)
    with open(path, "wb") as file:
        while size > 0:
            size -= file.write(piece[:size])


def sync_all(directory):
    """Ends when the file system has nothing left to write."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        if libc.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), "syncfs")
    finally:
        os.close(fd)


def copy(bench):
    """A file of 1 GiB (64 MiB when quick) and 10,000 of 4 KiB (1,000), each with one command, in memory and durably."""
    for place, directory in (("memory", bench.meter.directory()), ("disk", bench.meter.work.parent / "disk")):
        directory.mkdir(exist_ok=True)
        try:
            copy_in(bench, place, directory)
        finally:
            shutil.rmtree(directory)


def copy_in(bench, place, directory):
    """In memory both trees are on a tmpfs, where nobody waits for a disk, though ours asks to. On a disk each has to be
    durable at the end. Sources are in the page cache."""
    large = bench.amount(1024, 64) * MEBIBYTE
    many = [f"file-{i:05}" for i in range(bench.amount(10_000, 1_000))]
    for kind, names, size, rounds in (("large", ["large"], large, (9, 3) if place == "memory" else (5, 2)),
                                      ("small", many, SMALL, (9, 3) if place == "memory" else (7, 2))):
        source = directory / kind
        source.mkdir()
        for name in names:
            fill(source / name, size)
        key = f"copy.{place}.{kind}"

        def once(contender, i, kind=kind, names=names, size=size, source=source, key=key):
            target = directory / f"{key}.{contender.name}.{i}"
            target.mkdir()
            if place == "disk":
                sync_all(directory)  # nobody pays for what others have written
            make = contender.copy if place == "memory" else contender.copy_durably
            elapsed = bench.meter.run(make(source, names, target), source)
            if sum(entry.stat().st_size for entry in os.scandir(target)) != size * len(names):
                raise MeasureError("it has not copied everything")
            bench.add(key, contender, (size / 1e6 if kind == "large" else len(names)) / elapsed * 1e9)
            # Small files on a disk stay: ext4 avoids inodes that have just become free, and looks long for others.
            if kind == "large" or place == "memory":
                shutil.rmtree(target)

        bench.rounds(bench.amount(*rounds), bench.able("copies"), [key], once)


def hash_(bench):
    """SHA-256 of a file of 1 GiB (64 MiB when quick): `init` whose file is staged already, the agent, and openssl."""
    size = bench.amount(1024, 64) * MEBIBYTE
    directory = bench.meter.directory()
    source = directory / "source"
    source.mkdir()
    fill(source / "large", size)
    hour_ago = time.time_ns() - 3600 * 10**9 | 1  # older than the staged file, and no whole second: known to be equal
    os.utime(source / "large", ns=(hour_ago, hour_ago))

    agents = {}

    def begin(contender, _):
        agents[contender] = Server(bench, contender, source, url="/check_hash/large")

    def command(contender, i):
        elapsed = bench.meter.run(contender.hash(source, "large"), source)
        if i > 0:  # the first of ours copies
            bench.add("hash.command", contender, size / elapsed * 1e3)

    def ask(contender, _):
        os.utime(source / "large", ns=(hour_ago, hour_ago))  # which changes its ctime: it is not known any more
        before = time.monotonic_ns()
        agents[contender].ask()
        bench.add("hash.agent", contender, size / (time.monotonic_ns() - before) * 1e3)

    def once(contender, i):
        command(contender, i)
        if contender in agents:
            bench.rounds(1, [contender], ["hash.agent"], ask)

    try:
        bench.rounds(1, [c for c in bench.able("hashes") if c.serves], ["hash.agent"], begin)
        bench.rounds(bench.amount(16, 4), bench.able("hashes"), ["hash.command"], once)
    finally:
        for server in agents.values():
            server.close()
        shutil.rmtree(directory)

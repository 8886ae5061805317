"""A block device that remembers every write and every flush of its cache, and what is on it after a power cut at any of them.

The kernel's loop device asks a file of ours, which this program serves by FUSE (/dev/fuse, without a library): a write and a flush
are recorded before the kernel gets its answer. dm-log-writes does the same, where a kernel has it.

After a cut the disk has all writes before the last flush, and of those after it whatever its cache has written by then: any of
them, in any order. Each sector of 4 KiB is there or not; none is torn.
"""

import contextlib
import ctypes
import errno
import os
import random
import signal
import struct
import subprocess
import sys
from pathlib import Path

SECTOR = 4096
MOST_WRITE = 1 << 20
# Source: Linux, include/uapi/linux/fuse.h
FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = (
    2, 3, 4, 14, 15, 16, 17, 18, 20, 25, 26, 34, 36, 38, 42)  # fmt: skip
BIG_WRITES, MAX_PAGES, DIRECT_IO = 1 << 5, 1 << 22, 1
PR_SET_PDEATHSIG = 1

RECORD = struct.Struct("<QI")  # offset and length of a write; a flush has the length 0


class Server:
    def __init__(self, connection, data, journal):
        self.connection = connection
        self.data = os.open(data, os.O_RDWR)
        self.journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.size = os.fstat(self.data).st_size

    def attributes(self):
        times = bytes(6 * 4 + 12)
        head = struct.pack("<QIIQQQ", 3600, 0, 0, 1, self.size, self.size // 512)
        return head + times + struct.pack("<IIIIIII", 0o100600, 1, 0, 0, 0, SECTOR, 0)

    def write(self, request):
        _, offset, size = struct.unpack_from("<QQI", request)
        piece = request[40 : 40 + size]
        os.writev(self.journal, [RECORD.pack(offset, size), piece])
        os.pwrite(self.data, piece, offset)
        return struct.pack("<II", size, 0)

    def read(self, request):
        _, offset, size = struct.unpack_from("<QQI", request)
        return os.pread(self.data, size, offset)

    def sync(self, _request):
        os.write(self.journal, RECORD.pack(0, 0))
        return b""

    def init(self, request):
        _, minor, readahead = struct.unpack_from("<III", request)
        return struct.pack("<IIIIHHIIHHI28x", 7, min(minor, 31), readahead, BIG_WRITES | MAX_PAGES, 16, 12, MOST_WRITE, 1, MOST_WRITE // 4096, 0, 0)

    def run(self):
        answers = {
            INIT: self.init, READ: self.read, WRITE: self.write, FSYNC: self.sync,
            GETATTR: lambda _: self.attributes(), SETATTR: lambda _: self.attributes(),
            OPEN: lambda _: struct.pack("<QII", 0, DIRECT_IO, 0), STATFS: lambda _: bytes(80),
            RELEASE: lambda _: b"", FLUSH: lambda _: b"", ACCESS: lambda _: b"", DESTROY: lambda _: b"",
        }  # fmt: skip
        while True:
            try:
                request = os.read(self.connection, MOST_WRITE + 65536)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                return  # ENODEV: it is unmounted
            _, operation, unique = struct.unpack_from("<IIQ", request)
            if operation in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            answer = answers.get(operation)
            body = answer(request[40:]) if answer else b""
            os.writev(self.connection, [struct.pack("<IiQ", 16 + len(body), 0 if answer else -errno.ENOSYS, unique), body])


def mount_fuse(path, mode):
    """Returns the connection: who reads it answers what is asked of the file system, and while nobody does, all that is waits."""
    connection = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={connection},rootmode={mode:o},user_id=0,group_id=0"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"test", str(path).encode(), b"fuse", 0, options.encode()) != 0:
        os.close(connection)
        raise OSError(ctypes.get_errno(), f"mount FUSE on {path}")
    return connection


class Cut:
    """The moment of a power cut: after so many bytes of the journal, and which of the later writes were lost."""

    def __init__(self, number, position, flushed, pending):
        self.number = number
        self.position = position
        self.flushed = flushed  # records before the last flush
        self.pending = pending  # those after it

    def __repr__(self):
        return f"cut {self.number} at {self.position}, {len(self.pending)} writes in the cache"


class RecordedDisk:
    """To be made in a mount namespace of one's own, with which its mounts go."""

    def __init__(self, area, size, *make):
        self.area = Path(area)
        self.data, self.journal, self.base = self.area / "disk.data", self.area / "disk.journal", self.area / "disk.base"
        self.file, self.root = self.area / "disk", self.area / "mounted"
        with self.data.open("wb") as file:
            file.truncate(size)
        run(*make, self.data)
        run("cp", "--sparse=always", self.data, self.base)
        self.file.touch()
        self.root.mkdir()
        self.server = self.serve()
        # Without direct I/O the loop device would keep pages of ours.
        self.device = run("losetup", "-f", "--show", self.file).strip()
        self.is_mounted = False

    def serve(self):
        connection = mount_fuse(self.file, 0o100600)

        def die_with_us():
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        server = subprocess.Popen([sys.executable, __file__, str(connection), self.data, self.journal], pass_fds=[connection],
                                  preexec_fn=die_with_us)
        os.close(connection)
        return server

    def mount(self, *options):
        run("mount", *options, self.device, self.root)
        self.is_mounted = True

    def position(self):
        """Of the journal: all that was durable when it was asked for is before it."""
        return self.journal.stat().st_size

    def close(self):
        if self.is_mounted:
            run("umount", "-l", self.root)
        with contextlib.suppress(subprocess.CalledProcessError):
            run("losetup", "-d", self.device)
        with contextlib.suppress(subprocess.CalledProcessError):
            run("umount", "-l", self.file)
        self.server.kill()
        self.server.wait()

    def records(self):
        """(position after it, offset, content) of each write, and (position, None, None) of each flush."""
        with self.journal.open("rb") as file:
            position = 0
            while len(head := file.read(RECORD.size)) == RECORD.size:
                offset, size = RECORD.unpack(head)
                piece = file.read(size)
                if len(piece) < size:
                    return
                position += RECORD.size + size
                yield (position, offset, piece) if size else (position, None, None)

    def cuts(self, first, count, chance):
        """That many cuts between a position and the end, evenly: each at a flush, and as often at some write before the next."""
        records = list(self.records())
        flushes = [i for i, (position, offset, _) in enumerate(records) if offset is None and position > first]
        chosen = sorted(chance.sample(range(len(flushes)), min(count, len(flushes))))
        for number, which in enumerate(chosen):
            at = flushes[which]
            end = flushes[which + 1] if which + 1 < len(flushes) else len(records)
            last = chance.randint(at, end - 1) if number % 2 else at
            pending = [one for one in records[at + 1 : last + 1] if one[1] is not None]
            yield Cut(number, records[last][0], [one for one in records[:at] if one[1] is not None], pending)

    def write_image(self, cut, path, chance):
        """The disk as it is after the power is back."""
        run("cp", "--sparse=always", self.base, path)
        with path.open("r+b") as file:
            for _, offset, piece in cut.flushed:
                file.seek(offset)
                file.write(piece)
            # A cache writes what it likes: all, nothing, or some of the sectors.
            share = chance.choice((0, 0.5, 0.9, 1))
            sectors = [(offset + at, piece[at : at + SECTOR]) for _, offset, piece in cut.pending for at in range(0, len(piece), SECTOR)]
            for offset, sector in sectors:
                if chance.random() < share:
                    file.seek(offset)
                    file.write(sector)


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, timeout=60).stdout


if __name__ == "__main__":
    Server(int(sys.argv[1]), sys.argv[2], sys.argv[3]).run()

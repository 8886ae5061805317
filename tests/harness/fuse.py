"""A file system that is served by the test: a directory of files, which hangs when the test wants it to.

Source: fuse(4), linux/fuse.h, protocol 7.31.
"""

import errno
import os
import select
import stat
import struct
import subprocess
import threading
from pathlib import Path

import pytest

from harness.process import TIMEOUT, eventually

LOOKUP, FORGET, GETATTR, SETATTR, UNLINK, RENAME, OPEN, READ, WRITE, STATFS = 1, 2, 3, 4, 10, 12, 14, 15, 16, 17
RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, CREATE, INTERRUPT = 18, 20, 25, 26, 27, 28, 29, 35, 36
DESTROY, BATCH_FORGET, RENAME2 = 38, 42, 45
SILENT = (FORGET, BATCH_FORGET, INTERRUPT)
ROOT = 1
HEADER = struct.Struct("<IIQQIIII")  # length, operation, unique, node, uid, gid, pid, padding
FIRST_INIT = struct.Struct("<IIIIHHIIHHI28x")
SETATTR_MODE, SETATTR_SIZE = 1, 8


class File:
    """A file that is served."""

    def __init__(self, node, mode):
        self.node = node
        self.mode = mode
        self.content = bytearray()


class FuseFiles:
    """Serves /dev/fuse in a thread. `content()` tells what a file has; hang() until let_go(): nobody is answered."""

    def __init__(self):
        try:
            self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            pytest.skip(f"no /dev/fuse: {error}")
        self.names = {}
        self.nodes = {}
        self.answers = threading.Event()
        self.answers.set()
        self.holds = False
        self.begun = threading.Event()  # the kernel's first request, of the mount itself, is answered
        self.held = threading.Event()
        self.room = None  # bytes that may still be written; None: any
        self.ended, self.end = os.pipe()
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def mount(self, launcher, directory):
        """Mounts it in the launcher's namespace, on a directory that is there."""
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        done = subprocess.run([*launcher.enter("mount"), "mount", "-i", "-t", "fuse", "-o", options, "test", directory],
                              pass_fds=[self.fd], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no FUSE here: {done.stderr}")
        self.thread.start()

    def place(self, directory):
        """For a launcher that finds it mounted when it starts: what Starter.start() takes. Nobody is answered before
        begin()."""
        return {"place": ["--fuse", f"{self.fd}:{directory}"], "pass_fds": [self.fd]}

    def begin(self, launcher):
        """Serves what place() has mounted."""
        mounts = Path(f"/proc/{launcher.init}/mountinfo")
        eventually(lambda: " - fuse test " in mounts.read_text(), "it is mounted")
        self.thread.start()

    def make(self, name, content=b""):
        """Makes a file."""
        file = self.names.setdefault(name, File(len(self.nodes) + ROOT + 1, stat.S_IFREG | 0o644))
        file.content[:] = content
        self.nodes[file.node] = file
        return file

    def content(self, name):
        """What the file has now; None: there is none."""
        found = self.names.get(name)
        return bytes(found.content).decode() if found else None

    def hang(self):
        """From now on nobody is answered."""
        self.answers.clear()

    def hang_on_next(self):
        """The next request is taken and not answered: not even SIGKILL ends who has made it. `held` is set then. That of
        the mount does not count: who waits for its answer, SIGKILL does end."""
        assert self.begun.wait(TIMEOUT)
        self.holds = True
        self.answers.clear()

    def let_go(self):
        """Everybody is answered again."""
        self.holds = False
        self.answers.set()

    def close(self):
        """Those who wait get an error."""
        os.close(self.end)
        self.answers.set()
        if self.thread.is_alive():
            self.thread.join()
        os.close(self.ended)
        os.close(self.fd)

    def serve(self):
        while True:
            readable, _, _ = select.select([self.fd, self.ended], [], [])
            if not self.holds:
                self.answers.wait()
            if self.ended in readable:
                return
            try:
                request = os.read(self.fd, 1 << 20)
            except BlockingIOError:
                continue
            except OSError:
                return  # it is not mounted any more
            _, operation, unique, node, *_ = HEADER.unpack_from(request)
            if operation in SILENT:
                continue
            if self.holds:
                self.held.set()
                self.answers.wait()
            result = self.answer(operation, node, request[HEADER.size:])
            body = b"" if isinstance(result, int) else result
            head = struct.pack("<IiQ", 16 + len(body), -result if isinstance(result, int) else 0, unique)
            try:
                os.write(self.fd, head + body)
            except OSError:
                pass  # who asked has been killed
            if operation == INIT:
                self.begun.set()

    def answer(self, operation, node, body):
        """The answer's body, or an errno (0: done)."""
        file = self.nodes.get(node)
        if operation == INIT:
            major, minor, ahead, _ = struct.unpack_from("<IIII", body)
            return FIRST_INIT.pack(major, min(minor, 31), ahead, 0, 16, 12, 65536, 1, 0, 0, 0)
        if operation == LOOKUP:
            found = self.names.get(name_of(body))
            return self.entry(found) if found else errno.ENOENT
        if operation == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if operation == SETATTR:
            return self.set_attributes(file, node, body)
        if operation == CREATE:
            return self.create(body)
        if operation in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 1, 0)  # direct: each write comes to us at once
        if operation == WRITE:
            return self.write(file, body)
        if operation == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return bytes(file.content[offset:offset + size])
        if operation == STATFS:
            return struct.pack("<QQQQQIIII24x", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096, 0)
        if operation in (RENAME, RENAME2):
            old, new = body[8 if operation == RENAME else 16:].split(b"\0")[:2]
            if old.decode() not in self.names:
                return errno.ENOENT
            self.names[new.decode()] = self.names.pop(old.decode())
            return 0
        if operation == UNLINK:
            return 0 if self.names.pop(name_of(body), None) else errno.ENOENT
        if operation == READDIR:
            return b""
        return 0 if operation in (RELEASE, RELEASEDIR, FLUSH, FSYNC, DESTROY) else errno.ENOSYS

    def create(self, body):
        _, mode = struct.unpack_from("<II", body)
        name = name_of(body[16:])
        file = self.names.get(name) or self.make(name)
        file.mode = stat.S_IFREG | stat.S_IMODE(mode)
        return self.entry(file) + struct.pack("<QII", 0, 1, 0)

    def write(self, file, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        if self.room is not None:
            if self.room < size:
                return errno.ENOSPC
            self.room -= size
        data = body[40:40 + size]
        file.content[len(file.content) if offset > len(file.content) else offset:] = data
        return struct.pack("<II", size, 0)

    def set_attributes(self, file, node, body):
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        if valid & SETATTR_SIZE:
            del file.content[size:]
        if valid & SETATTR_MODE:
            file.mode = stat.S_IFREG | stat.S_IMODE(struct.unpack_from("<I", body, 68)[0])
        return struct.pack("<QII", 0, 0, 0) + self.attributes(node)

    def entry(self, file):
        return struct.pack("<QQQQII", file.node, 0, 0, 0, 0, 0) + self.attributes(file.node)

    def attributes(self, node):
        file = self.nodes.get(node)
        mode, size = (file.mode, len(file.content)) if file else (stat.S_IFDIR | 0o777, 0)
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def name_of(body):
    """The name that ends with a NUL byte."""
    return body.split(b"\0", 1)[0].decode()


@pytest.fixture
def fuse(needs_root):  # pylint: disable=unused-argument
    """A file system that is not mounted yet."""
    made = FuseFiles()
    yield made
    made.close()

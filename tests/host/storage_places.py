"""Where pools of each backend can be: file systems on loop devices, and OpenZFS where the kernel has it, else a zfs-fuse of our
own, in a mount namespace of our own. Everything goes when the namespace does."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from harness.slowness import FACTOR  # noqa: E402

BACKENDS = ("directory", "reflink", "btrfs", "zfs")
BUILD = Path(os.environ.get("TRITON_BUILD", Path(__file__).parents[2] / "build/dev"))
TOOL = BUILD / "tests/host/storage_tool"
CLONE_NEWNS = 0x00020000
DEADLINE = 60 * FACTOR


class Lacking(Exception):
    """This machine cannot have that backend."""


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, timeout=DEADLINE, **more)


class OwnMounts:
    """This process in a mount namespace of its own, until it is closed."""

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.before = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self.directory = os.getcwd()
        if self.libc.unshare(CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        run("mount", "--make-rprivate", "/")

    def close(self):
        if self.libc.setns(self.before, CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(self.before)
        os.chdir(self.directory)


class Place:
    """A directory that can have pools of one backend."""

    def __init__(self, backend, size="400M", inodes=None):
        self.backend = backend
        self.area = Path(tempfile.mkdtemp(prefix="triton-storage."))
        self.root = self.area / "root"
        self.root.mkdir()
        self.zpool = f"t{os.getpid()}x{self.area.name[-4:]}".replace("_", "0")
        self.daemon = None
        self.has_zpool = False
        self.count = 0
        try:
            getattr(self, f"make_{backend}")(size, inodes)
        except (Lacking, FileNotFoundError, subprocess.CalledProcessError) as error:
            self.close()
            reason = getattr(error, "stderr", "") or str(error)
            raise Lacking(f"no {backend} here: {reason.strip()}") from error

    def make_directory(self, size, inodes):
        # What is below /tmp waits for what others write to the same disk.
        self.mount_loop(size, "mkfs.ext4", "-q", "-O", "^has_journal", *(["-N", inodes] if inodes else []))

    def make_reflink(self, size, _inodes):
        self.mount_loop(size, "mkfs.xfs", "-q", "-m", "reflink=1")

    def make_btrfs(self, size, _inodes):
        self.mount_loop(size, "mkfs.btrfs", "-q")

    def mount_loop(self, size, *make):
        image = self.area / "image"
        run("truncate", "-s", size, image)
        run(*make, image)
        device = run("losetup", "-f", "--show", image).stdout.strip()
        try:
            run("mount", device, self.root)
        finally:
            run("losetup", "-d", device)  # from now on the mount alone keeps it

    def make_zfs(self, size, _inodes):
        if not Path("/dev/zfs").exists():
            self.start_zfs_fuse()
        run("truncate", "-s", size, self.area / "image")
        run("zpool", "create", "-m", "none", self.zpool, self.area / "image")
        self.has_zpool = True

    def start_zfs_fuse(self):
        if not shutil.which("zfs-fuse"):
            raise Lacking("neither OpenZFS nor zfs-fuse is installed")
        # Its socket, its lock and its list of pools have fixed names.
        for directory in ("/run", "/var/lib"):
            run("mount", "-t", "tmpfs", "none", directory)
        for directory in ("/run/lock", "/var/lib/zfs"):  # the package would bring the second
            Path(directory).mkdir()
        self.daemon = subprocess.Popen(
            ["zfs-fuse", "--no-daemon", "-p", self.area / "pid"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        deadline = time.monotonic() + DEADLINE
        while subprocess.run(["zpool", "list"], capture_output=True, check=False).returncode != 0:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                raise Lacking("zfs-fuse does not start")
            time.sleep(0.05)

    def close(self):
        if self.has_zpool and not self.daemon:
            subprocess.run(["zpool", "destroy", "-f", self.zpool], capture_output=True, check=False)
        if self.daemon:
            self.daemon.kill()
            self.daemon.wait()
            for directory in ("/run", "/var/lib"):
                subprocess.run(["umount", "-l", directory], capture_output=True, check=False)
        subprocess.run(["umount", "-l", str(self.root)], capture_output=True, check=False)
        remove(self.area)

    def pool(self):
        self.count += 1
        return Store(self.backend, self.root / f"pool{self.count}", f"{self.zpool}/pool{self.count}" if self.backend == "zfs" else "-")


def remove(path):
    """rm -rf, also of what is deeper than Python goes."""
    subprocess.run(["rm", "-rf", "--one-file-system", str(path)], check=False, capture_output=True)


class Failed(Exception):
    """What the tool said: "kind: text"."""


class Store:
    """A pool, driven by one call of the tool for each operation."""

    def __init__(self, backend, path, dataset="-"):
        self.backend = backend
        self.path = Path(path)
        self.dataset = dataset

    def command(self, *words):
        return [str(TOOL), self.backend, str(self.path), self.dataset, *(str(word) for word in words)]

    def start(self, *words, before=(), **more):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | more
        if before:  # LeakSanitizer does not get along with strace
            options["env"] = options.get("env", os.environ) | {"ASAN_OPTIONS": "detect_leaks=0"}
        return subprocess.Popen([*before, *self.command(*words)], **options)

    def __call__(self, *words, **more):
        """Lines of output, or Failed."""
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=DEADLINE)
        if process.returncode != 0:
            raise Failed(err.decode().strip() or f"exit {process.returncode}")
        return out.decode().splitlines() if out is not None else []

    def tree(self, name):
        return Path(self("path", name)[0])

    def send(self, file, *words):
        with open(file, "wb") as out:
            self("send", *words, stdout=out)

    def receive(self, file, name):
        with open(file, "rb") as stream:
            self("receive", name, stdin=stream)

    def content(self):
        """Everything that can be asked for, to compare states."""
        return {
            name: (tuple(self("snapshots", name)), tuple(self("properties", name)), manifest(self.tree(name))) for name in self("list", "")
        }


def manifest(root):
    """All that a tree is, but for access times and which inodes there are."""
    links, entries = {}, {}
    has_attributes = True
    for directory, directories, files in os.walk(root):
        for name in [".", *files, *(each for each in directories if (Path(directory) / each).is_symlink())]:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            kind = status.st_mode >> 12
            what = [oct(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns]
            if has_attributes:
                try:
                    what.append(sorted((key, os.getxattr(path, key, follow_symlinks=False)) for key in os.listxattr(path, follow_symlinks=False)))
                except OSError:
                    has_attributes = False
            if kind == 0o10:
                what += [status.st_size, hashlib.sha256(Path(path).read_bytes()).hexdigest()]
            elif kind == 0o12:
                what.append(os.readlink(path))
            elif kind in (0o2, 0o6):
                what.append(status.st_rdev)
            relative = os.path.relpath(path, root)
            if kind != 0o4 and status.st_nlink > 1:
                links.setdefault(status.st_ino, []).append(relative)
            entries[relative] = what
    return entries, sorted(sorted(names) for names in links.values())

"""The wall between the network and what is trusted, for the suites of the host: wall_tool is the library's side of it as a command
(tests/host/helpers); trees are compared as snapshots."""

import gzip
import hashlib
import io
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TRITON_BUILD", Path(__file__).parents[2] / "build/dev"))
TOOL = BUILD / "tests/host/tool/wall_tool"
IS_SANITIZED = TOOL.exists() and b"__asan_init" in TOOL.read_bytes()

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start roles")


def tool(*words, libexec: Path = BUILD, timeout: float = 120) -> str:
    """What came of a job: its answer as JSON, or its error with its kind and details."""
    done = subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True, timeout=timeout, env={"LIBEXEC": str(libexec)})
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.rstrip("\n")


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(name: str, data: bytes | None = None, **facts) -> tuple[tarfile.TarInfo, bytes | None]:
    """One entry of an archive: a file when it has data, else what `type` says (default: a directory)."""
    info = tarfile.TarInfo(name)
    info.type = tarfile.REGTYPE if data is not None else tarfile.DIRTYPE
    info.mode = 0o644 if data is not None else 0o755
    info.mtime = 1_600_000_000
    for key, value in facts.items():
        setattr(info, key, value)
    if data is not None and info.isreg():
        info.size = len(data)
    return info, data


def link(name: str, target: str, **facts) -> tuple[tarfile.TarInfo, None]:
    return entry(name, type=tarfile.SYMTYPE, linkname=target, mode=0o777, **facts)[0], None


def hard_link(name: str, target: str, **facts) -> tuple[tarfile.TarInfo, None]:
    return entry(name, type=tarfile.LNKTYPE, linkname=target, **facts)[0], None


def archive(*entries: tuple[tarfile.TarInfo, bytes | None], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive with exactly these entries, names as they are."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if info.isreg() and data is not None else None)
    return out.getvalue()


def unpack(tmp_path: Path, blob: bytes, *words, target: Path | None = None, name: str = "blob") -> str:
    """Unpacks into `target` (default: tmp_path/root)."""
    (tmp_path / name).write_bytes(blob)
    target = target or tmp_path / "root"
    target.mkdir(exist_ok=True)
    return tool("unpack", tmp_path / name, target, *words)


def apply(tmp_path: Path, *layers: bytes) -> Path:
    """Unpacks layers one over the other; each must go well."""
    for number, layer in enumerate(layers):
        answer = unpack(tmp_path, gzip.compress(layer, 1, mtime=0), f"diffid={sha256(layer)}", name=f"layer{number}")
        assert answer.startswith('{"unpacked":'), answer
    return tmp_path / "root"


def snapshot(root: Path, without_times_of: frozenset[str] = frozenset()) -> dict[str, tuple]:
    """What a tree is, name by name: kind, mode, owner, time, extended attributes, content, links to one file."""
    inodes: dict[int, str] = {}
    found = {}
    for directory, folders, files in os.walk(os.fsencode(root)):
        folders.sort()
        for name in sorted([*folders, *files, *([b"."] if directory == os.fsencode(root) else [])]):
            path = os.path.join(directory, name)
            shown = os.fsdecode(os.path.relpath(path, os.fsencode(root)))
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            content: object = None
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = os.fsdecode(os.readlink(path))
            attributes = {
                attribute: os.getxattr(path, attribute, follow_symlinks=False)
                for attribute in os.listxattr(path, follow_symlinks=False)
                if not attribute.startswith("security.selinux")
            }
            same = inodes.setdefault(status.st_ino, shown) if not stat.S_ISDIR(status.st_mode) else None
            time = None if shown in without_times_of else status.st_mtime_ns
            mode = stat.S_IMODE(status.st_mode)
            found[shown] = (kind, oct(mode), status.st_uid, status.st_gid, time, content, attributes, same)
    return found


def names(root: Path) -> set[str]:
    return set(snapshot(root)) - {"."}

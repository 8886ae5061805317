"""triton-unpack against those that have done it for long: the same archives by GNU tar, the same images by umoci, file by file; and
what others who wrote an unpacker from scratch had to learn."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.wall import BUILD, TOOL, apply, archive, entry, hard_link, link, names, needs_root, sha256, snapshot, tool, unpack

pytestmark = needs_root


# Against GNU tar.


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A tree with one of everything."""
    root = tmp_path_factory.mktemp("source")
    (root / "bin").mkdir()
    (root / "bin/plain").write_bytes(b"plain\n")
    (root / "bin/empty").touch()
    (root / "bin/large").write_bytes(os.urandom(3_000_000))
    (root / "bin/odd-size").write_bytes(b"x" * 513)
    for name, mode, owner in [("setuid", 0o4755, 0), ("setgid", 0o2755, 7), ("sticky", 0o1644, 0), ("nothing", 0, 1000)]:
        (root / "bin" / name).write_bytes(name.encode())
        os.chown(root / "bin" / name, owner, owner + 1)
        (root / "bin" / name).chmod(mode)
    (root / "bin/hard").hardlink_to(root / "bin/setuid")
    (root / "symbolic").symlink_to("bin/plain")
    (root / "dangling").symlink_to("/nowhere/at/all")
    os.chown(root / "dangling", 12, 34, follow_symlinks=False)
    os.utime(root / "dangling", ns=(10**18, 10**18), follow_symlinks=False)
    os.mkfifo(root / "fifo", 0o620)
    shared = root / "shared"
    shared.mkdir()
    os.chown(shared, 5, 6)
    shared.chmod(0o3775)
    (shared / "inside").write_bytes(b"of group 6 or not")
    os.chown(shared / "inside", 0, 0)
    closed = root / "closed"
    closed.mkdir()
    (closed / "file").write_bytes(b"in a directory that nobody may enter")
    closed.chmod(0)
    deep = root / "/".join(["deep"] * 40)
    deep.mkdir(parents=True)
    (deep / "end").write_bytes(b"far down")
    (root / ("n" * 255)).write_bytes(b"the longest name")
    long = root / ("d" * 120) / ("e" * 120)
    long.mkdir(parents=True)
    (long / ("f" * 200)).write_bytes(b"a name beyond ustar")
    (long / "link").symlink_to("t" * 300)
    (root / "ünïcödé ☃").write_bytes(b"UTF-8")
    (root / os.fsdecode(b"latin-\xe4\xff")).write_bytes(b"not UTF-8")
    (root / "new\nline\ttab").write_bytes(b"control characters")
    (root / "old").write_bytes(b"from 1970")
    os.utime(root / "old", (1, 1))
    (root / "future").write_bytes(b"from 2100")
    os.utime(root / "future", (4_102_444_800, 4_102_444_800))
    (root / "nanoseconds").write_bytes(b"")
    os.utime(root / "nanoseconds", ns=(1_600_000_000_123_456_789,) * 2)
    sparse = root / "sparse"
    with sparse.open("wb") as file:
        for at in (0, 1_000_000, 50_000_000):
            file.seek(at)
            file.write(b"island")
        file.truncate(80_000_000)
    os.setxattr(root / "bin/plain", "user.comment", b"binary \0 value")
    capability = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)  # cap_net_bind_service=ep
    os.setxattr(root / "bin/large", "security.capability", capability)
    os.chown(root / "bin/odd-size", 65533, 65533)
    (root / "dated").mkdir()
    (root / "dated/file").touch()
    os.utime(root / "dated", (1_000_000_000, 1_000_000_000))
    return root


def tar(*words) -> None:
    subprocess.run(["tar", *map(str, words)], check=True, stderr=subprocess.PIPE)


@pytest.mark.parametrize("form", ["gnu", "pax", "oldgnu"])
def test_same_as_gnu_tar(form, source, tmp_path):
    attributes = ["--xattrs", "--xattrs-include=*"] if form == "pax" else []
    tar("-C", source, f"--format={form}", "-S", *attributes, "--numeric-owner", "-cf", tmp_path / "x.tar", ".")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    tar("-C", theirs, *attributes, "--numeric-owner", "--same-owner", "-xpf", tmp_path / "x.tar")
    answer = unpack(tmp_path, (tmp_path / "x.tar").read_bytes(), "plain")
    assert answer.startswith('{"unpacked":'), answer
    assert snapshot(tmp_path / "root") == snapshot(theirs)
    assert (tmp_path / "root/sparse").stat().st_blocks * 512 < 1_000_000


def test_same_as_the_source(source, tmp_path):
    tar("-C", source, "--format=pax", "--xattrs", "--xattrs-include=*", "--numeric-owner", "-cf", tmp_path / "x.tar", ".")
    unpack(tmp_path, (tmp_path / "x.tar").read_bytes(), "plain")
    assert snapshot(tmp_path / "root") == snapshot(source)


# Compression.

LAYER = archive(entry("a/"), entry("a/file", b"content" * 10_000), entry("b", b"x"))


def zstd(data: bytes, *words: str) -> bytes:
    return subprocess.run(["zstd", "-qc", *words], input=data, capture_output=True, check=True).stdout


COMPRESSIONS = {
    "none": lambda data: data,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": pytest.param(zstd, marks=pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is not installed")),
}


def compressor(name: str):
    found = COMPRESSIONS[name]
    return found if callable(found) else zstd


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_compressions_are_told_or_found_out(name, tmp_path):
    if name == "zstd" and not shutil.which("zstd"):
        pytest.skip("zstd is not installed")
    blob = compressor(name)(LAYER)
    for number, word in enumerate(["auto", name]):
        target = tmp_path / str(number)
        answer = unpack(tmp_path, blob, f"compression={word}", f"diffid={sha256(LAYER)}", target=target)
        assert json.loads(answer)["unpacked"]["diffId"] == sha256(LAYER)
        assert names(target) == {"a", "a/file", "b"}


@pytest.mark.parametrize("name", ["gzip", "xz", "bzip2", "zstd"])
def test_streams_one_after_the_other_are_one(name, tmp_path):
    if name == "zstd" and not shutil.which("zstd"):
        pytest.skip("zstd is not installed")
    compress = compressor(name)
    blob = b"".join(compress(LAYER[at : at + 5000]) for at in range(0, len(LAYER), 5000))
    assert json.loads(unpack(tmp_path, blob))["unpacked"]["diffId"] == sha256(LAYER)


@pytest.mark.parametrize("name", ["gzip", "xz", "bzip2", "zstd"])
@pytest.mark.parametrize("damage", ["cut", "tail", "flipped", "nothing"])
def test_broken_compression_is_an_error(name, damage, tmp_path):
    if name == "zstd" and not shutil.which("zstd"):
        pytest.skip("zstd is not installed")
    blob = compressor(name)(LAYER)
    if damage == "cut":
        blob = blob[:-9]
    elif damage == "tail":
        blob += b"and something else"
    elif damage == "flipped":
        blob = blob[: len(blob) // 2] + bytes([blob[len(blob) // 2] ^ 0xFF]) + blob[len(blob) // 2 + 1 :]
    else:
        blob = b""
    answer = unpack(tmp_path, blob, f"compression={name}", f"diffid={sha256(LAYER)}")
    assert answer.startswith("corrupt: "), answer


def test_diff_id_is_of_every_byte(tmp_path):
    layer = LAYER + b"\0" * 4096 + b"behind the end of the archive"
    assert json.loads(unpack(tmp_path, gzip.compress(layer)))["unpacked"]["diffId"] == sha256(layer)
    wrong = sha256(b"")
    assert unpack(tmp_path, layer, f"diffid={wrong}") == f"corrupt: diffID is {sha256(layer)} instead of {wrong}"


@pytest.mark.parametrize("blob", [b"\0" * 1024, b"\0" * 10240, gzip.compress(b"\0" * 1024), b""], ids=["short", "long", "gzip", "nothing"])
def test_empty_layer_changes_nothing(blob, tmp_path):
    assert json.loads(unpack(tmp_path, blob))["unpacked"]["entries"] == 0
    assert names(tmp_path / "root") == set()


# Layers over layers. Each case is what layers do to a tree, by the OCI image format; umoci is asked, too, below.

BASE = archive(
    entry("etc/"),
    entry("etc/passwd", b"root"),
    entry("etc/motd", b"hello"),
    entry("opt/"),
    entry("opt/a/"),
    entry("opt/a/one", b"1"),
    entry("opt/a/two", b"2"),
    entry("usr/"),
    entry("usr/lib/"),
    entry("usr/lib/libc", b"c"),
    link("lib", "usr/lib"),
    link("absolute", "/usr/lib"),
)
BASE_NAMES = {"etc", "etc/passwd", "etc/motd", "opt", "opt/a", "opt/a/one", "opt/a/two", "usr", "usr/lib", "usr/lib/libc", "lib", "absolute"}

CASES = {
    "whiteout": ([entry("etc/"), entry("etc/.wh.motd", b"")], BASE_NAMES - {"etc/motd"}),
    "whiteout-directory": ([entry("opt/"), entry("opt/.wh.a", b"")], BASE_NAMES - {"opt/a", "opt/a/one", "opt/a/two"}),
    "whiteout-nothing": ([entry("etc/"), entry("etc/.wh.missing", b"")], BASE_NAMES),
    "opaque-first": (
        [entry("opt/a/"), entry("opt/a/.wh..wh..opq", b""), entry("opt/a/new", b"n")],
        BASE_NAMES - {"opt/a/one", "opt/a/two"} | {"opt/a/new"},
    ),
    "opaque-last": (
        [entry("opt/a/"), entry("opt/a/new", b"n"), entry("opt/a/.wh..wh..opq", b"")],
        BASE_NAMES - {"opt/a/one", "opt/a/two"} | {"opt/a/new"},
    ),
    "opaque-keeps-what-is-replaced": (
        [entry("opt/a/"), entry("opt/a/one", b"new"), entry("opt/a/.wh..wh..opq", b"")],
        BASE_NAMES - {"opt/a/two"},
    ),
    "file-over-directory": ([entry("opt/"), entry("opt/a", b"a file now")], BASE_NAMES - {"opt/a/one", "opt/a/two"}),
    "directory-over-file": ([entry("etc/"), entry("etc/motd/"), entry("etc/motd/x", b"")], BASE_NAMES | {"etc/motd/x"}),
    "link-over-directory": ([entry("opt/"), link("opt/a", "../etc")], BASE_NAMES - {"opt/a/one", "opt/a/two"}),
    "directory-over-link": ([entry("lib/"), entry("lib/own", b"")], BASE_NAMES | {"lib/own"}),
    "directory-over-directory": ([entry("opt/a/", mode=0o700, uid=3, gid=4)], BASE_NAMES),
    "parent-is-a-link": ([entry("lib/new", b"through it")], BASE_NAMES | {"usr/lib/new"}),
    "parent-is-an-absolute-link": ([entry("absolute/new", b"through it")], BASE_NAMES | {"usr/lib/new"}),
    "parent-has-no-entry": ([entry("a/b/c/file", b"x")], BASE_NAMES | {"a", "a/b", "a/b/c", "a/b/c/file"}),
    "hard-link-to-layer-below": ([entry("etc/"), hard_link("etc/copy", "etc/passwd")], BASE_NAMES | {"etc/copy"}),
    "hard-link-over-a-file": ([hard_link("etc/motd", "etc/passwd")], BASE_NAMES),
    "entry-twice": ([entry("twice", b"first"), entry("twice", b"second")], BASE_NAMES | {"twice"}),
    "setuid-after-owner": ([entry("su", b"x", mode=0o6755, uid=9, gid=9)], BASE_NAMES | {"su"}),
}

@pytest.mark.parametrize("case", CASES)
def test_layer_over_layer(case, tmp_path):
    entries, expected = CASES[case]
    assert names(apply(tmp_path, BASE, archive(*entries))) == expected


@pytest.mark.parametrize("zeros", [1, 512, 300_000, 1_000_000])
def test_gzip_may_be_filled_up_with_zeros(zeros, tmp_path):
    """As gzip(1) and tar(1) have it; between members, too."""
    half = len(LAYER) // 2
    blob = gzip.compress(LAYER[:half], mtime=0) + bytes(zeros) + gzip.compress(LAYER[half:], mtime=0) + bytes(zeros)
    assert json.loads(unpack(tmp_path, blob))["unpacked"]["diffId"] == sha256(LAYER)
    (tmp_path / "other").mkdir()
    assert unpack(tmp_path / "other", gzip.compress(LAYER) + bytes(zeros) + b"x").startswith("corrupt: gzip data are broken")


def write_layout(directory: Path, layers: list[bytes]) -> None:
    blobs = directory / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes, media_type: str) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [sha256(layer) for layer in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "config": put(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [put(gzip.compress(layer, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip") for layer in layers],
    }
    described = put(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    described["annotations"] = {"org.opencontainers.image.ref.name": "tag"}
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [described]}))
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


@pytest.mark.skipif(not shutil.which("umoci"), reason="umoci is not installed")
@pytest.mark.parametrize("case", CASES)
def test_same_as_umoci(case, tmp_path):
    root = entry("./", mode=0o755)
    layers = [archive(root), BASE, archive(*CASES[case][0])]
    write_layout(tmp_path / "layout", layers)
    subprocess.run(["umoci", "unpack", "--image", tmp_path / "layout:tag", tmp_path / "bundle"], check=True, capture_output=True)
    theirs = snapshot(tmp_path / "bundle/rootfs")
    ours = snapshot(apply(tmp_path, *layers))
    # umoci gives directories the times of its own run where the last layer has no entry of them; ours keep their own.
    timeless = frozenset(name for name in ours if name in theirs and ours[name][0] == 0o040000)
    assert {name: facts[:4] + facts[5:] if name in timeless else facts for name, facts in ours.items()} == {
        name: facts[:4] + facts[5:] if name in timeless else facts for name, facts in theirs.items()
    }


# What others had to learn.


DEVICE = {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}


@pytest.mark.parametrize("entries,expected", [
    ([entry("null", **DEVICE), hard_link("also", "null")], {"below"}),
    ([hard_link("also", "null"), entry("null", **DEVICE)], {"below"}),
    ([entry("null", **DEVICE), hard_link("also", "null"), hard_link("third", "also")], {"below"}),
    ([entry("below", **DEVICE)], set()),
    ([entry("below/", mode=0o755), entry("below/x", b""), entry("below", **DEVICE)], set()),
    ([entry("null", **DEVICE), hard_link("below", "null")], set()),
    ([entry("null", **DEVICE), entry("null", b"a file now"), hard_link("also", "null")], {"below", "null", "also"}),
    ([entry("d/null", **DEVICE)], {"below"}),
], ids=["link", "link-first", "link-to-link", "over-a-file", "over-a-directory", "link-over-a-file", "replaced", "no-parent"])
def test_devices_are_left_out_with_their_links_and_replace_what_was_there(entries, expected, tmp_path):
    root = apply(tmp_path, archive(entry("below", b"of a lower layer")), archive(*entries))
    assert names(root) == expected


def test_hard_link_may_come_before_its_target(tmp_path):
    root = apply(tmp_path, archive(hard_link("early", "late/file"), entry("late/"), entry("late/file", b"x", uid=5, mode=0o600)))
    assert (root / "early").stat().st_ino == (root / "late/file").stat().st_ino
    assert (root / "early").stat().st_uid == 5


def test_hard_link_to_nothing_is_an_error(tmp_path):
    answer = unpack(tmp_path, archive(hard_link("link", "missing/file")))
    assert answer == 'corrupt: entry "link" is a link to "missing/file", which is not there'


def test_hard_link_to_a_replaced_name(tmp_path):
    root = apply(tmp_path, archive(entry("a", b"old"), hard_link("b", "a"), entry("a", b"new")))
    assert ((root / "a").read_bytes(), (root / "b").read_bytes()) == (b"new", b"old")


def test_hard_link_to_itself(tmp_path):
    root = apply(tmp_path, archive(entry("a", b"x"), hard_link("a", "./a")))
    assert (root / "a").read_bytes() == b"x"


def test_whiteouts_are_told_by_their_names(tmp_path):
    """Hard-linked whiteouts are in the wild, also to files of a layer below (node-imgadm OS-5049)."""
    layer = archive(entry("etc/"), hard_link("etc/.wh.motd", "etc/passwd"), hard_link("etc/.wh.passwd", "etc/.wh.motd"))
    assert names(apply(tmp_path, BASE, layer)) == BASE_NAMES - {"etc/motd", "etc/passwd"}


@pytest.mark.parametrize("order", ["before", "after"])
def test_whiteout_takes_from_below_only(order, tmp_path):
    both = [entry("opt/.wh.a", b""), entry("opt/a/"), entry("opt/a/new", b"new")]
    if order == "after":
        both = [*both[1:], both[0]]
    assert names(apply(tmp_path, BASE, archive(*both))) == BASE_NAMES - {"opt/a/one", "opt/a/two"} | {"opt/a/new"}


def test_aufs_notes_are_passed_over(tmp_path):
    assert names(apply(tmp_path, archive(entry(".wh..wh.plnk/"), entry(".wh..wh.aufs", b""), entry("x", b"")))) == {"x"}


def test_plain_archive_has_no_whiteouts(tmp_path):
    answer = unpack(tmp_path, archive(entry(".wh.x", b"a name")), "plain")
    assert answer.startswith('{"unpacked":'), answer
    assert names(tmp_path / "root") == {".wh.x"}


def test_times_of_directories_come_last(tmp_path):
    root = apply(tmp_path, archive(entry("d/", mtime=1000), entry("d/e/", mtime=2000), entry("d/e/f", b""), entry("d/g", b"")))
    assert [(root / name).stat().st_mtime for name in ("d", "d/e")] == [1000, 2000]
    apply(tmp_path, archive(entry("d/e/h", b"")))
    assert [(root / name).stat().st_mtime for name in ("d", "d/e")] == [1000, 2000]


def test_attributes_of_a_directory_are_replaced(tmp_path):
    first = entry("d/", pax_headers={"SCHILY.xattr.user.a": "1", "SCHILY.xattr.user.b": "2"})
    second = entry("d/", mode=0o711, uid=8, pax_headers={"SCHILY.xattr.user.b": "3"})
    root = apply(tmp_path, archive(first, entry("d/file", b"")), archive(second))
    status = (root / "d").stat()
    assert (oct(status.st_mode), status.st_uid, names(root)) == ("0o40711", 8, {"d", "d/file"})
    assert {name: os.getxattr(root / "d", name) for name in os.listxattr(root / "d")} == {"user.b": b"3"}


def acl(*entries: tuple[int, int, int]) -> bytes:
    """An access control list of these tags, permissions and ids. Source: linux/posix_acl_xattr.h."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


NO_ID = 2**32 - 1
ACL = acl((1, 7, NO_ID), (2, 6, 5), (4, 4, NO_ID), (16, 6, NO_ID), (32, 0, NO_ID))


def acls(root: Path) -> dict[str, dict[str, bytes]]:
    return {
        name: {key.removeprefix("system.posix_acl_"): value for key, value in facts[6].items()}
        for name, facts in snapshot(root).items()
        if facts[6]
    }


@pytest.mark.parametrize("layers", [1, 2], ids=["same-layer", "layer-below"])
def test_default_acl_is_kept_and_not_passed_on(layers, tmp_path):
    """Files come with the rights that the archive says, whatever their directory passes on. "d-" is sorted before "d/e"."""
    attributes = {"SCHILY.xattr.system.posix_acl_default": os.fsdecode(ACL)}
    below = [entry("./", pax_headers=attributes), entry("d/", pax_headers=attributes)]
    above = [
        entry("top", b""),
        entry("d/file", b"", mode=0o664),
        entry("d/owned", b"", mode=0o664, uid=5),
        entry("d/e/", mode=0o775),
        entry("d/implied/file", b""),
        entry("d/fifo", type=tarfile.FIFOTYPE, mode=0o664),
        entry("d-/"),
    ]
    parts = [archive(*below), archive(*above)] if layers == 2 else [archive(*below, *above)]
    root = apply(tmp_path, *parts)
    assert acls(root) == {".": {"default": ACL}, "d": {"default": ACL}}
    modes = {name: facts[1] for name, facts in snapshot(root).items()}
    assert modes == {
        ".": "0o755", "top": "0o644", "d": "0o755", "d/file": "0o664", "d/owned": "0o664", "d/e": "0o775", "d/implied": "0o755",
        "d/implied/file": "0o644", "d/fifo": "0o664", "d-": "0o755",
    }


def test_default_acls_take_bounded_memory(tmp_path):
    """They are kept until the end, and an archive may have one of 60 kB for each directory."""
    same = "x" * 60_000
    headers = [{"SCHILY.xattr.system.posix_acl_default": text} for text in (same, *(f"{number:060000}" for number in range(300)))]
    many = archive(*(entry(f"d{number}/", pax_headers=headers[0]) for number in range(300)))
    (tmp_path / "same").mkdir()
    assert json.loads(unpack(tmp_path / "same", many))["unpacked"]["skippedAttributes"] == 300  # none is a list
    (tmp_path / "different").mkdir()
    answer = unpack(tmp_path / "different", archive(*(entry(f"d{number}/", pax_headers=one) for number, one in enumerate(headers))))
    assert answer.startswith('refused: cannot extract "d279": cannot keep the default access control list of d279: all different ones '), answer


ACL_TEXT = "user::rwx,user:5:rw-,group::r--,mask::rw-,other::---"  # means ACL


def test_acl_as_text(tmp_path):
    """bsdtar and GNU tar write lists so, also where the archive has no extended attributes."""
    layer = archive(
        entry("x", b"", mode=0o760, pax_headers={"SCHILY.acl.access": ACL_TEXT}),
        entry("named", b"", mode=0o760, pax_headers={"SCHILY.acl.access": ACL_TEXT.replace("user:5:rw-", "user:games:rw-:5")}),
        entry("no-more-than-the-mode", b"", mode=0o740, pax_headers={"SCHILY.acl.access": "user::rwx,group::r--,other::---"}),
        entry("d/", pax_headers={"SCHILY.acl.default": ACL_TEXT.replace(",", "\n") + "\n"}),
        entry("d/file", b""),
    )
    root = apply(tmp_path, layer)
    assert acls(root) == {"x": {"access": ACL}, "named": {"access": ACL}, "d": {"default": ACL}}
    modes = {name: facts[1] for name, facts in snapshot(root).items()}
    assert (modes["x"], modes["no-more-than-the-mode"], modes["d/file"]) == ("0o760", "0o740", "0o644")


def test_acl_with_names_only_is_left_out(tmp_path):
    """The names are those of another host. Without the list, the mode does not give its group what the mask allowed."""
    text = ACL_TEXT.replace("user:5:", "user:games:")
    answer = unpack(tmp_path, archive(entry("x", b"", mode=0o760, pax_headers={"SCHILY.acl.access": text})))
    assert json.loads(answer)["unpacked"]["skippedAttributes"] == 1
    assert acls(tmp_path / "root") == {} and snapshot(tmp_path / "root")["x"][1] == "0o740"


def test_acl_as_text_is_the_same_as_that_of_gnu_tar(tmp_path):
    layer = archive(
        entry("./"),
        entry("x", b"", mode=0o760, pax_headers={"SCHILY.acl.access": ACL_TEXT}),
        entry("d/", pax_headers={"SCHILY.acl.default": ACL_TEXT}),
        entry("d/file", b""),
        entry("d/e/"),
        entry("d/e/file", b"", mode=0o664),
    )
    (tmp_path / "x.tar").write_bytes(layer)
    (tmp_path / "theirs").mkdir()
    tar("-C", tmp_path / "theirs", "--acls", "--numeric-owner", "-xpf", tmp_path / "x.tar")
    assert snapshot(apply(tmp_path, layer)) == snapshot(tmp_path / "theirs")


@pytest.mark.parametrize(
    "text,nanoseconds",
    [("-1.25", -1_250_000_000), ("-1", -1_000_000_000), ("-86400.000000001", -86_400_000_000_001), ("12.5", 12_500_000_000)],
)
def test_times_before_1970_have_fractions(text, nanoseconds, tmp_path):
    root = apply(tmp_path, archive(entry("x", b"", pax_headers={"mtime": text})))
    assert (root / "x").stat().st_mtime_ns == nanoseconds


@pytest.mark.parametrize("damage", [(b"path=meant\n", b"path=meant "), (b"14 path", b"99 path"), (b"14 path", b"1x path")])
def test_broken_pax_header_is_an_error(damage, tmp_path):
    """Without the header, the entry would get another name."""
    layer = archive(entry("short", b"", pax_headers={"path": "meant"}))
    assert layer.count(damage[0]) == 1
    answer = unpack(tmp_path, layer.replace(*damage))
    assert answer.startswith("corrupt: archive is broken: a header is wrong: libarchive says \"Ignoring malformed pax"), answer
    assert names(tmp_path / "root") == set()


def test_ids_are_shifted(tmp_path):
    layer = archive(entry("root", b""), entry("nobody", b"", uid=65534, gid=65533), link("link", "root"), entry("d/", uid=1, gid=2))
    answer = unpack(tmp_path, layer, "ids=100000+65536")
    assert answer.startswith('{"unpacked":'), answer
    found = {name: (facts[2], facts[3]) for name, facts in snapshot(tmp_path / "root").items()}
    assert found == {
        ".": (100000, 100000),
        "root": (100000, 100000),
        "link": (100000, 100000),
        "nobody": (165534, 165533),
        "d": (100001, 100002),
    }


def test_owner_outside_of_the_range_is_an_error(tmp_path):
    answer = unpack(tmp_path, archive(entry("x", b"", uid=5000)), "ids=100000+1000")
    assert answer == (
        'unsupported: cannot extract "x": cannot change its owner: user 5000 or group 0 is outside of what the target may have'
    )


def test_long_names_of_each_format(tmp_path):
    name = "/".join(["d" * 100] * 5)
    for number, form in enumerate([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]):
        layer = archive(entry(name, b"x"), link(f"link{number}", "t" * 500), form=form)
        assert unpack(tmp_path, layer, target=tmp_path / str(number)).startswith('{"unpacked":')
        assert (tmp_path / str(number) / name).read_bytes() == b"x"
        assert os.readlink(tmp_path / str(number) / f"link{number}") == "t" * 500


def test_names_keep_their_bytes(tmp_path):
    """Names that differ only in how their characters are composed are different names; also those of links."""
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    layer = archive(
        entry(composed, b"1"),
        entry(decomposed, b"2"),
        hard_link("hard", decomposed),
        link("symbolic", decomposed),
        entry(os.fsdecode(b"latin-\xe4\xff"), b"3"),
    )
    root = apply(tmp_path, layer)
    assert names(root) == {composed, decomposed, "hard", "symbolic", os.fsdecode(b"latin-\xe4\xff")}
    assert [(root / name).read_bytes() for name in (composed, decomposed, "hard")] == [b"1", b"2", b"2"]
    assert os.readlink(root / "symbolic") == decomposed


def test_unpacking_leaves_nothing_mounted(tmp_path):
    before = Path("/proc/self/mountinfo").read_text()
    apply(tmp_path, BASE)
    assert Path("/proc/self/mountinfo").read_text() == before


def test_full_disk_is_an_error_and_says_so(tmp_path):
    """In a mount namespace of its own, on a file system of 1 MiB."""
    (tmp_path / "blob").write_bytes(archive(entry("large", os.urandom(3_000_000))))
    (tmp_path / "small").mkdir()
    script = 'mount -t tmpfs -o size=1m none "$1/small" && cd "$1" && exec "$2" unpack blob small free=0'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", tmp_path, TOOL], env={"LIBEXEC": str(BUILD), "PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    assert done.stdout == 'exhausted: cannot extract "large": cannot write it: No space left on device\n'
    assert tool("unpack", tmp_path / "blob", tmp_path / "small").startswith('{"unpacked":')


def sparse(size: int, pieces: list[tuple[int, int]], data: bytes) -> bytes:
    """An archive with a sparse file as GNU tar writes them, in its format 1.0: the map of its pieces is before their data."""
    numbers = [len(pieces), *(number for piece in pieces for number in piece)]
    text = "".join(f"{number}\n" for number in numbers).encode()
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "f", "GNU.sparse.realsize": str(size)}
    return archive(entry("GNUSparseFile.0/f", text.ljust(512, b"\0") + data, pax_headers=headers))


@pytest.mark.parametrize("size, pieces, data", [
    (10_000, [(0, 100), (5_000, 100), (10_000, 0)], b"a" * 100 + b"b" * 100),
    (10_000, [(10_000, 0)], b""),
    (100, [(0, 100)], b"a" * 100),
])
def test_sparse_file_is_what_its_map_says(tmp_path, size, pieces, data):
    root = apply(tmp_path, sparse(size, pieces, data))
    content = bytearray(size)
    for offset, length in pieces:
        content[offset : offset + length], data = data[:length], data[length:]
    assert (root / "f").read_bytes() == content


@pytest.mark.parametrize("pieces, data", [
    ([(0, 100), (5_000, 100), (10_000, 0)], b"a" * 150),  # less than the map says
    ([(0, 100), (5_000, 100), (10_000, 0)], b""),
    ([(5_000, 100), (0, 100), (10_000, 0)], b"a" * 200),
    ([(0, 100), (50, 100), (10_000, 0)], b"a" * 200),
])
def test_broken_sparse_file_is_refused(tmp_path, pieces, data):
    """GNU tar and Go refuse it; libarchive would complete it with zeros."""
    answer = unpack(tmp_path, sparse(10_000, pieces, data))
    assert answer.startswith("corrupt: archive is broken: "), answer


def test_holes_take_no_room(tmp_path):
    """/var/log/lastlog has 292 bytes for each number of a user up to the largest."""
    size = 453 << 30
    root = apply(tmp_path, sparse(size, [(0, 5), (size - 5, 5)], b"firstlast"[:5] + b"final"))
    assert (root / "f").stat().st_size == size and (root / "f").stat().st_blocks * 512 < 1 << 20


def test_an_empty_file_of_holes_has_a_size(tmp_path):
    assert (apply(tmp_path, sparse(300 << 30, [(300 << 30, 0)], b"")) / "f").stat().st_size == 300 << 30


@pytest.mark.parametrize("what", ["free", "free-inodes"])
def test_room_stays_free_for_others(tmp_path, what):
    """A download leaves as much; without it the host could not even delete an image."""
    facts = os.statvfs(tmp_path)
    # With half of it free, whoever watches the unpacker ends it first.
    limit = int(1.5 * (facts.f_bavail * facts.f_frsize if what == "free" else facts.f_ffree))
    answer = unpack(tmp_path, archive(entry("d/"), entry("d/f", b"content")), f"{what}={limit}")
    noun = "bytes" if what == "free" else "inodes"
    assert re.fullmatch(rf"exhausted: No space left on device: {limit} {noun} stay free, and \d+ are free", answer), answer
    assert not (tmp_path / "root/d/f").exists()

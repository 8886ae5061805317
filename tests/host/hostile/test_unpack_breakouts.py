"""Archives that want out of their target, up in rights, or more than their share. The unpacker is not in anybody's hands here: see
test_sandbox.py for that. Whatever comes of an archive, the tree beside the target is as it was."""

import gzip
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.wall import BUILD, IS_SANITIZED, TOOL, archive, entry, hard_link, link, names, needs_root, snapshot, unpack

pytestmark = needs_root


@pytest.fixture
def outside(tmp_path):
    """What an archive would like to reach, beside its target; checked at the end."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret").write_text("secret")
    (directory / "secret").chmod(0o600)
    before = snapshot(directory)
    yield directory
    assert snapshot(directory) == before
    assert not Path("/tmp/owned-by-an-archive").exists()


def leads_outside(name: str) -> str:
    return f'corrupt: entry "{name}" leads outside'


UP = "../" * 12
REFUSED = {
    "dot-dot": [entry("../outside/new", b"x")],
    "dot-dot-inside": [entry("a/"), entry("a/../../outside/new", b"x")],
    "dot-dot-at-the-end": [entry("a/..")],
    "dot-dot-alone": [entry("..")],
    "dot-dot-directory": [entry("../outside", mode=0o777)],
    "far-up": [entry(UP + "tmp/owned-by-an-archive", b"x")],
    "hard-link-up": [hard_link("link", "../outside/secret")],
    "hard-link-far-up": [hard_link("link", UP + "etc/passwd")],
    "symlink-up": [link("../outside/new", "x")],
    "whiteout-up": [entry("../outside/.wh.secret", b"")],
    "opaque-up": [entry("../outside/.wh..wh..opq", b"")],
}


@pytest.mark.parametrize("case", REFUSED)
def test_name_that_leads_outside_is_refused(case, outside, tmp_path):
    entries = REFUSED[case]
    bad = entries[-1][0]
    name = bad.linkname if case.startswith("hard-link") else bad.name
    answer = unpack(tmp_path, archive(*entries))
    assert answer.rstrip("/\"") in (leads_outside(name).rstrip("/\""), leads_outside(name + "/")), answer


def test_absolute_names_are_of_the_target(outside, tmp_path):
    layer = archive(entry("/tmp/owned-by-an-archive", b"x"), entry("//b", b""), hard_link("/c", "/b"))
    assert unpack(tmp_path, layer).startswith('{"unpacked":')
    assert names(tmp_path / "root") == {"tmp", "tmp/owned-by-an-archive", "b", "c"}


# A link first, and then something through it. The link may be of a layer below, too.
TARGETS = {
    "relative": "../outside",
    "absolute": "{outside}",
    "root": "/",
    "proc": "/proc/self/root",
    "cwd": "/proc/self/cwd/..",
    "far": UP + "{outside}",
    "fd": "/proc/self/fd/3",
}
THROUGH = {
    "file": [entry("x/secret", b"overwritten")],
    "new": [entry("x/new", b"x")],
    "directory": [entry("x/new/")],
    "directory-mode": [entry("x/.", mode=0o777)],
    "deep": [entry("x/a/b/c", b"x")],
    "hard-link-to": [hard_link("stolen", "x/secret")],
    "hard-link-at": [entry("f", b"x"), hard_link("x/new", "f")],
    "whiteout": [entry("x/.wh.secret", b"")],
    "opaque": [entry("x/.wh..wh..opq", b"")],
    "fifo": [entry("x/new", type=tarfile.FIFOTYPE)],
    "symlink": [link("x/new", "/")],
}


@pytest.mark.parametrize("layers", ["one", "two"])
@pytest.mark.parametrize("through", THROUGH)
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_goes_out_through_a_link(target, through, layers, outside, tmp_path):
    first, second = [link("x", TARGETS[target].format(outside=outside))], THROUGH[through]
    if layers == "one":
        unpack(tmp_path, archive(*first, *second))
    else:
        assert unpack(tmp_path, archive(*first)).startswith('{"unpacked":')
        unpack(tmp_path, archive(*second))
    # Where it went instead is inside, or nowhere; the fixture looks at the rest.
    assert all((tmp_path / "root" / name).is_symlink() or not (tmp_path / "root" / name).samefile(outside) for name in names(tmp_path / "root"))


def test_symlink_is_replaced_and_not_followed(outside, tmp_path):
    layer = archive(link("x", str(outside / "secret")), entry("x", b"mine"))
    assert unpack(tmp_path, layer).startswith('{"unpacked":')
    assert (tmp_path / "root/x").read_bytes() == b"mine"
    assert not (tmp_path / "root/x").is_symlink()


def test_links_in_a_circle(outside, tmp_path):
    layer = archive(link("a", "b"), link("b", "a"), entry("a/file", b"x"))
    assert unpack(tmp_path, layer).startswith('{"unpacked":')
    assert names(tmp_path / "root") == {"a", "a/file", "b"}


def test_hard_link_to_a_symlink_is_a_link_to_the_link(outside, tmp_path):
    layer = archive(link("x", str(outside / "secret")), hard_link("y", "x"), entry("y", b"mine"))
    assert unpack(tmp_path, layer).startswith('{"unpacked":')
    assert os.readlink(tmp_path / "root/x") == str(outside / "secret")
    assert (tmp_path / "root/y").read_bytes() == b"mine"


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "d/.wh.", "d/.wh..", "d/.wh..."])
def test_whiteout_of_nothing_dot_and_dot_dot(name, outside, tmp_path):
    answer = unpack(tmp_path, archive(entry("d/"), entry("d/file", b""), entry(name, b"")))
    assert answer == f'corrupt: entry "{name}" hides a name that cannot exist'
    assert names(tmp_path / "root") == {"d", "d/file"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.BLKTYPE, tarfile.LNKTYPE])
def test_root_is_a_directory(kind, outside, tmp_path):
    answer = unpack(tmp_path, archive(entry("./", type=kind, linkname="../outside" if kind == tarfile.SYMTYPE else "x")))
    assert answer == "corrupt: the archive's root is not a directory"


# Rights.


def test_devices_are_left_out_and_counted(tmp_path):
    devices = [
        entry("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        entry("disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0),
        entry("whiteout", type=tarfile.CHRTYPE, devmajor=0, devminor=0),
    ]
    assert '"skippedDevices":3' in unpack(tmp_path, archive(*devices))
    assert names(tmp_path / "root") == set()


def test_setuid_is_kept_where_it_belongs(tmp_path):
    """An image may have setuid files: of its own ids only, and on a mount that the unpacker cannot execute from."""
    unpack(tmp_path, archive(entry("su", b"x", mode=0o4755, uid=0)), "ids=200000+65536")
    status = (tmp_path / "root/su").stat()
    assert (oct(status.st_mode), status.st_uid) == ("0o104755", 200000)


def test_attributes_of_the_host_are_left_out(tmp_path):
    headers = {
        "SCHILY.xattr.trusted.overlay.opaque": "y",
        "SCHILY.xattr.trusted.overlay.redirect": "/etc",
        "SCHILY.xattr.user.overlay.opaque": "y",
        "SCHILY.xattr.security.ima": "x",
        "SCHILY.xattr.system.other": "x",
        "SCHILY.xattr.user.good": "kept",
    }
    answer = unpack(tmp_path, archive(entry("d/", pax_headers=headers), entry("f", b"", pax_headers=headers)))
    assert '"skippedAttributes":10' in answer
    for name in ("d", "f"):
        assert os.listxattr(tmp_path / "root" / name) == ["user.good"]


# More than its share.


def test_many_zeros(tmp_path):
    """10 GB of zeros in 10 MB."""
    with gzip.open(tmp_path / "blob", "wb", compresslevel=1) as file:
        info = entry("zeros", b"")[0]
        info.size = 10 << 30
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(200):  # the limit comes long before the end
            file.write(bytes(1 << 20))
    (tmp_path / "root").mkdir()
    done = subprocess.run([TOOL, "unpack", tmp_path / "blob", tmp_path / "root", f"bytes={100 << 20}"], capture_output=True, text=True, env={"LIBEXEC": str(BUILD)})
    assert done.stdout == "refused: files are larger than 104857600 bytes\n"


def test_zeros_behind_the_end(tmp_path):
    blob = gzip.compress(archive(entry("x", b"")) + bytes(20 << 20), 1)
    assert unpack(tmp_path, blob, f"bytes={10 << 20}") == "refused: archive is larger than 10485760 bytes"


def test_holes_have_a_limit(tmp_path):
    """A sparse file of 4 exabytes is a few bytes of archive."""
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "hole", "GNU.sparse.realsize": str(1 << 62)}
    content = b"1\n0\n0\n".ljust(512, b"\0")
    assert unpack(tmp_path, archive(entry("x", content, pax_headers=headers))) == (
        'refused: cannot extract "hole": it is larger than 17592186044416 bytes')


def entries(count: int) -> bytes:
    header = entry("./e", b"")[0]
    blocks = []
    for number in range(count):
        header.name = f"e{number % 100}"
        blocks.append(header.tobuf(tarfile.USTAR_FORMAT))
    return b"".join(blocks) + bytes(1024)


def test_many_entries(tmp_path):
    assert unpack(tmp_path, gzip.compress(entries(1001), 1), "entries=1000") == "refused: archive has more than 1000 entries"
    assert unpack(tmp_path, gzip.compress(entries(1000), 1), "entries=1000").startswith('{"unpacked":{"entries":1000,')


def test_five_million_entries(tmp_path):
    """The default limit is four millions. Seen without making so many files: each is a directory that is there already."""
    block = entry("d/")[0].tobuf(tarfile.USTAR_FORMAT)
    with gzip.open(tmp_path / "blob", "wb", compresslevel=1) as file:
        for _ in range(5):
            file.write(block * 10_000)
    (tmp_path / "root").mkdir()
    done = subprocess.run([TOOL, "unpack", tmp_path / "blob", tmp_path / "root", "entries=40000"], capture_output=True, text=True, env={"LIBEXEC": str(BUILD)})
    assert done.stdout == "refused: archive has more than 40000 entries\n"


def test_depth(tmp_path):
    deep = "/".join(["d"] * 10_000)
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        answer = unpack(tmp_path, archive(entry(deep, b"x"), form=form))
        assert answer.startswith('refused: entry "d/d/d/') and answer.endswith("is deeper than 1024 directories"), answer
    assert names(tmp_path / "root") == set()


def test_depth_that_is_allowed_can_be_removed_again(tmp_path):
    deep = "/".join(["d"] * 1000)
    assert unpack(tmp_path, archive(entry(deep, b"x"))).startswith('{"unpacked":')
    assert unpack(tmp_path, archive(entry(".wh.d", b""))).startswith('{"unpacked":')
    assert names(tmp_path / "root") == set()


def test_name_that_is_too_long(tmp_path):
    answer = unpack(tmp_path, archive(entry("n" * 256, b"x")))
    assert answer.endswith("cannot make a file: File name too long"), answer


@pytest.mark.parametrize("size", ["-1", "99999999999999999999", "18446744073709551615", "abc"])
def test_size_that_is_not_one(size, tmp_path):
    answer = unpack(tmp_path, archive(entry("x", b"content", pax_headers={"size": size})))
    assert answer.split(":")[0] in ("corrupt", "refused"), answer


@pytest.mark.parametrize("field", ["uid", "gid"])
@pytest.mark.parametrize("value", ["-1", "4294967295", "4294967296", "99999999999999999999"])
def test_owner_that_is_not_one(field, value, tmp_path):
    answer = unpack(tmp_path, archive(entry("x", b"", pax_headers={field: value})))
    assert answer == 'corrupt: entry "x" belongs to a user or group that cannot exist', answer


def test_time_that_is_not_one(tmp_path):
    for value in ("-1", "-99999999999999999999", "99999999999999999999", "1e400", "nan"):
        assert unpack(tmp_path, archive(entry("x", b"", pax_headers={"mtime": value}))).startswith('{"unpacked":')


def test_cut_off_archive(tmp_path):
    layer = archive(entry("x", b"content" * 1000))
    assert unpack(tmp_path, layer[:2000]).startswith("corrupt: archive is broken: ")


@pytest.mark.parametrize("blob", [b"not a tar", os.urandom(4096), b"\x1f\x8b", b"PK\3\4" + bytes(600)], ids=["text", "random", "magic", "zip"])
def test_what_is_not_an_archive(blob, tmp_path):
    assert unpack(tmp_path, blob).startswith("corrupt: ")
    assert names(tmp_path / "root") == set()


def test_time_limit(tmp_path):
    assert unpack(tmp_path, entries(10), "seconds=0") == "refused: archive takes longer than 0 seconds"


@pytest.mark.skipif(IS_SANITIZED, reason="sanitizers reserve terabytes of addresses, so that no limit can be set")
def test_large_window_of_zstd_is_refused(tmp_path):
    """A frame that asks for 2 GiB of memory: window descriptor 0xa8. Source: RFC 8878, section 3.1.1.1.2"""
    assert unpack(tmp_path, bytes.fromhex("28b52ffd00a8") + bytes(100)).startswith("corrupt: zstd data are broken: ")


def test_fifo_is_not_opened(tmp_path):
    layer = archive(entry("p", type=tarfile.FIFOTYPE, mode=0o600), entry("p", b"a file now"))
    assert unpack(tmp_path, layer).startswith('{"unpacked":')
    assert stat.S_ISREG((tmp_path / "root/p").stat().st_mode)

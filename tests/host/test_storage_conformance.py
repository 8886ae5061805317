"""host/storage: all four backends have to behave as one. Each operation is one call of storage_tool."""

import errno
import fcntl
import itertools
import os
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from storage_places import BACKENDS, FACTOR, DEADLINE, Failed, Lacking, OwnMounts, Place, Store, manifest, remove, run  # noqa: E402

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount file systems and make devices")


@pytest.fixture(scope="module")
def own_mounts():
    mounts = OwnMounts()
    yield
    mounts.close()


def lacks(error):
    """Where a green run is taken for a tested tree, no backend may be left out that the kernel could have."""
    could_be = all(os.path.exists(device) for device in ("/dev/fuse", "/dev/loop-control"))
    pytest.fail(str(error)) if os.environ.get("CI") and could_be else pytest.skip(str(error))


@pytest.fixture(scope="module", params=BACKENDS)
def place(request, own_mounts):
    try:
        made = Place(request.param)
    except Lacking as error:
        lacks(error)
    yield made
    made.close()


@pytest.fixture
def store(place):
    return place.pool()


def fails(text):
    return pytest.raises(Failed, match=f"^{re.escape(text)}$")


def has_attributes(directory):
    """zfs-fuse keeps none."""
    probe = directory / "probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.probe", b"1")
    except OSError:
        return False
    finally:
        probe.unlink()
    return True


def fill(root):
    """Everything that a tree of a machine can have."""
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0\n")
    os.chown(root / "etc/passwd", 3, 4)
    os.link(root / "etc/passwd", root / "etc/passwd.hard")
    (root / "bin").mkdir(mode=0o711)
    os.link(root / "etc/passwd", root / "bin/also")
    tool = root / "bin/su"
    tool.write_bytes(os.urandom(70_000))
    os.chown(tool, 1, 2)
    tool.chmod(0o6755)
    (root / "empty").touch(mode=0o400)
    with open(root / "sparse", "wb") as file:
        file.seek(8 << 20)
        file.write(b"end")
        file.truncate(16 << 20)
    os.symlink("/etc/shadow", root / "outside")
    os.symlink("../../../../../../etc", root / "etc/up")
    os.symlink("etc/passwd", root / "inside")
    os.lchown(root / "inside", 5, 6)
    os.link(root / "inside", root / "inside.hard", follow_symlinks=False)
    (root / "dev").mkdir()
    os.mknod(root / "dev/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(root / "dev/disk", stat.S_IFBLK | 0o640, os.makedev(7, 77))
    os.mkfifo(root / "dev/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.getcwd()
        os.chdir(root / "dev")
        listener.bind("socket")
        os.chdir(before)
    (root / "sticky").mkdir()
    (root / "sticky").chmod(0o3777)
    (root / "name with \n and \xff\u00e9").write_text("odd")
    if has_attributes(root):
        os.setxattr(root / "etc/passwd", "user.note", b"bytes\0and more")
        os.setxattr(root / "bin/su", "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
        os.setxattr(root / "etc", "trusted.mark", b"")
        os.setxattr(root / "outside", "trusted.link", b"1")
    for directory, _, files in os.walk(root, topdown=False):
        for name in files:
            os.utime(os.path.join(directory, name), ns=(1_500_000_000_123_456_789, 1_400_000_000_987_654_321), follow_symlinks=False)
        os.utime(directory, ns=(1_500_000_000_000_000_000, 1_300_000_000_000_000_001))
    return root


def filled(store, name="layers/base"):
    store("make", name)
    return fill(store.tree(name))


def test_a_pool_is_what_it_was_made_as(place, store):
    assert store("kind") == [f"{place.backend} {'copies' if place.backend == 'directory' else 'free'}"]
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o700
    if place.backend != "zfs":
        assert Store("auto", store.path)("kind")[0].split()[0] == place.backend
        other = "directory" if place.backend != "directory" else "reflink"
        with fails(f"refused: cannot use {store.path} as a pool of kind {other}: it was made as {place.backend}"):
            Store(other, store.path)("kind")


def test_the_best_backend_is_found(place):
    found = Store("auto", place.root / "new/pool", f"{place.zpool}/new" if place.backend == "zfs" else "-")("probe")
    assert found[0] == place.backend
    assert not (place.root / "new").exists()


def test_what_a_path_cannot_have_is_said(own_mounts, tmp_path):
    with fails(f"unsupported: cannot use {tmp_path}/p as a pool of kind btrfs: it is not on btrfs"):
        Store("btrfs", tmp_path / "p")("kind")
    with fails(f"unsupported: cannot use {tmp_path}/p as a pool of kind reflink: its file system cannot share blocks between files"):
        Store("reflink", tmp_path / "p")("kind")
    with fails("invalid: a ZFS pool needs the name of a dataset"):
        Store("zfs", tmp_path / "p")("kind")
    with fails("invalid: the path of a storage pool must begin with a slash"):
        Store("directory", "relative")("kind")
    (tmp_path / "foreign").mkdir()
    os.chown(tmp_path / "foreign", 1000, 1000)
    with fails(f"denied: cannot use {tmp_path}/foreign as a pool: it belongs to user 1000"):
        Store("directory", tmp_path / "foreign")("kind")


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace, which makes a system call fail")
def test_a_file_system_that_cannot_exchange_names_is_named(tmp_path):
    """OpenZFS before 2.2 and NFS."""
    cannot = ("strace", "-qq", "-o", "/dev/null", "-e", "trace=renameat2", "-e", "inject=renameat2:error=EINVAL")
    store = Store("directory", tmp_path / "p")
    with fails(f"unsupported: cannot use {tmp_path}/p as a pool of kind directory: its file system cannot exchange two names (RENAME_EXCHANGE)"):
        store("kind", before=cannot)
    assert list((tmp_path / "p/@pool/building").iterdir()) == []
    assert store("kind")[0].split()[0] == "directory"


def test_trees_are_made_listed_and_destroyed(store):
    assert store("list", "") == []
    store("make", "layers/a")
    store("make", "layers/b")
    store("make", "machines/x/y")
    assert store("list", "") == ["layers/a", "layers/b", "machines/x/y"]
    assert store("list", "layers") == ["layers/a", "layers/b"]
    assert store("list", "machines/x") == ["machines/x/y"]
    assert store("list", "nothing") == []
    tree = store.tree("layers/a")
    assert stat.S_IMODE(tree.stat().st_mode) == 0o755 and tree.stat().st_uid == 0 and list(tree.iterdir()) == []
    assert store("exists", "layers/a") == ["yes"] and store("exists", "layers") == ["no"] and store("exists", "x/y") == ["no"]
    store("destroy", "layers/a")
    assert store("list", "layers") == ["layers/b"]
    store("make", "layers/a")


def test_names_have_to_be_free_and_of_trees(store):
    store("make", "layers/a")
    with fails("exists: tree layers/a exists already"):
        store("make", "layers/a")
    with fails("refused: cannot make tree layers/a/b: it would be inside of tree layers/a"):
        store("make", "layers/a/b")
    with fails("refused: cannot make tree layers: there are trees below that name"):
        store("make", "layers")
    for words in (["destroy", "layers"], ["snapshot", "layers", "s"], ["path", "layers"], ["rename", "layers", "x"], ["usage", "layers"]):
        with fails("not_found: there is no tree layers".replace("not_found", "notFound")):
            store(*words)
    for words in (["destroy", "no/tree"], ["snapshots", "no/tree"], ["properties", "no/tree"]):
        with fails("notFound: there is no tree no/tree"):
            store(*words)
    with fails("notFound: there is no snapshot layers/a@none"):
        store("clone", "layers/a", "none", "layers/c")
    with fails("notFound: there is no snapshot layers/a@none"):
        store("delete-snapshot", "layers/a", "none")
    with fails("notFound: there is no snapshot layers/a@none"):
        store("rollback", "layers/a", "none")
    with fails('invalid: "../a" is not a name of a tree: a component must begin with a letter or a digit'):
        store("make", "../a")


def test_a_clone_is_the_same_tree(store):
    tree = filled(store)
    expected = manifest(tree)
    store("snapshot", "layers/base", "final")
    (tree / "etc/passwd").write_text("changed after the snapshot")
    store("clone", "layers/base", "final", "machines/m")
    clone = store.tree("machines/m")
    assert manifest(clone) == expected
    assert (clone / "sparse").stat().st_blocks * 512 < 1 << 20
    assert store("snapshots", "machines/m") == [] and store("properties", "machines/m") == []
    # It is nobody else's: what is written to one of them stays there.
    (clone / "bin/su").write_text("mine")
    (clone / "new").write_text("mine")
    store("clone", "layers/base", "final", "machines/n")
    assert manifest(store.tree("machines/n")) == expected
    with fails("exists: tree machines/n exists already"):
        store("clone", "layers/base", "final", "machines/n")


def acl_for(user):
    """The owner may read and write, this user may read, others may nothing. Source: linux/posix_acl_xattr.h."""
    nobody = 0xFFFFFFFF
    entries = [(0x01, 6, nobody), (0x02, 4, user), (0x04, 4, nobody), (0x10, 4, nobody), (0x20, 0, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def test_acls_are_kept(place, store):
    if place.daemon:
        pytest.skip("zfs-fuse keeps none")
    store("make", "a")
    (store.tree("a") / "file").touch()
    os.setxattr(store.tree("a") / "file", "system.posix_acl_access", acl_for(1000))
    store("snapshot", "a", "s")
    store("clone", "a", "s", "b")
    assert os.getxattr(store.tree("b") / "file", "system.posix_acl_access") == acl_for(1000)


def test_snapshots_are_listed_by_age_and_deleted(store):
    store("make", "a")
    for name in ("zz", "aa", "mm"):
        store("snapshot", "a", name)
    assert store("snapshots", "a") == ["zz", "aa", "mm"]
    with fails("exists: snapshot a@aa exists already"):
        store("snapshot", "a", "aa")
    store("delete-snapshot", "a", "aa")
    store("snapshot", "a", "b")
    assert store("snapshots", "a") == ["zz", "mm", "b"]


def test_snapshots_tell_when_they_were_made(place, store):
    """Their own time, and not that of the tree that they were taken of."""
    filled(store, "a")
    time.sleep(1.1)  # ZFS counts seconds
    before = time.time()
    for name in ("one", "n" * 80):
        store("snapshot", "a", name)
    facts = [line.split() for line in store("snapshot-facts", "a")]
    assert [name for name, _, _ in facts] == ["one", "n" * 80]
    for _, made, used in facts:
        assert before - 1 < int(made) / 1_000_000 <= time.time() + 1
        assert (used != "none") == (place.backend == "zfs")


def test_a_snapshot_gets_another_name_and_stays_what_it_is(store):
    store("make", "a")
    (store.tree("a") / "f").write_text("1")
    for name in ("one", "two"):
        store("snapshot", "a", name)
    store("rename-snapshot", "a", "one", "first")
    assert store("snapshots", "a") == ["first", "two"]
    with pytest.raises(Failed, match="^exists: snapshot a@first exists already"):
        store("rename-snapshot", "a", "two", "first")
    with pytest.raises(Failed, match="^notFound: there is no snapshot a@one"):
        store("rename-snapshot", "a", "one", "other")
    store("clone", "a", "first", "b")
    assert (store.tree("b") / "f").read_text() == "1"


def test_what_a_clone_has_changed_is_sent_where_that_is_known(place, store, tmp_path):
    store("make", "a")
    (store.tree("a") / "kept").write_text("1")
    store("snapshot", "a", "final")
    store("clone", "a", "final", "b")
    (store.tree("b") / "new").write_text("2")
    store("snapshot", "b", "now")
    if place.backend != "zfs":
        assert store("origin", "b") == ["none"]
        with pytest.raises(Failed, match="^unsupported: cannot send the changes of b: only ZFS remembers"):
            store("send-since-origin", "b", "now")
        return
    assert (store("origin", "a"), store("origin", "b")) == (["none"], ["a"])
    with pytest.raises(Failed, match="^refused: cannot send the changes of a@final: it is not a clone"):
        store("send-since-origin", "a", "final")
    with open(tmp_path / "stream", "wb") as out:
        store("send-since-origin", "b", "now", stdout=out)
    store.receive(tmp_path / "stream", "c")
    assert sorted(one.name for one in store.tree("c").iterdir()) == ["kept", "new"]
    assert store("origin", "c") == ["a"]


def test_rollback_gives_back_what_was(store):
    tree = filled(store, "a")
    expected = manifest(tree)
    store("snapshot", "a", "good")
    shutil.rmtree(tree / "etc")
    (tree / "bin/su").unlink()
    (tree / "more").mkdir()
    store("set-property", "a", "triton:kept", "yes")
    store("rollback", "a", "good")
    assert manifest(store.tree("a")) == expected
    assert store("snapshots", "a") == ["good"] and store("properties", "a") == ["triton:kept=yes"]


def test_rename_takes_all_along(store):
    tree = filled(store, "one/a")
    expected = manifest(tree)
    store("snapshot", "one/a", "s")
    store("set-property", "one/a", "triton:owner", "somebody")
    store("make", "two/b")
    with fails("exists: tree two/b exists already"):
        store("rename", "one/a", "two/b")
    store("rename", "one/a", "two/c/d")
    assert store("list", "") == ["two/b", "two/c/d"]
    assert store("snapshots", "two/c/d") == ["s"] and store("properties", "two/c/d") == ["triton:owner=somebody"]
    assert manifest(store.tree("two/c/d")) == expected


def test_properties_are_text(store):
    store("make", "a")
    value = "".join(chr(code) for code in range(0x20, 0x7F)).strip() * 10
    store("set-property", "a", "triton:all_text", value)
    store("set-property", "a", "triton:b", "1")
    store("set-property", "a", "triton:b", "2")
    assert store("properties", "a") == [f"triton:all_text={value}", "triton:b=2"]
    store("set-property", "a", "triton:b", "")
    assert store("properties", "a") == [f"triton:all_text={value}"]
    with fails("invalid: a property's key is triton:[a-z_]+ of at most 64 characters"):
        store("set-property", "a", "other:key", "1")
    with fails("invalid: the value of triton:b must have at most 1000 characters, all of them printable ASCII"):
        store("set-property", "a", "triton:b", "a\nb")


def test_a_quota_holds_or_is_refused(place, store):
    store("make", "a")
    assert store("quota", "a") == ["none"]
    if place.backend in ("directory", "reflink"):
        with fails(
            "unsupported: cannot limit what the tree may hold: the file system keeps no project quotas; XFS and ext4 do when they"
            " are mounted with the option prjquota"
        ):
            store("set-quota", "a", 10 << 20)
        return
    store("set-quota", "a", 10 << 20)
    assert store("quota", "a") == [str(10 << 20)] and store("usage", "a")[0].split()[2] == str(10 << 20)
    with pytest.raises(OSError) as error:
        with open(store.tree("a") / "big", "wb", buffering=0) as file:
            for _ in range(30):
                file.write(os.urandom(1 << 20))
                os.fsync(file.fileno())
    assert error.value.errno in (errno.EDQUOT, errno.ENOSPC)
    store("set-quota", "a", "none")
    assert store("quota", "a") == ["none"]
    with open(store.tree("a") / "more", "wb") as file:
        file.write(bytes(12 << 20))


def test_the_quotas_of_native_tools_are_read(place, store):
    store("make", "a")
    store("make", "b")
    if place.backend in ("directory", "reflink"):
        assert store("quotas", "a", "b") == []  # not even that there is none
        return
    assert store("quotas", "a", "b") == ["a 0", "b 0"]
    if place.backend == "zfs":
        limit = lambda kind, size: subprocess.run(["zfs", "set", f"{kind}={size}", f"{store.dataset}/a"], check=True)  # noqa: E731
        wide, narrow = "refquota", "quota"
    else:
        limit = lambda kind, size: subprocess.run(["btrfs", "qgroup", "limit", *kind, str(size), store.tree("a")], check=True)  # noqa: E731
        wide, narrow = [], ["-e"]
        store("set-quota", "b", 90 << 20)  # this turns the quota groups on
        store("set-quota", "b", "none")
    limit(wide, 20 << 20)
    assert store("quotas", "a", "b") == [f"a {20 << 20}", "b 0"]
    limit(narrow, 10 << 20)  # the other kind of limit
    assert store("quotas", "a", "b") == [f"a {10 << 20}", "b 0"] and store("quota", "a") == [str(10 << 20)]
    assert store("quotas", "b", "missing") == ["b 0"]
    store("set-quota", "a", 30 << 20)
    assert store("quotas", "a", "b") == [f"a {30 << 20}", "b 0"]
    limit(narrow, 10 << 20)
    store("set-quota", "a", "none")
    assert store("quotas", "a", "b") == ["a 0", "b 0"]


def test_a_tree_that_holds_more_than_its_quota_can_be_given_more(place, store):
    if place.backend != "btrfs":
        pytest.skip("a quota below what a tree holds is refused, or there is none")
    store("make", "a")
    with open(store.tree("a") / "big", "wb") as file:
        file.write(os.urandom(8 << 20))
        os.fsync(file.fileno())
    os.sync()
    store("set-quota", "a", 4 << 20)
    store("snapshot", "a", "s")
    store("rollback", "a", "s")  # the new content has the same quota
    store("set-quota", "a", 20 << 20)
    assert store("quota", "a") == [str(20 << 20)]
    (store.tree("a") / "more").write_bytes(bytes(1 << 20))
    store("set-quota", "a", 4 << 20)
    store("set-quota", "a", "none")


# XFS keeps projects of files without quotas, too. The calls for quotas succeed, as they would with them.
WITH_QUOTAS = ("strace", "-qq", "-o", "/dev/null", "-e", "trace=quotactl_fd,ioctl,openat", "-e", "inject=quotactl_fd:retval=0")


def project_of(path):
    """Whether what is made there inherits it, and its number."""
    facts = bytearray(28)
    file = os.open(path, os.O_RDONLY)
    fcntl.ioctl(file, 0x801C581F, facts)  # FS_IOC_FSGETXATTR
    os.close(file)
    flags, _, _, number = struct.unpack_from("=IIII", facts)
    return bool(flags & 0x200), number


def forget_project(path):
    file = os.open(path, os.O_RDONLY)
    fcntl.ioctl(file, 0x401C5820, bytes(28))  # FS_IOC_FSSETXATTR
    os.close(file)


@pytest.fixture
def with_projects(place):
    if place.backend != "reflink":
        pytest.skip("the file system has other quotas, or no projects without quotas")
    return place.pool()


def test_a_project_that_was_not_given_to_all_is_given_to_all_the_next_time(with_projects):
    store = with_projects
    store("make", "a")
    tree = store.tree("a")
    for name in ("one", "two", "three/deep"):
        (tree / name).mkdir(parents=True)
        (tree / name / "file").write_bytes(b"x")
    (tree / "file").write_bytes(b"x")
    paths = [tree, *tree.rglob("*")]
    for number in itertools.count(1):
        for path in paths:
            forget_project(path)
        kill = ("-e", f"inject=ioctl:signal=KILL:when={number}")
        process = store.start("set-quota", "a", 10 << 20, before=(*WITH_QUOTAS, *kill))
        process.communicate(timeout=DEADLINE)
        store("set-quota", "a", 10 << 20, before=WITH_QUOTAS)
        (project,) = {project_of(path)[1] for path in paths}
        assert project >= 1 << 30, f"killed at {number}"
        assert all(project_of(path)[0] == path.is_dir() for path in paths)
        if process.returncode == 0:
            break
    assert number > 2 * len(paths)


def test_a_project_is_given_while_files_become_other_things(with_projects):
    store = with_projects
    store("make", "a")
    tree, is_over = store.tree("a"), threading.Event()
    (tree / "one").mkdir()

    def make_socket(path):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))

    def turn():
        kinds = itertools.cycle((Path.touch, lambda path: path.symlink_to("nowhere"), os.mkfifo, make_socket))
        for number in itertools.cycle(range(49)):
            if is_over.is_set():
                return
            next(kinds)(tree / "one/new")
            try:
                os.rename(tree / "one/new", tree / "one" / str(number))
            except OSError as error:  # the directory has got another project meanwhile
                assert error.errno == errno.EXDEV
                (tree / "one/new").unlink()

    tenant = threading.Thread(target=turn)
    tenant.start()
    try:
        for _ in range(10):
            store("set-quota", "a", 10 << 20, before=(*WITH_QUOTAS, "-e", "inject=openat:delay_enter=1000"))
            assert project_of(tree)[1] != 0
            forget_project(tree)
    finally:
        is_over.set()
        tenant.join()


def test_a_file_may_have_all_the_names_that_ext4_allows(place, store):
    if place.backend != "directory":
        pytest.skip("others allow too many")
    store("make", "a")
    directory = os.open(store.tree("a"), os.O_RDONLY | os.O_DIRECTORY)
    (store.tree("a") / "0").write_bytes(b"x")
    for number in range(1, 65_000):
        os.link("0", str(number), src_dir_fd=directory, dst_dir_fd=directory)
    os.close(directory)
    store("snapshot", "a", "s")
    store.send(place.area / "stream", "a", "s", "-")
    store.receive(place.area / "stream", "b")
    assert os.stat(store.tree("b") / "0").st_nlink == len(os.listdir(store.tree("b"))) == 65_000


def test_usage_and_space_are_those_of_the_files(store):
    total, free, _ = store("space")[0].split()
    assert 0 < int(free) <= int(total)
    store("make", "a")
    with open(store.tree("a") / "big", "wb") as file:
        file.write(os.urandom(20 << 20))
        os.fsync(file.fileno())
    os.sync()
    deadline = time.monotonic() + DEADLINE
    while True:  # btrfs and ZFS count when they write
        used, referenced, quota = store("usage", "a")[0].split()
        if int(referenced) >= 20 << 20 or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert 20 << 20 <= int(referenced) < 24 << 20 and 20 << 20 <= int(used) < 24 << 20 and quota == "none"
    store("destroy", "a")


def test_a_tree_with_clones_is_busy_or_independent(place, store):
    filled(store)
    store("snapshot", "layers/base", "final")
    store("clone", "layers/base", "final", "machines/m")
    store("clone", "layers/base", "final", "machines/n")
    expected = manifest(store.tree("machines/m"))
    if place.backend == "zfs":
        with fails("busy: cannot destroy tree layers/base: it was cloned to machines/m, machines/n"):
            store("destroy", "layers/base")
        with fails("busy: cannot delete snapshot layers/base@final: it was cloned to machines/m, machines/n"):
            store("delete-snapshot", "layers/base", "final")
        assert store("snapshots", "layers/base") == ["final"]
        store("destroy", "machines/n")
        store("destroy", "machines/m")
    store("destroy", "layers/base")
    assert store("exists", "layers/base") == ["no"]
    if place.backend != "zfs":
        assert manifest(store.tree("machines/m")) == expected


def test_destroy_and_clone_follow_no_link(store, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("keep")
    store("make", "a")
    tree = store.tree("a")
    os.symlink(tmp_path / "precious", tree / "absolute")
    os.symlink(os.path.relpath(tmp_path / "precious", tree), tree / "relative")
    (tree / "sub").mkdir()
    os.symlink("../relative", tree / "sub/twice")
    store("snapshot", "a", "s")
    store("clone", "a", "s", "b")
    assert os.readlink(store.tree("b") / "absolute") == str(tmp_path / "precious")
    for name in ("a", "b")[:: -1]:
        store("destroy", name)
    assert (tmp_path / "precious/file").read_text() == "keep"


def test_immutable_files_do_not_keep_a_tree(place, store):
    store("make", "a")
    tree = store.tree("a")
    (tree / "d").mkdir()
    (tree / "d/f").touch()
    done = subprocess.run(["chattr", "+i", tree / "d/f", tree / "d"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no immutable files on {place.backend}")
    store("destroy", "a")
    assert store("recover") == []


def test_what_is_mounted_inside_is_left_alone(place, store, tmp_path):
    if place.backend == "zfs":
        pytest.skip("zfs unmounts nothing but its own; covered by busy trees")
    (tmp_path / "precious").write_text("keep")
    store("make", "a")
    tree = store.tree("a")
    (tree / "sub/mnt").mkdir(parents=True)
    (tree / "sub/mnt/hidden").write_text("below the mount")
    run("mount", "--bind", tmp_path, tree / "sub/mnt")
    store("snapshot", "a", "s")
    store("clone", "a", "s", "b")
    assert list((store.tree("b") / "sub/mnt").iterdir()) == ([] if place.backend != "btrfs" else [store.tree("b") / "sub/mnt/hidden"])
    if place.backend == "btrfs":  # the kernel detaches what is mounted in a subvolume that goes
        store("destroy", "a")
        assert (tmp_path / "precious").read_text() == "keep"
        return
    with pytest.raises(Failed, match="^busy: cannot remove .*sub/mnt: something is mounted there$"):
        store("destroy", "a")
    assert (tmp_path / "precious").read_text() == "keep"
    assert store("exists", "a") == ["no"]
    left = next(path for path in (store.path / "@pool/trash").iterdir())
    run("umount", left / "@tree/sub/mnt")
    assert store("recover") == ["removed what was left of destroying a"]
    assert list((store.path / "@pool/trash").iterdir()) == []


def test_a_look_mounts_no_zfs_tree(place, store):
    """It may be one that another command is just making, which then finds it busy."""
    if place.backend != "zfs":
        pytest.skip("only ZFS mounts trees")
    store("make", "a")
    store("snapshot", "a", "s")
    tree = store.tree("a")  # the tool mounts what it is asked for
    subprocess.run(["zfs", "unmount", f"{store.dataset}/a"], check=True)
    assert store("exists", "a") == ["yes"] and store("list", "") == ["a"] and store("snapshots", "a") == ["s"]
    for look in (("snapshot-facts", "a"), ("usage", "a"), ("properties", "a"), ("quota", "a"), ("quotas", "a", "a"), ("origin", "a")):
        store(*look)
    assert not os.path.ismount(tree)
    store("clone", "a", "s", "b")  # a change does
    assert os.path.ismount(tree) and os.path.ismount(store.tree("b"))


def test_a_zfs_tree_that_is_made_and_not_mounted_is_mounted_then(place, store, tmp_path):
    if place.backend != "zfs":
        pytest.skip("only ZFS mounts trees")
    store("make", "a")
    store("snapshot", "a", "s")
    zfs = tmp_path / "zfs"
    zfs.write_text(f'''#!/bin/sh
"{shutil.which("zfs")}" "$@" || exit
case $1 in
clone) for name; do :; done; "{shutil.which("zfs")}" unmount "$name"
    echo "cannot mount '$name': Device or resource busy" >&2; echo "filesystem successfully created, but not mounted" >&2; exit 1 ;;
esac
''')
    zfs.chmod(0o755)
    store("clone", "a", "s", "b", env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert os.path.ismount(store.tree("b"))


def test_a_busy_zfs_tree_stays_what_it_was(place, store):
    if place.backend != "zfs":
        pytest.skip("only a ZFS tree is busy while a process is in it")
    tree = filled(store, "a")
    expected = manifest(tree)
    with open(tree / "bin/su", "rb"):
        for words in (["destroy", "a"], ["rename", "a", "b"]):
            with pytest.raises(Failed, match="^busy: cannot (destroy tree a|rename a to b): .*busy"):
                store(*words, env=os.environ | {"PATIENCE_MS": str(int(1500 * max(1, FACTOR / 2)))})
            assert manifest(store.tree("a")) == expected
    store("destroy", "a")


def test_a_zfs_tree_that_another_namespace_uses_stays_what_it_was(place, store):
    """Here it is unmounted without resistance: it gets as far as the trash, and has to come back."""
    if place.backend != "zfs" or place.daemon:
        pytest.skip("only a tree of OpenZFS is mounted in each namespace by itself")
    expected = manifest(filled(store, "a"))
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'cd "$0"; echo; exec sleep 1000', store.tree("a")]
    other = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        with pytest.raises(Failed, match="^busy: cannot destroy tree a: .*busy"):
            store("destroy", "a", env=os.environ | {"PATIENCE_MS": str(int(1500 * max(1, FACTOR / 2)))})
        assert manifest(store.tree("a")) == expected
        assert store("recover") == [] and store("list", "") == ["a"]
    finally:
        other.kill()
        other.communicate()
    store("destroy", "a")
    assert store("list", "") == []


def test_subvolumes_of_the_machine_go_with_their_tree(place, store):
    if place.backend != "btrfs":
        pytest.skip("only btrfs has subvolumes")
    store("make", "a")
    tree = store.tree("a")
    run("btrfs", "subvolume", "create", tree / "inner")
    (tree / "inner/d").mkdir()
    run("btrfs", "subvolume", "create", tree / "inner/d/innermost")
    (tree / "inner/d/innermost/f").write_text("x")
    run("btrfs", "subvolume", "snapshot", "-r", tree / "inner", tree / "frozen")
    run("btrfs", "property", "set", tree / "inner", "ro", "true")
    store("destroy", "a")
    assert "inner" not in run("btrfs", "subvolume", "list", store.path).stdout


def make_deep(root, levels):
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    with os.fdopen(os.open("bottom", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=here), "w") as file:
        file.write("reached")
    os.close(here)


def depth_of(root):
    here, depth = os.open(root, os.O_RDONLY), 0
    while "d" in os.listdir(here):
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, depth = deeper, depth + 1
    with os.fdopen(os.open("bottom", os.O_RDONLY, dir_fd=here)) as file:
        assert file.read() == "reached"
    os.close(here)
    return depth


def test_trees_may_be_deep(place, store, tmp_path):
    levels = 3000 if place.backend != "zfs" else 300  # FUSE takes seconds for each thousand
    store("make", "a")
    make_deep(store.tree("a"), levels)
    store("snapshot", "a", "s")
    store("clone", "a", "s", "b")
    assert depth_of(store.tree("b")) == levels
    store.send(tmp_path / "stream", "a", "s", "-")
    store.receive(tmp_path / "stream", "c")
    assert depth_of(store.tree("c")) == levels
    for name in ("c", "b", "a"):
        store("destroy", name)
    assert store("recover") == []


def test_trees_may_be_large(place, store):
    count = 10_000 if place.backend != "zfs" else 1_000  # FUSE
    store("make", "a")
    tree = store.tree("a")
    for number in range(count):
        directory = tree / str(number % 50)
        if number < 50:
            directory.mkdir()
        (directory / f"file{number}").write_text(str(number))
    store("snapshot", "a", "s")
    store("clone", "a", "s", "b")
    clone = store.tree("b")
    assert sum(len(files) for _, _, files in os.walk(clone)) == count
    assert (clone / f"49/file{count - 1}").read_text() == str(count - 1)
    store("destroy", "b")
    store("destroy", "a")


# --- Streams


def test_a_stream_carries_the_whole_tree(place, store, tmp_path):
    tree = filled(store, "a")
    expected = manifest(tree)
    store("snapshot", "a", "one")
    store.send(tmp_path / "full", "a", "one", "-")
    store.receive(tmp_path / "full", "copies/a")
    assert manifest(store.tree("copies/a")) == expected
    assert store("snapshots", "copies/a") == ["one"]
    with pytest.raises(Failed, match="^exists: "):
        store.receive(tmp_path / "full", "copies/a")

    (tree / "etc/passwd").write_text("changed")
    (tree / "etc/passwd.hard").unlink()
    (tree / "inside").unlink()
    (tree / "inside").mkdir()
    (tree / "inside/file").write_text("now a directory holds it")
    shutil.rmtree(tree / "sticky")
    (tree / "sticky").write_text("now a file")
    (tree / "empty").chmod(0o600)
    store("snapshot", "a", "two")
    store.send(tmp_path / "change", "a", "two", "one")
    assert (tmp_path / "change").stat().st_size < (tmp_path / "full").stat().st_size / 2
    store.receive(tmp_path / "change", "copies/a")
    assert manifest(store.tree("copies/a")) == manifest(tree)
    assert store("snapshots", "copies/a") == ["one", "two"]
    store("rollback", "copies/a", "two")
    assert manifest(store.tree("copies/a")) == manifest(tree)


def test_a_change_needs_the_tree_as_it_was(place, store, tmp_path):
    filled(store, "a")
    store("snapshot", "a", "one")
    store.send(tmp_path / "full", "a", "one", "-")
    store.receive(tmp_path / "full", "b")
    (store.tree("a") / "new").touch()
    store("snapshot", "a", "two")
    store.send(tmp_path / "change", "a", "two", "one")
    (store.tree("b") / "own").write_text("own")
    with pytest.raises(Failed, match="^refused: "):
        store.receive(tmp_path / "change", "b")
    assert (store.tree("b") / "own").read_text() == "own" and store("snapshots", "b") == ["one"]


def test_a_stream_goes_from_one_backend_to_another(place, store, tmp_path):
    if place.backend == "zfs":
        pytest.skip("the streams of ZFS are its own")
    expected = manifest(filled(store, "a"))
    store("snapshot", "a", "s")
    store.send(tmp_path / "stream", "a", "s", "-")
    other = Store("directory", tmp_path / "pool")
    other.receive(tmp_path / "stream", "b")
    assert manifest(other.tree("b")) == expected
    other.send(tmp_path / "back", "b", "s", "-")
    store.receive(tmp_path / "back", "c")
    assert manifest(store.tree("c")) == expected


def test_a_broken_stream_leaves_nothing(place, store, tmp_path):
    store("make", "a")
    (store.tree("a") / "file").write_bytes(os.urandom(5000))
    store("snapshot", "a", "s")
    store.send(tmp_path / "stream", "a", "s", "-")
    whole = (tmp_path / "stream").read_bytes()
    cuts = [0, 5, 14, 40, len(whole) // 2, len(whole) - 1] if place.backend != "zfs" else [0, len(whole) // 2]
    broken = [whole[:cut] for cut in cuts]
    if place.backend != "zfs":  # OpenZFS has checksums too, but not everywhere
        for at in (3, 20, len(whole) // 2, len(whole) - 3):
            broken.append(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    for stream in broken:
        (tmp_path / "broken").write_bytes(stream)
        with pytest.raises(Failed, match="^corrupt: " if place.backend != "zfs" else "."):
            store.receive(tmp_path / "broken", "b")
        assert store("list", "") == ["a"]
    assert store("recover") == []


def test_a_zfs_stream_brings_no_properties(place, store, tmp_path):
    """One of them is where it is mounted, and that may be a directory of the host."""
    if place.backend != "zfs":
        pytest.skip("only ZFS has such streams")
    store("make", "a")
    store("snapshot", "a", "s")
    subprocess.run(["zfs", "set", "atime=on", f"{store.dataset}/a"], check=True)
    with open(tmp_path / "stream", "wb") as file:
        subprocess.run(["zfs", "send", "-p", f"{store.dataset}/a@s"], stdout=file, check=True)
    with fails("corrupt: cannot receive tree b: the stream brings properties, which only its receiver may set"):
        store.receive(tmp_path / "stream", "b")
    assert store("list", "") == ["a"]


def test_a_reader_that_goes_is_an_error(place, store):
    store("make", "a")
    (store.tree("a") / "file").write_bytes(os.urandom(3 << 20))
    store("snapshot", "a", "s")
    process = store.start("send", "a", "s", "-")
    process.stdout.read(10)
    process.stdout.close()
    process.wait(DEADLINE)
    error = process.stderr.read().decode()
    assert process.returncode == 1
    if place.backend != "zfs":
        assert error == "unavailable: cannot write the stream: its reader has gone\n"


def record(letter, *fields):
    payload = b"".join(field if isinstance(field, bytes) else field.to_bytes(8, "little") for field in fields)
    return letter.encode() + len(payload).to_bytes(4, "little") + payload


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return len(value).to_bytes(4, "little") + value


ATTRIBUTES = (0o755, 0, 0, 0, 0)
HEAD = b"triton-tree 1\n" + record("H", text("s"), text(""))
HOSTILE = {
    "a name with a slash": (record("F", text("../x"), 0, 1), "a name is not one that a file can have"),
    "a name of dots": (record("D", text("..")), "a name is not one that a file can have"),
    "an empty name": (record("D", text("")), "a name is not one that a file can have"),
    "a name with NUL": (record("D", text("a\0b")), "a name is not one that a file can have"),
    "a long name": (record("D", text("a" * 256)), "a text is too long"),
    "up too often": (record("U", *ATTRIBUTES) * 2, "there is something after the tree"),
    "content without a file": (record("C", 0, text("x")), "records are out of order"),
    "content beyond the end": (record("F", text("f"), 0, 1) + record("C", 0, text("xy")), "content is beyond the end of its file"),
    "content far away": (record("F", text("f"), 0, 1) + record("C", 1 << 63, text("x")), "content is beyond the end of its file"),
    "a huge file": (record("F", text("f"), 0, 1 << 63), "a file is too large"),
    "a link to nothing": (record("L", text("f"), 7), "a hard link is to a file that was not there"),
    "a device of no kind": (record("N", text("f"), 0, 0o040000, 0), "a node is of an unknown kind"),
    "a mode out of range": (record("U", 0o100755, 0, 0, 0, 0), "attributes are out of range"),
    "an owner out of range": (record("U", 0o755, 0xFFFFFFFF, 0, 0, 0), "attributes are out of range"),
    "a long record": (b"C" + (2 << 20).to_bytes(4, "little"), "a record is too long"),
    "a field too many": (record("D", text("d"), 1), "a record has more than it should"),
    "an unknown record": (record("?"), "it has a record of an unknown kind"),
    "a second head": (record("H", text("s"), text("")), "it has a record of an unknown kind"),
    "an early end": (record("Z", text("0" * 64)), "it ends inside of the tree"),
    "a wrong digest": (record("U", *ATTRIBUTES) + record("Z", text("0" * 64)), "the digest at its end is not that of what came before"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_stream_reaches_nothing_outside(own_mounts, tmp_path, case):
    records, reason = HOSTILE[case]
    store = Store("directory", tmp_path / "pool")
    (tmp_path / "stream").write_bytes(HEAD + records)
    with fails(f"corrupt: cannot receive the tree: {reason}"):
        store.receive(tmp_path / "stream", "a")
    assert store("list", "") == [] and store("recover") == []


def test_a_stream_cannot_leave_by_a_link_of_its_own(own_mounts, tmp_path):
    (tmp_path / "outside").mkdir()
    store = Store("directory", tmp_path / "pool")
    link = record("S", text("l"), 0, text(str(tmp_path / "outside"))) + record("T", 0o777, 0, 0, 0, 0)
    for entry in (record("D", text("l")) + record("D", text("x")), record("F", text("l"), 0, 1)):
        (tmp_path / "stream").write_bytes(HEAD + link + entry)
        with pytest.raises(Failed, match="File exists"):
            store.receive(tmp_path / "stream", "a")
    assert list((tmp_path / "outside").iterdir()) == []
    # In a change what is there may be entered, but no link.
    store("make", "b")
    os.symlink(tmp_path / "outside", store.tree("b") / "l")
    store("snapshot", "b", "s")
    (tmp_path / "stream").write_bytes(b"triton-tree 1\n" + record("H", text("t"), text("s")) + record("D", text("l")) + record("D", text("x")))
    with pytest.raises(Failed, match="Too many levels of symbolic links|Not a directory"):
        store.receive(tmp_path / "stream", "b")
    assert list((tmp_path / "outside").iterdir()) == []


# --- Killed in the middle

OPERATIONS = {
    "make": ["make", "new/tree"],
    "clone": ["clone", "a", "one", "new/clone"],
    "snapshot": ["snapshot", "a", "three"],
    "delete-snapshot": ["delete-snapshot", "a", "two"],
    "rollback": ["rollback", "a", "two"],
    "rename": ["rename", "b", "new/name"],
    "destroy": ["destroy", "b"],
    "set-property": ["set-property", "a", "triton:x", "2"],
    "receive": ["receive", "new/received"],
}
STEPS = "mkdir,mkdirat,renameat,renameat2,unlinkat,linkat,fsync,syncfs,ioctl,openat2,write,fchmod,fchown,copy_file_range,symlinkat,utimensat"
ZFS_STEPS = "vfork,clone,clone3,pidfd_open,waitid"


def small_pool(store):
    store("make", "a")
    tree = store.tree("a")
    (tree / "d").mkdir()
    (tree / "d/file").write_text("content")
    os.link(tree / "d/file", tree / "hard")
    os.symlink("d/file", tree / "link")
    store("snapshot", "a", "one")
    store("snapshot", "a", "two")
    (tree / "after").touch()
    store("set-property", "a", "triton:x", "1")
    store("make", "b")
    (store.tree("b") / "f").write_text("b")
    store("snapshot", "b", "one")


def count_calls(store, words, calls, log, **more):
    store(*words, before=("strace", "-qq", "-o", log, "-e", f"trace={calls}"), **more)
    counts = {}
    for line in Path(log).read_text().splitlines():
        if found := re.match(r"(?:\d+ +)?(\w+)\(", line):
            counts[found[1]] = counts.get(found[1], 0) + 1
    return counts


def kill_points(counts, most):
    """Before each step, or an even choice of them."""
    points = [(call, number) for call in sorted(counts) for number in range(1, counts[call] + 1)]
    return points[:: max(1, len(points) // most)]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_at_any_step_it_has_happened_or_not(place, operation, tmp_path):
    calls, most = (STEPS, 14) if place.backend != "zfs" else (ZFS_STEPS, 3)
    words = OPERATIONS[operation]
    more = {}
    reference = place.pool()
    small_pool(reference)
    before = states(reference)
    if operation == "receive":
        reference.send(tmp_path / "stream", "a", "one", "-")
        more["stdin"] = open(tmp_path / "stream", "rb")
    counts = count_calls(reference, words, calls, tmp_path / "log", **more)
    after = states(reference)
    assert before != after

    store, is_fresh = place.pool(), False
    for call, number in kill_points(counts, most):
        if not is_fresh:
            store = place.pool()
            small_pool(store)
        if more:
            more["stdin"].seek(0)
        inject = ("strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")
        process = store.start(*words, before=inject, **more)
        process.communicate(timeout=DEADLINE)
        wait_for_orphans()
        state = states(store)
        # Done again in one place it may have less to do: the group of a tree is there already.
        assert process.returncode != 0 or (is_fresh and state == after), f"not killed at {call} {number}"
        assert state in (before, after), f"killed at {call} {number}: neither before nor after"
        store("recover")
        assert store("recover") == [] and states(store) == state, f"killed at {call} {number}: recovery changed something"
        assert leftovers(store) == [], f"killed at {call} {number}"
        is_fresh = state == before
        if is_fresh and number % 4 == 1:
            if more:
                more["stdin"].seek(0)
            store(*words, **more)
            assert states(store) == after, f"killed at {call} {number}: done again it is not the same"
            is_fresh = False


def wait_for_orphans():
    """A zfs that was started goes on when its parent is killed, and does what it was told."""
    own, deadline = os.readlink("/proc/self/ns/mnt"), time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "comm").read_bytes() == b"zfs\n" and os.readlink(process / "ns/mnt") == own:
                    time.sleep(0.01)
                    break
            except OSError:
                continue  # it has ended
        else:
            return
    raise AssertionError("a zfs that was left behind does not end")


def states(store):
    def one(name):
        tree = store.tree(name)
        names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
        return (tuple(store("snapshots", name)), tuple(store("properties", name)), tuple(names))

    return {name: one(name) for name in store("list", "")}


def leftovers(store):
    if store.backend == "zfs":
        names = run("zfs", "list", "-H", "-o", "name", "-r", store.dataset).stdout.split()
        return [name for name in names if re.search(r"/\.(building|trash)/", name)]
    return [path for workshop in ("building", "trash") for path in (store.path / "@pool" / workshop).iterdir()]


# --- No room

SIZES = {"directory": "40M", "reflink": "310M", "btrfs": "120M", "zfs": "80M"}


@pytest.fixture(params=BACKENDS)
def small_place(request, own_mounts):
    try:
        made = Place(request.param, SIZES[request.param])
    except Lacking as error:
        lacks(error)
    yield made
    made.close()


def fill_up(path):
    """To the last block."""
    with open(path, "wb", buffering=0) as file:
        size = 1 << 20
        while size >= 4096:
            try:
                file.write(os.urandom(size))
                os.fsync(file.fileno())
            except OSError as error:
                assert error.errno == errno.ENOSPC
                size //= 4


def test_a_full_disk_is_an_error_that_passes(small_place):
    store = small_place.pool()
    store("make", "a")
    (store.tree("a") / "file").write_bytes(os.urandom(2 << 20))
    store("snapshot", "a", "s")
    stream = Path(small_place.area / "stream")
    store.send(stream, "a", "s", "-")
    store("make", "ballast")
    before = states(store)
    fill_up(store.tree("ballast") / "full")
    with pytest.raises(Failed, match="^exhausted: .*([Nn]o space left|out of space)"):
        store.receive(stream, "b")
    states_now = states(store)
    states_now["ballast"] = before["ballast"]
    assert states_now == before
    assert leftovers(store) == []
    (store.tree("ballast") / "full").unlink()
    os.sync()
    deadline = time.monotonic() + DEADLINE
    while True:  # btrfs and ZFS give room back by and by
        try:
            store.receive(stream, "b")
            break
        except Failed:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert (store.tree("b") / "file").read_bytes() == (store.tree("a") / "file").read_bytes()


def test_destroying_works_on_a_full_disk(small_place):
    store = small_place.pool()
    store("make", "a")
    store("make", "b")
    fill_up(store.tree("a") / "full")
    store("destroy", "a")
    assert store("list", "") == ["b"]
    assert leftovers(store) == []


def test_no_inode_left_is_an_error_that_passes(own_mounts):
    place = Place("directory", "40M", inodes=400)
    try:
        store = place.pool()
        store("make", "a")
        tree = store.tree("a")
        for number in range(100):
            (tree / str(number)).touch()
        store("snapshot", "a", "s")
        store("clone", "a", "s", "b")
        free = int(store("space")[0].split()[2])
        assert free < 100
        with pytest.raises(Failed, match="^exhausted: cannot copy .*: No space left on device$"):
            store("clone", "a", "s", "c")
        assert store("list", "") == ["a", "b"] and leftovers(store) == []
        assert int(store("space")[0].split()[2]) == free
        store("destroy", "b")
        store("clone", "a", "s", "c")
    finally:
        place.close()


# --- Several at once


def outcomes(processes):
    results = []
    for process in processes:
        _, err = process.communicate(timeout=DEADLINE)
        results.append("done" if process.returncode == 0 else err.decode().split(":")[0])
    return sorted(results)


def test_of_two_that_make_one_tree_one_does(store):
    store("make", "first")  # the group's lock and the pool are there
    for round_ in range(5):
        results = outcomes([store.start("make", f"g{round_}/t") for _ in range(4)])
        assert results == ["done", "exists", "exists", "exists"]
    assert len(store("list", "")) == 6


def test_clones_are_made_side_by_side(place, store):
    filled(store)
    store("snapshot", "layers/base", "final")
    count = 8 if place.backend != "zfs" else 4
    started = [store.start("clone", "layers/base", "final", f"m/{number}") for number in range(count)]
    started += [store.start("recover") for _ in range(4)]
    assert outcomes(started) == ["done"] * (count + 4)
    expected = manifest(store.tree("layers/base"))
    for number in range(count):
        assert manifest(store.tree(f"m/{number}")) == expected


def test_opening_a_new_pool_at_once(place):
    store = place.pool()
    assert outcomes([store.start("list", "") for _ in range(4)]) == ["done"] * 4


def test_a_tree_is_not_destroyed_while_it_is_cloned(place, store):
    if place.backend in ("zfs", "btrfs"):
        pytest.skip("a clone is made at once")
    store("make", "a")
    for number in range(300):
        (store.tree("a") / str(number)).write_text("x")
    store("snapshot", "a", "s")
    clone = store.start("clone", "a", "s", "b", before=("strace", "-qq", "-o", "/dev/null", "-e", "inject=fchmod,utimensat:delay_exit=3000"))
    while not list((store.path / "@pool/building").iterdir()):
        assert clone.poll() is None
    with fails("busy: cannot lock tree a: another process has been using it for 100 ms"):
        store("destroy", "a", env=os.environ | {"PATIENCE_MS": "100"})
    assert outcomes([clone]) == ["done"]
    assert len(list(store.tree("b").iterdir())) == 300
    store("destroy", "a")

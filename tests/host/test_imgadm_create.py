"""imgadm create: images of machines, as tarballs and as ZFS streams, increments of them, and scripts that prepare them."""

import errno
import json
import os
import shutil
import subprocess
import uuid

import pytest
from image_place import Host, area, fill, host, look, needs_root, run  # noqa: F401
from storage_places import BACKENDS, Lacking, OwnMounts, Place, Store

pytestmark = needs_root

BASE = {"etc/a": "a", "etc/b": "b", "bin/x": ("link", "y"), "usr/1": "1", "usr/2": ("hard", "usr/1")}


def place_of(backend):
    mounts = OwnMounts()
    try:
        return mounts, Place(backend, size="600M")
    except Lacking as reason:
        mounts.close()
        pytest.skip(str(reason))


@pytest.fixture(params=BACKENDS)
def place(request):
    mounts, made = place_of(request.param)
    yield made
    made.close()
    mounts.close()


@pytest.fixture
def zfs():
    mounts, made = place_of("zfs")
    yield made
    made.close()
    mounts.close()


def host_on(place, name="host", zpool=None):
    host = Host(place.root / name, place.backend)
    host.dataset = f"{zpool or place.zpool}/images" if place.backend == "zfs" else "-"
    storage = {"backend": place.backend} | ({"dataset": host.dataset} if place.backend == "zfs" else {})
    (host.root / "etc/triton/triton.json").write_text(json.dumps({"storage": storage}))
    host.store = Store(place.backend, host.pool, host.dataset)
    return host


def root_of(host, image):
    holder = host.pool / host.get(image)["tree"]
    return holder / "root" if (holder / "root").exists() else host.tree(image)


def machine_of(host, image, changes):
    """A clone of the image, as whoever makes machines does it."""
    name = str(uuid.uuid4())
    host.store("clone", host.get(image)["tree"], "final", f"machines/{name}")
    root = host.store.tree(f"machines/{name}") / "root"
    fill(root, changes)
    (root / "etc/a").unlink()
    return name, root


def written(out):
    (manifest,) = out.glob("*.imgmanifest")
    (file,) = [one for one in out.iterdir() if one != manifest]
    return manifest, file


def test_an_image_of_a_machine_is_what_the_machine_is(area, place):
    host = host_on(place)
    host.run("import", fill(area / "tree", BASE), "--name", "base")
    (base,) = host.uuids()
    machine, root = machine_of(host, base, {"etc/c": "c"})
    facts = area / "m.json"
    facts.write_text(json.dumps({"name": "made", "version": "2", "tags": {"role": "web"}}))
    assert host.run("create", machine, "-m", facts).stdout.endswith("(made@2)\n")
    (made,) = host.run("list", "-H", "-o", "uuid", "name=made").stdout.split()
    assert look(root_of(host, made)) == look(root)
    assert host.get(made)["manifest"]["tags"] == {"role": "web"}
    assert host.store("snapshots", f"machines/{machine}") == []
    out = area / "out"
    host.run("create", machine, "-o", out, "-c", "gzip", "-m", facts)
    manifest, file = written(out)
    assert (manifest.name, file.name) == ("made-2.imgmanifest", "made-2.tar.gz")
    host.run("delete", made)
    host.run("install", "-m", manifest, "-f", file)
    assert look(root_of(host, "-".join(json.loads(manifest.read_text())["uuid"].split("-")))) == look(root)
    missing = str(uuid.uuid4())
    assert host.run("create", missing, code=1).stderr.endswith(f"there is no machine {missing}\n")


SHIFT = 1879048192  # the first uid of machines


def attributes_of(path):
    """Extended attributes by name; none where the file system has none."""
    try:
        names = os.listxattr(path, follow_symlinks=False) if not os.path.islink(path) else []
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        names = []
    return {name: os.getxattr(path, name) for name in names}


def give_to_host(root):
    """What systemd-nspawn does to a tree where the file system has no idmapped mounts."""
    for directory, folders, files in os.walk(root):
        for path in [directory, *(os.path.join(directory, name) for name in files)]:
            status = os.lstat(path)
            if status.st_uid >= SHIFT:
                continue  # another name of a file
            kept = attributes_of(path)
            os.lchown(path, SHIFT + status.st_uid, SHIFT + status.st_gid)
            if not os.path.islink(path):
                os.chmod(path, status.st_mode & 0o7777)
            for name, value in kept.items():
                os.setxattr(path, name, value)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
        for name in folders:
            path = os.path.join(directory, name)
            if os.path.islink(path):
                status = os.lstat(path)
                os.lchown(path, SHIFT + status.st_uid, SHIFT + status.st_gid)
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)


def test_an_image_has_the_uids_of_the_machine_and_not_of_the_host(area, place):
    host = host_on(place)
    host.run("import", fill(area / "tree", BASE))
    machine, root = machine_of(host, host.uuids()[0], {"usr/bin/su": "su", "home/f": "f"})
    os.chown(root / "home/f", 1000, 100)
    os.chown(root / "home", 1000, 100)
    os.chown(root / "usr/bin/su", 5, 6)
    (root / "usr/bin/su").chmod(0o6755)
    before = look(root)
    give_to_host(root)
    assert os.stat(root / "home/f").st_uid == SHIFT + 1000
    host.run("create", machine, "-m", facts(area, "made", "1"))
    (made,) = host.run("list", "-H", "-o", "uuid", "name=made").stdout.split()
    assert look(root_of(host, made)) == before
    if place.backend == "zfs":
        refused = host.run("create", machine, "--format", "zfs", "-o", area, code=1).stderr
        assert "belong to uids of this host" in refused and "make a tarball" in refused, refused


def test_what_a_killed_creation_leaves_on_the_machine_goes(area, place):
    host = host_on(place)
    host.run("import", fill(area / "tree", BASE))
    machine, root = machine_of(host, host.uuids()[0], {})
    # tar waits in the middle: the snapshot and the copy are there
    fake = area / "fake"
    fake.mkdir()
    (fake / "tar").write_text("#!/bin/sh\nkill -9 $PPID\n")
    os.chmod(fake / "tar", 0o755)
    process = host.start("create", machine, "-o", area / "out", env={"PATH": f"{fake}:{os.environ['PATH']}"})
    process.communicate(timeout=60)
    assert process.returncode == -9
    assert host.store("snapshots", f"machines/{machine}") != []
    host.run("gc")
    assert host.store("snapshots", f"machines/{machine}") == []
    assert host.store("list", "building") == []


def test_streams_and_increments_go_to_another_host(area, zfs):
    here = host_on(zfs, "here")
    run("truncate", "-s", "400M", zfs.area / "second")
    run("zpool", "create", "-m", "none", f"{zfs.zpool}b", zfs.area / "second")
    there = host_on(zfs, "there", f"{zfs.zpool}b")
    here.run("import", fill(area / "tree", BASE), "--name", "base")
    (tarball,) = here.uuids()
    first, _ = machine_of(here, tarball, {"etc/c": "c"})
    warned = here.run("create", first, "-i", "-o", area / "local").stderr
    assert warned == (f"imgadm: warning: image {tarball} did not come as a ZFS stream: its increments fit on this "
                      "host only\n")

    # A stream of the whole machine becomes the base of both hosts.
    here.run("create", first, "--format", "zfs", "-c", "gzip", "-o", area / "base", "-m", facts(area, "base", "2"))
    manifest, file = written(area / "base")
    assert file.name == "base-2.zfs.gz" and json.loads(manifest.read_text())["type"] == "zone-dataset"
    base = json.loads(manifest.read_text())["uuid"]
    for host in (here, there):
        host.run("install", "-m", manifest, "-f", file)

    below = base
    for number in ("1", "2"):  # an increment, and one of it
        machine, root = machine_of(here, below, {"etc/a": "again", f"etc/n{number}": number})
        (root / "etc/a").write_text("again")
        out = area / f"increment{number}"
        here.run("create", machine, "-i", "-o", out, "-m", facts(area, "inc", number))
        manifest, file = written(out)
        text = json.loads(manifest.read_text())
        assert file.name == f"inc-{number}.zfs" and text["origin"] == below
        for host in (here, there):
            host.run("install", "-m", manifest, "-f", file)
            assert look(root_of(host, text["uuid"])) == look(root)
        below = text["uuid"]
    assert there.run("ancestry", below, "-H", "-o", "name,version").stdout.split() == ["inc", "2", "inc", "1", "base", "2"]
    deep, _ = machine_of(here, below, {})
    refused = here.run("create", deep, "-i", "--max-origin-depth", "2", "-o", area / "deep", code=1).stderr
    assert refused == "imgadm: error (Refused): the image would have more than 2 images below it\n"

    # A directory of them is a source: the origins come first.
    source = area / "source"
    source.mkdir()
    for name in ("base", "increment1", "increment2"):
        for one in (area / name).iterdir():
            shutil.copy(one, source)
    assert "has dependent clones: image " in there.run("delete", base, code=1).stderr
    assert "\n3 in all, " in there.run("vacuum", "-f").stdout
    assert there.images() == [] and there.store("list", "layers") == []
    there.run("sources", "-a", source, "-t", "directory")
    done = there.run("import", below).stdout
    assert "Must download and install 3 images" in done
    assert len(there.uuids()) == 3
    assert look(root_of(there, below)) == look(root_of(here, below))


def facts(area, name, version, **more):
    file = area / "facts.json"
    file.write_text(json.dumps({"name": name, "version": version, **more}))
    return file


def test_an_increment_without_its_origin_is_refused(area, zfs):
    host = host_on(zfs)
    host.run("import", fill(area / "tree", BASE))
    (base,) = host.uuids()
    machine, _ = machine_of(host, base, {})
    host.run("create", machine, "-i", "-o", area / "out")
    manifest, file = written(area / "out")
    other = host_on(zfs, "other", f"{zfs.zpool}/other")
    text = json.loads(manifest.read_text())
    refused = other.run("install", "-m", manifest, "-f", file, code=1).stderr
    assert refused == (f"imgadm: error (ResourceNotFound): image {text['uuid']} is an increment of {base}, which is "
                       "not installed\n")


def test_streams_are_refused_where_they_make_no_sense(area, host):
    tree = fill(area / "tree", BASE)
    machine = str(uuid.uuid4())
    for words, reason in (
        ((machine, "--format", "zfs", "-o", area / "out"),
         "a ZFS stream is made where images are kept on ZFS, and this host keeps them on directory"),
        ((tree, "--format", "zfs", "-o", area / "out"), "a ZFS stream is made of a machine, not of a directory"),
        ((tree, "-s", "/bin/true"), "a script prepares a copy of a machine, not a directory"),
        ((tree, "-m", facts(area, "a", "1", type="zone-dataset")),
         "an image of type zone-dataset is a ZFS stream, and a tarball would be made; --format zfs makes a stream of a "
         "machine"),
    ):
        assert host.run("create", *words, code=1).stderr.endswith(f": {reason}\n")
    assert "--max-origin-depth requires --incremental" in host.run("create", tree, "--max-origin-depth", "1", code=2).stderr


PREPARE = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>
int main(void) {
    FILE *made = fopen("/etc/prepared", "w");
    fprintf(made, "pid %d of uid %d\n", getpid() != 1, getuid());
    fclose(made);
    unlink("/etc/b");
    if (access("/etc/fail", F_OK) == 0) {
        fprintf(stderr, "first\nit does not want to\n");
        return 3;
    }
    return mount("none", "/mnt", "tmpfs", 0, "") == 0 ? 9 : 0;
}
"""


@pytest.mark.skipif(not shutil.which("systemd-nspawn") or not shutil.which("gcc"), reason="systemd-nspawn or gcc is not here")
def test_a_script_prepares_a_copy_of_the_machine(area):
    mounts, place = place_of("directory")
    try:
        script_prepares(area, place)
    finally:
        place.close()
        mounts.close()


def script_prepares(area, place):
    host = host_on(place)
    folders = dict.fromkeys(("proc", "sys", "dev", "run", "tmp", "var/tmp", "mnt", "etc", "usr"))
    host.run("import", fill(area / "tree", BASE | folders | {"etc/os-release": "ID=test\n"}))
    machine, root = machine_of(host, host.uuids()[0], {})
    before = look(root)
    (area / "prepare.c").write_text(PREPARE)
    script = area / "prepare: it"
    subprocess.run(["gcc", "-static", "-o", script, area / "prepare.c"], check=True)
    host.run("create", machine, "-s", script, "-m", facts(area, "made", "1"))
    (made,) = host.run("list", "-H", "-o", "uuid", "name=made").stdout.split()
    assert (root_of(host, made) / "etc/prepared").read_text() == "pid 1 of uid 0\n"
    assert not (root_of(host, made) / "etc/b").exists()
    assert look(root) == before
    (root / "etc/fail").write_text("")
    failed = host.run("create", machine, "-s", script, "-m", facts(area, "other", "1"), code=1).stderr
    assert failed.startswith(f"imgadm: error (Refused): cannot prepare the image with {script}: its exit code is 3\n")
    assert "first\n" in failed and "it does not want to\n" in failed
    assert len(host.uuids()) == 2 and host.left_over() == []
    missing = host.run("create", machine, "-s", area / "none", code=1).stderr
    assert missing == f"imgadm: error (ResourceNotFound): cannot find {area}/none: No such file or directory\n"


@pytest.mark.parametrize("pieces", [[(0, b"first"), (453 << 30, b"last")], [(5 << 20, b"middle")], []], ids=["ends", "middle", "none"])
def test_a_file_of_holes_is_small_in_an_image_too(area, host, pieces):
    """/var/log/lastlog, where a user has a large number."""
    tree = fill(area / "tree", {"usr/bin/x": "1", "var/log/lastlog": ""})
    with (tree / "var/log/lastlog").open("wb") as file:
        for at, data in pieces:
            file.seek(at)
            file.write(data)
        file.truncate(454 << 30)
    manifest = area / "m.json"
    manifest.write_text(json.dumps({"name": "sparse", "version": "1"}))
    host.run("create", tree, "-m", manifest, "-o", area / "out")
    (archive,), (described,) = (area / "out").glob("*.tar"), (area / "out").glob("*.imgmanifest")
    assert archive.stat().st_size < 1 << 20
    host.run("install", "-m", described, "-f", archive)
    (uuid,) = host.uuids()
    lastlog = host.tree(uuid) / "var/log/lastlog"
    assert lastlog.stat().st_size == 454 << 30 and lastlog.stat().st_blocks * 512 < 1 << 20
    with lastlog.open("rb") as file:
        for at, data in pieces:
            file.seek(at)
            assert file.read(len(data)) == data

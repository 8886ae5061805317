"""imgadm is killed before each step that makes something durable: what the next command finds is all or nothing."""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess

import pytest
from image_place import BUILD, IMGADM, PATIENCE, Host, Layout, area, fill, look, needs_root, run, tarball  # noqa: F401

pytestmark = [needs_root,
              pytest.mark.skipif("asan" in str(BUILD), reason="a sanitizer wants to be loaded first")]

LIBRARY = BUILD / "tests/host/tool/die_at_step.so"


def steps_of(host, *words):
    """How many durable steps a command makes."""
    file = host.area / "steps"
    host.run(*words, env={"LD_PRELOAD": str(LIBRARY), "TRITON_STEPS": str(file)})
    return int(file.read_text())


def kill_at(host, number, *words):
    """Returns whether the command was killed; it may have fewer steps this time."""
    process = host.start(*words, env={"LD_PRELOAD": str(LIBRARY), "TRITON_DIE_AT": str(number)})
    output, errors = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), f"step {number}: {output}{errors}"
    return process.returncode != 0


def is_whole(host, expected):
    """Every image that is listed is complete; nothing else is in the pool once a command that changes things has run."""
    host.run("gc")
    listed = host.uuids()
    assert set(listed) <= set(expected), listed
    for uuid in listed:
        assert look(host.tree(uuid)) == expected[uuid], f"image {uuid} is not whole"
        assert (host.state / "imgadm/images" / f"{uuid}.json").exists()
    assert sorted(path.stem for path in (host.state / "imgadm/images").glob("*")) == sorted(listed)
    trees = {host.get(uuid)["tree"].split("/")[1] for uuid in listed}
    assert set(host.layers()) == trees
    assert host.left_over() == []
    return listed


def make_layout(area):
    layout = Layout(area / "layout")
    base = fill(area / "base", {"etc/a": "a", "etc/b": "b", "bin/x": ("link", "y")})
    layout.make("1", [base, fill(area / "upper", {"etc/.wh.a": "", "etc/c": "c"})])
    return layout, look(layout.unpack("1", area / "umoci"))


def numbers(count):
    """Each step; past the last one the command must come to its end."""
    return range(1, count + 1)


def test_an_import_is_all_or_nothing(area):
    layout, tree = make_layout(area)
    reference = f"oci:{layout.path}:1"
    trial = Host(area / "trial")
    count = steps_of(trial, "import", reference)
    (uuid,) = trial.uuids()
    assert count > 20
    host = Host(area / "host")
    host.run("gc")  # the pool and the store are made once
    seen = set()
    for number in numbers(count):
        kill_at(host, number, "import", reference)
        listed = is_whole(host, {uuid: tree})
        seen.add(bool(listed))
        if listed:
            host.run("delete", uuid)
        assert host.layers() == []
    assert seen == {False, True}
    host.run("import", reference)
    assert is_whole(host, {uuid: tree}) == [uuid]


def test_what_is_left_of_an_image_that_another_command_has_is_left_to_it(area):
    """An import is killed before it has written images/UUID.json, and the next command that has locked the image may be
    deleting it."""
    layout, _ = make_layout(area)
    reference = f"oci:{layout.path}:1"
    host = Host(area / "host")
    count = steps_of(host, "import", reference)
    (uuid,) = host.uuids()
    written = host.state / "imgadm/images" / f"{uuid}.json"
    for number in reversed(numbers(count)):
        host.run("delete", uuid)
        kill_at(host, number, "import", reference)
        if not written.exists():
            break
        host.run("gc")
    assert host.uuids() == [uuid]
    name = hashlib.sha256(f"image {uuid}".encode()).hexdigest()
    with (host.state / "content/locks" / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        host.run("gc")
        assert not written.exists()
    host.run("gc")
    assert written.exists()
    assert list((host.state / "content/locks").iterdir()) == []


def test_what_cannot_be_removed_keeps_no_command(area):
    host = Host(area / "host")
    host.run("gc")
    trash = host.pool / "@pool/trash"
    for name in ("layers@a@0123456789abcdef", "layers@b@0123456789abcdef"):
        (trash / name / "@tree/root/data").mkdir(parents=True)
    mounted = trash / "layers@a@0123456789abcdef/@tree/root/data"
    tree = fill(area / "tree", {"etc/a": "a"})
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$1" && shift && exec "$@"', "sh", mounted, IMGADM, "import", tree],
        capture_output=True, text=True, timeout=PATIENCE, env=host.environment())
    assert done.returncode == 0 and done.stdout.startswith("Imported"), done
    assert f"cannot remove {trash}/layers@a@0123456789abcdef: cannot remove @tree/root/data: something is mounted there" in done.stderr
    assert [one.name for one in trash.iterdir()] == ["layers@a@0123456789abcdef"]
    assert host.run("gc").stderr == "" and host.left_over() == []


def test_a_deletion_is_finished(area):
    layout, tree = make_layout(area)
    reference = f"oci:{layout.path}:1"
    host = Host(area / "host")
    host.run("import", reference)
    (uuid,) = host.uuids()
    trial = Host(area / "trial")
    trial.run("import", reference)
    count = steps_of(trial, "delete", uuid)
    seen = set()
    for number in numbers(count):
        if not host.uuids():
            host.run("import", reference)
        kill_at(host, number, "delete", uuid)
        listed = is_whole(host, {uuid: tree})
        seen.add(bool(listed))
        assert listed or (host.layers() == [] and host.blobs() == [])
    assert seen == {False, True}


def test_an_update_has_the_old_or_the_new_image(area):
    layout, old_tree = make_layout(area)
    second = Layout(area / "second")
    second.make("1", [fill(area / "other", {"etc/new": "new"})])
    new_tree = look(second.unpack("1", area / "umoci2"))
    reference = f"oci:{area}/current:1"

    def point(at):
        os.replace(run_link(area, at), area / "current")

    def fresh(name):
        host = Host(area / name)
        point(layout.path)
        host.run("import", reference)
        point(second.path)
        return host

    trial = fresh("trial")
    (old,) = trial.uuids()
    count = steps_of(trial, "update")
    (new,) = set(trial.uuids()) - {old}
    host = fresh("host")
    means = set()
    for number in numbers(count):
        kill_at(host, number, "update")
        listed = is_whole(host, {old: old_tree, new: new_tree})
        assert old in listed
        meant = host.get(reference)["manifest"]["uuid"]
        assert meant in listed
        means.add(meant)
        if meant == new:  # back to what it was
            host.run("delete", new)
            host.run("delete", old)
            point(layout.path)
            host.run("import", reference)
            point(second.path)
    assert means == {old, new}


def run_link(area, target):
    link = area / "next"
    os.symlink(target, link)
    return link


def test_a_creation_leaves_both_files_or_none(area):
    tree = fill(area / "tree", {"etc/a": "a", "bin/x": ("link", "y")})
    out = area / "out"
    trial = Host(area / "trial")
    count = steps_of(trial, "create", tree, "-o", area / "trial-out")
    host = Host(area / "host")
    host.run("gc")
    seen = set()
    for number in numbers(count):
        kill_at(host, number, "create", tree, "-o", out)
        names = sorted(one.name for one in out.iterdir() if not one.name.startswith(".")) if out.exists() else []
        seen.add(tuple(names))
        # The manifest comes last: a file without one is nobody's image.
        assert names in ([], ["tree-1.tar"], ["tree-1.imgmanifest", "tree-1.tar"])
        for one in names:
            (out / one).unlink()
        host.run("gc")
        assert host.left_over() == [] and host.images() == []
    assert ("tree-1.imgmanifest", "tree-1.tar") in seen

    archive = tarball(tree, area / "a.tar")
    host.run("import", archive)
    assert len(host.uuids()) == 1


def test_a_creation_over_another_leaves_no_manifest_of_other_content(area):
    old = fill(area / "old/tree", {"etc/a": "old"})
    new = fill(area / "new/tree", {"etc/a": "new"})
    host = Host(area / "host")
    host.run("create", old, "-o", area / "kept")
    out = area / "out"
    shutil.copytree(area / "kept", out)
    count = steps_of(host, "create", new, "-o", out)
    was_killed = set()
    for number in numbers(count):
        shutil.rmtree(out)
        shutil.copytree(area / "kept", out)
        was_killed.add(kill_at(host, number, "create", new, "-o", out))
        if (out / "tree-1.imgmanifest").exists():
            (described,) = json.loads((out / "tree-1.imgmanifest").read_text())["files"]
            assert described["sha256"] == hashlib.sha256((out / "tree-1.tar").read_bytes()).hexdigest(), number
    assert True in was_killed

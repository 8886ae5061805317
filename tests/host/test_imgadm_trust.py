"""Who could change what root installs, and what an importer does not take although it could."""

import ctypes
import json
import os
import re
import struct
import subprocess

import pytest
from image_place import IMGADM, Layout, area, fill, host, imgapi, needs_root, tarball  # noqa: F401

pytestmark = needs_root

UUID = "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b"


def test_a_umask_of_zero_lets_nobody_write(area, host):
    (area / "a.tar").write_bytes(tarball(fill(area / "tree", {"f": "1"}), area / "t.tar").read_bytes())
    for words in (["import", area / "a.tar", "--uuid", UUID], ["sources", "-a", "http://127.0.0.1:1", "-f"]):
        subprocess.run([IMGADM, *map(str, words)], env=host.environment(), umask=0, capture_output=True, timeout=120)
    assert host.uuids() == [UUID]
    found = [host.state]
    for directory, folders, files in os.walk(host.state):
        folders[:] = [one for one in folders if one != "root"]  # the image's own
        found += [os.path.join(directory, name) for name in [*folders, *files]]
    assert [str(one) for one in found if not os.path.islink(one) and os.stat(one).st_mode & 0o022] == []


@pytest.mark.parametrize("place", ["imgadm", "imgadm/imgadm.conf", ""])
def test_sources_that_everybody_could_change_are_refused(host, imgapi, place):
    host.run("sources", "-a", imgapi.url)
    path = host.state / place
    path.chmod(0o777)
    failed = host.run("avail", code=1).stderr
    assert re.search(r"cannot trust \S+: every user can change it, and it decides what root installs", failed), failed
    path.chmod(0o755)
    host.run("avail")
    os.chown(path, 12345, 0)
    failed = host.run("avail", code=1).stderr
    assert re.search(r"cannot trust \S+: it belongs to user 12345", failed), failed


@pytest.mark.parametrize("place", ["content", "content/ingest", "content/blobs/sha256"])
def test_a_content_store_of_another_owner_is_refused(host, place):
    host.run("gc")
    os.chown(host.state / place, 12345, 0)
    failed = host.run("gc", code=1).stderr
    assert re.search(r"cannot open the content store in \S+: it belongs to user 12345", failed), failed


def test_a_layout_of_another_version_is_refused(area, host):
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "tree", {"f": "1"})])
    (layout.path / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "2.0.0"}))
    failed = host.run("import", f"oci:{layout.path}:1", code=1).stderr
    assert f'oci-layout of oci:{layout.path}:1 has version "2.0.0", and only 1 is known' in failed, failed
    (layout.path / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    host.run("import", f"oci:{layout.path}:1")


def test_owners_that_no_machine_has_are_refused_by_name(area, host):
    tree = fill(area / "tree", {"etc/shadow": "1"})
    os.chown(tree / "etc/shadow", 70000, 0)
    failed = host.run("import", tarball(tree, area / "a.tar"), code=1).stderr
    assert re.search(r'entry "(\./)?etc/shadow" belongs to user or group 70000, and machines have 0 to 65535', failed), failed
    assert host.uuids() == [] and host.left_over() == []


def test_an_empty_database_is_not_a_new_one(area, host):
    host.run("import", tarball(fill(area / "tree", {"f": "1"}), area / "a.tar"))
    (host.state / "content/content.db").write_bytes(b"")
    for words in (["gc"], ["list"]):
        assert "content.db is not a database of ours: it is empty" in host.run(*words, code=1).stderr
    assert len(host.layers()) == 1 and len(host.blobs()) == 1


# The downloader, where it cannot confine itself.

LANDLOCK_CREATE_RULESET = 444


def without_landlock():
    """For the child only: the kernel answers as if it had no Landlock."""
    load, jump, answer = 0x20, 0x15, 0x06
    program = b"".join(
        struct.pack("HBBI", *one)
        for one in ((load, 0, 0, 0), (jump, 0, 1, LANDLOCK_CREATE_RULESET), (answer, 0, 0, 0x00050000 | 38), (answer, 0, 0, 0x7FFF0000))
    )
    code = ctypes.create_string_buffer(program)
    filter_ = struct.pack("HxxxxxxP", 4, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(22, 2, ctypes.create_string_buffer(filter_), 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP


def test_a_downloader_that_cannot_confine_itself_says_why_once(host, imgapi):
    host.run("sources", "-a", imgapi.url)
    done = subprocess.run(
        [IMGADM, "import", UUID], env=host.environment(), preexec_fn=without_landlock, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "cannot confine triton-download: this kernel has no Landlock" in done.stderr, done.stderr
    assert "exited with code" not in done.stderr and "again" not in done.stderr


@pytest.mark.parametrize("path", ["/etc/resolv.conf", "/etc/hosts"])
def test_a_file_that_was_mounted_and_replaced_is_no_obstacle(area, host, imgapi, path):
    """As in containers, whose runtime mounts these files and writes new ones."""
    host.run("sources", "-a", imgapi.url)
    script = 'cp -L "$1" "$2/copy" && mount --bind "$2/copy" "$1" && rm "$2/copy" && exec "$3" sources -c'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", path, area, IMGADM], env=host.environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, f"{imgapi.url}: ok\n"), done.stderr

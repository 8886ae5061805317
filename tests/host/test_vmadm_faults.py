"""One system call of vmadm fails: nothing that is there is left out in silence."""

import json
import os
import shutil
import subprocess

import pytest
from info_place import BUILD, PATIENCE, needs_root, run
from machine_files import MachineFiles

pytestmark = [needs_root, pytest.mark.skipif(not shutil.which("strace"), reason="needs strace, which makes a system call fail")]


def with_fault(root, call, error, number, *words, where=()):
    """vmadm, of which the n-th such call fails."""
    return subprocess.run(
        ["strace", "-qq", "-o", root / "trace", *where, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}",
         BUILD / "vmadm", *map(str, words)],
        capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, env={**os.environ, "TRITON_ROOT": str(root)})


def test_a_directory_of_machines_that_cannot_be_read_is_not_an_empty_one(tmp_path):
    files = MachineFiles(tmp_path)
    files.fill(1)
    done = with_fault(tmp_path, "getdents64", "EIO", 1, "lookup", "-j", where=("-P", files.machines))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"cannot read directory {files.machines}: Input/output error\n"
    assert len(json.loads(with_fault(tmp_path, "getdents64", "EIO", 99, "lookup", "-j").stdout)) == 1


def configured(place, **members):
    """A machine that systemd does not know, so that it can be deleted without one."""
    files = MachineFiles(place)
    machine = files.object(1, phase="configured", autoboot=False, nics=[], **members)
    files.write(machine)
    files.write_tags(machine["uuid"], {})
    return files, machine["uuid"]


def test_a_machine_whose_file_cannot_be_opened_is_not_taken_for_one_that_may_be_deleted(tmp_path):
    files, uuid = configured(tmp_path, indestructible_zoneroot=True)
    for number in range(1, 9):
        done = with_fault(tmp_path, "openat", "EMFILE", number, "delete", uuid, where=("-P", files.path(uuid)))
        assert done.returncode == 1
        assert "indestructible_zoneroot is set" in done.stderr or "Too many open files" in done.stderr, f"{number}: {done.stderr}"
    assert files.path(uuid).exists() and (files.config(uuid) / "tags.json").exists()


def test_a_tree_whose_machine_cannot_be_looked_for_is_not_removed(tmp_path):
    files, uuid = configured(tmp_path)
    done = with_fault(tmp_path, "access", "EIO", "1+", "recover", uuid, where=("-P", files.path(uuid)))
    assert "(INJECTED)" in (tmp_path / "trace").read_text()
    assert "removed" not in done.stdout + done.stderr
    assert (files.config(uuid) / "tags.json").exists() and files.path(uuid).exists()


def test_a_directory_that_cannot_be_read_does_not_end_a_deletion(tmp_path):
    count = 0
    for number in range(1, 100):
        place = tmp_path / str(number)
        files, uuid = configured(place)
        files.write(files.object(0))  # another one, so that a directory has something to read
        done = with_fault(place, "getdents64", "EIO", number, "delete", uuid)
        if "(INJECTED)" not in (place / "trace").read_text():
            break
        count += 1
        assert done.returncode in (0, 1), f"{number}: exit code {done.returncode}: {done.stderr}"
        assert done.returncode == 0 or "Input/output error" in done.stderr, f"{number}: {done.stderr}"
        assert done.returncode == 1 or not files.path(uuid).exists(), f"{number}: it says that it has worked"
    assert count > 5


def test_a_tree_without_room_may_have_used_its_quota_up(tmp_path):
    """XFS says so by ENOSPC: what vmadm writes is written again, without the quota."""
    count = 0
    for number in range(1, 100):
        place = tmp_path / str(number)
        files, uuid = configured(place)
        done = with_fault(place, "pwrite64", "ENOSPC", number, "update", uuid, f"alias=new{number}")
        if "(INJECTED)" not in (place / "trace").read_text():
            break
        assert "/config/" not in done.stderr, f"{number}: {done.stderr}"
        count += done.returncode == 0
    assert count >= 3  # a file of each kind

"""Staging into a volume that others may write to: links there lead it nowhere else, and what it may not do does not stop it."""

import os
import shutil
import stat

import pytest

from harness.process import BINARY, NO_LEAK_SEARCH, run_plainly


class Volume:
    """An output directory, and a program that is to be staged in a directory below it."""

    def __init__(self, area):
        self.output = area / "out"
        self.elsewhere = area / "elsewhere"
        for path in (area / "bin", self.output, self.elsewhere):
            path.mkdir()
        source = area / "bin" / "server"
        source.write_text("content\n")
        source.chmod(0o755)
        os.utime(source, (1, 1))
        (area / "version").write_text("7.3.63\n")
        self.arguments = ["--mode", "init", "--binary-dir", area / "bin", "--output-dir", self.output,
                          "--version-file", area / "version", "--copy-binary", "server"]

    def stage(self, *wrapper):
        """How it ended and what it said; `wrapper` is a command that starts it."""
        program, *arguments = [*wrapper, BINARY, *self.arguments]
        done = run_plainly(*arguments, binary=program, env=NO_LEAK_SEARCH)
        return done.returncode, done.stdout + done.stderr

    def assert_staged(self, directory="7.3"):
        """Asserts that it is there, whole, and nothing else."""
        assert [path.name for path in (self.output / directory).iterdir()] == ["server"]
        file = self.output / directory / "server"
        assert file.read_text() == "content\n" and stat.S_IMODE(file.stat().st_mode) == 0o755


@pytest.fixture(name="volume")
def make_volume(area):
    """One, of its own."""
    return Volume(area)


@pytest.mark.parametrize("target", ["absolute", "../elsewhere"])
def test_a_link_that_leads_outside(volume, target):
    (volume.output / "7.3").symlink_to(volume.elsewhere if target == "absolute" else target)
    code, said = volume.stage()
    assert code == 1 and "create directory 7.3: a symbolic link on the way leads outside" in said
    assert list(volume.elsewhere.iterdir()) == []


def test_a_link_that_stays_inside(volume):
    (volume.output / "real").mkdir()
    (volume.output / "7.3").symlink_to("real")
    assert volume.stage()[0] == 0
    volume.assert_staged("real")


def test_a_link_without_openat2(volume):
    """Where the kernel cannot confine a path, it is walked step by step: a link may stay inside, and not lead outside."""
    (volume.output / "real").mkdir()
    link = volume.output / "7.3"
    link.symlink_to("real")
    assert volume.stage(*faulty("openat2", "ENOSYS"))[0] == 0
    volume.assert_staged("real")
    link.unlink()
    link.symlink_to(volume.elsewhere)
    code, said = volume.stage(*faulty("openat2", "ENOSYS"))
    assert code == 1 and "create directory 7.3: a symbolic link on the way leads outside" in said
    assert list(volume.elsewhere.iterdir()) == []


def test_a_link_in_the_place_of_the_file(volume):
    (volume.output / "7.3").mkdir()
    victim = volume.elsewhere / "victim"
    victim.write_text("theirs\n")
    (volume.output / "7.3" / "server").symlink_to(victim)
    assert volume.stage()[0] == 0
    volume.assert_staged()
    assert victim.read_text() == "theirs\n"


def faulty(call, error):
    """A command that starts another in which a system call fails."""
    if not (strace := shutil.which("strace")):
        pytest.skip("needs strace, which makes a system call fail")
    return [strace, "-qq", "-o", "/dev/null", "-e", f"inject={call}:error={error}"]


@pytest.mark.parametrize("call", ["fchmod", "utimensat", "linkat", "openat2", "flock", "syncfs", "copy_file_range"])
def test_what_is_not_permitted_is_no_obstacle(volume, call):
    old = os.umask(0o022)
    try:
        code, said = volume.stage(*faulty(call, "EPERM"))
    finally:
        os.umask(old)
    assert code == 0, said
    volume.assert_staged()
    if call != "utimensat":
        assert (volume.output / "7.3" / "server").stat().st_mtime == 1

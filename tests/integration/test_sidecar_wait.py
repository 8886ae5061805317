"""Mode sidecar: copies, waits, copies again when asked to watch, and ends at once; as PID 1 and not."""

import json
import os
import signal
import subprocess

import pytest

from harness.process import BINARY, TIMEOUT, Exit, eventually, is_static

CONTENT = b"x" * 1000
NO_LEAK_CHECK = {"ASAN_OPTIONS": "detect_leaks=0"}  # it cannot be traced


@pytest.fixture
def directories(area):
    for name in ("in", "usr"):
        (area / name).mkdir()
    (area / "usr" / "fdbserver").write_bytes(CONTENT)
    (area / "usr" / "fdbserver").chmod(0o755)
    (area / "version").write_text("7.3.63\n")
    return area


def sidecar(place, area, *options, **how):
    return place.start("--mode", "sidecar", "--input-dir", area / "in", "--output-dir", area / "out", "--binary-dir",
                       area / "usr", "--version-file", area / "version", *options, **how)


def read(path):
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def names(area):
    """Every name below the output directory, hidden ones too."""
    return sorted(str(path.relative_to(area / "out")) for path in (area / "out").rglob("*"))


def swap(directory, generation, **files):
    """Publishes files as the kubelet does for a mounted ConfigMap: links through ..data, which is swapped."""
    fresh = directory / f"..{generation}"
    fresh.mkdir()
    for name, content in files.items():
        (fresh / name).write_text(content)
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    (directory / "..data_tmp").symlink_to(fresh.name)
    (directory / "..data_tmp").rename(directory / "..data")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_copies_waits_and_ends_at_once(place, directories, number):
    launcher = sidecar(place, directories, "--copy-binary", "fdbserver", "--main-container-version", "7.1.61")
    launcher.wait_for_event("file-copied")
    assert read(directories / "out/bin/7.3.63/fdbserver") == CONTENT
    launcher.assert_running()
    launcher.signal(number)
    assert launcher.wait() == Exit(code=0)


def test_equal_versions_copy_nothing_and_wait_all_the_same(place, directories):
    launcher = sidecar(place, directories, "--copy-binary", "fdbserver", "--main-container-version", "7.3.63")
    launcher.wait_for_event("staging-skipped")
    launcher.assert_running()
    assert launcher.stop() == Exit(code=0)
    assert not (directories / "out").exists()


def test_a_first_round_that_fails_is_the_end(place, directories):
    launcher = sidecar(place, directories, "--copy-binary", "missing", "--watch")
    assert launcher.wait() == Exit(code=1)
    assert not (directories / "out").exists()


def test_does_not_copy_again_unless_told_to_watch(place, directories):
    swap(directories / "in", 1, a="one")
    launcher = sidecar(place, directories, "--copy-file", "a")
    launcher.wait_for_event("file-copied")
    swap(directories / "in", 2, a="two")
    launcher.quiet_for(0.2)
    assert read(directories / "out/a") == b"one"
    assert launcher.stop() == Exit(code=0)


def test_hang_up_opens_the_log_again_and_copies_again(place, directories):
    log = directories / "log"
    (directories / "in/a").write_text("one")
    launcher = sidecar(place, directories, "--copy-file", "a", "--log-path", log)
    launcher.wait_for_event("file-copied")
    (directories / "in/a").write_text("two")
    log.rename(directories / "log.1")
    launcher.signal(signal.SIGHUP)
    launcher.wait_for_event("log-reopened", path=str(log))
    launcher.wait_for_event("file-copied")
    assert read(directories / "out/a") == b"two"
    (directories / "in/a").unlink()
    launcher.signal(signal.SIGHUP)
    launcher.wait_for_event("staging-failed", level="error")
    assert read(directories / "out/a") == b"two"
    assert launcher.stop() == Exit(code=0)
    assert [json.loads(line)["event"] for line in (directories / "log.1").read_text().splitlines()] == ["file-copied"]
    assert [json.loads(line)["event"] for line in log.read_text().splitlines()] == [
        "log-reopened", "file-copied", "log-reopened", "staging-failed", "stop-requested"]


def test_watch_follows_every_swap(place, directories):
    swap(directories / "in", 0, a="0", b="0")
    launcher = sidecar(place, directories, "--copy-file", "a", "--copy-file", "b", "--watch")
    launcher.wait_for_event("file-copied")
    for generation in range(1, 21):
        swap(directories / "in", generation, a=str(generation), b=str(generation))
        wanted = str(generation).encode()
        eventually(lambda: read(directories / "out/a") == wanted and read(directories / "out/b") == wanted,
                   f"generation {generation} is staged")
    assert launcher.stop() == Exit(code=0)
    assert names(directories) == ["a", "b"]


def test_watch_sleeps_when_nothing_changes(place, directories):
    (directories / "in/a").write_text("one")
    launcher = sidecar(place, directories, "--copy-file", "a", "--watch")
    launcher.wait_for_event("file-copied")

    def settled():
        before = launcher.switches()
        launcher.quiet_for(0.2)
        return launcher.switches() == before
    eventually(settled, "what follows the copy is done")
    before = launcher.switches()
    launcher.quiet_for(0.5)
    assert launcher.switches() - before <= 2
    assert launcher.stop() == Exit(code=0)


def test_watch_keeps_what_is_good_while_a_source_is_bad(place, directories):
    source = directories / "in/a"
    source.write_text("one")
    launcher = sidecar(place, directories, "--copy-file", "a", "--require-not-empty", "a", "--watch")
    launcher.wait_for_event("file-copied")

    def said(text):
        launcher.events.drain()
        return text in launcher.errors() + str(launcher.events.all)
    source.unlink()
    eventually(lambda: said("No such file or directory"), "the missing source is told")
    assert read(directories / "out/a") == b"one"
    source.write_text("")
    eventually(lambda: said("is empty (--require-not-empty)"), "the empty source is told")
    assert read(directories / "out/a") == b"one"
    (directories / "in/new").write_text("two")
    (directories / "in/new").rename(source)
    eventually(lambda: read(directories / "out/a") == b"two", "the good source is staged")
    assert launcher.stop() == Exit(code=0)


def test_watch_sees_a_new_version(place, directories):
    launcher = sidecar(place, directories, "--copy-binary", "fdbserver", "--main-container-version", "7.3.63",
                       "--watch")
    launcher.wait_for_event("staging-skipped")
    (directories / "version.new").write_text("7.3.64\n")
    (directories / "version.new").rename(directories / "version")
    eventually(lambda: read(directories / "out/bin/7.3.64/fdbserver") == CONTENT, "the binary is staged")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("hidden", [(), ("--hide-proc",)], ids=["unnamed", "named"])
def test_stopped_at_any_moment_it_leaves_the_old_file_or_the_new_one(as_child, directories, hidden):
    """SIGTERM after each number of system calls, until it comes too late. Without /proc the unfinished file has a name
    from the beginning, which must go too."""
    if hidden and not is_static(BINARY):
        pytest.skip("sanitizers need /proc")
    contents = {b"old", b"x" * (17 << 20)}  # two pieces of a copy
    (directories / "in/a").write_bytes(max(contents))
    (directories / "out").mkdir()
    target = directories / "out/a"
    codes = []
    # A build with sanitizers makes more than a thousand calls of its own first.
    step = 1 if is_static(BINARY) else 13
    for calls in range(8, 5000, step):
        target.write_bytes(b"old")
        launcher = as_child.start("--mode", "init", "--input-dir", directories / "in", "--output-dir",
                                  directories / "out", "--copy-file", "a",
                                  place=["--term-after", str(calls), *hidden], env=NO_LEAK_CHECK)
        codes.append(launcher.wait())
        launcher.close()
        assert names(directories) == ["a"], f"after {calls} calls"
        assert target.read_bytes() in contents, f"after {calls} calls"
        if codes[-1] == Exit(code=128 + signal.SIGTERM):
            assert target.read_bytes() == b"old", f"after {calls} calls"
        if codes[-1] == Exit(code=0):
            break
    assert codes[-1] == Exit(code=0) and target.read_bytes() != b"old"
    assert codes.count(Exit(code=128 + signal.SIGTERM)) > 20 // step, codes


def test_sidecar_stopped_in_the_middle_of_a_copy_ends_with_0(place, directories):
    with open(directories / "usr/big", "wb") as file:
        for _ in range(512):
            file.write(b"x" * (1 << 20))
    for _ in range(5):  # the signal may come too late
        launcher = sidecar(place, directories, "--copy-binary", "big")

        def has_begun(launcher=launcher):
            with open(f"/proc/{launcher.pid}/io", encoding="ascii") as file:
                return any(line.startswith("write_bytes:") and int(line.split()[1]) > 1 << 20 for line in file)
        eventually(has_begun, "the copy has begun")
        launcher.signal(signal.SIGTERM)
        assert launcher.wait() == Exit(code=0)
        found = names(directories)
        if not launcher.events_named("file-copied"):
            break
        (directories / "out/bin/7.3.63/big").unlink()
    assert found == ["bin", "bin/7.3.63"]


@pytest.mark.parametrize("output, code", [("text", 0), ("json", 1)])
def test_a_reader_that_goes_away_does_not_end_it(place, directories, output, code):
    """What cannot be printed has the exit code say so, at the end."""
    (directories / "in/a").write_text("one")
    read_end, write_end = os.pipe()
    launcher = sidecar(place, directories, "--copy-file", "a", "--watch", "--format", output, stdout=write_end)
    os.close(write_end)
    assert os.read(read_end, 4096)
    os.close(read_end)
    (directories / "in/a").write_text("two")
    eventually(lambda: read(directories / "out/a") == b"two", "copied again")
    (directories / "in/a").write_text("three")
    eventually(lambda: read(directories / "out/a") == b"three", "it goes on")
    assert launcher.stop() == Exit(code=code)


def test_a_summary_that_nobody_reads_holds_no_stop_up(place, directories):
    (directories / "in/a").write_text("one")
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 4096)
    os.set_blocking(write_end, True)
    launcher = sidecar(place, directories, "--copy-file", "a", "--format", "json", stdout=write_end)
    os.close(write_end)
    eventually(lambda: read(directories / "out/a") == b"one", "it is staged")
    launcher.signal(signal.SIGTERM)
    assert launcher.wait() == Exit(code=0)
    os.close(read_end)


@pytest.mark.parametrize("mode, code", [("init", 128 + signal.SIGTERM), ("sidecar", 0)])
def test_a_stop_that_came_first_copies_nothing(directories, mode, code):
    def pending_stop():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)
    command = [BINARY, "--mode", mode, "--input-dir", directories / "in", "--output-dir", directories / "out",
               "--binary-dir", directories / "usr", "--version-file", directories / "version", "--copy-binary",
               "fdbserver"]
    done = subprocess.run(command, preexec_fn=pending_stop, capture_output=True, timeout=TIMEOUT, check=False)
    assert done.returncode == code
    assert not (directories / "out").exists()


def test_orphans_leave_no_zombie(as_pid1, directories, programs):
    launcher = sidecar(as_pid1, directories, "--copy-binary", "fdbserver")
    launcher.wait_for_event("file-copied")
    # enters the namespace and leaves a grandchild behind, as `kubectl exec` does; it ends when its input does
    read_end, write_end = os.pipe()
    subprocess.run([*launcher.enter("pid"), "sh", "-c", "cat <&0 >/dev/null & exit 0"], check=True,
                   stdin=read_end)
    os.close(read_end)
    os.close(write_end)
    eventually(lambda: launcher.process_count() == 1, "the orphan is gone")
    assert launcher.zombies() == []
    assert launcher.stop() == Exit(code=0)

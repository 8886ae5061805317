"""What imgadm prints, for people and for programs, and what it asks."""

import json
import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import time
import unicodedata
from pathlib import Path

import pytest
from fault_server import FaultServer
from image_place import IMGADM, PATIENCE, Layout, area, fill, host, needs_root, run, tarball  # noqa: F401

pytestmark = needs_root


def make(host, area, name, **manifest):
    file = area / "manifest.json"
    file.write_text(json.dumps({"name": name, "version": "1", **manifest}))
    host.run("create", fill(area / f"tree-{len(list(area.iterdir()))}", {"a": name}), "-m", file)


def test_values_of_all_kinds_are_in_one_order(area, host):
    """Nothing, numbers by their size, texts."""
    for name, value in (("a", 9), ("b", "10"), ("c", 10.5), ("d", 10), ("e", -3), ("f", 1e300), ("g", "9"), ("h", 2.25), ("i", 123456789012345678901)):
        make(host, area, name, tags={"n": value})
    make(host, area, "j")
    assert host.run("list", "-H", "-o", "name", "-s", "tags.n,name").stdout.split() == list("jehadcifbg")
    assert host.run("list", "-H", "-o", "name", "-s", "-tags.n,name").stdout.split() == list("gbficdahej")


def test_parsable_fields_are_read_back_in_one_step(area, host):
    description = "a\\b:c\n\u009b\\:"
    make(host, area, "x", description=description)
    text = host.run("list", "-p", "-o", "name,description,version").stdout
    name, read, version = re.split(r"(?<!\\)(?:\\\\)*:", text.rstrip("\n"))
    assert (name, version) == ("x", "1")
    assert re.sub(r"\\(x..|.)", lambda found: chr(int(found[1][1:], 16)) if found[1][0] == "x" else found[1], read) == description


def test_columns_stand_below_each_other_whatever_the_letters(area, host):
    for name in ("abcdef", "日本語", "한국", "é" * 6, "e\u0301" * 6, "🐧🐧🐧"):
        make(host, area, name)

    def columns(text):
        return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)

    lines = host.run("list", "-o", "name,os").stdout.splitlines()
    assert len({columns(line[: line.lower().rindex("linux" if "linux" in line else "os")]) for line in lines}) == 1, lines


class Terminal:
    """imgadm on a terminal."""

    def __init__(self, host, *words, stdout=None):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen([str(IMGADM), *words], stdin=slave, stderr=slave, stdout=stdout or slave, env=host.environment(),
                                        start_new_session=True, preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))  # TIOCSCTTY
        os.close(slave)
        self.said = ""

    def wait_for(self, text):
        until = time.monotonic() + 30
        while text not in self.said:
            assert time.monotonic() < until, self.said
            if select.select([self.master], [], [], 0.1)[0]:
                self.said += os.read(self.master, 4096).decode()

    def type(self, text):
        os.write(self.master, text)

    def end(self):
        code = self.process.wait(timeout=30)
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.said += os.read(self.master, 4096).decode()
            except OSError:
                break
        os.close(self.master)
        return code


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 0, 1), (b"\n", 0, 1), (b"\x04", 0, 1), (b"\x03", 130, 1), (b"y\n", 0, 0)])
def test_a_question_can_be_answered_and_interrupted(area, host, answer, code, left):
    make(host, area, "x")
    terminal = Terminal(host, "vacuum")
    terminal.wait_for("Delete them? [y/N] ")
    terminal.type(answer)
    assert terminal.end() == code
    assert len(host.images()) == left
    assert ("(Interrupted): cancelled" in terminal.said) == (code == 130)


def test_only_what_was_listed_and_confirmed_is_deleted(area, host):
    make(host, area, "x")
    (listed,) = host.uuids()
    terminal = Terminal(host, "vacuum")
    terminal.wait_for("Delete them? [y/N] ")
    make(host, area, "y")
    terminal.type(b"y\n")
    assert terminal.end() == 0
    assert len(host.uuids()) == 1 and listed not in host.uuids()


def test_a_signal_stops_what_removes(area, host):
    def interrupted():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        os.kill(os.getpid(), signal.SIGINT)

    make(host, area, "x")
    make(host, area, "y")
    uuids = host.uuids()
    for words in (["vacuum", "-f"], ["delete", *uuids], ["pin", *uuids], ["gc"]):
        command = host.start(*words, preexec_fn=interrupted)
        _, said = command.communicate(timeout=PATIENCE)
        assert command.returncode == 130 and "(Interrupted): cancelled" in said, words
    assert host.uuids() == uuids and not any(image["pinned"] for image in host.images())


@pytest.mark.parametrize("wanted", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_compressor(area, host, wanted):
    compressor, started = area / "bin/gzip", area / "started"
    compressor.parent.mkdir()
    os.mkfifo(started)
    compressor.write_text(f"#!/bin/sh\necho $$ >{started}\nexec sleep 1000\n")
    compressor.chmod(0o755)
    manifest = area / "manifest.json"
    manifest.write_text(json.dumps({"name": "x", "version": "1"}))
    command = host.start("create", fill(area / "tree", {"a": "b"}), "-m", manifest, "-o", area / "out", "-c", "gzip",
                         env={"PATH": f"{compressor.parent}:{os.environ['PATH']}"})
    process = int(started.read_text())
    command.send_signal(wanted)
    _, said = command.communicate(timeout=PATIENCE)
    assert (command.returncode, said) == (130, "imgadm: error (Interrupted): cancelled\n")
    assert not Path(f"/proc/{process}").exists() and list((area / "out").iterdir()) == [] and host.left_over() == []


@pytest.mark.parametrize("wanted", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_what_nobody_reads(area, host, wanted):
    make(host, area, "x")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    command = subprocess.Popen([str(IMGADM), "list"], stdout=writer, env=host.environment())
    try:
        deadline = time.monotonic() + PATIENCE
        while "pipe_write" not in Path(f"/proc/{command.pid}/wchan").read_text():
            assert command.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        command.send_signal(wanted)
        assert command.wait(PATIENCE) == -wanted
    finally:
        command.kill()
        command.wait()
        os.close(reader)
        os.close(writer)


def test_what_is_asked_and_done_is_not_in_the_json(area, host):
    make(host, area, "x")
    out = area / "out.json"
    with out.open("w") as stdout:
        terminal = Terminal(host, "vacuum", "-j", stdout=stdout)
        terminal.wait_for("Delete them? [y/N] ")
        terminal.type(b"y\n")
        assert terminal.end() == 0
    assert len(json.loads(out.read_text())) == 1 and host.images() == []
    make(host, area, "y")
    assert len(json.loads(host.run("vacuum", "-f", "-j").stdout)) == 1
    json.loads(host.run("gc", "-j").stdout)
    json.loads(host.run("scrub", "-j").stdout)


def test_an_error_begins_a_line_of_the_terminal(area, host):
    with FaultServer() as server:
        terminal = Terminal(host, "import", f"127.0.0.1:{server.port}/app:1")
        assert terminal.end() == 1
    last = terminal.said.rstrip().splitlines()[-1]
    assert last.split("\x1b[K")[-1].startswith("imgadm: error (ResourceNotFound): cannot fetch "), terminal.said


@pytest.mark.parametrize(("what", "words", "phase"), [
    ("/v2/app/manifests/1", ["import", "{host}/app:1"], "resolving: {host}/app:1"), ("layer", ["import", "{host}/app:1"], "downloading: {host}/app:1"),
    ("/images", ["avail"], "resolving: http://{host}")])
def test_what_is_waited_for_is_told(area, host, what, words, phase):
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "base", {"a": "b"})])
    manifest = layout.blob(layout.descriptor("1")["digest"]).read_bytes()
    with FaultServer() as server:
        place = f"127.0.0.1:{server.port}"
        server.file("/v2/app/manifests/1", manifest)
        for blob in (layout.path / "blobs/sha256").iterdir():
            server.file(f"/v2/app/blobs/sha256:{blob.name}", blob.read_bytes())
        path = f"/v2/app/blobs/{layout.manifest('1')['layers'][0]['digest']}" if what == "layer" else what
        server.on(path, lambda request: request.send(429, Retry_After=300))
        host.run("sources", "-f", "-a", server.url(""))
        words = [word.format(host=place) for word in words]
        why = f"{server.url(path)} answers 429"
        for options in (["-v"], ["--progress", "json"]):
            process = host.start(*options, *words)
            for line in process.stderr:
                if "-v" in options and line == f"imgadm: {phase.format(host=place)}, waiting to try again: {why}\n":
                    break
                if "-v" not in options and json.loads(line).get("waitingFor") == why:
                    break
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            assert process.returncode == 130


def test_a_broken_archive_is_named(area, host):
    broken = area / "broken.tar"
    broken.write_text("no archive")
    assert f"(CorruptContent): cannot unpack {broken}: archive is broken" in host.run("import", f"oci-archive:{broken}", code=1).stderr


def test_a_report_that_cannot_be_written_is_an_error(area, host):
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "base", {"a": "1"})])
    host.run("import", f"oci:{layout.path}:1")
    host.run("sources", "-a", area, "-t", "directory")
    for words in (["list"], ["update", "-n"], ["sources"], ["sources", "-c"], ["vacuum", "-n"], ["gc"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([str(IMGADM), *words], stdout=full, stderr=subprocess.PIPE, text=True, env=host.environment(), timeout=60)
        assert (done.returncode, done.stderr) == (
            1, "imgadm: error (NoSpace): cannot write to standard output: No space left on device\n"), words
    with open("/dev/full", "w") as full:  # what was done is done
        assert subprocess.run([str(IMGADM), "update"], stdout=full, env=host.environment(), timeout=60).returncode == 0


def test_a_read_only_file_system_can_be_read(area, host):
    make(host, area, "x")
    place = area / "ro"
    place.mkdir()
    run("mount", "--bind", host.root, place)
    try:
        run("mount", "-o", "remount,bind,ro", place)
        assert host.run("--root", place, "list").stdout == host.run("list").stdout
        assert "ead-only file system" in host.run("--root", place, "gc", code=1).stderr
    finally:
        run("umount", place)


def test_who_reads_waits_for_nobody_and_changes_nothing(area, host):
    make(host, area, "x")
    (uuid,) = host.uuids()
    database = sqlite3.connect(host.state / "content/content.db", isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    database.execute("UPDATE image SET is_pinned = 1")
    began = time.monotonic()
    assert host.uuids() == [uuid] and host.get(uuid)["manifest"]["name"] == "x"
    assert time.monotonic() - began < 20  # a writer is waited for 30 seconds
    database.execute("ROLLBACK")
    database.execute("UPDATE areas SET version = 1 WHERE name = 'image'")
    assert host.uuids() == [uuid]
    assert database.execute("SELECT version FROM areas WHERE name = 'image'").fetchone() == (1,)
    database.execute("DROP TABLE areas")
    assert host.uuids() == []
    database.close()


def test_the_tags_of_an_image_are_updated_by_its_uuid(area, host):
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "base", {"a": "1"})])
    host.run("import", f"oci:{layout.path}:1")
    (uuid,) = host.uuids()
    assert host.run("update", uuid).stdout == f"oci:{layout.path}:1 is up to date\n"
    layout.make("1", [fill(area / "newer", {"a": "2"})])
    assert host.run("update", "-n", uuid).stdout.startswith(f"Would move oci:{layout.path}:1 from image {uuid} to sha256:")
    host.run("import", tarball(fill(area / "tree", {"b": "c"}), area / "b.tar"))
    (other,) = set(host.uuids()) - {uuid}
    assert host.run("update", other, code=1).stderr == f"imgadm: error (InvalidParameter): image {other} was not imported by a tag\n"
    missing = "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b"
    assert host.run("update", missing, code=3).stderr == f"imgadm: error (ImageNotInstalled): image {missing} is not installed\n"

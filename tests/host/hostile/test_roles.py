"""The library against roles in an attacker's hands: whatever they say, it is bounded, checked against what was asked for, and ends in an
error that says what happened. The program liar (tests/host/helpers) tells one lie for each number. What a downloader can do to the
verifier is here, too: it holds nothing but the write ends of pipes."""

import os
import threading
import time

import pytest

from harness.slowness import FACTOR
from harness.wall import BUILD, archive, entry, needs_root, sha256, tool

pytestmark = needs_root
LIAR = BUILD / "tests/host/liar"
EMPTY = sha256(b"")
WRONG = "sha256:" + "a" * 64

# lie -> what the library makes of it, when it asked for a file of 0 bytes to be checked
CHECK = {
    1000: "corrupt: a role has ended without an answer",
    1001: "corrupt: triton-verify was killed by SIGILL",
    1002: "corrupt: message is not JSON",
    1003: "corrupt: a message is longer than 65536 bytes",
    1004: 'corrupt: message "range" is not expected here',
    1005: 'corrupt: message "verified" is malformed',
    1006: "corrupt: a message has 3 descriptors, not 0 at most",
    1007: "corrupt: triton-verify lies: the digest is not what was asked for",
    1008: "corrupt: triton-verify lies: the size is not what was asked for",
    1009: r"corrupt: \x1b[2Jowned\x07",
    1014: 'corrupt: message "landed" is not expected here',
    1015: "timeout: triton-verify did not end in time",
}


@pytest.mark.parametrize("lie", CHECK)
def test_verifier_that_lies_of_a_file(lie, tmp_path):
    (tmp_path / "source").write_bytes(b"")
    answer = tool("check", tmp_path / "file", tmp_path / "source", lie, f"digest={EMPTY}", "size=0", libexec=LIAR)
    assert answer.split("\n")[0] == CHECK[lie]


RECEIVE = {
    1007: "corrupt: triton-verify lies: the size is not what was asked for",  # nobody has said how large it is
    1010: "corrupt: triton-verify lies: what has landed is not within what was asked for",
    1011: "corrupt: triton-verify lies: what has landed is not within what was asked for",
    1012: "corrupt: triton-verify lies: a range has ended that was not there",
    1013: "corrupt: triton-verify lies: a range has more than was asked for",
}


@pytest.mark.parametrize("lie", RECEIVE)
def test_verifier_that_lies_of_ranges(lie, tmp_path):
    (tmp_path / "pipe").write_bytes(b"")
    answer = tool("receive", tmp_path / "file", lie, f"range=0+10={tmp_path / 'pipe'}", "end=10", libexec=LIAR)
    assert answer.split("\n")[0] == RECEIVE[lie]


DOCUMENT = {
    1006: 'corrupt: a message has 3 descriptors, not 1 at most',
    1016: "corrupt: triton-verify lies: the document is missing",
    1017: "corrupt: triton-verify lies: the document is not sealed",
    1018: "corrupt: triton-verify lies: the document is too long",
}


@pytest.mark.parametrize("lie", DOCUMENT)
def test_verifier_that_lies_of_a_document(lie, tmp_path):
    (tmp_path / "source").write_bytes(b"")
    answer = tool("document", "other", tmp_path / "source", lie, f"digest={EMPTY}", libexec=LIAR)
    assert answer.split("\n")[0] == DOCUMENT[lie]


UNPACK = {
    1000: "corrupt: a role has ended without an answer",
    1001: "corrupt: triton-unpack was killed by SIGILL",
    1002: "corrupt: message is not JSON",
    1003: "corrupt: a message is longer than 65536 bytes",
    1007: 'corrupt: message "verified" is not expected here',
    1009: r"corrupt: \x1b[2Jowned\x07",
    1020: "corrupt: triton-unpack lies: the diffID is not what was asked for",
    1021: "corrupt: triton-unpack lies: more was unpacked than was asked for",
    1022: "corrupt: a role has ended without an answer",
}


@pytest.mark.parametrize("lie", UNPACK)
def test_unpacker_that_lies(lie, tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "blob").write_bytes(archive(entry("x", b"")))
    answer = tool("unpack", tmp_path / "blob", tmp_path / "root", f"entries={lie}", f"diffid={EMPTY}", libexec=LIAR)
    assert answer.split("\n")[0] == UNPACK[lie]


def test_unpacker_that_hangs_is_noticed(tmp_path):
    """It reports ten times a second, and has six hours for an archive."""
    (tmp_path / "root").mkdir()
    (tmp_path / "blob").write_bytes(archive(entry("x", b"")))
    begun = time.monotonic()
    answer = tool("unpack", tmp_path / "blob", tmp_path / "root", "entries=1024", libexec=LIAR)
    assert answer == "timeout: triton-unpack hangs: it is silent"
    assert 29 < time.monotonic() - begun < 60 * FACTOR


def test_unpacker_that_fills_the_disk_is_ended(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "blob").write_bytes(archive(entry("x", b"")))
    answer = tool("unpack", tmp_path / "blob", tmp_path / "root", "entries=1024", f"free={1 << 62}", libexec=LIAR)
    assert answer.startswith("exhausted: cannot unpack: No space left on device: ")


def test_unpacker_cannot_change_the_files_that_it_was_handed(tmp_path):
    """/dev/null and the archive belong to root, whose id is in its user namespace. Each change would leave them as they are."""
    (tmp_path / "root").mkdir()
    (tmp_path / "blob").write_bytes(archive(entry("x", b"")))
    answer = tool("unpack", tmp_path / "blob", tmp_path / "root", "entries=1023", libexec=LIAR)
    assert answer == "refused: " + "Read-only file system " * 6


# A downloader in an attacker's hands: it has pipes, and nothing else.


def test_downloader_goes_on_after_the_end(tmp_path):
    """What it writes after its range is full goes nowhere: its pipe is closed, and the file is what was asked for."""
    os.mkfifo(tmp_path / "pipe")
    data = os.urandom(100_000)
    outcome = []

    def write():
        fd = os.open(tmp_path / "pipe", os.O_WRONLY)
        try:
            while True:
                os.write(fd, data)
        except BrokenPipeError:
            outcome.append("closed")
        finally:
            os.close(fd)

    writer = threading.Thread(target=write)
    writer.start()
    answer = tool("receive", tmp_path / "file", 200_000, f"digest={sha256(data)}", f"range=0+{len(data)}={tmp_path / 'pipe'}", f"end={len(data)}")
    writer.join(20)
    assert answer.startswith('{"verified":') and outcome == ["closed"]
    assert (tmp_path / "file").read_bytes() == data


@pytest.mark.parametrize("second", ["10000+40000", "0+50000", "49999+1", "0+1"])
def test_ranges_do_not_overlap(second, tmp_path):
    """What was hashed must not be written again: else good bytes are verified, and other bytes are in the file."""
    offset, length = map(int, second.split("+"))
    good = b"g" * 50_000
    (tmp_path / "one").write_bytes(good)
    (tmp_path / "two").write_bytes(b"b" * length)
    words = [f"range=0+50000={tmp_path / 'one'}", f"range={second}={tmp_path / 'two'}", "end=50000"]
    assert tool("receive", tmp_path / "file", 50_000, f"digest={sha256(good)}", *words) == "corrupt: ranges overlap"


def test_range_does_not_overlap_what_was_there(tmp_path):
    (tmp_path / "file").write_bytes(b"g" * 100)
    (tmp_path / "one").write_bytes(b"b" * 51)
    words = ["landed=0+50", f"range=49+51={tmp_path / 'one'}", "end=100"]
    assert tool("receive", tmp_path / "file", 100, *words) == "corrupt: ranges overlap"


@pytest.mark.parametrize("piece", [1, 7, 4096])
def test_downloader_that_trickles(piece, tmp_path):
    """Many small writes cost it more than us."""
    os.mkfifo(tmp_path / "pipe")
    data = os.urandom(piece * 500)

    def write():
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            for at in range(0, len(data), piece):
                pipe.write(data[at : at + piece])

    writer = threading.Thread(target=write)
    writer.start()
    answer = tool("receive", tmp_path / "file", len(data), f"digest={sha256(data)}", f"range=0={tmp_path / 'pipe'}", f"end={len(data)}")
    writer.join(20)
    assert answer.startswith('{"verified":'), answer


def test_too_many_ranges(tmp_path):
    words = []
    ended = threading.Event()
    for number in range(17):
        os.mkfifo(tmp_path / str(number))
        holder = threading.Thread(target=hold, args=(tmp_path / str(number), ended), daemon=True)
        holder.start()
        words.append(f"range={number}+1={tmp_path / str(number)}")
    assert tool("receive", tmp_path / "file", 100, *words, "end=17") == "corrupt: too many ranges at a time"
    ended.set()


def hold(path, ended):
    """A pipe that stays open without a byte until the receiver has ended."""
    fd = os.open(path, os.O_WRONLY)
    ended.wait()
    os.close(fd)

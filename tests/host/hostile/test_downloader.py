"""A compromised triton-download (tests/host/helpers/evil_download.cpp) lies, floods, holds descriptors and dies. It can delay, and
nothing more: no wrong byte becomes a blob, nothing hangs, and what it says does not reach a terminal as it is."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from content_place import BUILD, needs_root, place  # noqa: E402, F401 (fixture)
from fault_server import digest_of  # noqa: E402

pytestmark = needs_root
SIZE = 100_000
WANTED = b"g" * SIZE
EVIL = b"e" * SIZE  # what it gives

# attack -> the kind of the error
ATTACKS = {
    "lies-about-the-digest": "corrupt",
    "writes-after-done": "corrupt",
    "gives-more": "corrupt",
    "gives-less": "unavailable",
    "says-nothing-and-gives": "unavailable",
    "answers-twice": "corrupt",
    "is-done-twice": "corrupt",
    "of-another": "unavailable",
    "other-size": "corrupt",
    "huge-size": "corrupt",
    "exits": "corrupt",
    "crashes": "corrupt",
    "nonsense": "corrupt",
    "unknown-message": "corrupt",
    "descriptors": "corrupt",
    "floods": "unavailable",
    "escape-in-the-reason": "notFound",
    "transient-for-ever": "unavailable",
    "far-future": "busy",
}


@pytest.fixture
def evil(place):
    directory = place.directory / "libexec"
    directory.mkdir()
    shutil.copy(BUILD / "tests/host/evil_download", directory / "triton-download")
    os.symlink(BUILD / "triton-verify", directory / "triton-verify")

    def fetch(attack, **words):
        line = place.command("fetch", url=f"http://evil/{attack}", **{"attempts": 2, "stall": 1000, **words})
        return subprocess.run(line, capture_output=True, text=True, timeout=100, env={**os.environ, "TRITON_LIBEXEC": str(directory)}).stdout

    return fetch


@pytest.mark.parametrize("attack", ATTACKS)
def test_it_can_delay_and_nothing_more(place, evil, attack):
    output = evil(attack, size=SIZE, digest=digest_of(WANTED))
    result = json.loads(output.splitlines()[-1])
    assert result.get("error") in (ATTACKS[attack], "unavailable"), result
    assert place.blobs() == []
    assert "\x1b" not in result["text"] and "\n" not in result["text"]


def test_it_cannot_raise_the_limit(place, evil):
    """Not even for what has no known size, such as a manifest."""
    result = json.loads(evil("other-size", most=SIZE).splitlines()[-1])
    expected = f"cannot fetch http://evil/other-size: the server has {7 * SIZE} bytes, and at most {SIZE} may come"
    assert (result["error"], result["text"]) == ("corrupt", expected)
    assert place.blobs() == []


@pytest.mark.parametrize("attack", ["holds-the-pipe", "is-silent"])
def test_silence_ends(place, evil, attack):
    result = json.loads(evil(attack, size=SIZE, digest=digest_of(WANTED), attempts=1, silence=1000).splitlines()[-1])
    expected = {"holds-the-pipe": "triton-download does not close its pipe", "is-silent": "triton-download does not answer"}[attack]
    assert (result["error"], result["text"]) == ("timeout", f"cannot fetch http://evil/{attack}: {expected}")
    assert place.blobs() == []


@pytest.mark.parametrize("attack", ["lies-about-the-digest", "writes-after-done", "answers-twice", "is-done-twice"])
def test_right_bytes_are_right_whatever_it_says(place, evil, attack):
    result = json.loads(evil(attack, size=SIZE, digest=digest_of(EVIL)).splitlines()[-1])
    assert result["digest"] == digest_of(EVIL)
    assert place.content(result["digest"]) == EVIL

"""The content store is killed at every system call that changes a file, and at each the next command finds a store that is whole:
what was there is there, what was half done is finished or gone, and the same command succeeds."""

import collections
import json
import re
import shutil
import subprocess
import tempfile

import pytest
from content_place import BUILD, TOOL, Place, needs_root, place  # noqa: F401 (fixture)
from fault_server import FaultServer, digest_of

pytestmark = [needs_root, pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")]

DURABLE = ("pwrite64", "write", "fsync", "fdatasync", "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat",
           "ftruncate", "fallocate", "fchmod")  # fmt: skip
CONTENT = b"content" * 1000
OTHER = b"other" * 1000


def prepared(directory, command):
    """A store before the command."""
    place = Place(directory)
    for name, content in (("one", CONTENT), ("two", OTHER)):
        (place.directory / name).write_bytes(content)
    if command == "open":
        return place
    place.run("put", file=place.directory / "two", owner="keeper")
    if command != "put":
        place.run("put", file=place.directory / "one")
    return place


COMMANDS = {
    "open": ("list", {}),
    "put": ("put", {"file": "one", "owner": "me"}),
    "gc": ("gc", {}),
    "quarantine": ("quarantine", {"digest": digest_of(CONTENT)}),
    "release": ("release", {"owner": "keeper"}),
    "scrub": ("scrub", {}),
}


def words_of(place, words):
    return {name: place.directory / value if name == "file" else value for name, value in words.items()}


def calls_of(command):
    """How often the command makes each durable call."""
    with tempfile.TemporaryDirectory(prefix="triton-crash.") as directory:
        place = prepared(directory, command)
        name, words = COMMANDS[command]
        trace = f"{directory}/trace"
        prefix = ["strace", "-o", trace, "-e", "trace=" + ",".join(f"?{call}" for call in DURABLE)]
        place.finish(place.start(name, prefix=prefix, **words_of(place, words)))
        with open(trace) as lines:
            return collections.Counter(match[1] for match in (re.match(r"(\w+)\(", line) for line in lines) if match)


def assert_whole(place, command):
    assert place.run("check") == []
    digests = {blob["digest"]: blob["quarantined"] for blob in place.run("list")}
    files = {"sha256:" + name for name in place.blobs()}
    good = {digest for digest, why in digests.items() if not why}
    assert good == files, "rows and files differ"
    if command != "open":
        assert digest_of(OTHER) in files


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kill_at_any_step_is_mended_by_the_next_command(command):
    name, words = COMMANDS[command]
    killed = 0
    for call, count in sorted(calls_of(command).items()):
        # Each page of a transaction is a write: all are tried while they are few, and then some of them.
        steps = range(1, count + 1) if count <= 10 else sorted({1 + i * (count - 1) // 9 for i in range(10)})
        for step in steps:
            with tempfile.TemporaryDirectory(prefix="triton-crash.") as directory:
                place = prepared(directory, command)
                prefix = ["strace", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={step}"]
                process = place.start(name, prefix=prefix, **words_of(place, words))
                process.communicate(timeout=60)
                killed += process.returncode != 0
                assert_whole(place, command)
                last = place.run(name, **words_of(place, words))
                assert not any("error" in line for line in last), (call, step, last)
                assert_whole(place, command)
                if command == "put":
                    assert digest_of(CONTENT) in {blob["digest"] for blob in place.run("list")}
                    place.run("gc", ingest_grace=0)
                    assert place.ingests() == []
    assert killed > 5


SHIFTED_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
static long shift(void) { char const* text = getenv("CLOCK_SHIFT"); return text ? atol(text) : 0; }
time_t time(time_t* out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
int clock_gettime(clockid_t clock, struct timespec* out) {
    int (*real)(clockid_t, struct timespec*) = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, out);
    if (clock == CLOCK_REALTIME) out->tv_sec += shift();
    return result;
}
"""


@pytest.mark.parametrize("years", [-20, 20])
def test_a_jump_of_the_wall_clock_collects_nothing(place, years):
    library = place.directory / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=SHIFTED_CLOCK, text=True, check=True)
    jumped = ["env", f"LD_PRELOAD={library}", f"CLOCK_SHIFT={years * 31_536_000}"]
    (place.directory / "one").write_bytes(CONTENT)
    (place.directory / "two").write_bytes(OTHER)
    place.run("put", file=place.directory / "one", lease=3_600_000)
    place.run("begin", key="interrupted")
    blob = place.finish(place.start("put", prefix=jumped, file=place.directory / "two", lease=3_600_000))
    assert blob[-1]["digest"] == digest_of(OTHER)
    assert place.finish(place.start("gc", prefix=jumped)) == []
    assert place.run("gc") == []
    assert len(place.blobs()) == 2 and len(place.ingests()) == 1


# Disk full.


def in_small_file_system(place, script, options):
    """Runs a script in a mount namespace of its own; what it prints. $store is in a small file system, `tool` drives it."""
    setup = f"""
        mount -t tmpfs -o {options} none {place.directory}
        store={place.store}
        export TRITON_LIBEXEC={BUILD}
        tool() {{ {TOOL} $store "$@" | tail -n 1; }}
    """
    done = subprocess.run(["unshare", "-m", "bash", "-uec", setup + script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def server():
    with FaultServer() as started:
        yield started


def test_what_does_not_fit_is_refused_before_it_comes(place, server):
    content = bytes(6 << 20)
    server.file("/blob", content)
    fetch = f"tool fetch url={server.url('/blob')} digest={digest_of(content)} size={len(content)}"
    first, second = in_small_file_system(place, f"{fetch}; mount -o remount,size=12M {place.directory}; {fetch}", "size=4M")
    assert first["error"] == "exhausted"
    assert re.fullmatch(rf"cannot store {digest_of(content)}: {len(content)} bytes are needed beside \d+ bytes that stay free, and \d+ are free", first["text"])
    assert second["digest"] == digest_of(content)
    assert len(server.requests) == 1


def test_a_disk_that_fills_up_meanwhile_is_told_and_the_rest_is_kept(place, server):
    content = bytes(6 << 20)
    blob = digest_of(content)

    def serve(request):
        request.begin(200, None, Connection="close")
        request.body(content)
        request.close_connection = True

    server.on("/blob", serve)
    fetch = f"tool fetch url={server.url('/blob')} digest={blob}"
    script = f"{fetch} attempts=1; tool check; mount -o remount,size=12M {place.directory}; {fetch}"
    first, second = in_small_file_system(place, script, "size=4M")
    assert (first["error"], "No space left on device" in first["text"]) == ("exhausted", True)
    assert second["digest"] == blob


def test_without_inodes_nothing_is_begun(place, server):
    server.file("/blob", CONTENT)
    fetch = f"tool fetch url={server.url('/blob')} digest={digest_of(CONTENT)} size={len(CONTENT)}"
    script = f"""
        tool list
        (for i in $(seq 100); do : >{place.directory}/file$i; done) 2>/dev/null || true
        {fetch}
        rm {place.directory}/file[1-9]
        {fetch}
        rm {place.directory}/file*
        {fetch}
    """
    first, second, third = in_small_file_system(place, script, "size=8M,nr_inodes=90")
    assert first["error"] == "exhausted" and "No space left on device" in first["text"], first
    assert second["error"] == "exhausted" and "inodes are free, and 64 must stay so" in second["text"]
    assert third["digest"] == digest_of(CONTENT)


def test_a_full_disk_at_each_step_of_a_commit_leaves_a_store_that_works(place):
    """From no room at all up to enough of it, in small steps."""
    script = f"""
        head -c 200000 /dev/urandom >/dev/shm/triton-full.$$
        tool list
        for room in 0 4 8 16 32 64 128 192 208 256 512 1024; do
            rm -f {place.directory}/ballast
            free=$(df --output=avail -k {place.directory} | tail -n 1)
            head -c $(((free - room) * 1024)) /dev/zero >{place.directory}/ballast
            tool put file=/dev/shm/triton-full.$$ least-free=0
            tool check
        done
        rm /dev/shm/triton-full.$$
    """
    results = in_small_file_system(place, script, "size=6M")
    outcomes = [line.get("error", "stored") for line in results]
    assert set(outcomes) <= {"exhausted", "stored"}, results
    assert outcomes[0] == "exhausted" and outcomes[-1] == "stored"

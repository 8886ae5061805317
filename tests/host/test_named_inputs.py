"""Files that imgadm and vmadm read because an operator names them: also pipes, which a shell's <(...) is."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import termios
import time

import pytest
from image_place import BUILD

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="vmadm is for root")
PATIENCE = 60
READING = [["imgadm", "create", "/etc", "-m"], ["imgadm", "install", "-f", "/etc/hostname", "-m"], ["vmadm", "validate", "create", "-f"]]


@pytest.fixture
def start(tmp_path):
    (tmp_path / "etc/triton").mkdir(parents=True)
    (tmp_path / "etc/triton/triton.json").write_text(json.dumps({"storage": {"backend": "directory"}}))
    started = []

    def start_one(words, **more):
        process = subprocess.Popen([BUILD / words[0], *words[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=os.environ | {"TRITON_ROOT": str(tmp_path), "TRITON_LIBEXEC": str(BUILD)}, **more)
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def wait_until_read(pipe, process):
    deadline = time.monotonic() + PATIENCE
    while struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, struct.pack("i", 0)))[0] and process.poll() is None:
        assert time.monotonic() < deadline
        os.sched_yield()


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_pipe_is_read_to_its_end(start, words):
    read, write = os.pipe()
    process = start([*words, f"/dev/fd/{read}"], pass_fds=[read])
    with os.fdopen(write, "w") as whole:
        whole.write("[")
        whole.flush()
        wait_until_read(read, process)
        os.close(read)
        assert process.poll() is None, process.communicate()
        whole.write("]")
    text = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 1 and "expected an object" in text and text.endswith(", found array\n")
    if words[0] == "vmadm":
        assert text == f"/dev/fd/{read}: Invalid JSON payload: expected an object, found array\n"


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_the_wait_for_a_fifo_can_be_interrupted(start, tmp_path, words):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = start([*words, fifo])
    with fifo.open("w"):  # opens once it is read from
        process.terminate()  # SIGINT is ignored in a background job
        assert process.wait(PATIENCE) == -signal.SIGTERM

"""imgadm, vmadm and vminfo with standard descriptors that are closed, or that take nothing."""

import json
import os
import subprocess

import pytest
from image_place import BUILD

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="vmadm is for root")
PATIENCE = 60
PRINTING = [["imgadm", "list"], ["imgadm", "--help"], ["imgadm", "help", "list"], ["imgadm", "--version"], ["vmadm", "list"], ["vmadm", "--help"],
            ["vmadm", "help", "list"], ["vmadm", "--version"], ["vminfo", "--help"], ["vminfo", "--version"]]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "etc/triton").mkdir(parents=True)
    (tmp_path / "etc/triton/triton.json").write_text(json.dumps({"storage": {"backend": "directory"}}))
    return tmp_path


def shell(root, script, *words):
    return subprocess.run(["sh", "-c", script, "sh", BUILD / words[0], *words[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=PATIENCE, env=os.environ | {"TRITON_ROOT": str(root), "TRITON_LIBEXEC": str(BUILD)})


@pytest.mark.parametrize("words", [["imgadm", "create", "/tmp", "-m"], ["vmadm", "validate", "create", "-f"]], ids=" ".join)
def test_no_file_gets_the_number_of_a_closed_descriptor(root, words):
    """What is printed would be written into it."""
    fifo = root / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", BUILD / words[0], *words[1:], fifo],
                               env=os.environ | {"TRITON_ROOT": str(root), "TRITON_LIBEXEC": str(BUILD)})
    try:
        with fifo.open("w") as payload:  # opens once it is read from
            numbers = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)]
            payload.write("no JSON")
        assert numbers == ["/dev/null"] * 3
        assert process.wait(PATIENCE) == 1
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
@pytest.mark.parametrize(("output", "reason"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")])
def test_output_that_is_lost_is_an_error(root, words, output, reason):
    done = shell(root, f'exec "$@" {output}', *words)
    assert done.returncode == 1
    assert reason in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_reader_that_has_gone_is_not_an_error(root, words):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = subprocess.run([BUILD / words[0], *words[1:]], stdin=subprocess.DEVNULL, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=PATIENCE,
                              env=os.environ | {"TRITON_ROOT": str(root)})
    assert done.returncode == 0

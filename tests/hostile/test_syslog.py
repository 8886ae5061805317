"""Syslog sockets that belong to somebody else, and daemons that mean no good: PID 1 goes on, and so do the programs."""

import os
import socket
import threading
import time

import pytest

from harness.process import Exit, eventually
from harness.programs import probe, run, service

SOMEBODY = 4711


def to_syslog(path, *steps, **keys):
    return probe("tag:web", "trap", *steps, "say:up", "until:15", output={"syslog": {"address": f"unix:{path}"}}, **keys)


def assert_responsive(launcher):
    """A question is answered at once, whatever goes on."""
    began = time.monotonic()
    launcher.ctl("status", "web")
    assert time.monotonic() - began < 5, launcher.story()


@pytest.fixture(name="theirs")
def make_theirs(area):
    """A directory of somebody else."""
    path = area / "theirs"
    path.mkdir()
    os.chown(path, SOMEBODY, SOMEBODY)
    path.chmod(0o777)
    return path


def listening(path, kind=socket.SOCK_DGRAM):
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind(str(path))
    os.chmod(path, 0o666)
    return made


def put_link(path, target):
    path.symlink_to(target)
    os.lchown(path, SOMEBODY, SOMEBODY)


def put_fifo(path, _target):
    os.mkfifo(path)


def put_file(path, _target):
    path.write_text("")


def put_directory(path, _target):
    path.mkdir()


@pytest.mark.parametrize("put", [put_link, put_fifo, put_file, put_directory])
def test_something_else_in_its_place(place, theirs, needs_root, put):
    """A link of somebody else could lead lines into any socket that only we may write to; a FIFO could hold us up."""
    with listening(place.area / "victim") as victim:
        victim.setblocking(False)
        path = theirs / "log"
        put(path, place.area / "victim")
        launcher = run(place, {"web": to_syslog(path, "print:secret")})
        launcher.wait_up()
        failed = launcher.wait_for_event("output-failed", program="web")
        assert failed["error"].startswith(f"cannot connect to {path}: ")
        assert_responsive(launcher)
        with pytest.raises(BlockingIOError):
            victim.recv(1000)
        assert path.is_symlink() or path.stat().st_size in (0, 4096) or path.is_dir()
        assert launcher.stop() == Exit(code=0)


def test_a_link_of_root_is_followed(place, theirs, needs_root):
    """As /dev/log is one where systemd runs."""
    with listening(place.area / "real") as real:
        real.settimeout(20)
        (place.area / "log").symlink_to(place.area / "real")
        launcher = run(place, {"web": to_syslog(place.area / "log", "print:hello")})
        assert real.recv(1000).endswith(b"hello")
        assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["datagram", "stream"])
def test_a_daemon_that_never_reads(place, kind):
    """Lines beyond the limit are dropped and counted; nobody waits."""
    path = place.area / "log"
    with listening(path, kind) as daemon:
        if kind == socket.SOCK_STREAM:
            daemon.listen(1)
        launcher = run(place, {"web": to_syslog(path, "flood:20480000", "say:flooded"), "other": service("other")})
        launcher.wait_up(tag="other")
        launcher.wait_for_probe("say", text="flooded")
        launcher.wait_for_event("output-dropped", program="web")  # at once, and then now and then
        assert_responsive(launcher)
        assert launcher.stop() == Exit(code=0)
        lost = sum(record["messages"] for record in launcher.events_named("syslog-lost"))
        dropped = sum(record["lines"] for record in launcher.events_named("output-dropped"))
        assert 0 < lost < 1000 and len(launcher.events_named("output-dropped")) <= 3
        assert 0 < 20480000 // 4096 - lost - dropped < 300  # what the kernel keeps for a daemon


def test_lines_are_sent_or_counted(place):
    """A daemon that begins to read in the middle of a flood: what is not there is in the log, by its number."""
    path = place.area / "log"
    size = 8_192_000
    with listening(path) as daemon:
        launcher = run(place, {"web": to_syslog(path, f"flood:{size}", "say:flooded")})
        launcher.wait_for_probe("say", text="flooded")
        got = 0
        daemon.setblocking(False)

        def complete():
            nonlocal got
            while True:
                try:
                    got += daemon.recv(65536).endswith(b"x" * 4095)
                except BlockingIOError:
                    break
            launcher.events.drain()
            return got + sum(record["lines"] for record in launcher.events_named("output-dropped")) == size // 4096

        eventually(complete, "each line comes or is counted")
        assert launcher.stop() == Exit(code=0)


def test_a_daemon_that_hangs_up_all_the_time(place):
    """It is looked for once in a second, not in a loop; and told of once, not each time."""
    path = place.area / "log"
    accepted = 0
    with listening(path, socket.SOCK_STREAM) as daemon:
        daemon.listen(64)

        def serve():
            nonlocal accepted
            while True:
                try:
                    connection = daemon.accept()[0]
                except OSError:
                    return
                accepted += 1
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        launcher = run(place, {"web": {"command": ["/bin/sh", "-c", "while :; do echo line; sleep 0.01; done"],
                                       "output": {"syslog": {"address": f"unix:{path}"}}}})
        launcher.wait_for_event("output-failed", program="web")
        began = time.monotonic()
        eventually(lambda: accepted >= 4, "it is tried again and again")
        elapsed = time.monotonic() - began
        assert accepted <= 3 + elapsed * 1.5
        launcher.events.drain()
        assert len(launcher.events_named("output-failed")) <= 2
        assert_responsive(launcher)
        daemon.shutdown(socket.SHUT_RDWR)
        assert launcher.stop() == Exit(code=0)


def test_a_daemon_that_sends_descriptors(place):
    """What it sends would be closed by PID 1, which may take long for a file on a slow file system: nothing arrives."""
    path = place.area / "log"
    with listening(path, socket.SOCK_STREAM) as daemon:
        daemon.listen(1)
        daemon.settimeout(20)
        launcher = run(place, {"web": to_syslog(path, "print:hello")})
        connection, _ = daemon.accept()
        with connection, open(os.devnull, encoding="ascii") as file, pytest.raises(BrokenPipeError):
            socket.send_fds(connection, [b"x"], [file.fileno()])
        launcher.wait_up()
        assert_responsive(launcher)
        assert launcher.stop() == Exit(code=0)

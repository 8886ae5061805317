"""What clients of the stream server, attached clients and a stream server that was taken over may try."""

import array
import os
import re
import select
import signal
import socket
import struct
import sys
import time
import zlib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from image_place import area, needs_root  # noqa: E402, F401 (fixtures)
from pod_place import busybox, command_of, family_of, pods  # noqa: E402, F401 (fixture)
from stream_clients import DICTIONARY, GOAWAY, PATIENCE, SYN_STREAM, Command, Refused, Spdy, connect, exit_code_of, open_spdy, open_websocket  # noqa: E402
from test_pod_streams import Streams, idle, image, streams  # noqa: E402, F401 (fixtures)

pytestmark = needs_root


def server_of(pods):
    (pid,) = [pid for pid in family_of(pods.pid) if (command := command_of(pid)) and command[0] == "triton-cri-stream"]
    return pid


def status_of(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def wait_until(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        select.select([], [], [], 0.02)


def still_served(streams, idle):
    assert exit_code_of(streams.run(idle, "sh", "-c", "exit 6").status()) == 6


def test_the_server_has_no_rights(pods, streams, idle):
    pid = server_of(pods)
    status = status_of(pid)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["Seccomp"], status["NoNewPrivs"], status["Groups"].strip()) == ("2", "1", "")
    assert set(status["Uid"].split()) == {"64904"} and set(status["Gid"].split()) == {"64904"}
    own = {name: os.readlink(f"/proc/{pods.pid}/ns/{name}") for name in ("user", "pid", "mnt", "net", "ipc", "uts")}
    assert not [name for name, value in own.items() if os.readlink(f"/proc/{pid}/ns/{name}") == value]
    assert os.listdir(f"/proc/{pid}/root") == []
    targets = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert all(re.match(r"socket:|anon_inode:|/dev/null|/$|/null", one) for one in targets), targets


def test_tokens_are_not_guessed_and_not_used_twice(streams, idle):
    url = streams.exec_url(idle, "true")
    base, token = url.rsplit("/", 1)
    assert re.fullmatch("[0-9a-f]{64}", token)
    wrong = ["0" * 64, token[:-1], token + "0", token.upper() if token.upper() != token else "g" * 64, "../" + token, "", "%00" * 21]
    for one in wrong:
        with pytest.raises(Refused) as refused:
            open_spdy(streams.inside, f"{base}/{one}")
        assert refused.value.status == 404
    with pytest.raises(Refused):
        open_spdy(streams.inside, url.replace("/exec/", "/portforward/"), ("portforward.k8s.io",))
    with pytest.raises(Refused) as refused:  # that has used it up: whoever had it has had their one try
        open_spdy(streams.inside, url)
    assert refused.value.status == 404
    url = streams.exec_url(idle, "true")
    first = Command(open_spdy(streams.inside, url))
    with pytest.raises(Refused):
        open_spdy(streams.inside, url)
    assert exit_code_of(first.status()) == 0


def test_strangers_give_way(streams, idle):
    """Connections that say nothing, or half of something, take no room from those that do."""
    silent = []
    for number in range(200):
        connection, _ = connect(streams.inside, streams.attach_url(idle)) if number == 0 else (
            streams.inside(lambda: socket.create_connection(silent[0].getpeername())), None)
        connection.sendall(b"POST /exec/" if number % 2 else b"")
        silent.append(connection)
    still_served(streams, idle)
    # The oldest were sent away.
    assert silent[0].recv(10) == b""
    connection, _ = connect(streams.inside, streams.attach_url(idle))
    connection.sendall(b"GET /" + b"x" * 20_000)
    assert connection.recv(100).startswith(b"HTTP/1.1 431 ")


def test_bombs_and_lies_of_spdy_end_their_connection_alone(streams, idle):
    packer = zlib.compressobj(9, zlib.DEFLATED, 15, 8, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
    bomb = packer.compress(struct.pack(">I", 0xFFFFFFFF) + b"\0" * (10 << 20)) + packer.flush(zlib.Z_SYNC_FLUSH)
    assert len(bomb) < 16_000
    head = struct.pack(">IIBB", 1, 0, 0, 0)
    syn = struct.pack(">II", 0x80030000 | SYN_STREAM, len(head + bomb)) + head + bomb
    for attack in (syn, struct.pack(">II", 0x80030000 | SYN_STREAM, 0xFFFFFF), struct.pack(">II", 0x80020001, 10), b"\xff" * 8):
        spdy = open_spdy(streams.inside, streams.exec_url(idle, "true"))
        spdy.send_bytes(attack)
        spdy.wait(lambda: spdy.goaway is not None)
        assert spdy.goaway[1] == 1
        spdy.wait_over()
    before = int(status_of(server_of(streams.pods))["VmRSS"].split()[0])
    spdy = open_spdy(streams.inside, streams.exec_url(idle, "true"))
    spdy.send_bytes(struct.pack(">II", 77, 0xFFFFFF) + b"x" * (8 << 20))  # data of no stream
    still_served(streams, idle)
    assert int(status_of(server_of(streams.pods))["VmRSS"].split()[0]) < before + 4096
    spdy.close()


def test_a_flood_of_pings_from_a_client_that_does_not_read(streams, idle):
    connection, parts = connect(streams.inside, streams.exec_url(idle, "sleep", "1000"))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(f"POST {parts.path} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n".encode())
    pings = struct.pack(">III", 0x80030006, 4, 1) * 10_000
    connection.setblocking(False)
    sent = 0
    while select.select([], [connection], [], 1)[1] and sent < 64 << 20:
        sent += connection.send(pings)
    assert sent < 64 << 20, "it is not read from as long as it takes no answers"
    assert int(status_of(server_of(streams.pods))["VmRSS"].split()[0]) < 32 * 1024
    still_served(streams, idle)
    connection.close()


def test_an_attached_client_that_does_not_read_delays_others_once(streams, pods, image):
    line = "x" * 4000
    script = f"while read word; do i=0; while [ $i -lt 100 ]; do echo {line}; i=$((i+1)); done; echo $word; [ $word != end ] || exit 0; done"
    container = pods.run_container(pods.run_pod(), image, "sh", "-c", script, stdin=True)
    connection, parts = connect(streams.inside, streams.attach_url(container, stderr=False))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    slow = WaitingClient(connection, parts)
    quick = streams.attach(container, stdin=True)
    began = time.monotonic()
    for number in range(30):  # 12 MB, each part of which the quick one has seen
        quick.spdy.send(quick.stdin, b"round%d\n" % number)
        quick.spdy.wait_for(quick.stdout, b"\nround%d\n" % number)
    assert time.monotonic() - began < 60  # it was waited for 10 s, and not each time
    pods.wait_for_log(container, "round29")
    assert pods.text_of(container).count("\n") == 30 * 101
    quick.spdy.send(quick.stdin, b"end\n")
    assert exit_code_of(quick.status()) == 0
    assert re.search(rb"the client has read too slowly: \d+ bytes of output were lost", slow.read_all())


class WaitingClient:
    """An attached client of a WebSocket that reads nothing until it is asked to."""

    def __init__(self, connection, parts):
        self.connection = connection
        connection.sendall(f"GET {parts.path} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 101"

    def read_all(self):
        text = b""
        while piece := self.connection.recv(1 << 20):
            text += piece
        return text


def test_a_command_that_reads_nothing_holds_up_its_client_alone(streams, idle):
    command = streams.run(idle, "sleep", "1000", stdin=True)
    command.spdy.connection.setblocking(False)
    sent = 0
    piece = struct.pack(">II", command.stdin, 32768) + b"x" * 32768
    while select.select([], [command.spdy.connection], [], 1)[1] and sent < 64 << 20:
        sent += command.spdy.connection.send(piece[sent % len(piece):])
    assert sent < 64 << 20
    still_served(streams, idle)
    server = server_of(streams.pods)
    descriptors = len(os.listdir(f"/proc/{server}/fd"))
    command.spdy.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    command.spdy.close()  # is noticed although nobody reads from it
    wait_until(lambda: len(os.listdir(f"/proc/{server}/fd")) < descriptors)


def test_a_forwarded_port_that_reads_nothing_does_not_end_the_others(streams, pods, image):
    pod = pods.run_pod()
    pods.run_container(pod, image, "nc", "-ll", "-p", "8081", "-e", "sleep", "1000", name="deaf")
    pods.run_container(pod, image, "nc", "-ll", "-p", "8082", "-e", "cat", name="echo")
    wait = pods.run_container(pod, image, "sh", "-c", "for port in 1F91 1F92; do until grep -q :$port /proc/net/tcp*; do sleep 0.05; done; done", name="wait")
    assert pods.wait_for_end(wait).exit_code == 0
    spdy = open_spdy(streams.inside, streams.forward_url(pod), ("portforward.k8s.io",))
    deaf, data = (spdy.open(port="8081", requestid="1", streamtype=kind) for kind in ("error", "data"))
    echo_error, echo = (spdy.open(port="8082", requestid="2", streamtype=kind) for kind in ("error", "data"))
    spdy.send(echo, b"before")
    spdy.wait_for(echo, b"before")
    for _ in range(512):
        spdy.send(data, b"x" * 32768)
    spdy.send(echo, b" after")
    spdy.wait_for(echo, b"before after")
    assert b"the program behind the port does not read" in spdy.wait_finished(deaf)
    assert data in spdy.resets
    spdy.close()


def test_a_server_that_was_killed_is_started_again(streams, pods, idle):
    command = streams.run(idle, "sh", "-c", "cat; sleep 1000", stdin=True)
    old = server_of(pods)
    os.kill(old, signal.SIGKILL)
    command.spdy.wait_over()
    wait_until(lambda: [pid for pid in family_of(pods.pid) if command_of(pid)[:1] == ["triton-cri-stream"] and pid != old])
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return still_served(streams, idle)
        except Exception:  # noqa: BLE001 (it is not there yet)
            assert time.monotonic() < until
            select.select([], [], [], 0.05)


# The server's side of a session, taken over. Messages are those of host/cri/monitor/message.h.
ATTACH, FORWARD, EXECUTE, CREATE, BEGIN, RESIZE, CONNECT, ANSWER, OPENED, ENDED, CONNECTED = 11, 12, 7, 2, 20, 21, 22, 100, 110, 111, 112


def packet(kind, numbers=(), container="", texts=(), sequence=1, version=1):
    numbers = [*numbers, *([0] * (5 - len(numbers)))]
    body = container.encode() + b"".join(struct.pack("<I", len(text)) + text.encode() for text in texts)
    return struct.pack("<IIQ5qII", version, kind, sequence, *numbers, len(container), len(texts)) + body


class TakenOver:
    """A session of a monitor, as the daemon opens it; its other end is the test's."""

    def __init__(self, pods, pod, kind, numbers=(), container="", texts=("",)):
        directory = f"/proc/{pods.lab.init}/root{pods.host.root}/run/triton/cri/pods/{pod}"
        self.daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = os.open(directory, os.O_PATH)
        self.daemon.connect(f"/proc/self/fd/{fd}/monitor.sock")
        os.close(fd)
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        self.daemon.settimeout(PATIENCE)
        with theirs:
            self.daemon.sendmsg([packet(kind, numbers, container, texts)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))])
        self.answer = self.read(self.daemon)

    @staticmethod
    def read(connection):
        data, control, *_ = connection.recvmsg(65536, 4096)
        if not data:
            return None
        _, kind, sequence, *numbers = struct.unpack("<IIQ5q", data[:56])
        descriptors = array.array("i")
        for _, _, content in control:
            descriptors.frombytes(content)
        return kind, numbers, list(descriptors), data

    def is_closed_after(self, message, descriptors=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.socket.sendmsg([message], rights)
        while (answer := self.read(self.socket)) is not None:
            for fd in answer[2]:
                os.close(fd)
        return True

    def close(self):
        self.socket.close()
        self.daemon.close()


def test_a_server_that_was_taken_over_gets_no_more_than_its_ticket(streams, pods, idle):
    pod = pods.call("ListPodSandbox").items[0].id
    own_pipe = os.pipe()
    attacks = [packet(CONNECT, (80,)), packet(CREATE, (), "x", ["a"] * 9), packet(EXECUTE, (), idle, ["/etc/passwd"]), packet(9), packet(ATTACH, (7,), idle, [""]),
               packet(BEGIN, version=2), b"", b"x", b"x" * 65_000, packet(999), packet(RESIZE)[:-1]]
    for attack in filter(None, attacks):
        session = TakenOver(pods, pod, ATTACH, (2,), idle)
        assert session.answer[0] == ANSWER and session.answer[1][0] == 0
        assert session.is_closed_after(attack)
        session.close()
    session = TakenOver(pods, pod, ATTACH, (2,), idle)
    assert session.is_closed_after(packet(BEGIN), own_pipe)
    session.close()
    session = TakenOver(pods, pod, ATTACH, (2,), idle)  # asked for output alone
    session.socket.send(packet(BEGIN))
    kind, numbers, descriptors, _ = session.read(session.socket)
    assert (kind, numbers[0], len(descriptors)) == (OPENED, 2, 1)
    with pytest.raises(OSError):
        os.write(descriptors[0], b"x")
    assert session.is_closed_after(packet(BEGIN))
    os.close(descriptors[0])
    session.close()
    for port in (0, -1, 65_536):
        session = TakenOver(pods, pod, FORWARD)
        session.socket.send(packet(BEGIN))
        assert session.is_closed_after(packet(CONNECT, (port,)))
        session.close()
    for fd in own_pipe:
        os.close(fd)
    flood = TakenOver(pods, pod, FORWARD)
    flood.socket.send(packet(BEGIN))
    flood.socket.setblocking(False)
    with pytest.raises(OSError):  # it reads answers, or is closed
        for number in range(100_000):
            flood.socket.send(packet(CONNECT, (9,), sequence=number))
    flood.close()
    still_served(streams, idle)
    assert pods.is_ready(pod)


def test_sessions_of_a_pod_are_bounded(streams, pods, idle):
    pod = pods.call("ListPodSandbox").items[0].id
    sessions = []
    for _ in range(7):
        one = TakenOver(pods, pod, ATTACH, (2,), idle)
        one.socket.send(packet(BEGIN))
        assert one.read(one.socket)[0] == OPENED
        sessions.append(one)
        one.daemon.close()  # a monitor has few of these
    eighth, ninth = streams.attach(idle), streams.attach(idle)
    assert ninth.status()["message"] == "Internal error occurred: cannot attach to a container: it has 8 clients already"
    for one in sessions:
        one.close()
    eighth.spdy.close()
    still_served(streams, idle)

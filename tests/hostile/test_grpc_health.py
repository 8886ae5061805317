"""Attacks of whoever answers a gRPC health check: frames without end, fields that grow when they are unpacked, promises of
more than comes. The agent reads at most 64 KiB of an answer, keeps next to nothing of it, and others are answered meanwhile."""

import itertools
import os
import socket
import struct
import threading
import time

import pytest

from harness.agent import AGENT, Agent, Prober, probing_launcher, read_to_end
from harness.process import TIMEOUT, eventually, is_static

if not os.access(AGENT, os.X_OK):
    pytest.skip("TRITON_AGENT names no agent", allow_module_level=True)

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ACK, END_STREAM, END_HEADERS, PADDED = 1, 1, 4, 8
OK = b"\x88"  # :status 200
SERVING = b"\0\0\0\0\2\x08\1"
NOT_HTTP2 = "the answer is not HTTP/2"
TOO_LONG = "the answer is too long"
FIELDS_TOO_LONG = "the fields of the answer are too long"
NO_RESPONSE = "the answer is not a HealthCheckResponse"


def frame(kind, flags=0, stream=1, payload=b""):
    """As RFC 9113, 4.1 has it."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def length(size):
    """A length of HPACK, without Huffman (RFC 7541, 5.1)."""
    if size < 127:
        return bytes([size])
    out, size = bytearray([127]), size - 127
    while size >= 128:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes(out + bytes([size]))


def field(name, value, first=0):
    """A literal field with its name; 0x40: which the table keeps."""
    return bytes([first]) + length(len(name)) + name + length(len(value)) + value


GREETING = frame(SETTINGS, stream=0)
BEGIN = GREETING + frame(HEADERS, END_HEADERS, payload=OK)


def end(status=b"0", message=None):
    """The trailers."""
    fields = field(b"grpc-status", status) + (field(b"grpc-message", message) if message else b"")
    return frame(HEADERS, END_HEADERS | END_STREAM, payload=fields)


class Endless:
    """The same again and again, in pieces of some 8 kB, to everybody from the beginning."""

    def __init__(self, *frames, first=GREETING):
        piece = b"".join(frames)
        self.first, self.piece = first, piece * max(1, 8192 // len(piece))

    def __iter__(self):
        return itertools.chain([self.first], itertools.repeat(self.piece))


BOMB = field(b"x", b"y" * 4000, 0x40) + b"\xbe" * 12_000  # 48 MB when it is unpacked
INVALID_BOMB = field(b"x", b"y" * 3999 + b"\n", 0x40) + b"\xbe" * 12_000
SMALL_BOMB = field(b"x", b"", 0x40) + b"\xbe" * 12_000

ATTACKS = {
    "settings": (Endless(frame(SETTINGS, stream=0)), (NOT_HTTP2, TOO_LONG)),
    "pings": (Endless(frame(PING, stream=0, payload=bytes(8))), (NOT_HTTP2, TOO_LONG)),
    "priorities": (Endless(frame(PRIORITY, payload=bytes(4) + b"\1")), (NOT_HTTP2, TOO_LONG)),
    "windows": (Endless(frame(WINDOW_UPDATE, stream=0, payload=b"\0\0\0\1")), (NOT_HTTP2, TOO_LONG)),
    "window overflow": ([GREETING, frame(WINDOW_UPDATE, stream=0, payload=b"\x7f\xff\xff\xff") * 2], NOT_HTTP2),
    "resets": (Endless(frame(RST_STREAM, payload=b"\0\0\0\x08")), "the server has ended the call: CANCEL"),
    "resets of others": (Endless(frame(RST_STREAM, stream=3, payload=b"\0\0\0\x08")), (NOT_HTTP2, TOO_LONG)),
    "unknown frames": (Endless(frame(0xbe, stream=0, payload=bytes(100))), (NOT_HTTP2, TOO_LONG)),
    "continuations": (Endless(frame(CONTINUATION, payload=field(b"a", b"b")), first=GREETING + frame(HEADERS, payload=OK)),
                      (NOT_HTTP2, TOO_LONG)),
    "empty continuations": (Endless(frame(CONTINUATION), first=GREETING + frame(HEADERS, payload=OK)),
                            (NOT_HTTP2, TOO_LONG)),
    "continuation of nothing": ([GREETING, frame(CONTINUATION, END_HEADERS, payload=OK)], NOT_HTTP2),
    "fields without end": (Endless(frame(CONTINUATION, payload=field(b"grpc-message", b"x" * 8000)),
                                   first=GREETING + frame(HEADERS, payload=OK)), FIELDS_TOO_LONG),
    "bomb": ([GREETING, frame(HEADERS, END_HEADERS, payload=OK + BOMB), SERVING, end()], FIELDS_TOO_LONG),
    "bomb of what is no field": ([GREETING, frame(HEADERS, END_HEADERS, payload=OK + INVALID_BOMB)], FIELDS_TOO_LONG),
    "bomb of empty fields": ([GREETING, frame(HEADERS, END_HEADERS, payload=OK + SMALL_BOMB)], FIELDS_TOO_LONG),
    "bombs": (Endless(frame(HEADERS, END_HEADERS, payload=b"\x48\x03103" + BOMB)), FIELDS_TOO_LONG),
    "a table of 4 GB": ([GREETING, frame(HEADERS, END_HEADERS, payload=b"\x3f\xe1\xff\xff\xff\x0f" + OK)], NOT_HTTP2),
    "informational": (Endless(frame(HEADERS, END_HEADERS, payload=b"\x48\x03103")), FIELDS_TOO_LONG),
    "body without end": (Endless(frame(DATA, payload=bytes(1000)), first=BEGIN), (NOT_HTTP2, TOO_LONG)),
    "empty body without end": (Endless(frame(DATA), first=BEGIN), (NOT_HTTP2, TOO_LONG)),
    "padding without end": (Endless(frame(DATA, PADDED, payload=b"\xff" + bytes(255)), first=BEGIN), (NOT_HTTP2, TOO_LONG)),
    "body before the header": ([GREETING, frame(DATA, payload=SERVING)], NOT_HTTP2),
    "a frame of 16 MB": ([GREETING, b"\xff\xff\xff\0\0\0\0\0\1" + bytes(1000)], NOT_HTTP2),
    "a message of 4 GB": ([BEGIN, frame(DATA, payload=b"\0\xff\xff\xff\xff\x08\1"), end()], NO_RESPONSE),
    "a long message": ([BEGIN, frame(DATA, payload=b"\0\0\0\x20\0" + b"\x08\1" * 4096), end()], NO_RESPONSE),
    "compressed": ([BEGIN, frame(DATA, payload=b"\1" + SERVING[1:]), end()], NO_RESPONSE),
    "two messages": ([BEGIN, frame(DATA, payload=SERVING * 2), end()], NO_RESPONSE),
    "a varint without end": ([BEGIN, frame(DATA, payload=b"\0\0\0\0\x20\x08" + b"\xff" * 31), end()], NO_RESPONSE),
    "no message": ([BEGIN, end()], NO_RESPONSE),
    "trailers only": ([GREETING, frame(HEADERS, END_HEADERS | END_STREAM, payload=OK + field(b"grpc-status", b"0"))], NO_RESPONSE),
    "a failure by trailers only": ([GREETING, frame(HEADERS, END_HEADERS | END_STREAM,
                                                    payload=OK + field(b"grpc-status", b"12"))], "UNIMPLEMENTED"),
    "well, but for its end": ([BEGIN, frame(DATA, payload=SERVING), end(b"13", b"no")], "INTERNAL: no"),
    "no end": ([BEGIN, frame(DATA, END_STREAM, payload=SERVING)], "the answer has no grpc-status"),
    "a code of 100 digits": ([BEGIN, frame(DATA, payload=SERVING), end(b"0" * 99 + b"x")], "the answer has no grpc-status"),
    "a code beyond": ([BEGIN, frame(DATA, payload=SERVING), end(b"9" * 30)], "the answer has no grpc-status"),
    "escapes": ([BEGIN, end(b"2", b"\x1b]0;evil\x07")], "UNKNOWN"),
    "long words": ([BEGIN, end(b"2", b"\x9b2J" * 3000)], "UNKNOWN: \\x9b2J\\x9b2J"),
    "a pushed answer": ([GREETING, frame(SETTINGS, ACK, 0), frame(PUSH_PROMISE, END_HEADERS, payload=b"\0\0\0\2" + b"\x82\x84\x86")], NOT_HTTP2),
    "an answer to another": ([GREETING, frame(HEADERS, END_HEADERS | END_STREAM, 3, OK + field(b"grpc-status", b"0"))],
                             NOT_HTTP2),
    "a second header": ([BEGIN, frame(HEADERS, END_HEADERS | END_STREAM, payload=OK + field(b"grpc-status", b"0"))],
                        (NOT_HTTP2, "the server has ended the call")),
    "a goodbye": ([GREETING, frame(GOAWAY, stream=0, payload=bytes(7) + b"\x0b" + b"\x1b[2J" * 3000)],
                  "the server refuses the connection: ENHANCE_YOUR_CALM"),
}


class Enemy:
    """A server that says the same to everybody."""

    def __init__(self, pieces, pause=0.0):
        self.pieces, self.pause = pieces, pause
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.target = "127.0.0.1:" + str(self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        with peer:
            try:
                peer.settimeout(TIMEOUT)
                peer.recv(4096)
                for piece in self.pieces:
                    peer.sendall(piece)
                    if self.pause:
                        time.sleep(self.pause)
                while peer.recv(4096):  # whoever closes with something unread resets, and loses what was sent
                    pass
            except OSError:
                pass  # the agent had enough

    def close(self):
        """No more of it."""
        self.listener.close()


@pytest.fixture
def launcher():
    fake = probing_launcher()
    yield fake
    fake.close()


class Attacked(Prober):
    """Orders probes of an agent that serves others, too."""

    def __init__(self, fake):
        super().__init__(fake)
        self.agent = Agent("--probe-listen", "127.0.0.1:0", hand_over={"launcher": fake.broker.fileno()})
        self.port = int(self.agent.wait_for_event("probe-listening")["address"].rsplit(":", 1)[1])
        fake.wait_for(lambda: fake.called("Probes"), "the agent asks for probes")

    def slowest_ready(self, count=20):
        """The longest time that one of so many /readyz took."""
        slowest = 0.0
        for _ in range(count):
            begun = time.monotonic()
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert read_to_end(connection, 10).startswith(b"HTTP/1.1 ")
            slowest = max(slowest, time.monotonic() - begun)
        return slowest


@pytest.fixture
def prober(launcher):
    made = Attacked(launcher)
    yield made
    made.agent.close()


@pytest.fixture
def enemy():
    made = []

    def make(pieces, pause=0.0):
        made.append(Enemy(pieces, pause))
        return made[-1].target
    yield make
    for one in made:
        one.close()


def test_a_good_answer_is_one(prober, enemy):
    """What the attacks below are variations of."""
    assert prober.probe("grpc", enemy([BEGIN, frame(DATA, payload=SERVING), end()])) == (True, "")


@pytest.mark.parametrize("name", ATTACKS)
def test_an_answer_that_is_an_attack(prober, enemy, name):
    pieces, expected = ATTACKS[name]
    ok, detail = prober.probe("grpc", enemy(pieces))
    assert not ok and detail.startswith(expected), detail
    assert detail.isprintable() and len(detail) < 300
    assert prober.probe("grpc", enemy([BEGIN, frame(DATA, payload=SERVING), end()])) == (True, "")


@pytest.mark.parametrize("sent", [BEGIN + frame(DATA, payload=SERVING) + end(), b"\0"], ids=["well", "nothing"])
def test_byte_by_byte_is_too_late(prober, enemy, sent):
    """However it comes, there is one time for all of it."""
    target = enemy([bytes([byte]) for byte in sent], pause=0.02)
    assert prober.probe("grpc", target, timeout=0.3) == (False, "timed out")


def test_a_crowd_of_enemies_holds_nobody_up(prober, enemy):
    """As many as there are places, and more: all are answered, others too, and the memory is given back."""
    good = enemy([BEGIN, frame(DATA, payload=SERVING), end()])
    assert prober.probe("grpc", good) == (True, "")
    before = prober.agent.private_memory()
    silent = enemy([GREETING])
    targets = [enemy(ATTACKS[name][0]) for name in ("bombs", "bomb of what is no field", "pings", "fields without end", "body without end")]
    orders = [prober.order("grpc", targets[number % len(targets)]) for number in range(300)]
    orders += [prober.order("grpc", silent, timeout=2) for _ in range(100)]
    slowest = prober.slowest_ready()
    print(f"/readyz meanwhile: at most {slowest * 1000:.1f} ms")
    assert slowest < (1.0 if is_static(AGENT) else 10.0)
    prober.fake.wait_for(lambda: set(orders) <= set(prober.results()), "all are over")
    assert not any(ok for number, (ok, _) in prober.results().items() if number in orders)
    assert prober.probe("grpc", good) == (True, "")
    if is_static(AGENT):
        eventually(lambda: prober.agent.private_memory() - before < 8 << 20, "memory is given back")

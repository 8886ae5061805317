"""Clients of gRPC that flood, stall and lie: each is sent away or costs what it may, and others are served all the while."""

import socket
import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from grpc_place import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,  # noqa: E402
                        WINDOW_UPDATE, call_frame, frame, hpack, memory_of, message, tool)  # noqa: F401 (fixture)

MOST_MEMORY = 160 << 20  # of a build with sanitizers, too


def flood(connection, piece, most_bytes=64 << 20):
    """Sends until the server ends the connection. Returns how much it took."""
    sent = 0
    block = piece * max(1, 65536 // len(piece))
    try:
        while sent < most_bytes:
            connection.sendall(block)
            sent += len(block)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return sent


def ended(connection):
    """Whether the server has ended the connection, after what it has still to say."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("piece", [
    frame(SETTINGS),
    frame(SETTINGS, payload=struct.pack(">HI", 4, 65535) * 10),
    frame(PING, payload=b"12345678"),
    frame(WINDOW_UPDATE, payload=struct.pack(">I", 1)),
    frame(2, stream=1, payload=b"\0\0\0\0\1"),  # PRIORITY
], ids=["settings", "long-settings", "ping", "window-update", "priority"])
def test_a_flood_of_frames_without_content_is_sent_away(tool, piece):
    connection = tool.connect()
    assert flood(connection, piece) < 64 << 20
    assert ended(connection)
    assert memory_of(tool.process.pid) < MOST_MEMORY
    assert tool.echo() == b"hello"


def test_a_flood_of_empty_data_is_sent_away(tool):
    connection = tool.connect()
    connection.sendall(call_frame(1))
    assert flood(connection, frame(DATA, stream=1)) < 64 << 20
    assert ended(connection)
    assert tool.echo() == b"hello"


def test_a_rapid_reset_is_sent_away(tool):
    connection = tool.connect()
    sent = 0
    try:
        for stream in range(1, 2_000_001, 2):
            connection.sendall(call_frame(stream, "/test.Tool/Keep") + frame(DATA, END_STREAM, stream, message(b"")) +
                               frame(RST_STREAM, stream=stream, payload=struct.pack(">I", 8)))
            sent += 1
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert sent < 1_000_000
    assert ended(connection)
    assert memory_of(tool.process.pid) < MOST_MEMORY
    assert tool.echo() == b"hello"


def test_streams_above_the_limit_do_not_add_up(tool):
    connection = tool.connect()
    try:
        for stream in range(1, 200_001, 2):
            connection.sendall(call_frame(stream, "/test.Tool/Keep"))
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert ended(connection)
    assert memory_of(tool.process.pid) < MOST_MEMORY
    assert tool.echo() == b"hello"


def test_a_header_that_is_too_long_is_refused(tool):
    connection = tool.connect()
    connection.sendall(call_frame(1, more=[(f"x-{i}", "a") for i in range(500)]) +
                       call_frame(3) + frame(DATA, END_STREAM, 3, message(b"still here")))
    got = b""
    while b"still here" not in got:
        more = connection.recv(65536)
        assert more, "the connection has ended"
        got += more


def test_a_header_bomb_is_not_unpacked(tool):
    """One entry of the table of fields, named again and again: a few bytes become megabytes."""
    connection = tool.connect()
    entry = b"\x40" + b"\x01x" + b"\x7f" + bytes([(3900 - 127) & 127 | 128, (3900 - 127) >> 7]) + b"a" * 3900
    fields = hpack([(":method", "POST"), (":scheme", "http"), (":path", "/test.Tool/Echo"), (":authority", "x")])
    connection.sendall(frame(HEADERS, END_HEADERS, 1, fields + entry + b"\xbe" * 10_000))
    connection.sendall(call_frame(3) + frame(DATA, END_STREAM, 3, message(b"still here")))
    ended_or_answered = b""
    try:
        while b"still here" not in ended_or_answered:
            more = connection.recv(65536)
            if not more:
                break
            ended_or_answered += more
    except ConnectionResetError:
        pass
    assert memory_of(tool.process.pid) < MOST_MEMORY
    assert tool.echo() == b"hello"


def test_a_header_that_never_ends_is_cut_off(tool):
    connection = tool.connect()
    connection.sendall(frame(HEADERS, 0, 1, hpack([(":method", "POST")])))
    assert flood(connection, frame(CONTINUATION, 0, 1, hpack([("x", "y" * 100)]))) < 64 << 20
    assert ended(connection)
    assert tool.echo() == b"hello"


def test_a_flood_of_empty_continuations_is_cut_off(tool):
    connection = tool.connect()
    connection.sendall(frame(HEADERS, 0, 1, b""))
    assert flood(connection, frame(CONTINUATION, 0, 1)) < 64 << 20
    assert ended(connection)
    assert tool.echo() == b"hello"


def test_the_length_of_a_message_is_only_a_word(tool):
    connections = []
    for _ in range(20):
        connection = tool.connect()
        for stream in range(1, 101, 2):
            connection.sendall(call_frame(stream) + frame(DATA, 0, stream, b"\0\0\xff\xff\xff" + b"x" * 100))
        connections.append(connection)
    assert tool.echo() == b"hello"
    assert memory_of(tool.process.pid) < MOST_MEMORY


def test_requests_that_stay_unfinished_share_a_limit(tool):
    """64 connections with 64 calls of 16 MiB each would be 64 GiB."""
    connections = []
    piece = b"x" * 16384
    for _ in range(8):
        connection = tool.connect()
        connection.settimeout(2)
        for stream in range(1, 41, 2):
            try:
                connection.sendall(call_frame(stream) + frame(DATA, 0, stream, message(b"")[:1] + struct.pack(">I", 15 << 20)))
                for _ in range(60):  # of a window of 1 MiB
                    connection.sendall(frame(DATA, 0, stream, piece))
            except (TimeoutError, BrokenPipeError, ConnectionResetError):
                break
        connections.append(connection)
    assert memory_of(tool.process.pid) < MOST_MEMORY
    for connection in connections:
        connection.close()
    assert tool.echo() == b"hello"


def test_a_client_that_reads_nothing_costs_what_it_may(tool):
    """Its window is as large as can be, and it asks for gigabytes."""
    connection = tool.connect(PREFACE + frame(SETTINGS, payload=struct.pack(">HI", 4, 0x7FFFFFFF)) +
                              frame(WINDOW_UPDATE, payload=struct.pack(">I", 0x7FFF0000)))
    for stream in range(1, 101, 2):
        connection.sendall(call_frame(stream, "/test.Tool/Stream") + frame(DATA, END_STREAM, stream, message(b"100000 1000000")))
    for _ in range(5):
        assert tool.echo() == b"hello"
    assert memory_of(tool.process.pid) < MOST_MEMORY


def test_silent_connections_give_way(tool):
    silent = [tool.connect(b"") for _ in range(80)]
    assert tool.echo() == b"hello"
    assert len(silent) == 80


@pytest.mark.parametrize("text", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600,
                                  PREFACE[:10], b"\0" * 1000, PREFACE + b"\xff" * 1000, PREFACE + frame(SETTINGS) + frame(DATA, 0, 0, b"x")])
def test_other_protocols_are_ended(tool, text):
    connection = tool.connect(text)
    connection.shutdown(socket.SHUT_WR)
    assert ended(connection)
    assert tool.echo() == b"hello"

"""gRPC over Unix sockets: a server of the test's own (grpc_tool), grpcio as its client, and frames of HTTP/2 made by hand."""

import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import grpc
import pytest

BUILD = Path(os.environ.get("TRITON_BUILD", Path(__file__).parents[2] / "build/dev"))
TOOL = BUILD / "tests/host/tool/grpc_tool"
PATIENCE = 120
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
HEAD = {":method": "POST", ":scheme": "http", ":path": "/test.Tool/Echo", ":authority": "localhost",
        "content-type": "application/grpc", "te": "trailers"}


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def hpack_text(text):
    data = text if isinstance(text, bytes) else text.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, out = len(data) - 127, b"\x7f"
    while rest >= 128:
        out += bytes([rest & 127 | 128])
        rest >>= 7
    return out + bytes([rest]) + data


def hpack(fields):
    """Fields that nobody is to remember: literals without indexing, without Huffman."""
    return b"".join(b"\x00" + hpack_text(name) + hpack_text(value) for name, value in fields)


def call_frame(stream, path="/test.Tool/Echo", flags=END_HEADERS, more=()):
    return frame(HEADERS, flags, stream, hpack([*{**HEAD, ":path": path}.items(), *more]))


def message(content):
    return b"\0" + struct.pack(">I", len(content)) + content


def memory_of(pid):
    """Resident bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise KeyError("VmRSS")


class GrpcTool:
    def __init__(self, area, stall=None):
        if not TOOL.exists():
            pytest.skip(f"{TOOL} is not built")
        self.socket = Path(area) / "socket"
        self.log = Path(area) / "log"
        environment = {**os.environ, **({"GRPC_TOOL_STALL": str(stall)} if stall else {})}
        self.process = subprocess.Popen([TOOL, self.socket], stdout=subprocess.PIPE, stderr=self.log.open("w"), env=environment)
        self.lines = b""
        self.wait_for_line("ready")

    def wait_for_line(self, text, count=1):
        """Until it has printed the line so often."""
        until = time.monotonic() + PATIENCE
        while self.lines.split(b"\n").count(text.encode()) < count:
            readable, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            assert readable, f"{text} was not printed: {self.lines}"
            more = os.read(self.process.stdout.fileno(), 65536)
            assert more, f"grpc_tool has ended: {self.log.read_text()}"
            self.lines += more

    def channel(self, **options):
        size = 64 << 20
        return grpc.insecure_channel(f"unix:{self.socket}", options=[
            ("grpc.max_receive_message_length", size), ("grpc.max_send_message_length", size), *options.items()])

    def connect(self, bytes_first=PREFACE + frame(SETTINGS)):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(str(self.socket))
        connection.sendall(bytes_first)
        return connection

    def echo(self, content=b"hello", **more):
        with self.channel() as channel:
            return unary(channel, "Echo")(content, timeout=PATIENCE, **more)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)


def unary(channel, name):
    return channel.unary_unary(f"/test.Tool/{name}")


def stream(channel, name):
    return channel.unary_stream(f"/test.Tool/{name}")


@pytest.fixture
def tool():
    with tempfile.TemporaryDirectory(prefix="triton-grpc.") as area:
        server = GrpcTool(area)
        yield server
        server.close()

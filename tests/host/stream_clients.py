"""Clients of exec, attach and port-forward: SPDY/3.1 and WebSocket as those of Kubernetes speak them."""

import base64
import json
import os
import socket
import struct
import threading
import zlib
from urllib.parse import urlsplit

PATIENCE = 60

WORDS = """options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow authorization
 cache-control connection content-base content-encoding content-language content-length content-location content-md5 content-range content-type
 date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards
 pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning
 www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin""".split()
CODES = "100 101 201 202 205 206 300 302 303 304 305 306 307 402 405 406 407 408 409 410 411 412 413 414 415 416 417 502 504 505"
REST = ("203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found"
        "500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
        "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,"
        "text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.")
DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in WORDS) + (CODES.replace(" ", "") + REST).encode()
assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7


class Refused(Exception):
    def __init__(self, status, fields, body):
        super().__init__(f"{status}: {body}")
        self.status, self.fields, self.body = status, fields, body


def connect(host, url):
    """`host`: runs a function in the network of the server."""
    parts = urlsplit(url)
    assert parts.scheme == "http"
    return host(lambda: socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)), parts


def upgrade(connection, parts, fields, method="POST"):
    head = f"{method} {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n"
    connection.sendall(head.encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(65536)
        assert piece, f"the connection ended: {answer}"
        answer += piece
    text, rest = answer.split(b"\r\n\r\n", 1)
    status, *lines = text.decode().split("\r\n")
    found = [tuple(line.split(": ", 1)) for line in lines]
    if " 101 " not in status:
        while piece := connection.recv(65536):
            rest += piece
        raise Refused(int(status.split()[1]), found, rest.decode().strip())
    return found, rest


class Spdy:
    """Frames are read by a thread. Streams are numbers; what came on them is in `data`."""

    def __init__(self, connection, rest=b"", through=None):
        self.connection, self.through = connection, through
        self.input = rest
        self.packer = zlib.compressobj(9, zlib.DEFLATED, 15, 8, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
        self.unpacker = zlib.decompressobj(zdict=DICTIONARY)
        self.next = 1
        self.changed = threading.Condition()
        self.data, self.finished, self.resets, self.replied, self.pongs = {}, set(), {}, set(), []
        self.goaway = None
        self.is_over = False
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self.read_all, daemon=True)
        self.reader.start()

    def send_bytes(self, data):
        with self.lock:
            self.through.send(data) if self.through else self.connection.sendall(data)

    def control(self, kind, flags, payload):
        self.send_bytes(struct.pack(">II", 0x80030000 | kind, flags << 24 | len(payload)) + payload)

    def headers(self, headers):
        text = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for part in (name.encode(), str(value).encode()):
                text += struct.pack(">I", len(part)) + part
        return self.packer.compress(text) + self.packer.flush(zlib.Z_SYNC_FLUSH)

    def open(self, finish=False, **headers):
        stream, self.next = self.next, self.next + 2
        with self.changed:
            self.data[stream] = bytearray()
        self.control(SYN_STREAM, 1 if finish else 0, struct.pack(">IIBB", stream, 0, 0, 0) + self.headers(headers))
        return stream

    def send(self, stream, data, finish=False):
        self.send_bytes(struct.pack(">II", stream, (1 if finish else 0) << 24 | len(data)) + data)

    def finish(self, stream):
        self.send(stream, b"", True)

    def reset(self, stream):
        self.control(RST_STREAM, 0, struct.pack(">II", stream, 5))

    def ping(self, number):
        self.control(PING, 0, struct.pack(">I", number))

    def take(self, size):
        while len(self.input) < size:
            piece = self.through.receive_message() if self.through else self.connection.recv(65536)
            if not piece:
                raise EOFError
            self.input += piece
        taken, self.input = self.input[:size], self.input[size:]
        return taken

    def read_all(self):
        try:
            while True:
                first, second = struct.unpack(">II", self.take(8))
                payload = self.take(second & 0xFFFFFF)
                with self.changed:
                    self.handle(first, second >> 24, payload)
                    self.changed.notify_all()
        except (OSError, EOFError):
            with self.changed:
                self.is_over = True
                self.changed.notify_all()

    def handle(self, first, flags, payload):
        if not first >> 31:
            assert first in self.replied, "data before the reply"
            assert first not in self.finished, "data after the end"
            self.data[first] += payload
            if flags & 1:
                self.finished.add(first)
            return
        assert first >> 16 == 0x8003
        kind = first & 0xFFFF
        if kind == SYN_REPLY:
            assert self.unpacker.decompress(payload[4:]) == b"\0\0\0\0"
            self.replied.add(struct.unpack(">I", payload[:4])[0])
        elif kind == RST_STREAM:
            stream, code = struct.unpack(">II", payload)
            self.resets[stream] = code
        elif kind == PING:
            self.pongs.append(struct.unpack(">I", payload)[0])
        elif kind == GOAWAY:
            self.goaway = struct.unpack(">II", payload)

    def wait(self, condition):
        with self.changed:
            assert self.changed.wait_for(lambda: condition() or self.is_over, PATIENCE), "it did not happen in time"
            assert condition(), f"the connection ended before: {self.data} {self.resets} {self.goaway}"

    def wait_for(self, stream, text):
        self.wait(lambda: text in self.data[stream])

    def wait_finished(self, stream):
        self.wait(lambda: stream in self.finished)
        return bytes(self.data[stream])

    def wait_over(self):
        with self.changed:
            assert self.changed.wait_for(lambda: self.is_over, PATIENCE)

    def close(self):
        """The reader has to leave the socket first, or it stays open. With SO_LINGER this is a reset."""
        try:
            self.connection.shutdown(socket.SHUT_RD)
        except OSError:
            pass
        self.reader.join(PATIENCE)
        self.connection.close()


class WebSocket:
    """Reads whole messages, in the calling thread."""

    def __init__(self, connection, rest):
        self.connection, self.input = connection, rest
        self.closed = None

    def frame(self, opcode, payload, final=True, masked=True):
        head = bytes([(0x80 if final else 0) | opcode])
        bit = 0x80 if masked else 0
        if len(payload) < 126:
            head += bytes([bit | len(payload)])
        elif len(payload) < 65536:
            head += bytes([bit | 126]) + struct.pack(">H", len(payload))
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", len(payload))
        if masked:
            mask = os.urandom(4)
            repeated = (mask * (len(payload) // 4 + 1))[:len(payload)]
            payload = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(payload), "big") if payload else b""
            head += mask
        self.connection.sendall(head + payload)

    def send(self, payload):
        self.frame(2, payload)

    def take(self, size):
        while len(self.input) < size:
            piece = self.connection.recv(65536)
            if not piece:
                raise EOFError
            self.input += piece
        taken, self.input = self.input[:size], self.input[size:]
        return taken

    def receive_message(self):
        """None after a close."""
        while True:
            first, second = self.take(2)
            assert first & 0x80 and not second & 0x80, "fragmented or masked"
            size = second
            if size == 126:
                (size,) = struct.unpack(">H", self.take(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self.take(8))
            payload = self.take(size)
            if first & 15 == 8:
                self.closed = struct.unpack(">H", payload[:2])[0]
                return None
            if first & 15 in (1, 2):
                return payload

    def close(self):
        self.connection.close()


def open_spdy(host, url, protocols=("v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")):
    connection, parts = connect(host, url)
    fields, rest = upgrade(connection, parts, [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("Content-Length", "0"),
                                               *(("X-Stream-Protocol-Version", one) for one in protocols)])
    spdy = Spdy(connection, rest)
    spdy.protocol = dict(fields)["X-Stream-Protocol-Version"]
    return spdy


def open_websocket(host, url, protocols=("v5.channel.k8s.io",), more=()):
    connection, parts = connect(host, url)
    key = base64.b64encode(os.urandom(16)).decode()
    named = [("Sec-WebSocket-Protocol", ", ".join(protocols))] if protocols else []
    fields, rest = upgrade(connection, parts, [("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                                               ("Sec-WebSocket-Key", key), *named, *more], method="GET")
    import hashlib
    expected = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    assert dict(fields)["Sec-WebSocket-Accept"] == expected
    websocket = WebSocket(connection, rest)
    websocket.protocol = dict(fields).get("Sec-WebSocket-Protocol")
    return websocket


class Command:
    """The streams of a command or an attached client over SPDY."""

    def __init__(self, spdy, stdin=False, stdout=True, stderr=True, tty=False):
        self.spdy = spdy
        self.error = spdy.open(streamtype="error")
        self.stdin = spdy.open(streamtype="stdin") if stdin else None
        self.stdout = spdy.open(streamtype="stdout") if stdout else None
        self.stderr = spdy.open(streamtype="stderr") if stderr else None
        self.resize = spdy.open(streamtype="resize") if tty else None

    def output(self):
        return self.spdy.wait_finished(self.stdout)

    def errors(self):
        return self.spdy.wait_finished(self.stderr)

    def status(self):
        return json.loads(self.spdy.wait_finished(self.error))


def exit_code_of(status):
    """As kubectl finds it."""
    if status["status"] == "Success":
        return 0
    assert status["reason"] == "NonZeroExitCode", status
    (cause,) = [one for one in status["details"]["causes"] if one["reason"] == "ExitCode"]
    return int(cause["message"])

"""vminfod for tests of its clients: a fake that answers what a test says."""

import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TRITON_BUILD", Path(__file__).parents[2] / "build/dev"))
PATIENCE = 120
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="vmadm is for root")


def answer(body, status="200 OK"):
    """Bytes of a whole answer."""
    body = body if isinstance(body, bytes) else body.encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def stream(*pieces):
    """Bytes of an answer without an end, piece by piece."""
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (piece.encode() for piece in pieces))
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks


class FakeVminfod:
    """Answers with what `answers` has for a target; a value is bytes, or a function that gets the connection. Other targets are not known."""

    def __init__(self, root, answers=None, ends=True):
        self.path = Path(root) / "run/triton/vminfod.socket"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.answers = answers or {}
        self.ends = ends
        self.asked = []
        self.names = []
        self.open = []
        self.listener = socket.socket(socket.AF_UNIX)
        here = os.open(self.path.parent, os.O_PATH)  # the path may be longer than an address
        self.listener.bind(f"/proc/self/fd/{here}/{self.path.name}")
        os.close(here)
        self.listener.listen(64)
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        for connection in self.open:
            connection.close()
        self.path.unlink()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self._answer(connection)
            if self.ends:
                connection.close()
            else:
                self.open.append(connection)

    def _answer(self, connection):
        request = b""
        while b"\r\n\r\n" not in request:
            piece = connection.recv(65536)
            if not piece:
                return
            request += piece
        head = request.decode().split("\r\n")
        target = head[0].split()[1]
        self.asked.append(target)
        self.names += [line.partition(": ")[2] for line in head if line.startswith("User-Agent: ")]
        given = self.answers(target) if callable(self.answers) else self.answers.get(target)
        try:
            if given is None:
                connection.sendall(answer("Unsupported URL Path\n", "404 Not Found"))
            elif callable(given):
                given(connection)
            else:
                connection.sendall(given)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has seen enough


def run(program, root, *words, env=None):
    return subprocess.run([str(BUILD / program), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, "TRITON_ROOT": str(root), **(env or {})})

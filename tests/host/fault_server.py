"""An HTTP server on loopback that does what a test tells it to do, right or wrong.

    with FaultServer() as server:
        server.file("/blob", content)                          # as a good server: ranges, ETag, If-Range
        server.on("/gone", lambda request: request.send(404))  # anything else
        ... server.url("/blob"), server.requests, server.sent
"""

import hashlib
import socket
import socketserver
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler

PIECE = 64 * 1024


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Listener"

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.form = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        self.do_GET()

    def do_GET(self):
        owner = self.server.owner
        path = self.path
        if path.startswith("http://"):  # of a proxy's client
            path = "/" + path.split("/", 3)[3]
        with owner.lock:
            owner.requests.append((path, dict(self.headers)))
        handler = owner.routes.get(path.split("?")[0])
        try:
            handler(self) if handler else self.send(404)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    def send(self, status, body=b"", **headers):
        """A whole answer."""
        self.begin(status, len(body), **headers)
        self.body(body)

    def begin(self, status, length=None, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def body(self, content, pause=0.0):
        for at in range(0, len(content), PIECE):
            piece = content[at : at + PIECE]
            self.wfile.write(piece)
            with self.server.owner.lock:
                self.server.owner.sent += len(piece)
            if pause:
                time.sleep(pause)

    def cut(self):
        """Ends the connection as a crash does: with a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close_connection = True

    def range(self):
        """(first, last) of the request's closed range; none: it asks for all."""
        text = self.headers.get("Range")
        return tuple(int(number) for number in text.removeprefix("bytes=").split("-")) if text else None

    def serve(self, content, etag='"1"', pause=0.0, most=None):
        """As a good server does; `most`: bytes of one answer, after which the connection is cut."""
        wanted = self.range()
        condition = self.headers.get("If-Range")
        if wanted is None or (condition is not None and condition != etag):
            self.begin(200, len(content), ETag=etag)
            part = content
        elif wanted[0] >= len(content):
            self.begin(416, 0, Content_Range=f"bytes */{len(content)}")
            return
        else:
            last = min(wanted[1], len(content) - 1)
            part = content[wanted[0] : last + 1]
            self.begin(206, len(part), ETag=etag, Content_Range=f"bytes {wanted[0]}-{last}/{len(content)}")
        if most is not None and len(part) > most:
            self.body(part[:most], pause)
            self.wfile.flush()
            time.sleep(0.3)  # or the reset would overtake what was sent
            self.cut()
        else:
            self.body(part, pause)


class Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass


class BothListener(Listener):
    """Takes TLS and plain HTTP on one port."""

    context: ssl.SSLContext

    def finish_request(self, request, client_address):
        is_secure = request.recv(1, socket.MSG_PEEK) == b"\x16"
        super().finish_request(self.context.wrap_socket(request, server_side=True) if is_secure else request, client_address)


class FaultServer:
    def __init__(self, certificate=None, is_also_plain=False):
        self.routes = {}
        self.requests = []
        self.sent = 0
        self.lock = threading.Lock()
        self.listener = (BothListener if is_also_plain else Listener)(("127.0.0.1", 0), Request)
        self.listener.owner = self
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            if is_also_plain:
                self.listener.context = context
            else:
                self.listener.socket = context.wrap_socket(self.listener.socket, server_side=True)
            self.scheme = "https"

    def __enter__(self):
        threading.Thread(target=self.listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown()
        self.listener.server_close()

    @property
    def port(self):
        return self.listener.server_address[1]

    def url(self, path, host="127.0.0.1"):
        return f"{self.scheme}://{host}:{self.port}{path}"

    def on(self, path, handler):
        self.routes[path] = handler

    def file(self, path, content, **options):
        self.on(path, lambda request: request.serve(content, **options))

    def paths(self):
        return [path for path, _ in self.requests]

    def headers(self, name):
        return [headers.get(name) for _, headers in self.requests]


def digest_of(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()

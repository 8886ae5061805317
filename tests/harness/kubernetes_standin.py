"""An API server that does what a real one will not do on demand: hang at every stage, refuse, send garbage and giants,
tear watches, forget versions. It knows one pod, one node and events.

Not a model of Kubernetes: what the agent asks of a real server is tested against a real one."""

import contextlib
import json
import socket
import ssl
import threading
from urllib.parse import parse_qs, urlsplit

from harness.process import TIMEOUT

PREFIX = "foundationdb.org/"
CONFIGURATION = PREFIX + "launcher-current-configuration"
REASONS = {200: "OK", 201: "Created", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 409: "Conflict",
           410: "Gone", 413: "Request Entity Too Large", 422: "Unprocessable Entity", 429: "Too Many Requests",
           500: "Internal Server Error"}


def status_body(code, message):
    """What the API says with a failure."""
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": REASONS.get(code, ""),
            "message": message}


class Request:
    """One request as it came."""

    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers = method, target, headers
        self.url = urlsplit(target)
        self.query = {key: values[0] for key, values in parse_qs(self.url.query).items()}
        self.body = json.loads(body) if body else None

    @property
    def kind(self):
        """ "watch pods", "patch pods", "patch status", "create events", "patch events", "watch nodes" """
        parts = self.url.path.split("/")
        if "watch" in self.query:
            return "watch " + parts[-1]
        resource = next(name for name in ("status", "events", "pods") if name in parts)
        return ("create " if self.method == "POST" else "patch ") + resource


class Hang(Exception):
    """The connection stays as it is until the server ends."""


class Connection:
    """A connection of a client, with what is needed to answer it by hand."""

    def __init__(self, server, stream):
        self.server, self.stream = server, stream
        self.file = stream.makefile("rb")

    def read(self):
        """The next request; None at the end."""
        line = self.file.readline().decode()
        if not line:
            return None
        method, target, _ = line.split(" ", 2)
        headers = {}
        while line := self.file.readline().decode().strip():
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        return Request(method, target, headers, self.file.read(int(headers.get("content-length", 0))))

    def send(self, data):
        """Bytes, as they are."""
        self.stream.sendall(data if isinstance(data, bytes) else data.encode())

    def answer(self, code, body, **headers):
        """A whole answer."""
        text = body if isinstance(body, str) else json.dumps(body)
        lines = [f"HTTP/1.1 {code} {REASONS.get(code, '')}", "Content-Type: application/json",
                 f"Content-Length: {len(text.encode())}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join(lines) + "\r\n\r\n" + text)

    def fail(self, code, message="no", **headers):
        """A failure as the API tells it."""
        self.answer(code, status_body(code, message), **headers)

    def begin_watch(self):
        """The header of an answer without end."""
        self.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, text):
        """A piece of it."""
        data = text.encode()
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def event(self, kind, item):
        """A line of a watch."""
        self.chunk(json.dumps({"type": kind, "object": item}) + "\n")


class StandIn:
    """The server. `faults` maps a kind of request (or "accept", "handshake") to a list of functions of a connection and
    a request, each used once, in order; None among them: as usual. A last element that is callable and not in a list
    is used for ever."""

    def __init__(self, certificate, host="127.0.0.1", port=0):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*map(str, certificate))
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, port), family=family)
        self.port = self.listener.getsockname()[1]
        self.changed = threading.Condition()
        self.faults = {}
        self.requests = []
        self.accepted = 0
        self.version = 100
        self.token = None  # when set, the only good one
        self.pod = self.new_pod("uid-1")
        self.node_labels = {"zone": "a"}
        self.events = {}
        self.watches = []  # (kind, connection) of those that are open
        self.threads, self.sockets = [], []
        self.ending = threading.Event()
        self._start(self._accept)

    def new_pod(self, uid, **annotations):
        """A pod as it is when it has just been made."""
        return {"kind": "Pod", "metadata": {"name": "pod", "namespace": "ns", "uid": uid, "annotations": annotations,
                                            "resourceVersion": str(self.version)},
                "spec": {"nodeName": "node"}, "status": {}}

    def _start(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        self.threads.append(thread)  # only now: close() joins what it finds

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            self.sockets.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection):
        stream = None
        with contextlib.suppress(OSError, ssl.SSLError, ValueError):
            try:
                self._fault("accept", connection, None)
                self._fault("handshake", connection, None)
                stream = self.context.wrap_socket(connection, server_side=True)
                self.sockets.append(stream)
                client = Connection(self, stream)
                while request := client.read():
                    with self.changed:
                        self.requests.append(request)
                        self.changed.notify_all()
                    if not self._fault(request.kind, client, request):
                        self._answer(client, request)
            except Hang:
                self.ending.wait()
            finally:
                with self.changed:
                    self.watches = [one for one in self.watches if one[1].stream is not stream]
                    self.changed.notify_all()

    def _fault(self, kind, connection, request):
        with self.changed:
            fault = self.faults.get(kind)
            if isinstance(fault, list):
                fault = fault.pop(0) if fault else None
        if fault is None:
            return False
        fault(connection, request)
        return True

    # --- as usual

    def _answer(self, client, request):
        if self.token and request.headers["authorization"] != f"Bearer {self.token}":
            return client.fail(401, "Unauthorized")
        if request.kind.startswith("watch"):
            return self._watch(client, request)
        if request.kind == "create events":
            self.events[request.body["metadata"]["name"]] = request.body
            return self._done(client, 201, request.body)
        if request.kind == "patch events":
            event = self.events.get(request.url.path.rsplit("/", 1)[1])
            if event is None:
                return client.fail(404, "not found")
            event.update(request.body)
            return self._done(client, 200, event)
        if self.pod is None:
            return client.fail(404, 'pods "pod" not found')
        if request.kind == "patch pods":
            self.change(request.body["metadata"]["annotations"])
        return client.answer(200, self.pod)

    def _done(self, client, code, body):
        with self.changed:
            self.changed.notify_all()
        client.answer(code, body)

    def _watch(self, client, request):
        with self.changed:  # no change comes between what it is told of and what it hears of later
            client.begin_watch()
            if request.kind == "watch nodes":
                client.event("ADDED", {"kind": "Node", "metadata": {
                    "name": "node", "resourceVersion": str(self.version), "labels": self.node_labels}})
            elif self.pod and "resourceVersion" not in request.query:
                client.event("ADDED", self.pod)
            self.watches.append((request.kind, client))
            self.changed.notify_all()

    # --- for tests

    def change(self, annotations=None, pod=None):
        """The pod changes, or is another; who watches learns of it."""
        with self.changed:
            self.version += 1
            kind = "MODIFIED"
            if pod is not None:
                kind = "ADDED"
                self.pod = pod
            for key, value in (annotations or {}).items():
                self.pod["metadata"]["annotations"][key] = value
            self.pod["metadata"]["resourceVersion"] = str(self.version)
            for _, client in [one for one in self.watches if one[0] == "watch pods"]:
                with contextlib.suppress(OSError):
                    client.event(kind, self.pod)
            self.changed.notify_all()

    def wait_for(self, check, what, timeout=TIMEOUT):
        """Waits until `check` returns something true; it is asked at each request and change."""
        with self.changed:
            assert self.changed.wait_for(check, timeout), f"not: {what}; {[one.kind for one in self.requests]}"
            return check()

    def count(self, kind):
        """How many requests of a kind have come."""
        return sum(request.kind == kind for request in self.requests)

    def wait_request(self, kind, number=1):
        """The request of a kind with this number, from 1."""
        self.wait_for(lambda: self.count(kind) >= number, f"{number} x {kind}")
        return [request for request in self.requests if request.kind == kind][number - 1]

    def wait_annotation(self, text, timeout=TIMEOUT):
        """Waits until the pod has this configuration."""
        self.wait_for(lambda: self.pod and self.pod["metadata"]["annotations"].get(CONFIGURATION) == text,
                      f"the pod has {text}", timeout)

    def wait_watch(self, kind="watch pods"):
        """The connection of the latest watch that is open."""
        return self.wait_for(lambda: [client for name, client in self.watches if name == kind], f"{kind} is open")[-1]

    def hang(self, *_):
        """A fault: nothing more comes, and the connection stays."""
        raise Hang

    def tear(self, connection, _=None):
        """A fault: the connection ends."""
        stream = connection.stream if isinstance(connection, Connection) else connection
        stream.shutdown(socket.SHUT_RDWR)
        raise OSError("torn")

    def close(self):
        """Ends it."""
        self.ending.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        while self.threads:
            self.threads.pop().join()
        for one in self.sockets:
            one.close()

"""A proxy on loopback: everything that it is asked for comes from one server, whatever its name is."""

import base64
import select
import socket
import socketserver
import threading


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        owner = self.server.owner
        line = self.rfile.readline().decode()
        headers = {}
        while (header := self.rfile.readline().decode().strip()) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        if not line.strip():
            return
        method, target, _ = line.split()
        with owner.lock:
            owner.requests.append((method, target, headers.get("proxy-authorization")))
        if owner.wanted and headers.get("proxy-authorization") != owner.wanted:
            return self.answer(407, 'Proxy-Authenticate: Basic realm="x"\r\n')
        if owner.status:
            return self.answer(owner.status)
        with socket.create_connection(("127.0.0.1", owner.port_behind)) as server:
            if method == "CONNECT":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                path = "/" + target.split("/", 3)[3]
                kept = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if not name.startswith("proxy-"))
                server.sendall(f"{method} {path} HTTP/1.1\r\n{kept}Connection: close\r\n\r\n".encode())
            self.relay(server)

    def answer(self, status, more=""):
        self.wfile.write(f"HTTP/1.1 {status} No\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())

    def relay(self, server):
        ends = {self.connection: server, server: self.connection}
        while True:
            for one in select.select(list(ends), [], [], 30)[0]:
                data = one.recv(65536)
                if not data:
                    return
                ends[one].sendall(data)


class Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_):
        pass


class Proxy:
    def __init__(self, port_behind, user=None, status=None):
        self.port_behind = port_behind
        self.requests = []
        self.lock = threading.Lock()
        self.status = status  # of every answer; none: it does its work
        self.wanted = user and "Basic " + base64.b64encode(user.encode()).decode()
        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.listener.owner = self
        self.host = f"127.0.0.1:{self.listener.server_address[1]}"
        self.url = f"http://{self.host}"

    def __enter__(self):
        threading.Thread(target=self.listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown()
        self.listener.server_close()

    def targets(self):
        return sorted({f"{method} {target}" for method, target, _ in self.requests})

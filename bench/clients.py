"""The least clients for a supervisor's control socket: requests are bytes that are prepared, and answers are read to
their end but not parsed, so that what is measured is the supervisor."""

import socket


class Client:
    """One connection, kept open."""

    every = one = b""  # the requests: what runs, and how one program does

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(path))

    def ask(self, request):
        """Sends a request and returns the whole answer."""
        self.socket.sendall(request)
        answer = b""
        while not self.is_whole(answer):
            part = self.socket.recv(1 << 20)
            if not part:
                raise OSError("the connection was closed within an answer")
            answer += part
        return answer

    def is_whole(self, answer):
        raise NotImplementedError

    def close(self):
        self.socket.close()


class Varlink(Client):
    """Ours: JSON with a NUL at its end."""

    every = b'{"method":"org.tritonlaunch.Launcher.List","parameters":{}}\0'
    one = b'{"method":"org.tritonlaunch.Launcher.List","parameters":{"program":"worker-0"}}\0'

    def is_whole(self, answer):
        return answer.endswith(b"\0")


def _call(method, parameters=""):
    body = f"<?xml version='1.0'?><methodCall><methodName>{method}</methodName>{parameters}</methodCall>"
    return (f"POST /RPC2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\nConnection: keep-alive\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


class XmlRpc(Client):
    """supervisord's: XML in HTTP."""

    every = _call("supervisor.getAllProcessInfo")
    one = _call("supervisor.getProcessInfo",
                "<params><param><value><string>worker-0</string></value></param></params>")

    def is_whole(self, answer):
        head, separator, body = answer.partition(b"\r\n\r\n")
        if not separator:
            return False
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return len(body) >= int(length.split(b":")[1])

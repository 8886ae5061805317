"""vminfod on machine files of a test's own, with a port and a socket of its own."""

import http.client
import os
import select
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from machine_files import MachineFiles

BUILD = Path(os.environ.get("TRITON_BUILD", Path(__file__).parents[2] / "build/dev"))
PATIENCE = 120


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Daemon:
    """Is started at once, and can be killed and started again at the same addresses."""

    def __init__(self, area, machines=0, build=BUILD, socket_path=None):
        self.program = build / "vminfod"
        if not self.program.exists():
            pytest.skip(f"{self.program} is not built")
        self.area = Path(area)
        self.files = MachineFiles(self.area / "root")
        self.made = self.files.fill(machines)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.socket = socket_path or self.area / "socket"
        self.socket.parent.mkdir(parents=True, exist_ok=True)
        self.log = self.area / "log"
        self.process = None
        self.start()

    def start(self):
        """Returns when it says that it is ready."""
        address = self.area / "notify"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, self.log.open("a") as log:
            ready.bind(str(address))
            self.process = subprocess.Popen(
                [self.program, "--root", self.files.root, "--listen", f"127.0.0.1:{self.port}", "--socket", self.socket],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "NOTIFY_SOCKET": str(address)})
            exited = os.pidfd_open(self.process.pid)
            try:
                while True:
                    readable, _, _ = select.select([ready, exited], [], [], PATIENCE)
                    assert ready in readable, f"vminfod did not come up: {self.log.read_text()[-2000:]}"
                    if "READY=1" in ready.recv(65536).decode().splitlines():
                        return
            finally:
                os.close(exited)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def get(self, path, **headers):
        """The answer's status, headers and body, by TCP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body

    def get_by_socket(self, path):
        """The answer's status and body, by the Unix socket."""
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE)
        connection.sock.connect(str(self.socket))
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)

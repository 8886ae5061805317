"""volumemgr with all of its state below one directory, and a client of its interface."""

import itertools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TRITON_BUILD", Path(__file__).parents[2] / "build/dev"))
PATIENCE = 120
INTERFACE = "org.tritonlaunch.Volumes"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make volumes")
needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
counter = itertools.count(1)


def uuid(number=None):
    return f"00000000-0000-4000-8000-{number if number is not None else next(counter):012x}"


class Failed(Exception):
    def __init__(self, error, parameters):
        super().__init__(f"{error}: {parameters}")
        self.error = error.removeprefix(INTERFACE + ".")
        self.reason = parameters.get("reason", "")


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))  # waits for a place in the queue
        self.socket.settimeout(PATIENCE)
        self.input = b""

    def close(self):
        self.socket.close()

    def send(self, method, more=False, **parameters):
        call = {"method": method if "." in method else f"{INTERFACE}.{method}", "parameters": parameters}
        if more:
            call["more"] = True
        self.socket.sendall(json.dumps(call).encode() + b"\0")

    def reply(self):
        while b"\0" not in self.input:
            got = self.socket.recv(1 << 20)
            if not got:
                raise ConnectionError("volumemgr has ended the connection")
            self.input += got
        message, self.input = self.input.split(b"\0", 1)
        answer = json.loads(message)
        if "error" in answer:
            raise Failed(answer["error"], answer.get("parameters") or {})
        return answer.get("parameters") or {}

    def call(self, method, **parameters):
        self.send(method, **parameters)
        return self.reply()

    def put(self, *objects, publisher="admin"):
        return self.call("Put", publisher=publisher, objects=[{"kind": kind, "config": config} for kind, config in objects])

    def delete(self, *names, publisher="admin"):
        return self.call("Delete", publisher=publisher, objects=[{"kind": kind, "key": key} for kind, key in names])

    def statuses(self, kind=None):
        """Of all objects, by kind and key."""
        self.send("Watch", more=True, **({"kind": kind} if kind else {}))
        found = {}
        while True:
            one = self.reply()
            if one.get("complete"):
                return found
            found[one["kind"], one["key"]] = one["object"]

    def wait(self, kind, key, until):
        """Waits until the status of an object (None: it has gone) is as it should be."""
        watcher = Client(self.socket.getpeername())
        try:
            watcher.send("Watch", more=True, kind=kind, key=key, follow=True)
            seen = None
            while True:
                one = watcher.reply()
                if not one.get("complete"):
                    seen = one["object"]
                if until(seen) and (seen is not None or one.get("complete") or "object" in one):
                    return seen
        finally:
            watcher.close()


def volume(number=None, generation=0, **more):
    config = {"VolumeID": uuid(number), "GenerationCounter": generation, **more}
    return f"{config['VolumeID']}#{generation}", ("VolumeConfig", config)


def is_created(status):
    return status is not None and status["State"] == "CREATED_VOLUME" and status["SubState"] == "Created"


def is_gone(status):
    return status is None


class Manager:
    """volumemgr; it can be killed and started again."""

    program = BUILD / "volumemgr"

    def __init__(self, area, backend="directory"):
        if not self.program.exists():
            pytest.skip(f"{self.program} is not built")
        self.area = Path(area)
        self.root = self.area / "root"
        (self.root / "etc/triton").mkdir(parents=True, exist_ok=True)
        (self.root / "run").mkdir(exist_ok=True)
        configuration = self.root / "etc/triton/triton.json"
        if not configuration.exists():
            configuration.write_text(json.dumps({"storage": {"backend": backend}}))
        self.state = self.root / "var/triton"
        self.pool = self.state / "pool"
        self.socket = self.root / "run/triton/volumemgr.socket"
        self.log = self.area / "log"
        self.process = None

    def environment(self, more=None):
        return {**os.environ, "TRITON_LIBEXEC": str(BUILD), "TRITON_ROOT": str(self.root), **(more or {})}

    def start(self, *options, env=None, idle="1h", may_die=False, listener=None):
        """Returns whether it is ready; it may die before when that was said. `listener`: as systemd hands it over."""
        address = self.area / "notify"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, self.log.open("a") as log:
            ready.bind(str(address))
            words = [self.program, "--root", self.root, "--idle", idle, *options]
            handed = {} if listener is None else {"pass_fds": [listener.fileno()]}
            if listener is not None:
                words = ["bash", "-c", f'exec 3<&{listener.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"', "bash", *words]
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **handed,
                                            env={**self.environment(env), "NOTIFY_SOCKET": str(address)})
            exited = os.pidfd_open(self.process.pid)
            try:
                while True:
                    readable, _, _ = select.select([ready, exited], [], [], PATIENCE)
                    if ready not in readable:
                        self.process.wait(PATIENCE)
                        assert may_die, f"volumemgr did not come up: {self.log.read_text()[-2000:]}"
                        return False
                    if "READY=1" in ready.recv(65536).decode().splitlines():
                        return True
            finally:
                os.close(exited)

    def client(self):
        return Client(self.socket)

    def end(self, number=signal.SIGTERM):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def trees(self):
        place = self.pool / "volumes/clear"
        return sorted(one.name for one in place.iterdir()) if place.exists() else []

    def tree(self, key):
        return self.pool / "volumes/clear" / key.replace("#", ".") / "@tree"

    def left_over(self):
        found = []
        for name in ("@pool/building", "@pool/trash"):
            place = self.pool / name
            found += [str(one) for one in place.iterdir()] if place.exists() else []
        return found

    def blobs(self):
        place = self.state / "content/blobs/sha256"
        return sorted(one.name for one in place.iterdir()) if place.exists() else []


@pytest.fixture
def area():
    place = tempfile.mkdtemp(prefix="triton-volumes.")
    yield Path(place)
    shutil.rmtree(place)


@pytest.fixture
def manager(area):
    one = Manager(area)
    yield one
    one.end(signal.SIGKILL)

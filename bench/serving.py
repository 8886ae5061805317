"""The measurements of what serves and reports: the agent against nginx, what a hung Kubernetes API costs, and how soon
a real one has a report."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

from meter import MeasureError, Session, descendants, end_everything, private_size

HOST = "127.0.0.1"
CONNECTIONS = 16  # of wrk, which has one thread, as each server has one worker
UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9}
HERE = pathlib.Path(__file__).resolve().parent
API_SERVER = HERE.parent / "build" / "kubernetes"


def free_port():
    with socket.create_server((HOST, 0)) as listener:
        return listener.getsockname()[1]


def make_certificate(directory):
    """A certificate (P-256) and its key in one file, which both servers use."""
    path = directory / "certificate.pem"
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                           "-days", "30", "-subj", "/CN=localhost", "-keyout", "-"], capture_output=True, check=True)
    path.write_bytes(made.stdout)
    path.chmod(0o644)
    return path


class Server:
    """One contender that serves files, up and answering; with a certificate by TLS."""

    def __init__(self, bench, contender, files, certificate=None, url=None):
        self.directory = bench.meter.directory()
        self.port, self.certificate, self.url = free_port(), certificate, url or contender.url
        argv = contender.serve(self.directory, files, self.port, certificate)
        if not os.path.exists(argv[0]):
            raise MeasureError(f"{os.path.basename(argv[0])} is not built")
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]})
        self.wait_until_up()

    def wait_until_up(self):
        deadline = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError):
                self.ask()
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise MeasureError("does not serve")

    def connect(self):
        """A connection that has had its handshake."""
        connection = socket.create_connection((HOST, self.port), timeout=60)
        if self.certificate:
            context = ssl.create_default_context(cafile=self.certificate)
            context.check_hostname = False
            connection = context.wrap_socket(connection)
        return connection

    def ask(self):
        """The body of an answer over a connection of its own."""
        with self.connect() as connection:
            return ask_over(connection, self.url)

    def load(self, seconds, *options):
        """wrk's requests per second, and the 99th percentile of their times in nanoseconds."""
        scheme = "https" if self.certificate else "http"
        done = subprocess.run(["wrk", "--threads", "1", "--connections", str(CONNECTIONS), "--duration", f"{seconds}s",
                               "--latency", *options, f"{scheme}://{HOST}:{self.port}{self.url}"],
                              capture_output=True, text=True, check=True)
        rate = re.search(r"Requests/sec: +([0-9.]+)", done.stdout)
        percentile = re.search(r" 99% +([0-9.]+)(us|ms|s)\b", done.stdout)
        if not rate or not percentile or "Non-2xx" in done.stdout or float(rate[1]) == 0:
            raise MeasureError(f"wrk says: {' '.join(done.stdout.split())}")
        return float(rate[1]), float(percentile[1]) * UNITS[percentile[2]]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)
        shutil.rmtree(self.directory)


def ask_over(connection, url):
    connection.sendall(f"GET {url} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = b""
    while True:
        head, separator, body = answer.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *([0-9]+)", head) if separator else None
        if length and len(body) >= int(length[1]):
            break
        part = connection.recv(1 << 16)
        if not part:
            raise OSError("the connection was closed within an answer")
        answer += part
    if not head.startswith(b"HTTP/1.1 200 "):
        raise OSError(f"answered {head.splitlines()[0].decode()}")
    return body


def files_to_serve(bench):
    """A directory with a small file, whose hash is kept: it has not changed for an hour."""
    directory = bench.meter.directory()
    (directory / "small").write_bytes(b"x" * 4096)
    return directory


def each_server(bench, keys, rounds, certificate, measure):
    """Starts all servers side by side and calls measure(contender, server) in turns."""
    files = files_to_serve(bench)
    servers = {}

    def begin(contender, _):
        servers[contender] = Server(bench, contender, files, certificate)

    try:
        if shutil.which("wrk") is None:
            raise MeasureError("wrk not installed (Debian package wrk)")
        bench.rounds(1, bench.able("serves"), keys, begin)
        time.sleep(1.1)  # a file that is younger than a second is hashed again each time
        bench.rounds(rounds, list(servers), keys, lambda contender, _: measure(contender, servers[contender]))
    except MeasureError as error:
        for contender in bench.able("serves"):
            bench.refuse(keys, contender, error)
    finally:
        for server in servers.values():
            server.close()
        shutil.rmtree(files)


def serve(bench):
    """A hash that is known, over 16 kept connections, against nginx with a file of the same size; plain and by TLS."""
    seconds = bench.amount(3, 1)
    for scheme in ("http", "https"):
        certificate = make_certificate(bench.meter.directory()) if scheme == "https" else None
        keys = [f"serve.{scheme}.rate", f"serve.{scheme}.p99"]

        def once(contender, server, keys=keys):
            for key, value in zip(keys, server.load(seconds)):
                bench.add(key, contender, value)

        each_server(bench, keys, bench.amount(5, 1), certificate, once)


def handshake(bench):
    """New TLS connections, one request each, 16 at a time: connections per second."""
    certificate = make_certificate(bench.meter.directory())

    def once(contender, server):
        rate, _ = server.load(bench.amount(3, 1), "--header", "Connection: close")
        bench.add("handshake.rate", contender, rate)

    each_server(bench, ["handshake.rate"], bench.amount(7, 1), certificate, once)


def agent(bench):
    """Private memory of the agent and of nginx: idle, plain and with TLS, and with 200 TLS connections that wait."""
    settle = bench.amount(2, 1.2)
    files = files_to_serve(bench)
    certificate = make_certificate(bench.meter.directory())

    def once(contender, _):
        for key, with_certificate in (("plain", None), ("tls", certificate)):
            server = Server(bench, contender, files, with_certificate)
            with contextlib.ExitStack() as stack:
                stack.callback(server.close)
                time.sleep(settle)
                bench.add(f"agent.{key}", contender, private_size(descendants(server.process.pid, [])))
                if not with_certificate:
                    continue
                for _ in range(200):
                    ask_over(stack.enter_context(server.connect()), server.url)
                time.sleep(settle)
                bench.add("agent.connections", contender, private_size(descendants(server.process.pid, [])))

    bench.rounds(bench.amount(3, 1), bench.able("serves"), ["agent.plain", "agent.tls", "agent.connections"], once)
    shutil.rmtree(files)


def wait_until(condition, otherwise):
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            raise MeasureError(otherwise)
        time.sleep(0.005)


class HungApi:
    """A Kubernetes API server that takes every connection and never answers."""

    def __init__(self):
        self.listener = socket.create_server((HOST, 0))
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                self.connections.append(self.listener.accept()[0])

    def environment(self):
        return {"KUBERNETES_SERVICE_HOST": HOST, "KUBERNETES_SERVICE_PORT": str(self.listener.getsockname()[1])}

    def close(self):
        for connection in [self.listener, *self.connections]:
            connection.close()


class Watch:
    """A stream of a launcher's active configurations."""

    request = b'{"method":"org.tritonlaunch.Launcher.WatchConfiguration","parameters":{},"more":true}\0'

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        wait_until(lambda: os.path.exists(path), "it has no control socket")  # its child can be faster
        self.socket.connect(str(path))
        self.socket.sendall(self.request)
        self.received = b""

    def next(self):
        """The text of the next configuration that is active, as bytes that are not parsed."""
        while b"\0" not in self.received:
            part = self.socket.recv(1 << 16)
            if not part:
                raise OSError("the launcher has closed the stream")
            self.received += part
        reply, _, self.received = self.received.partition(b"\0")
        return reply


class ConfigMap:
    """A mounted one: the file is a link through `..data`, which is swapped in one step. document(mark) makes what is in
    it from a word that no other version has."""

    def __init__(self, directory, document=lambda mark: {"version": "1", "arguments": [{"value": mark}]}):
        self.directory, self.document, self.version = directory, document, 0
        directory.mkdir(exist_ok=True)
        self.prepare()
        self.swap()
        (directory / "config.json").symlink_to("..data/config.json")

    def prepare(self):
        """Writes the next version beside the one that counts."""
        self.version += 1
        data = self.directory / f"..{self.version}"
        data.mkdir()
        self.text = json.dumps(self.document(self.mark))
        (data / "config.json").write_text(self.text)
        (self.directory / "..data_tmp").symlink_to(data.name)

    @property
    def mark(self):
        return f"swap-{self.version}"

    def swap(self):
        os.rename(self.directory / "..data_tmp", self.directory / "..data")

    def clean(self):
        shutil.rmtree(self.directory / f"..{self.version - 1}")


def service_account(directory):
    """What a pod has of it. The certificate is of nobody that answers."""
    directory.mkdir(parents=True)
    (directory / "token").write_text("token")
    (directory / "namespace").write_text("default")
    (directory / "ca.crt").write_bytes(make_certificate(directory).read_bytes())
    return directory


def swap(bench):
    """Swap of a ConfigMap's link to the configuration being active: without Kubernetes, and with its API hung."""
    for key, is_hung in (("off", False), ("hung", True)):
        def once(contender, _, key=key, is_hung=is_hung):
            session = Session(bench.meter, contender, 8)
            with contextlib.ExitStack() as stack:
                stack.callback(session.close)
                stack.callback(end_everything)
                options, environment, api = ["--kubernetes", "off"], {}, None
                if is_hung:
                    api = stack.enter_context(contextlib.closing(HungApi()))
                    account = service_account(session.directory / "account")
                    options = ["--kubernetes", "on", "--agent-option", f"service-account-dir={account}"]
                    environment = api.environment() | {"POD_NAME": "pod"}
                for elapsed in swaps(session, options, environment, bench.amount(300, 30), api):
                    bench.add(f"swap.{key}", contender, elapsed)

        bench.rounds(1, bench.able("reports"), [f"swap.{key}"], once)


def swaps(session, options, environment, rounds, api):
    """Nanoseconds of each swap."""
    mount = ConfigMap(session.directory / "input")
    session.start(session.contender.report(session.directory, *options), 1, environment=environment)
    watch = Watch(session.directory / "control")
    while mount.mark.encode() not in watch.next():
        pass
    wait_until(lambda: api is None or api.connections, "nobody has asked the API")  # now the agent waits for it
    for _ in range(rounds):
        mount.prepare()
        time.sleep(0.12)  # kubelet swaps once a minute; the launcher reads at most once in 50 ms
        before = time.monotonic_ns()
        mount.swap()
        while mount.mark.encode() not in watch.next():
            pass
        yield time.monotonic_ns() - before
        mount.clean()


def no_cluster(contender):
    """Why a real API server cannot be reported to here, or None."""
    if pathlib.Path("/proc/self/uid_map").read_text().split()[2] == "1":  # then the agent cannot have its own user
        return "needs to be root"
    if not os.path.exists(contender.agent):
        return f"{os.path.basename(contender.agent)} is not built"
    absent = [name for name in ("kube-apiserver", "kubectl") if not os.access(API_SERVER / name, os.X_OK)]
    if absent:
        return f"{', '.join(absent)} not built (tests/kubernetes/build)"
    absent = [name for name in ("etcd", "ip") if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed (Debian packages etcd-server, iproute2)"
    return None


def annotation(bench):
    """Swap of a ConfigMap's link to the pod's annotation as a client of a real kube-apiserver sees it."""
    count = bench.amount(100, 20)
    keys = [f"annotation.{what}" for what in ("time", "pod", "all")]

    def once(contender, _):
        if reason := no_cluster(contender):
            raise MeasureError(reason)
        found = in_cluster(bench, contender, count)
        for elapsed in found["times"]:
            bench.add("annotation.time", contender, elapsed)
        bench.add("annotation.pod", contender, found["pod"])
        bench.add("annotation.all", contender, found["all"])

    bench.rounds(1, bench.able("reports"), keys, once)


def in_cluster(bench, contender, count):
    """What annotation.py finds. All that it starts has ended when this returns."""
    disk = bench.meter.work.parent / "cluster"  # as a cluster's etcd, this one waits for a disk
    shutil.rmtree(disk, ignore_errors=True)
    disk.mkdir()
    area = bench.meter.directory()
    environment = {**os.environ, "TRITON_LAUNCH": contender.program, "TRITON_AGENT": contender.agent,
                   "TRITON_KUBERNETES": str(API_SERVER), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run([sys.executable, HERE / "annotation.py", disk, area, str(count)], env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    finally:
        end_everything()
        shutil.rmtree(disk)
        shutil.rmtree(area)
    if done.returncode != 0:
        (bench.meter.built.parent / "annotation.log").write_text(done.stderr)
        lines = done.stderr.splitlines() or [f"exit status {done.returncode}"]
        line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
        raise MeasureError(f"{line[:80].replace('|', '/')} (all of it in annotation.log)")
    return json.loads(done.stdout)

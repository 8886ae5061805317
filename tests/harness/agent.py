"""Starts triton-launch-agent and talks to it: plain sockets where bytes matter, and certificates made on the spot.

The binary under test is TRITON_AGENT. Nothing here sleeps: waiting is for a line of the log, a reply or a state, with a
deadline.
"""

import fcntl
import http.client
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

from harness.process import TIMEOUT, Exit, Stream, matcher, wait_readable

AGENT = Path(os.environ.get("TRITON_AGENT", "/nonexistent/triton-launch-agent"))


class Agent:
    """A running agent. `port` is where it listens, if it `serves`; each line of its log is a record in `log.all`."""

    def __init__(self, *arguments, env=None, listen=True, hand_over=None, user=None, preexec=None, serves=True,
                 wrapper=()):
        read_end, write_end = os.pipe()
        command = [*wrapper, AGENT, *(["--listen", "127.0.0.1:0"] if listen else []), *map(str, arguments)]
        environment = {"PATH": "/usr/bin:/bin", **(env or {})}
        fds = list((hand_over or {}).values())
        if hand_over:
            # Only the process itself knows the id that LISTEN_PID must have, hence a shell that becomes the agent.
            environment |= {"LISTEN_FDS": str(len(fds)), "LISTEN_FDNAMES": ":".join(hand_over)}
            # Above those that they become, so that none is overwritten before it is moved.
            fds = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in fds]
            moves = " ".join(f"{number}<&{fd} {fd}<&-" for number, fd in enumerate(fds, start=3))
            command = ["bash", "-c", f'LISTEN_PID=$$ exec "$@" {moves}', "bash", *command]
        self.process = subprocess.Popen(command, env=environment, stdout=write_end, stderr=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, pass_fds=fds, user=user, group=user,
                                        extra_groups=[] if user is not None else None, preexec_fn=preexec)
        for fd in fds if hand_over else []:
            os.close(fd)
        os.close(write_end)
        self.log = Stream(read_end)
        self.pid = self.process.pid
        if serves:
            self.port = int(self.wait_for_event("listening")["address"].rsplit(":", 1)[1])

    def wait_for_event(self, event, timeout=TIMEOUT, **fields):
        """The next log record with this event and these fields."""
        match = matcher({"event": event, **fields})
        deadline = time.monotonic() + timeout
        while True:
            self.log.drain()
            if record := self.log.take(match):
                return record
            if self.log.ended:
                self.process.wait(TIMEOUT)
                raise AssertionError(f"ended ({self.process.returncode}) without {event}: {self.story()}")
            assert time.monotonic() < deadline, f"no {event} {fields}: {self.story()}"
            wait_readable([self.log.fd], deadline)

    def story(self):
        """Its log, and its standard error once it has ended."""
        lines = [json.dumps(record) for record in self.log.all]
        if self.process.poll() is not None:
            lines.append("stderr: " + self.process.stderr.read().decode(errors="replace"))
        return "\n".join(lines)

    def connect(self, timeout=TIMEOUT):
        """A plain TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def request(self, method, path, body=None, headers=None, context=None, timeout=TIMEOUT):
        """One request on a connection of its own: status, body as text, headers."""
        if context:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=context)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            connection.close()

    def get(self, path, **how):
        """Status and body."""
        return self.request("GET", path, **how)[:2]

    def post(self, path, body="", **how):
        """Status and body."""
        return self.request("POST", path, body=body, **how)[:2]

    def metric(self, name):
        """The value of a sample without labels, or the sum over all labels."""
        lines = [line.rsplit(" ", 1) for line in self.get("/metrics")[1].splitlines() if not line.startswith("#")]
        return sum(float(value) for sample, value in lines if sample.split("{")[0] == name)

    def private_memory(self):
        """What it alone has in memory, in bytes: the pages of its program file too while nobody else runs it."""
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        fields = dict(line.split(":", 1) for line in rollup.splitlines()[1:])
        return sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) * 1024

    def status(self):
        """/proc/PID/status."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}

    def stop(self, number=signal.SIGTERM):
        """Asks for the end and waits for it."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self, timeout=TIMEOUT):
        """Waits for the end."""
        code = self.process.wait(timeout)
        self.log.drain()
        return Exit(signal=-code) if code < 0 else Exit(code=code)

    def close(self):
        """Ends it; a second time does nothing."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stderr.closed:
            return
        self.process.stderr.close()
        os.close(self.log.fd)


def run_agent(*arguments, env=None):
    """Runs the agent to its end, which must come by itself."""
    return subprocess.run([AGENT, *map(str, arguments)], env={"PATH": "/usr/bin:/bin", **(env or {})}, text=True,
                          capture_output=True, timeout=TIMEOUT, check=False)


def read_answer(connection):
    """One HTTP answer from a socket: status line, headers and body; None at the end of the connection."""
    answer = http.client.HTTPResponse(connection)
    try:
        answer.begin()
    except (http.client.BadStatusLine, ConnectionResetError):
        return None
    return answer.status, answer.read().decode()


def read_to_end(connection, timeout=TIMEOUT):
    """All that comes until the peer closes, or None when it does not."""
    deadline = time.monotonic() + timeout
    received = b""
    while wait_readable([connection.fileno()], deadline):
        try:
            piece = connection.recv(65536)
        except ConnectionResetError:
            return received
        if not piece:
            return received
        received += piece
    return None


class Authority:
    """Makes certificates with the openssl command, all of one root (and an intermediate when asked for)."""

    def __init__(self, directory, subject="/C=DE/O=Root Org/CN=Test Root"):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True)
        self.key = self.directory / "ca.key"
        self.certificate = self.directory / "ca.pem"
        self._openssl("req", "-x509", *self._new_key(self.key), "-subj", subject, "-days", "30", "-out",
                      self.certificate, "-addext", "basicConstraints=critical,CA:TRUE")

    @staticmethod
    def _new_key(path, kind="ec", option="ec_paramgen_curve:prime256v1"):
        return ["-newkey", kind, "-pkeyopt", option, "-nodes", "-keyout", str(path)]

    @staticmethod
    def _openssl(*arguments):
        done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def issue(self, name, subject="/CN=client", alternatives=None, dates=None, config="", is_authority=False, of=()):
        """A key and a certificate: (certificate file, key file). `dates`: two texts like 20200101000000Z; `of`: kind and option of the key."""
        key, request = self.directory / f"{name}.key", self.directory / f"{name}.csr"
        certificate, extensions = self.directory / f"{name}.pem", self.directory / f"{name}.ext"
        self._openssl("req", "-new", *self._new_key(key, *of), "-utf8", "-subj", subject, "-out", request)
        lines = [f"basicConstraints=CA:{str(is_authority).upper()}"] + ([f"subjectAltName={alternatives}"] if alternatives else [])
        extensions.write_text("\n".join(lines) + "\n" + config)
        if dates is None:
            self._openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-days", "30",
                          "-extfile", extensions, "-out", certificate)
        else:
            self._issue_with_dates(name, request, certificate, extensions, dates)
        return certificate, key

    def below(self, name, **more):
        """An authority between this one and what it issues."""
        middle = Authority.__new__(Authority)
        middle.directory = self.directory
        middle.certificate, middle.key = self.issue(name, subject=f"/CN={name}", is_authority=True, **more)
        return middle

    def _issue_with_dates(self, name, request, certificate, extensions, dates):
        area = self.directory / f"{name}.ca"
        area.mkdir()
        (area / "index").touch()
        (area / "serial").write_text("01\n")
        settings = area / "ca.cnf"
        settings.write_text(f"[ca]\ndefault_ca=x\n[x]\ndatabase={area}/index\nserial={area}/serial\n"
                            f"new_certs_dir={area}\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=optional\n")
        self._openssl("ca", "-batch", "-config", settings, "-cert", self.certificate, "-keyfile", self.key, "-in",
                      request, "-out", certificate, "-startdate", dates[0], "-enddate", dates[1], "-extfile",
                      extensions, "-notext", "-preserveDN")

    def client(self, pair=None, version=None):
        """A client's TLS context, with a certificate or without."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.certificate)
        if version:
            context.minimum_version = context.maximum_version = version
        if pair:
            context.load_cert_chain(*pair)
        return context


class FakeLauncher:
    """Answers Varlink calls from threads: on a Unix socket with a path, or on connections that come through a broker,
    whose other end is `broker`, to be handed to an agent. `handle` gets the call and returns a list of replies; None: no
    answer; "close": the connection ends."""

    def __init__(self, handle, path=None):
        self.handle = handle
        self.calls = []
        self.connections = 0
        self.broker = None
        self._streams = []  # (method, connection) of calls that are not over
        self._open = set()
        self._changed = threading.Condition()
        self._stopping = False
        if path:
            self._source = socket.socket(socket.AF_UNIX)
            self._source.bind(str(path))
            self._source.listen()
        else:
            self._source, self.broker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _readable(self, sock):
        ready, _, _ = select.select([sock, self._wake_read], [], [])
        return sock in ready and not self._stopping

    def _next_connection(self):
        if not self.broker:
            return self._source.accept()[0]
        data, fds, _, _ = socket.recv_fds(self._source, 16, 4)
        assert len(data) == 1 and len(fds) == 1, (data, fds)
        return socket.socket(fileno=fds[0])

    def _accept(self):
        threads = []
        while self._readable(self._source):
            connection = self._next_connection()
            connection.setblocking(True)
            self.connections += 1
            self._open.add(connection)
            threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _serve(self, connection):
        try:
            self._converse(connection)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it had enough
        finally:
            with self._changed:
                self._open.discard(connection)
                self._streams = [stream for stream in self._streams if stream[1] is not connection]
                connection.close()
                self._changed.notify_all()

    def _converse(self, connection):
        rest = b""
        while self._readable(connection):
            data = connection.recv(65536)
            if not data:
                return
            *frames, rest = (rest + data).split(b"\0")
            for frame in frames:
                call = json.loads(frame)
                with self._changed:
                    self.calls.append(call)
                    self._changed.notify_all()
                replies = self.handle(call)
                if replies == "close":
                    return
                for reply in replies or []:
                    connection.sendall(json.dumps(reply).encode() + b"\0")
                if replies and isinstance(replies[-1], dict) and replies[-1].get("continues"):
                    with self._changed:
                        self._streams.append((call["method"].rsplit(".", 1)[1], connection))
                        self._changed.notify_all()

    def called(self, method):
        """The parameters of all calls of a method so far."""
        return [call["parameters"] for call in list(self.calls) if call["method"].rsplit(".", 1)[1] == method]

    def wait_for(self, check, what):
        """Waits until `check` returns something true, as it may at each call, stream and end; returns that."""
        with self._changed:
            assert self._changed.wait_for(check, TIMEOUT), what
            return check()

    def tell(self, method, parameters):
        """One more reply to the latest call of a method that is not over."""
        stream = self.wait_for(lambda: [one for name, one in self._streams if name == method], f"nobody asks {method}")
        stream[-1].sendall(json.dumps({"parameters": parameters, "continues": True}).encode() + b"\0")

    def drop_connections(self):
        """What becoming another version does to them."""
        with self._changed:
            dropped = set(self._open)
            for connection in dropped:
                connection.shutdown(socket.SHUT_RDWR)
            assert self._changed.wait_for(lambda: not dropped & self._open, TIMEOUT)

    def close(self):
        """Ends it; a second time does nothing."""
        if self._stopping:
            return
        self._stopping = True
        os.write(self._wake_write, b"x")
        self._thread.join()
        self._source.close()
        if self.broker:
            self.broker.close()
        os.close(self._wake_read)
        os.close(self._wake_write)


def probing_launcher():
    """One that orders probes by Prober."""
    return FakeLauncher(lambda call: [{"parameters": {}, "continues": True}] if call["method"].endswith(".Probes")
                        else [{"parameters": {}}])


class Prober:
    """Orders probes and waits for their results."""

    def __init__(self, fake):
        self.fake = fake
        self.last = 0

    def order(self, kind, target, timeout=TIMEOUT, **more):
        self.last += 1
        self.fake.tell("Probes", {"id": self.last, "kind": kind, "target": target, "timeout_seconds": timeout, **more})
        return self.last

    def cancel(self, number):
        self.fake.tell("Probes", {"id": number, "kind": None, "target": None, "timeout_seconds": None})

    def results(self):
        return {result["id"]: (result["ok"], result["detail"]) for result in self.fake.called("ProbeResult")}

    def result(self, number):
        return self.fake.wait_for(lambda: self.results().get(number), f"no result of {number}: {self.results()}")

    def probe(self, kind, target, timeout=TIMEOUT, **more):
        return self.result(self.order(kind, target, timeout, **more))

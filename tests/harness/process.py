"""Starts triton-launch where a test wants it and waits for what it and its processes report.

Nothing here sleeps: waiting is poll(2) on a pipe and on the launcher's pidfd, with a deadline. Each launcher lives in a
PID and mount namespace of its own, as PID 1 or beside a small init; ending PID 1 ends all that a test left behind.
"""

import contextlib
import errno
import json
import os
import random
import resource
import select
import signal
import socket
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

BINARY = Path(os.environ.get("TRITON_LAUNCH", "/nonexistent/triton-launch"))
TIMEOUT = 20.0  # seconds; a slow machine is not a failure
VERSION = "1.0.0"

# The sanitizers' search for leaks needs what some tests take away: one process more, shared memory, no tracer above.
NO_LEAK_SEARCH = {"ASAN_OPTIONS": "detect_leaks=0"}

# A niceness that a user without rights may have, whatever this process has.
NICE = str(min(os.nice(0) + 3, 19))

# KILL and STOP never arrive, and CHLD is our own. What hardware raises is forwarded too when somebody sends it.
FORWARDABLE = [number for number in range(1, 65) if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)]
ORDERED_STOP = [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT]


class Exit(NamedTuple):
    """How a process ended: by a code or by a signal."""
    code: int | None = None
    signal: int | None = None


def wait_readable(fds, deadline):
    """Those of the descriptors that become readable (or end) before the deadline; none when it passes."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    left = max(0.0, deadline - time.monotonic())
    return [fd for fd, _ in poll.poll(left * 1000)]


def eventually(check, what, timeout=TIMEOUT):
    """Calls check until it returns something true and returns that. For states that announce themselves by no event."""
    deadline = time.monotonic() + timeout
    while True:
        if result := check():
            return result
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        wait_readable([], time.monotonic() + 0.002)


class Stream:
    """Lines from a descriptor that another process writes to. A line that was waited for is taken; others stay."""

    def __init__(self, fd):
        os.set_blocking(fd, False)
        self.fd = fd
        self.ended = False
        self.pending = []
        self.all = []
        self._rest = b""

    def drain(self):
        """Reads what has been written so far; of a writer that never pauses, a part."""
        for _ in range(64):
            if self.ended:
                break
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                break
            except OSError:  # EIO: the other side of a terminal is closed
                data = b""
            if not data:
                self.ended = True
                break
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                record = self._parse(line)
                self.pending.append(record)
                self.all.append(record)

    @staticmethod
    def _parse(line):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        return record if isinstance(record, dict) else {"text": line.decode(errors="replace").rstrip("\r")}

    def take(self, match):
        """The first pending line that matches, or None."""
        for index, record in enumerate(self.pending):
            if match(record):
                return self.pending.pop(index)
        return None


def matcher(fields):
    """A predicate: each field equals the wanted value, or satisfies it when that is a function. None: it is absent."""
    def agrees(record):
        for name, wanted in fields.items():
            value = record.get(name)
            if not (wanted(value) if callable(wanted) else value == wanted):
                return False
        return True
    return agrees


class Launcher:
    """A running triton-launch. `pid` is its id outside its namespace; log records carry the ids inside."""

    def __init__(self, area, programs, arguments, *, pid1, env=None, place=(), stdin=subprocess.DEVNULL, stdout=None,
                 stderr=None, pass_fds=(), binary=BINARY):
        self.area = area
        self.pid1 = pid1
        self.exit = None
        self._owned = []
        root = Path(place[place.index("--root") + 1]) if "--root" in place else Path("/")
        fifo = (area if root == Path("/") else root) / f"probe.{id(self)}"
        os.mkfifo(fifo)
        fifo.chmod(0o666)
        self.probe = Stream(self._own(os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)))
        probe_out = "/" + str(fifo.relative_to(root))
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/", "PROBE_OUT": probe_out, **(env or {})}
        self.stderr_path = area / f"stderr.{id(self)}"
        self.events = None
        if stdout is None:
            read_end, stdout = os.pipe()
            self.events = Stream(self._own(read_end))
            to_close = stdout
        else:
            to_close = None
        report_read, report_write = os.pipe()
        command = [programs / "place", *(["--pid1"] if pid1 else []), "--report", str(report_write), *place, "--",
                   str(binary), *map(str, arguments)]
        with open(self.stderr_path, "wb") as errors:
            done = subprocess.run(command, env=environment, stdin=stdin, stdout=stdout, check=False,
                                  stderr=errors if stderr is None else stderr, pass_fds=(report_write, *pass_fds))
        os.close(report_write)
        if to_close is not None:
            os.close(to_close)
        with os.fdopen(report_read) as report:
            pids = report.read().split()
        assert done.returncode == 0 and len(pids) == 2, f"place: {self.errors()}"
        self.init, self.pid = map(int, pids)
        self.pidfd = self._own(os.pidfd_open(self.pid))
        self.namespace_root = Path(f"/proc/{self.init}/root")

    def _own(self, fd):
        self._owned.append(fd)
        return fd

    def errors(self):
        """What the launcher (and its processes) wrote to standard error."""
        return self.stderr_path.read_text(errors="replace") if self.stderr_path.exists() else ""

    # --- waiting

    def wait_for(self, stream, fields, timeout=TIMEOUT):
        """Blocks until a line on the stream matches; fails at the deadline, or at once when the launcher has ended."""
        match = matcher(fields)
        deadline = time.monotonic() + timeout
        while True:
            ended = bool(wait_readable([self.pidfd], 0))  # before draining: what it wrote last is then there
            stream.drain()
            if record := stream.take(match):
                return record
            assert not (ended or stream.ended), f"ended without {fields}\n{self.story()}"
            assert time.monotonic() < deadline, f"no {fields} in {timeout} s\n{self.story()}"
            wait_readable([stream.fd, self.pidfd], deadline)

    def wait_for_event(self, event, timeout=TIMEOUT, **fields):
        """The next log record with this event and these fields."""
        return self.wait_for(self.events, {"event": event, **fields}, timeout)

    def wait_for_probe(self, probe, timeout=TIMEOUT, **fields):
        """The next line of a supervised probe with this kind and these fields."""
        return self.wait_for(self.probe, {"probe": probe, **fields}, timeout)

    def wait_for_text(self, text, timeout=TIMEOUT):
        """The next output line that is not a log record and holds the text."""
        return self.wait_for(self.events, {"text": lambda line: line is not None and text in line}, timeout)["text"]

    def wait_up(self, timeout=TIMEOUT, **fields):
        """The line by which a probe says that it is ready."""
        return self.wait_for_probe("say", timeout, text="up", **fields)

    def wait_started(self, timeout=TIMEOUT, **fields):
        """The same, and the log says that it was started: what comes there now is about something else."""
        line = self.wait_up(timeout, **fields)
        self.wait_for_event("process-started", timeout, pid=line["pid"])
        return line

    def wait_signal(self, number, timeout=TIMEOUT, **fields):
        """The line by which a trapping probe says that the signal has come."""
        return self.wait_for_probe("signal", timeout, signal=int(number), **fields)

    def wait_signal_after_end(self, number):
        """The same, for a probe that outlives the launcher, whose end is then not a reason to give up."""
        def arrived():
            self.probe.drain()
            return self.probe.take(matcher({"probe": "signal", "signal": int(number)}))
        return eventually(arrived, f"signal {number} arrives")

    def quiet_for(self, seconds, stream=None):
        """Asserts that nothing happens for that long: the one use of time.

        A record of what happened before does not break the silence: on a busy machine it is written late. What the
        launcher is still busy with belongs to before, too.
        """
        stream = stream or self.events
        eventually(lambda: self.status()["State"].startswith("S"), "the launcher waits")
        stream.drain()
        before = len(stream.all)
        deadline = time.monotonic() + seconds
        began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # as the log has it
        while not stream.ended and wait_readable([stream.fd], deadline):
            stream.drain()
            late = [record for record in stream.all[before:] if record.get("time", began) < began]
            assert len(stream.all) == before + len(late), f"expected silence\n{self.story()}"

    def wait(self, timeout=TIMEOUT):
        """Waits for the launcher's end. Afterwards all its log lines are in `events.all`."""
        streams = [stream for stream in (self.events, self.probe) if stream]
        deadline = time.monotonic() + timeout
        while self.exit is None:
            readable = wait_readable([self.pidfd, *(stream.fd for stream in streams if not stream.ended)], deadline)
            for stream in streams:
                stream.drain()
            if self.pidfd in readable:
                self._reap()
            else:
                assert time.monotonic() < deadline, f"still runs after {timeout} s\n{self.story()}"
        for stream in streams:
            stream.drain()
        return self.exit

    def _reap(self):
        _, status, self.usage = os.wait4(self.pid, 0)
        self.exit = Exit(signal=os.WTERMSIG(status)) if os.WIFSIGNALED(status) else Exit(code=os.WEXITSTATUS(status))

    def story(self):
        """All that is known, for the message of a failed assertion."""
        lines = [f"exit: {self.exit}"]
        for name, stream in (("log", self.events), ("probe", self.probe)):
            if stream:
                stream.drain()
                lines += [f"{name}: {json.dumps(record)}" for record in stream.all[-60:]]
        return "\n".join(lines + ["stderr: " + self.errors()])

    def assert_running(self):
        """Asserts that the launcher has not ended."""
        assert self.exit is None and not wait_readable([self.pidfd], 0), self.story()

    # --- acting

    def signal(self, number):
        """Sends a signal to the launcher."""
        signal.pidfd_send_signal(self.pidfd, number)

    def signal_inside(self, pid, number):
        """Sends a signal to the process with this id inside the launcher's namespace."""
        directory = os.open(self.proc(pid), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            signal.pidfd_send_signal(directory, number)
        finally:
            os.close(directory)

    def enter(self, *kinds):
        """The first words of a command that runs in these namespaces of the launcher (pid, mount), as `exec` of a container
        runtime does it. A user other than root gets there through the user namespace, in which it is root."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self.init), *user, *(f"--{kind}" for kind in kinds), "--"]

    def hurry(self, ask=None):
        """A second request to stop: SIGTERM, or what `ask` does. What comes soon after the first one is taken for a part of it, so
        this repeats it."""
        def is_asked():
            ask() if ask else self.signal(signal.SIGTERM)
            has_ended = bool(select.select([self.pidfd], [], [], 0)[0])
            return has_ended or (self.events and len(self.events_named("stop-requested")) > 1)
        eventually(is_asked, "the launcher takes a second request")

    def stop(self, timeout=TIMEOUT):
        """An ordered stop: SIGTERM, and the end."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def close(self):
        """Ends the launcher and everything in its namespace."""
        if self.exit is None:
            self._kill(self.init)
            self._kill(self.pid)
            self._reap()
        if not self.pid1 and self.init:
            self._kill(self.init)
            os.waitpid(self.init, 0)
        self.init = 0
        for fd in self._owned:
            os.close(fd)
        self._owned = []

    @staticmethod
    def _kill(pid):
        try:
            os.kill(pid, signal.SIGKILL)  # not reaped yet, hence still that process
        except ProcessLookupError:
            pass

    # --- looking

    def events_named(self, event, **fields):
        """All log records so far with this event and these fields."""
        self.events.drain()
        return [record for record in self.events.all if matcher({"event": event, **fields})(record)]

    def proc(self, pid):
        """The /proc directory of a process, by its id inside the namespace."""
        return self.namespace_root / "proc" / str(pid)

    def children_whose(self, name, matches):
        """Ids of the launcher's children, as PID 1, whose file of this name in /proc has such a text; one may end meanwhile."""
        found = []
        for pid in (self.proc(1) / "task" / "1" / "children").read_text().split():
            try:
                if matches((self.proc(pid) / name).read_text()):
                    found.append(pid)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def is_alive(self, pid):
        """Whether the process exists inside the namespace and is not a zombie."""
        return status_of(self.proc(pid)).get("State", "Z")[0] not in "ZX"

    def zombies(self):
        """Ids of the dead but unreaped processes inside the namespace."""
        found = [entry for entry in self.proc("").iterdir() if entry.name.isdigit()]
        return [int(entry.name) for entry in found if status_of(entry).get("State", "?").startswith("Z")]

    def process_count(self):
        """How many processes the namespace holds, zombies included."""
        return sum(entry.name.isdigit() for entry in self.proc("").iterdir())

    def status(self):
        """The launcher's /proc/PID/status."""
        return status_of(Path(f"/proc/{self.pid}"))

    def switches(self):
        """How often the launcher has been given a processor."""
        status = self.status()
        return int(status["voluntary_ctxt_switches"]) + int(status["nonvoluntary_ctxt_switches"])

    def cpu_seconds(self):
        """Processor time that the launcher has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_of(directory):
    """/proc/PID/status as a dictionary; empty when the process is gone."""
    try:
        text = (directory / "status").read_text()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def signal_mask(status, name):
    """The set of signal numbers in a mask of /proc/PID/status."""
    mask = int(status.get(name, "0"), 16)
    return {number for number in range(1, 65) if mask & (1 << (number - 1))}


class Configuration:
    """The input directory with its configuration file."""

    # the number of the process, so that each line of a probe carries it
    NUMBER = {"type": "Concatenate", "values": [{"value": "n:"}, {"type": "ProcessNumber"}]}

    def __init__(self, directory, name="config.json"):
        self.directory = Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.path = self.directory / name

    @classmethod
    def document(cls, *steps, version=VERSION, **more):
        """A configuration whose processes do these probe steps (text, or an Argument object)."""
        arguments = [step if isinstance(step, dict) else {"value": step} for step in steps]
        return {"version": version, "arguments": [cls.NUMBER, *arguments], **more}

    def write(self, *steps, **more):
        """Replaces the file by a rename, as careful programs and editors do."""
        self.write_text(json.dumps(self.document(*steps, **more)))

    def write_text(self, text):
        """The same with any content, text or bytes."""
        temporary = self.directory / ".config.new"
        temporary.write_bytes(text if isinstance(text, bytes) else text.encode())
        temporary.chmod(0o644)
        temporary.rename(self.path)

    def write_in_place(self, *steps, **more):
        """Overwrites the file without a rename."""
        self.path.write_text(json.dumps(self.document(*steps, **more)))


class Starter:
    """What the fixtures hand out: starts launchers in one place (as PID 1 or not) and ends them with the test."""

    def __init__(self, area, programs, pid1):
        self.area = area
        self.programs = programs
        self.pid1 = pid1
        self.probe = programs / "probe"
        self.binary = BINARY
        self.running = []

    def start(self, *arguments, **how):
        """Starts the launcher with these arguments."""
        pid1 = how.pop("pid1", self.pid1)
        binary = how.pop("binary", self.binary)
        launcher = Launcher(self.area, self.programs, arguments, pid1=pid1, binary=binary, **how)
        self.running.append(launcher)
        return launcher

    def wrap(self, *steps, options=(), **how):
        """Wraps a probe that does these steps."""
        return self.start(*options, "--", self.probe, *steps, **how)

    def launch(self, configuration, *options, program=None, **how):
        """Launch mode on a configuration, with the probe as the container's own binary."""
        return self.start("--input-dir", configuration.directory, "--main-container-version", VERSION,
                          "--fdbserver-path", program or self.probe, *options, **how)

    def configuration(self, *steps, **more):
        """A fresh input directory with a configuration of these steps; without steps, an empty directory."""
        configuration = Configuration(self.area / f"input{len(list(self.area.glob('input*')))}")
        if steps:
            configuration.write(*steps, **more)
        return configuration

    def close(self):
        """Ends all that still run."""
        for launcher in self.running:
            launcher.close()


def free_port(host="127.0.0.1", family=socket.AF_INET):
    """A port that nobody listens on; none of those that the kernel hands out, to somebody else before it is used."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with contextlib.suppress(OSError), socket.socket(family) as sock:
            sock.bind((host, random.choice(range(1025, first) or range(1025, 65536))))
            return sock.getsockname()[1]


def many_files():
    """What a place needs so that a loop over all descriptors shows: a limit that is higher than the usual 1,024."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most <= 4096:
        pytest.skip(f"the hard limit of descriptors is {most}: a loop over all of them would not show")
    return ["--files", str(min(most, 1 << 20))]


def run_plainly(*arguments, env=None, cwd=None, binary=None, stdin=subprocess.DEVNULL):
    """Runs the binary to its end, in no namespace: for what starts no process."""
    return subprocess.run([str(binary or BINARY), *map(str, arguments)], env={"PATH": "/usr/bin:/bin", **(env or {})},
                          cwd=cwd, stdin=stdin, capture_output=True, text=True, timeout=TIMEOUT, check=False)


def is_static(path):
    """Whether the program needs no dynamic loader, read from its ELF header (sanitizer builds do need one)."""
    headers = subprocess.run(["readelf", "-lW", str(path)], capture_output=True, text=True, check=False).stdout
    return "INTERP" not in headers


def has_errno(record, code):
    """Whether a record's errno is this one, by number or by name."""
    return record["errno"] in (code, errno.errorcode[code])

"""A launcher with a control socket, and those who talk to it: ctl, and plain Varlink for what ctl never sends."""

import contextlib
import json
import os
import socket
import subprocess
import time

from harness.process import BINARY, TIMEOUT, eventually, matcher, wait_readable

INTERFACE = "org.tritonlaunch.Launcher"


class Varlink:
    """One connection to a control socket."""

    def __init__(self, path, timeout=TIMEOUT):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(str(path))
        self._rest = b""

    def send(self, method, parameters=None, **flags):
        """Sends a call and does not wait."""
        name = method if "." in method else f"{INTERFACE}.{method}"
        self.socket.sendall(json.dumps({"method": name, "parameters": parameters or {}, **flags}).encode() + b"\0")

    def receive(self):
        """The next reply; None when the launcher has closed the connection."""
        while b"\0" not in self._rest:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._rest += data
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, parameters=None, **flags):
        """A call and its (first) reply."""
        self.send(method, parameters, **flags)
        return self.receive()

    def close(self):
        """Ends the connection."""
        self.socket.close()


def reach(path):
    """A connection, as soon as somebody listens there: the file is there a moment before."""
    def connected():
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return Varlink(path)
        return None
    return eventually(connected, f"somebody listens on {path}")


class Follower:
    """A ctl command that goes on until it is ended, such as `events` and `logs -f`; its lines as they come."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.lines = []
        self._rest = b""

    def drain(self):
        """Takes what has come; False at its end."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.process.stdout.fileno(), 1 << 16):
                *lines, self._rest = (self._rest + data).split(b"\n")
                self.lines += [line.decode() for line in lines]
            return False
        return True

    def wait_for(self, match, timeout=TIMEOUT):
        """The first line so far that matches: a text that it holds, or a predicate."""
        agrees = match if callable(match) else lambda line: match in line
        deadline = time.monotonic() + timeout
        while True:
            runs = self.drain()
            for line in self.lines:
                if agrees(line):
                    return line
            assert runs, f"ended without {match}: {self.lines[-20:]}, {self.process.stderr.read()}"
            assert time.monotonic() < deadline, f"no {match} in {timeout} s: {self.lines[-20:]}"
            wait_readable([self.process.stdout.fileno()], deadline)

    def wait_for_event(self, event, **fields):
        """The same for `events --json`: the first event so far with these fields."""
        agrees = matcher({"event": event, **fields})
        return json.loads(self.wait_for(lambda line: agrees(json.loads(line))))

    def close(self):
        """Ends the command."""
        self.process.kill()
        self.process.communicate()


class Controlled:
    """A launcher, its configuration, and its control socket."""

    def __init__(self, starter, programs, *options, document=None, **how):
        self.starter = starter
        self.configuration = starter.configuration()
        self.socket = starter.area / f"run{len(starter.running)}" / "control"
        self.followers = []
        self.configure(programs, document)
        self.launcher = starter.launch(self.configuration, "--control-socket", self.socket, *options, **how)
        self.reached = eventually(self._reach, "the control socket is there")

    def _reach(self):
        with contextlib.suppress(OSError):
            Varlink(self.socket).close()
            return True
        self.launcher.assert_running()
        return False

    def configure(self, programs, document=None):
        """Replaces the configuration. Commands are lists of probe steps unless they begin with a slash."""
        self.configuration.write_text(json.dumps(document or self.document(programs)))

    def document(self, programs):
        """A document with these programs: lists of probe steps, or objects whose `steps` are these."""
        made = {}
        for name, program in programs.items():
            program = dict(program) if isinstance(program, dict) else {"steps": program}
            if (steps := program.pop("steps", None)) is not None:
                number = {"type": "Concatenate", "values": ["n:", {"type": "ProcessNumber"}]}
                program["command"] = [str(self.starter.probe), number, f"tag:{name}", *steps]
            made[name] = program
        return {"programs": made}

    def command(self, *arguments):
        """The words of a ctl command."""
        return [str(BINARY), "ctl", "--socket", str(self.socket), *map(str, arguments)]

    def run(self, *arguments, timeout=TIMEOUT, **how):
        """Runs ctl to its end."""
        return subprocess.run(self.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout, check=False, **how)

    def ctl(self, *arguments, expect=0, **how):
        """Runs ctl, asserts its exit code and returns its standard output (of a failure: its standard error)."""
        done = self.run(*arguments, **how)
        assert done.returncode == expect, f"{arguments}: {done}\n{self.launcher.story()}"
        return done.stdout if expect == 0 else done.stderr

    def status(self, *names):
        """{name: its status with `processes` by number}"""
        answer = json.loads(self.ctl("status", "--json", *names))
        for program in answer["programs"]:
            program["processes"] = {process["number"]: process for process in program["processes"]}
        return {program["name"]: program for program in answer["programs"]}

    def process(self, name, number=1):
        """The status of one process."""
        return self.status(f"{name}:{number}")[name]["processes"][number]

    def pid(self, name, number=1):
        """Its pid inside the launcher's namespace."""
        return self.process(name, number)["pid"]

    def running(self, name, number=1):
        """Its pid, as soon as it runs."""
        def found():
            process = self.status()[name]["processes"].get(number, {})
            return process.get("pid") if process.get("state") in ("up", "activating") else None
        return eventually(found, f"{name}:{number} runs")

    def follow(self, *arguments):
        """Starts a ctl command that goes on; the fixture ends it."""
        follower = Follower(self.command(*arguments))
        self.followers.append(follower)
        return follower

    def upgrade(self, path=BINARY):
        """An upgrade that succeeds."""
        return self.ctl("upgrade", path)

    def close(self):
        """Ends what follow() has started."""
        for follower in self.followers:
            follower.close()


def outside_pid(launcher, pid):
    """The id outside of a process that is `pid` in the launcher's namespace."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/status", encoding="utf-8") as status:
            for line in status:
                if line.startswith("NSpid:"):
                    ids = line.split()[1:]
                    same = os.stat(f"/proc/{entry}/ns/pid").st_ino == os.stat(f"/proc/{launcher.init}/ns/pid").st_ino
                    if same and int(ids[-1]) == pid:
                        return int(entry)
    return None


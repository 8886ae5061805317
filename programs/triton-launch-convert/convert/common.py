"""What all readers share: bounded reading, places, findings, and the values of a ProcessConfiguration."""

import fnmatch
import grp
import ipaddress
import json
import os
import pwd
import re
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

# Whoever writes the input controls all of these numbers.
MAX_FILE = 1 << 20
MAX_TOTAL = 8 << 20
MAX_FILES = 2000
MAX_PROGRAMS = 1024
MAX_COUNT = 65535
MAX_NAMES = 20000  # that a pattern is compared with
MAX_PATTERN = 1000
MAX_FINDINGS = 10000
MAX_EXPANDED = 1 << 20
MAX_RESULT = 1 << 20  # of a configuration; check refuses a longer one
MAX_ARGUMENT = 131071  # MAX_ARG_STRLEN of Linux
MAX_COMMAND = 256 << 10
MAX_PIDS = 4194304  # PID_MAX_LIMIT of Linux: a higher limit of processes is the same
MAX_STEPS = 1000000  # along the relations of programs
YEAR = 365 * 24 * 3600

# Of syslog. Source: RFC 5424, 6.2.1, as far as others have names for them.
FACILITIES = ("kern user mail daemon auth syslog lpr news uucp cron authpriv ftp "
              "local0 local1 local2 local3 local4 local5 local6 local7").split()
LIMITS = {"NOFILE", "NPROC", "CORE", "AS", "CPU", "DATA", "FSIZE", "MEMLOCK", "MSGQUEUE", "NICE", "RSS", "RTPRIO", "RTTIME", "SIGPENDING", "STACK", "LOCKS"}
SIGNALS = {"ABRT", "ALRM", "BUS", "CHLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "KILL", "PIPE", "PROF", "PWR", "QUIT",
           "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP", "TTIN", "TTOU", "URG", "USR1", "USR2", "VTALRM", "WINCH",
           "XCPU", "XFSZ"}
# What Docker and Kubernetes give a container only on request, and without which a configuration that has it is rejected.
NEEDS_GROUPS = ("an ordinary container has no control groups of its own, and rejects it", "give it a delegated tree (see cgroup in triton-launch-config(5)), or limit the container and leave it out")
NEEDS_RESOURCE = ("an ordinary container has no CAP_SYS_RESOURCE, and rejects it", "start it with that capability, or leave it out")
NEEDS_NICE = ("an ordinary container has no CAP_SYS_NICE, and rejects it", "start it with that capability, or leave it out")
NEEDS_LIMIT = ("an ordinary container has a lower limit, and rejects it", "start it with the same limit (docker run --ulimit), or leave it out")
LOW_LIMITS = ("MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO")  # of a container, by default
GROUPS_OF_NUMBER = ("the further groups that this user has here stand in the result", "name the user, whose groups are then looked up")


@dataclass(frozen=True)
class Place:
    """Where something stands: a file, and a line of it (0: the file as a whole)."""
    file: str
    line: int = 0

    def __str__(self):
        return f"{self.file}:{self.line}" if self.line else self.file


class Failure(Exception):
    """The input cannot be converted."""

    def __init__(self, place, text):
        super().__init__(f"{place}: {text}")


@dataclass(frozen=True)
class Finding:
    """Something that has no equivalent, and what to do instead."""
    place: Place
    key: str
    reason: str
    instead: str

    def __str__(self):
        return f"{self.place}: {self.key}: {self.reason}; {self.instead}"


class Conversion:
    """The programs and findings so far, and what may still be read."""

    def __init__(self, instance=None, environment=None):
        self.programs = {}
        self.places = {}
        self.length = 0
        self.steps = 0
        self.findings = []
        self.instance = instance
        self.environment = dict(os.environ if environment is None else environment)
        self.files = 0
        self.total = 0

    def find(self, place, key, reason, instead):
        """Notes what has no equivalent, once."""
        finding = Finding(place, key, reason, instead)
        if finding in self.findings[-50:]:
            return
        if len(self.findings) >= MAX_FINDINGS:
            raise Failure(place, f"more than {MAX_FINDINGS} findings")
        self.findings.append(finding)

    def find_limit(self, place, key, name, value):
        """Notes a limit (RLIMIT_<name>) that an ordinary container does not have itself, so that it cannot give it."""
        hard = value["hard"] if isinstance(value, dict) else value
        if hard == "unlimited" or (name.upper() in LOW_LIMITS and hard > 0):
            self.find(place, key, *NEEDS_LIMIT)

    def add(self, place, name, program):
        """Adds a program; its name is made into one that a ProcessConfiguration takes."""
        if len(self.programs) >= MAX_PROGRAMS:
            raise Failure(place, f"more than {MAX_PROGRAMS} programs")
        good = program_name(name)
        if not good:
            raise Failure(place, f"{name!r} cannot be made into the name of a program")
        if good in self.programs:
            raise Failure(place, f"a second program has the name {good}")
        if good != name:
            self.find(place, name, "a program cannot have this name", f"it is called {good} here")
        self.measure(place, program)
        self.programs[good] = program
        self.places[good] = place

    def measure(self, place, program):
        """Refuses values that no program can have, and more programs than fit into the result."""
        look_at(place, [], program)
        self.length += len(json.dumps(program))
        if self.length > MAX_RESULT:
            raise Failure(place, f"the result becomes longer than {MAX_RESULT} bytes")

    def read(self, path):
        """The text of a regular file, within the limits."""
        place = Place(str(path))
        self.files += 1
        if self.files > MAX_FILES:
            raise Failure(place, f"more than {MAX_FILES} files")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise Failure(place, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Failure(place, "is not a regular file")
        try:
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(MAX_FILE + 1)
        except OSError as error:
            raise Failure(place, f"cannot be read: {error.strerror}") from None
        if len(data) > MAX_FILE:
            raise Failure(place, f"is longer than {MAX_FILE} bytes")
        self.total += len(data)
        if self.total > MAX_TOTAL:
            raise Failure(place, f"all files together are longer than {MAX_TOTAL} bytes")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise Failure(Place(str(path), data[:error.start].count(b"\n") + 1), "is not UTF-8") from None
        if "\0" in text:
            raise Failure(Place(str(path), text[:text.index("\0")].count("\n") + 1), "has a NUL byte")
        return text.removeprefix("\ufeff").replace("\r\n", "\n")


def look_at(place, keys, value):
    """Refuses a value that no program can have, wherever it stands."""
    if isinstance(value, dict):
        for key, inner in value.items():
            look_at(place, keys, key)
            look_at(place, [*keys, key.encode(errors="replace").decode()], inner)
    elif isinstance(value, list):
        for inner in value:
            look_at(place, keys, inner)
    elif isinstance(value, str):
        name = ".".join(keys)[:100]
        if "\0" in value:
            raise Failure(place, f"{name}: has a NUL byte")
        try:
            length = len(value.encode())
        except UnicodeEncodeError:
            raise Failure(place, f"{name}: is not UTF-8") from None
        if length > MAX_ARGUMENT:
            raise Failure(place, f"{name}: is longer than {MAX_ARGUMENT} bytes")


def waiting_for(programs):
    """For each program those that it waits for."""
    waits = {name: {*program.get("after", []), *program.get("requires", []), *program.get("bindsTo", [])} for name, program in programs.items()}
    for name, program in programs.items():
        for other in program.get("before", []):
            waits.setdefault(other, set()).add(name)
    return waits


def circle(conversion, waits, start, goal):
    """The names by which one program waits for another: [start, ..., goal]; None when it does not."""
    came, ahead = {}, [start]
    while ahead:
        name = ahead.pop()
        for other in sorted(waits.get(name, [])):
            conversion.steps += 1
            if conversion.steps > MAX_STEPS:
                raise Failure(conversion.places[start], "the relations of the programs are too many to be followed")
            if other in came:
                continue
            came[other] = name
            if other == goal:
                path = [goal]
                while path[-1] != start or len(path) == 1:
                    path.append(came[path[-1]])
                return path[::-1]
            ahead.append(other)
    return None


def refuse_circles(conversion):
    """Programs that wait for each other never start."""
    waits = waiting_for(conversion.programs)
    left = dict(waits)
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:  # who waits for nobody left is not part of a circle
            del left[name]
    for name in left:
        if path := circle(conversion, left, name, name):
            raise Failure(conversion.places[name], f"programs wait for each other: {' -> '.join(path[:20])}")


def program_name(name):
    """A name that a ProcessConfiguration takes; empty when nothing of it is left."""
    good = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:64]
    return "x-" + good[:62] if good.startswith("triton-") else good


def listing(path):
    """The sorted names in a directory."""
    try:
        with os.scandir(path) as entries:
            names = [entry.name for _, entry in zip(range(MAX_FILES + 1), entries)]
    except OSError as error:
        raise Failure(Place(str(path)), f"cannot be read: {error.strerror}") from None
    if len(names) > MAX_FILES:
        raise Failure(Place(str(path)), f"has more than {MAX_FILES} entries")
    return sorted(names)


def matches(place, pattern):
    """The paths that an absolute pattern means, sorted. As for a shell, * does not match names that begin with a dot."""
    if len(pattern) > MAX_PATTERN:
        raise Failure(place, f"{pattern[:100]} is a pattern of more than {MAX_PATTERN} characters")
    found, seen = ["/"], 0
    for part in pattern.strip("/").split("/"):
        if not re.search(r"[*?\[]", part):
            found = [path for folder in found if os.path.lexists(path := os.path.join(folder, part))]
            continue
        fits, inside = re.compile(fnmatch.translate(part)).match, []
        for folder in filter(os.path.isdir, found):
            names = names_in(folder, MAX_NAMES - seen)
            seen += len(names)
            if seen >= MAX_NAMES:
                raise Failure(place, f"{pattern} is compared with more than {MAX_NAMES} names")
            inside += [os.path.join(folder, name) for name in names if fits(name) and (name[0] != "." or part[0] == ".")]
        found = inside
    return sorted(found)


def names_in(folder, most):
    """Up to so many names; none of a directory that cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for _, entry in zip(range(most), entries)]
    except OSError:
        return []


def words(place, text):
    """The words of a command line, with the quoting of a shell."""
    if len(text) > MAX_COMMAND:
        raise Failure(place, f"is a command of more than {MAX_COMMAND} bytes")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Failure(place, f"{text[:200]!r} is not a command: {str(error).lower()}") from None


def shell_command(script, *arguments):
    return ["sh", "-c", script, *(["sh", *arguments] if arguments else [])]


# What is a part of the shell itself: exec finds no program of these names, or one that does something else.
BUILTINS = set("""cd exec if while until for case select function set unset export readonly local declare typeset eval source . : [[ ulimit umask trap exit
return break continue shift wait read alias unalias builtin command type hash times time bg fg jobs let shopt pushd popd getopts coproc""".split())


def is_simple(script):
    """Whether a script is one command, which a shell may be replaced by."""
    first = re.sub(r"[\"'\\]", "", (script.split(None, 1) or [""])[0])
    return not re.search(r"[;&|()`\n{}!]", script) and not re.match(r"\w+\+?=", first) and first not in BUILTINS


def waiting(script, signal="TERM"):
    """A script whose shell does not end before what it runs, when both get the signal: the rest would be killed."""
    return f"trap 'exit 143' {signal}\n{script}"


def script_of(command):
    return shlex.join(command)


def number(place, key, text, low=0, high=1 << 31):
    """An integer of the input."""
    if not re.fullmatch(r"[+-]?[0-9]{1,12}", str(text)) or not low <= int(text) <= high:
        raise Failure(place, f"{key}: {str(text)[:100]!r} is not an integer from {low} to {high}")
    return int(text)


def duration(seconds):
    """A duration of a ProcessConfiguration; what is more than 0 stays so."""
    milliseconds = max(min(round(seconds * 1000), YEAR * 1000), 1 if seconds > 0 else 0)
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def pauses(seconds):
    """A "backoff" that lets each restart wait this long, whatever came before it."""
    span = duration(seconds)
    return {"initial": span, "factor": 1, "max": span} | ({"always": True} if seconds else {})


def signal_name(place, key, text):
    """A signal, with or without SIG."""
    name = str(text).strip().upper().removeprefix("SIG")
    if re.fullmatch(r"[0-9]{1,2}", name) and 1 <= int(name) <= 64:
        return name
    if name in SIGNALS or re.fullmatch(r"RTM(IN(\+([12]?[0-9]|30))?|AX(-([12]?[0-9]|30))?)", name):
        return name
    raise Failure(place, f"{key}: {str(text)[:100]!r} is not a signal")


def mode(place, key, text):
    """A mask or mode in octal digits."""
    if not re.fullmatch(r"0{0,2}[0-7]{1,3}", str(text)):
        raise Failure(place, f"{key}: {str(text)[:100]!r} is not a mode in octal digits")
    return f"{int(str(text), 8):04o}"


def groups_of(uid):
    """The groups of /etc/group that have this user, who is known here."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return []
    return sorted({group.gr_name for group in grp.getgrall() if name in group.gr_mem})


def absolute(path, base):
    """A path, absolute."""
    return os.path.normpath(os.path.join(base, path))


def is_address(host):
    """Whether it is an IP address, one of version 6 in brackets, or localhost."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).version == (6 if host.startswith("[") and host.endswith("]") else 4)
    except ValueError:
        return False


def directory_of(path):
    return str(Path(path).resolve().parent)

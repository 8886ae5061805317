"""Sessions of one contender with its children, timed by meter.c through the memory that area.h describes."""

import ctypes
import itertools
import mmap
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time

HEADER = struct.Struct("III52x")
RECORD = struct.Struct("qii")
SOURCES = pathlib.Path(__file__).parent / "src"


class MeasureError(Exception):
    """A contender did not do what was measured; the text becomes its cell in the table."""


def build(directory, loggers):
    """Builds bench/src, and for each of the loggers (name: command line) what starts it. Returns the directory."""
    c = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror"]
    bare = [*c, "-static", "-nostdlib", "-fno-stack-protector", "-fcf-protection=none"]
    for command in (
            [*bare, SOURCES / "worker.c", "-o", directory / "worker"],
            [*bare, "-DNOTIFY", SOURCES / "worker.c", "-o", directory / "worker-notify"],
            [*bare, "-DWRITE", SOURCES / "worker.c", "-o", directory / "worker-write"],
            [*bare, SOURCES / "true.c", "-o", directory / "true"],
            [*c, "-static", SOURCES / "copy.c", "-o", directory / "limit-copy"],
            [*c, "-static", SOURCES / "limit.c", "-o", directory / "limit-spawn"],
            [*c, "-static", "-DUSE_FORK", SOURCES / "limit.c", "-o", directory / "limit-fork"],
            [*c, "-shared", "-fPIC", SOURCES / "meter.c", "-o", directory / "meter.so"],
            *([*bare, "-DARGV=" + ",".join(f'"{argument}"' for argument in argv), SOURCES / "exec.c",
               "-o", directory / name] for name, argv in loggers.items())):
        subprocess.run(command, check=True)
    return directory


def strings(values):
    return (ctypes.c_char_p * (len(values) + 1))(*[os.fsencode(value) for value in values], None)


def processes():
    """Everybody in the namespace but the harness."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid != os.getpid()]


def end_everything():
    """Kills and reaps what a session left. Safe, because the harness is PID 1 of a namespace of its own."""
    assert os.getpid() == 1
    while pids := processes():
        for pid in sorted(pids):  # supervisors have the lower numbers, and must not start anything any more
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        reap_all(10)


def reap_all(seconds):
    """Waits until no process but the harness is left. Orphans come to us, so that nobody can be missed.
    Returns the time of the last exit, or None when there are still some after so many seconds."""
    def give_up(*_):
        raise TimeoutError
    signal.signal(signal.SIGALRM, give_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while True:
            os.waitid(os.P_ALL, 0, os.WEXITED)
    except ChildProcessError:
        return time.monotonic_ns()
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Meter:
    """meter.so, and the directory in which sessions keep their files."""

    def __init__(self, built, work):
        self.built, self.work = built, work
        self.library = ctypes.CDLL(str(built / "meter.so"))
        for name in ("spawn", "run", "wait", "signal", "run_as_init", "count"):
            getattr(self.library, f"meter_{name}").restype = ctypes.c_int64
        self.numbers = itertools.count()

    def directory(self):
        path = self.work / str(next(self.numbers))
        path.mkdir()
        return path

    @staticmethod
    def environment(extra):
        values = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LANG": "C", **extra}
        return [f"{name}={value}" for name, value in values.items()]

    def call(self, name, *arguments):
        result = getattr(self.library, f"meter_{name}")(*arguments)
        if result < 0:
            raise MeasureError(f"{name}: {os.strerror(-result)}")
        return result

    def run(self, argv, directory="/"):
        """Nanoseconds from the start of a command in a directory to its being reaped."""
        status = ctypes.c_int()
        elapsed = self.call("run", strings(argv), strings(self.environment({})), os.fsencode(directory),
                            ctypes.byref(status))
        if status.value != 0:
            raise MeasureError(f"exit status {os.waitstatus_to_exitcode(status.value)}")
        return elapsed

    def count(self, argv, steps):
        """User instructions (steps) or system calls of a command, its children not included."""
        return self.call("count", strings(argv), strings(self.environment({})), b"/", int(steps))

    def orphans(self, contender, count, how="orphans"):
        """Nanoseconds for that many orphans, from their being handed over, dead, to the last being reaped by
        the contender as PID 1; for `end` from the moment in which they all end."""
        session = Session(self, contender, 2)
        argv = contender.wrap([contender.worker(), how, str(count)])
        status = ctypes.c_int()
        self.call("run_as_init", strings(argv), strings(self.environment({"STAMPS": session.stamps})),
                  bytes(session.directory), ctypes.byref(status))
        if status.value != 0:
            raise MeasureError(f"exit status {os.waitstatus_to_exitcode(status.value)}")
        (begin, _), (end, _) = session.records(0, 2)
        session.close()
        return end - begin


class Session:
    """One running contender and its area. Each child's start, restart or handled signal is a record there."""

    def __init__(self, meter, contender, capacity):
        self.meter, self.contender = meter, contender
        self.directory = meter.directory()
        self.stamps = self.directory / "stamps"
        size = HEADER.size + capacity * RECORD.size
        with open(self.stamps, "w+b") as file:
            file.truncate(size)
            self.memory = mmap.mmap(file.fileno(), size)
        HEADER.pack_into(self.memory, 0, 0, 0, capacity)
        self.area = ctypes.byref(ctypes.c_char.from_buffer(self.memory))
        self.pid = None
        self.started = None   # time just before the spawn
        self.touched = None   # time of the last start of a child

    @property
    def seen(self):
        return HEADER.unpack_from(self.memory)[0]

    def expect(self, count):
        """Sets when the children wake us, before anything that makes them run."""
        struct.pack_into("I", self.memory, 4, count)

    def records(self, begin, end):
        """(time, pid) of these records."""
        if end > (len(self.memory) - HEADER.size) // RECORD.size:
            raise MeasureError(f"children were started {end} times: they do not stay up")
        return [RECORD.unpack_from(self.memory, HEADER.size + i * RECORD.size)[:2] for i in range(begin, end)]

    def wait(self, count, seconds):
        try:
            self.meter.call("wait", self.area, count, ctypes.c_int64(int(seconds * 1e9)))
        except MeasureError:
            raise MeasureError(f"{self.seen} of {count} children seen within {seconds} s") from None

    def start(self, argv, count, seconds=60, environment=None):
        """Starts the contender and waits for so many children. Returns (first, last) in nanoseconds from the spawn."""
        pid = ctypes.c_int()
        variables = {"STAMPS": self.stamps, **self.contender.environment(self.directory), **(environment or {})}
        arguments = strings(argv), strings(Meter.environment(variables)), bytes(self.directory)
        self.expect(count)
        self.started = self.meter.call("spawn", *arguments, ctypes.byref(pid))
        self.pid = pid.value
        self.wait(count, seconds)
        self.touched = time.monotonic()
        times = [ns - self.started for ns, _ in self.records(0, count)]
        return min(times), max(times)

    def launch(self, count):
        return self.start(self.contender.launch(self.directory, count, self.stamps), count)

    def wrap(self, *mode):
        return self.start(self.contender.wrap([self.contender.worker(), *mode]), 1)

    def signal(self, pids, signo, seconds=60):
        """Signals these processes and waits for one record of each. Returns the time to the last of them."""
        seen = self.seen
        self.expect(seen + len(pids))
        before = self.meter.call("signal", (ctypes.c_int * len(pids))(*pids), len(pids), int(signo))
        self.wait(seen + len(pids), seconds)
        self.touched = time.monotonic()
        return max(ns for ns, _ in self.records(seen, seen + len(pids))) - before

    def children(self, count):
        """The pids of the latest so many records: who lives now, when all of them were (re)started together."""
        return [pid for _, pid in self.records(self.seen - count, self.seen)]

    def stop(self, seconds=60):
        """Asks for an orderly stop. Returns nanoseconds until neither the contender nor any child is left."""
        before = time.monotonic_ns()
        self.contender.stop(self.pid, self.directory)
        end = reap_all(seconds)
        if end is None:
            raise MeasureError(f"{len(processes())} processes left {seconds} s after the stop")
        return end - before

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def supervisor_processes(children):
    """Everybody but the harness and the children: the processes of the one contender that runs."""
    return set(processes()) - set(children)


def descendants(root, children):
    """A process and all below it but the children: the processes of one contender of several that run."""
    below = {}
    for pid in processes():
        try:
            parent = pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        below.setdefault(int(parent), []).append(pid)
    found = [root]
    for pid in found:  # grows meanwhile
        found += below.get(pid, [])
    return set(found) - set(children)


def _sum(pids, path, names):
    total = 0
    for pid in pids:
        for file in pathlib.Path("/proc", str(pid)).glob(path):
            for line in file.read_text().splitlines():
                if line.startswith(names):
                    total += int(line.split()[1])
    return total


def proportional_size(pids):
    """Bytes of memory of these processes, pages that are shared counted by their share."""
    return _sum(pids, "smaps_rollup", ("Pss:",)) * 1024


def anonymous_size(pids):
    """The part of that which is of no file: what a program file has in the page cache, and who else runs it, does not
    change it."""
    return _sum(pids, "smaps_rollup", ("Pss_Anon:",)) * 1024


def private_size(pids):
    """Bytes of memory that these processes share with nobody, not even with each other."""
    return _sum(pids, "smaps_rollup", ("Private_Clean:", "Private_Dirty:")) * 1024


def context_switches(pids):
    return _sum(pids, "task/*/status", ("voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"))

"""An agent that somebody has taken over, and that has the launcher's own user, as in a pod with one uid for all: system calls
are put into a running one, and none of them gets at the launcher, the container or the kernel's larger entrances."""

import ctypes
import os
import platform
import signal
import struct
from pathlib import Path

import pytest

from harness.agent import AGENT
from harness.control import Controlled
from harness.process import Exit, eventually, is_static

if not os.access(AGENT, os.X_OK):
    pytest.skip("TRITON_AGENT names no agent", allow_module_level=True)
if platform.machine() != "x86_64":
    pytest.skip("numbers of system calls and registers are those of x86-64", allow_module_level=True)

ONE_UID = 4059
REFUSED = {1: "EPERM", 13: "EACCES", 38: "ENOSYS"}
PTRACE_SINGLESTEP, PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 9, 12, 13, 17, 0x4206, 0x4207
WALL = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es "
             "fs gs").split()
AT_CWD, STREAM, DATAGRAM, RAW = (1 << 64) - 100, 1, 2, 3


class Taken:
    """A process whose main thread makes the system calls that it is told, and then goes on as if nothing had been."""

    def __init__(self, pid):
        self.pid = pid

    def _ptrace(self, request, address=0, data=0):
        if LIBC.ptrace(request, self.pid, address, data) < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"ptrace {request}: {os.strerror(number)}")

    def _wait_stopped(self):
        _, status = os.waitpid(self.pid, WALL)
        assert os.WIFSTOPPED(status), status

    def __enter__(self):
        self._ptrace(PTRACE_SEIZE)
        self._ptrace(PTRACE_INTERRUPT)
        self._wait_stopped()
        self.memory = open(f"/proc/{self.pid}/mem", "r+b", buffering=0)
        self.saved = (ctypes.c_ulong * len(REGISTERS))()
        self._ptrace(PTRACE_GETREGS, data=ctypes.addressof(self.saved))
        self.gate = self._find_gate()
        self.room = (self.saved[REGISTERS.index("rsp")] - 2048) & ~15  # below the red zone
        self.below = self._peek(self.room, 1024)
        return self

    def __exit__(self, *_exception):
        self._poke(self.room, self.below)
        self._ptrace(PTRACE_SETREGS, data=ctypes.addressof(self.saved))
        self._ptrace(PTRACE_DETACH)
        self.memory.close()

    def _find_gate(self):
        """Where it has the two bytes of the instruction."""
        for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines():
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            if " r-xp " in line and (at := self._peek(begin, end - begin).find(b"\x0f\x05")) >= 0:
                return begin + at
        raise AssertionError("it makes no system calls")

    def _peek(self, address, size):
        self.memory.seek(address)
        return self.memory.read(size)

    def _poke(self, address, data):
        self.memory.seek(address)
        self.memory.write(data)

    def call(self, number, *arguments):
        """The result. Bytes among the arguments are put into its memory; a number is passed as it is."""
        at = self.room
        values = []
        for argument in arguments:
            if isinstance(argument, bytes):
                self._poke(at, argument + b"\0")
                values.append(at)
                at += (len(argument) + 16) & ~15
            else:
                values.append(argument)
        registers = type(self.saved)(*self.saved)
        changes = dict(zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), values + [0] * 6))
        for name, value in {**changes, "rax": number, "orig_rax": (1 << 64) - 1, "rip": self.gate}.items():
            registers[REGISTERS.index(name)] = value & ((1 << 64) - 1)
        self._ptrace(PTRACE_SETREGS, data=ctypes.addressof(registers))
        self._ptrace(PTRACE_SINGLESTEP)
        self._wait_stopped()
        self._ptrace(PTRACE_GETREGS, data=ctypes.addressof(registers))
        return ctypes.c_long(registers[REGISTERS.index("rax")]).value


def attacks(launcher, agent, configuration):
    """What it tries: {what: (number, arguments)}. The pids are those of its own namespace."""
    setup = struct.pack("QQQ", 0, 0, 0)
    exit_signal = struct.pack("8Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    return {
        "signal": (62, launcher, signal.SIGTERM), "signal to all": (62, -1, signal.SIGTERM), "tkill": (200, launcher, signal.SIGKILL),
        "tgkill": (234, launcher, launcher, signal.SIGKILL), "sigqueue": (129, launcher, signal.SIGTERM, setup),
        "pidfd_open": (434, launcher, 0), "pidfd_send_signal": (424, 0, signal.SIGTERM, 0, 0),
        "owner of signals": (72, 0, 8, launcher), "owner by structure": (72, 0, 15, struct.pack("ii", 1, launcher)),
        "signal for readiness": (72, 0, 10, signal.SIGKILL), "asynchronous": (72, 0, 4, 0x2000), "lease": (72, 0, 1024, 1),
        "asynchronous by ioctl": (16, 0, 0x5452, struct.pack("i", 1)), "owner by ioctl": (16, 0, 0x8901, struct.pack("i", launcher)),
        "terminal input": (16, 0, 0x5412, b"x"),
        "trace": (101, 16, launcher, 0, 0), "read memory": (310, launcher, setup, 1, setup, 1, 0),
        "write memory": (311, launcher, setup, 1, setup, 1, 0), "limits": (302, launcher, 7, struct.pack("QQ", 3, 3), 0),
        "priority": (141, 0, launcher, 19), "scheduler": (144, launcher, 3, struct.pack("i", 0)), "compare": (312, launcher, agent, 0, 0, 0),
        "execute": (59, b"/bin/true", 0, 0), "execute at": (322, AT_CWD, b"/bin/true", 0, 0, 0),
        "fork": (57,), "vfork": (58,), "clone": (56, signal.SIGCHLD, 0, 0, 0, 0), "clone3": (435, exit_signal, 64),
        "code": (9, 0, 4096, 7, 0x22, -1, 0), "code later": (10, 0x400000, 4096, 7), "memory file": (319, b"x", 0),
        "unix stream": (41, 1, STREAM, 0), "unix datagram": (41, 1, DATAGRAM, 0), "raw": (41, 2, RAW, 255),
        "netlink": (41, 16, RAW, 0), "packet": (41, 17, RAW, 0), "vsock": (41, 40, STREAM, 0), "alg": (41, 38, 5, 0),
        "bind": (49, 0, bytes(16), 16), "listen": (50, 0, 1),
        "read environment": (257, AT_CWD, f"/proc/{launcher}/environ".encode(), os.O_RDONLY),
        "read memory file": (257, AT_CWD, f"/proc/{launcher}/mem".encode(), os.O_RDWR),
        "read configuration": (257, AT_CWD, configuration, os.O_RDONLY), "read accounts": (2, b"/etc/passwd", os.O_RDONLY),
        "read by openat2": (437, AT_CWD, b"/etc/passwd", struct.pack("QQQ", 0, 0, 0), 24),
        "write configuration": (257, AT_CWD, configuration, os.O_WRONLY),
        "write by openat2": (437, AT_CWD, configuration, struct.pack("QQQ", os.O_WRONLY, 0, 0), 24),
        "make a file": (257, AT_CWD, configuration + b".new", os.O_WRONLY | os.O_CREAT, 0o600),
        "remove": (87, configuration), "rename": (82, configuration, configuration + b".old"), "link": (86, configuration, configuration + b"2"),
        "symbolic link": (88, b"/etc/passwd", configuration + b"3"), "directory": (83, configuration + b"4", 0o700),
        "truncate": (76, configuration, 0), "mode": (90, configuration, 0o777), "owner": (92, configuration, 0, 0),
        "mount": (165, b"none", b"/tmp", b"tmpfs", 0, 0), "unshare": (272, 0x10000000), "setns": (308, 0, 0), "chroot": (161, b"/"),
        "become root": (105, 0), "keys": (250, 0, 0, 0), "add a key": (248, b"user", b"x", b"y", 1, -1),
        "bpf": (321, 0, setup, 24), "userfaultfd": (323, 1), "io_uring": (425, 1, bytes(120)), "perf": (298, setup, 0, -1, -1, 0),
        "module": (313, 0, b"", 0), "reboot": (169, 0xfee1dead, 0x28121969, 0x1234567), "handle": (304, AT_CWD, setup, 0),
        "inherit": (157, 23, 0), "fanotify": (300, 0, 0),
    }


def agent_of(launcher):
    """Its pid outside, and in its own namespace."""
    for entry in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in entry.read_text().splitlines() if ":\t" in line)
        except (OSError, ValueError):
            continue
        if fields["Name"] == "triton-launch-a" and int(fields["PPid"]) == launcher.pid:
            return int(entry.parent.name), int(fields["NSpid"].split()[-1]), fields
    return None


@pytest.fixture
def one_uid(as_pid1, needs_root):
    """A launcher and its agent of one user without a capability, as the example for Kubernetes has them."""
    if not is_static(AGENT):
        pytest.skip("a sanitizer's runtime needs what the filter refuses")
    run = as_pid1.area / "run0"
    run.mkdir()
    os.chown(run, ONE_UID, ONE_UID)
    controlled = Controlled(as_pid1, {"web": ["trap", "say:up", "until:15"]}, "--listen", "127.0.0.1:0", "--agent-path", AGENT,
                            place=["--uid", str(ONE_UID)])
    os.chown(controlled.configuration.directory, ONE_UID, ONE_UID)  # nothing but its confinement keeps it from writing there
    file = Path(controlled.configuration.directory) / "config.json"
    os.chown(file, ONE_UID, ONE_UID)
    sandbox = controlled.launcher.wait_for_event("sandbox")
    if (sandbox["landlock"], sandbox["seccomp"]) != ("yes", "yes"):
        pytest.skip(f"this kernel lacks what confines it: {sandbox['message']}")
    controlled.launcher.wait_for_event("listening")
    yield controlled, os.fsencode(file)
    controlled.close()


def test_whoever_takes_it_over_gets_nothing_more(one_uid):
    controlled, configuration = one_uid
    before = Path(os.fsdecode(configuration)).read_bytes()
    outside, inside, fields = eventually(lambda: agent_of(controlled.launcher), "the agent runs")
    assert fields["Uid"].split() == [str(ONE_UID)] * 4
    got = {}
    with Taken(outside) as taken:
        assert taken.call(39) == inside, "getpid: the injection itself works"
        for what, (number, *arguments) in attacks(1, inside, configuration).items():
            result = taken.call(number, *arguments)
            if -result not in REFUSED:
                got[what] = result
    assert got == {}
    assert Path(os.fsdecode(configuration)).read_bytes() == before
    assert sorted(os.listdir(os.path.dirname(configuration))) == [b"config.json"]
    assert controlled.process("web")["state"] == "up"
    assert agent_of(controlled.launcher)[0] == outside, "it goes on"
    assert controlled.launcher.stop() == Exit(code=0)

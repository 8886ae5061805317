"""A DNS server whose answers a test changes at will, and a mount namespace in which /etc/hosts and /etc/resolv.conf are
the test's own. It serves UDP; what a resolver does over TCP is a matter of its unit tests."""

import ctypes
import errno
import ipaddress
import itertools
import os
import socket
import struct
import threading

import pytest

from harness.process import TIMEOUT

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
A, AAAA = 1, 28
NO_SUCH_NAME = 3


def bind():
    """A socket at port 53 of a loopback address where nobody else serves, other runs of these tests included."""
    for number in itertools.count(os.getpid()):
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            server.bind((f"127.77.{number >> 8 & 255}.{number & 255}", 53))
            return server
        except OSError as error:
            server.close()
            if error.errno != errno.EADDRINUSE:
                raise


class Dns:
    """The server. `names` maps a name to its addresses, or to None: then there is silence. No other name exists.
    `address` is where it is; `configuration` is a resolv.conf that says so."""

    def __init__(self, names):
        self.names = dict(names)
        self.asked = []
        self.changed = threading.Condition()
        self.socket = bind()
        self.address = self.socket.getsockname()[0]
        self.configuration = f"nameserver {self.address}\n"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def set(self, name, *addresses):
        """From now on the name has these addresses, or without any does not exist."""
        with self.changed:
            if addresses:
                self.names[name] = addresses
            else:
                self.names.pop(name, None)

    def wait_asked(self, name, times=1):
        """Waits until this name has been asked for."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.asked.count(name) >= times, TIMEOUT), self.asked

    def _serve(self):
        while True:
            query, peer = self.socket.recvfrom(512)
            if not query:  # of close()
                return
            with self.changed:
                answer = self._answer(query)
                self.changed.notify_all()
            if answer:
                self.socket.sendto(answer, peer)

    def _answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        kind, = struct.unpack_from("!H", query, at + 1)
        name = ".".join(labels)
        if kind == A:
            self.asked.append(name)
        if name not in self.names:
            return self._message(query, at, NO_SUCH_NAME, [])
        if self.names[name] is None:
            return None
        found = [ipaddress.ip_address(text).packed for text in self.names[name]]
        size = 4 if kind == A else 16
        return self._message(query, at, 0, [struct.pack("!HHHLH", 0xc00c, kind, 1, 1, size) + packed for packed in found
                                            if len(packed) == size])

    @staticmethod
    def _message(query, at, code, records):
        header = query[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        return header + query[12:at + 5] + b"".join(records)

    def close(self):
        """Ends it."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self.socket.getsockname())
        self.thread.join()
        self.socket.close()


class ResolverFiles:
    """/etc/hosts and /etc/resolv.conf for those who enter()."""

    def __init__(self, area, configuration, hosts=""):
        self.hosts, self.configuration = area / "hosts", area / "resolv.conf"
        self.hosts.write_text("127.0.0.1 localhost\n" + hosts)
        self.configuration.write_text(configuration)
        for path in (self.hosts, self.configuration):
            path.chmod(0o644)

    def binds(self):
        """Pairs of a file and its place."""
        return [(self.hosts, "/etc/hosts"), (self.configuration, "/etc/resolv.conf")]

    def enter(self):
        """Gives the calling process, which must be root, a mount namespace of its own with them."""
        mounts = [(None, "/", MS_REC | MS_PRIVATE)] + [(*pair, MS_BIND) for pair in self.binds()]
        if LIBC.unshare(CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        for source, target, flags in mounts:
            if LIBC.mount(source and os.fsencode(source), target.encode(), None, flags, None) != 0:
                raise OSError(ctypes.get_errno(), f"mount on {target}")


@pytest.fixture
def dns():
    """A DNS server that knows no name yet."""
    server = Dns({})
    yield server
    server.close()

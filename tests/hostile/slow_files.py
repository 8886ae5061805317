"""Files whose last close(2) takes as long as their owner likes, and how they get to somebody else."""

import array
import contextlib
import socket
import struct


class SlowToClose:
    """A TCP socket with data that nobody reads and SO_LINGER: who closes it last waits for ten minutes."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.slow = socket.create_connection(listener.getsockname())
            self.reader, _ = listener.accept()
        self.slow.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.slow.send(bytes(1 << 16))
        self.slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))

    def give_away(self, to, text=b"X=1", address=None):
        """Sends the descriptor and keeps none."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.slow.fileno()]))]
        to.sendmsg([text], rights, socket.MSG_DONTWAIT, *([address] if address else []))
        self.slow.close()

    def assert_closed(self, timeout):
        """Asserts that nobody has the socket any more."""
        self.reader.settimeout(timeout)
        while self.reader.recv(1 << 16):
            pass
        self.reader.close()


def notify_address(name):
    """What a socket is given for a value of NOTIFY_SOCKET."""
    return "\0" + name[1:] if name.startswith("@") else name

"""Somebody at a terminal who runs `triton-launch ctl attach`."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time

from harness.process import BINARY, TIMEOUT, wait_readable

DETACH = b"\x10\x11"


class Person:
    """A ctl command whose three streams are a pty of the test's own: tests press keys and read the screen."""

    def __init__(self, socket, *arguments, rows=24, columns=80):
        self.keys, end = pty.openpty()
        os.set_blocking(self.keys, False)
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.keys)
        self.process = subprocess.Popen([str(BINARY), "ctl", "--socket", str(socket), "attach", *map(str, arguments)],
                                        stdin=end, stdout=end, stderr=end, start_new_session=True,
                                        env={"TERM": "xterm"})
        os.close(end)
        self.screen = b""
        self._seen = 0

    def press(self, keys):
        """Types these bytes."""
        os.write(self.keys, keys if isinstance(keys, bytes) else keys.encode())

    def resize(self, rows, columns):
        """Changes the window; the command is told as by a terminal emulator."""
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(28)  # SIGWINCH: it has no controlling terminal whose kernel would

    def look(self):
        """Reads what has come; False when nobody has the other end any more."""
        try:
            while data := os.read(self.keys, 1 << 16):
                self.screen += data
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def sees(self, pattern, timeout=TIMEOUT):
        """Waits for a pattern behind what was seen last, and returns its match."""
        compiled = re.compile(pattern if isinstance(pattern, bytes) else pattern.encode())
        deadline = time.monotonic() + timeout
        while True:
            is_open = self.look()
            if found := compiled.search(self.screen, self._seen):
                self._seen = found.end()
                return found
            assert is_open, f"ended without {pattern}: {self.screen[self._seen:]}"
            assert time.monotonic() < deadline, f"no {pattern} in {timeout} s: {self.screen[self._seen:]}"
            wait_readable([self.keys], min(deadline, time.monotonic() + 0.2))

    def is_raw(self):
        """Whether keys go through as they are."""
        return not termios.tcgetattr(self.keys)[3] & termios.ICANON

    def leaves(self, timeout=TIMEOUT):
        """Waits for the command's end, with its terminal as it was; returns the exit code."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still attached: {self.screen[-500:]}"
            if not self.look():
                self.process.wait(timeout)
            wait_readable([], time.monotonic() + 0.005)
        self.look()
        assert termios.tcgetattr(self.keys) == self.before, "the terminal is not as it was"
        return self.process.returncode

    def close(self):
        """Ends the command."""
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.keys)

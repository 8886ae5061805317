"""Descriptors that are slow to close: sent to PID 1, they must hold nobody up."""

import array
import contextlib
import os
import signal
import socket

from harness.control import reach
from harness.process import TIMEOUT, Exit, eventually
from harness.programs import probe, run, service
from slow_files import SlowToClose, notify_address

AT_ONCE = 20.0  # seconds, on a busy machine; whoever waits for such a file waits for ten minutes


def speaker(*steps, **keys):
    """A program with a notify socket, whose address it tells."""
    return probe("trap", "report", *steps, "until:15", readiness={"type": "notify", "notifyAccess": "all"}, **keys)


def start(place, programs):
    """A launcher, a client of its control socket, and the address of one notify socket."""
    launcher = run(place, programs, env={"PROBE_ENV": "NOTIFY_SOCKET"})
    address = notify_address(launcher.wait_for_probe("report")["env"]["NOTIFY_SOCKET"])
    control = reach(place.area / "control")
    control.socket.settimeout(AT_ONCE)
    return launcher, control, address


def assert_alive(control):
    """Asserts that the launcher answers, at once."""
    assert control.call("GetStatus")["parameters"]["launcher"]["pid"]


@contextlib.contextmanager
def held(launcher):
    """Holds the launcher, so that what is given away is not back before the giver has let go of it."""
    launcher.signal(signal.SIGSTOP)
    yield
    launcher.signal(signal.SIGCONT)


def test_sent_to_the_notify_socket(place):
    launcher, control, address = start(place, {"web": speaker()})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for _ in range(3):
            slow = SlowToClose()
            with held(launcher):
                slow.give_away(sender, address=address)
            assert_alive(control)
            slow.assert_closed(AT_ONCE)
    assert launcher.stop(AT_ONCE) == Exit(code=0)


def test_left_in_a_notify_socket_that_is_closed(place):
    launcher, control, address = start(place, {"web": speaker(), "db": service("db")})
    slow = [SlowToClose() for _ in range(5)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, held(launcher):
        for one in slow:
            one.give_away(sender, address=address)
        launcher.replace({"db": service("db")})
    launcher.wait_for_event("process-exited", program="web", timeout=AT_ONCE)
    assert_alive(control)
    for one in slow:
        one.assert_closed(AT_ONCE)
    assert launcher.stop(AT_ONCE) == Exit(code=0)


def test_others_are_heard_meanwhile(place):
    launcher, control, address = start(place, {"web": speaker()})
    slow = [SlowToClose() for _ in range(10)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, held(launcher):
        for one in slow:
            one.give_away(sender, address=address)
    launcher.replace({"web": speaker(), "db": probe("trap", "notify:READY=1", "until:15", readiness={"type": "notify"})})
    launcher.wait_for_event("process-ready", program="db", timeout=AT_ONCE)
    assert_alive(control)
    assert launcher.stop(AT_ONCE) == Exit(code=0)


def test_sent_to_the_control_socket(place):
    """By clients that call something with it, and by one that has left before it was looked at."""
    launcher, control, _ = start(place, {"web": speaker()})
    slow = [SlowToClose() for _ in range(3)]
    with contextlib.ExitStack() as stack, held(launcher):
        for number, one in enumerate(slow):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(place.area / "control"))
            one.give_away(client)
            if number == 0:
                client.close()
    assert_alive(control)
    for one in slow:
        one.assert_closed(AT_ONCE)
    assert launcher.stop(AT_ONCE) == Exit(code=0)


def test_a_barrier_is_answered(place):
    """BARRIER=1 of sd_notify(3): the end of the descriptor is the answer."""
    launcher, _, address = start(place, {"web": speaker()})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for _ in range(20):
            read_end, write_end = os.pipe()
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [write_end]))]
            sender.sendmsg([b"BARRIER=1"], rights, 0, address)
            os.close(write_end)
            os.set_blocking(read_end, False)
            assert eventually(lambda fd=read_end: is_at_end(fd), "the barrier is lifted", TIMEOUT)
            os.close(read_end)
    eventually(lambda: launcher.zombies() == [], "no helper is left")
    assert launcher.stop() == Exit(code=0)


def is_at_end(fd):
    """Whether nobody has the other end of a pipe any more."""
    try:
        return os.read(fd, 1) == b""
    except BlockingIOError:
        return False

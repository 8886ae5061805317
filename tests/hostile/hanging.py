"""What tests of file systems that hang ask of a launcher: one with a program "web", whose process is `web`."""

import signal

from harness.control import Varlink


def has_waiting_child(launcher):
    """Whether a child of the launcher waits for FUSE."""
    return launcher.children_whose("wchan", lambda text: text.startswith("request_wait"))


def assert_serves(launcher):
    """Clients are answered, processes are reaped and started again."""
    client = Varlink(launcher.area / "control")
    assert client.call("GetStatus")["parameters"]["launcher"]["pid"] == 1
    client.close()
    launcher.signal_inside(launcher.web, signal.SIGKILL)
    launcher.web = launcher.wait_up(tag="web")["pid"]

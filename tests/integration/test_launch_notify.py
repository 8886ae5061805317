"""Launch mode: what is told to the service manager. Source: sd_notify(3)."""

import os
import re
import signal
import socket

import pytest

from harness.process import TIMEOUT, Exit

UP = ("trap", "say:up", "until:15")


class Manager:
    """The service manager's end of NOTIFY_SOCKET."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(TIMEOUT)
        self.socket.bind(address)
        if isinstance(address, str):
            os.chmod(address, 0o666)

    def receive(self):
        """The next datagram as a dictionary."""
        text = self.socket.recv(65536).decode()
        return dict(line.split("=", 1) for line in text.splitlines())

    def receive_until(self, key):
        """The first datagram from here on that has this key."""
        while key not in (fields := self.receive()):
            pass
        return fields


@pytest.fixture
def manager(area):
    made = Manager(str(area / "notify"))
    yield made
    made.socket.close()


def environment(area):
    return {"NOTIFY_SOCKET": str(area / "notify"), "PROBE_ENV": "NOTIFY_SOCKET"}


def test_ready_after_the_first_start_and_stopping_at_the_stop(place, manager):
    launcher = place.launch(place.configuration("report", *UP), "--server-count", "2", env=environment(place.area))
    ready = manager.receive_until("READY")
    assert ready["READY"] == "1" and re.search(r"\b2\b", ready["STATUS"])
    assert launcher.wait_for_probe("report")["env"] == {}, "a process must not speak for us"
    launcher.wait_up(n=1)
    launcher.wait_up(n=2)
    launcher.signal(signal.SIGTERM)
    assert manager.receive_until("STOPPING")["STOPPING"] == "1"
    assert launcher.wait() == Exit(code=0)


def test_not_ready_before_a_configuration_is_accepted(place, manager):
    configuration = place.configuration()
    launcher = place.launch(configuration, env=environment(place.area))
    launcher.wait_for_event("waiting-for-configuration")
    manager.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        manager.receive_until("READY")
    manager.socket.settimeout(TIMEOUT)
    configuration.write(*UP)
    manager.receive_until("READY")


def test_reload_is_framed(place, manager):
    """RELOADING=1 with MONOTONIC_USEC, then READY=1, by configuration change and by SIGHUP."""
    configuration = place.configuration(*UP)
    launcher = place.launch(configuration, env=environment(place.area))
    manager.receive_until("READY")
    launcher.wait_up()
    for reload in (lambda: configuration.write(*UP, count=2), lambda: launcher.signal(signal.SIGHUP)):
        reload()
        reloading = manager.receive_until("RELOADING")
        assert reloading["RELOADING"] == "1" and int(reloading["MONOTONIC_USEC"]) > 0
        assert "READY" not in reloading
        manager.receive_until("READY")


def test_status_follows_the_processes(place, manager):
    launcher = place.launch(place.configuration(*UP), "--restart-delay", "1h", "--restart-max-delay", "1h", env=environment(place.area))
    manager.receive_until("READY")
    for _ in range(2):  # the first restart does not wait
        launcher.signal_inside(launcher.wait_up()["pid"], signal.SIGTERM)
    launcher.wait_for_event("process-exited", restart_in_seconds=lambda delay: delay > 0)
    while not re.search(r"\b0 of 1\b", manager.receive_until("STATUS")["STATUS"]):
        pass


def test_abstract_socket(place):
    name = f"triton-it-{os.getpid()}-{id(place)}"
    manager = Manager(b"\0" + name.encode())
    place.launch(place.configuration(*UP), env={"NOTIFY_SOCKET": "@" + name})
    manager.receive_until("READY")
    manager.socket.close()


@pytest.mark.parametrize("address", ["/nonexistent/socket", "relative", "@", "/" + "x" * 200, ""])
def test_unusable_address_stops_nothing(place, address):
    launcher = place.launch(place.configuration(*UP), env={"NOTIFY_SOCKET": address})
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_manager_that_does_not_read_stops_nothing(place, manager):
    launcher = place.launch(place.configuration("say:up", "sleep:2", "exit:1"), "--restart-delay", "1ms",
                            "--restart-max-delay", "1ms", env=environment(place.area))
    for _ in range(600):  # more than the socket's queue holds
        launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_wrapped_command_keeps_the_socket(place, manager):
    """In wrap mode the command is the service: what it says goes to the manager, and we say nothing."""
    launcher = place.wrap("report", env=environment(place.area))
    report = launcher.wait_for_probe("report")
    assert report["env"] == {"NOTIFY_SOCKET": str(place.area / "notify")}
    launcher.wait()
    manager.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        manager.receive()

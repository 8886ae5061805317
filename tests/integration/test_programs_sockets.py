"""Programs: sockets and FIFOs that the launcher opens once and hands on. Source: sd_listen_fds(3)."""

import os
import signal
import socket
import stat

import pytest

from harness.process import TIMEOUT, Exit, eventually, free_port
from harness.programs import RESTART_AT_ONCE, USR1, probe, run, service


@pytest.fixture
def port():
    return free_port()


def ask(address):
    """The pid that answers there."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(TIMEOUT)
        client.connect(address)
        return int(client.makefile().readline())


def server(listen, *steps, **keys):
    return probe(*steps, "serve:3", sockets=[{"name": "main", "listen": listen}], **keys)


def test_the_protocol(place, port):
    launcher = run(place, {
        "web": probe("trap", "report", "until:15", sockets=[
            {"name": "http", "listen": f"tcp:127.0.0.1:{port}"},
            {"name": "admin", "listen": f"unix:{place.area}/admin"},
            {"name": "in", "listen": f"fifo:{place.area}/in"}]),
        "other": probe("trap", "tag:other", "report", "until:15"),
    }, env={"PROBE_ENV": "LISTEN_FDS LISTEN_PID LISTEN_FDNAMES"})
    report = launcher.wait_for_probe("report", tag="")
    assert report["fds"] == [0, 1, 2, 3, 4, 5]
    assert report["env"] == {"LISTEN_FDS": "3", "LISTEN_PID": str(report["pid"]), "LISTEN_FDNAMES": "http:admin:in"}
    other = launcher.wait_for_probe("report", tag="other")
    assert other["fds"] == [0, 1, 2] and other["env"] == {}
    assert launcher.stop() == Exit(code=0)
    assert not (place.area / "admin").exists() and not (place.area / "in").exists(), "names are removed at the end"


def test_a_rejected_configuration_changes_no_socket(place):
    """Neither the mode of one that is open, nor what is listened on."""
    path = place.area / "admin"

    def configuration(mode, **keys):
        return {"web": probe("trap", "say:up", "until:15",
                             sockets=[{"name": "admin", "listen": f"unix:{path}", "mode": mode}]),
                "other": service("other", **keys)}

    launcher = run(place, configuration("0600"))
    launcher.wait_up(tag="other")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    launcher.replace(configuration("0666", output={"file": str(place.area)}))
    assert "Is a directory" in launcher.wait_for_event("configuration-rejected")["errors"][0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    launcher.replace(configuration("0666"))
    eventually(lambda: stat.S_IMODE(path.stat().st_mode) == 0o666, "a good one changes it")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_connection_while_the_process_restarts_is_served_afterwards(place, port, kind):
    address = ("127.0.0.1", port) if kind == "tcp" else str(place.area / "socket")
    listen = f"tcp:127.0.0.1:{port}" if kind == "tcp" else f"unix:{address}"
    gate = place.area / "gate"
    gate.touch()
    script = f"while [ ! -e {gate} ]; do sleep 0.01; done; exec probe say:up serve:3"
    launcher = run(place, {"web": {"command": ["sh", "-c", script], "backoff": RESTART_AT_ONCE,
                                   "sockets": [{"name": "main", "listen": listen}]}})
    first = launcher.wait_up()["pid"]
    assert ask(address) == first
    gate.unlink()
    launcher.signal_inside(first, signal.SIGKILL)
    launcher.wait_for_event("process-exited", program="web")
    family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(TIMEOUT)
        client.connect(address)  # nobody accepts yet
        gate.touch()
        second = launcher.wait_up()["pid"]
        assert int(client.makefile().readline()) == second != first
    assert launcher.stop() == Exit(code=0)


def test_sockets_are_kept_over_reloads(place):
    address = str(place.area / "socket")
    listen = f"unix:{address}"
    launcher = run(place, {"web": server(listen, "say:up", onConfigurationChange="restart")})
    first = launcher.wait_up()["pid"]
    inode = os.stat(address).st_ino
    assert ask(address) == first
    launcher.replace({"web": server(listen, "tag:new", "say:up", onConfigurationChange="restart")})
    second = launcher.wait_up(tag="new")["pid"]
    assert ask(address) == second
    assert os.stat(address).st_ino == inode
    launcher.replace({"heir": server(listen, "tag:heir", "say:up")})  # another program has it now
    launcher.wait_for_event("process-exited", program="web", pid=second)
    heir = launcher.wait_up(tag="heir")["pid"]
    assert ask(address) == heir
    assert os.stat(address).st_ino == inode
    launcher.replace({"none": service("none")})
    launcher.wait_up(tag="none")
    launcher.wait_for_event("process-exited", program="heir")
    eventually(lambda: not os.path.exists(address), "the name is removed")
    assert launcher.stop() == Exit(code=0)


def test_all_numbers_share_the_socket(place, port):
    launcher = run(place, {"web": server(f"tcp:127.0.0.1:{port}", "say:up", count=3)})
    pids = {launcher.wait_up()["pid"] for _ in range(3)}
    for _ in range(3):
        assert ask(("127.0.0.1", port)) in pids
    assert launcher.stop() == Exit(code=0)


def test_a_fifo_keeps_what_was_written_over_a_restart(place):
    path = place.area / "in"
    launcher = run(place, {"web": probe("trap", "say:up", f"until:{USR1}", "read:3", "exit:0",
                                        sockets=[{"name": "in", "listen": f"fifo:{path}"}], backoff=RESTART_AT_ONCE)})
    first = launcher.wait_up()["pid"]
    launcher.signal_inside(first, signal.SIGKILL)
    with open(path, "w", encoding="ascii") as writer:
        writer.write("while nobody was there\n")
    second = launcher.wait_up()["pid"]
    launcher.signal_inside(second, USR1)
    launcher.wait_for_probe("say", text="while nobody was there")
    assert launcher.stop() == Exit(code=0)


def test_mode_of_a_path(place):
    paths = {"a": ("unix", "0600"), "b": ("fifo", "0640"), "c": ("unixgram", None)}
    launcher = run(place, {"web": service("web", sockets=[
        {"name": name, "listen": f"{kind}:{place.area}/{name}", **({"mode": mode} if mode else {})}
        for name, (kind, mode) in paths.items()])})
    launcher.wait_up()
    for name, (_, mode) in paths.items():
        assert stat.S_IMODE(os.stat(place.area / name).st_mode) == int(mode or "0660", 8)
    assert launcher.stop() == Exit(code=0)


def test_an_address_in_use_is_refused(place, port):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        launcher = run(place, {"web": server(f"tcp:127.0.0.1:{port}")}, "--exit-on-bad-config")
        errors = launcher.wait_for_event("configuration-rejected")["errors"]
        assert errors == [f"programs.web.sockets[0]: cannot listen on tcp:127.0.0.1:{port}: Address already in use"]
        assert launcher.wait() == Exit(code=1)


def test_a_stale_socket_is_replaced(place):
    path = place.area / "socket"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    launcher = run(place, {"web": server(f"unix:{path}", "say:up")})
    pid = launcher.wait_up()["pid"]
    assert ask(str(path)) == pid
    assert launcher.stop() == Exit(code=0)


def test_a_socket_before_its_program_may_start(place):
    """A client of a program that waits for another is not refused."""
    gate = place.area / "gate"
    path = str(place.area / "socket")
    launcher = run(place, {
        "db": service("db", readiness={"type": "exec", "command": ["test", "-e", str(gate)], "interval": "10ms"}),
        "web": server(f"unix:{path}", "tag:web", "say:up", requires=["db"]),
    })
    launcher.wait_up(tag="db")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(TIMEOUT)
        client.connect(path)
        gate.touch()
        assert int(client.makefile().readline()) == launcher.wait_up(tag="web")["pid"]
    assert launcher.stop() == Exit(code=0)

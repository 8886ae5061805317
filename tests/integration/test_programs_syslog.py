"""Programs: output to a syslog daemon, by a Unix socket and by a network. The daemons are sockets of the tests."""

import contextlib
import os
import re
import select
import signal
import socket
import ssl
import threading
import time

import pytest

from harness.agent import AGENT, Agent, Authority, probing_launcher
from harness.control import Controlled
from harness.process import TIMEOUT, Exit, eventually, free_port
from harness.programs import USR1, probe, run

MESSAGE = re.compile(rb"<(\d+)>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (\S+) (\S+) (\S+) - - (.*)", re.DOTALL)


class Daemon:
    """A syslog daemon that keeps what it gets: datagrams, or the parts of streams. One that `talks` sends without end; one
    that `turns_away` ends so many connections at once."""

    def __init__(self, where, kind=socket.SOCK_DGRAM, family=socket.AF_UNIX, tls=None, talks=False, turns_away=0):
        self.socket = socket.socket(family, kind)
        if family != socket.AF_UNIX:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(where)
        if family == socket.AF_UNIX:
            os.chmod(where, 0o666)
        self.kind, self.tls, self.connections, self.pieces = kind, tls, [], []
        self.talks, self.is_unheard, self.turns_away = talks, False, turns_away
        if kind == socket.SOCK_STREAM:
            self.socket.listen(8)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                if self.kind == socket.SOCK_DGRAM:
                    self.pieces.append(self.socket.recv(65536))
                    continue
                connection = self.socket.accept()[0]
                if self.turns_away > 0:
                    self.turns_away -= 1
                    connection.close()
                    continue
                threading.Thread(target=self.read, args=(connection,), daemon=True).start()
            except OSError:
                return

    def read(self, connection):
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            self.connections.append(connection)
            if self.talks:
                self.talk(connection)
            while part := connection.recv(65536):
                self.pieces.append(part)
        except OSError:
            pass

    def talk(self, connection):
        """Reads, and sends as much as is taken. Once that has been nothing for a while, `is_unheard` is set."""
        connection.setblocking(False)
        taken_at = time.monotonic()
        while True:
            select.select([connection], [connection], [], 0.1)
            with contextlib.suppress(OSError):  # what has come can still be read
                connection.send(b"x" * 16384)
                taken_at = time.monotonic()
            self.is_unheard = self.is_unheard or time.monotonic() - taken_at > 0.5
            with contextlib.suppress(ssl.SSLWantReadError):
                if not (part := connection.recv(65536)):
                    return
                self.pieces.append(part)

    def messages(self):
        """What has come: of a stream with octets counted, or with newlines."""
        if self.kind == socket.SOCK_DGRAM:
            return list(self.pieces)
        text = b"".join(self.pieces)
        if text[:1] == b"<":
            return text.split(b"\n")[:-1]
        found = []
        while match := re.match(rb"(\d+) ", text):
            end = match.end() + int(match[1])
            if len(text) < end:
                break
            found.append(text[match.end():end])
            text = text[end:]
        return found

    def texts(self):
        return [MESSAGE.fullmatch(message)[6].decode() for message in self.messages()]

    def hang_up(self):
        """Ends connections, also under the threads that read them."""
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self.connections = []

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.hang_up()


@pytest.fixture
def daemons():
    """Makes daemons, and ends them with the test."""
    made = []

    def make(*arguments, **how):
        made.append(Daemon(*arguments, **how))
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["datagram", "stream"])
def test_both_streams(place, daemons, kind):
    """Exactly as RFC 5424 has it, with the severity of each stream."""
    path = str(place.area / "log")
    daemon = daemons(path, kind)
    launcher = run(place, {"web": probe("print:hello", "print-error:oh", "say:up", "pause", count=2, output={
        "syslog": {"address": f"unix:{path}", "facility": "local3", "severity": "notice", "name": "front"}})})
    for _ in range(2):
        launcher.wait_up()
    eventually(lambda: len(daemon.messages()) == 4, "four messages")
    fields = [MESSAGE.fullmatch(message).groups() for message in daemon.messages()]
    assert sorted((int(priority), name, number, text) for priority, _, _, name, number, text in fields) == [
        (19 * 8 + 3, b"front", b"1", b"oh"), (19 * 8 + 3, b"front", b"2", b"oh"),
        (19 * 8 + 5, b"front", b"1", b"hello"), (19 * 8 + 5, b"front", b"2", b"hello")]
    assert {host for _, _, host, _, _, _ in fields} == {socket.gethostname().encode()}
    assert f"syslog unix:{path}" in launcher.ctl("describe", "web")
    assert "hello" in launcher.ctl("logs", "web")
    assert launcher.stop() == Exit(code=0)


def test_one_stream_of_two(place, daemons):
    path, file = str(place.area / "log"), place.area / "file"
    daemon = daemons(path)
    launcher = run(place, {"web": probe("print:hello", "print-error:oh", "say:up", "pause", output={
        "file": str(file), "stderr": {"syslog": {"address": f"unix:{path}", "severity": "crit"}}})})
    eventually(lambda: daemon.messages(), "a message")
    [message] = daemon.messages()
    assert MESSAGE.fullmatch(message).group(1, 4, 6) == (b"26", b"web", b"oh")
    eventually(lambda: file.read_text() == "hello\n", "the file")
    assert launcher.stop() == Exit(code=0)


def test_the_older_form(place, daemons):
    """As syslog(3) writes to a daemon of its machine."""
    path = str(place.area / "log")
    daemon = daemons(path)
    launcher = run(place, {"web": probe("print:hello", "pause", output={
        "syslog": {"address": f"unix:{path}", "format": "rfc3164", "name": "front"}})})
    eventually(lambda: daemon.messages(), "a message")
    assert re.fullmatch(rb"<30>[A-Z][a-z]{2} [ 1-3]\d \d\d:\d\d:\d\d front\[1\]: hello", daemon.messages()[0])
    assert launcher.stop() == Exit(code=0)


def test_control_characters_and_long_lines(place, daemons):
    path = str(place.area / "log")
    daemon = daemons(path)
    (place.area / "blob").write_bytes(b"a\0b\x1b[2J\tc\xff\n" + 20000 * b"x" + b"\nlast")
    launcher = run(place, {"web": {"command": ["cat", str(place.area / "blob")], "oneShot": True,
                                   "output": {"syslog": {"address": f"unix:{path}"}}}})
    assert launcher.wait() == Exit(code=0)
    eventually(lambda: daemon.messages() and daemon.messages()[-1].endswith(b"last"), "all of it")
    first, *pieces, last = daemon.messages()
    assert first.endswith(b" - - a#000b#033[2J\tc\xff")
    assert len(pieces) == 3 and max(map(len, pieces)) == 8192
    assert b"".join(MESSAGE.fullmatch(piece)[6] for piece in pieces) == 20000 * b"x"
    assert MESSAGE.fullmatch(last)[6] == b"last"


def test_a_daemon_that_comes_later_and_comes_again(place, daemons):
    """What was said meanwhile waits, and is there once."""
    path = str(place.area / "log")
    launcher = run(place, {"web": probe("trap", "print:early", "say:up", f"until:{USR1}", "print:late", "until:15",
                                        output={"syslog": {"address": f"unix:{path}"}})})
    pid = launcher.wait_up()["pid"]
    failed = launcher.wait_for_event("output-failed", program="web")
    assert failed["error"] == f"cannot connect to {path}: No such file or directory"
    daemon = daemons(path, socket.SOCK_STREAM)
    eventually(lambda: daemon.texts() == ["early"], "the first one")
    daemon.close()
    os.unlink(path)
    launcher.signal_inside(pid, USR1)
    other = daemons(path, socket.SOCK_DGRAM)
    eventually(lambda: other.texts() == ["late"], "the second one, now by datagrams")
    assert launcher.stop() == Exit(code=0)


def test_a_fault_that_comes_back_soon_is_not_told_again(place, daemons):
    """A daemon that fails every few seconds would fill the log: for half a minute it is the same fault."""
    path = str(place.area / "log")

    def begin():
        daemon = daemons(path + ".new")
        os.rename(path + ".new", path)  # so that there is a socket all the time
        return daemon

    def end(daemon):
        daemon.close()
        daemon.thread.join(TIMEOUT)

    end(begin())
    launcher = run(place, {"web": probe("trap", "print:early", "say:up", f"until:{USR1}", "print:well", f"until:{USR1}",
                                        "print:late", "until:15", output={"syslog": {"address": f"unix:{path}"}})})
    pid = launcher.wait_up()["pid"]
    failed = launcher.wait_for_event("output-failed", program="web")
    assert failed["error"] == f"cannot connect to {path}: Connection refused"
    daemon = begin()
    eventually(lambda: daemon.texts() == ["early"], "the first one")
    launcher.signal_inside(pid, USR1)
    eventually(lambda: daemon.texts() == ["early", "well"], "the second one")
    end(daemon)
    other = begin()
    launcher.signal_inside(pid, USR1)  # the connection is one to the first daemon
    eventually(lambda: other.texts() == ["late"], "the third one")
    assert launcher.stop() == Exit(code=0)
    assert len(launcher.events_named("output-failed")) == 1


def test_an_upgrade_takes_along_what_waits(place, daemons):
    path = str(place.area / "log")
    controlled = Controlled(place, {"web": {"steps": ["trap", "print:one", "say:up", f"until:{USR1}", "print:two", "until:15"],
                                            "output": {"syslog": {"address": f"unix:{path}"}}}})
    launcher = controlled.launcher
    pid = launcher.wait_up()["pid"]
    launcher.wait_for_event("output-failed")
    controlled.upgrade()
    launcher.wait_for_event("upgrade-done")
    launcher.signal_inside(pid, USR1)
    daemon = daemons(path)
    eventually(lambda: daemon.texts() == ["one", "two"], "in order")
    assert launcher.stop() == Exit(code=0)
    controlled.close()


def test_what_nobody_took_is_counted_at_the_end(place):
    path = str(place.area / "log")
    launcher = run(place, {"web": probe("print:one", "print:two", "say:up", "pause",
                                        output={"syslog": {"address": f"unix:{path}"}})})
    launcher.wait_up()
    launcher.wait_for_event("output-failed")
    assert launcher.stop() == Exit(code=0)
    [lost] = launcher.events_named("syslog-lost")
    assert (lost["messages"], lost["address"]) == (2, f"unix:{path}")


# --- over a network: by the agent

AGENT_PATH = ("--agent-path", AGENT)


@pytest.fixture
def needs_agent():
    if not os.access(AGENT, os.X_OK):
        pytest.skip("TRITON_AGENT names no agent")


def agent_log(launcher, event, **fields):
    """What the agent says, which is in the launcher's own output."""
    return launcher.wait_for_event(event, **fields)


def talker(address, *steps, **more):
    return probe("trap", "tag:web", "print:one", "print-error:oh", "say:up", f"until:{USR1}", "print:two", *steps, "until:15",
                 output={"syslog": {"address": address, **more}})


@pytest.mark.parametrize("kind, family, host", [("udp", socket.AF_INET, "127.0.0.1"), ("udp", socket.AF_INET6, "::1"),
                                                ("tcp", socket.AF_INET, "127.0.0.1"), ("tcp", socket.AF_INET6, "::1")])
def test_by_a_network(place, daemons, needs_agent, kind, family, host):
    port = free_port(host, family)
    daemon = daemons((host, port), socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM, family)
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    launcher = run(place, {"web": talker(f"{kind}:{shown}:{port}")}, *AGENT_PATH)
    pid = launcher.wait_up()["pid"]
    eventually(lambda: sorted(daemon.texts()) == ["oh", "one"], "both streams")
    severities = {text: int(priority) % 8 for priority, *_, text in
                  (MESSAGE.fullmatch(message).groups() for message in daemon.messages())}
    assert severities == {b"one": 6, b"oh": 3}
    launcher.signal_inside(pid, USR1)
    eventually(lambda: daemon.texts()[2:] == ["two"], "and later")
    assert launcher.stop() == Exit(code=0)
    assert not launcher.events_named("syslog-lost")


def test_tls_with_a_certificate_that_is_good_for_it(place, daemons, needs_agent):
    authority = Authority(place.area / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "/CN=log", "IP:127.0.0.1"))
    port = free_port()
    daemon = daemons(("127.0.0.1", port), socket.SOCK_STREAM, socket.AF_INET, context)
    launcher = run(place, {"web": talker(f"tls:127.0.0.1:{port}")}, *AGENT_PATH,
                   "--agent-option", f"--syslog-authority={authority.certificate}")
    pid = launcher.wait_up()["pid"]
    eventually(lambda: sorted(daemon.texts()) == ["oh", "one"], "both streams")
    assert daemon.connections[0].version() in ("TLSv1.2", "TLSv1.3")
    launcher.signal_inside(pid, USR1)
    eventually(lambda: daemon.texts()[2:] == ["two"], "and later")
    assert launcher.stop() == Exit(code=0)


def test_a_daemon_that_talks_back_is_not_listened_to(place, daemons, needs_agent):
    authority = Authority(place.area / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "/CN=log", "IP:127.0.0.1"))
    port = free_port()
    daemon = daemons(("127.0.0.1", port), socket.SOCK_STREAM, socket.AF_INET, context, talks=True)
    launcher = run(place, {"web": talker(f"tls:127.0.0.1:{port}")}, *AGENT_PATH,
                   "--agent-option", f"--syslog-authority={authority.certificate}")
    pid = launcher.wait_up()["pid"]
    eventually(lambda: daemon.is_unheard, "it cannot send any more")
    launcher.signal_inside(pid, USR1)
    eventually(lambda: "two" in daemon.texts(), "it gets what it is there for")
    assert len(daemon.connections) == 1
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("name, reason", [("IP:127.0.0.2", "IP address mismatch"), (None, "IP address mismatch"),
                                          ("another", "unable to get local issuer certificate")])
def test_tls_without_one_sends_nothing(place, daemons, needs_agent, name, reason):
    authority = Authority(place.area / "ca")
    issuer = Authority(place.area / "other", "/CN=Other Root") if name == "another" else authority
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issuer.issue("server", "/CN=127.0.0.1", "IP:127.0.0.1" if name == "another" else name))
    port = free_port()
    daemon = daemons(("127.0.0.1", port), socket.SOCK_STREAM, socket.AF_INET, context)
    launcher = run(place, {"web": talker(f"tls:127.0.0.1:{port}")}, *AGENT_PATH,
                   "--agent-option", f"--syslog-authority={authority.certificate}")
    launcher.wait_up()
    failed = agent_log(launcher, "syslog-failed")
    assert failed["message"] == f"cannot send to tls:127.0.0.1:{port}: its certificate is no good: {reason}"
    assert not daemon.messages()
    assert launcher.stop() == Exit(code=0)
    [lost] = launcher.events_named("syslog-lost")
    assert lost["messages"] == 2


def test_a_daemon_that_restarts(place, daemons, needs_agent):
    port = free_port()
    launcher = run(place, {"web": talker(f"tcp:127.0.0.1:{port}")}, *AGENT_PATH)
    pid = launcher.wait_up()["pid"]
    failed = agent_log(launcher, "syslog-failed")
    assert failed["message"] == f"cannot send to tcp:127.0.0.1:{port}: Connection refused"
    first = daemons(("127.0.0.1", port), socket.SOCK_STREAM, socket.AF_INET)
    eventually(lambda: sorted(first.texts()) == ["oh", "one"], "what has waited")
    agent_log(launcher, "syslog-connected")
    first.close()
    launcher.quiet_for(0.2)  # the agent sees the end
    launcher.signal_inside(pid, USR1)
    second = daemons(("127.0.0.1", port), socket.SOCK_STREAM, socket.AF_INET)
    eventually(lambda: second.texts() == ["two"], "to its successor")
    assert launcher.stop() == Exit(code=0)


def test_a_balancer_without_a_daemon_behind_it(place, daemons, needs_agent):
    """It accepts, and ends the connection: what the kernel has taken by then is not sent yet."""
    port = free_port()
    daemon = daemons(("127.0.0.1", port), socket.SOCK_STREAM, socket.AF_INET, turns_away=1)
    launcher = run(place, {"web": talker(f"tcp:127.0.0.1:{port}")}, *AGENT_PATH)
    pid = launcher.wait_up()["pid"]
    failed = agent_log(launcher, "syslog-failed")
    assert failed["message"].startswith(f"cannot send to tcp:127.0.0.1:{port}: ")
    launcher.signal_inside(pid, USR1)
    eventually(lambda: sorted(daemon.texts()) == ["oh", "one", "two"], "all of it, once")
    agent_log(launcher, "syslog-connected")
    assert launcher.stop() == Exit(code=0)
    assert not launcher.events_named("syslog-lost")


def test_tls_that_demands_a_certificate_of_ours(place, daemons, needs_agent):
    """By TLS 1.3 the refusal comes after the handshake, when the first messages are under way."""
    authority = Authority(place.area / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(*authority.issue("server", "/CN=log", "IP:127.0.0.1"))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    port = free_port()
    daemons(("127.0.0.1", port), socket.SOCK_STREAM, socket.AF_INET, context)
    launcher = run(place, {"web": probe("print:one", "print-error:oh", "say:up", "pause",
                                        output={"syslog": {"address": f"tls:127.0.0.1:{port}"}})}, *AGENT_PATH,
                   "--agent-option", f"--syslog-authority={authority.certificate}")
    launcher.wait_up()
    failed = agent_log(launcher, "syslog-failed")
    assert failed["message"].startswith(f"cannot send to tls:127.0.0.1:{port}: ")
    assert launcher.stop() == Exit(code=0)
    [lost] = launcher.events_named("syslog-lost")
    assert lost["messages"] == 2


def test_many_addresses_one_after_the_other(daemons, needs_agent):
    """Each reload may have others: the agent forgets those that are not used any more."""
    port = free_port()
    daemon = daemons(("127.0.0.1", port), socket.SOCK_DGRAM, socket.AF_INET)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    answers, written = os.pipe()
    agent = Agent(hand_over={"syslog": theirs.fileno(), "syslog-answers": written})
    try:
        for number in range(1, 301):
            ours.send(f"{number} udp:127.0.0.2:{number} x".encode())
        ours.send(f"301 udp:127.0.0.1:{port} hello".encode())
        eventually(lambda: daemon.messages() == [b"hello"], "the last one")
        assert agent.stop() == Exit(code=0)
    finally:
        agent.close()
    os.close(written)
    with os.fdopen(answers) as lines:
        done = [line.split() for line in lines if line.startswith("done")]
    assert (sum(int(count) for _, count, _ in done), {lost for *_, lost in done}) == (301, {"0"})
    ours.close()
    theirs.close()


def test_a_new_connection_takes_a_flood(daemons, needs_agent):
    """More messages than are kept until it is known whether the daemon serves us."""
    count = 10_000
    port = free_port()
    daemon = daemons(("127.0.0.1", port), socket.SOCK_STREAM, socket.AF_INET)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    answers, written = os.pipe()
    fake = probing_launcher()  # with one, the agent may connect
    agent = Agent(hand_over={"launcher": fake.broker.fileno(), "syslog": theirs.fileno(), "syslog-answers": written})
    try:
        for number in range(1, count + 1):
            ours.send(f"{number} tcp:127.0.0.1:{port} {number}".encode())
        eventually(lambda: daemon.pieces and daemon.messages()[-1:] == [str(count).encode()], "the last one")
        assert agent.stop() == Exit(code=0)
    finally:
        agent.close()
        fake.close()
    assert daemon.messages() == [str(number).encode() for number in range(1, count + 1)]
    for one in (ours, theirs):
        one.close()
    for one in (answers, written):
        os.close(one)


def test_an_agent_that_is_killed(place, daemons, needs_agent):
    """What it had taken and not sent is counted; what waits for it is sent by the next one."""
    port = free_port()
    launcher = run(place, {"web": talker(f"tcp:127.0.0.1:{port}")}, *AGENT_PATH)
    pid = launcher.wait_up()["pid"]
    agent_log(launcher, "syslog-failed")
    agent = launcher.wait_for_event("process-started", program="triton-agent")["pid"]
    launcher.signal_inside(agent, signal.SIGKILL)
    launcher.wait_for_event("process-exited", program="triton-agent")
    daemon = daemons(("127.0.0.1", port), socket.SOCK_STREAM, socket.AF_INET)
    launcher.signal_inside(pid, USR1)
    eventually(lambda: "two" in daemon.texts(), "the new one sends what comes")
    lost = launcher.wait_for_event("syslog-lost")
    assert lost["messages"] + len(daemon.texts()) == 3  # it may have taken one of the first two, or both
    assert launcher.stop() == Exit(code=0)


def test_an_upgrade_with_an_agent(place, daemons, needs_agent):
    port = free_port()
    daemon = daemons(("127.0.0.1", port), socket.SOCK_STREAM, socket.AF_INET)
    web = {"steps": ["trap", "print:one", "say:up", f"until:{USR1}", "print:two", "until:15"],
           "output": {"syslog": {"address": f"tcp:127.0.0.1:{port}"}}}
    controlled = Controlled(place, {"web": web}, *AGENT_PATH)
    launcher = controlled.launcher
    pid = launcher.wait_up()["pid"]
    eventually(lambda: daemon.texts() == ["one"], "one")
    controlled.upgrade()
    launcher.wait_for_event("upgrade-done")
    launcher.signal_inside(pid, USR1)
    eventually(lambda: daemon.texts() == ["one", "two"], "by the same agent")
    assert launcher.stop() == Exit(code=0)
    assert not launcher.events_named("syslog-lost")
    controlled.close()

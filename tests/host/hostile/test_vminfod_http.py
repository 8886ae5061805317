"""Enemies of vminfod's HTTP interface: clients that flood, never read, or hold thousands of half requests, browsers that rebind
DNS, and whoever wants to see secrets by the TCP port. Others are answered all the while, and memory stays bounded."""

import http.client
import json
import os
import resource
import select
import socket
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from vminfod_place import BUILD, PATIENCE, Daemon  # noqa: E402

MACHINES = 300
SECRET = "tell nobody"
MOST_CONNECTIONS = 1600  # docs/host/vminfod-api.md
MOST_LISTENERS = 1200
MEMORY_MB = 64 if "asan" not in BUILD.name else 1024  # for whatever the enemies of one test do; ASan keeps what is freed


@pytest.fixture(scope="module", autouse=True)
def many_descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(before[1], 16384)), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    place = Daemon(tmp_path_factory.mktemp("vminfod"), MACHINES)
    yield place
    place.close()


class Client:
    """A connection that says and reads what the test wants, by TCP or by the Unix socket."""

    def __init__(self, daemon, is_unix=False):
        if is_unix:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(PATIENCE)
            self.socket.connect(str(daemon.socket))
        else:
            self.socket = socket.create_connection(("127.0.0.1", daemon.port), PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def say(self, text):
        self.socket.sendall(text.encode())
        return self

    def ask(self, target, *fields, host="localhost"):
        return self.say("\r\n".join([f"GET {target} HTTP/1.1", f"Host: {host}", *fields, "", ""]))

    def read_all(self):
        data = b""
        while chunk := self.socket.recv(65536):
            data += chunk
        return data.decode()

    def lines(self):
        """The lines of an endless answer, without its header and chunks."""
        with self.socket.makefile("rb") as file:
            while file.readline() not in (b"\r\n", b""):
                pass
            line = b""
            while size := int(file.readline() or b"0", 16):
                line += file.read(size)
                file.readline()
                *whole, line = line.split(b"\n")
                yield from (json.loads(one) for one in whole if one)


def answer(daemon, target, *fields, is_unix=False):
    """Status and body of one answer, whose connection then ends."""
    with Client(daemon, is_unix) as client:
        client.ask(target, *fields, "Connection: close")
        response = http.client.HTTPResponse(client.socket)
        response.begin()
        return response.status, response.read().decode()


def raw_answer(daemon, text):
    with Client(daemon) as client:
        head, _, body = client.say(text).read_all().partition("\r\n\r\n")
        return head.split()[1], body


def status(daemon):
    return json.loads(answer(daemon, "/status?full", is_unix=True)[1])


def wait_for_streams(daemon, wanted):
    end = time.monotonic() + PATIENCE
    while (tcp := status(daemon)["http"]["tcp"])["openStreams"] != wanted:
        assert time.monotonic() < end, tcp
        time.sleep(0.01)


def resident_mb(daemon):
    pages = int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def all_are_answered(daemon):
    """Everybody else, at both entrances."""
    uuid = daemon.made[0]["uuid"]
    for is_unix in (False, True):
        assert answer(daemon, "/ping", is_unix=is_unix) == (200, '{"ping":"pong"}\n')
        assert json.loads(answer(daemon, f"/vms/{uuid}", is_unix=is_unix)[1])["uuid"] == uuid
        assert len(json.loads(answer(daemon, "/vms?fields=uuid", is_unix=is_unix)[1])) == len(daemon.made)


@pytest.fixture
def bounded_memory(daemon):
    before = resident_mb(daemon)
    yield
    assert resident_mb(daemon) - before < MEMORY_MB


def close_all(clients):
    for client in clients:
        client.socket.close()


BAD_REQUESTS = {
    "post": ("POST /vms HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n", "405", "only GET, HEAD is allowed here\n"),
    "delete": ("DELETE /vms/x HTTP/1.1\r\nHost: localhost\r\n", "405", "only GET, HEAD is allowed here\n"),
    "put-nothing": ("PUT /nothing HTTP/1.1\r\nHost: localhost\r\n", "404", "Unsupported URL Path\n"),
    "dots": ("GET /../etc/shadow HTTP/1.1\r\nHost: localhost\r\n", "404", "Unsupported URL Path\n"),
    "dots-behind": ("GET /vms/../../../etc/shadow HTTP/1.1\r\nHost: localhost\r\n", "400", '"../../../etc/shadow" is not a UUID\n'),
    "escaped-dots": ("GET /vms/%2e%2e%2fx HTTP/1.1\r\nHost: localhost\r\n", "400", '"../x" is not a UUID\n'),
    "nul": ("GET /vms/%00 HTTP/1.1\r\nHost: localhost\r\n", "400", "the path is malformed\n"),
    "escape": ("GET /vms/%1b[2J HTTP/1.1\r\nHost: localhost\r\n", "400", '"\\u001b[2J" is not a UUID\n'),
    "no-host": ("GET /vms HTTP/1.1\r\n", "400", "the request cannot be read: Host is missing\n"),
    "two-hosts": ("GET /vms HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n", "400",
                  "the request cannot be read: it has Host more than once\n"),
    "http2": ("GET /vms HTTP/2.0\r\nHost: localhost\r\n", "505", "only HTTP/1 is spoken here\n"),
    "two-lengths": ("GET /vms HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", "400",
                    "the request cannot be read: bad Transfer-Encoding\n"),
    "body": ("GET /ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n", "413", "the body is too long\n"),
    "target": ("GET /" + "a" * 20000 + " HTTP/1.1\r\nHost: localhost\r\n", "414", "the target is too long\n"),
    "header": ("GET /ping HTTP/1.1\r\nHost: localhost\r\nX: " + "a" * 20000 + "\r\n", "431", "the header is too long\n"),
    "parameters": ("GET /vms?" + "alias=a&" * 65 + " HTTP/1.1\r\nHost: localhost\r\n", "400",
                   "the query has more than 64 parameters\n"),
    "since": ("GET /events?since=99999999999999999999 HTTP/1.1\r\nHost: localhost\r\n", "400", 'parameter "since" is a number\n'),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_bad_requests_get_one_precise_line(daemon, name):
    request_text, code, body = BAD_REQUESTS[name]
    assert raw_answer(daemon, request_text + "Connection: close\r\n\r\n") == (code, body)


def test_patterns_that_explode_elsewhere_do_not(daemon):
    for pattern in ("(a*)*b", "(x%2bx%2b)%2by", "(a|aa)%2b$"):
        assert answer(daemon, f"/vms?hostname=~{pattern}")[0] == 200
    code, body = answer(daemon, "/vms?alias=~" + "(a*)*" * 300)
    assert code == 400 and "alias" in body and body.count("\n") == 1
    patterns = [f"uuid=~(%3F:.%3F){{1000}}${number}" for number in range(9)]  # each fills what RE2 may take
    assert answer(daemon, "/vms?" + "&".join(patterns)) == (400, "there are more than 8 patterns\n")
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", daemon.port)) as slow:
        slow.sendall(f"GET /vms?{'&'.join(patterns[:8])} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert answer(daemon, "/ping")[0] == 200
    assert time.monotonic() - began < 5


def test_a_rebound_name_and_foreign_pages_are_refused(daemon):
    for host in ("evil.example", f"evil.example:{daemon.port}", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0"):
        code, body = raw_answer(daemon, f"GET /vms HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        assert (code, body) == ("403", "Host is not localhost\n")
    for path in ("/", "/vms", "/events", "/metrics", "/status"):
        assert answer(daemon, path, "Origin: http://evil.example") == (403, "Origin is not localhost\n")
        assert answer(daemon, path, "Origin: null") == (403, "Origin is not localhost\n")
    for host in (f"localhost:{daemon.port}", "127.0.0.1", "[::1]:9090"):
        assert raw_answer(daemon, f"GET /ping HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")[0] == "200"


def test_secrets_are_not_seen_by_tcp(daemon):
    victim = daemon.made[1]["uuid"]
    config = daemon.files.config(victim)
    metadata = {"customer_metadata": {"password": SECRET}, "internal_metadata": {"key": SECRET}}
    (config / "metadata.json").write_text(json.dumps(metadata))
    assert SECRET in answer(daemon, f"/vms/{victim}?fresh=true", is_unix=True)[1]
    for path in (f"/vms/{victim}", "/vms", "/history", "/status?full", "/metrics", "/usage"):
        assert SECRET not in answer(daemon, path)[1], path
    for query in (f"customer_metadata.password=~{SECRET[:4]}", "internal_metadata.key=x", "fields=uuid,customer_metadata",
                  "fields=internal_metadata", "customer_metadata=~."):
        code, body = answer(daemon, "/vms?" + query)
        assert code == 403 and body.endswith(" needs the Unix socket\n"), query
    assert answer(daemon, "/data") == (403, "/data needs the Unix socket\n")
    assert answer(daemon, f"/vms/{victim}?fresh=true") == (403, "fresh needs the Unix socket\n")
    with Client(daemon) as client:
        lines = client.ask("/events?snapshot=true").lines()
        assert SECRET not in json.dumps(next(lines))
        (config / "metadata.json").write_text(json.dumps({**metadata, "customer_metadata": {"password": SECRET + "!"}}))
        answer(daemon, f"/vms/{victim}?fresh=true", is_unix=True)
        daemon.files.write({**daemon.made[1], "alias": "after"})
        # That a secret has changed is not told either.
        paths = set()
        while "alias" not in paths:
            paths |= {change["path"] for change in next(lines)["changes"]}
        assert paths <= {"alias", "last_modified"}
    daemon.files.write(daemon.made[1])


def test_thousands_of_half_requests_keep_nobody_out(daemon, bounded_memory):
    halves = []
    try:
        for number in range(2 * MOST_CONNECTIONS):
            halves.append(Client(daemon))
            halves[-1].say("GET /vms HTTP/1.1\r\nHost: local"[: number % 30])
        all_are_answered(daemon)
        tcp = status(daemon)["http"]["tcp"]
        assert tcp["openConnections"] <= MOST_CONNECTIONS
        assert tcp["evictedConnections"] > 0
    finally:
        close_all(halves)


def test_floods_let_others_through(daemon, bounded_memory):
    """Each of them sends requests as fast as they are taken, and reads nothing."""
    flood = "".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in ("/vms?alias=~(x|y)*z&fields=uuid", "/ping"))
    clients = [Client(daemon) for _ in range(200)]
    try:
        for client in clients:
            client.socket.setblocking(False)
        for _ in range(5):
            for client in clients:
                try:
                    client.socket.send(flood.encode() * 100)
                except (BlockingIOError, ConnectionError):
                    pass
            all_are_answered(daemon)
    finally:
        close_all(clients)


def test_readers_that_never_read_cost_nothing_but_their_sockets(daemon, bounded_memory):
    clients = []
    try:
        for number in range(900):
            clients.append(Client(daemon))
            clients[-1].socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            clients[-1].ask(("/vms", "/events?snapshot=true", f"/vms/{daemon.made[0]['uuid']}")[number % 3])
        all_are_answered(daemon)
    finally:
        close_all(clients)


def test_a_slow_listener_is_told_to_begin_again(daemon, bounded_memory):
    machine = daemon.made[2]
    with Client(daemon, is_unix=True) as slow:
        lines = slow.ask("/events").lines()
        first = next(lines)
        assert first["type"] == "ack"
        # More than the feed keeps: an event has the machine, and what it was before.
        for number in range(120):
            daemon.files.write_tags(machine["uuid"], {"big": str(number) + "x" * 100_000})
            answer(daemon, f"/vms/{machine['uuid']}?fresh=true", is_unix=True)
        assert status(daemon)["events"]["first"] > first["seq"] + 1
        record = next(record for record in lines if record["type"] == "resync")
        assert {vm["uuid"] for vm in record["vms"]} == {vm["uuid"] for vm in daemon.made}
        daemon.files.write({**machine, "alias": "last"})
        assert next(record for record in lines if record.get("alias") == "last")["seq"] > record["seq"]
    daemon.files.write(machine)
    assert status(daemon)["events"]["resyncs"] >= 1


def test_since_goes_on_where_it_was_also_over_a_restart(tmp_path):
    daemon = Daemon(tmp_path, 3)
    try:
        machine = daemon.made[0]
        with Client(daemon) as client:
            lines = client.ask("/events").lines()
            ack = next(lines)
            daemon.files.write({**machine, "alias": "one"})
            event = next(lines)
            assert event["type"] == "modify" and event["seq"] == ack["seq"] + 1
        with Client(daemon) as client:
            lines = client.ask(f"/events?since={ack['seq']}").lines()
            assert [next(lines)["type"], next(lines)["seq"]] == ["ack", event["seq"]]
        daemon.kill()
        daemon.files.write({**machine, "alias": "two"})
        daemon.start()
        with Client(daemon) as client:
            records = client.ask(f"/events?since={event['seq']}").lines()
            resync = next(record for record in records if record["type"] == "resync")
            assert resync["seq"] > event["seq"]
            assert "two" in {vm.get("alias") for vm in resync["vms"]}
    finally:
        daemon.close()


def test_a_thousand_listeners_hear_and_more_than_enough_are_refused(daemon):
    machine = daemon.made[3]
    clients = [Client(daemon) for _ in range(MOST_LISTENERS)]
    try:
        wait_for_streams(daemon, 0)
        for client in clients:
            client.ask(f"/events?vm={machine['uuid']}&field=alias")
        wait_for_streams(daemon, MOST_LISTENERS)
        assert answer(daemon, "/events") == (503, "too many listeners\n")
        # The other entrance has limits of its own, and what is quick needs no place.
        with Client(daemon, is_unix=True) as privileged:
            assert next(privileged.ask("/events").lines())["type"] == "ack"
        all_are_answered(daemon)
        daemon.files.write({**machine, "alias": "heard"})
        waiting = {client.socket.fileno(): (client, bytearray()) for client in clients}
        poll = select.poll()
        for number in waiting:
            poll.register(number, select.POLLIN)
        while waiting:
            ready = poll.poll(PATIENCE * 1000)
            assert ready, f"{len(waiting)} listeners hear nothing"
            for number, _ in ready:
                client, data = waiting[number]
                received = client.socket.recv(65536)
                assert received, "a listener was left"
                data += received
                if b'"to":"heard"' in data:
                    poll.unregister(number)
                    del waiting[number]
    finally:
        close_all(clients)
    daemon.files.write(machine)
    wait_for_streams(daemon, 0)


def test_names_of_clients_do_no_harm(daemon):
    for name in (b"\x1b]0;x\x07", b"\xff\xc2\x9b2J" + b"a" * 1000, b"<script>alert(1)</script>"):
        with Client(daemon, is_unix=True) as client:
            client.socket.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\nUser-Agent: " + name + b"\r\n\r\n")
            client.socket.recv(100)  # what has control characters is refused, the others listen
            for listener in status(daemon)["eventsListeners"].values():
                agent = listener["userAgent"]
                assert agent.isascii() and agent.isprintable() and len(agent) <= 200

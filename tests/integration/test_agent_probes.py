"""Probes over the network that the agent makes for the launcher, of servers that are well, ill, silent and strange."""

import socket
import ssl
import threading

import pytest

from harness.agent import Agent, Authority, Prober, probing_launcher, read_to_end
from harness.process import TIMEOUT, Exit, eventually, free_port

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def listening(family=socket.AF_INET, host="127.0.0.1", backlog=512):
    server = socket.socket(family)
    server.bind((host, 0))
    server.listen(backlog)
    server.settimeout(TIMEOUT)
    return server


def port_of(server):
    return server.getsockname()[1]


@pytest.fixture
def launcher():
    fake = probing_launcher()
    yield fake
    fake.close()


@pytest.fixture
def agent(launcher):
    started = Agent(listen=False, hand_over={"launcher": launcher.broker.fileno()}, serves=False)
    started.wait_for_event("sandbox")
    yield started
    started.close()


@pytest.fixture
def prober(agent, launcher):
    return Prober(launcher)


@pytest.mark.parametrize("family, host, shown", [(socket.AF_INET, "127.0.0.1", "127.0.0.1"),
                                                 (socket.AF_INET6, "::1", "[::1]"),
                                                 (socket.AF_INET, "127.0.0.1", "localhost"),
                                                 (socket.AF_INET6, "::1", "localhost")])
def test_connections(prober, family, host, shown):
    with listening(family, host) as server:
        assert prober.probe("tcp", f"{shown}:{port_of(server)}") == (True, "")
        peer, _ = server.accept()
        with peer:
            assert read_to_end(peer) == b""
    assert prober.probe("tcp", f"{shown}:{free_port(host, family)}") == (False, "connection refused")


def test_a_connection_that_is_not_answered(prober):
    """A queue of one place that is taken: the kernel answers nobody else."""
    with listening(backlog=0) as server, socket.create_connection(server.getsockname()):
        target = f"127.0.0.1:{port_of(server)}"
        fillers = []
        for _ in range(4):  # the queue takes one more than it says
            fillers.append(socket.socket())
            fillers[-1].setblocking(False)
            fillers[-1].connect_ex(server.getsockname())
        assert prober.probe("tcp", target, timeout=0.2) == (False, "timed out")
        for filler in fillers:
            filler.close()


def serve_once(server, answer, received, context=None):
    """Reads a request, gives an answer, and closes."""
    peer, _ = server.accept()
    if context:
        peer = context.wrap_socket(peer, server_side=True)
    with peer:
        peer.settimeout(TIMEOUT)
        text = b""
        while b"\r\n\r\n" not in text:
            text += peer.recv(4096)
        received.append(text.decode())
        peer.sendall(answer)


ANSWERS = {
    "good": (OK, ""),
    "old": (b"HTTP/1.0 204 No Content\r\n\r\n", ""),
    "redirection": (b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n", ""),
    "interim": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK, ""),
    "long": (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000, ""),
    "client-error": (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "status 400"),
    "server-error": (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "status 503"),
    "no-reason": (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", ""),
    "bare-lines": (b"HTTP/1.0 500\nContent-Length: 0\n\n", "status 500"),
    "mail": (b"220 mail.example.org\r\n", "the answer is not HTTP: bad version"),
    "long-header": (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000 + b"\r\n", "the answer's header is too long"),
    "nothing": (b"", "the connection ended without an answer"),
    "half": (b"HTTP/1.1 200", "the connection ended without an answer")}


@pytest.mark.parametrize("name", ANSWERS)
def test_requests(prober, name):
    answer, problem = ANSWERS[name]
    received = []
    with listening() as server:
        thread = threading.Thread(daemon=True, target=lambda: ignore_resets(serve_once, server, answer, received))
        thread.start()
        assert prober.probe("http", f"http://127.0.0.1:{port_of(server)}/healthz?full=1") == (not problem, problem)
        thread.join()
        head, *headers = received[0].strip().split("\r\n")
        assert head == "GET /healthz?full=1 HTTP/1.1"
        assert f"Host: 127.0.0.1:{port_of(server)}" in headers and "Connection: close" in headers
        assert any(line.startswith("User-Agent: triton-launch-agent/") for line in headers)


def ignore_resets(call, *arguments):
    """Who sends more than anybody wants to read may be cut off."""
    try:
        call(*arguments)
    except (BrokenPipeError, ConnectionResetError):
        pass


def test_a_request_that_is_not_answered(prober):
    with listening() as server:
        assert prober.probe("http", f"http://127.0.0.1:{port_of(server)}", timeout=1) == (False, "timed out")
        peer, _ = server.accept()
        with peer:
            assert read_to_end(peer).startswith(b"GET / HTTP/1.1\r\n")


def test_a_request_to_the_address_of_the_other_family(prober):
    received = []
    with listening(socket.AF_INET6, "::1") as server:
        for host in ("localhost", "[::1]"):
            thread = threading.Thread(target=serve_once, args=(server, OK, received), daemon=True)
            thread.start()
            assert prober.probe("http", f"http://{host}:{port_of(server)}/") == (True, "")
            thread.join()
            assert f"Host: {host}:{port_of(server)}\r\n" in received.pop()


def test_requests_by_tls_verify_nothing(prober, area):
    certificate, key = Authority(area / "pki").issue("server", dates=("20200101000000Z", "20200102000000Z"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    received = []
    with listening() as server:
        url = f"https://127.0.0.1:{port_of(server)}/"
        for answer, result in ((OK, (True, "")), (b"HTTP/1.1 500 No\r\n\r\n", (False, "status 500"))):
            thread = threading.Thread(target=serve_once, args=(server, answer, received, context), daemon=True)
            thread.start()
            assert prober.probe("http", url) == result
            thread.join()
        # A server without TLS
        thread = threading.Thread(target=answer_anything, args=(server,), daemon=True)
        thread.start()
        succeeded, detail = prober.probe("http", url)
        thread.join()
        assert not succeeded and detail.startswith("TLS: ")


def answer_anything(server):
    peer, _ = server.accept()
    with peer:
        assert peer.recv(4096)
        peer.sendall(OK)


@pytest.mark.parametrize("kind, target, detail", [
    ("icmp", "127.0.0.1:1", 'probes of kind "icmp" are unknown here'),
    ("tcp", "127.0.0.1", '"127.0.0.1" has no port'),
    ("http", "ftp://127.0.0.1/", '"ftp://127.0.0.1/" begins with neither http:// nor https://')])
def test_orders_that_cannot_be_followed(prober, kind, target, detail):
    assert prober.probe(kind, target) == (False, detail)


def test_a_cancelled_probe_has_no_result(prober):
    with listening() as server:
        number = prober.order("http", f"http://127.0.0.1:{port_of(server)}/")
        peer, _ = server.accept()
        prober.cancel(number)
        prober.cancel(4711)
        with peer:
            assert read_to_end(peer).startswith(b"GET / ")
        assert prober.probe("tcp", f"127.0.0.1:{port_of(server)}") == (True, "")
        assert list(prober.results()) == [number + 1]


def test_many_at_once_are_bounded_and_all_answered(prober):
    with listening() as server:
        url = f"http://127.0.0.1:{port_of(server)}/"
        numbers = [prober.order("http", url) for _ in range(300)]
        peers = [server.accept()[0] for _ in range(256)]
        assert prober.results() == {}
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
        server.settimeout(TIMEOUT)
        for number in range(300):
            if number >= 256:
                peers.append(server.accept()[0])
            assert peers[number].recv(4096).startswith(b"GET / ")  # closing on what is unread would be a reset
            peers[number].sendall(OK)
            peers[number].close()
        for number in numbers:
            assert prober.result(number) == (True, "")


def test_a_launcher_that_became_another_version_asks_anew(prober, launcher):
    with listening() as server:
        target = f"http://127.0.0.1:{port_of(server)}/"
        old = prober.order("http", target)
        peer, _ = server.accept()
        launcher.drop_connections()
        with peer:
            assert read_to_end(peer).startswith(b"GET / "), "nobody waits for it any longer"
        launcher.wait_for(lambda: len(launcher.called("Probes")) == 2, "it asks again")
        assert prober.probe("tcp", f"127.0.0.1:{port_of(server)}") == (True, "")
        assert old not in prober.results()


def test_an_agent_that_serves_nobody(prober, agent, launcher):
    """It has no threads that hash, no listening socket, and ends as the others do."""
    assert len(agent.log.all) == 1 and int(agent.status()["Threads"]) == 1
    eventually(lambda: launcher.called("Probes"), "it takes probes")
    assert agent.stop() == Exit(code=0)


@pytest.mark.parametrize("status, good", [([{"first": 503, "last": 503}], True), ([{"first": 200, "last": 299}], False),
                                          ([{"first": 200, "last": 299}, {"first": 500, "last": 510}], True)])
def test_good_statuses(prober, status, good):
    received = []
    with listening() as server:
        thread = threading.Thread(daemon=True, target=lambda: ignore_resets(serve_once, server, ANSWERS["server-error"][0], received))
        thread.start()
        result = prober.probe("http", f"http://127.0.0.1:{port_of(server)}/", status=status)
        assert result == ((True, "") if good else (False, "status 503"))
        thread.join()


def test_fields_of_a_request(prober):
    """Those that are always there may be replaced, and each comes once."""
    received = []
    with listening() as server:
        thread = threading.Thread(daemon=True, target=lambda: ignore_resets(serve_once, server, OK, received))
        thread.start()
        headers = [{"name": "hOST", "value": "www.example.org"}, {"name": "X-Token", "value": "a: b=c"}]
        assert prober.probe("http", f"http://127.0.0.1:{port_of(server)}/", headers=headers) == (True, "")
        thread.join()
    fields = received[0].strip().split("\r\n")[1:]
    assert [field for field in fields if field.lower().startswith("host:")] == ["hOST: www.example.org"]
    assert "X-Token: a: b=c" in fields
    assert len({field.split(":")[0].lower() for field in fields}) == len(fields)


class GrpcServer:
    """A real server of gRPC with the health service; what it says of each service is in `statuses`."""

    def __init__(self, statuses):
        grpc = pytest.importorskip("grpc")
        from concurrent.futures import ThreadPoolExecutor

        def check(request, context):
            service = request[2:].decode()
            if service not in statuses:
                context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
            return bytes([8, statuses[service]]) if statuses[service] else b""

        handler = grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(check)})
        self.server = grpc.server(ThreadPoolExecutor(2), handlers=[handler])
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_what):
        self.server.stop(None).wait()


def test_grpc(prober):
    with GrpcServer({"": 1, "a.Service": 1, "ill": 2, "odd": 3, "unset": 0}) as server:
        target = f"127.0.0.1:{server.port}"
        assert prober.probe("grpc", target) == (True, "")
        assert prober.probe("grpc", target, service="a.Service") == (True, "")
        assert prober.probe("grpc", target, service="ill") == (False, "the service is NOT_SERVING")
        assert prober.probe("grpc", target, service="odd") == (False, "the service is SERVICE_UNKNOWN")
        assert prober.probe("grpc", target, service="unset") == (False, "the service is UNKNOWN")
        assert prober.probe("grpc", target, service="none") == (False, "NOT_FOUND: no such service")


def test_grpc_of_a_server_without_the_service(prober):
    grpc = pytest.importorskip("grpc")
    from concurrent.futures import ThreadPoolExecutor
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    ok, detail = prober.probe("grpc", f"127.0.0.1:{port}")
    server.stop(None).wait()
    assert not ok and detail.startswith("UNIMPLEMENTED"), detail


STRANGE = {
    "http1": OK,
    "nothing": b"",
    "settings": b"\0\0\0\4\0\0\0\0\0" * 20_000,  # without end, each of which wants to be acknowledged
    "junk": b"\xff" * 100_000}


@pytest.mark.parametrize("name", STRANGE)
def test_grpc_of_what_speaks_something_else(prober, name):
    with listening() as server:
        def serve():
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(STRANGE[name])
        thread = threading.Thread(daemon=True, target=lambda: ignore_resets(serve))
        thread.start()
        ok, detail = prober.probe("grpc", f"127.0.0.1:{port_of(server)}")
        # Whoever closes while we still answer resets the connection.
        refusals = ("the answer is not HTTP/2", "the connection ended without an answer", "the answer is too long")
        assert not ok and detail.startswith(refusals), detail
        thread.join()


def test_grpc_has_its_time(prober):
    with listening() as server:
        assert prober.probe("grpc", f"127.0.0.1:{port_of(server)}", timeout=0.2) == (False, "timed out")

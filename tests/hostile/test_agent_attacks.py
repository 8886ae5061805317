"""Attacks on triton-launch-agent over its connections: requests that two readers understand in two ways, floods, clients
that go away."""

import os
import re
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from harness.agent import AGENT, Agent, Authority, read_to_end, run_agent
from harness.process import Exit, eventually, is_static

if not os.access(AGENT, os.X_OK):
    pytest.skip("TRITON_AGENT names no agent", allow_module_level=True)

READY = b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
HASHES = b"POST /v1/hashes HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def start():
    """Starts agents and ends them with the test."""
    running = []

    def start_one(*arguments, **how):
        running.append(Agent(*arguments, **how))
        return running[-1]
    yield start_one
    for agent in running:
        agent.close()


def converse(agent, sent):
    """All that comes back, to the end of the connection."""
    with agent.connect() as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return read_to_end(connection)


def statuses(answer):
    """Of each answer in what came back."""
    return [int(line.split()[1]) for line in answer.decode().splitlines() if line.startswith("HTTP/1.")]


@pytest.mark.parametrize("path", [b"/nothing", b"/check_hash/%zz", b"/v1/hashes"], ids=["unknown", "malformed", "method"])
def test_head_never_gets_a_body(start, path):
    """A body after the answer to HEAD would be read as the beginning of the next answer."""
    answer = converse(start(), b"HEAD " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n" + READY)
    first, _, rest = answer.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 4") and rest.startswith(b"HTTP/1.1 200 "), answer


@pytest.mark.parametrize("fields", [b"Connection: keep-alive\r\nConnection: close", b"Connection: x\r\nConnection: Close",
                                    b"Connection: keep-alive, close", b"Connection: close\r\nConnection: keep-alive"])
def test_every_connection_field_counts(start, fields):
    answer = converse(start(), READY.replace(b"Host: localhost", b"Host: localhost\r\n" + fields) + READY)
    assert statuses(answer) == [200] and b"Connection: close" in answer


def test_old_http_is_kept_by_a_later_field_and_waits_for_no_100(start):
    old = b"POST /v1/hashes HTTP/1.0\r\nConnection: x\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n"
    answer = converse(start(), old + b"Content-Length: 12\r\n\r\n{\"paths\":[]}" + READY)
    assert statuses(answer) == [200, 200] and answer.startswith(b"HTTP/1.0 200 OK\r\n")


def test_an_unknown_expectation_is_refused(start):
    answer = converse(start(), HASHES + b"Expect: 200-maybe\r\nContent-Length: 12\r\n\r\n{\"paths\":[]}")
    assert statuses(answer) == [417] and b"Connection: close" in answer


@pytest.mark.parametrize("host", [b"a b", b"user@host", b"a\tb", b"a,b c", b"[::1", b"[::1]x", b"a:b", b"a/b", b"a%zz"])
def test_a_host_that_is_not_one_is_refused(start, host):
    assert statuses(converse(start(), b"GET /ready HTTP/1.1\r\nHost: " + host + b"\r\n\r\n" + READY)) == [400]


def test_hosts_that_are_ones_are_served(start):
    agent = start("--allow-host", "a.b-c_d")
    for host in (b"", b"localhost", b"localhost:80", b"[::1]:8080", b"a.b-c_d", b"10.0.0.1:", socket.gethostname().encode()):
        assert statuses(converse(agent, b"GET /ready HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")) == [200], host


ENDPOINTS = re.findall(r"^  (/[^:]*):\n    (get|post):", (Path(__file__).parents[2] / "docs/openapi.yaml").read_text(), re.M)


def test_a_page_of_another_site_gets_nothing_from_any_endpoint(start, area):
    """A browser shows its client certificate for whatever page it has open, and a page can make its own name resolve to the
    agent's address."""
    authority = Authority(area / "ca")
    certificate, key = authority.issue("server", subject="/CN=server", alternatives="IP:127.0.0.1")
    known = authority.client(authority.issue("client"))
    tls = start("--ui", "--output-dir", area, "--tls-certificate-file", certificate, "--tls-key-file", key,
                "--tls-ca-file", authority.certificate)
    plain = start("--ui", "--output-dir", area, "--probe-listen", "127.0.0.1:0")
    assert len(ENDPOINTS) >= 20, "the document is not read as it is written"
    for path, method in ENDPOINTS:
        path = path.replace("{path}", "ca/ca.pem")
        for agent, context in ((tls, known), (plain, None)):
            for origin in ("https://evil.example", "http://evil.example", "null"):
                answer = agent.request(method.upper(), path, headers={"Origin": origin}, context=context)
                assert answer[:2] == (403, "Origin is not this server\n"), (method, path, origin)
                assert answer[2]["Cross-Origin-Resource-Policy"] == "same-origin"
        for host in ("evil.example", f"evil.example:{plain.port}", "127.0.0.1.evil.example"):
            answer = plain.request(method.upper(), path, headers={"Host": host})
            assert answer[0] == 403 and answer[1].startswith("Host is not an address, "), (method, path, host)
    assert tls.post("/restart", context=known) == (200, "OK\n"), "it is there, and serves whom it should"


def test_a_page_of_another_site_gets_nothing_where_probes_are_served(start):
    agent = start("--probe-listen", "127.0.0.1:0")
    agent.port = int(agent.wait_for_event("probe-listening")["address"].rsplit(":", 1)[1])
    assert agent.get("/readyz") == (200, "ready\n")
    assert agent.get("/readyz", headers={"Host": "evil.example"})[0] == 403
    assert agent.get("/readyz", headers={"Origin": "http://evil.example"})[0] == 403


def test_a_later_minor_version_is_answered_as_our_own(start):
    agent = start()
    answer = converse(agent, READY.replace(b"HTTP/1.1", b"HTTP/1.2") + READY.replace(b"HTTP/1.1", b"HTTP/1.9"))
    assert statuses(answer) == [200, 200] and answer.count(b"HTTP/1.1 200 ") == 2
    for version in (b"HTTP/2.0", b"HTTP/0.9", b"HTTP/3.7"):
        assert statuses(converse(agent, READY.replace(b"HTTP/1.1", version) + READY)) == [505], version


@pytest.mark.parametrize("target, status", [
    (b"HTTP://localhost/ready", 200), (b"hTTpS://localhost:1/ready?a#b", 200), (b"http://localhost", 404), (b"http://user@x/ready", 400),
    (b"http:///ready", 400), (b"http://a b/ready", 400), (b"ftp://x/ready", 404), (b"*", 404), (b"x:80", 404)])
def test_targets_in_absolute_form(start, target, status):
    assert statuses(converse(start(), b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"))[:1] == [status]


@pytest.mark.parametrize("sent", [
    HASHES + b"Content-Length: 12\r\nContent-Length: 12\r\n\r\n{\"paths\":[]}",
    HASHES + b"Content-Length: 12, 12\r\n\r\n{\"paths\":[]}",
    HASHES + b"Content-Length: +12\r\n\r\n{\"paths\":[]}",
    HASHES + b"Content-Length: 0x0c\r\n\r\n{\"paths\":[]}",
    HASHES + b"Content-Length : 12\r\n\r\n{\"paths\":[]}",
    b"GET /ready HTTP/1.1\nHost: x\n\n",
    b"GET /ready HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
    b"GET /ready HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
    b"GET /ready HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    b"GET\t/ready\tHTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /ready HTTP/1.1 \r\nHost: localhost\r\n\r\n",
    b"GET /ready\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    HASHES + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n0\r\n\r\n",
    HASHES + b"Transfer-Encoding: chunked\r\n\r\n1\n{\n0\n\n"],
    ids=["twice", "list", "plus", "hexadecimal", "blank", "bare-lf", "bare-lf-field", "bare-cr", "nul", "tabs",
         "blank-end", "nul-target", "negative-chunk", "bare-lf-chunk"])
def test_what_two_readers_would_read_differently_is_refused(start, sent):
    """Nothing behind it is taken for a request."""
    answer = converse(start(), sent + READY)
    assert statuses(answer) == [400] and b"Connection: close" in answer, answer


def test_a_folded_field_says_nothing_about_the_message(start):
    """RFC 9112, 5.2: refused, or its line ends are blanks."""
    answer = converse(start(), HASHES + b"X: a\r\n Content-Length: 3\r\nContent-Length: 12\r\n\r\n{\"paths\":[]}")
    assert statuses(answer) in ([200], [400])
    answer = converse(start(), HASHES + b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + READY)
    assert statuses(answer) == [400]


def test_trailers_change_nothing(start):
    """A trailer field is not a header field: neither of this request nor of the next."""
    body = b"Transfer-Encoding: chunked\r\n\r\nc;a=b\r\n{\"paths\":[]}\r\n0\r\n"
    answer = converse(start(), HASHES + body + b"Connection: close\r\nHost: a b\r\nX: y\r\n\r\n" + READY)
    assert statuses(answer) == [200, 200]


def test_few_empty_lines_may_precede_a_request(start):
    agent = start()
    assert statuses(converse(agent, b"\r\n" * 2 + READY + b"\r\n" * 2 + READY)) == [200, 200]
    with agent.connect() as connection:
        connection.sendall(b"\r\n" * 20)
        assert statuses(read_to_end(connection)) == [400], "it is not read for longer"


def test_an_endless_chunk_extension_is_ended(start):
    agent = start()
    with agent.connect() as connection:
        connection.sendall(HASHES + b"Transfer-Encoding: chunked\r\n\r\n1;a=")
        try:
            for _ in range(300):
                connection.sendall(b"x" * 1024)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = read_to_end(connection)
    assert statuses(answer) in ([], [400], [431]) and agent.get("/ready")[0] == 200


def test_a_target_without_end_is_ended(start):
    agent = start()
    answer = converse(agent, b"GET /" + b"x" * 40000)
    assert statuses(answer) == [414] and agent.get("/ready")[0] == 200


def test_ten_thousand_requests_ahead_do_not_keep_others_waiting(start):
    agent = start()
    with agent.connect() as greedy:
        greedy.setblocking(False)
        try:
            greedy.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10_000)
        except BlockingIOError:
            pass
        begun = time.monotonic()
        assert agent.get("/ready") == (200, "OK\n")
        assert time.monotonic() - begun < 2


def large_file(directory, name="large"):
    """A hole: only the processor is busy with it."""
    with open(directory / name, "wb") as file:
        file.truncate(256 << 30)


def test_nobody_is_hashed_for_who_has_gone(start, area):
    (area / "out").mkdir()
    large_file(area / "out")
    agent = start("--output-dir", area / "out")
    with agent.connect() as first, agent.connect() as second:
        for peer in (first, second):
            peer.sendall(b"GET /check_hash/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        eventually(lambda: agent.metric("triton_agent_hash_cache_misses_total") == 2, "both wait")
        first.close()
        eventually(lambda: agent.metric("triton_agent_open_connections") == 2, "the first one's place is free")
        assert read_to_end(second, timeout=0.2) is None, "the second one still waits"
    eventually(lambda: agent.metric("triton_agent_open_connections") == 1, "so is the second one's")

    def rests():
        """No thread of it runs or could run: whoever hashes never waits for anything."""
        try:
            states = [task.read_text().rsplit(")", 1)[1].split()[0] for task in Path(f"/proc/{agent.pid}/task").glob("*/stat")]
        except (FileNotFoundError, ProcessLookupError):  # one has just ended
            return False
        return set(states) == {"S"}
    eventually(rests, "nothing is hashed any more")
    begun = time.monotonic()
    assert agent.stop() == Exit(code=0)
    assert time.monotonic() - begun < 2, "the hash holds the stop up"


# --- floods: whatever others do, who probes is answered

class Flood:
    """Threads that attack until the block ends."""

    def __init__(self, attack, threads=8):
        self.attack = attack
        self.over = threading.Event()
        self.failure = None
        self.threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(threads)]

    def _run(self, number):
        try:
            while not self.over.is_set():
                self.attack(number)
        except OSError as error:  # a connection that is taken away; anything else is a mistake of the test
            self.failure = error

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        for thread in self.threads:
            thread.join(30)


def slowest_probe(port, count=20):
    """The longest time that one of so many /readyz took, each on a connection of its own."""
    slowest = 0.0
    for _ in range(count):
        begun = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert read_to_end(connection, 10).endswith(b"ready\n")
        slowest = max(slowest, time.monotonic() - begun)
    return slowest


def start_with_probes(start, *arguments):
    agent = start("--probe-listen", "127.0.0.1:0", *arguments)
    port = int(agent.wait_for_event("probe-listening")["address"].rsplit(":", 1)[1])
    return agent, port


def judge(name, idle, flooded):
    """The figure is for the reader; the bound is for a machine that does much else, the attackers included. A sanitizer
    makes the agent ten times as slow, and the attackers stay as fast as they are."""
    print(f"/readyz under {name}: at most {flooded * 1000:.1f} ms (without: {idle * 1000:.1f} ms)")
    assert flooded < (1.0 if is_static(AGENT) else 10.0)


def raise_descriptors():
    import resource
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 8192:
        pytest.skip("needs 8,192 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def test_probes_under_a_flood_of_hashes(start, area):
    (area / "out").mkdir()
    for number in range(1000):
        (area / "out" / str(number)).write_text(str(number))
    agent, port = start_with_probes(start, "--output-dir", area / "out")
    body = ("{\"paths\":[" + ",".join(f'"{number}"' for number in range(1000)) + "]}").encode()
    sent = HASHES + b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    idle = slowest_probe(port)
    peers = [agent.connect() for _ in range(120)]
    for peer in peers:
        peer.sendall(sent)
    flooded = slowest_probe(port)
    for peer in peers:
        peer.close()
    judge("120 requests for 1,000 hashes", idle, flooded)


def gets_something(peer):
    """Whether the agent answers before it ends the connection."""
    try:
        return len(peer.recv(1))
    except ConnectionResetError:
        return 0  # it had to give way


def client_hello():
    """The first bytes of a TLS client, as anybody can replay them."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_bio(incoming, outgoing).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def test_probes_under_a_flood_of_handshakes(start, area):
    raise_descriptors()
    authority = Authority(area / "ca")
    certificate, key = authority.issue("server", "/CN=server")
    agent, port = start_with_probes(start, "--tls-certificate-file", certificate, "--tls-key-file", key,
                                    "--tls-verify-peers", "none")
    hello = client_hello()
    idle = slowest_probe(port)
    peers = [agent.connect() for _ in range(600)]
    for peer in peers:
        peer.sendall(hello)
    flooded = slowest_probe(port)
    answered = sum(map(gets_something, peers))
    assert answered > 0, "the hello that is replayed is none"
    for peer in peers:
        peer.close()
    judge("600 replayed ClientHellos", idle, flooded)
    assert agent.get("/ready", context=authority.client()) == (200, "OK\n")


def test_probes_under_a_flood_of_silence(start):
    raise_descriptors()
    agent, port = start_with_probes(start)
    idle = slowest_probe(port)
    peers = [agent.connect() for _ in range(2000)]
    flooded = slowest_probe(port)
    for peer in peers:
        peer.close()
    judge("2,000 silent connections", idle, flooded)


def test_probes_under_a_flood_of_slowness(start):
    raise_descriptors()
    agent, port = start_with_probes(start)
    idle = slowest_probe(port)
    peers = [agent.connect() for _ in range(1500)]

    def drip(number):
        for peer in peers[number::2]:
            try:
                peer.send(b"G")
            except OSError:
                pass  # it had to give way
    with Flood(drip, threads=2):
        flooded = slowest_probe(port)
    for peer in peers:
        peer.close()
    judge("1,500 slow connections", idle, flooded)


def test_probes_under_a_flood_of_bodies(start):
    raise_descriptors()
    agent, port = start_with_probes(start)
    idle = slowest_probe(port)
    body = b"[" * 200_000
    sent = HASHES + b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    peers = [agent.connect() for _ in range(1000)]

    def feed(number):
        for peer in peers[number::2]:
            try:
                peer.setblocking(False)
                peer.send(sent)
            except OSError:
                pass  # it is full, or had to give way
    with Flood(feed, threads=2):
        flooded = slowest_probe(port)
    for peer in peers:
        peer.close()
    judge("1,000 bodies", idle, flooded)


def test_probes_while_bodies_never_come(start):
    """All connections of the port for probes say that a body comes: 32 are waited for, the others for these."""
    agent, port = start_with_probes(start)
    idle = slowest_probe(port)
    begun = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    elder, younger = ([socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(32)] for _ in range(2))
    for peer in (*younger, *elder):
        peer.sendall(begun)
    flooded = slowest_probe(port)
    for peer in (*elder, *younger):
        peer.close()
    judge("64 bodies that never come", idle, flooded)


def test_who_probes_gets_nothing_else(start):
    agent, port = start_with_probes(start)
    for path, status in ((b"/ready", 200), (b"/healthz", 200), (b"/readyz", 200), (b"/metrics", 404), (b"/-", 404),
                         (b"-", 404), (b"/v1/status", 404), (b"/restart", 404)):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert statuses(read_to_end(connection)) == [status], path
    assert agent.get("/metrics")[0] == 200


def test_tls_without_forward_secrecy_or_with_cbc_is_not_spoken(start, area):
    authority = Authority(area / "ca")
    certificate, key = authority.issue("server", "/CN=server")
    arguments = ["--tls-certificate-file", certificate, "--tls-key-file", key, "--tls-verify-peers", "none"]

    def is_spoken(agent, ciphers, version=ssl.TLSVersion.TLSv1_2):
        context = authority.client(version=version)
        context.set_ciphers(ciphers)
        try:
            return agent.get("/ready", context=context) == (200, "OK\n")
        except (ssl.SSLError, ConnectionResetError):
            return False
    agent = start(*arguments)
    assert is_spoken(agent, "ECDHE-ECDSA-AES128-GCM-SHA256") and is_spoken(agent, "ECDHE-ECDSA-CHACHA20-POLY1305")
    assert not is_spoken(agent, "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
    assert not is_spoken(agent, "AES128-GCM-SHA256:@SECLEVEL=0")
    one = start(*arguments, "--tls-ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384")
    assert not is_spoken(one, "ECDHE-ECDSA-AES128-GCM-SHA256") and is_spoken(one, "ECDHE-ECDSA-AES256-GCM-SHA384")
    newest = start(*arguments, "--tls-min-version", "1.3")
    assert not is_spoken(newest, "ECDHE-ECDSA-AES128-GCM-SHA256")
    assert is_spoken(newest, "ALL", ssl.TLSVersion.TLSv1_3)
    done = run_agent("--listen", "127.0.0.1:0", *arguments, "--tls-ciphers", "nothing")
    assert (done.returncode, done.stderr) == (
        1, "triton-launch-agent: cannot use the ciphers nothing: no cipher match\n")


def test_a_unix_socket_can_be_handed_over(start, area):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(area / "http"))
        listener.listen()
        agent = start(listen=False, hand_over={"http": listener.fileno()}, serves=False)
    agent.wait_for_event("listening")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(area / "http"))
        connection.sendall(READY)
        connection.shutdown(socket.SHUT_WR)
        assert statuses(read_to_end(connection)) == [200]

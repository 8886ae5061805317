"""The agent against peers that speak HTTP well, badly, slowly or not at all."""

import os
import resource
import signal
import socket
import time

import pytest

from harness.agent import Agent, read_answer, read_to_end, run_agent
from harness.process import Exit, eventually, wait_readable

READY = b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"


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


@pytest.mark.parametrize("path", ["/ready", "/healthz"])
def test_it_says_that_it_is_there(start, path):
    agent = start()
    assert agent.get(path) == (200, "OK\n")
    status, body, headers = agent.request("HEAD", path)
    assert (status, body, headers["Content-Length"]) == (200, "", "3")


def test_without_a_launcher_nothing_is_missing(start):
    assert start().get("/readyz") == (200, "ready\n")


@pytest.mark.parametrize("method, path, status, allow", [
    ("POST", "/ready", 405, "GET, HEAD"), ("PUT", "/metrics", 405, "GET, HEAD"), ("GET", "/copy_files", 405, "POST"),
    ("DELETE", "/check_hash/a", 405, "GET, HEAD"), ("GET", "/v1/hashes", 405, "POST"), ("GET", "/nothing", 404, None),
    ("GET", "/", 404, None), ("POST", "/refresh_certs", 400, None), ("POST", "/restart", 403, None),
    ("GET", "/ready/", 404, None), ("GET", "/READY", 404, None), ("POST", "/copy_files", 501, None)])
def test_wrong_methods_and_paths(start, method, path, status, allow):
    answer = start().request(method, path, body="" if method == "POST" else None)
    assert (answer[0], answer[2].get("Allow")) == (status, allow)


def test_metrics_in_both_formats(start):
    agent = start()
    status, text, headers = agent.request("GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE triton_agent_connections_total counter" in text and "# EOF" not in text
    status, text, headers = agent.request("GET", "/metrics", headers={
        "Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"})
    assert headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert "# TYPE triton_agent_connections counter" in text and text.endswith("# EOF\n")


def test_pipelined_requests_are_answered_in_order(start):
    agent = start()
    with agent.connect() as connection:
        connection.sendall(READY * 50 +
                           b"POST /v1/hashes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n{\"paths\":[]}" +
                           b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = read_to_end(connection).decode()
    statuses = [line.split()[1] for line in text.splitlines() if line.startswith("HTTP/1.1 ")]
    assert statuses == ["200"] * 51 + ["404"]


def test_a_peer_that_has_said_all_it_will_say_gets_its_answer(start):
    with start().connect() as connection:
        connection.sendall(READY)
        connection.shutdown(socket.SHUT_WR)
        assert read_to_end(connection).endswith(b"OK\n")


def test_requests_byte_by_byte_and_in_chunks(start):
    with start().connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in READY:
            connection.send(bytes([byte]))
        assert read_answer(connection) == (200, "OK\n")
        connection.sendall(b"POST /v1/hashes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                           b"6\r\n{\"path\r\n6\r\ns\":[]}\r\n0\r\n\r\n")
        assert read_answer(connection) == (200, '{"files":[]}\n')


def test_a_peer_that_waits_to_be_told_to_go_on_is_told(start):
    with start().connect() as connection:
        connection.sendall(b"POST /v1/hashes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n")
        assert wait_readable([connection.fileno()], time.monotonic() + 10)
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b'{"paths":[]}')
        assert read_answer(connection) == (200, '{"files":[]}\n')


def test_old_http_closes_after_its_answer(start):
    with start().connect() as connection:
        connection.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
        assert read_to_end(connection).endswith(b"OK\n")


@pytest.mark.parametrize("request_bytes, status", [
    (b"GET /ready HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20000 + b"\r\n\r\n", 431),
    (b"GET /" + b"x" * 40000, 414),
    (b"GET /ready HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 5000 + b"\r\n", 431),
    (b"POST /v1/hashes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n", 413),
    (b"POST /v1/hashes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n" + b"x" * 300000, 413),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100, 400),
    (b"GET /ready\r\n\r\n", 400), (b"GET /ready HTTP/3.7\r\n\r\n", 505), (b"GET  /ready HTTP/1.1\r\n\r\n", 400),
    (b"POST /v1/hashes HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
    (b"POST /v1/hashes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    (b"POST /v1/hashes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabcd", 400)],
    ids=["field", "target", "fields", "length", "chunks", "tls", "no-version", "version", "blanks", "negative",
         "lengths",
         "length-and-chunks"])
def test_requests_that_are_too_large_or_malformed_are_refused_and_end_the_connection(start, request_bytes, status):
    agent = start()
    with agent.connect() as connection:
        connection.sendall(request_bytes)
        answer = read_to_end(connection)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()) and b"Connection: close" in answer
    assert agent.get("/ready")[0] == 200


@pytest.mark.parametrize("fields, reason", [
    ("Host: localhost\r\nTransfer-Encoding: identity", "the only Transfer-Encoding is chunked"),
    ("Host: localhost\r\nTransfer-Encoding: gzip, chunked", "the only Transfer-Encoding is chunked"),
    ("Host: localhost\r\nTransfer-Encoding: chunked, chunked", "the only Transfer-Encoding is chunked"),
    ("Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity", "bad Transfer-Encoding"),
    ("Host: localhost\r\nTransfer-Encoding:", "the only Transfer-Encoding is chunked"),
    ("Host: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: identity", "bad Transfer-Encoding"),
    ("X: y", "Host is missing"), ("Host: localhost\r\nHost: x", "Host more than once")])
def test_requests_that_could_be_read_in_two_ways_are_refused(start, fields, reason):
    """What comes after the header is not a request of its own."""
    with start().connect() as connection:
        connection.sendall(f"POST /v1/hashes HTTP/1.1\r\n{fields}\r\n\r\n".encode() + READY)
        answer = read_to_end(connection)
    assert answer.startswith(b"HTTP/1.1 400 ") and b"Connection: close" in answer
    assert answer.count(b"HTTP/1.1 ") == 1 and reason.encode() in answer


def test_old_http_has_no_chunks_and_one_host_at_most(start):
    agent = start()
    for fields in (b"Transfer-Encoding: chunked", b"Host: localhost\r\nHost: y"):
        with agent.connect() as connection:
            connection.sendall(b"POST /v1/hashes HTTP/1.0\r\n" + fields + b"\r\n\r\n0\r\n\r\n")
            assert read_to_end(connection).startswith(b"HTTP/1.1 400 ")


def test_empty_lines_before_a_request_are_ignored(start):
    with start().connect() as connection:
        last = READY.replace(b"Host: localhost", b"Host: localhost\r\nConnection: close")
        connection.sendall(b"\r\n" + READY + b"\r\n\r\n" + last)
        assert read_to_end(connection).count(b"HTTP/1.1 200 OK\r\n") == 2
    with start().connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"\r\n" + READY:
            connection.send(bytes([byte]))
        assert read_answer(connection) == (200, "OK\n")


def test_the_limits_can_be_changed(start):
    agent = start("--max-header-bytes", "300", "--max-body-bytes", "10")
    assert agent.request("GET", "/ready", headers={"X": "y" * 300})[0] == 431
    assert agent.post("/v1/hashes", '{"paths":[]}')[0] == 413


def test_silence_is_ended_when_its_time_is_over(start):
    agent = start("--request-timeout", "2s", "--idle-timeout", "2s")
    begun = time.monotonic()
    with agent.connect() as silent, agent.connect() as slow, agent.connect() as idle, agent.connect() as half:
        slow.sendall(READY[:20])
        half.sendall(b"POST /v1/hashes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        idle.sendall(READY)
        assert read_answer(idle) == (200, "OK\n")
        assert [read_to_end(peer) for peer in (silent, slow, idle, half)] == [b""] * 4
    assert time.monotonic() - begun >= 2
    eventually(lambda: agent.metric("triton_agent_open_connections") == 1, "their slots are free")


def test_a_header_that_drips_is_ended_as_a_whole(start):
    """Each byte comes in time; the header does not."""
    agent = start("--request-timeout", "500ms")
    with agent.connect() as slow:
        deadline = time.monotonic() + 10
        ended = False
        while not ended and time.monotonic() < deadline:
            try:
                slow.send(b"x")
                ended = bool(wait_readable([slow.fileno()], time.monotonic() + 0.02)) and slow.recv(1) == b""
            except (ConnectionResetError, BrokenPipeError):
                ended = True
        assert ended


def test_an_answer_that_nobody_takes_does_not_stop_others(start):
    agent = start()
    before = agent.private_memory()
    with agent.connect() as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.setblocking(False)
        sent = 0
        try:
            while sent < 50_000_000:
                sent += greedy.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        except BlockingIOError:
            pass
        assert agent.get("/ready") == (200, "OK\n")
        assert agent.private_memory() - before < 8 << 20


def test_the_longest_silent_gives_way_when_all_slots_are_taken(start):
    agent = start("--max-connections", "4")
    with agent.connect() as first:
        first.sendall(READY)
        assert read_answer(first) == (200, "OK\n")
        others = [agent.connect() for _ in range(3)]
        eventually(lambda: agent.get("/ready") == (200, "OK\n"), "somebody new is served")
        assert read_to_end(first) == b"", "the longest silent is the one to go"
        for other in others:
            other.close()
    assert agent.metric("triton_agent_evicted_connections_total") >= 1


def test_ten_thousand_connections(start):
    """All of them silent; somebody new is served at once, and again when they have gone."""
    count = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * count:
        pytest.skip("needs 20,000 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        agent = start("--max-connections", str(count + 100))
        before = agent.private_memory()
        peers = []
        for _ in range(count):
            peers.append(agent.connect())
        eventually(lambda: agent.metric("triton_agent_open_connections") >= count, "all are accepted")
        assert agent.get("/ready") == (200, "OK\n")
        for peer in peers[:100]:
            peer.sendall(READY)
            assert read_answer(peer) == (200, "OK\n")
        is_sanitized = agent.log.all[0]["seccomp"] != "yes"  # then each allocation costs more
        assert (agent.private_memory() - before) / count < (16384 if is_sanitized else 8192)
        for peer in peers:
            peer.close()
        eventually(lambda: agent.metric("triton_agent_open_connections") == 1, "all slots are free")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ten_thousand_connections_with_few_slots(start):
    agent = start("--max-connections", "50")
    for _ in range(10_000):
        agent.connect().close()
    held = [agent.connect() for _ in range(500)]
    assert agent.get("/ready") == (200, "OK\n")
    for peer in held:
        peer.close()


def test_running_out_of_descriptors_ends_nobody_for_good(start):
    def few_descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    agent = start("--max-connections", "1000", preexec=few_descriptors)
    peers = [agent.connect() for _ in range(60)]
    assert agent.get("/ready") == (200, "OK\n")
    for peer in peers:
        peer.close()
    eventually(lambda: agent.metric("triton_agent_open_connections") == 1, "all slots are free")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_when_nothing_is_under_way(start, number):
    agent = start()
    with agent.connect() as silent:
        silent.sendall(READY)
        assert read_answer(silent) == (200, "OK\n")
        assert agent.stop(number) == Exit(code=0)
        assert read_to_end(silent) == b""


def test_an_answer_under_way_is_finished_before_the_end(start, area):
    (area / "out").mkdir()
    for size in (64, 256, 512):  # MiB: done before the signal comes, or not done in the five seconds that it has
        with open(area / "out/large", "wb") as file:
            file.truncate(size << 20)
        agent = start("--output-dir", area / "out")
        with agent.connect() as connection:
            connection.sendall(b"GET /check_hash/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            eventually(lambda agent=agent: agent.metric("triton_agent_hash_cache_misses_total") == 1, "it is hashed")
            agent.process.send_signal(signal.SIGTERM)
            answer = read_to_end(connection)
        assert agent.wait() == Exit(code=0)
        assert answer.startswith(b"HTTP/1.1 200 ")
        if b"Connection: close" in answer:
            break
    assert b"Connection: close" in answer


def test_a_log_that_nobody_reads_stops_nothing(start):
    agent = start("--log-level", "debug")
    for _ in range(3000):
        agent.process.send_signal(signal.SIGHUP)
    assert agent.get("/ready") == (200, "OK\n")


@pytest.mark.parametrize("arguments, text", [
    ([], "nothing to do: --listen is missing, and no descriptors were passed"),
    (["--listen", "host:80"], '--listen: "host:80" is not an address (for example 10.0.0.1:8080, [::1]:8080, :8080)'),
    (["--listen", "127.0.0.1:99999"], '"127.0.0.1:99999" is not an address'),
    (["--listn", ":1"], "unknown option --listn; did you mean --listen?"),
    (["--max-connections", "0"], '--max-connections: "0" is not a whole number from 1 to 1000000'),
    (["--request-timeout", "0"], '"0" is not a duration up to a day'),
    (["--tls"], "--tls: --tls-certificate-file (FDB_TLS_CERTIFICATE_FILE) is missing"),
    (["--tls-verify-peers", "CN=a"], "--tls-verify-peers needs --tls"),
    (["--listen"], "--listen: ADDRESS is missing"),
    (["extra"], "unexpected argument extra")])
def test_wrong_options_are_told(arguments, text):
    done = run_agent(*arguments)
    assert done.returncode == (1 if not arguments else 2) and text in done.stderr and done.stderr.count("\n") == 1


def test_a_port_in_use_is_told(start):
    agent = start()
    done = run_agent("--listen", f"127.0.0.1:{agent.port}")
    assert (done.returncode, done.stderr) == (
        1, f"triton-launch-agent: cannot listen on 127.0.0.1:{agent.port}: Address already in use\n")


def test_options_come_from_the_environment_too(start):
    agent = start(env={"TRITON_AGENT_MAX_BODY_BYTES": "5"})
    assert agent.post("/v1/hashes", '{"paths":[]}')[0] == 413
    done = run_agent(env={"TRITON_AGENT_HASH_THREADS": "many"})
    assert done.returncode == 2 and "TRITON_AGENT_HASH_THREADS: " in done.stderr


def test_help_names_every_option():
    done = run_agent("--help")
    assert done.returncode == 0 and "--tls-verify-peers RULES" in done.stdout
    assert run_agent("--version").stdout.startswith("triton-launch-agent ")


@pytest.mark.parametrize("address", ["[::1]:0", ":0", "0"])
def test_both_families(start, address):
    agent = start("--listen", address, listen=False)
    hosts = ["::1"] if address == "[::1]:0" else ["::1", "127.0.0.1"]
    for host in hosts:
        with socket.create_connection((host, agent.port)) as connection:
            connection.sendall(READY)
            assert read_answer(connection) == (200, "OK\n")


def test_descriptors_are_handed_over(start, area):
    """A listening socket and the output directory, by the protocol of sd_listen_fds(3)."""
    (area / "out").mkdir()
    (area / "out/a").write_text("a")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        directory = os.open(area / "out", os.O_PATH | os.O_DIRECTORY)
        agent = start(listen=False, hand_over={"http": listener.fileno(), "output": directory})
        os.close(directory)
        assert agent.port == listener.getsockname()[1]
    assert agent.get("/is_present/a") == (200, "OK\n")


@pytest.mark.parametrize("name, reason", [("http", r"descriptor 3 \(http\) is not a listening socket"),
                                          ("launcher", r"descriptor 3 \(launcher\) is not a socket for messages")])
def test_descriptors_that_are_something_else_are_refused(name, reason):
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(AssertionError, match=reason):
        Agent(listen=False, hand_over={name: ours.fileno()})

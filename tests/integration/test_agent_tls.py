"""TLS with certificates made in the test: who is let in, new certificates while it runs, peers that say nothing."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest

from harness.agent import Agent, Authority, read_answer, read_to_end, run_agent
from harness.process import TIMEOUT, Exit, eventually, wait_readable

READY = b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
SUBJECT = "/C=US/ST=Texas/L=Austin/O=Acme, Inc/OU=Storage/CN=client.example.org/UID=u1/DC=example"
NAMES = ("DNS:client.example.org,DNS:alias.example.org,URI:spiffe://example/client,IP:10.1.2.3,IP:fd00::1,"
         "email:a@example.org")


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """One root with what the tests need: a server's pair, clients' pairs."""
    authority = Authority(tmp_path_factory.mktemp("pki") / "main")
    authority.server = authority.issue("server", "/CN=agent", "DNS:localhost,IP:127.0.0.1")
    authority.full = authority.issue("full", SUBJECT, NAMES)
    authority.plain = authority.issue("plain", "/CN=plain")
    authority.expired = authority.issue("expired", SUBJECT, NAMES, dates=("20200101000000Z", "20210101000000Z"))
    authority.future = authority.issue("future", SUBJECT, NAMES, dates=("20450101000000Z", "20460101000000Z"))
    authority.twice = authority.issue("twice", "/CN=twice/DC=example/DC=org")
    authority.other_first = authority.issue("other-first", "/CN=other",
                                            "otherName:1.2.3.4;UTF8:x,DNS:client.example.org")
    authority.other_last = authority.issue("other-last", "/CN=other", "DNS:client.example.org,otherName:1.2.3.4;UTF8:x")
    stranger = Authority(authority.directory.parent / "stranger", "/C=DE/O=Root Org/CN=Test Root")
    authority.stranger = stranger.issue("stranger", SUBJECT, NAMES)
    return authority


@pytest.fixture
def start(pki, area):
    """Starts agents with TLS and ends them with the test."""
    running = []
    (area / "out").mkdir()
    (area / "out/a").write_text("a")

    def start_one(*arguments, rules=None, server=None, **how):
        certificate, key = server or pki.server
        rules_flag = [] if rules is None else ["--tls-verify-peers", rules]
        running.append(Agent("--output-dir", area / "out", "--tls-certificate-file", certificate, "--tls-key-file", key,
                             "--tls-ca-file", pki.certificate, *rules_flag, *arguments, **how))
        return running[-1]
    yield start_one
    for agent in running:
        agent.close()


# rules, which certificate, whether it is let in
RULES = [
    ("", "full", True), ("", "plain", True), ("", "expired", False), ("", "future", False), ("", "stranger", False),
    ("Check.Valid=1", "full", True), ("Check.Valid=1", "stranger", False),
    ("Check.Valid=0", "stranger", True), ("Check.Valid=0", "expired", True), ("CN=x|Check.Valid=0", "stranger", True),
    ("Check.Valid=0,CN=x", "stranger", True), ("C=US|Check.Valid=0,CN=x", "plain", True),
    ("Check.Unexpired=0", "expired", True), ("Check.Unexpired=0", "future", True), ("Check.Unexpired=0", "stranger",
                                                                                    False),
    ("Check.Unexpired=1", "expired", False), ("Check.Unexpired=0,CN=client.example.org", "expired", True),
    ("Check.Unexpired=0,CN=x", "expired", False), ("Check.Unexpired=0,CN=x|CN=client.example.org", "expired", False),
    ("CN=client.example.org", "full", True), ("CN=client.example.org", "plain", False), ("CN=client", "full", False),
    ("S.CN=client.example.org", "full", True), ("Subject.CN=client.example.org", "full", True),
    ("CN>=client.", "full", True), ("CN>=lient.", "full", False), ("CN<=.example.org", "full", True),
    ("CN<=.example.or", "full", False), ("C=US", "full", True), ("C=DE", "full", False), ("L=Austin", "full", True),
    ("ST=Texas", "full", True), ("OU=Storage", "full", True), ("UID=u1", "full", True), ("DC=example", "full", True),
    ("O=Acme\\, Inc", "full", True), ("O=Acme\\2c Inc", "full", True), ("O>=Acme", "full", True), ("O=Acme", "full",
                                                                                                   False),
    ("C=US,ST=Texas,L=Austin", "full", True), ("C=US,ST=Ohio", "full", False), ("C=DE|CN=plain", "plain", True),
    ("C=DE|CN=plain|C=US", "full", True), ("C=DE|CN=plain", "full", False), ("DC=example", "twice", False),
    ("CN=twice", "twice", True),
    ("I.CN=Test Root", "full", True), ("Issuer.O=Root Org", "full", True), ("I.CN=client.example.org", "full", False),
    ("R.CN=Test Root", "full", True), ("Root.C=DE", "full", True), ("R.C=US", "full", False),
    ("subjectAltName=DNS:client.example.org", "full", True), ("subjectAltName=DNS:alias.example.org", "full", True),
    ("S.subjectAltName=DNS:other", "full", False), ("subjectAltName>=DNS:alias.", "full", True),
    ("subjectAltName<=DNS:.example.org", "full", True), ("subjectAltName<=URI:client", "full", True),
    ("subjectAltName=URI:spiffe://example/client", "full", True), ("subjectAltName=IP:10.1.2.3", "full", True),
    ("subjectAltName=IP:FD00:0::0:1", "full", True), ("subjectAltName=IP:10.1.2.4", "full", False),
    ("subjectAltName>=IP:10.1.", "full", True), ("subjectAltName=EMAIL:a@example.org", "full", True),
    ("subjectAltName<=EMAIL:@example.org", "full", True), ("subjectAltName=DNS:a@example.org", "full", False),
    ("subjectAltName=DNS:client.example.org", "plain", False), ("I.subjectAltName=DNS:client.example.org", "full",
                                                                True),
    ("R.subjectAltName=DNS:client.example.org", "full", False),
    ("subjectAltName=DNS:client.example.org", "other_first", False),
    ("subjectAltName=DNS:client.example.org", "other_last", True),
    # the sidecar's form
    ("CN=x;CN=plain", "plain", True), ("CN=x;CN=y", "plain", False), ("CN=x;DC=example", "twice", True),
    ("CN=x;DC=org", "twice", True), ("CN=x;subjectAltName=IP Address:10.1.2.3", "full", True),
    ("CN=x;subjectAltName>=DNS:alias.", "full", True), ("CN=x;subjectAltName<=DNS:.example.org", "full", True),
    ("CN=x;subjectAltName=DNS:client.example.org", "other_first", True), ("CN=x;I.CN=Test Root", "full", True),
    ("CN=x;Issuer.O=Root Org,L=Austin", "full", True), ("CN=x;Issuer.O=Root Org,L=Boston", "full", False),
    ("CN=x;CN=plain", "stranger", False), ("CN=x;C=US", "full", True), ("CN=x;R.CN=Test Root", "full", True)]


def test_every_rule_lets_in_whom_it_names(pki, start):
    """One agent for each set of rules: what each certificate gets."""
    wrong = []
    by_rules = {}
    for rules, name, expected in RULES:
        by_rules.setdefault(rules, []).append((name, expected))
    for rules, cases in by_rules.items():
        agent = start(rules=rules)
        for name, expected in cases:
            status, body = agent.get("/is_present/a", context=pki.client(getattr(pki, name)))
            if (status, body) != ((200, "OK\n") if expected else (401, "Client certificate was not approved\n")):
                wrong.append((rules, name, expected, status))
        agent.close()
    assert wrong == []


@pytest.mark.parametrize("rules, reason", [
    ("CN", 'alternative 1, condition 1: "CN" has no "="'), ("XY=a", 'unknown field "XY"'), ("Q.CN=a",
                                                                                            'unknown scope "Q"'),
    ("CN=", "the value is empty"), ("CN=#0414", 'a value does not begin with "#"'), ("CN= a",
                                                                                     'does not begin with " "'),
    ("CN=a+b", '"+" in a value must be escaped'), ("CN=a\\", "a backslash escapes"), ("CN=a\\4", "a backslash escapes"),
    ("Check.Valid=2", 'Check.Valid takes "=0" or "=1"'), ("Check.Valid>=1", "Check.Valid takes"),
    ("Check.Other=1", 'unknown check "Check.Other"'), ("CN=a||CN=b", "alternative 2, condition 1: it is empty"),
    ("CN=a|", "alternative 2, condition 1: it is empty"), ("CN=a,,C=DE", "alternative 1, condition 2: it is empty"),
    ("subjectAltName=client", "begins with DNS:, URI:, IP: or EMAIL:"), ("CN=a;",
                                                                         "alternative 2, condition 1: it is empty")])
def test_rules_that_cannot_be_read_are_told_at_start(pki, rules, reason):
    done = run_agent("--listen", "127.0.0.1:0", "--tls-certificate-file", pki.server[0], "--tls-key-file",
                     pki.server[1],
                     "--tls-ca-file", pki.certificate, "--tls-verify-peers", rules)
    assert done.returncode == 2 and done.stderr.startswith("triton-launch-agent: --tls-verify-peers: ")
    assert reason in done.stderr and done.stderr.count("\n") == 1


def test_without_a_certificate_only_what_a_kubelet_asks_is_answered(pki, start):
    agent = start()
    nobody = pki.client()
    for path in ("/ready", "/healthz", "/readyz"):
        assert agent.get(path, context=nobody)[0] == 200
    for path in ("/is_present/a", "/check_hash/a", "/metrics", "/v1/status", "/substitutions", "/nothing"):
        assert agent.get(path, context=nobody)[0] == 401
    for path in ("/copy_files", "/refresh_certs", "/restart", "/v1/hashes"):
        assert agent.post(path, context=nobody)[0] == 401
    refused = agent.wait_for_event("peer-refused")
    assert refused["message"] == "no certificate was shown" and refused["peer"].startswith("127.0.0.1:")


def test_check_valid_0_still_wants_a_certificate(pki, start):
    assert start(rules="Check.Valid=0").get("/is_present/a", context=pki.client())[0] == 401


def test_metrics_may_be_open(pki, start):
    agent = start("--open-metrics")
    assert agent.get("/metrics", context=pki.client())[0] == 200
    assert agent.get("/is_present/a", context=pki.client())[0] == 401


def test_without_verification_everybody_is_let_in(pki, area):
    agent = Agent("--certificate-path", pki.server[0], "--certificate-key-path", pki.server[1], "--tls-verify-peers",
                  "none")
    try:
        assert agent.get("/metrics", context=pki.client())[0] == 200
        assert agent.post("/restart", context=pki.client())[0] == 403
    finally:
        agent.close()
    done = run_agent("--listen", "127.0.0.1:0", "--certificate-path", pki.server[0], "--certificate-key-path",
                     pki.server[1])
    assert done.returncode == 2 and "--tls-ca-file (FDB_TLS_CA_FILE) is missing" in done.stderr


def test_files_and_rules_come_from_the_variables_of_foundationdb(pki):
    variables = {"FDB_TLS_CERTIFICATE_FILE": pki.server[0], "FDB_TLS_KEY_FILE": pki.server[1],
                 "FDB_TLS_CA_FILE": pki.certificate, "FDB_TLS_VERIFY_PEERS": "CN=plain"}
    agent = Agent("--tls", env=variables)
    try:
        assert agent.get("/metrics", context=pki.client(pki.plain))[0] == 200
        assert agent.get("/metrics", context=pki.client(pki.full))[0] == 401
    finally:
        agent.close()
    plain = Agent(env=variables)  # they are there for the server beside us: TLS is asked for by a flag
    try:
        assert plain.get("/metrics")[0] == 200
    finally:
        plain.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_of_tls(pki, start, version):
    assert start().get("/is_present/a", context=pki.client(pki.full, version=version)) == (200, "OK\n")


def test_old_tls_is_refused(pki, start):
    agent = start()
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{agent.port}", "-tls1_1", "-cipher",
                           "ALL:@SECLEVEL=0"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=TIMEOUT)
    assert done.returncode == 1 and "protocol version" in done.stderr, done.stderr
    assert agent.get("/ready", context=pki.client())[0] == 200


def test_several_requests_on_one_connection(pki, start):
    agent = start()
    with pki.client(pki.full).wrap_socket(agent.connect()) as connection:
        connection.sendall(READY * 3 + b"GET /is_present/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b""
        while piece := connection.recv(4096):
            text += piece
    assert text.count(b"HTTP/1.1 200 OK") == 4


def test_silent_peers_block_nobody(pki, start):
    """One of them stopped the shipped sidecar for good."""
    agent = start("--request-timeout", "3s")
    silent = [agent.connect() for _ in range(100)]
    begun = [agent.connect() for _ in range(100)]
    for peer in begun:
        peer.sendall(b"\x16\x03\x01\x02\x00\x01")
    assert agent.get("/is_present/a", context=pki.client(pki.full)) == (200, "OK\n")
    for peer in silent + begun:
        assert read_to_end(peer, 10) is not None
        peer.close()


def test_the_slot_of_a_silent_peer_is_given_to_others(pki, start):
    agent = start("--max-connections", "5")
    silent = [agent.connect() for _ in range(5)]
    assert agent.get("/is_present/a", context=pki.client(pki.full)) == (200, "OK\n")
    for peer in silent:
        peer.close()


def test_plain_http_to_a_tls_port_ends(pki, start):
    agent = start()
    with agent.connect() as connection:
        connection.sendall(READY)
        assert b"HTTP/1.1 200" not in (read_to_end(connection) or b"")
    assert agent.get("/ready", context=pki.client())[0] == 200


# --- new certificates

def serial(agent, context):
    with context.wrap_socket(agent.connect()) as connection:
        return connection.getpeercert()["serialNumber"]


@pytest.fixture
def mounted(pki, area):
    """The server's pair as a mounted Secret: links through ..data."""
    directory = area / "tls"
    directory.mkdir()
    (directory / "..1").mkdir()
    shutil.copy(pki.server[0], directory / "..1/tls.crt")
    shutil.copy(pki.server[1], directory / "..1/tls.key")
    (directory / "..data").symlink_to("..1")
    for name in ("tls.crt", "tls.key"):
        (directory / name).symlink_to(f"..data/{name}")
    return directory


def swap(directory, generation, pair):
    fresh = directory / f"..{generation}"
    fresh.mkdir()
    shutil.copy(pair[0], fresh / "tls.crt")
    shutil.copy(pair[1], fresh / "tls.key")
    (directory / "..data_tmp").symlink_to(fresh.name)
    (directory / "..data_tmp").rename(directory / "..data")


def test_a_new_certificate_is_taken_and_connections_stay(pki, start, mounted):
    agent = start(server=(mounted / "tls.crt", mounted / "tls.key"))
    context = pki.client(pki.full)
    old = serial(agent, context)
    with context.wrap_socket(agent.connect()) as kept:
        kept.sendall(READY)
        assert read_answer(kept) == (200, "OK\n")
        for generation in (2, 3):
            swap(mounted, generation, pki.issue(f"server{generation}", "/CN=agent", "DNS:localhost"))
            agent.wait_for_event("certificate-loaded")
            new = serial(agent, context)
            assert new != old
            old = new
        kept.sendall(READY)
        assert read_answer(kept) == (200, "OK\n"), "the connection outlives the certificate it was made with"
        assert kept.getpeercert()["serialNumber"] != new


def put(directory, pair):
    """A directory with a pair."""
    directory.mkdir(parents=True)
    shutil.copy(pair[0], directory / "tls.crt")
    shutil.copy(pair[1], directory / "tls.key")


def point(link, target):
    """A symbolic link, all at once."""
    fresh = link.with_name(link.name + ".new")
    fresh.symlink_to(target)
    fresh.rename(link)


def test_a_directory_that_is_a_swapped_link(pki, start, area):
    put(area / "tls/v1", pki.server)
    point(area / "tls/current", "v1")
    agent = start(server=(area / "tls/current/tls.crt", area / "tls/current/tls.key"))
    old = serial(agent, pki.client())
    for number in (2, 3):
        put(area / f"tls/v{number}", pki.issue(f"server-link-{number}", "/CN=agent"))
        point(area / "tls/current", f"v{number}")
        agent.wait_for_event("certificate-loaded")
        new = serial(agent, pki.client())
        assert new != old
        old = new


def test_names_through_data_that_is_swapped(pki, start, area):
    """As a volume's files are named when only a directory can be given: /tls/..data/tls.crt."""
    put(area / "tls/..1", pki.server)
    point(area / "tls/..data", "..1")
    agent = start(server=(area / "tls/..data/tls.crt", area / "tls/..data/tls.key"))
    old = serial(agent, pki.client())
    put(area / "tls/..2", pki.issue("server-data-2", "/CN=agent"))
    point(area / "tls/..data", "..2")
    shutil.rmtree(area / "tls/..1")
    agent.wait_for_event("certificate-loaded")
    assert serial(agent, pki.client()) != old


def test_files_that_are_mount_points(pki, start, area):
    """Secrets of compose and `-v file:file` are; they are written in place, under another name."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts files")
    put(area / "outside", pki.server)
    put(area / "inside", pki.server)
    names = ("tls.crt", "tls.key")
    mounts = " && ".join(f"mount --bind {area}/outside/{name} {area}/inside/{name}" for name in names)
    agent = start(server=tuple(area / "inside" / name for name in names),
                  wrapper=("unshare", "--mount", "--propagation", "private", "sh", "-c", f'{mounts} && exec "$0" "$@"'))
    old = serial(agent, pki.client())
    for name, file in zip(names, pki.issue("server-mounted", "/CN=agent"), strict=True):
        (area / "outside" / name).write_bytes(file.read_bytes())
    agent.wait_for_event("certificate-loaded")
    assert serial(agent, pki.client()) != old


def test_a_directory_that_is_replaced_by_another(pki, start, area):
    put(area / "all/tls", pki.server)
    agent = start(server=(area / "all/tls/tls.crt", area / "all/tls/tls.key"))
    old = serial(agent, pki.client())
    put(area / "all/new", pki.issue("server-replaced", "/CN=agent"))
    (area / "all/tls").rename(area / "all/old")
    (area / "all/new").rename(area / "all/tls")
    agent.wait_for_event("certificate-loaded")
    assert serial(agent, pki.client()) != old


@pytest.fixture
def moved_away(pki, area):
    """The names of a pair, and what makes them lead to where nobody could have looked before."""
    put(area / "here/v1", pki.server)
    put(area / "far/away/v2", pki.issue("server-away", "/CN=agent"))
    point(area / "here/current", "v1")
    return ((area / "here/current/tls.crt", area / "here/current/tls.key"),
            lambda: point(area / "here/current", area / "far/away/v2"))


def test_certificates_out_of_reach_are_for_the_next_agent_on_the_same_sockets(pki, start, moved_away):
    server, move = moved_away
    with socket.create_server(("127.0.0.1", 0)) as listener:
        agent = start(server=server, listen=False, hand_over={"http": listener.fileno()})
        if agent.wait_for_event("sandbox")["landlock"] == "no":
            pytest.skip("this kernel has no Landlock")
        old = serial(agent, pki.client())
        move()
        assert agent.wait_for_event("certificate-out-of-reach")["message"].endswith("ending, to be started again")
        assert agent.wait() == Exit(code=3)
        again = start(server=server, listen=False, hand_over={"http": listener.fileno()})
        assert serial(again, pki.client()) != old
        assert again.post("/refresh_certs", context=pki.client(pki.full)) == (200, "OK\n")
        assert again.stop() == Exit(code=0)


def test_certificates_out_of_reach_end_nobody_whose_sockets_would_be_lost(pki, start, moved_away):
    server, move = moved_away
    agent = start(server=server)
    if agent.wait_for_event("sandbox")["landlock"] == "no":
        pytest.skip("this kernel has no Landlock")
    old = serial(agent, pki.client())
    move()
    agent.wait_for_event("certificate-out-of-reach")
    status, text = agent.post("/refresh_certs", context=pki.client(pki.full))
    assert status == 500 and text.endswith("start the agent again; what it has read stays\n")
    assert serial(agent, pki.client()) == old


def test_a_file_that_may_not_be_read_is_no_matter_of_the_sandbox(pki, start, area, needs_root):
    """The old certificate stays, as with everything else that is wrong with a new one."""
    put(area / "tls", pki.server)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        agent = start(server=(area / "tls/tls.crt", area / "tls/tls.key"), listen=False,
                      hand_over={"http": listener.fileno()})
        old = serial(agent, pki.client())
        shutil.copy(pki.server[1], area / "tls/new")
        os.chown(area / "tls/new", 65534, 65534)  # root without capabilities may not read what is somebody else's
        (area / "tls/new").chmod(0o600)
        (area / "tls/new").rename(area / "tls/tls.key")
        assert "Permission denied" in agent.wait_for_event("certificate-rejected")["message"]
        assert serial(agent, pki.client()) == old


def test_a_bad_new_certificate_keeps_the_old_one_and_says_so(pki, start, mounted):
    agent = start(server=(mounted / "tls.crt", mounted / "tls.key"))
    context = pki.client(pki.full)
    old = serial(agent, context)
    empty = (mounted / "empty.crt", mounted / "empty.key")
    for file in empty:
        file.touch()
    expired = pki.issue("expired-server", "/CN=agent", dates=("20200101000000Z", "20210101000000Z"))
    for generation, (pair, reason) in enumerate([
            ((pki.full[0], pki.server[1]), "does not belong to"), (empty, "tls.crt: it has no PEM of that kind"),
            ((pki.server[1], pki.server[1]), "tls.crt: "), ((pki.server[0], pki.server[0]), "tls.key: "),
            (expired, "the certificate has expired")], start=10):
        swap(mounted, generation, pair)
        rejected = agent.wait_for_event("certificate-rejected")
        assert rejected["message"].startswith("the new certificate cannot be used, the old one stays: ")
        assert reason in rejected["message"], rejected
        assert serial(agent, context) == old
    (mounted / "tls.crt").unlink()
    assert "No such file or directory" in agent.wait_for_event("certificate-rejected")["message"]
    assert serial(agent, context) == old
    (mounted / "tls.crt").symlink_to("..data/tls.crt")
    swap(mounted, 50, pki.issue("server-good", "/CN=agent"))
    agent.wait_for_event("certificate-loaded")
    assert serial(agent, context) != old


def test_files_written_in_place_one_after_the_other(pki, start, area):
    certificate, key = area / "c.pem", area / "k.pem"
    shutil.copy(pki.server[0], certificate)
    shutil.copy(pki.server[1], key)
    agent = start(server=(certificate, key))
    context = pki.client(pki.full)
    old = serial(agent, context)
    fresh = pki.issue("server-in-place", "/CN=agent")
    certificate.write_bytes(fresh[0].read_bytes())
    key.write_bytes(fresh[1].read_bytes())
    eventually(lambda: serial(agent, context) != old, "the new pair is taken")


def test_a_new_authority_is_taken(pki, area):
    """Peers of the new one are let in, those of the old one no more."""
    other = Authority(area / "other", "/CN=Other Root")
    client = other.issue("client", "/CN=x")
    authority = area / "ca.pem"
    shutil.copy(pki.certificate, authority)
    agent = Agent("--tls-certificate-file", pki.server[0], "--tls-key-file", pki.server[1], "--tls-ca-file", authority)
    try:
        def status(pair):
            context = pki.client(pair)
            return agent.get("/metrics", context=context)[0]
        assert (status(pki.full), status(client)) == (200, 401)
        shutil.copy(other.certificate, area / "new.pem")
        (area / "new.pem").rename(authority)
        agent.wait_for_event("certificate-loaded")
        assert (status(pki.full), status(client)) == (401, 200)
    finally:
        agent.close()


def test_certificates_are_read_again_on_request_and_on_hangup(pki, start):
    agent = start()
    assert agent.post("/refresh_certs", context=pki.client(pki.full)) == (200, "OK\n")
    agent.process.send_signal(signal.SIGHUP)
    assert agent.get("/ready", context=pki.client())[0] == 200


@pytest.mark.parametrize("change, reason", [
    (lambda pki: (pki.full[0], pki.server[1]), "does not belong to"), (lambda pki: ("/missing", pki.server[1]),
                                                                       "cannot open"),
    (lambda pki: (pki.server[1], pki.server[1]), "server.key: ")], ids=["other-key", "missing", "no-certificate"])
def test_bad_certificates_at_start_are_an_error(pki, change, reason):
    certificate, key = change(pki)
    done = run_agent("--listen", "127.0.0.1:0", "--tls-certificate-file", certificate, "--tls-key-file", key,
                     "--tls-ca-file", pki.certificate)
    assert done.returncode == 1 and reason in done.stderr and done.stderr.count("\n") == 1


def test_a_restart_is_for_those_who_are_let_in(pki, start):
    agent = start()
    assert agent.post("/restart", context=pki.client(pki.full)) == (200, "OK\n")
    assert agent.wait().code == 0


def test_intermediate_certificates_of_the_peer(pki, start, area):
    """The root is the last of the chain, not the issuer."""
    key, request, certificate = area / "i.key", area / "i.csr", area / "i.pem"
    extensions = area / "i.ext"
    extensions.write_text("basicConstraints=critical,CA:TRUE\n")
    Authority._openssl("req", "-new", *Authority._new_key(key), "-subj", "/CN=Middle", "-out", request)
    Authority._openssl("x509", "-req", "-in", request, "-CA", pki.certificate, "-CAkey", pki.key, "-days", "30",
                       "-extfile", extensions, "-out", certificate)
    middle = Authority.__new__(Authority)
    middle.directory, middle.key, middle.certificate = area, key, certificate
    leaf, leaf_key = middle.issue("leaf", "/CN=leaf")
    chain = area / "chain.pem"
    chain.write_bytes(leaf.read_bytes() + certificate.read_bytes())
    for rules, expected in (("I.CN=Middle,R.CN=Test Root", 200), ("I.CN=Test Root", 401), ("R.CN=Middle", 401)):
        agent = start(rules=rules)
        assert agent.get("/is_present/a", context=pki.client((chain, leaf_key)))[0] == expected, rules
    # Without the intermediate there is no way to the root.
    assert start().get("/is_present/a", context=pki.client((leaf, leaf_key)))[0] == 401
    # It may be the authority itself. The root comes last where it is there, too.
    other = pki.issue("not-by-middle", "/CN=leaf")
    agent = start("--tls-ca-file", certificate, rules="R.CN=Middle")
    assert agent.get("/is_present/a", context=pki.client((leaf, leaf_key)))[0] == 200
    assert agent.get("/is_present/a", context=pki.client(other))[0] == 401
    both = area / "both.pem"
    both.write_bytes(certificate.read_bytes() + pki.certificate.read_bytes())
    agent = start("--tls-ca-file", both, rules="R.CN=Test Root")
    assert agent.get("/is_present/a", context=pki.client((leaf, leaf_key)))[0] == 200
    assert agent.get("/is_present/a", context=pki.client(other))[0] == 200


def test_a_long_chain_of_the_peer_is_not_followed(pki, start, area):
    """Eight intermediates are, and 32 KiB are read."""
    issuer, chain = pki, b""
    for number in range(9):
        key, request, certificate, extensions = (area / f"{number}.{end}" for end in ("key", "csr", "pem", "ext"))
        extensions.write_text("basicConstraints=critical,CA:TRUE\n")
        Authority._openssl("req", "-new", *Authority._new_key(key), "-subj", f"/CN=Middle {number}", "-out", request)
        Authority._openssl("x509", "-req", "-in", request, "-CA", issuer.certificate, "-CAkey", issuer.key, "-days", "30",
                           "-extfile", extensions, "-out", certificate)
        issuer = Authority.__new__(Authority)
        issuer.directory, issuer.key, issuer.certificate = area, key, certificate
        chain = certificate.read_bytes() + chain
        if number in (7, 8):
            leaf, leaf_key = issuer.issue(f"leaf-{number}", "/CN=leaf")
            (area / f"chain-{number}.pem").write_bytes(leaf.read_bytes() + chain)
            answer = start().get("/is_present/a", context=pki.client((area / f"chain-{number}.pem", leaf_key)))
            assert answer[0] == (200 if number == 7 else 401)
    (area / "long.pem").write_bytes(pki.full[0].read_bytes() * 100)
    with pytest.raises((ssl.SSLError, OSError)):
        start().get("/is_present/a", context=pki.client((area / "long.pem", pki.full[1]), ssl.TLSVersion.TLSv1_2))


def test_half_closed_tls(pki, start):
    agent = start()
    with agent.connect() as raw:
        raw.settimeout(10)
        connection = pki.client(pki.full).wrap_socket(raw, do_handshake_on_connect=True, suppress_ragged_eofs=True)
        connection.sendall(READY)
        assert read_answer(connection) == (200, "OK\n")
        connection.shutdown(socket.SHUT_WR)
        assert wait_readable([connection.fileno()], time.monotonic() + 10)
        connection.close()
    assert agent.get("/ready", context=pki.client())[0] == 200

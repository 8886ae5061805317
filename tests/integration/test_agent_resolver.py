"""The Kubernetes reporter whose API server is known by a name: found by /etc/hosts or DNS, or not, and then told of."""

import os
import time

import pytest

from harness.agent import Agent
from harness.dns_standin import Dns, ResolverFiles, dns  # noqa: F401 (a fixture)
from harness.kubernetes_standin import StandIn
from harness.process import Exit
from test_agent_kubernetes import RECOVERY, account, authority, launcher  # noqa: F401 (fixtures)

NAME = "api.example.org"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and port 53 need root")


@pytest.fixture(scope="module")
def certificate(authority):  # noqa: F811
    return authority.issue("name", alternatives=f"DNS:{NAME},DNS:kubernetes.default.svc")


@pytest.fixture
def make_server(certificate):
    """Starts API servers; `names` of one are those that clients ask for by TLS."""
    made = []

    def make(host="127.0.0.1", port=0):
        server = StandIn(certificate, host, port)
        server.names = []
        server.context.sni_callback = lambda _stream, name, _context: server.names.append(name)
        made.append(server)
        return server

    yield make
    for server in made:
        if server.listener.fileno() >= 0:  # no test has ended it
            server.close()


@pytest.fixture
def start(launcher, account, dns, tmp_path):  # noqa: F811
    agents = []

    def start_agent(port, host=NAME, configuration=None, hosts=""):
        place = ResolverFiles(tmp_path, configuration or dns.configuration, hosts)
        agent = Agent("--kubernetes", "on", "--pod-name", "pod", "--service-account-dir", account, listen=False,
                      serves=False, hand_over={"launcher": launcher.broker.fileno()}, preexec=place.enter,
                      env={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)})
        agent.files = place
        agents.append(agent)
        return agent

    yield start_agent
    for agent in agents:
        agent.close()


def test_in_the_hosts_file(make_server, dns, launcher, start):  # noqa: F811
    """No DNS server is asked, and the name is what TLS and HTTP are told."""
    api = make_server()
    agent = start(api.port, hosts=f"127.0.0.1 other {NAME}\n")
    api.wait_annotation("c1")
    launcher.wait_state("ok")
    assert set(api.names) == {NAME} and dns.asked == []
    assert {request.headers["host"] for request in api.requests} == {f"{NAME}:{api.port}"}
    assert agent.stop() == Exit(code=0)


def test_an_absolute_name(make_server, dns, start):  # noqa: F811
    """The dot that ends it is for DNS alone."""
    api = make_server()
    dns.set(NAME, "127.0.0.1")
    start(api.port, host=NAME + ".", configuration="search example.net\n" + dns.configuration)
    api.wait_annotation("c1")
    assert set(api.names) == {NAME} and set(dns.asked) == {NAME}
    assert api.requests[0].headers["host"] == f"{NAME}:{api.port}"


def test_by_dns_as_in_a_pod(make_server, dns, launcher, start):  # noqa: F811
    api = make_server()
    dns.set("kubernetes.default.svc.cluster.local", "127.0.0.1")
    start(api.port, host="kubernetes.default.svc", configuration="search ns.svc.cluster.local svc.cluster.local "
          f"cluster.local\n{dns.configuration}options ndots:5\n")
    api.wait_annotation("c1")
    launcher.wait_state("ok")
    assert set(api.names) == {"kubernetes.default.svc"}
    assert dns.asked[:3] == [f"kubernetes.default.svc.{domain}" for domain in (
        "ns.svc.cluster.local", "svc.cluster.local", "cluster.local")]


def test_ipv6_only(make_server, dns, start):  # noqa: F811
    api = make_server("::1")
    dns.set(NAME, "::1")
    start(api.port)
    api.wait_annotation("c1")
    assert api.requests[0].headers["host"] == f"{NAME}:{api.port}"


def test_a_name_that_does_not_exist_yet(make_server, dns, launcher, start):  # noqa: F811
    """Tried again, later and later; nothing else waits."""
    api = make_server()
    begin = time.monotonic()
    agent = start(api.port)
    launcher.wait_state("failing", f"cannot resolve {NAME}: there is no such name")
    launcher.activate("c2", 1_700_000_001.0)
    dns.wait_asked(NAME, 8)
    assert time.monotonic() - begin > 0.5, "no busy loop"
    dns.set(NAME, "127.0.0.1")
    api.wait_annotation("c2", RECOVERY)
    launcher.wait_state("ok")
    assert agent.stop() == Exit(code=0)


def test_a_server_that_hangs(make_server, dns, launcher, start):  # noqa: F811
    api = make_server()
    dns.names[NAME] = None
    agent = start(api.port, configuration=dns.configuration + "options timeout:1 attempts:1\n")
    launcher.wait_state("failing", f"cannot resolve {NAME}: no DNS server answers")
    dns.set(NAME, "127.0.0.1")
    api.wait_annotation("c1", RECOVERY)
    launcher.wait_state("ok")
    assert agent.stop() == Exit(code=0)


def test_the_end_comes_while_a_server_hangs(make_server, dns, start):  # noqa: F811
    """No wait for the lookup's end."""
    dns.names[NAME] = None
    agent = start(make_server().port)
    dns.wait_asked(NAME)
    begin = time.monotonic()
    assert agent.stop() == Exit(code=0)
    assert time.monotonic() - begin < 4, "no sooner than the DNS server's time limit of 5 s"


def test_no_server_is_there(make_server, dns, launcher, start):  # noqa: F811
    """What is configured is read anew for each attempt."""
    api = make_server()
    gone = Dns({})
    gone.close()
    dns.set(NAME, "127.0.0.1")
    agent = start(api.port, configuration=gone.configuration)
    launcher.wait_state("failing", f"cannot resolve {NAME}: no DNS server can be reached")
    assert dns.asked == []
    agent.files.configuration.write_text(dns.configuration)
    api.wait_annotation("c1", RECOVERY)
    launcher.wait_state("ok")


def test_another_address_between_two_connections(make_server, dns, launcher, start):  # noqa: F811
    first = make_server("127.0.0.1")
    dns.set(NAME, "127.0.0.1")
    start(first.port)
    first.wait_annotation("c1")
    launcher.wait_state("ok")
    second = make_server("127.0.0.2", first.port)
    dns.set(NAME, "127.0.0.2")
    first.close()
    launcher.activate("c2", 1_700_000_001.0)
    second.wait_annotation("c2", RECOVERY)
    second.wait_watch()
    launcher.wait_state("ok")


def test_addresses_are_tried_one_after_the_other(make_server, dns, launcher, start):  # noqa: F811
    api = make_server("127.0.0.1")
    dns.set(NAME, "127.0.0.3", "127.0.0.4")
    start(api.port)
    detail = launcher.wait_state("failing", "Connection refused; ")
    for address in ("127.0.0.3", "127.0.0.4"):
        assert f"cannot connect to {NAME}:{api.port} at {address}: Connection refused" in detail
    dns.set(NAME, "127.0.0.3", "127.0.0.1", "::1")
    api.wait_annotation("c1", RECOVERY)
    launcher.wait_state("ok")


@pytest.mark.parametrize("alternatives", ["DNS:other.example.org,IP:127.0.0.1", "DNS:*.org", None], ids=str)
def test_a_certificate_for_another_name(launcher, start, authority, alternatives):  # noqa: F811
    """Though the address is in it, or the name as the subject's."""
    server = StandIn(authority.issue("other", subject=f"/CN={NAME}", alternatives=alternatives))
    try:
        start(server.port, hosts=f"127.0.0.1 {NAME}\n")
        detail = launcher.wait_state("failing", f"{NAME}:{server.port} at 127.0.0.1 is not trusted: ")
        assert detail.endswith("mismatch") and server.requests == []
    finally:
        server.close()


def test_an_address_asks_nobody(dns, launcher, start):  # noqa: F811
    start(9, host="127.0.0.1")
    launcher.wait_state("failing", "cannot connect to 127.0.0.1:9: Connection refused")
    assert dns.asked == []

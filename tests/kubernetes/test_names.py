"""The API server known by a name, as hosted clusters and users set it: by /etc/hosts, by the DNS of the pod, and what
happens when that does not work. The launcher, its agent and their sandbox are as in a pod."""

import pytest

from harness.dns_standin import Dns, ResolverFiles, dns  # noqa: F401 (a fixture)

NAME = "kubernetes.default.svc"
SERVE = ("say:up", "trap", "until:15")
LONG = 60  # backoff may have grown


@pytest.fixture
def start(pod, dns):  # noqa: F811
    """Starts the pod's launcher with files of its own; returns them, and the configuration as `text`."""
    def start_pod(host=NAME, configuration=None, hosts=""):
        place = ResolverFiles(pod.area, configuration or dns.configuration, hosts)
        place.text = pod.configure(*SERVE)
        binds = [f"{source}:{target}" for source, target in place.binds()]
        pod.start(host=host, place=[word for bind in binds for word in ("--bind", bind)])
        return place

    return start_pod


def wait_failing(pod, text):
    """Waits until the reports fail for this reason; what is supervised has started all the same."""
    pod.launcher.wait_started()
    assert text in pod.wait_reporter("failing", LONG)["detail"]


def test_in_the_hosts_file(pod, start, dns):  # noqa: F811
    text = start(hosts=f"127.0.0.1 {NAME}\n").text
    pod.wait_reported(text)
    pod.wait_reporter("ok")
    assert dns.asked == []
    sandbox, = pod.launcher.events_named("sandbox")
    assert sandbox["landlock"] in ("yes", "no") and "kubernetes-off" not in str(pod.launcher.events.all)


def test_by_dns(pod, start, dns):  # noqa: F811
    dns.set(NAME + ".cluster.local", "127.0.0.1")
    search = "search svc.cluster.local cluster.local\noptions ndots:5\n"
    pod.wait_reported(start(configuration=search + dns.configuration).text)
    pod.wait_reporter("ok")
    assert NAME + ".svc.cluster.local" in dns.asked


def test_ipv6_only(pod, start, dns):  # noqa: F811
    dns.set(NAME, "::1")
    pod.wait_reported(start().text)


def test_no_such_name(pod, start, dns):  # noqa: F811
    """Until there is one. Configurations are loaded meanwhile."""
    start()
    wait_failing(pod, f"cannot resolve {NAME}: there is no such name")
    text = pod.load(*SERVE, "say:meanwhile")
    dns.set(NAME, "127.0.0.1")
    pod.wait_reported(text, LONG)
    pod.wait_reporter("ok")


def test_a_server_that_hangs(pod, start, dns):  # noqa: F811
    dns.names[NAME] = None
    start(configuration=dns.configuration + "options timeout:1 attempts:1\n")
    wait_failing(pod, f"cannot resolve {NAME}: no DNS server answers")
    assert f"cannot resolve {NAME}: no DNS server answers" in pod.ctl("status")
    text = pod.load(*SERVE, "say:meanwhile")
    dns.set(NAME, "127.0.0.1")
    pod.wait_reported(text, LONG)


def test_no_server_is_there(pod, start):
    gone = Dns({})
    gone.close()
    start(configuration=gone.configuration)
    wait_failing(pod, f"cannot resolve {NAME}: no DNS server can be reached")
    pod.load(*SERVE, "say:meanwhile")


def test_another_address_after_the_servers_return(pod, start, dns):  # noqa: F811
    dns.set(NAME, "127.0.0.1")
    pod.wait_reported(start().text)
    pod.cluster.kill_api()
    dns.set(NAME, "127.0.0.9", "::1")  # the server listens at all that are of this machine
    text = pod.configure(*SERVE, "say:again")
    pod.cluster.start_api()
    pod.wait_reported(text, LONG)


def test_the_certificate_is_for_another_name(pod, start):
    start(host="api.example.org", hosts="127.0.0.1 api.example.org\n")
    wait_failing(pod, "the certificate of api.example.org:6443 at 127.0.0.1 is not trusted: hostname mismatch")
    assert pod.namespace.requests(stage=None) == []

"""Networks of pods: Debian's plugins, and plugins of the test's own that misbehave."""

import json
import os
import signal
import time

import grpc
import pytest
from cri_place import code_of
from image_place import area, needs_root  # noqa: F401 (fixtures)
from pod_place import PodHost, busybox, pods  # noqa: F401 (fixture)

pytestmark = needs_root
LEASE = """echo "$CNI_COMMAND $CNI_CONTAINERID [$CNI_NETNS] $CNI_IFNAME $CNI_ARGS $(tr -d '\\n')" >> {log}
"""
RESULT = """[ $CNI_COMMAND != ADD ] || echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "x"}], "ips": [{"address": "10.1.2.3/24", "interface": 0}]}'"""


@pytest.fixture
def image(pods):
    return pods.install("busybox", busybox())


def networked(pods, name="pod", **more):
    return pods.pod_config(name, network=0, hostname=more.pop("hostname", name), **more)


def recorder(pods, name="recorder", then=RESULT):
    pods.plugin(name, LEASE.format(log=pods.area / "calls") + then)
    return {"cniVersion": "1.0.0", "name": "mine", "plugins": [{"type": name}]}


def calls(pods):
    path = pods.area / "calls"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0", "1.0.0"])
def test_a_bridge(pods, image, version):
    pods.configure_network(pods.bridge(version))
    pod = pods.run_pod(networked(pods, "web"))
    other = pods.run_pod(networked(pods, "other"))
    address = pods.pod_status(pod).network.ip
    assert address.startswith("10.88.0.") and address != pods.pod_status(other).network.ip
    assert pods.pod_status(pod).linux.namespaces.options.network == 0
    server = pods.run_container(pod, image, "sh", "-c", "echo hello > /dev/shm/page; echo up; httpd -f -h /dev/shm -p 80", security={"run_as_user": pods.messages.Int64Value(value=1000)})
    pods.wait_for_log(server, "up\n")
    client = pods.run_container(other, image, "sh", "-c", f"for i in $(seq 40); do wget -q -O - http://{address}/page && break; usleep 50000; done; hostname; cat /etc/hosts; ip -o addr show lo")
    pods.wait_for_end(client)
    text = pods.text_of(client)
    assert text.startswith("hello\nother\n"), text
    assert f"{pods.pod_status(other).network.ip}\tother\n" in text and "127.0.0.1/8" in text
    pods.end(signal.SIGKILL)
    pods.start()
    assert pods.pod_status(pod).network.ip == address
    pods.stop_pod(other)
    assert pods.pod_status(other).network.ip, "kept for whoever looks"
    pods.remove_everything()
    pods.check_nothing_is_left()


def test_both_families_and_names(pods, image):
    pods.configure_network(pods.bridge(ranges=[[{"subnet": "fd88::/64"}], [{"subnet": "10.88.0.0/24"}]]))
    dns = pods.messages.DNSConfig(servers=["10.0.0.9"], searches=["a.local", "b"], options=["ndots:2"])
    pod = pods.run_pod(networked(pods, dns=dns, hostname="named"))
    network = pods.pod_status(pod).network
    assert network.ip.startswith("10.88.") and [one.ip for one in network.additional_ips] == ["fd88::2"]
    container = pods.run_container(pod, image, "sh", "-c", "cat /etc/resolv.conf /etc/hostname; hostname; ip -o addr show eth0")
    pods.wait_for_end(container)
    text = pods.text_of(container)
    assert text.startswith("search a.local b\nnameserver 10.0.0.9\noptions ndots:2\nnamed\nnamed\n")
    assert "fd88::2/64" in text and network.ip in text


def test_sysctls_are_the_pods(pods, image):
    pods.configure_network(pods.bridge())
    config = networked(pods)
    config.linux.sysctls.update({"net.ipv4.tcp_keepalive_time": "77", "kernel.shm_rmid_forced": "1"})
    pod = pods.run_pod(config)
    container = pods.run_container(pod, image, "sh", "-c", "cat /proc/sys/net/ipv4/tcp_keepalive_time /proc/sys/kernel/shm_rmid_forced /proc/sys/net/ipv4/ip_unprivileged_port_start")
    pods.wait_for_end(container)
    assert pods.text_of(container) == "77\n1\n0\n"
    assert open("/proc/sys/net/ipv4/tcp_keepalive_time").read() != "77\n"
    config = networked(pods, "bad")
    config.linux.sysctls["net.ipv4.not_there"] = "1"
    assert "set sysctl net.ipv4.not_there to 1" in code_of(lambda: pods.run_pod(config))[1]


def test_host_ports(pods, image):
    pods.configure_network(pods.bridge(more=[{"type": "portmap", "capabilities": {"portMappings": True}}]))
    ports = [pods.messages.PortMapping(container_port=80, host_port=8099), pods.messages.PortMapping(container_port=81)]
    pod = pods.run_pod(networked(pods, ports=ports))
    server = pods.run_container(pod, image, "sh", "-c", "echo mapped > /tmp/page; echo up; httpd -f -h /tmp -p 80")
    pods.wait_for_log(server, "up\n")
    rules = pods.lab.run("iptables-save").stdout
    assert "dport 8099" in rules.replace("--dports", "--dport").replace("--dport", "dport") and "81" not in [word for line in rules.splitlines() if "dport" in line for word in line.split()]
    pods.stop_pod(pod)
    assert "8099" not in pods.lab.run("iptables-save").stdout


def test_what_a_plugin_is_told(pods):
    configuration = recorder(pods)
    configuration["plugins"][0]["capabilities"] = {"portMappings": True, "bandwidth": True, "ipRanges": True, "dns": True, "io.kubernetes.cri.pod-annotations": True}
    configuration["plugins"][0]["kept"] = [1.50, {"a": None}]
    pods.configure_network(configuration)
    pods.call("UpdateRuntimeConfig", request=pods.messages.UpdateRuntimeConfigRequest(
        runtime_config=pods.messages.RuntimeConfig(network_config=pods.messages.NetworkConfig(pod_cidr="10.5.0.0/24,fd05::/64"))))
    config = networked(pods, ports=[pods.messages.PortMapping(container_port=80, host_port=8080, protocol=1, host_ip="127.0.0.1")])
    config.annotations["kubernetes.io/ingress-bandwidth"] = "10M"
    pod = pods.run_pod(config)
    assert pods.pod_status(pod).network.ip == "10.1.2.3"
    pods.configure_network({"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "gone"}]})
    pods.stop_pod(pod)
    added, deleted = calls(pods)
    command, container, pin, interface, arguments, told = added.split(" ", 5)
    assert (command, container, interface) == ("ADD", pod, "eth0") and pin == f"[{pods.host.root}/run/netns/triton-{pod}]"
    assert arguments == f"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=pod;K8S_POD_INFRA_CONTAINER_ID={pod};K8S_POD_UID=uid-pod"
    told = json.loads(told)
    assert (told["name"], told["cniVersion"], told["kept"]) == ("mine", "1.0.0", [1.5, {"a": None}]) and "capabilities" not in told
    offered = told["runtimeConfig"]
    assert offered["portMappings"] == [{"hostPort": 8080, "containerPort": 80, "protocol": "udp", "hostIP": "127.0.0.1"}]
    assert offered["bandwidth"] == {"ingressRate": 10_000_000, "ingressBurst": 2**32 - 1}
    assert offered["ipRanges"] == [[{"subnet": "10.5.0.0/24"}], [{"subnet": "fd05::/64"}]]
    assert offered["io.kubernetes.cri.pod-annotations"]["note"] == "pod"
    told = json.loads(deleted.split(" ", 5)[5])
    assert deleted.startswith(f"DEL {pod} ") and told["name"] == "mine" and told["runtimeConfig"] == offered
    assert told["prevResult"]["ips"][0]["address"] == "10.1.2.3/24"


def test_a_chain_that_fails_is_undone(pods):
    configuration = recorder(pods)
    pods.plugin("failing", LEASE.format(log=pods.area / "calls") + """[ $CNI_COMMAND = DEL ] || { echo '{"code": 100, "msg": "no luck", "details": "today"}'; exit 1; }""")
    configuration["plugins"].append({"type": "failing"})
    pods.configure_network(configuration)
    code, text = code_of(lambda: pods.run_pod(networked(pods)))
    assert text == "cannot run network plugin failing (ADD): no luck: today"
    assert [call.split()[0] for call in calls(pods)] == ["ADD", "ADD", "DEL", "DEL"]
    assert not pods.call("ListPodSandbox").items
    pods.check_nothing_is_left()


def test_delete_is_tried_until_it_succeeds(pods):
    allow = pods.area / "allow"
    configuration = recorder(pods, then=f"""[ $CNI_COMMAND != DEL ] || [ -e {allow} ] || {{ echo '{{"code": 11, "msg": "later"}}'; exit 1; }}\n{RESULT}""")
    pods.configure_network(configuration)
    pod = pods.run_pod(networked(pods))
    assert code_of(lambda: pods.stop_pod(pod))[1] == "cannot run network plugin recorder (DEL): later"
    assert not pods.is_ready(pod)
    pods.end(signal.SIGKILL)
    pods.start()
    assert code_of(lambda: pods.remove_pod(pod))[1].endswith("later")
    allow.touch()
    pods.remove_pod(pod)
    pods.check_nothing_is_left()


def test_an_address_is_given_back_after_a_kill_in_the_middle(pods):
    started = pods.area / "started"
    os.mkfifo(started)
    configuration = recorder(pods, then=f"[ $CNI_COMMAND != ADD ] || {{ echo > {started}; exec sleep 1000; }}")
    pods.configure_network(configuration)
    waiting = pods.begin("RunPodSandbox", pods.messages.RunPodSandboxRequest(config=networked(pods)))
    started.read_text()
    pods.end(signal.SIGKILL)
    pods.start()
    assert waiting.exception()
    until = time.monotonic() + 60
    while len(calls(pods)) < 2 and time.monotonic() < until:
        pods.call("ListPodSandbox")
    assert [call.split()[0] for call in calls(pods)] == ["ADD", "DEL"]
    pods.check_nothing_is_left(60)


def test_a_plugin_that_hangs(area):
    pods = PodHost(area, {"plugin_timeout": "1s"})
    try:
        pods.configure_network(recorder(pods, then="[ $CNI_COMMAND != ADD ] || { sleep 1000 & sleep 1000; }"))
        waiting = pods.begin("RunPodSandbox", pods.messages.RunPodSandboxRequest(config=networked(pods)))
        other = pods.run_pod(pods.pod_config("other"))  # is not held up
        assert pods.is_ready(other)
        error = waiting.exception()
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED and "did not end within 1 s" in error.details()
        pods.remove_everything()
        pods.check_nothing_is_left()
    finally:
        pods.close()


@pytest.mark.parametrize("output, text", [
    ("yes x", "it has written too much"), ("echo nothing", "its result is not an object of JSON"), ("echo '{}'", "it has got no address"),
    ("kill -9 $$", "it ended with 137"), ("echo some words >&2; exit 3", "some words"), ("head -c 100000 /dev/zero | tr '\\0' '['", "its result is not an object of JSON")])
def test_a_plugin_that_lies(pods, output, text):
    pods.configure_network(recorder(pods, then=f"[ $CNI_COMMAND != ADD ] || {{ {output}; }}" if output != "yes x" else "[ $CNI_COMMAND != ADD ] || head -c 3000000 /dev/zero"))
    assert text in code_of(lambda: pods.run_pod(networked(pods)))[1]
    pods.check_nothing_is_left()


def test_without_a_network(pods):
    code, text = code_of(lambda: pods.run_pod(networked(pods)))
    assert text == f"no network is configured in {pods.host.root}/etc/cni/net.d"
    pods.configure_network({"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "not-there"}]})
    assert "network plugin not-there is not in" in code_of(lambda: pods.run_pod(networked(pods)))[1]
    pods.configure_network("{", name="00-first.conf")
    conditions = {one.type: one for one in pods.call("Status").status.conditions}
    assert not conditions["NetworkReady"].status and "00-first.conf" in conditions["NetworkReady"].message


def test_the_ipc_namespace_is_the_pods(pods, image):
    pods.configure_network(pods.bridge())
    pod, other = pods.run_pod(networked(pods, "a")), pods.run_pod(networked(pods, "b"))
    one = pods.run_container(pod, image, "sh", "-c", "echo shared > /dev/shm/x; for n in ipc net uts; do readlink /proc/self/ns/$n; done", name="one")
    pods.wait_for_end(one)
    two = pods.run_container(pod, image, "sh", "-c", "cat /dev/shm/x; for n in ipc net uts; do readlink /proc/self/ns/$n; done", name="two")
    pods.wait_for_end(two)
    three = pods.run_container(other, image, "sh", "-c", "ls /dev/shm; for n in ipc net uts; do readlink /proc/self/ns/$n; done", name="three")
    pods.wait_for_end(three)
    assert pods.text_of(two) == "shared\n" + pods.text_of(one)
    assert not set(pods.text_of(three).split()) & set(pods.text_of(one).split())


# What version 1.1 of the interface adds.


def answering(pods, name="recorder", then=""):
    """A plugin that writes down its calls, and does with STATUS, GC and CHECK what `then` says."""
    configuration = recorder(pods, name, then=f"{then}\n{RESULT}".replace("1.0.0", "1.1.0"))
    return {**configuration, "cniVersion": "1.1.0"}


def commands(pods):
    return [call.split()[0] for call in calls(pods)]


def network_condition(pods):
    (condition,) = [one for one in pods.call("Status").status.conditions if one.type == "NetworkReady"]
    return condition.status, condition.message


def test_plugins_say_whether_they_are_ready(pods):
    ready = pods.area / "ready"
    failing = f"""[ $CNI_COMMAND != STATUS ] || [ -e {ready} ] || {{ echo '{{"code": 50, "msg": "no agent"}}'; exit 1; }}"""
    pods.configure_network(answering(pods, then=failing))
    assert network_condition(pods) == (False, "cannot run network plugin recorder (STATUS): no agent")
    ready.touch()
    assert network_condition(pods) == (True, "")
    assert [call.split(" ")[:4] for call in calls(pods)] == [["STATUS", "", "[]", ""]] * 2, "it is about no pod"


def test_a_status_that_hangs_holds_nobody_up(area):
    pods = PodHost(area, {"plugin_timeout": "1s"})
    try:
        pods.configure_network(answering(pods, then="[ $CNI_COMMAND != STATUS ] || sleep 1000"))
        waiting = pods.begin("Status")
        assert pods.is_ready(pods.run_pod())
        (condition,) = [one for one in waiting.result().status.conditions if one.type == "NetworkReady"]
        assert not condition.status and "did not end within 1 s" in condition.message
        pods.remove_everything()
        pods.check_nothing_is_left()
    finally:
        pods.close()


def wait_for_command(pods, command, count=1):
    until = time.monotonic() + 60
    while commands(pods).count(command) < count:
        assert time.monotonic() < until, calls(pods)
        pods.call("ListPodSandbox")


def test_a_start_frees_what_nobody_holds_and_looks_at_the_rest(pods):
    pods.configure_network(answering(pods))
    pod = pods.run_pod(networked(pods))
    pods.end(signal.SIGKILL)
    pods.start()
    wait_for_command(pods, "CHECK")
    wait_for_command(pods, "GC")
    collected = [json.loads(call.split(" ", 5)[5]) for call in calls(pods) if call.startswith("GC")][-1]
    assert collected["cni.dev/valid-attachments"] == [{"containerID": pod, "ifname": "eth0"}]
    (checked,) = [call.split(" ", 5) for call in calls(pods) if call.startswith("CHECK")]
    assert checked[1] == pod and json.loads(checked[5])["prevResult"]["ips"][0]["address"] == "10.1.2.3/24"
    pods.stop_pod(pod)
    before = commands(pods).count("GC")
    pods.end(signal.SIGTERM)
    pods.start()
    wait_for_command(pods, "GC", before + 1)
    last = [json.loads(call.split(" ", 5)[5]) for call in calls(pods) if call.startswith("GC")][-1]
    assert last["cni.dev/valid-attachments"] == [{"containerID": pod, "ifname": "eth0"}], "its record still names the network"
    assert commands(pods).count("CHECK") == 1, "a pod that was stopped has none"


def test_a_network_that_has_changed_is_told_and_kept(pods):
    pods.configure_network(answering(pods, then="""[ $CNI_COMMAND != CHECK ] || { echo '{"code": 100, "msg": "the link is gone"}'; exit 1; }"""))
    pod = pods.run_pod(networked(pods))
    pods.end(signal.SIGKILL)
    pods.start()
    until = time.monotonic() + 60
    while "is not as it was" not in pods.log.read_text():
        assert time.monotonic() < until
        pods.call("ListPodSandbox")
    assert "the link is gone" in pods.log.read_text() and pods.is_ready(pod)


@pytest.mark.parametrize("change", [{"cniVersion": "1.0.0"}, {"disableCheck": True, "disableGC": True}])
def test_plugins_that_do_not_know_a_word_are_not_asked(pods, change):
    pods.configure_network({**answering(pods), **change})
    pods.run_pod(networked(pods))
    assert network_condition(pods)[0]
    pods.end(signal.SIGKILL)
    pods.start()
    pods.run_pod(networked(pods, "other"))
    if "cniVersion" in change:
        wait_for_command(pods, "CHECK")
    assert set(commands(pods)) - {"STATUS"} == ({"ADD", "CHECK"} if "cniVersion" in change else {"ADD"})
    assert ("STATUS" in commands(pods)) != ("cniVersion" in change)

"""Terminals, input and attached clients of containers: real processes in namespaces of the test's own."""

import base64
import ctypes
import json
import os
import select
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from cri_place import code_of
from image_place import area, needs_root  # noqa: F401 (fixtures)
from pod_place import PodHost, busybox, command_of, family_of, pods  # noqa: F401 (fixture)
from stream_clients import Command, Refused, Spdy, exit_code_of, open_spdy, open_websocket

pytestmark = needs_root


@pytest.fixture
def image(pods):
    return pods.install("busybox", busybox())


def test_a_container_with_a_terminal(pods, image):
    script = 'tty; echo "$TERM"; test -t 0 && test -t 1 && test -t 2 && echo three; ls -l /dev/console | cut -c1; echo error >&2; exit 3'
    container = pods.run_container(pods.run_pod(), image, "sh", "-c", script, tty=True)
    assert pods.wait_for_end(container).exit_code == 3
    lines = pods.log_lines(container)
    assert [text for _, _, _, text in lines] == ["/dev/pts/0", "xterm", "three", "c", "error"]
    assert Path(pods.container_status(container).log_path).read_bytes().count(b"\r\n") == 5
    assert {stream for _, stream, _, _ in lines} == {"stdout"}


def test_input_stays_open_until_somebody_ends_it(pods, image):
    pod = pods.run_pod()
    waiting = pods.run_container(pod, image, "sh", "-c", "echo up; cat; echo end", stdin=True, name="waiting")
    without = pods.run_container(pod, image, "sh", "-c", "cat; readlink /proc/self/fd/0; echo end", name="without")
    assert pods.wait_for_end(without).exit_code == 0
    assert pods.text_of(without) == "/dev/null\nend\n"
    pods.wait_for_log(waiting, "up")
    assert pods.state(waiting) == "CONTAINER_RUNNING" and pods.text_of(waiting) == "up\n"


@pytest.fixture
def streams(pods):
    return Streams(pods)


class Streams:
    """Calls that answer with a URL, and clients in the network of the lab."""

    def __init__(self, pods):
        self.pods = pods
        self.messages = pods.messages

    def inside(self, function):
        """In a thread, whose network is changed."""
        network = os.open(f"/proc/{self.pods.lab.init}/ns/net", os.O_RDONLY)

        def run():
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.setns(network, 0x40000000) == 0
            return function()

        try:
            with ThreadPoolExecutor(1) as one:
                return one.submit(run).result()
        finally:
            os.close(network)

    def exec_url(self, container, *command, stdin=False, stdout=True, stderr=True, tty=False):
        request = self.messages.ExecRequest(container_id=container, cmd=command, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)
        return self.pods.call("Exec", request=request).url

    def attach_url(self, container, stdin=False, stdout=True, stderr=True, tty=False):
        request = self.messages.AttachRequest(container_id=container, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)
        return self.pods.call("Attach", request=request).url

    def forward_url(self, pod, *ports):
        return self.pods.call("PortForward", request=self.messages.PortForwardRequest(pod_sandbox_id=pod, port=ports)).url

    def run(self, container, *command, stderr=True, tty=False, **more):
        url = self.exec_url(container, *command, stderr=stderr and not tty, tty=tty, **more)
        return Command(open_spdy(self.inside, url), stderr=stderr and not tty, tty=tty, **more)

    def attach(self, container, stderr=True, tty=False, **more):
        url = self.attach_url(container, stderr=stderr and not tty, tty=tty, **more)
        return Command(open_spdy(self.inside, url), stderr=stderr and not tty, tty=tty, **more)


@pytest.fixture
def idle(pods, image):
    """A container that only waits."""
    return pods.run_container(pods.run_pod(), image, "sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done")


def test_a_command_over_spdy(streams, idle):
    command = streams.run(idle, "sh", "-c", "cat; echo error >&2; exit 7", stdin=True)
    assert command.spdy.protocol == "v4.channel.k8s.io"
    command.spdy.send(command.stdin, b"typed\n")
    command.spdy.wait_for(command.stdout, b"typed\n")
    command.spdy.ping(11)
    command.spdy.wait(lambda: command.spdy.pongs == [11])
    command.spdy.finish(command.stdin)
    assert command.output() == b"typed\n"
    assert command.errors() == b"error\n"
    status = command.status()
    assert exit_code_of(status) == 7
    assert status["message"] == "command terminated with non-zero exit code: 7" and status["metadata"] == {}
    command.spdy.wait(lambda: command.spdy.goaway is not None)
    assert command.spdy.goaway[1] == 0
    command.spdy.wait_over()
    quick = streams.run(idle, "true")
    assert quick.status() == {"metadata": {}, "status": "Success"} and quick.output() == b""
    killed = streams.run(idle, "sh", "-c", "kill -9 $$")
    assert exit_code_of(killed.status()) == 137


def test_much_output_and_input_arrives_whole(streams, idle):
    command = streams.run(idle, "sh", "-c", "wc -c; head -c 5000000 /dev/zero; echo end >&2", stdin=True)
    data = os.urandom(1 << 16) * 64
    for start in range(0, len(data), 1 << 15):
        command.spdy.send(command.stdin, data[start:start + (1 << 15)])
    command.spdy.finish(command.stdin)
    output = command.output()
    assert output.split(b"\n", 1)[0] == str(len(data)).encode() and len(output.split(b"\n", 1)[1]) == 5_000_000
    assert command.errors() == b"end\n" and exit_code_of(command.status()) == 0


def test_a_command_with_a_terminal(streams, idle):
    command = streams.run(idle, "sh", tty=True, stdin=True)
    command.spdy.send(command.resize, b'{"Width":101,"Height":33}{"Width":102,"Height":34}')
    command.spdy.send(command.stdin, b"test -t 0 && tty && echo $TERM\n")
    command.spdy.wait_for(command.stdout, b"/dev/pts/0\r\nxterm\r\n")
    command.spdy.send(command.stdin, b"stty size\n")
    command.spdy.wait_for(command.stdout, b"34 102\r\n")
    command.spdy.send(command.resize, b'{"Width":80,')
    command.spdy.send(command.resize, b'"Height":25}')
    command.spdy.send(command.stdin, b"sleep 0; while [ \"$(stty size)\" != '25 80' ]; do :; done; echo resized\n")
    command.spdy.wait_for(command.stdout, b"\r\nresized\r\n")
    command.spdy.send(command.stdin, b"exit 5\n")
    assert exit_code_of(command.status()) == 5


def test_a_terminal_is_hung_up_when_its_client_goes(streams, pods, idle):
    script = "trap 'echo hung >/tmp/hung; exit' HUP; echo up; while :; do sleep 0.05; done"
    command = streams.run(idle, "sh", "-c", script, tty=True, stdin=True)
    command.spdy.wait_for(command.stdout, b"up")
    command.spdy.close()
    waiter = streams.run(idle, "sh", "-c", "while ! grep hung /tmp/hung; do sleep 0.05; done 2>/dev/null")
    assert waiter.output() == b"hung\n"


def test_a_command_that_cannot_be_started(streams, idle):
    status = streams.run(idle, "nothing-of-that-name").status()
    assert (status["status"], status["reason"], status["code"]) == ("Failure", "InternalError", 500)
    assert status["message"].startswith("Internal error occurred: ") and "nothing-of-that-name" in status["message"]


def test_old_protocols_of_spdy(streams, idle):
    for protocol in ("v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"):
        command = Command(open_spdy(streams.inside, streams.exec_url(idle, "sh", "-c", "echo out; exit 3"), (protocol,)))
        assert command.spdy.protocol == protocol
        assert command.output() == b"out\n"
        assert command.spdy.wait_finished(command.error) == b"command terminated with non-zero exit code: 3"


def test_commands_over_websocket(streams, idle):
    url = streams.exec_url(idle, "sh", "-c", "cat; echo error >&2; exit 7", stdin=True)
    websocket = open_websocket(streams.inside, url, ("v5.channel.k8s.io", "v4.channel.k8s.io"))
    assert websocket.protocol == "v5.channel.k8s.io"
    assert websocket.receive_message() == b"\1"
    websocket.send(b"\0typed\n")
    websocket.frame(9, b"ping")
    assert websocket.receive_message() == b"\1typed\n"
    websocket.send(b"\xff\0")
    assert websocket.receive_message() == b"\2error\n"
    status = websocket.receive_message()
    assert status[:1] == b"\3" and exit_code_of(json.loads(status[1:])) == 7
    assert websocket.receive_message() is None and websocket.closed == 1000
    url = streams.exec_url(idle, "sh", "-c", "read line; echo got $line", stdin=True, stderr=False)
    websocket = open_websocket(streams.inside, url, ("v4.base64.channel.k8s.io",))
    assert websocket.receive_message() == b"1"
    websocket.frame(1, b"0" + base64.b64encode(b"words\n"), final=True)
    assert websocket.receive_message() == b"1" + base64.b64encode(b"got words\n")
    assert json.loads(base64.b64decode(websocket.receive_message()[1:])) == {"metadata": {}, "status": "Success"}


def test_attached_clients_see_output_and_type(streams, pods, image):
    container = pods.run_container(pods.run_pod(), image, "sh", "-c", "while read line; do echo got $line; echo also >&2; done; echo end",
                                   stdin=True, stdin_once=True)
    watcher = streams.attach(container)
    typist = streams.attach(container, stdin=True)
    typist.spdy.send(typist.stdin, b"one\n")
    for client in (watcher, typist):
        client.spdy.wait_for(client.stdout, b"got one\n")
        client.spdy.wait_for(client.stderr, b"also\n")
    typist.spdy.finish(typist.stdin)
    for client in (watcher, typist):
        assert client.output() == b"got one\nend\n"
        assert client.status() == {"metadata": {}, "status": "Success"}
    assert pods.wait_for_end(container).exit_code == 0
    assert sorted(pods.text_of(container).splitlines()) == ["also", "end", "got one"]


def test_a_slow_attached_client_loses_nothing(streams, pods, image):
    """The container waits for it, as for the reader of a pipe, and its end does."""
    line = "x" * 6000
    script = f"read go; i=0; while [ $i -lt 3000 ]; do echo $i {line}; i=$((i+1)); done"
    container = pods.run_container(pods.run_pod(), image, "sh", "-c", script, stdin=True)
    slow = streams.attach(container, stdin=True, stderr=False)
    slow.spdy.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    slow.spdy.send(slow.stdin, b"go\n")
    slow.spdy.wait(lambda: slow.spdy.data[slow.stdout])
    for _ in range(3):
        with slow.spdy.changed:  # its thread reads nothing, for less than it is waited for
            select.select([], [], [], 2)
            assert pods.state(container) == "CONTAINER_RUNNING"
    assert slow.output() == b"".join(b"%d %s\n" % (i, line.encode()) for i in range(3000))
    assert slow.status()["status"] == "Success"
    assert pods.wait_for_end(container).exit_code == 0


def test_logs_are_reopened_under_load(streams, pods, image):
    """kubelet's rotation, a hundred times: no line is lost, doubled or cut, in the files and for attached clients."""
    script = "read go; i=0; while [ ! -e /tmp/stop ]; do echo line $i; echo error $i >&2; i=$((i+1)); done; echo last"
    container = pods.run_container(pods.run_pod(), image, "sh", "-c", script, stdin=True)
    clients = [streams.attach(container, stdin=number == 0) for number in range(3)]
    clients[0].spdy.send(clients[0].stdin, b"go\n")
    path = Path(pods.container_status(container).log_path)
    rotated = []
    with ThreadPoolExecutor(3) as readers:
        outputs = [readers.submit(lambda one=one: (one.output(), one.errors())) for one in clients]
        for number in range(100):
            until = time.monotonic() + 60
            while not path.exists() or path.stat().st_size < 2000:
                assert time.monotonic() < until
                select.select([], [], [], 0.001)
            rotated.append(path.with_name(f"{path.name}.{number}"))
            path.rename(rotated[-1])
            pods.call("ReopenContainerLog", request=pods.messages.ReopenContainerLogRequest(container_id=container))
        streams.pods.call("ExecSync", request=pods.messages.ExecSyncRequest(container_id=container, cmd=["touch", "/tmp/stop"]))
        assert pods.wait_for_end(container).exit_code == 0
        results = [one.result(120) for one in outputs]
    lines = [line.split(" ", 3) for one in [*rotated, path] for line in one.read_text().splitlines()]
    assert {tag for _, _, tag, _ in lines} == {"F"}
    printed = [text for _, stream, _, text in lines if stream == "stdout"]
    errors = [text for _, stream, _, text in lines if stream == "stderr"]
    assert printed == [*(f"line {i}" for i in range(len(printed) - 1)), "last"]
    assert errors == [f"error {i}" for i in range(len(printed) - 1)]
    assert all(one.read_text().endswith("\n") for one in rotated)
    for output, error in results:
        assert output.decode().splitlines() == printed and error.decode().splitlines() == errors


def test_attached_to_a_terminal(streams, pods, image):
    container = pods.run_container(pods.run_pod(), image, "sh", tty=True, stdin=True)
    first = streams.attach(container, stdin=True, tty=True)
    first.spdy.send(first.resize, b'{"Width":91,"Height":31}')
    first.spdy.send(first.stdin, b"while [ \"$(stty size)\" != '31 91' ]; do :; done; stty size\n")
    first.spdy.wait_for(first.stdout, b"\r\n31 91\r\n")
    first.spdy.close()
    second = streams.attach(container, stdin=True, tty=True)
    second.spdy.send(second.stdin, b"echo again; exit 4\n")
    second.spdy.wait_for(second.stdout, b"\r\nagain\r\n")
    assert second.status() == {"metadata": {}, "status": "Success"}
    assert pods.wait_for_end(container).exit_code == 4


def test_ports_are_forwarded_into_the_pod(streams, pods, image):
    pods.configure_network(pods.bridge())
    pod = pods.run_pod(pods.pod_config(network=0))
    pods.run_container(pod, image, "nc", "-ll", "-p", "8080", "-e", "sh", "-c", "echo hello; exec cat")
    wait = pods.run_container(pod, image, "sh", "-c", "until nc 127.0.0.1 8080 </dev/null | grep hello; do sleep 0.05; done", name="wait")
    assert pods.wait_for_end(wait).exit_code == 0
    spdy = open_spdy(streams.inside, streams.forward_url(pod), ("portforward.k8s.io",))
    refused = [spdy.open(port="81", requestid="0", streamtype=kind) for kind in ("error", "data")]
    spdy.finish(refused[0])
    text = spdy.wait_finished(refused[0]).decode()
    assert text == f"error forwarding port 81 to pod {pod}: cannot connect to port 81 of the pod: Connection refused"
    spdy.wait(lambda: refused[1] in spdy.resets)
    error, data = (spdy.open(port="8080", requestid="1", streamtype=kind) for kind in ("error", "data"))
    spdy.finish(error)
    spdy.send(data, b"typed\n")
    spdy.wait_for(data, b"hello\ntyped\n")
    spdy.finish(data)
    assert spdy.wait_finished(data) == b"hello\ntyped\n" and spdy.wait_finished(error) == b""
    websocket = open_websocket(streams.inside, streams.forward_url(pod, 8080), ("v4.channel.k8s.io",))
    assert [websocket.receive_message(), websocket.receive_message()] == [b"\0\x90\x1f", b"\1\x90\x1f"]
    assert websocket.receive_message() == b"\0hello\n"
    websocket.send(b"\0more\n")
    assert websocket.receive_message() == b"\0more\n"
    websocket.close()
    tunnel = open_websocket(streams.inside, streams.forward_url(pod), ("SPDY/3.1+portforward.k8s.io",))
    spdy = Spdy(tunnel.connection, through=tunnel)
    error, data = (spdy.open(port="8080", requestid="7", streamtype=kind) for kind in ("error", "data"))
    spdy.wait_for(data, b"hello\n")
    spdy.close()


def test_what_is_refused(streams, pods, idle):
    messages = pods.messages
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert code_of(lambda: streams.exec_url("", "true")) == (invalid, "missing required container_id")
    assert code_of(lambda: streams.exec_url(idle, "true", tty=True)) == (invalid, "tty and stderr cannot both be true")
    assert code_of(lambda: streams.exec_url(idle, "true", stdout=False, stderr=False)) == (
        invalid, "one of `stdin`, `stdout`, or `stderr` must be set")
    assert code_of(lambda: streams.exec_url(idle)) == (invalid, "there is no command")
    assert code_of(lambda: streams.attach_url("none")) == (grpc.StatusCode.NOT_FOUND, "container none does not exist")
    assert code_of(lambda: streams.forward_url("")) == (invalid, "missing required pod_sandbox_id")
    assert code_of(lambda: streams.forward_url("none")) == (grpc.StatusCode.NOT_FOUND, "pod sandbox none does not exist")
    created = pods.create(pods.container_status(idle) and pods.call("ListContainers").containers[0].pod_sandbox_id,
                          pods.container_config(pods.images()[0].id, "true", name="created"))
    assert code_of(lambda: streams.exec_url(created, "true")) == (
        grpc.StatusCode.FAILED_PRECONDITION, f"container {created} does not run")
    url = streams.exec_url(idle, "true")
    with pytest.raises(Refused) as refused:
        open_spdy(streams.inside, url, ("v9.channel.k8s.io",))
    assert refused.value.status == 403
    accepted = [value for name, value in refused.value.fields if name == "X-Accepted-Stream-Protocol-Versions"]
    assert accepted == ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"]
    with pytest.raises(Refused) as refused:
        open_spdy(streams.inside, url, ())
    assert refused.value.status == 400
    assert exit_code_of(Command(open_spdy(streams.inside, url)).status()) == 0  # none of these has used it up
    with pytest.raises(Refused) as refused:
        open_spdy(streams.inside, url)
    assert refused.value.status == 404


def test_streams_outlive_the_daemon(area):
    """Also where the port is fixed: the old server leaves it to the new one."""
    pods = PodHost(area, {"stream_address": "127.0.0.1:18080"})
    try:
        streams = Streams(pods)
        pod = pods.run_pod()
        container = pods.run_container(pod, pods.install("busybox", busybox()), "sleep", "1000")
        command = streams.run(container, "sh", "-c", "cat; exit 9", stdin=True)
        command.spdy.send(command.stdin, b"before\n")
        command.spdy.wait_for(command.stdout, b"before\n")
        forward = open_spdy(streams.inside, streams.forward_url(pod), ("portforward.k8s.io",))
        pods.end(signal.SIGKILL)
        pods.start()
        command.spdy.send(command.stdin, b"after\n")
        command.spdy.wait_for(command.stdout, b"before\nafter\n")
        command.spdy.finish(command.stdin)
        assert exit_code_of(command.status()) == 9
        url = streams.exec_url(container, "true")
        assert url.startswith("http://127.0.0.1:18080/exec/")
        assert exit_code_of(Command(open_spdy(streams.inside, url)).status()) == 0
        error, _ = (forward.open(port="9", requestid="1", streamtype=kind) for kind in ("error", "data"))
        assert b"Connection refused" in forward.wait_finished(error)
        forward.close()
        pods.remove_everything()
        wait_for_processes(pods, 1)  # of the stream servers: the old one has gone with its last session
        pods.check_nothing_is_left()
    finally:
        pods.close()


def wait_for_processes(pods, number):
    """That many stream servers in the whole lab."""
    until = time.monotonic() + 60
    while sum(command[0] == "triton-cri-stream" for pid in {*family_of(pods.lab.init), *family_of(pods.pid)} if (command := command_of(pid))) != number:
        assert time.monotonic() < until
        select.select([], [], [], 0.02)


def test_pods_with_a_user_namespace(streams, pods, image):
    identities = pods.messages.UserNamespace(mode=0, uids=[pods.messages.IDMapping(host_id=200_000, container_id=0, length=65_536)],
                                             gids=[pods.messages.IDMapping(host_id=200_000, container_id=0, length=65_536)])
    config = pods.pod_config()
    config.linux.security_context.namespace_options.userns_options.CopyFrom(identities)
    config.linux.security_context.namespace_options.network = 0
    pods.configure_network(pods.bridge())
    pod = pods.run_pod(config)
    options = pods.messages.NamespaceOption(pid=1)
    options.userns_options.CopyFrom(identities)
    container = pods.run_container(pod, image, "sh", tty=True, stdin=True, security={"namespace_options": options})
    command = streams.run(container, "sh", "-c", "read line; echo $line; id -u; test -w /proc/self/fd/1; echo $?; exit 2", tty=True, stdin=True)
    command.spdy.send(command.stdin, b"typed\n")
    command.spdy.wait_for(command.stdout, b"typed\r\ntyped\r\n0\r\n0\r\n")
    assert exit_code_of(command.status()) == 2
    plain = streams.run(container, "sh", "-c", "cat /proc/self/uid_map; cat", stdin=True)
    plain.spdy.send(plain.stdin, b"piped", True)
    assert plain.output().split() == [b"0", b"200000", b"65536", b"piped"]
    forward = open_spdy(streams.inside, streams.forward_url(pod), ("portforward.k8s.io",))
    error, _ = (forward.open(port="9", requestid="1", streamtype=kind) for kind in ("error", "data"))
    assert b"Connection refused" in forward.wait_finished(error)
    forward.close()
    attached = streams.attach(container, stdin=True, tty=True)
    attached.spdy.send(attached.stdin, b"echo here; exit\n")
    attached.spdy.wait_for(attached.stdout, b"\r\nhere\r\n")
    assert pods.wait_for_end(container).exit_code == 0

"""exec, attach and port-forward by kubectl: through the API server and kubelet to triton-cri-stream."""

import os
import re
import subprocess

from node_place import PATIENCE, PROGRAMS, is_ready
from test_pods_of_the_api import main


def words_of(cluster, protocol, *words):
    """A command of kubectl that speaks WebSocket, as it does by itself, or SPDY."""
    is_websocket = "true" if protocol == "websocket" else "false"
    choice = [f"{name}={is_websocket}" for name in ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")]
    kubectl = [PROGRAMS / "kubectl", "--kubeconfig", cluster.kubeconfig, "--cache-dir", cluster.area / "cache"]
    return cluster.lab.words("env", *choice, *kubectl, *words)


def run(cluster, protocol, *words, data=b""):
    return subprocess.run(words_of(cluster, protocol, *words), input=data, capture_output=True, timeout=PATIENCE, check=False)


def check_exec(cluster, protocol):
    done = run(cluster, protocol, "exec", "server", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, b"out\n") and done.stderr.startswith(b"err\n"), done
    data = os.urandom(3 << 20)
    done = run(cluster, protocol, "exec", "-i", "server", "--", "cat", data=data)
    assert done.returncode == 0 and done.stdout == data, (done.returncode, len(done.stdout), done.stderr)
    done = run(cluster, protocol, "exec", "server", "--", "nothing-of-that-name")
    assert done.returncode != 0 and b"nothing-of-that-name" in done.stderr, done


def check_attach(cluster, protocol):
    """What is typed comes back by the program that reads it, and its end ends nothing but this client."""
    with subprocess.Popen(words_of(cluster, protocol, "attach", "-i", "-q", "echo"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        client.stdin.write(f"by {protocol}\n".encode())
        client.stdin.flush()
        assert client.stdout.readline() == f"heard by {protocol}\n".encode()
        client.stdin.close()
        client.terminate()
    assert cluster.get("pod", "echo")["status"]["phase"] == "Running"


def check_port_forward(cluster, protocol):
    with subprocess.Popen(words_of(cluster, protocol, "port-forward", "server", ":80"), stdout=subprocess.PIPE, text=True) as client:
        try:
            port = re.search(r":(\d+) -> 80", client.stdout.readline())[1]
            for _ in range(3):
                assert cluster.answers(f"http://127.0.0.1:{port}/index.html") == "welcome"
        finally:
            client.terminate()


def test_streams(cluster):
    image = cluster.publish_busybox()
    cluster.start_cluster()
    server = main(image, "mkdir /pages; printf welcome > /pages/index.html; exec httpd -f -p 80 -h /pages",
                  readinessProbe={"httpGet": {"port": 80, "path": "/index.html"}, "periodSeconds": 1})
    cluster.create_pod("server", server)
    cluster.create_pod("echo", main(image, 'while read line; do echo "heard $line"; done; exec sleep 1000', stdin=True))
    cluster.wait_for("server", is_ready, "is ready")
    cluster.wait_for("echo", is_ready, "is ready")
    for protocol in ("websocket", "spdy"):
        check_exec(cluster, protocol)
        check_port_forward(cluster, protocol)
        check_attach(cluster, protocol)
    cluster.kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=100s")
    cluster.wait_until_empty()
    cluster.stop_kubelet()

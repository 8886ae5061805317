"""A cluster whose own servers are pods of its node, as kubeadm sets one up: kubelet starts etcd and the API server, and then
reports to them."""

import shutil
import signal

from node_place import PROGRAMS, is_ready, wait_until

PATIENCE = 180  # of an API server that starts on a busy machine


def server(cluster, name, image, words, *places, port, path, scheme="HTTPS"):
    """A static pod with the network of the node. `places`: what it has of the node, at the same path."""
    container = {
        "name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": [f"/bin/{name}", *map(str, words)],
        "volumeMounts": [{"name": f"place{number}", "mountPath": str(place)} for number, place in enumerate(places)],
        "readinessProbe": {"httpGet": {"port": port, "path": path, "host": "127.0.0.1", "scheme": scheme}, "periodSeconds": 1, "failureThreshold": 3},
    }
    volumes = [{"name": f"place{number}", "hostPath": {"path": str(place), "type": "Directory"}} for number, place in enumerate(places)]
    pod = cluster.manifest(name, container, hostNetwork=True, priorityClassName="system-node-critical", volumes=volumes)
    pod["metadata"]["namespace"] = "kube-system"
    return pod


def publish(cluster, name, program):
    """An image with the program, and with what it links with."""
    tree = cluster.area / f"program-{name}"
    cluster.inside("bash", "-ec", COPY, tree, program, name)
    return cluster.publish_tree(name, tree)


COPY = r"""
mkdir -p "$0/bin"
cp -L "$1" "$0/bin/$2"
while read -r library; do install -D "$library" "$0$library"; done < <(ldd "$1" | grep -oE '/[^ ]+' || true)
"""


def test_etcd_and_the_api_server_are_pods(cluster):
    data = cluster.area / "etcd"
    data.mkdir(mode=0o700)
    etcd = publish(cluster, "etcd", shutil.which("etcd"))
    api = publish(cluster, "kube-apiserver", PROGRAMS / "kube-apiserver")
    cluster.configure_network(cluster.bridge())
    cluster.place(server(cluster, "etcd", etcd, cluster.etcd_options(data), data, port=2379, path="/health", scheme="HTTP"))
    cluster.place(server(cluster, "kube-apiserver", api, cluster.api_options(), cluster.area, port=6443, path="/livez"))
    cluster.start_kubelet(f"--kubeconfig={cluster.kubelet_kubeconfig()}")
    wait_until(cluster.is_api_ready, lambda: f"the API server is ready\n{cluster.complaints()}\n{cluster.log_of('kube-apiserver')[-2000:]}", PATIENCE)
    wait_until(cluster.is_node_ready, lambda: f"the node is ready\n{cluster.complaints()}", PATIENCE)

    def mirrors():
        found = cluster.get("pods", "--namespace=kube-system")
        return {pod["metadata"]["name"] for pod in found["items"] if is_ready(pod)} if found else set()
    wait_until(lambda: mirrors() == {"etcd-node", "kube-apiserver-node"}, lambda: f"both are seen through themselves: {mirrors()}", PATIENCE)
    # An ordinary pod beside them, by the API.
    image = cluster.publish_busybox()
    cluster.create_pod("web", {"name": "main", "image": image, "command": ["sh", "-c", "exec sleep 1000"]})
    cluster.wait_for("web", is_ready, "is ready")
    # The daemon dies and comes back, and nobody who asks the API server notices.
    before = {one.id for one in cluster.call("ListContainers").containers if one.state == cluster.messages.CONTAINER_RUNNING}
    cluster.end(9)
    assert cluster.is_api_ready()
    cluster.start()
    wait_until(lambda: {one.id for one in cluster.call("ListContainers").containers if one.state == cluster.messages.CONTAINER_RUNNING} == before,
               "the same containers run")
    # So does etcd: its pod is started again, with what it had.
    (container,) = [one for one in cluster.call("ListContainers").containers if one.metadata.name == "main" and "etcd" in one.labels["io.kubernetes.pod.name"]]
    cluster.call("StopContainer", request=cluster.messages.StopContainerRequest(container_id=container.id, timeout=0))
    wait_until(lambda: cluster.is_api_ready() and cluster.get("pod", "web"), "the cluster is there again", PATIENCE)
    cluster.kubectl("delete", "pod", "web", "--wait=true", "--timeout=60s")
    for name in ("kube-apiserver", "etcd"):
        (cluster.manifests / f"{name}.json").unlink()
    cluster.wait_until_empty()
    cluster.stop_kubelet(signal.SIGTERM)

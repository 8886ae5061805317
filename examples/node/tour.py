#!/usr/bin/env python3
"""A tour of Kubernetes on tritoncrid for newcomers: etcd, an API server, kubelet and tritoncrid in namespaces of their own, and kubectl, each
command with what it prints. `./dev run kubernetes` runs it.

usage: tour.py BUILD     (needs root, and what tests/kubernetes/build makes with the argument kubelet)
"""

import json
import os
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/kubelet"), str(SOURCE / "tests")]


def pod(name, image, command, **more):
    container = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", command], **more.pop("container", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"tour": "yes"}},
            "spec": {"nodeName": "node", "terminationGracePeriodSeconds": 1, "containers": [container], **more}}


class Tour:
    """Shows commands on a node. `show` gets what a newcomer reads."""

    def __init__(self, node, show):
        self.node, self.show = node, show

    def tell(self, text):
        self.show(f"\n{text}\n\n")

    def kubectl(self, *words, document=None):
        self.show("# kubectl " + " ".join(words) + (f" <<<'{json.dumps(document)}'" if document else "") + "\n")
        output = self.node.kubectl(*words, document=document)
        self.show(output)
        return output


def walk(tour, image):
    node = tour.node
    tour.tell("The node. Its container runtime is tritoncrid; there is no containerd, no pause image and no shim.")
    tour.kubectl("get", "nodes", "-o", "wide")

    tour.tell("Three web servers, each with an address of its own from the bridge plugin, and a job that ends.")
    for number in range(3):
        tour.kubectl("create", "-f", "-", document=pod(
            f"web-{number}", image, f"mkdir /www; echo hello from web-{number} > /www/index.html; echo serving; exec httpd -f -p 80 -h /www",
            container={"readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1}, "resources": {"limits": {"memory": "50Mi"}}}))
    tour.kubectl("create", "-f", "-", document=pod("job", image, "echo counting; seq 3", restartPolicy="Never"))
    tour.kubectl("wait", "--for=condition=Ready", "pod", "web-0", "web-1", "web-2", "--timeout=100s")
    tour.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod", "job", "--timeout=100s")
    tour.kubectl("get", "pods", "-o", "wide")

    tour.tell("They answer, and what they have written is kept.")
    address = node.get("pod", "web-1")["status"]["podIP"]
    tour.show(f"# curl http://{address}/\n" + node.answers(f"http://{address}/"))
    tour.kubectl("logs", "web-1")
    tour.kubectl("logs", "job")

    tour.tell("tritoncrid is killed and started again: the pods have not noticed.")
    node.end(9)
    node.start()
    tour.show(f"# kill -9 tritoncrid; curl http://{address}/\n" + node.answers(f"http://{address}/"))
    tour.kubectl("get", "pods")

    tour.tell("A server with root of its own: what is user 0 in it is nobody on the host.")
    tour.kubectl("create", "-f", "-", document=pod("private", image, "id -u; cat /proc/self/uid_map; exec sleep 1000", hostUsers=False))
    tour.kubectl("wait", "--for=condition=Ready", "pod", "private", "--timeout=100s")
    tour.kubectl("logs", "private")

    tour.tell("All of it is deleted.")
    tour.kubectl("delete", "pods", "-l", "tour=yes", "--timeout=100s")
    tour.kubectl("get", "pods")


def main():
    if len(sys.argv) != 2 or os.geteuid() != 0:
        sys.exit(__doc__)
    os.environ["TRITON_BUILD"] = sys.argv[1]  # what the modules of the tests look at
    from cluster_place import ClusterNode

    def show(text):
        sys.stdout.write(text)
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="triton-tour.") as place:
        node = ClusterNode(Path(place))
        try:
            show("starting etcd, the API server, kubelet and tritoncrid\n")
            image = node.publish_busybox()
            node.start_cluster()
            walk(Tour(node, show), image)
            node.stop_kubelet()
            node.remove_everything()
        finally:
            node.close()


if __name__ == "__main__":
    main()

"""A cluster of one node: pods that are created by the API, and end by it."""

from node_place import is_ready, restarts_of, wait_until


def main(image, script, **more):
    return {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script], **more}


def test_pods_from_the_api_to_their_end(cluster):
    image = cluster.publish_busybox()
    cluster.start_cluster()
    node = cluster.get("node", "node")
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("triton://")
    # A server with a network of its own, and a volume of a ConfigMap.
    cluster.kubectl("create", "configmap", "pages", "--from-literal=index.html=welcome")
    server = main(image, "echo began; exec httpd -f -p 80 -h /pages", volumeMounts=[{"name": "pages", "mountPath": "/pages"}],
                  readinessProbe={"httpGet": {"port": 80, "path": "/index.html"}, "periodSeconds": 1},
                  resources={"limits": {"memory": "50Mi", "cpu": "500m"}},
                  securityContext={"allowPrivilegeEscalation": False, "seccompProfile": {"type": "RuntimeDefault"}})
    cluster.create_pod("server", server, volumes=[{"name": "pages", "configMap": {"name": "pages"}}])
    # Steps, one after the other, then the program, which ends well.
    steps = [{"name": f"step{number}", "image": image, "command": ["sh", "-c", f"echo {number} >> /shared/steps"],
              "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]} for number in (1, 2)]
    job = main(image, "cat /shared/steps; echo because > /dev/termination-log; exit 3", volumeMounts=[{"name": "shared", "mountPath": "/shared"}])
    cluster.create_pod("job", job, initContainers=steps, restartPolicy="Never", volumes=[{"name": "shared", "emptyDir": {}}])
    # One that eats its memory, and is started again.
    hungry = main(image, "exec tail /dev/zero", resources={"limits": {"memory": "20Mi"}})
    cluster.create_pod("hungry", hungry)
    # Two that see each other.
    watcher = {**main(image, "until ps | grep -q 'sleep 7[7]7'; do usleep 50000; done; echo seen; exec sleep 1000"), "name": "watcher"}
    cluster.create_pod("shared", main(image, "exec sleep 777"), watcher, shareProcessNamespace=True)

    # One whose root is nobody on the machine, with a volume of its own.
    private = main(image, "touch /shared/file; stat -c %u /shared/file /etc/hosts; cat /proc/self/uid_map; exec sleep 1000",
                   volumeMounts=[{"name": "shared", "mountPath": "/shared"}])
    cluster.create_pod("private", private, hostUsers=False, volumes=[{"name": "shared", "emptyDir": {}}])

    pod = cluster.wait_for("server", is_ready, "is ready")
    address = pod["status"]["podIP"]
    assert address.startswith("10.88.0.") and cluster.answers(f"http://{address}/index.html") == "welcome"
    assert cluster.kubectl("logs", "server") == "began\n"
    pod = cluster.wait_for("job", lambda one: one["status"]["phase"] == "Failed", "has ended")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"].strip()) == (3, "because")
    assert cluster.kubectl("logs", "job") == "1\n2\n"
    pod = cluster.wait_for("hungry", lambda one: restarts_of(one) > 0, "was restarted")
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "OOMKilled"
    cluster.wait_for("shared", lambda one: one["status"]["phase"] == "Running" and len(one["status"]["containerStatuses"]) == 2, "runs")
    wait_until(lambda: "seen" in cluster.kubectl("logs", "shared", "-c", "watcher"), "it sees the other's program")

    wait_until(lambda: len(cluster.run_kubectl("logs", "private").stdout.split("\n")) > 3, lambda: f"it runs: {cluster.get('pod', 'private')['status']}")
    lines = cluster.kubectl("logs", "private").split("\n")
    assert lines[:2] == ["0", "0"] and lines[2].split()[0] == "0" and int(lines[2].split()[1]) >= 65536, lines

    # More memory and processor time while it runs.
    (before,) = [one.id for one in cluster.call("ListContainers").containers if one.labels["io.kubernetes.pod.name"] == "server"]
    patch = '{"spec":{"containers":[{"name":"main","resources":{"limits":{"memory":"60Mi","cpu":"600m"},"requests":{"memory":"60Mi","cpu":"600m"}}}]}}'
    cluster.kubectl("patch", "pod", "server", "--subresource=resize", "--patch", patch)
    cluster.wait_for("server", lambda one: one["status"]["containerStatuses"][0].get("resources", {}).get("limits", {}).get("memory") == "60Mi", "has more memory")
    status = cluster.container_status(before)
    assert status.state == cluster.messages.CONTAINER_RUNNING and status.resources.linux.memory_limit_in_bytes == 60 << 20

    # kubelet and tritoncrid are killed, and come back to what runs.
    cluster.end_server(cluster.kubelet)
    cluster.end(9)
    cluster.start()
    cluster.start_kubelet(f"--kubeconfig={cluster.area}/kubelet.kubeconfig")
    wait_until(cluster.is_node_ready, "the node is ready again")
    pod = cluster.wait_for("server", is_ready, "is ready again")
    assert pod["status"]["podIP"] == address and restarts_of(pod) == 0

    cluster.kubectl("delete", "pods", "--all", "--timeout=100s")
    cluster.wait_until_empty()
    cluster.stop_kubelet()

"""kubelet alone, which runs the pods of a directory on tritoncrid."""

from node_place import is_ready, restarts_of, wait_until


def test_a_static_pod_from_its_manifest_to_its_removal(node):
    image = node.publish_busybox({"www/index.html": "welcome\n"})
    node.start_kubelet()
    script = "echo began; touch /tmp/alive; exec httpd -f -p 8080 -h /www"
    container = {
        "name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script],
        "livenessProbe": {"exec": {"command": ["cat", "/tmp/alive"]}, "periodSeconds": 1, "failureThreshold": 1},
        "readinessProbe": {"httpGet": {"port": 8080, "path": "/index.html", "host": "127.0.0.1"}, "periodSeconds": 1},
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "echo stopping > /proc/1/fd/1"]}}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
    node.place(node.manifest("web", container, hostNetwork=True, volumes=[{"name": "scratch", "emptyDir": {"medium": "Memory"}}]))
    pod = node.wait_for_pod("web", is_ready, "is ready")
    assert node.answers("http://127.0.0.1:8080/index.html") == "welcome\n"
    assert pod["status"]["containerStatuses"][0]["imageID"].startswith("sha256:") or "@sha256:" in pod["status"]["containerStatuses"][0]["imageID"]
    assert "began" in node.log_of("web")
    # Its probe fails: it is killed and started again.
    (running,) = node.call("ListContainers").containers
    node.call("ExecSync", request=node.messages.ExecSyncRequest(container_id=running.id, cmd=["rm", "/tmp/alive"], timeout=10))
    pod = node.wait_for_pod("web", lambda one: restarts_of(one) == 1 and is_ready(one), "was restarted")
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] in (0, 137, 143)
    assert "began" in node.log_of("web", attempt=1)
    # Its program ends.
    (running,) = [one for one in node.call("ListContainers").containers if one.state == node.messages.CONTAINER_RUNNING]
    node.call("StopContainer", request=node.messages.StopContainerRequest(container_id=running.id, timeout=0))
    node.wait_for_pod("web", lambda one: restarts_of(one) == 2 and is_ready(one), "was restarted again")
    # kubelet and the daemon come back to what runs, and leave it alone.
    (running,) = [one.id for one in node.call("ListContainers").containers if one.state == node.messages.CONTAINER_RUNNING]
    node.stop_kubelet()
    node.end(9)
    node.start()
    node.start_kubelet()
    node.wait_for_pod("web", is_ready, "is ready again")
    assert running in [one.id for one in node.call("ListContainers").containers if one.state == node.messages.CONTAINER_RUNNING]
    (node.manifests / "web.json").unlink()
    wait_until(lambda: "web" not in node.pods_of_kubelet(), "kubelet forgets the pod")
    node.wait_until_empty()
    node.stop_kubelet()

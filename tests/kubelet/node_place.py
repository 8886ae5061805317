"""A node of Kubernetes in namespaces of the test's own: kubelet on tritoncrid, with images of a registry that is there, too."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "host"), str(TESTS / "kubernetes")]
from cri_place import PATIENCE  # noqa: E402
from image_place import Layout, fill, program  # noqa: E402
from pod_place import PodHost, busybox  # noqa: E402

PROGRAMS = Path(os.environ.get("TRITON_KUBELET", TESTS.parent / "build" / "kubelet"))
NAME = "node"

# kubelet sets these on its machine, and ends when it cannot. Here it finds them set, and it alone: a /proc with something mounted
# on it could not be mounted in user namespaces.
SYSCTLS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
           "kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000}


def wait_until(check, what, patience=PATIENCE):
    """What check() gives, once it gives something. Kubernetes tells of most things only when it is asked."""
    until = time.monotonic() + patience
    while not (found := check()):
        assert time.monotonic() < until, f"not in {patience} s: {what() if callable(what) else what}"
        select.select([], [], [], 0.1)
    return found


class Node(PodHost):
    """tritoncrid and kubelet, which reads pods from a directory."""

    port, health_port, registry_port = 10250, 10248, 5000

    def __init__(self, area, settings=None):
        super().__init__(area, settings)
        self.kubelet = None
        self.kubelet_log = self.area / "kubelet.log"
        self.manifests = self.area / "manifests"
        self.state = self.area / "kubelet"
        self.pod_logs = self.area / "pod-logs"
        for directory in (self.manifests, self.state, self.pod_logs):
            directory.mkdir()
        self.servers = []
        self._make_machine()
        self._start_registry()

    # The machine.

    def _make_machine(self):
        """What kubelet writes on a machine beside the places that it is told: nothing of it reaches this one."""
        self.lab.run("mount", "-t", "tmpfs", "logs", "/var/log")
        for name, value in SYSCTLS.items():
            file = self.area / "sysctls" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n")
        self.lab.run("ip", "address", "add", "192.0.2.2/32", "dev", "lo")
        self.lab.run("ip", "route", "add", "default", "dev", "lo", "src", "192.0.2.2")
        # Its control groups are below one of ours, which each hierarchy has.
        self.lab.run("bash", "-c", GROUPS, "bash", self.parent)
        self.mounts_before = self.lab.mounts()

    def serve(self, name, *words):
        """Starts a server of the machine; its output is in NAME.log."""
        with (self.area / f"{name}.log").open("ab") as log:
            server = subprocess.Popen(self.lab.words(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.servers.append(server)
        return server

    def inside(self, *words, code=0):
        """Runs a program on the machine; returns its output."""
        done = subprocess.run(self.lab.words(*words), capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == code, f"{words}: {done.returncode} {done.stdout}{done.stderr}"
        return done.stdout

    def answers(self, url):
        """What a server on the machine says; None when it does not."""
        done = subprocess.run(self.lab.words("curl", "-skf", "-m", "10", url), capture_output=True, text=True, timeout=PATIENCE)
        return done.stdout if done.returncode == 0 else None

    def _start_registry(self):
        place = self.area / "registry"
        place.mkdir()
        address = f"127.0.0.1:{self.registry_port}"
        (place / "config.yml").write_text(
            f"version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {place}/data}}}}\nhttp: {{addr: '{address}'}}\n")
        (place / "policy.json").write_text('{"default":[{"type":"insecureAcceptAnything"}]}')
        self.serve("registry", program("docker-registry"), "serve", place / "config.yml")
        wait_until(lambda: self.answers(f"http://{address}/v2/") is not None, "the registry serves")

    def publish(self, name, files, config=()):
        """Makes an image; returns the name by which pods can have it."""
        tree = fill(self.area / f"tree-{name}", files)
        if "bin/sh" in files:
            (tree / "bin/busybox").write_bytes(Path(program("busybox")).read_bytes())
            (tree / "bin/busybox").chmod(0o755)
        return self.publish_tree(name, tree, config)

    def publish_tree(self, name, tree, config=()):
        """The same of a directory."""
        layout = Layout(self.area / f"layout-{name}")
        layout.make("latest", [tree], config)
        reference = f"127.0.0.1:{self.registry_port}/{name}:latest"
        self.inside(program("skopeo"), "--policy", self.area / "registry/policy.json", "copy", "--dest-tls-verify=false",
                    f"oci:{layout.path}:latest", f"docker://{reference}")
        return reference

    def publish_busybox(self, more=None):
        return self.publish("busybox", busybox(more))

    # kubelet.

    def configuration(self):
        return {
            "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "containerRuntimeEndpoint": f"unix://{self.socket}", "failCgroupV1": False, "cgroupDriver": "cgroupfs", "cgroupRoot": self.parent,
            "enforceNodeAllocatable": [], "staticPodPath": str(self.manifests), "podLogsDir": str(self.pod_logs),
            "fileCheckFrequency": "1s", "syncFrequency": "5s", "failSwapOn": False, "makeIPTablesUtilChains": False,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}, "authorization": {"mode": "AlwaysAllow"},
            "localStorageCapacityIsolation": False, "imageGCHighThresholdPercent": 100, "evictionHard": {"memory.available": "1Mi"},
            "serializeImagePulls": False, "resolvConf": "", "port": self.port, "healthzPort": self.health_port,
            "volumePluginDir": str(self.state / "volume-plugins"), "shutdownGracePeriod": "0s", "nodeStatusUpdateFrequency": "2s",
        }

    def start_kubelet(self, *options):
        configuration = self.area / "kubelet.json"
        configuration.write_text(json.dumps(self.configuration()))
        self.kubelet = self.serve(
            "kubelet", "unshare", "--mount", "--propagation=unchanged", "bash", "-c", KUBELET, self.area / "sysctls",
            PROGRAMS / "kubelet", f"--config={configuration}", f"--root-dir={self.state}", f"--hostname-override={NAME}",
            f"--cert-dir={self.state}/pki", "--minimum-container-ttl-duration=0s", "--maximum-dead-containers-per-container=1", "--node-ip=192.0.2.2", "--v=2", *options)
        wait_until(self.is_kubelet_healthy, lambda: f"kubelet serves: {self.kubelet_log.read_text()[-3000:]}")

    def is_kubelet_healthy(self):
        assert self.kubelet.poll() is None, f"kubelet has ended: {self.kubelet_log.read_text()[-3000:]}"
        return self.answers(f"http://127.0.0.1:{self.health_port}/healthz") == "ok"

    def stop_kubelet(self, how=signal.SIGTERM):
        """nsenter has one child, which is it."""
        self.end_server(self.kubelet, how)
        self.kubelet = None

    def end_server(self, server, how=signal.SIGKILL):
        for pid in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split() if server.poll() is None else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), how)
        server.wait(PATIENCE)
        self.servers.remove(server)

    def pods_of_kubelet(self):
        """By their names, without that of the node."""
        text = self.answers(f"https://127.0.0.1:{self.port}/pods")
        return {pod["metadata"]["name"].removesuffix(f"-{NAME}"): pod for pod in json.loads(text)["items"] or ()} if text else {}

    def manifest(self, name, *containers, **spec):
        """A pod, as a document."""
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
                "spec": {"containers": list(containers), "terminationGracePeriodSeconds": 1, **spec}}

    def place(self, document):
        """kubelet finds it there."""
        name = document["metadata"]["name"]
        hidden = self.area / f"{name}.json"
        hidden.write_text(json.dumps(document))
        hidden.rename(self.manifests / f"{name}.json")

    def wait_for_pod(self, name, check, what, patience=PATIENCE):
        """Its document once check(document) gives something."""
        def look():
            pod = self.pods_of_kubelet().get(name)
            return pod if pod and check(pod) else None
        return wait_until(look, lambda: f"{name} {what}: {json.dumps(self.pods_of_kubelet().get(name, {}).get('status'))}\n{self.complaints()}", patience)

    def complaints(self):
        lines = self.kubelet_log.read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if line.startswith(("E", "W"))][-12:])

    def wait_until_empty(self):
        """kubelet removes each minute what it does not need any more."""
        wait_until(lambda: not self.call("ListPodSandbox").items and not self.call("ListContainers").containers,
                   lambda: f"everything is removed: {self.call('ListPodSandbox').items}\n{self.complaints()}", 180)

    def log_of(self, pod, container="main", attempt=0):
        """What a container has written, as kubelet keeps it."""
        paths = list(self.pod_logs.glob(f"*_{pod}*/{container}/{attempt}.log"))
        lines = [line.split(" ", 3) for path in paths for line in path.read_text().splitlines()]
        return "".join(text + ("\n" if tag == "F" else "") for _, _, tag, text in lines)

    def check_nothing_is_left(self, patience=0):
        """After kubelet has ended. What it has for all pods is its own; of pods nothing is left there."""
        for group in self.groups():
            own = {group / "kubepods", group / "kubepods/besteffort", group / "kubepods/burstable"}
            found = {Path(path) for path, _, _ in os.walk(group)} - own - {group}
            assert not found, found
            for one in sorted(own, reverse=True):
                if one.exists():
                    one.rmdir()
        super().check_nothing_is_left(patience)

    def close(self):
        for server in list(self.servers):
            self.end_server(server)
        for line in self.lab.mounts():  # volumes, where a test has failed
            if f" {self.state}/" in line:
                subprocess.run(self.lab.words("umount", "-l", line.split()[4]), capture_output=True, timeout=PATIENCE)
        super().close()


KUBELET = r"""
mount --make-rprivate /proc
(cd "$0" && find . -type f) | while read -r name; do mount --bind "$0/$name" "/proc/sys/$name"; done
exec "$@"
"""

# In each hierarchy; those of cpuset need their parent's processors before anything can be in them.
GROUPS = r"""
for top in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [[ -e $top/cgroup.procs ]] || continue
    mkdir -p "$top$1"
    [[ ! -e $top/cpuset.cpus ]] || { cat "$top/cpuset.cpus" >"$top$1/cpuset.cpus"; cat "$top/cpuset.mems" >"$top$1/cpuset.mems"; }
done
"""


def is_ready(pod):
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod.get("status", {}).get("conditions", ()))


def restarts_of(pod):
    return sum(one["restartCount"] for one in pod.get("status", {}).get("containerStatuses", ()))

"""tritoncrid with pods, in namespaces of the test's own: what it leaves behind is seen, and ends with the test."""

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import grpc
import pytest
from cri_place import PATIENCE, PROGRAM, Cri, load_messages
from image_place import BUILD, Host, Layout, fill, program, run

# Adopts and reaps, as the first process of a machine does. crun 1.8 refuses the mixed layout of cgroups that this machine may have, and
# writes into an empty directory of that name: there is none here.
INIT = r"""
mount --make-rshared /
if mountpoint -q /sys/fs/cgroup/unified; then
    top=$(mktemp -d)
    mount -t tmpfs groups "$top"
    for one in /sys/fs/cgroup/*; do
        [[ $one == */unified ]] || ! mountpoint -q "$one" || { mkdir "$top/${one##*/}" && mount --bind "$one" "$top/${one##*/}"; }
    done
    mount --make-rprivate "$top"
    mount --rbind "$top" /sys/fs/cgroup
    mount --make-rprivate /sys/fs/cgroup
    umount -R "$top"
    rmdir "$top"
fi
ip link set lo up
echo ready
while :; do sleep 1000 & wait; done
"""


def children_of(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def family_of(pid):
    found = [pid]
    for one in found:
        found += children_of(one)
    return found


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


class Lab:
    """A first process in new namespaces."""

    def __init__(self):
        self.process = subprocess.Popen(
            ["unshare", "-m", "-p", "-n", "-i", "-u", "--fork", "--kill-child", "--propagation", "slave", "--mount-proc",
             "bash", "-c", INIT], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self.process.stdout.readline() == b"ready\n"
        (self.init,) = children_of(self.process.pid)

    def words(self, *words):
        return ["nsenter", "-t", str(self.init), "-m", "-p", "-n", "-i", "-u", *map(str, words)]

    def run(self, *words, **more):
        return subprocess.run(self.words(*words), check=True, capture_output=True, text=True, timeout=PATIENCE, **more)

    def processes(self):
        """Command lines of all that run in it, but its own."""
        own = {"bash", "sleep"}
        return [command for pid in family_of(self.init)[1:] if (command := command_of(pid)) and command[0] not in own]

    def mounts(self):
        return Path(f"/proc/{self.init}/mountinfo").read_text().splitlines()

    def close(self):
        self.process.kill()
        self.process.wait(PATIENCE)


class PodHost(Cri):
    """The daemon in a lab, and calls about pods."""

    def __init__(self, area, settings=None):
        if not shutil.which("crun"):
            pytest.skip("crun is not here")
        if not PROGRAM.exists():
            pytest.skip(f"{PROGRAM} is not built")
        self.area = Path(area)
        self.host = Host(self.area)
        configuration = {"storage": {"backend": "directory"}, "cri": {
            "cgroup_driver": "cgroupfs", "plugin_directories": f"{self.area}/plugins:/usr/lib/cni", **(settings or {})}}
        (self.host.root / "etc/triton/triton.json").write_text(json.dumps(configuration))
        self.messages = load_messages()
        self.socket = self.host.root / "run/triton/cri.sock"
        self.log = self.area / "cri.log"
        self.logs = self.area / "logs"
        self.parent = f"/triton-test-{os.getpid()}-{time.monotonic_ns()}"
        self.lab = Lab()
        # As on a host, where /run is a file system of its own.
        (self.host.root / "run").mkdir(parents=True, exist_ok=True)
        self.lab.run("mount", "-t", "tmpfs", "run", self.host.root / "run")
        self.mounts_before = self.lab.mounts()
        self.channel = None
        self.process = None
        self.start()

    def start(self):
        address = self.area / "notify"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, self.log.open("a") as log:
            ready.bind(str(address))
            self.process = subprocess.Popen(
                self.lab.words(PROGRAM, "--log-level", "debug"), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.environment({"NOTIFY_SOCKET": str(address)}), start_new_session=True)
            exited = os.pidfd_open(self.process.pid)
            try:
                while True:
                    readable, _, _ = select.select([ready, exited], [], [], PATIENCE)
                    assert ready in readable, f"tritoncrid did not come up: {self.log.read_text()[-2000:]}"
                    if "READY=1" in ready.recv(65536).decode().splitlines():
                        break
            finally:
                os.close(exited)
        (self.pid,) = children_of(self.process.pid)
        # /run is the lab's.
        self.channel = grpc.insecure_channel(f"unix:/proc/{self.lab.init}/root{self.socket}")

    def end(self, how=signal.SIGTERM):
        self.channel.close()
        os.kill(self.pid, how)
        self.process.wait(PATIENCE)

    def close(self):
        """With everything that a test has left on purpose."""
        if self.process.poll() is None:
            self.end(signal.SIGKILL)
        self.lab.close()
        for group in self.groups():
            remove_group(group)

    # What is left.

    def groups(self):
        """Where the pods' control group is, in all hierarchies."""
        places = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()]
        return [place / self.parent[1:] for place in places if (place / self.parent[1:]).is_dir()]

    def remove_everything(self):
        for pod in self.call("ListPodSandbox").items:
            self.stop_pod(pod.id)
            self.remove_pod(pod.id)

    def check_nothing_is_left(self, patience=0):
        """After everything was removed. With patience: by a daemon that was killed, and has no client that waits."""
        until = time.monotonic() + patience
        while patience and (self.monitors() or list((self.host.root / "var/lib/triton/cri/pods").iterdir())) and time.monotonic() < until:
            self.call("Version")
        assert not self.call("ListPodSandbox").items
        assert not self.call("ListContainers").containers
        run_directory = Path(f"/proc/{self.lab.init}/root{self.host.root}/run/triton/cri")
        found = [str(one) for name in ("pods", "runtime") if (run_directory / name).exists() for one in (run_directory / name).iterdir()]
        for name in ("pods", "containers", "archive"):
            place = self.host.root / "var/lib/triton/cri" / name
            found += [str(one) for one in place.iterdir()] if place.exists() else []
        pins = Path(f"/proc/{self.lab.init}/root{self.host.root}/run/netns")
        found += [str(one) for one in pins.iterdir()] if pins.exists() else []
        leases = self.area / "leases"
        found += [str(one) for one in leases.rglob("*") if one.is_file() and one.name[0].isdigit()] if leases.exists() else []
        found += [line for line in self.lab.run("ip", "-o", "link", "show", "type", "veth").stdout.splitlines()]
        found += [str(one) for group in self.groups() for one in group.iterdir() if one.is_dir()]
        found += [" ".join(command) for command in self.lab.processes() if Path(command[0]).name != "tritoncrid"]
        found += [line for line in self.lab.mounts() if line not in self.mounts_before]
        assert not found, found

    # Networks.

    def configure_network(self, text, name="10-test.conflist"):
        directory = self.host.root / "etc/cni/net.d"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text if isinstance(text, str) else json.dumps(text))

    def bridge(self, version="1.0.0", more=(), ranges=None):
        """A list of Debian's plugins."""
        if not Path("/usr/lib/cni/bridge").exists():
            pytest.skip("containernetworking-plugins are not here")
        return {"cniVersion": version, "name": "test", "plugins": [
            {"type": "bridge", "bridge": "test0", "isGateway": True, "hairpinMode": True,
             "ipam": {"type": "host-local", "dataDir": str(self.area / "leases"), "routes": [{"dst": "0.0.0.0/0"}],
                      "ranges": ranges or [[{"subnet": "10.88.0.0/24"}]]}}, *more]}

    def plugin(self, name, script):
        """A plugin of the test's own, in a directory of the daemon's."""
        directory = self.area / "plugins"
        directory.mkdir(exist_ok=True)
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)

    # Calls.

    def install(self, name, files, config=()):
        """Makes an image and installs it. Returns its id."""
        layout = Layout(self.area / f"layout-{name}")
        tree = fill(self.area / f"tree-{name}", files)
        if "bin/sh" in files:
            shutil.copy(program("busybox"), tree / "bin/busybox")
        layout.make("latest", [tree], config)
        before = {image.id for image in self.images()}
        self.host.run("import", f"oci:{layout.path}:latest")
        (made,) = {image.id for image in self.images()} - before
        return made

    def pod_config(self, name="pod", attempt=0, **linux):
        options = self.messages.NamespaceOption(network=linux.pop("network", 2), pid=linux.pop("pid", 1), ipc=linux.pop("ipc", 0))
        security = self.messages.LinuxSandboxSecurityContext(namespace_options=options)
        return self.messages.PodSandboxConfig(
            metadata=self.messages.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default", attempt=attempt),
            hostname=linux.pop("hostname", ""), dns_config=linux.pop("dns", None), port_mappings=linux.pop("ports", []),
            log_directory=str(self.logs / name), labels={"app": name}, annotations={"note": name},
            linux=self.messages.LinuxPodSandboxConfig(cgroup_parent=self.parent, security_context=security, **linux))

    def run_pod(self, config=None, timeout=PATIENCE):
        return self.call("RunPodSandbox", request=self.messages.RunPodSandboxRequest(config=config or self.pod_config()),
                         timeout=timeout).pod_sandbox_id

    def stop_pod(self, pod):
        self.call("StopPodSandbox", request=self.messages.StopPodSandboxRequest(pod_sandbox_id=pod))

    def remove_pod(self, pod):
        self.call("RemovePodSandbox", request=self.messages.RemovePodSandboxRequest(pod_sandbox_id=pod))

    def pod_status(self, pod):
        return self.call("PodSandboxStatus", request=self.messages.PodSandboxStatusRequest(pod_sandbox_id=pod)).status

    def is_ready(self, pod):
        return self.pod_status(pod).state == self.messages.SANDBOX_READY

    def container_config(self, image, *command, name="main", attempt=0, security=None, resources=None, **more):
        context = self.messages.LinuxContainerSecurityContext(**(security or {}))
        if not context.HasField("namespace_options"):
            context.namespace_options.CopyFrom(self.messages.NamespaceOption(pid=1))
        linux = self.messages.LinuxContainerConfig(security_context=context)
        linux.resources.CopyFrom(self.messages.LinuxContainerResources(**(resources or {})))
        return self.messages.ContainerConfig(
            metadata=self.messages.ContainerMetadata(name=name, attempt=attempt), image=self.spec(image), command=list(command),
            log_path=f"{name}_{attempt}.log", labels={"container": name}, linux=linux, **more)

    def create(self, pod, config, pod_config=None):
        request = self.messages.CreateContainerRequest(pod_sandbox_id=pod, config=config, sandbox_config=pod_config)
        return self.call("CreateContainer", request=request).container_id

    def start_container(self, container):
        self.call("StartContainer", request=self.messages.StartContainerRequest(container_id=container))

    def run_container(self, pod, image, *command, **more):
        container = self.create(pod, self.container_config(image, *command, **more))
        self.start_container(container)
        return container

    def begin_stop(self, container, grace=0):
        return self.begin("StopContainer", self.messages.StopContainerRequest(container_id=container, timeout=grace))

    def stop_container(self, container, grace=0):
        self.begin_stop(container, grace).result()

    def remove_container(self, container):
        self.call("RemoveContainer", request=self.messages.RemoveContainerRequest(container_id=container))

    def container_status(self, container):
        return self.call("ContainerStatus", request=self.messages.ContainerStatusRequest(container_id=container)).status

    def state(self, container):
        return self.messages.ContainerState.Name(self.container_status(container).state)

    def wait_for_end(self, container):
        """Its status once it has exited. There is no event to wait for yet: this asks as kubelet does."""
        until = time.monotonic() + PATIENCE
        while (status := self.container_status(container)).state != self.messages.CONTAINER_EXITED:
            assert time.monotonic() < until, f"container {container} does not end: {self.log.read_text()[-2000:]}"
            select.select([], [], [], 0.02)
        return status

    def wait_for_log(self, container, text):
        until = time.monotonic() + PATIENCE
        while text not in self.text_of(container):
            assert time.monotonic() < until, f"{text} is not in {self.text_of(container)}"
            select.select([], [], [], 0.02)

    def log_lines(self, container):
        """Time, stream, tag and text of each line."""
        path = Path(self.container_status(container).log_path)
        return [line.split(" ", 3) for line in path.read_text(errors="surrogateescape").split("\n")[:-1]]

    def text_of(self, container):
        return "".join(text + ("\n" if tag == "F" else "") for _, _, tag, text in self.log_lines(container))

    def monitors(self):
        return [pid for pid in family_of(self.lab.init)
                if (command := command_of(pid)) and Path(command[0]).name == "triton-pod" and len(command) > 2]

    def monitors_of(self, pod):
        return [pid for pid in self.monitors() if Path(command_of(pid)[1]).name == pod]


def remove_group(group):
    """With what is below it."""
    kill = group / "cgroup.kill"
    if kill.exists():
        kill.write_text("1")
    for path, _, _ in os.walk(group, topdown=False):
        until = time.monotonic() + 10
        while os.path.isdir(path):
            try:
                os.rmdir(path)
            except OSError:
                if time.monotonic() > until:
                    break
                select.select([], [], [], 0.02)


WORDS = """sh cat echo id sleep true false ls mount umount touch env pwd head yes kill hostname stat readlink grep mknod chmod dd wget nc ip ps setsid mkdir
 ln tr seq unshare wc chown printf usleep rm tail date cut tee stty tty httpd""".split()


def busybox(more=None):
    """The files of a root with busybox by its names, and accounts."""
    program("busybox")
    accounts = "root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1001:web:/home/web:/bin/sh\n"
    groups = "root:x:0:\nweb:x:1001:\nextra:x:2000:web\n"
    return {**{f"bin/{word}": ("link", "busybox") for word in WORDS}, "etc/passwd": accounts, "etc/group": groups, "root/": None,
            "tmp/": None, **(more or {})}


@pytest.fixture
def pods(area):
    daemon = PodHost(area)
    yield daemon
    try:
        daemon.remove_everything()
        daemon.check_nothing_is_left()
    finally:
        daemon.close()

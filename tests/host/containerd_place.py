"""containerd in a lab, with the calls of tritoncrid's: the peer of tests and benchmarks."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import grpc
from cri_place import PATIENCE, load_messages
from pod_place import PodHost, children_of, command_of, family_of, remove_group

CONFIGURATION = """version = 2
root = "{area}/root"
state = "{area}/state"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
                    "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{area}/socket"
[ttrpc]
  address = "{area}/ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "{area}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  disable_apparmor = true
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{registries}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{area}/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "default"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.default]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.default.options]
        BinaryName = "{runtime}"
"""


def missing(runtime="crun"):
    """The programs that are not here."""
    return [name for name in ("containerd", "containerd-shim-runc-v2", runtime) if not shutil.which(name)]


class Containerd(PodHost):
    """The daemon beside another one in its lab. Images come from the registry of that lab, or from where hosts.toml leads."""

    def __init__(self, area, lab, pause, runtime="crun", registries=""):
        assert not missing(runtime)
        self.area = Path(area) / "containerd"
        (self.area / "net.d").mkdir(parents=True)
        self.logs = self.area / "logs"
        self.log = self.area / "log"
        self.socket = self.area / "socket"
        self.messages = load_messages()
        self.lab = lab
        self.parent = f"/triton-peer-{os.getpid()}-{time.monotonic_ns()}"
        # Its shims listen in /run/containerd, whatever it is told.
        self.lab.run("mount", "-t", "tmpfs", "run", "/run")
        (self.area / "config.toml").write_text(CONFIGURATION.format(
            area=self.area, pause=pause, registries=registries, runtime=shutil.which(runtime)))
        self.process = None
        self.start()

    def start(self):
        """Returns when it answers."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self.lab.words(shutil.which("containerd"), "--config", self.area / "config.toml"),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.channel = grpc.insecure_channel(f"unix:{self.socket}")
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.call("ListPodSandbox", timeout=5)
                break
            except grpc.RpcError:
                assert self.process.poll() is None and time.monotonic() < until, f"containerd does not start: {self.log.read_text()[-2000:]}"
                time.sleep(0.002)  # it tells nobody when it is ready
        (self.pid,) = children_of(self.process.pid)

    def configure_network(self, text, name="10-test.conflist"):
        (self.area / "net.d" / name).write_text(text)

    def monitors(self):
        return [pid for pid in family_of(self.lab.init)
                if (command := command_of(pid)) and Path(command[0]).name == "containerd-shim-runc-v2"]

    def close(self):
        if self.process.poll() is None:
            self.end(signal.SIGKILL)
        for group in self.groups():
            remove_group(group)

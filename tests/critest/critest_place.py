"""A lab in which critest, the conformance suite of the container runtime interface, finds its images without the internet."""

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "host"), str(TESTS / "kubelet"), str(TESTS / "kubernetes")]
from image_place import Layout, fill, program  # noqa: E402
from node_place import Node  # noqa: E402
from pod_place import busybox  # noqa: E402

CRITEST = Path(os.environ.get("TRITON_CRITEST", TESTS.parent / "build" / "critest")) / "critest"
PATIENCE = 3600  # of all cases, on a busy machine
STAGING = "k8s-staging-cri-tools"

ACCOUNTS = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
GROUPS = "root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n"
# Debian's busybox has neither.
SCRIPTS = {
    "pgrep": "#!/bin/sh\npidof \"$@\" | tr ' ' '\\n'\n",
    "ipcs": "#!/bin/sh\nawk 'NR > 1 { print $2 }' /proc/sysvipc/shm\n",
}
# Its process has the name nginx and is a master, and a file has its number; it writes its name: cases look for all of that.
WEB_SERVER = """#!/bin/sh
echo {name} serves
echo $$ >/var/run/nginx.pid
/bin/httpd -f -p {port} -h /www &
trap 'kill $!; exit 0' TERM QUIT INT
wait
"""
# As the image nonewprivs of Kubernetes' own tests.
PRIVILEGES = """#include <stdio.h>
#include <unistd.h>
int main(void) { printf("Effective uid: %d\\n", (int)geteuid()); return 0; }
"""


class CritestLab(Node):
    """tritoncrid, and a registry with images of critest's names. Its mirror is configured for containerd and for tritoncrid in one place."""

    def __init__(self, area):
        super().__init__(area, {"registry_directory": "/registries"})
        self.registries = self.host.root / "registries"
        (self.registries / "_default").mkdir(parents=True)
        (self.registries / "_default/hosts.toml").write_text(f'[host."http://127.0.0.1:{self.registry_port}"]\n')
        self._publish_images()

    def network(self, bridge, subnet):
        return json.dumps({"cniVersion": "1.0.0", "name": bridge, "plugins": [
            {"type": "bridge", "bridge": bridge, "isGateway": True, "ipMasq": False, "hairpinMode": True,
             "ipam": {"type": "host-local", "dataDir": f"{self.area}/leases-{bridge}", "routes": [{"dst": "0.0.0.0/0"}],
                      "ranges": [[{"subnet": subnet}]]}},
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}]})

    # Images.

    def _files(self, more=None):
        """busybox by all its names. `ls` is a file of its own, because a case masks it, and nothing else."""
        names = subprocess.run([program("busybox"), "--list"], capture_output=True, text=True, check=True, timeout=60).stdout.split()
        links = {f"bin/{name}": ("link", "busybox") for name in names if name not in ("busybox", "ls")}
        files = {**busybox(), **links, "var/run/": None, "www/index.html": "welcome\n", "etc/passwd": ACCOUNTS, "etc/group": GROUPS, **(more or {})}
        return {name: content for name, content in files.items() if name != "bin/ls"}

    def _image(self, name, tags, files, config=(), programs=None):
        layout = Layout(self.area / f"layout-{name}")
        tree = fill(self.area / f"tree-{name}", files)
        for path, source in {"bin/busybox": program("busybox"), "bin/ls": program("busybox"), **self._scripts, **(programs or {})}.items():
            shutil.copy(source, tree / path)
            (tree / path).chmod(0o755)
        for path in (programs or {}):
            if path == "nnp":
                (tree / path).chmod(0o4755)
        layout.make("latest", [tree], config)
        for tag in tags:
            self.inside(program("skopeo"), "--policy", self.area / "registry/policy.json", "copy", "--dest-tls-verify=false",
                        f"oci:{layout.path}:latest", f"docker://127.0.0.1:{self.registry_port}/{tag}")

    def _write_script(self, name, text):
        path = self.area / f"script-{name}"
        path.write_text(text)
        return path

    def _publish_images(self):
        self._scripts = {f"bin/{name}": self._write_script(name, text) for name, text in SCRIPTS.items()}
        shell = ["--config.cmd", "sh"]
        self._image("busybox", ["e2e-test-images/busybox:1.29-2"], self._files(), shell)
        for name, tag in (("latest", "latest"), ("tag", "test")):
            self._image(name, [f"{STAGING}/test-image-{name}:{tag}"], self._files({"name": name}), shell)
        self._image("all", [f"{STAGING}/test-image-tag:all"], self._files({"all": "1"}), shell)
        self._image("tags", [f"{STAGING}/test-image-tags:{tag}" for tag in (1, 2, 3)], self._files({"tags": "1"}), shell)
        self._image("pause", ["pause:3.9"], self._files({"pause": "1"}), ["--config.cmd", "/bin/sleep", "--config.cmd", "1000000"])
        for number in (1, 2, 3):
            self._image(f"number{number}", [f"{STAGING}/test-image-{number}:latest"], self._files({"number": str(number)}), shell)
        for name, user in (("uid", "1002"), ("username", "www-data"), ("uid-group", "1003:50000"), ("username-group", "www-data:50000")):
            self._image(f"user-{name}", [f"{STAGING}/test-image-user-{name}:latest"], self._files({"user": name}), [*shell, "--config.user", user])
        accounts = "root:x:0:0:root:/root:/bin/sh\ndefault-user:x:1000:1000::/:/bin/sh\n"
        groups = "root:x:0:\ndefault-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n"
        self._image("groups", [f"{STAGING}/test-image-predefined-group:latest"],
                    self._files({"etc/passwd": accounts, "etc/group": groups}), [*shell, "--config.user", "1000"])
        for name, port, tag in (("nginx", 80, "e2e-test-images/nginx:1.14-2"), ("httpd", 80, "e2e-test-images/httpd:2.4.39-4"),
                                ("hostnet", 12003, f"{STAGING}/hostnet-nginx-amd64:latest")):
            script = self._write_script(name, WEB_SERVER.format(name=name, port=port))
            self._image(name, [tag], self._files({"server": name}), ["--config.cmd", "/bin/nginx", "--config.cmd", "master process"],
                        {"bin/nginx": script})
        source = self.area / "privileges.c"
        source.write_text(PRIVILEGES)
        subprocess.run(["cc", "-static", "-O1", "-o", self.area / "nnp", source], check=True, timeout=300)
        self._image("nnp", ["e2e-test-images/nonewprivs:1.3"], self._files({"nnp": ""}), ["--config.cmd", "/nnp"], {"nnp": self.area / "nnp"})

    # The suite.

    def critest(self, host, name, focus=None):
        """Runs the cases on a host's socket. What each has come to, by its name: passed, skipped, or a text that says why it failed."""
        report = self.area / f"critest-{name}.xml"
        output = self.area / f"critest-{name}.log"
        words = [CRITEST, f"--runtime-endpoint=unix://{host.socket}", f"--image-endpoint=unix://{host.socket}", f"--ginkgo.junit-report={report}",
                 "--ginkgo.no-color", "--ginkgo.timeout=50m"]
        if focus:
            words.append(f"--ginkgo.focus={focus}")
        with output.open("w") as log:
            subprocess.run(self.lab.words(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=PATIENCE, cwd=self.area)
        assert report.exists(), f"critest has left no report: {output.read_text(errors='replace')[-3000:]}"
        return results_in(report)


def results_in(report):
    results = {}
    for case in xml.parse(report).getroot().iter("testcase"):
        name = case.get("name")
        if not name.startswith("[It]"):
            continue
        failure = case.find("failure")
        failure = case.find("error") if failure is None else failure
        if failure is not None:
            results[name] = f"failed: {' '.join((failure.get('message') or '').split())[:300]}"
        else:
            results[name] = "skipped" if case.find("skipped") is not None else "passed"
    return results

"""examples/kubernetes: what the API server makes of it, what the account of it may do, and whether it works."""

import http.client
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.agent import AGENT
from harness.process import BINARY, Exit, Launcher, eventually, is_static
from rig import CONFIGURATION, ENVIRONMENT, EXAMPLE, PORT, SERVICE_ACCOUNT, Namespace, Volume, tells_of

FILES = sorted(path.relative_to(EXAMPLE) for path in EXAMPLE.rglob("*.yaml"))
USER = 4059
LIBRARIES = ("7.1.67", "7.3.63", "7.4.5")


@pytest.fixture
def bare(cluster, fresh_name):
    """A namespace without anything, where Pod Security lets in nothing but what is confined as strictly as it knows."""
    namespace = Namespace(cluster, fresh_name("example"), roles=False)
    labels = [f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn")]
    cluster.kubectl("label", "namespace", namespace.name, *labels)
    return namespace


@pytest.mark.parametrize("file", FILES, ids=str)
def test_the_server_takes_each_file(bare, file):
    """Strictly: an unknown or double field is an error, and what the server would warn of is one, too."""
    done = bare.cluster.run("apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f",
                            EXAMPLE / file, namespace=bare.name)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_applied_as_it_stands(bare):
    applied = bare.kubectl("apply", "-f", EXAMPLE).splitlines()
    assert len(applied) == 7 and all(line.endswith(" created") for line in applied)
    assert bare.kubectl("diff", "-f", EXAMPLE) == ""  # the server has changed nothing of it
    text = bare.get("configmap", "servers")["data"]["config.json"]
    done = subprocess.run([BINARY, "check", "-", "--fdbserver-path", "/bin/true", "--strict",
                           "--main-container-version", "7.3.63", "--process-count", "2"], input=text, text=True,
                          env={"FDB_INSTANCE_ID": "servers-0"}, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert [port in done.stdout for port in ("4500", "4502", "4504")] == [True, True, False], done.stdout


@pytest.mark.parametrize("verb, what, allowed", [
    ("watch", "pods", True), ("patch", "pods", True), ("create", "events", True), ("patch", "events", True),
    ("get", "pods", False), ("list", "pods", False), ("update", "pods", False), ("delete", "pods", False),
    ("create", "pods", False), ("patch", "pods --subresource=status", False),
    ("create", "pods --subresource=exec", False), ("list", "events", False), ("delete", "events", False),
    ("watch", "nodes", False), ("get", "secrets", False), ("get", "configmaps", False),
    ("watch", "pods --all-namespaces", False)])
def test_the_account_may_do_what_it_needs(bare, verb, what, allowed):
    bare.kubectl("apply", "-f", EXAMPLE / "rbac.yaml")
    done = bare.cluster.run("auth", "can-i", verb, *what.split(), "--as",
                            f"system:serviceaccount:{bare.name}:{SERVICE_ACCOUNT}", namespace=bare.name)
    assert done.stdout.strip() == ("yes" if allowed else "no")


@pytest.mark.parametrize("verb, what", [("watch", "nodes"), ("patch", "pods --subresource=status")])
def test_the_options_allow_what_they_say(bare, verb, what):
    bare.kubectl("apply", "-f", EXAMPLE / "rbac.yaml", "-f", EXAMPLE / "options")
    user = f"system:serviceaccount:{bare.name}:{SERVICE_ACCOUNT}"
    if what == "nodes":
        assert bare.cluster.run("auth", "can-i", verb, *what.split(), "--as", user).stdout.strip() == "no"
        bare.kubectl("create", "clusterrolebinding", bare.name, "--clusterrole=triton-launch-node-labels",
                     f"--serviceaccount={bare.name}:{SERVICE_ACCOUNT}")
    done = bare.cluster.run("auth", "can-i", verb, *what.split(), "--as", user, namespace=bare.name)
    assert done.stdout.strip() == "yes"


# ---- the example in operation


@pytest.fixture(scope="session")
def server_program(tmp_path_factory):
    """Makes the stand-in of a server for a version, as images/build does."""
    source = EXAMPLE.parent / "rolling-upgrade" / "server.cpp"

    def make(version):
        path = tmp_path_factory.mktemp("server") / "fdbserver"
        subprocess.run(["g++", "-std=c++23", "-static", f'-DVERSION="{version}"', "-o", path, source], check=True)
        return path

    return {version: make(version) for version in ("7.3.63", "7.4.5")}


class Containers:
    """The containers of a pod of the StatefulSet: what its template says, done by place instead of a runtime."""

    def __init__(self, namespace, programs, area, servers):
        self.namespace = namespace
        self.programs = programs
        self.area = area
        self.servers = servers
        self.started = []
        self.volumes = {}
        self.name = "servers-0"
        template = namespace.get("statefulset", "servers")["spec"]["template"]
        self.spec = template["spec"]
        namespace.kubectl("create", "-f", "-", document={
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name, **template["metadata"]},
            "spec": {**self.spec, "nodeName": "node-a"}})
        for volume in self.spec["volumes"]:
            self._mount(volume)

    def _mount(self, volume):
        directory = self.area / "volumes" / volume["name"]
        if "configMap" in volume:
            self.volumes[volume["name"]] = Volume(directory)
            self.update_configuration(volume["name"])
        elif "projected" in volume:
            account = Volume(directory)
            self.volumes[volume["name"]] = account
            token, certificate, namespace = volume["projected"]["sources"]
            assert token["serviceAccountToken"]["path"] == "token"
            assert certificate["configMap"]["items"][0]["path"] == "ca.crt"
            assert namespace["downwardAPI"]["items"][0]["path"] == "namespace"
            account.write(token=self.namespace.token(self.name), namespace=self.namespace.name,
                          ca__crt=Path(self.namespace.cluster.ca).read_text())
        else:
            assert "emptyDir" in volume
            directory.mkdir(parents=True)
            os.chown(directory, USER, USER)  # fsGroup
            self.volumes[volume["name"]] = directory

    def update_configuration(self, name="configuration"):
        """The mounted ConfigMap becomes what the server has."""
        data = self.namespace.get("configmap", "servers")["data"]
        self.volumes[name].write(**{file.replace(".", "__"): text for file, text in data.items()})

    def _image(self, name, version):
        """A root directory as images/build makes it, with mount points."""
        root = self.area / f"root-{name}"
        mounts = [mount["mountPath"] for container in self.spec["initContainers"] + self.spec["containers"]
                  for mount in container["volumeMounts"]]
        for directory in ["/usr/bin", "/usr/lib/fdb/multiversion", "/proc", "/dev", "/var/fdb", *mounts]:
            (root / directory[1:]).mkdir(parents=True, exist_ok=True)
        root.chmod(0o777)  # place leaves a FIFO there
        for source, target in ((BINARY, "triton-launch"), (AGENT, "triton-launch-agent"),
                               (self.servers[version], "fdbserver")):
            shutil.copy(source, root / "usr/bin" / target)
        for library in LIBRARIES:
            (root / f"usr/lib/fdb/multiversion/libfdb_c_{library}.so").write_text(library)
        (root / "var/fdb/version").write_text(f"{version}\n")
        return root

    def start(self, name, version="7.3.63"):
        """Starts the container with this name."""
        container = next(container for container in self.spec["initContainers"] + self.spec["containers"]
                         if container["name"] == name)
        assert container["securityContext"]["readOnlyRootFilesystem"]
        root = self._image(f"{name}-{len(self.started)}", version)
        place = ["--root", root, "--uid", str(USER), "--bind", f"/proc:{root}/proc", "--bind", f"/dev:{root}/dev"]
        for mount in container["volumeMounts"]:
            volume = self.volumes[mount["name"]]
            source = volume.directory if isinstance(volume, Volume) else volume
            place += ["--bind", f"{source}:{root}{mount['mountPath']}"]
        values = {"metadata.name": self.name, "metadata.namespace": self.namespace.name, "spec.nodeName": "node-a"}
        environment = {variable["name"]: values[variable["valueFrom"]["fieldRef"]["fieldPath"]]
                       for variable in container.get("env", [])}
        environment |= {"KUBERNETES_SERVICE_HOST": self.namespace.cluster.host, "KUBERNETES_SERVICE_PORT": str(PORT)}
        launcher = Launcher(self.area, self.programs, container["args"], pid1=True, env=environment,
                            place=list(map(str, place)), binary="/usr/bin/triton-launch")
        self.started.append(launcher)
        return launcher

    def annotation(self, key, text):
        """Waits until an annotation of the pod is this text."""
        return self.namespace.wait_for("pod", self.name, match=lambda pod: pod["metadata"].get("annotations", {}).get(
            key) == text)

    def close(self):
        """Ends them."""
        for launcher in self.started:
            launcher.close()


@pytest.fixture
def containers(bare, programs, area, server_program):
    if not is_static(BINARY):
        pytest.skip("an image holds no loader, which this build of the launcher needs")
    (area / "volumes").mkdir()
    bare.kubectl("apply", "-f", EXAMPLE)
    made = Containers(bare, programs, area, server_program)
    yield made
    made.close()


def test_it_works(containers, bare):
    """An upgrade from beginning to end, by the manifests alone. All that the role grants is used, and nothing else."""
    init = containers.start("files")
    assert init.wait() == Exit(code=0), init.story()
    data = containers.volumes["data"]
    assert {path.name for path in data.iterdir()} == {"fdb.cluster", "libfdb_c.so", "libfdb_c_7.1.67.so"}
    main = containers.start("servers")
    sidecar = containers.start("next-version")
    text = bare.get("configmap", "servers")["data"]["config.json"]
    pod = containers.annotation(CONFIGURATION, text)
    assert json.loads(pod["metadata"]["annotations"][ENVIRONMENT]) == {
        "FDB_INSTANCE_ID": "servers-0", "BINARY_DIR": "/usr/bin"}
    eventually(lambda: is_ready() == 200, "the readiness probe succeeds")
    starts = data / "servers-0.starts"
    assert sorted(line.split()[2] for line in starts.read_text().splitlines() if line.startswith("serve 7.3.63")) == [
        "4500", "4502"]

    assert sidecar.stop() == Exit(code=0)
    newer = containers.start("next-version", version="7.4.5")  # its image is set first
    eventually(lambda: (containers.volumes["shared-binaries"] / "bin/7.4.5/fdbserver").exists(), "the binary is there")
    wanted = text.replace("7.3.63", "7.4.5")
    bare.kubectl("patch", "configmap", "servers", "--type=merge", "-p", json.dumps({"data": {"config.json": wanted}}))
    containers.update_configuration()
    pod = containers.annotation(CONFIGURATION, wanted)
    assert json.loads(pod["metadata"]["annotations"][ENVIRONMENT])["BINARY_DIR"] == "/var/fdb/shared-binaries/bin/7.4.5"
    assert "serve 7.4.5" not in starts.read_text()  # a new configuration restarts nothing
    bare.wait_event("servers-0", "ConfigurationLoaded", tells_of(wanted))
    def used():
        return {(request["verb"], request["objectRef"]["resource"]) for request in bare.requests(stage=None)}

    # Back again: the same event as the first, which is counted in the one that there is.
    bare.kubectl("patch", "configmap", "servers", "--type=merge", "-p", json.dumps({"data": {"config.json": text}}))
    containers.update_configuration()
    containers.annotation(CONFIGURATION, text)
    eventually(lambda: ("patch", "events") in used(), "the event is counted")
    assert [launcher.stop() for launcher in (main, newer)] == [Exit(code=0), Exit(code=0)]

    granted = {(verb, resource) for rule in bare.get("role", SERVICE_ACCOUNT)["rules"]
               for verb in rule["verbs"] for resource in rule["resources"]}
    eventually(lambda: used() >= granted, "the server tells of the last one, too")
    assert used() == granted


def is_ready():
    """What the kubelet's readiness probe would get."""
    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()

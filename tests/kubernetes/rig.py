"""A cluster for tests: a real etcd and a real kube-apiserver on loopback, and launchers that believe to be in a pod.

There is no kubelet, no scheduler and no controller. So a test makes what those would make (pods of a StatefulSet's
template, the token of a service account, the new state of a mounted ConfigMap), and everything between the launcher and
the API server is as in a cluster. All of it lives in a network namespace of the test run.

Nothing here sleeps: waiting is for the log of a server, for what `kubectl --watch` says, or for a launcher's event.
"""

import base64
import contextlib
import ctypes
import http.client
import hashlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import time
from pathlib import Path

from harness.agent import AGENT, Authority
from harness.control import Varlink
from harness.process import BINARY, TIMEOUT, Launcher, eventually, matcher, wait_readable

PROGRAMS = Path(os.environ.get("TRITON_KUBERNETES", Path(__file__).parents[2] / "build" / "kubernetes"))
EXAMPLE = Path(__file__).parents[2] / "examples" / "kubernetes"
SERVICE_ACCOUNT = "servers"  # the name in the example
PREFIX = "foundationdb.org/"
CONFIGURATION = PREFIX + "launcher-current-configuration"
ENVIRONMENT = PREFIX + "launcher-environment"
POKE = PREFIX + "outdated-config-map-seen"
ISOLATE = PREFIX + "isolate-process-group"
DELAY = PREFIX + "delay-shutdown"
VERSION = "1.0.0"
PORT = 6443
ETCD = "http://127.0.0.1:2379"
SERVER_TIMEOUT = 120  # seconds for a server to start, with others on the machine
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, CLONE_NEWUSER, CLONE_NEWNET = 1, 0x10000000, 0x40000000

# Whatever the launcher asks, in the order of its answers; bodies too, to see that a patch holds our keys and no others.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Request", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


def enter_network_namespace():
    """Gives this process, and all that it starts, a loopback of its own: ports are free, and nothing leads outside."""
    uid, gid = os.geteuid(), os.getegid()
    if LIBC.unshare(CLONE_NEWNET | (CLONE_NEWUSER if uid else 0)) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if uid:
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class Server:
    """A server process, whose output goes to a file."""

    def __init__(self, log, *command):
        self.log = Path(log)
        self.command = list(map(str, command))
        self.process = None

    def start(self):
        """Starts it; whether it serves is another question. It ends with this process, however that ends."""
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))

    def is_running(self):
        """Whether it has been started and not ended since."""
        return self.process is not None and self.process.poll() is None

    def assert_running(self):
        """Asserts that it has not ended."""
        assert self.process.poll() is None, f"{self.command[0]} ended: {self.tail()}"

    def tail(self):
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    def send(self, number):
        """Sends it a signal."""
        self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        """Ends it and waits for that."""
        if self.is_running():
            self.process.send_signal(number)
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None


class Cluster:
    """etcd, the API server, and kubectl as an administrator."""

    def __init__(self, area, host="127.0.0.1"):
        self.area = Path(area)
        self.host = host
        self.authority = Authority(self.area / "certificates", subject="/CN=test cluster")
        self.ca = self.authority.certificate
        self._make_certificates()
        self.audit_path = self.area / "audit.log"
        self._audit_offset = 0
        self._audit_rest = b""
        self.requests = []
        self.etcd = Server(self.area / "etcd.log", "etcd", "--data-dir", self.area / "etcd", "--log-outputs=stderr",
                           "--logger=zap", "--listen-peer-urls=http://127.0.0.1:2380",
                           f"--listen-client-urls={ETCD}", f"--advertise-client-urls={ETCD}")
        self.api = Server(self.area / "api.log", PROGRAMS / "kube-apiserver", *self._api_options())

    def _make_certificates(self):
        # also the names by which clients in a cluster know it, and both families
        names = "IP:127.0.0.1,IP:::1,DNS:localhost,DNS:kubernetes.default.svc,DNS:kubernetes"
        self.serving = self.authority.issue("api", subject="/CN=kube-apiserver", alternatives=names)
        self.admin = self.authority.issue("admin", subject="/O=system:masters/CN=admin")
        self.signing_key, self.signing_public = self.area / "accounts.key", self.area / "accounts.pub"
        for command in (["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out",
                         self.signing_key], ["pkey", "-in", self.signing_key, "-pubout", "-out", self.signing_public]):
            subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
        self.kubeconfig = self.area / "kubeconfig"
        encoded = {name: base64.b64encode(Path(path).read_bytes()).decode()
                   for name, path in (("ca", self.ca), ("certificate", self.admin[0]), ("key", self.admin[1]))}
        address = f"[{self.host}]" if ":" in self.host else self.host
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"https://{address}:{PORT}",
                                                      "certificate-authority-data": encoded["ca"]}}],
            "users": [{"name": "admin", "user": {"client-certificate-data": encoded["certificate"],
                                                 "client-key-data": encoded["key"]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}]}))

    def _api_options(self):
        policy = self.area / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        return [f"--etcd-servers={ETCD}", f"--secure-port={PORT}", "--bind-address=::",
                "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none",  # nobody serves `kubernetes` here
                f"--tls-cert-file={self.serving[0]}", f"--tls-private-key-file={self.serving[1]}",
                f"--client-ca-file={self.ca}", "--authorization-mode=RBAC", "--anonymous-auth=false",
                "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
                f"--service-account-key-file={self.signing_public}",
                f"--service-account-signing-key-file={self.signing_key}",
                "--service-account-extend-token-expiration=false",
                f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_path}",
                "--shutdown-delay-duration=0s", "--profiling=false"]

    # --- its life

    def start(self):
        """Starts both and waits until they serve."""
        self.etcd.start()
        self.start_api()

    def start_api(self):
        """Starts the API server and waits until it is ready."""
        self.api.start()
        self.wait_until_ready()

    def wait_until_ready(self):
        """Waits until the API server has all that it needs."""
        try:
            eventually(self._is_ready, "the API server is ready", SERVER_TIMEOUT)
        except AssertionError as late:
            raise AssertionError(f"{late}; its log ends in:\n{self.api.tail()}") from late

    def _is_ready(self):
        self.etcd.assert_running()
        self.api.assert_running()
        context = self.authority.client(self.admin)
        context.verify_mode = ssl.CERT_NONE  # some tests give it one that nobody should trust
        connection = http.client.HTTPSConnection(self.host, PORT, timeout=TIMEOUT, context=context)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            wait_readable([], time.monotonic() + 0.05)  # a handshake with a server that starts costs it time
            return False
        finally:
            connection.close()

    def kill_api(self):
        """The API server dies; etcd keeps what it had."""
        self.api.stop(signal.SIGKILL)

    def restart_api(self):
        """It dies and comes back."""
        self.kill_api()
        self.start_api()

    def freeze_api(self):
        """From here on it accepts connections (the kernel does) and answers nothing."""
        self.api.send(signal.SIGSTOP)

    def thaw_api(self):
        """It goes on."""
        self.api.send(signal.SIGCONT)

    def recover(self):
        """It serves, whatever a test has done to it."""
        if self.api.is_running():
            self.thaw_api()
        else:
            self.start_api()

    def etcdctl(self, *arguments):
        """etcd's own tool, for a past that the API server has forgotten."""
        done = subprocess.run(["etcdctl", f"--endpoints={ETCD}", *map(str, arguments)], capture_output=True,
                              text=True, timeout=TIMEOUT, check=False, env={**os.environ, "ETCDCTL_API": "3"})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def forget_the_past(self):
        """While no API server looks, etcd moves on and forgets what was before."""
        self.etcdctl("put", "/elsewhere", "1")
        written = json.loads(self.etcdctl("get", "/elsewhere", "-w", "json"))["header"]["revision"]
        self.etcdctl("compact", written)

    def close(self):
        """Ends both."""
        self.api.stop(signal.SIGKILL)
        self.etcd.stop(signal.SIGKILL)

    # --- kubectl

    def command(self, *arguments, namespace=None):
        """The words of a kubectl command."""
        where = ["--namespace", namespace] if namespace else []
        files = ["--kubeconfig", self.kubeconfig, "--cache-dir", self.area / "cache"]
        return list(map(str, [PROGRAMS / "kubectl", *files, *where, *arguments]))

    def run(self, *arguments, namespace=None, document=None, timeout=TIMEOUT):
        """Runs kubectl to its end; a document is its standard input."""
        return subprocess.run(self.command(*arguments, namespace=namespace), timeout=timeout, capture_output=True,
                              text=True, check=False, input="" if document is None else json.dumps(document))

    def kubectl(self, *arguments, **how):
        """The same, which must succeed; returns its standard output."""
        done = self.run(*arguments, **how)
        assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
        return done.stdout

    def get(self, *what, namespace=None):
        """An object, or a list's items."""
        answer = json.loads(self.kubectl("get", *what, "--show-managed-fields", "-o", "json", namespace=namespace))
        return answer["items"] if answer["kind"] == "List" else answer

    def wait_for(self, *what, match, namespace=None, timeout=TIMEOUT):
        """The first object (of `kubectl get WHAT --watch`) that matches. Goes on when the API server was away."""
        deadline = time.monotonic() + timeout
        if len(what) == 2:  # by its name kubectl gets it, and drops the first event of the watch that follows
            what = (what[0], "--field-selector", f"metadata.name={what[1]}")
        seen = []
        while True:
            with Watch(self.command("get", *what, "--watch", "-o", "json", namespace=namespace)) as watch:
                while (found := watch.next(deadline)) is not None:
                    seen.append(found)
                    if match(found):
                        return found
            last = [{**item.get("metadata", {}), "managedFields": None} for item in seen[-2:]]
            assert time.monotonic() < deadline, f"no such {what} in {timeout} s: {last}"

    # --- what the launchers have asked of it

    def drain_requests(self):
        """Adds to `requests` what has been answered since the last call."""
        if not self.audit_path.exists():
            return
        with open(self.audit_path, "rb") as log:
            log.seek(self._audit_offset)
            data = log.read()
        self._audit_offset += len(data)
        *lines, self._audit_rest = (self._audit_rest + data).split(b"\n")
        self.requests += [json.loads(line) for line in lines if line]

    def requests_of(self, namespace, verb=None, resource=None, stage="ResponseComplete"):
        """The answered requests of the namespace's service account. A watch that goes on is at stage ResponseStarted;
        None: any stage."""
        self.drain_requests()
        user = f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"
        return [request for request in self.requests
                if request["user"]["username"] == user and stage in (None, request["stage"])
                and verb in (None, request["verb"]) and resource in (None, request["objectRef"]["resource"])]


class Watch:
    """What `kubectl get --watch -o json` writes, object by object."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        os.set_blocking(self.process.stdout.fileno(), False)
        self._pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def next(self, deadline):
        """The next object; None when kubectl ends or the deadline passes."""
        while b"\n}\n" not in self._pending:
            if not wait_readable([self.process.stdout.fileno()], deadline):
                return None
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self._pending += data
        document, self._pending = self._pending.split(b"\n}\n", 1)
        return json.loads(document + b"}")


class Volume:
    """A directory as the kubelet mounts a ConfigMap or a token: all files change at once, by the rename of a link."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True)
        self._generation = 0

    def write(self, **files):
        """Replaces the content; a name's __ is a dot (config__json)."""
        files = {name.replace("__", "."): text for name, text in files.items()}
        link = self.directory / "..data"
        old = link.resolve() if link.is_symlink() else None
        self._generation += 1
        fresh = self.directory / f"..{self._generation}"
        fresh.mkdir(mode=0o755)
        for name, text in files.items():
            (fresh / name).write_text(text)
            (fresh / name).chmod(0o644)
        (self.directory / "..data_tmp").symlink_to(fresh.name)
        (self.directory / "..data_tmp").rename(link)
        for name in files:
            if not (self.directory / name).is_symlink():
                (self.directory / name).symlink_to(f"..data/{name}")
        if old:
            shutil.rmtree(old)


class Namespace:
    """A namespace with the account and the roles of the example."""

    def __init__(self, cluster, name, roles=True):
        self.cluster = cluster
        self.name = name
        cluster.kubectl("create", "namespace", name)
        if roles:
            self.kubectl("apply", "-f", EXAMPLE / "rbac.yaml")

    def kubectl(self, *arguments, **how):
        """kubectl in this namespace."""
        return self.cluster.kubectl(*arguments, namespace=self.name, **how)

    def get(self, *what):
        """An object, or a list's items."""
        return self.cluster.get(*what, namespace=self.name)

    def wait_for(self, *what, match, timeout=TIMEOUT):
        """See Cluster.wait_for."""
        return self.cluster.wait_for(*what, match=match, namespace=self.name, timeout=timeout)

    def set_verbs(self, **verbs):
        """The whole of the role: its verbs for each resource."""
        rules = [{"op": "replace", "path": "/rules", "value": [
            {"apiGroups": [""], "resources": [resource], "verbs": allowed} for resource, allowed in verbs.items()]}]
        self.kubectl("patch", "role", SERVICE_ACCOUNT, "--type=json", "-p", json.dumps(rules))

    def allow_nodes(self):
        """What a user does for --enable-node-watch."""
        self.kubectl("apply", "-f", EXAMPLE / "options" / "node-labels.yaml")
        self.kubectl("create", "clusterrolebinding", self.name, "--clusterrole=triton-launch-node-labels",
                     f"--serviceaccount={self.name}:{SERVICE_ACCOUNT}")

    def requests(self, verb=None, resource=None, **how):
        """What its launchers have asked of the API server."""
        return self.cluster.requests_of(self.name, verb, resource, **how)

    def token(self, pod=None, duration="1h"):
        """A token of the account; with a pod it is worth as much as that pod lives, as the kubelet's are."""
        bound = ["--bound-object-kind=Pod", f"--bound-object-name={pod}"] if pod else []
        return self.kubectl("create", "token", SERVICE_ACCOUNT, f"--duration={duration}", *bound).strip()

    def events(self, pod, reason=None):
        """The events about a pod."""
        return [event for event in self.get("events", "--field-selector", f"involvedObject.name={pod}")
                if reason in (None, event["reason"])]

    def wait_event(self, pod, reason, match=lambda event: True, timeout=TIMEOUT):
        """The first event about a pod with this reason that matches."""
        return self.wait_for("events", "--field-selector", f"involvedObject.name={pod},reason={reason}",
                             match=lambda event: event["kind"] == "Event" and match(event), timeout=timeout)


def tells_of(text):
    """Whether an event of a load is about that text of a configuration."""
    return lambda event: hashlib.sha256(text.encode()).hexdigest() in event["message"]


def probe_configuration(*steps, version=VERSION, **more):
    """A configuration of the old form whose processes do these probe steps."""
    number = {"type": "Concatenate", "values": [{"value": "n:"}, {"type": "ProcessNumber"}]}
    arguments = [step if isinstance(step, dict) else {"value": step} for step in steps]
    return {"version": version, "arguments": [number, *arguments], **more}


class Pod:
    """A pod object, its mounted volumes, and the launcher that runs as its main container. The launcher finds all as in
    a container: the service account at the usual place, and the rest in the environment."""

    def __init__(self, namespace, programs, area, name="servers-0", node=None, metadata=None):
        self.namespace = namespace
        self.cluster = namespace.cluster
        self.programs = programs
        self.area = Path(area) / name
        self.name = name
        self.node = node
        self.metadata = metadata or {}
        self.launcher = None
        self.run = self.area / "run"  # the container's /run
        self.run.mkdir(parents=True)
        self.account = Volume(self.run / "secrets" / "kubernetes.io" / "serviceaccount")
        self.configuration = Volume(self.area / "configuration")
        self.socket = self.run / "triton-launch" / "control"
        self.create()

    # --- the object

    def create(self, **spec):
        """Makes the pod object, as the StatefulSet's controller and the scheduler would, and mounts a token."""
        if self.node:
            spec["nodeName"] = self.node
        self.cluster.kubectl("create", "-f", "-", namespace=self.namespace.name, document={
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "labels": {"app": "servers"}, **self.metadata},
            "spec": {"serviceAccountName": SERVICE_ACCOUNT, "automountServiceAccountToken": False,
                     "containers": [{"name": "servers", "image": "servers"}], **spec}})
        self.rotate_token()

    def delete(self):
        """Deletes the object at once: there is no kubelet that would have to agree."""
        self.namespace.kubectl("delete", "pod", self.name, "--force", "--grace-period=0")

    def rotate_token(self, token=None):
        """Gives the pod a new token, as the kubelet does long before the old one ends."""
        self.account.write(ca__crt=Path(self.cluster.ca).read_text(), namespace=self.namespace.name,
                           token=token or self.namespace.token(self.name))

    def object(self):
        """The object as the API server has it."""
        return self.namespace.get("pod", self.name)

    def annotations(self):
        """Its annotations."""
        return self.object()["metadata"].get("annotations", {})

    def annotate(self, **annotations):
        """Sets annotations with our prefix, or with None removes them; a name's _ is a dash."""
        words = [f"{PREFIX}{name.replace('_', '-')}" + ("-" if value is None else f"={value}")
                 for name, value in annotations.items()]
        self.namespace.kubectl("annotate", "--overwrite", "pod", self.name, *words)

    def wait_annotated(self, key, wanted, timeout=TIMEOUT):
        """Waits until an annotation is this text, or satisfies a predicate; returns the object."""
        agrees = wanted if callable(wanted) else lambda text: text == wanted
        with self._story():
            return self.namespace.wait_for("pod", self.name, timeout=timeout, match=lambda pod: agrees(
                pod["metadata"].get("annotations", {}).get(key)))

    @contextlib.contextmanager
    def _story(self):
        """Adds what the launcher says to a failed assertion."""
        try:
            yield
        except AssertionError as error:
            if not self.launcher or self.launcher.exit:
                raise
            raise AssertionError(f"{error}\n{self.launcher.story()}\nreports: {self.reporter()}") from None

    def events(self, reason=None):
        """The events about it."""
        return self.namespace.events(self.name, reason)

    def wait_event(self, reason, match=lambda event: True, timeout=TIMEOUT):
        """See Namespace.wait_event."""
        with self._story():
            return self.namespace.wait_event(self.name, reason, match, timeout)

    # --- the container

    def configure(self, *steps, **more):
        """A new state of the mounted ConfigMap, in the old form; returns its text, which the annotation is to hold."""
        return self.configure_text(json.dumps(probe_configuration(*steps, **more)))

    def configure_text(self, text):
        """The same with any text."""
        self.configuration.write(config__json=text)
        return text

    def load(self, *steps, **more):
        """The same as configure(), and waits until it is active."""
        self.launcher.events.drain()
        while self.launcher.events.take(matcher({"event": "configuration-loaded"})):
            pass  # of what was before
        text = self.configure(*steps, **more)
        self.launcher.wait_for_event("configuration-loaded")
        return text

    def start(self, *options, env=None, place=(), host=None, node_name=True):
        """Starts the launcher; without a configuration there is one with a single probe."""
        if not (self.configuration.directory / "config.json").exists():
            self.configure("say:up", "trap", "until:15")
        environment = {"KUBERNETES_SERVICE_HOST": host or self.cluster.host, "KUBERNETES_SERVICE_PORT": str(PORT),
                       "FDB_POD_NAME": self.name, "FDB_POD_NAMESPACE": self.namespace.name, **(env or {})}
        if self.node and node_name:
            environment["FDB_NODE_NAME"] = self.node
        arguments = ["--input-dir", self.configuration.directory, "--main-container-version", VERSION,
                     "--fdbserver-path", self.programs / "probe", "--agent-path", AGENT, *options]
        self.launcher = Launcher(self.area, self.programs, arguments, pid1=True, env=environment,
                                 place=["--bind", f"{self.run}:/run", *place])
        return self.launcher

    def status(self):
        """What the launcher says of itself over its control socket."""
        connection = eventually(self._connect, "the launcher can be asked")
        try:
            return connection.call("GetStatus")["parameters"]["launcher"]
        finally:
            connection.close()

    def _connect(self):
        with contextlib.suppress(OSError):  # before it has made the socket
            return Varlink(self.socket)
        self.launcher.assert_running()
        return None

    def reporter(self):
        """What it says of its reports."""
        return self.status().get("reporter") or {}

    def wait_reporter(self, state, timeout=TIMEOUT):
        """Waits until the reports are in this state."""
        def reached():
            reporter = self.reporter()
            return reporter if reporter.get("state") == state else None
        with self._story():
            return eventually(reached, f"the reporter is {state}", timeout)

    def wait_reported(self, text, timeout=TIMEOUT):
        """Waits until the pod's annotation is this configuration; returns the pod."""
        return self.wait_annotated(CONFIGURATION, text, timeout)

    def ctl(self, *arguments):
        """Runs ctl, which must succeed; returns its standard output."""
        done = subprocess.run([str(BINARY), "ctl", "--socket", str(self.socket), *map(str, arguments)], check=False,
                              capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"ctl {arguments}: {done}\n{self.launcher.story()}"
        return done.stdout

    def close(self):
        """Ends the launcher."""
        if self.launcher:
            self.launcher.close()


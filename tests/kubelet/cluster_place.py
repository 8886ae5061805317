"""A whole cluster of one node: etcd, the API server, kubelet and tritoncrid, on a machine of the test's own."""

import base64
import json
import subprocess

from harness.agent import Authority
from node_place import NAME, PATIENCE, PROGRAMS, Node, wait_until

API = 6443
ADDRESS = "192.0.2.2"
ETCD = "http://127.0.0.1:2379"


class ClusterNode(Node):
    """Nobody schedules: pods name the node. There is no controller either: what pods need of those is made here."""

    def __init__(self, area, settings=None):
        super().__init__(area, settings)
        self.authority = Authority(self.area / "certificates", subject="/CN=test cluster")
        names = f"IP:127.0.0.1,IP:{ADDRESS},DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc"
        self.serving = self.authority.issue("api", subject="/CN=kube-apiserver", alternatives=names)
        self.admin = self.authority.issue("admin", subject="/O=system:masters/CN=admin")
        self.node_identity = self.authority.issue("node", subject=f"/O=system:nodes/CN=system:node:{NAME}")
        self.signing_key, self.signing_public = self.area / "accounts.key", self.area / "accounts.pub"
        for command in (["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", self.signing_key],
                        ["pkey", "-in", self.signing_key, "-pubout", "-out", self.signing_public]):
            subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
        self.kubeconfig = self._kubeconfig("admin", self.admin)

    def _kubeconfig(self, name, identity):
        encoded = [base64.b64encode(path.read_bytes()).decode() for path in (self.authority.certificate, *identity)]
        path = self.area / f"{name}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"https://{ADDRESS}:{API}", "certificate-authority-data": encoded[0]}}],
            "users": [{"name": name, "user": {"client-certificate-data": encoded[1], "client-key-data": encoded[2]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}]}))
        return path

    def kubelet_kubeconfig(self):
        return self._kubeconfig("kubelet", self.node_identity)

    def configuration(self):
        return {**super().configuration(), "authentication": {
            "anonymous": {"enabled": True}, "webhook": {"enabled": False}, "x509": {"clientCAFile": str(self.authority.certificate)}}}

    def start_cluster(self):
        """Returns when the node is ready."""
        self.start_api()
        self.configure_network(self.bridge())
        self.start_kubelet(f"--kubeconfig={self.kubelet_kubeconfig()}")
        wait_until(self.is_node_ready, lambda: f"the node is ready: {self.kubelet_log.read_text()[-3000:]}")

    def etcd_options(self, data):
        return ["--data-dir", str(data), "--log-outputs=stderr", "--logger=zap", "--listen-peer-urls=http://127.0.0.1:2380",
                f"--listen-client-urls={ETCD}", f"--advertise-client-urls={ETCD}", "--unsafe-no-fsync"]

    def api_options(self):
        return [
            f"--etcd-servers={ETCD}", f"--secure-port={API}", f"--advertise-address={ADDRESS}",
            "--endpoint-reconciler-type=none", f"--tls-cert-file={self.serving[0]}", f"--tls-private-key-file={self.serving[1]}",
            f"--client-ca-file={self.authority.certificate}", "--authorization-mode=Node,RBAC", "--disable-admission-plugins=ServiceAccount",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
            f"--service-account-key-file={self.signing_public}", f"--service-account-signing-key-file={self.signing_key}",
            f"--kubelet-client-certificate={self.admin[0]}", f"--kubelet-client-key={self.admin[1]}", "--kubelet-preferred-address-types=InternalIP",
            "--shutdown-delay-duration=0s", "--profiling=false"]

    def start_api(self):
        self.serve("etcd", "etcd", *self.etcd_options(self.area / "etcd"))
        api = self.serve("api", PROGRAMS / "kube-apiserver", *self.api_options())

        def is_ready():
            assert api.poll() is None, (self.area / "api.log").read_text()[-3000:]
            return self.is_api_ready()
        wait_until(is_ready, lambda: f"the API server is ready: {(self.area / 'api.log').read_text()[-3000:]}")

    def is_api_ready(self):
        return self.run_kubectl("get", "--raw", "/readyz").returncode == 0

    # kubectl.

    def run_kubectl(self, *words, document=None):
        command = [PROGRAMS / "kubectl", "--kubeconfig", self.kubeconfig, "--cache-dir", self.area / "cache", *words]
        return subprocess.run(self.lab.words(*command), input=json.dumps(document) if document else "", capture_output=True, text=True, timeout=PATIENCE)

    def kubectl(self, *words, document=None):
        done = self.run_kubectl(*words, document=document)
        assert done.returncode == 0, f"kubectl {words}: {done.stderr}"
        return done.stdout

    def get(self, *what):
        answer = self.run_kubectl("get", *what, "-o", "json")
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def is_node_ready(self):
        node = self.get("node", NAME)
        return node and any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", ()))

    def create_pod(self, name, *containers, **spec):
        self.kubectl("create", "-f", "-", document=self.manifest(name, *containers, nodeName=NAME, **spec))

    def wait_for(self, name, check, what):
        """The pod, by the API server, once check(pod) gives something."""
        def look():
            pod = self.get("pod", name)
            return pod if pod and check(pod) else None
        return wait_until(look, lambda: f"{name} {what}: {json.dumps((self.get('pod', name) or {}).get('status'))}\n{self.complaints()}")

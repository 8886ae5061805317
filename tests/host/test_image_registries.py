"""Registries as they are: some hide what they have from strangers, some offer two ways to log in, some are behind a proxy; and the
credentials for them as people have them."""

import base64
import json
import os
import stat
import subprocess

import pytest
from fault_server import FaultServer
from image_place import Layout, area, fill, host, needs_root  # noqa: F401
from proxy_place import Proxy

pytestmark = needs_root

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
SECRET = "correct-horse-battery-staple"


def basic(user="alice", password=SECRET):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Registry:
    """One image, behind a server that answers as a test says when it is not shown the right thing."""

    def __init__(self, area, server, name="app"):
        layout = Layout(area / f"layout-{name.replace('/', '-')}")
        layout.make("1", [fill(area / f"base-{name.replace('/', '-')}", {"usr/bin/x": name})])
        self.server = server
        self.name = name
        self.accepted = None
        self.refused = lambda request: request.send(404)
        self.challenges = []
        manifest = layout.blob(layout.descriptor("1")["digest"]).read_bytes()
        parts = {f"/v2/{name}/blobs/sha256:{blob.name}": blob.read_bytes() for blob in (layout.path / "blobs/sha256").iterdir()}
        for path, content in parts.items():
            server.on(path, self.guard(lambda request, content=content: request.serve(content)))
        server.on(f"/v2/{name}/manifests/1", self.guard(lambda request: request.send(200, manifest, Content_Type=MANIFEST)))
        server.on("/v2/", self.base)
        self.host = f"127.0.0.1:{server.port}"
        self.reference = f"{self.host}/{name}:1"

    def is_known(self, request):
        return self.accepted is None or request.headers.get("Authorization") == self.accepted

    def guard(self, serve):
        return lambda request: serve(request) if self.is_known(request) else self.refused(request)

    def challenge(self, request):
        request.send_response(401)
        for challenge in self.challenges:
            request.send_header("WWW-Authenticate", challenge)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def base(self, request):
        request.send(200, b"{}") if self.is_known(request) else self.challenge(request)


@pytest.fixture
def server():
    with FaultServer() as started:
        yield started


@pytest.fixture
def registry(area, server):
    return Registry(area, server)


def authfile(area, host, **entry):
    path = area / "auth.json"
    path.write_text(json.dumps({"auths": {host: entry or {"username": "alice", "password": SECRET}}}))
    path.chmod(0o600)
    return path


def token_service(server, registry, wanted=None, path="/token"):
    """Gives the token that the registry accepts. Returns what it was asked."""
    asked = []

    def serve(request):
        asked.append((request.command, request.path.partition("?")[2] or getattr(request, "form", ""),
                      request.headers.get("Authorization")))
        if wanted and not wanted(request):
            return request.send(401)
        request.send(200, b'{"token":"tok-en","expires_in":300}')

    server.on(path, serve)
    registry.accepted = "Bearer tok-en"
    registry.challenges = [f'Bearer realm="{server.url(path)}",service="reg"']
    return asked


# Registries that answer strangers as if there were nothing.


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_registry_that_hides_what_it_has_is_asked_at_its_base(area, host, registry, server, status):
    registry.refused = lambda request: request.send(status)
    registry.accepted = basic()
    registry.challenges = ['Basic realm="x"']
    host.run("import", registry.reference, "--authfile", authfile(area, registry.host))
    assert len(host.images()) == 1 and server.paths().count("/v2/") == 1


@pytest.mark.parametrize("status", [403, 404])
def test_strangers_get_a_token_there_too(host, registry, server, status):
    registry.refused = lambda request: request.send(status)
    asked = token_service(server, registry)
    host.run("import", registry.reference)
    assert asked[0] == ("GET", "service=reg&scope=repository%3aapp%3apull", None) and len(host.images()) == 1


def test_what_is_not_there_is_not_found(area, host, registry, server):
    """With a base that wants nothing, something, or is not there."""
    url = server.url("/v2/none/manifests/1")
    name = f"{registry.host}/none:1"
    said = f"imgadm: error (ResourceNotFound): cannot fetch {url}: {url} answers 404"
    assert host.run("import", name, code=1).stderr == said + "\n"
    for answer in (404, 200, 500):
        server.on("/v2/", lambda request, answer=answer: request.send(answer))
        assert host.run("import", name, code=1).stderr == said + "\n"
    server.on("/v2/", registry.base)
    registry.accepted, registry.challenges = basic(), ['Basic realm="x"']
    hidden = f"; {registry.host} wants credentials, and there are none for it\n"
    assert host.run("import", name, code=1).stderr == said + hidden
    assert host.run("import", name, "--authfile", authfile(area, registry.host), code=1).stderr == said + "\n"


def test_wrong_credentials_are_told_where_strangers_see_nothing(area, host, registry, server):
    registry.accepted, registry.challenges = basic("bob"), ['Basic realm="x"']
    failed = host.run("import", registry.reference, "--authfile", authfile(area, registry.host), code=1).stderr
    assert "answers 404" in failed and SECRET not in failed
    assert len([one for one in server.paths() if one != "/v2/"]) == 2  # once without, once with


# Ways to log in.


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("in_one", [True, False])
def test_a_token_is_asked_for_where_basic_is_offered_too(area, host, registry, server, order, in_one):
    """The registry takes no password itself."""
    asked = token_service(server, registry, lambda request: request.headers.get("Authorization") == basic())
    both = [*registry.challenges, 'Basic realm="x"'][::order]
    registry.challenges = [", ".join(both)] if in_one else both
    registry.refused = registry.challenge
    host.run("import", registry.reference, "--authfile", authfile(area, registry.host))
    assert asked[0][0] == "GET" and asked[0][2] == basic()


def test_an_identity_token_is_exchanged_by_oauth(area, host, registry, server):
    """As docker login leaves it for Azure's registry, and others."""
    secret = "ey+J/0=&" + SECRET

    def wanted(request):
        return f"refresh_token=ey%2BJ%2F0%3D%26{SECRET}" in request.form and "grant_type=refresh_token" in request.form

    asked = token_service(server, registry, wanted, "/oauth2/token")
    registry.refused = registry.challenge
    auth = authfile(area, registry.host, auth=base64.b64encode(b"00000000-0000-0000-0000-000000000000:").decode(),
                    identitytoken=secret)
    host.run("import", registry.reference, "--authfile", auth)
    assert len(host.images()) == 1 and {method for method, _, _ in asked} == {"POST"}
    assert "service=reg&scope=repository%3Aapp%3Apull" in asked[0][1] and asked[0][2] is None
    assert all(secret not in path for path in server.paths())


def test_an_identity_token_does_not_follow_a_redirect_to_another_host(area, host, registry, server):
    token_service(server, registry, path="/moved")
    registry.refused = registry.challenge
    with FaultServer() as other:
        forms = []
        other.on("/there", lambda request: (forms.append(getattr(request, "form", "")), request.send(401)))
        server.on("/moved", lambda request: request.send(307, Location=other.url("/there")))
        host.run("import", registry.reference, "--authfile", authfile(area, registry.host, identitytoken=SECRET), code=1)
        assert forms and not any(SECRET in form for form in forms)


# Authfiles.


def test_a_key_may_be_a_part_of_a_registry(area, host, server):
    team, other = Registry(area, server, "team/app"), Registry(area, server, "other/app")
    for one in (team, other):
        one.refused = one.challenge
        one.challenges = ['Basic realm="x"']
    team.accepted, other.accepted = basic("team"), basic("all")
    auth = area / "auth.json"
    auth.write_text(json.dumps({"auths": {team.host: {"username": "all", "password": SECRET},
                                          f"{team.host}/team": {"username": "team", "password": SECRET}}}))
    auth.chmod(0o600)
    host.run("import", team.reference, other.reference, "--authfile", auth)
    assert len(host.images()) == 2
    assert all(header != basic("team") for path, header in zip(server.paths(), server.headers("Authorization")) if "other" in path)


class Helper:
    """A credential helper in PATH, which notes what it is asked."""

    def __init__(self, area, name, answer, code=0):
        self.directory = area / "helpers"
        self.directory.mkdir(exist_ok=True)
        self.note = area / f"asked-{name}"
        program = self.directory / f"docker-credential-{name}"
        program.write_text(f"#!/bin/sh\n{{ echo \"$@\"; cat; }} >> {self.note}\ncat <<'EOF'\n{answer}\nEOF\nexit {code}\n")
        program.chmod(0o755)
        self.env = {"PATH": f"{self.directory}:{os.environ['PATH']}"}

    def asked(self):
        return self.note.read_text() if self.note.exists() else ""


def configured(area, document, owner=None):
    path = area / "config.json"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    if owner:
        os.chown(path, owner, owner)
    return path


@pytest.mark.parametrize("key", ["credHelpers", "credsStore"])
def test_a_credential_helper_is_asked(area, host, registry, key):
    registry.accepted, registry.challenges, registry.refused = basic("helped"), ['Basic realm="x"'], registry.challenge
    helper = Helper(area, "test", json.dumps({"ServerURL": registry.host, "Username": "helped", "Secret": SECRET}))
    document = {"auths": {registry.host: {}}, key: {registry.host: "test"} if key == "credHelpers" else "test"}
    host.run("import", registry.reference, "--authfile", configured(area, document), env=helper.env)
    assert helper.asked() == f"get\n{registry.host}" and len(host.images()) == 1


def test_a_helper_may_give_an_identity_token(area, host, registry, server):
    asked = token_service(server, registry, lambda request: SECRET in getattr(request, "form", ""))
    registry.refused = registry.challenge
    helper = Helper(area, "test", json.dumps({"Username": "<token>", "Secret": SECRET}))
    host.run("import", registry.reference, "--authfile", configured(area, {"credsStore": "test"}), env=helper.env)
    assert asked[0][0] == "POST"


def test_a_password_in_the_file_needs_no_helper(area, host, registry):
    registry.accepted, registry.challenges, registry.refused = basic(), ['Basic realm="x"'], registry.challenge
    helper = Helper(area, "test", "{}")
    document = {"auths": {registry.host: {"username": "alice", "password": SECRET}}, "credsStore": "test"}
    host.run("import", registry.reference, "--authfile", configured(area, document), env=helper.env)
    assert helper.asked() == ""


@pytest.mark.parametrize(("answer", "code", "said"), [
    ("credentials not found in native keychain", 1, ""),
    ("no basic auth credentials; run aws sso login", 1, 'docker-credential-test says "no basic auth credentials; run aws sso login"; '),
    ("\x1b[31m" + "x" * 500, 3, "docker-credential-test says "),
    ("", 7, "docker-credential-test exited with code 7; "),
    ('{"Username": "u"}', 0, "docker-credential-test does not answer with a Username and a Secret; "),
    ("x" * 100_000, 0, "docker-credential-test does not answer with a Username and a Secret; "),
    ('{"Username": "u", "Secret": ["%s"]}' % SECRET, 0, "docker-credential-test does not answer with a Username and a Secret; "),
])
def test_a_helper_that_has_nothing_leaves_a_public_image(area, host, registry, answer, code, said):
    helper = Helper(area, "test", answer, code)
    done = host.run("import", registry.reference, "--authfile", configured(area, {"credsStore": "test"}), env=helper.env)
    assert (f"imgadm: warning: {said}" in done.stderr) if said else done.stderr == "", done.stderr
    assert SECRET not in done.stderr and "\x1b" not in done.stderr and len(done.stderr) < 500


@pytest.mark.parametrize("name", ["missing", "../test", "a b", "x" * 65, "/bin/sh"])
def test_a_helper_that_is_not_there_is_said_to_be_passed_over(area, host, registry, name):
    auth = configured(area, {"credHelpers": {registry.host: name}})
    said = host.run("import", registry.reference, "--authfile", auth).stderr
    reason = "the credential helper docker-credential-missing is not installed" if name == "missing" else "is not the name of a credential helper"
    assert said.startswith("imgadm: warning: ") and reason in said and f"; {auth} names it for {registry.host}\n" in said


def test_a_helper_of_somebody_elses_file_does_not_run_as_us(area, host, registry):
    helper = Helper(area, "test", "{}")
    auth = configured(area, {"credsStore": "test"}, owner=12345)
    said = host.run("import", registry.reference, "--authfile", auth, env=helper.env).stderr
    assert f"{auth} names the credential helper test, which is not run, because the file belongs to user 12345\n" in said
    assert helper.asked() == ""


# Proxies.


@pytest.fixture
def certificate(area):
    key, authority = area / "key.pem", area / "ca.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=registry.test", "-addext", "subjectAltName=DNS:registry.test", "-keyout", key, "-out", authority],
                   check=True, capture_output=True)
    return authority, key


@pytest.fixture
def secure(certificate):
    with FaultServer(certificate) as started:
        yield started


@pytest.fixture
def far(area, host, secure, certificate):
    """A registry with a name that nobody here can resolve."""
    registry = Registry(area, secure)
    registry.reference = "registry.test/app:1"
    registry.host = "registry.test"
    return registry


def add(host, certificate, *more):
    host.run("sources", "add", "-f", "-t", "registry", "--cacert", certificate[0], *more, "https://registry.test")


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_the_environment_names_a_proxy(host, far, certificate, name):
    add(host, certificate)
    with Proxy(far.server.port) as proxy:
        host.run("import", far.reference, env={name: proxy.url})
        assert proxy.targets() == ["CONNECT registry.test:443"] and len(host.images()) == 1


def test_a_proxy_has_credentials_and_only_it_gets_them(host, far, certificate):
    add(host, certificate)
    with Proxy(far.server.port, "us:er:" + SECRET) as proxy:
        host.run("import", far.reference, env={"HTTPS_PROXY": f"http://us%3Aer:{SECRET}@{proxy.host}"})
        assert len(host.images()) == 1
    assert all(SECRET not in str(headers) and "Proxy-Authorization" not in headers for _, headers in far.server.requests)


def test_a_source_has_a_proxy_of_its_own(area, host, far, certificate):
    with Proxy(far.server.port, f"alice:{SECRET}") as proxy:
        add(host, certificate, "--proxy", proxy.url, "--authfile", authfile(area, proxy.host))
        host.run("import", far.reference, env={"HTTPS_PROXY": "http://127.0.0.1:1"})
        assert len(host.images()) == 1
        (source,) = json.loads(host.run("sources", "-j").stdout)
        assert source["proxy"] == proxy.url


def test_a_source_may_be_reached_without_the_proxy_of_the_environment(area, host, server, registry):
    host.run("sources", "add", "-t", "registry", "--proxy", "none", server.url(""))
    with Proxy(1) as proxy:
        host.run("import", registry.reference, env={"HTTP_PROXY": proxy.url})
        assert proxy.requests == [] and len(host.images()) == 1


def test_this_machine_is_never_asked_through_a_proxy_of_the_environment(host, registry):
    with Proxy(1) as proxy:
        host.run("import", registry.reference, env={"HTTP_PROXY": proxy.url, "ALL_PROXY": proxy.url})
        assert proxy.requests == []


@pytest.mark.parametrize(("exceptions", "is_direct"), [("registry.test", True), (".test", True), ("*.test", True), ("*", True),
                                                        ("a.example,registry.test:443", True), ("registry.tes", False), ("", False)])
def test_exceptions_are_asked_directly(host, far, certificate, exceptions, is_direct):
    add(host, certificate)
    with Proxy(far.server.port) as proxy:
        env = {"HTTPS_PROXY": proxy.url, "NO_PROXY": exceptions}
        if not is_direct:
            host.run("import", far.reference, env=env)
            return
        command = host.start("--progress", "json", "import", far.reference, env=env)
        # It is asked again and again, since a name may be known later.
        assert any("Could not resolve host: registry.test" in line for line in command.stderr)
        command.terminate()
        command.communicate(timeout=60)
        assert proxy.requests == []


def test_plain_http_goes_through_the_other_proxy(area, host, server):
    registry = Registry(area, server)
    with Proxy(server.port) as proxy:
        host.run("sources", "add", "-f", "-t", "registry", "-k", "http://registry.test")
        host.run("import", "registry.test/app:1", env={"http_proxy": proxy.url, "https_proxy": "http://127.0.0.1:1"})
        assert "GET http://registry.test/v2/app/manifests/1" in proxy.targets()
    assert registry and len(host.images()) == 1


def test_what_a_proxy_refuses_is_said_to_be_of_the_proxy(host, far, certificate):
    add(host, certificate)
    with Proxy(far.server.port, "us:er") as proxy:
        failed = host.run("import", far.reference, code=1, env={"HTTPS_PROXY": proxy.url}).stderr
        assert "registry.test:443: the proxy answers 407\n" in failed and len(proxy.requests) == 1, failed
    with Proxy(far.server.port, status=403) as proxy:
        failed = host.run("import", far.reference, code=1, env={"HTTPS_PROXY": proxy.url}).stderr
        assert "registry.test:443: the proxy answers 403\n" in failed and len(proxy.requests) == 1, failed


def test_a_proxy_that_is_none_is_named_without_its_secret(host, far):
    failed = host.run("import", far.reference, code=1, env={"HTTPS_PROXY": f"http://u:{SECRET}@"}).stderr
    assert failed == ("imgadm: error (InvalidParameter): HTTPS_PROXY in the environment is not the URL of a proxy "
                      "(for example http://proxy.example:3128)\n")
    for url, reason in ((f"http://u:{SECRET}@p:1", "credentials of its proxy belong in an authfile"), ("ftp://p", "is not the URL of a proxy")):
        said = host.run("sources", "add", "-f", "--proxy", url, "https://x.example", code=2).stderr
        assert reason in said and SECRET not in said


def test_secrets_of_a_proxy_are_in_no_message(host, far, certificate):
    """Those of triton-download can be traced; its credentials come in a sealed file."""
    add(host, certificate)
    with Proxy(far.server.port, f"u:{SECRET}") as proxy:
        done = host.run("--progress", "json", "-v", "import", far.reference, env={"HTTPS_PROXY": f"http://u:{SECRET}@{proxy.host}"})
    assert SECRET not in done.stdout + done.stderr
    assert not any(SECRET.encode() in path.read_bytes() for path in host.root.rglob("*") if path.is_file() and not path.is_symlink())
    assert stat.S_IMODE((host.state / "imgadm/imgadm.conf").stat().st_mode) == 0o600

"""A host of a test's own: imgadm with its state below a directory, images made by umoci and skopeo, and servers on loopback."""

import errno
import hashlib
import http.server
import json
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TRITON_BUILD", Path(__file__).parents[2] / "build/dev"))
UNPACKED = Path(__file__).parents[2] / "build/packages/usr"
IMGADM = BUILD / "imgadm"
PATIENCE = 120

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can import images")


def program(name):
    """A program of Debian's, installed or unpacked by ./dev; else the test is skipped."""
    path = os.environ["PATH"] + ":/usr/sbin:" + ":".join(str(UNPACKED / part) for part in ("bin", "sbin"))
    found = shutil.which(name, path=path)
    if not found:
        pytest.skip(f"{name} is not here")
    return found


def run(*words, **more):
    return subprocess.run(
        [str(word) for word in words], check=True, capture_output=True, text=True, timeout=PATIENCE, **more
    )


class Host:
    """imgadm with all of its state below one directory."""

    def __init__(self, area, backend="directory"):
        self.area = Path(area)
        self.root = self.area / "root"
        (self.root / "etc/triton").mkdir(parents=True)
        (self.root / "etc/triton/triton.json").write_text(json.dumps({"storage": {"backend": backend}}))
        self.pool = self.root / "var/triton/pool"
        self.state = self.root / "var/triton"

    def environment(self, more=None):
        own = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return {**own, "TRITON_LIBEXEC": str(BUILD), "TRITON_ROOT": str(self.root), **(more or {})}

    def run(self, *words, code=0, env=None, stdin=subprocess.DEVNULL):
        done = subprocess.run(
            [str(IMGADM), *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, stdin=stdin,
            env=self.environment(env)
        )
        assert done.returncode == code, f"imgadm {words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def start(self, *words, env=None, **more):
        return subprocess.Popen(
            [str(IMGADM), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment(env), **more
        )

    def images(self):
        return json.loads(self.run("list", "-j").stdout)

    def uuids(self):
        return self.run("list", "-H", "-o", "uuid").stdout.split()

    def get(self, name):
        return json.loads(self.run("get", name).stdout)

    def tree(self, name):
        """The root of an image: what a machine gets a clone of."""
        holder = self.pool / self.get(name)["tree"]
        (snapshot,) = (holder / "@snapshots").iterdir()
        return snapshot / "root"

    def layers(self):
        layers = self.pool / "layers"
        return sorted(one.name for one in layers.iterdir() if one.name[0] != "@") if layers.exists() else []

    def blobs(self):
        return sorted(one.name for one in (self.state / "content/blobs/sha256").iterdir())

    def left_over(self):
        """What a command that has ended must not leave in the pool."""
        found = []
        for name in ("building", "@pool/building", "@pool/trash"):
            place = self.pool / name
            found += [str(one) for one in place.iterdir()] if place.exists() else []
        return found


@pytest.fixture
def area():
    place = tempfile.mkdtemp(prefix="triton-images.")
    yield Path(place)
    shutil.rmtree(place)


@pytest.fixture
def host(area):
    return Host(area)


def attributes(path):
    try:
        return {key: os.getxattr(path, key, follow_symlinks=False) for key in os.listxattr(path, follow_symlinks=False)}
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return {}  # ZFS by FUSE has none


def look(path):
    """All that a tree is, file by file: what two unpackers must agree on."""
    found = {}
    links = {}

    def note(path, name):
        status = os.lstat(path)
        facts = {
            "mode": oct(status.st_mode),
            "owner": (status.st_uid, status.st_gid),
            "xattrs": attributes(path),
        }
        kind = status.st_mode & 0o170000
        if kind == 0o120000:
            facts["target"] = os.readlink(path)
        elif kind == 0o100000:
            facts["mtime"] = int(status.st_mtime)
            facts["content"] = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest()
            if status.st_nlink > 1:
                links.setdefault(status.st_ino, []).append(name)
        elif kind == 0o040000:
            facts["mtime"] = int(status.st_mtime)
        else:
            facts["device"] = status.st_rdev
        found[name] = facts

    base = os.fsencode(str(path))
    for directory, folders, files in os.walk(base):
        for name in folders + files:
            full = os.path.join(directory, name)
            note(full, os.path.relpath(full, base))
    for names in links.values():
        for name in names:
            found[name]["links"] = sorted(names)
    return found


# Images.


class Layout:
    """An OCI layout that umoci has made."""

    def __init__(self, path):
        self.path = Path(path)
        self.umoci = program("umoci")
        run(self.umoci, "init", "--layout", self.path)

    def make(self, tag, layers, config=(), on=None):
        """An image of these directories, lowest first, or on top of another image. ".wh." begins a whiteout."""
        image = f"{self.path}:{tag}"
        if on:
            run(self.umoci, "tag", "--image", f"{self.path}:{on}", tag)
        else:
            run(self.umoci, "new", "--image", image)
        for number, layer in enumerate(layers):
            archive = self.path.parent / f"{tag}-{number}.tar"
            run("tar", "--create", f"--file={archive}", f"--directory={layer}", "--numeric-owner", "--sort=name",
                "--format=posix", "--xattrs", "--xattrs-include=*", ".")
            run(self.umoci, "raw", "add-layer", "--image", image, archive)
            archive.unlink()
        if config:
            run(self.umoci, "config", "--image", image, *config)
        return f"oci:{image}"

    def unpack(self, tag, to):
        run(self.umoci, "raw", "unpack", "--image", f"{self.path}:{tag}", to)
        return Path(to)

    def blob(self, digest):
        return self.path / "blobs/sha256" / digest.split(":")[1]

    def json_of(self, digest):
        return json.loads(self.blob(digest).read_text())

    def descriptor(self, tag):
        for one in json.loads((self.path / "index.json").read_text())["manifests"]:
            if one.get("annotations", {}).get("org.opencontainers.image.ref.name") == tag:
                return one
        raise KeyError(tag)

    def manifest(self, tag):
        return self.json_of(self.descriptor(tag)["digest"])

    # By hand, for documents that no tool would write.

    def put(self, content):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        digest = hashlib.sha256(data).hexdigest()
        self.blob(f"sha256:{digest}").write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def tag(self, name, descriptor, media_type="application/vnd.oci.image.manifest.v1+json"):
        index = json.loads((self.path / "index.json").read_text())
        index["manifests"] = [
            *(index["manifests"] or []),
            {"mediaType": media_type, **descriptor, "annotations": {"org.opencontainers.image.ref.name": name}},
        ]
        (self.path / "index.json").write_text(json.dumps(index))
        return f"oci:{self.path}:{name}"


def fill(directory, files):
    """Files by name: text is content, None a directory, ("link", target), ("hard", name)."""
    for name, what in files.items():
        path = Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if what is None:
            path.mkdir(exist_ok=True)
        elif isinstance(what, tuple):
            if what[0] == "link":
                os.symlink(what[1], path)
            else:
                os.link(Path(directory) / what[1], path)
        else:
            path.write_text(what)
    return Path(directory)


def many_files(directory, count=200, size=2000):
    return fill(directory, {f"usr/share/d{i % 10}/f{i}": f"{i}" * (size // len(str(i))) for i in range(count)})


# Servers on loopback. Each goes with its test.


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port, process):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, "the server has ended"
        time.sleep(0.02)  # a server has no event to wait for
    raise TimeoutError("the server does not answer")


class Registry:
    """Debian's docker-registry, and skopeo to fill it."""

    def __init__(self, area):
        self.area = Path(area) / "registry"
        self.area.mkdir()
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        configuration = self.area / "config.yml"
        configuration.write_text(
            "version: 0.1\nlog: {level: info}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\n"
            % (self.area / "data", self.host)
        )
        self.policy = self.area / "policy.json"
        self.policy.write_text('{"default":[{"type":"insecureAcceptAnything"}]}')
        self.log = self.area / "log"
        self.process = subprocess.Popen(
            [program("docker-registry"), "serve", str(configuration)], stdout=self.log.open("w"), stderr=subprocess.STDOUT
        )
        wait_for_port(self.port, self.process)

    def push(self, reference, name):
        run(program("skopeo"), "--policy", self.policy, "copy", "--dest-tls-verify=false", reference,
            f"docker://{self.host}/{name}")
        return f"{self.host}/{name}"

    def requests(self, part):
        """The requests of the log that have this text."""
        return [line for line in self.log.read_text().splitlines() if '"GET ' in line and part in line]

    def data_of(self, digest):
        hexadecimal = digest.split(":")[1]
        return self.area / "data/docker/registry/v2/blobs/sha256" / hexadecimal[:2] / hexadecimal / "data"

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)


@pytest.fixture
def registry(area):
    server = Registry(area)
    yield server
    server.close()


class Imgapi:
    """An IMGAPI server: as much of it as a client of images needs."""

    def __init__(self):
        self.images = {}
        self.requests = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body, kind="application/json"):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                path = self.path.split("?")[0]
                outer.requests.append(self.path)
                parts = path.strip("/").split("/")
                if path == "/ping":
                    return self.answer(200, b'{"ping":"pong","version":"1.0.0","imgapi":true}')
                if path == "/images":
                    return self.answer(200, json.dumps([manifest for manifest, _ in outer.images.values()]).encode())
                if parts[0] == "images" and len(parts) > 1 and parts[1] in outer.images:
                    manifest, data = outer.images[parts[1]]
                    if len(parts) == 2:
                        return self.answer(200, json.dumps(manifest).encode())
                    if parts[2] == "file":
                        return self.answer(200, data, "application/octet-stream")
                return self.answer(404, b'{"code":"ResourceNotFound","message":"image not found"}')

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def add(self, uuid, data, **more):
        manifest = {
            "v": 2, "uuid": uuid, "owner": "00000000-0000-0000-0000-000000000000", "name": "web", "version": "1.2",
            "state": "active", "disabled": False, "public": True, "published_at": "2024-01-02T03:04:05.000Z",
            "type": "lxd", "os": "linux",
            "files": [{"size": len(data), "sha256": hashlib.sha256(data).hexdigest(),
                       "sha1": hashlib.sha1(data).hexdigest(), "compression": "none"}],
            **more,
        }
        self.images[uuid] = (manifest, data)
        return manifest

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def imgapi():
    server = Imgapi()
    yield server
    server.close()


def tarball(directory, to, mode="w"):
    with tarfile.open(to, mode, format=tarfile.PAX_FORMAT) as archive:
        archive.add(directory, arcname=".")
    return Path(to)

"""tritoncrid on images of a test's own, and the stubs that protoc makes of the protocol for Python."""

import base64
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import grpc
import pytest
from image_place import BUILD, Host, Layout, fill, many_files, run

PATIENCE = 120
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PROGRAM = BUILD / "tritoncrid"
PROTOCOL = Path(__file__).parents[2] / "host/cri/wire/runtime.proto"


def load_messages():
    """The messages of runtime.proto."""
    if "runtime_pb2" in sys.modules:
        return sys.modules["runtime_pb2"]
    protoc = shutil.which("protoc")
    if not protoc:
        pytest.skip("protoc is not here")
    with tempfile.TemporaryDirectory(prefix="triton-protoc.") as place:
        subprocess.run([protoc, "-I", PROTOCOL.parent, f"--python_out={place}", PROTOCOL.name], check=True, timeout=PATIENCE)
        specification = importlib.util.spec_from_file_location("runtime_pb2", f"{place}/runtime_pb2.py")
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
    sys.modules["runtime_pb2"] = module
    return module


class Cri:
    """Is started at once, and can be killed and started again on the same images."""

    def __init__(self, area, configuration=None):
        if not PROGRAM.exists():
            pytest.skip(f"{PROGRAM} is not built")
        self.area = Path(area)
        self.host = Host(self.area)
        if configuration is not None:
            (self.host.root / "etc/triton/triton.json").write_text(configuration)
        self.messages = load_messages()
        self.socket = self.host.root / "run/triton/cri.sock"
        self.log = self.area / "cri.log"
        self.channel = None
        self.process = None
        self.start()

    def environment(self, more=None):
        return {**os.environ, "TRITON_LIBEXEC": str(BUILD), "TRITONCRID_ROOT": str(self.host.root), **(more or {})}

    def start(self):
        """Returns when it says that it is ready."""
        address = self.area / "notify"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, self.log.open("a") as log:
            ready.bind(str(address))
            self.process = subprocess.Popen([PROGRAM], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment({"NOTIFY_SOCKET": str(address)}))
            exited = os.pidfd_open(self.process.pid)
            try:
                while True:
                    readable, _, _ = select.select([ready, exited], [], [], PATIENCE)
                    assert ready in readable, f"tritoncrid did not come up: {self.log.read_text()[-2000:]}"
                    if "READY=1" in ready.recv(65536).decode().splitlines():
                        break
            finally:
                os.close(exited)
        self.channel = grpc.insecure_channel(f"unix:{self.socket}")

    def end(self, how=signal.SIGTERM):
        self.channel.close()
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)

    def close(self):
        if self.process.poll() is None:
            self.end(signal.SIGKILL)
        self.channel.close()

    # Calls.

    def begin(self, name, request=None, service="RuntimeService", answer=None, timeout=PATIENCE):
        kind = getattr(self.messages, answer or f"{name}Response")
        request = request if request is not None else getattr(self.messages, f"{name}Request")()
        call = self.channel.unary_unary(f"/runtime.v1.{service}/{name}", request_serializer=lambda message: message.SerializeToString(),
                                        response_deserializer=kind.FromString)
        return call.future(request, timeout=timeout)

    def call(self, name, **more):
        return self.begin(name, **more).result()

    def image_call(self, name, request=None):
        return self.call(name, request=request, service="ImageService")

    def spec(self, image):
        return self.messages.ImageSpec(image=image)

    def begin_pull(self, image, **auth):
        request = self.messages.PullImageRequest(image=self.spec(image))
        if auth:
            request.auth.CopyFrom(self.messages.AuthConfig(**auth))
        return self.begin("PullImage", request, service="ImageService")

    def pull(self, image, **auth):
        return self.begin_pull(image, **auth).result().image_ref

    def images(self, image=""):
        request = self.messages.ListImagesRequest(filter=self.messages.ImageFilter(image=self.spec(image)))
        return list(self.image_call("ListImages", request).images)

    def status(self, image, verbose=False):
        """None: there is no such image."""
        response = self.image_call("ImageStatus", self.messages.ImageStatusRequest(image=self.spec(image), verbose=verbose))
        return response.image if response.HasField("image") else None

    def remove(self, image):
        self.image_call("RemoveImage", self.messages.RemoveImageRequest(image=self.spec(image)))

    def usage(self):
        (usage,) = self.image_call("ImageFsInfo").image_filesystems
        return usage


def code_of(call):
    """The code and text that a call fails with."""
    with pytest.raises(grpc.RpcError) as failed:
        call()
    return failed.value.code(), failed.value.details()


def publish(registry, layout, tag, name, files, config=()):
    """Makes an image and pushes it. Returns its reference, and its id, which is the digest of its configuration."""
    layout.make(tag, [fill(layout.path.parent / f"tree-{tag}", files)], config)
    reference = registry.push(f"oci:{layout.path}:{tag}", name)
    return reference, pushed(registry, name)["config"]["digest"]


def pushed(registry, name):
    """The manifest that a registry has for a tag. Its digest is not umoci's, since skopeo may write it anew."""
    repository, tag = name.rsplit(":", 1)
    return json.loads(run("curl", "-sf", "-H", f"Accept: {MANIFEST}", f"http://{registry.host}/v2/{repository}/manifests/{tag}").stdout)


class Served:
    """An image that a FaultServer has, for those who log in, where `user` is given."""

    def __init__(self, area, server, user=None):
        self.layout = Layout(area / "served")
        self.layout.make("1", [many_files(area / "base", count=50)])
        self.server = server
        self.accepted = user and "Basic " + base64.b64encode(user.encode()).decode()
        self.challenge = 'Basic realm="test"'
        self.reference = f"127.0.0.1:{server.port}/app:1"
        manifest = self.layout.manifest("1")
        self.id = manifest["config"]["digest"]
        self.layer = manifest["layers"][0]
        text = self.layout.blob(self.layout.descriptor("1")["digest"]).read_bytes()
        server.on("/v2/app/manifests/1", self.guarded(lambda request: request.send(200, text, Content_Type=MANIFEST)))
        for digest in (self.id, self.layer["digest"]):
            content = self.layout.blob(digest).read_bytes()
            server.on(f"/v2/app/blobs/{digest}", self.guarded(lambda request, content=content: request.serve(content)))

    def guarded(self, answer):
        def handle(request):
            if self.accepted and request.headers.get("Authorization") != self.accepted:
                return request.send(401, WWW_Authenticate=self.challenge)
            return answer(request)

        return handle

    def hold_layer(self):
        """From now on its layer begins and does not go on. Returns two events: a client waits; and let it go on."""
        waits, goes_on = threading.Event(), threading.Event()
        content = self.layout.blob(self.layer["digest"]).read_bytes()

        def hold(request):
            if request.range():
                return request.serve(content)
            request.begin(200, len(content))
            request.body(content[:10])
            waits.set()
            goes_on.wait(PATIENCE)
            request.body(content[10:])

        self.server.on(f"/v2/app/blobs/{self.layer['digest']}", hold)
        return waits, goes_on


@pytest.fixture
def cri(area):
    daemon = Cri(area)
    yield daemon
    daemon.close()

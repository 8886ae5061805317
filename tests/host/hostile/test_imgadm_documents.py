"""Documents and layers of an attacker: each is refused in one clear line, and leaves nothing behind."""

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from image_place import Layout, area, fill, host, needs_root  # noqa: E402, F401

pytestmark = needs_root

CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def archive(entries):
    """A tar archive; entries are (name, further fields, content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, fields, content in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


class Hostile:
    def __init__(self, area):
        self.layout = Layout(area / "layout")

    def manifest(self, layers, diff_ids=None, **more):
        blobs = [self.layout.put(layer) for layer in layers]
        diff_ids = diff_ids or [blob["digest"] for blob in blobs]
        config = self.layout.put(
            {"os": "linux", "architecture": "amd64", "config": {}, "rootfs": {"type": "layers", "diff_ids": diff_ids}})
        return {"schemaVersion": 2, "mediaType": MANIFEST, "config": {"mediaType": CONFIG, **config},
                "layers": [{"mediaType": LAYER, **blob} for blob in blobs], **more}

    def reference(self, manifest, name="x"):
        return self.layout.tag(name, self.layout.put(manifest))


@pytest.fixture
def hostile(area):
    return Hostile(area)


def refused(host, reference):
    done = host.run("import", reference, "--platform", "linux/amd64", code=1)
    assert host.images() == [] and host.layers() == [] and host.left_over() == []
    assert done.stderr.count("imgadm: error") == 1
    return done.stderr


GOOD = archive([("a", {}, b"x")])


def test_a_manifest_that_is_an_index_too(host, hostile):
    text = refused(host, hostile.reference(hostile.manifest([GOOD], manifests=[])))
    assert "CorruptContent" in text


def test_digests_that_are_paths_or_of_another_kind(host, hostile):
    for digest in ("sha256:../../../../etc/passwd", "sha256:" + "A" * 64, "md5:" + "0" * 32, "sha256:" + "0" * 63,
                   "sha512:" + "0" * 128, "../x", ""):
        manifest = hostile.manifest([GOOD])
        manifest["layers"][0]["digest"] = digest
        refused(host, hostile.reference(manifest, "d" + hashlib.sha256(digest.encode()).hexdigest()[:8]))


def test_wrong_diff_ids(host, hostile):
    wrong = refused(host, hostile.reference(hostile.manifest([GOOD], ["sha256:" + "0" * 64])))
    assert "CorruptContent" in wrong and "layer 1 of 1" in wrong
    assert "diff_ids" in refused(host, hostile.reference(hostile.manifest([GOOD], ["sha256:" + "0" * 64] * 2), "y"))


def test_a_layer_that_is_not_what_its_digest_says(host, hostile):
    manifest = hostile.manifest([GOOD])
    hostile.layout.blob(manifest["layers"][0]["digest"]).write_bytes(b"y" + GOOD[1:])
    assert "CorruptContent" in refused(host, hostile.reference(manifest))
    manifest["layers"][0]["size"] += 1
    assert "size" in refused(host, hostile.reference(manifest, "z"))


def test_a_refusal_names_the_document_and_its_image(host, hostile):
    manifest = hostile.manifest([GOOD])
    layer = manifest["layers"][0]
    layer["size"] = 5
    reference = hostile.reference(manifest)
    assert refused(host, reference).endswith(f": {layer['digest']} of {reference}: size is {len(GOOD)} bytes instead of 5\n")

    foreign = hostile.layout.put({**manifest, "layers": [{**layer, "urls": ["http://elsewhere"]}]})
    reference = hostile.layout.tag("foreign", foreign)
    assert refused(host, reference).endswith(
        f": {foreign['digest']} of {reference}: layer {layer['digest']} is kept elsewhere, and such layers are not supported\n")

    (hostile.layout.path / "index.json").write_text('{"schemaVersion": 2}')
    assert refused(host, reference).endswith(
        f": index.json of {reference}: document is neither an image manifest nor an index\n")


def test_documents_that_are_too_much(host, hostile):
    many = hostile.manifest([GOOD])
    many["layers"] = many["layers"] * 4097
    refused(host, hostile.reference(many, "many"))
    big = hostile.manifest([GOOD], annotations={"x": "y" * (5 << 20)})
    refused(host, hostile.reference(big, "big"))
    deep = hostile.layout.put(b'{"schemaVersion":2,"x":' + b"[" * 10000 + b"]" * 10000 + b"}")
    refused(host, hostile.layout.tag("deep", deep))
    twice = hostile.layout.put(b'{"schemaVersion":2,"schemaVersion":2,"config":{},"layers":[]}')
    refused(host, hostile.layout.tag("twice", twice))


def test_indexes_that_never_end(host, hostile):
    inner = hostile.layout.put(hostile.manifest([GOOD]))
    kind = MANIFEST
    for _ in range(5):
        inner = hostile.layout.put({"schemaVersion": 2, "manifests": [
            {"mediaType": kind, **inner, "platform": {"os": "linux", "architecture": "amd64"}}]})
        kind = "application/vnd.oci.image.index.v1+json"
    text = refused(host, hostile.layout.tag("nested", inner, kind))
    assert "has indexes in more than 2 levels" in text


@pytest.mark.parametrize("entries", [
    [("../escaped", {}, b"x")],
    [("/../escaped", {}, b"x")],
    [("a", {"type": tarfile.SYMTYPE, "linkname": "../../../../.."}, b""), ("a/escaped", {}, b"x")],
    [("a", {"type": tarfile.SYMTYPE, "linkname": "/"}, b""), ("a/tmp/escaped", {}, b"x")],
    [("a", {"type": tarfile.LNKTYPE, "linkname": "../../../../../etc/passwd"}, b"")],
])
def test_layers_do_not_break_out(area, host, hostile, entries):
    reference = hostile.reference(hostile.manifest([archive(entries)]))
    done = host.start("import", reference, "--platform", "linux/amd64")
    output, errors = done.communicate(timeout=120)
    assert done.returncode in (0, 1), output + errors
    inside = host.pool / "layers"
    for escaped in [*area.rglob("escaped"), *Path("/tmp").glob("escaped")]:
        assert inside in escaped.parents and "root" in escaped.parts, f"{escaped} is outside of the tree"
    assert host.left_over() == []


def test_names_of_an_attacker_do_not_reach_the_terminal(host, hostile):
    manifest = hostile.manifest([GOOD])
    manifest["layers"][0]["mediaType"] = "application/\x1b[2Jx"
    assert "\x1b" not in refused(host, hostile.reference(manifest))
    bad = archive([("evil\x1b]0;x\x07" + "/" * 3 + "..", {}, b"x")])
    assert "\x1b" not in host.start("import", hostile.reference(hostile.manifest([bad]), "e")).communicate()[1]


def test_a_manifest_of_imgapi(area, host):
    tree = fill(area / "tree", {"a": "b"})
    host.run("create", tree, "-o", area / "out")
    (archive_file,) = (area / "out").glob("*.tar")
    good = json.loads(next((area / "out").glob("*.imgmanifest")).read_text())
    manifest = area / "bad.json"
    for change, words in (
        ({"uuid": "../../etc"}, "uuid: \"../../etc\" is not a UUID"),
        ({"files": [{**good["files"][0], "path": "../x"}]}, "files[0].path: \"../x\" is not the name of a file"),
        ({"v": 1}, "v: manifests of version 1 are not known; 2 is"),
        ({"name": "n" * 513}, "name: is longer than 512 bytes"),
    ):
        manifest.write_text(json.dumps({**good, **change}))
        done = host.run("install", "-m", manifest, "-f", archive_file, code=1)
        assert words in done.stderr
    manifest.write_text("[" * 20000)
    assert host.run("install", "-m", manifest, "-f", archive_file, code=1).stderr.startswith("imgadm: error (")
    assert host.images() == []

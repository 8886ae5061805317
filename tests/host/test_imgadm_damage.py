"""What happens to images whose files were damaged, or removed, since they were installed: scrub says it until it is repaired,
and importing an image again repairs it."""

import gzip
import json
import os
import shutil
import signal

import pytest
from image_place import PATIENCE, Layout, area, fill, host, imgapi, look, needs_root, registry, run, tarball  # noqa: F401

pytestmark = needs_root

UUID = "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b"


@pytest.fixture
def layout(area):
    made = Layout(area / "layout")
    made.make("1", [fill(area / "base", {"etc/os": "one"}), fill(area / "more", {"etc/more": "m" * 5000})])
    return made


def blob_of(host, digest):
    return host.state / "content/blobs/sha256" / digest.removeprefix("sha256:")


def damage(blob):
    blob.chmod(0o600)
    blob.write_bytes(blob.read_bytes() + b"x")


DAMAGED = ("imgadm: error (CorruptContent): content is damaged and could not be fetched again\n"
           "  importing an image again repairs it\n")


@pytest.mark.parametrize("harm", [damage, os.unlink])
def test_scrub_fetches_what_has_another_size_or_is_gone(host, layout, harm):
    host.run("import", f"oci:{layout.path}:1")
    blob = blob_of(host, layout.manifest("1")["layers"][1]["digest"])
    good = blob.read_bytes()
    harm(blob)
    assert "it was fetched again" in host.run("scrub").stdout
    assert blob.read_bytes() == good


@pytest.mark.parametrize("part", ["layer", "config", "manifest"])
def test_a_bad_blob_is_told_until_an_import_has_brought_it_again(area, host, layout, part):
    reference = f"oci:{layout.path}:1"
    host.run("import", reference)
    manifest = layout.manifest("1")
    blob = blob_of(host, {"layer": manifest["layers"][0], "config": manifest["config"], "manifest": layout.descriptor("1")}[part]["digest"])
    good = blob.read_bytes()
    before = look(host.tree(reference))
    damage(blob)
    layout.path.rename(area / "away")
    for _ in range(2):
        report = host.run("scrub", code=1)
        assert f"sha256:{blob.name}: it has {len(good) + 1} bytes, not {len(good)}; it is in quarantine\n" in report.stdout
        assert report.stdout.endswith("1 are bad\n") and report.stderr.endswith(DAMAGED)
    assert "No such file" in host.run("import", reference, code=1).stderr
    (area / "away").rename(layout.path)
    (uuid,) = host.uuids()
    said = host.run("import", reference).stdout
    # Documents are there again as soon as the reference is resolved.
    assert said == (f"Repaired image {uuid} (layout@1)\n" if part == "layer" else f"Image {uuid} (layout@1) is already installed, skipping\n")
    assert blob.read_bytes() == good and look(host.tree(reference)) == before
    assert host.run("scrub").stdout.endswith("all are good\n")
    assert host.run("import", reference).stdout == f"Image {uuid} (layout@1) is already installed, skipping\n"
    assert host.left_over() == []


def test_every_blob_of_a_registry_is_fetched_again(host, layout, registry):
    host.run("import", registry.push(f"oci:{layout.path}:1", "app:1"))
    blobs = {blob_of(host, name): blob_of(host, name).read_bytes() for name in host.blobs()}
    assert len(blobs) == 4  # the manifest, the configuration, two layers
    for blob in blobs:
        damage(blob)
    host.run("scrub")
    assert {blob: blob.read_bytes() for blob in blobs} == blobs


def test_a_scrub_that_is_stopped_tells_what_it_has_found(area, host):
    host.run("import", tarball(fill(area / "one", {"a": "1"}), area / "one.tar"))
    (bad,) = host.blobs()
    damage(blob_of(host, bad))
    (area / "one.tar").unlink()
    host.run("scrub", code=1)
    host.run("import", tarball(fill(area / "other", {"a": "2"}), area / "other.tar"))

    def interrupted():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        os.kill(os.getpid(), signal.SIGINT)

    stopped = host.start("scrub", preexec_fn=interrupted)
    said, _ = stopped.communicate(timeout=PATIENCE)
    assert stopped.returncode == 130
    assert said.startswith(f"sha256:{bad}: ") and said.endswith(": 1 are bad; the others were not read\n")


@pytest.mark.parametrize("part", ["tree", "snapshot", "snapshots"])
def test_a_lost_tree_is_told_and_made_again(area, host, layout, part):
    reference = f"oci:{layout.path}:1"
    host.run("import", reference)
    host.run("pin", reference)
    before, uuid = look(host.tree(reference)), host.uuids()[0]
    layout.make("2", [fill(area / "other", {"etc/os": "two"})])
    run(layout.umoci, "tag", "--image", f"{layout.path}:2", "1")  # the repair is of the image that is here
    holder = host.pool / host.get(reference)["tree"]
    shutil.rmtree(holder if part == "tree" else holder / "@snapshots")
    if part == "snapshot":
        (holder / "@snapshots").mkdir()
    report = host.run("scrub", code=1)
    assert f": its tree, layers/{holder.name}, is missing\n  used by image {uuid} (layout@1)\n" in report.stdout
    assert json.loads(host.run("scrub", "-j", code=1).stdout)["bad"][0]["fetchedAgain"] is False
    assert host.run("import", reference).stdout == f"Repaired image {uuid} (layout@1)\n"
    assert look(host.tree(reference)) == before
    assert host.get(reference)["pinned"] is True and host.uuids() == [uuid]
    assert host.run("scrub").stdout.endswith("all are good\n")
    host.run("unpin", reference)
    host.run("delete", reference)
    assert host.layers() == [] and host.blobs() == [] and host.left_over() == []


def test_images_of_each_kind_are_repaired(area, host, layout, imgapi):
    tree = fill(area / "tree", {"etc/x": "1"})
    archive = tarball(tree, area / "a.tar")
    imgapi.add(UUID, tarball(fill(area / "other", {"b": "2"}), area / "b.tar").read_bytes())
    host.run("sources", "-a", imgapi.url)
    tarball(layout.path, area / "layout.tar")
    host.run("import", f"oci:{layout.path}:1")
    by_layout = host.uuids()[0]
    ways = [[archive], [tree], [UUID], [by_layout], [f"oci-archive:{area}/layout.tar:1"]]
    for way in ways:
        host.run("import", "-q", *way)
    shutil.rmtree(host.pool / "layers")
    for blob in host.blobs():
        damage(blob_of(host, blob))
    count = len(host.uuids())
    for way in ways[:-1]:
        assert host.run("import", *way).stdout.startswith("Repaired image ")
    assert host.run("import", *ways[-1]).stdout.endswith("is already installed, skipping\n")  # it is the image of the layout
    assert host.run("scrub").stdout.endswith("all are good\n")
    assert len(host.uuids()) == count == 4


def test_a_repair_does_not_change_what_an_image_is(area, host):
    one = tarball(fill(area / "one", {"a": "1"}), area / "one.tar")
    other = tarball(fill(area / "other", {"a": "2"}), area / "other.tar")
    host.run("import", "--uuid", UUID, "--name", "mine", one)
    shutil.rmtree(host.pool / "layers")
    said = host.run("import", "--uuid", UUID, other, code=1).stderr
    assert said == (f"imgadm: error (Refused): cannot import {other}: image {UUID} is installed with other content; "
                    "it has to be deleted first\n")
    assert host.layers() == []
    host.run("import", "--uuid", UUID, one)
    assert host.get(UUID)["manifest"]["name"] == "mine" and (host.tree(UUID) / "a").read_text() == "1"


def recompressed(layout, to):
    """The same image with other bytes: each layer is compressed anew, so that only the configuration keeps its digest."""
    shutil.copytree(layout.path, to)
    made = Layout.__new__(Layout)
    made.path = to
    manifest = made.manifest("1")
    for layer in manifest["layers"]:
        layer.update(made.put(gzip.compress(gzip.decompress(made.blob(layer["digest"]).read_bytes()), compresslevel=1, mtime=1)))
    (to / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": []}))
    made.tag("1", made.put(manifest))
    return made


@pytest.mark.parametrize("part", ["tree", "layer", "both"])
def test_a_repair_by_other_bytes_of_the_same_image_is_whole(area, host, layout, part):
    reference = f"oci:{layout.path}:1"
    host.run("import", reference)
    before, uuid = look(host.tree(reference)), host.uuids()[0]
    other = recompressed(layout, area / "other/layout")
    if part != "tree":
        blob_of(host, layout.manifest("1")["layers"][0]["digest"]).unlink()
    if part != "layer":
        shutil.rmtree(host.pool / "layers")
    assert host.run("import", f"oci:{other.path}:1").stdout == f"Repaired image {uuid} (layout@1)\n"
    image = host.get(uuid)
    # What it says of where it is from belongs together, and with it the next repair finds what it needs.
    assert image["reference"] == f"oci:{other.path}:1" and image["digest"] == other.descriptor("1")["digest"]
    shutil.rmtree(layout.path)
    host.run("gc")
    for layer in host.blobs():
        damage(blob_of(host, layer))
    host.start("scrub").communicate(timeout=PATIENCE)  # it finds there only what was brought from there
    shutil.rmtree(host.pool / "layers")
    host.run("import", f"oci:{other.path}:1")
    assert look(host.tree(uuid)) == before
    assert host.run("scrub").stdout.endswith("all are good\n")
    host.run("delete", uuid)
    assert host.layers() == [] and host.blobs() == [] and host.left_over() == []


@pytest.mark.parametrize("kind", ["layout", "archive", "registry"])
def test_a_lost_tree_is_made_of_what_the_store_has(area, host, layout, registry, kind):
    tarball(layout.path, area / "layout.tar")
    reference = {"layout": f"oci:{layout.path}:1", "archive": f"oci-archive:{area}/layout.tar:1"}.get(kind) or registry.push(f"oci:{layout.path}:1", "app:1")
    host.run("import", reference)
    before, uuid = look(host.tree(reference)), host.uuids()[0]
    if kind == "registry":
        registry.close()
    shutil.rmtree(layout.path)
    (area / "layout.tar").unlink()
    shutil.rmtree(host.pool / "layers")
    assert host.run("import", uuid).stdout.startswith(f"Repaired image {uuid} ")
    assert look(host.tree(uuid)) == before
    assert host.run("scrub").stdout.endswith("all are good\n")
    assert host.left_over() == []


def test_the_file_of_an_image_comes_from_the_store_or_from_the_source_that_is_named(area, host, imgapi):
    content = tarball(fill(area / "tree", {"b": "2"}), area / "b.tar").read_bytes()
    imgapi.add(UUID, content)
    host.run("sources", "-a", imgapi.url)
    host.run("import", "-q", UUID)
    host.run("sources", "-d", imgapi.url)
    shutil.rmtree(host.pool / "layers")
    assert host.run("import", UUID).stdout.startswith("Repaired image ")  # nobody was asked
    for blob in host.blobs():
        damage(blob_of(host, blob))
    assert "is no longer a source" in host.run("scrub", code=1).stderr
    assert host.run("import", UUID, "-S", imgapi.url).stdout.startswith("Repaired image ")
    assert host.run("scrub").stdout.endswith("all are good\n")

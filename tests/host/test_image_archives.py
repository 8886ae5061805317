"""Archives of docker save, podman save and others who write that format, and the names of images in archives and layouts."""

import gzip
import hashlib
import io
import json
import os
import tarfile

import pytest
from image_place import Layout, area, fill, host, look, needs_root, program, run, tarball  # noqa: F401

pytestmark = needs_root


def tar_of(directory):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(directory, arcname=".", recursive=True)
    return out.getvalue()


def hexadecimal(data):
    return hashlib.sha256(data).hexdigest()


class Saved:
    """An archive as docker save writes it, entry by entry."""

    def __init__(self, area):
        self.area = area
        self.files = {}
        self.images = []

    def config(self, layers, **more):
        facts = {"architecture": os.uname().machine.replace("x86_64", "amd64").replace("aarch64", "arm64"), "os": "linux",
                 "config": {"Cmd": ["/bin/sh"]}, "created": "2024-01-02T03:04:05Z",
                 "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hexadecimal(one) for one in layers]}, **more}
        return json.dumps(facts).encode()

    def add(self, names, layers, paths=None, config_path=None, **more):
        """An image; `layers` are uncompressed archives."""
        config = self.config(layers, **more)
        config_path = config_path or hexadecimal(config) + ".json"
        self.files[config_path] = config
        paths = paths or [f"{hexadecimal(one)}/layer.tar" for one in layers]
        for path, layer in zip(paths, layers):
            self.files.setdefault(path, layer)
        self.images.append({"Config": config_path, "RepoTags": names, "Layers": paths})
        return "sha256:" + hexadecimal(config)

    def write(self, name="saved.tar", mode="w", manifest=None):
        path = self.area / name
        files = {"manifest.json": json.dumps(self.images).encode() if manifest is None else manifest, **self.files}
        with tarfile.open(path, mode) as archive:
            for one, content in files.items():
                if content is None:
                    continue
                info = tarfile.TarInfo(one)
                if isinstance(content, tuple):
                    info.type, info.linkname = content
                    archive.addfile(info)
                else:
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
        return path


@pytest.fixture
def saved(area):
    return Saved(area)


@pytest.fixture
def layers(area):
    lower = tar_of(fill(area / "lower", {"usr/bin/tool": "lower", "etc/gone": "x", "etc/kept": "y"}))
    upper = tar_of(fill(area / "upper", {"usr/bin/tool": "upper", "etc/.wh.gone": ""}))
    return [lower, upper]


def check_tree(host, uuid):
    root = host.tree(uuid)
    assert (root / "usr/bin/tool").read_text() == "upper" and (root / "etc/kept").read_text() == "y"
    assert not (root / "etc/gone").exists()


def only(host):
    (image,) = host.images()
    return image


# As the writers of that format write it.


def test_docker_save_with_a_layer_that_is_a_link(host, saved, layers):
    """Docker before 25: a directory for each layer, and a link where two are the same."""
    empty = tar_of(fill(saved.area / "empty", {"usr": None}))
    saved.add(["team/app:1.0"], [layers[0], empty, layers[1], empty], ["a/layer.tar", "b/layer.tar", "c/layer.tar", "d/layer.tar"])
    saved.files["d/layer.tar"] = (tarfile.SYMTYPE, "../b/layer.tar")
    for one in "abcd":
        saved.files |= {f"{one}/VERSION": b"1.0", f"{one}/json": json.dumps({"id": one, "parent": "d"}).encode()}
    saved.files["repositories"] = b'{"team/app":{"1.0":"d"}}'
    archive = saved.write()
    host.run("import", f"docker-archive:{archive}")
    image = only(host)
    assert (image["manifest"]["name"], image["manifest"]["version"]) == ("team/app", "1.0")
    check_tree(host, image["manifest"]["uuid"])
    assert host.left_over() == []
    assert "is already installed" in host.run("import", f"oci-archive:{archive}:team/app:1.0").stdout
    assert host.get(f"oci-archive:{archive}:team/app:1.0")["manifest"]["uuid"] == image["manifest"]["uuid"]
    host.run("delete", image["manifest"]["uuid"])
    assert host.blobs() == []


def test_jib_and_ko_compress_layers_and_write_no_repositories(host, saved, layers):
    saved.add(["registry.example/team/app:2"], layers, ["one.tar.gz", "two.tar.gz"], "config.json")
    for path, layer in zip(["one.tar.gz", "two.tar.gz"], layers):
        saved.files[path] = gzip.compress(layer, mtime=0)
    host.run("import", f"docker-archive:{saved.write()}:2")
    image = only(host)
    assert (image["manifest"]["name"], image["manifest"]["version"]) == ("team/app", "2")
    check_tree(host, image["manifest"]["uuid"])


def test_the_whole_archive_may_be_compressed(host, saved, layers):
    saved.add(["app:1"], layers)
    host.run("import", f"docker-archive:{saved.write('saved.tar.gz', 'w:gz')}")
    check_tree(host, only(host)["manifest"]["uuid"])


def test_podman_save_by_skopeo_is_the_same_image_as_its_layout(area, host):
    layout = Layout(area / "layout")
    reference = layout.make("1.0", [fill(area / "a", {"usr/bin/x": "1"}), fill(area / "b", {"usr/bin/y": "2"})])
    archive = area / "podman.tar"
    policy = area / "policy.json"
    policy.write_text('{"default":[{"type":"insecureAcceptAnything"}]}')
    run(program("skopeo"), "--policy", policy, "copy", reference, f"docker-archive:{archive}:localhost/app:1.0")
    host.run("import", f"docker-archive:{archive}:localhost/app:1.0")
    image = only(host)
    assert (image["manifest"]["name"], image["manifest"]["version"]) == ("app", "1.0")
    assert look(host.tree(image["manifest"]["uuid"])) == look(layout.unpack("1.0", area / "umoci"))


def test_docker_since_25_writes_a_layout_whose_image_has_a_name(area, host):
    layout = Layout(area / "layout")
    layout.make("3.20", [fill(area / "a", {"usr/bin/x": "1"})])
    index = json.loads((layout.path / "index.json").read_text())
    index["manifests"][0]["annotations"]["io.containerd.image.name"] = "docker.io/library/alpine:3.20"
    (layout.path / "index.json").write_text(json.dumps(index))
    (layout.path / "manifest.json").write_text("[]")
    archive = tarball(layout.path, area / "saved.tar")
    for name in ("alpine:3.20", "docker.io/library/alpine:3.20", "3.20"):
        host.run("import", f"docker-archive:{archive}:{name}")
    image = only(host)
    assert (image["manifest"]["name"], image["manifest"]["version"]) == ("library/alpine", "3.20")


def test_images_of_an_archive_are_told_apart_by_name_and_by_digest(area, host, saved, layers):
    first = saved.add(["team/app:1", "team/app:latest"], layers[:1])
    second = saved.add(["team/app:2"], layers)
    third = saved.add(None, layers, created="2025-01-01T00:00:00Z")
    archive = saved.write()
    said = host.run("import", f"docker-archive:{archive}", code=1).stderr
    assert f"oci-archive:{archive} has several images; name one of its tags: " \
           "team/app:1, team/app:latest, team/app:2, (one without a tag)\n" in said
    said = host.run("import", f"docker-archive:{archive}:team/app:3", code=1).stderr
    assert f"oci-archive:{archive}:team/app:3 has no tag team/app:3; it has: team/app:1, " in said
    assert host.blobs() == [] or host.run("gc") and host.blobs() == []
    for name in ("team/app:2", "docker.io/team/app:2", "2"):
        host.run("import", f"docker-archive:{archive}:{name}")
    assert [one["manifest"]["version"] for one in host.images()] == ["2"]
    host.run("import", f"docker-archive:{archive}:docker.io/team/app")  # as docker does: latest
    host.run("import", f"docker-archive:{archive}@{third}")
    assert len(host.images()) == 3
    said = host.run("import", f"docker-archive:{archive}@sha256:{'0' * 64}", code=1).stderr
    assert f"has no such image; it has: {first}, {second}, {third}\n" in said


def test_a_tag_that_two_images_have_is_refused_with_their_digests(host, saved, layers):
    digests = [saved.add(["a:1"], layers), saved.add(["b:1"], layers[:1])]
    archive = saved.write()
    said = host.run("import", f"docker-archive:{archive}:1", code=1).stderr
    assert f"several images have this tag; @ and one of these instead of the tag names one: {', '.join(digests)}\n" in said
    host.run("import", f"docker-archive:{archive}@{digests[1]}")


def test_an_image_of_docker_save_is_repaired_and_updated(area, host, saved, layers):
    saved.add(["app:1"], layers)
    reference = f"oci-archive:{saved.write()}:app:1"
    host.run("import", reference)
    (uuid,) = host.uuids()
    assert host.run("update").stdout == f"{reference} is up to date\n"
    damaged = host.state / "content/blobs/sha256" / hexadecimal(layers[1])
    damaged.chmod(0o600)
    damaged.write_bytes(b"x")
    host.run("scrub", code=1)
    host.run("import", reference)  # which has to copy its layers before it can tell what image it is
    host.run("scrub")
    saved.images.clear()
    saved.add(["app:1"], layers[:1])
    saved.write()
    assert f"Moved {reference} from image {uuid} to image " in host.run("update", reference).stdout


def test_a_directory_with_what_docker_save_wrote(area, host, saved, layers):
    saved.add(["app:1"], layers)
    with tarfile.open(saved.write()) as archive:
        archive.extractall(area / "directory")
    assert "is what docker save writes; imgadm import oci:" in host.run("import", area / "directory", code=1).stderr
    host.run("import", f"oci:{area}/directory:app:1")
    check_tree(host, only(host)["manifest"]["uuid"])


@pytest.mark.parametrize("name", ["1.0+b", "localhost/app:1", "registry.example:5000/team/app:1.0"])
def test_a_layout_may_have_any_name_that_the_format_allows(area, host, name):
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "a", {"usr/bin/x": "1"})])
    manifest = layout.descriptor("1")
    layout.tag(name, {"digest": manifest["digest"], "size": manifest["size"]})
    host.run("import", f"oci:{layout.path}:{name}")
    image = only(host)
    assert image["reference"] == f"oci:{layout.path}:{name}"
    assert image["manifest"]["version"] == name.split(":")[-1]
    host.run("import", f"oci-archive:{tarball(layout.path, area / 'l.tar')}:{name}")
    host.run("update")


def test_a_root_with_a_manifest_of_its_own_is_a_root(area, host):
    for number, text in enumerate(('{"name": "web app"}', "[]", "[1]", "not JSON", '[{"Config": "../x", "Layers": []}]')):
        root = fill(area / f"root{number}", {"usr/bin/x": str(number), "manifest.json": text})
        host.run("import", tarball(root, area / f"root{number}.tar"))
    assert len(host.images()) == 5


# By enemies.


SECRET = "secret of the host"


def attacks(area):
    outside = str(area / "outside.tar")
    return {
        "absolute link": {"l.tar": (tarfile.SYMTYPE, outside)},
        "link upwards": {"l.tar": (tarfile.SYMTYPE, "../" * 30 + outside[1:])},
        "link to itself": {"l.tar": (tarfile.SYMTYPE, "l.tar")},
        "link to proc": {"l.tar": (tarfile.SYMTYPE, "/proc/self/environ")},
        "hard link out": {"l.tar": (tarfile.LNKTYPE, outside)},
        "hard link upwards": {"l.tar": (tarfile.LNKTYPE, "../../" + outside[1:])},
        "fifo": {"l.tar": (tarfile.FIFOTYPE, "")},
        "device": {"l.tar": (tarfile.CHRTYPE, "")},
        "directory": {"l.tar": (tarfile.DIRTYPE, "")},
        "missing": {"l.tar": None},
        "name upwards": {"../../l.tar": b"x", "l.tar": None},
        "configuration is a link": {"c.json": (tarfile.SYMTYPE, "/etc/passwd")},
        "manifest is a link": {"manifest.json": (tarfile.SYMTYPE, "/etc/passwd")},
        "manifest is a fifo": {"manifest.json": (tarfile.FIFOTYPE, "")},
    }


@pytest.mark.parametrize("name", attacks(__import__("pathlib").Path("/x")))
def test_nothing_of_the_host_is_taken_for_a_part_of_an_image(area, host, saved, layers, name):
    (area / "outside.tar").write_bytes(layers[0])
    saved.add(["app:1"], layers[:1], ["l.tar"], "c.json")
    saved.files |= attacks(area)[name]
    failed = host.run("import", f"docker-archive:{saved.write()}", code=1)
    assert failed.stderr.startswith("imgadm: error ("), failed.stderr
    assert "/pool/" not in failed.stderr and "building/" not in failed.stderr, failed.stderr
    assert host.images() == [] and host.left_over() == []
    host.run("gc")
    assert host.blobs() == []


@pytest.mark.parametrize(("manifest", "reason"), [
    (b"[]", "has no image"),
    (b"{}", "is not a list of images"),
    (b"", "document is not acceptable JSON"),
    (b"[" * 1000, "document is not acceptable JSON"),
    (b'[{"Config":"../../etc/passwd","Layers":["l"]}]', "is not a list of images"),
    (b'[{"Config":"/etc/passwd","Layers":["l"]}]', "is not a list of images"),
    (b'[{"Config":"c","Layers":["a/../../b"]}]', "is not a list of images"),
    (b'[{"Config":"c"}]', "is not a list of images"),
    (b'[{"Config":"c","Config":"d","Layers":[]}]', "document is not acceptable JSON"),
    (json.dumps([{"Config": "c", "Layers": ["l"] * 5000}]).encode(), "is not a list of images"),
    (json.dumps([{"Config": "c", "Layers": ["l"]}] * 2000).encode(), "has more than 1024 images"),
    (b'[{"Config":"c","Layers":["l"],"x":"' + b"y" * (5 << 20) + b'"}]', "4194304 bytes"),
], ids=["empty", "object", "nothing", "deep", "above", "absolute", "layer-above", "no-layers", "twice", "many-layers", "many-images", "long"])
def test_a_bad_manifest_is_refused_by_name(host, saved, manifest, reason):
    archive = saved.write(manifest=manifest)
    said = host.run("import", f"docker-archive:{archive}", code=1).stderr
    assert f"manifest.json of oci-archive:{archive}" in said and reason in said, said
    assert host.images() == [] and host.left_over() == [] and host.blobs() == []


def test_a_layer_that_is_another_one_is_refused(host, saved, layers):
    saved.add(["app:1"], layers)
    saved.files[saved.images[0]["Layers"][1]] = layers[0]
    assert "diffID is " in host.run("import", f"docker-archive:{saved.write()}", code=1).stderr
    assert host.images() == [] and host.left_over() == []


def test_more_or_fewer_layers_than_the_configuration_has_are_refused(host, saved, layers):
    saved.add(["app:1"], layers)
    saved.images[0]["Layers"] = saved.images[0]["Layers"] * 2
    assert "has 2 diff_ids for 4 layers" in host.run("import", f"docker-archive:{saved.write()}", code=1).stderr


def test_names_with_control_characters_are_not_printed(host, saved, layers):
    saved.add(["\u001b[31mred:1", "x" * 300], layers)
    said = host.run("import", f"docker-archive:{saved.write()}", code=1).stderr
    assert "\u001b" not in said
    saved.images.clear()
    saved.add(["\u001b[31mred:1"], layers)
    host.run("import", f"docker-archive:{saved.write()}")
    assert only(host)["manifest"]["name"] == "saved.tar"


def test_what_is_no_archive_of_images_is_said_by_its_own_name(area, host):
    archive = tarball(fill(area / "root", {"usr/bin/x": "1"}), area / "root.tar")
    said = host.run("import", f"docker-archive:{archive}", code=1).stderr
    assert f"{archive} is neither an OCI layout, which has an index.json, nor of docker save, which has a manifest.json\n" in said
    old = tarball(fill(area / "old", {"repositories": "{}", "a/layer.tar": ""}), area / "old.tar")
    assert f"{old} was written by docker save before version 1.10" in host.run("import", f"oci-archive:{old}", code=1).stderr

"""imgadm from end to end: import, list, get, delete of every kind of reference."""

import gzip
import hashlib
import json
import os
import sqlite3
import subprocess
import urllib.request

import pytest
from image_place import (BUILD, Layout, area, fill, host, imgapi, look, many_files, needs_root, registry, run,  # noqa: F401
                         tarball)

pytestmark = needs_root

BASE = {
    "etc/passwd": "root:x:0:0::/:/bin/sh\n",
    "etc/gone": "old",
    "etc/kept": "kept",
    "usr/bin/a": "#!/bin/sh\n",
    "usr/bin/b": ("link", "a"),
    "usr/bin/c": ("hard", "usr/bin/a"),
    "opaque/old": "x",
    "replaced/inner": "x",
    "empty": None,
}
UPPER = {
    "etc/.wh.gone": "",
    "opaque/.wh..wh..opq": "",
    "opaque/new": "y",
    "replaced": "now a file",
    "usr/bin/a": "#!/bin/sh\nexit 0\n",
    "new/deep/file": "z",
}


def two_layers(area, layout=None):
    layout = layout or Layout(area / "layout")
    base = fill(area / "base", BASE)
    os.chmod(base / "usr/bin/a", 0o4755)
    os.chown(base / "etc/kept", 1000, 1000)
    os.setxattr(base / "etc/kept", "user.note", b"hello")
    upper = fill(area / "upper", UPPER)
    layout.make("1.0", [base, upper], ["--config.cmd", "/bin/sh"])
    return layout


def test_an_image_of_a_layout_is_imported_listed_and_deleted(area, host):
    layout = two_layers(area)
    done = host.run("import", f"oci:{layout.path}:1.0")
    (image,) = host.images()
    uuid = image["manifest"]["uuid"]
    assert done.stdout == f"Imported image {uuid} (layout@1.0)\n"
    assert image["manifest"]["type"] == "docker"
    assert image["digest"] == layout.descriptor("1.0")["digest"]
    assert look(host.tree(uuid)) == look(layout.unpack("1.0", area / "umoci"))
    assert json.loads((host.state / "imgadm/images" / f"{uuid}.json").read_text())["manifest"]["uuid"] == uuid
    assert host.left_over() == []

    again = host.run("import", f"oci:{layout.path}:1.0")
    assert again.stdout == f"Image {uuid} (layout@1.0) is already installed, skipping\n"

    assert host.run("delete", uuid).stdout == f"Deleted image {uuid}\n"
    assert host.images() == [] and host.layers() == [] and host.blobs() == [] and host.left_over() == []
    assert not (host.state / "imgadm/images" / f"{uuid}.json").exists()
    gone = host.run("get", uuid, code=3)
    assert gone.stderr == f"imgadm: error (ImageNotInstalled): image {uuid} is not installed\n"
    assert host.run("delete", uuid, code=3).stderr == gone.stderr


def test_a_registry_is_asked_once_for_each_layer_and_a_tag_stays_what_it_was(area, host, registry):
    layout = two_layers(area)
    name = registry.push(f"oci:{layout.path}:1.0", "team/app:1.0")
    host.run("import", name)
    (image,) = host.images()
    uuid = image["manifest"]["uuid"]
    assert (image["manifest"]["name"], image["manifest"]["version"]) == ("team/app", "1.0")
    assert image["source"] == registry.host and image["reference"] == name
    assert look(host.tree(uuid)) == look(layout.unpack("1.0", area / "umoci"))
    assert len(registry.requests("/blobs/sha256")) == 3  # two layers and the configuration

    layout.make("2.0", [fill(area / "second", {"other": "1"})])
    registry.push(f"oci:{layout.path}:2.0", "team/app:1.0")
    asked = len(registry.requests(""))
    assert host.run("import", name).stdout == f"Image {uuid} (team/app@1.0) is already installed, skipping\n"
    assert len(registry.requests("")) == asked
    assert host.get(name)["manifest"]["uuid"] == uuid

    dry = host.run("update", "-n").stdout
    assert dry.startswith(f"Would move {name} from image {uuid} to sha256:")
    assert host.uuids() == [uuid]
    moved = host.run("update", name).stdout.splitlines()
    new = host.get(name)["manifest"]["uuid"]
    assert new != uuid and moved[-1] == f"Moved {name} from image {uuid} to image {new}"
    assert sorted(host.uuids()) == sorted([uuid, new])
    assert host.run("update").stdout == f"{name} is up to date\n"
    assert host.run("update", f"{registry.host}/never:1", code=3).stderr == (
        f"imgadm: error (ImageNotInstalled): no image is installed that was imported as {registry.host}/never:1\n")


def test_images_share_layers_and_keep_what_others_need(area, host):
    layout = Layout(area / "layout")
    layout.make("base", [fill(area / "base", BASE)])
    layout.make("a", [fill(area / "one", {"one": "1"})], on="base")
    layout.make("b", [fill(area / "two", {"two": "2"})], on="base")
    host.run("import", f"oci:{layout.path}:a", f"oci:{layout.path}:b")
    first, second = host.get(f"oci:{layout.path}:a"), host.get(f"oci:{layout.path}:b")
    shared = layout.manifest("a")["layers"][0]["digest"]
    assert shared == layout.manifest("b")["layers"][0]["digest"]
    reasons = host.run("why", shared).stdout
    assert all(f"image {one['manifest']['uuid']} " in reasons for one in (first, second))
    host.run("delete", f"oci:{layout.path}:a")
    assert shared.split(":")[1] in host.blobs()
    assert look(host.tree(second["manifest"]["uuid"])) == look(layout.unpack("b", area / "umoci"))
    host.run("delete", second["manifest"]["uuid"])
    assert host.layers() == [] and host.blobs() == []
    missing = host.run("why", shared, code=1)
    assert missing.stderr == f"imgadm: error (ResourceNotFound): nothing here has or refers to {shared}\n"


def test_a_tarball_and_a_directory_become_the_same_image(area, host):
    tree = fill(area / "tree", BASE)
    archive = tarball(tree, area / "root.tar.gz", "w:gz")
    host.run("import", archive, "--name", "box", "--image-version", "7")
    (image,) = host.images()
    assert (image["manifest"]["name"], image["manifest"]["version"]) == ("box", "7")
    assert image["manifest"]["files"][0]["compression"] == "gzip"
    assert look(host.tree(image["manifest"]["uuid"])) == look(tree)
    uuid = "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b"
    host.run("import", tree, "--uuid", uuid)
    assert host.get(uuid)["manifest"]["name"] == "tree"
    assert look(host.tree(uuid)) == look(tree)
    assert len(host.uuids()) == 2


def test_only_layers_have_whiteouts(area, host):
    """The same archive is another tree as a layer, whichever comes first."""
    layout = Layout(area / "layout")
    tree = fill(area / "tree", {**BASE, "etc/.wh.name": "a name", "b/.wh..wh..opq": "another"})
    name = layout.make("1", [tree])
    (layer,) = layout.json_of(layout.descriptor("1")["digest"])["layers"]
    archive = area / "root.tar"
    archive.write_bytes(gzip.decompress(layout.blob(layer["digest"]).read_bytes()))
    uuid = "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b"
    for order in ((name, archive), (archive, name)):
        for one in order:
            host.run("import", one, *(["--uuid", uuid] if one == archive else []))
        (of_layout,) = set(host.uuids()) - {uuid}
        assert look(host.tree(uuid)) == look(tree)
        assert look(host.tree(of_layout)) == look(layout.unpack("1", area / f"umoci-{order[0] == name}"))
        assert len(host.layers()) == 2
        host.run("delete", uuid, of_layout)
    host.run("import", tree, "--uuid", uuid)
    assert look(host.tree(uuid)) == look(tree)
    manifest = area / "manifest.json"
    manifest.write_text(json.dumps({"name": "made", "version": "1"}))
    host.run("create", tree, "-m", manifest)
    (made,) = set(host.uuids()) - {uuid}
    assert look(host.tree(made)) == look(tree)


def test_create_writes_files_that_install_takes(area, host):
    tree = fill(area / "tree", BASE)
    manifest = area / "manifest.json"
    manifest.write_text(json.dumps({"name": "made", "version": "2.1", "description": "x", "tags": {"role": "web"}}))
    out = area / "out"
    host.run("create", tree, "-m", manifest, "-o", out, "-c", "gzip")
    assert "--compression requires --output-directory" in host.run("create", tree, "-m", manifest, "-c", "gzip", code=2).stderr
    assert sorted(one.name for one in out.iterdir()) == ["made-2.1.imgmanifest", "made-2.1.tar.gz"]
    assert host.images() == [] and host.blobs() == [] and host.left_over() == []
    host.run("install", "-m", out / "made-2.1.imgmanifest", "-f", out / "made-2.1.tar.gz")
    (image,) = host.images()
    assert image["manifest"]["tags"] == {"role": "web"}
    assert look(host.tree(image["manifest"]["uuid"])) == look(tree)
    host.run("delete", image["manifest"]["uuid"])

    host.run("create", tree, "-m", manifest)
    (here,) = host.images()
    assert look(host.tree(here["manifest"]["uuid"])) == look(tree)
    same = host.run("list", "-H", "-o", "name,tags.role", "tags.role=web").stdout
    assert same == "made  web\n"
    assert host.run("list", "-H", "tags.role=db").stdout == ""


def test_fields_of_the_manifest_are_words(area, host):
    tree = fill(area / "tree", {"a": "b"})
    manifest = area / "manifest.json"
    manifest.write_text(json.dumps({"name": "made", "version": "2.1", "description": "x"}))
    host.run("create", tree, "name=web", "version=1", "description=a = b", 'tags={"role": "db"}', "public=false", "-m", manifest)
    (image,) = host.images()
    made = image["manifest"]
    assert [made[key] for key in ("name", "version", "description", "tags", "public")] == ["web", "1", "a = b", {"role": "db"}, False]
    out = area / "out"
    host.run("create", tree, "name=web", "version=2.0", "-o", out)
    assert sorted(one.name for one in out.iterdir()) == ["web-2.0.imgmanifest", "web-2.0.tar"]
    for word, text in [("nam=web", 'unknown field "nam" of a manifest; did you mean "name"?; see imgadm reference manifest'),
                       ("web", '"web" is not a field with its value: FIELD=VALUE'), ("tags={", '"tags={": ')]:
        assert text in host.run("create", tree, word, code=2).stderr
    assert "version" in host.run("create", tree, "version=" + "9" * 200, code=1).stderr


def test_an_image_that_is_installed_is_not_created_again(area, host):
    manifest = area / "manifest.json"
    manifest.write_text(json.dumps({"uuid": "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b", "name": "a", "version": "1"}))
    made = host.run("create", fill(area / "tree", {"which": "first"}), "-m", manifest, "-q")
    assert made.stdout == ""
    blobs = host.blobs()
    for words in ([], ["-q"]):
        again = host.run("create", fill(area / f"second{len(words)}", {"which": "second"}), "-m", manifest, *words, code=1)
        assert again.stderr == ("imgadm: error (ImageAlreadyInstalled): image 7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b "
                                "is installed already\n")
    assert host.blobs() == blobs
    host.run("create", area / "second0", "-m", manifest, "-o", area / "out")


def test_a_file_that_is_not_what_its_manifest_says_leaves_nothing(area, host):
    tree = fill(area / "tree", {"a": "b"})
    out = area / "out"
    host.run("create", tree, "-o", out)
    (manifest,) = out.glob("*.imgmanifest")
    (archive,) = out.glob("*.tar")
    content = json.loads(manifest.read_text())
    content["files"][0]["sha256"] = "0" * 64
    manifest.write_text(json.dumps(content))
    wrong = host.run("install", "-m", manifest, "-f", archive, code=1)
    assert wrong.stderr.startswith(f"imgadm: error (CorruptContent): image file checksum error: {archive}: ")
    content["files"][0]["size"] += 1
    manifest.write_text(json.dumps(content))
    wrong = host.run("install", "-m", manifest, "-f", archive, code=1)
    assert "image file size error: " in wrong.stderr
    del content["files"][0]["sha256"]
    manifest.write_text(json.dumps(content))
    wrong = host.run("install", "-m", manifest, "-f", archive, code=1)
    assert "has no SHA-256 in its manifest, so nothing can be verified" in wrong.stderr
    assert host.images() == [] and host.layers() == [] and host.left_over() == [] and host.blobs() == []


def test_an_old_manifest_with_a_sha1_is_taken_with_a_warning(area, host):
    tree = fill(area / "tree", {"a": "b"})
    out = area / "out"
    host.run("create", tree, "-o", out)
    (manifest,) = out.glob("*.imgmanifest")
    (archive,) = out.glob("*.tar")
    content = json.loads(manifest.read_text())
    (file,) = content["files"]
    content["files"] = [{"size": file["size"], "sha1": hashlib.sha1(archive.read_bytes()).hexdigest(),
                         "compression": "none"}]
    manifest.write_text(json.dumps(content))
    done = host.run("install", "-m", manifest, "-f", archive)
    assert done.stderr == (f"imgadm: warning: image {content['uuid']} has only a SHA-1, which does not protect against "
                           "forgery\n")
    assert host.uuids() == [content["uuid"]]
    host.run("delete", content["uuid"])
    content["files"][0]["sha1"] = "0" * 40
    manifest.write_text(json.dumps(content))
    assert "image file checksum error" in host.run("install", "-m", manifest, "-f", archive, code=1).stderr


def test_pinned_and_needed_images_stay(area, host):
    layout = two_layers(area)
    host.run("import", f"oci:{layout.path}:1.0")
    (uuid,) = host.uuids()
    host.run("pin", uuid)
    kept = host.run("delete", uuid, code=1)
    assert kept.stderr == (f"imgadm: error (Refused): image {uuid} is pinned; imgadm unpin {uuid} lets it go\n")
    assert host.run("vacuum", "-f").stdout == "0 in all, 0 bytes\n"
    assert host.run("list", "-H", "-o", "pinned").stdout == "true\n"
    host.run("unpin", uuid)
    dry = host.run("vacuum", "-n").stdout
    assert dry.startswith(f"image {uuid} (layout@1.0)  ") and host.uuids() == [uuid]
    asked = host.run("vacuum", code=2)
    assert "nobody can be asked; -f deletes them, -n only lists them" in asked.stderr
    host.run("vacuum", "-f")
    assert host.images() == [] and host.layers() == [] and host.blobs() == []


def test_an_oci_archive_is_imported(area, host):
    layout = two_layers(area)
    archive = tarball(layout.path, area / "image.tar")
    host.run("import", f"oci-archive:{archive}:1.0")
    (image,) = host.images()
    assert image["source"] == f"oci-archive:{archive}"
    assert look(host.tree(image["manifest"]["uuid"])) == look(layout.unpack("1.0", area / "umoci"))
    assert host.left_over() == []


def test_the_tag_of_an_archive_is_updated(area, host):
    layout = two_layers(area)
    archive = tarball(layout.path, area / "image.tar")
    reference = f"oci-archive:{archive}:1.0"
    host.run("import", reference)
    (old,) = host.uuids()
    own = {"sha256:" + blob for blob in host.blobs()}
    assert own == {layout.descriptor("1.0")["digest"], layout.manifest("1.0")["config"]["digest"],
                   *(one["digest"] for one in layout.manifest("1.0")["layers"])}  # and no copy of the archive
    assert host.run("update").stdout == f"{reference} is up to date\n"
    layout.make("2.0", [fill(area / "newer", {"new": "2"})])
    run(layout.umoci, "tag", "--image", f"{layout.path}:2.0", "1.0")
    tarball(layout.path, archive)
    assert host.run("update", "-n").stdout.startswith(f"Would move {reference} from image {old} to sha256:")
    assert f"Moved {reference} from image {old} to image " in host.run("update", reference).stdout
    (new,) = {*host.uuids()} - {old}
    assert host.get(reference)["manifest"]["uuid"] == new and (host.tree(new) / "new").read_text() == "2"
    assert host.left_over() == []


def test_the_tags_of_layouts_that_are_gone_are_left_out_of_an_update(area, host):
    layout = two_layers(area)
    archive = tarball(layout.path, area / "image.tar")
    references = [f"oci:{layout.path}:1.0", f"oci-archive:{archive}:1.0"]
    host.run("import", *references)
    layout.path.rename(area / "away")
    archive.unlink()
    done = host.run("update")
    assert done.stdout == "" and sorted(done.stderr.splitlines()) == sorted(
        f"imgadm: warning: {one} does not exist any more, and is not updated" for one in references)
    for one in references:
        assert "No such file or directory" in host.run("update", one, code=1).stderr


@pytest.mark.parametrize("content", [b"", gzip.compress(b""), bytes(10240)], ids=["nothing", "nothing-compressed", "end"])
def test_a_tarball_with_nothing_in_it_is_not_an_image(area, host, content):
    (area / "failed-download.tar").write_bytes(content)
    said = host.run("import", area / "failed-download.tar", code=1).stderr
    assert said == f"imgadm: error (CorruptContent): cannot import {area}/failed-download.tar: the archive is empty\n"
    assert host.images() == [] and host.blobs() == [] and host.layers() == [] and host.left_over() == []


def test_an_image_in_another_format_is_not_taken_for_a_root_file_system(area, host):
    layout = two_layers(area)
    archive = tarball(layout.path, area / "image.tar")
    for path, kind, doing in ((layout.path, "oci:", ""), (archive, "oci-archive:", f"cannot import {archive}: ")):
        said = host.run("import", path, code=1).stderr
        assert said == (f"imgadm: error (InvalidParameter): {doing}{path} is an OCI layout; "
                        f"imgadm import {kind}{path} imports its image\n")
    entry = [{"Config": "c.json", "RepoTags": None, "Layers": ["l.tar"]}]
    for number, files in enumerate(({"manifest.json": "[]", "repositories": "{}"}, {"manifest.json": json.dumps(entry)})):
        saved = tarball(fill(area / f"saved{number}", files), area / f"saved{number}.tar")
        said = host.run("import", saved, code=1).stderr
        assert said == (f"imgadm: error (InvalidParameter): cannot import {saved}: {saved} is what docker save writes; "
                        f"imgadm import docker-archive:{saved} imports its image\n")
    assert host.images() == [] and host.blobs() == [] and host.layers() == [] and host.left_over() == []


def pushed_layers(registry, name, tag):
    request = urllib.request.Request(f"http://{registry.host}/v2/{name}/manifests/{tag}",
                                     headers={"Accept": "application/vnd.oci.image.manifest.v1+json"})
    with urllib.request.urlopen(request) as answer:
        return [one["digest"] for one in json.load(answer)["layers"]]


def test_scrub_finds_what_has_changed_and_fetches_it_again(area, host, registry):
    layout = two_layers(area)
    name = registry.push(f"oci:{layout.path}:1.0", "app:1")
    host.run("import", name)
    assert host.run("scrub").stdout.endswith("all are good\n")
    (victim,) = [one for one in (host.state / "content/blobs/sha256").iterdir()
                 if one.name == pushed_layers(registry, "app", "1")[0].split(":")[1]]
    os.chmod(victim, 0o600)
    good = victim.read_bytes()
    victim.write_bytes(b"x" + good[1:])
    report = host.run("scrub")
    assert f"sha256:{victim.name}: " in report.stdout and "it was fetched again" in report.stdout
    assert host.uuids()[0] in report.stdout
    assert victim.read_bytes() == good
    assert host.run("scrub").stdout.endswith("all are good\n")


def test_a_relative_name_means_what_is_in_this_directory(area, host, monkeypatch):
    for place in ("a", "b"):
        (area / place).mkdir()
        Layout(area / place / "layout").make("1.0", [fill(area / place / "base", {"which": place})])
        fill(area / place / "tree", {"which": place + " tree"})
    for place in ("a", "b"):
        monkeypatch.chdir(area / place)
        assert host.run("import", "oci:layout:1.0").stdout.startswith("Imported")
        assert "already installed" in host.run("import", f"oci:{area / place}/layout:1.0").stdout
        assert (host.tree("oci:./layout:1.0") / "which").read_text() == place
        host.run("import", "./tree")
        assert (host.tree("../" + place + "/tree/") / "which").read_text() == place + " tree"
    assert len(host.uuids()) == 4
    assert host.run("update", "-n", "oci:./layout:1.0").stdout == f"oci:{area}/b/layout:1.0 is up to date\n"
    monkeypatch.chdir(area / "a")
    host.run("delete", "./tree")
    missing = host.run("delete", "./tree", code=3)
    assert missing.stderr == f"imgadm: error (ImageNotInstalled): no image is installed that was imported as {area}/a/tree\n"
    assert sorted(image["source"] for image in host.images()) == [str(area / "b/tree"), f"oci:{area}/a/layout", f"oci:{area}/b/layout"]

    # A symbolic link is followed before the ".." behind it.
    os.symlink(area / "b/tree", "link")
    assert "already installed" in host.run("import", "./link/../tree").stdout

    host.run("sources", "-t", "directory", "-a", "./tree")
    assert host.run("avail", "-S", "./tree", "-H").stdout == ""
    assert host.run("sources", "-d", "./tree").stdout == f'Deleted "directory" image source "{area}/a/tree"\n'


def test_a_tag_of_an_unknown_directory_is_not_moved(area, host, monkeypatch):
    """As an older imgadm has written it."""
    layout = two_layers(area)
    host.run("import", f"oci:{layout.path}:1.0")
    with sqlite3.connect(host.state / "content/content.db") as database:
        database.execute("UPDATE image_latch SET reference = 'oci:layout:1.0'")
    layout.make("1.0", [fill(area / "other", {"etc/other": "x"})])
    monkeypatch.chdir(area)
    assert "oci:layout:1.0 is not looked at" in host.run("update").stderr
    assert len(host.uuids()) == 1


def test_two_imports_of_one_image_download_it_once(area, host, registry):
    layout = Layout(area / "layout")
    layout.make("big", [many_files(area / "base")])
    name = registry.push(f"oci:{layout.path}:big", "big:1")
    first, second = host.start("import", name), host.start("import", name)
    texts = [one.communicate(timeout=120) for one in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), texts
    (uuid,) = host.uuids()
    assert sorted(text.split()[0] for text, _ in texts) == ["Image", "Imported"]
    assert len(registry.requests("/blobs/sha256")) == 2
    assert host.left_over() == []
    assert look(host.tree(uuid)) == look(layout.unpack("big", area / "umoci"))


def test_the_platform_of_an_index_is_chosen(area, host):
    layout = Layout(area / "layout")
    entries = []
    for architecture in ("amd64", "arm64"):
        layout.make(architecture, [fill(area / architecture, {"which": architecture})],
                    ["--architecture", architecture])
        one = layout.descriptor(architecture)
        entries.append({"mediaType": one["mediaType"], "digest": one["digest"], "size": one["size"],
                        "platform": {"os": "linux", "architecture": architecture}})
    kind = "application/vnd.oci.image.index.v1+json"
    index = layout.put({"schemaVersion": 2, "manifests": entries})
    reference = layout.tag("multi", index, kind)
    host.run("import", reference, "--platform", "linux/arm64")
    (image,) = host.images()
    assert image["platform"] == "linux/arm64" and image["digest"] == index["digest"]
    assert (host.tree(image["manifest"]["uuid"]) / "which").read_text() == "arm64"
    none = host.run("import", reference, "--platform", "linux/s390x", code=1)
    assert f"{reference} has no image for linux/s390x; it has: linux/amd64, linux/arm64" in none.stderr

    # An update stays with the platform that was asked for.
    layout.make("newer", [fill(area / "newer", {"which": "newer arm64"})], ["--architecture", "arm64"])
    entries[1] |= {name: layout.descriptor("newer")[name] for name in ("digest", "size")}
    document = json.loads((layout.path / "index.json").read_text())
    document["manifests"] = [one for one in document["manifests"] if one["digest"] != index["digest"]]
    (layout.path / "index.json").write_text(json.dumps(document))
    layout.tag("multi", layout.put({"schemaVersion": 2, "manifests": entries}), kind)
    host.run("update")
    image = host.get(reference)
    assert image["platform"] == "linux/arm64"
    assert (host.tree(image["manifest"]["uuid"]) / "which").read_text() == "newer arm64"

    # Without --platform an image for this machine is meant.
    if os.uname().machine == "x86_64":
        host.run("import", reference)
        assert host.get(reference)["platform"] == "linux/amd64" and len(host.images()) == 3
        assert "is already installed, skipping" in host.run("import", reference).stdout


def test_names_with_escapes_are_harmless(area, host):
    tree = fill(area / "tree", {"a": "b"})
    host.run("import", tree, "--name", "a\x1b]0;gotcha\x07", "--image-version", "\u202e1")
    shown = host.run("list", "-H", "-o", "name,version").stdout
    assert shown == "a\\x1b]0;gotcha\\x07  \\u202e1\n"
    assert "\x1b" not in host.run("list", "-j").stdout


def test_progress_is_json_when_asked_for(area, host):
    layout = two_layers(area)
    done = host.run("import", f"oci:{layout.path}:1.0", "--progress", "json")
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert {event["event"] for event in events} == {"progress"}
    assert "resolving" in {event["phase"] for event in events}


def test_errors_have_codes_and_exit_codes(host):
    wrong = host.run("-E", "get", "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b", code=3)
    assert json.loads(wrong.stderr) == {
        "code": "ImageNotInstalled", "kind": "notFound", "exitStatus": 3, "details": [],
        "message": "image 7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b is not installed"}
    assert json.loads(host.run("-E", "lisst", code=2).stderr)["code"] == "Usage"
    meant = host.run("import", "alpine:3.20", code=2).stderr
    assert "an image of Docker Hub is docker.io/library/alpine:3.20, a file is ./alpine:3.20" in meant
    assert "key \"nmae\" does not exist; did you mean \"name\"?" in host.run("list", "nmae=x", code=2).stderr
    assert host.run("list").stdout == "UUID  NAME  VERSION  OS  TYPE  PUB\n"
    missing = host.run("--root", host.root / "none", "list", code=1)
    assert missing.stderr == f"imgadm: error (ResourceNotFound): cannot open the root directory {host.root}/none: No such file or directory\n"
    assert missing.stdout == "" and not (host.root / "none").exists()


def test_an_import_makes_the_root_that_it_needs(area, host):
    (area / "files").mkdir()
    new = host.root / "new" / "root"
    host.run("--root", new, "import", area / "files")
    assert host.run("--root", new, "list", "-H").stdout.count("\n") == 1


def test_publish_is_refused_with_what_to_do_instead(host):
    server = "https://images.example.com"
    for words in (["publish"], ["publish", "-m", "x.imgmanifest", "-f", "x.zfs.gz", server], ["create", "-p", server, host.root]):
        assert host.run(*words, code=1).stderr == (
            "imgadm: error (NotSupported): imgadm sends no image to a server\n"
            "  imgadm create -o DIRECTORY writes two files; in the directory of a source (imgadm sources add -t directory) they are published.\n")
    assert json.loads(host.run("publish", "-m", "x.imgmanifest", "-E", code=1).stderr)["code"] == "NotSupported"


def test_options_of_import_that_would_be_ignored_are_refused(area, host):
    uuid = "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b"
    (area / "tree").mkdir()
    registry, layout, path = "docker.io/library/alpine:3.20", "oci:layout:1", area / "tree"
    of_registry, of_file, of_oci = "a registry", "a tarball or a directory", "a registry or a layout"
    of_source, of_own = "a UUID of a source", "a registry, a layout, a tarball or a directory"
    for option, allowed, refused in [
        (("-S", "http://127.0.0.1:1"), of_source, (registry, layout, path)),
        (("--uuid", uuid), of_file, (uuid, registry, layout)),
        (("--name", "x"), of_own, (uuid,)),
        (("--image-version", "x"), of_own, (uuid,)),
        (("--platform", "linux/arm64"), of_oci, (uuid, path)),
        (("--authfile", "/x"), of_registry, (uuid, layout, path)),
        (("-k",), of_registry, (uuid, layout, path)),
    ]:
        name = {"-S": "--source", "-k": "--insecure"}.get(option[0], option[0])
        for reference in refused:
            assert host.run("import", *option, reference, code=2).stderr == f"imgadm: error (Usage): {name} is for {allowed}, and not for {reference}\n"
        wanted = f"imgadm: error (Usage): {name} is for {allowed}, and not for an image with a manifest (-m)\n"
        assert host.run("import", "-m", path, "-f", path, *option, code=2).stderr == wanted
    assert host.run("import", "--uuid", uuid, path, path, code=2).stderr == "imgadm: error (Usage): --uuid is for one image, and 2 are named\n"
    assert host.uuids() == []


def test_options_of_sources_that_would_be_ignored_are_refused(host):
    host.run("sources", "add", "-f", "http://127.0.0.1:1")
    one = "only one of --add, --delete, --edit, --check and list can be asked for"
    for words in (["-a", "http://127.0.0.1:2", "remove", "http://127.0.0.1:1"], ["-e", "add", "http://127.0.0.1:2"], ["-c", "remove", "http://127.0.0.1:1"],
                  ["list", "-a", "http://127.0.0.1:2"], ["list", "-c"], ["-d", "http://127.0.0.1:1", "add", "http://127.0.0.1:2"]):
        assert host.run("sources", *words, code=2).stderr == f"imgadm: error (Usage): {one}\n", words
    for option in (["-t", "directory"], ["-k"], ["-f"], ["--signature", "required"], ["--key", "x"], ["--signatures", "x"], ["--authfile", "x"],
                   ["--mirror", "x"], ["--cacert", "x"], ["--channel", "x"]):
        name = {"-t": "--type", "-k": "--insecure", "-f": "--force"}.get(option[0], option[0])
        for words in ([], ["remove", "http://127.0.0.1:1"], ["-c"]):
            wanted = f"imgadm: error (Usage): {name} is for a source that is added\n"
            assert host.run("sources", *words, *option, code=2).stderr == wanted, (words, option)
    assert "excludes" in host.run("sources", "-c", "-j", code=2).stderr
    assert host.run("sources").stdout == "http://127.0.0.1:1\n"


def test_what_was_not_added_is_not_said_to_be(host):
    done = host.run("sources", "add", "-t", "directory", "-f", "http://127.0.0.1:1", "ftp://127.0.0.1", code=2)
    assert done.stdout == "" and host.run("sources").stdout == ""


def test_another_pool_than_the_host_has_is_refused(area, host):
    (area / "files").mkdir()
    refused = 'this host has no pool "zones": its images are in /var/triton/pool ("storage" in /etc/triton/triton.json)\n'
    for words in (["-P", "zones", "list"], ["import", "-P", "zones", area / "files"], ["--pool=zones", "sources"], ["vacuum", "-f", "-P", "zones"]):
        assert host.run(*words, code=1).stderr == f"imgadm: error (InvalidParameter): {refused}"
    assert not host.pool.exists()
    host.run("import", "-P", "/var/triton/pool", area / "files")
    assert len(host.uuids()) == 1
    configuration = {"storage": {"backend": "directory", "dataset": "tank/triton"}}
    (host.root / "etc/triton/triton.json").write_text(json.dumps(configuration))
    for pool in ("tank", "tank/triton", "/var/triton/pool"):
        assert host.run("-P", pool, "list", "-H").stdout.count("\n") == 1
    for pool in ("tan", "triton", "tank/", "tank/triton/x"):
        assert "its images are in tank/triton" in host.run("-P", pool, "list", code=1).stderr


def test_without_root_it_says_so(area, host):
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    os.chmod(area, 0o755)
    done = subprocess.run([*nobody, str(BUILD / "imgadm"), "import", "/x"], capture_output=True, text=True,
                          env=host.environment())
    if "Permission denied" in done.stderr and not done.stdout and done.returncode == 126:
        return  # the build directory itself is closed to others
    assert done.stderr == "imgadm: error (NotAuthorized): cannot change the images of this host: this needs root\n"
    assert done.returncode == 1


def test_a_file_that_is_wrong_is_named(area, host):
    (area / "text").write_text("not an archive")
    assert host.run("import", area / "text", code=1).stderr == (
        f"imgadm: error (CorruptContent): cannot import {area}/text: archive is broken: Unrecognized archive format\n")
    for text, detail in (("{", "line 1, column 2: "), ('{"v": 2, "v": 2}', "v: duplicate key"), ("", "is empty")):
        (area / "text").write_text(text)
        error = host.run("install", "-m", area / "text", "-f", area / "text", code=1).stderr
        assert error.startswith(f"imgadm: error (InvalidParameter): the file given with -m is not JSON\n  {detail}"), error
    (area / "text").write_text('{"v": 2}')
    error = host.run("install", "-m", area / "text", "-f", area / "text", code=1).stderr
    assert error.startswith("imgadm: error (InvalidParameter): the file given with -m is not a manifest\n  ")


def test_one_that_is_missing_does_not_keep_the_others(area, host):
    tree = fill(area / "tree", {"a": "b"})
    here, missing = (f"5e6a4c11-0c2f-4a44-8c1f-00000000000{n}" for n in (1, 2))
    host.run("import", "--uuid", here, tree)
    done = host.run("delete", missing, here, code=3)
    assert done.stdout == f"Deleted image {here}\n"
    assert done.stderr == f"imgadm: error (ImageNotInstalled): image {missing} is not installed\n"
    done = host.run("delete", missing, here, code=3)
    assert done.stderr.startswith(f"imgadm: warning: image {missing} is not installed\nimgadm: error (ImageNotInstalled): image {here} ")


def test_a_reader_that_goes_is_not_an_error(area, host):
    for words in ("help", "help import", "list", "reference manifest", "completion bash", "sources"):
        done = subprocess.run(["bash", "-c", f"{BUILD}/imgadm {words} | :; exit ${{PIPESTATUS[0]}}"], env=host.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, ""), words


def test_phases_are_told_without_a_terminal_too(area, host):
    tree = fill(area / "tree", {"a": "b"})
    assert "imgadm: " not in host.run("import", tree).stderr
    assert f"imgadm: unpacking: {area}/more\n" in host.run("import", "-v", fill(area / "more", {"a": "c"})).stderr

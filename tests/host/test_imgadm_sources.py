"""Where images come from: IMGAPI, directories and HTTP indexes, registries with credentials, and signatures."""

import base64
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from fault_server import FaultServer
from image_place import (IMGADM, Layout, area, fill, host, imgapi, look, needs_root, program, registry, run,  # noqa: F401
                         tarball)

pytestmark = needs_root

UUID = "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b"


def test_an_imgapi_source(area, host, imgapi):
    tree = fill(area / "tree", {"etc/x": "1"})
    data = tarball(tree, area / "a.tar").read_bytes()
    imgapi.add(UUID, data)
    assert host.run("sources", "-a", imgapi.url).stdout == f'Added "imgapi" image source "{imgapi.url}"\n'
    assert host.run("sources").stdout == f"{imgapi.url}\n"
    assert host.run("sources", "-a", imgapi.url).stdout == f'Already have "{imgapi.url}" as a source, no change\n'
    assert host.run("avail", "-H", "-o", "uuid,name,version").stdout == f"{UUID}  web  1.2\n"
    assert json.loads(host.run("show", UUID).stdout)["uuid"] == UUID
    done = host.run("import", UUID)
    assert done.stdout.splitlines() == [
        f'Importing {UUID} (web@1.2) from "{imgapi.url}"',
        "Must download and install 1 image (0.0 MiB)",
        f"Downloaded image {UUID} (0.0 MiB)",
        f"Imported image {UUID} (web@1.2)",
    ]
    assert look(host.tree(UUID)) == look(tree)
    assert host.run("import", UUID).stdout == f"Image {UUID} (web@1.2) is already installed, skipping\n"
    assert host.run("sources", "-c").stdout == f"{imgapi.url}: ok\n"
    other = "00000000-1889-11e7-b4c5-3f3bdfc9b88b"
    missing = host.run("import", other, code=1)
    assert missing.stderr == (
        f"imgadm: error (ResourceNotFound): image {other} was not found in any image source\n")
    assert host.run("sources", "-d", imgapi.url).stdout == f'Deleted "imgapi" image source "{imgapi.url}"\n'
    assert host.run("sources", "-j").stdout == "[]\n"
    none = host.run("avail", code=1)
    assert none.stderr == (
        "imgadm: error (ResourceNotFound): there is no image source; imgadm sources -a URL adds one\n")


@pytest.mark.parametrize("knows_marker, bad", [(True, None), (True, 999), (False, None)])
def test_all_images_of_a_server_that_gives_a_thousand_at_once_are_listed(host, knows_marker, bad):
    def manifest(number):
        day = f"2024-{number // 280 + 1:02}-{number % 28 + 1:02}T00:00:00.000Z"
        return {"v": 2, "uuid": f"{number:08x}-1889-11e7-b4c5-3f3bdfc9b88b", "name": f"n{number}", "version": "1", "type": "lxd",
                "os": "linux", "published_at": day, "files": [{"size": 1, "sha256": "0" * 64, "compression": "none"}]}

    everything = [manifest(number) for number in range(2300)]
    if bad:
        del everything[bad]["uuid"]  # the last one of a page
    markers = []

    def images(request):
        marker = request.path.partition("?channel=dev&marker=")[2]
        markers.append(marker)
        begin = [one.get("uuid") for one in everything].index(marker) if marker and knows_marker else 0
        page = everything[begin : begin + 1000] if knows_marker else everything
        request.send(200, json.dumps(page).encode(), Content_Type="application/json")

    with FaultServer() as server:
        server.on("/images", images)
        host.run("sources", "-f", "-a", server.url(""), "--channel", "dev")
        names = host.run("avail", "-H", "-o", "name").stdout.split()
    assert sorted(names) == sorted(one["name"] for one in everything if "uuid" in one)
    lasts = (998, 1997) if bad else (999, 1998)
    assert markers == ["", *([everything[at]["uuid"] for at in lasts] if knows_marker else [])]


def test_images_that_cannot_run_here_are_refused(area, host, imgapi):
    data = tarball(fill(area / "tree", {"a": "b"}), area / "a.tar").read_bytes()
    host.run("sources", "add", imgapi.url)
    for more, reason in (
        ({"state": "disabled"}, f"image {UUID} is not active: its state is disabled"),
        ({"os": "smartos"}, f"image {UUID} is for smartos, not for Linux"),
        ({"type": "zvol"}, f"image {UUID} is a disk (type zvol), not a file system"),
        ({"requirements": {"brand": "kvm"}}, f"image {UUID} requires machines of the brand kvm, and here all are lx"),
        ({"files": []}, f"image {UUID} has 0 files; one can be installed"),
        ({"origin": UUID}, f"image {UUID} is its own origin"),
    ):
        imgapi.add(UUID, data, **more)
        assert reason in host.run("import", UUID, code=1).stderr
    assert host.images() == [] and host.left_over() == []


def test_nothing_comes_of_an_increment_that_cannot_be_installed(area, host, imgapi):
    data = tarball(fill(area / "tree", {"a": "b"}), area / "a.tar").read_bytes()
    top, middle = (f"{digit}{UUID[1:]}" for digit in "89")
    imgapi.add(UUID, data)
    imgapi.add(middle, data, origin=UUID)
    imgapi.add(top, data, origin=middle)
    host.run("sources", "add", imgapi.url)
    done = host.run("import", top, code=1)
    assert done.stderr == (
        f"imgadm: error (NotSupported): image {middle} is an increment of another, which only ZFS can install\n")
    assert done.stdout == "" and host.images() == [] and host.blobs() == []
    assert not [path for path in imgapi.requests if path.endswith("/file")]


def test_wrong_bytes_of_a_source_are_refused(area, host, imgapi):
    data = tarball(fill(area / "tree", {"a": "b"}), area / "a.tar").read_bytes()
    imgapi.add(UUID, data)
    manifest, _ = imgapi.images[UUID]
    imgapi.images[UUID] = (manifest, b"x" + data[1:])
    host.run("sources", "add", imgapi.url)
    assert host.run("import", UUID, code=1).stderr.startswith("imgadm: error (DownloadError): ")
    assert host.images() == [] and host.layers() == [] and host.left_over() == []


def test_a_directory_is_a_source(area, host):
    tree = fill(area / "tree", {"etc/x": "1"})
    out = area / "images"
    manifest = area / "m.json"
    manifest.write_text(json.dumps({"uuid": UUID, "name": "local", "version": "3"}))
    host.run("create", tree, "-m", manifest, "-o", out)
    host.run("sources", "-a", out, "-t", "directory")
    assert host.run("avail", "-H", "-o", "uuid,name").stdout == f"{UUID}  local\n"
    host.run("import", UUID)
    assert look(host.tree(UUID)) == look(tree)


def test_what_is_wrong_with_a_directory_is_told(area, host):
    tree = fill(area / "tree", {"etc/x": "1"})
    out = area / "images"
    manifest = area / "m.json"
    manifest.write_text(json.dumps({"uuid": UUID, "name": "local", "version": "3"}))
    host.run("create", tree, "-m", manifest, "-o", out)
    host.run("sources", "-a", out, "-t", "directory")
    (archive,) = out.glob("*.tar")
    good = archive.read_bytes()
    for bad, reason in ((good + b"x", f"size is {len(good) + 1} bytes instead of {len(good)}"), (b"x" + good[1:], "digest is sha256:"),
                        (None, "what is imported is not a regular file")):
        archive.unlink()
        archive.mkdir() if bad is None else archive.write_bytes(bad)
        assert f"): {archive}: {reason}" in host.run("import", UUID, code=1).stderr
    shutil.rmtree(out)
    assert host.run("import", UUID, code=1).stderr == (
        f"imgadm: error (ServiceUnavailable): cannot open {out}: No such file or directory\n")
    with FaultServer() as server:
        host.run("sources", "-d", out)
        host.run("sources", "-f", "-a", server.url(""), "-t", "directory")
        assert f"(ServiceUnavailable): cannot fetch {server.url('/index.json')}: " in host.run("show", UUID, code=1).stderr


def test_one_bad_manifest_of_a_directory_does_not_hide_the_others(area, host):
    images = area / "images"
    images.mkdir()
    for number in range(300):
        text = {"v": 2, "uuid": f"{number:08}{UUID[8:]}", "name": f"n{number}", "version": "1", "type": "other", "os": "linux"}
        (images / f"{number:03}.imgmanifest").write_text(json.dumps(text))
    host.run("sources", "-a", images, "-t", "directory")
    listed = host.run("avail", "-H", "-o", "name")
    assert len(listed.stdout.split()) == 300 and listed.stderr == ""
    good = (images / "007.imgmanifest").read_text()
    for text in (f"{good},{good}", "[]", "", "x" * (5 << 20)):
        (images / "007.imgmanifest").write_text(text)
        listed = host.run("avail", "-H", "-o", "name")
        assert len(listed.stdout.split()) == 299 and listed.stderr.count("imgadm: warning: ") == 1
        assert "/007.imgmanifest" in listed.stderr


class Files:
    """An HTTP server of one directory, as any web server is."""

    def __init__(self, directory, authorization=None):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *words, **more):
                super().__init__(*words, directory=str(directory), **more)

            def log_message(self, *_):
                pass

            def do_GET(self):
                if authorization and self.headers.get("Authorization") != authorization:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="x"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                super().do_GET()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def index(area, host):
    """A directory with one image and its index, behind an HTTP server."""
    tree = fill(area / "tree", {"etc/x": "1"})
    manifest = area / "m.json"
    manifest.write_text(json.dumps({"uuid": UUID, "name": "remote", "version": "3"}))
    host.run("create", tree, "-m", manifest, "-o", area / "images")
    (one,) = (area / "images").glob("*.imgmanifest")
    (area / "images/index.json").write_text("[" + one.read_text() + "]")
    server = Files(area / "images")
    yield server
    server.close()


def test_an_http_index_is_a_source(area, host, index):
    host.run("sources", "-a", index.url, "-t", "directory")
    assert host.run("avail", "-H", "-o", "name").stdout == "remote\n"
    host.run("import", UUID)
    assert (host.tree(UUID) / "etc/x").read_text() == "1"


def minisign(*words, **more):
    subprocess.run([program("minisign"), *map(str, words)], check=True, capture_output=True, **more)


def test_a_source_that_must_be_signed(area, host, index):
    images = area / "images"
    minisign("-G", "-W", "-p", area / "key.pub", "-s", area / "key.sec")
    minisign("-G", "-W", "-p", area / "other.pub", "-s", area / "other.sec")
    host.run("sources", "-a", index.url, "-t", "directory", "--signature", "required", "--key", area / "key.pub")
    missing = host.run("import", UUID, code=1).stderr
    assert missing == (f"imgadm: error (NotAuthorized): source {index.url} must be signed, and {index.url} has no "
                       "SHA256SUMS\n")

    (archive,) = images.glob("*.tar")
    line = f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n"
    sums = images / "SHA256SUMS"
    sums.write_text(line)
    assert "has no signature of SHA256SUMS" in host.run("import", UUID, code=1).stderr

    minisign("-S", "-W", "-s", area / "other.sec", "-m", sums)
    assert "NotAuthorized" in host.run("import", UUID, code=1).stderr  # not by that key
    sums.write_text(line.replace(archive.name, "another.tar"))
    minisign("-S", "-W", "-s", area / "key.sec", "-m", sums)
    named = host.run("import", UUID, code=1).stderr
    assert f"its signed SHA256SUMS does not say that {archive.name} is sha256:" in named
    assert host.images() == []

    sums.write_text(f"{'0' * 64}  {archive.name}\n{line}")  # which of them is meant?
    minisign("-S", "-W", "-s", area / "key.sec", "-m", sums)
    assert "NotAuthorized" in host.run("import", UUID, code=1).stderr
    assert host.images() == []

    for good in (line, line.replace("\n", "\r\n"), line.replace("  ", " *"), f"{'0' * 64}  other\n{line}".rstrip()):
        sums.write_bytes(good.encode())
        minisign("-S", "-W", "-s", area / "key.sec", "-m", sums)
        host.run("import", UUID)
        assert host.uuids() == [UUID]
        host.run("delete", UUID)


def test_a_policy_holds_however_its_source_is_typed(area, host, index):
    port = index.url.rsplit(":", 1)[1]
    minisign("-G", "-W", "-p", area / "key.pub", "-s", area / "key.sec")
    policy = ("--signature", "required", "--key", area / "key.pub")
    host.run("sources", "-f", "-a", f"http://localhost:{port}", "-t", "directory", *policy)
    for spelling in (f"http://localhost:{port}/", f"HTTP://LocalHost:{port}", f"http://localhost:{port}//"):
        assert host.run("avail", "-H", "-o", "source", "-S", spelling).stdout == f"http://localhost:{port}\n"
        said = host.run("import", UUID, "-S", spelling, code=1).stderr
        assert f"(NotAuthorized): source http://localhost:{port} must be signed" in said
        assert host.run("sources", "-a", spelling).stdout.startswith("Already have")
    assert host.run("sources", "-d", f"HTTP://localhost:{port}/").stdout.startswith('Deleted "directory"')

    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "base", {"a": "b"})])
    with FaultServer() as server:
        manifest = layout.blob(layout.descriptor("1")["digest"]).read_bytes()
        server.file("/v2/app/manifests/1", manifest)
        host.run("sources", "-f", "-a", server.url("", "LOCALHOST"), "-t", "registry", *policy)
        for name in ("localhost", "LOCALHOST", "LocalHost"):
            said = host.run("import", f"{name}:{server.port}/app:1", code=1).stderr
            assert f"(NotAuthorized): source http://localhost:{server.port} must be signed" in said


@pytest.fixture
def openpgp(area):
    """Signs with a key of its own, and exports that."""
    home = area / "gnupg"
    home.mkdir(mode=0o700)

    def gpg(*words):
        run(program("gpg"), "--batch", "--quiet", "--homedir", home, "--pinentry-mode", "loopback", "--passphrase", "", *words)

    gpg("--quick-generate-key", "images@example.org", "ed25519", "sign", "never")
    gpg("--output", area / "keys.gpg", "--export")
    gpg("--armor", "--output", area / "keys.asc", "--export")
    yield gpg
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)


@pytest.mark.parametrize("form", ["gpg", "asc"])
def test_a_source_that_is_signed_with_openpgp(area, host, index, openpgp, form):
    images = area / "images"
    (archive,) = images.glob("*.tar")
    sums = images / "SHA256SUMS"
    sums.write_text(f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n")
    signature = images / f"SHA256SUMS.{form}"
    openpgp(*(["--armor"] if form == "asc" else []), "--output", signature, "--detach-sign", sums)
    host.run("sources", "-a", index.url, "-t", "directory", "--signature", "required", "--key", area / f"keys.{form}")
    good = sums.read_text()
    sums.write_text(good.replace(archive.name, "another"))
    assert "imgadm: error (NotAuthorized): " in host.run("import", UUID, code=1).stderr
    assert host.images() == []
    sums.write_text(good)
    host.run("import", UUID)
    assert host.uuids() == [UUID]


def signed_sums(area, name="SHA256SUMS"):
    """SHA256SUMS of the images' only archive, and two keys of minisign, one of which has signed it."""
    images = area / "images"
    (archive,) = images.glob("*.tar")
    (images / name).write_text(f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n")
    minisign("-G", "-W", "-p", area / "key.pub", "-s", area / "key.sec")
    minisign("-S", "-W", "-s", area / "key.sec", "-m", images / name)
    return images / name


def test_the_signatures_of_a_private_source(area, host, index):
    """They are asked for with the same credentials, and the mirrors have them too."""
    signed_sums(area)
    private = Files(area / "images", "Basic " + base64.b64encode(b"u:p").decode())
    auth = area / "auth.json"
    auth.write_text(json.dumps({"auths": {private.url.split("//")[1]: {"auth": base64.b64encode(b"u:p").decode()}}}))
    auth.chmod(0o600)
    words = ("-t", "directory", "--signature", "required", "--key", area / "key.pub")
    host.run("sources", "-a", private.url, *words, "--authfile", auth)
    host.run("import", UUID)
    host.run("delete", UUID)
    private.close()
    host.run("sources", "-d", private.url)
    host.run("sources", "-f", "-a", private.url, *words, "--mirror", index.url)
    host.run("import", UUID)


def test_the_signature_that_the_keys_are_for_is_checked(area, host, index, openpgp):
    sums = signed_sums(area)
    openpgp("--output", f"{sums}.gpg", "--detach-sign", sums)

    def trust(*names):
        host.run("sources", "-d", index.url)
        keys = [word for name in names for word in ("--key", area / name)]
        host.run("sources", "-a", index.url, "-t", "directory", "--signature", "required", *keys)

    openpgp("--quick-generate-key", "others@example.org", "ed25519", "sign", "never")
    openpgp("--armor", "--output", area / "others.asc", "--export", "others@example.org")
    openpgp("--output", area / "others.gpg", "--export", "others@example.org")
    for names in (["key.pub"], ["keys.gpg"], ["others.asc", "keys.gpg"], ["others.gpg", "keys.asc"], ["keys.gpg", "others.asc"]):
        trust(*names)
        host.run("import", UUID)
        host.run("delete", UUID)
    trust("others.gpg", "others.asc")
    assert "NotAuthorized" in host.run("import", UUID, code=1).stderr
    Path(f"{sums}.gpg").unlink()
    trust("keys.gpg")  # nothing that is there can be checked
    assert "NotAuthorized" in host.run("import", UUID, code=1).stderr


def test_files_of_signatures_that_are_wrong_are_named(area, host, index):
    sums = signed_sums(area)
    images = area / "images"
    host.run("sources", "-a", images, "-t", "directory", "--signature", "if-present", "--key", area / "key.pub")
    Path(f"{sums}.minisig").write_bytes(b"x" * (10 << 20))
    assert f"{sums}.minisig: size is more than 65536 bytes" in host.run("import", UUID, code=1).stderr
    sums.unlink()
    sums.mkdir()
    assert f"{sums}: what is imported is not a regular file" in host.run("import", UUID, code=1).stderr
    assert host.images() == []


def test_options_of_an_added_source_take_one_value_each(area, host):
    keys = [area / "a.pub", area / "b.pub"]
    words = ("--signature", "if-present", "--key", keys[0], "--key", keys[1], "--mirror", "https://m1.example", "--mirror", "https://m2.example")
    host.run("sources", "add", "-f", *words, "https://a.example", "https://b.example")
    for source in json.loads(host.run("sources", "-j").stdout):
        assert source["keys"] == [str(key) for key in keys]
        assert source["mirrors"] == ["https://m1.example", "https://m2.example"]
    host.run("sources", "-f", "-a", "https://c.example", "-a", "https://d.example")
    host.run("sources", "-d", "https://a.example", "-d", "https://b.example", "--delete=https://c.example")
    assert host.run("sources").stdout == "https://d.example\n"


def test_paths_of_an_added_source_may_be_relative(area, host, monkeypatch):
    (area / "images").mkdir()
    monkeypatch.chdir(area)
    host.run("sources", "add", "-t", "directory", "--signature", "required", "--key", "k.pub", "--key", "./x/../l.pub", "./images/", "images/../../" + area.name,
             code=2)  # the second one has no ./ before it: it may be a host
    host.run("sources", "add", "-t", "directory", "--signature", "required", "--key", "k.pub", "--key", "./x/../l.pub", "./images/", "../" + area.name)
    host.run("sources", "add", "-f", "--authfile", "auth.json", "--cacert", "ca.pem", "https://x.example")
    local, parent, remote = json.loads(host.run("sources", "-j").stdout)
    assert (local["url"], parent["url"]) == (str(area / "images"), str(area))
    assert local["keys"] == [str(area / "k.pub"), str(area / "l.pub")]
    assert (remote["authfile"], remote["authorities"]) == (str(area / "auth.json"), str(area / "ca.pem"))


@pytest.mark.parametrize(("words", "reason"), [
    (["--mirror", "http://m.example"], 'source "http://m.example": it is not encrypted; use https://, or allow it with -k'),
    (["--mirror", "/srv"], 'source "/srv": only a source of type directory is a path'),
    (["--mirror", "no url"], 'source "no url": it is not a URL'),
    (["--signature", "required", "--key", "/k", "--signatures", "http://s.example"],
     'source "http://s.example": it is not encrypted; use https://, or allow it with -k'),
    (["--signature", "required", "--key", "/k", "--signatures", "nonsense"], 'source "nonsense": it begins with neither https:// nor http://'),
    (["--signature", "required"], "--signature required needs a key: --key FILE"),
    (["--key", "/k"], "--key is for --signature required or if-present: no signature is checked"),
    (["--signatures", "https://s.example"], "--signatures is for --signature required or if-present: no signature is checked"),
    (["-t", "registry", "--channel", "dev"], "--channel is for a source of type imgapi"),
])
def test_an_added_source_that_makes_no_sense_is_refused(host, words, reason):
    for add in (["add", "https://x.example"], ["-a", "https://x.example"]):
        assert host.run("sources", "-f", *words, *add, code=2).stderr == f"imgadm: error (Usage): {reason}\n"
    assert host.run("sources").stdout == ""


def test_the_sources_are_edited(area, host, imgapi):
    def edit(text, code=0):
        editor = area / "editor with blanks"
        editor.write_text(f"#!/bin/sh\n{text}\n")
        os.chmod(editor, 0o755)
        return host.run("sources", "-e", code=code, env={"VISUAL": "", "EDITOR": f"'{editor}' --wait"})

    assert edit("exit 0").stdout == "No change\n"
    host.run("sources", "-a", imgapi.url)
    before = (host.state / "imgadm/imgadm.conf").read_text()
    assert edit("exit 0").stdout == "No change\n"
    assert edit("exit 3", code=1).stderr == "imgadm: error (Refused): the editor failed, and nothing was changed\n"
    bad = area / "bad.conf"
    bad.write_text('{"sources": [{"type": "ftp"}]}')
    wrong = edit(f'cat {bad} >"$2"', code=1).stderr
    assert "what was edited is not a configuration of imgadm" in wrong and "sources[0].url: required key is missing" in wrong
    assert (host.state / "imgadm/imgadm.conf").read_text() == before
    kept = Path(re.search(r"\n  What was edited is kept in (/tmp/imgadm-sources\.\w+)\n$", wrong)[1])
    assert kept.read_text() == bad.read_text()
    kept.unlink()
    changed = area / "changed.conf"
    changed.write_text(before.replace('"url"', '"channel": "dev", "url"'))
    assert edit(f'cat {changed} >"$2"').stdout == "Changed the sources\n"
    (source,) = json.loads(host.run("sources", "-j").stdout)
    assert (source["url"], source["channel"]) == (imgapi.url, "dev")
    assert edit('test "$(stat -c %a "$2")" = 600 && grep -q dev "$2"').stdout == "No change\n"

    # What an editor leaves that has failed, or that has written too much, is somebody's work too.
    for script, why in (('echo >>"$2"; exit 3', "the editor failed, and nothing was changed"), ('truncate -s 2M "$2"', "it has more than 1048576 bytes")):
        said = edit(script, code=1).stderr
        assert why in said
        Path(re.search(r"\n  What was edited is kept in (/tmp/imgadm-sources\.\w+)\n$", said)[1]).unlink()
    assert "kept" not in edit('rm "$2"', code=1).stderr

    add = f"{IMGADM} sources -f -a https://other.example >&2"
    late = edit(f'sed -i s/dev/release/ "$2" && {add}', code=1).stderr
    assert "another command has changed the sources meanwhile, and nothing was changed" in late
    Path(re.search(r"\n  What was edited is kept in (/tmp/imgadm-sources\.\w+)\n$", late)[1]).unlink()
    assert host.run("sources").stdout.split() == [imgapi.url, "https://other.example"]


def test_an_update_of_a_layout_and_what_is_below_others(area, host):
    layout = Layout(area / "layout")
    layout.make("base", [fill(area / "base", {"a": "1"})])
    layout.make("app", [fill(area / "app", {"b": "2"})], on="base")
    host.run("import", f"oci:{layout.path}:base", f"oci:{layout.path}:app")
    (base,) = host.run("list", "-H", "-o", "uuid", "version=base").stdout.split()
    (app,) = host.run("list", "-H", "-o", "uuid", "version=app").stdout.split()
    # Layers are shared, but one image is not an increment of the other: each can go by itself.
    assert host.run("ancestry", app, "-H", "-o", "uuid").stdout.split() == [app]
    assert [one["manifest"]["uuid"] for one in json.loads(host.run("get", "-r", app).stdout)] == [app]
    host.run("delete", base)
    assert (host.tree(app) / "a").read_text() == "1"
    layout.make("app", [fill(area / "newer", {"c": "3"})], on="app")
    assert host.run("update", "-n").stdout.startswith(f"Would move oci:{layout.path}:app from image {app} to sha256:")
    host.run("update")
    new = host.get(f"oci:{layout.path}:app")["manifest"]["uuid"]
    assert new != app and (host.tree(new) / "c").read_text() == "3"
    assert sorted(host.uuids()) == sorted([app, new])

    # One that cannot be asked does not keep the others.
    other = Layout(area / "other")
    other.make("1", [fill(area / "o1", {"o": "1"})])
    host.run("import", f"oci:{other.path}:1")
    other.make("1", [fill(area / "o2", {"o": "2"})])
    (layout.path / "index.json").unlink()
    done = host.run("update", code=1)
    assert done.stderr == (f"imgadm: error (ResourceNotFound): {layout.path} is neither an OCI layout, which has an "
                           "index.json, nor of docker save, which has a manifest.json\n")
    assert f"Moved oci:{other.path}:1 from image " in done.stdout


def test_a_registry_with_credentials(area, host, registry):
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "base", {"a": "b"})])
    name = registry.push(f"oci:{layout.path}:1", "app:1")
    registry.close()
    from image_place import Registry

    secured = area / "secured"
    secured.mkdir()
    # bcrypt of "secret", as htpasswd -B makes it
    hashed = run("python3", "-c", "import crypt; print(crypt.crypt('secret', crypt.mksalt(crypt.METHOD_BLOWFISH)))")
    (secured / "htpasswd").write_text("user:" + hashed.stdout.strip().replace("$2b$", "$2y$") + "\n")
    server = Registry(secured)
    server.close()
    text = (server.area / "config.yml").read_text()
    (server.area / "config.yml").write_text(
        text.replace(str(server.area / "data"), str(registry.area / "data"))
        + f"auth: {{htpasswd: {{realm: x, path: {secured}/htpasswd}}}}\n")
    process = subprocess.Popen([program("docker-registry"), "serve", str(server.area / "config.yml")],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        from image_place import wait_for_port

        wait_for_port(server.port, process)
        name = f"{server.host}/app:1"
        assert "NotAuthorized" in host.run("import", name, code=1).stderr
        auth = area / "auth.json"
        auth.write_text(json.dumps({"auths": {server.host: {"auth": base64.b64encode(b"user:wrong").decode()}}}))
        os.chmod(auth, 0o644)
        assert "has credentials, and others than its owner may use it" in host.run(
            "import", name, "--authfile", auth, code=1).stderr
        os.chmod(auth, 0o600)
        refused = host.run("import", name, "--authfile", auth, code=1).stderr
        assert "NotAuthorized" in refused and "wrong" not in refused
        auth.write_text(json.dumps({"auths": {server.host: {"auth": base64.b64encode(b"user:secret").decode()}}}))
        host.run("import", name, "--authfile", auth)
        assert len(host.uuids()) == 1
    finally:
        process.terminate()
        process.wait()

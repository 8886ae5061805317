"""Content that must be signed: without a good signature of a trusted key it never becomes a volume."""

import json
import os
import shutil
import signal
import subprocess

import pytest
from fault_server import FaultServer
from harness.agent import Authority
from image_place import Layout, fill
from test_volume_content import DISK, datastore, has_error, imgadm, is_loaded, sha256, tree
from volume_place import (  # noqa: F401 (fixtures)
    Manager, area, is_created, is_gone, manager, needs_root, uuid, volume,
)

pytestmark = needs_root

CODE = "keyUsage=digitalSignature\nextendedKeyUsage=codeSigning\n"
PAST = ("20200101000000Z", "20210101000000Z")


def run(*words, **more):
    subprocess.run([*map(str, words)], check=True, capture_output=True, **more)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Keys of each kind: minisign ours.pub, OpenPGP ours.gpg; and the same of others. Nobody but root can change them."""
    place = tmp_path_factory.mktemp("keys")
    for tool in ("minisign", "gpg", "gpgv"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    home = place / "gnupg"
    home.mkdir(mode=0o700)
    for name in ("ours", "others"):
        run("minisign", "-G", "-W", "-p", place / f"{name}.pub", "-s", place / f"{name}.key", input=b"\n\n")
        run("gpg", "--homedir", home, "--batch", "--passphrase", "", "--quick-gen-key", f"{name}@example", "ed25519", "sign", "never")
        exported = subprocess.run(["gpg", "--homedir", home, "--batch", "--export", f"{name}@example"], check=True, capture_output=True).stdout
        (place / f"{name}.gpg").write_bytes(exported)
    yield place
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    root = Authority(tmp_path_factory.mktemp("pki") / "main", "/CN=root")
    middle = root.below("middle")
    middle.issue("leaf", subject="/CN=leaf", config=CODE)
    middle.issue("expired", subject="/CN=expired", config=CODE, dates=PAST)
    return root.directory


class Images:
    """A datastore that is a directory, and who signs what is in it."""

    def __init__(self, path, keys, pki):
        self.path, self.keys, self.pki = path, keys, pki
        path.mkdir()
        (path / "disk.raw").write_bytes(DISK)

    def sign(self, kind, by="ours", of="disk.raw", into=None, comment=None):
        """Returns the file of the signature."""
        content = self.path / of
        if kind == "minisign":
            into = into or f"{of}.minisig"
            run("minisign", "-S", "-s", self.keys / f"{by}.key", "-m", content, "-x", self.path / into, "-t", comment or f"file:{of}")
        elif kind in ("openpgp", "openpgp-sums"):
            if kind == "openpgp-sums":
                (self.path / "SHA256SUMS").write_text(f"{sha256(content.read_bytes())}  {of}\n")
                content = self.path / "SHA256SUMS"
            into = into or (f"{of}.asc" if kind == "openpgp" else "SHA256SUMS.gpg")
            run("gpg", "--homedir", self.keys / "gnupg", "--batch", "--yes", "-u", f"{by}@example", "-o", self.path / into, "--detach-sign", content)
        elif kind == "cms":
            into = into or f"{of}.p7s"
            leaf = "leaf" if by == "ours" else by
            run("openssl", "cms", "-sign", "-binary", "-outform", "DER", "-signer", self.pki / f"{leaf}.pem", "-inkey", self.pki / f"{leaf}.key", "-in", content, "-out", self.path / into)
        else:
            into = into or f"{of}.sig"
            leaf = "leaf" if by == "ours" else by
            run("openssl", "dgst", "-sha256", "-sign", self.pki / f"{leaf}.key", "-out", self.path / into, content)
        return self.path / into

    def demand(self, kind, **more):
        if kind in ("cms", "x509"):
            return {"Kind": kind, "CertObj": uuid(77), **more}
        return {"Kind": kind, "KeyFile": str(self.keys / ("ours.pub" if kind == "minisign" else "ours.gpg")), **more}

    def certificates(self, store, *names):
        (self.path / "certs").mkdir(exist_ok=True)
        for name in names:
            shutil.copy(self.pki / f"{name}.pem", self.path / "certs")
        listed = [{"RelativeURL": f"certs/{name}.pem", "ImageSha256": sha256((self.pki / f"{name}.pem").read_bytes())} for name in names]
        return ("CertObjConfig", {"UUID": uuid(77), "DatastoreIDList": [store], "StorageConfigList": listed})

    def trust(self, manager, name="ca"):
        target = manager.root / "etc/triton/root-certificate.pem"
        shutil.copy(self.pki / f"{name}.pem", target)
        target.chmod(0o644)
        return target


@pytest.fixture
def images(area, keys, pki):
    return Images(area / "images", keys, pki)


KINDS = ("minisign", "openpgp", "openpgp-sums", "cms", "x509")


def put_all(client, images, kind, store=None, **more):
    """Publishes a volume of signed content, and what that needs; returns its key."""
    store, config = store or datastore("directory", images.path)
    key, wanted = volume(ContentID="disk")
    certificates = [images.certificates(store, "leaf", "middle", "expired")] if kind in ("cms", "x509") else []
    client.put(config, *certificates, tree("disk", store, DISK, Signature=images.demand(kind, **more)), wanted)
    return key


@pytest.mark.parametrize("kind", KINDS)
def test_content_with_a_good_signature_becomes_a_volume(kind, manager, images):
    images.trust(manager)
    images.sign(kind)
    manager.start()
    client = manager.client()
    key = put_all(client, images, kind)
    client.wait("VolumeStatus", key, is_created)
    assert (manager.tree(key) / f"{key}.raw").read_bytes() == DISK
    status = client.statuses("ContentTreeStatus")["ContentTreeStatus", "disk"]
    assert len(status["SignedBy"]) >= 16
    assert f"it is signed by {status['SignedBy']}" in client.call("Why", kind="ContentTreeConfig", key="disk")["lines"]
    # It is as it was after a kill, and nothing is checked again.
    manager.end(signal.SIGKILL)
    os.remove(images.path / "disk.raw")
    manager.start()
    assert manager.client().statuses("ContentTreeStatus")["ContentTreeStatus", "disk"] == status


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("datastore_kind", ["http", "directory"])
def test_a_signature_that_is_missing_is_waited_for(datastore_kind, kind, manager, images):
    images.trust(manager)
    with FaultServer() as server:
        server.file("/disk.raw", DISK)
        for name in ("leaf", "middle", "expired"):
            server.file(f"/certs/{name}.pem", (images.pki / f"{name}.pem").read_bytes())
        manager.start()
        client = manager.client()
        key = put_all(client, images, kind, datastore("http", server.url("")) if datastore_kind == "http" else None)
        status = client.wait("ContentTreeStatus", "disk", has_error)
        assert status["Error"]["Class"] == "server"
        assert "content tree disk must be signed, and none of its datastores has " in status["Error"]["Text"]
        assert status["State"] != "LOADED" and manager.trees() == []
        signature = images.sign(kind)
        server.file(f"/{signature.name}", signature.read_bytes())
        if kind == "openpgp-sums":
            server.file("/SHA256SUMS", (images.path / "SHA256SUMS").read_bytes())
        client.call("Retry")
        client.wait("VolumeStatus", key, is_created)
        fetched = [path for path, _ in server.requests if path == "/disk.raw"]
        assert len(fetched) <= 1, "what is here is not fetched again"


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


def empty(path):
    path.write_bytes(b"")


def huge(path):
    os.truncate(path, 1 << 40)


def link(path):
    path.rename(f"{path}.real")
    path.symlink_to(f"{path}.real")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def folder(path):
    path.unlink()
    path.mkdir()


def device(path):
    path.unlink()
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero


HOSTILE = {"cut": cut, "empty": empty, "huge": huge, "link": link, "pipe": pipe, "folder": folder, "device": device}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_signature_that_is_none_is_refused(hostile, kind, manager, images):
    images.trust(manager)
    HOSTILE[hostile](images.sign(kind))
    manager.start()
    client = manager.client()
    put_all(client, images, kind)
    status = client.wait("ContentTreeStatus", "disk", has_error)
    assert status["Error"]["Text"].startswith("the signature of content tree disk: "), status
    assert status["State"] != "LOADED" and manager.trees() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_signature_of_other_content_or_by_another_key_is_refused(kind, manager, images):
    images.trust(manager)
    (images.path / "other").write_bytes(b"other content")
    signature = images.sign(kind)
    if kind == "openpgp-sums":
        (images.path / "SHA256SUMS").write_text(f"{'0' * 64}  disk.raw\n")
        run("gpg", "--homedir", images.keys / "gnupg", "--batch", "--yes", "-u", "ours@example", "-o", signature, "--detach-sign", images.path / "SHA256SUMS")
    else:
        images.sign(kind, of="other", into=signature.name, comment="file:disk.raw")
    manager.start()
    client = manager.client()
    key = put_all(client, images, kind)
    status = client.wait("ContentTreeStatus", "disk", has_error)
    assert status["Error"]["Text"].startswith("the signature of content tree disk: sign"), status
    by = "expired" if kind in ("cms", "x509") else "others"
    images.sign(kind, by=by)
    client.call("Retry")
    expected = "certificate has expired" if by == "expired" else "which is not trusted"
    status = client.wait("ContentTreeStatus", "disk", lambda one: has_error(one) and expected in one["Error"]["Text"])
    assert status["State"] != "LOADED" and manager.trees() == []
    images.sign(kind)
    client.call("Retry")
    client.wait("VolumeStatus", key, is_created)


def for_everybody(path):
    path.chmod(0o666)


def of_its_group(path):
    path.chmod(0o664)


def of_somebody(path):
    os.chown(path, 12345, 0)


def linked(path):
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


def missing(path):
    path.unlink()


def in_an_open_directory(path):
    path.parent.chmod(0o777)


KEY_FILES = {
    "for-everybody": (for_everybody, "every user can change it"),
    "of-its-group": (of_its_group, "its group can change it"),
    "of-somebody": (of_somebody, "it belongs to user 12345"),
    "linked": (linked, "it is a symbolic link"),
    "missing": (missing, "No such file or directory"),
    "in-an-open-directory": (in_an_open_directory, "every user can change it"),
    "pipe": (pipe, "it is not a regular file"),
    "huge": (huge, "more than 1048576"),
    "empty": (empty, "which is not trusted"),
}


@pytest.mark.parametrize("case", KEY_FILES)
def test_keys_that_somebody_else_could_change_are_not_used(case, manager, images, area):
    spoil, expected = KEY_FILES[case]
    trusted = area / "trusted"
    trusted.mkdir(mode=0o755)
    shutil.copy(images.keys / "ours.pub", trusted / "ours.pub")
    spoil(trusted / "ours.pub")
    images.sign("minisign")
    manager.start()
    client = manager.client()
    key = put_all(client, images, "minisign", KeyFile=str(trusted / "ours.pub"))
    status = client.wait("ContentTreeStatus", "disk", has_error)
    assert expected in status["Error"]["Text"], status
    assert status["Error"]["Class"] == ("server" if case == "empty" else "permanent")
    assert manager.trees() == []
    shutil.rmtree(trusted)
    trusted.mkdir(mode=0o755)
    shutil.copy(images.keys / "ours.pub", trusted / "ours.pub")
    client.call("Retry")
    client.wait("VolumeStatus", key, is_created)


@pytest.mark.parametrize("case", ["for-everybody", "of-somebody", "linked", "missing"])
def test_roots_that_somebody_else_could_change_are_not_used(case, manager, images):
    spoil, expected = KEY_FILES[case]
    spoil(images.trust(manager))
    images.sign("cms")
    manager.start()
    client = manager.client()
    key = put_all(client, images, "cms")
    status = client.wait("ContentTreeStatus", "disk", has_error)
    assert expected in status["Error"]["Text"] and status["Error"]["Class"] == "permanent", status
    (manager.root / "etc/triton/root-certificate.pem").unlink(missing_ok=True)
    images.trust(manager)
    client.call("Retry")
    client.wait("VolumeStatus", key, is_created)


def test_a_signature_that_may_be_missing_must_be_good(manager, images):
    manager.start()
    client = manager.client()
    with FaultServer() as server:
        server.file("/disk.raw", DISK)
        store, config = datastore("http", server.url(""))
        demand = images.demand("minisign", Policy="if-present")
        client.put(config, tree("unsigned", store, DISK, Signature=demand))
        status = client.wait("ContentTreeStatus", "unsigned", is_loaded)
        assert "SignedBy" not in status
        server.file("/disk.raw.minisig", images.sign("minisign", by="others").read_bytes())
        client.put(tree("others", store, DISK, Signature=demand))
        status = client.wait("ContentTreeStatus", "others", has_error)
        assert "which is not trusted" in status["Error"]["Text"]
    # A server that does not answer does not say that there is none.
    client.put(tree("silent", store, DISK, Signature=demand))
    status = client.wait("ContentTreeStatus", "silent", has_error)
    assert status["State"] != "LOADED"


def test_a_demand_that_comes_later_holds_for_what_is_made_from_then_on(manager, images):
    manager.start()
    client = manager.client()
    store, config = datastore("directory", images.path)
    old, wanted = volume(ContentID="disk")
    client.put(config, tree("disk", store, DISK), wanted)
    client.wait("VolumeStatus", old, is_created)
    client.put(tree("disk", store, DISK, Signature=images.demand("minisign")))
    client.wait("ContentTreeStatus", "disk", has_error)
    new, wanted = volume(ContentID="disk")
    client.put(wanted)
    assert client.wait("VolumeStatus", new, has_error)["State"] != "CREATED_VOLUME"
    manager.end(signal.SIGKILL)
    manager.start()
    client = manager.client()
    client.wait("ContentTreeStatus", "disk", has_error)
    assert manager.trees() == [old.replace("#", ".")]
    images.sign("minisign")
    client.call("Retry")
    client.wait("VolumeStatus", new, is_created)
    # The same demand again changes nothing, and none is weaker than any.
    os.remove(images.path / "disk.raw.minisig")
    client.put(tree("disk", store, DISK, Signature=images.demand("minisign")))
    client.put(tree("disk", store, DISK))
    assert is_loaded(client.statuses("ContentTreeStatus")["ContentTreeStatus", "disk"])


def test_a_demand_that_comes_while_nobody_runs_is_seen_at_the_start(manager, images):
    manager.start()
    client = manager.client()
    store, config = datastore("directory", images.path)
    client.put(config, tree("disk", store, DISK))
    client.wait("ContentTreeStatus", "disk", is_loaded)
    client.put(tree("disk", store, DISK, Signature=images.demand("minisign")))
    manager.end(signal.SIGKILL)
    manager.start()
    status = manager.client().wait("ContentTreeStatus", "disk", has_error)
    assert "must be signed" in status["Error"]["Text"]


def test_the_signature_is_in_the_next_datastore_or_in_the_configuration(manager, images, area):
    manager.start()
    client = manager.client()
    (area / "signatures").mkdir()
    shutil.move(images.sign("minisign"), area / "signatures/disk.raw.minisig")
    first, first_config = datastore("directory", images.path)
    second, second_config = datastore("directory", area / "signatures")
    client.put(first_config, second_config, tree("disk", [first, second], DISK, Signature=images.demand("minisign")))
    client.wait("ContentTreeStatus", "disk", is_loaded)
    text = (area / "signatures/disk.raw.minisig").read_text()
    client.put(tree("inline", first, DISK, Signature=images.demand("minisign", ImageSignature=text)))
    assert client.wait("ContentTreeStatus", "inline", is_loaded)["SignedBy"]
    client.put(tree("broken", first, DISK, Signature=images.demand("minisign", ImageSignature=text[:-20])))
    client.wait("ContentTreeStatus", "broken", has_error)


def test_an_image_is_signed_by_its_manifest(manager, images, area):
    layout = Layout(area / "layout")
    layout.make("1", [fill(area / "base", {"etc/a": "first"})])
    index = json.loads((layout.path / "index.json").read_text())
    (digest,) = [one["digest"].removeprefix("sha256:") for one in index["manifests"]]
    shutil.copy(layout.path / f"blobs/sha256/{digest}", images.path / "manifest")
    manager.start()
    client = manager.client()
    store, config = datastore("directory", area)
    key, wanted = volume(ContentID="app")
    client.put(config, tree("app", store, None, "layout:1", "container", Signature=images.demand("minisign")), wanted)
    status = client.wait("ContentTreeStatus", "app", has_error)
    assert "must be signed" in status["Error"]["Text"] and manager.trees() == []
    shutil.move(images.sign("minisign", of="manifest", comment="file:layout:1"), area / "layout:1.minisig")
    client.call("Retry")
    client.wait("VolumeStatus", key, is_created)
    assert (manager.tree(key) / "root/etc/a").read_text() == "first"


# Certificates.


def test_content_waits_for_the_certificates_of_its_signer(manager, images):
    images.trust(manager)
    images.sign("cms")
    manager.start()
    client = manager.client()
    store, config = datastore("directory", images.path)
    key, wanted = volume(ContentID="disk")
    client.put(config, tree("disk", store, DISK, Signature=images.demand("cms")), wanted)
    client.wait("ContentTreeStatus", "disk", lambda one: one and one["State"] == "RESOLVED_TAG")
    lines = client.call("Why", kind="ContentTreeConfig", key="disk")["lines"]
    assert f"it waits for the certificates of {uuid(77)}, which nobody has configured" in lines
    kind, config = images.certificates(store, "leaf", "middle")
    (images.path / "certs/middle.pem").write_text("other bytes")
    client.put((kind, config))
    status = client.wait("CertObjStatus", uuid(77), has_error)
    assert "certificate certs/middle.pem: " in status["Error"]["Text"] and status["State"] == "DOWNLOADING"
    images.certificates(store, "middle")
    client.call("Retry")
    client.wait("VolumeStatus", key, is_created)
    status = client.statuses("CertObjStatus")["CertObjStatus", uuid(77)]
    assert status["State"] == "LOADED" and len(status["StorageStatusList"]) == 2


def views(manager, holder=77):
    place = manager.state / "certs" / uuid(holder)
    return sorted(one.name for one in place.iterdir()) if place.exists() else None


def test_certificates_are_kept_like_blobs(manager, images):
    manager.start()
    client = manager.client()
    store, config = datastore("directory", images.path)
    both = images.certificates(store, "leaf", "middle")
    client.put(config, both)
    client.wait("CertObjStatus", uuid(77), is_loaded)
    digests = [one["ImageSha256"] for one in both[1]["StorageConfigList"]]
    assert views(manager) == sorted(f"{digest}.pem" for digest in digests)
    assert (manager.state / "certs" / uuid(77) / f"{digests[0]}.pem").read_bytes() == (images.pki / "leaf.pem").read_bytes()
    assert f"certObj {uuid(77)}" in imgadm(manager, "why", f"sha256:{digests[0]}")
    imgadm(manager, "gc")
    assert manager.blobs() == sorted(digests)
    # One less.
    client.put(images.certificates(store, "leaf"))
    client.wait("CertObjStatus", uuid(77), lambda one: is_loaded(one) and len(one["StorageStatusList"]) == 1)
    assert views(manager) == [f"{digests[0]}.pem"]
    imgadm(manager, "gc")
    assert manager.blobs() == digests[:1]
    # After a kill they are there, without their datastore.
    manager.end(signal.SIGKILL)
    shutil.rmtree(images.path)
    manager.start()
    client = manager.client()
    client.wait("CertObjStatus", uuid(77), is_loaded)
    client.delete(("CertObjConfig", uuid(77)))
    client.wait("CertObjStatus", uuid(77), is_gone)
    assert views(manager) is None
    imgadm(manager, "gc")
    assert manager.blobs() == []


def test_certificates_whose_removal_was_interrupted_go_at_the_next_start(manager, images):
    (manager.state / "certs" / uuid(78)).mkdir(parents=True)
    (manager.state / "certs" / uuid(78) / "left.pem").write_text("left")
    manager.start()
    manager.client().wait("CertObjStatus", uuid(78), is_gone)
    assert not (manager.state / "certs" / uuid(78)).exists()


def test_a_bad_certificate_is_found_by_a_scrub_and_fetched_again(manager, images):
    manager.start()
    client = manager.client()
    store, config = datastore("directory", images.path)
    wanted = images.certificates(store, "leaf")
    client.put(config, wanted)
    client.wait("CertObjStatus", uuid(77), is_loaded)
    (digest,) = manager.blobs()
    blob = manager.state / "content/blobs/sha256" / digest
    content = blob.read_bytes()
    blob.chmod(0o600)
    blob.write_bytes(content[:-1] + b"x")
    (bad,) = client.call("Scrub")["bad"]
    assert bad["owners"] == [f"certObj {uuid(77)}"]
    client.wait("CertObjStatus", uuid(77), is_loaded)
    assert blob.read_bytes() == content


def test_a_new_certificate_is_tried_at_once(manager, images):
    images.trust(manager)
    images.sign("x509")
    manager.start()
    client = manager.client()
    store, config = datastore("directory", images.path)
    key, wanted = volume(ContentID="disk")
    client.put(config, images.certificates(store, "expired", "middle"), tree("disk", store, DISK, Signature=images.demand("x509")), wanted)
    status = client.wait("ContentTreeStatus", "disk", has_error)
    assert "is by none of the 2 certificates of the signer" in status["Error"]["Text"]
    client.put(images.certificates(store, "leaf", "middle"))
    client.wait("VolumeStatus", key, is_created)


DOCUMENTS = {
    "kind": ({"Kind": "rot13"}, "Signature.Kind: rot13 is not known"),
    "no-kind": ({"KeyFile": "/k"}, "Signature.Kind: it is missing"),
    "no-keys": ({"Kind": "minisign"}, "Signature.KeyFile: expected the absolute path"),
    "relative-keys": ({"Kind": "minisign", "KeyFile": "k"}, "Signature.KeyFile: expected the absolute path"),
    "keys-of-cms": ({"Kind": "cms", "KeyFile": "/k", "CertObj": uuid(1)}, "Signature.KeyFile: a signature of this kind has certificates"),
    "no-certificates": ({"Kind": "cms"}, "Signature.CertObj: expected the UUID"),
    "certificates-of-minisign": ({"Kind": "minisign", "KeyFile": "/k", "CertObj": uuid(1)}, "Signature.CertObj: a signature of this kind has keys"),
    "sums-of-minisign": ({"Kind": "minisign", "KeyFile": "/k", "SumsURL": "s"}, "Signature.SumsURL: only a signature of kind openpgp-sums has one"),
    "outside": ({"Kind": "minisign", "KeyFile": "/k", "RelativeURL": "../x"}, "Signature.RelativeURL: expected a relative path"),
    "twice": ({"Kind": "minisign", "KeyFile": "/k", "RelativeURL": "x", "ImageSignature": "y"}, "Signature.ImageSignature: the signature is this text"),
    "policy": ({"Kind": "minisign", "KeyFile": "/k", "Policy": "never"}, "Signature.Policy: expected required or if-present"),
    "unknown": ({"Kind": "minisign", "KeyFile": "/k", "More": 1}, "Signature.More: unknown member"),
    "long": ({"Kind": "minisign", "KeyFile": "/k", "ImageSignature": "x" * 20_000}, "Signature.ImageSignature: expected a text of at most 16384 bytes"),
}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_a_demand_that_makes_no_sense_is_refused(case, manager):
    signature, expected = DOCUMENTS[case]
    manager.start()
    store = uuid()
    with pytest.raises(Exception, match="") as failed:
        manager.client().put(tree("disk", store, DISK, Signature=signature))
    assert f"ContentTreeConfig.{expected}" in str(failed.value)

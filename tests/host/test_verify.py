"""triton-verify: files that arrive in ranges, local files, documents of registries and IMGAPI, signatures."""

import hashlib
import json
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from harness.wall import needs_root, sha256, tool

pytestmark = needs_root

DATA = os.urandom(3_000_001)
EMPTY = sha256(b"")


@pytest.fixture
def pipe(tmp_path):
    """Makes named pipes that somebody writes to: pipe(bytes) is the path."""
    threads = []

    def make(data: bytes) -> Path:
        path = tmp_path / f"pipe{len(threads)}"
        os.mkfifo(path)

        def write():
            try:
                path.write_bytes(data)
            except BrokenPipeError:
                pass  # more than was asked for is not read

        threads.append(threading.Thread(target=write, daemon=True))
        threads[-1].start()
        return path

    yield make
    for thread in threads:
        thread.join(10)


def verified(data: bytes) -> str:
    return json.dumps({"verified": {"size": len(data), "digest": sha256(data)}}, separators=(",", ":"))


def test_one_range(pipe, tmp_path):
    answer = tool("receive", tmp_path / "file", 4_000_000, f"digest={sha256(DATA)}", f"size={len(DATA)}", f"range=0={pipe(DATA)}", f"end={len(DATA)}")
    assert answer == verified(DATA)
    assert (tmp_path / "file").read_bytes() == DATA


def test_ranges_in_any_order(pipe, tmp_path):
    cuts = [0, 1, 700_000, 700_001, 2_000_000, len(DATA)]
    ranges = [f"range={a}+{b - a}={pipe(DATA[a:b])}" for a, b in zip(cuts, cuts[1:])]
    answer = tool("receive", tmp_path / "file", 4_000_000, f"digest={sha256(DATA)}", *reversed(ranges), f"end={len(DATA)}")
    assert answer == verified(DATA)
    assert (tmp_path / "file").read_bytes() == DATA


def test_resumed(pipe, tmp_path):
    half = 1_500_000
    (tmp_path / "file").write_bytes(DATA[:half])
    words = [f"landed=0+{half}", f"range={half}={pipe(DATA[half:])}", f"end={len(DATA)}"]
    assert tool("receive", tmp_path / "file", 4_000_000, f"digest={sha256(DATA)}", *words) == verified(DATA)


def test_both_hashes_of_an_old_manifest(pipe, tmp_path):
    sha1 = hashlib.sha1(DATA).hexdigest()
    words = [f"sha1={sha1}", f"range=0={pipe(DATA)}", f"end={len(DATA)}"]
    assert tool("receive", tmp_path / "file", 4_000_000, *words) == verified(DATA)
    wrong = "0" * 40
    words = [f"sha1={wrong}", f"range=0={pipe(DATA)}", f"end={len(DATA)}"]
    assert tool("receive", tmp_path / "other", 4_000_000, *words) == f"corrupt: SHA-1 is {sha1} instead of {wrong}"


def test_nothing_at_all(pipe, tmp_path):
    assert tool("receive", tmp_path / "file", 0, f"range=0={pipe(b'')}", "end=0") == verified(b"")


WRONG = {
    "digest": ([f"digest={EMPTY}"], "0", "{size}", f"corrupt: digest is {{digest}} instead of {EMPTY}"),
    "size": (["size=5"], "0", "{size}", "corrupt: size is 3000001 bytes instead of 5"),
    "maximum": ([], "0", "4000001", "corrupt: size is more than 4000000 bytes"),
    "cut": ([], "0+3000100", "3000100", "corrupt: bytes from 3000001 on are missing"),
    "gap": ([], "100", "{size}", "corrupt: bytes from 0 on are missing"),
    "beyond": ([], "0", "3000000", "corrupt: bytes beyond the end were downloaded"),
    "beyond-maximum": ([], "3999999+2", "4000001", "corrupt: a range goes beyond 4000000 bytes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_bytes(case, pipe, tmp_path):
    words, place, end, expected = WRONG[case]
    facts = {"size": len(DATA), "digest": sha256(DATA)}
    answer = tool("receive", tmp_path / "file", 4_000_000, *words, f"range={place}={pipe(DATA)}", f"end={end.format(**facts)}")
    assert answer == expected.format(**facts)


def test_no_more_than_the_range_is_written(pipe, tmp_path):
    """A downloader that does not stop: its pipe is closed, and what is beyond is never in the file."""
    answer = tool("receive", tmp_path / "file", 4_000_000, f"range=0+1000={pipe(DATA)}", "end=1000")
    assert answer == verified(DATA[:1000])
    assert (tmp_path / "file").read_bytes() == DATA[:1000]


def test_no_more_than_the_maximum_is_written(pipe, tmp_path):
    answer = tool("receive", tmp_path / "file", 1000, f"range=0={pipe(DATA)}", "end=1000")
    assert answer == "corrupt: size is more than 1000 bytes"
    assert (tmp_path / "file").stat().st_size <= 1000


def test_local_file_is_copied_and_checked(tmp_path):
    (tmp_path / "source").write_bytes(DATA)
    assert tool("check", tmp_path / "file", tmp_path / "source", 4_000_000, f"digest={sha256(DATA)}") == verified(DATA)
    assert (tmp_path / "file").read_bytes() == DATA
    assert tool("check", tmp_path / "file", tmp_path / "source", 4_000_000, f"digest={EMPTY}").startswith("corrupt: digest is ")
    assert tool("check", tmp_path / "file", tmp_path / "source", 1000) == "corrupt: size is more than 1000 bytes"


def test_nobody_can_write_any_more(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    assert tool("unwritable", tmp_path / "file") == "proved"
    expected = "busy: cannot prove that nobody writes to a file: somebody has it open for writing"
    assert tool("unwritable", tmp_path / "file", "writer") == expected


# Documents.

D = "sha256:" + "a" * 64
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": D, "size": 5}
LAYER = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": D, "size": 5}
GOOD_MANIFEST = {"schemaVersion": 2, "mediaType": MANIFEST, "config": CONFIG, "layers": [LAYER, LAYER]}
GOOD_INDEX = {
    "schemaVersion": 2,
    "manifests": [{"mediaType": MANIFEST, "digest": D, "size": 5, "platform": {"os": "linux", "architecture": "amd64", "variant": "v2"}}],
}
GOOD_CONFIG = {
    "os": "linux",
    "architecture": "amd64",
    "config": {"Env": ["A=b"], "Cmd": None, "Labels": {"a": "b"}},
    "rootfs": {"type": "layers", "diff_ids": [D]},
    "history": [{"created_by": "x"}],
}
UUID = "12345678-1234-1234-1234-123456789abc"
GOOD_IMGAPI = {
    "v": 2, "uuid": UUID, "name": "base", "version": "1", "type": "zone-dataset", "os": "linux", "owner": UUID,
    "files": [{"sha1": "a" * 40, "size": 5, "compression": "gzip"}],
}  # fmt: skip


def without(document: dict, *keys: str) -> dict:
    return {key: value for key, value in document.items() if key not in keys}


def document(tmp_path, kind: str, content, *words) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (tmp_path / "document").write_bytes(data)
    return tool("document", kind, tmp_path / "document", 4 << 20, *words)


GOOD = {
    "index": ("image", GOOD_INDEX, INDEX),
    "manifest": ("image", GOOD_MANIFEST, MANIFEST),
    "manifest-as-such": ("manifest", without(GOOD_MANIFEST, "mediaType"), MANIFEST),
    "docker": (
        "image",
        {**GOOD_MANIFEST, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"},
        "application/vnd.docker.distribution.manifest.v2+json",
    ),
    "urls-of-none": ("image", {**GOOD_MANIFEST, "layers": [{**LAYER, "urls": []}, {**LAYER, "urls": None}]}, MANIFEST),
    "unknown-keys": ("image", {**GOOD_INDEX, "new": {"a": [1, 2.5, None, True]}}, INDEX),
    "config": ("config", GOOD_CONFIG, "application/vnd.oci.image.config.v1+json"),
    "imgapi": ("imgapi", GOOD_IMGAPI, ""),
    "imgapi-list": ("imgapi-list", [GOOD_IMGAPI, {}], ""),
    "tags": ("tags", {"name": "a/b", "tags": ["1.0", "latest_x-y"]}, ""),
    "no-tags": ("tags", {"name": "a/b", "tags": None}, ""),
    "other": ("other", {"a": "\u00e9\u2603\U0001f600"}, ""),
}


@pytest.mark.parametrize("case", GOOD)
def test_good_document(case, tmp_path):
    kind, content, media_type = GOOD[case]
    answer, normalised = document(tmp_path, kind, content, f"keep={tmp_path / 'kept'}").split("\n")
    data = (tmp_path / "document").read_bytes()
    assert json.loads(answer)["checkedDocument"] == {"size": len(data), "digest": sha256(data), "mediaType": media_type}
    assert json.loads(normalised) == content
    assert (tmp_path / "kept").read_bytes() == data


NEITHER = "corrupt: document is neither an image manifest nor an index"
BAD = {
    "both": ("image", {**GOOD_MANIFEST, **GOOD_INDEX}, "corrupt: document is a manifest and an index at once"),
    "neither": ("image", {"schemaVersion": 2}, NEITHER),
    "not-json": ("image", b"{", "corrupt: document is not acceptable JSON"),
    "empty": ("image", b"", "corrupt: document is not acceptable JSON"),
    "twice": ("image", b'{"schemaVersion":2,"schemaVersion":2,"manifests":[]}', "corrupt: document is not acceptable JSON"),
    "not-utf8": ("other", b'{"a":"\xff"}', "corrupt: document is not acceptable JSON"),
    "too-deep": ("other", b"[" * 100_000 + b"]" * 100_000, "corrupt: document is not acceptable JSON"),
    "schema-1": ("image", {"schemaVersion": 1, "fsLayers": [], "history": []}, "unsupported: document is of Docker's schema 1, which is not supported"),
    "an-index-wanted": ("index", GOOD_MANIFEST, "corrupt: document is not an image index"),
    "a-manifest-wanted": ("manifest", GOOD_INDEX, "corrupt: document is not an image manifest"),
    "says-otherwise": ("image", {**GOOD_INDEX, "mediaType": MANIFEST}, f'corrupt: document says it is "{MANIFEST}", and is not'),
    "no-layers": ("image", without(GOOD_MANIFEST, "layers"), "corrupt: manifest lacks its config or its layers"),
    "foreign": (
        "image",
        {**GOOD_MANIFEST, "layers": [{**LAYER, "urls": ["http://elsewhere"]}]},
        f"unsupported: layer {D} is kept elsewhere, and such layers are not supported",
    ),
    "nondistributable": (
        "image",
        {**GOOD_MANIFEST, "layers": [{**LAYER, "mediaType": "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"}]},
        f"unsupported: layer {D} is kept elsewhere, and such layers are not supported",
    ),
    "unknown-layer": (
        "image",
        {**GOOD_MANIFEST, "layers": [{**LAYER, "mediaType": "text/html"}]},
        f'unsupported: layer {D} has the unknown media type "text/html"',
    ),
    "many-layers": ("image", {**GOOD_MANIFEST, "layers": [LAYER] * 4097}, "corrupt: manifest has 4097 layers, more than 128"),
    "many-layers-of-config": (
        "config",
        {**GOOD_CONFIG, "rootfs": {"type": "layers", "diff_ids": [D] * 129}},
        "corrupt: configuration has 129 layers, more than 128",
    ),
    "digest-is-a-path": ("image", {**GOOD_MANIFEST, "config": {**CONFIG, "digest": "sha256:../../etc/passwd"}}, NEITHER),
    "digest-in-upper-case": ("image", {**GOOD_MANIFEST, "config": {**CONFIG, "digest": "sha256:" + "A" * 64}}, NEITHER),
    "digest-unknown": ("image", {**GOOD_MANIFEST, "config": {**CONFIG, "digest": "sha512:" + "a" * 128}}, NEITHER),
    "size-negative": ("image", {**GOOD_MANIFEST, "config": {**CONFIG, "size": -1}}, NEITHER),
    "size-huge": ("image", {**GOOD_MANIFEST, "config": {**CONFIG, "size": 1 << 62}}, NEITHER),
    "size-fraction": ("image", {**GOOD_MANIFEST, "config": {**CONFIG, "size": 1.5}}, NEITHER),
    "rootfs": ("config", {**GOOD_CONFIG, "rootfs": {"type": "x", "diff_ids": []}}, 'unsupported: rootfs is of the unknown type "x"'),
    "imgapi-version": ("imgapi", {**GOOD_IMGAPI, "v": 1}, "corrupt: document is not a manifest of IMGAPI"),
    "imgapi-uuid": ("imgapi", {**GOOD_IMGAPI, "uuid": "../" + UUID}, "corrupt: document is not a manifest of IMGAPI"),
    "imgapi-list": ("imgapi-list", GOOD_IMGAPI, "corrupt: document is not a list of manifests of IMGAPI"),
    "imgapi-long-list": ("imgapi-list", [0] * 20_001, "corrupt: document is not a list of manifests of IMGAPI"),
    "tag": ("tags", {"tags": ["../x"]}, "corrupt: document is not a list of tags"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_document(case, tmp_path):
    kind, content, expected = BAD[case]
    assert document(tmp_path, kind, content, f"keep={tmp_path / 'kept'}").split("\n")[0] == expected
    assert not (tmp_path / "kept").exists() or (tmp_path / "kept").stat().st_size == 0


def test_document_is_what_its_parent_said(tmp_path):
    assert document(tmp_path, "image", GOOD_MANIFEST, f"type={INDEX}") == f'corrupt: document is not "{INDEX}", as it should be'
    docker = "application/vnd.docker.distribution.manifest.v2+json"
    assert document(tmp_path, "image", GOOD_MANIFEST, f"type={docker}") == f'corrupt: document says it is "{MANIFEST}" instead of "{docker}"'
    # A server's guess is none.
    assert document(tmp_path, "image", GOOD_MANIFEST, "type=text/plain").startswith('{"checkedDocument":')


def test_document_of_wrong_bytes(tmp_path):
    assert document(tmp_path, "image", GOOD_MANIFEST, f"digest={EMPTY}").startswith("corrupt: digest is ")
    size = len(json.dumps(GOOD_MANIFEST))
    assert document(tmp_path, "image", GOOD_MANIFEST, f"size={size - 1}") == f"corrupt: size is more than {size - 1} bytes"
    assert document(tmp_path, "other", b"[" + b" " * (5 << 20) + b"]") == "corrupt: size is more than 4194304 bytes"


def test_layers_as_many_as_are_allowed(tmp_path):
    assert document(tmp_path, "image", {**GOOD_MANIFEST, "layers": [LAYER] * 200}, "layers=200").startswith('{"checkedDocument":')


# Signatures by minisign.


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    directory = tmp_path_factory.mktemp("keys")
    for name in ("ours", "others"):
        words = ["minisign", "-G", "-W", "-p", directory / f"{name}.pub", "-s", directory / f"{name}.key"]
        try:
            subprocess.run(words, check=True, capture_output=True, input=b"\n\n")
        except FileNotFoundError:
            pytest.skip("minisign is not installed")
    return directory


@pytest.fixture
def signed(keys, tmp_path):
    """signed(data, ...) signs a file "image" and returns what wall_tool says of its signature as `name`."""

    def check(data=DATA, name="image", digest=None, comment=None, words=(), change=lambda text: text, by="ours", trusted="ours"):
        (tmp_path / "image").write_bytes(data)
        comments = ["-t", comment] if comment else []
        key = keys / f"{by}.key"
        subprocess.run(["minisign", "-S", *words, *comments, "-s", key, "-m", "image", "-x", "signature"], cwd=tmp_path, check=True, capture_output=True)
        text = change((tmp_path / "signature").read_text())
        (tmp_path / "signature").write_text(text)
        return tool("signature", "minisign", name, digest or sha256(data), tmp_path / "image", tmp_path / "signature", keys / f"{trusted}.pub")

    return check


@pytest.mark.parametrize("words", [(), ("-H",), ("-l",)], ids=["default", "prehashed", "legacy"])
@pytest.mark.parametrize("data", [b"", b"x", DATA], ids=["nothing", "byte", "megabytes"])
def test_good_signature(words, data, signed):
    answer = json.loads(signed(data=data, words=words))["signed"]
    assert len(answer["key"]) == 16 and "file:image" in answer["comment"]


def test_signature_binds_name_and_digest(signed):
    assert signed(name="other") == "denied: signature is for another file: its trusted comment does not say file:other"
    assert signed(comment="no name") == "denied: signature is for another file: its trusted comment does not say file:image"
    assert signed(digest=EMPTY) == f"denied: signature is for other content: {sha256(DATA)}"


def test_signature_by_somebody_else(signed, keys):
    answer = signed(by="others")
    assert answer.startswith("denied: signature is by key ") and answer.endswith(", which is not trusted")


def replace_line(number: int, change):
    def replaced(text: str) -> str:
        lines = text.split("\n")
        lines[number] = change(lines[number])
        return "\n".join(lines)

    return replaced


def swap(line: str) -> str:
    return line[:40] + ("A" if line[40] != "A" else "B") + line[41:]


SIGNATURES = {
    "content": (replace_line(1, swap), r"denied: signature by key \w{16} is not good"),
    "comment": (replace_line(2, lambda line: line + "\tfile:more"), r"denied: trusted comment of the signature by key \w{16} is not good"),
    "global": (replace_line(3, swap), r"denied: trusted comment of the signature by key \w{16} is not good"),
    "nothing": (lambda text: "", "corrupt: signature is not one of minisign: its first line is not an untrusted comment"),
    "short": (replace_line(1, lambda line: line[:20]), "corrupt: signature is not one of minisign: its second line is not a signature"),
    "not-base64": (replace_line(1, lambda line: "!" + line[1:]), "corrupt: signature is not one of minisign: its second line is not a signature"),
    "no-comment": (replace_line(2, lambda line: "x"), "corrupt: signature is not one of minisign: its third line is not a trusted comment"),
    "algorithm": (replace_line(1, lambda line: "AAA" + line[3:]), r"(corrupt: signature is not one of minisign: its algorithm is unknown|denied: signature is by key \w{16}, which is not trusted)"),
}


@pytest.mark.parametrize("case", SIGNATURES)
def test_bad_signature(case, signed):
    change, expected = SIGNATURES[case]
    assert re.fullmatch(expected, signed(change=change))


# Sums signed with OpenPGP.


@pytest.fixture(scope="module")
def openpgp(tmp_path_factory):
    """Certificates, and sums that they have signed in each way."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)

    def gpg(*words) -> bytes:
        return subprocess.run(["gpg", "--homedir", home, "--batch", "--yes", *words], check=True, capture_output=True).stdout

    try:
        for name in ("ours", "others"):
            gpg("--passphrase", "", "--quick-gen-key", f"{name}@example", "ed25519", "sign", "never")
    except FileNotFoundError:
        pytest.skip("gpg is not installed")
    if not os.path.exists("/usr/bin/gpgv"):
        pytest.skip("gpgv is not installed")
    (home / "sums").write_text(f"{'0' * 64}  other\n{hashlib.sha256(DATA).hexdigest()} *image\n{'1' * 64}  twice\n{'2' * 64}  twice\n")
    for name in ("ours", "others"):
        (home / f"{name}.gpg").write_bytes(gpg("--export", f"{name}@example"))
        (home / f"{name}.asc").write_bytes(gpg("--armor", "--export", f"{name}@example"))
    (home / "both.asc").write_bytes((home / "others.asc").read_bytes() + (home / "ours.asc").read_bytes())
    gpg("-u", "ours@example", "-o", home / "detached", "--detach-sign", home / "sums")
    gpg("-u", "ours@example", "-o", home / "inline", "--clearsign", home / "sums")
    gpg("-u", "others@example", "-o", home / "by-others", "--detach-sign", home / "sums")
    ours, others = (home / "detached").read_bytes(), (home / "by-others").read_bytes()
    (home / "changed-sums").write_text("x")
    gpg("-u", "ours@example", "-o", home / "of-changed", "--detach-sign", home / "changed-sums")
    gpg("--passphrase", "", "--quick-gen-key", "revoked@example", "ed25519", "sign", "never")
    gpg("-u", "revoked@example", "-o", home / "by-revoked", "--detach-sign", home / "sums")
    (revocation,) = [one for one in (home / "openpgp-revocs.d").iterdir() if b"revoked@example" in gpg("-k", one.stem)]
    (home / "revocation").write_text(revocation.read_text().replace(":-----BEGIN", "-----BEGIN"))
    gpg("--import", home / "revocation")
    (home / "ours-and-revoked.gpg").write_bytes(gpg("--export", "ours@example", "revoked@example"))
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)  # the agent that gpg has started
    (home / "ours+others").write_bytes(ours + others)
    (home / "others+ours").write_bytes(others + ours)
    (home / "ours+junk").write_bytes(ours + bytes(50))
    (home / "ours+changed").write_bytes(ours + (home / "of-changed").read_bytes())
    (home / "ours+revoked").write_bytes(ours + (home / "by-revoked").read_bytes())
    gpg("-u", "ours@example", "-u", "others@example", "-o", home / "inline-by-both", "--clearsign", home / "sums")
    (home / "none").write_bytes(b"")
    (home / "junk").write_bytes(os.urandom(500))
    (home / "changed").write_text((home / "sums").read_text().replace("image", "imagf"))
    inline = (home / "inline").read_text()
    (home / "inline-changed").write_text(inline.replace("image", "imagf"))
    (home / "inline-surrounded").write_text(f"{'3' * 64}  before\n{inline}{'3' * 64}  after\n")
    return home


def sums(openpgp, signed="sums", signature="detached", keys="ours.gpg", name="image", digest=None) -> str:
    return tool("signature", "openpgp-sums", name, digest or sha256(DATA), openpgp / signed, openpgp / signature, openpgp / keys)


@pytest.mark.parametrize("keys", ["ours.gpg", "ours.asc", "both.asc"])
@pytest.mark.parametrize("form", [("sums", "detached"), ("inline", "none")], ids=["detached", "inline"])
def test_good_sums(form, keys, openpgp):
    answer = json.loads(sums(openpgp, *form, keys=keys))["signed"]
    assert re.fullmatch(r"[0-9A-F]{40}", answer["key"])


@pytest.mark.parametrize("signature", ["ours+others", "others+ours"])
def test_one_signature_by_a_trusted_key_is_enough(signature, openpgp):
    """As long as keys are replaced, sums are signed by the old one and the new one."""
    assert re.fullmatch(r"[0-9A-F]{40}", json.loads(sums(openpgp, signature=signature))["signed"]["key"])
    assert sums(openpgp, signed="changed", signature=signature) == "denied: signature is not good: BADSIG"


BAD_SUMS = {
    "and-junk": ({"signature": "ours+junk"}, "denied: signature is not good"),
    "and-one-of-other-content": ({"signature": "ours+changed"}, "denied: signature is not good: BADSIG"),
    "and-one-by-a-revoked-key": ({"signature": "ours+revoked", "keys": "ours-and-revoked.gpg"}, "denied: signature is not good: REVKEYSIG"),
    "inline-by-both": ({"signed": "inline-by-both", "signature": "none"}, "denied: signature is not good"),
    "changed": ({"signed": "changed"}, "denied: signature is not good: BADSIG"),
    "inline-changed": ({"signed": "inline-changed", "signature": "none"}, "denied: signature is not good: BADSIG"),
    "by-others": ({"signature": "by-others"}, r"denied: signature is by key \w{16}, which is not trusted"),
    "no-signature": ({"signature": "none"}, "denied: signature is not good"),
    "junk": ({"signature": "junk"}, "denied: signature is not good"),
    "junk-keys": ({"keys": "junk"}, r"denied: signature is (not good|by key \w{16}, which is not trusted)"),
    "no-keys": ({"keys": "none"}, r"denied: signature is (not good|by key \w{16}, which is not trusted)"),
    "digest": ({"digest": EMPTY}, f'denied: signed sums give "image" the digest {sha256(DATA)} instead of {EMPTY}'),
    "name": ({"name": "imag"}, 'notFound: sums do not name "imag"'),
    "twice": ({"name": "twice"}, 'corrupt: sums name "twice" twice'),
    "before-inline": ({"signed": "inline-surrounded", "signature": "none", "name": "before"}, 'notFound: sums do not name "before"'),
    "after-inline": ({"signed": "inline-surrounded", "signature": "none", "name": "after"}, 'notFound: sums do not name "after"'),
}


@pytest.mark.parametrize("case", BAD_SUMS)
def test_bad_sums(case, openpgp):
    words, expected = BAD_SUMS[case]
    answer = sums(openpgp, **words)
    assert re.fullmatch(expected, answer), answer

"""triton-verify: files that arrive in ranges, local files, documents of registries and IMGAPI, signatures."""

import base64
import hashlib
import json
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from harness.agent import Authority
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
    "many-layers": ("image", {**GOOD_MANIFEST, "layers": [LAYER] * 4097}, "corrupt: manifest has 4097 layers, more than 4096"),
    "many-layers-of-config": (
        "config",
        {**GOOD_CONFIG, "rootfs": {"type": "layers", "diff_ids": [D] * 4097}},
        "corrupt: configuration has 4097 layers, more than 4096",
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


# Signatures with X.509 certificates.

CODE = "keyUsage=digitalSignature\nextendedKeyUsage=codeSigning\n"
PAST = ("20200101000000Z", "20210101000000Z")


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """A root, an authority below it, and what that has issued."""
    root = Authority(tmp_path_factory.mktemp("pki") / "main", "/CN=root")
    middle = root.below("middle")
    for name, more in {
        "p256": {"config": CODE},
        "rsa": {"config": CODE, "of": ("rsa", "rsa_keygen_bits:2048")},
        "weak": {"config": CODE, "of": ("rsa", "rsa_keygen_bits:1024")},
        "p384": {"config": CODE, "of": ("ec", "ec_paramgen_curve:secp384r1")},
        "plain": {},
        "mail": {"config": "extendedKeyUsage=emailProtection\n"},
        "server": {"config": "extendedKeyUsage=serverAuth\n"},
        "cipher": {"config": "keyUsage=keyEncipherment\n"},
        "expired": {"config": CODE, "dates": PAST},
    }.items():
        middle.issue(name, subject=f"/CN={name}", **more)
    old = root.below("old", dates=PAST)
    old.issue("of-old", subject="/CN=of-old", config=CODE)
    no_authority = Authority.__new__(Authority)
    no_authority.directory, no_authority.certificate, no_authority.key = root.directory, root.directory / "plain.pem", root.directory / "plain.key"
    no_authority.issue("of-plain", subject="/CN=of-plain", config=CODE)
    stranger = Authority(root.directory.parent / "stranger", "/CN=root")
    stranger.issue("p256", subject="/CN=stranger", config=CODE)
    return root.directory


@pytest.fixture
def certified(pki, tmp_path):
    """certified(kind, ...) signs a file and returns what wall_tool says of its signature."""

    def check(kind, by="p256", words=(), between=("middle",), trusted="ca", change=lambda signature: signature, signers=None, digest=None, content=None):
        (tmp_path / "image").write_bytes(DATA)
        key, signature, image = pki / f"{by}.key", tmp_path / "signature", tmp_path / "image"
        if kind == "cms":
            command = ["cms", "-sign", "-binary", "-outform", "DER", "-signer", pki / f"{by}.pem", "-inkey", key, *words, "-in", image, "-out", signature]
        else:
            command = ["dgst", "-sha256", "-sign", key, *words, "-out", signature, image]
        subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
        signature.write_bytes(change(signature.read_bytes()))
        certificates = signers if signers is not None else b"".join((pki / f"{name}.pem").read_bytes() for name in (by, *between))
        (tmp_path / "signers").write_bytes(certificates)
        roots = tmp_path / "roots"
        roots.write_bytes(trusted if isinstance(trusted, bytes) else (pki / f"{trusted}.pem").read_bytes())
        if content is not None:
            image.write_bytes(content)
        return tool("signature", kind, "image", digest or sha256(DATA), image, signature, tmp_path / "signers", f"roots={roots}")

    return check


def good_by(name):
    return re.compile(rf'\{{"signed":\{{"key":"[0-9a-f]{{64}}","comment":"CN={name}"\}}\}}')


def numbers(signature: bytes) -> bytes:
    """r and s of 32 bytes each, of what openssl writes in DER."""
    r_size = signature[3]
    r, s = signature[4 : 4 + r_size], signature[6 + r_size :]
    return b"".join(number.lstrip(b"\0").rjust(32, b"\0") for number in (r, s))


GOOD_CERTIFIED = {
    "cms": ("cms", {}, "p256"),
    "cms-without-attributes": ("cms", {"words": ["-noattr"]}, "p256"),
    "cms-without-certificates": ("cms", {"words": ["-nocerts"]}, "p256"),
    "cms-pem": ("cms", {"change": lambda der: b"-----BEGIN CMS-----\n" + base64.encodebytes(der) + b"-----END CMS-----\n"}, "p256"),
    "cms-rsa": ("cms", {"by": "rsa"}, "rsa"),
    "cms-p384": ("cms", {"by": "p384"}, "p384"),
    "cms-sha512": ("cms", {"words": ["-md", "sha512"]}, "p256"),
    "cms-of-mail": ("cms", {"by": "mail"}, "mail"),
    "cms-of-any-usage": ("cms", {"by": "plain"}, "plain"),
    "x509": ("x509", {}, "p256"),
    "x509-base64": ("x509", {"change": base64.encodebytes}, "p256"),
    "x509-numbers": ("x509", {"change": numbers}, "p256"),
    "x509-numbers-base64": ("x509", {"change": lambda der: base64.b64encode(numbers(der))}, "p256"),
    "x509-rsa": ("x509", {"by": "rsa"}, "rsa"),
}


@pytest.mark.parametrize("case", GOOD_CERTIFIED)
def test_good_certified_signature(case, certified):
    kind, words, name = GOOD_CERTIFIED[case]
    answer = certified(kind, **words)
    assert good_by(name).fullmatch(answer), answer


NOBODY = rf"denied: signature over {sha256(DATA)} is by none of the \d certificates of the signer"
NO_CHAIN = "denied: certificate of CN=p256 is not trusted: unable to get local issuer certificate"
BAD_CERTIFIED = {
    "cms-other-content": ("cms", {"content": b"x"}, "denied: signature is not good: .+"),
    "cms-other-content-without-attributes": ("cms", {"content": b"x", "words": ["-noattr"]}, "denied: signature is not good: .+"),
    "cms-other-digest": ("cms", {"digest": EMPTY}, f"denied: signature is for other content: {sha256(DATA)}"),
    "cms-nothing": ("cms", {"change": lambda der: b""}, "corrupt: signature is not one of CMS: it cannot be read"),
    "cms-junk": ("cms", {"change": lambda der: os.urandom(500)}, "corrupt: signature is not one of CMS: it cannot be read"),
    "cms-cut": ("cms", {"change": lambda der: der[:-40]}, "corrupt: signature is not one of CMS: it cannot be read"),
    "cms-changed": ("cms", {"change": lambda der: der[:-10] + bytes(10)}, "(denied: signature is not good: .+|corrupt: .+)"),
    "cms-with-content": ("cms", {"change": "attached"}, "corrupt: signature is not one of CMS: it contains content of its own"),
    "cms-sha1": ("cms", {"words": ["-md", "sha1"]}, "denied: signature is by a hash that is not SHA-256, SHA-384 or SHA-512"),
    "cms-certificates-of-its-own": ("cms", {"between": (), "words": ["-certfile", "{pki}/middle.pem"]}, NO_CHAIN),
    "cms-by-others": ("cms", {"by": "rsa", "signers": "p256 middle"}, "denied: signature is not good: signer certificate not found"),
    "cms-and-by-others": ("cms", {"words": ["-signer", "{pki}/rsa.pem", "-inkey", "{pki}/rsa.key"]}, "denied: signature is not good: signer certificate not found"),
    "cms-and-by-expired": (
        "cms",
        {"words": ["-signer", "{pki}/expired.pem", "-inkey", "{pki}/expired.key"], "between": ("middle", "expired")},
        "denied: certificate of CN=expired is not trusted: certificate has expired",
    ),
    "cms-signed-data-only": ("cms", {"change": "enveloped"}, "corrupt: signature is not one of CMS: nothing in it is signed"),
    "x509-other-digest": ("x509", {"digest": EMPTY}, NOBODY.replace(sha256(DATA), EMPTY)),
    "x509-nothing": ("x509", {"change": lambda der: b""}, NOBODY),
    "x509-zeros": ("x509", {"change": lambda der: bytes(64)}, NOBODY),
    "x509-cut": ("x509", {"change": lambda der: der[:-1]}, NOBODY),
    "x509-junk": ("x509", {"change": lambda der: os.urandom(60_000)}, NOBODY),
    "x509-by-others": ("x509", {"by": "rsa", "signers": "p256 middle"}, NOBODY),
    "x509-p384": ("x509", {"by": "p384"}, NOBODY),
    "x509-sha512": ("x509", {"words": ["-sha512"]}, NOBODY),
}
for _kind in ("cms", "x509"):
    BAD_CERTIFIED |= {
        f"{_kind}-{name}": (_kind, words, expected)
        for name, words, expected in (
            ("without-the-middle", {"between": ()}, NO_CHAIN),
            ("the-middle-is-no-root", {"trusted": "middle"}, "denied: certificate of CN=middle is not trusted: unable to get (local )?issuer certificate"),
            ("of-another-root", {"trusted": "../stranger/ca"}, "denied: certificate of CN=(p256|middle|root) is not trusted: .+"),
            ("expired", {"by": "expired"}, "denied: certificate of CN=expired is not trusted: certificate has expired"),
            ("of-an-expired-authority", {"by": "of-old", "between": ("old",)}, "denied: certificate of CN=old is not trusted: certificate has expired"),
            ("of-no-authority", {"by": "of-plain", "between": ("plain", "middle")}, "denied: certificate of CN=plain is not trusted: invalid CA certificate"),
            ("of-a-server", {"by": "server"}, "denied: certificate of CN=server is not for signing content: its usage is other"),
            ("of-a-cipher", {"by": "cipher"}, "denied: certificate of CN=cipher is not for signing content: its usage is other"),
            ("weak", {"by": "weak"}, "denied: certificate of CN=weak is not trusted: EE certificate key too weak"),
            ("without-roots", {"trusted": b"# none\n"}, "invalid: there are no roots"),
            ("without-signers", {"signers": b""}, "invalid: there are no certificates of the signer"),
            ("broken-signers", {"signers": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, "invalid: certificates of the signer: certificate 1 is broken"),
            ("broken-roots", {"trusted": b"-----BEGIN CERTIFICATE-----\n!\n"}, "invalid: roots: certificate 1 is broken"),
            ("many-signers", {"signers": "p256 " * 65}, "invalid: certificates of the signer: there are more than 64 certificates"),
        )
    }


@pytest.mark.parametrize("case", BAD_CERTIFIED)
def test_bad_certified_signature(case, certified, pki):
    kind, words, expected = BAD_CERTIFIED[case]
    words = dict(words)
    words["words"] = [word.replace("{pki}", str(pki)) for word in words.get("words", ())]
    if isinstance(words.get("signers"), str):
        words["signers"] = b"".join((pki / f"{name}.pem").read_bytes() for name in words["signers"].split())
    other_messages = {
        "enveloped": ["-encrypt", pki / "rsa.pem"],
        "attached": ["-sign", "-nodetach", "-signer", pki / "p256.pem", "-inkey", pki / "p256.key"],
    }
    if words.get("change") in other_messages:
        command = ["openssl", "cms", "-outform", "DER", *other_messages[words["change"]]]
        done = subprocess.run(command, input=b"x", check=True, capture_output=True)
        words["change"] = lambda der: done.stdout
    answer = certified(kind, **words)
    assert re.fullmatch(expected, answer), answer


def test_a_key_has_an_expired_certificate_and_its_successor(certified, pki):
    request, old, new = pki / "p256.csr", pki / "renewed-old.pem", (pki / "p256.pem").read_bytes()
    authority = Authority.__new__(Authority)
    authority.directory, authority.certificate, authority.key = pki, pki / "middle.pem", pki / "middle.key"
    authority._issue_with_dates("renewed", request, old, pki / "p256.ext", PAST)
    middle = (pki / "middle.pem").read_bytes()
    assert good_by("p256").fullmatch(certified("x509", signers=old.read_bytes() + new + middle))
    assert certified("x509", signers=old.read_bytes() + middle).endswith("certificate has expired")


# Signed with OpenPGP: the file itself, or its sums.


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
    (home / "data").write_bytes(DATA)
    gpg("-u", "ours@example", "-o", home / "of-image", "--detach-sign", home / "data")
    gpg("-u", "ours@example", "-o", home / "of-image.asc", "--armor", "--detach-sign", home / "data")
    past = ["--faked-system-time", "20250101T000000!"]
    gpg(*past, "--passphrase", "", "--quick-gen-key", "past@example", "ed25519", "sign", "never")
    gpg(*past, "-u", "past@example", "--default-sig-expire", "1d", "-o", home / "expired", "--detach-sign", home / "data")
    (home / "past.gpg").write_bytes(gpg("--export", "past@example"))
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


def detached(openpgp, tmp_path, signature="of-image", keys="ours.gpg", content=DATA, digest=None) -> str:
    (tmp_path / "image").write_bytes(content)
    return tool("signature", "openpgp", "image", digest or sha256(DATA), tmp_path / "image", openpgp / signature, openpgp / keys)


@pytest.mark.parametrize("signature", ["of-image", "of-image.asc"])
@pytest.mark.parametrize("keys", ["ours.gpg", "ours.asc", "both.asc"])
def test_good_signature_of_the_file_itself(keys, signature, openpgp, tmp_path):
    answer = json.loads(detached(openpgp, tmp_path, signature, keys))["signed"]
    assert re.fullmatch(r"[0-9A-F]{40}", answer["key"])


BAD_DETACHED = {
    "other-content": ({"content": b"x"}, "denied: signature is not good: BADSIG"),
    "no-content": ({"content": b""}, "denied: signature is not good: BADSIG"),
    "cut-content": ({"content": DATA[:-1]}, "denied: signature is not good: BADSIG"),
    "digest": ({"digest": EMPTY}, f"denied: signature is for other content: {sha256(DATA)}"),
    "by-others": ({"keys": "others.gpg"}, r"denied: signature is by key \w{16}, which is not trusted"),
    "of-sums": ({"signature": "detached"}, "denied: signature is not good: BADSIG"),
    "no-signature": ({"signature": "none"}, "denied: signature is not good"),
    "inline": ({"signature": "inline"}, "denied: signature is not good.*"),
    "junk": ({"signature": "junk"}, "denied: signature is not good"),
    "expired": ({"signature": "expired", "keys": "past.gpg"}, "denied: signature is not good: EXPSIG"),
}


@pytest.mark.parametrize("case", BAD_DETACHED)
def test_bad_signature_of_the_file_itself(case, openpgp, tmp_path):
    words, expected = BAD_DETACHED[case]
    answer = detached(openpgp, tmp_path, **words)
    assert re.fullmatch(expected, answer), answer


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

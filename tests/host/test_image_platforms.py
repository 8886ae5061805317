"""Images whose documents say of their platform less, something else, or in other words than the rules have it. What docker and
skopeo import is imported."""

import json
import os

import pytest
from image_place import Layout, area, fill, host, look, needs_root, registry, run  # noqa: F401

pytestmark = needs_root

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
HERE, OTHER = ("amd64", "arm64") if os.uname().machine == "x86_64" else ("arm64", "amd64")
SPELLED = {"amd64": "x86_64", "arm64": "aarch64"}


class Images:
    """Images in a layout, whose documents a test changes."""

    def __init__(self, area):
        self.area = area
        self.layout = Layout(area / "layout")

    def image(self, word, config_type=None, **config):
        """A manifest. None for a key of the configuration: it does not have it."""
        self.layout.make(word, [fill(self.area / word, {"usr/bin/which": word})])
        manifest = self.layout.manifest(word)
        facts = {**self.layout.json_of(manifest["config"]["digest"]), **config}
        facts = {key: value for key, value in facts.items() if value is not None}
        manifest["config"] |= self.layout.put(facts)
        if config_type is not None:
            manifest["config"]["mediaType"] = config_type
        if config_type == "":
            del manifest["config"]["mediaType"]
        return {"mediaType": MANIFEST, **self.layout.put(manifest)}

    def tag(self, name, one):
        return self.layout.tag(name, {"digest": one["digest"], "size": one["size"]}, one["mediaType"])

    def index(self, *entries):
        return self.tag("multi", {"mediaType": INDEX, **self.layout.put({"schemaVersion": 2, "manifests": list(entries)})})


@pytest.fixture
def images(area):
    return Images(area)


def which(host, reference):
    image = host.get(reference)
    return image["platform"], (host.tree(image["manifest"]["uuid"]) / "usr/bin/which").read_text()


def on(architecture, variant=None):
    return {"platform": {"os": "linux", "architecture": architecture, **({"variant": variant} if variant else {})}}


def test_the_index_decides_where_the_configuration_says_something_else(host, images):
    reference = images.index(images.image("wrong", architecture=HERE) | on(OTHER),
                             images.image("right", architecture=OTHER) | on(HERE))
    host.run("import", reference)
    assert which(host, reference) == (f"linux/{HERE}", "right")
    host.run("import", reference, "--platform", OTHER)
    assert which(host, reference) == (f"linux/{OTHER}", "wrong")
    host.run("update")


def test_other_words_for_the_same_platform(host, images):
    reference = images.index(images.image("other", architecture=SPELLED[OTHER]) | on(SPELLED[OTHER]),
                             images.image("this", architecture=SPELLED[HERE]) | on(SPELLED[HERE].upper()))
    host.run("import", reference)
    assert which(host, reference) == (f"linux/{HERE}", "this")
    single = images.tag("one", images.image("single", architecture=SPELLED[HERE]))
    host.run("import", single, "--platform", "linux/" + SPELLED[HERE])
    assert which(host, single) == (f"linux/{HERE}", "single")


def test_a_variant_without_its_letter(host, images):
    reference = images.index(images.image("arm", architecture="arm64") | on("arm64", "8"))
    host.run("import", reference, "--platform", "linux/arm64/v8")
    assert which(host, reference) == ("linux/arm64/v8", "arm")


def test_an_image_without_platform_beside_an_attestation(host, images):
    attestation = images.image("attestation", os="unknown", architecture="unknown") | on("unknown")
    attestation["platform"]["os"] = "unknown"
    reference = images.index(images.image("image"), attestation)
    host.run("import", reference)
    assert which(host, reference)[1] == "image"


def test_images_without_platform_are_told_apart_by_their_configurations(host, images):
    reference = images.index(images.image("other", architecture=OTHER), images.image("this", architecture=HERE))
    host.run("import", reference)
    assert which(host, reference) == (f"linux/{HERE}", "this")
    failed = host.run("import", reference, "--platform", "linux/s390x", code=1).stderr
    assert f"{reference} has no image for linux/s390x" in failed and f"is for linux/{OTHER}, and linux/s390x is wanted" in failed


@pytest.mark.parametrize("missing", [{"architecture": None}, {"os": None}, {"os": None, "architecture": None}, {"os": "", "architecture": ""}])
def test_a_configuration_without_platform_is_for_whoever_wants_it(host, images, missing):
    reference = images.tag("1", images.image("any", **missing))
    host.run("import", reference)
    assert which(host, reference) == (f"linux/{HERE}", "any")


def test_an_image_for_others_is_refused_with_what_takes_it(host, images):
    reference = images.tag("1", images.image("other", architecture=SPELLED[OTHER]))
    failed = host.run("import", reference, code=1).stderr
    assert f"{reference} is for linux/{OTHER}, and linux/{HERE}" in failed
    assert f" is wanted; --platform linux/{OTHER} takes it\n" in failed
    host.run("import", reference, "--platform", f"linux/{OTHER}")


@pytest.mark.parametrize("kind", ["application/octet-stream", "text/html", "application/json", ""])
def test_a_configuration_as_old_registries_describe_it(host, images, kind):
    reference = images.tag("1", images.image("old", config_type=kind))
    host.run("import", reference)
    assert which(host, reference)[1] == "old"


def test_a_configuration_of_something_else_is_refused(host, images):
    reference = images.tag("1", images.image("chart", config_type="application/vnd.cncf.helm.config.v1+json"))
    assert "config has the unknown media type" in host.run("import", reference, code=1).stderr


def test_an_index_that_leads_to_itself_has_an_end(host, images):
    """It cannot have its own digest; but many levels, and many entries without a platform, are work for nothing."""
    one = images.image("deep")
    for _ in range(5):
        one = {"mediaType": INDEX, **images.layout.put({"schemaVersion": 2, "manifests": [one]})}
    assert "has indexes in more than 2 levels" in host.run("import", images.tag("levels", one), code=1).stderr
    wide = [images.image(f"n{number}", architecture="s390x") for number in range(2)] * 300
    failed = host.run("import", images.index(*wide), code=1).stderr
    assert failed.count("is for linux/s390x") <= 17, failed
    assert host.images() == []


@pytest.mark.parametrize("count", [129, 300])
def test_as_many_layers_from_a_registry_as_from_a_layout(area, host, registry, count):
    images = Images(area)
    one = images.image("many")
    manifest = images.layout.json_of(one["digest"])
    config = images.layout.json_of(manifest["config"]["digest"])
    manifest["layers"] *= count
    config["rootfs"]["diff_ids"] *= count
    manifest["config"] |= images.layout.put(config)
    reference = images.tag("layers", {"mediaType": MANIFEST, **images.layout.put(manifest)})
    host.run("import", registry.push(reference, "many:1"))
    (uuid,) = host.uuids()
    host.run("import", reference)
    assert host.uuids() == [uuid]

"""What imgadm prints, for people and for programs, and what it asks."""

import json
import re

from image_place import area, fill, host, needs_root  # noqa: F401

pytestmark = needs_root


def make(host, area, name, **manifest):
    file = area / "manifest.json"
    file.write_text(json.dumps({"name": name, "version": "1", **manifest}))
    host.run("create", fill(area / f"tree-{len(list(area.iterdir()))}", {"a": name}), "-m", file)


def test_values_of_all_kinds_are_in_one_order(area, host):
    """Nothing, numbers by their size, texts."""
    for name, value in (("a", 9), ("b", "10"), ("c", 10.5), ("d", 10), ("e", -3), ("f", 1e300), ("g", "9"), ("h", 2.25), ("i", 123456789012345678901)):
        make(host, area, name, tags={"n": value})
    make(host, area, "j")
    assert host.run("list", "-H", "-o", "name", "-s", "tags.n,name").stdout.split() == list("jehadcifbg")
    assert host.run("list", "-H", "-o", "name", "-s", "-tags.n,name").stdout.split() == list("gbficdahej")


def test_parsable_fields_are_read_back_in_one_step(area, host):
    description = "a\\b:c\n\u009b\\:"
    make(host, area, "x", description=description)
    text = host.run("list", "-p", "-o", "name,description,version").stdout
    name, read, version = re.split(r"(?<!\\)(?:\\\\)*:", text.rstrip("\n"))
    assert (name, version) == ("x", "1")
    assert re.sub(r"\\(x..|.)", lambda found: chr(int(found[1][1:], 16)) if found[1][0] == "x" else found[1], read) == description

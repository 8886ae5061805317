"""Two or three imgadm at once on one thing: all of it is done or refused in clear words, and nothing is left behind."""

import hashlib
import json

import pytest
from image_place import Layout, area, fill, host, needs_root  # noqa: F401

pytestmark = needs_root

ROUNDS = 20


def at_once(host, *commands):
    """Runs the commands at the same time. Returns the exit code and the message of each."""
    processes = [host.start(*words) for words in commands]
    texts = [process.communicate(timeout=120) for process in processes]
    return [(process.returncode, output + errors) for process, (output, errors) in zip(processes, texts)]


def nothing_is_left(host, images=0):
    """What is there is of the images that are installed."""
    content = host.state / "content"
    assert host.left_over() == []
    assert len(host.uuids()) == images
    assert len(host.layers()) == len({host.get(uuid)["tree"] for uuid in host.uuids()})
    assert sorted(path.stem for path in (host.state / "imgadm/images").glob("*")) == sorted(host.uuids())
    assert list((content / "ingest").iterdir()) == []
    assert list((content / "locks").iterdir()) == []


@pytest.fixture
def layout(area):
    """Two images of the same layer, and so of one tree."""
    layout = Layout(area / "layout")
    base = fill(area / "base", {"etc/a": "a", "bin/x": ("link", "y")})
    layout.make("1", [base])
    layout.make("2", [], ["--config.env", "A=b"], on="1")
    return layout


def reference(layout, tag="1"):
    return f"oci:{layout.path}:{tag}"


def uuid_of(host, layout, tag="1"):
    host.run("import", reference(layout, tag))
    return host.get(reference(layout, tag))["manifest"]["uuid"]


def test_an_image_is_imported_once(host, layout):
    for _ in range(ROUNDS):
        done = at_once(host, *[("import", reference(layout))] * 3)
        assert [code for code, _ in done] == [0, 0, 0], done
        assert sum("Imported image" in text for _, text in done) == 1, done
        assert sum("already installed" in text for _, text in done) == 2, done
        nothing_is_left(host, 1)
        host.run("delete", *host.uuids())
        nothing_is_left(host)


def test_two_images_of_one_tree_are_deleted(host, layout):
    for _ in range(ROUNDS):
        uuids = [uuid_of(host, layout, tag) for tag in ("1", "2")]
        assert len(host.layers()) == 1
        done = at_once(host, *[("delete", uuid) for uuid in uuids])
        assert [code for code, _ in done] == [0, 0], done
        nothing_is_left(host)


def test_an_import_while_the_other_image_of_its_tree_is_deleted(host, layout):
    for _ in range(ROUNDS):
        uuid = uuid_of(host, layout)
        done = at_once(host, ("import", reference(layout, "2")), ("delete", uuid))
        assert [code for code, _ in done] == [0, 0], done
        nothing_is_left(host, 1)
        host.run("delete", *host.uuids())
        nothing_is_left(host)


def test_an_image_is_deleted_once(host, layout):
    for _ in range(ROUNDS):
        uuid = uuid_of(host, layout)
        done = sorted(at_once(host, *[("delete", uuid)] * 3))
        assert [code for code, _ in done] == [0, 3, 3], done
        assert all(f"image {uuid} is not installed" in text for _, text in done[1:]), done
        nothing_is_left(host)


def test_an_import_while_its_image_is_deleted(host, layout):
    uuid = uuid_of(host, layout)
    for _ in range(ROUNDS):
        imported, deleted, collected = at_once(host, ("import", reference(layout)), ("delete", uuid), ("gc",))
        assert imported[0] == 0 and collected[0] == 0, (imported, deleted, collected)
        assert deleted[0] == 0 or f"image {uuid} is not installed" in deleted[1], deleted
        nothing_is_left(host, len(host.uuids()))
        uuid_of(host, layout)


def test_what_is_unused_is_vacuumed_once(host, layout):
    for _ in range(ROUNDS):
        for tag in ("1", "2"):
            uuid_of(host, layout, tag)
        done = at_once(host, *[("vacuum", "-f")] * 3)
        assert [code for code, _ in done] == [0, 0, 0], done
        nothing_is_left(host)


def test_no_source_that_was_added_is_lost(host):
    for number in range(ROUNDS):
        urls = [f"https://{name}{number}.example" for name in "abc"]
        done = at_once(host, *[("sources", "-f", "-a", url) for url in urls])
        assert [code for code, _ in done] == [0, 0, 0], done
        listed = host.run("sources").stdout.split()
        assert set(urls) <= set(listed), listed
        done = at_once(host, *[("sources", "-d", url) for url in urls])
        assert [code for code, _ in done] == [0, 0, 0], done
        assert not set(urls) & set(host.run("sources").stdout.split())


def test_images_of_one_name_are_written_as_pairs(host, area):
    """Whose content stands there is of no importance; it is that of the manifest beside it."""
    trees = [fill(area / f"tree-{i}", {"a": str(i) * (i + 1)}) for i in range(3)]
    manifest = area / "manifest.json"
    manifest.write_text(json.dumps({"name": "made", "version": "1"}))
    out = area / "out"
    for _ in range(ROUNDS):
        done = at_once(host, *[("create", tree, "-m", manifest, "-o", out) for tree in trees])
        assert [code for code, _ in done] == [0, 0, 0], done
        (said,) = json.loads((out / "made-1.imgmanifest").read_text())["files"]
        assert said["sha256"] == hashlib.sha256((out / "made-1.tar").read_bytes()).hexdigest()
        assert sorted(path.name for path in out.iterdir()) == ["made-1.imgmanifest", "made-1.tar"]
    nothing_is_left(host)

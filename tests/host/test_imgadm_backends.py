"""The same images on every backend of host/storage: shared layers, a deletion, an increment by ZFS's own streams."""

import json

import pytest
from image_place import Host, Layout, area, fill, look, needs_root  # noqa: F401
from storage_places import BACKENDS, Lacking, OwnMounts, Place

pytestmark = needs_root


@pytest.fixture(params=BACKENDS)
def place(request):
    mounts = OwnMounts()
    try:
        made = Place(request.param, size="600M")
    except Lacking as reason:
        mounts.close()
        pytest.skip(str(reason))
    yield made
    made.close()
    mounts.close()


def host_on(place):
    host = Host(place.root / "host", place.backend)
    storage = {"backend": place.backend}
    if place.backend == "zfs":
        storage |= {"dataset": f"{place.zpool}/images"}
    (host.root / "etc/triton/triton.json").write_text(json.dumps({"storage": storage}))
    return host


def root_of(host, backend, uuid):
    """Where the file system of an image can be looked at."""
    tree = host.get(uuid)["tree"]
    return host.pool / tree / "root" if backend == "zfs" else host.tree(uuid)


def test_images_are_imported_shared_and_deleted(area, place):
    host = host_on(place)
    layout = Layout(area / "layout")
    layout.make("base", [fill(area / "base", {"etc/a": "a", "etc/b": "b", "bin/x": ("link", "y")})])
    layout.make("one", [fill(area / "one", {"etc/.wh.a": "", "one": "1"})], on="base")
    layout.make("two", [fill(area / "two", {"etc/.wh..wh..opq": "", "etc/c": "c"})], on="base")
    for tag in ("one", "two"):
        host.run("import", f"oci:{layout.path}:{tag}")
        uuid = host.get(f"oci:{layout.path}:{tag}")["manifest"]["uuid"]
        assert look(root_of(host, place.backend, uuid)) == look(layout.unpack(tag, area / f"umoci-{tag}"))
    free_clones = place.backend != "directory"
    assert len(host.layers()) == (3 if free_clones else 2)
    host.run("delete", f"oci:{layout.path}:one")
    assert len(host.layers()) == (2 if free_clones else 1)
    uuid = host.get(f"oci:{layout.path}:two")["manifest"]["uuid"]
    assert look(root_of(host, place.backend, uuid)) == look(layout.unpack("two", area / "umoci-again"))
    host.run("import", f"oci:{layout.path}:one")
    host.run("vacuum", "-f")
    assert host.layers() == [] and host.images() == [] and host.blobs() == []

"""State directories that earlier versions have left: each later version adopts them, whatever has become of their servers.

They are in tests/host/golden, made by its record.py when that version of the database was current.
"""

import contextlib
import json
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from test_volume_content import imgadm, is_loaded, sha256
from test_volumeadm import run
from volume_place import Manager, area, is_created, is_gone, needs_root, uuid, volume  # noqa: F401 (fixtures)

pytestmark = needs_root

GOLDEN = Path(__file__).parent / "golden"
RECORDED = sorted(int(one.stem.removeprefix("volumes-")) for one in GOLDEN.glob("volumes-*.json"))


class Recorded:
    def __init__(self, area, number):
        self.facts = json.loads((GOLDEN / f"volumes-{number}.json").read_text())
        self.manager = Manager(area)
        shutil.rmtree(self.manager.root)
        self.manager.root.mkdir()
        subprocess.run(["tar", "-C", self.manager.root, "--xattrs", "-xzf", GOLDEN / f"volumes-{number}.tar.gz"], check=True)
        (self.manager.root / "run").mkdir()


@pytest.fixture(params=RECORDED)
def recorded(area, request):
    one = Recorded(area, request.param)
    yield one
    one.manager.end(9)


def without_what_is_newer(found, recorded):
    """Members that a later version has added say nothing about an earlier one; those that were there stay."""
    if isinstance(recorded, dict):
        return {name: without_what_is_newer(found.get(name), value) for name, value in recorded.items()}
    return found


def check(found, recorded):
    for key, status in recorded.items():
        assert without_what_is_newer(found.get(key, {}), status) == status, key


def test_there_is_a_recording_of_each_version(area):
    manager = Manager(area)
    manager.start()
    manager.end()
    with contextlib.closing(sqlite3.connect(manager.state / "content/content.db")) as database:
        ((version,),) = database.execute("SELECT version FROM areas WHERE name = 'volume'")
    assert [*range(1, version + 1)] == RECORDED, "a version of the tables without its recording; see tests/host/golden/record.py"


def test_what_was_recorded_is_listed_before_anything_runs(recorded):
    before = (recorded.manager.state / "content/content.db").read_bytes()
    for words, kind, key in (((), "VolumeStatus", lambda one: f"{one['VolumeID']}#{one['GenerationCounter']}"),
                             (("-c",), "ContentTreeStatus", lambda one: one["ContentID"])):
        found = {key(one): one for one in json.loads(run(recorded.manager, "list", "-j", *words).stdout)}
        check(found, recorded.facts["statuses"][kind])
    assert (recorded.manager.state / "content/content.db").read_bytes() == before


def test_what_was_recorded_is_adopted(recorded):
    manager = recorded.manager
    blobs = manager.blobs()
    manager.start()
    client = manager.client()
    unclaimed = f"{uuid(7)}#0"
    for kind, statuses in recorded.facts["statuses"].items():
        for key, status in statuses.items():
            if kind == "CertObjStatus":
                client.wait(kind, key, is_loaded)
            elif key != unclaimed:
                check({key: client.wait(kind, key, lambda one: one is not None)}, {key: status})
    client.wait("VolumeStatus", unclaimed, is_gone)  # its publisher has not repeated it
    # Nothing was fetched, made again, or lost.
    assert manager.blobs() == blobs
    assert (manager.tree(f"{uuid(1)}#0") / "root/file").read_text() == "kept"
    assert sha256((manager.tree(f"{uuid(2)}#3") / f"{uuid(2)}#3.raw").read_bytes()[:40_000]) == recorded.facts["disk"]
    assert (manager.tree(f"{uuid(3)}#0") / "root/etc/name").read_text() == "golden"
    assert manager.left_over() == [] and "foreign-tree" not in manager.log.read_text()
    assert imgadm(manager, "gc") == "0 in all, 0 bytes\n"
    # What publishes the same again changes nothing.
    client.put(*[(one["kind"], one["config"]) for one in recorded.facts["objects"]])
    for key in recorded.facts["statuses"]["ContentTreeStatus"]:
        assert is_loaded(client.statuses("ContentTreeStatus")["ContentTreeStatus", key])


def test_what_was_recorded_can_be_used_and_given_up(recorded):
    manager = recorded.manager
    manager.start()
    client = manager.client()
    key, wanted = volume(50, ContentID="disk")
    copy, clone = volume(51, VolumeContentOriginType="clone", Source=f"{uuid(1)}#0")
    client.put(wanted, clone)
    client.wait("VolumeStatus", key, is_created)
    client.wait("VolumeStatus", copy, is_created)
    assert (manager.tree(copy) / "root/file").read_text() == "kept"
    client.delete(("VolumeRefConfig", f"{uuid(1)}#0#web"))
    names = [(kind.replace("Status", "Config"), key) for kind, statuses in recorded.facts["statuses"].items() if kind != "VolumeRefStatus"
             for key in statuses if key != f"{uuid(7)}#0"]
    client.delete(*names, ("VolumeConfig", key), ("VolumeConfig", copy))
    for kind, gone in names:
        client.wait(kind.replace("Config", "Status"), gone, is_gone)
    client.call("Collect", dry_run=False)
    client.wait("VolumeStatus", f"{uuid(7)}#0", is_gone)
    assert manager.trees() == []
    imgadm(manager, "gc")
    (image,) = imgadm(manager, "list", "-H", "-o", "uuid").split()
    imgadm(manager, "delete", image)
    imgadm(manager, "gc")
    assert manager.blobs() == []


def test_what_the_next_version_has_written_is_refused_untouched(recorded):
    manager = recorded.manager
    path = manager.state / "content/content.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE areas SET version = 1000 WHERE name = 'volume'")
        database.commit()
    before = path.read_bytes()
    assert not manager.start(may_die=True)
    assert 'has tables "volume" of version 1000' in manager.log.read_text()
    assert "version 1000" in run(manager, "list", code=1).stderr
    assert path.read_bytes() == before

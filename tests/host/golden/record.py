#!/usr/bin/python3
"""Records the state directory of volumemgr as the programs in TRITON_BUILD make it: for test_volume_golden.py.

    TRITON_BUILD=build/release /usr/bin/python3 tests/host/golden/record.py NUMBER

writes volumes-NUMBER.tar.gz, the state, and volumes-NUMBER.json, what has to be found in it. NUMBER is the version of the
area "volume" in content.db. A recording is made once for each, before the version is shipped, and never again.
"""

import hashlib
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

from image_place import Layout, fill  # noqa: E402
from volume_place import Manager, is_created, uuid, volume  # noqa: E402

AREA = Path("/tmp/triton-golden")
DISK = random.Random(1).randbytes(40_000)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def is_loaded(status):
    return status is not None and status["State"] == "LOADED"


def plain_objects(store):
    """What version 1 had."""
    yield "DatastoreConfig", {"UUID": store, "DsType": "directory", "Fqdn": str(AREA / "images")}
    yield "ContentTreeConfig", {"ContentID": "disk", "DatastoreIDList": [store], "RelativeURL": "disk.raw", "Format": "raw",
                                "ContentSha256": sha256(DISK), "MaxDownloadSize": len(DISK)}
    yield "ContentTreeConfig", {"ContentID": "app", "DatastoreIDList": [store], "RelativeURL": "layout:1", "Format": "container"}
    yield "VolumeConfig", {"VolumeID": uuid(1), "GenerationCounter": 0, "DisplayName": "data"}
    yield "VolumeConfig", {"VolumeID": uuid(2), "GenerationCounter": 3, "DisplayName": "disk", "ContentID": "disk", "MaxVolSize": 65536}
    yield "VolumeConfig", {"VolumeID": uuid(3), "GenerationCounter": 0, "DisplayName": "app", "ContentID": "app"}
    yield "VolumeConfig", {"VolumeID": uuid(4), "GenerationCounter": 0, "Layout": "file", "MaxVolSize": 32768, "ReadOnly": True}
    yield "VolumeRefConfig", {"VolumeID": uuid(1), "GenerationCounter": 0, "AppUUID": "web"}


def signed_objects(store):
    """What version 2 has besides."""
    key, trusted = AREA / "key", AREA / "key.pub"
    subprocess.run(["minisign", "-G", "-W", "-p", trusted, "-s", key], check=True, capture_output=True, input=b"\n\n")
    subprocess.run(["minisign", "-S", "-s", key, "-m", AREA / "images/disk.raw", "-t", "file:disk.raw"], check=True, capture_output=True)
    (AREA / "images/leaf.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    yield "ContentTreeConfig", {"ContentID": "signed", "DatastoreIDList": [store], "RelativeURL": "disk.raw", "Format": "raw",
                                "ContentSha256": sha256(DISK), "MaxDownloadSize": len(DISK),
                                "Signature": {"Kind": "minisign", "KeyFile": str(trusted)}}
    yield "VolumeConfig", {"VolumeID": uuid(5), "GenerationCounter": 0, "DisplayName": "signed", "ContentID": "signed"}
    yield "CertObjConfig", {"UUID": uuid(6), "DatastoreIDList": [store],
                            "StorageConfigList": [{"RelativeURL": "leaf.pem", "ImageSha256": sha256((AREA / "images/leaf.pem").read_bytes())}]}


def snapshot_objects():
    """What version 3 has besides."""
    yield "VolumesSnapshotConfig", {"SnapshotID": uuid(8), "VolumeIDs": [f"{uuid(1)}#0", f"{uuid(2)}#3"], "AppUUID": "web",
                                    "RollbackCounter": 1}


def record(number):
    shutil.rmtree(AREA, ignore_errors=True)
    AREA.mkdir(mode=0o755)
    (AREA / "images").mkdir()
    (AREA / "images/disk.raw").write_bytes(DISK)
    Layout(AREA / "images/layout").make("1", [fill(AREA / "base", {"etc/name": "golden"})])
    manager = Manager(AREA)
    manager.start()
    client = manager.client()
    store = uuid(100)
    objects = [*plain_objects(store), *(signed_objects(store) if number >= 2 else []), *(snapshot_objects() if number >= 3 else [])]
    client.put(*objects)
    for kind, config in objects:
        if kind == "VolumeConfig":
            client.wait("VolumeStatus", f"{config['VolumeID']}#{config['GenerationCounter']}", is_created)
        elif kind == "ContentTreeConfig":
            client.wait("ContentTreeStatus", config["ContentID"], is_loaded)
        elif kind == "CertObjConfig":
            client.wait("CertObjStatus", config["UUID"], is_loaded)
        elif kind == "VolumesSnapshotConfig":
            client.wait("VolumesSnapshotStatus", config["SnapshotID"], lambda status: status and status["State"] == "CREATED")
    (manager.tree(f"{uuid(1)}#0") / "root/file").write_text("kept")
    # One that nobody claims any more, and whose time has not come.
    key, wanted = volume(7)
    client.put(wanted, publisher="files")
    client.wait("VolumeStatus", key, is_created)
    kinds = ("VolumeStatus", "ContentTreeStatus", "VolumeRefStatus", *(["CertObjStatus"] if number >= 2 else []),
             *(["VolumesSnapshotStatus"] if number >= 3 else []))
    statuses = {kind: {key: status for (_, key), status in sorted(client.statuses(kind).items())} for kind in kinds}
    manager.end()
    facts = {"objects": [{"kind": kind, "config": config} for kind, config in objects], "statuses": statuses, "disk": sha256(DISK)}
    (HERE / f"volumes-{number}.json").write_text(json.dumps(facts, indent=1) + "\n")
    words = ["tar", "-C", AREA / "root", "--numeric-owner", "--sparse", "--xattrs", "--sort=name", "--mtime=@0", "-czf",
             HERE / f"volumes-{number}.tar.gz", "var", "etc"]
    subprocess.run([*map(str, words)], check=True)
    shutil.rmtree(AREA)


if __name__ == "__main__":
    record(int(sys.argv[1]))

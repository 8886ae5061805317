"""Seed images for cloud-init: what is in them, that the same input makes the same bytes, and that secrets stay where they are."""

import json
import shutil
import subprocess

import pytest
from test_volume_content import has_error
from volume_place import (  # noqa: F401 (fixtures)
    PATIENCE, Failed, area, is_created, manager, needs_root, volume,
)

pytestmark = [needs_root, pytest.mark.skipif(not shutil.which("xorriso"), reason="xorriso is not installed")]

SECRET = "#cloud-config\npassword: very-secret-word\n"


@pytest.fixture
def user_data(area):
    path = area / "user-data"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


def read(image, name, area):
    """One file of an image."""
    target = area / "out"
    target.unlink(missing_ok=True)
    subprocess.run(["xorriso", "-osirrox", "on", "-indev", image, "-extract", f"/{name}", target], check=True,
                   capture_output=True, timeout=PATIENCE)
    return target.read_text()


def image_of(manager, key):
    return manager.tree(key) / f"{key}.iso"


def test_a_seed_is_what_cloud_init_looks_for(manager, area, user_data):
    network = area / "network"
    network.write_text("version: 2\n")
    network.chmod(0o600)
    manager.start()
    client = manager.client()
    key, wanted = volume(VolumeContentOriginType="cloudInit", UserDataFile=str(user_data), NetworkConfigFile=str(network),
                         DisplayName="web-1")
    client.put(wanted)
    status = client.wait("VolumeStatus", key, is_created)
    assert status["ContentFormat"] == "iso"
    image = image_of(manager, key)
    probed = subprocess.run(["blkid", "-p", "-o", "value", "-s", "LABEL", "-s", "TYPE", image], capture_output=True,
                            text=True, check=True, timeout=PATIENCE)
    assert probed.stdout.split() == ["cidata", "iso9660"]
    assert read(image, "user-data", area) == SECRET
    assert read(image, "network-config", area) == "version: 2\n"
    assert json.loads(read(image, "meta-data", area)) == {"instance-id": key, "local-hostname": "web-1"}
    assert image.stat().st_mode & 0o777 == 0o600
    # The same input makes the same bytes.
    before = image.read_bytes()
    client.delete(("VolumeConfig", key))
    client.wait("VolumeStatus", key, lambda status: status is None)
    client.put(wanted)
    client.wait("VolumeStatus", key, is_created)
    assert image.read_bytes() == before


def test_user_data_are_nowhere_but_in_the_seed(manager, area, user_data):
    trace = area / "trace"
    wrapper = area / "wrapper"
    wrapper.write_text(f"#!/bin/sh\nexec strace -f -s 65536 -qq -o {trace} -e trace=execve,execveat {manager.program} \"$@\"\n")
    wrapper.chmod(0o755)
    manager.program = wrapper
    manager.start("--log-level", "debug", idle="100ms")
    client = manager.client()
    key, wanted = volume(VolumeContentOriginType="cloudInit", UserDataFile=str(user_data))
    client.put(wanted)
    client.wait("VolumeStatus", key, is_created)
    seen = str(client.statuses()) + str(client.call("Get", kind="VolumeConfig", key=key)) + str(client.call("Why", key=key))
    client.close()
    assert manager.process.wait(PATIENCE) == 0
    assert "xorriso" in trace.read_text()
    for text in (seen, manager.log.read_text(), trace.read_text()):
        assert "very-secret-word" not in text
    for path in manager.state.rglob("*"):
        if path.is_file() and not path.is_symlink() and path != image_of(manager, key):
            assert b"very-secret-word" not in path.read_bytes(), path


def test_user_data_that_others_can_read_are_refused(manager, user_data):
    user_data.chmod(0o640)
    manager.start()
    client = manager.client()
    key, wanted = volume(VolumeContentOriginType="cloudInit", UserDataFile=str(user_data))
    client.put(wanted)
    assert "chmod 600" in client.wait("VolumeStatus", key, has_error)["Error"]["Text"]
    assert manager.trees() == []
    user_data.chmod(0o600)
    client.call("Retry")
    client.wait("VolumeStatus", key, is_created)


def test_what_a_seed_needs_is_asked_for(manager):
    manager.start()
    client = manager.client()
    for more, member in (({"VolumeContentOriginType": "cloudInit"}, "UserDataFile"),
                         ({"VolumeContentOriginType": "cloudInit", "UserDataFile": "relative"}, "UserDataFile"),
                         ({"UserDataFile": "/x"}, "UserDataFile"), ({"NetworkConfigFile": "/x"}, "NetworkConfigFile"),
                         ({"Format": "raw"}, "Format"), ({"ContentID": "x", "Format": "qcow2"}, "Format")):
        with pytest.raises(Failed, match=f"VolumeConfig.{member}"):
            client.put(volume(**more)[1])

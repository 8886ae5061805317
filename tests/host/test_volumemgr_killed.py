"""volumemgr is killed before each step that makes something durable: what comes after is the same as without."""

import os
import signal
import subprocess

import pytest
from volume_place import BUILD, Failed, Manager, area, is_created, is_gone, needs_root, volume  # noqa: F401 (fixtures)

pytestmark = [needs_root,
              pytest.mark.skipif("asan" in str(BUILD), reason="a sanitizer wants to be loaded first")]

LIBRARY = BUILD / "tests/host/tool/die_at_step.so"
GONE = (ConnectionError, BrokenPipeError, FileNotFoundError)


def work(manager, story):
    """Returns whether the story came to its end before the kill."""
    try:
        story(manager.client())
        return True
    except GONE:
        manager.process.wait(60)
        assert manager.process.returncode == -signal.SIGKILL
        return False


def create(key, config, origin=()):
    def story(client):
        client.put(*origin, config)
        client.wait("VolumeStatus", key, is_created)
    return story


def remove(key):
    def story(client):
        client.delete(("VolumeConfig", key))
        client.wait("VolumeStatus", key, is_gone)
    return story


def grow(key, config):
    def story(client):
        client.put((config[0], {**config[1], "MaxVolSize": 1 << 20}))
        client.wait("VolumeStatus", key, lambda status: is_created(status) and status["MaxVolSize"] == 1 << 20)
    return story


def kinds(area):
    content = area / "disk"
    content.write_bytes(b"disk" * 5000)
    source, source_config = volume(900, Layout="file", MaxVolSize=4096)
    return {
        "directory": volume(901),
        "file": volume(902, Layout="file", MaxVolSize=4096),
        "clone": volume(903, VolumeContentOriginType="clone", Source=source, MaxVolSize=4096),
    }, source_config


def assert_whole(manager, key, exists, others):
    """Nothing but what is wanted is in the pool, also for those who look at the next start."""
    assert manager.trees() == sorted([*others, *([key.replace("#", ".")] if exists else [])])
    assert manager.left_over() == []


@pytest.mark.parametrize("kind", ["directory", "file", "clone"])
@pytest.mark.parametrize("what", ["create", "remove", "grow"])
def test_a_kill_at_any_step_changes_nothing_in_the_end(area, kind, what):
    if what == "grow" and kind != "file":
        pytest.skip("a clone grows as a file, and a directory only where the pool keeps quotas")
    manager = Manager(area)
    all_kinds, source = kinds(area)
    key, config = all_kinds[kind]
    others = []
    manager.start()
    if kind == "clone":
        work(manager, create(f"{source[1]['VolumeID']}#0", source))
        others = [f"{source[1]['VolumeID']}.0"]
    manager.end()
    kills = 0
    for step in range(1, 400):
        # Before: as it was.
        manager.start()
        client = manager.client()
        if what == "create":
            client.delete(("VolumeConfig", key))
            client.wait("VolumeStatus", key, is_gone)
        else:
            client.delete(("VolumeConfig", key))
            client.wait("VolumeStatus", key, is_gone)
            work(manager, create(key, config))
        manager.end()
        story = {"create": create, "grow": grow}.get(what)
        story = story(key, config) if story else remove(key)
        try:
            is_up = manager.start(env={"LD_PRELOAD": str(LIBRARY), "TRITON_DIE_AT": str(step)}, may_die=True)
            is_done = is_up and work(manager, story)
            kills += not is_done
        finally:
            manager.end()
        # After: the same story once more comes to its end, whatever the kill has left.
        manager.start()
        assert work(manager, story)
        exists = what != "remove"
        assert_whole(manager, key, exists, others)
        if exists and kind != "directory":
            size = (manager.tree(key) / f"{key}.raw").stat().st_size
            assert size == (1 << 20 if what == "grow" else 4096)
        manager.end()
        if is_done:
            break
    else:
        raise AssertionError("there is no end to the steps")
    assert kills > 5, kills


def test_what_nobody_took_back_is_finished_by_the_next_one(area):
    """A kill between request and deed: the request is durable."""
    manager = Manager(area)
    manager.start()
    client = manager.client()
    key, config = volume(904)
    client.put(config)
    manager.end(signal.SIGKILL)
    manager.start()
    client = manager.client()
    client.wait("VolumeStatus", key, is_created)
    client.delete(("VolumeConfig", key))
    manager.end(signal.SIGKILL)
    manager.start()
    manager.client().wait("VolumeStatus", key, is_gone)
    assert manager.trees() == []
    manager.end(signal.SIGKILL)

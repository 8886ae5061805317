"""volumeadm: what the operator types."""

import hashlib
import json
import os
import signal
import subprocess

import pytest
from volume_place import BUILD, PATIENCE, Manager, area, manager, needs_root, uuid  # noqa: F401 (fixtures)

pytestmark = needs_root

VOLUMEADM = BUILD / "volumeadm"


def run(manager, *words, code=0):
    done = subprocess.run([VOLUMEADM, *map(str, words)], env=manager.environment(), capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.returncode == code, f"volumeadm {words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def listed(manager, *words):
    return [line.split() for line in run(manager, "list", "-H", *words).stdout.splitlines()]


def test_the_life_of_a_volume(manager):
    manager.start()
    key = run(manager, "create", "data").stdout.strip()
    assert (manager.tree(key) / "root").is_dir()
    assert listed(manager, "-o", "key,name,state,format,refs") == [[key, "data", "CREATED_VOLUME", "directory", "1"]]
    run(manager, "attach", "data", "web")
    failed = run(manager, "delete", "data", code=1)
    assert failed.stderr == f"volumeadm: volume {key} is used by web\n"
    assert "it is used by web" in run(manager, "why", "data").stdout
    run(manager, "detach", "data", "web")
    copy = run(manager, "clone", "data", "copy").stdout.strip()
    run(manager, "delete", key)
    assert listed(manager, "-o", "key,name") == [[copy, "copy"]]
    assert run(manager, "get", key, code=1).stderr == f"volumeadm: there is no volume and no content tree {key}\n"


def test_a_file_grows(manager):
    manager.start()
    key = run(manager, "create", "--layout", "file", "--size", "1Mi", "disk").stdout.strip()
    run(manager, "grow", "disk", "2Mi")
    assert (manager.tree(key) / f"{key}.raw").stat().st_size == 2 << 20
    assert "cannot shrink" in run(manager, "grow", "disk", "1Mi", code=1).stderr
    assert json.loads(run(manager, "get", "disk").stdout)["MaxVolSize"] == 2 << 20
    assert listed(manager, "-o", "size") == [["2M"]]


def test_content_of_this_host(manager, area):
    content = os.urandom(100_000)
    (area / "disk.img").write_bytes(content)
    manager.start()
    run(manager, "import", "disk", area / "disk.img", "--sha256", hashlib.sha256(content).hexdigest(), "--size", "1Mi")
    assert listed(manager, "-c", "-o", "id,state,format") == [["disk", "LOADED", "raw"]]
    key = run(manager, "create", "--content", "disk", "--size", "200k", "vm").stdout.strip()
    assert (manager.tree(key) / f"{key}.raw").read_bytes() == content + bytes(100_000)
    wrong = run(manager, "import", "other", area / "disk.img", "--size", "1Mi", code=1)
    assert "ContentTreeConfig.ContentSha256: it is missing" in wrong.stderr
    run(manager, "import", "bad", area / "disk.img", "--sha256", "0" * 64, "--size", "1Mi", "--timeout", "1", "--no-wait")
    assert run(manager, "why", "bad").stdout.startswith("content tree bad is")


def test_each_import_keeps_its_own_way(manager, area):
    """What was imported with credentials is fetched again with them, whoever imports from there without any."""
    manager.start()
    for name, more in [("with", ["--credentials", area / "token"]), ("without", [])]:
        run(manager, "import", name, "https://127.0.0.1:1/disk.img", "--sha256", "0" * 64, "--size", "1Mi", "--no-wait", *more)
    client = manager.client()

    def credentials_of(content):
        store, = client.call("Get", kind="ContentTreeConfig", key=content)["object"]["DatastoreIDList"]
        return client.call("Get", kind="DatastoreConfig", key=store)["object"].get("CredentialsFile", "")

    assert (credentials_of("with"), credentials_of("without")) == (str(area / "token"), "")


def test_what_is_can_be_read_without_the_daemon(manager):
    manager.start()
    key = run(manager, "create", "data").stdout.strip()
    status = json.loads(run(manager, "get", "data").stdout)
    manager.end(signal.SIGKILL)
    assert json.loads(run(manager, "get", "data").stdout) == status
    assert listed(manager, "-o", "key") == [[key]]
    assert run(manager, "why", "data").stdout.splitlines() == [f"volume {key} is CREATED_VOLUME/Created", "volumemgr does not run"]
    failed = run(manager, "create", "other", code=3)
    assert "volumemgr does not answer" in failed.stderr and "systemctl start volumemgr.socket" in failed.stderr


def test_errors_have_codes_and_json(manager):
    manager.start()
    error = json.loads(run(manager, "-E", "get", "nothing", code=1).stderr)["error"]
    assert (error["code"], error["message"]) == ("notFound", "there is no volume and no content tree nothing")
    assert run(manager, "creat", code=2).stderr == 'volumeadm: there is no command "creat"; did you mean "create"?\n'
    assert run(manager, code=2).stderr == "volumeadm: a command is missing; volumeadm --help lists all commands\n"
    assert "Usage: volumeadm why" in run(manager, "help", "why").stdout
    assert run(manager, "-V").stdout == run(manager, "--version").stdout
    run(manager, "create", "a", "b", code=2)
    run(manager, "create", "--layout", "lvm", code=2)
    one, two = (run(manager, "create", name).stdout.strip() for name in ("same", "same"))
    assert set(run(manager, "get", "same", code=2).stderr.split()) >= {one, two}
    run(manager, "create", "--content", "nothing", "waits", "--timeout", "0.2", code=4)
    assert "nobody has configured" in run(manager, "why", "waits").stdout
    run(manager, "watch", "waits", "--until", "CREATED_VOLUME", "--timeout", "0.2", code=4)
    run(manager, "delete", "waits")


def test_metrics_count_what_there_is(manager):
    manager.start()
    run(manager, "create", "one")
    run(manager, "create", "--layout", "file", "--size", "1Mi", "two")
    run(manager, "create", "--encrypted", "--no-wait", "three")
    manager.client().wait("VolumeStatus", run(manager, "list", "-H", "-o", "key").stdout.split()[0], lambda status: status)
    lines = run(manager, "metrics").stdout.splitlines()
    assert lines[-1] == "# EOF"
    for line in ('triton_volume_objects{kind="volume",state="CREATED_VOLUME"} 2',
                 'triton_volume_objects{kind="volume",state="INITIAL"} 1',
                 'triton_volume_promised_bytes{format="raw"} 1048576',
                 'triton_volume_waiting{kind="volume",class="vault"} 1'):
        assert line in lines, lines


def test_gc_and_maintenance(manager):
    manager.start()
    assert run(manager, "gc", "-n").stdout == ""
    run(manager, "maintenance", "on")
    run(manager, "maintenance", "off")
    run(manager, "maintenance", "maybe", code=2)
    run(manager, "retry")


def test_watch_tells_each_change(manager):
    manager.start()
    watching = subprocess.Popen([VOLUMEADM, "watch", "-j"], env=manager.environment(), stdout=subprocess.PIPE, text=True)
    key = run(manager, "create", "data").stdout.strip()
    for line in watching.stdout:
        one = json.loads(line)
        if one["key"] == key and one["object"]["State"] == "CREATED_VOLUME":
            break
    watching.kill()
    watching.wait()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_and_help(manager, shell):
    assert "volumeadm" in run(manager, "completion", shell).stdout
    assert "Examples:" in run(manager, "--help").stdout
    assert "Example:" in run(manager, "create", "--help").stdout
    assert run(manager, "--version").stdout.startswith("volumeadm ")


def test_a_scrub_finds_damage_and_fetches_content_again(manager, area):
    content = os.urandom(100_000)
    (area / "disk.img").write_bytes(content)
    manager.start()
    digest = hashlib.sha256(content).hexdigest()
    run(manager, "import", "disk", area / "disk.img", "--sha256", digest, "--size", "1Mi")
    key = run(manager, "create", "--content", "disk", "--size", "200k", "vm").stdout.strip()
    assert run(manager, "scrub").stdout == "1 blobs, 100000 bytes: 0 bad; 0 volumes without their content\n"
    blob = manager.state / "content/blobs/sha256" / digest
    blob.chmod(0o600)
    blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    file = manager.tree(key) / f"{key}.raw"
    file.rename(area / "away")
    failed = run(manager, "scrub", code=1)
    assert failed.stdout.splitlines() == [
        f"sha256:{digest}: its SHA-256 is {hashlib.sha256(blob_of(manager, digest)).hexdigest()}, of contentTree disk",
        f"volume {key}: cannot find {key}.raw in volumes/clear/{key.replace('#', '.')}: No such file or directory",
        "content tree disk is fetched again",
        "1 blobs, 100000 bytes: 1 bad; 1 volumes without their content"]
    assert failed.stderr == "volumeadm: something is damaged\n"
    client = manager.client()
    client.wait("ContentTreeStatus", "disk", lambda status: status["State"] == "LOADED")
    (area / "away").rename(file)
    assert blob.read_bytes() == content and file.read_bytes()[:100_000] == content
    assert json.loads(run(manager, "scrub", "-j").stdout) == {"blobs": 1, "bytes": 100_000, "bad": [], "missing": [], "fetched_again": []}


def blob_of(manager, digest):
    """The bad bytes, which are in quarantine."""
    place, = (manager.state / "content/quarantine").glob(f"{digest}*")
    return place.read_bytes()


def sent(manager, *words):
    done = subprocess.run([VOLUMEADM, "send", *words], env=manager.environment(), capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def receive(manager, stream, *words, code=0):
    done = subprocess.run([VOLUMEADM, "receive", *words], env=manager.environment(), input=stream, capture_output=True, timeout=PATIENCE)
    assert done.returncode == code, done.stderr
    return done.stdout.decode().strip() if code == 0 else done.stderr.decode()


def test_a_volume_goes_to_another_host(manager, area):
    (area / "other").mkdir()
    other = Manager(area / "other")
    try:
        manager.start()
        other.start()
        data = run(manager, "create", "data").stdout.strip()
        disk = run(manager, "create", "--layout", "file", "--size", "1Mi", "disk").stdout.strip()
        (manager.tree(data) / "root/file").write_text("one")
        run(manager, "snapshot", "data", "before")
        (manager.tree(data) / "root/file").write_text("two")
        (manager.tree(disk) / f"{disk}.raw").write_bytes(b"x" * (1 << 20))
        stream = sent(manager, "data")
        assert receive(other, stream) == data
        assert (other.tree(data) / "root/file").read_text() == "two"
        assert "exists already; --new" in receive(other, stream, code=1)
        new = receive(other, sent(manager, "data", "--snapshot", "before"), "--new", "old")
        assert new != data and (other.tree(new) / "root/file").read_text() == "one"
        assert receive(other, sent(manager, "disk")) == disk
        file = other.tree(disk) / f"{disk}.raw"
        assert file.read_bytes() == b"x" * (1 << 20) and file.stat().st_mode & 0o7777 == 0o600
        assert sorted(listed(other, "-o", "name,size,format")) == [["data", "-", "directory"], ["disk", "1M", "raw"], ["old", "-", "directory"]]
        assert run(manager, "snapshots", "data").stdout == "before\n" and run(other, "snapshots", "data").stdout == ""
        assert not list((manager.pool / "volumes").glob("received/*"))
        # What is not what it says is not a volume, and leaves nothing.
        run(other, "delete", "data")
        for bad in (b"", b"hello" * 100, stream[:-40], stream[:-65] + b"0" * 64 + b"\n", stream.replace(b'"Format":"directory"', b'"Format":"raw"      ')):
            receive(other, bad, code=1)
            assert len(other.trees()) == 2 and other.left_over() == [] and not list((other.pool / "volumes").glob("received/*"))
    finally:
        other.end(signal.SIGKILL)


def test_a_received_volume_that_was_not_published_is_removed_by_the_next_one(manager):
    manager.start()
    run(manager, "create", "data")
    stream = sent(manager, "data")
    run(manager, "delete", "data")
    key = receive(manager, stream, "--no-wait")
    manager.client().wait("VolumeStatus", key, lambda status: status and status["State"] == "CREATED_VOLUME")
    left = manager.pool / "volumes/received" / f"{uuid(77)}.0"
    (left / "@tree").mkdir(parents=True)
    (left / "@snapshots").mkdir()
    receive(manager, stream, "--new")
    assert not left.exists()

"""The agent's endpoints for files: hashes, presence, and paths that lead elsewhere."""

import hashlib
import json
import os
import select
import shutil
import socket
import threading

import pytest

from harness.agent import Agent, run_agent
from harness.process import eventually


@pytest.fixture
def output(area):
    """An output directory with what a staging leaves, beside something secret."""
    directory = area / "out"
    (directory / "bin/7.1.61").mkdir(parents=True)
    (directory / "bin/7.1.61/fdbserver").write_bytes(b"#!binary\n")
    (directory / "fdb.cluster").write_text("d:i@10.0.0.1:4500\n")
    (directory / "empty").touch()
    (directory / "..data").symlink_to("..2026")
    (directory / "..2026").mkdir()
    (directory / "..2026/config").write_text("one")
    (directory / "config").symlink_to("..data/config")
    (area / "out-secret").mkdir()  # a sibling whose name begins with ours: readable in the shipped program
    (area / "out-secret/key").write_text("secret")
    yield directory


@pytest.fixture
def agent(output):
    started = Agent("--output-dir", output)
    yield started
    started.close()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("path", ["fdb.cluster", "bin/7.1.61/fdbserver", "empty", "config", "bin/../fdb.cluster",
                                  "/fdb.cluster", "bin//7.1.61/./fdbserver", "fdb%2Ecluster", "fdb.cluster?x=1"])
def test_hash_is_that_of_the_content_without_a_newline(agent, output, path):
    content = (output / path.split("?")[0].replace("%2E", ".").lstrip("/")).read_bytes()
    assert agent.get(f"/check_hash/{path}") == (200, sha256(content))
    assert agent.get(f"/is_present/{path}") == (200, "OK\n")


@pytest.mark.parametrize("path", ["missing", "missing/file", "fdb.cluster/file", "dangling"])
def test_what_is_not_there_is_404(agent, output, path):
    (output / "dangling").symlink_to("nowhere")
    assert agent.get(f"/is_present/{path}") == (404, f"{path} not found\n")
    status, text = agent.get(f"/check_hash/{path}")
    assert status == 404
    assert text == f"{path} not found\n" or path == "fdb.cluster/file", text


@pytest.mark.parametrize("path", [
    "../out-secret/key", "..%2fout-secret%2fkey", "bin/../../out-secret/key", "to-secret", "to-absolute",
    "to-root/etc/passwd",
    "to-parent/out-secret/key", "%2e%2e/out-secret/key", "bin/../../out/fdb.cluster", "to-proc", "to-self"])
def test_paths_that_lead_outside_are_403(agent, output, path):
    (output / "to-secret").symlink_to("../out-secret/key")
    (output / "to-absolute").symlink_to(output.parent / "out-secret/key")
    (output / "to-root").symlink_to("/")
    (output / "to-parent").symlink_to("..")
    (output / "to-proc").symlink_to("/proc/self/root/etc/passwd")
    (output / "to-self").symlink_to("/dev/fd/3")
    status, body = agent.get(f"/check_hash/{path}")
    assert (status, "leads outside" in body) == (403, True)
    assert agent.get(f"/is_present/{path}")[0] == 403


@pytest.mark.parametrize("path", ["a%00b", "%", "%4", "%zz", "", "%2f", "bin", "fifo", "socket", "x" * 300])
def test_what_is_no_file_is_400(agent, output, path):
    os.mkfifo(output / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(output / "socket"))
    listener.close()
    assert agent.get(f"/check_hash/{path}")[0] == 400


def test_a_loop_of_links_is_403(agent, output):
    (output / "loop").symlink_to("loop")
    assert agent.get("/check_hash/loop")[0] == 403


def test_a_directory_is_present(agent):
    assert agent.get("/is_present/bin/7.1.61") == (200, "OK\n")


def test_a_link_that_is_swapped_all_the_time_never_leads_outside(agent, output):
    """What a check before the open would miss."""
    stopping = threading.Event()

    def swap():
        while not stopping.is_set():
            for target in ("fdb.cluster", "../out-secret/key"):
                (output / "new").symlink_to(target)
                (output / "new").rename(output / "swapped")
    (output / "swapped").symlink_to("fdb.cluster")
    thread = threading.Thread(target=swap, daemon=True)
    thread.start()
    try:
        answers = [agent.get("/check_hash/swapped") for _ in range(300)]
    finally:
        stopping.set()
        thread.join()
    assert {status for status, _ in answers} <= {200, 403}
    assert {body for status, body in answers if status == 200} == {sha256(b"d:i@10.0.0.1:4500\n")}


def test_hashes_are_kept_until_anything_about_the_file_changes(agent, output):
    file = output / "kept"
    file.write_bytes(b"old")
    # A file that has just changed is not kept: it may change again within one tick of its clock.
    os.utime(file, ns=(0, 0))

    def is_kept():
        before = agent.metric("triton_agent_hash_cache_hits_total")
        agent.get("/check_hash/kept")
        return agent.metric("triton_agent_hash_cache_hits_total") == before + 1
    eventually(is_kept, "the hash is kept")
    status = file.stat()
    file.write_bytes(b"new")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # same size, same mtime, same inode
    assert agent.get("/check_hash/kept") == (200, sha256(b"new"))
    (output / "other").write_bytes(b"xyz")
    (output / "other").rename(file)
    assert agent.get("/check_hash/kept") == (200, sha256(b"xyz"))


def test_a_file_rewritten_in_place_never_gives_an_old_hash(agent, output):
    for number in range(200):
        content = f"{number:04}".encode()
        (output / "busy").write_bytes(content)
        assert agent.get("/check_hash/busy") == (200, sha256(content))


def test_large_files_do_not_keep_small_ones_waiting(agent, output):
    """More large files than threads; all of them are sparse, so that only the processor is busy."""
    for number in range(4):
        with open(output / f"large{number}", "wb") as file:
            file.truncate(64 << 30)
    connections = [agent.connect() for _ in range(4)]
    for number, connection in enumerate(connections):
        connection.sendall(f"GET /check_hash/large{number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    eventually(lambda: agent.metric("triton_agent_hash_cache_misses_total") == 4, "all are being hashed")
    for _ in range(5):
        assert agent.get("/check_hash/fdb.cluster")[0] == 200
        assert agent.get("/ready") == (200, "OK\n")
    assert agent.metric("triton_agent_hashed_bytes_total") < 64 << 30, "the large ones were done too early to tell"
    for connection in connections:
        connection.close()


def test_those_who_wait_for_hashes_leave_room_for_probes(output):
    with open(output / "large", "wb") as file:
        file.truncate(64 << 30)
    agent = Agent("--output-dir", output, "--max-connections", "8")
    peers = [agent.connect() for _ in range(6)]
    try:
        for peer in peers:
            peer.sendall(b"GET /check_hash/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        # Four wait, the others are told to come again, and probes are answered all the time.
        answers = []
        while len(answers) < 2:
            ready, _, _ = select.select(peers, [], [], 10)
            assert ready
            answers += [peer.recv(4096) for peer in ready]
            peers = [peer for peer in peers if peer not in ready]
        assert all(answer.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1" in answer for answer in answers)
        for _ in range(20):
            assert agent.get("/ready") == (200, "OK\n")
    finally:
        for peer in peers:
            peer.close()
        agent.close()


def test_many_hashes_in_one_call(agent, output):
    for number in range(50):
        (output / f"file{number}").write_bytes(b"x" * number)
    paths = [f"file{number}" for number in range(50)] + ["missing", "../out-secret/key", "bin", "file3"]
    status, body = agent.post("/v1/hashes", json.dumps({"paths": paths}))
    files = json.loads(body)["files"]
    assert status == 200 and [file["path"] for file in files] == paths
    for number, file in enumerate(files[:50]):
        assert (file["sha256"], file["bytes"]) == (sha256(b"x" * number), number)
    assert [file["status"] for file in files[50:53]] == [404, 403, 400]
    assert files[53]["sha256"] == sha256(b"xxx")


@pytest.mark.parametrize("body, reason", [
    ("", "not JSON"), ("{", "not JSON"), ("[]", 'not an object with an array "paths"'), ("{}",
                                                                                   'not an object with an array "paths"'),
    ('{"paths": "a"}', 'not an object with an array "paths"'), ('{"paths": [1]}', "paths[0] is not a path"),
    ('{"paths": ["a", ""]}', "paths[1] is not a path"), ('{"paths": ["a\\u0000b"]}', "not JSON"),
    (json.dumps({"paths": ["a"] * 1001}), "more than 1000 paths")])
def test_calls_for_hashes_that_are_wrong_say_how(agent, body, reason):
    status, answer = agent.post("/v1/hashes", body)
    assert status == 400 and reason in json.loads(answer)["error"]


def test_without_an_output_directory_nothing_is_there():
    agent = Agent()
    try:
        assert agent.get("/check_hash/etc/passwd")[0] == 404
        assert agent.get("/is_present/etc")[0] == 404
    finally:
        agent.close()


def test_an_output_directory_that_cannot_be_opened_is_an_error(area):
    done = run_agent("--listen", "127.0.0.1:0", "--output-dir", area / "missing")
    assert (done.returncode, done.stderr) == (
        1, f"triton-launch-agent: cannot open directory {area}/missing: No such file or directory\n")


def test_an_output_directory_that_is_removed_is_told(area):
    (area / "out").mkdir()
    (area / "out/a").write_text("a")
    agent = Agent("--output-dir", area / "out")
    try:
        assert agent.get("/is_present/a") == (200, "OK\n")
        shutil.rmtree(area / "out")
        (area / "out").mkdir()
        (area / "out/a").write_text("a")
        for path in ("/is_present/a", "/check_hash/a"):
            assert agent.get(path) == (503, "cannot open a: the directory has been removed\n")
    finally:
        agent.close()


def test_substitutions_follow_the_file_of_variables(area):
    (area / "version").write_text("7.1.61\n")
    (area / "env").write_text("ONE=1\nnothing\n")
    agent = Agent("--version-file", area / "version", "--substitute-variable", "ONE", "--additional-env-file", area / "env",
                  "--binary-output-dir", ".")
    try:
        assert f"{area}/env: " in agent.wait_for_event("substitutions-incomplete")["message"]
        said = json.loads(agent.get("/substitutions")[1])
        assert (said["ONE"], said["BINARY_DIR"]) == ("1", "/var/dynamic-conf")
        (area / "new").write_text("ONE=2\n")
        (area / "new").rename(area / "env")
        eventually(lambda: json.loads(agent.get("/substitutions")[1])["ONE"] == "2", "it is read again")
        (area / "env").unlink()
        agent.wait_for_event("substitutions-rejected")
        said = json.loads(agent.get("/substitutions")[1])
        assert (said["ONE"], said["BINARY_DIR"]) == ("2", "/var/dynamic-conf")
    finally:
        agent.close()


def test_substitutions_are_those_of_the_shipped_program(area):
    (area / "version").write_text("7.1.61\n")
    agent = Agent("--version-file", area / "version", "--main-container-version", "7.1.57", "--substitute-variable",
                  "ONE",
                  "--substitute-variable", "TWO", "--substitute-variable", "FDB_POD_IP", "--public-ip-family", "6",
                  env={"FDB_PUBLIC_IP": "10.0.0.1,fd00::1", "FDB_POD_IP": "10.0.0.2,fd00::2", "HOSTNAME": "pod-1", "ONE": "1",
                       "FDB_INSTANCE_ID": 'a"b'})
    try:
        status, body = agent.get("/substitutions")
        assert status == 200 and json.loads(body) == {
            "FDB_PUBLIC_IP": "[fd00::1]", "FDB_POD_IP": "[fd00::2]", "FDB_MACHINE_ID": "pod-1", "FDB_ZONE_ID": "pod-1",
            "FDB_INSTANCE_ID": 'a"b', "BINARY_DIR": "/var/dynamic-conf/bin/7.1.61", "ONE": "1", "TWO": None}
        assert body.count("FDB_POD_IP") == 1
    finally:
        agent.close()


def test_substitutions_need_no_pod_address(area):
    """Without FDB_POD_IP, --public-ip-family kept the agent from its start."""
    agent = Agent("--version-file", area / "none", "--public-ip-family", "4", env={"FDB_PUBLIC_IP": "10.0.0.1,fd00::1"})
    try:
        said = json.loads(agent.get("/substitutions")[1])
        assert (said["FDB_PUBLIC_IP"], said["FDB_POD_IP"]) == ("10.0.0.1", "")
    finally:
        agent.close()

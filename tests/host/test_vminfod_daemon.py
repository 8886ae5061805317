"""vminfod as a process: how it starts, what it does when it is killed, and when the kernel gives it no watches."""

import http.client
import json
import os
import subprocess

import pytest
from vminfod_place import BUILD, PATIENCE, Daemon, free_port


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon(tmp_path, machines=5)
    yield daemon
    daemon.close()


def status(daemon):
    return json.loads(daemon.get("/status?full")[2])


def run(*words, **options):
    return subprocess.run([BUILD / "vminfod", *words], capture_output=True, text=True, timeout=PATIENCE, **options)


def follow(daemon, path="/events"):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer, json.loads(answer.readline())


def test_command_line(tmp_path):
    assert run("--version").stdout.startswith("vminfod 0.")
    assert run("--help").stdout.startswith("Usage: vminfod [OPTIONS]\n")
    for words, said in {
        ("--nonsense",): "vminfod: unknown option --nonsense; see vminfod --help\n",
        ("word",): 'vminfod: unexpected argument "word"\n',
    }.items():
        done = run(*words)
        assert (done.returncode, done.stderr) == (2, said)
    done = run("--root", str(tmp_path), "--listen", "10.1.2.3:80")
    assert done.stderr.endswith("cannot listen on 10.1.2.3:80: only addresses of the loopback interface are served\n")
    assert done.returncode != 0


def test_configuration_is_checked(tmp_path):
    (tmp_path / "etc/triton").mkdir(parents=True)
    path = tmp_path / "etc/triton/triton.json"
    for info, said in {
        '{"listen": 9090}': "info.listen: expected an address, or null",
        '{"open_secrets": "yes"}': "info.open_secrets: expected true or false",
        '{"port": 1}': "info.port: unknown key",
        "[]": "info: expected an object",
    }.items():
        path.write_text(f'{{"info": {info}}}')
        done = run("--root", str(tmp_path))
        assert done.returncode == 2 and done.stderr == f"vminfod: {path}: {said}\n"


def test_there_is_only_one(daemon):
    done = run("--root", str(daemon.files.root), "--listen", "none")
    assert done.returncode != 0
    assert done.stderr.startswith("vminfod: cannot start vminfod: another one runs and has locked ")


def test_another_loopback_address_is_a_host_of_its_own(tmp_path):
    root = tmp_path / "root"
    (root / "etc/triton").mkdir(parents=True)
    port = free_port()
    (root / "etc/triton/triton.json").write_text(json.dumps(
        {"storage": {"backend": "directory"}}))
    with subprocess.Popen([BUILD / "vminfod", "--root", root, "--listen", f"127.0.0.2:{port}"], stderr=subprocess.PIPE, text=True) as process:
        try:
            said = (json.loads(line) for line in process.stderr)
            assert any(line["message"] == f"serves 127.0.0.2:{port}" for line in said)
            for host, answer in {"127.0.0.2": 200, "localhost": 200, "127.0.0.1": 200, "127.0.0.3": 403, "evil.example": 403}.items():
                connection = http.client.HTTPConnection("127.0.0.2", port, timeout=PATIENCE)
                connection.request("GET", "/ping", headers={"Host": f"{host}:{port}"})
                assert connection.getresponse().status == answer, host
                connection.close()
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0


def test_no_life_uses_a_number_twice(daemon):
    machine = daemon.made[0]
    answer, first = follow(daemon)
    daemon.files.write({**machine, "alias": "changed"})
    event = json.loads(answer.readline())
    assert event["seq"] == first["seq"] + 1
    daemon.kill()
    daemon.start()
    again, record = follow(daemon, f"/events?since={event['seq']}")
    while record["type"] != "resync":
        record = json.loads(again.readline())
    assert record["seq"] > event["seq"] + 100_000
    assert len(record["vms"]) == 5
    assert status(daemon)["missedEvents"] == 0


def test_numbers_grow_after_a_start_that_could_keep_none(daemon):
    daemon.kill()
    sequence = daemon.files.root / "var/triton/vminfod/sequence"
    sequence.unlink()
    (sequence / "in-the-way").mkdir(parents=True)  # nothing can be written there, as on a full disk
    daemon.start()
    assert "no-sequence-file" in daemon.log.read_text()
    answer, record = follow(daemon)
    (sequence / "in-the-way").rmdir()
    sequence.rmdir()
    for number in range(10_000):
        if sequence.exists():
            break
        daemon.files.write({**daemon.made[0], "alias": f"changed{number}"})
        record = json.loads(answer.readline())
    assert int(sequence.read_text()) > record["seq"] + 100_000
    daemon.kill()
    daemon.start()
    _, again = follow(daemon)
    assert again["seq"] > record["seq"]


def test_it_ends_in_order(daemon):
    answer, _ = follow(daemon)
    daemon.process.terminate()
    assert daemon.process.wait(PATIENCE) == 0
    assert answer.read() == b""  # the stream is ended, and not cut off


def test_files_that_cannot_be_watched_are_polled(tmp_path):
    """In a user namespace whose watches are few."""
    daemon = Daemon(tmp_path, machines=5)
    daemon.close()
    daemon.port = free_port()
    program = tmp_path / "few-watches"
    program.write_text(f'#!/bin/sh\nexec unshare --user --map-root-user sh -c \'echo 2 >/proc/sys/user/max_inotify_watches && exec "$@"\' sh '
                       f'{daemon.program} "$@"\n')
    program.chmod(0o755)
    daemon.program = program
    if subprocess.run(["unshare", "--user", "--map-root-user", "test", "-w", "/proc/sys/user/max_inotify_watches"]).returncode != 0:
        pytest.skip("user namespaces are not to be had")
    daemon.start()
    try:
        files = status(daemon)["sources"][0]
        assert not files["working"]
        assert files["note"] == "fs.inotify.max_user_watches is reached: files are polled every 5 s"
        answer, _ = follow(daemon)
        daemon.files.write({**daemon.made[0], "alias": "polled"})
        assert json.loads(answer.readline())["vm"]["alias"] == "polled"
    finally:
        daemon.close()


def test_listeners_are_named_on_the_unix_socket_only(daemon):
    answer, _ = follow(daemon)
    for path in ("/status", "/status?full"):
        open_status = json.loads(daemon.get(path)[2])
        assert open_status["listeners"] == {"unix": 0, "tcp": 1} and "eventsListeners" not in open_status
        full = json.loads(daemon.get_by_socket(path)[1])
        assert [listener["entrance"] for listener in full["eventsListeners"].values()] == ["tcp"]
    answer.close()


def test_idle_means_idle(daemon):
    """Nothing happens: the threads sleep, but for timers."""
    status(daemon)  # the start is over

    def switches():
        total = 0
        for task in os.listdir(f"/proc/{daemon.process.pid}/task"):
            with open(f"/proc/{daemon.process.pid}/task/{task}/status") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
        return total

    before = switches()
    with pytest.raises(subprocess.TimeoutExpired):
        daemon.process.wait(3)
    # without systemd's bus it looks whether that has come, and the log is silent
    assert switches() - before < 30

"""`triton-launch ctl` against a real launcher: what it shows, what it does, how it fails."""

import json
import os
import shutil
import signal
import socket
import subprocess

import pytest

from harness.control import Controlled, Varlink
from harness.process import BINARY, TIMEOUT, VERSION, Exit, eventually

STAY = ["trap", "say:up", "until:15"]
STUBBORN = ["trap", "say:up", "until:10"]
AT_ONCE = {"initial": "5ms", "max": "5ms", "jitter": 0}


@pytest.fixture(name="running")
def start_running(as_pid1):
    """Two programs, one of them with two processes and captured output."""
    controlled = Controlled(as_pid1, {"web": STAY,
                                      "talk": {"steps": ["print:hello", *STAY], "count": 2,
                                               "output": {"format": "prefix"}}})
    for _ in range(3):
        controlled.launcher.wait_up()
    yield controlled
    controlled.close()


# --- what it shows

def test_status_table(running):
    """One row for each process, in the document's order."""
    rows = [line.split() for line in running.ctl("status").splitlines()]
    assert rows[0] == ["NAME", "NUMBER", "STATE", "PID", "UPTIME", "RESTARTS", "READY", "MEMORY", "LAST", "EXIT"]
    assert [row[:3] for row in rows[1:]] == [["web", "1", "up"], ["talk", "1", "up"], ["talk", "2", "up"]]
    assert [int(row[3]) for row in rows[1:]] == [running.pid("web"), running.pid("talk", 1), running.pid("talk", 2)]
    assert [row.split()[:2] for row in running.ctl("status", "talk:2").splitlines()[1:]] == [["talk", "2"]]
    assert [row.split()[0] for row in running.ctl("status", "talk", "web").splitlines()[1:]] == ["talk", "talk", "web"]


def test_status_json(running):
    """The same for programs that read it."""
    running.launcher.signal_inside(running.pid("web"), signal.SIGKILL)
    running.launcher.wait_up(tag="web")
    status = running.status()
    assert list(status) == ["web", "talk"] and status["talk"]["wanted"] == 2
    process = status["web"]["processes"][1]
    assert process["state"] == "up" and process["starts"] == 2 and process["restarts"] == 1
    assert process["last_exit"]["signal"] in (9, "SIGKILL") and process["ready"] is True


def test_describe(running):
    """One program in full, for people and for programs."""
    text = running.ctl("describe", "talk")
    assert "name:               talk\n" in text and "processes:          2\n" in text and "print:hello" in text
    described = json.loads(running.ctl("describe", "--json", "talk"))
    assert described["description"]["command"][0] == str(running.starter.probe)
    assert described["program"]["name"] == "talk"
    assert "the name of a program is missing" in running.ctl("describe", expect=2)
    assert "not one of its processes" in running.ctl("describe", "talk:1", expect=2)


def test_top_without_a_terminal(running):
    """One picture, without any control sequence."""
    picture = running.ctl("top")
    assert [line.split()[0] for line in picture.splitlines()] == ["NAME", "web", "talk", "talk"]
    assert "\033" not in picture


def test_names_for_completion(running):
    """What the shells complete; without a launcher nothing is said."""
    assert running.ctl("__names") == "web\ntalk\n"
    done = subprocess.run([BINARY, "ctl", "--socket", "/nonexistent/control", "__names"], capture_output=True,
                          check=False, timeout=TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")


def test_version(running):
    """The launcher's, not ours, though they are the same here."""
    assert running.ctl("version").strip() in running.launcher.wait_for_event("launcher-started")["version"]


# --- what it does

def test_stop_and_start(running):
    """A stop lasts until the start, for a program or one process, also over reloads."""
    pid = running.pid("talk", 1)
    running.ctl("stop", "talk:2")
    assert running.process("talk", 2)["state"] == "held" and "pid" not in running.process("talk", 2)
    assert running.pid("talk", 1) == pid
    running.ctl("stop", "web")
    assert running.process("web")["state"] == "held"
    running.ctl("reload")
    running.configure({"web": STAY, "talk": {"steps": ["print:hello", *STAY], "count": 3,
                                             "output": {"format": "prefix"}}})
    running.launcher.wait_for_probe("say", text="up", tag="talk", n=3)
    assert running.process("talk", 2)["state"] == "held" and running.process("web")["state"] == "held"
    running.ctl("start", "talk:2")
    running.ctl("start", "web")
    assert running.process("talk", 2)["state"] == "up" and running.process("web")["state"] == "up"
    assert running.pid("talk", 1) == pid
    running.ctl("start", "web")  # it runs: done already


@pytest.fixture(name="chain")
def start_chain(as_pid1):
    """web requires api, api requires db; nothing starts by itself but `free`."""
    held = {"steps": STAY, "autoStart": False}
    controlled = Controlled(as_pid1, {"db": held, "api": {**held, "requires": ["db"]},
                                      "web": {**held, "requires": ["api"], "count": 2}, "free": STAY})
    controlled.launcher.wait_up(tag="free")
    yield controlled
    controlled.close()


def states(controlled):
    return {name: program["processes"][1]["state"] for name, program in controlled.status().items()}


def test_start_of_a_program_starts_what_it_requires(chain):
    assert states(chain) == {"db": "held", "api": "held", "web": "held", "free": "up"}
    assert chain.ctl("start", "--no-deps", "web", expect=1) == \
        "triton-launch ctl: web requires db, api, not running; without --no-deps started first\n"
    assert states(chain)["db"] == "held"
    done = chain.run("start", "web:2")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == ("triton-launch ctl: first starting db, which is required by web:2\n"
                           "triton-launch ctl: first starting api, which is required by web:2\n")
    assert states(chain) == {"db": "up", "api": "up", "web": "held", "free": "up"}
    assert chain.process("web", 2)["state"] == "up"
    done = chain.run("start", "--no-deps", "web")
    assert (done.returncode, done.stderr) == (0, "")


def test_restart_of_a_program_starts_what_it_requires(chain):
    """It would wait for them without an end."""
    chain.ctl("start", "web")
    chain.ctl("stop", "--with-dependents", "db")
    assert chain.ctl("restart", "--no-deps", "web", expect=1) == \
        "triton-launch ctl: web requires db, api, not running; without --no-deps started first\n"
    assert states(chain)["db"] == "held"
    done = chain.run("restart", "web")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == ("triton-launch ctl: first starting db, which is required by web\n"
                           "triton-launch ctl: first starting api, which is required by web\n")
    assert states(chain) == {"db": "up", "api": "up", "web": "up", "free": "up"}


def test_restart_of_several_starts_in_their_order(chain):
    """Each of them once, whatever comes first on the command line."""
    done = chain.run("restart", "web", "api", "db")
    assert (done.returncode, done.stderr) == (0, "")
    assert states(chain) == {"db": "up", "api": "up", "web": "up", "free": "up"}
    pids = {name: chain.pid(name) for name in ("db", "api", "web")}
    assert [chain.process(name)["starts"] for name in ("db", "api", "web")] == [1, 1, 1]
    chain.ctl("restart", "web", "db")  # now both run, and each is another one
    assert chain.pid("web") != pids["web"] and chain.pid("db") != pids["db"] and chain.pid("api") == pids["api"]


def test_start_and_restart_end_when_what_they_wait_for_is_held(chain):
    """Whoever waits is told what for, also where it came to be held, or failed, later."""
    chain.ctl("start", "web")
    chain.ctl("stop", "--force", "db")
    client = Varlink(chain.socket)
    refused = {"error": "org.tritonlaunch.Launcher.Refused",
               "parameters": {"reason": "waits for what is held or has failed: db", "details": []}}
    assert client.call("Restart", {"program": "api", "wait": True}) == refused
    chain.launcher.wait_for_event("control-command", command="restart api")  # else taken for the next one below
    assert client.call("Restart", {"program": "web", "process": 2, "wait": True}) == refused
    client.close()
    assert states(chain) == {"db": "held", "api": "waiting", "web": "up", "free": "up"}
    chain.ctl("start", "db")
    chain.ctl("wait", "api")
    chain.configure({"db": {"steps": STUBBORN}, "api": {"steps": STAY, "requires": ["db"]}, "free": STAY,
                     "late": {"steps": STAY, "after": ["api"], "autoStart": False}})
    chain.ctl("reload")
    chain.ctl("restart", "db")
    chain.launcher.wait_up(tag="db", pid=chain.pid("db"))
    chain.ctl("stop", "--force", "--no-wait", "db")
    restart = chain.follow("restart", "api")
    chain.launcher.wait_for_event("control-command", command="restart api")
    late = chain.follow("start", "late")  # it comes after one that waits
    chain.launcher.wait_for_event("control-command", command="start late")
    chain.launcher.signal_inside(chain.pid("db"), signal.SIGKILL)
    for follower, name in ((restart, "api"), (late, "late")):
        assert follower.process.wait(TIMEOUT) == 1
        assert follower.process.stderr.read() == \
            f"triton-launch ctl: {name}: waits for what is held or has failed: db\n".encode()
        follower.close()


def test_one_run_of_a_program_with_a_schedule_and_several_places(as_pid1):
    """A command makes one run, and waits for that one."""
    job = {"steps": STAY, "schedule": {"every": "1h"}, "count": 2}
    controlled = Controlled(as_pid1, {"job": job, "bad": {**job, "steps": [*STAY, "exit:3"]}, "free": STAY})
    controlled.launcher.wait_up(tag="free")

    def places():
        return [process["state"] for process in controlled.status()["job"]["processes"].values()]

    controlled.ctl("start", "job")
    assert places() == ["up", "down"]
    controlled.ctl("restart", "job")
    assert places() == ["up", "down"] and controlled.process("job")["starts"] == 2
    controlled.ctl("start", "job:2")
    assert places() == ["up", "up"]
    controlled.ctl("stop", "job")
    controlled.ctl("restart", "job")
    assert places() == ["up", "down"]
    controlled.ctl("start", "bad")
    controlled.launcher.wait_up(tag="bad")
    controlled.ctl("signal", "TERM", "bad")
    controlled.launcher.wait_for_event("process-exited", program="bad", exit_code=3)
    controlled.close()


def test_stop_of_what_others_require_asks(chain):
    chain.ctl("start", "web")
    assert chain.ctl("stop", "db", expect=1) == ("triton-launch ctl: db is required by web, api; "
                                                 "--with-dependents stops these first, --force leaves them running\n")
    assert "leave them running, or stop them?" in chain.ctl("stop", "--force", "--with-dependents", "db", expect=2)
    assert states(chain)["db"] == "up"
    chain.ctl("stop", "--force", "db")
    assert states(chain) == {"db": "held", "api": "up", "web": "up", "free": "up"}
    chain.ctl("start", "db")
    chain.ctl("stop", "web:1")  # the program goes on without it
    done = chain.run("stop", "--with-dependents", "db")
    assert done.stderr == ("triton-launch ctl: first stopping web, which requires db\n"
                           "triton-launch ctl: first stopping api, which requires db\n")
    assert states(chain) == {"db": "held", "api": "held", "web": "held", "free": "up"}
    web, api = (chain.launcher.wait_for_event("process-exited", **which)["time"]
                for which in ({"program": "web", "process": 2}, {"program": "api"}))
    assert web < api
    chain.ctl("stop", "db", "free")  # nobody is left to mind


def test_stop_of_what_stands_behind_one_shots_asks(as_pid1):
    """One that is done runs no more, and what it has done still needs what it requires."""
    def once(name, **more):
        return {"steps": [f"say:{name}", "exit:0"], "oneShot": True, **more}
    probe = str(as_pid1.probe)
    controlled = Controlled(as_pid1, {
        "disk": once("disk", onStop={"command": [probe, "tag:disk", "say:undone"]}),
        "mount": once("mount", requires=["disk"], onStop={"command": [probe, "tag:mount", "say:undone"]}),
        "migrate": once("migrate", requires=["mount"]),
        "web": {"steps": STAY, "requires": ["migrate"]},
        "bound": {"steps": STAY, "bindsTo": ["web"]},
        "late": {"steps": STAY, "requires": ["bound"]}})
    controlled.launcher.wait_up(tag="late")
    assert controlled.ctl("stop", "disk", expect=1) == (
        "triton-launch ctl: disk is required by late, web, mount; "
        "--with-dependents stops these first, --force leaves them running\n")
    assert controlled.ctl("stop", "web", expect=1).startswith("triton-launch ctl: web is required by late; ")
    done = controlled.run("stop", "--with-dependents", "disk")
    assert done.stderr == "".join(f"triton-launch ctl: first stopping {name}, which requires disk\n"
                                  for name in ("late", "web", "mount"))
    assert states(controlled) == {"disk": "held", "mount": "held", "migrate": "done", "web": "held",
                                  "bound": "waiting", "late": "held"}
    controlled.launcher.wait_for_probe("say", text="undone", tag="disk")
    undone = [line["tag"] for line in controlled.launcher.probe.all if line.get("text") == "undone"]
    assert undone == ["mount", "disk"]
    done = controlled.run("start", "late")  # by way of one that waits, and one that is done
    assert (done.returncode, done.stderr) == (0, "".join(
        f"triton-launch ctl: first starting {name}, which is required by late\n" for name in ("disk", "mount", "web")))
    assert states(controlled) == {"disk": "done", "mount": "done", "migrate": "done", "web": "up", "bound": "up",
                                  "late": "up"}
    controlled.close()


def test_what_is_bound_to_a_one_shot_goes_before_it_is_undone(as_pid1):
    probe = str(as_pid1.probe)
    controlled = Controlled(as_pid1, {
        "mount": {"steps": ["say:mount", "exit:0"], "oneShot": True, "onStop": {"command": [probe, "tag:mount", "say:undone"]}},
        "db": {"steps": STAY, "bindsTo": ["mount"]}})
    controlled.launcher.wait_up(tag="db")
    assert controlled.ctl("stop", "mount", expect=1).startswith("triton-launch ctl: mount is required by db; ")
    assert controlled.run("stop", "--with-dependents", "mount").returncode == 0
    assert states(controlled) == {"mount": "held", "db": "held"}
    assert controlled.launcher.events_named("process-exited", program="db")
    controlled.close()


def test_a_program_that_does_not_start_by_itself_keeps_nobody(as_pid1):
    controlled = Controlled(as_pid1, {"tool": {"steps": STAY, "autoStart": False},
                                      "job": {"steps": ["trap", "say:up", "until:10", "exit:0"], "oneShot": True}})
    pid = controlled.launcher.wait_up(tag="job")["pid"]
    controlled.launcher.signal_inside(pid, signal.SIGUSR1)
    assert controlled.launcher.wait() == Exit(code=0)
    controlled.close()


def test_groups_and_all(as_pid1):
    controlled = Controlled(as_pid1, {"db": {"steps": STAY, "groups": ["back"]},
                                      "api": {"steps": STAY, "groups": ["back", "front"], "requires": ["db"]},
                                      "web": {"steps": STAY, "groups": ["front"], "requires": ["api"]},
                                      "other": STAY})
    for _ in range(4):
        controlled.launcher.wait_up()
    rows = controlled.ctl("status", "@front").splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["api", "web"]
    before = {name: controlled.pid(name) for name in ("db", "api", "web", "other")}
    controlled.ctl("restart", "@front")
    after = {name: controlled.pid(name) for name in before}
    assert [name for name in before if before[name] != after[name]] == ["api", "web"]
    assert "there is no group none" in controlled.ctl("stop", "@none", expect=1)
    assert controlled.ctl("stop", "@back", expect=1).startswith("triton-launch ctl: db is required by web, api; ")
    done = controlled.run("stop", "all")
    assert (done.returncode, done.stderr) == (0, "")
    assert set(states(controlled).values()) == {"held"}
    done = controlled.run("start", "web", "all")
    assert (done.returncode, done.stderr) == (0, "")
    assert set(states(controlled).values()) == {"up"}
    controlled.close()


def test_of_a_group_those_are_meant_that_can_be(as_pid1):
    """One that is to have no process keeps nobody from its start, and one that does not run from its signal."""
    group = {"steps": STAY, "groups": ["all-of-it"]}
    controlled = Controlled(as_pid1, {"off": {**group, "count": 0}, "idle": {**group, "autoStart": False},
                                      "web": group, "nightly": {**group, "schedule": {"every": "1h"}}})
    controlled.launcher.wait_up(tag="web")
    for group_name in ("@all-of-it", "all"):
        controlled.ctl("signal", "USR1", group_name)
        controlled.launcher.wait_signal(signal.SIGUSR1, tag="web")
    assert controlled.ctl("signal", "USR1", "idle", "web", expect=1) == "triton-launch ctl: no process of idle runs\n"
    pid = controlled.pid("web")
    controlled.ctl("restart", "@all-of-it")
    assert controlled.pid("web") != pid and controlled.process("idle")["state"] == "up"
    controlled.ctl("start", "all")
    assert controlled.process("nightly")["starts"] == 0  # nobody asks for a backup when the servers are to run
    controlled.ctl("stop", "all")
    assert controlled.ctl("signal", "USR1", "all", expect=1).startswith("triton-launch ctl: no process of ")
    assert controlled.process("nightly")["state"] == "held"
    controlled.ctl("start", "all")
    assert controlled.process("web")["state"] == "up" and controlled.process("nightly")["state"] == "up"
    assert controlled.ctl("restart", "off", "web", expect=1) == \
        "triton-launch ctl: off: off has no process: its count is 0\n"
    controlled.configure({}, {"runServers": False, "programs": {"web": {"command": ["/bin/true"]}}})
    controlled.ctl("reload")
    assert "runServers is false: nothing may run" in controlled.ctl("start", "all", expect=1)
    controlled.close()


def test_a_program_without_a_process_leaves(as_pid1):
    """Its place is free then, and nobody looks for a process there."""
    controlled = Controlled(as_pid1, {"web": STAY, "off": {"steps": STAY, "count": 0}})
    controlled.launcher.wait_up(tag="web")
    for programs in ({"web": STAY}, {"web": STAY, "idle": {"steps": STAY, "autoStart": False}}, {"web": STAY}):
        controlled.configure(programs)
        controlled.ctl("reload")
        eventually(lambda: sorted(controlled.status()) == sorted(programs), "what has left is gone")
    controlled.ctl("restart", "all")
    controlled.close()


def test_an_older_launcher_that_does_not_know_alone(area):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(area / "older"))
        listener.listen()
        with subprocess.Popen([BINARY, "ctl", "--socket", str(area / "older"), "stop", "--no-wait", "web"],
                              stderr=subprocess.PIPE, text=True) as ctl:
            connection, _ = listener.accept()
            with connection:
                assert json.loads(connection.recv(65536)[:-1])["parameters"]["alone"] is True
                connection.sendall(b'{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"alone"}}\0')
                assert "alone" not in json.loads(connection.recv(65536)[:-1])["parameters"]
                connection.sendall(b'{"parameters":{}}\0')
            assert (ctl.stderr.read(), ctl.wait(TIMEOUT)) == ("", 0)


def test_varlink_names_whom_a_command_concerns(chain):
    client = Varlink(chain.socket)
    refused = client.call("Start", {"program": "web", "alone": True})
    assert refused == {"error": "org.tritonlaunch.Launcher.NotAlone",
                       "parameters": {"program": "web", "programs": ["db", "api"]}}
    assert client.call("Start", {"program": "db", "alone": True, "wait": True}) == {"parameters": {}}
    assert client.call("Start", {"program": "api", "wait": True}) == {"parameters": {}}
    refused = client.call("Stop", {"program": "db", "alone": True})
    assert refused["parameters"] == {"program": "db", "programs": ["api"]}
    client.close()


def test_restart(running):
    """It returns when the new process is there; the others stay."""
    before = {number: running.pid("talk", number) for number in (1, 2)}
    web = running.pid("web")
    running.ctl("restart", "talk:1")
    assert running.pid("talk", 1) != before[1] and running.pid("talk", 2) == before[2]
    running.ctl("restart", "talk")
    assert running.pid("talk", 2) != before[2] and running.pid("web") == web
    running.launcher.wait_for_event("control-command", command="restart talk:1", uid=0)
    running.launcher.wait_for_event("control-command", command="restart talk")


def test_signal(running):
    """To all processes of a program, or to one."""
    running.ctl("signal", "USR1", "talk")
    running.launcher.wait_signal(signal.SIGUSR1, n=1)
    running.launcher.wait_signal(signal.SIGUSR1, n=2)
    running.ctl("signal", "12", "talk:2", "web")
    running.launcher.wait_signal(signal.SIGUSR2, n=2)
    running.launcher.wait_signal(signal.SIGUSR2, tag="web")
    running.launcher.probe.drain()
    assert not [line for line in running.launcher.probe.all if line.get("signal") == 12 and line["tag"] == "talk"
                and line["n"] == 1]
    running.ctl("stop", "talk:2")
    assert "process 2 of talk does not run" in running.ctl("signal", "HUP", "talk:2", expect=1)
    running.ctl("stop", "talk")
    assert "no process of talk runs" in running.ctl("signal", "HUP", "talk", expect=1)


def test_reload(running):
    """A good one is taken, a bad one is refused with all that is wrong, and the old one stays."""
    running.configure({"web": STAY})
    running.ctl("reload")
    eventually(lambda: list(running.status()) == ["web"], "talk is gone")
    pid = running.pid("web")
    running.configure({"web": {"steps": STAY, "stopSignal": "NOSUCH", "after": ["nobody"]}})
    complaint = running.ctl("reload", expect=1)
    assert complaint.startswith("triton-launch ctl: the configuration is rejected\n")
    assert "stopSignal" in complaint and "nobody" in complaint
    assert running.pid("web") == pid


def test_logs(running):
    """The last lines of a program or of one process."""
    assert sorted(running.ctl("logs", "talk").splitlines()) == ["1: hello", "2: hello"]
    assert running.ctl("logs", "talk:2") == "hello\n"
    assert running.ctl("logs", "-n", "0", "talk:2") == ""
    line = json.loads(running.ctl("logs", "--json", "talk:1"))
    assert line["text"] == "hello" and line["process"] == 1
    assert running.ctl("logs", "web", expect=1) == \
        'triton-launch ctl: the output of web is not captured; "output": {} in its configuration would do that\n'


def test_logs_follow_over_a_restart(running):
    """The follower stays when the process is another one."""
    follower = running.follow("logs", "-f", "talk:1")
    follower.wait_for("hello")
    for count in (2, 3):
        running.ctl("restart", "talk:1")
        eventually(lambda: follower.drain() and follower.lines.count("hello") == count, "the new one's line")
    assert set(follower.lines) == {"hello"}
    assert running.launcher.stop() == Exit(code=0)
    eventually(lambda: not follower.drain(), "it ends with the launcher")
    assert follower.process.wait(TIMEOUT) == 0


def test_logs_follow_what_is_written_while_nothing_else_happens(as_pid1, area):
    """Each line comes by itself, whatever kept the launcher busy before."""
    os.mkfifo(area / "lines")
    controlled = Controlled(as_pid1, {"echo": {"command": ["/bin/cat", str(area / "lines")], "output": {}}})
    follower = Varlink(controlled.socket)
    assert follower.call("Logs", {"program": "echo", "follow": True}, more=True)["parameters"]["lines"] == []
    with open(area / "lines", "wb", buffering=0) as lines:
        for number in range(20):
            lines.write(b"line %d\n" % number)
            told = follower.receive()["parameters"]["lines"]
            assert [line["text"] for line in told] == [f"line {number}"]


def test_logs_are_whole(as_pid1):
    """All lines that are kept, though one answer could not hold them."""
    controlled = Controlled(as_pid1, {"many": {"command": ["/bin/sh", "-c", "seq 1 5000; exec /bin/sleep 1000"],
                                               "output": {}}})
    lines = eventually(lambda: (out := controlled.ctl("logs", "-n", "10000", "many")).endswith("5000\n") and out,
                       "all is written").splitlines()
    assert lines == [str(number) for number in range(5001 - len(lines), 5001)] and len(lines) > 4000
    done = controlled.run("logs", "-n", "10000", "many")
    assert (done.stdout.splitlines(), done.stderr) == (lines, "")
    answer = Varlink(controlled.socket).call("Logs", {"program": "many", "lines": 10000})["parameters"]
    assert len(answer["lines"]) + answer["lost"] == len(lines) and answer["lines"][-1]["text"] == "5000"


def test_numbers_above_a_lower_count(as_pid1):
    """They end, are shown no more, and cannot be started."""
    controlled = Controlled(as_pid1, {"web": {"steps": STAY, "count": 3}})
    for number in (1, 2, 3):
        controlled.launcher.wait_up(n=number)
    controlled.configure({"web": {"steps": STAY, "count": 1}})
    controlled.ctl("reload")
    eventually(lambda: list(controlled.status()["web"]["processes"]) == [1], "the others have ended")
    assert [row.split()[1] for row in controlled.ctl("status").splitlines()] == ["NUMBER", "1"]
    for verb in ("start", "restart"):
        assert "web has no process 3" in controlled.ctl(verb, "web:3", "--timeout", "5s", expect=1)
    controlled.ctl("start", "web")


def test_wait_lasts_while_nothing_is_to_run(as_pid1):
    """It is met when the configuration wants processes again."""
    programs = {"web": {"command": ["/bin/sleep", "1000"]}}
    controlled = Controlled(as_pid1, {}, document={"runServers": False, "programs": programs})
    controlled.ctl("wait", "web", "--for", "down")
    for condition in ("up", "ready", "done"):
        assert "timed out" in controlled.ctl("wait", "web", "--for", condition, "--timeout", "50ms", expect=4)
    waiting = controlled.follow("wait", "web", "--for", "ready")
    controlled.configure(programs)
    assert waiting.process.wait(TIMEOUT) == 0
    assert controlled.process("web")["state"] == "up"


def test_a_rejected_configuration_is_in_the_status(running):
    """As long as it is the latest, with its first reason."""
    assert "configuration:" not in running.ctl("status")
    running.configure({"web": {"steps": STAY, "stopSignal": "NOSUCH", "after": ["nobody"]}})
    running.ctl("reload", expect=1)
    last = running.ctl("status").splitlines()[-1]
    assert last.startswith("configuration: the latest was rejected: ") and last.endswith(" more)")
    running.configure({"web": STAY})
    running.ctl("reload")
    assert "configuration:" not in running.ctl("status")


def test_events(running):
    """What happens, as the log tells it, in its order."""
    follower = running.follow("events", "--json")
    readable = running.follow("events")

    def is_told():
        running.ctl("signal", "USR1", "web")
        return follower.drain() and follower.lines and readable.drain() and readable.lines
    eventually(is_told, "both listen")
    pid = running.pid("web")
    running.launcher.signal_inside(pid, signal.SIGKILL)
    ended = follower.wait_for_event("process-exited", program="web", pid=pid)
    assert ended["signal"] == 9
    started = follower.wait_for_event("process-started", program="web", pid=lambda new: new not in (None, pid))
    at = [json.loads(line) for line in follower.lines]
    assert at.index(ended) < at.index(started)
    readable.wait_for("web started, pid ")


def test_wait(as_pid1, area):
    """Each state, and the exit code when it does not come in time or cannot come."""
    os.mkfifo(area / "gate")
    controlled = Controlled(as_pid1, {
        "slow": {"command": ["/bin/sh", "-c", f"read line <{area}/gate; echo >&3; exec /bin/sleep 1000"],
                 "readiness": {"type": "fd"}},
        "once": {"steps": ["exit:0"], "oneShot": True},
        "bad": {"steps": ["exit:3"], "restart": "never"},
        "web": STAY})
    controlled.ctl("wait", "web")
    controlled.ctl("wait", "web", "--for", "up")
    controlled.ctl("wait", "once", "--for", "done")
    assert "timed out" in controlled.ctl("wait", "slow", "--timeout", "20ms", expect=4)
    assert "timed out" in controlled.ctl("wait", "web", "--for", "down", "--timeout", "20ms", expect=4)
    waiting = subprocess.Popen(controlled.command("wait", "slow", "--for", "ready"))
    (area / "gate").write_text("go\n")
    assert waiting.wait(TIMEOUT) == 0
    assert "bad" in controlled.ctl("wait", "bad", expect=1)
    waiting = subprocess.Popen(controlled.command("wait", "web", "--for", "down"))
    controlled.ctl("stop", "web")
    assert waiting.wait(TIMEOUT) == 0
    controlled.ctl("wait", "slow", "--for", "sideways", expect=2)


# --- how it fails

def test_exit_codes(running):
    """0 to 4, each with a reason on standard error and nothing on standard output."""
    for words, code, reason in [
            (["restart", "wep"], 1, "there is no program wep; did you mean web?"),
            (["stop", "talk:9"], 1, "talk has no process 9"),
            (["signal", "NOSUCH", "web"], 2, "is not a signal"),
            (["wait", "web", "--for", "down", "--timeout", "1ms"], 4, "timed out"),
            (["frobnicate"], 2, "unknown command"),
            (["stop"], 2, "the name of a program is missing"),
            (["status", "--wat"], 2, "unknown option"),
            ([], 2, "the command is missing"),
            (["--socket", "/nonexistent/control", "status"], 3, "/nonexistent/control")]:
        done = running.run(*words)
        assert (done.returncode, done.stdout) == (code, ""), done
        assert done.stderr.startswith("triton-launch ctl: ") and reason in done.stderr


def test_a_restart_says_that_the_newest_configuration_is_not_used(place):
    controlled = Controlled(place, {"web": ["trap", "say:up", "until:15"]})
    controlled.launcher.wait_up()
    assert controlled.run("restart", "web").stderr == ""
    controlled.configuration.write_text('{"programs": {"web": {"comand": ["true"]}}}')
    controlled.launcher.wait_for_event("configuration-rejected")
    for words in (["restart", "web"], ["start", "web"]):
        done = controlled.run(*words)
        assert done.returncode == 0 and done.stdout == ""
        assert done.stderr.startswith("triton-launch ctl: the newest configuration was rejected, so the one before it is used: ")
        assert "programs.web.command: required" in done.stderr
    missing = controlled.run("restart", "cache")
    assert missing.returncode == 1 and "the newest configuration was rejected" in missing.stderr
    assert controlled.run("stop", "web").stderr == "", "a stop needs none"


def test_a_program_without_a_name_says_how_it_is_called(place):
    controlled = Controlled(place, {}, document={
        "version": VERSION, "count": 1, "arguments": [{"value": step} for step in STAY]})
    error = controlled.ctl("restart", "fdbserver", expect=1)
    assert "there is no program fdbserver; the program of this configuration has no name: it is -, and " in error


def test_launcher_that_stops(as_pid1):
    """Nothing is started in a stop, and a wait ends with the launcher."""
    controlled = Controlled(as_pid1, {"web": ["trap", "say:up", "until:12"]}, "--stop-timeout", "15s")
    controlled.launcher.wait_up()
    waiting = subprocess.Popen(controlled.command("wait", "web", "--for", "done"), stderr=subprocess.PIPE)
    controlled.launcher.signal(signal.SIGTERM)
    controlled.launcher.wait_signal(signal.SIGTERM)
    for words in (["start", "web"], ["reload"], ["restart", "web"]):
        assert "the launcher is stopping" in controlled.ctl(*words, expect=1)
    controlled.ctl("signal", "USR2", "web")
    assert controlled.launcher.wait() == Exit(code=0)
    waiting.communicate(timeout=TIMEOUT)
    assert waiting.returncode in (1, 3)
    assert not controlled.socket.exists()


# --- from elsewhere

def test_unnamed_program(place):
    """The design's form has one program, which is called `-`."""
    controlled = Controlled(place, {}, document={
        "version": VERSION, "count": 2,
        "arguments": [{"type": "Concatenate", "values": [{"value": "n:"}, {"type": "ProcessNumber"}]},
                      *({"value": step} for step in STAY)]})
    launcher = controlled.launcher
    pids = {}
    for _ in range(2):
        up = launcher.wait_up()
        pids[up["n"]] = up["pid"]
    assert [row.split()[:4] for row in controlled.ctl("status").splitlines()[1:]] == [
        ["-", str(number), "up", str(pids[number])] for number in (1, 2)]
    assert controlled.ctl("__names") == "-\n"
    controlled.ctl("restart", "-:2")
    assert launcher.wait_up(n=2)["pid"] != pids[2]
    controlled.ctl("stop", "-:1")
    assert [row.split()[2] for row in controlled.ctl("status", "-").splitlines()[1:]] == ["held", "up"]
    controlled.ctl("signal", "USR1", "-")
    launcher.wait_signal(signal.SIGUSR1, n=2)
    controlled.ctl("start", "-")
    assert "- has no process 3" in controlled.ctl("stop", "-:3", expect=1)
    controlled.ctl("describe", "-")
    assert controlled.ctl("logs", "-", expect=1) == "triton-launch ctl: the output of - is not captured\n"


def test_from_inside(place):
    """As `docker exec` does it: in the launcher's namespaces, without a terminal and with hardly any environment."""
    controlled = Controlled(place, {"web": STAY})
    controlled.launcher.wait_up()
    enter = [shutil.which("nsenter"), *controlled.launcher.enter("pid", "mount")[1:]]  # there is no PATH
    done = subprocess.run([*enter, *controlled.command("restart", "web")], env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    told = controlled.launcher.wait_for_event("control-command", command="restart web")
    assert told["uid"] == 0 and told["pid"] > 1
    variable = {"TRITON_LAUNCH_CONTROL_SOCKET": str(controlled.socket)}
    done = subprocess.run([*enter, BINARY, "ctl", "status"], env=variable, stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, timeout=TIMEOUT, text=True)
    assert done.returncode == 0 and "web" in done.stdout and "\033" not in done.stdout


@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize(("options", "group", "works"), [
    ((), 4711, False),
    (("--control-mode", "0666"), 4711, True),
    (("--control-group", "4711", "--control-mode", "0660"), 4711, True),
    (("--control-group", "4711", "--control-mode", "0660"), 4712, False),
])
def test_another_user(as_pid1, options, group, works):
    """Root may, its group may when it is named, everybody when the mode says so; nobody else."""
    controlled = Controlled(as_pid1, {"web": STAY}, *options)
    controlled.launcher.wait_up()
    done = controlled.run("restart", "web", user=4711, group=group, extra_groups=[])
    if works:
        assert done.returncode == 0, done
        assert controlled.launcher.wait_for_event("control-command")["uid"] == 4711
    else:
        assert done.returncode == 3 and "Permission denied" in done.stderr, done
        assert not controlled.launcher.events_named("control-command")
    controlled.ctl("status")  # root always


@pytest.mark.usefixtures("needs_root")
def test_mode_of_the_socket_is_not_trusted(as_pid1):
    """Whoever opens the file for all without being asked lets nobody in: the peer is looked at as well."""
    controlled = Controlled(as_pid1, {"web": STAY})
    controlled.launcher.wait_up()
    controlled.socket.chmod(0o666)
    controlled.socket.parent.chmod(0o755)
    done = controlled.run("restart", "web", user=4711, group=4711, extra_groups=[])
    assert done.returncode != 0 and "does not let this user in" in done.stderr, done
    controlled.launcher.wait_for_event("control-failed")


def test_socket_in_the_way(as_pid1, area):
    """A stale socket is replaced; one that is in use is not taken away from its launcher."""
    first = Controlled(as_pid1, {"web": STAY})
    first.launcher.wait_up()
    second = as_pid1.launch(as_pid1.configuration("trap", "say:up", "until:15"), "--control-socket", first.socket)
    second.wait_up()
    assert str(first.socket) in second.wait_for_event("control-failed")["error"]
    assert list(first.status()) == ["web"]
    (area / "stale").mkdir()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(area / "stale" / "control"))
    third = as_pid1.launch(as_pid1.configuration("trap", "say:up", "until:15"), "--control-socket",
                           area / "stale" / "control")
    third.wait_up()
    eventually(lambda: works(area / "stale" / "control"), "the new one listens")


def works(path):
    """Whether somebody answers there."""
    try:
        return "error" not in Varlink(path).call("GetStatus")
    except OSError:
        return False

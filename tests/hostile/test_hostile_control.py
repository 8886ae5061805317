"""Attacks on the control socket: who may command, and what clients can hold up."""

import contextlib
import json
import os
import signal
import resource
import socket
import subprocess
import time

import pytest

from harness.control import INTERFACE, Controlled, Varlink, reach
from harness.process import BINARY, TIMEOUT, eventually

STAY = ["trap", "say:up", "until:15"]

# What an attacker does from inside: it calls the methods that would hurt, and writes down what it was told.
ATTACK = r"""
import json, os, select, socket, sys, time
path, out, mode = sys.argv[1:4]
def attack():
    told = []
    for method, parameters in (("Upgrade", {"path": "/bin/true"}), ("Stop", {"program": "web"}),
                               ("Signal", {"program": "web", "signal": "KILL"}), ("GetStatus", {})):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            try:
                client.sendall(json.dumps({"method": "org.tritonlaunch.Launcher." + method,
                                           "parameters": parameters}).encode() + b"\0")
            except OSError:
                pass
            answer = b""
            try:
                while not answer.endswith(b"\0") and (data := client.recv(65536)):
                    answer += data
            except OSError:
                pass
            told.append(json.loads(answer[:-1]).get("error", "done") if answer else "closed")
    with open(out + ".part", "w") as file:
        json.dump(told, file)
    os.rename(out + ".part", out)
if mode == "confined":
    import ctypes
    assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
if mode in ("child", "orphan"):
    if os.fork() == 0:
        if mode == "orphan":
            parent = os.pidfd_open(os.getpid())
            if os.fork():
                os._exit(0)
            os.setsid()
            select.select([parent], [], [])  # it has ended, and we are somebody else's
        attack()
        os._exit(0)
else:
    attack()
time.sleep(1000)
"""
REFUSED = ["org.varlink.service.PermissionDenied"] * 4


def attacker(place, mode, **keys):
    """A program that attacks, and the file for what it was told."""
    out = place.area / f"told-{mode}"
    path = place.area / f"run{len(place.running)}" / "control"
    program = {"command": ["/usr/bin/python3", "-c", ATTACK, str(path), str(out), mode], "restart": "never", **keys}
    return program, out


def told(out):
    """What the attacker was told."""
    eventually(out.exists, "the attack has been made")
    return json.loads(out.read_text())


@pytest.mark.parametrize("mode", ["direct", "child", "orphan"])
@pytest.mark.parametrize("sandbox", [
    {"noNewPrivileges": True}, {"capabilities": {"bounding": []}},
    {"seccomp": {"profile": "none", "deny": ["chroot"]}}, {"landlock": {"readWrite": ["/"], "execute": ["/"]}}],
    ids=lambda sandbox: next(iter(sandbox)))
def test_a_sandboxed_program_may_not_command(as_pid1, sandbox, mode):
    """It has our uid, and less than our rights: `upgrade` would give it all of them."""
    evil, out = attacker(as_pid1, mode, **sandbox)
    controlled = Controlled(as_pid1, {"web": STAY, "evil": evil})
    assert told(out) == REFUSED
    assert controlled.process("web")["state"] == "up"
    failure = controlled.launcher.wait_for_event("control-failed")
    assert "is not allowed: it" in failure["message"]


def test_a_program_without_a_sandbox_may(as_pid1):
    """Nothing tells it from root's shell."""
    friend, out = attacker(as_pid1, "direct")
    Controlled(as_pid1, {"web": STAY, "evil": friend})
    assert told(out)[1] == told(out)[3] == "done"


def with_hook(starter, **keys):
    """A launcher of which program web stops program other before its own stop; program boxed has a sandbox."""
    socket_path = starter.area / f"run{len(starter.running)}" / "control"
    hook = {"command": [str(BINARY), "ctl", "--socket", str(socket_path), "stop", "other"]}
    running = Controlled(starter, {"boxed": {"steps": STAY, "noNewPrivileges": True}, "other": STAY,
                                   "web": {"steps": STAY, "preStop": hook, **keys}})
    for program in ("boxed", "other", "web"):
        running.launcher.wait_up(tag=program)
    running.ctl("stop", "web")
    return running.status()["other"]["processes"][1]["state"]


def test_a_helper_command_may(as_pid1):
    """A hook of a program without a sandbox is not an orphan that nobody knows, whatever other programs have."""
    assert with_hook(as_pid1) == "held"


def test_a_hook_of_a_sandboxed_program_may_not(as_pid1):
    """It has the program's rights."""
    assert with_hook(as_pid1, noNewPrivileges=True) == "up"


def test_who_has_confined_itself_may_look_and_not_command(as_pid1):
    """A program without a sandbox in the configuration that gave up rights itself, as an agent of one's own does."""
    evil, out = attacker(as_pid1, "confined")
    controlled = Controlled(as_pid1, {"web": STAY, "evil": evil})
    assert told(out) == [*REFUSED[:3], "done"]
    assert controlled.process("web")["state"] == "up"


def test_a_crowd_does_not_lock_root_out(as_pid1):
    """Idle and half-open connections, as many as there are places and more, and ctl works."""
    controlled = Controlled(as_pid1, {"web": STAY})
    with contextlib.ExitStack() as stack:
        crowd = []
        for number in range(200):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(controlled.socket))  # waits for a place in the backlog; with a time limit it would not
            client.settimeout(TIMEOUT)
            with contextlib.suppress(OSError):
                client.sendall([b"", b"{", json.dumps({"method": f"{INTERFACE}.Subscribe", "more": True}).encode() + b"\0"]
                               [number % 3])
            crowd.append(client)
        assert controlled.process("web")["state"] == "up"
        controlled.ctl("stop", "web")
    assert controlled.process("web")["state"] == "held"


def test_refusals_do_not_fill_the_log(as_pid1):
    """Whoever is refused and comes again at once is told of once a second."""
    evil, out = attacker(as_pid1, "direct", noNewPrivileges=True)
    evil["command"][2] = ATTACK.replace("else:\n    attack()", "else:\n    [attack() for _ in range(100)]")
    began = time.monotonic()
    controlled = Controlled(as_pid1, {"web": STAY, "evil": evil})
    assert told(out) == REFUSED
    controlled.launcher.wait_for_event("control-failed")
    controlled.status()
    failures = controlled.launcher.events_named("control-failed")
    assert len(failures) <= 2 + (time.monotonic() - began)


def test_a_shortage_of_descriptors_is_told_once(as_pid1, needs_static):
    """As long as it lasts: not ten times a second. UBSan's check of a virtual call makes a pipe, which is refused here."""
    controlled = Controlled(as_pid1, {"web": STAY})
    launcher = controlled.launcher
    first = len(launcher.events_named("control-failed"))
    pid = launcher.pid
    used = len(os.listdir(f"/proc/{pid}/fd"))
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, before[1]))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(controlled.socket))
        launcher.wait_for_event("control-failed")
        client.settimeout(1.5)  # 15 more attempts of the launcher
        with pytest.raises(TimeoutError):
            client.recv(1)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    reach(controlled.socket).call("GetStatus")
    assert len(launcher.events_named("control-failed")) - first == 1


def test_ctl_notices_a_launcher_that_hangs(as_pid1):
    """It ends by itself, and says why."""
    controlled = Controlled(as_pid1, {"web": STAY})
    os.kill(controlled.launcher.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        asked = [subprocess.Popen(controlled.command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for words in (["status"], ["stop", "web"], ["events"], ["version", "--timeout", "100ms"])]
        answers = [process.communicate(timeout=TIMEOUT) + (process.returncode,) for process in asked]
    finally:
        os.kill(controlled.launcher.pid, signal.SIGCONT)
    late = "triton-launch ctl: the launcher has not answered for 10s\n"
    assert answers == [("", late, 4), ("", "triton-launch ctl: web: " + late.split(": ", 1)[1], 4), ("", late, 4),
                       ("", "triton-launch ctl: timed out\n", 4)]
    assert time.monotonic() - began < TIMEOUT
    assert controlled.process("web")["state"] == "up" or Varlink(controlled.socket)

"""A program with Landlock's scopes goes for the launcher and for what has an abstract socket, with a user that may."""

import errno
import os
import socket

import pytest

from harness.process import Exit
from harness.programs import probe, run, service

CONNECT = ("import socket, sys; s = socket.socket(socket.AF_UNIX); e = s.connect_ex('\\0' + sys.argv[1]);"
           "print(e, file=open(sys.argv[2], 'w'))")


def sandbox(*writable, **reach):
    """The sandbox of a program that may execute, write there, and reach whom `reach` says."""
    return {"readOnly": ["/proc", "/etc"], "readWrite": ["/dev", *map(str, writable)],
            "execute": ["/usr", "/lib", "/lib64", "/bin"], **reach}


def is_loaded(launcher):
    """Whether the configuration is; skips where the kernel lacks what it asks for."""
    answer = launcher.wait_for(launcher.events, {"event": lambda event: event in ("configuration-loaded",
                                                                                  "configuration-rejected")})
    if answer["event"] == "configuration-rejected":
        assert "Landlock" in answer["errors"][0]
        pytest.skip("this kernel's Landlock has no scopes")


def attacked(place, script, **reach):
    """Runs `script` in a sandbox, beside another program. Returns the launcher and where the script may write."""
    free = place.area / "free"
    free.mkdir(mode=0o777)
    launcher = run(place, {
        "bad": {"command": ["sh", "-c", script, "sh", str(free)], "restart": "never", "after": ["good"],
                "landlock": sandbox(free, **reach)},
        "good": service("good", restart="never")})
    is_loaded(launcher)
    launcher.wait_for_event("process-exited", program="bad")
    return launcher, free


@pytest.mark.parametrize("signal", ["TERM", "HUP", "USR1", "KILL", "STOP"])
def test_the_launcher_is_out_of_reach(place, signal):
    script = (f'kill -{signal} $PPID || echo refused > "$1/launcher"; sleep 1000 & '
              f'kill -KILL $! && wait $!; echo $? > "$1/own"')
    launcher, free = attacked(place, script, signals="own")
    assert (free / "launcher").read_text() == "refused\n"
    assert (free / "own").read_text() == "137\n"  # what it starts is its own
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("reach", ["any", "own"])
def test_another_program_is_out_of_reach(place, reach):
    script = ('for p in $(cat /proc/$PPID/task/*/children); do [ $p = $$ ] || '
              '{ kill -KILL $p && echo killed $p || echo refused $p; } >> "$1/told"; done')
    launcher, free = attacked(place, script, signals=reach)
    good = launcher.wait_for_event("process-started", program="good")["pid"]
    told = (free / "told").read_text().splitlines()  # of the launcher's copies, too, which come and go
    assert f"{'refused' if reach == 'own' else 'killed'} {good}" in told
    assert reach == "any" or not [line for line in told if line.startswith("killed")]
    if reach == "own":
        assert launcher.stop() == Exit(code=0)
    ended = launcher.wait_for_event("process-exited", program="good")
    assert (ended.get("exit_code"), ended.get("signal")) == ((0, None) if reach == "own" else (None, 9))


@pytest.mark.parametrize("reach,answer", [("any", "0"), ("own", str(errno.EPERM))])
def test_abstract_sockets(place, reach, answer):
    name = f"triton-scope-{os.getpid()}-{reach}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen(4)
        launcher, free = attacked(place, f'/usr/bin/python3 -c "$(cat <<\'E\'\n{CONNECT}\nE\n)" {name} "$1/answer"',
                                  abstractSockets=reach)
        assert (free / "answer").read_text().strip() == answer
        assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("reach,told", [("any", "sent"), ("own", "refused")])
def test_a_helper_is_another_sandbox(place, reach, told):
    """Which is why nobody is out of reach by default."""
    free = place.area / "free"
    free.mkdir(mode=0o777)
    script = f"kill -0 $TRITON_PID && echo sent > {free}/told || echo refused > {free}/told"
    launcher = run(place, {"web": {"command": ["sleep", "1000"], "preStop": {"command": ["sh", "-c", script]},
                                   "landlock": sandbox(free, signals=reach)}})
    is_loaded(launcher)
    launcher.wait_for_event("process-started")
    assert launcher.stop() == Exit(code=0)
    assert (free / "told").read_text() == told + "\n"


def speaking(place, *options, **reach):
    """A launcher whose program tells by the notify socket that it is ready."""
    rules = sandbox(*place.area.glob("probe.*"), **reach)
    rules["execute"].append(str(place.programs))
    launcher = run(place, {"web": probe("notify:READY=1", "say:told", "trap", "until:15", restart="never",
                                        readiness={"type": "notify"}, landlock=rules)}, *options)
    is_loaded(launcher)
    return launcher


@pytest.mark.parametrize("reach", ["any", "own"])
def test_readiness_is_still_told(place, reach):
    """By a path, where the directory of the control socket is the launcher's alone."""
    place.area.chmod(0o755)
    launcher = speaking(place, signals=reach, abstractSockets=reach)
    launcher.wait_for_event("process-ready")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("reach", ["any", "own"])
def test_readiness_without_a_place_of_ours_is_told_by_an_abstract_name(place, reach):
    launcher = speaking(place, "--control-socket", "none", abstractSockets=reach)
    if reach == "any":
        launcher.wait_for_event("process-ready")
        assert launcher.stop() == Exit(code=0)
    else:
        ended = launcher.wait_for_event("process-exited", program="web")
        assert ended["exit_code"] == 93  # of a probe that could not send
        assert not [event for event in launcher.events.all if event.get("event") == "process-ready"]

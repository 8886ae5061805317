"""A program with Landlock's scopes goes for the launcher and for what has an abstract socket, with a user that may."""

import os
import socket

import pytest

from harness.process import Exit, eventually
from harness.programs import run, service

CONNECT = ("import socket, sys; s = socket.socket(socket.AF_UNIX); e = s.connect_ex('\\0' + sys.argv[1]);"
           "print(e, file=open(sys.argv[2], 'w'))")


def attacked(place, script, **reach):
    """Runs `script` in a sandbox that lets it execute, write in the returned directory, and reach whom `reach` says."""
    free = place.area / "free"
    free.mkdir(mode=0o777)
    launcher = run(place, {
        "bad": {"command": ["sh", "-c", script, "sh", str(free)], "restart": "never", "landlock": {
            "readOnly": ["/proc", "/etc"], "readWrite": [str(free), "/dev"],
            "execute": ["/usr", "/lib", "/lib64", "/bin"], **reach}},
        "good": service("good")})
    answer = launcher.wait_for(launcher.events, {"event": lambda event: event in ("configuration-loaded",
                                                                                  "configuration-rejected")})
    if answer["event"] == "configuration-rejected":
        assert "Landlock" in answer["errors"][0]
        pytest.skip("this kernel's Landlock has no scopes")
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


def test_another_program_is_out_of_reach(place):
    script = ('for i in $(seq 600); do set -- "$1" $(cat /proc/$PPID/task/*/children); [ $# -ge 3 ] && break; '
              'sleep 0.1; done; for p in "$@"; do case $p in /*|$$) ;; *) kill -KILL $p || echo $p >> "$1/refused";; esac; done')
    launcher, free = attacked(place, script, signals="own")
    assert (free / "refused").read_text()
    assert launcher.stop() == Exit(code=0)
    ends = [event for event in launcher.events.all if event.get("event") == "process-exited"]
    assert [event["exit_code"] for event in ends if event["program"] == "good"] == [0]


@pytest.mark.parametrize("reach,answer", [("any", "0"), ("own", "1")])
def test_abstract_sockets(place, reach, answer):
    name = f"triton-scope-{os.getpid()}-{reach}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen(4)
        launcher, free = attacked(place, f'/usr/bin/python3 -c "$(cat <<\'E\'\n{CONNECT}\nE\n)" {name} "$1/answer"',
                                  abstractSockets=reach)
        eventually(lambda: (free / "answer").exists(), "an answer")
        assert (free / "answer").read_text().strip() == answer
        assert launcher.stop() == Exit(code=0)

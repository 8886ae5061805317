"""Programs that flood PID 1 with all that they can reach: signals, messages, output, orphans. It goes on serving
everybody else: who is killed is started again, ctl is answered, and the container stops in order."""

import contextlib
import json
import signal
import subprocess

import pytest

from harness.process import BINARY, Exit, eventually, is_static
from harness.programs import RESTART_AT_ONCE, run, service

PROGRAMS = 4
KILLS = 3
AT_MOST = 60.0  # seconds until something has happened: the floods have the machine, too
OF_THE_LAUNCHER = 5.0  # seconds of its processor time for one restart among floods: it takes milliseconds
MEBIBYTE = 1024  # of VmRSS, which is in kB

# Each floods when all are there, and not for ever, should nobody end it. What PID 1 forwards does not end it. Who forks
# has a uid and a limit of its own, so that what it makes is bounded.
HEAD = """
import array, os, resource, signal, socket, sys, time
FLOOD = (signal.SIGUSR1, signal.SIGCHLD, signal.SIGWINCH, signal.SIGURG, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
for number in FLOOD:
    signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
open(sys.argv[1], 'x').close()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
"""
FLOODS = {
    "signals": """
while True:
    for number in FLOOD:
        try:
            os.kill(1, number)
        except OSError:
            pass  # the queue is full: that is what is wanted
""",
    "messages": """
to = os.environ['NOTIFY_SOCKET']
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
out.connect('\\0' + to[1:] if to[0] == '@' else to)
out.setblocking(False)
held = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0, 1, 2] * 20))]
number = 0
while True:
    number += 1
    for text, more in ((f'STATUS={number}', []), ('READY=1', []), ('x' * 4000, []), ('FDSTORE=1', held),
                       (f'EXTEND_TIMEOUT_USEC={number}', []), ('RELOADING=1\\nMONOTONIC_USEC=1', []),
                       ('WATCHDOG=1', held)):
        try:
            out.sendmsg([text.encode()], more)
        except OSError:
            pass  # the queue is full, or too many descriptors are under way
""",
    "output": """
data = b'x' * 5000 + b'\\n' * 3000 + bytes(range(256)) * 200
while True:
    os.write(1, data)
    os.write(2, data)
""",
    "orphans": """
resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))
os.setresgid(65533, 65533, 65533)
os.setresuid(65533, 65533, 65533)
while True:
    try:
        if os.fork() == 0:
            try:
                for _ in range(20):
                    if os.fork() == 0:
                        os._exit(0)
            except OSError:
                pass
            os._exit(0)
        os.wait()
    except OSError:
        time.sleep(0.001)  # as many as it may have: PID 1 has to catch up
""",
}


def flood(area, kind):
    """A program of this kind."""
    path = area / f"{kind}.py"
    path.write_text(HEAD + FLOODS[kind])
    ready = {"type": "Concatenate", "values": [f"{area}/{kind}.", {"type": "ProcessNumber"}]}
    return {"command": ["/usr/bin/python3", str(path), ready, str(area / "go")],
            "count": PROGRAMS, "readiness": {"type": "notify", "notifyAccess": "all"}, "startTimeout": "1h",
            "output": {"file": f"{area}/{kind}.log", "maxSize": "1Mi", "maxFiles": 2}}


def restart(launcher):
    """Kills the one that behaves, which must be started again. It may have been ended already, by what PID 1 forwards,
    before it could handle that."""
    status = subprocess.run([BINARY, "ctl", "--socket", launcher.control, "status", "--json", "--timeout",
                             f"{AT_MOST:.0f}s", "web"], capture_output=True, text=True, timeout=2 * AT_MOST, check=True)
    old = json.loads(status.stdout)["programs"][0]["processes"][0].get("pid")
    used = launcher.cpu_seconds()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        launcher.signal_inside(old, signal.SIGKILL)
    launcher.wait_for_event("process-started", AT_MOST, program="web", pid=lambda pid: pid != old)
    assert launcher.cpu_seconds() - used < OF_THE_LAUNCHER


@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize("kinds", [[kind] for kind in FLOODS] + [list(FLOODS)], ids=[*FLOODS, "all"])
def test_a_flood(as_pid1, kinds):
    """Others are restarted and answered meanwhile, memory is bounded, and SIGTERM ends it all."""
    area = as_pid1.area
    programs = {kind: flood(area, kind) for kind in kinds}
    launcher = run(as_pid1, {"web": service("web", backoff=RESTART_AT_ONCE), **programs}, "--stop-limit", "5s")
    launcher.wait_started(AT_MOST, tag="web")
    eventually(lambda: all((area / f"{kind}.{number}").exists() for kind in kinds for number in range(1, PROGRAMS + 1)),
               "all of them are there", AT_MOST)
    before = int(launcher.status()["VmRSS"].split()[0])
    (area / "go").touch()
    for _ in range(KILLS):
        restart(launcher)
    if "messages" in kinds:  # in its own flood each is heard
        eventually(lambda: len(launcher.events_named("process-ready", program="messages")) == PROGRAMS,
                   "all are ready", AT_MOST)
    if "output" in kinds:
        eventually((area / "output.log.2").exists, "there are three files", AT_MOST)
    if is_static(BINARY):  # a sanitizer keeps what is freed
        assert int(launcher.status()["VmRSS"].split()[0]) < before + 16 * MEBIBYTE
    assert launcher.stop(AT_MOST) == Exit(code=0)
    assert launcher.events_named("internal-error") == []


WRAPPED = """
import os, signal
for number in set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP, 32, 33}:
    signal.signal(number, signal.SIG_IGN)
hear, say = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        for _ in range(1000):
            os.kill(1, signal.SIGUSR1)
        os.write(say, b'x')
        while True:
            os.kill(1, signal.SIGUSR1)
for _ in range(4):
    os.read(hear, 1)
os._exit(7)
"""


def test_a_flood_does_not_outlive_the_wrapped_command(as_pid1):
    """The kernel hands out the lowest signal first: SIGCHLD may not have to wait for those before it."""
    launcher = as_pid1.start("--", "/usr/bin/python3", "-c", WRAPPED)
    assert launcher.wait(AT_MOST) == Exit(code=7)

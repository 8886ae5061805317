"""Programs that fork into the background, and whose pid file says as which process they go on."""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from harness.process import BINARY, TIMEOUT, Exit, eventually, free_port
from harness.programs import RESTART_AT_ONCE, USR1, run

DAEMON = Path(__file__).resolve().parents[1] / "harness/daemon.py"
USR2 = 12


def daemon(area, *words, number="", **keys):
    """A program that runs the daemon with these words."""
    return {"command": ["/usr/bin/python3", str(DAEMON), f"{area}/pid{number}", *words], "output": {}, "pidFile": f"{area}/pid{number}", **keys}


@pytest.fixture(params=["auto", "none"])
def start(place, request):
    """Starts a launcher with control groups, where there can be some, and without."""
    def started(programs, *options, **how):
        return run(place, programs, "--cgroup", request.param, *options, **how)
    return started


def main_of(launcher, name="web", number=1):
    """The pid that ctl shows, as the launcher sees it."""
    programs = json.loads(launcher.ctl("status", "--json"))["programs"]
    program = next(program for program in programs if program["name"] == name)
    return next(process.get("pid") for process in program["processes"] if process["number"] == number)


@pytest.mark.parametrize("when", ["early", "late", "late open"])
def test_it_goes_on_in_the_background(start, area, when):
    launcher = start({"web": daemon(area, *when.split()), "next": {"command": ["sh", "-c", "exec sleep 1000"], "requires": ["web"]}})
    first = launcher.wait_for_event("process-started", program="web")["pid"]
    main = launcher.wait_for_event("process-main", program="web")["pid"]
    assert main != first
    launcher.wait_for_event("process-started", program="next")
    assert main_of(launcher) == main
    assert not launcher.events_named("process-exited")
    launcher.ctl("stop", "--with-dependents", "web")
    ended = launcher.wait_for_event("process-exited", program="web")
    assert (ended["pid"], ended["exit_code"]) == (main, 0)
    launcher.wait_for_text(f"daemon {main} ends")
    assert launcher.stop() == Exit(code=0)


def test_its_end_is_the_end_of_the_program(start, area):
    launcher = start({"web": daemon(area, backoff=RESTART_AT_ONCE)})
    for _ in range(3):  # a file of an earlier run says nothing
        main = launcher.wait_for_event("process-main", program="web")["pid"]
        launcher.signal_inside(main, USR2)
        ended = launcher.wait_for_event("process-exited", program="web")
        assert (ended["pid"], ended["exit_code"]) == (main, 7)
    launcher.wait_for_event("process-main", program="web")
    assert not launcher.events_named("pid-file-refused")
    assert launcher.stop() == Exit(code=0)


def test_it_becomes_another_process(start, area):
    launcher = start({"web": daemon(area)})
    main = launcher.wait_for_event("process-main", program="web")["pid"]
    for _ in range(3):
        launcher.signal_inside(main, USR1)
        following = launcher.wait_for_event("process-main", program="web")["pid"]
        assert following != main
        main = following
    eventually(lambda: main_of(launcher) == main, "ctl shows it")
    assert not launcher.events_named("process-exited")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("words", [("none",), ("file:junk\n",), ("hang",)])
def test_a_start_that_takes_too_long(start, area, words):
    launcher = start({"web": daemon(area, *words, startTimeout="700ms", restart="never")})
    launcher.wait_for_event("process-timed-out", program="web", what="start")
    ended = launcher.wait_for_event("process-exited", program="web")
    assert ended["signal"] == signal.SIGKILL
    assert ("pid" in ended) == ("(pid" in ended["message"]) == (words == ("hang",))  # else nobody is known
    assert launcher.wait() == Exit(code=137)


def test_a_first_process_that_fails(start, area):
    launcher = start({"web": daemon(area, "crash", restart="never")})
    assert launcher.wait_for_event("process-exited", program="web")["exit_code"] == 3
    assert not launcher.events_named("process-main")
    assert launcher.wait() == Exit(code=3)


def test_a_stop_before_it_is_known(start, area):
    launcher = start({"web": daemon(area, "none")})
    launcher.wait_for_text("serves")
    launcher.ctl("stop", "web")
    ended = launcher.wait_for_event("process-exited", program="web")
    assert ended.get("signal") == signal.SIGKILL or ended["exit_code"] == 0  # it was in the middle of its start
    (area / "pid").unlink(missing_ok=True)
    assert launcher.stop() == Exit(code=0)


def test_numbers_have_files_of_their_own(start, area):
    path = {"type": "Concatenate", "values": [f"{area}/pid", {"type": "ProcessNumber"}]}
    launcher = start({"web": {"command": ["/usr/bin/python3", str(DAEMON), path], "output": {}, "pidFile": path, "count": 3}})
    mains = {launcher.wait_for_event("process-main", program="web", process=number)["pid"] for number in (1, 2, 3)}
    assert len(mains) == 3
    assert launcher.stop() == Exit(code=0)


def test_readiness_and_health_come_with_the_main_process(start, area):
    launcher = start({"web": daemon(area, "late", readiness={"type": "exec", "command": ["test", "-e", f"{area}/pid"]},
                                    health={"command": ["test", "!", "-e", f"{area}/ill"], "interval": "50ms", "retries": 1})})
    main = launcher.wait_for_event("process-main", program="web")["pid"]
    launcher.wait_for_event("process-ready", program="web")
    (area / "ill").touch()
    launcher.wait_for_event("process-unhealthy", program="web")
    assert launcher.wait_for_event("process-exited", program="web")["pid"] == main
    (area / "ill").unlink()
    launcher.wait_for_event("process-main", program="web")
    assert launcher.stop() == Exit(code=0)


def test_it_says_that_it_is_ready_by_whichever_process(start, area):
    """Before its file names it, and then as the process that it is; a watchdog is fed by that one."""
    script = f"""
import os, socket, time
def say(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        address = os.environ["NOTIFY_SOCKET"]
        to.sendto(text, "\\0" + address[1:] if address.startswith("@") else address)
if os.fork() > 0:
    time.sleep(0.3)
    os._exit(0)
os.setsid()
say(b"READY=1")
time.sleep(0.6)
open("{area}/pid", "w").write(str(os.getpid()))
while True:
    say(b"WATCHDOG=1")
    time.sleep(0.05)
"""
    launcher = start({"web": {"command": ["/usr/bin/python3", "-c", script], "pidFile": f"{area}/pid", "readiness": {"type": "notify"},
                              "watchdog": "3s"}})
    launcher.wait_for_event("process-main", program="web")
    launcher.wait_for_event("process-ready", program="web")
    assert not launcher.events_named("process-timed-out")
    assert launcher.stop() == Exit(code=0)


def test_over_an_upgrade(start, area):
    launcher = start({"web": daemon(area), "slow": daemon(area, "none", number="2")})
    main = launcher.wait_for_event("process-main", program="web")["pid"]
    launcher.wait_for_event("process-started", program="slow")
    launcher.ctl("upgrade", BINARY)
    launcher.wait_for_event("upgrade-done")
    assert main_of(launcher) == main
    eventually(lambda: main_of(launcher, "slow") is None, "the process that it was started as ends")
    launcher.signal_inside(main, USR1)
    following = launcher.wait_for_event("process-main", program="web")["pid"]
    launcher.signal_inside(following, USR2)
    assert launcher.wait_for_event("process-exited", program="web")["pid"] == following
    launcher.wait_for_event("process-main", program="web")
    assert launcher.stop() == Exit(code=0)


def test_nginx(start, area):
    """A real one: it goes into the background, reloads, and is upgraded to another binary by signals."""
    nginx = shutil.which("nginx")
    if not nginx:
        pytest.skip("nginx is not there; ./dev examples unpacks it")
    port = free_port()
    (area / "nginx.conf").write_text(f"""pid {area}/pid; error_log {area}/error.log;
        events {{}} http {{ access_log off; client_body_temp_path {area}/b; proxy_temp_path {area}/p; fastcgi_temp_path {area}/f;
        uwsgi_temp_path {area}/u; scgi_temp_path {area}/s; server {{ listen 127.0.0.1:{port}; return 200; }} }}""")
    launcher = start({"web": {"command": [nginx, "-c", f"{area}/nginx.conf"], "pidFile": f"{area}/pid", "stopSignal": "QUIT",
                              "readiness": {"type": "exec", "command": ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"]}}})
    main = launcher.wait_for_event("process-main", program="web")["pid"]
    launcher.wait_for_event("process-ready", program="web")
    # A signal that comes before it has workers is seen by it with the next one only.
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=TIMEOUT) as answer:
        assert answer.status == 200
    launcher.signal_inside(main, USR2)  # a new master beside the old one, whose child it is
    eventually(lambda: (area / "pid.oldbin").exists() and (area / "pid").exists() and (area / "pid").read_text().strip(), "there are two")
    launcher.signal_inside(main, signal.SIGQUIT)
    following = launcher.wait_for_event("process-main", program="web")["pid"]
    assert following != main and not launcher.events_named("process-exited")
    assert launcher.stop() == Exit(code=0)


def test_who_could_not_follow_says_so(place, area):
    launcher = run(place, {"web": daemon(area, limits={"rttime": 1000000})}, "--cgroup", "none")
    error = launcher.wait_for_event("configuration-rejected")["errors"][0]
    assert error.startswith("programs.web.pidFile: whose a process is cannot be told: there are no control groups")
    done = subprocess.run([BINARY, "check", "-"], input=json.dumps({"programs": {
        "a": {"command": ["a"], "pidFile": "run/a.pid"}, "b": {"command": ["b"], "pidFile": "/run/b.pid", "count": 2},
        "c": {"command": ["c"], "pidFile": "/run/c.pid", "oneShot": True}}}), text=True, capture_output=True, check=False)
    assert [line.split(": ", 1)[1] for line in done.stderr.splitlines()] == [
        "programs.a.pidFile: must be an absolute path",
        "programs.b.pidFile: has to depend on the number of the process, of which there are several",
        "programs.c.pidFile: cannot be used together with oneShot or schedule"]

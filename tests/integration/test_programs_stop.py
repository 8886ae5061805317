"""Programs: how one is stopped, and that nothing of it is left behind."""

import errno
import json
import os
import signal
from pathlib import Path

import pytest

from harness.process import Exit, eventually
from harness.programs import RESTART_AT_ONCE, USR1, order_of, probe, run, seconds, service

IMPATIENT = ("--stop-timeout", "200ms")  # for those that do not obey SIGTERM
UNTIL_TOLD = ("say:up", "until:15", f"until:{USR1}")  # its end would kill those whose report is awaited


def remove(launcher):
    """Takes all but `other` out of the configuration: the plainest way to stop a program."""
    launcher.replace({"other": service("other")})


def with_other(**programs):
    return {"other": service("other"), **programs}


def test_stop_signal(place):
    launcher = run(place, with_other(web=probe("tag:web", "trap", "say:up", "until:3", stopSignal="QUIT")))
    launcher.wait_up(tag="web")
    remove(launcher)
    launcher.wait_signal(signal.SIGQUIT, tag="web")
    stopping = launcher.wait_for_event("process-stopping", program="web")
    assert stopping["signal"] == signal.SIGQUIT
    launcher.wait_for_event("process-exited", program="web", exit_code=0)
    assert launcher.stop() == Exit(code=0)


def test_stop_timeout(place):
    launcher = run(place, with_other(web=probe("tag:web", "trap", "say:up", "wait", stopTimeout="1s")))
    launcher.wait_up(tag="web")
    remove(launcher)
    launcher.wait_signal(signal.SIGTERM, tag="web")
    killed = launcher.wait_for_event("process-killed", program="web")
    assert "web (pid " in killed["message"] and killed["message"].endswith("gets SIGKILL")
    ended = launcher.wait_for_event("process-exited", program="web")
    assert ended["signal"] == signal.SIGKILL
    assert launcher.stop() == Exit(code=0)


def test_stop_timeout_zero_kills_at_once(place):
    launcher = run(place, with_other(web=probe("tag:web", "trap", "say:up", "wait", stopTimeout="0s")))
    launcher.wait_up(tag="web")
    remove(launcher)
    assert launcher.wait_for_event("process-exited", program="web")["signal"] == signal.SIGKILL
    assert launcher.stop() == Exit(code=0)


def test_drain_delay_then_pre_stop_then_the_signal(place):
    """The order, and that each waits for the one before."""
    gate = place.area / "gate"
    wait_for_gate = f"probe tag:hook report; while [ ! -e {gate} ]; do sleep 0.01; done"
    launcher = run(place, with_other(web=service(
        "web", drainDelay="1s", environment={"PROBE_ENV": "TRITON_PROGRAM TRITON_PROCESS"},
        preStop={"command": ["sh", "-c", wait_for_gate]})))
    launcher.wait_up(tag="web")
    launcher.wait_up(tag="other")
    remove(launcher)
    loaded = launcher.wait_for_event("configuration-loaded", programs=["other"])
    launcher.quiet_for(0.1, launcher.probe)
    hook = launcher.wait_for_probe("report", tag="hook")
    assert hook["env"] == {"TRITON_PROGRAM": "web", "TRITON_PROCESS": "1"}
    launcher.quiet_for(0.1, launcher.probe)
    gate.touch()
    launcher.wait_signal(signal.SIGTERM, tag="web")
    ended = launcher.wait_for_event("process-exited", program="web", exit_code=0)
    assert seconds(ended) - seconds(loaded) >= 0.6  # the delay begins before that is written
    assert launcher.stop() == Exit(code=0)


def test_a_pre_stop_that_hangs_is_cut_off(place):
    launcher = run(place, with_other(web=service("web", preStop={"command": ["sleep", "1000"], "timeout": "100ms"})))
    launcher.wait_up(tag="web")
    remove(launcher)
    failed = launcher.wait_for_event("helper-failed", program="web")
    assert (failed["helper"], failed["error"]) == ("preStop", "it took too long")
    launcher.wait_signal(signal.SIGTERM, tag="web")
    launcher.wait_for_event("process-exited", program="web", exit_code=0)
    assert launcher.stop() == Exit(code=0)


def test_a_process_that_ends_in_its_pre_stop(place):
    """What the hook is for, mostly: it makes the process end by itself."""
    launcher = run(place, with_other(web=probe(
        "tag:web", "trap", "say:up", f"until:{USR1}", "exit:0",
        preStop={"command": ["sh", "-c", f"kill -{USR1} $(cat {place.area}/pid)"]})))
    pid = launcher.wait_up(tag="web")["pid"]
    (place.area / "pid").write_text(str(pid))
    remove(launcher)
    launcher.wait_for_event("process-exited", program="web", exit_code=0)
    launcher.wait_up(tag="other")
    assert launcher.stop() == Exit(code=0)


def test_drain_and_pre_stop_are_part_of_the_whole_stop(place):
    launcher = run(place, {"web": service("web", drainDelay="100ms", preStop={"command": ["probe", "say:hook"]})})
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)
    texts = [line.get("text", line.get("signal")) for line in launcher.probe.all]
    assert texts == ["up", "hook", signal.SIGTERM]


def test_the_whole_stop_is_bounded(place):
    launcher = run(place, {"web": probe("tag:web", "trap", "say:up", "wait", drainDelay="60s", stopTimeout="60s",
                                        preStop={"command": ["sleep", "1000"], "timeout": "60s"})},
                   "--stop-limit", "6s")  # of which it has a fifth to collect those that were killed
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)
    launcher.probe.drain()
    assert launcher.probe.take(lambda line: line.get("signal") == signal.SIGTERM), "it had its chance"


def test_stop_scope_process(place):
    launcher = run(place, with_other(web=service("web", "child")))
    launcher.wait_up(role="child", tag="web")
    launcher.wait_up(role="main", tag="web")
    remove(launcher)
    launcher.wait_signal(signal.SIGTERM, role="main", tag="web")
    launcher.wait_for_event("process-exited", program="web", exit_code=0)
    assert not launcher.probe.take(lambda line: line["role"] == "child" and line.get("signal") == signal.SIGTERM)
    assert launcher.stop() == Exit(code=0)


def test_stop_scope_tree(place):
    launcher = run(place, with_other(web=probe("tag:web", "trap", "child", *UNTIL_TOLD, stopScope="tree")))
    launcher.wait_up(role="child", tag="web")
    main = launcher.wait_up(role="main", tag="web")["pid"]
    remove(launcher)
    launcher.wait_signal(signal.SIGTERM, role="main", tag="web")
    launcher.wait_signal(signal.SIGTERM, role="child", tag="web")
    launcher.signal_inside(main, USR1)
    launcher.wait_for_event("process-exited", program="web", exit_code=0)
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("end", [("until:10", "exit:0"), ("until:10", "die:9")])
def test_what_it_leaves_behind_is_killed(place, end):
    launcher = run(place, {"web": probe("tag:web", "trap", "child", "say:up", *end, backoff=RESTART_AT_ONCE)},
                   *IMPATIENT)
    child = launcher.wait_up(role="child")["pid"]
    main = launcher.wait_up(role="main")["pid"]
    launcher.signal_inside(main, USR1)
    launcher.wait_for_event("process-exited", program="web")
    eventually(lambda: not launcher.is_alive(child), "the child is killed")
    assert launcher.wait_up(role="child")["pid"] != child
    assert launcher.stop() == Exit(code=0)


def test_leftovers_of_a_helper_are_killed(place):
    hook = {"command": ["sh", "-c", "probe tag:left trap child until:10; true"]}
    launcher = run(place, with_other(web=service("web", preStop=hook)))
    launcher.wait_up(tag="web")
    remove(launcher)
    left = launcher.wait_up(tag="left", role="child")["pid"]
    helper = next(line for line in (launcher.proc(left) / "status").read_text().splitlines() if line.startswith("PPid"))
    launcher.signal_inside(int(helper.split()[1]), USR1)
    launcher.wait_for_event("process-exited", program="web")
    eventually(lambda: not launcher.is_alive(left), "the helper's child is killed")
    assert launcher.stop() == Exit(code=0)


def test_no_process_is_left_when_the_launcher_is_no_pid_1(as_child):
    launcher = run(as_child, {"web": probe("tag:web", "trap", "child", "say:up", "until:15")})
    child = launcher.wait_up(role="child")["pid"]
    launcher.wait_up(role="main")
    assert launcher.stop() == Exit(code=0)
    eventually(lambda: not launcher.is_alive(child), "the child is killed")


def test_daemons_are_swept_by_pid_1(as_pid1):
    launcher = run(as_pid1, {"web": service("web", "escape")}, *IMPATIENT)
    launcher.wait_up(role="escaped")
    launcher.wait_up(role="main")
    assert launcher.stop() == Exit(code=0)


def test_a_frozen_process_stops_too(place):
    """SIGSTOP holds nobody up: SIGCONT comes with the stop signal."""
    launcher = run(place, {"web": service("web")})
    pid = launcher.wait_up(tag="web")["pid"]
    launcher.signal_inside(pid, signal.SIGSTOP)
    assert launcher.stop() == Exit(code=0)
    assert launcher.events_named("process-exited", exit_code=0)


# --- rights

class WithoutKill:
    """A starter whose launcher is root without CAP_KILL, as in a container of OpenShift."""

    def __init__(self, starter):
        self.starter = starter

    def __getattr__(self, name):
        return getattr(self.starter, name)

    def start(self, *arguments, **how):
        return self.starter.start("--bounding-set", "-kill", "--inh-caps", "-all", self.starter.binary, *arguments,
                                  binary="/usr/bin/setpriv", **how)


def test_a_program_that_cannot_be_signalled(needs_root, place):
    """ctl restart waited for ever, and the log said that the process gets SIGKILL."""
    launcher = run(WithoutKill(place), with_other(web=service("web", user="daemon", stopTimeout="200ms")),
                   "--stop-limit", "1s")
    warned = launcher.wait_for_event("configuration-warning")
    assert len(warned["warnings"]) == 1 and warned["warnings"][0].startswith("programs.web: runs as user "), warned
    pid = launcher.wait_up(tag="web")["pid"]
    for words in (["signal", "USR1", "web"], ["restart", "web"], ["stop", "web"]):
        said = launcher.ctl(*words, expect=1)
        assert f"cannot signal pid {pid}: Operation not permitted" in said, said
    refused = launcher.wait_for_event("process-signal-failed", program="web", signal=signal.SIGTERM)
    assert (refused["pid"], refused["errno"]) == (pid, errno.EPERM)
    launcher.wait_for_event("process-signal-failed", program="web", signal=signal.SIGKILL)
    assert not launcher.events_named("process-killed")
    assert not launcher.events_named("process-stopping", program="web")
    launcher.ctl("restart", "other")
    launcher.signal(signal.SIGTERM)
    launcher.wait()


def test_a_rest_that_cannot_be_signalled(needs_root, place):
    """Of what a leader leaves behind under another user, the log says whom SIGKILL could not reach."""
    script = "trap 'exit 0' TERM; setpriv --reuid daemon --clear-groups sh -c 'echo child $$; exec sleep 1000' & wait"
    launcher = run(WithoutKill(place), {"web": {"command": ["sh", "-c", script], "stopScope": "tree", "stopTimeout": "200ms"}},
                   "--stop-limit", "1s")
    child = int(launcher.wait_for_text("child ").rsplit(" ", 1)[1])
    launcher.signal(signal.SIGTERM)
    refused = launcher.wait_for_event("process-signal-failed", program="web", signal=signal.SIGKILL)
    assert (refused["pid"], refused["errno"]) == (child, errno.EPERM)
    launcher.wait()


# --- control groups

UNIFIED = Path("/sys/fs/cgroup/unified")


@pytest.fixture
def delegated(needs_root, request):
    """A group of the test's own in the unified hierarchy, with a launcher moved into it before it executes."""
    base = next((path for path in (UNIFIED, Path("/sys/fs/cgroup")) if (path / "cgroup.procs").exists()), None)
    if not base or not os.access(base / "cgroup.procs", os.W_OK):
        pytest.skip("needs a writable cgroup v2 hierarchy")
    group = base / f"triton-test.{os.getpid()}.{abs(hash(request.node.name)) % 10000}"
    group.mkdir()
    yield group

    def is_removed():
        for directory, _, _ in os.walk(group, topdown=False):
            try:
                os.rmdir(directory)
            except OSError:  # somebody is still about to be gone
                return False
        return True
    eventually(is_removed, f"{group} empties")


class InGroup:
    """A starter whose launcher begins in a control group: `sh` moves itself there and becomes the launcher."""

    def __init__(self, starter, group):
        self.starter = starter
        self.group = group

    def __getattr__(self, name):
        return getattr(self.starter, name)

    def start(self, *arguments, **how):
        script = f'echo 0 > {self.group}/cgroup.procs && exec "$0" "$@"'
        return self.starter.start("-c", script, self.starter.binary, *arguments, binary="/bin/sh", **how)


def cgroup_of(launcher, pid):
    """The path in the unified hierarchy."""
    return next(line.split(":", 2)[2] for line in (launcher.proc(pid) / "cgroup").read_text().splitlines()
                if line.startswith("0::"))


def test_each_process_has_a_group(delegated, place):
    launcher = run(InGroup(place, delegated), {"web": service("web", count=2), "db": service("db")},
                   "--cgroup", "required")
    for _ in range(3):
        up = launcher.wait_up()
        number = launcher.wait_for_event("process-started", pid=up["pid"])["process"]
        assert cgroup_of(launcher, up["pid"]).endswith(f"{delegated.name}/{up['tag']}-{number}")
    assert (delegated / "launcher" / "cgroup.procs").read_text()
    launcher.replace({"db": service("db")})
    for _ in range(2):
        launcher.wait_for_event("process-exited", program="web")
    eventually(lambda: not (delegated / "web-1").exists() and not (delegated / "web-2").exists(), "groups are removed")
    assert (delegated / "db-1").exists()
    assert launcher.stop() == Exit(code=0)


def test_daemons_are_killed_by_their_group(delegated, place):
    """A session of its own does not lead out of a control group."""
    launcher = run(InGroup(place, delegated),
                   {"web": probe("tag:web", "trap", "escape", "say:up", f"until:{USR1}", backoff=RESTART_AT_ONCE)},
                   *IMPATIENT)
    escaped = launcher.wait_up(role="escaped")["pid"]
    main = launcher.wait_up(role="main")["pid"]
    launcher.signal_inside(main, USR1)
    launcher.wait_for_event("process-exited", program="web")
    eventually(lambda: not launcher.is_alive(escaped), "the daemon is killed")
    launcher.wait_up(role="main")
    assert launcher.stop() == Exit(code=0)


def test_stop_scope_tree_reaches_daemons_in_the_group(delegated, place):
    launcher = run(InGroup(place, delegated), with_other(
        web=probe("tag:web", "trap", "escape", *UNTIL_TOLD, stopScope="tree")))
    launcher.wait_up(role="escaped")
    main = launcher.wait_up(role="main", tag="web")["pid"]
    remove(launcher)
    launcher.wait_signal(signal.SIGTERM, role="escaped")
    launcher.wait_signal(signal.SIGTERM, role="main", tag="web")
    launcher.signal_inside(main, USR1)
    launcher.wait_for_event("process-exited", program="web")
    assert launcher.stop() == Exit(code=0)


def test_notify_all_hears_daemons_in_the_group(delegated, place):
    script = "setsid -f sh -c 'probe tag:daemon notify:READY=1 say:up pause'; exec probe tag:main trap say:up until:15"
    launcher = run(InGroup(place, delegated), {
        "web": {"command": ["sh", "-c", script], "readiness": {"type": "notify", "notifyAccess": "all"}}})
    launcher.wait_for_event("process-ready", program="web")
    launcher.wait_up(tag="daemon")
    launcher.wait_up(tag="main")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("options, how, reason", [
    (["--cgroup", "none"], "plain", "control groups are turned off (--cgroup none)"),
    ([], "group", "the memory controller is not delegated to "),
])
def test_limits_without_a_controller_are_refused(delegated, place, options, how, reason):
    if "memory" in (delegated / "cgroup.controllers").read_text().split():
        pytest.skip("this machine has a memory controller there")
    launcher = run(InGroup(place, delegated) if how == "group" else place, {"web": service("web")}, *options)
    pid = launcher.wait_up(tag="web")["pid"]
    errors = launcher.reject({"web": service("web", cgroup={"memoryMax": "64Mi"}), "new": service("new")})
    assert len(errors) == 1 and errors[0].startswith(f"programs.web.cgroup: {reason}"), errors
    launcher.quiet_for(0.05, launcher.probe)
    assert launcher.is_alive(pid)
    assert launcher.stop() == Exit(code=0)


def test_cgroup_required_but_not_there(as_pid1):
    """Somebody else is in our group here: it is not ours to divide."""
    launcher = run(as_pid1, {"web": service("web")}, "--cgroup", "required")
    assert launcher.wait() == Exit(code=1)
    assert "--cgroup required: " in launcher.errors()
    assert not launcher.events_named("process-started")


# --- a whole tree

SAVES = ("trap", "say:up", f"until:{USR1}", "say:saved", "exit:0")  # needs time at a stop, as long as it wants


def shell_of(tag, **keys):
    """A shell that does not execute its program, waits for it, and ends at SIGTERM before it does."""
    words = " ".join(f"'{step}'" for step in (f"tag:{tag}", *SAVES))
    return {"command": ["sh", "-c", f"probe {words} & wait"], "stopScope": "tree", **keys}


@pytest.fixture(params=["group", "mark"])
def group(request):
    """Made before the launcher, so that it outlives it."""
    return request.getfixturevalue("delegated") if request.param == "group" else None


@pytest.fixture
def trees(group, place):
    """Where trees are known by control groups, and where by marks."""
    return InGroup(place, group) if group else place


def saver_that_outlives_its_shell(launcher, stop):
    """Does `stop`, and returns the saver when its shell has ended and it has been told."""
    saver = launcher.wait_up(tag="web")["pid"]
    stop()
    launcher.wait_signal(signal.SIGTERM, tag="web")
    launcher.wait_signal(signal.SIGCONT, tag="web")
    eventually(lambda: process_of(launcher)["pid"] is None, "the shell has ended")
    assert process_of(launcher)["state"] == "stopping"
    launcher.quiet_for(0.1, launcher.probe)
    assert not launcher.events_named("process-exited", program="web")
    return saver


def process_of(launcher, name="web"):
    programs = json.loads(launcher.ctl("--json", "status"))["programs"]
    found = [program for program in programs if program["name"] == name]
    one = found[0]["processes"][0] if found else {"state": "stopping"}  # no longer configured
    return {"pid": one.get("pid"), "state": one["state"]}


@pytest.mark.parametrize("how", ["removed", "stopped", "restarted"])
def test_a_tree_has_until_the_stop_timeout(trees, how):
    """SIGTERM ends the shell at once. What it has started was killed then, whatever it still had to save."""
    launcher = run(trees, with_other(web=shell_of("web", stopTimeout="1h")), "--stop-limit", "2h")
    launcher.wait_up(tag="other")
    stop = {"removed": lambda: remove(launcher), "stopped": lambda: launcher.ctl("stop", "web", "--no-wait"),
            "restarted": lambda: launcher.ctl("restart", "web", "--no-wait")}[how]
    saver = saver_that_outlives_its_shell(launcher, stop)
    launcher.signal_inside(saver, USR1)
    launcher.wait_for_probe("say", text="saved")
    launcher.wait_for_event("process-exited", program="web", signal=signal.SIGTERM)
    if how == "restarted":
        assert launcher.wait_up(tag="web")["pid"] != saver
    launcher.ctl("stop", "other")
    assert not launcher.events_named("process-killed")


def test_what_is_left_of_a_tree_is_killed_at_the_stop_timeout(trees):
    launcher = run(trees, with_other(web=shell_of("web", stopTimeout="1s")))
    saver = launcher.wait_up(tag="web")["pid"]
    remove(launcher)
    launcher.wait_signal(signal.SIGTERM, tag="web")
    killed = launcher.wait_for_event("process-killed", program="web")
    assert killed["message"] == "what web has left behind gets SIGKILL"
    launcher.wait_for_event("process-exited", program="web")
    eventually(lambda: not launcher.is_alive(saver), "it is killed")
    assert launcher.stop() == Exit(code=0)


def test_an_end_that_nobody_asked_for_stops_the_tree_before_the_restart(trees):
    launcher = run(trees, {"web": shell_of("web", stopTimeout="1h", backoff=RESTART_AT_ONCE)})
    saver = launcher.wait_up(tag="web")["pid"]
    shell = launcher.wait_for_event("process-started", program="web")["pid"]
    launcher.signal_inside(shell, signal.SIGKILL)
    launcher.wait_signal(signal.SIGTERM, tag="web")
    launcher.wait_signal(signal.SIGCONT, tag="web")
    stopping = launcher.wait_for_event("process-stopping", program="web")
    assert stopping["message"] == "web has ended: stopping what it has left behind"
    launcher.quiet_for(0.1, launcher.probe)
    assert len(launcher.events_named("process-started")) == 1
    launcher.signal_inside(saver, USR1)
    launcher.wait_for_event("process-exited", program="web", signal=signal.SIGKILL)
    launcher.wait_up(tag="web")


def test_a_stop_of_all_waits_for_a_whole_tree(trees):
    """In the order of what depends on what: db stops when all of web is gone."""
    launcher = run(trees, {"db": service("db"), "web": shell_of("web", requires=["db"], stopTimeout="1h")},
                   "--stop-limit", "2h")
    saver = saver_that_outlives_its_shell(launcher, lambda: launcher.signal(signal.SIGTERM))
    assert not launcher.events_named("process-exited", program="db")
    launcher.signal_inside(saver, USR1)
    assert launcher.wait() == Exit(code=0)
    assert order_of(launcher.events_named("process-exited"), "program") == [("web",), ("db",)]
    assert not launcher.events_named("process-killed")


def test_a_second_request_kills_what_is_left_of_a_tree(trees):
    launcher = run(trees, {"web": shell_of("web", stopTimeout="1h")}, "--stop-limit", "2h")
    saver_that_outlives_its_shell(launcher, lambda: launcher.signal(signal.SIGTERM))
    launcher.hurry()
    assert launcher.wait() == Exit(code=0)
    assert launcher.events_named("process-killed", program="web")


def test_an_upgrade_goes_on_with_what_is_left_of_a_tree(trees):
    launcher = run(trees, with_other(web=shell_of("web", stopTimeout="1h")), "--stop-limit", "2h")
    saver = saver_that_outlives_its_shell(launcher, lambda: launcher.ctl("restart", "web", "--no-wait"))
    launcher.ctl("upgrade", trees.binary)
    assert process_of(launcher) == {"pid": None, "state": "stopping"}
    launcher.signal_inside(saver, USR1)
    launcher.wait_for_event("process-exited", program="web")
    assert launcher.wait_up(tag="web")["pid"] != saver


FLOOD = """
import os, signal, sys
signal.signal(40, signal.SIG_IGN)  # what we send is passed on to us
signal.signal(signal.SIGTERM, signal.SIG_IGN)
mine, go = sys.argv[1:]
open(mine, "w").close()
open(go).close()  # waits for whoever writes
for _ in range(1000):
    os.kill(os.getppid(), 40)
os.rename(mine, mine + "-floods")
while True:
    os.kill(os.getppid(), 40)
"""


def test_flood_of_real_time_signals_holds_up_no_stop(place):
    """They queue: who reads until none is left reads for ever, and neither reaps nor stops."""
    go, deaf = place.area / "go", place.area / "deaf"
    floods = [place.area / f"flood{i}" for i in range(2)]
    programs = {flood.name: {"command": ["/usr/bin/python3", "-c", FLOOD, str(flood), str(go)]} for flood in floods}
    # Each signal is passed on to so many that we read more slowly than they write.
    programs["many"] = {"command": ["/bin/sh", "-c", f"trap '' 40; echo >> {deaf}; exec sleep 1000"], "count": 100}
    deaf.touch()
    os.mkfifo(go)
    launcher = run(place, programs, *IMPATIENT)
    eventually(lambda: len(deaf.read_text()) == 100 and all(flood.exists() for flood in floods), "every program runs")
    with open(go, "w"):
        eventually(lambda: all(flood.with_name(f"{flood.name}-floods").exists() for flood in floods),
                   "both programs flood")
    assert launcher.stop() == Exit(code=0)
    assert len(launcher.events_named("process-exited")) == 102
    for flood in floods:
        assert launcher.events_named("process-exited", program=flood.name)[0]["signal"] == signal.SIGKILL

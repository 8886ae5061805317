"""Programs: runs that are limited in time, what follows their end, what is undone, several signals of a stop, and
schedules by the clock of a place."""

import os
import signal
import struct
import time

import pytest

from harness.control import Controlled
from harness.process import Exit, run_plainly
from harness.programs import USR1, probe, run, seconds, service


def hook(tag, *steps, **keys):
    return {"command": ["probe", f"tag:{tag}", *steps, "say:up"], **keys}


# --- stopSequence


def test_each_signal_of_a_sequence_has_its_time(place):
    sequence = [{"signal": "USR2", "wait": "50ms"}, {"signal": "INT", "wait": "0s"}, {"signal": "TERM", "wait": "20s"}]
    launcher = run(place, {"web": service("web", stopSequence=sequence)})
    launcher.wait_up(tag="web")
    launcher.signal(signal.SIGTERM)
    for number in (signal.SIGUSR2, signal.SIGINT, signal.SIGTERM):
        launcher.wait_signal(number, tag="web")
    assert launcher.wait() == Exit(code=0)


def test_kill_follows_the_last_signal(place):
    sequence = [{"signal": "HUP", "wait": "20ms"}, {"signal": "USR1", "wait": "20ms"}]
    launcher = run(place, {"web": service("web", stopSequence=sequence), "other": service("other")})
    pid = launcher.wait_up(tag="web")["pid"]
    launcher.replace({"other": service("other")})
    launcher.wait_signal(signal.SIGHUP, tag="web")
    launcher.wait_signal(signal.SIGUSR1, tag="web")
    assert launcher.wait_for_event("process-exited", program="web")["signal"] == signal.SIGKILL
    assert not launcher.is_alive(pid)
    assert launcher.stop() == Exit(code=0)


def test_an_upgrade_goes_on_in_the_middle_of_a_sequence(as_pid1):
    sequence = [{"signal": "USR2", "wait": "1s"}, {"signal": "TERM", "wait": "20s"}]
    controlled = Controlled(as_pid1, {"web": {"steps": ["trap", "say:up", "until:15"], "stopSequence": sequence},
                                      "other": ["trap", "until:15"]})
    launcher = controlled.launcher
    launcher.wait_up()
    controlled.follow("stop", "web")
    launcher.wait_signal(signal.SIGUSR2, tag="web")
    controlled.upgrade()
    launcher.wait_signal(signal.SIGTERM, tag="web")
    assert launcher.wait_for_event("process-exited", program="web")["exit_code"] == 0
    controlled.close()
    assert launcher.stop() == Exit(code=0)


# --- timeout


def test_a_run_that_takes_too_long_is_stopped_and_has_failed(place):
    launcher = run(place, {"job": {**service("job", oneShot=True, timeout="100ms"),
                                   "onFailure": {"command": ["/bin/sh", "-c", 'exec probe "tag:$TRITON_RESULT" say:up']}},
                           "web": service("web")})
    launcher.wait_up(tag="job")
    launcher.wait_signal(signal.SIGTERM, tag="job")
    late = launcher.wait_for_event("process-timed-out", program="job")
    assert late["what"] == "run" and late["message"] == "job has taken too long: stopped"
    launcher.wait_up(tag="run-timeout")
    assert launcher.stop() == Exit(code=0)


def test_a_run_in_time_is_left_alone(place):
    launcher = run(place, {"job": probe("say:up", "exit:0", schedule={"every": "50ms"}, timeout="20s")})
    for _ in range(3):
        assert launcher.wait_for_event("process-exited", program="job")["exit_code"] == 0
    assert not launcher.events_named("process-timed-out")
    assert launcher.stop() == Exit(code=0)


# --- onSuccess


def test_success_has_its_hook(place):
    launcher = run(place, {"job": probe("exit:0", oneShot=True, onSuccess={
        "command": ["/bin/sh", "-c", 'exec probe "tag:$TRITON_PROGRAM-$TRITON_RESULT-$TRITON_EXIT_CODE" say:up']}),
        "bad": probe("exit:1", oneShot=True, onSuccess=hook("never")), "web": service("web")})
    launcher.wait_up(tag="job-success-0")
    launcher.wait_up(tag="web")
    launcher.wait_for_event("process-exited", program="bad")
    launcher.wait_for_event("process-started", program="web")
    launcher.quiet_for(0.1)
    assert not [line for line in launcher.probe.all if line.get("tag") == "never"]
    assert launcher.stop() == Exit(code=0)


# --- onStop


def test_the_end_of_the_container_undoes_in_reverse_order(place):
    launcher = run(place, {
        "mount": probe("exit:0", oneShot=True, onStop=hook("unmount")),
        "migrate": probe("exit:0", oneShot=True, requires=["mount"], onStop=hook("forget")),
        "web": service("web", requires=["migrate"]),
        "broken": probe("exit:1", oneShot=True, onStop=hook("never"))})
    launcher.wait_up(tag="web")
    launcher.wait_for_event("process-exited", program="broken")
    assert launcher.stop() == Exit(code=0)
    launcher.probe.drain()
    said = [line["tag"] for line in launcher.probe.all if line.get("text") == "up"]
    assert said == ["web", "forget", "unmount"]


def test_a_hook_that_hangs_ends_with_its_time(place):
    launcher = run(place, {"mount": probe("exit:0", oneShot=True, onStop={"command": ["sleep", "100"], "timeout": "50ms"}),
                           "web": service("web")})
    launcher.wait_up(tag="web")
    launcher.wait_for_event("process-exited", program="mount")
    assert launcher.stop() == Exit(code=0)
    assert launcher.events_named("helper-failed", helper="onStop")[0]["error"] == "it took too long"


def test_commands_undo_what_is_done(as_pid1):
    controlled = Controlled(as_pid1, {
        "mount": {"steps": ["say:up"], "oneShot": True, "onStop": {"command": [str(as_pid1.probe), "tag:undone", "say:up"]}},
        "web": {"steps": ["trap", "until:15"]}})
    launcher = controlled.launcher
    launcher.wait_up()
    controlled.ctl("stop", "mount")
    launcher.wait_up(tag="undone")
    controlled.ctl("start", "mount")
    launcher.wait_up()
    controlled.ctl("restart", "mount")
    launcher.wait_up(tag="undone")
    launcher.wait_up()
    controlled.close()
    assert launcher.stop() == Exit(code=0)


def test_a_removed_program_is_undone(place):
    launcher = run(place, {"mount": probe("say:up", "exit:0", oneShot=True, onStop=hook("undone")), "web": service("web")})
    launcher.wait_up(tag="web")
    launcher.wait_for_event("process-exited", program="mount")
    launcher.replace({"web": service("web")})
    launcher.wait_up(tag="undone")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("how", ["removed", "fewer"])
@pytest.mark.parametrize("hook_of", ["onStop", "onFailure"])
def test_a_hook_may_write_when_its_process_has_left_the_configuration(place, hook_of, how):
    """What it writes goes where the program's output went, as long as it takes; it was ended by SIGPIPE."""
    go = place.area / "go"
    os.mkfifo(go)
    hook_command = {"command": ["sh", "-c", f"read x <{go}; echo first; echo second"]}
    program = {"onStop": probe("exit:0", oneShot=True, onStop=hook_command, output={}),
               "onFailure": probe("exit:1", restart="never", onFailure=hook_command, output={})}[hook_of]
    launcher = run(place, {"job": program, "web": service("web")})
    launcher.wait_started(tag="web")
    launcher.wait_for_event("process-exited", program="job")
    launcher.replace({"web": service("web")} if how == "removed" else {"job": {**program, "count": 0}, "web": service("web")})
    launcher.wait_for_event("configuration-loaded", processes=1)
    launcher.quiet_for(0.4)  # in this time what nobody needs any longer is let go of
    with open(go, "w", encoding="utf-8") as told:
        told.write("\n")
    for word in ("first", "second"):
        launcher.wait_for_text(f"job[1] | {word}")
    assert launcher.stop() == Exit(code=0)
    assert not launcher.events_named("helper-failed")


@pytest.mark.parametrize("how", ["removed", "stopped", "upgraded", "not-upgraded", "ended"])
def test_what_leaves_is_undone_after_all_that_depends_on_it(place, how):
    """A file system that programs still write to when a new configuration wants none of them any more."""
    programs = {"mount": probe("exit:0", oneShot=True, onStop=hook("unmount")),
                "migrate": probe("exit:0", oneShot=True, requires=["mount"], onStop=hook("forget")),
                "web": probe("trap", "say:stays", "until:12", requires=["migrate"], stopTimeout="20s")}
    launcher = run(place, programs)
    launcher.wait_for_probe("say", text="stays")
    if how in ("removed", "not-upgraded", "ended"):
        launcher.replace({"other": service("other")})
        launcher.wait_up(tag="other")
    else:
        launcher.replace(programs, runServers=False)
    web = launcher.wait_for_event("process-stopping", program="web")["pid"]
    launcher.wait_signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGCONT)  # comes with it: a stopped process could not obey
    if how == "upgraded":
        launcher.ctl("upgrade", place.binary)
    if how == "not-upgraded":  # no other version would know what to run
        refusal = launcher.ctl("upgrade", place.binary, expect=1)
        assert refusal.endswith("mount has left the configuration, and its onStop or preStop would be lost\n")
    if how == "ended":
        launcher.signal(signal.SIGTERM)
        launcher.wait_for_event("process-exited", program="other")
    launcher.quiet_for(0.2, launcher.probe)
    launcher.signal_inside(web, signal.SIGUSR2)
    launcher.wait_for_event("process-exited", program="web")
    launcher.wait_up(tag="forget")
    launcher.wait_up(tag="unmount")
    said = [line["tag"] for line in launcher.probe.all if line.get("text") == "up"]
    assert said[-2:] == ["forget", "unmount"]
    assert (launcher.wait() if how == "ended" else launcher.stop()) == Exit(code=0)


@pytest.mark.parametrize("how", ["same", "other"])
def test_what_comes_back_before_it_is_undone(place, how):
    """The same one-shot is done still; another one of its name has yet to run."""
    mount = probe("say:mounted", "exit:0", oneShot=True, onStop=hook("unmount"))
    web = probe("trap", "say:stays", "until:12", requires=["mount"], stopTimeout="20s")
    launcher = run(place, {"mount": mount, "web": web})
    launcher.wait_for_probe("say", text="stays")
    launcher.replace({"other": service("other")})
    launcher.wait_up(tag="other")
    old = launcher.wait_for_event("process-stopping", program="web")["pid"]
    launcher.wait_signal(signal.SIGTERM)
    back = mount if how == "same" else {**mount, "command": [*mount["command"], "say:elsewhere"]}
    launcher.replace({"mount": back, "web": web, "other": service("other")})
    launcher.wait_for_event("configuration-loaded", processes=3)
    launcher.signal_inside(old, signal.SIGUSR2)
    again = launcher.wait_for_probe("say", text="stays")["pid"]
    said = [line["text"] for line in launcher.probe.all if line.get("text") in ("mounted", "stays")]
    assert said == ["mounted", "stays"] + (["mounted"] if how == "other" else []) + ["stays"]
    launcher.signal(signal.SIGTERM)
    launcher.wait_signal(signal.SIGTERM, pid=again)
    launcher.signal_inside(again, signal.SIGUSR2)  # not before: it would be started again
    assert launcher.wait() == Exit(code=0)


# --- schedules


def test_a_first_run_comes_at_the_start_alone(place):
    launcher = run(place, {"job": probe("say:up", "exit:0", schedule={"cron": "@yearly", "onStart": True}),
                           "web": service("web")})
    launcher.wait_for_event("process-exited", program="job")
    launcher.replace({"job": probe("say:up", "exit:0", schedule={"cron": "0 1 1 1 *", "onStart": True}),
                      "web": service("other", onConfigurationChange="restart")})
    launcher.wait_up(tag="other")
    assert len(launcher.events_named("process-started", program="job")) == 1
    assert launcher.stop() == Exit(code=0)


def test_a_missed_run_comes_when_there_is_room(place):
    launcher = run(place, {"job": probe("trap", "say:up", f"until:{USR1}", schedule={"every": "2s", "onStart": True,
                                                                                    "missed": "run"})})
    first = launcher.wait_up()["pid"]
    launcher.wait_for_event("schedule-skipped", program="job")  # of two that were missed only one is owed
    launcher.signal_inside(first, USR1)
    ended = launcher.wait_for_event("process-exited", program="job")
    second = launcher.wait_for_event("process-started", program="job", pid=launcher.wait_up()["pid"])
    assert seconds(second) - seconds(ended) < 1.5, "not at its next time, which is up to two seconds away"
    launcher.signal(signal.SIGTERM)
    launcher.signal_inside(second["pid"], USR1)
    assert launcher.wait() == Exit(code=0)


def zone_file(rule):
    """A TZif file that has nothing but a rule."""
    header = b"TZif2" + bytes(15) + struct.pack(">6i", 0, 0, 0, 0, 1, 4)
    block = struct.pack(">iBB", 0, 0, 0) + b"UTC\0"
    return header + block + header + block + b"\n" + rule + b"\n"


def test_a_calendar_follows_the_clock_of_a_place(place):
    zones = place.area / "zones"
    (zones / "Test").mkdir(parents=True)
    (zones / "Test/Place").write_bytes(zone_file(b"<+0530>-5:30"))
    controlled = Controlled(place, {"job": {"steps": ["exit:0"], "schedule": {"cron": "30 * * * *",
                                                                             "timeZone": "Test/Place"}},
                                    "web": ["trap", "say:up", "until:15"]}, env={"TZDIR": str(zones)})
    controlled.launcher.wait_up()
    # Half past by that clock is the full hour of UTC.
    due = time.time() + controlled.status("job")["job"]["next_run_in_seconds"]
    assert min(due % 3600, 3600 - due % 3600) < 5
    controlled.close()
    assert controlled.launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("content, error", [
    (None, "No such file or directory (the package tzdata has it)"), (b"x" * 100, "it is not a TZif file"),
    (zone_file(b"nonsense"), "its rule nonsense is not one of POSIX")])
def test_a_zone_that_cannot_be_used_is_refused(place, content, error):
    (place.area / "zones").mkdir()
    if content:
        (place.area / "zones/Place").write_bytes(content)
    launcher = run(place, {"web": service("web")}, env={"TZDIR": str(place.area / "zones")})
    launcher.wait_up(tag="web")
    [reason] = launcher.reject({"job": probe(schedule={"cron": "@daily", "timeZone": "Place"})})
    assert reason.startswith("programs.job.schedule.timeZone: ") and reason.endswith(error)
    assert launcher.stop() == Exit(code=0)


def test_bad_keys_are_explained(tmp_path):
    (tmp_path / "config.json").write_text("""{"programs": {
        "a": {"command": ["x"], "timeout": "1s"},
        "b": {"command": ["x"], "onStop": {"command": ["y"]}},
        "c": {"command": ["x"], "stopSequence": [], "stopSignal": "HUP"},
        "d": {"command": ["x"], "schedule": {"every": "1s", "timeZone": "../x", "missed": "later"}},
        "e": {"command": ["x"], "onSuccess": {"command": ["y"]}}}}""")
    done = run_plainly("check", tmp_path / "config.json")
    assert done.returncode == 1
    said = [line.split("config.json: ", 1)[1] for line in done.stderr.splitlines()]
    assert said == [
        "programs.c.stopSequence: must not be empty",
        "programs.c.stopSignal: cannot be used together with stopSequence",
        'programs.d.schedule.timeZone: "../x" is not the name of a time zone (for example Europe/Berlin)',
        'programs.d.schedule.missed: "later" is not one of skip, run',
        "programs.a.timeout: has no effect without oneShot or schedule",
        "programs.b.onStop: has no effect without oneShot",
        "programs.d.schedule.timeZone: has no effect without cron",
        'programs.e.onSuccess: has no effect when restart is "always"']

"""A life of random configurations and commands: whatever comes, the launcher goes on, answers, and ends when it is told to.

TRITON_RANDOM_SEED and TRITON_RANDOM_STEPS: other lives, and longer ones."""

import json
import os
import random
import re
import time

import pytest

from harness.process import Exit, run_plainly
from harness.programs import document, run

SEED = int(os.environ.get("TRITON_RANDOM_SEED", "1"))
STEPS = int(os.environ.get("TRITON_RANDOM_STEPS", "40"))
NAMES = ("a", "b", "c", "d", "e", "f")
FAST = {"initial": "10ms", "max": "40ms", "jitter": 0}
SHELL = "/bin/sh"


class Life:
    """Makes configurations and commands by chance."""

    def __init__(self, seed, area):
        self.random = random.Random(seed)
        self.area = area
        self.watched = area / "watched"
        self.watched.write_text("0")

    def one_in(self, number):
        return self.random.randrange(number) == 0

    def hook(self):
        return {"command": [SHELL, "-c", self.random.choice([":", "exit 1", "sleep 0.02", "echo hook"])], "timeout": "300ms"}

    def script(self, is_finite):
        pick = self.random.choice
        if is_finite:
            return pick(["exit 0", "exit 0", "exit 0", "exit 3", "sleep 0.05", "echo done", "kill -9 $$"])
        return pick(["exec sleep 1000"] * 4 + ["trap : HUP; echo up; while :; do sleep 0.05; done", "exec cat", "exit 1", "sleep 0.03",
                     "trap '' TERM; echo stubborn; exec sleep 1000", "sleep 1000 & exec sleep 1000",
                     "while :; do echo line; sleep 0.02; done", "echo READY=1 >&3 2>/dev/null; exec sleep 1000"])

    def output(self, name):
        choices = ["null", "inherit", {}, {"format": "json"}, {"format": "prefix", "whenFull": "drop"}, {"stderr": "null"},
                   {"file": str(self.area / f"{name}.log"), "maxSize": "4Ki", "maxFiles": 2},
                   {"syslog": {"address": f"unix:{self.area}/nobody"}}]
        return self.random.choice(choices)

    def program(self, name, before, all_before):
        """A program that may refer to those before it."""
        pick = self.random.choice
        kind = pick(["service"] * 5 + ["oneShot", "oneShot", "schedule"])
        program = {"command": [SHELL, "-c", self.script(kind != "service")], "stopTimeout": pick(["0s", "20ms", "200ms"]), "backoff": FAST}
        maybe = [
            ("count", lambda: pick([0, 1, 2, 3])), ("groups", lambda: [pick(["g", "h"])]), ("output", lambda: self.output(name)),
            ("onConfigurationChange", lambda: pick(["restart", "signal", "keep"])), ("restart", lambda: pick(["always", "on-failure", "never"])),
            ("stopScope", lambda: pick(["process", "tree"])), ("onFailure", self.hook), ("order", lambda: "sequential"),
            ("startLimit", lambda: {"count": 3, "interval": "1m"}), ("autoStart", lambda: pick([True, False])), ("nice", lambda: 1),
            ("files", lambda: {"paths": [str(self.watched)], "quietTime": "10ms", "action": pick(["restart", "signal"])}),
            ("environment", lambda: {"A": {"type": "ProcessNumber"}}), ("startTimeout", lambda: pick(["50ms", "2s"])),
        ]
        for key, make in maybe:
            if self.one_in(4):
                program[key] = make()
        for key in ("after", "requires", "bindsTo"):
            if before and self.one_in(4):
                program[key] = self.random.sample(before, self.random.randint(1, len(before)))
        if kind == "oneShot":
            program["oneShot"] = True
            for key in ("onStop", "onSuccess"):
                if self.one_in(2):
                    program[key] = self.hook()
            return program
        if kind == "schedule":
            program["schedule"] = {"every": pick(["1s", "2s"]), "onStart": pick([True, False]), "missed": pick(["skip", "run"])}
            return program
        for key, make in [
            ("preStop", self.hook), ("drainDelay", lambda: "20ms"), ("maxUnavailable", lambda: 1),
            ("stopSequence", lambda: [{"signal": "INT", "wait": "20ms"}, {"signal": "TERM", "wait": "20ms"}]),
            ("readiness", lambda: pick([{"type": "fd"}, {"type": "notify"}, {"type": "log", "pattern": "up|line"},
                                        {"type": "exec", "command": ["/bin/true"], "interval": "20ms"}])),
            ("health", lambda: [{"name": f"check{number}", "command": [pick(["/bin/true", "/bin/false"])], "interval": pick(["20ms", "50ms"]),
                                 "retries": pick([1, 3]), "action": pick(["restart", "report"])} for number in range(pick([1, 3]))]),
            ("sockets", lambda: [{"name": "s", "listen": f"unix:{self.area}/{name}-{pick('xy')}"}, {"name": "t", "listen": "tcp:127.0.0.1:0"}]),
            ("tty", lambda: True),
        ]:
            if self.one_in(5):
                program[key] = make()
        if program.get("readiness", {}).get("type") == "notify" and self.one_in(2):
            program["watchdog"] = "100ms"
        if "stopSequence" in program:
            del program["stopTimeout"]
        if program.get("readiness", {}).get("type") == "log":
            program["output"] = {}
        if program.get("tty"):
            program.pop("output", None)
        if all_before and "tty" not in program and self.one_in(6):
            program["output"] = {"to": pick(all_before)}
        return program

    def programs(self):
        """Programs that are accepted: what `check` objects to is left out."""
        programs = self.drawn_programs()
        candidate = self.area / "candidate.json"
        for _ in range(10):
            candidate.write_text(document(programs))
            found = re.findall(r"programs\.(\w+)\.(\w+)", run_plainly("check", candidate).stderr)
            if not found:
                break
            for name, key in found:
                programs[name].pop(key, None)
        return programs

    def drawn_programs(self):
        names = [name for name in NAMES if not self.one_in(3)]
        made = {"stays": {"command": ["/bin/sleep", "1000"]}}  # else the end of the others would be that of the container
        schedules = set()
        for name in names:
            program = self.program(name, [one for one in made if one not in schedules], list(made))
            made[name] = program
            if "schedule" in program:
                schedules.add(name)
        return made

    def command(self):
        """The words of a command, and the exit codes that it may have."""
        pick = self.random.choice
        name = pick([*NAMES, "@g", "@h", "all", f"{pick(NAMES)}:{pick([1, 2, 3])}"])
        words = pick([
            ["status"], ["status", "--json", "--all"], ["status", name], ["describe", pick(NAMES)], ["top", "--json"], ["version"], ["reload"],
            ["logs", pick(NAMES)], ["start", name], ["stop", name], ["restart", name], ["start", "--no-wait", name],
            ["stop", "--no-wait", "--force", name], ["stop", "--with-dependents", name], ["restart", "--no-wait", "--no-deps", name],
            ["signal", pick(["HUP", "USR1", "KILL", "TERM", "STOP", "CONT"]), name], ["wait", pick(NAMES), "--for", pick(["ready", "up", "down", "done"])],
        ])
        return [words[0], "--timeout", "150ms", *words[1:]]


@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
def test_a_random_life(place, seed):
    life = Life(seed, place.area)
    text = document(life.programs())
    launcher = run(place, json.loads(text)["programs"], "--stop-timeout", "3s")
    launcher.wait_for_event("configuration-loaded")
    story = []

    def ctl(*words, codes=(0, 1, 2, 4)):
        story.append(" ".join(map(str, words)))
        done = run_plainly("ctl", "--socket", launcher.control, *words)
        assert done.returncode in codes, f"seed {seed}: {done}\n{story}\n{text}\n{launcher.story()}"
        return done.stdout

    launcher.ctl("version")  # it can be asked from here on
    for _ in range(STEPS):
        what = life.random.randrange(10)
        if what < 3:
            text = document(life.programs(), runServers=not life.one_in(6))
            if life.one_in(10):
                text = text[:life.random.randrange(len(text))]
            launcher.configuration.write_text(text)
            ctl("reload")
        elif what == 3 and life.one_in(2):
            ctl("upgrade", place.binary, codes=(0, 1))
        elif what == 4:
            life.watched.write_text(str(time.monotonic()))
        else:
            ctl(*life.command())
        launcher.assert_running()
    for program in json.loads(ctl("status", "--json", codes=[0]))["programs"]:
        assert all(process["number"] <= 3 for process in program["processes"]), program
    assert launcher.stop() == Exit(code=0)

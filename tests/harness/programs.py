"""Documents with `programs`, and launchers that run them."""

import json
from datetime import datetime

from harness.control import reach
from harness.process import VERSION, run_plainly

USR1 = 10
RESTART_AT_ONCE = {"initial": "5ms", "max": "5ms", "jitter": 0}


def probe(*steps, **keys):
    """A program that does these probe steps; `keys` are its other keys."""
    return {"command": ["probe", *steps], **keys}


def service(tag, *steps, **keys):
    """A program that says "up" under this tag and reports signals until SIGTERM ends it."""
    return probe(f"tag:{tag}", "trap", *steps, "say:up", "until:15", **keys)


def document(programs, **more):
    """The text of a configuration."""
    return json.dumps({"version": VERSION, "programs": programs, **more})


class Programs:
    """A launcher with its configuration: what most tests of programs need."""

    def __init__(self, place, programs, *options, env=None, where=(), **how):
        self.configuration = place.configuration()
        self.configuration.write_text(document(programs))
        self.control = place.area / "control"
        self.was_reached = False
        environment = {"PATH": f"{place.programs}:/usr/bin:/bin", **(env or {})}
        self.launcher = place.start("--input-dir", self.configuration.directory, "--main-container-version", VERSION,
                                    "--control-socket", self.control, *options, env=environment,
                                    place=where, **how)

    def replace(self, programs, **more):
        """Writes another configuration."""
        self.configuration.write_text(document(programs, **more))

    def reject(self, programs, **more):
        """Writes a configuration that must be refused; returns the reasons."""
        self.replace(programs, **more)
        return self.launcher.wait_for_event("configuration-rejected")["errors"]

    def ctl(self, *words, expect=0):
        """Runs ctl, asserts its exit code and returns what it printed (of a failure: to its standard error)."""
        if not self.was_reached:
            reach(self.control).close()  # the first programs run before
            self.was_reached = True
        done = run_plainly("ctl", "--socket", self.control, *words)
        assert done.returncode == expect, f"{words}: {done}\n{self.launcher.story()}"
        return done.stdout if expect == 0 else done.stderr

    def __getattr__(self, name):
        return getattr(self.launcher, name)


def run(place, programs, *options, **how):
    """Starts a launcher with these programs."""
    return Programs(place, programs, *options, **how)


def order_of(records, *fields):
    """The records with only these fields, as tuples."""
    return [tuple(record.get(field) for field in fields) for record in records]


def seconds(record):
    """The time of a log record."""
    return datetime.fromisoformat(record["time"]).timestamp()

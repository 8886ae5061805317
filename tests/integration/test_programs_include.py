"""One configuration of several files: what it includes, how changes of them are taken, and what is said of faults."""

import json
import os
import signal

from harness.control import reach
from harness.process import Exit, eventually, run_plainly
from harness.programs import document, run, service


def fragment(place, name, programs, **more):
    """Writes a fragment beside the configuration by a rename."""
    directory = place.configuration.directory / "conf.d"
    directory.mkdir(exist_ok=True)
    temporary = directory / ".new"
    temporary.write_text(json.dumps({"programs": programs, **more}))
    temporary.rename(directory / name)


class Layered:
    """A launcher whose configuration includes conf.d/*.json."""

    def __init__(self, place, programs, **fragments):
        self.configuration = place.configuration()
        self.configuration.write_text(document(programs, include=["conf.d/*.json"]))
        for name, content in fragments.items():
            self.add(name, content)
        self.launcher = place.start("--input-dir", self.configuration.directory, "--control-socket",
                                    place.area / "control", env={"PATH": f"{place.programs}:/usr/bin:/bin"})

    def add(self, name, programs):
        fragment(self, f"{name}.json", programs)

    def __getattr__(self, name):
        return getattr(self.launcher, name)


def test_a_fragment_that_comes_later_starts_its_programs(place):
    launcher = Layered(place, {"web": service("web")})
    launcher.wait_up(tag="web")
    launcher.add("db", {"db": service("db")})  # the directory did not exist before
    launcher.wait_up(tag="db")
    launcher.add("job", {"job": service("job")})
    launcher.wait_up(tag="job")
    (launcher.configuration.directory / "conf.d/db.json").unlink()
    launcher.wait_signal(signal.SIGTERM, tag="db")
    launcher.add("job", {"job": None, "other": service("other")})
    launcher.wait_signal(signal.SIGTERM, tag="job")
    launcher.wait_up(tag="other")
    assert launcher.stop() == Exit(code=0)


def test_a_later_layer_changes_keys_of_a_program(place):
    launcher = Layered(place, {"web": service("base", stopSignal="USR2")}, a={"web": {"command": None}},
                       b={"web": service("layered", count=2)})
    for _ in range(2):
        launcher.wait_up(tag="layered")
    assert launcher.stop() == Exit(code=0)
    assert not launcher.events_named("process-started", tag="base")


def test_a_bad_fragment_is_named_and_what_runs_stays(place):
    launcher = Layered(place, {"web": service("web")})
    launcher.wait_up(tag="web")
    launcher.add("10-bad", {"web": {"restart": "perhaps"}})
    errors = launcher.wait_for_event("configuration-rejected")["errors"]
    assert errors == ['conf.d/10-bad.json: programs.web.restart: "perhaps" is not one of always, on-failure, never']
    launcher.quiet_for(0.1)
    assert not launcher.events_named("process-exited")
    launcher.add("10-bad", {"db": service("db")})
    launcher.wait_up(tag="db")
    assert launcher.stop() == Exit(code=0)


def test_a_mounted_config_map_is_swapped(place):
    """Fragments are links to ..data/NAME, and ..data is swapped."""
    configuration = place.configuration()
    mounted = configuration.directory / "conf.d"
    for number in (1, 2):
        version = mounted / f"..{number}"
        version.mkdir(parents=True)
        (version / "web.json").write_text(json.dumps({"programs": {"web": service(
            f"version{number}", onConfigurationChange="restart")}}))
    (mounted / "..data").symlink_to("..1")
    (mounted / "web.json").symlink_to("..data/web.json")
    configuration.write_text(document({}, include=["conf.d/*.json"]))
    launcher = place.start("--input-dir", configuration.directory, env={"PATH": f"{place.programs}:/usr/bin:/bin"})
    launcher.wait_up(tag="version1")
    (mounted / "..new").symlink_to("..2")
    os.rename(mounted / "..new", mounted / "..data")
    launcher.wait_up(tag="version2")
    assert launcher.stop() == Exit(code=0)


def test_an_upgrade_keeps_what_was_merged(place):
    launcher = Layered(place, {"web": service("web")}, a={"db": service("db")})
    pids = {tag: launcher.wait_up(tag=tag)["pid"] for tag in ("web", "db")}
    control = place.area / "control"
    reach(control).close()  # the first programs run before
    assert run_plainly("ctl", "--socket", control, "upgrade", place.binary).returncode == 0
    launcher.wait_for_event("upgrade-done")
    launcher.add("b", {"new": service("new")})
    launcher.wait_up(tag="new")
    assert not launcher.events_named("process-exited")
    for pid in pids.values():
        launcher.signal_inside(pid, signal.SIGUSR1)
    assert launcher.stop() == Exit(code=0)


def test_check_prints_what_is_merged(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"include": ["d/*.json"], "programs": {"a": {"command": ["true"]}}}))
    (tmp_path / "d").mkdir()
    (tmp_path / "d/1.json").write_text('{"programs":{"a":{"nice":1},"b":{"command":["false"]}}}')
    done = run_plainly("check", tmp_path / "config.json", "--merged")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"programs": {"a": {"command": ["true"], "nice": 1}, "b": {"command": ["false"]}}}
    (tmp_path / "d/1.json").write_text('{"programs":{"a":{"nice":"x"}}}')
    done = run_plainly("check", tmp_path / "config.json", "--merged")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"{tmp_path}/config.json: d/1.json: programs.a.nice: expected an integer, found string\n"


def test_a_fifo_and_a_device_hold_nothing_up(place):
    launcher = Layered(place, {"web": service("web")})
    launcher.wait_up(tag="web")
    directory = launcher.configuration.directory / "conf.d"
    directory.mkdir()
    os.mkfifo(directory / "a.json")
    errors = launcher.wait_for_event("configuration-rejected")["errors"]
    assert errors == ["conf.d/a.json: is empty"]
    (directory / "a.json").unlink()
    (directory / "b.json").symlink_to("/dev/zero")
    eventually(lambda: any("more than 1048576 bytes" in error for record in
                           launcher.events_named("configuration-rejected") for error in record["errors"]), "refusal")
    assert launcher.stop() == Exit(code=0)

"""A file system that hangs while the launcher starts: PID 1 answers, reaps and stops meanwhile, and what can run does."""

import json
import signal

import pytest

from harness.control import reach
from harness.fuse import fuse  # noqa: F401  pylint: disable=unused-import
from harness.process import Exit, eventually
from harness.programs import document, service

VERSION = "7.1.57"
HANGS = "looking at it takes longer than 10s: a file system does not answer"
FILTERED = pytest.mark.parametrize("filtered", [[], ["--deny-listmount"]], ids=["free", "filtered"])


class Started:
    """A launcher whose directory `far` is served by nobody yet."""

    def __init__(self, starter, area, fuse, *options, filtered=(), text=None):  # noqa: F811
        (area / "far").mkdir()
        self.area = area
        self.fuse = fuse
        how = fuse.place(area / "far")
        near = starter.configuration()
        near.write_text(text or document({"web": service("web")}))
        self.launcher = starter.start("--input-dir", near.directory, "--main-container-version", VERSION,
                                      "--control-socket", area / "control", *options, place=[*how["place"], *filtered],
                                      pass_fds=how["pass_fds"],
                                      env={"PATH": f"{starter.programs}:/usr/bin:/bin"})

    def __getattr__(self, name):
        return getattr(self.launcher, name)

    def assert_answers(self):
        """Clients are answered, though nothing runs yet."""
        client = reach(self.area / "control")
        assert client.call("GetStatus")["parameters"]["launcher"]["pid"] == 1
        client.close()

    def waits(self):
        """Whether a child of the launcher waits for the file system; the launcher itself must not."""
        return self.children_whose("wchan", lambda text: "fuse" in text or text.startswith("request_wait"))


def far_configuration(starter, area, fuse, *options, **how):  # noqa: F811
    fuse.make("config.json", document({"web": service("web")}).encode())
    return Started(starter, area, fuse, "--input-dir", area / "far", *options, **how)


@FILTERED
def test_a_configuration_that_hangs_for_a_while(as_pid1, area, fuse, filtered):  # noqa: F811
    launcher = far_configuration(as_pid1, area, fuse, filtered=filtered)
    launcher.assert_answers()
    eventually(launcher.waits, "a copy of the launcher reads it")
    fuse.begin(launcher)
    launcher.wait_up(tag="web")
    launcher.wait_for_event("configuration-loaded", processes=1)
    assert launcher.stop() == Exit(code=0)


def test_a_configuration_that_hangs_for_long(as_pid1, area, fuse):  # noqa: F811
    launcher = far_configuration(as_pid1, area, fuse)
    assert launcher.wait_for_event("configuration-rejected", timeout=20)["errors"] == [HANGS]
    launcher.assert_answers()
    fuse.begin(launcher)
    launcher.wait_up(tag="web", timeout=30)
    assert launcher.stop() == Exit(code=0)


def test_who_is_to_end_at_a_bad_configuration_does(as_pid1, area, fuse):  # noqa: F811
    launcher = far_configuration(as_pid1, area, fuse, "--exit-on-bad-config")
    assert launcher.wait_for_event("configuration-rejected", timeout=20)["errors"] == [HANGS]
    fuse.begin(launcher)  # the kernel does not let PID 1 end before who waits there
    assert launcher.wait() == Exit(code=1)


def test_a_stop_does_not_wait_for_it(as_pid1, area, fuse):  # noqa: F811
    launcher = far_configuration(as_pid1, area, fuse)
    launcher.assert_answers()
    assert launcher.stop() == Exit(code=143), "nothing has ever run"


@pytest.mark.parametrize("what", ["include", "environment", "binary"])
def test_what_a_configuration_names_may_hang(as_pid1, area, fuse, what):  # noqa: F811
    fuse.make("more.json", json.dumps({"programs": {"more": service("more")}}).encode())
    fuse.make("variables", b"A=1\n")
    programs = {"web": service("web")}
    options = []
    text = document(programs)
    if what == "include":
        text = document(programs, include=[f"{area}/far/more.json"])
    elif what == "environment":
        options = ["--additional-env-file", area / "far/variables"]
    else:
        text = document({**programs, "slow": {**service("slow"), "command": [f"{area}/far/none"]}})
    launcher = Started(as_pid1, area, fuse, *options, text=text)
    launcher.assert_answers()
    eventually(launcher.waits, "a copy of the launcher asks for it")
    fuse.begin(launcher)
    if what == "binary":
        errors = launcher.wait_for_event("configuration-rejected")["errors"]
        assert any("/far/none" in error for error in errors)
    else:
        launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=143 if what == "binary" else 0)


@FILTERED
def test_its_own_log_may_hang(as_pid1, area, fuse, filtered):  # noqa: F811
    """Programs run meanwhile, and the file has all lines in the end."""
    launcher = Started(as_pid1, area, fuse, "--log-path", area / "far/log", filtered=filtered)
    web = launcher.wait_up(tag="web")["pid"]
    launcher.assert_answers()
    launcher.signal_inside(web, signal.SIGKILL)
    launcher.wait_up(tag="web")
    fuse.begin(launcher)

    def told():
        return [json.loads(line)["event"] for line in (fuse.content("log") or "").splitlines()]
    eventually(lambda: "process-exited" in told(), "what was logged meanwhile is there")
    assert told()[0] == "launcher-started"
    assert launcher.stop() == Exit(code=0)
    assert told()[-1] == "launcher-stopped"


def test_a_file_system_that_answers_changes_nothing(as_pid1, area, fuse):  # noqa: F811
    """Even so it is a copy that looks first, and the log has its writer."""
    fuse.make("config.json", document({"web": service("web")}).encode())
    launcher = Started(as_pid1, area, fuse, "--log-path", area / "far/log")
    fuse.begin(launcher)
    launcher.wait_up(tag="web")
    launcher.wait_for_event("configuration-loaded", processes=1)
    assert launcher.stop() == Exit(code=0)

"""A file that is itself a mount point, as `-v ./config.json:/etc/x/config.json` makes it: its directory has no event when
somebody writes the file under its other name."""

import pytest

from harness.process import Exit, eventually
from harness.programs import document, service

pytestmark = pytest.mark.usefixtures("needs_root")


class Mounted:
    """A file outside, which is mounted over another one."""

    def __init__(self, area, name, text):
        self.outside = area / f"outside-{name}"
        self.inside = area / "mounted" / name
        self.inside.parent.mkdir(exist_ok=True)
        self.inside.write_text("")
        self.outside.write_text(text)
        self.place = ("--bind", f"{self.outside}:{self.inside}")


@pytest.fixture(name="start")
def make_start(place, area):
    """Starts a launcher whose configuration is mounted, beside other mounted files."""
    def start(programs, *mounted):
        configuration = Mounted(area, "config.json", document(programs))
        where = [word for one in (configuration, *mounted) for word in one.place]
        launcher = place.start("--input-dir", configuration.inside.parent, "--main-container-version", "1.0.0", "--control-socket",
                               "none", place=where, env={"PATH": f"{place.programs}:/usr/bin:/bin"})
        return configuration, launcher
    return start


def test_a_configuration(start):
    configuration, launcher = start({"web": service("one")})
    launcher.wait_up(tag="one")
    launcher.wait_for_event("configuration-loaded")
    configuration.outside.write_text(document({"web": service("two")}))
    launcher.wait_for_event("configuration-loaded")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("pattern", [False, True], ids=["path", "pattern"])
def test_files(start, area, pattern):
    data = Mounted(area, "data", "1")
    path = str(data.inside.parent / "da*") if pattern else str(data.inside)
    _, launcher = start({"web": service("web", files={"paths": [path], "quietTime": "10ms"})}, data)
    launcher.wait_up(tag="web")
    launcher.wait_for_event("configuration-loaded")
    data.outside.write_text("2")
    assert launcher.wait_for_event("files-changed")["path"] == path
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_an_environment_file(start, area):
    variables = Mounted(area, "variables", "discovery.type=1\n")
    _, launcher = start({"web": service("web", environmentFile=str(variables.inside))}, variables)
    launcher.wait_up(tag="web")
    launcher.wait_for_event("configuration-loaded")
    variables.outside.write_text("discovery.type=2\n")
    launcher.wait_for_event("configuration-loaded")
    assert launcher.stop() == Exit(code=0)


def test_a_sidecars_source(place, area):
    version = Mounted(area, "version", "7.3.63\n")
    (area / "bin").mkdir()
    (area / "bin" / "server").write_text("content\n")
    launcher = place.start("--mode", "sidecar", "--watch", "--binary-dir", area / "bin", "--output-dir", area / "out", "--version-file",
                           version.inside, "--copy-binary", "server", place=version.place)
    eventually((area / "out" / "bin" / "7.3.63" / "server").exists, "the first round")
    version.outside.write_text("7.4.1\n")
    eventually((area / "out" / "bin" / "7.4.1" / "server").exists, "the round after the change")
    assert launcher.stop() == Exit(code=0)

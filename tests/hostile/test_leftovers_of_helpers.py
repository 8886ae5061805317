"""What health checks, probes and hooks leave behind, also in a session of its own, ends with the command."""

import pytest

from harness.process import Exit, eventually
from harness.programs import run, service


def leaves(area, name, code=0):
    """A command that leaves a daemon behind, which adds its pid to a file."""
    daemon = f"setsid sh -c 'echo $$ >>{area}/{name}; exec sleep 1000' >/dev/null 2>&1 &"
    return ["sh", "-c", f"{daemon} while ! [ -s {area}/{name} ]; do sleep 0.01; done; exit {code}"]


def pids(path):
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.fixture(params=["auto", "none"], name="groups")
def with_groups(request):
    return "--cgroup", request.param


def test_health_checks(place, area, groups):
    launcher = run(place, {"web": service("web", health={"type": "exec", "command": leaves(area, "left"), "interval": "50ms"})}, *groups)
    launcher.wait_up(tag="web")
    eventually(lambda: len(pids(area / "left")) >= 3, "several checks have run")
    first, second = pids(area / "left")[:2]
    eventually(lambda: not launcher.is_alive(first) and not launcher.is_alive(second), "they end with their checks")
    assert launcher.stop() == Exit(code=0)


def test_a_probe_that_takes_too_long(place, area, groups):
    """It is killed, and so is what it has left behind."""
    hangs = leaves(area, "left")
    hangs[-1] = hangs[-1].replace("exit 0", "sleep 1000")
    launcher = run(place, {"web": service("web", readiness={"type": "exec", "command": hangs, "timeout": "2s", "interval": "60s"})}, *groups)
    launcher.wait_up(tag="web")
    left = eventually(lambda: pids(area / "left"), "the probe runs")
    eventually(lambda: not launcher.is_alive(left[0]), "it ends with its probe")
    assert launcher.stop() == Exit(code=0)


def test_hooks(place, area, groups):
    launcher = run(place, {"web": service("web", preStop={"command": leaves(area, "left")})}, *groups)
    launcher.wait_up(tag="web")
    launcher.ctl("stop", "web")
    left = pids(area / "left")
    assert len(left) == 1
    eventually(lambda: not launcher.is_alive(left[0]), "it ends with its hook")
    assert launcher.stop() == Exit(code=0)

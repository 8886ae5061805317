"""Container runtimes of 2019 to 2021: their filters refuse every system call that is newer than statx(2), with EPERM, which
tells nobody that the call is not there. An older kernel answers ENOSYS."""

import errno
import os

import pytest

from harness.agent import AGENT, Agent
from harness.process import BINARY, Exit, eventually, run_plainly
from harness.programs import document, service

needs_agent = pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason="TRITON_AGENT names no agent")


@pytest.fixture(name="old", params=["EPERM", "ENOSYS"])
def make_filter(request, programs):
    """The beginning of a command that runs under such a filter."""
    return programs / "oldfilter", str(getattr(errno, request.param))


def start(place, old, *arguments, **how):
    """A launcher under the filter."""
    program, error = old
    return place.start(error, place.binary, *arguments, binary=program, **how)


def test_a_version_with_its_binary(place, old):
    """Whether the binary can be executed is checked before a start."""
    configuration = place.configuration("trap", "say:up", "until:15")
    launcher = start(place, old, "--input-dir", configuration.directory, "--main-container-version", "1.0.0",
                     "--fdbserver-path", place.probe)
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_programs_are_found_and_followed(place, old, area):
    """A program by its name, in a root directory of its own, and its restart when a file changes."""
    if os.geteuid() != 0:
        pytest.skip("needs root: changes a root directory")
    root = area / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    (root / "usr" / "bin" / "probe").write_bytes(place.probe.read_bytes())
    (root / "usr" / "bin" / "probe").chmod(0o755)
    (root / "input").write_text("x")
    watched = area / "watched"
    watched.write_text("1")
    configuration = place.configuration()
    configuration.write_text(document({
        "plain": service("plain", files={"paths": [str(watched)], "quietTime": "10ms"}),
        "rooted": {"command": ["/bin/probe", "exit:0"], "rootDirectory": str(root), "stdin": {"file": "/input"}, "restart": "never"},
    }))
    control = area / "control"
    launcher = start(place, old, "--input-dir", configuration.directory, "--main-container-version", "1.0.0", "--control-socket", control,
                     env={"PATH": f"{place.programs}:/usr/bin:/bin"})
    launcher.wait_up(tag="plain")
    launcher.wait_for_event("process-exited", program="rooted", exit_code=0)
    watched.write_text("2")
    launcher.wait_up(tag="plain")
    done = run_plainly("ctl", "--socket", control, "status")
    assert done.returncode == 0 and "plain" in done.stdout, done
    assert launcher.stop() == Exit(code=0)


def test_init_mode_copies(old, area):
    (area / "bin").mkdir()
    (area / "bin" / "server").write_text("content\n")
    (area / "version").write_text("7.3.63\n")
    program, error = old
    done = run_plainly(error, BINARY, "--mode", "init", "--binary-dir", area / "bin", "--output-dir", area / "out",
                       "--version-file", area / "version", "--copy-binary", "server", binary=program)
    assert done.returncode == 0, done
    assert (area / "out" / "7.3" / "server").read_text() == "content\n"


@needs_agent
def test_the_agent_has_threads_and_serves_files(old, area):
    """libc makes threads by clone3(2), and the agent confines what it serves by openat2(2)."""
    (area / "out").mkdir()
    (area / "out" / "real").write_text("served")
    (area / "out" / "link").symlink_to("real")
    (area / "out" / "escape").symlink_to("/etc/passwd")
    agent = Agent("--output-dir", area / "out", wrapper=old)
    try:
        assert agent.get("/healthz")[0] == 200
        assert agent.get("/check_hash/link")[0] == 200
        assert agent.get("/check_hash/escape")[0] != 200
        assert agent.stop() == Exit(code=0)
    finally:
        agent.close()


@needs_agent
def test_the_agent_beside_a_launcher(place, old):
    """As it is started in a container."""
    configuration = place.configuration("trap", "say:up", "until:15")
    launcher = start(place, old, "--input-dir", configuration.directory, "--main-container-version", "1.0.0", "--fdbserver-path",
                     place.probe, "--listen", "127.0.0.1:0", "--agent-path", AGENT)
    launcher.wait_up()
    eventually(lambda: launcher.wait_for_event("listening"), "the agent listens")
    assert launcher.stop() == Exit(code=0)

"""Programs whose files change: restarts and signals, however the files are replaced."""

import json
import os

import pytest

from harness.process import Exit
from harness.programs import run, service

HUP = 1


def write(path, text):
    path.write_text(text)


def replace(path, text):
    other = path.with_name("other")
    other.write_text(text)
    other.rename(path)


def touch(path, _text):
    os.utime(path)


def files(*paths, quiet="20ms", **keys):
    return {"paths": [str(path) for path in paths], "quietTime": quiet, **keys}


@pytest.mark.parametrize("change", [write, replace, touch])
def test_a_change_restarts(place, change):
    path = place.area / "cert.pem"
    path.write_text("one")
    launcher = run(place, {"web": service("web", files=files(path)), "other": service("other")})
    launcher.wait_up(tag="web")
    launcher.wait_up(tag="other")
    change(path, "two")
    changed = launcher.wait_for_event("files-changed", program="web")
    assert (changed["path"], changed["action"]) == (str(path), "restart")
    assert changed["message"] == f"{path} has changed: restarting web"
    launcher.wait_up(tag="web")
    assert not launcher.events_named("process-exited", program="other")
    assert launcher.stop() == Exit(code=0)


def test_a_burst_is_one_change(place):
    path = place.area / "data"
    launcher = run(place, {"web": service("web", files=files(path, quiet="200ms"))})
    launcher.wait_up(tag="web")
    for number in range(50):
        write(path, str(number))
    launcher.wait_for_event("files-changed", program="web")
    launcher.wait_up(tag="web")
    launcher.quiet_for(0.4)
    assert len(launcher.events_named("files-changed")) == 1
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("name", ["cert.pem", "*.pem", "", "."])
def test_a_mounted_secret(place, name):
    """As the kubelet replaces it: a directory for each version, and one link that is swapped."""
    mount = place.area / "secret"
    (mount / "v1").mkdir(parents=True)
    (mount / "v1/cert.pem").write_text("one")
    (mount / "..data").symlink_to("v1")
    (mount / "cert.pem").symlink_to("..data/cert.pem")
    launcher = run(place, {"web": service("web", files=files(f"{mount}/{name}", action="signal"), reloadSignal="HUP")})
    pid = launcher.wait_up(tag="web")["pid"]
    for version in ("v2", "v3"):
        (mount / version).mkdir()
        (mount / version / "cert.pem").write_text(version)
        (mount / "..data_tmp").symlink_to(version)
        (mount / "..data_tmp").rename(mount / "..data")
        assert launcher.wait_for_event("files-changed", program="web")["action"] == "signal"
        assert launcher.wait_for_probe("signal", signal=HUP)["pid"] == pid
    assert launcher.stop() == Exit(code=0)


def test_a_pattern_in_the_name_of_a_directory_is_refused(place):
    launcher = run(place, {"web": service("web")})
    launcher.wait_up(tag="web")
    for path in ("/etc/*/tls.crt", "/etc/conf.d/[a-z]/"):
        assert launcher.reject({"web": service("web", files=files(path))}) == [
            f'programs.web.files.paths[0]: "{path}" has a pattern in the name of a directory: only its last part may be one']
    assert launcher.stop() == Exit(code=0)


def test_what_is_gone_is_waited_for(place):
    """Removed first and written later, as some tools replace a file."""
    path, other = place.area / "cert.pem", place.area / "key.pem"
    path.write_text("one")
    other.write_text("one")
    launcher = run(place, {"web": service("web", files=files(path, other))}, "--log-level", "debug")
    launcher.wait_up(tag="web")
    path.unlink()
    write(other, "two")
    launcher.wait_for_event("files-missing", program="web", path=str(path))
    assert not launcher.events_named("files-changed")
    path.write_text("two")
    launcher.wait_for_event("files-changed", program="web")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_patterns_and_what_is_held(place):
    directory = place.area / "certs"
    directory.mkdir()
    launcher = run(place, {"web": service("web", files=files(directory / "*.pem")),
                           "held": service("held", autoStart=False, files=files(directory / "*.pem"))})
    launcher.wait_up(tag="web")
    (directory / "a.txt").write_text("nothing of ours")
    (directory / "a.pem").write_text("new")
    launcher.wait_for_event("files-changed", program="web")
    launcher.wait_up(tag="web")
    launcher.wait_for_event("files-changed", program="held")
    held = json.loads(launcher.ctl("status", "held", "--json"))["programs"][0]["processes"][0]
    assert held["state"] == "held"
    assert launcher.stop() == Exit(code=0)


def test_a_new_configuration_watches_for_itself(place):
    one, two = place.area / "one", place.area / "two"
    launcher = run(place, {"web": service("web", files=files(one))})
    launcher.wait_up(tag="web")
    launcher.wait_for_event("configuration-loaded")
    launcher.replace({"web": service("web", files=files(two))})
    launcher.wait_for_event("configuration-loaded")
    one.write_text("not any more")
    two.write_text("now")
    assert launcher.wait_for_event("files-changed")["path"] == str(two)
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


def test_a_change_is_not_lost_in_an_upgrade(place):
    """Its quiet time has begun and not passed when the launcher becomes another one."""
    path = place.area / "cert.pem"
    path.write_text("one")
    launcher = run(place, {"web": service("web", files=files(path, quiet="2s"))})
    launcher.wait_started(tag="web")
    path.write_text("two")
    launcher.ctl("upgrade", place.binary)
    assert not launcher.events_named("files-changed"), "the machine is too slow for this test"
    launcher.wait_for_event("files-changed", program="web", path=str(path))
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("watched", ["cert.pem", "*.pem"])
@pytest.mark.parametrize("command", ["echo two >{0}", "echo two >{0}.new; mv {0}.new {0}", "true"])
def test_a_change_while_nobody_watches(place, command, watched):
    """Between the last look of the former launcher and the first of the new one: here in the new one's own start."""
    path = place.area / "cert.pem"
    path.write_text("one")
    new = place.area / "new"
    new.write_text(f'#!/bin/sh\n[ "$1" = upgrade-check ] || {{ {command.format(path)}; }}\nexec {place.binary} "$@"\n')
    new.chmod(0o755)
    launcher = run(place, {"web": service("web", files=files(place.area / watched))})
    launcher.wait_started(tag="web")
    launcher.ctl("upgrade", new)
    if command != "true":
        launcher.wait_for_event("files-changed", program="web", path=str(place.area / watched))
        launcher.wait_up(tag="web")
    launcher.quiet_for(0.2, launcher.probe)
    assert launcher.stop() == Exit(code=0)
    assert len(launcher.events_named("files-changed")) == (command != "true")


def test_a_change_that_waits_for_a_missing_file_is_not_lost_in_an_upgrade(place):
    cert, key = place.area / "cert.pem", place.area / "key.pem"
    cert.write_text("one")
    key.write_text("one")
    launcher = run(place, {"web": service("web", files=files(cert, key))}, "--log-level", "debug")
    launcher.wait_started(tag="web")
    key.unlink()
    cert.write_text("two")
    launcher.wait_for_event("files-missing", program="web")
    launcher.ctl("upgrade", place.binary)
    key.write_text("two")
    launcher.wait_for_event("files-changed", program="web")
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)

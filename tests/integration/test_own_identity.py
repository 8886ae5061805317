"""Programs whose user the launcher already is, where it may not change its supplementary groups: a pod with fsGroup."""

import shutil

import pytest

from harness.process import Exit
from harness.programs import document, probe

OWN, GROUP, EXTRA = 4071, 4072, 4073


@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize("keys", [{"user": OWN, "group": GROUP}, {"group": GROUP}], ids=["user", "group"])
def test_the_groups_stay_with_a_remark(place, keys):
    if not (setpriv := shutil.which("setpriv")):
        pytest.skip("needs setpriv, which gives a process other groups")
    configuration = place.configuration()
    configuration.write_text(document({"web": {"command": ["/bin/sh", "-c", "test \"$(id -G)\" = '4072 4073' && exec probe tag:web say:up pause"], **keys},
                                       "up": probe("tag:up", "say:up", "pause")}))
    place.area.chmod(0o777)
    launcher = place.start("--reuid", OWN, "--regid", GROUP, "--groups", EXTRA, "--", place.binary, "--input-dir",
                           configuration.directory, "--main-container-version", "1.0.0", "--control-socket", "none",
                           binary=setpriv, env={"PATH": f"{place.programs}:/usr/bin:/bin"})
    launcher.wait_for_event("configuration-loaded")
    launcher.wait_up(tag="up")
    key = next(iter(keys))
    told = [record["message"] for record in launcher.events.all if "supplementary groups" in record["message"]]
    assert told == [f"programs.web.{key}: is the launcher's own, so its supplementary groups stay, which cannot be changed here "
                    "(that needs CAP_SETGID)"]
    launcher.wait_up(tag="web")
    assert launcher.stop() == Exit(code=0)
    assert not launcher.events_named("process-exited", exit_code=1)


@pytest.mark.usefixtures("needs_root")
def test_groups_that_are_asked_for_are_not_left_out(place):
    if not (setpriv := shutil.which("setpriv")):
        pytest.skip("needs setpriv, which gives a process other groups")
    configuration = place.configuration()
    configuration.write_text(document({"web": {"command": ["true"], "user": OWN, "group": GROUP, "supplementaryGroups": []}}))
    launcher = place.start("--reuid", OWN, "--regid", GROUP, "--groups", EXTRA, "--", place.binary, "--input-dir",
                           configuration.directory, "--main-container-version", "1.0.0", "--control-socket", "none", binary=setpriv)
    errors = launcher.wait_for_event("configuration-rejected")["errors"]
    assert errors == ["programs.web.supplementaryGroups: cannot set the supplementary groups: Operation not permitted (it needs "
                      "CAP_SETGID)"]
    launcher.close()

"""Both modes: any user, no file system to speak of, no /proc, and nothing to do."""

import shutil

from harness.process import Configuration, Exit, eventually

UP = ("trap", "say:up", "until:15")


def modes(starter, **how):
    """One launcher in each mode, that runs UP."""
    yield starter.wrap("report", *UP, **how)
    yield starter.launch(starter.configuration("report", *UP), **how)


def test_any_user(place, needs_root):
    for launcher in modes(place, place=["--uid", "48152"]):
        assert launcher.wait_for_probe("report")["uid"] == 48152
        launcher.wait_up()
        assert launcher.stop() == Exit(code=0)
        launcher.close()


def test_read_only_root(place, needs_root):
    """We need no writable path at all."""
    for launcher in modes(place, place=["--read-only"]):
        launcher.wait_up()
        assert launcher.stop() == Exit(code=0)
        launcher.close()


def test_hidden_proc(place, needs_static):
    """Pitfall 19: hidepid, another namespace's /proc, or none. (A sanitizer even reads its options there.)"""
    for launcher in modes(place, place=["--hide-proc"]):
        launcher.wait_up()
        assert launcher.stop() == Exit(code=0)
        launcher.close()


def scratch(starter):
    """A root directory that holds the binary, a program and its configuration, and nothing else."""
    root = starter.area / "root"
    (root / "conf").mkdir(parents=True)
    shutil.copy(starter.binary, root / "triton-launch")
    shutil.copy(starter.probe, root / "probe")
    Configuration(root / "conf").write("report", *UP)
    return ["--root", str(root), "--uid", "48153"]


def test_from_scratch(place, needs_static, needs_root):
    """FROM scratch: no libc, no shell, no /proc, no /dev, not root."""
    inside = scratch(place)
    launcher = place.start("--", "/probe", "report", *UP, binary="/triton-launch", place=inside)
    assert launcher.wait_for_probe("report")["cwd"] == "/"
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)
    launcher.close()
    launcher = place.start("--input-dir", "/conf", "--main-container-version", "1.0.0", "--fdbserver-path", "/probe",
                           binary="/triton-launch", place=inside)
    assert launcher.wait_for_probe("report")["fds"] == [0, 1, 2]
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_script_without_a_shell_from_scratch(place, needs_static, needs_root):
    inside = scratch(place)
    script = place.area / "root" / "script"
    script.write_text("exit 0\n")
    script.chmod(0o755)
    launcher = place.start("--", "/script", binary="/triton-launch", place=inside)
    assert launcher.wait() == Exit(code=126)
    assert "/script" in launcher.errors()


def test_nothing_to_do_means_no_wake_up(as_pid1, as_child):
    """Pitfall 20: tini wakes every second; we never do: wrapped, launching, and waiting for a configuration."""
    launchers = []

    def launch(starter, configuration, *options):
        # Not at the default path, where each launcher that starts looks whether another one answers.
        return starter.launch(configuration, *options, "--control-socket", starter.area / f"control{len(launchers)}")
    for starter in (as_pid1, as_child):
        for count in (1, 100):
            launcher = launch(starter, starter.configuration(*UP), "--server-count", str(count))
            for number in range(1, count + 1):
                launcher.wait_up(n=number)
            launchers.append(launcher)
        launchers.append(starter.wrap(*UP))
        launchers[-1].wait_up()
        launchers.append(launch(starter, starter.configuration()))
        launchers[-1].wait_for_event("waiting-for-configuration")

    def switches():
        return [launcher.switches() for launcher in launchers]

    def settled():
        before = switches()
        launchers[0].quiet_for(1, launchers[0].probe)
        return switches() == before
    eventually(settled, "what follows a start is done")
    before = switches()
    launchers[0].quiet_for(2, launchers[0].probe)
    assert switches() == before


def test_one_thread(place):
    for launcher in modes(place):
        launcher.wait_up()
        assert launcher.status()["Threads"] == "1"
        launcher.close()

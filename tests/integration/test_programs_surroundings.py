"""Programs: environment, identity, limits and sandbox, as the process itself sees them."""

import errno
import resource

import pytest

from harness.process import Exit, eventually, status_of
from harness.programs import probe, run, service


def reported(place, *, steps=(), env=None, **keys):
    """Starts one program with these keys; returns its launcher and its report."""
    launcher = run(place, {"web": probe("trap", "report", *steps, "say:up", "until:15", **keys)}, env=env)
    report = launcher.wait_for_probe("report")
    launcher.wait_up()
    return launcher, report


NAMES = "A B C D PATH"


def test_environment_is_inherited_and_extended(place):
    web = {"A": "own", "N": "x", "B": {"type": "Concatenate", "values": ["n", {"type": "ProcessNumber"}]},
           "PROBE_ENV": NAMES}
    launcher = run(place, {"web": probe("trap", "report", "until:15", count=2, environment=web)},
                   env={"A": "ours", "C": "ours"})
    seen = [launcher.wait_for_probe("report")["env"] for _ in range(2)]
    assert sorted(env.pop("B") for env in seen) == ["n1", "n2"]
    for env in seen:
        assert (env["A"], env["C"]) == ("own", "ours") and env["PATH"]
    assert launcher.stop() == Exit(code=0)


def test_a_clean_environment(place):
    probe_out = {"type": "Environment", "source": "PROBE_OUT"}
    launcher = run(place, {"web": {"command": [str(place.probe), "trap", "report", "until:15"],
                                   "environmentFrom": "clean",
                                   "environment": {"PROBE_OUT": probe_out, "PROBE_ENV": NAMES, "A": "x"}}},
                   env={"C": "ours"})
    assert launcher.wait_for_probe("report")["env"] == {"A": "x"}
    assert launcher.stop() == Exit(code=0)


def test_some_of_our_environment(place):
    launcher = run(place, {"web": probe("trap", "report", "until:15",
                                        environmentFrom=["PATH", "PROBE_OUT", "C", "MISSING"],
                                        environment={"PROBE_ENV": NAMES})}, env={"C": "ours", "D": "ours"})
    assert launcher.wait_for_probe("report")["env"].keys() == {"C", "PATH"}
    assert launcher.stop() == Exit(code=0)


def test_standard_input_is_empty(place):
    launcher = run(place, {"web": {"command": ["sh", "-c", "read line || exec probe say:up pause"]}})
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_working_directory_and_umask(place):
    launcher, report = reported(place, workingDirectory="/usr", umask="0027")
    assert (report["cwd"], report["umask"]) == ("/usr", 0o027)
    assert launcher.stop() == Exit(code=0)


def test_a_working_directory_that_is_not_there(place):
    launcher = run(place, {"web": probe("pause", workingDirectory="/nonexistent")}, "--restart-delay", "20s")
    failed = launcher.wait_for_event("process-start-failed", program="web")
    assert failed["errno"] in (errno.ENOENT, "ENOENT") and "/nonexistent" in failed["error"]
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("user, group, uid, gid, groups", [
    ("daemon", None, 1, 1, {1}),
    (65534, 65534, 65534, 65534, set()),
    ("daemon", "mail", 1, 8, None),
    (None, "mail", 0, 8, None),
])
def test_user_and_group(place, needs_root, user, group, uid, gid, groups):
    keys = {key: value for key, value in (("user", user), ("group", group)) if value is not None}
    launcher, report = reported(place, **keys)
    status = status_of(launcher.proc(report["pid"]))
    assert status["Uid"].split() == [str(uid)] * 4
    assert status["Gid"].split() == [str(gid)] * 4
    if groups is not None:
        assert set(map(int, status["Groups"].split())) <= groups
    assert launcher.stop() == Exit(code=0)


def test_supplementary_groups(place, needs_root):
    launcher, report = reported(place, user="daemon", supplementaryGroups=["mail", 4242])
    assert status_of(launcher.proc(report["pid"]))["Groups"].split() == ["8", "4242"]
    assert launcher.stop() == Exit(code=0)


def test_readiness_of_another_user(place, needs_root):
    """It reaches its notify socket, though only it may."""
    place.area.chmod(0o755)
    launcher = run(place, {"web": probe("trap", "notify:READY=1", "until:15", user="daemon",
                                        readiness={"type": "notify"})})
    launcher.wait_for_event("process-ready", program="web")
    assert launcher.stop() == Exit(code=0)


def test_limits_nice_and_oom_score(place, needs_root):
    launcher, report = reported(place, limits={"nofile": 77, "core": 0, "nproc": 1000,
                                               "fsize": {"soft": "1Mi", "hard": "2Mi"}}, nice=5, oomScoreAdj=123)
    assert (report["files"], report["nice"], report["oom"].strip()) == (77, 5, "123")
    limits = (launcher.proc(report["pid"]) / "limits").read_text()
    rows = {line[:26].strip(): line[26:].split()[:2] for line in limits.splitlines()[1:]}
    assert rows["Max open files"] == ["77", "77"]
    assert rows["Max core file size"] == ["0", "0"]
    assert rows["Max file size"] == [str(1 << 20), str(2 << 20)]
    assert rows["Max processes"] == ["1000", "1000"]
    assert launcher.stop() == Exit(code=0)


def test_the_descriptor_limit_is_that_of_the_launcher(place):
    """It raises its own for its pipes; what it starts never sees that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        pytest.skip("the soft limit is the hard one here")
    launcher, report = reported(place)
    assert report["files"] == soft
    assert launcher.stop() == Exit(code=0)


def test_cpu_affinity(place):
    launcher, report = reported(place, cpuAffinity="0")
    assert status_of(launcher.proc(report["pid"]))["Cpus_allowed_list"] == "0"
    assert launcher.stop() == Exit(code=0)


def test_capabilities(place, needs_root):
    launcher, report = reported(place, user="daemon", capabilities={"bounding": ["CAP_NET_BIND_SERVICE", "chown"],
                                                                    "ambient": ["net_bind_service"]})
    status = status_of(launcher.proc(report["pid"]))
    net_bind, chown = 1 << 10, 1 << 0
    assert int(status["CapBnd"], 16) == net_bind | chown
    assert int(status["CapAmb"], 16) == int(status["CapEff"], 16) == int(status["CapPrm"], 16) == net_bind
    assert launcher.stop() == Exit(code=0)


def test_no_capabilities_at_all(place, needs_root):
    launcher, report = reported(place, capabilities={"bounding": []}, noNewPrivileges=True)
    status = status_of(launcher.proc(report["pid"]))
    assert int(status["CapBnd"], 16) == 0 and status["NoNewPrivs"] == "1"
    assert launcher.stop() == Exit(code=0)


def test_seccomp(place, needs_root):
    launcher, report = reported(place, steps=("call:getpid", "call:chroot"),
                                seccomp={"profile": "none", "deny": ["chroot"]})
    assert launcher.wait_for_probe("say", text=lambda text: text.startswith("getpid"))["text"] == "getpid ok"
    assert launcher.wait_for_probe("say", text=lambda text: text.startswith("chroot"))["text"] == "chroot errno 1"
    status = status_of(launcher.proc(report["pid"]))
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("profile", ["default", "strict"])
def test_seccomp_profiles_let_an_ordinary_program_live(place, profile):
    launcher = run(place, {"web": {"command": ["sh", "-c", "probe say:up; exec probe trap until:15"],
                                   "seccomp": {"profile": profile}}})
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_seccomp_kill(place):
    launcher = run(place, {"web": probe("say:up", "call:sethostname", restart="never",
                                        seccomp={"profile": "none", "deny": ["sethostname"], "action": "kill"}),
                           "other": service("other")})
    assert launcher.wait_for_event("process-exited", program="web")["signal"] == 31
    assert launcher.stop() == Exit(code=0)


def test_landlock(place):
    allowed, denied = place.area / "allowed", place.area / "denied"
    for directory in (allowed, denied):
        directory.mkdir(mode=0o777)
    script = f"echo x > {allowed}/file; echo x > {denied}/file; cat {denied}/other; exec probe say:up pause"
    (denied / "other").write_text("secret\n")
    launcher = run(place, {"web": {"command": ["sh", "-c", script], "landlock": {
        "readOnly": ["/proc"], "readWrite": [str(allowed), "/dev", *map(str, place.area.glob("probe.*"))],
        "execute": ["/usr", "/lib", "/lib64", "/bin", str(place.programs)]}}})
    answer = launcher.wait_for(launcher.events, {"event": lambda event: event in ("configuration-loaded",
                                                                                  "configuration-rejected")})
    if answer["event"] == "configuration-rejected":
        assert "landlock" in answer["errors"][0]
        pytest.skip("this kernel has no Landlock")
    started = eventually(lambda: (allowed / "file").exists() and (allowed / "file").read_text(), "what is allowed")
    assert started == "x\n" and not (denied / "file").exists()
    assert "secret" not in launcher.errors()
    assert launcher.stop() == Exit(code=0)


def test_helpers_have_the_identity_of_their_program(place, needs_root):
    launcher = run(place, {"web": service("web", user="daemon", workingDirectory="/usr", umask="0077", readiness={
        "type": "exec", "command": ["probe", "tag:probe", "report"], "interval": "10ms"})})
    report = launcher.wait_for_probe("report", tag="probe")
    assert (report["uid"], report["cwd"], report["umask"]) == (1, "/usr", 0o077)
    launcher.wait_for_event("process-ready")
    assert launcher.stop() == Exit(code=0)


def test_each_process_has_a_group_and_default_signals(place):
    launcher, report = reported(place)
    assert report["pgid"] == report["pid"] and report["ignored"] == 0 and report["fds"] == [0, 1, 2]
    assert launcher.stop() == Exit(code=0)


def test_no_signal_is_ignored_that_the_launcher_was_started_with(place):
    """As a script starts what it puts in the background, and nohup, and many a supervisor."""
    hook = ["probe", "tag:hook", "report"]
    launcher = run(place, {"web": probe("trap", "report", "say:up", "until:15", preStop={"command": hook})},
                   where=["--ignore", "1", "--ignore", "2", "--ignore", "3", "--ignore", "13", "--ignore", "17"])
    assert launcher.wait_for_probe("report")["ignored"] == 0
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)
    assert launcher.wait_for_probe("report", tag="hook")["ignored"] == 0


def test_the_program_of_a_version(place):
    """Without a command it is the binary of the design's form."""
    launcher = run(place, {"web": {"version": "1.0.0", "arguments": ["trap", "say:up", "until:15"]}},
                   "--fdbserver-path", place.probe)
    launcher.wait_up()
    launcher.wait_for_event("process-started", program="web", process=1)
    assert launcher.stop() == Exit(code=0)

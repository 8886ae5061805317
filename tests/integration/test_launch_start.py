"""Launch mode: which processes start, with which arguments, environment and descriptors."""

import errno
import json
import os
import signal
import time

import pytest

from harness.process import NICE, VERSION, Configuration, Exit, eventually, many_files, wait_readable

UP = ("trap", "say:up", "until:15")


def test_processes_start_with_their_numbers(place):
    configuration = place.configuration("report", *UP)
    launcher = place.launch(configuration, "--server-count", "3")
    pids = {number: launcher.wait_for_event("process-started", process=number)["pid"] for number in (1, 2, 3)}
    for number, pid in pids.items():
        report = launcher.wait_for_probe("report", n=number)
        assert report["pid"] == pid
        assert report["argv"] == [str(place.probe), f"n:{number}", "report", *UP]
    loaded = launcher.wait_for_event("configuration-loaded")
    assert (loaded["version"], loaded["processes"], loaded["binary"], loaded["path"]) == (
        VERSION, 3, str(place.probe), str(configuration.path))
    started = launcher.wait_for_event("launcher-started")
    assert started["pid1"] is place.pid1
    assert started["pid"] == (1 if place.pid1 else 2)
    assert started["version"].startswith("0.1.0")


def test_records_have_time_level_event_and_message(place):
    launcher = place.launch(place.configuration(*UP))
    launcher.wait_up()
    launcher.stop()
    assert [record["event"] for record in launcher.events.all][-1] == "launcher-stopped"
    for record in launcher.events.all:
        assert record["level"] in ("trace", "debug", "info", "warning", "error")
        assert len(record["time"]) == len("2026-11-21T08:00:00.123456Z") and record["time"].endswith("Z")
        assert record["message"]


def test_children_inherit_exactly_the_standard_descriptors(place):
    """Pitfall 7: whatever was open when we were started, and whatever we opened."""
    launcher = place.launch(place.configuration("report", *UP), "--log-path", place.area / "log", "--server-count", "2",
                            place=["--fd", "7", "--fd", "100"], env={"NOTIFY_SOCKET": "@nobody-listens-here"})
    for number in (1, 2):
        report = launcher.wait_for_probe("report", n=number)
        assert report["fds"] == [0, 1, 2]
        assert report["nonblocking"] == [], "O_NONBLOCK belongs to the open file, which is the children's too"
    launcher.signal_inside(launcher.wait_up(n=1)["pid"], signal.SIGKILL)
    assert launcher.wait_for_probe("report", n=1)["fds"] == [0, 1, 2], "a restarted one inherits no more"


@pytest.mark.parametrize("closed", [["0"], ["1"], ["2"], ["0", "1", "2"]], ids=",".join)
def test_closed_standard_descriptors_break_nothing(place, closed):
    """What we open ourselves must not become a child's standard stream."""
    options = [word for fd in closed for word in ("--close", fd)]
    launcher = place.launch(place.configuration("report", *UP), place=options)
    assert launcher.wait_for_probe("report")["fds"] == [0, 1, 2]
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_no_loop_over_all_descriptors(place):
    """Pitfall 8: RLIMIT_NOFILE of 2^30 must not cost minutes."""
    launcher = place.launch(place.configuration("report", *UP), place=["--deny-far-close", "--fd", "9", *many_files()])
    assert launcher.wait_for_probe("report")["files"] > 4096
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_children_start_with_the_inherited_signal_state(place):
    """Pitfall 7."""
    launcher = place.launch(place.configuration("report", *UP),
                            place=["--ignore", "13", "--ignore", "22", "--ignore", "17", "--block", "10", "--block",
                                   "40"])
    report = launcher.wait_for_probe("report")
    assert report["ignored"] == (1 << 12) | (1 << 21) | (1 << 16)
    assert report["blocked"] == (1 << 9) | (1 << 39)


def test_children_start_with_the_inherited_limits(place):
    """Pitfall 7: limits, niceness, OOM score, umask, directory."""
    launcher = place.launch(place.configuration("report", *UP),
                            place=["--files", "123", "--nice", NICE, "--oom", "321", "--umask", "0137", "--directory",
                                   "/tmp"])
    report = launcher.wait_for_probe("report")
    assert (report["files"], report["nice"], report["oom"].strip()) == (123, int(NICE), "321")
    assert (report["umask"], report["cwd"]) == (0o137, "/tmp")


def test_cgroup_stays(place):
    """Pitfall 23: a cgroup that others share is not ours to change."""
    report = place.launch(place.configuration("report", *UP)).wait_for_probe("report")
    with open("/proc/self/cgroup", encoding="ascii") as own:
        assert report["cgroup"] == own.read()


def test_environment_passes_through(place):
    launcher = place.launch(place.configuration("report", *UP),
                            env={"A": "b=c", "EMPTY": "", "TRITON_LAUNCH_LOG_LEVEL": "debug", "PROBE_ENV": "A EMPTY"})
    assert launcher.wait_for_probe("report")["env"] == {"A": "b=c", "EMPTY": ""}


def test_socket_activation_of_ours_is_not_the_childrens(place):
    """The descriptors are closed for them, so the variables that speak of them would be a lie."""
    launcher = place.launch(place.configuration("report", *UP), place=["--fd", "3"],
                            env={"LISTEN_FDS": "1", "LISTEN_PID": "1", "PROBE_ENV": "LISTEN_FDS LISTEN_PID"})
    report = launcher.wait_for_probe("report")
    assert report["env"] == {} and report["fds"] == [0, 1, 2]


def test_the_designs_example(place):
    """The example of the source design yields exactly its two command lines."""
    def environment(source):
        return {"type": "Environment", "source": source}

    def concatenation(*values):
        return {"type": "Concatenate", "values": list(values)}

    port = {"type": "ProcessNumber", "offset": 4498, "multiplier": 2}
    number = {"type": "ProcessNumber"}
    document = {"version": "6.3.0", "arguments": [
        {"value": "--public_address"},
        concatenation(environment("FDB_PUBLIC_IP"), {"value": ":"}, port, {"value": ":tls"}),
        {"value": "--listen_address"},
        concatenation(environment("FDB_POD_IP"), {"value": ":"}, port, {"value": ":tls"}),
        {"value": "--datadir"}, concatenation({"value": "/var/fdb/data/"}, number),
        {"value": "--class"}, {"value": "storage"},
        {"value": "--locality_zoneid"}, environment("FDB_ZONE_ID"),
        {"value": "--locality_instance-id"}, environment("FDB_INSTANCE_ID"),
        {"value": "--locality_process-id"}, concatenation(environment("FDB_INSTANCE_ID"), {"value": "-"}, number)]}
    server = place.area / "fdbserver"
    server.write_text(f'#!/bin/sh\nPROBE_ENV=LINE LINE="$0 $*" exec {place.probe} report pause\n')
    server.chmod(0o755)
    configuration = place.configuration()
    configuration.write_text(json.dumps(document))
    launcher = place.start("--mode", "launch", "--input-dir", configuration.directory, "--main-container-version",
                           "6.3.0", "--fdbserver-path", server, "--server-count", "2",
                           env={"FDB_PUBLIC_IP": "10.0.0.1", "FDB_POD_IP": "192.168.0.1", "FDB_ZONE_ID": "zone1",
                                "FDB_INSTANCE_ID": "storage-1"})
    lines = sorted(launcher.wait_for_probe("report")["env"]["LINE"] for _ in range(2))
    assert lines == [
        f"{server} --public_address 10.0.0.1:{port}:tls --listen_address 192.168.0.1:{port}:tls "
        f"--datadir /var/fdb/data/{n} --class storage --locality_zoneid zone1 --locality_instance-id storage-1 "
        f"--locality_process-id storage-1-{n}"
        for n, port in ((1, 4500), (2, 4502))]


@pytest.mark.parametrize("line", ["NAME=from file", "export NAME=from file", "# comment\n\nNAME=from file\r"])
def test_additional_environment_file(place, line):
    """Both the design's lines and the shipped ones; values are for substitution only unless exported."""
    file = place.area / "env"
    file.write_text(line + "\n")
    argument = {"type": "Concatenate", "values": [{"value": "say:"}, {"type": "Environment", "source": "NAME"}]}
    for option, exported in (([], "from environment"), (["--export-env-file"], "from file")):
        launcher = place.launch(place.configuration("report", argument, *UP), "--additional-env-file", file, *option,
                                env={"NAME": "from environment", "PROBE_ENV": "NAME"})
        assert launcher.wait_for_probe("report")["env"] == {"NAME": exported}
        launcher.wait_for_probe("say", text="from file")
        launcher.close()


@pytest.mark.parametrize("layout", ["bin/2.0.0", "2.0.0"])
def test_binary_of_another_version_comes_from_the_shared_directory(place, layout):
    shared = place.area / "shared" / layout
    shared.mkdir(parents=True)
    (shared / "probe").symlink_to(place.probe)
    launcher = place.launch(place.configuration("report", *UP, version="2.0.0"), "--shared-binary-dir",
                            place.area / "shared")
    assert launcher.wait_for_event("configuration-loaded")["binary"] == str(shared / "probe")
    assert launcher.wait_for_probe("report")["argv"][0] == str(shared / "probe")


def test_version_match_by_protocol_uses_the_own_binary_for_a_patch(place):
    launcher = place.launch(place.configuration("report", *UP, version="1.0.7"), "--version-match", "protocol")
    assert launcher.wait_for_probe("report")["argv"][0] == str(place.probe)


def test_version_from_a_file(place):
    file = place.area / "version"
    file.write_text(f"\n {VERSION} \n")
    launcher = place.start("--mode", "launcher", "--input-dir", place.configuration(*UP).directory, "--version-file",
                           file, "--binary-path", place.probe, "--process-count", "2")
    launcher.wait_up(n=1)
    launcher.wait_up(n=2)


def test_every_flag_works_as_an_environment_variable(place):
    configuration = place.configuration(*UP)
    launcher = place.start(env={"TRITON_LAUNCH_INPUT_DIR": str(configuration.directory),
                                "TRITON_LAUNCH_MAIN_CONTAINER_VERSION": VERSION,
                                "TRITON_LAUNCH_FDBSERVER_PATH": str(place.probe), "TRITON_LAUNCH_SERVER_COUNT": "2"})
    launcher.wait_up(n=2)


def test_default_directory_and_another_name(place):
    configuration = Configuration(place.area / "here", "other.json")
    configuration.write(*UP)
    launcher = place.start("--input-monitor-conf", "other.json", "--main-container-version", VERSION,
                           "--fdbserver-path", place.probe, place=["--directory", str(configuration.directory)])
    launcher.wait_up()
    launcher.wait_for_event("configuration-loaded")
    configuration.write(*UP, count=2)
    launcher.wait_up(n=2)


@pytest.mark.parametrize("files", range(3, 9))
def test_hardly_any_descriptors(place, needs_static, files):
    """EMFILE in every place of the start: one clear end, a configuration that waits for better times and says why, or
    service with what is there; never a process left behind. (A sanitizer wants descriptors for itself.)"""
    launcher = place.launch(place.configuration(*UP), "--log-path", place.area / "log", place=["--files", str(files)])

    def up_or_ended():
        launcher.probe.drain()
        launcher.events.drain()
        rejected = launcher.events_named("configuration-rejected")
        return launcher.probe.take(lambda line: line.get("text") == "up") or wait_readable([launcher.pidfd], 0) or (
            rejected and os.strerror(errno.EMFILE) in rejected[0]["errors"][0])
    eventually(up_or_ended, "a process runs, a configuration waits, or the launcher has ended")
    if not wait_readable([launcher.pidfd], time.monotonic() + 0.2):
        end = launcher.stop()
        assert end == Exit(code=0 if launcher.events_named("configuration-loaded") else 143), "or nothing has ever run"
        return
    assert launcher.wait() == Exit(code=1)
    assert launcher.errors().count("\n") == 1 and os.strerror(errno.EMFILE) in launcher.errors()
    assert not launcher.probe.all, "nothing is started only to be killed"
    if not launcher.pid1:
        eventually(lambda: launcher.process_count() == 1, "no process is left but the namespace's init")


@pytest.mark.parametrize("call", ["epoll_create1", "epoll_ctl", "signalfd4"])
def test_nothing_is_started_that_nobody_could_watch(start_faulty, as_child, call):
    """Processes came before the event loop: without one they were started only to be killed, at each restart of the
    container."""
    launcher = start_faulty(f"{call}:error=ENOMEM", "--input-dir", as_child.configuration(*UP).directory,
                            "--main-container-version", VERSION, "--fdbserver-path", as_child.probe)
    assert launcher.wait() == Exit(code=1)
    assert os.strerror(errno.ENOMEM) in launcher.errors()
    assert not launcher.probe.all and not launcher.events.all


def test_launcher_that_adopts_no_orphans_says_so(start_faulty, as_child):
    launcher = start_faulty("prctl:error=EPERM", "--input-dir", as_child.configuration(*UP).directory,
                            "--main-container-version", VERSION, "--fdbserver-path", as_child.probe)
    warning = launcher.wait_for_event("setup-warning")
    assert warning["message"] == f"cannot become a subreaper, orphans go to PID 1: {os.strerror(errno.EPERM)}"
    launcher.wait_up()


def test_all_that_a_launcher_cannot_have_is_said(start_faulty, as_child):
    launcher = start_faulty("prctl:error=EPERM", "--input-dir", as_child.configuration(*UP).directory,
                            "--parent-death-signal", "TERM",
                            "--main-container-version", VERSION, "--fdbserver-path", as_child.probe)
    for what in ("become a subreaper, orphans go to PID 1", "set the parent death signal"):
        assert launcher.wait_for_event("setup-warning")["message"] == f"cannot {what}: {os.strerror(errno.EPERM)}"


def test_flag_beats_environment(place):
    launcher = place.launch(place.configuration(*UP), "--server-count", "1", env={"TRITON_LAUNCH_SERVER_COUNT": "3"})
    assert launcher.wait_for_event("configuration-loaded")["processes"] == 1


@pytest.mark.parametrize("count", [0, 2])
def test_count_of_the_configuration_beats_the_flag(place, count):
    launcher = place.launch(place.configuration(*UP, count=count), "--server-count", "5")
    assert launcher.wait_for_event("configuration-loaded")["processes"] == count
    for number in range(1, count + 1):
        launcher.wait_up(n=number)
    launcher.stop()
    assert len(launcher.events_named("process-started")) == count


def test_run_servers_false_starts_nothing(place):
    launcher = place.launch(place.configuration(*UP, runServers=False))
    assert launcher.wait_for_event("configuration-loaded")["processes"] == 0
    launcher.stop()
    assert not launcher.events_named("process-started")


def test_bad_first_configuration_waits_for_a_good_one(place):
    configuration = place.configuration()
    configuration.write_text('{"version": 7}')
    launcher = place.launch(configuration)
    assert launcher.wait_for_event("configuration-rejected")["errors"]
    assert launcher.wait_for_event("waiting-for-configuration")["path"] == str(configuration.path)
    configuration.write(*UP)
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


def test_missing_first_configuration_waits_for_one(place):
    configuration = place.configuration()
    launcher = place.launch(configuration)
    launcher.wait_for_event("waiting-for-configuration")
    configuration.write_in_place(*UP)
    launcher.wait_up()


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_directory_that_is_none_is_not_waited_for(place, kind):
    """Debian's /etc/services is a file."""
    directory = place.area / "services"
    if kind == "file":
        directory.write_text("")
    launcher = place.start("--input-dir", directory, "--main-container-version", "1.0.0", "--control-socket", "none")
    assert launcher.wait() == Exit(code=1)
    why = "is not a directory" if kind == "file" else "does not exist"
    assert launcher.events_named("configuration-rejected")[0]["errors"] == [
        f"cannot open {directory}/config.json: {directory} {why}"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": 1}',
                                  '{"version": "1.0.0", "arguments": [{"type": "Foo"}]}'])
def test_exit_on_bad_configuration(place, text):
    configuration = place.configuration()
    configuration.write_text(text)
    launcher = place.launch(configuration, "--exit-on-bad-config")
    assert launcher.wait() == Exit(code=1)
    assert launcher.events_named("configuration-rejected")
    assert launcher.events_named("launcher-stopped", exit_code=1)


def test_what_is_wrong_with_the_configuration_comes_before_the_missing_version(place):
    """Whether a version is needed is known when the document is."""
    configuration = place.configuration()
    launcher = place.start("--input-dir", configuration.directory, "--version-file", place.area / "none",
                           "--control-socket", "none")
    errors = launcher.wait_for_event("configuration-rejected")["errors"]
    assert len(errors) == 1 and os.strerror(errno.ENOENT) in errors[0], errors
    launcher.wait_for_event("waiting-for-configuration")
    configuration.write_text('{"programs": {"web": {"command": ["true"]}},}')
    errors = launcher.wait_for_event("configuration-rejected")["errors"]
    assert len(errors) == 1 and "syntax error" in errors[0], errors
    configuration.write_text('{"programs": {"web": {"comand": ["true"]}}}')
    rejected = launcher.wait_for_event("configuration-rejected")
    assert any("comand" in warning for warning in rejected["warnings"]), rejected
    configuration.write_text('{"version": "1.0.0", "arguments": []}')
    errors = launcher.wait_for_event("configuration-rejected")["errors"]
    assert len(errors) == 1 and "--main-container-version" in errors[0], errors
    configuration.write_text(json.dumps({"programs": {"web": {"command": [str(place.probe), *UP]}}}))
    launcher.wait_up()
    assert launcher.stop() == Exit(code=0)


@pytest.mark.parametrize("text", ["{", '{"programs": {"web": {"comand": ["true"]}}}'])
def test_exit_on_bad_configuration_without_a_version(place, text):
    configuration = place.configuration()
    configuration.write_text(text)
    launcher = place.start("--input-dir", configuration.directory, "--version-file", place.area / "none",
                           "--control-socket", "none", "--exit-on-bad-config")
    assert launcher.wait() == Exit(code=1)
    assert launcher.events_named("configuration-rejected")


def test_three_hundred_processes(place):
    """Pitfall 3: numbers, starts and ends stay right when there are many."""
    launcher = place.launch(place.configuration(*UP), "--server-count", "300")
    numbers = {launcher.wait_up(timeout=60)["n"] for _ in range(300)}
    assert numbers == set(range(1, 301))
    assert launcher.stop(timeout=60) == Exit(code=0)
    assert len(launcher.events_named("process-exited")) == 300


def test_clock_of_a_machine_that_has_just_booted(place, needs_root):
    """Pitfall 15: times are monotonic, and their origin means nothing: seconds after boot, and years after it."""
    with open("/proc/uptime", encoding="ascii") as uptime:
        since_boot = int(float(uptime.read().split()[0]))
    for offset in (-since_boot + 1, 20 * 365 * 86400):
        launcher = place.launch(place.configuration("say:up", "exit:1"), "--restart-delay", "20ms",
                                place=["--monotonic", str(offset)])
        delays = [launcher.wait_for_event("process-exited")["restart_in_seconds"] for _ in range(3)]
        assert delays[0] == 0 and all(0 < delay < 0.2 for delay in delays[1:])
        launcher.close()

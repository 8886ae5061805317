"""The command line: what is wrong ends in one precise line and exit code 2 or 1 before any process is started."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from harness.process import BINARY, NO_LEAK_SEARCH, TIMEOUT, VERSION, run_plainly, wait_readable

LAUNCH = ["--main-container-version", VERSION]

# arguments, then what the one line on standard error must hold
WRONG = [
    (["--server-cout", "3"], ["--server-cout", "--server-count"]),
    (["--server-cout=3"], ["--server-cout", "--server-count"]),
    (["--sever-count", "3"], ["--server-count"]),
    (["--processcount", "3"], ["--process-count"]),
    (["--log-levle", "info"], ["--log-level"]),
    (["--input-dirr", "."], ["--input-dir"]),
    (["--stop-timout", "1s"], ["--stop-timeout"]),
    (["--Server-Count", "1"], ["--server-count"]),
    (["--completely-different"], ["--completely-different", "--help"]),
    (["-x"], ["-x"]),
    (["--server-count"], ["--server-count", "missing"]),
    (["--server-count", "x"], ["--server-count", '"x"']),
    (["--server-count", "-1"], ["--server-count", '"-1"']),
    (["--server-count", "65536"], ["--server-count", '"65536"', "65535"]),
    (["--server-count", "1.5"], ["--server-count", '"1.5"']),
    (["--server-count", "0x10"], ["--server-count"]),
    (["--server-count", " 1"], ["--server-count"]),
    (["--server-count", "99999999999999999999"], ["--server-count"]),
    (["--server-count="], ["--server-count"]),
    (["--restart-delay", "5parsecs"], ["--restart-delay", '"5parsecs"']),
    (["--restart-delay", "-1s"], ["--restart-delay", '"-1s"']),
    (["--restart-delay", ""], ["--restart-delay"]),
    (["--restart-max-delay", "1d"], ["--restart-max-delay"]),
    (["--restart-max-delay", "99999999999999999999s"], ["--restart-max-delay"]),
    (["--restart-factor", "0.5"], ["--restart-factor"]),
    (["--restart-factor", "nan"], ["--restart-factor"]),
    (["--restart-factor", "inf"], ["--restart-factor"]),
    (["--restart-factor", ""], ["--restart-factor"]),
    (["--restart-factor", " 2"], ["--restart-factor"]),
    (["--restart-factor", "+2"], ["--restart-factor"]),
    (["--restart-factor", "0x2"], ["--restart-factor"]),
    (["--restart-factor", "2s"], ["--restart-factor"]),
    (["--restart-jitter", "1.5"], ["--restart-jitter"]),
    (["--restart-jitter", "x"], ["--restart-jitter"]),
    (["--stop-signal", "FOO"], ["--stop-signal", '"FOO"']),
    (["--stop-signal", "65"], ["--stop-signal", '"65"']),
    (["--stop-signal", "0"], ["--stop-signal"]),
    (["--stop-signal", "RTMIN+31"], ["--stop-signal"]),
    (["--orphan-signal", "NONE?"], ["--orphan-signal"]),
    (["--rewrite", "15"], ["--rewrite", '"15"']),
    (["--rewrite", "15:99"], ["--rewrite", '"15:99"']),
    (["--rewrite", "x:3"], ["--rewrite"]),
    (["--rewrite", "15:3:2"], ["--rewrite"]),
    (["--parent-death-signal", "?"], ["--parent-death-signal"]),
    (["--mode", "lunch"], ["--mode", '"lunch"', "launch"]),
    (["--version-match", "exakt"], ["--version-match", "exact"]),
    (["--log-level", "loud"], ["--log-level", '"loud"']),
    (["--log-level", "debugg"], ["--log-level", "debug"]),
    (["--log-format", "xml"], ["--log-format", '"xml"']),
    (["--exit-on-bad-config=maybe"], ["--exit-on-bad-config"]),
    (["--input-dir", ""], ["--input-dir", "empty"]),
    (["extra"], ["extra", "--"]),
    (["chek", "x.json"], ["check"]),
]


def assert_usage_error(done, *texts):
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("triton-launch: ")
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), done.stderr
    for text in texts:
        assert text in done.stderr, done.stderr


@pytest.mark.parametrize("arguments, texts", WRONG, ids=[" ".join(row[0]) for row in WRONG])
def test_wrong_launch_option(area, arguments, texts):
    # behind the right ones, so that only the wrong one can be the reason
    first = arguments if not arguments[0].startswith("-") else [*LAUNCH, *arguments]
    assert_usage_error(run_plainly(*first, cwd=area), *texts)


@pytest.mark.parametrize("arguments, texts", [
    (["--"], ["command"]),
    (["-g", "--"], ["command"]),
    (["-p", "FOO", "--", "true"], ["-p", "FOO"]),
    (["-p", "--", "true"], ["-p"]),
    (["-e", "256", "--", "true"], ["-e", "256"]),
    (["-e", "x", "--", "true"], ["-e", "x"]),
    (["-e", "-1", "--", "true"], ["-e"]),
    (["--remap-exit=1000", "--", "true"], ["--remap-exit", "1000"]),
    (["-r", "15", "--", "true"], ["-r", "15"]),
    (["-r", "15:x", "--", "true"], ["-r", "15:x"]),
    (["--rewrit", "15:3", "--", "true"], ["--rewrit", "--rewrite"]),
    (["--kill-groups", "--", "true"], ["--kill-group"]),
    (["--setsid=yes", "--", "true"], ["--setsid"]),
    (["--stop-timeout", "soon", "--", "true"], ["--stop-timeout", "soon"]),
    (["--stop-timeout", "--", "true"], ["--stop-timeout"]),
    (["-gz", "--", "true"], ["z"]),
    (["--listen", ":80", "--", "true"], ["--listen is an option of launch mode", "--input-dir"]),
    (["--stop-limit=5s", "--", "true"], ["--stop-limit is an option of launch mode", "--input-dir"]),
], ids=str)
def test_wrong_wrap_option(arguments, texts):
    assert_usage_error(run_plainly(*arguments), *texts)


@pytest.mark.parametrize("name", ["tini", "dumb-init", "catatonit", "docker-init"])
def test_a_wrong_stop_timeout_under_the_name_of_another(area, name):
    (area / name).symlink_to(BINARY)
    done = run_plainly("--", "true", env={"TRITON_LAUNCH_STOP_TIMEOUT": "soon"}, binary=area / name)
    assert (done.returncode, "soon" in done.stderr) == (1, True)


@pytest.mark.parametrize("name, value", [("TRITON_LAUNCH_SERVER_COUNT", "x"), ("TRITON_LAUNCH_LOG_LEVEL", "loud"),
                                         ("TRITON_LAUNCH_STOP_TIMEOUT", "soon"),
                                         ("TRITON_LAUNCH_EXIT_ON_BAD_CONFIG", "maybe")])
def test_wrong_environment_variable_is_named(area, name, value):
    assert_usage_error(run_plainly(*LAUNCH, cwd=area, env={name: value}), name, value)


@pytest.mark.parametrize("name, value", [("TRITON_LAUNCH_KILL_GROUP", "maybe"), ("TRITON_LAUNCH_REWRITE", "15"),
                                         ("TRITON_LAUNCH_REMAP_EXIT", "x"),
                                         ("TRITON_LAUNCH_PARENT_DEATH_SIGNAL", "FOO")])
def test_wrong_environment_variable_of_wrap_mode_is_named(name, value):
    assert_usage_error(run_plainly("--", "true", env={name: value}), name, value)


def test_missing_version_is_a_usage_error(area):
    (area / "config.json").write_text(json.dumps({"version": VERSION, "arguments": []}))
    assert_usage_error(run_plainly("--version-file", area / "none", cwd=area), "--main-container-version",
                       str(area / "none"))
    (area / "empty").write_text(" \n")
    assert_usage_error(run_plainly("--version-file", area / "empty", cwd=area), "--main-container-version")


def test_programs_that_are_commands_need_no_version(area):
    (area / "config.json").write_text(json.dumps({"programs": {"job": {"command": ["true"], "oneShot": True}}}))
    nowhere = ["--control-socket", "none", "--version-file", str(area / "none")]
    assert run_plainly(*nowhere, cwd=area).returncode == 0
    (area / "config.json").write_text(json.dumps({"programs": {"job": {"version": "1", "oneShot": True}}}))
    assert_usage_error(run_plainly(*nowhere, cwd=area), "--main-container-version", str(area / "none"))


@pytest.mark.parametrize("arguments", [
    ["check"], ["check", "a", "b", *LAUNCH], ["check", "a", "--process-number", "0", *LAUNCH],
    ["check", "a", "--format", "yaml", *LAUNCH], ["check", "a", "--strickt", *LAUNCH],
    ["completion"], ["completion", "tcsh"], ["completion", "bash", "zsh"], ["schema", "extra"]], ids=" ".join)
def test_wrong_command_usage(arguments):
    assert_usage_error(run_plainly(*arguments))


@pytest.mark.parametrize("arguments, text", [
    (["completion", "ksh"], 'completion: there is no script for "ksh", only for bash, zsh and fish'),
    (["help", "foo"], 'help: there is no command "foo"; triton-launch --help lists all'),
    (["help", "ctl"], "help: triton-launch ctl --help prints the commands of ctl"),
])
def test_what_does_not_exist_is_named(arguments, text):
    done = run_plainly(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"triton-launch: {text}\n")


def test_a_file_that_is_not_there_is_named_once(area):
    done = run_plainly("check", "nosuch.json", *LAUNCH, cwd=area)
    assert (done.returncode, done.stderr) == (1, "triton-launch check: cannot open nosuch.json: No such file or directory\n")


def test_an_init_without_anything_to_copy_says_so(area):
    done = run_plainly("--mode", "init", cwd=area)
    assert done.returncode == 0
    assert "nothing is copied: no option such as --copy-file is given" in done.stdout + done.stderr


def test_bad_value_is_found_before_anything_starts(as_child):
    """The last flag is wrong: no process, no log line, no configuration read."""
    launcher = as_child.launch(as_child.configuration("say:started"), "--stop-timeout", "soon")
    assert launcher.wait().code == 2
    assert not launcher.probe.all and not launcher.events.all


def test_empty_program_name_is_no_trap(area):
    """An argv of one empty text is what execve makes of an empty argv."""
    done = subprocess.run([""], executable=BINARY, cwd=area, capture_output=True, text=True, timeout=TIMEOUT,
                          env={"TRITON_LAUNCH_STOP_TIMEOUT": "soon"}, check=False)
    assert_usage_error(done, "TRITON_LAUNCH_STOP_TIMEOUT")


# --- information


@pytest.mark.parametrize("arguments", [["--version"], ["-V"], ["-V", "--", "true"], ["--version", "--", "true"],
                                       ["check", "--version"]])
def test_version(arguments):
    done = run_plainly(*arguments)
    assert done.returncode == 0 and done.stderr == ""
    assert re.fullmatch(r"triton-launch 0\.1\.0 \(\S+\)\n", done.stdout)


@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["-h"], ["-h", "--", "true"],
                                       ["--server-count", "3", "--help"]])
def test_help(arguments):
    done = run_plainly(*arguments)
    assert done.returncode == 0 and done.stderr == ""
    for word in ("--server-count", "--kill-group", "check FILE", "completion", "TRITON_LAUNCH_"):
        assert word in done.stdout


def test_help_of_check():
    done = run_plainly("check", "--help")
    assert done.returncode == 0 and "--process-number" in done.stdout


def test_schema_is_json():
    done = run_plainly("schema")
    assert done.returncode == 0
    schema = json.loads(done.stdout)
    assert {"version", "runServers", "arguments", "count"} <= set(schema["properties"])
    assert schema["else"]["required"] == ["version"], "without programs"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    done = run_plainly("completion", shell)
    assert done.returncode == 0
    for word in ("server-count", "check", "log-level"):
        assert word in done.stdout


def test_bash_completion_completes(area):
    script = area / "completion"
    script.write_text(run_plainly("completion", "bash").stdout)
    done = subprocess.run(
        ["bash", "--norc", "-c", 'source "$0"; COMP_WORDS=(triton-launch --server-c); COMP_CWORD=1; '
         'f=$(complete -p triton-launch | sed "s/.*-F \\([^ ]*\\).*/\\1/"); '
         '"$f" triton-launch --server-c triton-launch; '
         'echo "${COMPREPLY[@]}"', script], capture_output=True, text=True, check=False)
    assert "--server-count" in done.stdout, done


def test_output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([BINARY, "--help"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and b"No space left" in done.stderr


# --- check


def check(area, document, *options, env=None):
    """Runs check on a document."""
    path = area / "config.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return run_plainly("check", path, *LAUNCH, "--fdbserver-path", "/bin/true", *options, env=env)


GOOD = {"version": VERSION, "arguments": [
    {"value": "--port"}, {"type": "ProcessNumber", "multiplier": 2, "offset": 4498},
    {"type": "Concatenate", "values": [{"value": "zone "}, {"type": "Environment", "source": "ZONE"}]},
    {"value": "it's"}]}


def test_check_prints_the_exact_commands(area):
    done = check(area, GOOD, "--server-count", "2", env={"ZONE": "a b"})
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == "/bin/true --port 4500 'zone a b' 'it'\\''s'\n/bin/true --port 4502 'zone a b' 'it'\\''s'\n"


def test_check_remarks_on_what_may_not_be_meant(area):
    """A word that only a shell would replace, a command that is not there, and a variable that means nothing."""
    programs = {"web": {"command": ["/bin/true", "--port", "${PORT}"]}, "none": {"command": ["no-such-command"]}}
    document = {"version": VERSION, "programs": programs}
    env = {"TRITON_LAUNCH_LOG_LEVL": "debug", "PATH": "/bin"}
    remarks = ['programs.none.command[0]: cannot find "no-such-command" in PATH (/bin)',
               'programs.web: "${PORT}" is passed on as it is, since no shell reads the command: write '
               '{"type": "Environment", "source": "PORT"} for the value of the variable, inside Concatenate if it is a part '
               'of a word',
               "unknown variable TRITON_LAUNCH_LOG_LEVL, which has no effect; did you mean TRITON_LAUNCH_LOG_LEVEL?"]
    done = check(area, document, env=env)
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[:3] == [f"# {remark}" for remark in remarks]
    assert json.loads(check(area, document, "--format", "json", env=env).stdout)["remarks"] == remarks
    assert check(area, document, "--strict", env=env).returncode == 1


def test_unknown_variables_are_logged(area):
    (area / "out").mkdir()
    done = run_plainly("--mode", "init", "--output-dir", area / "out", "--main-container-version", VERSION,
                       env={"TRITON_LAUNCH_LOG_LEVL": "debug"})
    said = '"level":"warning","event":"option-warning","message":"unknown variable TRITON_LAUNCH_LOG_LEVL'
    assert said in done.stdout + done.stderr


def test_check_output_can_be_given_to_a_shell(area):
    line = check(area, GOOD, env={"ZONE": "$HOME `x` \"y\" \\ *"}).stdout
    script = line.replace("/bin/true", "printf '%s\\n'")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "--port\n4500\nzone $HOME `x` \"y\" \\ *\nit's\n"


def test_check_of_one_process(area):
    done = check(area, GOOD, "--server-count", "5", "--process-number", "4", env={"ZONE": "z"})
    assert done.stdout.count("\n") == 1 and "4506" in done.stdout
    done = check(area, GOOD, "--server-count", "5", "--process-number", "6", env={"ZONE": "z"})
    assert done.returncode == 1 and done.stderr.count("\n") == 1


def test_check_in_json(area):
    done = check(area, GOOD, "--format", "json", "--server-count", "2", env={"ZONE": "z"})
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["valid"] is True and answer["variables"] == {"ZONE": "z"}
    assert [process["command"] for process in answer["processes"]] == [
        ["/bin/true", "--port", str(port), "zone z", "it's"] for port in (4500, 4502)]


def test_check_shows_environment_additions(area):
    (area / "env").write_text("ADDED=a value\n")
    done = check(area, GOOD, "--additional-env-file", area / "env", "--export-env-file", env={"ZONE": "z"})
    assert done.stdout.startswith("ADDED='a value' /bin/true ")


@pytest.mark.parametrize("names, prefix", [
    (["MODE", "EMPTY", "PLAIN"], "MODE='it'"), (["MODE", "a.b", "EMPTY"], "env 'MODE=it'")], ids=["shell", "env"])
def test_check_prints_what_a_shell_runs(area, names, prefix):
    """A quoted NAME=value is no variable for a shell, but the command."""
    environment = {name: {"MODE": "it's a  b$HOME", "EMPTY": ""}.get(name, "x=y") for name in names}
    script = "import json, os, sys; print(json.dumps([{k: os.environ.get(k) for k in sys.argv[1:]}]))"
    document = {"programs": {"one": {"command": [sys.executable, "-c", script, *names], "environment": environment}}}
    line = check(area, document).stdout.splitlines()[1]
    assert line.startswith(prefix)
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    assert json.loads(done.stdout) == [environment]


BAD = {"version": VERSION, "runProcesses": False, "arguments": [
    {"type": "Foo"}, {"type": "Concatenate", "values": [{"type": "ProcessNumber", "multiplier": 1.5}]},
    {"type": "Environment"}, {"value": 1}, {"valeu": "x"}]}


def test_check_lists_every_error_with_its_place(area):
    done = check(area, BAD)
    assert done.returncode == 1 and done.stdout == ""
    for text in ('arguments[0].type: unknown type "Foo"', "arguments[1].values[0].multiplier", "arguments[2]",
                 "arguments[3].value", "valeu", "runProcesses"):
        assert text in done.stderr, done.stderr
    assert all(line.startswith(str(area / "config.json")) for line in done.stderr.splitlines())


def test_check_lists_unknown_keys_beside_missing_variables(area):
    done = check(area, {**GOOD, "runProcesses": True})
    assert done.returncode == 1
    assert "ZONE" in done.stderr and "runProcesses" in done.stderr, done.stderr


def test_check_lists_errors_in_json(area):
    done = check(area, BAD, "--format", "json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["valid"] is False and len(answer["errors"]) >= 6


@pytest.mark.parametrize("key, meant", [("runServer", "runServers"), ("argument", "arguments"), ("Version", "version")])
def test_check_suggests_the_nearest_key(area, key, meant):
    done = check(area, {"version": VERSION, "arguments": [], key: True})
    assert done.returncode == 1
    assert key in done.stderr and meant in done.stderr


@pytest.mark.parametrize("document", [
    "", "{", "null", "[]", '{"version": "1.0.0"} x', '{"version": "1.0.0", "version": "1"}', '{"version": null}',
    "[" * 100000, '\ufeff{"version": "1.0.0"}'], ids=lambda text: text[:20])
def test_check_refuses_what_is_no_configuration(area, document):
    done = check(area, document)
    assert done.returncode == 1 and done.stderr and done.stdout == ""


def test_check_shows_what_probes_ask(area):
    port = {"type": "ProcessNumber", "multiplier": 20000}
    web = {"command": ["/bin/true"], "count": 3, "health": {"type": "http", "url": "https://localhost/live"},
           "readiness": {"type": "tcp", "address": {"type": "Concatenate", "values": ["[::1]:", port]}}}
    done = check(area, {"programs": {"web": web}})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["#   readiness: [::1]:60000", "#   health: https://localhost/live"]
    answer = json.loads(check(area, {"programs": {"web": web}}, "--format", "json").stdout)
    assert [process["readiness"] for process in answer["processes"]] == [
        {"type": "tcp", "target": f"[::1]:{number * 20000}"} for number in (1, 2, 3)]
    done = check(area, {"programs": {"web": {**web, "count": 4}}})
    assert done.returncode == 1
    assert done.stderr.endswith('programs.web.readiness.address: process 4: "80000" is not a port from 1 to 65535\n')


def test_check_is_about_every_process_number(area):
    document = {"version": VERSION, "arguments": [{"type": "ProcessNumber", "multiplier": 2**62}]}
    assert check(area, document).returncode == 0
    done = check(area, document, "--server-count", "3")
    assert done.returncode == 1 and "arguments[0]" in done.stderr


def test_check_of_variables(area):
    for environment in ({}, {"ZONE": ""}):
        done = check(area, GOOD, env=environment)
        assert done.returncode == 1 and "ZONE" in done.stderr and "arguments[2].values[1]" in done.stderr


def test_strict_check_looks_at_the_binary(area):
    missing = ["--fdbserver-path", area / "none"]
    assert check(area, GOOD, *missing, env={"ZONE": "z"}).returncode == 0
    done = check(area, GOOD, *missing, "--strict", env={"ZONE": "z"})
    assert done.returncode == 1 and str(area / "none") in done.stderr
    assert check(area, GOOD, "--strict", env={"ZONE": "z"}).returncode == 0


@pytest.mark.parametrize("program, error", [
    ({"command": ["true"]}, ""), ({"comand": ["true"]}, "comand"), ({"version": VERSION}, "--main-container-version"),
    ({"command": ["true"], "cpuAffinity": "8191"}, "programs.web.cpuAffinity: ")], ids=lambda value: str(value))
def test_strict_check_asks_for_the_version_only_where_it_counts(area, program, error):
    path = area / "config.json"
    path.write_text(json.dumps({"programs": {"web": program}}))
    done = run_plainly("check", path, "--strict", "--version-file", area / "none")
    assert (done.returncode, error in done.stderr) == (1 if error else 0, True), done


def test_check_of_a_missing_file(area):
    done = run_plainly("check", area / "none.json", *LAUNCH)
    assert done.returncode == 1 and os.strerror(2) in done.stderr and done.stderr.count("\n") == 1


def test_check_of_a_directory(area):
    done = run_plainly("check", area, *LAUNCH)
    assert done.returncode == 1 and done.stderr.count("\n") == 1


def test_check_reads_standard_input(area):
    path = area / "config.json"
    path.write_text(json.dumps(GOOD))
    with open(path, encoding="ascii") as file:
        done = run_plainly("check", "-", *LAUNCH, "--fdbserver-path", "/bin/true", stdin=file, env={"ZONE": "z"})
    assert done.returncode == 0 and "4500" in done.stdout


def test_check_of_standard_input_that_includes_others(area):
    path = area / "config.json"
    path.write_text(json.dumps({"include": ["more.json"], "programs": {}}))
    with open(path, encoding="ascii") as file:
        done = run_plainly("check", "-", *LAUNCH, stdin=file)
    assert (done.returncode, done.stderr) == \
        (1, "-: include: only a file can include others: give its path instead of -\n")


def test_check_names_all_that_cannot_be_included(area):
    path = area / "config.json"
    path.write_text(json.dumps({"include": ["one.json", "two.json"], "programs": {}}))
    done = run_plainly("check", path, *LAUNCH)
    missing = [f"{path}: include[{at}]: cannot open {area}/{name}.json: No such file or directory\n"
               for at, name in enumerate(("one", "two"))]
    assert (done.returncode, done.stderr) == (1, "".join(missing))


def test_check_starts_nothing(area):
    marker = area / "started"
    script = area / "server"
    script.write_text(f"#!/bin/sh\ntouch {marker}\n")
    script.chmod(0o755)
    assert check(area, GOOD, "--fdbserver-path", script, "--strict", env={"ZONE": "z"}).returncode == 0
    assert not marker.exists()


def test_a_trial_that_hangs_holds_nothing_up(area):
    """What the kernel would refuse is tried in a child, which may hang: with the file system of a root, or stopped."""
    if not (strace := shutil.which("strace")):
        pytest.skip("needs strace, which holds a system call up")
    path = area / "config.json"
    path.write_text(json.dumps({"programs": {"a": {"command": ["/bin/true"], "nice": 5}}}))
    command = [strace, "-qq", "-f", "-o", "/dev/null", "-e", "inject=setpriority:delay_enter=60000000",
               BINARY, "check", "--strict", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **NO_LEAK_SEARCH}) as traced:
        try:
            assert wait_readable([traced.stdout.fileno()], time.monotonic() + TIMEOUT), "a third of the delay is over"
            assert traced.stdout.readline() == "# a\n"
        finally:
            traced.kill()

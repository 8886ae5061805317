"""Mode init: what is staged where, what is left alone, and what is said when it cannot be done."""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from harness.process import BINARY, TIMEOUT, is_static, run_plainly, wait_readable

NO_LEAK_CHECK = {"ASAN_OPTIONS": "detect_leaks=0"}  # it cannot be traced


class Stage:
    """Directories for one staging, and the command that does it."""

    def __init__(self, area):
        self.input = area / "in"
        self.output = area / "out"
        self.binaries = area / "usr"
        self.libraries = area / "lib"
        for directory in (self.input, self.binaries, self.libraries):
            directory.mkdir()
        self.version_file = area / "version"
        self.version_file.write_text("7.3.63\n")

    def arguments(self, *options, mode="init"):
        return ["--mode", mode, "--input-dir", self.input, "--output-dir", self.output, "--binary-dir", self.binaries,
                "--library-dir", self.libraries, "--version-file", self.version_file, *options]

    def run(self, *options, mode="init", **how):
        return run_plainly(*self.arguments(*options, mode=mode), **how)

    def succeed(self, *options, **how):
        done = self.run(*options, **how)
        assert done.returncode == 0, done.stderr + done.stdout
        return done

    def refuse(self, *options, **how):
        """What it says when it ends with 1, as one text."""
        done = self.run(*options, **how)
        assert done.returncode == 1, done.stderr + done.stdout
        return done.stderr + done.stdout

    def staged(self):
        """Every file below the output directory."""
        found = self.output.rglob("*") if self.output.exists() else []
        return {str(path.relative_to(self.output)): path.read_bytes() for path in found if path.is_file()}


@pytest.fixture
def stage(area):
    return Stage(area)


def write(path, content="content\n", mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


def test_everything_lands_where_the_shipped_program_puts_it(stage):
    write(stage.input / "fdb.cluster", "a:b@1.2.3.4:4500")
    write(stage.input / "sub" / "deep.conf", "deep")
    write(stage.binaries / "fdbserver", "server", 0o755)
    for version in ("7.1.61", "7.3.63"):
        write(stage.libraries / f"libfdb_c_{version}.so", version)
    stage.succeed("--copy-file", "fdb.cluster", "--copy-file", "sub/deep.conf", "--copy-binary", "fdbserver",
                  "--copy-library", "7.1.61", "--copy-library", "7.3.63", "--copy-primary-library", "7.3.63",
                  "--require-not-empty", "fdb.cluster")
    assert stage.staged() == {"fdb.cluster": b"a:b@1.2.3.4:4500", "deep.conf": b"deep", "7.3/fdbserver": b"server",
                              "libfdb_c_7.1.61.so": b"7.1.61", "libfdb_c.so": b"7.3.63"}
    assert (stage.output / "7.3/fdbserver").stat().st_mode & 0o7777 == 0o755


def test_files_of_the_environment_and_the_command_line_add_up(stage):
    write(stage.input / "a")
    write(stage.input / "b")
    stage.succeed("--copy-file", "b", env={"TRITON_LAUNCH_COPY_FILE": "a"})
    assert sorted(stage.staged()) == ["a", "b"]


def test_mode_and_times_stay_and_setuid_goes(stage):
    source = write(stage.input / "a", mode=0o4751)
    os.utime(source, ns=(1_600_000_000_111111111, 1_500_000_000_222222222))
    stage.succeed("--copy-file", "a")
    status = (stage.output / "a").stat()
    assert status.st_mode & 0o7777 == 0o751
    assert status.st_mtime_ns == 1_500_000_000_222222222
    assert status.st_atime_ns == 1_600_000_000_111111111


def test_second_run_touches_nothing(stage):
    write(stage.input / "a")
    write(stage.input / "t", "${PATH}")
    options = ("--copy-file", "a", "--copy-template", "t", "--format", "json")
    results = []
    identities = []
    for _ in range(2):
        done = stage.succeed(*options)
        results.append([file["result"] for file in json.loads(done.stdout)["files"]])
        identities.append([((stage.output / name).stat().st_ino, (stage.output / name).stat().st_ctime_ns)
                           for name in "at"])
    assert results == [["copied", "copied"], ["reused", "reused"]]
    assert identities[0] == identities[1]


def test_json_summary(stage):
    content = os.urandom(3 << 20)
    write(stage.input / "a", content)
    done = stage.succeed("--copy-file", "a", "--format", "json")
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout) == {"files": [{"path": str(stage.output / "a"), "bytes": len(content),
                                                 "sha256": hashlib.sha256(content).hexdigest(),
                                                 "result": "copied"}], "errors": []}
    done = stage.run("--copy-file", "b", "--format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"files": [], "errors": [
        f"cannot open {stage.input}/b: No such file or directory"]}


def test_template_takes_arguments_of_the_configuration(stage, area):
    write(stage.input / "t", 'a=${A} b=${{"type":"IPList","source":"IPS","ipFamily":6}} $host $${A} ${FILE}\n', 0o640)
    values = write(area / "values", "FILE=first\n")
    stage.succeed("--copy-template", "t", "--additional-env-file", values, env={"A": "1", "IPS": "10.0.0.1,fd00::1"})
    assert stage.staged() == {"t": b"a=1 b=fd00::1 $host ${A} first\n"}
    assert (stage.output / "t").stat().st_mode & 0o7777 == 0o640


def test_monitor_conf(stage):
    write(stage.input / "conf", "$FDB_PUBLIC_IP $FDB_ZONE_ID $FDB_ZONE $BINARY_DIR $OTHER $UNKNOWN\n")
    options = ("--input-monitor-conf", "conf", "--substitute-variable", "FDB_ZONE", "--substitute-variable", "OTHER")
    env = {"FDB_POD_IP": "10.0.0.1", "HOSTNAME": "h", "FDB_ZONE": "z", "OTHER": "o"}
    stage.succeed(*options, env=env)
    assert stage.staged() == {"fdbmonitor.conf": b"10.0.0.1 h z /var/dynamic-conf/bin/7.3.63 o $UNKNOWN\n"}
    stage.succeed(*options, "--main-container-version", "7.3.63", env=env)
    assert stage.staged() == {"fdbmonitor.conf": f"10.0.0.1 h z {stage.binaries} o $UNKNOWN\n".encode()}
    env["FDB_PUBLIC_IP"] = "10.0.0.2,fd00::2"
    env["FDB_POD_IP"] = "fd00::1"
    stage.succeed(*options, "--public-ip-family", "6", "--binary-output-dir", "b", "--main-container-conf-dir", "/m", env=env)
    assert stage.staged() == {"fdbmonitor.conf": b"[fd00::2] h z /m/b o $UNKNOWN\n"}


def test_all_that_is_wrong_is_said_before_anything_is_copied(stage, area):
    write(stage.input / "good")
    write(stage.input / "empty", "")
    write(stage.input / "t", "${NO}\n ${{\"type\":\"Foo\"}}\n")
    (stage.input / "directory").mkdir()
    os.mkfifo(stage.input / "fifo")
    (stage.output / "bad").mkdir(parents=True)
    write(stage.input / "bad")
    said = stage.refuse("--copy-file", "good", "--copy-file", "empty", "--require-not-empty", "empty",
                        "--copy-template", "t", "--copy-file", "directory", "--copy-file", "fifo",
                        "--copy-file", "missing", "--copy-file", "bad", "--copy-binary", "nothing")
    for text in (f"{stage.input}/empty is empty (--require-not-empty)",
                 f"{stage.input}/t: line 1, column 1: environment variable NO is not set",
                 f"{stage.input}/t: line 2, column 2: type: unknown type",
                 f"{stage.input}/directory is a directory, not a file",
                 f"{stage.input}/fifo is a FIFO, not a file",
                 f"cannot open {stage.input}/missing: No such file or directory",
                 f"{stage.output}/bad is a directory, not a file",
                 f"cannot open {stage.binaries}/nothing: No such file or directory"):
        assert said.count(text) == 1, said
    assert stage.staged() == {}


def test_what_the_options_have_wrong_is_said_with_the_rest(stage):
    stage.version_file.unlink()
    said = stage.refuse("--copy-file", "nope", "--copy-binary", "missing", "--require-not-empty", "empty",
                        "--copy-template", "large")
    for text in ("--require-not-empty: empty is not in --copy-file", "--binary-output-dir is missing",
                 f"cannot open {stage.input}/nope: No such file or directory",
                 f"cannot open {stage.input}/large: No such file or directory",
                 f"cannot open {stage.binaries}/missing: No such file or directory"):
        assert said.count(text) == 1, said


def test_a_text_that_is_too_large_to_substitute(stage, area):
    write(stage.input / "t", b"x" * (1 << 20))
    stage.succeed("--copy-template", "t")
    write(stage.input / "t", b"x" * ((1 << 20) + 1))
    said = stage.refuse("--copy-template", "t", "--additional-env-file", stage.input / "t")
    text = f"cannot read {stage.input}/t: it has more than 1048576 bytes"
    assert said.count(text) == 2 and said.count(f"additional environment file: {text}") == 1, said


@pytest.mark.parametrize("again", ["blue/a.conf", "./blue/a.conf"])
def test_equal_size_and_times_do_not_make_it_the_same_file(stage, again):
    blue = write(stage.input / "blue/a.conf", "color: blue \n")
    green = write(stage.input / "green/a.conf", "color: green\n")
    for path in (blue, green):
        os.utime(path, ns=(1_500_000_000_222222222, 1_500_000_000_222222222))
    stage.succeed("--copy-file", "blue/a.conf", "--copy-file", again)
    stage.succeed("--copy-file", "green/a.conf")
    assert stage.staged() == {"a.conf": b"color: green\n"}


def test_a_file_that_may_not_become_so_large(stage):
    write(stage.input / "a", b"x" * (2 << 20))
    done = subprocess.run(["prlimit", f"--fsize={1 << 20}:{1 << 20}", str(BINARY),
                           *map(str, stage.arguments("--copy-file", "a"))], capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)
    assert done.returncode == 1
    assert (done.stderr + done.stdout).count(f"cannot write {stage.output}/a: File too large") == 1
    assert list(stage.output.rglob("*")) == []


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1, 2)])
def test_standard_descriptors_that_are_closed(stage, closed):
    """None of ours takes their place: a summary that went into a signalfd was waited for in vain, for ever."""
    write(stage.input / "a")
    command = " ".join(["exec", '"$@"', *(f"{number}>&-" for number in closed)])
    done = subprocess.run(["sh", "-c", command, "sh", str(BINARY), *map(str, stage.arguments(
        "--copy-file", "a", "--format", "json"))], capture_output=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0
    assert stage.staged() == {"a": b"content\n"}
    assert (done.stdout == b"") == (1 in closed)


def test_what_the_options_alone_have_wrong_is_said_at_once(stage):
    stage.version_file.unlink()
    said = stage.refuse("--copy-file", "../a", "--require-not-empty", "b", "--copy-binary", "x", "--watch")
    for text in ("--copy-file: ../a", "--require-not-empty: b is not in --copy-file",
                 "--binary-output-dir is missing", "--watch: only --mode sidecar"):
        assert said.count(text) == 1, said
    assert not stage.output.exists()


def test_a_version_file_is_not_needed_without_a_use_for_it(stage):
    stage.version_file.unlink()
    write(stage.input / "a")
    stage.succeed("--copy-file", "a")
    assert sorted(stage.staged()) == ["a"]


@pytest.mark.parametrize("which", ["source", "target"])
def test_without_the_rights(stage, area, needs_root, which):
    area.chmod(0o755)
    write(stage.input / "a", mode=0o600 if which == "source" else 0o644)
    stage.output.mkdir()
    stage.output.chmod(0o777 if which == "source" else 0o755)
    done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", str(BINARY),
                           *map(str, stage.arguments("--copy-file", "a"))], capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)
    assert done.returncode == 1
    wanted = f"cannot open {stage.input}/a" if which == "source" else f"cannot write to {stage.output}"
    assert f"{wanted}: Permission denied" in done.stderr + done.stdout
    assert stage.staged() == {}


def skip_sanitizers():
    if not is_static(BINARY):
        pytest.skip("sanitizers need /proc")


def in_mounts(script, stage, *options):
    """Runs the staging in a mount namespace after a shell script, in which $OUT is the output directory."""
    command = ["unshare", "--mount", "sh", "-ec", script + '\nrc=0; "$@" || rc=$?; ls -A "$OUT"; exit $rc', "sh",
               str(BINARY), *map(str, stage.arguments(*options))]
    return subprocess.run(command, env={"PATH": "/usr/bin:/bin:/sbin", "OUT": str(stage.output), **NO_LEAK_CHECK},
                          capture_output=True, text=True, timeout=TIMEOUT, check=False)


@pytest.mark.parametrize("proc", ["with proc", "without proc"])
def test_full_file_system(stage, needs_root, proc):
    write(stage.input / "small", b"x" * 1000)
    write(stage.input / "a", b"x" * (4 << 20))
    stage.output.mkdir()
    script = 'mount -t tmpfs -o size=1m tmpfs "$OUT"'
    if proc == "without proc":  # then the file has a name from the beginning
        skip_sanitizers()
        script += "\nmount -t tmpfs tmpfs /proc"
    done = in_mounts(script, stage, "--copy-file", "small", "--copy-file", "a")
    assert done.returncode == 1, done.stderr
    said = done.stderr + done.stdout
    assert said.count(f"cannot write {stage.output}/a: No space left on device") == 1, said
    assert done.stdout.splitlines()[-1] == "small"
    assert ".tmp" not in said


def test_read_only_file_system(stage, needs_root):
    write(stage.input / "a")
    stage.output.mkdir()
    done = in_mounts('mount -t tmpfs -o ro tmpfs "$OUT"', stage, "--copy-file", "a")
    assert done.returncode == 1
    assert f"cannot write to {stage.output}: Read-only file system" in done.stderr + done.stdout


def test_between_file_systems_and_without_proc(stage, needs_root, needs_static):
    content = os.urandom(3 << 20)
    write(stage.input / "a", content)
    stage.output.mkdir()
    done = in_mounts('mount -t tmpfs tmpfs "$OUT"; mount -t tmpfs tmpfs /proc', stage, "--copy-file", "a", "--format",
                     "json")
    assert done.returncode == 0, done.stderr
    summary, listing = done.stdout.splitlines()
    assert json.loads(summary)["files"][0]["sha256"] == hashlib.sha256(content).hexdigest()
    assert listing == "a"


@pytest.mark.parametrize("round_", range(5))
def test_racing_for_one_target_all_succeed(stage, round_):
    write(stage.input / "a", os.urandom(1 << 20))
    stage.output.mkdir()
    write(stage.output / "a", "old")
    command = [str(BINARY), *map(str, stage.arguments("--copy-file", "a"))]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(6)]
    results = [(process.communicate(timeout=TIMEOUT)[0], process.returncode) for process in racing]
    assert [code for _, code in results] == [0] * 6, results
    assert stage.staged() == {"a": (stage.input / "a").read_bytes()}


def test_a_reader_sees_the_old_file_or_the_new_one_and_nothing_between(stage):
    """Somebody opens the target all the time while it is replaced again and again."""
    sizes = (1 << 20, (1 << 20) + 1)
    contents = [bytes([65 + index]) * size for index, size in enumerate(sizes)]
    write(stage.input / "a", contents[0])
    stage.succeed("--copy-file", "a")
    for index in range(1, 9):
        write(stage.input / "a", contents[index % 2])
        process = subprocess.Popen([str(BINARY), *map(str, stage.arguments("--copy-file", "a"))],
                                   stdout=subprocess.DEVNULL)
        pidfd = os.pidfd_open(process.pid)
        seen = set()
        while not wait_readable([pidfd], 0):
            seen.add((stage.output / "a").read_bytes())
        os.close(pidfd)
        assert process.wait() == 0
        assert seen <= set(contents)
        assert stage.staged() == {"a": contents[index % 2]}


def system_calls(stage, *options):
    """The system calls of a staging, in order, by strace."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    trace = stage.output.parent / "trace"
    command = ["strace", "-f", "-y", "-s", "200", "-o", trace, "-e",
               "trace=openat,open,link,linkat,rename,renameat,renameat2,fsync,fdatasync,syncfs,fchmod,utimensat,mkdirat",
               BINARY, *stage.arguments(*options)]
    done = subprocess.run(list(map(str, command)), env={**os.environ, **NO_LEAK_CHECK}, capture_output=True, text=True,
                          timeout=3 * TIMEOUT, check=False)
    if "PTRACE" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("no ptrace here")
    assert done.returncode == 0, done.stderr
    return trace.read_text().splitlines()


@pytest.mark.parametrize("exists", [False, True])
def test_durable_before_it_has_its_name_and_the_directory_afterwards(stage, exists):
    write(stage.input / "a")
    (stage.input / "a").chmod(0o666)  # which no umask leaves as it is
    stage.output.mkdir()
    if exists:
        write(stage.output / "a", "old")
    lines = system_calls(stage, "--copy-file", "a")

    def place_of(pattern):
        found = [index for index, line in enumerate(lines) if re.search(pattern, line) and " = -1 " not in line]
        assert found, f"no {pattern} in\n" + "\n".join(lines)
        return found[-1]
    named = place_of(r"renameat2?\(.*, \"a\"" if exists else r"linkat\(.*, \"a\"")
    synced = [index for index, line in enumerate(lines) if "fsync(" in line and line.endswith("= 0")]
    assert place_of(r"fchmod\(") < synced[0] and place_of(r"utimensat\(") < synced[0] < named < synced[-1]
    assert f"<{stage.output}>" in lines[synced[-1]]


def test_many_are_durable_before_the_first_has_its_name(stage):
    """By one syncfs for up to 2048 of them where the file system is known to mean it, else by fsync of each."""
    names = [f"f{number:04}" for number in range(2100)]
    for name in names:
        write(stage.input / name, name)
    write(stage.output / names[7], "old")
    lines = system_calls(stage, *(argument for name in names for argument in ("--copy-file", name)))
    waiting, durable, named = 0, 0, []
    for line in lines:
        if "utimensat(" in line:
            waiting += 1
        elif " = 0" in line and "syncfs(" in line:
            waiting, durable = 0, durable + waiting
        elif " = 0" in line and "fsync(" in line and f"<{stage.output}>" not in line:
            waiting, durable = waiting - 1, durable + 1
        elif (found := re.search(r'(?:linkat|renameat2?)\(.*, "(f\d+)"', line)) and " = 0" in line:
            named.append(found[1])
            assert durable >= len(named), line
    assert named == names
    assert f"<{stage.output}>" in [line for line in lines if "fsync(" in line][-1]
    assert stage.staged() == {name: name.encode() for name in names}


def test_each_is_made_durable_where_the_file_system_is_not_known(stage, needs_root):
    if not shutil.which("strace"):
        pytest.skip("no strace")
    names = [f"f{number}" for number in range(20)]
    for name in names:
        write(stage.input / name, name)
    stage.output.mkdir()
    trace = stage.output.parent / "trace"
    options = [argument for name in names for argument in ("--copy-file", name)]
    command = ["unshare", "--mount", "sh", "-ec", 'mount -t ramfs none "$OUT"; strace -f -o "$TRACE" -e '
               'trace=fsync,syncfs "$@"; ls "$OUT"', "sh", str(BINARY), *map(str, stage.arguments(*options))]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin:/sbin", "OUT": str(stage.output), "TRACE": str(trace),
                                        **NO_LEAK_CHECK}, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if "PTRACE" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("no ptrace here")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if re.fullmatch(r"f\d+", line)] == sorted(names)
    called = trace.read_text()
    assert called.count("fsync(") == len(names) + 1 and "syncfs" not in called  # and the directory


def test_of_many_those_before_the_first_that_fails_stay(stage, needs_root):
    for number in range(40):
        write(stage.input / f"f{number:02}", b"x" * (1 << 16))
    stage.output.mkdir()
    done = in_mounts('mount -t tmpfs -o size=1m tmpfs "$OUT"', stage,
                     *(argument for number in range(40) for argument in ("--copy-file", f"f{number:02}")))
    assert done.returncode == 1, done.stderr
    there = [line for line in done.stdout.splitlines() if re.fullmatch(r"f\d+", line)]
    assert 10 < len(there) <= 16 and there == [f"f{number:02}" for number in range(len(there))]
    assert (done.stderr + done.stdout).count("No space left on device") == 1
    assert ".tmp" not in done.stdout


def test_few_descriptors_are_enough_for_many(stage):
    names = [f"f{number:03}" for number in range(100)]
    for name in names:
        write(stage.input / name, name)
    command = ["prlimit", "--nofile=32:32", str(BINARY), *map(str, stage.arguments(
        *(argument for name in names for argument in ("--copy-file", name))))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(stage.staged()) == names


def test_what_a_killed_copy_left_goes_with_the_next_one(stage):
    if not shutil.which("strace"):
        pytest.skip("no strace")
    write(stage.input / "a")
    write(stage.output / "a", "old")
    killed = subprocess.run(["strace", "-qq", "-o", "/dev/null", "-e", "inject=renameat,renameat2:signal=KILL", str(BINARY),
                             *map(str, stage.arguments("--copy-file", "a"))], env={**os.environ, **NO_LEAK_CHECK},
                            capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if "PTRACE" in killed.stderr and "not permitted" in killed.stderr:
        pytest.skip("no ptrace here")
    (left,) = (name for name in stage.staged() if name != "a")
    assert re.fullmatch(r"\.a\.[0-9a-f]{16}\.tmp", left)
    held = write(stage.output / ".b.0123456789abcdef.tmp", "of a copy that goes on")
    with open(held, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        stage.succeed("--copy-file", "a")
        assert sorted(stage.staged()) == [held.name, "a"]
    stage.succeed("--copy-file", "a")
    assert stage.staged() == {"a": b"content\n"}


def test_sparse_file_stays_sparse(stage):
    with open(stage.input / "a", "wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 29)
        file.write(b"island")
    stage.succeed("--copy-file", "a")
    status = (stage.output / "a").stat()
    assert status.st_size == 1 << 30
    assert status.st_blocks * 512 < 1 << 20
    with open(stage.output / "a", "rb") as file:
        file.seek(1 << 29)
        assert file.read(7) == b"island\0"


def test_progress_is_for_terminals_and_large_files(stage):
    write(stage.input / "small")
    with open(stage.input / "large", "wb") as file:
        for _ in range(96):
            file.write(b"x" * (1 << 20))
    leader, follower = os.openpty()
    process = subprocess.Popen([str(BINARY), *map(str, stage.arguments("--copy-file", "large", "--copy-file", "small",
                                                                       "--format", "json"))],
                               stderr=follower, stdout=subprocess.PIPE)
    os.close(follower)
    said = b""
    deadline = time.monotonic() + TIMEOUT
    while wait_readable([leader], deadline):
        try:
            said += os.read(leader, 4096)
        except OSError as error:  # the other side is closed
            assert error.errno == errno.EIO
            break
    os.close(leader)
    summary = json.loads(process.communicate(timeout=TIMEOUT)[0])
    assert process.returncode == 0 and len(summary["files"]) == 2
    assert re.search(rb"large  \d+ %  \d+ MiB of 96 MiB  \d+ MiB/s", said), said
    assert not re.search(rb"small +\d+ %", said)
    last = said.rindex(b" %")
    assert b"\r\x1b[K" in said[last:], said  # nothing of it stays
    os.unlink(stage.output / "large")
    assert "%" not in stage.succeed("--copy-file", "large").stderr

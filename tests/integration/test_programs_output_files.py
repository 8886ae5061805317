"""Programs: files of output, and of input, whose names are Arguments."""

import contextlib
import json
import os
import signal
import socket

from harness.control import Controlled
from harness.process import BINARY, VERSION, Exit, eventually, run_plainly
from harness.programs import USR1, probe, run, service

NUMBER = {"type": "ProcessNumber"}
FIRST_WORDS = {"type": "Concatenate", "values": ["print:I am ", NUMBER]}


def by_number(directory, before="worker-", after=".log"):
    """worker-01.log .."""
    number = {"type": "ProcessNumber", "width": 2}
    return {"type": "Concatenate", "values": [f"{directory}/{before}", number, after]}


def texts(directory):
    """{name: content} of the files there; one that is rotated away meanwhile is none of them."""
    found = {}
    for path in directory.iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = path.read_text()
    return found


def logs(place):
    """A directory for nothing else."""
    directory = place.area / "logs"
    directory.mkdir()
    return directory


def check(area, programs, *options, env=None):
    """Runs check on a document with these programs."""
    path = area / "checked.json"
    path.write_text(json.dumps({"version": VERSION, "programs": programs}))
    return run_plainly("check", path, *options, env=env)


def held(launcher, directory):
    """The files there that the launcher has open."""
    descriptors = launcher.proc(launcher.events_named("launcher-started")[0]["pid"]) / "fd"
    links = []
    for entry in descriptors.iterdir():
        try:
            links.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return sorted(link for link in links if link.startswith(str(directory)))


def test_each_number_has_its_file(place):
    directory = logs(place)
    launcher = run(place, {"web": probe(FIRST_WORDS, "print-error:oh", "say:up", "pause", count=3,
                                        output={"file": by_number(directory), "mode": "0600"})})
    expected = {f"worker-0{number}.log": f"I am {number}\noh\n" for number in (1, 2, 3)}
    eventually(lambda: texts(directory) == expected, "each in its own")
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    assert launcher.stop() == Exit(code=0)


def test_stderr_in_files_of_its_own(place):
    directory = logs(place)
    launcher = run(place, {"web": probe(FIRST_WORDS, "print-error:oh", "say:up", "pause", count=2, output={
        "file": str(directory / "all"), "format": "raw",
        "stderr": {"file": by_number(directory, "errors-"), "format": "prefix"}})})
    errors = {f"errors-0{number}.log": f"web[{number}] | oh\n" for number in (1, 2)}
    eventually(lambda: {**texts(directory), "all": ""} == {**errors, "all": ""}, "standard errors")
    eventually(lambda: sorted((directory / "all").read_text().splitlines()) == ["I am 1", "I am 2"], "the others in one")
    assert launcher.stop() == Exit(code=0)


def test_variables_make_one_file(place):
    directory = logs(place)
    name = {"type": "Concatenate", "values": [{"type": "Environment", "source": "LOGS"}, "/web.log"]}
    launcher = run(place, {"web": probe(FIRST_WORDS, "say:up", "pause", count=2, output={"file": name})},
                   env={"LOGS": str(directory)})
    eventually(lambda: sorted(texts(directory).get("web.log", "").splitlines()) == ["I am 1", "I am 2"], "both")
    description = launcher.ctl("describe", "web")
    assert f"{directory}/web.log" in description
    assert launcher.stop() == Exit(code=0)


def test_the_launchers_own_streams(place):
    """Whatever they are connected to: a pipe could be opened by its name only as the same user, a socket never."""
    ours, theirs = socket.socketpair()
    launcher = run(place, {
        "web": probe("print:web-out", "print-error:web-err", "say:up", "pause", output={"file": "/dev/stdout", "stderr": {
            "file": "/dev/stderr", "format": "prefix"}}),
        "both": probe("print-error:both-err", "say:up", "pause", output={
            "file": {"type": "Concatenate", "values": ["/dev/", "stdout"]}, "format": "prefix"})}, stdout=theirs.fileno())
    theirs.close()
    launcher.wait_up()
    launcher.wait_up()
    described = launcher.ctl("describe", "web")
    assert "/dev/stdout; stderr: /dev/stderr" in described, described
    launcher.stop()
    text = b""
    while data := ours.recv(1 << 16):
        text += data
    ours.close()
    lines = text.decode().splitlines()
    assert "web-out" in lines and "web-err" not in text.decode()
    assert any(line.startswith("both") and line.endswith("both-err") for line in lines), lines
    assert any(line.startswith("web") and line.endswith("web-err") for line in launcher.errors().splitlines()), launcher.errors()


def test_equal_names_are_one_file(place):
    """Two numbers beside each other can make the same digits twice: 1 and 111, 11 and 11."""
    directory = logs(place)
    other = {"type": "ProcessNumber", "multiplier": -10, "offset": 121}  # 111 of 1, 11 of 11
    launcher = run(place, {"web": probe(FIRST_WORDS, "say:up", "pause", count=11, output={
        "file": {"type": "Concatenate", "values": [f"{directory}/", NUMBER, other]}})})
    eventually(lambda: sum(text.count("\n") for text in texts(directory).values()) == 11, "all have written")
    assert len(texts(directory)) == 10 and len(held(launcher, directory)) == 10
    assert sorted(texts(directory)["1111"].splitlines()) == ["I am 1", "I am 11"]
    assert launcher.stop() == Exit(code=0)


def test_rotation_and_sighup(place):
    directory = logs(place)
    launcher = run(place, {"web": probe("trap", "tag:web", "flood:40960", "say:up", f"until:{USR1}", "print:again",
                                        "until:15", count=2,
                                        output={"file": by_number(directory), "maxSize": "10000", "maxFiles": 2})})
    pids = [launcher.wait_up()["pid"] for _ in range(2)]
    names = {f"worker-0{number}.log{suffix}" for number in (1, 2) for suffix in ("", ".1", ".2")}
    eventually(lambda: set(texts(directory)) == names, "each rotates for itself")

    def begin_anew():
        for path in list(directory.iterdir()):
            path.unlink(missing_ok=True)
        launcher.signal(signal.SIGHUP)
        eventually(lambda: {"worker-01.log", "worker-02.log"} <= set(texts(directory)), "opened again")
        return set(texts(directory).values()) == {""}
    eventually(begin_anew, "nothing of the flood is left")
    for pid in pids:
        launcher.signal_inside(pid, USR1)
    eventually(lambda: set(texts(directory).values()) == {"again\n"}, "and used")
    assert launcher.stop() == Exit(code=0)


def test_what_is_not_captured_any_more(place):
    """The last words of the process that still writes there arrive, and then the file is closed."""
    directory = logs(place)
    file = f"{directory}/web.log"
    launcher = run(place, {"web": probe("tag:web", "trap", "print:first", "say:up", f"until:{USR1}", "print:last",
                                        output={"file": file}), "other": service("other")})
    pid = launcher.wait_up(tag="web")["pid"]
    launcher.wait_up(tag="other")
    launcher.replace({"web": service("web", output="inherit")})
    launcher.wait_for_event("configuration-loaded", processes=1)
    assert held(launcher, directory)
    launcher.signal_inside(pid, USR1)
    launcher.wait_up(tag="web")
    eventually(lambda: not held(launcher, directory), "it is closed")
    assert texts(directory)["web.log"] == "first\nlast\n"
    assert launcher.stop() == Exit(code=0)


def test_another_count(place):
    """Files of new numbers are opened, those of removed ones are closed when their last words are in them."""
    directory = logs(place)

    def web(count):
        return {"web": probe("tag:web", "trap", FIRST_WORDS, "say:up", "until:15", "print:bye", count=count,
                             output={"file": by_number(directory)})}

    launcher = run(place, web(2))
    for _ in range(2):
        launcher.wait_up()
    launcher.replace(web(4))
    for _ in range(2):
        launcher.wait_up()
    eventually(lambda: texts(directory) == {f"worker-0{number}.log": f"I am {number}\n" for number in (1, 2, 3, 4)}, "four")
    assert len(held(launcher, directory)) == 4
    launcher.replace(web(1))
    eventually(lambda: held(launcher, directory) == [f"{directory}/worker-01.log"], "three are closed")
    for number in (2, 3, 4):
        assert texts(directory)[f"worker-0{number}.log"] == f"I am {number}\nbye\n"
    assert not launcher.events_named("process-exited", process=1)
    assert launcher.stop() == Exit(code=0)


def test_another_name_while_it_runs(place):
    directory = logs(place)
    web = probe("tag:web", "trap", FIRST_WORDS, "say:up", f"until:{USR1}", "print:later", "until:15", count=2)
    launcher = run(place, {"web": {**web, "output": {"file": str(directory / "both")}}})
    pids = [launcher.wait_up()["pid"] for _ in range(2)]
    launcher.wait_for_event("configuration-loaded")
    # What is still in a pipe goes where the pipe leads then.
    eventually(lambda: sorted(texts(directory).get("both", "").splitlines()) == ["I am 1", "I am 2"], "their first words")
    launcher.replace({"web": {**web, "output": {"file": by_number(directory)}}})
    launcher.wait_for_event("configuration-loaded")
    for pid in pids:
        launcher.signal_inside(pid, USR1)
    eventually(lambda: texts(directory).get("worker-01.log") == texts(directory).get("worker-02.log") == "later\n",
               "from now on in files of their own")
    assert sorted(texts(directory)["both"].splitlines()) == ["I am 1", "I am 2"]
    assert held(launcher, directory) == [f"{directory}/worker-0{number}.log" for number in (1, 2)]
    assert launcher.stop() == Exit(code=0)


def test_an_upgrade(place):
    """Also of a number that is to stop, and of a program that has left the configuration."""
    directory = logs(place)
    stubborn = {"steps": ["trap", "say:up", f"until:{USR1}", "print:last"], "count": 2, "stopTimeout": "1h", "restart": "never"}
    web = {**stubborn, "output": {"file": by_number(directory)}}
    gone = {**stubborn, "output": {"file": by_number(directory, "gone-")}}
    controlled = Controlled(place, {"web": web, "gone": gone})
    launcher = controlled.launcher
    pids = [launcher.wait_up()["pid"] for _ in range(4)]
    controlled.configure({"web": {**web, "count": 1}})
    launcher.wait_for_event("configuration-loaded")
    for _ in range(3):
        launcher.wait_signal(15)
    controlled.upgrade(BINARY)
    launcher.wait_for_event("upgrade-done")
    for pid in pids:
        launcher.signal_inside(pid, USR1)
    names = ["gone-01.log", "gone-02.log", "worker-01.log", "worker-02.log"]
    eventually(lambda: {name: texts(directory)[name] for name in names} == dict.fromkeys(names, "last\n"), "all of them")
    assert launcher.stop() == Exit(code=0)
    controlled.close()


def test_describe_and_check(place):
    directory = logs(place)
    web = probe("tag:web", "trap", "say:up", "until:15", count=3, stdin={"file": by_number("/in", "job-", "")},
                output={"file": by_number(directory), "stderr": {"file": by_number(directory, "err-")}})
    done = check(place.area, {"web": web})
    assert done.returncode == 0, done
    for number in (1, 2, 3):
        assert (f"#   stdin: /in/job-0{number}\n#   stdout: {directory}/worker-0{number}.log\n"
                f"#   stderr: {directory}/err-0{number}.log\n") in done.stdout
    processes = json.loads(check(place.area, {"web": web}, "--format", "json").stdout)["processes"]
    assert [(process["stdin"], process["stdout"], process["stderr"]) for process in processes] == [
        (f"/in/job-0{number}", f"{directory}/worker-0{number}.log", f"{directory}/err-0{number}.log")
        for number in (1, 2, 3)]
    web["stdin"] = "null"
    launcher = run(place, {"web": web})
    for _ in range(3):
        launcher.wait_up()
    described = launcher.ctl("describe", "web")
    assert (f"{directory}/worker-01.log to {directory}/worker-03.log; "
            f"stderr: {directory}/err-01.log to {directory}/err-03.log") in described
    assert launcher.stop() == Exit(code=0)


def test_input_by_number(place):
    directory = logs(place)
    for number in (1, 2):
        (directory / f"job-0{number}").write_text(f"job {number}\n")
    launcher = run(place, {"web": {"command": ["cat"], "oneShot": True, "count": 2, "output": {"file": by_number(directory)},
                                   "stdin": {"file": by_number(directory, "job-", "")}}})
    assert launcher.wait() == Exit(code=0)
    assert {name: text for name, text in texts(directory).items() if name.startswith("worker")} == {
        "worker-01.log": "job 1\n", "worker-02.log": "job 2\n"}


def test_what_is_refused(area):
    """With the place of each fault."""

    def errors(programs, **env):
        done = check(area, programs, env=env)
        assert done.returncode == 1, done
        return [line.split("checked.json: ", 1)[1] for line in done.stderr.splitlines()]

    def web(**output):
        return {"command": ["cat"], "count": 3, "output": output}

    name = by_number("/x")
    assert errors({"web": web(file=by_number("x"))}) == [
        'programs.web.output.file: must be an absolute path, not "x/worker-01.log"']
    assert errors({"web": web(stderr={"file": NUMBER})}) == [
        'programs.web.output.stderr.file: must be an absolute path, not "1"']
    assert errors({"web": {"command": ["cat"], "stdin": {"file": NUMBER}}}) == [
        'programs.web.stdin.file: must be an absolute path, not "1"']
    assert errors({"web": web(file={"type": "Environment", "source": "NONE"})}) == [
        "programs.web.output.file.source: environment variable NONE is not set"]
    assert errors({"web": web(file=by_number("/" + 4096 * "x"))}) == [
        "programs.web.output.file: would be 4111 bytes long; Linux allows 4095 (PATH_MAX)"]
    assert errors({"web": web(file=name), "db": web(file="/x/worker-02.log")}) == [
        "programs.db.output.file: /x/worker-02.log is also the file of programs.web.output.file"]
    assert errors({"web": web(file="/x/worker-02.log"), "db": web(file=name)}) == [
        "programs.db.output.file: /x/worker-02.log is also the file of programs.web.output.file"]
    assert errors({"web": web(file="/x/worker-02.log", stderr={"file": name})}) == [
        "programs.web.output.stderr.file: /x/worker-02.log is also the file of programs.web.output.file"]
    assert errors({"web": web(file=name, stderr={"file": name})}) == [
        "programs.web.output.stderr: its file is the file of the standard output, which gets both streams without stderr"]
    assert errors({"web": web(file=7)}) == ["programs.web.output.file: expected a string or an object, found number"]
    assert errors({"web": {**web(file=name), "count": 65535}}) == [
        "programs.web.output.file: more than 2048 files by number in all"]
    assert errors({"a": {**web(file=by_number("/a")), "count": 2000}, "b": {**web(file=by_number("/b")), "count": 49}}) == [
        "programs.b.output.file: more than 2048 files by number in all"]


def test_one_that_cannot_be_opened_refuses_all(place):
    directory = logs(place)
    (directory / "worker-03.log").mkdir()
    launcher = run(place, {"other": probe("tag:other", "trap", "say:up", "until:15")})
    launcher.wait_up(tag="other")
    [error] = launcher.reject({"web": probe(FIRST_WORDS, count=4, output={"file": by_number(directory)})})
    assert error == f"programs.web.output: cannot open {directory}/worker-03.log: Is a directory"
    assert not held(launcher, directory)
    assert launcher.stop() == Exit(code=0)


def test_hostile_names(place, needs_root):
    """What a program could put under a name that the launcher is going to open."""
    directory = logs(place)
    (directory / "worker-01.log").symlink_to("/etc/passwd")
    os.lchown(directory / "worker-01.log", 1234, 1234)
    launcher = run(place, {"other": probe("tag:other", "trap", "say:up", "until:15")})
    launcher.wait_up(tag="other")
    web = {"web": probe(FIRST_WORDS, "say:up", "pause", count=2, output={"file": by_number(directory)})}
    [error] = launcher.reject(web)
    assert error.startswith(f"programs.web.output: cannot open {directory}/worker-01.log: ")
    (directory / "worker-01.log").unlink()
    os.mkfifo(directory / "worker-01.log")
    [error] = launcher.reject({**web, "more": probe("say:more")})
    assert error.startswith(f"programs.web.output: cannot log to {directory}/worker-01.log: it is not a regular file; ")
    assert launcher.stop() == Exit(code=0)

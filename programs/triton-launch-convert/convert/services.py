"""Service directories: s6-rc source directories, s6 and runit services."""

import os
import re
from pathlib import Path

from .common import Failure, Place, absolute, duration, listing, number, program_name, shell_command, signal_name, words

SCRIPT_USES = {
    "chpst": '"user", "limits", "nice" and "environment" do what chpst does',
    "s6-envdir": '"environment" takes the place of the directory of variables',
    "s6-setuidgid": '"user" does the same',
    "s6-softlimit": '"limits" does the same',
    "with-contenv": 'not needed: "environmentFrom" is inherit by default; name the interpreter itself',
    "invoke-run": 'name /bin/sh, and give the variables of /etc/default as "environmentFile"',
}


def one_line(conversion, path):
    """The text of a small file."""
    return conversion.read(path).strip()


def count_of(conversion, path, low=0, high=1 << 31):
    return number(Place(str(path), 1), path.name, one_line(conversion, path), low, high)


def run_of(conversion, path):
    """What runs: the script itself, whose first line names its interpreter, or a program."""
    if is_binary(path):
        return [str(path.resolve())]
    first = conversion.read(path).split("\n", 1)[0]
    place = Place(str(path), 1)
    if not first.startswith("#!"):
        raise Failure(place, "does not begin with #!")
    note_tools(conversion, path)
    if not os.access(path, os.X_OK):
        conversion.find(place, path.name, "the file is not executable", f"chmod +x {path}")
    return [str(path.resolve())]


def is_binary(path):
    """Whether it is a program for the machine, which is not read any further."""
    try:
        with open(path, "rb") if path.is_file() else open(os.devnull, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def note_tools(conversion, path):
    for at, line in enumerate(conversion.read(path).split("\n"), 1):
        for tool, instead in SCRIPT_USES.items():
            if re.search(rf"(^|[\s/]){tool}(\s|$)", line) and (line.startswith("#!") or not line.lstrip().startswith("#")):
                conversion.find(Place(str(path), at), tool, "the script calls it, and still does", instead)


def up_of(conversion, path):
    """The `up` of a one-shot: one command line of execline."""
    lines = [line.strip() for line in conversion.read(path).split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        return ["true"]
    if len(lines) == 1 and re.fullmatch(r"[\w./:=@%+,\- ]+", lines[0]) and not lines[0].startswith(("foreground", "if", "background")):
        return lines[0].split()
    return ["execlineb", "-P", str(path.resolve())]


def service(conversion, path, is_s6):
    """The program of a directory with a run script."""
    # Both start a service at most once a second, for ever.
    program = {"command": run_of(conversion, path / "run"), "workingDirectory": str(path.resolve()), "backoff": {"initial": "1s", "factor": 1, "max": "1s"}}
    add_common(conversion, path, program)
    if (path / "finish").exists():
        # Of an end by a signal s6 says 256 and runit -1.
        script = f'exec "$1" "${{TRITON_EXIT_CODE:-{256 if is_s6 else -1}}}"'
        program["onFailure"] = {"command": shell_command(script, str((path / "finish").resolve()))}
        conversion.find(Place(str(path / "finish")), "finish", "it runs after each end, with the code and the signal as arguments",
                        'it is "onFailure" here, which runs when the program is given up, with the code; $TRITON_EXIT_SIGNAL has the signal')
    if not is_s6 and (path / "check").exists():
        program["readiness"] = {"type": "exec", "command": [str((path / "check").resolve())]}
    if not is_s6 and (path / "control").exists():
        conversion.find(Place(str(path / "control")), "control", "sv runs its files in place of a signal", 'see "preStop" and "stopSignal"')
    return program


def add_log(program, run, output, conversion):
    """The output that a logger keeps. A script that joins its two streams does so for both."""
    is_joined = not is_binary(run) and re.search(r"^\s*exec\s(.*\s)?2>\s*&1\s*$|fdmove -c 2 1", conversion.read(run), re.MULTILINE)
    program["output"] = output if is_joined else output | {"stderr": "inherit"}


def piped_to(name):
    """What a logger reads that stays a program: the standard output alone, to which a script may join the other."""
    return {"to": program_name(name), "stderr": "inherit"}


def logger_of(conversion, path):
    """The output that svlogd or s6-log keeps, where the script does nothing else; None otherwise."""
    if is_binary(path):
        return None
    place = Place(str(path), 1)
    lines = [line.strip() for line in conversion.read(path).split("\n")]
    lines = [line for line in lines if line and not re.match(r"#|exec 2>&1$|set -e|(chown|chmod|mkdir|install -d)\s", line)]
    line = " ".join(lines)
    if len(line) > 1000 or re.search(r"[$`;|&<>*?(]", line):
        return None
    argv = words(place, line)
    takes = {"exec": 0, "s6-setuidgid": 1, "setuidgid": 1, "-u": 1, "-U": 1, "chpst": 0, "fdmove": 3}
    while argv and not argv[0].endswith(("svlogd", "s6-log")):
        if argv[0] not in takes:
            return None
        del argv[:1 + takes[argv[0]]]
    if not argv:
        return None
    reader = svlogd_output if argv[0].endswith("svlogd") else s6_log_output
    return reader(conversion, place, argv[1:], str(path.resolve().parent))


def svlogd_output(conversion, place, argv, here):
    """svlogd [-tt] DIRECTORY, which has a file `config` with the sizes."""
    options = [word for word in argv if word.startswith("-")]
    folders = [word for word in argv if not word.startswith("-")]
    if len(folders) != 1 or not all(re.fullmatch("-(t{1,3}|v)", word) for word in options):
        return None
    folder = absolute(folders[0], here)
    size, files = 1000000, 10
    if os.path.exists(f"{folder}/config"):
        for at, line in enumerate(conversion.read(f"{folder}/config").split("\n"), 1):
            where = Place(f"{folder}/config", at)
            if line.startswith("s"):
                size = number(where, "s", line[1:].strip(), 0, 1 << 40)
            elif line.startswith("n"):
                files = number(where, "n", line[1:].strip())
                if not 0 < files <= 1000:  # 0 removes none
                    conversion.find(where, "n", "there always is a limit of old log files, of at most 1000", "it is 1000 here")
                    files = 1000
            elif line and not line.startswith("#"):
                conversion.find(where, line[0], "lines are not chosen, sent or cut off by patterns", "filter where the log is read")
    return log_file(conversion, place, folder, size, files, any("t" in word for word in options))


def s6_log_output(conversion, place, argv, here):
    """s6-log [-b] [nFILES] [sSIZE] [T|t] DIRECTORY, as one script."""
    size, files, stamped, folder = 99999, 10, False, None
    for word in argv:
        if folder:
            return None
        if word.startswith(("/", ".")):
            folder = absolute(word, here)
        elif re.fullmatch("n[0-9]{1,4}", word):
            files = min(int(word[1:]), 1000)
        elif re.fullmatch("s[0-9]{1,12}", word):
            size = int(word[1:])
        elif word in ("t", "T"):
            stamped = True
        elif not re.fullmatch(r"-(b|v|bv|d[0-9]+)|--|\+|[SN][0-9]+|l[0-9]+", word):
            return None
    return log_file(conversion, place, folder, size, files, stamped) if folder else None


def log_file(conversion, place, folder, size, files, is_stamped):
    """An output object; a size that means never is one that nothing reaches."""
    if not os.path.isdir(folder):
        conversion.find(place, "log", f"nothing makes the directory {folder}", "make it in the image")
    return {"file": f"{folder}/current", "maxSize": size or 1 << 50, "maxFiles": files} | ({"timestamp": "rfc3339"} if is_stamped else {})


def add_common(conversion, path, program):
    """Files that s6 services and long runs of s6-rc share."""
    if (path / "down").exists():
        program["autoStart"] = False
    if (path / "notification-fd").exists():
        program["readiness"] = {"type": "fd", "fd": count_of(conversion, path / "notification-fd", 3, 65535)}
    for name, key in (("timeout-up", "startTimeout"), ("timeout-kill", "stopTimeout")):
        if (path / name).exists() and (milliseconds := count_of(conversion, path / name)) and (key != "startTimeout" or "readiness" in program):
            program[key] = duration(milliseconds / 1000)
    if (path / "down-signal").exists():
        program["stopSignal"] = signal_name(Place(str(path / "down-signal"), 1), "down-signal", one_line(conversion, path / "down-signal"))
    if (path / "timeout-finish").exists():
        conversion.find(Place(str(path / "timeout-finish")), "timeout-finish", "finish has no limit of its own", '"timeout" of "onFailure" is the limit')
    for name, reason, instead in (
            ("max-death-tally", "deaths are not counted for a finish script", 'give "startLimit" where a service is to be given up'),
            ("timeout-down", "it is not a limit after which a service is killed", 'see "stopTimeout"'),
            ("flag-newpidns", "programs share the container's processes", "leave it out")):
        if (path / name).exists():
            conversion.find(Place(str(path / name)), name, reason, instead)


def services_below(path):
    """The directory itself, or those below it that have a run script; hidden ones aside."""
    if os.path.lexists(path / "run"):
        return [path]
    return [path / name for name in listing(path) if not name.startswith(".") and os.path.lexists(path / name / "run")]


def convert_services(conversion, path, is_s6):
    path = Path(path)
    if not path.is_dir():
        raise Failure(Place(str(path)), "is not a directory")
    for place in services_below(path):
        name = os.path.basename(os.path.abspath(place))  # that of a link, not of what it leads to
        program = service(conversion, place, is_s6)
        log = place / "log/run"
        if not log.exists():
            conversion.add(Place(str(place / "run"), 1), name, program)
        elif output := logger_of(conversion, log):
            add_log(program, place / "run", output, conversion)
            conversion.add(Place(str(place / "run"), 1), name, program)
        else:
            program["output"] = piped_to(f"{name}-log")
            conversion.add(Place(str(place / "run"), 1), name, program)
            conversion.add(Place(str(log), 1), f"{name}-log", service(conversion, log.parent, is_s6))


def convert_s6(conversion, path):
    convert_services(conversion, path, True)


def convert_runit(conversion, path):
    convert_services(conversion, path, False)


def dependencies_of(conversion, path):
    """The services that one depends on, by either way of saying it."""
    found = listing(path / "dependencies.d") if (path / "dependencies.d").is_dir() else []
    if (path / "dependencies").is_file():
        found += [line.strip() for line in conversion.read(path / "dependencies").split("\n") if line.strip() and not line.strip().startswith("#")]
    return list(dict.fromkeys(found))


def contents_of(conversion, path):
    found = listing(path / "contents.d") if (path / "contents.d").is_dir() else []
    if (path / "contents").is_file():
        found += [line.strip() for line in conversion.read(path / "contents").split("\n") if line.strip() and not line.strip().startswith("#")]
    return found


def flattened(name, bundles, known):
    """The services of a name; a bundle stands for its members. What is `known` of a bundle is not asked for again."""
    if name in known:
        return known[name]
    first, found, seen, waiting = name, [], set(), [name]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in bundles:
            waiting += reversed(bundles[name])
        else:
            found.append(name)
    known[first] = found
    return found


def convert_s6_rc(conversion, path):
    """Adds the programs of an s6-rc source directory; bundles only stand for their members."""
    path = Path(path)
    if not path.is_dir():
        raise Failure(Place(str(path)), "is not a directory")
    folders = [path] if (path / "type").is_file() else [path / name for name in listing(path) if (path / name / "type").is_file()]
    kinds, bundles, known = {}, {}, {}
    for folder in folders:
        kinds[folder.name] = one_line(conversion, folder / "type")
        if kinds[folder.name] == "bundle":
            bundles[folder.name] = contents_of(conversion, folder)
        elif kinds[folder.name] not in ("longrun", "oneshot"):
            raise Failure(Place(str(folder / "type"), 1), f"{kinds[folder.name][:100]!r} is not longrun, oneshot or bundle")
    loggers = loggers_of(conversion, folders, kinds)
    for folder in folders:
        if kinds[folder.name] != "bundle" and folder.name not in loggers:
            conversion.add(Place(str(folder)), folder.name, s6_rc_program(conversion, folder, kinds, bundles, known, loggers))


def loggers_of(conversion, folders, kinds):
    """The loggers whose work an output does, each with that output: no programs of their own. One that writes to another stays."""
    named = {folder.name: folder for folder in folders}
    found = {}
    for folder in folders:
        if kinds[folder.name] == "longrun" and (folder / "producer-for").is_file():
            name = one_line(conversion, folder / "producer-for")
            if name in found or kinds.get(name) != "longrun" or (named[name] / "producer-for").exists() or not (named[name] / "run").is_file():
                continue
            if output := logger_of(conversion, named[name] / "run"):
                found[name] = output
    return found


def s6_rc_program(conversion, folder, kinds, bundles, known, loggers):
    if kinds[folder.name] == "oneshot":
        if not (folder / "up").is_file():
            raise Failure(Place(str(folder)), "has no up")
        program = {"command": up_of(conversion, folder / "up"), "oneShot": True}
        if (folder / "down").is_file() and (folder / "down").stat().st_size:
            limit = count_of(conversion, folder / "timeout-down") if (folder / "timeout-down").exists() else 0
            # s6-rc waits for ever by default; a hook always has a limit.
            program["onStop"] = {"command": up_of(conversion, folder / "down"), "timeout": duration(limit / 1000 if limit else 86400)}
        if (folder / "timeout-up").exists() and (limit := count_of(conversion, folder / "timeout-up")):
            program["timeout"] = duration(limit / 1000)
    else:
        if not (folder / "run").is_file():
            raise Failure(Place(str(folder)), "has no run")
        program = service(conversion, folder, True)
    needed = []
    for name in dependencies_of(conversion, folder):
        if name not in kinds:
            if name != "base":
                conversion.find(Place(str(folder)), "dependencies", f"{name} is not in this directory", "leave it out, or convert it too")
            continue
        needed += [other for other in flattened(name, bundles, known) if other in kinds and other not in loggers and other != folder.name]
    if needed:
        program["requires"] = list(dict.fromkeys(program_name(name) for name in needed))
    if kinds[folder.name] == "longrun" and (folder / "producer-for").is_file():
        name = one_line(conversion, folder / "producer-for")
        if name in loggers:
            add_log(program, folder / "run", loggers[name], conversion)
        elif kinds.get(name) == "longrun":
            program["output"] = piped_to(name)
        else:
            conversion.find(Place(str(folder / "producer-for"), 1), "producer-for", f"{name[:100]} is not in this directory", 'name the directory that has it, or keep the output by "output" with "file"')
    return program

"""Service directories: s6-rc source directories, s6 and runit services."""

import os
import re
from pathlib import Path

from .common import Failure, Place, duration, listing, number, program_name, signal_name

SCRIPT_USES = {
    "chpst": '"user", "limits", "nice" and "environment" do what chpst does',
    "s6-envdir": '"environment" takes the place of the directory of variables',
    "s6-setuidgid": '"user" does the same',
    "s6-softlimit": '"limits" does the same',
    "with-contenv": 'not needed: "environmentFrom" is inherit by default',
}


def one_line(conversion, path):
    """The text of a small file."""
    return conversion.read(path).strip()


def count_of(conversion, path):
    return number(Place(str(path), 1), path.name, one_line(conversion, path))


def run_of(conversion, path):
    """What runs: the script itself, whose first line names its interpreter."""
    first = conversion.read(path).split("\n", 1)[0]
    place = Place(str(path), 1)
    if not first.startswith("#!"):
        raise Failure(place, "does not begin with #!")
    note_tools(conversion, path)
    if not os.access(path, os.X_OK):
        conversion.find(place, path.name, "the file is not executable", f"chmod +x {path}")
    return [str(path.resolve())]


def note_tools(conversion, path):
    for at, line in enumerate(conversion.read(path).split("\n"), 1):
        for tool, instead in SCRIPT_USES.items():
            if re.search(rf"(^|[\s/]){tool}(\s|$)", line) and not line.lstrip().startswith("#"):
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
    program = {"command": run_of(conversion, path / "run"), "workingDirectory": str(path.resolve())}
    add_common(conversion, path, program)
    if (path / "finish").exists():
        place = Place(str(path / "finish"))
        program["onFailure"] = {"command": [str((path / "finish").resolve())]}
        conversion.find(place, "finish", "it runs after each end, with the code as an argument", 'it is "onFailure" here, which runs when the program is given up; the environment tells the code')
    for name, instead in (("check", '"readiness": {"type": "exec", ...}'), ("control", '"preStop" and "stopSignal"'), ("conf", "it is read by the script")):
        if not is_s6 and (path / name).exists():
            conversion.find(Place(str(path / name)), name, "it has no equivalent of its own", f"see {instead}")
    if (path / "env").is_dir():
        conversion.find(Place(str(path / "env")), "env", "a directory of variables is not read", 'use "environment"')
    if (path / "log/run").exists():
        conversion.find(Place(str(path / "log/run")), "log", "no program reads the output of another", '"output" with "file" keeps and rotates it')
    return program


def add_common(conversion, path, program):
    """Files that s6 services and long runs of s6-rc share."""
    if (path / "down").exists():
        program["autoStart"] = False
    if (path / "notification-fd").exists():
        program["readiness"] = {"type": "fd", "fd": count_of(conversion, path / "notification-fd")}
    for name, key in (("timeout-up", "startTimeout"), ("timeout-kill", "stopTimeout")):
        if (path / name).exists() and (milliseconds := count_of(conversion, path / name)) and (key != "startTimeout" or "readiness" in program):
            program[key] = duration(milliseconds / 1000)
    if (path / "down-signal").exists():
        program["stopSignal"] = signal_name(Place(str(path / "down-signal"), 1), "down-signal", one_line(conversion, path / "down-signal"))
    if (path / "timeout-finish").exists():
        conversion.find(Place(str(path / "timeout-finish")), "timeout-finish", "finish has no limit of its own", '"timeout" of "onFailure" is the limit')
    if (path / "max-death-tally").exists():
        program["startLimit"] = {"count": min(max(count_of(conversion, path / "max-death-tally"), 1), 1000), "interval": "1m"}


def services_below(path):
    """The directory itself, or those below it that have a run script; hidden ones aside."""
    if (path / "run").exists():
        return [path]
    return [path / name for name in listing(path) if not name.startswith(".") and (path / name / "run").exists()]


def convert_services(conversion, path, is_s6):
    path = Path(path)
    if not path.is_dir():
        raise Failure(Place(str(path)), "is not a directory")
    for place in services_below(path):
        conversion.add(Place(str(place / "run"), 1), place.resolve().name, service(conversion, place, is_s6))


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


def flattened(name, bundles, seen):
    """The services of a name; a bundle stands for its members. `seen` bounds the work and ends circles."""
    found, waiting = [], [name]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in bundles:
            waiting += reversed(bundles[name])
        else:
            found.append(name)
    return found


def convert_s6_rc(conversion, path):
    """Adds the programs of an s6-rc source directory; bundles only stand for their members."""
    path = Path(path)
    if not path.is_dir():
        raise Failure(Place(str(path)), "is not a directory")
    folders = [path] if (path / "type").is_file() else [path / name for name in listing(path) if (path / name / "type").is_file()]
    kinds, bundles = {}, {}
    for folder in folders:
        kinds[folder.name] = one_line(conversion, folder / "type")
        if kinds[folder.name] == "bundle":
            bundles[folder.name] = contents_of(conversion, folder)
        elif kinds[folder.name] not in ("longrun", "oneshot"):
            raise Failure(Place(str(folder / "type"), 1), f"{kinds[folder.name][:100]!r} is not longrun, oneshot or bundle")
    for folder in folders:
        if kinds[folder.name] != "bundle":
            conversion.add(Place(str(folder)), folder.name, s6_rc_program(conversion, folder, kinds, bundles))


def s6_rc_program(conversion, folder, kinds, bundles):
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
    needed, seen = [], {folder.name}
    for name in dependencies_of(conversion, folder):
        if name not in kinds:
            if name != "base":
                conversion.find(Place(str(folder)), "dependencies", f"{name} is not in this directory", "leave it out, or convert it too")
            continue
        needed += [other for other in flattened(name, bundles, seen) if other in kinds]
    if needed:
        program["requires"] = [program_name(name) for name in needed]
    for name in ("producer-for", "consumer-for", "pipeline-name"):
        if (folder / name).exists():
            conversion.find(Place(str(folder / name)), name, "no program reads the output of another", '"output" with "file" keeps and rotates it')
    return program

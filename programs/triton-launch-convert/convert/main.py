"""The command line: what is read, where it goes, and the exit code."""

import argparse
import contextlib
import json
import os
import stat
import sys
import tempfile
from pathlib import Path

from . import compose, procfile, services, supervisord, systemd
from .common import MAX_FILES, MAX_RESULT, Conversion, Failure, Place, refuse_circles
from .completion import SHELLS, completion

VERSION = "0.1.0"
CONVERTED, FAILED, USAGE, INCOMPLETE = 0, 1, 2, 3
KINDS = {
    "supervisord": supervisord.convert,
    "procfile": procfile.convert,
    "s6-rc": services.convert_s6_rc,
    "s6": services.convert_s6,
    "runit": services.convert_runit,
    "systemd": systemd.convert,
    "process-compose": compose.convert_process_compose,
    "docker-compose": compose.convert_docker_compose,
}
EXAMPLES = """\
Exit code: 0 converted, 1 bad input, 2 usage, 3 converted, but something has no equivalent.

Examples:
  triton-launch-convert /etc/supervisor/supervisord.conf
  triton-launch-convert -o processes.json --report left-out.txt Procfile
  triton-launch-convert --from s6-rc /etc/s6-overlay/s6-rc.d -o processes.json
  triton-launch-convert web.service db.service | triton-launch check -
  triton-launch-convert --instance 15-main postgresql@.service
  triton-launch-convert completion bash        prints a completion script (zsh, fish)
"""


def options():
    """The grammar of the command line."""
    parser = argparse.ArgumentParser(
        prog="triton-launch-convert", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLES, allow_abbrev=False,
        description="Turns the configuration of another launcher into a ProcessConfiguration.")
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="a file or a directory of services; several systemd units")
    parser.add_argument("--from", dest="kind", metavar="KIND", choices=list(KINDS), help="what it is: " + ", ".join(KINDS))
    parser.add_argument("-o", "--output", metavar="FILE", help="where the configuration goes (default: standard output)")
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument("--report", metavar="FILE", help="where the findings go (default: standard error)")
    parser.add_argument("--json", action="store_true", help="findings as a JSON object")
    parser.add_argument("--strict", action="store_true", help="write nothing and end with 1 when something has no equivalent")
    parser.add_argument("--instance", metavar="NAME", help="the instance of a systemd template")
    parser.add_argument("--version", action="version", version=f"triton-launch-convert {VERSION}")
    return parser


def kind_of(conversion, path):
    """What kind of configuration a path is, by name and content."""
    path = Path(path)
    if path.is_dir():
        return kind_of_directory(path)
    if path.suffix == ".service" or path.suffix in systemd.OTHER_UNITS:
        return "systemd"
    if path.name.startswith("Procfile"):
        return "procfile"
    text = conversion.read(path)
    if path.suffix in (".yaml", ".yml"):
        return "process-compose" if "process-compose" in path.name or "\nprocesses:" in "\n" + text else "docker-compose"
    lines = [line.strip() for line in text.split("\n")]
    if any(line.startswith(("[program:", "[supervisord]", "[include]", "[group:", "[fcgi-program:", "[eventlistener:")) for line in lines):
        return "supervisord"
    if "[Service]" in lines:
        return "systemd"
    raise Failure(Place(str(path)), "its kind cannot be told; use --from")


def kind_of_directory(path):
    """s6-rc services have a type, s6 and runit services a run script."""
    places = [path] + sorted(child for _, child in zip(range(MAX_FILES), path.iterdir()) if child.is_dir())
    if any((place / "type").is_file() for place in places):
        return "s6-rc"
    with_run = [place for place in places if os.path.lexists(place / "run")]
    if not with_run:
        raise Failure(Place(str(path)), "has no services: neither type nor run is in it or below it; use --from")
    is_s6 = any((place / name).exists() for place in with_run for name in ("notification-fd", "timeout-kill", "max-death-tally", "data"))
    return "s6" if is_s6 else "runit"


def convert(conversion, inputs, kind):
    """Adds the programs of all inputs; returns their kind."""
    for path in inputs:
        if not os.path.exists(path):
            raise Failure(Place(path), "does not exist")
    kind = kind or kind_of(conversion, inputs[0])
    if kind == "systemd":
        systemd.convert(conversion, inputs)
    else:
        for path in inputs:
            KINDS[kind](conversion, path)
    refuse_circles(conversion)
    if not conversion.programs:
        raise Failure(Place(inputs[0]), f"has no program that can be converted (read as {kind})")
    return kind


def write(path, text, force):
    """Writes a file whole or not at all; a file that is there stays, unless it may be replaced. Of a link that is the file to which it
    leads. What is not a file, such as /dev/null, is never replaced but written to."""
    data = text.encode(errors="backslashreplace")
    try:
        status = os.stat(path) if os.path.exists(path) else None
        if status and not force:
            raise FileExistsError
        if status and (opened := opened_for(path, status)) is not None:
            with os.fdopen(opened, "wb") as file:
                file.write(data)
        else:
            put(Path(os.path.realpath(path) if force else path), data, force)
    except FileExistsError:
        raise Failure(Place(str(path)), "exists; --force overwrites it") from None
    except OSError as error:
        raise Failure(Place(str(path)), f"cannot be written: {error.strerror}") from None


def opened_for(path, status):
    """A descriptor to write by, where what is there must stay what it is: a device, a pipe, our own output. None: it is another file."""
    for own in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed
            if os.path.samestat(os.fstat(own.fileno()), status):
                return os.dup(own.fileno())
    return None if stat.S_ISREG(status.st_mode) else os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)


def put(path, data, force):
    """Writes it beside its place first, and then gives it its name."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o666 & ~umask())
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if not force:  # takes the name first: not all file systems know the hard links by which both could be done at once
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def umask():
    value = os.umask(0)
    os.umask(value)
    return value


def report_of(conversion, kind, as_json):
    """The findings as text."""
    if not as_json:
        return "".join(f"{finding}\n" for finding in conversion.findings)
    rows = [{"file": finding.place.file, "line": finding.place.line or None, "key": finding.key, "reason": finding.reason,
             "instead": finding.instead} for finding in conversion.findings]
    return json.dumps({"from": kind, "programs": len(conversion.programs), "findings": rows}, ensure_ascii=False) + "\n"


def deliver(conversion, kind, wanted):
    """Writes the report and the configuration; returns the exit code."""
    report = report_of(conversion, kind, wanted.json)
    is_refused = wanted.strict and conversion.findings
    if wanted.output and not is_refused and not wanted.force and os.path.lexists(wanted.output):
        raise Failure(Place(wanted.output), "exists; --force overwrites it")
    if wanted.report:
        write(wanted.report, report, True)
    else:
        sys.stderr.write(report)
    if is_refused:
        return FAILED
    text = json.dumps({"programs": conversion.programs}, indent=4, ensure_ascii=False) + "\n"
    if len(text.encode()) > MAX_RESULT:
        raise Failure(Place(wanted.inputs[0]), f"the result is longer than {MAX_RESULT} bytes")
    if wanted.output:
        write(wanted.output, text, wanted.force)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()
    return INCOMPLETE if conversion.findings else CONVERTED


def main(arguments):
    """The program; returns its exit code."""
    sys.stdout.reconfigure(encoding="utf-8")
    if len(arguments) == 2 and arguments[0] == "completion" and arguments[1] in SHELLS:
        sys.stdout.write(completion(options(), arguments[1]))
        return CONVERTED
    wanted = options().parse_args(arguments)
    conversion = Conversion(wanted.instance)
    try:
        kind = convert(conversion, wanted.inputs, wanted.kind)
        return deliver(conversion, kind, wanted)
    except Failure as failure:
        return fail(wanted, str(failure))
    except (MemoryError, RecursionError):
        return fail(wanted, f"{wanted.inputs[0]}: is too large")
    except UnicodeError:
        return fail(wanted, f"{wanted.inputs[0]}: something in it, or in the environment, is not UTF-8")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return fail(wanted, f"{error.filename or 'its output'}: {error.strerror}")


def fail(wanted, text):
    """Tells why nothing was written; returns the exit code."""
    print(json.dumps({"error": text}, ensure_ascii=False) if wanted.json else f"triton-launch-convert: {text}", file=sys.stderr)
    return FAILED

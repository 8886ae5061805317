"""supervisord.conf: an ini file with includes and %(...)s expansions."""

import os
import re
import socket
from pathlib import Path

from .common import (GROUPS_OF_NUMBER, MAX_COMMAND, MAX_COUNT, MAX_EXPANDED, MAX_PROGRAMS, Failure, Place, absolute, directory_of, duration, groups_of, is_address, matches, mode,
                     number, program_name, shell_command, signal_name, words)

IGNORED = {"process_name", "numprocs", "numprocs_start", "command"}
WITHOUT_EQUIVALENT = {
    "stdout_capture_maxbytes": ("there are no events of captured output", "leave it out"),
    "stderr_capture_maxbytes": ("there are no events of captured output", "leave it out"),
    "stdout_events_enabled": ("there are no PROCESS_LOG events", "read the output with triton-launch ctl logs -f"),
    "stderr_events_enabled": ("there are no PROCESS_LOG events", "read the output with triton-launch ctl logs -f"),
    "stderr_logfile": ("it is not told apart from a standard output that is not kept", 'make "output" an object and give it a "stderr"'),
    "stderr_logfile_maxbytes": ("see stderr_logfile", "see stderr_logfile"),
    "stderr_logfile_backups": ("see stderr_logfile", "see stderr_logfile"),
    "serverurl": ("programs find no supervisor by XML-RPC", "use triton-launch ctl"),
}
SECTIONS = {
    "unix_http_server": "the control socket is --control-socket",
    "inet_http_server": "there is no XML-RPC over a network; use triton-launch ctl",
    "supervisorctl": "use triton-launch ctl",
    "supervisord": "options of the launcher take its place; see triton-launch(1)",
}
ONE_PLACE = ("output goes to one place", "let the syslog daemon write the file, too")
NUMBER = "\0"  # stands for process_num where one program has all numbers, with its width between two of them
SIZES = {"": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def parse(conversion, path, sections):
    """Adds the sections of one file: name -> (place, {key: (value, place)}), by the rules of Python's configparser. What is
    indented more than its key goes on with the value, also after blank lines and comments."""
    section, key, indent, blank = None, None, 0, 0
    here = str(Path(path).absolute().parent).replace("%", "%%")  # that of the file, an included one too
    for at, line in enumerate(conversion.read(path).replace("%(here)s", here).split("\n"), 1):
        place, text = Place(str(path), at), without_comment(line)
        if not text:
            blank += not line.strip()
            continue
        level = len(line) - len(line.lstrip())
        if section and key and level > indent:
            value, where = section[1][key]
            if len(value) + blank > MAX_COMMAND:
                raise Failure(where, f"{key}: is longer than {MAX_COMMAND} bytes")
            blanks, blank = "\n" * (blank + 1), 0
            section[1][key] = (f"{value}{blanks}{text}", where)
            continue
        indent, blank = level, 0
        delimiter = re.search("[=:]", text)
        if text[0] == "[" and (end := text.rfind("]")) > 1:
            section, key = sections.setdefault(text[1:end].strip(), (place, {})), None
        elif delimiter and delimiter.start() and section:
            key = text[:delimiter.start()].strip().lower()
            section[1][key] = (text[delimiter.end():].strip(), place)
        else:
            raise Failure(place, "is neither [SECTION] nor KEY=VALUE" if section else "stands before the first [SECTION]")
    return sections


def without_comment(line):
    """The line up to a ; or # after a space. Where the first one of a kind has no space before it, the next one of each counts."""
    if line.lstrip().startswith((";", "#")):
        return ""
    marks, start = {";": -1, "#": -1}, None
    while marks and start is None:
        marks = {mark: found for mark, at in marks.items() if (found := line.find(mark, at + 1)) >= 0}
        start = min((at for at in marks.values() if line[at - 1].isspace()), default=None)
    return line[:start].strip()


def parse_all(conversion, path):
    """The sections of a file and of those that it includes, key by key; included files include nothing, as for supervisord."""
    sections = parse(conversion, path, {})
    if "include" in sections:
        add_included(conversion, path, sections, *sections.pop("include"))
    _, common = sections.pop("DEFAULT", (None, {}))
    return {name: (place, common | keys) for name, (place, keys) in sections.items()}


def add_included(conversion, path, sections, place, keys):
    if "files" not in keys:
        raise Failure(place, "[include] has no files")
    value, place = keys["files"]
    here = directory_of(path)
    for pattern in expand(conversion, place, "files", value, {"here": here, "host_node_name": socket.gethostname()}).split():
        found = matches(place, absolute(pattern, here))
        if not found:
            conversion.find(place, "files", f"nothing matches {pattern}", "name files that are there")
        for name in found:
            parse(conversion, name, sections)
            if "include" in sections:
                conversion.find(sections.pop("include")[0], "include", "an included file includes nothing", "supervisord ignores it, too")


def expand(conversion, place, key, text, values):
    """Replaces each %(NAME)s."""
    made, size, end = [], 0, 0
    for match in re.finditer(r"%(?:\(([^)]*)\)([0-9]*)([sd])|(%)|)", text):
        made.append(text[end:match.start()])
        end = match.end()
        name, width, kind, percent = match.groups()
        if percent:
            made.append("%")
        elif name is None:
            raise Failure(place, f"{key}: a single % in {text[:100]!r} must be written %%")
        else:
            made.append(formatted(place, key, value_of(conversion, place, key, name, values), width, kind))
        size += len(made[-1])
        if size > MAX_EXPANDED:
            raise Failure(place, f"{key}: becomes too long")
    return "".join(made) + text[end:]


def value_of(conversion, place, key, name, values):
    """What a name stands for; values[None] has the variables that the configuration itself sets."""
    if name in values:
        return values[name]
    if name.startswith("ENV_") and name[4:] in values.get(None, {}):
        return values[None][name[4:]]
    if name.startswith("ENV_") and name[4:] in conversion.environment:
        conversion.find(place, key, f"the value that {name[4:]} has now stands in the result",
                        'where it changes or is a secret, write {"type": "Environment", "source": "' + name[4:] + '"}')
        return conversion.environment[name[4:]]
    what = f"the variable {name[4:]} is not set" if name.startswith("ENV_") else f"nothing has the name {name}"
    raise Failure(place, f"{key}: %({name}) cannot be expanded: {what}")


def formatted(place, key, value, width, kind):
    if len(width) > 3:
        raise Failure(place, f"{key}: the width {width} is too large")
    if value == NUMBER:
        return f"{NUMBER}{width}{NUMBER}"
    try:
        return f"%{width}{kind}" % (int(value) if kind == "d" else value)
    except ValueError:
        raise Failure(place, f"{key}: {value!r} is not a number") from None


def environment_of(place, text):
    """KEY="value",KEY2=value, by the rules of supervisord: those of shlex without POSIX, where nothing is escaped and # begins a comment."""
    if len(text) > MAX_COMMAND:
        raise Failure(place, f"environment: is longer than {MAX_COMMAND} bytes")
    words, found = [], {}
    for match in TOKEN.finditer(text):
        if match["open"]:
            raise Failure(place, f"environment: {text[:100]!r}: no closing quotation")
        if word := match["word"]:
            words.append(re.sub(r"#[^\n]*\n?", "", word) if "#" in word else word)
        elif sign := match["other"] or match["sign"]:
            words.append(sign)
    for at in range(0, len(words), 4):
        if len(words[at:at + 3]) != 3 or words[at + 1] != "=":
            raise Failure(place, f"environment: {' '.join(words[at:])[:100]!r} is not of the form KEY=VALUE; a value of several words needs quotes")
        found[words[at]] = words[at + 2].strip("'\"")
    return found


# As shlex has them, which is too slow for long ones: a comment inside of a word is left out of it, a quote there is a letter.
TOKEN = re.compile(r"""(?P<word>[A-Za-z0-9_/.+():-](?:[A-Za-z0-9_/.+():'"-]|\#[^\n]*\n?)*)|\#[^\n]*\n?|[ \t\r\n]+|(?P<other>"[^"]*"|'[^']*')|(?P<open>["'])|(?P<sign>.)""")


def size_of(place, key, text):
    match = re.fullmatch(r"([0-9]{1,12})\s*(kb|mb|gb|)", text.strip().lower())
    if not match:
        raise Failure(place, f"{key}: {text[:100]!r} is not a size")
    return int(match[1]) * SIZES[match[2]]


def is_true(place, key, text):
    word = text.strip().lower()
    if word not in ("true", "false", "yes", "no", "on", "off", "1", "0"):
        raise Failure(place, f"{key}: {text[:100]!r} is not true or false")
    return word in ("true", "yes", "on", "1")


class Section:
    """One [program:x], for one of its processes or for all of them."""

    def __init__(self, conversion, place, keys, values):
        self.conversion, self.place, self.keys, self.values = conversion, place, keys, values
        self.outer = values  # for the environment itself: OPTS="-a %(ENV_OPTS)s" means the OPTS of before
        if "environment" in keys:  # its variables can be named by the other keys
            self.values = values | {None: values.get(None, {}) | environment_of(self.where("environment"), self.text("environment"))}

    def where(self, key):
        return self.keys[key][1] if key in self.keys else self.place

    def text(self, key, default=None):
        if key not in self.keys:
            return default
        return expand(self.conversion, self.where(key), key, self.keys[key][0], self.outer if key == "environment" else self.values).strip()

    def number(self, key, default, high=1 << 31, low=0):
        return number(self.where(key), key, self.text(key, str(default)), low, high)

    def flag(self, key, default):
        return is_true(self.where(key), key, self.text(key, default))


def program_of(section):
    """The program that a section describes."""
    if "command" not in section.keys:
        raise Failure(section.place, "has no command")
    command = words(section.where("command"), section.text("command"))
    if not command:
        raise Failure(section.where("command"), "command is empty")
    program = {"command": command}
    if command[0].rsplit("/", 1)[-1] == "pidproxy":
        replace_pidproxy(section, program)
    add_restart(section, program)
    add_stop(section, program)
    add_surroundings(section, program)
    if any("SUPERVISOR_" in word for word in command):
        program["environment"] = own_variables(section) | program.get("environment", {})
    add_output(section, program)
    return program


def own_variables(section):
    """What supervisord tells a program about itself."""
    name = by_number(section, "process_name", section.text("process_name", section.values["program_name"]))
    return {"SUPERVISOR_ENABLED": "1", "SUPERVISOR_PROCESS_NAME": name, "SUPERVISOR_GROUP_NAME": section.values["group_name"]}


def replace_pidproxy(section, program):
    """It passes signals on to the process that a file names. Its command stays in the foreground and hands none on, so that all of
    its processes get them here; "pidFile" is for a command that ends when it has gone into the background."""
    if len(program["command"]) < 3:
        raise Failure(section.where("command"), "pidproxy needs a file and a command")
    program["command"] = program["command"][2:]
    program["stopScope"] = "tree"
    section.conversion.find(section.where("command"), "command", "pidproxy is left out: signals reach all processes of its command",
                            'where the command goes into the background, give the file as "pidFile" in place of "stopScope"')


def add_restart(section, program):
    restart = section.text("autorestart", "unexpected").lower()
    startsecs = section.number("startsecs", 1, 10 ** 6)
    retries = section.number("startretries", 3, 10 ** 12)
    if not section.flag("autostart", "true"):
        program["autoStart"] = False
    if restart != "unexpected":
        restart = "always" if is_true(section.where("autorestart"), "autorestart", restart) else "never"
    if restart == "never" and startsecs == 0:
        program["oneShot"] = True
        return
    program["restart"] = {"unexpected": "on-failure"}.get(restart, restart)
    text = section.text("exitcodes", "0")
    codes = [number(section.where("exitcodes"), "exitcodes", code.strip(), 0, 255) for code in text.split(",")] if text else []
    if restart == "unexpected" and codes != [0]:
        if 0 not in codes:
            section.conversion.find(section.where("exitcodes"), "exitcodes", "exit code 0 always is a success",
                                    "let the program end with another code")
        if others := sorted(set(codes) - {0}):
            program["successCodes"] = others
    if restart != "never" and retries > 998 and startsecs:
        section.conversion.find(section.where("startretries"), "startretries", "at most 998 are counted",
                                "it is restarted without a limit here, after 1 s, 2 s, 4 s and so on up to a minute")
        program["backoff"] = {"initial": "1s", "factor": 2, "max": "60s"}
    elif restart != "never":
        add_retries(program, startsecs, retries)


def add_retries(program, startsecs, retries):
    """supervisord gives up after so many starts in a row whose processes end within startsecs. It waits 1 s, 2 s, 3 s between
    them; here the pauses are equal and come to the same, so that failures after longer runs never are too many."""
    pause = retries * (retries + 1) / 2 / max(retries - 1, 1) if startsecs and retries else 1
    program["backoff"] = {"initial": duration(pause), "factor": 1, "max": duration(pause)}
    if startsecs:  # otherwise each start is a good one
        program["startLimit"] = {"count": retries + 1, "interval": duration((retries + 1) * startsecs + retries * pause)}


def add_stop(section, program):
    if "stopsignal" in section.keys:
        program["stopSignal"] = signal_name(section.where("stopsignal"), "stopsignal", section.text("stopsignal"))
    if "stopwaitsecs" in section.keys:
        program["stopTimeout"] = duration(section.number("stopwaitsecs", 10))
    if section.flag("stopasgroup", "false"):  # with killasgroup alone the signal is for the process, and KILL for all, as always here
        program["stopScope"] = "tree"


def add_surroundings(section, program):
    if user := section.text("user"):
        program["user"] = number(section.where("user"), "user", user, 0, (1 << 32) - 2) if user.isdigit() else user
        if user.isdigit() and (groups := groups_of(int(user))):  # supervisord looks them up for a number, too
            program["supplementaryGroups"] = groups
            section.conversion.find(section.where("user"), "user", *GROUPS_OF_NUMBER)
    if directory := section.text("directory"):
        program["workingDirectory"] = absolute(at_home(section, "directory", directory), section.values["here"])
    if "umask" in section.keys:
        program["umask"] = mode(section.where("umask"), "umask", section.text("umask"))
    if "environment" in section.keys:
        program["environment"] = environment_of(section.where("environment"), section.text("environment"))


def add_output(section, program):
    is_joined = section.flag("redirect_stderr", "false") or ("stderr_logfile" in section.keys and log_name(section, "stderr") == log_name(section, "stdout"))
    output = place_of(section, "stdout")
    error = None if is_joined and output != "null" else place_of(section, "stderr")
    program["output"] = output
    if output == "null":
        return
    if output == "inherit":
        if error not in (None, "inherit", {}):
            program["output"] = {"format": "raw", "stderr": error}
    elif "syslog" in output and (is_joined or "syslog" in error):  # supervisord says both with one severity
        output["syslog"]["stderrSeverity"] = "info"
    elif error is not None and error != output:
        output["stderr"] = error | {"syslog": error["syslog"] | {"severity": "info"}} if "syslog" in error else error


def log_name(section, stream):
    """What a log file is called: NONE, AUTO, SYSLOG, or a path."""
    key = f"{stream}_logfile"
    text = section.text(key, "AUTO")
    return {"OFF": "NONE"}.get(text.upper(), text.upper()) if text.upper() in ("NONE", "OFF", "AUTO", "SYSLOG") else at_home(section, key, text)


def at_home(section, key, path):
    """The path with the directory that a ~ at its beginning means."""
    if not re.match(r"~[A-Za-z0-9._-]*(/|$)", path):
        return path
    made = os.path.expanduser(path)
    section.conversion.find(section.where(key), key, f"~ is a home directory of this machine: {made[:100]}", "write it out where the other one has another")
    return made


def place_of(section, stream):
    """Where a stream goes, as the value of "output" or of its "stderr"."""
    file = log_name(section, stream)
    if goes_to_syslog(section, stream):
        return {"syslog": {"facility": "user"}}
    if file == "NONE":
        return "null"
    if re.fullmatch(r"/dev/(stdout|stderr|fd/[12])|/proc/self/fd/[12]", file):
        return "inherit"
    return {} if file == "AUTO" else log_file(section, stream, file)


def goes_to_syslog(section, stream):
    """A file comes first where both are wanted, which is told."""
    file = log_name(section, stream)
    if file == "SYSLOG":
        return True
    key = f"{stream}_syslog"
    if not section.flag(key, "false"):
        return False
    if file not in ("AUTO", "NONE"):
        section.conversion.find(section.where(key), key, *ONE_PLACE)
    return file in ("AUTO", "NONE")


def log_file(section, stream, file):
    key = f"{stream}_logfile_maxbytes"
    size = size_of(section.where(key), key, section.text(key, "50MB"))
    if size == 0:
        section.conversion.find(section.where(key), key, "a file is always rotated at some size", "it is 1 PiB here, which nothing reaches")
    return {"file": by_number(section, f"{stream}_logfile", absolute(file, section.values["here"])), "maxSize": size or 1 << 50, "maxFiles": section.number(f"{stream}_logfile_backups", 10, 1000)}


def by_number(section, key, path):
    """The path, as an Argument where the number of the process is a part of it."""
    if NUMBER not in path:
        return path
    parts = []
    for at, text in enumerate(path.split(NUMBER)):  # the widths stand between the texts
        if at % 2 == 0:
            parts += [text] if text else []
            continue
        number = {"type": "ProcessNumber"}
        if width := int(text or 0):
            number["width"] = number_of_width(section, key, width)
        if offset := section.values["numprocs_start"] - 1:
            number["offset"] = offset
        parts.append(number)
    return {"type": "Concatenate", "values": parts}


def number_of_width(section, key, width):
    return number(section.where(key), f"{key}: a width", str(width), 1, 20)


def report_rest(section):
    """Tells which keys have no equivalent."""
    known = {"autostart", "autorestart", "startsecs", "startretries", "exitcodes", "stopsignal", "stopwaitsecs", "stopasgroup",
             "killasgroup", "user", "directory", "umask", "environment", "redirect_stderr", "stdout_logfile", "priority",
             "stdout_logfile_maxbytes", "stdout_logfile_backups", "stdout_syslog", "stderr_syslog", "socket", "socket_owner", "socket_mode", "socket_backlog"} | IGNORED
    keys = section.keys
    is_lost = log_name(section, "stdout") == "NONE" and not goes_to_syslog(section, "stdout") and not section.flag("redirect_stderr", "false")
    for key in keys:
        text = section.text(key) or ""
        if key in known or (key.endswith("_enabled") and text.lower() == "false"):
            continue
        if key.startswith("stderr_logfile") and not (is_lost and log_name(section, "stderr") not in ("NONE", "AUTO")):
            continue
        section.conversion.find(section.where(key), key, *WITHOUT_EQUIVALENT.get(key, ("supervisord has no such key", "leave it out")))


def needs_one_each(section):
    """Whether the number of the process stands where the number of a program's process cannot."""
    for key, (value, _) in section.keys.items():
        if key in ("stdout_logfile", "stderr_logfile"):  # an Argument may have the number, with zeros before it
            value = re.sub(r"%\(process_num\)(s|(0[0-9]{1,2})?d)", "", value)
        if key != "process_name" and "process_num" in value:
            return True
    return False


def add_groups(conversion, names, own, groups):
    """What supervisorctl knows as GROUP:* is @GROUP for ctl; a program that has become several is a group, too."""
    wanted = [groups[own]] if own in groups else []
    if len(names) > 1:
        wanted.append(own)
    for name in names if wanted else ():
        program = conversion.programs.get(program_name(name))
        if program is not None:
            program["groups"] = [good for good in dict.fromkeys(program_name(group) for group in wanted) if good]


def add_programs(conversion, name, place, keys, base):
    """Adds one program, or one for each process when they differ; returns their names, and the priority."""
    kind, _, own = name.partition(":")
    if not own.strip():
        raise Failure(place, f"[{name}] has no name")
    own = own.strip()
    values = {"program_name": own, "group_name": base["groups"].get(own, own), "here": base["here"], "host_node_name": base["host"],
              "process_num": 0, "numprocs": 1, None: base["environment"]}
    first = Section(conversion, place, keys, values)
    count = first.number("numprocs", 1, MAX_COUNT)
    start = first.number("numprocs_start", 0)
    values.update(numprocs=count, process_num=start, numprocs_start=start)
    report_rest(first)
    names = []
    if count <= 1 or not needs_one_each(first):
        if count > 1:
            first = Section(conversion, place, keys, values | {"process_num": NUMBER})
        program = program_of(first)
        if count != 1:
            program["count"] = count
        add(conversion, kind, first, own, program)
        names.append(own)
    elif count > MAX_PROGRAMS:
        raise Failure(place, f"{count} processes differ by process_num, which makes more than {MAX_PROGRAMS} programs")
    else:
        for process in range(start, start + count):
            section = Section(conversion, place, keys, values | {"process_num": process})
            full = section.text("process_name", f"{own}_{process:02d}")
            add(conversion, kind, section, full, program_of(section))
            names.append(full)
    priority = priority_of(first)
    return names, (base["priorities"].get(base["groups"].get(own), priority), priority)


def priority_of(section):
    return section.number("priority", 999, low=-(1 << 31))


def add(conversion, kind, section, name, program):
    if kind == "fcgi-program":
        add_socket(section, program)
    conversion.add(section.place, name, program)


def add_socket(section, program):
    """supervisord hands the socket over as descriptor 0, the launcher as descriptor 3: a shell moves it."""
    text = section.text("socket", "")
    where = section.where("socket")
    if match := re.fullmatch(r"unix://(/.+)", text):
        made = {"name": "fcgi", "listen": f"unix:{match[1]}", "mode": mode(where, "socket_mode", section.text("socket_mode", "0700"))}
        user, _, group = section.text("socket_owner", "").partition(":")
        made |= ({"user": user} if user else {}) | ({"group": group} if group else {})
    elif (match := re.fullmatch(r"tcp://([0-9.]+|localhost|\*|):([0-9]{1,5})", text)) and (match[1] in ("*", "") or is_address(match[1])):
        host = {"localhost": "127.0.0.1", "*": ""}.get(match[1], match[1])
        made = {"name": "fcgi", "listen": f"tcp:{host}:{number(where, 'socket: the port', match[2], 1, 65535)}"}
    else:
        raise Failure(where, f"socket: {text[:100]!r} is neither unix:///PATH nor tcp://ADDRESS:PORT")
    if "socket_backlog" in section.keys:
        made["backlog"] = section.number("socket_backlog", 1, 65535) or 1
    program["sockets"] = [made]
    program["command"] = shell_command('exec "$@" <&3 3<&-', *program["command"])


def convert(conversion, path):
    """Adds the programs of a supervisord.conf."""
    sections = parse_all(conversion, path)
    groups, priorities = {}, {}
    for name, (place, keys) in sections.items():
        if name.startswith("group:"):
            priorities[name[6:].strip()] = priority_of(Section(conversion, place, {key: keys[key] for key in keys if key == "priority"}, {}))
            members = keys.get("programs", ("", place))[0]
            groups.update((member.strip(), name[6:].strip()) for member in members.split(",") if member.strip())
            for member in filter(None, map(str.strip, members.split(","))):
                if not {f"program:{member}", f"fcgi-program:{member}"} & sections.keys():
                    conversion.find(place, f"[{name}]", f"there is no program {member[:100]}", "leave it out")
    base = {"groups": groups, "priorities": priorities, "here": directory_of(path), "host": socket.gethostname()}
    levels, common = {}, environment_of_all(conversion, sections, base)
    base["environment"] = common
    for name, (place, keys) in sections.items():
        kind = name.partition(":")[0]
        if kind in ("program", "fcgi-program"):
            names, priority = add_programs(conversion, name, place, keys, base)
            levels.setdefault(priority, []).extend(names)
            add_groups(conversion, names, name.partition(":")[2].strip(), groups)
        elif kind == "eventlistener":
            conversion.find(place, f"[{name}]", "there is no event listener protocol",
                            'follow triton-launch ctl events, or end the container with "critical": true')
        elif kind in SECTIONS:
            if kind != "supervisord" and kind != "supervisorctl":
                conversion.find(place, f"[{name}]", "supervisord's interface has no equivalent", SECTIONS[kind])
        elif kind not in ("group", "rpcinterface", "ctlplugin"):
            conversion.find(place, f"[{name}]", "supervisord has no such section", "leave it out")
    daemon = sections.get("supervisord", (None, {}))[1]
    changed = ("user",) if daemon.get("nodaemon", ("false",))[0].lower() in ("true", "yes", "on", "1") else ("user", "umask", "directory")
    own = {key: daemon[key] for key in changed if key in daemon}  # the others are changed only on the way into the background
    inherited = {}
    add_surroundings(Section(conversion, None, own, {"here": base["here"], "host_node_name": base["host"]}), inherited)
    conversion.length = 0
    for name, program in conversion.programs.items():
        if common:
            program["environment"] = common | program.get("environment", {})
        conversion.programs[name] = inherited | program  # what the daemon has its programs have, too
        conversion.measure(conversion.places[name], conversion.programs[name])
    order(conversion, levels)


def environment_of_all(conversion, sections, base):
    """[supervisord] environment, which all programs get; its other keys are options of the daemon."""
    place, keys = sections.get("supervisord", (None, {}))
    section = Section(conversion, place, keys, {"here": base["here"], "host_node_name": base["host"]})
    for key in keys:
        if key not in ("environment", "nodaemon", "user", "umask", "logfile", "pidfile", "childlogdir", "loglevel", "silent", "logfile_maxbytes",
                       "logfile_backups", "identifier", "directory", "strip_ansi", "nocleanup"):
            conversion.find(section.where(key), key, "it is about supervisord itself", SECTIONS["supervisord"])
    return environment_of(section.where("environment"), section.text("environment")) if "environment" in keys else {}


def order(conversion, levels):
    """Programs of a priority start after those of the next lower one, and stop before them."""
    before = []
    for _, names in sorted(levels.items()):
        made = [program for program in map(program_name, names) if program in conversion.programs]
        for name in made:
            if before:
                conversion.programs[name]["after"] = before
        before = made or before

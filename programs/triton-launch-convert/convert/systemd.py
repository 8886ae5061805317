"""systemd service units with their drop-ins. systemd.exec(5), systemd.service(5) and systemd.unit(5) say what the keys mean."""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from .common import (FACILITIES, GROUPS_OF_NUMBER, LIMITS, MAX_EXPANDED, MAX_PIDS, NEEDS_GROUPS, NEEDS_NICE, NEEDS_RESOURCE, Failure, Place, circle, duration, groups_of, listing, matches, mode, number, pauses, program_name, shell_command,
                     signal_name, waiting_for, SIGNALS, YEAR)

IGNORED = {"Description", "Documentation", "SyslogIdentifier", "SyslogFacility", "SyslogLevel", "SourcePath", "DefaultDependencies", "GuessMainPID", "Slice", "PassEnvironment",
           "CPUAccounting", "MemoryAccounting", "TasksAccounting", "IOAccounting", "Delegate", "CollectMode", "RefuseManualStart", "RefuseManualStop",
           "StopWhenUnneeded", "OnFailureJobMode", "OnSuccessJobMode", "IgnoreOnIsolate", "AllowIsolate", "Wants"}
SANDBOX = ("its sandbox of mounts and filters has other keys", 'use "seccomp", "landlock", "capabilities", or what runs the container')
DIRECTORY = ("no directory is made for a program", "make it in the image, owned by the user of the program")
REASONS = {
    "ExecStartPost": ("nothing runs after a start", "make it a program with \"requires\" and \"oneShot\""),
    "ExecStopPost": ("nothing runs after a stop", "let the command do it when it ends"),
    "PIDFile": ("only a program of Type=forking has one", "leave it out"),
    "OnFailure": ("units are not started by failures", 'give the command in "onFailure"'),
    "OnSuccess": ("units are not started by successes", "run them by \"requires\" after a one-shot"),
    "Sockets": ("socket units are not read", 'list the sockets in "sockets"'),
    "BusName": ("there is no message bus", 'use "readiness" of type notify, tcp or exec'),
    "UnsetEnvironment": ("variables are not removed one by one", 'name those to keep in "environmentFrom"'),
    "RootImage": ("images are not mounted", 'use "rootDirectory"'),
    "DynamicUser": ("users are not made", 'it runs as the launcher does: make a user in the image and give it as "user"'),
    "RequiresMountsFor": ("mounts belong to the container", "mount it before the launcher starts"),
    "IgnoreSIGPIPE": ("programs begin with no signal ignored", "let the command ignore SIGPIPE where it has to"),
    "SendSIGKILL": ("what does not stop in time is killed", 'give it a longer "stopTimeout"'),
    "SendSIGHUP": ("a stop sends one signal after the other", 'see "stopSequence"'),
    "FinalKillSignal": ("what does not stop in time gets KILL", 'see "stopSequence"'),
    "RemainAfterExit": ("only a one-shot counts as up after its end", 'give it "oneShot" if it ends by itself'),
    "Conflicts": ("programs do not stop each other", "leave out the one that should not run"),
    "RestartKillSignal": ("a restart stops a program as any stop does", 'set "stopSignal"'),
    "PermissionsStartOnly": ("all commands have the rights of the program", "prepare what needs others in the image"),
    "LoadCredential": ("credentials are not handed over", "mount a file of secrets into the container"),
    "FileDescriptorStoreMax": ("descriptors are not kept over a restart", 'let the launcher keep listening ones: "sockets"'),
    "SuccessAction": ("nothing is done to the machine", 'use "critical" to end the container'),
    "FailureAction": ("nothing is done to the machine", 'use "critical" to end the container'),
    "PartOf": ("a stop does not reach other programs", "stop them together with triton-launch ctl stop"),
}
HARMLESS = {"IgnoreSIGPIPE": "no", "SendSIGKILL": "yes", "DynamicUser": "no", "PermissionsStartOnly": "no", "SendSIGHUP": "no", "RemainAfterExit": "no", "FinalKillSignal": "sigkill"}  # what holds here in any case
FAMILIES = (
    (r"(Protect|Private|Restrict|ReadOnly|ReadWrite|Inaccessible|Exec(Paths)|NoExec|TemporaryFileSystem|Bind|SystemCall|MemoryDeny|Lock|Keyring|Proc|Device|IPAddress|RemoveIPC|DynamicUser|Mount|SecureBits|PAMName|AppArmor|SELinux|Smack|Network|Socket(Bind)|User(Namespace))", SANDBOX),
    (r"(Runtime|State|Cache|Logs|Configuration)Directory", DIRECTORY),
    (r"(Condition|Assert)", ("nothing is asked of the machine before a start", "leave the program out where it should not run")),
    (r"(TTY|UtmpI|UtmpM|StandardError|Log|SyslogL|IgnoreSIGPIPE)", ("terminals and logs are the container's", 'see "output"')),
    (r"(Requisite|Upholds|PropagatesS|ReloadP|StopP|JoinsN|RequiresM|WantsM|Propagates)", ("units are related by \"after\" and \"requires\" alone", "write them into the other program")),
)
CAPABILITIES = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST
NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE
SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND
AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE""".split()
UNITS = {"us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3, "": 1, "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "minute": 60, "minutes": 60,
         "h": 3600, "hr": 3600, "hour": 3600, "hours": 3600, "d": 86400, "day": 86400, "days": 86400, "w": 604800, "week": 604800, "weeks": 604800}
DIRECTORIES = {"t": "/run", "S": "/var/lib", "C": "/var/cache", "L": "/var/log", "E": "/etc", "T": "/tmp", "V": "/var/tmp", "h": "/root", "u": "root",
               "U": "0", "g": "root", "G": "0", "s": "/bin/sh"}
EMPTY_IS_NONE = {"CapabilityBoundingSet", "AmbientCapabilities"}  # an empty set, not the default
STATUSES = {"SUCCESS": 0, "FAILURE": 1, "INVALIDARGUMENT": 2, "NOTIMPLEMENTED": 3, "NOPERMISSION": 4, "NOTINSTALLED": 5, "NOTCONFIGURED": 6, "NOTRUNNING": 7,
            "USAGE": 64, "DATAERR": 65, "NOINPUT": 66, "NOUSER": 67, "NOHOST": 68, "UNAVAILABLE": 69, "SOFTWARE": 70, "OSERR": 71, "OSFILE": 72,
            "CANTCREAT": 73, "IOERR": 74, "TEMPFAIL": 75, "PROTOCOL": 76, "NOPERM": 77, "CONFIG": 78}
# Units of a machine's start: an order relative to them says nothing in a container.
LEVELS = "emerg alert crit err warning notice info debug".split()
OF_THE_MACHINE = re.compile(r"(systemd-|plymouth-|modprobe@|getty@|rc-local|rescue|emergency|network|NetworkManager|firewalld|dbus)")


ALIASES = {"TimeoutSec": ("TimeoutStartSec", "TimeoutStopSec"), "StartLimitInterval": ("StartLimitIntervalSec",)}
RELATIONS = {"After", "Before", "Requires", "Wants", "BindsTo", "PartOf", "Requisite", "Conflicts", "Upholds", "OnFailure", "OnSuccess"}  # no empty value takes these back


def joined_lines(text):
    """The lines with the numbers of their beginnings; a backslash at the end of one is a space, and its next line follows."""
    parts, began = [], 0
    for at, line in enumerate(text.split("\n"), 1):
        line = line.lstrip()  # not at its end: a backslash before a space is none that ends the line
        if line.startswith(("#", ";")):
            continue
        if not parts:
            began = at
        parts.append(line)
        if (len(line) - len(line.rstrip("\\"))) % 2:
            parts[-1] = line[:-1] + " "
            continue
        yield began, "".join(parts).strip()
        parts = []
    yield began, "".join(parts).strip()


def parse(conversion, path, keys):
    """Adds the settings of a file: key -> [(value, place)]; an empty value takes back the earlier ones."""
    section = None
    for at, text in joined_lines(conversion.read(path)):
        place = Place(str(path), at)
        if not text:
            continue
        if match := re.fullmatch(r"\[([^]]+)\]", text):
            section = match[1]
        elif section is None or "=" not in text:
            raise Failure(place, "is neither [SECTION] nor KEY=VALUE" if section else "stands before the first [SECTION]")
        elif section in ("Unit", "Service"):
            key, value = (part.strip() for part in text.split("=", 1))
            for name in ALIASES.get(key, (key,)):
                if not value and name not in RELATIONS:
                    keys.pop(name, None)
                if value or name in EMPTY_IS_NONE:
                    keys.setdefault(name, []).append((value, place))
        elif section != "Install" and not section.startswith("X-"):
            conversion.find(place, f"[{section}]", "only services are converted", "leave it out")


UNIT_FOLDERS = ("etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")


def drop_ins(path, name):
    """The drop-ins of a unit in the order of their names. One of a more special directory, or of /etc, hides others of its name."""
    folders = [path.parent]
    for own in UNIT_FOLDERS:
        if f"{path.parent.absolute()}/".endswith(f"/{own}/"):
            root = Path(f"{path.parent.absolute()}"[:-len(own)])
            folders = [root / other for other in UNIT_FOLDERS]
            break
    stem, at, _ = name.partition("@")
    names = [name, *([f"{stem}@"] if at and name != f"{stem}@" else [])]
    parts = stem.split("-")
    names += ["-".join(parts[:count]) + "-" for count in range(len(parts) - 1, 0, -1)]
    found = {}
    for folder in [f"{each}.service.d" for each in names] + ["service.d"]:
        for place in folders:
            if (place / folder).is_dir():
                for file in listing(place / folder):
                    if file.endswith(".conf"):
                        found.setdefault(file, place / folder / file)
    return [found[file] for file in sorted(found) if str(found[file].resolve()) != "/dev/null"]


OTHER_UNITS = {".socket", ".timer", ".target", ".mount", ".automount", ".path", ".slice", ".scope", ".swap", ".device"}


class Unit:
    """A service unit with its drop-ins, and its specifiers."""

    def __init__(self, conversion, path):
        self.conversion, self.path, self.keys = conversion, Path(path), {}
        self.place = Place(str(path))
        stem, kind = self.path.stem, self.path.suffix
        if kind in OTHER_UNITS:
            raise Failure(self.place, f"is a {kind[1:]} unit: only services are converted")
        self.prefix, at, instance = stem.partition("@")
        if at and not instance:
            if not conversion.instance:
                raise Failure(self.place, "is a template; --instance says which instance to convert")
            instance = conversion.instance
        self.instance = instance
        self.name = f"{self.prefix}@{instance}" if at else stem
        values = {"i": instance, "I": unescape(instance), "p": self.prefix, "P": unescape(self.prefix), "n": self.name + ".service",
                  "N": self.name, "j": self.prefix.rpartition("-")[2], "J": unescape(self.prefix.rpartition("-")[2]),
                  "f": "/" + unescape(instance or self.prefix).lstrip("/"), "%": "%"}
        self.specifiers = DIRECTORIES | values
        parse(conversion, path, self.keys)
        for file in drop_ins(self.path, self.name):
            parse(conversion, file, self.keys)

    def all(self, key):
        """The values of a setting, expanded, each with its place."""
        return [(self.expand(place, key, value), place) for value, place in self.keys.get(key, [])]

    def last(self, key, default=None):
        values = self.all(key)
        return values[-1] if values else (default, self.place)

    def words(self, key, with_separators=False, is_strict=False):
        """The values of a setting as words, each expanded after the split, as systemd does: what a specifier stands for is one word."""
        for value, place in self.keys.get(key, []):
            yield [word and self.expand(place, key, word) for word in split(place, key, value, with_separators, is_strict)], place

    def expand(self, place, key, text):
        def specifier(match):
            if match[1] not in self.specifiers:
                self.conversion.find(place, key, f"the value of %{match[1]} is known on the machine only", "write it out")
                return match[0]
            return self.specifiers[match[1]]
        made = re.sub(r"%(.)", specifier, text)
        if len(made) > MAX_EXPANDED:
            raise Failure(place, f"{key}: becomes too long")
        return made

    def find(self, key, place, reason, instead):
        self.conversion.find(place, key, reason, instead)


def unescape(text):
    """A name as systemd-escape --unescape has it: - is /, and \\xNN a byte."""
    made = re.sub(rb"\\x([0-9a-fA-F]{2})", lambda match: bytes([int(match[1], 16)]), text.replace("-", "/").encode("utf-8", "surrogateescape"))
    return made.decode("utf-8", "surrogateescape")


def seconds(place, key, text):
    """A time span: "1min 30s", "5"; None for infinity."""
    if text == "infinity":
        return None
    total, rest = 0.0, text.strip()
    if len(rest) > 200:
        raise Failure(place, f"{key}: {text[:100]!r} is not a time span")
    while rest:
        match = re.match(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([a-z]*)\s*", rest)
        if not match or match[2] not in UNITS:
            raise Failure(place, f"{key}: {text[:100]!r} is not a time span")
        total += float(match[1]) * UNITS[match[2]]
        rest = rest[match.end():]
    return total


ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"', "'": "'", "s": " "}
ESCAPE = re.compile(r"""\\(?:([abfnrtvs\\"'])|x([0-9a-fA-F]{2})|([0-3][0-7]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))""")


def split(place, key, text, with_separators=False, is_strict=False):
    """The words of a value: quotes of both kinds anywhere, and the escapes of C; a backslash before anything else stays, with
    that, unless this is strict. With separators, None stands for each ; that is a word of its own."""
    found, word, quote, at, began = [], None, "", 0, 0  # word: the parts of the one that has begun
    while at < len(text):
        part, match, here = text[at], ESCAPE.match(text, at) if text[at] == "\\" else None, at
        at = match.end() if match else at + 1
        if not quote and part.isspace():
            if word:
                found.append(whole(place, key, word, with_separators and text[began:here]))
            word = None
            continue
        if word is None:
            word, began = [], here
        if match:
            word.append(unescaped(place, key, match))
        elif part == "\\":
            if is_strict:
                raise Failure(place, f"{key}: {text[here:here + 2]} is not an escape: systemd leaves out the line")
            word.append(text[here:at + 1])
            at += 1
        elif part == quote:
            quote = ""
        elif not quote and part in "\"'":
            quote = part
            word.append("")
        else:
            word.append(part)
    if quote:
        raise Failure(place, f"{key}: {text[:100]!r}: no closing quotation")
    return found + ([whole(place, key, word, with_separators and text[began:])] if word else [])


def whole(place, key, parts, raw):
    """The word of its parts, whose escapes may be bytes of one character; with `raw`, None for a separator."""
    if raw in (";", "\\;"):
        return None if raw == ";" else ";"
    word = "".join(parts)
    try:
        return word if word.isascii() else word.encode("utf-8", "surrogateescape").decode()
    except UnicodeError:
        raise Failure(place, f"{key}: {word[:100]!r} is not UTF-8") from None


def unescaped(place, key, match):
    """The character of an escape, or the byte that is a part of one."""
    plain, hexadecimal, octal, *unicode = match.groups()
    if plain:
        return ESCAPES[plain]
    code = int(octal, 8) if octal else int(hexadecimal or unicode[0] or unicode[1], 16)
    if code == 0 or 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        raise Failure(place, f"{key}: {match[0]} is not a character that a word may have")
    return chr(code if any(unicode) or code < 0x80 else 0xDC00 + code)


def is_true(place, key, text):
    word = text.lower()
    if word not in ("1", "yes", "true", "on", "y", "t", "0", "no", "false", "off", "n", "f"):
        raise Failure(place, f"{key}: {text[:100]!r} is not true or false")
    return word in ("1", "yes", "true", "on", "y", "t")


class Command:
    """One Exec line: its prefixes and words."""

    def __init__(self, unit, key, argv, place, known):
        prefixes = re.match(r"[-@:+!|]*", argv[0])[0]
        if set(prefixes) & set("+!"):
            unit.find(key, place, f"the prefix {prefixes} gives this command other rights", "it runs with the rights of the program")
        self.may_fail = "-" in prefixes
        self.argv = [argv[0][len(prefixes):], *argv[1:]]
        if not self.argv[0]:
            raise Failure(place, f"{key}: has no command")
        if "@" in prefixes and len(self.argv) > 1:
            unit.find(key, place, "argv[0] is always the program", f"{self.argv[1]} is left out")
            del self.argv[1]
        self.length, self.where = 0, (place, key)
        parts = [[word] for word in self.argv]
        if ":" not in prefixes:
            parts = [made for word in self.argv for made in self.substitute(unit, word, known)]
        self.words = parts  # of each word its parts: text, and the variables that a shell puts in
        self.variables = {part.name for word in parts for part in word if isinstance(part, Variable)}
        self.is_split = any(part.is_split and part.name != "MAINPID" for word in parts for part in word if isinstance(part, Variable))
        self.argv = None if self.variables else ["".join(word) for word in parts]

    def substitute(self, unit, word, known):
        """Known variables become their values; others stay, for a shell. A word $X of its own is split into words."""
        place, key = self.where
        if word.startswith("$") and word[1:2] not in ("{", "$"):
            name = word[1:]
            if name in known:
                self.grow(known[name])
                return [[part] for part in relaxed_split(known[name])]
            if re.fullmatch(NAME, name):
                return [[Variable(name, True)]]
            unit.find(key, place, f"{word[:100]} is not the name of a variable", "it is left out, as systemd does; write $$ for $")
            return []
        made, end = [], 0
        for match in re.finditer(r"\$(?:\$|\{([^}]*)\})", word):
            made.append(word[end:match.start()])
            end = match.end()
            if match[1] is None:
                made.append("$")
            elif match[1] in known:
                self.grow(known[match[1]])
                made.append(known[match[1]])
            elif re.fullmatch(NAME, match[1]):
                made.append(Variable(match[1], False))
            else:
                unit.find(key, place, f"{match[0][:100]} is not the name of a variable", "it is empty, as for systemd; write $${ where a shell reads it")
        return [[part for part in [*made, word[end:]] if part] or [""]]

    def grow(self, text):
        """Counts what is put in for variables."""
        self.length += len(text)
        if self.length > MAX_EXPANDED:
            raise Failure(self.where[0], f"{self.where[1]}: becomes too long")

    def script(self):
        """The command as a line of a shell."""
        return " ".join("".join(map(quoted, joined_text(word))) for word in self.words)


NAME = "[A-Za-z_][A-Za-z0-9_]*"


@dataclass(frozen=True)
class Variable:
    """What only the shell knows that runs the command."""
    name: str
    is_split: bool


def joined_text(parts):
    """The parts of a word, with texts side by side as one."""
    made = []
    for part in parts:
        if made and isinstance(part, str) and isinstance(made[-1], str):
            made[-1] += part
        else:
            made.append(part)
    return made


def quoted(part):
    if isinstance(part, Variable):
        return f"${part.name}" if part.is_split else f'"${{{part.name}}}"'
    return shlex.quote(part)


def relaxed_split(text):
    """The words of a variable's value: quotes are removed, a backslash stands before the character that is meant, and nothing is an error."""
    found, word, quote, at = [], None, "", 0
    while at < len(text):
        part = text[at]
        at += 1
        if not quote and part in " \t\n\r":
            if word is not None:
                found.append("".join(word))
            word = None
            continue
        word = [] if word is None else word
        if part == "\\":
            word.append(text[at:at + 1])
            at += 1
        elif part == quote:
            quote = ""
        elif not quote and part in "\"'":
            quote = part
        else:
            word.append(part)
    return found + ([] if word is None else ["".join(word)])


def environment_of(unit):
    """The variables that Environment= sets, and those of the user."""
    user, place = unit.last("User")
    found = {"USER": user, "LOGNAME": user} if user and not user.isdigit() else {}
    if user in ("root", "0"):
        found["HOME"] = "/root"
    for words, place in unit.words("Environment", is_strict=True):
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or not name:
                raise Failure(place, f"Environment: {word[:100]!r} is not of the form KEY=VALUE")
            if re.fullmatch(NAME, name):
                found[name] = value
            else:
                unit.find("Environment", place, f"{name[:100]} is not the name of a variable", "systemd leaves it out, too")
    if user and "HOME" not in found:
        unit.find("User", unit.last("User")[1], "HOME and SHELL are not those of the user", 'give the program HOME in "environment" where it reads that')
    return found


@dataclass
class Surroundings:
    """The variables of a unit: those that it sets, the files that the launcher reads, and lines of a shell that reads the others."""
    own: dict
    files: list
    lines: list

    def known(self):
        """What the variables of a command may be replaced with now: nothing where a file may say otherwise."""
        return {} if self.files or self.lines else self.own


def surroundings_of(unit):
    """Environment= and EnvironmentFile=. A file is read by the launcher where it is plain, by a shell where both read the same in it
    or it is not there now, and otherwise here."""
    made = Surroundings(environment_of(unit), [], [])
    files = [file for value, place in unit.all("EnvironmentFile") for file in named_files(unit, value, place)]
    values = [variables_of(unit.conversion.read(path)) if os.path.isfile(path) and os.access(path, os.R_OK) else None for path, _, _ in files]
    is_plain = all(found and found.is_plain and not made.own.keys() & found.pairs.keys() for found in values)
    for (path, is_optional, place), found in zip(files, values):
        if is_plain:
            made.files.append({"path": path, "optional": True} if is_optional else path)
        elif found and not found.is_shell:
            made.own.update(found.pairs)
            unit.find("EnvironmentFile", place, "the values that the file has now stand in the result: neither a shell nor the launcher reads it as systemd does",
                      'write the file without quotes and give it as "environmentFile" where it changes')
        else:
            unit.find("EnvironmentFile", place, "a shell reads the file, with the rights of the program: it expands $ and ` and needs quotes around spaces",
                      'write the variables into "environment" where that matters')
            source = f". {shlex.quote(path)}"
            made.lines.append(f"set -a; [ ! -e {shlex.quote(path)} ] || {source}; set +a" if is_optional else f"set -a; {source} || exit; set +a")
    return made


def named_files(unit, value, place):
    """The files of one EnvironmentFile=, which may be a pattern: path, whether it may be missing, and place."""
    path, is_optional = value.removeprefix("-"), value.startswith("-")
    absolute_path(place, "EnvironmentFile", path)
    if not re.search(r"[*?\[]", path):
        return [(path, is_optional, place)]
    found = matches(place, path)
    unit.find("EnvironmentFile", place, f"a pattern is not looked at again: it means {len(found)} files now", 'name the files, or convert again when there are others')
    return [(file, is_optional, place) for file in found]


@dataclass
class Variables:
    """What systemd reads in a file, and whether a shell or the launcher finds the same in it."""
    pairs: dict
    is_shell: bool = True
    is_plain: bool = True


def variables_of(text):
    """The variables of a file; a line of another form is skipped. Quotes stand at the beginning of a value; what follows one is more of it."""
    made, at = Variables({}), 0
    while at < len(text):
        if match := BLANK_LINE.match(text, at):
            line, at = match[0].strip("\n"), match.end()
            made.is_shell = made.is_shell and not line.lstrip().startswith(";")
            made.is_plain = made.is_plain and (not line.strip() or line.startswith("#"))
            continue
        end = text.find("\n", at) + 1 or len(text) + 1
        name, equals, _ = text[at:end].partition("=")
        value, after = value_at(text, at + len(name) + 1) if equals else ("", end)
        line, at = text[at:after].rstrip("\n"), after
        made.is_shell = made.is_shell and bool(SHELL_LINE.fullmatch(line))
        made.is_plain = made.is_plain and bool(PLAIN_LINE.fullmatch(line))
        if equals and re.fullmatch(NAME, name.strip()):
            made.pairs[name.strip()] = value
    return made


BLANK_LINE = re.compile(r"[ \t]*(?:[#;](?:\\.|[^\\\n])*)?(?:\n|$)", re.DOTALL)
PLAIN_LINE = re.compile(rf"""{NAME}=(?:[^\s"'\\](?:[^\\\n]*[^\s\\])?)?""")
SHELL_LINE = re.compile(rf"""[ \t]*{NAME}=(?:[A-Za-z0-9_./:,=+@%^-]*|"[^"'$`\\]*"|'[^"'\\]*')[ \t]*""")


def value_at(text, at):
    """The value that begins here, and where its line ends."""
    made, quote, is_begun, kept = [], "", False, 0
    while at < len(text):
        part = text[at]
        at += 1
        if not quote and part == "\n":
            break
        if part == "\\" and quote != "'":
            following = text[at:at + 1]
            at += 1
            made.append("" if following == "\n" else following if not quote or following in '"\\`$' else "\\" + following)
            is_begun = is_begun or not quote
        elif part == quote:
            quote = ""
        elif not quote and not is_begun and part in "\"'":
            quote = part
        elif quote or is_begun or not part.isspace():
            made.append(part)
            is_begun = is_begun or not quote
        if quote or not part.isspace():
            kept = len(made)
    return "".join(made[:kept]), at


def commands(unit, key, known):
    """The commands of a setting. What a file of variables may override is left to the shell that reads the file."""
    found = []
    for words, place in unit.words(key, True):
        argv = []
        for word in [*words, None]:
            if word is None and argv:  # a line may hold several
                found.append(Command(unit, key, argv, place, known))
                argv = []
            elif word is not None:
                argv.append(word)
    return found


def command_of(unit, around, is_one_shot):
    """What runs: the command itself, or a shell that runs what comes before it and is then replaced by it."""
    known = around.known()
    main = commands(unit, "ExecStart", known)
    if not main:
        raise Failure(unit.place, "has no ExecStart")
    if len(main) > 1 and not is_one_shot:
        raise Failure(unit.last("ExecStart")[1], "ExecStart: only Type=oneshot may have several")
    conditions = commands(unit, "ExecCondition", known)
    if conditions:
        unit.find("ExecCondition", unit.last("ExecCondition")[1], "a condition that is not met counts as a failure", "leave the program out where it should not run")
    before = conditions + commands(unit, "ExecStartPre", known) + main[:-1]
    lines = before_commands(around, [*before, main[-1]])
    lines += [f"{command.script()} || :" if command.may_fail else f"{command.script()} || exit" for command in before]
    last = main[-1]
    if last.may_fail:
        if not is_one_shot:
            unit.find("ExecStart", unit.last("ExecStart")[1], "the prefix - makes each exit code a success", 'name them in "successCodes"')
        else:
            return shell_command("\n".join([*lines, f"{last.script()} || :"]))
    if not lines and not last.variables:
        return last.argv
    return shell_command("\n".join([*lines, f"exec {last.script()}"]))


def before_commands(around, found):
    """Lines of a shell before the commands: files of variables, and that no word is taken for a pattern."""
    return around.lines + (["set -f"] if any(command.is_split for command in found) else [])


def limits_of(unit):
    found = {}
    for key in unit.keys:
        name = key.removeprefix("Limit")
        if key == name or name not in LIMITS:
            continue
        text, place = unit.last(key)
        values = [limit(place, key, part.strip()) for part in text.split(":", 1)]
        if len(values) == 2 and values[1] != "unlimited" and (values[0] == "unlimited" or values[0] > values[1]):
            raise Failure(place, f"{key}: {text[:100]!r} has a soft limit above the hard one")
        found[name.lower()] = values[0] if len(values) == 1 else {"soft": values[0], "hard": values[1]}
        unit.conversion.find_limit(place, key, name, found[name.lower()])
    return found


def limit(place, key, text):
    if text == "infinity":
        return "unlimited"
    if key in ("LimitCPU", "LimitRTTIME") and re.search("[a-z]$", text):
        span = seconds(place, key, text)
        return round(span * (1 if key == "LimitCPU" else 1000000))
    if key == "LimitNICE" and text[:1] in ("+", "-"):
        return 20 - number(place, key, text, -20, 19)
    return size(place, key, text)


def size(place, key, text):
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTPE]?)B?", text)
    found = round(float(match[1]) * 1024 ** "_KMGTPE".index(match[2] or "_")) if match else 1 << 63
    if match and not match[2] and match[1].isdigit():
        found = int(match[1])
    if found >= 1 << 63:
        raise Failure(place, f"{key}: {text[:100]!r} is not a size")
    return found


def add_type(unit, program):
    kind, place = unit.last("Type", "simple")
    if kind not in ("simple", "exec", "idle", "forking", "oneshot", "notify", "notify-reload", "dbus"):
        raise Failure(place, f"Type: {kind[:100]!r} is not a type of service")
    if kind == "oneshot":
        program["oneShot"] = True
    elif kind.startswith("notify"):
        access = unit.last("NotifyAccess", "main")[0]
        program["readiness"] = {"type": "notify"} | ({"notifyAccess": "all"} if access == "all" else {})
        if kind == "notify-reload":
            unit.find("Type", place, "a reload is not waited for", f"send HUP with triton-launch ctl signal HUP {program_name(unit.name)}")
    elif kind == "forking":
        add_pid_file(unit, program, place)
    elif kind == "dbus":
        unit.find("Type", place, "there is no message bus to wait for", 'it counts as ready when it runs; see "readiness"')


def add_pid_file(unit, program, place):
    path, where = unit.last("PIDFile")
    if not path:
        return unit.find("Type", place, "the process that goes on is known by a pid file alone",
                         "have it write a PIDFile=, or give the command the option that keeps it in the foreground")
    program["pidFile"] = absolute_path(where, "PIDFile", path if path.startswith("/") else f"/run/{path}")


def add_restart(unit, program):
    text, place = unit.last("Restart", "no")
    exact = {"no": "never", "always": "always", "on-failure": "on-failure"}
    if text not in exact and text not in ("on-success", "on-abnormal", "on-abort", "on-watchdog"):
        raise Failure(place, f"Restart: {text[:100]!r} is not one of its values")
    restart = exact.get(text, "always" if text == "on-success" else "on-failure")
    if text not in exact:
        unit.find("Restart", place, f"there is no {text}", f"it is {restart} here")
    if not program.get("oneShot"):
        program["restart"] = restart
    elif restart != "never":
        program["restart"] = "on-failure"
    if program.get("oneShot") and text in ("always", "on-success"):
        unit.find("Restart", place, f"Type=oneshot does not go with {text}", "it is on-failure here")
    prevented = statuses(unit, "RestartPreventExitStatus")
    if 0 in prevented and program.get("restart") == "always":
        unit.find("RestartPreventExitStatus", unit.last("RestartPreventExitStatus")[1], "exit code 0 always is a success", "it is on-failure here, so that 0 ends the program")
        program["restart"] = "on-failure"
    success = statuses(unit, "SuccessExitStatus")
    if restart == "on-failure" and not program.get("oneShot"):
        success += [name for name in ("HUP", "INT", "TERM", "PIPE") if name not in success]  # for systemd these end a service well
    if both := [code for code in success if code in prevented]:  # a success is not restarted in any case, but for always
        if program.get("restart") == "always":
            unit.find("RestartPreventExitStatus", unit.last("RestartPreventExitStatus")[1], f"{both[0]} is a success, too", "it is a failure here, which ends the program")
            success = [code for code in success if code not in both]
        else:
            prevented = [code for code in prevented if code not in both]
    for codes, own in ((success, "successCodes"), (prevented, "permanentFailureCodes")):
        if codes := [code for code in codes if code != 0]:
            program[own] = codes
    if "RestartForceExitStatus" in unit.keys:
        unit.find("RestartForceExitStatus", unit.last("RestartForceExitStatus")[1], "no exit code forces a restart", 'use "restart": "always"')
    delay = None
    if restart != "never" and "RestartSec" in unit.keys:
        delay = seconds(unit.last("RestartSec")[1], "RestartSec", unit.last("RestartSec")[0])
        if delay is not None:
            program["backoff"] = pauses(delay)
    add_start_limit(unit, program, delay)


def statuses(unit, key):
    found = []
    for words, place in unit.words(key):
        for word in words:
            if word in STATUSES or re.fullmatch("[0-9]{1,3}", word):
                found.append(STATUSES.get(word) if word in STATUSES else number(place, key, word, 0, 255))
            elif re.fullmatch("(SIG)?(RT[A-Z0-9+-]+|[A-Z]+[12]?)", word) and (word[:3] == "SIG" or word[:3] == "RTM" or word in SIGNALS):
                found.append(signal_name(place, key, word))
            else:
                unit.find(key, place, f"{word} is not converted", "write its number")
    return list(dict.fromkeys(found))


def add_start_limit(unit, program, delay):
    """Five starts in ten seconds, where nothing else is said; left out where no pause between restarts lets it come to that."""
    burst, place = unit.last("StartLimitBurst", "5")
    interval, where = unit.last("StartLimitIntervalSec", "10s")
    if program.get("restart", "never") == "never":
        return
    span, count = seconds(where, "StartLimitIntervalSec", interval), number(place, "StartLimitBurst", burst)
    is_default = not {"StartLimitBurst", "StartLimitIntervalSec"} & set(unit.keys)
    if span == 0 or count == 0 or (is_default and (delay is None or delay * count >= span)):
        return
    if count > 1000:
        unit.find("StartLimitBurst", place, "a start limit has at most 1000 starts", "it is 1000 here")
    program["startLimit"] = {"count": min(count, 1000), "interval": duration(YEAR if span is None else span)}


def add_stop(unit, program, around):
    text, place = unit.last("KillMode", "control-group")
    if text not in ("control-group", "mixed", "process", "none"):
        raise Failure(place, f"KillMode: {text[:100]!r} is not one of its values")
    # "mixed" is the default here: the signal for the process alone, and KILL for the rest when it has ended.
    if text == "control-group":
        program["stopScope"] = "tree"
    elif text in ("process", "none"):
        unit.find("KillMode", place, "what a process leaves behind is always killed", "give what must go on a program of its own")
    if "KillSignal" in unit.keys:
        program["stopSignal"] = signal_name(unit.last("KillSignal")[1], "KillSignal", unit.last("KillSignal")[0])
    timeout, place = unit.last("TimeoutStopSec", "90s")
    span = seconds(place, "TimeoutStopSec", timeout)
    if span is None or span == 0:
        unit.find("TimeoutStopSec", place, "a stop always has a limit", "it is one day here")
        span = 86400
    program["stopTimeout"] = duration(span)
    if stop := hook(unit, "ExecStop", around, program):
        # What stays active after its command has ended is undone when it is stopped.
        is_undone = program.get("oneShot") and unit.last("RemainAfterExit", "no")[0].lower() in ("yes", "true", "on", "1")
        program["onStop" if is_undone else "preStop"] = {"command": stop, "timeout": duration(span)}
    if reload := commands(unit, "ExecReload", around.known()):
        match, place = kill_of(reload[-1]), unit.last("ExecReload")[1]
        if match and len(reload) == 1:
            signal = signal_name(place, "ExecReload", match)
            unit.find("ExecReload", place, f"a program is not told to reload, but gets {signal} by a command",
                      f"triton-launch ctl signal {signal} {program_name(unit.name)}")
        else:
            unit.find("ExecReload", place, "a program is not told to reload by a command", "run the command by hand")


ENDING = {"TERM", "INT", "QUIT", "KILL", "SIGTERM", "SIGINT", "SIGQUIT", "SIGKILL", "15", "2", "3", "9"}  # signals that are for an end


def kill_of(command):
    """The signal of `kill -X $MAINPID`."""
    match = re.fullmatch(r"(?:/usr)?(?:/bin/)?kill (?:-s )?-?([A-Z0-9]+) (?:\$MAINPID|\$\{MAINPID\}|\"\$\{MAINPID\}\")", command.script())
    return match[1] if match else None


def hook(unit, key, around, program):
    made = commands(unit, key, around.known())
    if not made:
        return None
    # Another signal may end nothing (STOP), or KillSignal= is to follow it.
    if len(made) == 1 and "stopSignal" not in program and (signal := kill_of(made[0])) in ENDING:
        program["stopSignal"] = signal_name(unit.place, key, signal)
        return None
    if not any(command.variables for command in made):
        return made[0].argv if len(made) == 1 else shell_command("\n".join(command.script() for command in made))
    lines = before_commands(around, made) + [command.script() for command in made]
    return shell_command("\n".join((["MAINPID=${TRITON_PID-}"] if any("MAINPID" in command.variables for command in made) else []) + lines))


def add_times(unit, program):
    is_notify = program.get("readiness", {}).get("type") == "notify"
    text, place = unit.last("TimeoutStartSec", "90s" if is_notify else None)
    starts = is_notify or "pidFile" in program
    if text and starts and (span := seconds(place, "TimeoutStartSec", text)):
        program["startTimeout"] = duration(span)
    elif text and program.get("oneShot"):
        if span := seconds(place, "TimeoutStartSec", text):
            program["timeout"] = duration(span)
    elif text and "pidFile" in program:
        unit.find("TimeoutStartSec", place, "a program that forks has 90 seconds where nothing else is said", 'give it a long "startTimeout"')
    elif text and not is_notify and text not in ("0", "infinity"):
        unit.find("TimeoutStartSec", place, "only a program with readiness has a limit for its start", "leave it out")
    text, place = unit.last("WatchdogSec")
    if text and (span := seconds(place, "WatchdogSec", text)):
        if is_notify:
            program["watchdog"] = duration(span)
        else:
            unit.find("WatchdogSec", place, "a watchdog needs Type=notify", 'use "health"')


def add_identity(unit, program):
    for key, own in (("User", "user"), ("Group", "group")):
        text, place = unit.last(key)
        if text:
            program[own] = number(place, key, text, 0, (1 << 32) - 2) if text.isdigit() else text
    user, place = unit.last("User")
    if groups := [word for words, _ in unit.words("SupplementaryGroups") for word in words]:
        program["supplementaryGroups"] = groups
        unit.find("SupplementaryGroups", unit.last("SupplementaryGroups")[1], "they take the place of the user's own in /etc/group", "add those to the list")
    elif user and user.isdigit() and (groups := groups_of(int(user))):  # systemd looks them up for a number, too
        program["supplementaryGroups"] = groups
        unit.find("User", place, *GROUPS_OF_NUMBER)
    text, place = unit.last("WorkingDirectory")
    if text and text.lstrip("-").startswith("/"):
        program["workingDirectory"] = text.removeprefix("-")
        if text.startswith("-"):
            unit.find("WorkingDirectory", place, "a directory that is missing is an error", "make it in the image")
    elif text:
        unit.find("WorkingDirectory", place, f"{text} is not an absolute path", "write the directory out")
    text, place = unit.last("RootDirectory")
    if text and text.startswith("/"):
        program["rootDirectory"] = text
    text, place = unit.last("UMask")
    if text:
        program["umask"] = mode(place, "UMask", text)
    for key, own, low, high in (("Nice", "nice", -20, 19), ("OOMScoreAdjust", "oomScoreAdj", -1000, 1000)):
        text, place = unit.last(key)
        if text:
            program[own] = number(place, key, text, low, high)
            if program[own] < 0:
                unit.find(key, place, *(NEEDS_NICE if own == "nice" else NEEDS_RESOURCE))
    if cpus := " ".join(text for text, _ in unit.all("CPUAffinity")):
        program["cpuAffinity"] = re.sub(r"[ ,]+", ",", cpus.strip())
        is_list = re.fullmatch(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*", program["cpuAffinity"])
        if not is_list or any(int(first) > int(last) for first, last in re.findall("([0-9]+)-([0-9]+)", program["cpuAffinity"])):
            raise Failure(unit.last("CPUAffinity")[1], f"CPUAffinity: {cpus[:100]!r} is not a list of processors")


def add_rights(unit, program):
    made = {}
    for key, own in (("CapabilityBoundingSet", "bounding"), ("AmbientCapabilities", "ambient")):
        if (names := capabilities(unit, key)) is not None:
            made[own] = names
    if made:
        program["capabilities"] = made
    text, place = unit.last("NoNewPrivileges")
    if text and is_true(place, "NoNewPrivileges", text):
        program["noNewPrivileges"] = True


def capabilities(unit, key):
    """The set of a setting: lines are joined; one that begins with ~ takes away. None when the setting is absent."""
    found = None
    for text, place in unit.all(key):
        names = [name.upper().removeprefix("CAP_") for name in text.lstrip("~").split()]
        if unknown := [name for name in names if name not in CAPABILITIES]:
            raise Failure(place, f"{key}: {unknown[0]!r} is not a capability")
        if text.startswith("~"):
            found = [name for name in (CAPABILITIES if found is None else found) if name not in names]
            if key == "CapabilityBoundingSet":
                unit.find(key, place, "a set is not described by what it lacks", "all others that Linux 6.1 has are named; leave out those that the container lacks")
        else:
            found = list(dict.fromkeys((found or []) + names)) if text else []
    return found


def add_resources(unit, program):
    if limits := limits_of(unit):
        program["limits"] = limits
    made = {}
    for key, own in (("MemoryMax", "memoryMax"), ("MemoryLimit", "memoryMax"), ("MemoryHigh", "memoryHigh"), ("MemoryMin", "memoryMin"), ("MemorySwapMax", "swapMax")):
        text, place = unit.last(key)
        if text and text.endswith("%"):
            unit.find(key, place, "a share of the machine's memory is not a limit", "write it as a size")
        elif text:
            made[own] = "max" if text == "infinity" else size(place, key, text)
            unit.find(key, place, *NEEDS_GROUPS)
    for key, own in (("TasksMax", "pidsMax"), ("CPUWeight", "cpuWeight")):
        text, place = unit.last(key)
        if text and (text.endswith("%") or text == "idle"):
            unit.find(key, place, f"{text} is not a number", "write it as a number")
        elif text:
            made[own] = "max" if text == "infinity" else min(number(place, key, text, 1, 10000 if own == "cpuWeight" else 1 << 31), MAX_PIDS)
            unit.find(key, place, *NEEDS_GROUPS)
    text, place = unit.last("CPUQuota")
    if text:
        made["cpuMax"] = quota(place, text)
        unit.find("CPUQuota", place, *NEEDS_GROUPS)
    if made:
        program["cgroup"] = made


def quota(place, text):
    """A share of a processor, which may have two decimals."""
    share = text.rstrip("%")
    if not re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,2})?", share) or not 1 <= float(share) <= 10 ** 6:
        raise Failure(place, f"CPUQuota: {text[:100]!r} is not a share from 1% to 1000000%")
    return f"{share}%"


def absolute_path(place, key, text):
    if not text.startswith("/"):
        raise Failure(place, f"{key}: {text[:100]!r} is not an absolute path")
    return text


def add_output(unit, program):
    text, place = unit.last("StandardOutput", "journal")
    kind, _, path = text.partition(":")
    if kind == "syslog":
        program["output"] = {"syslog": syslog_of(unit)}
    elif kind == "null":
        program["output"] = "null"
    elif kind in ("file", "append", "truncate"):
        program["output"] = {"file": absolute_path(place, "StandardOutput", path)}
        if kind != "append":
            unit.find("StandardOutput", place, "a file is appended to", "remove it before the start")
    elif kind not in ("journal", "inherit", "kmsg", "journal+console", "syslog+console"):
        unit.find("StandardOutput", place, f"{text} is not a place for output", 'it goes where the launcher\'s goes; see "output"')
    error, place = unit.last("StandardError", "inherit")
    kind, _, path = error.partition(":")
    if error in ("inherit", text) or (error == "journal" and program.get("output") is None):
        return
    if error == "journal" and isinstance(program["output"], dict):
        program["output"]["stderr"] = "inherit"
        return
    if kind in ("null", "file", "append", "truncate") and isinstance(program.get("output", {}), dict):
        program.setdefault("output", {})["stderr"] = "null" if kind == "null" else {"file": absolute_path(place, "StandardError", path)}
        if kind in ("file", "truncate"):
            unit.find("StandardError", place, "a file is appended to", "remove it before the start")
    else:
        unit.find("StandardError", place, f"{error} is not a place for stderr", 'give it as "stderr" inside "output"')


def syslog_of(unit):
    """Where it is asked for by name: the journal of a container is the launcher's own output."""
    made = {}
    facility, place = unit.last("SyslogFacility", "daemon")
    if facility not in FACILITIES:
        raise Failure(place, f"SyslogFacility: {facility[:100]!r} is not a facility")
    if facility != "daemon":
        made["facility"] = facility
    level, place = unit.last("SyslogLevel", "info")
    if level not in LEVELS:
        raise Failure(place, f"SyslogLevel: {level[:100]!r} is not a level")
    if level != "info":
        made["severity"] = level
    made["stderrSeverity"] = level  # systemd has one for both
    name, place = unit.last("SyslogIdentifier")
    if name and re.fullmatch(r"[!-~]{1,48}", name):
        made["name"] = name
    elif name:
        unit.find("SyslogIdentifier", place, f"{name[:100]} is not a name of 1 to 48 printable ASCII characters", 'give another "name"')
    return made


def add_input(unit, program):
    text, place = unit.last("StandardInput", "null")
    kind, _, path = text.partition(":")
    if kind == "file":
        program["stdin"] = {"file": absolute_path(place, "StandardInput", path)}
    elif text != "null":
        unit.find("StandardInput", place, f"{text} is not a place for input", 'see "stdin"')


def add_order(unit, program, names):
    """Relations to units that are converted, too; others are reported."""
    for key, own in (("Requires", "requires"), ("BindsTo", "bindsTo"), ("After", "after"), ("Before", "before")):
        for text, place in unit.all(key):
            for other in text.split():
                if other in names and other != f"{unit.name}.service":
                    program.setdefault(own, []).append(names[other])
                elif other.endswith(".service"):
                    if key in ("Requires", "BindsTo") or not OF_THE_MACHINE.match(other):
                        unit.find(key, place, f"{other} is not among the units that are converted", "name its file too, or leave it out")
                elif key in ("Requires", "BindsTo") and not other.endswith((".target", ".slice")):
                    unit.find(key, place, f"{other} is not a service", 'list a socket in "sockets"; leave the rest to what runs the container')
    for own in ("requires", "bindsTo", "after", "before"):
        if own in program:
            program[own] = list(dict.fromkeys(program[own]))


HANDLED = {"Type", "NotifyAccess", "Restart", "RestartSec", "SuccessExitStatus", "RestartPreventExitStatus", "RestartForceExitStatus", "StartLimitBurst", "StartLimitIntervalSec",
           "StartLimitInterval", "KillMode", "KillSignal", "TimeoutStopSec", "TimeoutStartSec", "TimeoutSec", "ExecStop", "ExecReload", "WatchdogSec", "User", "Group",
           "SupplementaryGroups", "WorkingDirectory", "RootDirectory", "UMask", "Nice", "OOMScoreAdjust", "CPUAffinity", "CapabilityBoundingSet", "AmbientCapabilities",
           "NoNewPrivileges", "MemoryMax", "MemoryLimit", "MemoryHigh", "MemoryMin", "MemorySwapMax", "TasksMax", "CPUWeight", "CPUQuota", "StandardInput", "StandardOutput", "StandardError",
           "Requires", "BindsTo", "After", "Before", "Environment", "EnvironmentFile", "ExecStart", "ExecStartPre", "ExecCondition"}


def report_rest(unit, program, names):
    for key in unit.keys:
        if key in HANDLED or key in IGNORED or key.removeprefix("Limit") in LIMITS:
            continue
        if key == "RemainAfterExit" and program.get("oneShot") or key == "Conflicts" and not {name for text, _ in unit.all(key) for name in text.split()} & names.keys():
            continue
        if key == "PIDFile" and unit.last("Type", "simple")[0] == "forking":
            continue
        reason = REASONS.get(key) or next((reason for pattern, reason in FAMILIES if re.match(pattern, key)), None)
        if unit.keys[key][-1][0].lower() == HARMLESS.get(key) or (reason == SANDBOX and unit.keys[key][-1][0].lower() in ("no", "false", "off", "0")):
            continue
        unit.find(key, unit.keys[key][-1][1], *(reason or ("it has no equivalent", "leave it out")))


def program_of(unit, names):
    """The program that a unit describes."""
    program = {}
    add_type(unit, program)
    around = surroundings_of(unit)
    made = {"command": command_of(unit, around, program.get("oneShot", False))}
    if around.own:
        made["environment"] = around.own
    if around.files:
        made["environmentFile"] = around.files
    add_order(unit, program, names)
    add_restart(unit, program)
    add_stop(unit, program, around)
    add_times(unit, program)
    add_identity(unit, program)
    add_rights(unit, program)
    add_resources(unit, program)
    add_input(unit, program)
    add_output(unit, program)
    report_rest(unit, program, names)
    return made | program


def convert(conversion, paths):
    """Adds the programs of service units, whose relations to each other count."""
    units = [Unit(conversion, path) for path in paths]
    names = {f"{unit.name}.service": program_name(unit.name) for unit in units}
    for unit in units:
        conversion.add(unit.place, unit.name, program_of(unit, names))
    waits = waiting_for(conversion.programs)
    for unit in units:
        drop_circles(unit, names[f"{unit.name}.service"], waits)


def drop_circles(unit, name, waits):
    """A requirement without After= is no order for systemd, but is one here: it is left out where the other waits for this one."""
    program = unit.conversion.programs[name]
    for key, own in (("Requires", "requires"), ("BindsTo", "bindsTo")):
        for other in list(program.get(own, [])):
            if other in program.get("after", []):
                continue
            waits[name].discard(other)
            if circle(unit.conversion, waits, other, name):
                program[own].remove(other)
                unit.find(key, unit.last(key)[1], f"{other} waits for this one", "it is left out: a requirement is an order, too")
            else:
                waits[name].add(other)
        if not program.get(own, True):
            del program[own]

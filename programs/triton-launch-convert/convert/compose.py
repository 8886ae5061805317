"""docker-compose and process-compose: services and processes in YAML."""

import os
import re
from collections import ChainMap
from urllib.parse import quote

from .common import (FACILITIES, LIMITS, MAX_COUNT, MAX_EXPANDED, MAX_PIDS, NEEDS_GROUPS, NEEDS_RESOURCE, YEAR, Failure, Place, absolute, directory_of, duration, is_address, is_simple, number, pauses, program_name, shell_command,
                     signal_name, waiting, words)
from .yaml_tree import Map, load

NETWORK = ("all programs share the container's network", "leave it out")
IMAGE = ("all programs share one image", "put the command and its files into it")
FILES = ("all programs share the container's files", "mount it into the container")
SERVICE_REASONS = {
    "image": IMAGE, "build": IMAGE, "pull_policy": IMAGE, "platform": IMAGE,
    "ports": ("ports belong to the container", "publish them where the container is run"), "expose": NETWORK, "networks": NETWORK, "network_mode": NETWORK,
    "links": NETWORK, "extra_hosts": NETWORK, "dns": NETWORK, "hostname": NETWORK,
    "volumes": FILES, "tmpfs": FILES, "secrets": FILES, "configs": FILES, "volumes_from": FILES,
    "privileged": ("rights belong to the container", "give them to the container, and less to programs by \"capabilities\""),
    "stdin_open": ("standard input is /dev/null", 'see "stdin" and "tty"'),
    "profiles": ("there are no profiles", "it is not started by itself here; start it with triton-launch ctl start"),
    "mem_reservation": ("nothing is set aside", 'use "cgroup": {"memoryMin": ...}'), "memswap_limit": ("it is memory and swap together", 'use "cgroup": {"swapMax": ...}'),
    "cpu_shares": ("weights have another scale", 'use "cgroup": {"cpuWeight": ...}'), "cpuset": ("it is not a control group's here", 'use "cpuAffinity"'),
    "group_add": ("they take the place of the user's own", 'use "supplementaryGroups"'), "develop": ("files are watched in another way", 'see "files"'),
    "post_start": ("nothing runs after a start", 'make it a program with "requires" and "oneShot"'), "pre_stop": ("written in another way", 'see "preStop"'),
    "read_only": FILES, "devices": FILES,
    "extends": ("a service is not taken from another", "write it out, or use docker compose config"),
    "cap_add": ("rights of the container", 'use "capabilities"'), "cap_drop": ("rights of the container", 'use "capabilities"'),
    "security_opt": ("rights of the container", 'use "noNewPrivileges" and "seccomp"'),
}
PROCESS_REASONS = {
    "is_daemon": ("the process that is started is the one that is watched", "let it stay in the foreground"),
    "extends": ("a process is not taken from another", "write it out"),
    "is_foreground": ("nobody starts it from a screen", "it is not started by itself here; start it with triton-launch ctl start"),
    "is_elevated": ("programs do not get more rights", 'see "user" and "capabilities"'),
    "launch_timeout_seconds": ("only a program with readiness has a limit for its start", 'see "startTimeout"'),
    "log_configuration": ("logs are written in another way", 'see "output"'), "disable_ansi_colors": ("colours are not taken out", "let the program write none"),
    "namespace": ("programs have no namespaces", "name them one by one"),
}
LOGGING = ("logs belong to the container", 'see "output"')
DEPLOYMENT = ("deployment is not part of the container", "leave it to what runs the container")
NUMBER = "\0"  # stands for the number of the replica, which each process has for itself
URL_SAFE = "/?#[]@!$&'()*+,;=:%~"
SPAN = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}


# A blank line, a comment, NAME, or NAME=VALUE. No two runs of spaces stand side by side, which would be tried in every division.
ENV_LINE = re.compile(r"""[ \t]*(?:(?:export[ \t]+)?([^\s=:'"#]+)(?:[ \t]*[=:][ \t]*(?:'([^']*)'|"((?:[^"\\]|\\.)*)"|([^'"\s][^\n]*|)))?)?[ \t]*(?:\#[^\n]*)?(?:\n|$)""",
                      re.DOTALL)
# Text without a $; $$; $NAME; ${NAME and what may follow it; another $.
VARIABLE = re.compile(r"([^$}]+|\})|\$(?:(\$)|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(:?[-+?])?|)")


class Reader:
    """A document, with what its places and its variables need."""

    def __init__(self, conversion, path):
        self.conversion, self.path, self.here = conversion, str(path), directory_of(path)
        self.document = load(conversion, path)
        if not isinstance(self.document, Map):
            raise Failure(Place(self.path), "is not a mapping")
        self.variables, self.is_strict = {}, True

    def place(self, made, key):
        return Place(self.path, made.lines.get(key, 0))

    def child(self, made, key, kind, what):
        """The value of a key, of a type; an empty one when it is absent."""
        value = made.get(key)
        if value is None:
            return kind()
        if not isinstance(value, kind):
            raise Failure(self.place(made, key), f"{key}: is not {what}")
        return value

    def text(self, made, key, value):
        """A scalar as text, with variables replaced as docker compose does."""
        if isinstance(value, (dict, list)):
            raise Failure(self.place(made, key), f"{key}: is not a string")
        if value is None:
            return ""
        return self.interpolate(self.place(made, key), key, str(value).lower() if isinstance(value, bool) else str(value))

    def interpolate(self, place, key, text):
        """The text with its variables replaced: $NAME, ${NAME}, and ${NAME:-OTHER} with - ? or +, where OTHER may have variables, too."""
        made, at = self.replaced(place, key, text, 0, "", 0)
        if len(made) > MAX_EXPANDED:
            raise Failure(place, f"{key}: becomes too long")
        return made

    def replaced(self, place, key, text, at, end, depth):
        """The text from here up to its end, with variables replaced, and where it ends."""
        if depth > 20:
            raise Failure(place, f"{key}: variables are nested more than 20 deep")
        made, size = [], 0
        while at < len(text) and not (end and text[at] == end):
            match = VARIABLE.match(text, at)
            at = match.end()
            if match[1] is not None:
                made.append(match[1])
            elif match[2]:
                made.append("$")
            elif name := match[3] or match[4]:
                other = ""
                if match[5]:
                    other, at = self.replaced(place, key, text, at, "}", depth + 1)
                if match[4] and text[at:at + 1] != "}":
                    raise Failure(place, f"{key}: {text[match.start():match.start() + 100]!r} is not a variable")
                at += bool(match[4])
                made.append(self.value_of(place, key, name, match[5] or "", other))
            elif self.is_strict:
                raise Failure(place, f"{key}: a single $ must be written $$")
            else:
                made.append("$")
            size += len(made[-1])
            if size > MAX_EXPANDED:
                raise Failure(place, f"{key}: becomes too long")
        return "".join(made), at

    def value_of(self, place, key, name, operator, other):
        found = self.variable(name)
        if operator.startswith(":") and not found:
            found = None
        if operator.endswith("+"):
            return other if found is not None else ""
        if found is None and operator.endswith("?"):
            raise Failure(place, f"{key}: the variable {name} is not set: {other}")
        if found is None and not operator:
            self.conversion.find(place, f"${name}", "the variable is not set here", "it is empty; set it and convert again")
        return found if found is not None else other

    def variable(self, name):
        """The environment comes before the file .env."""
        return self.conversion.environment.get(name, self.variables.get(name))

    def command(self, made, key):
        """A list of words, or a string that is split as a shell does."""
        value = made.get(key)
        if value is None:
            return []
        if isinstance(value, list):
            return [self.text(made, key, word) for word in value]
        return words(self.place(made, key), self.text(made, key, value))

    def environment(self, made, key="environment"):
        """A mapping, or a list of KEY=VALUE; a KEY alone is inherited in any case, or stands in .env."""
        value = made.get(key)
        if isinstance(value, list):
            pairs = [self.text(made, key, entry).partition("=") for entry in value]
            found = {name: text if equals else None for name, equals, text in pairs}
        else:
            value = self.child(made, key, Map, "a mapping or a list")
            found = {name: None if text is None else self.text(value, name, text) for name, text in value.items()}
        if bad := [name for name in found if not name or "=" in name]:
            raise Failure(self.place(made, key), f"{key}: {bad[0][:100]!r} is not the name of a variable")
        return {name: value for name, text in found.items() if (value := self.variables.get(name) if text is None else text) is not None}

    def env_file(self, path, must_exist=True):
        """The variables of a file of NAME=VALUE: '...' as it stands, "..." with escapes, others up to a # after a space; $NAME is
        replaced but in '...'. A NAME alone is inherited in any case."""
        path = absolute(path, self.here)
        if not must_exist and not os.path.exists(path):
            return {}
        text, found, at, line = self.conversion.read(path), {}, 0, 1
        known = ChainMap(found, self.variables)
        while at < len(text):
            place, match = Place(path, line), ENV_LINE.match(text, at)
            if not match:
                raise Failure(place, "is not of the form NAME=VALUE")
            at, line = match.end(), line + match[0].count("\n")
            name, single, double, plain = match.groups()
            if name is None or single is double is plain is None:
                continue
            found[name] = single if single is not None else self.unquoted(place, name, double, plain, known)
        return found

    def unquoted(self, place, name, double, plain, known):
        """A value with its escapes and variables, which may be those of earlier lines."""
        outer = self.variables
        self.variables, self.is_strict = known, False
        try:
            if plain is not None:
                return self.interpolate(place, name, re.sub(r"\s+#.*$", "", plain).strip())
            escaped = re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r", "t": "\t", "$": "$$"}.get(match[1], match[1] if match[1] in "\\\"" else match[0]), double, flags=re.DOTALL)
            return self.interpolate(place, name, escaped)
        finally:
            self.variables, self.is_strict = outer, True

    def is_true(self, made, key):
        """Whether a key says yes, in any of YAML's ways."""
        return str(made.get(key)).lower() in ("true", "yes", "on", "y")

    def number(self, made, key, low=0, high=1 << 31):
        """An integer, which may come from variables."""
        return number(self.place(made, key), key, self.text(made, key, made[key]), low, high)

    def span(self, made, key):
        return self.span_of(self.place(made, key), key, self.text(made, key, made[key]).strip())

    @staticmethod
    def span_of(place, key, text):
        """A duration: "1m30s", or a number of seconds."""
        if re.fullmatch(r"[0-9]{1,9}", text):
            return int(text)
        if not re.fullmatch(r"([0-9]{1,9}(\.[0-9]{1,6})?(us|ms|s|m|h|d))+", text):
            raise Failure(place, f"{key}: {text[:100]!r} is not a duration")
        return sum(float(amount) * SPAN[unit] for amount, unit in re.findall(r"([0-9.]+)(us|ms|s|m|h|d)", text))

    def report(self, made, handled, reasons):
        for key in made:
            if key not in handled and not key.startswith("x-"):
                self.conversion.find(self.place(made, key), key, *reasons.get(key, ("it has no equivalent", "leave it out")))


def convert_docker_compose(conversion, path):
    """Adds the services of a compose file."""
    reader = Reader(conversion, path)
    reader.variables = reader.env_file(".env", False)
    services = reader.child(reader.document, "services", Map, "a mapping")
    reader.report(reader.document, {"services", "version", "name"}, {"volumes": FILES, "networks": NETWORK, "secrets": FILES, "configs": FILES,
                                                                   "include": ("other files are not read", "use docker compose config")})
    one_shots = {key for made in services.values() if isinstance(made, Map) and isinstance(made.get("depends_on"), Map)
                 for key, condition in made["depends_on"].items()
                 if isinstance(condition, Map) and condition.get("condition") == "service_completed_successfully"}
    waited = {key for made in services.values() if isinstance(made, Map) and isinstance(made.get("depends_on"), Map)
              for key, condition in made["depends_on"].items() if isinstance(condition, Map) and condition.get("condition") == "service_healthy"}
    for name in services:
        made = reader.child(services, name, Map, "a mapping")
        program = service(reader, services, name, made, name in one_shots, name in waited)
        if program:
            conversion.add(reader.place(services, name), name, program)
    drop_missing(conversion)


def drop_missing(conversion):
    """Relations to what was not converted were reported with it."""
    for program in conversion.programs.values():
        for key in ("requires", "after"):
            if key in program:
                program[key] = [name for name in program[key] if name in conversion.programs]
                if not program[key]:
                    del program[key]


def service(reader, services, name, made, is_one_shot, is_waited):
    command = reader.command(made, "entrypoint") + reader.command(made, "command")
    if not command:
        reader.conversion.find(reader.place(services, name), name, "the command is that of its image", 'it is left out; add a "command"')
        return None
    program = {"command": command, "output": compose_output(reader, made)}
    if not made.get("entrypoint"):
        reader.conversion.find(reader.place(made, "command"), "command", "the image may have an entrypoint", "write it before the command if it does")
    files = made.get("env_file") or []
    environment = {}
    if "profiles" in made:
        program["autoStart"] = False
    if reader.is_true(made, "tty"):
        program["tty"] = True
    for entry in files if isinstance(files, list) else [files]:
        required, file = (entry.get("required") is not False, entry.get("path")) if isinstance(entry, Map) else (True, entry)
        environment |= reader.env_file(reader.text(made, "env_file", file), required)
    if environment := environment | reader.environment(made):
        program["environment"] = environment
    compose_restart(reader, made, program, is_one_shot)
    compose_order(reader, services, made, program)
    compose_health(reader, made, program, is_waited)
    if "stop_signal" in made:
        program["stopSignal"] = signal_name(reader.place(made, "stop_signal"), "stop_signal", reader.text(made, "stop_signal", made["stop_signal"]))
    if "stop_grace_period" in made:
        program["stopTimeout"] = duration(reader.span(made, "stop_grace_period"))
    if "user" in made:
        user, _, group = reader.text(made, "user", made["user"]).partition(":")
        if not user:
            raise Failure(reader.place(made, "user"), "user: is empty")
        if user not in ("0", "root") and "HOME" not in program.get("environment", {}):
            reader.conversion.find(reader.place(made, "user"), "user", "HOME is not that of the user", 'give the program HOME in "environment" where it reads that')
        program |= {"user": int(user) if re.fullmatch("[0-9]{1,9}", user) else user} | ({"group": int(group) if re.fullmatch("[0-9]{1,9}", group) else group} if group else {})
    if "working_dir" in made:
        program["workingDirectory"] = absolute(reader.text(made, "working_dir", made["working_dir"]), "/")
    handled = {"command", "logging", "entrypoint", "environment", "env_file", "restart", "depends_on", "healthcheck", "stop_signal", "stop_grace_period", "user",
               "working_dir", "container_name", "labels", "init", "scale", "tty", "oom_score_adj"}
    if "oom_score_adj" in made:
        program["oomScoreAdj"] = reader.number(made, "oom_score_adj", -1000, 1000)
        if program["oomScoreAdj"] < 0:
            reader.conversion.find(reader.place(made, "oom_score_adj"), "oom_score_adj", *NEEDS_RESOURCE)
    if "scale" in made:
        program["count"] = reader.number(made, "scale", 0, MAX_COUNT)
    compose_limits(reader, made, program)
    if "tty" in program or not reader.is_true(made, "stdin_open"):
        handled.add("stdin_open")
    reader.report(made, handled | {"mem_limit", "cpus", "pids_limit", "ulimits", "deploy"}, SERVICE_REASONS)
    return program


def compose_limits(reader, made, program):
    """What a service may use, in the form of version 2 and in that of `deploy`; the latter wins."""
    found = {}
    deploy = reader.child(made, "deploy", Map, "a mapping")
    if "replicas" in deploy:
        program["count"] = reader.number(deploy, "replicas", 0, MAX_COUNT)
    resources = reader.child(deploy, "resources", Map, "a mapping")
    limits = reader.child(resources, "limits", Map, "a mapping")
    reader.report(deploy, {"replicas", "resources", "mode", "labels"}, {key: DEPLOYMENT for key in deploy})
    reader.report(resources, {"limits"}, {"reservations": ("nothing is set aside", 'use "cgroup": {"memoryMin": ...}')})
    reader.report(limits, {"cpus", "memory", "pids"}, {})
    for place, memory, cpus, pids in ((made, "mem_limit", "cpus", "pids_limit"), (limits, "memory", "cpus", "pids")):
        if memory in place and (limit := bytes_of(reader, place, memory)):
            found["memoryMax"] = limit
            reader.conversion.find(reader.place(place, memory), memory, *NEEDS_GROUPS)
        if cpus in place:
            text = reader.text(place, cpus, place[cpus])
            if not re.fullmatch(r"([0-9]{1,4})?(\.[0-9]{1,6})?", text) or not text or 0 < float(text) < 0.01:
                raise Failure(reader.place(place, cpus), f"{cpus}: {text[:100]!r} is not a number of processors")
            if float(text):  # 0 is no limit, for all of these
                found["cpuMax"] = f"{max(round(float(text) * 100), 1)}%"
                reader.conversion.find(reader.place(place, cpus), cpus, *NEEDS_GROUPS)
        if pids in place and (most := reader.number(place, pids, -1)) > 0:
            found["pidsMax"] = min(most, MAX_PIDS)
            reader.conversion.find(reader.place(place, pids), pids, *NEEDS_GROUPS)
    if found:
        program["cgroup"] = found
    wanted = {}
    ulimits = reader.child(made, "ulimits", Map, "a mapping")
    for name, value in ulimits.items():
        if name.upper() not in LIMITS:
            reader.conversion.find(reader.place(ulimits, name), name[:100], "there is no such limit", "leave it out")
        elif isinstance(value, Map):
            sides = [side for side in ("soft", "hard") if side in value]
            if not sides:
                raise Failure(reader.place(ulimits, name), f"{name}: has neither soft nor hard")
            wanted[name] = {side: ulimit(reader, value, side if side in value else sides[0]) for side in ("soft", "hard")}
            soft, hard = wanted[name].values()
            if hard != "unlimited" and (soft == "unlimited" or soft > hard):
                raise Failure(reader.place(ulimits, name), f"{name}: soft is more than hard")
        else:
            wanted[name] = ulimit(reader, ulimits, name)
        if name in wanted:
            reader.conversion.find_limit(reader.place(ulimits, name), name, name, wanted[name])
    if wanted:
        program["limits"] = wanted


def compose_output(reader, made):
    """Lines to the launcher's own output, or what the logging driver syslog does."""
    logging = reader.child(made, "logging", Map, "a mapping")
    driver = reader.text(logging, "driver", logging.get("driver"))
    if "logging" not in made or driver in ("", "json-file", "local"):
        if "logging" in made:
            reader.conversion.find(reader.place(made, "logging"), "logging", *LOGGING)
        return {}
    if driver == "none":
        return "null"
    if driver != "syslog":
        reader.conversion.find(reader.place(logging, "driver"), f"logging: {driver}", *LOGGING)
        return {}
    options = reader.child(logging, "options", Map, "a mapping")
    made_syslog = {}
    for key in options:
        text = reader.text(options, key, options[key])
        place = reader.place(options, key)
        if key == "syslog-address":
            address = syslog_address(text)
            if address is None:
                reader.conversion.find(place, key, "names of hosts are not looked up", "give an IP address, as unix:, udp:, tcp: or tls:")
                return {}
            if address != "unix:/dev/log":
                made_syslog["address"] = address
        elif key == "syslog-facility" and text in FACILITIES:
            made_syslog["facility"] = text
        elif key == "tag" and re.fullmatch(r"[!-~]{1,48}", text) and "{{" not in text:
            made_syslog["name"] = text
        elif key == "syslog-tls-ca-cert":
            reader.conversion.find(place, key, "the agent has one file of authorities", f"start the launcher with --agent-option --syslog-authority={text}")
        elif not (key == "syslog-format" and text.startswith("rfc5424")):
            reader.conversion.find(place, key, "it has no equivalent", 'see "syslog" of "output"')
    return {"syslog": made_syslog}


def syslog_address(text):
    """That of docker as ours; None: its host would have to be looked up."""
    if match := re.fullmatch(r"(?:unix|unixgram)://(/.+)", text):
        return f"unix:{match[1]}"
    match = re.fullmatch(r"(udp|tcp|tcp\+tls)://(localhost|[0-9.]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?", text)
    if not match or not is_address(match[2]) or not 1 <= int(match[3] or 1) <= 65535:
        return None
    kind = {"tcp+tls": "tls"}.get(match[1], match[1])
    return f"{kind}:{match[2]}:{match[3] or {'udp': 514, 'tcp': 514, 'tls': 6514}[kind]}"


def ulimit(reader, made, key):
    limit = reader.number(made, key, -1, 1 << 40)
    return "unlimited" if limit == -1 else limit


def bytes_of(reader, made, key):
    """A size as compose has it, whose units all are powers of 1024: 512m, 1.5g, 1 GiB. 0 is no limit."""
    text = reader.text(made, key, made[key])
    match = re.fullmatch(r"([0-9]{1,15})(\.[0-9]{1,9})? ?([kmgtp]?)i?b?", text.lower())
    size = round(float(match[1] + (match[2] or "")) * 1024 ** " kmgtp".index(match[3] or " ")) if match else 1 << 63
    if size >= 1 << 63:
        raise Failure(reader.place(made, key), f"{key}: {text[:100]!r} is not a size")
    return size if match[2] or match[3] in ("", "p") or not size else f"{match[1]}{match[3].upper()}i"


def compose_restart(reader, made, program, is_one_shot):
    value = made.get("restart", "no")
    text = "no" if value is False else reader.text(made, "restart", value)
    match = re.fullmatch(r"(no|always|unless-stopped|on-failure)(?::([0-9]{1,9}))?", text)
    if not match:
        raise Failure(reader.place(made, "restart"), f"restart: {text[:100]!r} is not one of its values")
    restart = {"no": "never", "unless-stopped": "always"}.get(match[1], match[1])
    if is_one_shot:
        program["oneShot"] = True
        if restart == "always":
            reader.conversion.find(reader.place(made, "restart"), "restart", "what others wait for to complete is not started again after success", "it is on-failure here")
        restart = "never" if restart == "never" else "on-failure"
    if not (is_one_shot and restart == "never"):
        program["restart"] = restart
    if match[2] and int(match[2]):
        program["startLimit"] = {"count": min(int(match[2]) + 1, 1000), "interval": "1h"}


def compose_order(reader, services, made, program):
    value = made.get("depends_on")
    names = [reader.text(made, "depends_on", name) for name in value] if isinstance(value, list) else list(reader.child(made, "depends_on", Map, "a mapping or a list"))
    for name in names:
        if name not in services:
            raise Failure(reader.place(made, "depends_on"), f"depends_on: there is no service {name[:100]}")
        condition = value[name] if isinstance(value, Map) and isinstance(value[name], Map) else {}
        kind = condition.get("condition", "service_started")
        if kind not in ("service_started", "service_healthy", "service_completed_successfully"):
            raise Failure(reader.place(made, "depends_on"), f"depends_on: {str(kind)[:100]!r} is not a condition")
        if kind == "service_healthy" and not has_check(services[name]):
            reader.conversion.find(reader.place(made, "depends_on"), name, "its healthcheck is that of its image", 'write it into "readiness"; until then it counts as healthy when it runs')
        program.setdefault("after" if str(condition.get("required")).lower() in ("false", "no", "off", "n") else "requires", []).append(program_name(name))
        if condition.get("restart"):
            reader.conversion.find(reader.place(made, "depends_on"), "restart", "a program is not restarted with one that it needs", "restart both by triton-launch ctl restart")


def has_check(service):
    check = service.get("healthcheck") if isinstance(service, Map) else None
    return isinstance(check, Map) and bool(check.get("test"))


def compose_health(reader, made, program, is_waited):
    check = reader.child(made, "healthcheck", Map, "a mapping")
    if not check or reader.is_true(check, "disable"):
        return
    test = check.get("test")
    if isinstance(test, list):
        argv = [reader.text(check, "test", word) for word in test]
        if argv[:1] == ["NONE"]:
            return
        if argv[:1] not in (["CMD"], ["CMD-SHELL"]) or len(argv) < 2:
            raise Failure(reader.place(check, "test"), "test: does not begin with CMD, CMD-SHELL or NONE")
        command = argv[1:] if argv[0] == "CMD" else shell_command(argv[1])
    elif test:
        command = shell_command(reader.text(check, "test", test))
    else:
        reader.conversion.find(reader.place(made, "healthcheck"), "healthcheck", "its command is that of the image", 'write it into "health"')
        return
    health = {"command": command, "interval": duration(30), "timeout": duration(30), "action": "report"}
    for key, own in (("interval", "interval"), ("timeout", "timeout"), ("start_period", "startPeriod")):
        if key in check and (span := reader.span(check, key)):
            health[own] = duration(span)
    if "retries" in check and (retries := reader.number(check, "retries")):  # 0 is the default
        if retries > 1000:
            reader.conversion.find(reader.place(check, "retries"), "retries", "a check has at most 1000", "it is 1000 here")
        health["retries"] = min(retries, 1000)
    if "start_interval" in check:
        reader.conversion.find(reader.place(check, "start_interval"), "start_interval", "checks have one interval", '"interval" of "readiness" is that of the start')
    program["health"] = health
    if is_waited:
        program["readiness"] = {"type": "exec", "command": command, "timeout": health["timeout"]}


class ProcessReader(Reader):
    """A process-compose file: $$, ${NAME} and {{.NAME}} are replaced when it is read, but in a command a shell replaces variables."""

    def __init__(self, conversion, path):
        super().__init__(conversion, path)
        self.is_strict, self.names, self.environment_file = False, {}, self.env_file(".env", False)
        self.variables = self.environment_file
        self.is_expanded = not self.is_true(self.document, "disable_env_expansion")

    def interpolate(self, place, key, text):
        return self.rendered(place, key, super().interpolate(place, key, text) if self.is_expanded else text)

    def variable(self, name):
        """The file .env comes before the environment."""
        return self.variables.get(name, self.conversion.environment.get(name))

    def script(self, made, key):
        """What a shell reads: it finds the same variables."""
        if isinstance(made[key], (dict, list)):
            raise Failure(self.place(made, key), f"{key}: is not a string")
        text = self.plain(made[key])
        return self.rendered(self.place(made, key), key, text.replace("$$", "$") if self.is_expanded else text)

    @staticmethod
    def plain(value):
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    def rendered(self, place, key, text):
        """The text with its templates replaced, of which the plainest are understood."""
        def value(match):
            name = re.fullmatch(r"\{\{-?\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*-?\}\}", match[0])
            if not name or name[1] not in self.names:
                raise Failure(place, f"{key}: the template {match[0][:100]} is not understood; write out what it becomes")
            return self.names[name[1]]
        made = re.sub(r"\{\{.*?(\}\}|$)", value, text, flags=re.DOTALL)
        if len(made) > MAX_EXPANDED:
            raise Failure(place, f"{key}: becomes too long")
        return made


def convert_process_compose(conversion, path):
    """Adds the processes of a process-compose file."""
    reader = ProcessReader(conversion, path)
    processes = reader.child(reader.document, "processes", Map, "a mapping")
    common = reader.environment(reader.document)
    if reader.environment_file:
        conversion.find(Place(absolute(".env", reader.here)), ".env", "the values that the file has now stand in the result", 'give it as "environmentFile" where it changes and has no quotes')
    shell = reader.child(reader.document, "shell", Map, "a mapping")
    prefix = [reader.text(shell, key, shell[key]) if key in shell else default for key, default in (("shell_command", "bash"), ("shell_argument", "-c"))]
    reader.report(reader.document, {"processes", "environment", "version", "shell", "is_strict", "log_level", "log_length", "vars", "disable_env_expansion", "is_tui_disabled", "ordered_shutdown"},
                  {"extends": ("other files are not read", "write their processes into this one"), "env_cmds": ("commands are not run by the converter", 'write their results into "environment"'),
                   "log_location": ("each program has a log of its own", 'see "output"'), "log_configuration": PROCESS_REASONS["log_configuration"]})
    waits = {}
    for name in processes:
        for other, rule in reader.child(reader.child(processes, name, Map, "a mapping"), "depends_on", Map, "a mapping").items():
            waits.setdefault(other, set()).add(str(rule.get("condition")) if isinstance(rule, Map) else "")
    for name in processes:
        made = reader.child(processes, name, Map, "a mapping")
        conversion.add(reader.place(processes, name), name, process(reader, processes, name, made, common, prefix, waits.get(name, set())))


def names_of(reader, made, count):
    """What templates of a process may name."""
    found = {"PC_REPLICA_NUM": NUMBER if count > 1 else "0"}
    for place in (reader.document, made):
        found |= {name: reader.plain(value) for name, value in reader.child(place, "vars", Map, "a mapping").items() if not isinstance(value, (dict, list))}
    return found


def process(reader, processes, name, made, common, shell, waits):
    if made.get("command") is None and not made.get("entrypoint"):
        raise Failure(reader.place(processes, name), f"{name} has no command")
    count = reader.number(made, "replicas", 0, MAX_COUNT) or 1 if "replicas" in made else 1
    reader.names = names_of(reader, made, count)
    command = reader.command(made, "entrypoint") if made.get("entrypoint") else [*shell, reader.script(made, "command")]
    program = {"command": command, "output": {}}
    own = {} if reader.is_true(made, "is_dotenv_disabled") else reader.environment_file
    if environment := own | common | reader.environment(made):
        program["environment"] = environment
    if count > 1 or any("PC_REPLICA_NUM" in word or "PC_PROC_NAME" in word for word in command):
        program["environment"] = {"PC_PROC_NAME": name, "PC_REPLICA_NUM": {"type": "ProcessNumber", "offset": -1}} | program.get("environment", {})
    if "working_dir" in made:
        program["workingDirectory"] = absolute(reader.text(made, "working_dir", made["working_dir"]), reader.here)
    if any(reader.is_true(made, key) for key in ("disabled", "is_disabled", "is_foreground")):
        program["autoStart"] = False
    if reader.is_true(made, "is_tty") or reader.is_true(made, "is_interactive"):
        program["tty"] = True
    if "replicas" in made:
        program["count"] = count
    if "log_location" in made:
        program["output"] = {"file": log_of(absolute(reader.text(made, "log_location", made["log_location"]), reader.here), count)}
    is_completed = bool(waits & {"process_completed_successfully", "process_completed"})
    availability(reader, made, program, is_completed)
    for other, rule in reader.child(made, "depends_on", Map, "a mapping").items():
        process_order(reader, processes, made, program, other, rule)
    probe(reader, made, "readiness_probe", program, shell)
    probe(reader, made, "liveness_probe", program, shell)
    if made.get("ready_log_line"):
        program["readiness"] = {"type": "log", "pattern": re.escape(reader.text(made, "ready_log_line", made["ready_log_line"]))}
    shutdown(reader, made, program, shell)
    schedule(reader, made, program, count)
    reader.report(made, {"command", "entrypoint", "environment", "working_dir", "disabled", "is_disabled", "is_dotenv_disabled", "is_tty", "is_interactive", "replicas", "log_location", "availability",
                         "depends_on", "readiness_probe", "liveness_probe", "ready_log_line", "shutdown", "description", "vars", "schedule"}, PROCESS_REASONS)
    return numbered(program)


def log_of(path, count):
    """The log of each replica: with its number where the path says so, otherwise after it."""
    path = path.replace("{PC_REPLICA_NUM}", NUMBER)
    return path if NUMBER in path or count <= 1 else f"{path}.{NUMBER}"


def numbered(value):
    """The value with an Argument in place of each text that has the number of the replica."""
    if isinstance(value, dict):
        return {key: numbered(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [numbered(inner) for inner in value]
    if not isinstance(value, str) or NUMBER not in value:
        return value
    number = {"type": "ProcessNumber", "offset": -1}
    values = [part for text in value.split(NUMBER) for part in (number, text)][1:]
    return {"type": "Concatenate", "values": [part for part in values if part != ""]}


def process_order(reader, processes, made, program, other, rule):
    place = reader.place(made, "depends_on")
    if other not in processes:
        raise Failure(place, f"depends_on: there is no process {other[:100]}")
    condition = rule.get("condition", "process_started") if isinstance(rule, Map) else "process_started"
    if condition not in ("process_started", "process_healthy", "process_completed", "process_completed_successfully", "process_log_ready"):
        raise Failure(place, f"depends_on: {str(condition)[:100]!r} is not a condition")
    target = processes[other] if isinstance(processes[other], Map) else {}
    if condition == "process_log_ready" and not target.get("ready_log_line"):
        reader.conversion.find(place, condition, f"{other} has no ready_log_line", 'give the other "readiness"')
    if condition == "process_started" and (target.get("readiness_probe") or target.get("ready_log_line")):
        reader.conversion.find(place, condition, f"{other} has readiness, which is waited for", 'use "after" or leave the relation out where that is too much')
    program.setdefault("after" if condition == "process_completed" else "requires", []).append(program_name(other))


def availability(reader, made, program, is_one_shot):
    rules = reader.child(made, "availability", Map, "a mapping")
    text = str(rules.get("restart", "no")).lower()
    text = "no" if text == "false" else text
    restart = {"no": "never", "always": "always", "on_failure": "on-failure", "exit_on_failure": "on-failure"}.get(text)
    if not restart:
        raise Failure(reader.place(rules, "restart"), f"restart: {text[:100]!r} is not one of its values")
    if is_one_shot:
        program["oneShot"] = True
        if restart == "always":
            reader.conversion.find(reader.place(rules, "restart"), "restart", "what others wait for to complete is not started again after success", "it is on-failure here")
        restart = "on-failure" if restart == "always" else restart
    if not (is_one_shot and restart == "never"):
        program["restart"] = restart
    if reader.is_true(rules, "exit_on_end"):
        program["critical"] = True
    reader.report(rules, {"restart", "exit_on_end", "backoff_seconds", "max_restarts"}, {})
    if text == "exit_on_failure":  # its first restart is one start too many
        program["startLimit"] = {"count": 1, "interval": duration(YEAR), "action": "exit"}
        reader.conversion.find(reader.place(rules, "restart"), "restart", "the exit code of the container is 1, whatever that of the process", 'give another as "exitCode" of "startLimit"')
        return
    if restart != "never":
        program["backoff"] = pauses(max(reader.number(rules, "backoff_seconds") if rules.get("backoff_seconds") else 1, 1))
    if restart != "never" and rules.get("max_restarts") and (most := reader.number(rules, "max_restarts")):
        program["startLimit"] = {"count": min(most + 1, 1000), "interval": "1h"}


def schedule(reader, made, program, count):
    """A process that is started by the clock."""
    rules = reader.child(made, "schedule", Map, "a mapping")
    if not rules:
        return
    if rules.get("cron"):
        found = cron(reader, rules)
    elif rules.get("interval"):
        found = {"every": duration(reader.span(rules, "interval"))}
    else:
        raise Failure(reader.place(made, "schedule"), "schedule: has neither cron nor interval")
    if reader.is_true(rules, "run_on_start"):
        found["onStart"] = True
    program["schedule"] = found
    most = reader.number(rules, "max_concurrent", 0, MAX_COUNT) if rules.get("max_concurrent") else 1
    if count > 1:
        reader.conversion.find(reader.place(made, "replicas"), "replicas", "the clock starts one process at a time", "write one program for each")
    program["count"] = max(most, 1)
    # Each run is one; what is started again after a failure still is the same run.
    if program.pop("oneShot", False):
        reader.conversion.find(reader.place(made, "schedule"), "schedule", "what the clock starts is not waited for to complete", "leave out one of both")
    if program.get("restart") == "always":
        reader.conversion.find(reader.place(made, "availability"), "restart", "what the clock starts is not started again by itself", "it is on-failure here")
        program["restart"] = "on-failure"
    reader.report(rules, {"cron", "interval", "timezone", "run_on_start", "max_concurrent"}, {})


def cron(reader, rules):
    """An expression as the library of process-compose has it: with a time zone in front, with ? for *, or @every."""
    place = reader.place(rules, "cron")
    text = reader.text(rules, "cron", rules["cron"]).strip()
    zone = reader.text(rules, "timezone", rules.get("timezone")).strip()
    if match := re.fullmatch(r"(?:CRON_)?TZ=(\S+)\s+(.*)", text):
        zone, text = match.groups()
    if match := re.fullmatch(r"@every\s+(\S+)", text):
        return {"every": duration(reader.span_of(place, "cron", match[1]))}
    if zone in ("", "Local"):
        reader.conversion.find(place, "cron", "its times are those of this machine's zone there, and of UTC here", 'give "timeZone" where that differs')
    return {"cron": re.sub(r"(?<!\S)\?(?!\S)", "*", text)} | ({"timeZone": zone} if zone not in ("", "Local") else {})


def probe(reader, made, key, program, shell):
    rules = reader.child(made, key, Map, "a mapping")
    if not rules:
        return
    out = {}
    if run := reader.child(rules, "exec", Map, "a mapping"):
        if not run.get("command"):
            raise Failure(reader.place(rules, "exec"), "exec: has no command")
        out = {"type": "exec", "command": [*shell, reader.script(run, "command")]}
        reader.report(run, {"command"}, {"working_dir": ("a check runs where its program does", "write cd before the command")})
    elif get := reader.child(rules, "http_get", Map, "a mapping"):
        out = http_probe(reader, get)
    else:
        raise Failure(reader.place(made, key), f"{key}: has neither exec nor http_get")
    reader.report(rules, {"exec", "http_get", "initial_delay_seconds", "period_seconds", "timeout_seconds", "success_threshold", "failure_threshold"}, {})
    # What is not said, or is 0, is this. A readiness of ours that comes earlier is no harm.
    amounts = {name: number(reader.place(rules, name), name, reader.text(rules, name, rules.get(name) or default)) or default
               for name, default in (("period_seconds", 10), ("timeout_seconds", 1), ("initial_delay_seconds", 0), ("failure_threshold", 3))}
    out["timeout"] = duration(amounts["timeout_seconds"])
    if rules.get("period_seconds"):
        out["interval"] = duration(amounts["period_seconds"])
    if key == "liveness_probe":
        if amounts["initial_delay_seconds"]:
            out["startPeriod"] = duration(amounts["initial_delay_seconds"])
        out["retries"] = min(amounts["failure_threshold"], 1000)
    else:  # a process that fails so often in a row is stopped, which is a failure
        program["startTimeout"] = duration(amounts["initial_delay_seconds"] + amounts["failure_threshold"] * max(amounts["period_seconds"], amounts["timeout_seconds"]))
        if rules.get("success_threshold", 1) != 1:
            reader.conversion.find(reader.place(rules, "success_threshold"), "success_threshold", "one success is enough", "leave it out")
    program["health" if key == "liveness_probe" else "readiness"] = out


def http_probe(reader, get):
    """A GET whose answer has this one status, 200 where nothing is said."""
    host = reader.text(get, "host", get.get("host", "127.0.0.1"))
    if not is_address(host):
        reader.conversion.find(reader.place(get, "host"), "host", "a probe takes addresses, not names", "it is localhost here")
        host = "localhost"
    scheme = reader.text(get, "scheme", get.get("scheme", "http")).lower()
    if scheme not in ("http", "https"):
        raise Failure(reader.place(get, "scheme"), f"scheme: {scheme[:100]!r} is neither http nor https")
    port = number(reader.place(get, "port"), "port", reader.text(get, "port", get.get("port", 443 if scheme == "https" else 80)), 1, 65535)
    path = quote(reader.text(get, "path", get.get("path", "/")).lstrip("/"), safe=URL_SAFE + NUMBER)
    status = reader.number(get, "status_code", 100, 599) if get.get("status_code") else 200
    made = {"type": "http", "url": f"{scheme}://{host}:{port}/{path}", "status": status}
    headers = reader.child(get, "headers", Map, "a mapping")
    if headers:
        made["headers"] = {name: ", ".join(reader.text(headers, name, text) for text in (value if isinstance(value, list) else [value])) for name, value in headers.items()}
    reader.report(get, {"host", "scheme", "port", "num_port", "path", "status_code", "headers"}, {})
    return made


def shutdown(reader, made, program, shell):
    rules = reader.child(made, "shutdown", Map, "a mapping")
    if rules.get("signal"):
        program["stopSignal"] = signal_name(reader.place(rules, "signal"), "signal", reader.text(rules, "signal", rules["signal"]))
    if rules.get("timeout_seconds"):
        program["stopTimeout"] = duration(reader.number(rules, "timeout_seconds", 1))
    if rules.get("command"):
        program["preStop"] = {"command": [*shell, reader.script(rules, "command")]}
        if "stopTimeout" in program:
            program["preStop"]["timeout"] = program["stopTimeout"]
    reader.report(rules, {"signal", "timeout_seconds", "command", "parent_only"}, {})
    program["stopScope"] = "process" if reader.is_true(rules, "parent_only") else "tree"
    if program["stopScope"] == "tree" and len(program["command"]) == 3 and program["command"][0] in ("sh", "bash") and program["command"][1] == "-c" and not is_simple(program["command"][2]):
        program["command"][2] = waiting(program["command"][2], program.get("stopSignal", "TERM"))

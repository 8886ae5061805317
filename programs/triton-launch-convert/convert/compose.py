"""docker-compose and process-compose: services and processes in YAML."""

import os
import re
from urllib.parse import quote

from .common import (FACILITIES, LIMITS, MAX_COUNT, MAX_EXPANDED, Failure, Place, absolute, directory_of, duration, is_simple, number, program_name, shell_command,
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
    "tty": ("programs have no terminal", "leave it out"), "stdin_open": ("standard input is /dev/null", "leave it out"),
    "profiles": ("there are no profiles", 'use "autoStart": false, or a configuration for each'),
    "extends": ("a service is not taken from another", "write it out, or use docker compose config"),
    "cap_add": ("rights of the container", 'use "capabilities"'), "cap_drop": ("rights of the container", 'use "capabilities"'),
    "security_opt": ("rights of the container", 'use "noNewPrivileges" and "seccomp"'),
}
PROCESS_REASONS = {
    "is_daemon": ("the process that is started is the one that is watched", "let it stay in the foreground"),
    "is_tty": ("programs have no terminal", "leave it out"),
    "namespace": ("programs have no namespaces", "name them one by one"),
    "schedule": ("written in another way", 'use "schedule": {"cron": ...} or {"every": ...}'),
}
LOGGING = ("logs belong to the container", 'see "output"')
DEPLOYMENT = ("deployment is not part of the container", "leave it to what runs the container")
URL_SAFE = "/?#[]@!$&'()*+,;=:%~"
SPAN = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Reader:
    """A document, with what its places and its variables need."""

    def __init__(self, conversion, path):
        self.conversion, self.path, self.here = conversion, str(path), directory_of(path)
        self.document = load(conversion, path)
        if not isinstance(self.document, Map):
            raise Failure(Place(self.path), "is not a mapping")
        self.variables = {}

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
        def value(match):
            if match[0] == "$$":
                return "$"
            name, operator, other = match[1] or match[2], match[3] or "", match[4] or ""
            if name is None:
                raise Failure(place, f"{key}: a single $ must be written $$")
            found = self.variables.get(name, self.conversion.environment.get(name))
            if operator.startswith(":") and not found:
                found = None
            if operator.endswith("+"):
                return other if found is not None else ""
            if found is None and operator.endswith("?"):
                raise Failure(place, f"{key}: the variable {name} is not set: {other}")
            if found is None and not operator:
                self.conversion.find(place, f"${name}", "the variable is not set here", "it is empty; set it and convert again")
            return found if found is not None else other
        made = re.sub(r"\$(?:\$|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+?])([^}]*))?\}|)", value, text)
        if len(made) > MAX_EXPANDED:
            raise Failure(place, f"{key}: becomes too long")
        return made

    def command(self, made, key):
        """A list of words, or a string that is split as a shell does."""
        value = made.get(key)
        if value is None:
            return []
        if isinstance(value, list):
            return [self.text(made, key, word) for word in value]
        return words(self.place(made, key), self.text(made, key, value))

    def environment(self, made, key="environment"):
        """A mapping, or a list of KEY=VALUE; a KEY alone is inherited in any case."""
        value = made.get(key)
        if isinstance(value, list):
            pairs = [self.text(made, key, entry).partition("=") for entry in value]
            found = {name: text for name, equals, text in pairs if equals}
        else:
            value = self.child(made, key, Map, "a mapping or a list")
            found = {name: self.text(value, name, text) for name, text in value.items() if text is not None}
        if bad := [name for name in found if not name or "=" in name]:
            raise Failure(self.place(made, key), f"{key}: {bad[0][:100]!r} is not the name of a variable")
        return found

    def env_file(self, path, must_exist=True):
        """The variables of a file of NAME=VALUE."""
        path = absolute(path, self.here)
        if not must_exist and not os.path.exists(path):
            return {}
        found = {}
        for at, line in enumerate(self.conversion.read(path).split("\n"), 1):
            text = line.strip().removeprefix("export ")
            if not text or text.startswith("#"):
                continue
            name, equals, value = text.partition("=")
            if not equals or not name.strip():
                raise Failure(Place(path, at), "is not of the form NAME=VALUE")
            value = value.strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found[name.strip()] = value[1:-1] if quoted else re.sub(r"\s+#.*$", "", value)
        return found

    def is_true(self, made, key):
        """Whether a key says yes, in any of YAML's ways."""
        return str(made.get(key)).lower() in ("true", "yes", "on", "y")

    def span(self, made, key):
        """A duration: "1m30s", or a number of seconds."""
        text = self.text(made, key, made[key]).strip()
        if re.fullmatch(r"[0-9]{1,9}", text):
            return int(text)
        if not re.fullmatch(r"([0-9]{1,9}(\.[0-9]{1,6})?(us|ms|s|m|h|d))+", text):
            raise Failure(self.place(made, key), f"{key}: {text[:100]!r} is not a duration")
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
        program |= {"user": int(user) if re.fullmatch("[0-9]{1,9}", user) else user} | ({"group": int(group) if re.fullmatch("[0-9]{1,9}", group) else group} if group else {})
    if "working_dir" in made:
        program["workingDirectory"] = absolute(reader.text(made, "working_dir", made["working_dir"]), "/")
    handled = {"command", "logging", "entrypoint", "environment", "env_file", "restart", "depends_on", "healthcheck", "stop_signal", "stop_grace_period", "user",
               "working_dir", "container_name", "labels", "init", "scale"}
    if "scale" in made:
        program["count"] = number(reader.place(made, "scale"), "scale", made["scale"], 0, MAX_COUNT)
    compose_limits(reader, made, program)
    reader.report(made, handled | {"mem_limit", "cpus", "pids_limit", "ulimits", "deploy"}, SERVICE_REASONS)
    return program


def compose_limits(reader, made, program):
    """What a service may use, in the form of version 2 and in that of `deploy`; the latter wins."""
    found = {}
    deploy = reader.child(made, "deploy", Map, "a mapping")
    if "replicas" in deploy:
        program["count"] = number(reader.place(deploy, "replicas"), "replicas", deploy["replicas"], 0, MAX_COUNT)
    resources = reader.child(deploy, "resources", Map, "a mapping")
    limits = reader.child(resources, "limits", Map, "a mapping")
    reader.report(deploy, {"replicas", "resources", "mode", "labels"}, {key: DEPLOYMENT for key in deploy})
    reader.report(resources, {"limits"}, {"reservations": ("nothing is set aside", 'use "cgroup": {"memoryMin": ...}')})
    reader.report(limits, {"cpus", "memory", "pids"}, {})
    for place, memory, cpus, pids in ((made, "mem_limit", "cpus", "pids_limit"), (limits, "memory", "cpus", "pids")):
        if memory in place:
            found["memoryMax"] = bytes_of(reader, place, memory)
        if cpus in place:
            text = reader.text(place, cpus, place[cpus])
            if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,6})?", text) or float(text) < 0.01:
                raise Failure(reader.place(place, cpus), f"{cpus}: {text[:100]!r} is not a number of processors")
            found["cpuMax"] = f"{max(round(float(text) * 100), 1)}%"
        if pids in place and str(place[pids]) != "-1":
            found["pidsMax"] = number(reader.place(place, pids), pids, place[pids], 1)
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
    if not match:
        return None
    kind = {"tcp+tls": "tls"}.get(match[1], match[1])
    return f"{kind}:{match[2]}:{match[3] or {'udp': 514, 'tcp': 514, 'tls': 6514}[kind]}"


def ulimit(reader, made, key):
    return "unlimited" if str(made[key]) == "-1" else number(reader.place(made, key), key, made[key], 0, 1 << 40)


def bytes_of(reader, made, key):
    text = reader.text(made, key, made[key])
    match = re.fullmatch(r"([0-9]{1,15})([bkmg]?)b?", text.lower())
    if not match or int(match[1]) == 0:
        raise Failure(reader.place(made, key), f"{key}: {text[:100]!r} is not a size")
    return int(match[1]) if match[2] in ("", "b") else f"{match[1]}{match[2].upper()}i"


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
        program.setdefault("after" if str(condition.get("required")).lower() in ("false", "no", "off", "n") else "requires", []).append(program_name(name))
        if condition.get("restart"):
            reader.conversion.find(reader.place(made, "depends_on"), "restart", "a program is not restarted with one that it needs", "restart both by triton-launch ctl restart")


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
    if "retries" in check:
        health["retries"] = number(reader.place(check, "retries"), "retries", check["retries"], 1, 1000)
    if "start_interval" in check:
        reader.conversion.find(reader.place(check, "start_interval"), "start_interval", "checks have one interval", '"interval" of "readiness" is that of the start')
    program["health"] = health
    if is_waited:
        program["readiness"] = {"type": "exec", "command": command, "timeout": health["timeout"]}


def convert_process_compose(conversion, path):
    """Adds the processes of a process-compose file."""
    reader = Reader(conversion, path)
    reader.interpolate = lambda place, key, text: text  # its shell does that
    processes = reader.child(reader.document, "processes", Map, "a mapping")
    common = reader.environment(reader.document)
    shell = reader.child(reader.document, "shell", Map, "a mapping")
    prefix = [reader.text(shell, key, shell[key]) for key in ("shell_command", "shell_argument") if key in shell]
    reader.report(reader.document, {"processes", "environment", "version", "shell", "is_strict", "log_level"}, {})
    waits = {}
    for name in processes:
        for other, rule in reader.child(reader.child(processes, name, Map, "a mapping"), "depends_on", Map, "a mapping").items():
            waits.setdefault(other, set()).add(str(rule.get("condition")) if isinstance(rule, Map) else "")
    for name in processes:
        made = reader.child(processes, name, Map, "a mapping")
        conversion.add(reader.place(processes, name), name,
                       process(reader, processes, name, made, common, prefix if len(prefix) == 2 else ["sh", "-c"], waits.get(name, set())))


def process(reader, processes, name, made, common, shell, waits):
    if made.get("command") is None and not made.get("entrypoint"):
        raise Failure(reader.place(processes, name), f"{name} has no command")
    command = reader.command(made, "entrypoint") if made.get("entrypoint") else [*shell, reader.text(made, "command", made["command"])]
    program = {"command": command, "output": {}}
    if environment := common | reader.environment(made):
        program["environment"] = environment
    if "working_dir" in made:
        program["workingDirectory"] = absolute(reader.text(made, "working_dir", made["working_dir"]), reader.here)
    if reader.is_true(made, "disabled"):
        program["autoStart"] = False
    if "replicas" in made:
        program["count"] = number(reader.place(made, "replicas"), "replicas", made["replicas"], 0, MAX_COUNT)
    if "log_location" in made:
        program["output"] = {"file": absolute(reader.text(made, "log_location", made["log_location"]), reader.here)}
    availability(reader, made, program, bool(waits & {"process_completed_successfully", "process_completed"}))
    for other, rule in reader.child(made, "depends_on", Map, "a mapping").items():
        if other not in processes:
            raise Failure(reader.place(made, "depends_on"), f"depends_on: there is no process {other[:100]}")
        condition = rule.get("condition", "process_started") if isinstance(rule, Map) else "process_started"
        if condition not in ("process_started", "process_healthy", "process_completed", "process_completed_successfully", "process_log_ready"):
            raise Failure(reader.place(made, "depends_on"), f"depends_on: {str(condition)[:100]!r} is not a condition")
        if condition == "process_log_ready":
            reader.conversion.find(reader.place(made, "depends_on"), "process_log_ready", "readiness is not read from a log", 'give the other "readiness" of another type')
        program.setdefault("after" if condition == "process_completed" else "requires", []).append(program_name(other))
    probe(reader, made, "readiness_probe", program)
    probe(reader, made, "liveness_probe", program)
    shutdown(reader, made, program)
    reader.report(made, {"command", "entrypoint", "environment", "working_dir", "disabled", "replicas", "log_location", "availability", "depends_on", "readiness_probe",
                         "liveness_probe", "shutdown", "description"}, PROCESS_REASONS)
    return program


def availability(reader, made, program, is_one_shot):
    rules = reader.child(made, "availability", Map, "a mapping")
    text = str(rules.get("restart", "no")).lower()
    text = "no" if text == "false" else text
    restart = {"no": "never", "always": "always", "on_failure": "on-failure", "exit_on_failure": "never"}.get(text)
    if not restart:
        raise Failure(reader.place(rules, "restart"), f"restart: {text[:100]!r} is not one of its values")
    if is_one_shot:
        program["oneShot"] = True
        restart = "on-failure" if restart == "always" else restart
    if not (is_one_shot and restart == "never"):
        program["restart"] = restart
    if text == "exit_on_failure" or reader.is_true(rules, "exit_on_end"):
        program["critical"] = True
    if restart != "never" and rules.get("backoff_seconds"):
        span = duration(number(reader.place(rules, "backoff_seconds"), "backoff_seconds", rules["backoff_seconds"], 1))
        program["backoff"] = {"initial": span, "factor": 1, "max": span}
    if restart != "never" and rules.get("max_restarts"):
        program["startLimit"] = {"count": min(number(reader.place(rules, "max_restarts"), "max_restarts", rules["max_restarts"], 1) + 1, 1000), "interval": "1h"}


def probe(reader, made, key, program):
    rules = reader.child(made, key, Map, "a mapping")
    if not rules:
        return
    out = {}
    if run := reader.child(rules, "exec", Map, "a mapping"):
        out = {"type": "exec", "command": shell_command(reader.text(run, "command", run.get("command")))}
    elif get := reader.child(rules, "http_get", Map, "a mapping"):
        host = reader.text(get, "host", get.get("host", "127.0.0.1"))
        if not re.fullmatch(r"localhost|[0-9.]+|\[[0-9a-fA-F:]+\]", host):
            reader.conversion.find(reader.place(get, "host"), "host", "a probe takes addresses, not names", "it is localhost here")
            host = "localhost"
        scheme = reader.text(get, "scheme", get.get("scheme", "http")).lower()
        if scheme not in ("http", "https"):
            raise Failure(reader.place(get, "scheme"), f"scheme: {scheme[:100]!r} is neither http nor https")
        port = number(reader.place(get, "port"), "port", get.get("port", 443 if scheme == "https" else 80), 1, 65535)
        out = {"type": "http", "url": f"{scheme}://{host}:{port}/{quote(reader.text(get, 'path', get.get('path', '/')).lstrip('/'), safe=URL_SAFE)}"}
    else:
        raise Failure(reader.place(made, key), f"{key}: has neither exec nor http_get")
    for own, name in (("interval", "period_seconds"), ("timeout", "timeout_seconds")):
        if rules.get(name):
            out[own] = duration(number(reader.place(rules, name), name, rules[name], 1))
    if key == "liveness_probe":
        if rules.get("initial_delay_seconds"):
            out["startPeriod"] = duration(number(reader.place(rules, "initial_delay_seconds"), "initial_delay_seconds", rules["initial_delay_seconds"]))
        if rules.get("failure_threshold"):
            out["retries"] = number(reader.place(rules, "failure_threshold"), "failure_threshold", rules["failure_threshold"], 1, 1000)
    elif rules.get("success_threshold", 1) != 1:
        reader.conversion.find(reader.place(rules, "success_threshold"), "success_threshold", "one success is enough", "leave it out")
    program["health" if key == "liveness_probe" else "readiness"] = out


def shutdown(reader, made, program):
    rules = reader.child(made, "shutdown", Map, "a mapping")
    if rules.get("signal"):
        program["stopSignal"] = signal_name(reader.place(rules, "signal"), "signal", rules["signal"])
    if rules.get("timeout_seconds"):
        program["stopTimeout"] = duration(number(reader.place(rules, "timeout_seconds"), "timeout_seconds", rules["timeout_seconds"], 1))
    if rules.get("command"):
        program["preStop"] = {"command": shell_command(reader.text(rules, "command", rules["command"]))}
        if "stopTimeout" in program:
            program["preStop"]["timeout"] = program["stopTimeout"]
    program["stopScope"] = "process" if reader.is_true(rules, "parent_only") else "tree"
    if program["stopScope"] == "tree" and len(program["command"]) == 3 and program["command"][0] in ("sh", "bash") and program["command"][1] == "-c" and not is_simple(program["command"][2]):
        program["command"][2] = waiting(program["command"][2], program.get("stopSignal", "TERM"))

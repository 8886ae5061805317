"""The contenders: ours, two limits, and the peers that Debian packages. A contender knows how it wraps one command, how
it keeps N children running with the least restart delay it allows, how it is stopped in an orderly way, how it keeps N
programs of their own running whose output goes to files that it rotates, and how it is asked what runs."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from clients import Varlink, XmlRpc

FILE_SIZE, FILES = 10_000_000, 5  # captured output is rotated at this size, and that many older files are kept
RAW, PREFIX, JSON = "raw", "prefix", "json"


class Contender:
    """One row of the tables."""

    name = ""
    package = None        # Debian package, whose version is reported
    programs = ()         # what must be on the PATH; the first one is started
    static = False        # told in the table of sizes
    wraps = False         # can wrap one command
    launches = False      # can keep N children running
    captures = ()         # the forms in which it can write what its programs write
    answers = False       # can be asked what runs
    upgrades = False      # can replace itself while its children run
    copies = False        # can copy files
    hashes = False        # can tell the SHA-256 of a file
    serves = False        # can serve over HTTP and TLS
    reports = False       # can report to Kubernetes
    is_limit = False      # no supervisor that one would use
    slow = False          # takes so much longer than the others that it is measured less often

    def __init__(self, built):
        self.built = built  # where the programs of bench/src are

    @property
    def program(self):
        return shutil.which(self.programs[0])

    def prepare(self):
        """What has to be done once, before anything is asked or measured."""

    def missing(self):
        """Why this contender cannot run here, or None."""
        absent = [program for program in self.programs if shutil.which(program) is None]
        return f"{', '.join(absent)} not installed (Debian package {self.package})" if absent else None

    def version(self):
        return subprocess.run(["dpkg-query", "--show", "--showformat=${Version}", self.package],
                              capture_output=True, text=True, check=False).stdout or "unknown"

    def files(self):
        """What has to be shipped, for the table of sizes; shared libraries that others use too are not counted."""
        return [pathlib.Path(shutil.which(program)).resolve() for program in self.programs]

    def environment(self, directory):
        """What is added to the environment."""
        return {}

    def wrap(self, command):
        """The command line that wraps a command."""
        return [self.program, "--", *command]

    def launch(self, directory, count, stamps):
        """Writes what is needed to keep count children running into an empty directory and returns the command line."""
        raise NotImplementedError

    def stop(self, pid, directory):
        """Asks for an orderly stop of everything, as this contender's manual says."""
        os.kill(pid, signal.SIGTERM)

    def loggers(self):
        """The programs that write captured output, by the name of what starts them: the command line of each."""
        return {}

    def capture(self, directory, count, form, worker):
        """Writes what is needed to keep count programs running, each with its output captured in a form into a rotated
        file of its own, into an empty directory and returns the command line."""
        raise NotImplementedError

    def client(self, directory):
        """A connection over which capture() can be asked what runs, or None where there are only commands."""
        return None

    def status(self, directory, every):
        """The command line that tells of every program, or of one."""
        raise NotImplementedError

    def upgrade(self, directory):
        """The command line that replaces what runs by the same program, and ends when this one has taken over."""
        raise NotImplementedError

    def worker(self):
        return str(self.built / "worker")


def program_names(count):
    return [f"worker-{i}" for i in range(count)]


class Ours(Contender):
    """Measured is a copy, so that a build meanwhile does not change what is measured."""

    name = "triton-launch"
    static = wraps = launches = answers = upgrades = copies = hashes = serves = reports = True
    captures = (RAW, PREFIX, JSON)

    def __init__(self, built, binary, agent, name="triton-launch", place="ours"):
        super().__init__(built)
        self.binary, self.agent_binary, self.name = binary, agent, name
        # Of each build, because triton-launch looks for the agent beside itself. The longer the path, the more there is to do.
        self.place = built / place

    @property
    def program(self):
        return str(self.place / "triton-launch")

    @property
    def agent(self):
        return str(self.place / "triton-launch-agent")

    def prepare(self):
        self.place.mkdir(exist_ok=True)
        for binary, copy in ((self.binary, self.program), (self.agent_binary, self.agent)):
            pathlib.Path(copy).unlink(missing_ok=True)
            if binary.exists():
                shutil.copy(binary, copy)

    def missing(self):
        return None if os.path.exists(self.program) else "not built"

    def version(self):
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=False).stdout.strip()

    def files(self):
        return [pathlib.Path(self.program)]

    def configured(self, directory, document):
        (directory / "config.json").write_text(json.dumps({"version": "1", **document}))
        return [self.program, "--input-dir", str(directory), "--main-container-version", "1", "--restart-delay", "0",
                "--control-socket", str(directory / "control")]

    def launch(self, directory, count, stamps):
        return [*self.configured(directory, {"arguments": []}),
                "--fdbserver-path", self.worker(), "--server-count", str(count)]

    def capture(self, directory, count, form, worker):
        def program(name):
            output = {"file": str(directory / name), "format": form, "maxSize": FILE_SIZE, "maxFiles": FILES}
            return {"command": [str(worker)], "output": output}
        return self.configured(directory, {"programs": {name: program(name) for name in program_names(count)}})

    def client(self, directory):
        return Varlink(directory / "control")

    def ctl(self, directory, *arguments):
        return [self.program, "ctl", "--socket", str(directory / "control"), *arguments]

    def status(self, directory, every):
        return self.ctl(directory, "status", *([] if every else ["worker-0"]))

    def upgrade(self, directory):
        return self.ctl(directory, "upgrade", self.program)

    def copy(self, source, names, target):
        return [self.program, "--mode", "init", "--input-dir", ".", "--output-dir", str(target),
                *(argument for name in names for argument in ("--copy-file", name))]

    copy_durably = copy  # it always is

    def hash(self, source, name):
        """Nothing is copied: what is staged already stays."""
        return [*self.copy(source, [name], source.parent / "staged"), "--format", "json"]

    url = "/check_hash/small"

    def serve(self, directory, files, port, certificate):
        tls = ["--tls", "--tls-certificate-file", str(certificate), "--tls-key-file", str(certificate),
               "--tls-verify-peers", "none"]
        return [self.agent, "--listen", f"127.0.0.1:{port}", "--output-dir", str(files), *(tls if certificate else [])]

    def report(self, directory, *options):
        """The command line that runs one child, whose configuration is in a ConfigMap that is mounted as input/."""
        return [self.program, "--input-dir", str(directory / "input"), "--main-container-version", "1",
                "--control-socket", str(directory / "control"), "--fdbserver-path", self.worker(), *options]


class Limit(Contender):
    """A bare loop from limit.c: what the job costs at least."""

    static = wraps = launches = True
    captures = (RAW,)
    is_limit = True

    def __init__(self, built, name):
        super().__init__(built)
        self.name = name

    @property
    def program(self):
        return str(self.built / self.name)

    def missing(self):
        return None

    def version(self):
        return "bench/src/limit.c"

    def files(self):
        return [pathlib.Path(self.program)]

    def launch(self, directory, count, stamps):
        return [self.program, str(count), self.worker()]

    def capture(self, directory, count, form, worker):
        return [self.program, "capture", str(directory / "worker-0"), str(FILE_SIZE), str(worker)]


class Bare(Contender):
    """No init at all: the harness starts the command itself."""

    name = "no init"
    wraps = True

    def missing(self):
        return None

    def version(self):
        return ""

    def files(self):
        return []

    def wrap(self, command):
        return command


class Wrapper(Contender):
    """An init that runs one command."""

    wraps = True

    def __init__(self, built, name, package, static):
        super().__init__(built)
        self.name, self.package, self.programs, self.static = name, package, (name,), static


class Scanner(Contender):
    """A supervisor over a directory of service directories, whose `run` is the child itself: no shell in between."""

    launches = answers = True
    captures = (RAW, PREFIX)
    run = "worker"

    def services(self, directory, count, run=None, logger=None):
        services = directory / "services"
        for name in program_names(count):
            service = services / name
            service.mkdir(parents=True)
            (service / "run").symlink_to(run or self.built / self.run)
            if logger is not None:
                (service / "log" / "main").mkdir(parents=True)
                (service / "log" / "run").symlink_to(self.built / logger)
        hour_ago = time.time() - 3600  # runsvdir leaves a directory alone that has changed within the last second
        os.utime(services, (hour_ago, hour_ago))
        return services

    @staticmethod
    def asked(directory, every):
        """The service directories that a status command names."""
        services = directory / "services"
        return map(str, sorted(services.iterdir()) if every else [services / "worker-0"])

    def logger(self, form):
        """The name of the program that becomes the logger."""
        return f"log-{self.name}-{form}"

    def scan(self, services, count):
        """The command line that supervises a directory of that many service directories."""
        return [self.program, str(services)]

    def launch(self, directory, count, stamps):
        return self.scan(self.services(directory, count), count)

    def capture(self, directory, count, form, worker):
        return self.scan(self.services(directory, count, worker, self.logger(form)), count * 2)


class S6(Scanner):
    """With readiness notification: s6-supervise then restarts a child at once that has been ready for a second, and
    otherwise waits for a second after every death."""

    name, package, programs = "s6", "s6", ("s6-svscan", "s6-supervise")
    run = "worker-notify"

    def loggers(self):
        script = ["-b", "-l", "0", f"n{FILES}", f"s{FILE_SIZE}"]
        return {self.logger(form): [shutil.which("s6-log"), *script, *stamp, "./main"]
                for form, stamp in ((RAW, []), (PREFIX, ["t"]))}

    def scan(self, services, count):
        return [self.program, "-c", str(max(500, count)), str(services)]

    def launch(self, directory, count, stamps):
        services = self.services(directory, count)
        for service in services.iterdir():
            (service / "notification-fd").write_text("3\n")
        return self.scan(services, count)

    def status(self, directory, every):
        command = [shutil.which("s6-svstat")]
        if every:  # it takes one service
            command = ["/bin/sh", "-c", f'for service; do {command[0]} "$service"; done', "sh"]
        return [*command, *self.asked(directory, every)]


class Runit(Scanner):
    name, package, programs = "runit", "runit", ("runsvdir", "runsv")

    def loggers(self):
        return {self.logger(form): [shutil.which("svlogd"), "-b", "65536", "main"] for form in self.captures}

    def scan(self, services, count):
        return [self.program, "-P", str(services)]

    def capture(self, directory, count, form, worker):
        command = super().capture(directory, count, form, worker)
        for service in (directory / "services").iterdir():
            prefix = f"p{service.name}: \n" if form == PREFIX else ""
            (service / "log" / "main" / "config").write_text(f"s{FILE_SIZE}\nn{FILES}\n{prefix}")
        return command

    def stop(self, pid, directory):
        os.kill(pid, signal.SIGHUP)  # TERM would leave everything running

    def status(self, directory, every):
        return [shutil.which("sv"), "status", *self.asked(directory, every)]


class Daemontools(Scanner):
    name, package, programs = "daemontools", "daemontools", ("svscan", "supervise", "svc")

    def loggers(self):
        return {self.logger(form): [shutil.which("multilog"), *stamp, f"s{FILE_SIZE}", f"n{FILES}", "./main"]
                for form, stamp in ((RAW, []), (PREFIX, ["t"]))}

    def stop(self, pid, directory):
        os.kill(pid, signal.SIGTERM)  # ends svscan alone
        services = [str(service) for service in (directory / "services").iterdir()]
        subprocess.run([shutil.which("svc"), "-dx", *services], check=True)

    def status(self, directory, every):
        return [shutil.which("svstat"), *self.asked(directory, every)]


class Supervisor(Contender):
    name, package, programs = "supervisor", "supervisor", ("supervisord",)
    launches = answers = slow = True
    captures = (RAW,)

    def files(self):
        package = pathlib.Path("/usr/lib/python3/dist-packages/supervisor")
        sources = [path for path in package.rglob("*.py") if "tests" not in path.parts]
        return [pathlib.Path("/usr/bin/python3").resolve(), *sources]

    def configured(self, directory, count, programs):
        configuration = directory / "supervisord.conf"
        configuration.write_text(
            f"[supervisord]\nnodaemon=true\nuser=root\nlogfile=/dev/null\nlogfile_maxbytes=0\n"
            f"pidfile={directory}/pid\nminfds={count * 4 + 1024}\n{programs}")
        return [self.program, "-c", str(configuration)]

    def program_section(self, name, command, output):
        return (f"[program:{name}]\ncommand={command}\nautorestart=true\nstartsecs=0\nstartretries=1000000\n"
                f"{output}")

    def launch(self, directory, count, stamps):
        return self.configured(directory, count, self.program_section(
            "worker", self.worker(),
            f"numprocs={count}\nprocess_name=%(process_num)d\nstdout_logfile=NONE\nstderr_logfile=NONE\n"))

    def capture(self, directory, count, form, worker):
        control = (f"[unix_http_server]\nfile={directory}/control\n"
                   f"[supervisorctl]\nserverurl=unix://{directory}/control\n"
                   "[rpcinterface:supervisor]\n"
                   "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n")
        sections = [self.program_section(name, worker,
                                         f"redirect_stderr=true\nstdout_logfile={directory}/{name}\n"
                                         f"stdout_logfile_maxbytes={FILE_SIZE}\nstdout_logfile_backups={FILES}\n")
                    for name in program_names(count)]
        return self.configured(directory, count, control + "".join(sections))

    def client(self, directory):
        return XmlRpc(directory / "control")

    def status(self, directory, every):
        return [shutil.which("supervisorctl"), "-c", str(directory / "supervisord.conf"), "status",
                *([] if every else ["worker-0"])]


class Systemd(Contender):
    """Debian's systemd as a user manager, made to believe that it was booted, in the cgroup of the sandbox."""

    name, package, programs = "systemd --user", "systemd", ("/usr/lib/systemd/systemd",)
    launches = upgrades = slow = True

    def __init__(self, built, refusal):
        super().__init__(built)
        self.refusal = refusal

    def missing(self):
        return super().missing() or self.refusal

    def files(self):
        return [*super().files(), *pathlib.Path("/usr/lib").glob("*/systemd/libsystemd-*.so")]

    def environment(self, directory):
        return {"XDG_RUNTIME_DIR": str(directory / "runtime"), "XDG_CONFIG_HOME": str(directory / "config")}

    def launch(self, directory, count, stamps):
        pathlib.Path("/run/systemd/system").mkdir(parents=True, exist_ok=True)  # what sd_booted(3) looks at
        (directory / "runtime").mkdir(mode=0o700)
        units = directory / "config" / "systemd" / "user"
        wants = units / "bench.target.wants"
        wants.mkdir(parents=True)
        (units / "bench.target").write_text("[Unit]\nDescription=All children\n")
        (units / "worker@.service").write_text(
            "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=always\nRestartSec=0\n"
            f"Environment=STAMPS={stamps}\nExecStart={self.worker()}\n")
        for i in range(count):
            (wants / f"worker@{i}.service").symlink_to("../worker@.service")
        return [self.program, "--user", "--unit=bench.target"]

    def upgrade(self, directory):
        # The first command ends when the old manager has gone, the others fail until the new one listens.
        return ["/usr/bin/env", f"XDG_RUNTIME_DIR={directory}/runtime", "/bin/sh", "-c",
                "systemctl --user daemon-reexec && until systemctl --user show --property=Version; do :; done"]


def two_builds(built, binary, agent, other):
    """Ours, and another build of it, whose agent is beside it."""
    return [Ours(built, binary, agent), Ours(built, other, other.parent / "triton-launch-agent", "against", "them")]


def contenders(built, binary, agent, cgroup_refusal):
    """Every contender that supervises, ours first, then the limits, then the peers."""
    return [
        Ours(built, binary, agent),
        Limit(built, "limit-spawn"),
        Limit(built, "limit-fork"),
        Bare(built),
        Wrapper(built, "tini", "tini", static=False),
        Wrapper(built, "tini-static", "tini", static=True),
        Wrapper(built, "dumb-init", "dumb-init", static=False),
        Wrapper(built, "catatonit", "catatonit", static=True),
        S6(built),
        Runit(built),
        Daemontools(built),
        Supervisor(built),
        Systemd(built, cgroup_refusal),
    ]

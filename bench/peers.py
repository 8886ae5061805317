"""The contenders: ours, two limits, and the peers that Debian packages. A contender knows how it wraps one command, how
it keeps N children running with the least restart delay it allows, and how it is stopped in an orderly way."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time


class Contender:
    """One row of the tables."""

    name = ""
    package = None        # Debian package, whose version is reported
    programs = ()         # what must be on the PATH; the first one is started
    static = False        # told in the table of sizes
    wraps = False         # can wrap one command
    launches = False      # can keep N children running
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

    def worker(self):
        return str(self.built / "worker")


class Ours(Contender):
    """Measured is a copy, so that a build meanwhile does not change what is measured."""

    name = "triton-launch"
    static = wraps = launches = True

    def __init__(self, built, binary):
        super().__init__(built)
        self.binary = binary

    @property
    def program(self):
        return str(self.built / self.name)

    def prepare(self):
        if self.binary.exists():
            shutil.copy(self.binary, self.program)
        else:
            pathlib.Path(self.program).unlink(missing_ok=True)

    def missing(self):
        return None if os.path.exists(self.program) else "not built"

    def version(self):
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=False).stdout.strip()

    def files(self):
        return [pathlib.Path(self.program)]

    def launch(self, directory, count, stamps):
        (directory / "config.json").write_text(json.dumps({"version": "1", "arguments": []}))
        return [self.program, "--input-dir", str(directory), "--main-container-version", "1",
                "--fdbserver-path", self.worker(), "--server-count", str(count), "--restart-delay", "0"]


class Limit(Contender):
    """A bare loop from limit.c: what the job costs at least."""

    static = wraps = launches = True

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

    launches = True
    run = "worker"

    def services(self, directory, count):
        services = directory / "services"
        for i in range(count):
            (services / f"worker-{i}").mkdir(parents=True)
            (services / f"worker-{i}" / "run").symlink_to(self.built / self.run)
        hour_ago = time.time() - 3600  # runsvdir leaves a directory alone that has changed within the last second
        os.utime(services, (hour_ago, hour_ago))
        return services


class S6(Scanner):
    """With readiness notification: s6-supervise then restarts a child at once that has been ready for a second, and
    otherwise waits for a second after every death."""

    name, package, programs = "s6", "s6", ("s6-svscan", "s6-supervise")
    run = "worker-notify"

    def launch(self, directory, count, stamps):
        services = self.services(directory, count)
        for service in services.iterdir():
            (service / "notification-fd").write_text("3\n")
        return [self.program, "-c", str(max(500, count)), str(services)]


class Runit(Scanner):
    name, package, programs = "runit", "runit", ("runsvdir", "runsv")

    def launch(self, directory, count, stamps):
        return [self.program, "-P", str(self.services(directory, count))]

    def stop(self, pid, directory):
        os.kill(pid, signal.SIGHUP)  # TERM would leave everything running


class Daemontools(Scanner):
    name, package, programs = "daemontools", "daemontools", ("svscan", "supervise", "svc")

    def launch(self, directory, count, stamps):
        return [self.program, str(self.services(directory, count))]

    def stop(self, pid, directory):
        os.kill(pid, signal.SIGTERM)  # ends svscan alone
        services = [str(service) for service in (directory / "services").iterdir()]
        subprocess.run([shutil.which("svc"), "-dx", *services], check=True)


class Supervisor(Contender):
    name, package, programs = "supervisor", "supervisor", ("supervisord",)
    launches = slow = True

    def files(self):
        package = pathlib.Path("/usr/lib/python3/dist-packages/supervisor")
        sources = [path for path in package.rglob("*.py") if "tests" not in path.parts]
        return [pathlib.Path("/usr/bin/python3").resolve(), *sources]

    def launch(self, directory, count, stamps):
        configuration = directory / "supervisord.conf"
        configuration.write_text(
            f"[supervisord]\nnodaemon=true\nuser=root\nlogfile=/dev/null\nlogfile_maxbytes=0\n"
            f"pidfile={directory}/pid\nminfds={count * 4 + 1024}\n"
            f"[program:worker]\ncommand={self.worker()}\nnumprocs={count}\nprocess_name=%(process_num)d\n"
            "autorestart=true\nstartsecs=0\nstartretries=1000000\nstdout_logfile=NONE\nstderr_logfile=NONE\n")
        return [self.program, "-c", str(configuration)]


class Systemd(Contender):
    """Debian's systemd as a user manager, made to believe that it was booted, in the cgroup of the sandbox."""

    name, package, programs = "systemd --user", "systemd", ("/usr/lib/systemd/systemd",)
    launches = slow = True

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


def contenders(built, binary, cgroup_refusal):
    """Every contender, ours first, then the limits, then the peers."""
    return [
        Ours(built, binary),
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

"""Configurations of other launchers are converted and run: order, environment, user, logs, restarts, ends.

Each is written as its launcher wants it. Its programs are `tell`, a script below, which says over $PROBE_OUT what it was
given, and then each signal that comes, until one ends it.
"""

import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from harness.control import Controlled
from harness.process import TIMEOUT, Exit, eventually

SOURCE = Path(__file__).resolve().parents[2]
CONVERT = SOURCE / "programs/triton-launch-convert/triton-launch-convert"
pytestmark = pytest.mark.skipif(not CONVERT.exists(), reason="only the tests were copied, not the program")

TELL = '''#!/usr/bin/python3 -SE
"""tell NAME [STEP...]: exit=CODE, ready=FD, notify, out=TEXT, err=TEXT, accept; other words are for its record."""
import json
import os
import signal
import socket
import sys

ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2}
SEEN = ENDING | {signal.SIGHUP, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, SEEN)
name, steps = sys.argv[1], sys.argv[2:]


def tell(**what):
    with open(os.environ["PROBE_OUT"], "w") as out:
        out.write(json.dumps({"tell": name, "pid": os.getpid(), **what}) + "\\n")


mask = os.umask(0)
os.umask(mask)
hidden = ("PROBE_OUT", "PATH", "HOME")
tell(up=True, words=steps, directory=os.getcwd(), user=os.getuid(), group=os.getgid(), umask=mask,
     environment={key: value for key, value in os.environ.items() if key not in hidden})
code = None
for step in steps:
    key, _, value = step.partition("=")
    if key == "exit":
        code = int(value)
    elif key == "ready":
        os.write(int(value), b"\\n")
    elif key == "notify":
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"].replace("@", "\\0", 1))
    elif key in ("out", "err"):
        print(value, file=sys.stdout if key == "out" else sys.stderr, flush=True)
    elif key == "accept":
        with socket.socket(fileno=0) as listener:
            peer, _ = listener.accept()
            peer.sendall(b"served by " + name.encode())
            peer.close()
while code is None:
    number = signal.sigwait(SEEN)
    tell(signal=signal.Signals(number).name)
    if number in ENDING:
        code = 0
sys.exit(code)
'''


class Converted:
    """What a configuration was converted to, and the launcher that runs it."""

    def __init__(self, starter, files, *inputs, left_out=(), env=None):
        self.area = starter.area
        self.add("bin/tell", TELL)
        for path, text in files.items():
            self.add(path, text)
        variables = {"PATH": f"{self.area}/bin:/usr/bin:/bin", **(env or {})}
        done = subprocess.run(["/usr/bin/python3", CONVERT, "--json", *inputs],
                              capture_output=True, text=True, timeout=TIMEOUT, check=False, env=variables, cwd=self.area)
        assert done.returncode in (0, 3), done.stderr
        assert [finding["key"] for finding in json.loads(done.stderr)["findings"]] == list(left_out)
        self.document = json.loads(done.stdout)
        self.controlled = Controlled(starter, {}, document=self.document, env=variables)
        self.launcher = self.controlled.launcher

    def add(self, path, text):
        """Writes a file below the area, which AREA in it stands for; scripts are executable."""
        path = self.area / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("AREA", str(self.area)))
        path.chmod(0o755 if text.startswith("#!") else 0o644)

    def up(self, name, **fields):
        """The record of the next start of a program."""
        return self.launcher.wait_for(self.launcher.probe, {"tell": name, "up": True, **fields})

    def signalled(self, name, number, **fields):
        """The record of a signal that has come."""
        return self.launcher.wait_for(self.launcher.probe, {"tell": name, "signal": signal.Signals(number).name, **fields})

    def told(self):
        """What has been told so far, in order: names of starts, and names with signals."""
        self.launcher.probe.drain()
        return [record["tell"] + (f" {record['signal']}" if "signal" in record else "") for record in self.launcher.probe.all]

    def logged(self, path, text):
        """Waits until a file holds exactly this text, in which TIME is any."""
        pattern = re.escape(text).replace("TIME", r"[0-9T:.-]+Z")
        eventually(lambda: (self.area / path).exists() and re.fullmatch(pattern, (self.area / path).read_text()), f"{path} holds {text!r}")

    def settled(self, name, state):
        """Waits until all processes of a program are in this state."""
        eventually(lambda: {process["state"] for process in self.controlled.status(name)[name]["processes"].values()} == {state},
                   f"{name} is {state}")

    def killed(self, record):
        """Kills what has told this record, and waits for its successor."""
        self.launcher.signal_inside(record["pid"], signal.SIGKILL)
        return self.up(record["tell"], pid=lambda pid: pid != record["pid"])


def test_supervisord_with_includes_groups_and_several_processes(as_pid1):
    converted = Converted(as_pid1, {
        "etc/supervisord.conf": """\
[unix_http_server]
file=/run/supervisor.sock

[supervisord]
nodaemon=true
environment=STAGE="production",REGION=eu

[include]
files = conf.d/*.conf
""",
        "etc/conf.d/10-migrate.conf": """\
[program:migrate]
command=AREA/bin/tell migrate exit=0
autorestart=false
startsecs=0
priority=1
""",
        "etc/conf.d/20-web.conf": """\
[program:web]
command=AREA/bin/tell web --port=80%(process_num)02d --load=50%% "out=I am %(program_name)s" err=oh   ; a comment
process_name=%(program_name)s-%(process_num)02d
numprocs=2
numprocs_start=1
directory=%(here)s/site
umask=027
environment=GREETING="hello, %(ENV_WHO)s",STAGE="test"
autorestart=true
stopsignal=QUIT
stdout_logfile=AREA/log/%(program_name)s-%(process_num)02d.log
stderr_logfile=AREA/log/%(program_name)s-%(process_num)02d.err

[program:later]
command=AREA/bin/tell later
autostart=false

[group:front]
programs=web,later
""",
        "etc/conf.d/site/index": "",
        "log/index": "",
    }, "etc/supervisord.conf", left_out=["[unix_http_server]", "environment"], env={"WHO": "world"})
    first, second = (converted.up("web", words=lambda words, port=port: f"--port={port}" in words) for port in (8001, 8002))
    assert converted.told()[0] == "migrate"
    assert first["words"] == ["--port=8001", "--load=50%", "out=I am web", "err=oh"]
    assert (first["directory"], first["umask"]) == (f"{converted.area}/etc/conf.d/site", 0o027)
    own = {key: first["environment"][key] for key in ("GREETING", "STAGE", "REGION")}
    assert own == {"GREETING": "hello, world", "STAGE": "test", "REGION": "eu"}
    converted.logged("log/web-02.log", "I am web\n")
    converted.logged("log/web-02.err", "oh\n")
    assert converted.killed(second)["words"] == second["words"]
    assert "later" not in converted.told()
    converted.controlled.ctl("start", "@front")
    converted.up("later")
    assert converted.launcher.stop() == Exit(0)
    assert sorted(converted.told()[-3:]) == ["later SIGTERM", "web SIGQUIT", "web SIGQUIT"]


def test_supervisord_gives_up_after_its_retries_and_does_not_wait_for_what_is_held(as_pid1):
    converted = Converted(as_pid1, {"supervisord.conf": """\
[program:held]
command=AREA/bin/tell held
autostart=false
priority=1

[program:broken]
command=AREA/bin/tell broken exit=3
startretries=1
priority=2

[program:web]
command=AREA/bin/tell web "it's#here" # a comment
priority=3
"""}, "supervisord.conf")
    assert converted.up("web")["words"] == ["it's#here"]
    converted.settled("broken", "failed")
    assert converted.told().count("broken") == 2
    assert converted.launcher.stop() == Exit(0)
    assert "held" not in converted.told()


def test_a_procfile_with_a_release_and_a_shell(as_pid1):
    converted = Converted(as_pid1, {"Procfile": """\
# as Heroku and foreman have it
release: AREA/bin/tell release exit=0
web: AREA/bin/tell web --user="$WHO" out=listening
worker: STAGE=test AREA/bin/tell worker err=working && true
"""}, "Procfile", env={"WHO": "two words"})
    web = converted.up("web")
    assert converted.up("worker")["environment"]["STAGE"] == "test"
    assert converted.told()[0] == "release"
    assert web["words"] == ["--user=two words", "out=listening"]
    converted.launcher.wait_for_text("web[1] | listening")
    eventually(lambda: "worker[1] | working" in converted.launcher.errors(), "the worker's error has a prefix")
    converted.killed(web)
    assert converted.launcher.stop() == Exit(0)
    assert sorted(converted.told()[-2:]) == ["web SIGTERM", "worker SIGTERM"]


def test_a_foreman_whose_release_fails_runs_nothing_else(as_pid1):
    converted = Converted(as_pid1, {"Procfile": "release: AREA/bin/tell release exit=4\nweb: AREA/bin/tell web\n"}, "Procfile")
    assert converted.launcher.wait() == Exit(4)
    assert converted.told() == ["release"]


def test_s6_rc_with_dependencies_a_logger_and_a_oneshot_that_is_undone(as_pid1):
    converted = Converted(as_pid1, {
        "rc/data/type": "oneshot\n",
        "rc/data/up": "AREA/bin/tell data-up exit=0\n",
        "rc/data/down": "AREA/bin/tell data-down exit=0\n",
        "rc/db/type": "longrun\n",
        "rc/db/run": "#!/bin/sh\nexec AREA/bin/tell db out=ready ready=4 2>&1\n",
        "rc/db/notification-fd": "4\n",
        "rc/db/down-signal": "SIGINT\n",
        "rc/db/timeout-kill": "15000\n",
        "rc/db/dependencies.d/data": "",
        "rc/db/producer-for": "db-log\n",
        "rc/db-log/type": "longrun\n",
        "rc/db-log/run": "#!/bin/execlineb -P\ns6-setuidgid logger\ns6-log -b n3 s500000 T AREA/log\n",
        "rc/db-log/consumer-for": "db\n",
        "rc/web/type": "longrun\n",
        "rc/web/run": "#!/bin/sh\nexec AREA/bin/tell web\n",
        "rc/web/dependencies": "db\n",
        "rc/user/type": "bundle\n",
        "rc/user/contents.d/web": "",
        "log/index": "",
    }, "rc")
    assert set(converted.document["programs"]) == {"data", "db", "web"}
    web, db = converted.up("web"), converted.up("db")
    assert converted.told() == ["data-up", "db", "web"]
    assert db["directory"] == f"{converted.area}/rc/db"
    converted.logged("log/current", "TIME ready\n")
    converted.killed(web)
    assert converted.launcher.stop() == Exit(0)
    assert converted.told() == ["data-up", "db", "web", "web", "web SIGTERM", "db SIGINT", "data-down"]


def test_s6_services_with_loggers(as_pid1):
    converted = Converted(as_pid1, {
        "services/web/run": "#!/bin/sh\nexport STAGE=test\nexec AREA/bin/tell web out=hello err=aside\n",
        "services/web/log/run": "#!/bin/sh\nexec s6-log -- n20 s1000000 AREA/log\n",
        "services/web/down-signal": "SIGUSR1\n",
        "services/web/timeout-kill": "100\n",
        "services/broken/run": "#!/bin/sh\nexec AREA/bin/tell broken out=oh exit=9\n",
        "services/broken/max-death-tally": "1\n",
        "services/broken/log/run": "#!/bin/sh\nread -r line\nexec AREA/bin/tell reader \"$line\" \"in=$PWD\"\n",
        "services/held/run": "#!/bin/sh\nexec AREA/bin/tell held\n",
        "services/held/down": "",
        "services/.s6-svscan/crash": "#!/bin/sh\n",
        "log/index": "",
    }, "services", left_out=["max-death-tally"])
    web = converted.up("web")
    assert web["environment"]["STAGE"] == "test"
    converted.logged("log/current", "hello\n")
    eventually(lambda: "\naside\n" in f"\n{converted.launcher.errors()}", "standard error is the launcher's own")
    assert converted.up("reader")["words"] == ["oh", f"in={converted.area}/services/broken/log"]
    eventually(lambda: converted.told().count("broken") > 2, "it is started again and again")
    converted.killed(web)
    converted.controlled.ctl("start", "held")
    converted.up("held")
    converted.controlled.ctl("restart", "web", timeout=TIMEOUT)
    converted.signalled("web", signal.SIGUSR1)  # it does not end it: the kill after 100 ms does
    converted.up("web")
    assert converted.launcher.stop() == Exit(0)


def test_runit_services_with_a_log_directory_and_a_check(as_pid1):
    converted = Converted(as_pid1, {
        "sv/web/run": "#!/bin/sh\nset -e\nexec 2>&1\n[ ! -r ./conf ] || . ./conf\nexec AREA/bin/tell web out=one err=two\n",
        "sv/web/conf": "export STAGE=test\n",
        "sv/web/check": "#!/bin/sh\nexec test -e AREA/is-ready\n",
        "sv/web/log/run": "#!/bin/sh\nset -e\nexec chpst -u logger svlogd -tt AREA/log/web\n",
        "log/web/config": "s2000\nn3\n",
        "sv/off/run": "#!/bin/sh\nexec AREA/bin/tell off\n",
        "sv/off/down": "",
    }, "--from", "runit", "sv")
    web = converted.up("web")
    assert (web["environment"]["STAGE"], web["directory"]) == ("test", f"{converted.area}/sv/web")
    converted.logged("log/web/current", "TIME one\nTIME two\n")
    assert converted.controlled.process("web")["ready"] is False
    converted.add("is-ready", "")
    eventually(lambda: converted.controlled.process("web")["ready"], "check has succeeded")
    converted.killed(web)
    assert converted.launcher.stop() == Exit(0)
    assert converted.told() == ["web", "web", "web SIGTERM"]


def test_systemd_services_with_files_of_variables_and_restarts(as_pid1):
    converted = Converted(as_pid1, {
        "units/web.service": """\
[Unit]
Description=A web server
After=network.target prepare.service
Requires=prepare.service

[Service]
EnvironmentFile=-AREA/etc/missing
EnvironmentFile=AREA/etc/default
Environment="GREETING=hello, world" STAGE=test ONE=overridden
WorkingDirectory=AREA/etc
UMask=0027
LimitNOFILE=512:1024
ExecStartPre=AREA/bin/tell before exit=0
ExecStartPre=-AREA/bin/tell may-fail exit=5
ExecStart=AREA/bin/tell web $OPTIONS ${ONE} --percent=%% %n
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=50ms
KillSignal=SIGINT
TimeoutStopSec=20s
StandardOutput=append:AREA/log/web

[Install]
WantedBy=multi-user.target
""",
        "units/web.service.d/override.conf": "[Service]\nEnvironment=REGION=eu\n",
        "units/prepare.service": """\
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=AREA/bin/tell first exit=0
ExecStart=AREA/bin/tell second exit=0
ExecStop=AREA/bin/tell undo exit=0
""",
        "etc/default": "# what an administrator sets\nOPTIONS=\"--one --two out=told\"\nONE='is one'\n",
        "log/index": "",
    }, "units/web.service", "units/prepare.service", left_out=["EnvironmentFile", "EnvironmentFile", "ExecReload"])
    web = converted.up("web")
    assert converted.told() == ["first", "second", "before", "may-fail", "web"]
    assert web["words"] == ["--one", "--two", "out=told", "is one", "--percent=%", "web.service"]
    assert (web["directory"], web["umask"]) == (f"{converted.area}/etc", 0o027)
    assert {key: web["environment"][key] for key in ("GREETING", "STAGE", "REGION")} == {"GREETING": "hello, world", "STAGE": "test", "REGION": "eu"}
    assert re.search(r"Max open files +512 +1024 ", (converted.launcher.proc(web["pid"]) / "limits").read_text())
    converted.logged("log/web", "told\n")
    converted.killed(web)
    converted.controlled.ctl("signal", "HUP", "web")
    converted.signalled("web", signal.SIGHUP)
    assert converted.launcher.stop() == Exit(0)
    assert converted.told()[-2:] == ["web SIGINT", "undo"]


def test_a_systemd_notify_service_with_one_that_is_bound_to_it(as_pid1):
    converted = Converted(as_pid1, {
        "db.service": "[Service]\nType=notify\nExecStart=AREA/bin/tell db notify\nRestart=always\nRestartSec=10ms\nTimeoutStartSec=30\n",
        "cache.service": "[Unit]\nBindsTo=db.service\nAfter=db.service\n[Service]\nExecStart=AREA/bin/tell cache\n"
                         "ExecStop=AREA/bin/tell save exit=0 pid=${MAINPID}\n",
        "report.service": "[Unit]\nAfter=cache.service\n[Service]\nType=oneshot\nExecStart=AREA/bin/tell report exit=3\nSuccessExitStatus=3\n",
    }, "db.service", "cache.service", "report.service")
    db, cache = converted.up("db"), converted.up("cache")
    converted.up("report")
    assert converted.told()[0] == "db"
    converted.settled("report", "done")
    converted.killed(db)
    assert f"pid={cache['pid']}" in converted.up("save")["words"]
    converted.signalled("cache", signal.SIGTERM)
    assert converted.up("cache")["pid"] != cache["pid"]
    assert converted.launcher.stop() == Exit(0)


def test_a_stop_command_of_systemd_that_ends_nothing_is_followed_by_the_signal(as_pid1):
    converted = Converted(as_pid1, {
        "a.service": "[Service]\nExecStart=AREA/bin/tell a\nExecStop=/bin/kill -s STOP $MAINPID\n",
        "b.service": "[Service]\nExecStart=AREA/bin/tell b\nExecStop=/bin/kill -USR1 $MAINPID\nKillSignal=SIGUSR2\n",  # of two that wait, the lower comes first
    }, "a.service", "b.service")
    converted.up("a"), converted.up("b")
    assert converted.launcher.stop() == Exit(0)
    assert sorted(converted.told()) == ["a", "a SIGTERM", "b", "b SIGUSR1", "b SIGUSR2"]


def test_an_instance_of_a_systemd_template_as_another_user(as_pid1, needs_root):
    converted = Converted(as_pid1, {
        "app@.service": """\
[Service]
Type=exec
User=nobody
Group=daemon
Environment=NAME=%i PREFIX=%p
ExecStart=/bin/sh -c 'exec AREA/bin/tell "app $NAME"'
StandardOutput=null
Restart=no
""",
    }, "--instance", "blue", "app@.service", left_out=["User", "app@blue"])
    app = converted.up("app blue")
    assert (app["user"], app["group"]) == (65534, 1)
    assert app["environment"]["PREFIX"] == "app"
    converted.launcher.signal_inside(app["pid"], signal.SIGKILL)
    assert converted.launcher.wait() == Exit(128 + signal.SIGKILL)
    assert converted.told() == ["app blue"]


def test_process_compose_with_conditions_and_an_end(as_pid1):
    pytest.importorskip("yaml", reason="needs python3-yaml")
    converted = Converted(as_pid1, {
        "process-compose.yaml": """\
version: "0.5"
environment:
  - STAGE=test
processes:
  setup:
    command: AREA/bin/tell setup exit=0
  db:
    command: AREA/bin/tell db
    depends_on:
      setup: {condition: process_completed_successfully}
    readiness_probe:
      exec: {command: test -e AREA/is-ready}
      period_seconds: 1
      timeout_seconds: 5
    availability: {restart: always}
    shutdown: {signal: 2, timeout_seconds: 20}
  web:
    command: exec AREA/bin/tell "web $STAGE" out=hello
    working_dir: site
    environment: [PORT=8080]
    log_location: AREA/log/web
    depends_on:
      db: {condition: process_healthy}
    shutdown: {command: AREA/bin/tell bye exit=0}
  main:
    command: AREA/bin/tell main
    replicas: 1
    depends_on:
      web: {condition: process_started}
    availability: {exit_on_end: true}
""",
        "site/index": "",
        "log/index": "",
    }, "process-compose.yaml")
    db = converted.up("db")
    assert converted.told() == ["setup", "db"]
    converted.add("is-ready", "")
    web, main = converted.up("web test"), converted.up("main")
    assert (web["directory"], web["environment"]["PORT"]) == (f"{converted.area}/site", "8080")
    converted.logged("log/web", "hello\n")
    converted.killed(db)
    converted.launcher.signal_inside(main["pid"], signal.SIGKILL)
    assert converted.launcher.wait() == Exit(128 + signal.SIGKILL)
    assert converted.told()[-3:] == ["bye", "web test SIGTERM", "db SIGINT"]


def test_process_compose_ends_with_what_must_not_fail_and_waits_for_a_line(as_pid1):
    pytest.importorskip("yaml", reason="needs python3-yaml")
    converted = Converted(as_pid1, {"process-compose.yaml": """\
processes:
  ends:
    command: exec AREA/bin/tell ends exit=0
    availability: {restart: exit_on_failure}
  db:
    command: exec AREA/bin/tell db "out=db is up (1)" $$(echo 5)
    ready_log_line: "up (1)"
  fails:
    command: "[[ x == x ]] && exec AREA/bin/tell fails exit=4"
    depends_on: {db: {condition: process_log_ready}}
    availability: {restart: exit_on_failure}
"""}, "process-compose.yaml", left_out=["restart", "restart"])
    assert converted.launcher.wait() == Exit(1)
    assert sorted(converted.told()[:3]) == ["db", "ends", "fails"] and converted.told().count("fails") == 1


def test_docker_compose_with_entry_points_and_health(as_pid1):
    pytest.importorskip("yaml", reason="needs python3-yaml")
    converted = Converted(as_pid1, {
        "compose.yaml": """\
name: shop
x-common: &common
  restart: unless-stopped
  environment: &variables {STAGE: test, PORT: 8080, EMPTY: ""}
services:
  db:
    <<: *common
    entrypoint: [AREA/bin/tell, db]
    command: [$$HOME, "${WHO:-nobody} of ${PLACE:-here}"]
    healthcheck:
      test: ["CMD", "test", "-e", "AREA/is-ready"]
      interval: 1s
      retries: 1000
    stop_signal: SIGQUIT
    ulimits: {nofile: {soft: 512, hard: 1024}}
  migrate:
    entrypoint: AREA/bin/tell
    command: migrate exit=0
    depends_on:
      db: {condition: service_healthy}
  web:
    <<: *common
    entrypoint: AREA/bin/tell
    command: web out=hello
    working_dir: AREA/site
    env_file: web.env
    environment: {<<: *variables, PORT: 9090}
    scale: 2
    depends_on:
      migrate: {condition: service_completed_successfully}
    stop_grace_period: 1m30s
""",
        ".env": "PLACE=there\n",
        "web.env": "# for the web\nREGION='eu west'\nPORT=1\n",
        "site/index": "",
    }, "compose.yaml", env={"WHO": "somebody"})
    db = converted.up("db")
    assert db["words"] == ["$HOME", "somebody of there"]
    assert {key: db["environment"][key] for key in ("STAGE", "PORT", "EMPTY")} == {"STAGE": "test", "PORT": "8080", "EMPTY": ""}
    assert re.search(r"Max open files +512 +1024 ", (converted.launcher.proc(db["pid"]) / "limits").read_text())
    assert converted.told() == ["db"]
    converted.add("is-ready", "")
    web, other = converted.up("web"), converted.up("web")
    assert converted.told() == ["db", "migrate", "web", "web"]
    assert web["directory"] == f"{converted.area}/site"
    assert {key: web["environment"][key] for key in ("REGION", "PORT", "STAGE")} == {"REGION": "eu west", "PORT": "9090", "STAGE": "test"}
    converted.launcher.wait_for_text("web[1] | hello")
    assert converted.killed(other)["environment"] == other["environment"]
    assert converted.launcher.stop() == Exit(0)
    assert converted.told()[-3:] == ["web SIGTERM", "web SIGTERM", "db SIGQUIT"]


def test_a_fastcgi_program_of_supervisord_gets_its_socket(as_pid1):
    converted = Converted(as_pid1, {
        "supervisord.conf": """\
[fcgi-program:php]
socket=unix://AREA/php.sock
socket_mode=0600
command=AREA/bin/tell php accept
stopsignal=INT
startsecs=0
autorestart=unexpected
exitcodes=0,7
stdout_logfile=NONE
""",
    }, "supervisord.conf", left_out=[])
    converted.up("php")
    assert (converted.area / "php.sock").stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(TIMEOUT)
        client.connect(str(converted.area / "php.sock"))
        assert client.makefile().read() == "served by php"
    assert converted.launcher.stop() == Exit(0)
    assert converted.told() == ["php", "php SIGINT"]

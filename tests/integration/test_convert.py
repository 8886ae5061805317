"""triton-launch-convert: exact configurations, exact findings, bad and hostile input, and units that this machine has."""

import grp
import json
import os
import pwd
import re
import resource
import subprocess
from pathlib import Path

import pytest

from harness.process import BINARY, TIMEOUT

SOURCE = Path(__file__).resolve().parents[2]
CONVERT = SOURCE / "programs/triton-launch-convert/triton-launch-convert"
pytestmark = pytest.mark.skipif(not CONVERT.exists(), reason="only the tests were copied, not the program")


def convert(*arguments, cwd=None):
    return subprocess.run(["/usr/bin/python3", CONVERT, *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=cwd,
                          env={"PATH": os.environ["PATH"]})


def check(text):
    done = subprocess.run([BINARY, "check", "-"], input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr


HOME_IS_MISSING = 'User: HOME and SHELL are not those of the user; give the program HOME in "environment" where it reads that'
SHELL_READS = ("EnvironmentFile: a shell reads the file, with the rights of the program: it expands $ and ` and needs quotes around spaces; "
               'write the variables into "environment" where that matters')
NEEDS_GROUPS = ("an ordinary container has no control groups of its own, and rejects it; give it a delegated tree (see cgroup in triton-launch-config(5)), "
                "or limit the container and leave it out")
REPLICA = {"type": "ProcessNumber", "offset": -1}
ONE_SECOND = {"initial": "1s", "factor": 1, "max": "1s"}
THREE_RETRIES = {"backoff": {"initial": "3s", "factor": 1, "max": "3s"}, "startLimit": {"count": 4, "interval": "13s"}}
CASES = [
    ("s.conf", "[program:web]\ncommand=/srv/web --in %(here)s -p 80%%\nautorestart=true\nstopsignal=QUIT\nstopwaitsecs=20\npriority=2\n"
               "[program:init]\ncommand=/srv/init\nautorestart=false\nstartsecs=0\npriority=1\n", "",
     {"web": {"command": ["/srv/web", "--in", "AREA", "-p", "80%"], "restart": "always",
              **THREE_RETRIES, "stopSignal": "QUIT", "stopTimeout": "20s", "output": {}, "after": ["init"]},
      "init": {"command": ["/srv/init"], "oneShot": True, "output": {}}}),
    ("Procfile", "web: serve --port 80\njob: a && b\n", "",
     {"web": {"command": ["serve", "--port", "80"], "output": {}}, "job": {"command": ["sh", "-c", "trap 'exit 143' TERM\na && b"], "output": {}, "stopScope": "tree"}}),
    ("a.service", "[Service]\nType=notify\nExecStart=/usr/bin/a -v\nUser=nobody\nRestart=always\nRestartSec=2\nPrivateTmp=yes\n",
     f"AREA/a.service:4: {HOME_IS_MISSING}\n"
     'AREA/a.service:7: PrivateTmp: its sandbox of mounts and filters has other keys; use "seccomp", "landlock", "capabilities", or what runs the container\n',
     {"a": {"command": ["/usr/bin/a", "-v"], "environment": {"USER": "nobody", "LOGNAME": "nobody"}, "readiness": {"type": "notify"}, "startTimeout": "90s",
            "restart": "always", "backoff": {"initial": "2s", "factor": 1, "max": "2s", "always": True},
            "stopScope": "tree", "stopTimeout": "90s", "user": "nobody"}}),
    ("d.service", "[Service]\nType=forking\nPIDFile=d.pid\nExecStart=/usr/sbin/d\nTimeoutStartSec=20\n", "",
     {"d": {"command": ["/usr/sbin/d"], "pidFile": "/run/d.pid", "restart": "never", "startTimeout": "20s", "stopScope": "tree",
            "stopTimeout": "90s"}}),
    ("d.service", "[Service]\nType=forking\nExecStart=/usr/sbin/d\n",
     "AREA/d.service:2: Type: the process that goes on is known by a pid file alone; have it write a PIDFile=, or give the command the "
     "option that keeps it in the foreground\n",
     {"d": {"command": ["/usr/sbin/d"], "restart": "never", "stopScope": "tree", "stopTimeout": "90s"}}),
    ("d.service", "[Service]\nPIDFile=/run/d.pid\nExecStart=/usr/sbin/d\n",
     "AREA/d.service:2: PIDFile: only a program of Type=forking has one; leave it out\n",
     {"d": {"command": ["/usr/sbin/d"], "restart": "never", "stopScope": "tree", "stopTimeout": "90s"}}),
    ("s.conf", "[program:db]\ncommand=/usr/bin/pidproxy /run/db.pid /usr/bin/mysqld_safe --user=db\nautorestart=true\n",
     "AREA/s.conf:2: command: pidproxy is left out: signals reach all processes of its command; where the command goes into the background, "
     'give the file as "pidFile" in place of "stopScope"\n',
     {"db": {"command": ["/usr/bin/mysqld_safe", "--user=db"], "stopScope": "tree", "restart": "always",
             **THREE_RETRIES, "output": {}}}),
    ("process-compose.yaml", "processes:\n  web:\n    command: serve $PORT\n    availability: {restart: always}\n", "",
     {"web": {"command": ["bash", "-c", "serve $PORT"], "output": {}, "restart": "always", "backoff": {"initial": "1s", "factor": 1, "max": "1s", "always": True},
              "stopScope": "tree"}}),
    ("s.conf", "[program:web]\ncommand=/srv/web\nautorestart=true\nstartsecs=0\nstartretries=0\nstdout_logfile=/log/out\nstderr_logfile=/log/err\n"
               "stderr_logfile_maxbytes=1MB\nstderr_logfile_backups=2\n", "",
     {"web": {"command": ["/srv/web"], "restart": "always", "backoff": {"initial": "1s", "factor": 1, "max": "1s"},
              "output": {"file": "/log/out", "maxSize": 52428800, "maxFiles": 10,
                         "stderr": {"file": "/log/err", "maxSize": 1048576, "maxFiles": 2}}}}),
    ("s.conf", "[program:w]\ncommand=/srv/w\nautostart=false\nautorestart=false\nnumprocs=3\nprocess_name=%(program_name)s_%(process_num)02d\n"
               "stdout_logfile=/x/%(program_name)s_%(process_num)02d.log\nstderr_logfile=/x/%(process_num)d.err\n", "",
     {"w": {"command": ["/srv/w"], "autoStart": False, "restart": "never", "count": 3, "output": {
         "file": {"type": "Concatenate", "values": ["/x/w_", {"type": "ProcessNumber", "width": 2, "offset": -1}, ".log"]},
         "maxSize": 52428800, "maxFiles": 10,
         "stderr": {"file": {"type": "Concatenate", "values": ["/x/", {"type": "ProcessNumber", "offset": -1}, ".err"]},
                    "maxSize": 52428800, "maxFiles": 10}}}}),
    ("s.conf", "[program:a]\ncommand=/a\nautorestart=false\nstdout_logfile=syslog\n"
               "[program:b]\ncommand=/b\nautorestart=false\nstdout_syslog=true\nstderr_syslog=true\n"
               "[program:c]\ncommand=/c\nautorestart=false\nredirect_stderr=true\nstdout_logfile=NONE\nstdout_syslog=true\n"
               "[program:d]\ncommand=/d\nautorestart=false\nstdout_logfile=/d\nstdout_syslog=true\nstderr_logfile=syslog\n",
     "AREA/s.conf:20: stdout_syslog: output goes to one place; let the syslog daemon write the file, too\n",
     {"a": {"command": ["/a"], "restart": "never", "output": {"syslog": {"facility": "user"}, "stderr": {}}},
      "b": {"command": ["/b"], "restart": "never", "output": {"syslog": {"facility": "user", "stderrSeverity": "info"}}},
      "c": {"command": ["/c"], "restart": "never", "output": {"syslog": {"facility": "user", "stderrSeverity": "info"}}},
      "d": {"command": ["/d"], "restart": "never", "output": {"file": "/d", "maxSize": 52428800, "maxFiles": 10,
                                                              "stderr": {"syslog": {"facility": "user", "severity": "info"}}}}}),
    ("compose.yml", "services:\n"
                    "  a:\n    entrypoint: a\n    logging: {driver: syslog}\n"
                    "  b:\n    entrypoint: b\n    logging: {driver: syslog, options: {syslog-address: 'tcp+tls://10.0.0.1', "
                    "syslog-facility: local3, tag: hi, syslog-format: rfc5424micro}}\n"
                    "  c:\n    entrypoint: c\n    logging: {driver: syslog, options: {syslog-address: 'udp://[::1]:5514'}}\n"
                    "  d:\n    entrypoint: d\n    logging: {driver: syslog, options: {syslog-address: 'unixgram:///run/log'}}\n"
                    "  e:\n    entrypoint: e\n    logging: {driver: none}\n"
                    "  f:\n    entrypoint: f\n    logging: {driver: syslog, options: {syslog-address: 'udp://logs'}}\n"
                    "  g:\n    entrypoint: g\n    logging: {driver: gelf}\n"
                    "  h:\n    entrypoint: h\n    logging: {driver: syslog, options: {tag: '{{.Name}}', syslog-tls-skip-verify: 'true'}}\n",
     "AREA/compose.yml:19: syslog-address: names of hosts are not looked up; give an IP address, as unix:, udp:, tcp: or tls:\n"
     'AREA/compose.yml:22: logging: gelf: logs belong to the container; see "output"\n'
     'AREA/compose.yml:25: tag: it has no equivalent; see "syslog" of "output"\n'
     'AREA/compose.yml:25: syslog-tls-skip-verify: it has no equivalent; see "syslog" of "output"\n',
     {"a": {"command": ["a"], "restart": "never", "output": {"syslog": {}}},
      "b": {"command": ["b"], "restart": "never", "output": {"syslog": {"address": "tls:10.0.0.1:6514", "facility": "local3", "name": "hi"}}},
      "c": {"command": ["c"], "restart": "never", "output": {"syslog": {"address": "udp:[::1]:5514"}}},
      "d": {"command": ["d"], "restart": "never", "output": {"syslog": {"address": "unix:/run/log"}}},
      "e": {"command": ["e"], "restart": "never", "output": "null"},
      "f": {"command": ["f"], "restart": "never", "output": {}},
      "g": {"command": ["g"], "restart": "never", "output": {}},
      "h": {"command": ["h"], "restart": "never", "output": {"syslog": {}}}}),
    ("a.service", "[Service]\nExecStart=/a\nStandardOutput=syslog\nSyslogIdentifier=hey\nSyslogFacility=local1\nSyslogLevel=notice\n", "",
     {"a": {"command": ["/a"], "restart": "never", "stopScope": "tree", "stopTimeout": "90s", "output": {
         "syslog": {"facility": "local1", "severity": "notice", "stderrSeverity": "notice", "name": "hey"}}}}),
    ("a.service", "[Service]\nExecStart=/a\nSyslogIdentifier=hey\n", "",
     {"a": {"command": ["/a"], "restart": "never", "stopScope": "tree", "stopTimeout": "90s"}}),
    ("a.service", "[Service]\nType=oneshot\nExecStart=/sbin/up\nRemainAfterExit=yes\nExecStop=/sbin/down\nTimeoutStartSec=5\nTimeoutStopSec=3\n"
                  "StandardInput=file:/in\nStandardOutput=append:/out\nStandardError=append:/err\n", "",
     {"a": {"command": ["/sbin/up"], "oneShot": True, "stopScope": "tree", "stopTimeout": "3s", "timeout": "5s",
            "onStop": {"command": ["/sbin/down"], "timeout": "3s"}, "stdin": {"file": "/in"},
            "output": {"file": "/out", "stderr": {"file": "/err"}}}}),
    ("compose.yml", "services:\n  db:\n    entrypoint: db\n    restart: always\n    mem_limit: 1g\n    ulimits: {nofile: {soft: 10, hard: 20}, core: -1}\n"
                    "    deploy:\n      replicas: 2\n      resources: {limits: {memory: 512M, cpus: '1.5', pids: 30}}\n",
     f"AREA/compose.yml:5: mem_limit: {NEEDS_GROUPS}\n" + "".join(f"AREA/compose.yml:9: {key}: {NEEDS_GROUPS}\n" for key in ("memory", "cpus", "pids")) +
     "AREA/compose.yml:6: core: an ordinary container has a lower limit, and rejects it; start it with the same limit (docker run --ulimit), or leave it out\n",
     {"db": {"command": ["db"], "output": {}, "restart": "always", "count": 2,
             "cgroup": {"memoryMax": "512Mi", "cpuMax": "150%", "pidsMax": 30},
             "limits": {"nofile": {"soft": 10, "hard": 20}, "core": "unlimited"}}}),
    # What units of Debian's packages have: empty sets of capabilities, files that override variables, reloads, sockets.
    ("a.service", "[Unit]\nAfter=systemd-networkd.service db.service\nRequires=a.socket x.target\nRequiresMountsFor=/srv\n[Service]\n"
                  "CapabilityBoundingSet=CAP_KILL\nCapabilityBoundingSet=\nAmbientCapabilities=\nPrivateTmp=no\nIgnoreSIGPIPE=no\n"
                  "SuccessExitStatus=DATAERR SIGKILL 3\nKillMode=process\nDynamicUser=yes\nSendSIGKILL=no\n"
                  "ExecStart=/bin/sh -c \"a $X `b` \\\n  ${HOME}\"\nExecReload=/bin/kill -s USR2 $MAINPID\n",
     "AREA/a.service:3: Requires: a.socket is not a service; list a socket in \"sockets\"; leave the rest to what runs the container\n"
     "AREA/a.service:2: After: db.service is not among the units that are converted; name its file too, or leave it out\n"
     "AREA/a.service:12: KillMode: what a process leaves behind is always killed; give what must go on a program of its own\n"
     "AREA/a.service:17: ExecReload: a program is not told to reload, but gets USR2 by a command; triton-launch ctl signal USR2 a\n"
     "AREA/a.service:4: RequiresMountsFor: mounts belong to the container; mount it before the launcher starts\n"
     "AREA/a.service:13: DynamicUser: users are not made; it runs as the launcher does: make a user in the image and give it as \"user\"\n"
     "AREA/a.service:14: SendSIGKILL: what does not stop in time is killed; give it a longer \"stopTimeout\"\n",
     {"a": {"command": ["sh", "-c", "exec /bin/sh -c 'a $X `b`  '\"${HOME}\""], "restart": "never",
            "successCodes": [65, "KILL", 3], "stopTimeout": "90s", "capabilities": {"bounding": [], "ambient": []}}}),
    ("a.service", "[Service]\nEnvironment=\"OPTIONS=-a -b\" CONFIG=/etc/a\nEnvironmentFile=-/etc/default/missing\nUser=a\nKillMode=mixed\n"
                  "ExecStart=/usr/sbin/a -f ${CONFIG} $OPTIONS\nTimeoutStopSec=0\nCapabilityBoundingSet=~CAP_CHOWN\nCapabilityBoundingSet=\n"
                  "CapabilityBoundingSet=CAP_SETUID CAP_SETGID\n",
     f"AREA/a.service:4: {HOME_IS_MISSING}\nAREA/a.service:3: {SHELL_READS}\n"
     "AREA/a.service:7: TimeoutStopSec: a stop always has a limit; it is one day here\n",
     {"a": {"command": ["sh", "-c", "set -a; [ ! -e /etc/default/missing ] || . /etc/default/missing; set +a\nset -f\nexec /usr/sbin/a -f \"${CONFIG}\" $OPTIONS"],
            "environment": {"USER": "a", "LOGNAME": "a", "OPTIONS": "-a -b", "CONFIG": "/etc/a"}, "restart": "never", "stopTimeout": "86400s", "user": "a",
            "capabilities": {"bounding": ["SETUID", "SETGID"]}}}),
    # What supervisor's sample has: the daemon's own user, variables that others name, priorities of groups.
    ("s.conf", "[supervisord]\nuser=daemon\numask=027\nminfds=1024\nenvironment=BASE=\"/srv\"\n[program:web]\ncommand=%(ENV_BASE)s/web\n"
               "[program:db]\ncommand=%(ENV_BASE)s/db %(ENV_MODE)s\nenvironment=MODE=\"%(program_name)s\"\nuser=db\npriority=-1\n"
               "[program:log]\ncommand=log\n[group:first]\nprograms=log\npriority=-5\n",
     "AREA/s.conf:4: minfds: it is about supervisord itself; options of the launcher take its place; see triton-launch(1)\n",
     {name: {"command": command, "environment": {"BASE": "/srv"} | environment, "user": user, "umask": "0027", "restart": "on-failure",
             **THREE_RETRIES, "output": {}} | more
      for name, command, environment, user, more in (
          ("web", ["/srv/web"], {}, "daemon", {"after": ["db"]}), ("db", ["/srv/db", "db"], {"MODE": "db"}, "db", {"after": ["log"]}),
          ("log", ["log"], {}, "daemon", {"groups": ["first"]}))}),
    ("a.service", "[Service]\nExecStart=/a\nCPUQuota=12.5%\nCPUAffinity=0-1 3\n",
     f"AREA/a.service:3: CPUQuota: {NEEDS_GROUPS}\n",
     {"a": {"command": ["/a"], "restart": "never", "stopScope": "tree", "stopTimeout": "90s", "cpuAffinity": "0-1,3", "cgroup": {"cpuMax": "12.5%"}}}),
    ("compose.yml", "services:\n  db:\n    entrypoint: db\n    restart: always\n    ports: [1]\n",
     "AREA/compose.yml:5: ports: ports belong to the container; publish them where the container is run\n",
     {"db": {"command": ["db"], "output": {}, "restart": "always"}}),
]


@pytest.mark.parametrize("name, text, findings, expected", CASES, ids=[case[0] for case in CASES])
def test_an_input_becomes_exactly_this(area, name, text, findings, expected):
    if name.endswith(("yaml", "yml")):
        pytest.importorskip("yaml", reason="needs python3-yaml")
    (area / name).write_text(text)
    done = convert(area / name)
    assert done.stderr == findings.replace("AREA", str(area))
    assert json.loads(done.stdout) == {"programs": json.loads(json.dumps(expected).replace("AREA", str(area)))}
    assert done.returncode == (3 if findings else 0)
    check(done.stdout)


def test_groups_of_supervisord_are_groups(area):
    (area / "s.conf").write_text("[group:front]\nprograms=web,api\n[program:web]\ncommand=/srv/web %(process_num)d\nnumprocs=2\n"
                                 "[program:api]\ncommand=/srv/api %(ENV_PATH)s\nautostart=false\nexitcodes=0,3\n")
    done = convert(area / "s.conf")
    assert done.stderr == (f"{area}/s.conf:7: command: the value that PATH has now stands in the result; "
                           'where it changes or is a secret, write {"type": "Environment", "source": "PATH"}\n')
    programs = json.loads(done.stdout)["programs"]
    assert {name: program.get("groups") for name, program in programs.items()} == {
        "web_00": ["front", "web"], "web_01": ["front", "web"], "api": ["front"]}
    assert programs["api"]["autoStart"] is False and programs["api"]["successCodes"] == [3]
    check(done.stdout)


def test_relations_of_units_become_those_of_programs(area):
    (area / "db.service").write_text("[Unit]\nBefore=web.service cache.service\n[Service]\nExecStart=/usr/bin/db\n")
    (area / "cache.service").write_text("[Service]\nExecStart=/usr/bin/cache\n")
    (area / "web.service").write_text("[Unit]\nBindsTo=db.service\nAfter=db.service cache.service\nRequires=gone.service\n"
                                      "[Service]\nExecStart=/usr/bin/web\n")
    done = convert(area / "web.service", area / "db.service", area / "cache.service")
    assert done.stderr == (f"{area}/web.service:4: Requires: gone.service is not among the units that are converted; "
                           "name its file too, or leave it out\n")
    programs = json.loads(done.stdout)["programs"]
    relations = ("requires", "bindsTo", "after", "before")
    assert {name: {key: program[key] for key in relations if key in program} for name, program in programs.items()} == {
        "web": {"bindsTo": ["db"], "after": ["db", "cache"]}, "db": {"before": ["web", "cache"]}, "cache": {}}
    check(done.stdout)


def test_s6_rc_services_with_a_bundle(area):
    for path, text in {"db/type": "longrun\n", "db/run": "#!/bin/sh\n", "db/notification-fd": "3\n", "db/dependencies.d/all": "",
                       "all/type": "bundle", "all/contents": "setup\nall\n", "setup/type": "oneshot", "setup/up": "/srv/setup now\n"}.items():
        (area / path).parent.mkdir(parents=True, exist_ok=True)
        (area / path).write_text(text)
    (area / "db/run").chmod(0o755)
    done = convert(area)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["programs"] == {
        "db": {"command": [f"{area}/db/run"], "workingDirectory": f"{area}/db", "backoff": ONE_SECOND, "readiness": {"type": "fd", "fd": 3}, "requires": ["setup"]},
        "setup": {"command": ["/srv/setup", "now"], "oneShot": True}}
    check(done.stdout)


def test_s6_rc_oneshots_are_undone(area):
    for path, text in {"data/type": "oneshot\n", "data/up": "mount /data\n", "data/down": "umount /data\n", "data/timeout-up": "5000\n",
                       "data/timeout-down": "1500\n"}.items():
        (area / path).parent.mkdir(parents=True, exist_ok=True)
        (area / path).write_text(text)
    done = convert(area)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["programs"] == {"data": {
        "command": ["mount", "/data"], "oneShot": True, "timeout": "5s",
        "onStop": {"command": ["umount", "/data"], "timeout": "1500ms"}}}
    check(done.stdout)


def test_runit_services_as_packages_have_them(area):
    """A script of invoke-run, a logger that prepares its directory, a check; and a script of s6-overlay."""
    for path, text in {"sv/a/run": "#!/usr/bin/env /lib/runit/invoke-run\nexec 2>&1\nexec a ${OPTIONS:-}\n", "sv/a/.meta/installed": "",
                       "sv/a/log/run": f"#!/bin/sh\nchown _runit-log:adm '{area}/log'\nchmod 750 '{area}/log'\nexec chpst -u _runit-log svlogd -tt '{area}/log'\n",
                       "log/config": "s5000\nn0\n-*noise*\n", "sv/a/check": "#!/bin/sh\n", "sv/a/finish": "#!/bin/sh\n",
                       "sv/b/run": "#!/command/with-contenv sh\nexec b\n", "sv/b/log/run": "#!/bin/sh\nexec logger -t b\n"}.items():
        (area / path).parent.mkdir(parents=True, exist_ok=True)
        (area / path).write_text(text)
        (area / path).chmod(0o755)
    done = convert("--from", "runit", area / "sv")
    assert done.stderr == (
        f"{area}/sv/a/run:1: invoke-run: the script calls it, and still does; name /bin/sh, and give the variables of /etc/default as \"environmentFile\"\n"
        f"{area}/sv/a/finish: finish: it runs after each end, with the code and the signal as arguments; it is \"onFailure\" here, which runs when the "
        "program is given up, with the code; $TRITON_EXIT_SIGNAL has the signal\n"
        f"{area}/log/config:2: n: there always is a limit of old log files, of at most 1000; it is 1000 here\n"
        f"{area}/log/config:3: -: lines are not chosen, sent or cut off by patterns; filter where the log is read\n"
        f"{area}/sv/b/run:1: with-contenv: the script calls it, and still does; not needed: \"environmentFrom\" is inherit by default; name the interpreter itself\n")
    assert json.loads(done.stdout)["programs"] == {
        "a": {"command": [f"{area}/sv/a/run"], "workingDirectory": f"{area}/sv/a", "backoff": ONE_SECOND, "readiness": {"type": "exec", "command": [f"{area}/sv/a/check"]},
              "onFailure": {"command": ["sh", "-c", 'exec "$1" "${TRITON_EXIT_CODE:--1}"', "sh", f"{area}/sv/a/finish"]},
              "output": {"file": f"{area}/log/current", "maxSize": 5000, "maxFiles": 1000, "timestamp": "rfc3339"}},
        "b": {"command": [f"{area}/sv/b/run"], "workingDirectory": f"{area}/sv/b", "backoff": ONE_SECOND, "output": {"to": "b-log", "stderr": "inherit"}},
        "b-log": {"command": [f"{area}/sv/b/log/run"], "workingDirectory": f"{area}/sv/b/log", "backoff": ONE_SECOND}}
    check(done.stdout)


BAD = [
    ("s.conf", "[program:x]\ncommand=a 'b\n", ":2: \"a 'b\" is not a command: no closing quotation"),
    ("s.conf", "[program:x]\ncommand=%(nothing)s\n", ":2: command: %(nothing) cannot be expanded: nothing has the name nothing"),
    ("Procfile", "web: a\nno colon\n", ":2: is not of the form NAME: COMMAND"),
    ("a.service", "[Service]\nExecStart=/a\nTimeoutStopSec=soon\n", ":3: TimeoutStopSec: 'soon' is not a time span"),
    ("a@.service", "[Service]\nExecStart=/a\n", ": is a template; --instance says which instance to convert"),
    ("big.conf", "#" * ((1 << 20) + 1), ": is longer than 1048576 bytes"),
    ("c.yml", "a: " + "[" * 100, ":1: is nested more than 40 deep"),
    ("c.yml", "a0: &a0 [x,x]\n" + "".join(f"a{n}: &a{n} [" + f"*a{n - 1}," * 9 + "]\n" for n in range(1, 9)),
     ":6: has more than 50000 values with its aliases written out"),
    ("c.yml", "services: &a\n  b: *a\n", ":2: the alias a is not known here"),
    ("c.yml", "services:\n  a:\n    entrypoint: a\n    environment: {X: \"a\\0b\"}\n", ":4: has a NUL byte"),
    ("c.yml", "services:\n  a:\n    entrypoint: a\n    environment: {'A=B': x}\n", ":4: environment: 'A=B' is not the name of a variable"),
    ("c.yml", "services:\n  a: {entrypoint: a, depends_on: [b]}\n  b: {entrypoint: b, depends_on: [a]}\n", ":2: programs wait for each other: a -> b -> a"),
    ("c.yml", "services:\n  a: {entrypoint: a, ulimits: {nofile: {soft: 5, hard: 1}}}\n", ":2: nofile: soft is more than hard"),
    ("process-compose.yaml", "processes:\n  a: {command: a, depends_on: {b: {condition: [x]}}}\n  b: {command: b}\n",
     ":2: depends_on: \"['x']\" is not a condition"),
    ("process-compose.yaml", "processes:\n  a:\n    command: a {{if .X}}b{{end}}\n", ":3: command: the template {{if .X}} is not understood; write out what it becomes"),
    ("process-compose.yaml", "processes:\n  a: {command: [a]}\n", ":2: command: is not a string"),
    ("process-compose.yaml", "processes:\n  a: {command: a, readiness_probe: {exec: {command: {a: b}}}}\n", ":2: command: is not a string"),
    ("process-compose.yaml", "processes:\n  a:\n    command: \"" + "{" * 200000 + "\\n\"\n",
     ":3: command: the template " + "{" * 100 + " is not understood; write out what it becomes"),
    ("process-compose.yaml", "processes:\n  a:\n", ":2: a has no command"),
    ("s.conf", b"[program:x]\ncommand=\xff\n", ":2: is not UTF-8"),
    ("s.conf", "[program:x]\ncommand=a\0\n", ":2: has a NUL byte"),
    ("s.conf", "[include]\nfiles=%(ENV_NONE)s\n[program:x]\ncommand=a\n", ":2: files: %(ENV_NONE) cannot be expanded: the variable NONE is not set"),
    ("s.conf", "[include]\nfiles=/*/*/*/*/*/*/nothing\n", ":2: /*/*/*/*/*/*/nothing is compared with more than 20000 names"),
    ("s.conf", "[include]\nfiles=" + "[" * 2000 + "\n", ":2: AREA/" + "[" * 100 + " is a pattern of more than 1000 characters"),
    ("s.conf", "[program:x]\ncommand=a %(process_num)99999d\n", ":2: command: the width 99999 is too large"),
    ("s.conf", "[program:x]\ncommand=a\nnumprocs=2\nstdout_logfile=/x%(process_num)021d\n", ":4: stdout_logfile: a width: '21' is not an integer from 1 to 20"),
    ("a.service", "[Service]\nExecStart=/a\nStandardOutput=syslog\nSyslogFacility=loud\n", ":4: SyslogFacility: 'loud' is not a facility"),
    ("a.service", "[Service]\nExecStart=/a\nStandardOutput=syslog\nSyslogLevel=loud\n", ":4: SyslogLevel: 'loud' is not a level"),
    ("s.conf", "[program:x]\ncommand=a %(process_num)d\nnumprocs=1024\nenvironment=A=" + "x" * 100000 + "\n",
     ":1: the result becomes longer than 1048576 bytes"),
    ("s.conf", "[program:x]\ncommand=" + "x" * 300000 + "\n", ":2: is a command of more than 262144 bytes"),
    ("s.conf", "[program:x]\ncommand=" + "x" * 140000 + "\n", ":1: command: is longer than 131071 bytes"),
    ("s.conf", "[program:x]\ncommand=a\n" + " b\n" * 300000, ":2: command: is longer than 262144 bytes"),
    ("s.conf", "[program:x]\ncommand=a\nenvironment=A=b c,D=e\n",
     ":3: environment: ', D = e' is not of the form KEY=VALUE; a value of several words needs quotes"),
    ("s.conf", "[fcgi-program:x]\ncommand=a\nsocket=tcp://1.2.3:80\n", ":3: socket: 'tcp://1.2.3:80' is neither unix:///PATH nor tcp://ADDRESS:PORT"),
    ("s.conf", "[fcgi-program:x]\ncommand=a\nsocket=tcp://1.2.3.4:70000\n", ":3: socket: the port: '70000' is not an integer from 1 to 65535"),
    ("s.conf", "[program:x]\ncommand=a\nenvironment=A='b\n", ":3: environment: \"A='b\": no closing quotation"),
    ("s.conf", "[program:x]\ncommand=a\nnumprocs=true\n", ":3: numprocs: 'true' is not an integer from 0 to 65535"),
    ("s.conf", "[program:-]\ncommand=a\n", ":1: '-' cannot be made into the name of a program"),
    ("s.conf", "[supervisord]\nenvironment=A=" + "x" * 140000 + "\n[program:x]\ncommand=a\n", ":3: environment.A: is longer than 131071 bytes"),
    ("s.conf", "[supervisord]\nenvironment=A=" + "x" * 100000 + "\n" + "".join(f"[program:{n}]\ncommand=a\n" for n in range(11)),
     ":23: the result becomes longer than 1048576 bytes"),
    ("Procfile", "web: a\nweb: b\n", ":2: a second program has the name web"),
    ("a.service", "[Service]\nEnvironment=\"A=" + "x " * 100000 + "\"\nExecStart=/a " + "$A " * 50000 + "\n", ":3: ExecStart: becomes too long"),
    ("a.socket", "[Socket]\nListenStream=80\n", ": is a socket unit: only services are converted"),
    ("a.service", "[Service]\nEnvironment=A=\\d\nExecStart=/a\n", ":2: Environment: \\d is not an escape: systemd leaves out the line"),
    ("a.service", "[Service]\nEnvironment=A=\\;\nExecStart=/a\n", ":2: Environment: \\; is not an escape: systemd leaves out the line"),
    ("a.service", "[Service]\nExecStart=/a \\xff\n", ":2: ExecStart: '\\udcff' is not UTF-8"),
    ("a.service", "[Service]\nExecStart=/a \\x00\n", ":2: ExecStart: \\x00 is not a character that a word may have"),
    ("a.service", "[Service]\nExecStart=/a ; /b\n", ":2: ExecStart: only Type=oneshot may have several"),
    ("a.service", "[Service]\nExecStart=/a\nTimeoutStopSec=" + "1s " * 300000 + "\n", ":3: TimeoutStopSec: '" + ("1s " * 34)[:100] + "' is not a time span"),
    ("a.service", "[Service]\nExecStart=/a\nCPUAffinity=x\n", ":3: CPUAffinity: 'x' is not a list of processors"),
    ("a.service", "[Service]\nExecStart=/a\nCPUAffinity=0 5-2\n", ":3: CPUAffinity: '0 5-2' is not a list of processors"),
    ("a.service", "[Service]\nExecStart=/a\nCPUQuota=0.5%\n", ":3: CPUQuota: '0.5%' is not a share from 1% to 1000000%"),
    ("a.service", "[Service]\nExecStart=/a\nLimitNOFILE=10:5\n", ":3: LimitNOFILE: '10:5' has a soft limit above the hard one"),
    ("a.service", "[Service]\nExecStart=/a\nStandardOutput=append:x\n", ":3: StandardOutput: 'x' is not an absolute path"),
    ("a.service", "[Service]\nExecStart=/a\nKillSignal=RTMIN+99\n", ":3: KillSignal: 'RTMIN+99' is not a signal"),
]

# Directories: what is in them, and what is said; None stands for a symbolic link to itself.
BAD_DIRECTORIES = [
    ({"a/run": None}, "/a/run: cannot be read: Too many levels of symbolic links"),
    ({"a/run/x": ""}, "/a/run: is not a regular file"),
    ({"a/run": "#!/bin/sh\n", "a/notification-fd": "0"}, "/a/notification-fd:1: notification-fd: '0' is not an integer from 3 to 65535"),
    ({"a/type": "longrun", "a/run": "#!/bin/sh\n", "a/dependencies": "b", "b/type": "oneshot", "b/up": "x", "b/dependencies": "a"},
     "/a: programs wait for each other: a -> b -> a"),
    ({"a/type": "Long"}, "/a/type:1: 'Long' is not longrun, oneshot or bundle"),
    ({"a b/run": "#!/bin/sh\n", "a-b/run": "#!/bin/sh\n"}, "/a-b/run:1: a second program has the name a-b"),
    ({"a/readme": ""}, ": has no services: neither type nor run is in it or below it; use --from"),
]


@pytest.mark.parametrize("name, text, message", BAD, ids=[f"{name}{message[:60]}" for name, _, message in BAD])
def test_bad_input_is_told_exactly_and_leaves_nothing(area, name, text, message):
    if name.endswith(("yaml", "yml")):
        pytest.importorskip("yaml", reason="needs python3-yaml")
    (area / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = convert("-o", area / "out.json", area / name)
    assert (done.returncode, done.stdout) == (1, "")
    message = message.replace("AREA/" + "[" * 100, f"{area}/{'[' * 100}"[:100])
    assert done.stderr == f"triton-launch-convert: {area}/{name}{message}\n"
    assert os.listdir(area) == [name]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 10


@pytest.mark.parametrize("files, message", BAD_DIRECTORIES, ids=[message for _, message in BAD_DIRECTORIES])
def test_a_bad_directory_is_told_exactly(area, files, message):
    for path, text in files.items():
        path = area / "services" / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(path) if text is None else path.write_text(text)
    done = convert("-o", area / "out.json", "--json", area / "services")
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads(done.stderr) == {"error": f"{area}/services{message}"}
    assert os.listdir(area) == ["services"]


@pytest.mark.parametrize("lines", ["environment=A=%(ENV_BAD)s\n[program:x]\ncommand=a\n", "[program:x]\ncommand=a\nenvironment='%(ENV_BAD)s'=b\n"])
def test_a_variable_that_is_not_utf_8_is_refused(area, lines):
    (area / "s.conf").write_text("[supervisord]\n" + lines)
    done = subprocess.run(["/usr/bin/python3", CONVERT, area / "s.conf"], capture_output=True, timeout=TIMEOUT, check=False,
                          env={"PATH": os.environ["PATH"], "BAD": b"\xff"})
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.endswith(b"is not UTF-8\n") and b"Traceback" not in done.stderr


def test_a_program_with_a_percent_sign_may_have_several_processes(area):
    (area / "s.conf").write_text("[program:a%(b)c]\ncommand=a %(process_num)d\nnumprocs=2\n")
    done = convert(area / "s.conf")
    assert done.returncode == 3, done.stderr
    assert list(json.loads(done.stdout)["programs"]) == ["a-b-c_00", "a-b-c_01"]


def test_a_directory_of_a_name_that_is_not_utf_8_is_refused(area):
    folder = os.fsencode(area) + b"/services/a\xff"
    os.makedirs(folder)
    Path(os.fsdecode(folder) + "/run").write_text("#!/bin/sh\n")
    done = convert(area / "services")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"triton-launch-convert: {area}/services/a\\udcff/run:1: command: is not UTF-8\n"


def test_links_around_services_lead_nowhere(area):
    """A service that holds the directory it is in, and a link of its own, is one service."""
    (area / "services/a").mkdir(parents=True)
    (area / "services/a/run").write_text("#!/bin/sh\n")
    (area / "services/a/run").chmod(0o755)
    (area / "services/a/all").symlink_to("..")
    (area / "services/loop").symlink_to("loop")
    done = convert(area / "services")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(json.loads(done.stdout)["programs"]) == ["a"]


def test_includes_of_each_other_and_of_nothing_are_told(area):
    (area / "s.conf").write_text("[include]\nfiles=s.conf t.conf gone*.conf\n[program:a]\ncommand=a\n")
    (area / "t.conf").write_text("[include]\nfiles=s.conf\n[program:b]\ncommand=b\n")
    done = convert(area / "s.conf")
    told = "include: an included file includes nothing; supervisord ignores it, too"
    assert done.stderr == (f"{area}/s.conf:1: {told}\n{area}/t.conf:1: {told}\n"
                           f"{area}/s.conf:2: files: nothing matches gone*.conf; name files that are there\n")
    assert list(json.loads(done.stdout)["programs"]) == ["a", "b"]


def test_values_that_look_like_numbers_and_booleans_stay_what_they_are(area):
    pytest.importorskip("yaml", reason="needs python3-yaml")
    (area / "c.yml").write_text("services:\n  true:\n    entrypoint: [1, yes, 1.5, '007', 2001-01-01]\n    restart: no\n"
                                "    environment: {A: 8080, B: yes, C: 12:30, D: off, E: '010', F: true, G: null, H: " + "9" * 50 + ", I: ~x}\n")
    done = convert(area / "c.yml")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["programs"] == {"true": {
        "command": ["1", "yes", "1.5", "007", "2001-01-01"], "output": {}, "restart": "never",
        "environment": {"A": "8080", "B": "yes", "C": "12:30", "D": "off", "E": "010", "F": "true", "H": "9" * 50, "I": "~x"}}}
    check(done.stdout)


def test_units_that_require_each_other_keep_one_order(area):
    """systemd starts what requires each other at once; here a requirement is an order, too."""
    (area / "a.service").write_text("[Unit]\nRequires=b.service\nAfter=b.service\n[Service]\nExecStart=/a\n")
    (area / "b.service").write_text("[Unit]\nBindsTo=a.service\n[Service]\nExecStart=/b\n")
    done = convert(area / "a.service", area / "b.service")
    assert done.stderr == f"{area}/b.service:2: BindsTo: a waits for this one; it is left out: a requirement is an order, too\n"
    programs = json.loads(done.stdout)["programs"]
    assert programs["a"]["requires"] == ["b"] and "bindsTo" not in programs["b"]
    check(done.stdout)


def test_words_of_units_are_split_as_systemd_does(area):
    (area / "a.service").write_text("[Service]\nType=oneshot\nExecStart=/a 'b c'd \"e'f\" \\x41\\tg \\q \\; '' ; /h\n")
    done = convert(area / "a.service")
    assert json.loads(done.stdout)["programs"]["a"]["command"] == [
        "sh", "-c", "/a 'b cd' 'e'\"'\"'f' 'A\tg' '\\q' ';' '' || exit\nexec /h"]


def service_of(area, text, *arguments, name="a.service", findings=()):
    """The program of a unit with this section [Service], whose findings have these keys."""
    (area / name).write_text("[Service]\n" + text)
    done = convert("--json", *arguments, area / name)
    told = json.loads(done.stderr)
    assert [finding["key"] for finding in told.get("findings", [told])] == list(findings)
    check(done.stdout)
    return next(iter(json.loads(done.stdout)["programs"].values()))


def test_lines_of_units_go_on_after_one_backslash_and_not_after_two(area):
    program = service_of(area, "ExecStart=/a \\\n# a comment\n; and another\n  b \\\nc\n"
                               "Environment=A=x\\\\\nEnvironment=B=y\nStandardOutput=append:/log\\")
    assert program["command"] == ["/a", "b", "c"]
    assert program["environment"] == {"A": "x\\", "B": "y"}
    assert program["output"] == {"file": "/log"}


def test_specifiers_of_units_are_put_in_after_the_words_are_split(area):
    program = service_of(area, "Environment=\"A=%i\" B=%I\nExecStart=/a %i '%I' --x=%I %% \\xc3\\xa4 \\U0001f600 %p\n", "--instance", "b\\x20c-d", name="p@.service",
                         findings=["p@b\\x20c-d"])
    assert program["command"] == ["/a", "b\\x20c-d", "b c/d", "--x=b c/d", "%", "ä", "\U0001f600", "p"]
    assert program["environment"] == {"A": "b\\x20c-d", "B": "b c/d"}


def test_variables_in_commands_of_units_mean_what_they_do_for_systemd(area):
    lines = "Environment=ONE=one 'TWO=two two' \"FOUR='a b' c\\\\\\\\d\" NONE=\n"
    assert service_of(area, lines + "ExecStart=/a $ONE $TWO ${TWO} x${NONE}y $FOUR ${NONE} $NONE $$ONE $${ONE} $$${ONE} a$ONE ${ONE:-x}. $1 $\n",
                      findings=["ExecStart", "ExecStart", "ExecStart"])["command"] == [
        "/a", "one", "two", "two", "two two", "xy", "a b", "c\\d", "", "$ONE", "${ONE}", "$one", "a$ONE", "."]
    assert service_of(area, lines + "ExecStart=:/a $ONE ${ONE} $$ONE\n")["command"] == ["/a", "$ONE", "${ONE}", "$$ONE"]
    assert service_of(area, "ExecStart=/bin/sh -c 'echo $$HOME; ${X} \\'y' $Y\n")["command"] == [
        "sh", "-c", "set -f\nexec /bin/sh -c 'echo $HOME; '\"${X}\"' '\"'\"'y' $Y"]


def test_a_backslash_that_begins_no_escape_stays_with_what_follows_it(area):
    assert service_of(area, "ExecStart=/a \\ b \\q'\\d' \\; c\\;\\ \nEnvironment=A-B=1 C=2\n", findings=["Environment"])["command"] == ["/a", "\\ b", "\\q\\d", ";", "c\\;\\"]


def test_a_semicolon_in_quotes_is_a_word(area):
    assert service_of(area, "ExecStart=/a ';' \\; \";\"\n")["command"] == ["/a", ";", ";", ";"]


@pytest.mark.parametrize("text, expected, findings", [
    ("A=1\nB=a=b:c/d # e\n#C=3\n\nE=\n", {"environmentFile": ["AREA/env"]}, []),
    ("A='1 2'\nB=\"x\"\n", {"command": ["sh", "-c", "set -a; . AREA/env || exit; set +a\nset -f\nexec /a $A"], "environment": {"X": "x"}}, ["EnvironmentFile"]),
    ("A=-a \"-b c\"\nB=\"x$HOME\"  'y' z\nX=\"a\\\"b\\q\\\nc\"\nexport C=1\nD='\n'\n",
     {"command": ["/a", "-a", "-b c"], "environment": {"X": "a\"b\\qc", "A": "-a \"-b c\"", "B": "x$HOMEyz", "D": "\n"}}, ["EnvironmentFile"]),
    ("X=1\n", {"command": ["sh", "-c", "set -a; . AREA/env || exit; set +a\nset -f\nexec /a $A"]}, ["EnvironmentFile"]),
], ids=["plain", "quoted", "not for a shell", "it overrides"])
def test_a_file_of_variables_is_read_as_systemd_does(area, text, expected, findings):
    (area / "env").write_text(text)
    program = service_of(area, f"Environment=X=x\nEnvironmentFile={area}/env\nExecStart=/a $A\n", findings=findings)
    expected = json.loads(json.dumps(expected).replace("AREA", str(area)))
    assert {key: program.get(key) for key in expected} == expected


def test_a_pattern_of_files_of_variables_means_those_that_are_there(area):
    for name in ("b.conf", "a.conf", "c.txt"):
        (area / name).write_text("A=1\n")
    program = service_of(area, f"EnvironmentFile=-{area}/*.conf\nExecStart=/a\n", findings=["EnvironmentFile"])
    assert program["environmentFile"] == [{"path": f"{area}/{name}.conf", "optional": True} for name in "ab"]


def test_drop_ins_are_found_where_systemd_finds_them(area):
    """Of all directories, in the order of their names; a more special one, or /dev/null, hides others of its name."""
    lib, etc = area / "usr/lib/systemd/system", area / "etc/systemd/system"
    for path, text in {lib / "web-a@.service": "ExecStart=/a\nEnvironment=A=0\n", lib / "web-a@.service.d/10-x.conf": "Environment=A=1\n",
                       etc / "web-a@.service.d/20-y.conf": "Environment=A=2\n", lib / "web-a@.service.d/20-y.conf": "Environment=B=2\n",
                       etc / "web-a@blue.service.d/15.conf": "Environment=A=3 C=1\n", lib / "web-.service.d/05.conf": "Environment=D=1\n",
                       lib / "service.d/99.conf": "Environment=E=1\n", lib / "web-a@.service.d/30.conf": "Environment=F=1\n",
                       lib / "web-a@.service.d/not": "nothing"}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[Service]\n" + text)
    (etc / "web-a@.service.d/30.conf").symlink_to("/dev/null")
    done = convert("--instance", "blue", lib / "web-a@.service")
    assert json.loads(done.stdout)["programs"]["web-a-blue"]["environment"] == {"A": "2", "D": "1", "C": "1", "E": "1"}


@pytest.mark.parametrize("lines, expected", [
    ("Restart=always\n", {"startLimit": None, "restart": "always", "successCodes": None}),
    ("KillMode=control-group\n", {"stopScope": "tree"}), ("KillMode=mixed\n", {"stopScope": None}),
    ("Restart=always\nRestartSec=1\n", {"startLimit": {"count": 5, "interval": "10s"}}),
    ("Restart=always\nRestartSec=5\n", {"startLimit": None}),
    ("Restart=always\nRestartSec=0\n", {"backoff": {"initial": "0s", "factor": 1, "max": "0s"}, "startLimit": {"count": 5, "interval": "10s"}}),
    ("Restart=always\nRestartSec=0\nStartLimitIntervalSec=0\n", {"backoff": {"initial": "0s", "factor": 1, "max": "0s"}, "startLimit": None}),
    ("Restart=always\nStartLimitBurst=0\n", {"startLimit": None}),
    ("Restart=always\nStartLimitInterval=infinity\nStartLimitBurst=3\n", {"startLimit": {"count": 3, "interval": "31536000s"}}),
    ("Restart=on-failure\nSuccessExitStatus=3 TERM SIGUSR1\n", {"successCodes": [3, "TERM", "USR1", "HUP", "INT", "PIPE"]}),
    ("Restart=on-failure\nRestartPreventExitStatus=255 SIGKILL\n", {"permanentFailureCodes": [255, "KILL"], "successCodes": ["HUP", "INT", "TERM", "PIPE"]}),
    ("Restart=on-failure\nSuccessExitStatus=42\nRestartPreventExitStatus=42 TERM 3\n",
     {"permanentFailureCodes": [3], "successCodes": [42, "HUP", "INT", "TERM", "PIPE"]}),
    ("Type=notify\nTimeoutSec=5\nTimeoutStopSec=7\n", {"startTimeout": "5s", "stopTimeout": "7s"}),
    ("Type=notify\nTimeoutStopSec=7\nTimeoutSec=5\n", {"startTimeout": "5s", "stopTimeout": "5s"}),
    ("Type=notify\n", {"startTimeout": "90s"}),
    ("Type=notify\nTimeoutStartSec=infinity\n", {"startTimeout": None}),
    ("StandardOutput=append:/out\nStandardError=journal\n", {"output": {"file": "/out", "stderr": "inherit"}}),
    ("User=root\n", {"environment": {"USER": "root", "LOGNAME": "root", "HOME": "/root"}}),
    ("ExecStop=/bin/kill -QUIT $MAINPID\n", {"stopSignal": "QUIT", "preStop": None}),
    ("ExecStop=/bin/kill -s STOP $MAINPID\n",  # as Debian's transmission-daemon has it
     {"stopSignal": None, "preStop": {"command": ["sh", "-c", "MAINPID=${TRITON_PID-}\n/bin/kill -s STOP $MAINPID"], "timeout": "90s"}}),
    ("KillSignal=SIGCONT\nExecStop=/bin/kill -WINCH ${MAINPID}\n",
     {"stopSignal": "CONT", "preStop": {"command": ["sh", "-c", "MAINPID=${TRITON_PID-}\n/bin/kill -WINCH \"${MAINPID}\""], "timeout": "90s"}}),
])
def test_settings_of_units_keep_their_meaning(area, lines, expected):
    program = service_of(area, "ExecStart=/a\n" + lines)
    assert {key: program.get(key) for key in expected} == expected


@pytest.mark.parametrize("lines, expected, keys", [
    ("TasksMax=10000000\nCPUWeight=10000\n", {"cgroup": {"pidsMax": 4194304, "cpuWeight": 10000}}, ["TasksMax", "CPUWeight"]),
    ("MemoryMax=1G\nCPUQuota=50%\n", {"cgroup": {"memoryMax": 1 << 30, "cpuMax": "50%"}}, ["MemoryMax", "CPUQuota"]),
    ("Nice=-5\nOOMScoreAdjust=-100\n", {"nice": -5, "oomScoreAdj": -100}, ["Nice", "OOMScoreAdjust"]),
    ("Nice=5\nOOMScoreAdjust=100\nLimitNOFILE=65536\n", {"nice": 5, "oomScoreAdj": 100, "limits": {"nofile": 65536}}, []),
    ("LimitMEMLOCK=infinity\nLimitCORE=infinity\n", {"limits": {"memlock": "unlimited", "core": "unlimited"}}, ["LimitMEMLOCK", "LimitCORE"]),
])
def test_what_an_ordinary_container_rejects_is_told(area, lines, expected, keys):
    program = service_of(area, "ExecStart=/a\n" + lines, findings=keys)
    assert {key: program.get(key) for key in expected} == expected


@pytest.mark.parametrize("lines, keys", [
    ("Restart=always\nRestartPreventExitStatus=0\n", ["RestartPreventExitStatus"]), ("Type=oneshot\nRestart=always\n", ["Restart"]),
    ("Restart=always\nSuccessExitStatus=42\nRestartPreventExitStatus=42\n", ["RestartPreventExitStatus"]),
    ("SupplementaryGroups=daemon\n", ["SupplementaryGroups"]), ("WorkingDirectory=-/srv\n", ["WorkingDirectory"]), ("RemainAfterExit=yes\n", ["RemainAfterExit"]),
    ("SendSIGHUP=yes\nFinalKillSignal=SIGQUIT\n", ["SendSIGHUP", "FinalKillSignal"]), ("LimitFOO=1\n", ["LimitFOO"]), ("User=a\n", ["User"]),
    ("StandardOutput=null\nStandardError=journal\n", ["StandardError"]), ("StartLimitBurst=2000\nRestart=always\n", ["StartLimitBurst"]),
    ("Type=oneshot\nRemainAfterExit=yes\nSendSIGHUP=no\n", []), ("User=a\nEnvironment=HOME=/a\n", []),
    ("[Unit]\nConflicts=shutdown.target\n", []), ("[Unit]\nConflicts=a.service\n", ["Conflicts"]),
])
def test_settings_of_units_without_an_equivalent_are_told(area, lines, keys):
    service_of(area, "ExecStart=/a\n" + lines, findings=keys)


def test_an_empty_value_does_not_take_back_a_relation(area):
    (area / "b.service").write_text("[Service]\nExecStart=/b\n")
    (area / "a.service").write_text("[Unit]\nAfter=b.service\n[Service]\nExecStart=/x\nExecStart=\nExecStart=/a\n")
    (area / "a.service.d").mkdir()
    (area / "a.service.d/x.conf").write_text("[Unit]\nAfter=\n")
    programs = json.loads(convert(area / "a.service", area / "b.service").stdout)["programs"]
    assert (programs["a"]["after"], programs["a"]["command"]) == (["b"], ["/a"])



def program_of(area, text, *arguments, name="s.conf", findings=(), files=None):
    """The only program of a file, whose findings have these keys."""
    for path, content in {name: text, **(files or {})}.items():
        (area / path).parent.mkdir(parents=True, exist_ok=True)
        (area / path).write_text(content)
    done = convert("--json", *arguments, area / name)
    told = json.loads(done.stderr)
    assert [finding["key"] for finding in told.get("findings", [told])] == list(findings)
    check(done.stdout)
    return next(iter(json.loads(done.stdout)["programs"].values()))


def test_lines_of_supervisord_are_those_of_configparser(area):
    """Comments after a space, also of #; values that go on where a line is indented more than its key, also after a blank one."""
    program = program_of(area, "[DEFAULT]\nuser=nobody\n[program:a] ; one\n  command=/a b;c d#e #f ; g\n; h\n\n    i\n  directory : /x=y\n"
                               "environment=\n A=\"1\",\n # no\n\n B='x\n\n  y'\nstopsignal = HUP ;x\n")
    assert program["command"] == ["/a", "b;c", "d#e", "i"]
    assert (program["workingDirectory"], program["environment"], program["stopSignal"], program["user"]) == ("/x=y", {"A": "1", "B": "x\n\ny"}, "HUP", "nobody")


@pytest.mark.parametrize("text, expected", [
    ("A=\"b,c\",B='d e'", {"A": "b,c", "B": "d e"}), ("A=/b:c.d-e+(f)", {"A": "/b:c.d-e+(f)"}), ("A=\"\",B=''", {"A": "", "B": ""}),
    ("A=\"b'\"", {"A": "b"}), ("A=\"\\n\"", {"A": "\\n"}), ("A=1,", {"A": "1"}), ("A-B=1", {"A-B": "1"}),
])
def test_variables_of_supervisord_are_read_as_it_does(area, text, expected):
    assert program_of(area, f"[program:a]\ncommand=/a\nautorestart=false\nenvironment={text}\n")["environment"] == expected


def test_an_included_section_adds_to_that_of_its_name(area):
    program = program_of(area, "[include]\nfiles=c/*.conf\n[program:a]\ncommand=/a\nautorestart=false\nuser=root\n", name="etc/s.conf",
                         files={"etc/c/1.conf": "[program:a]\nuser=nobody\ndirectory=%(here)s\n"})
    assert program == {"command": ["/a"], "restart": "never", "user": "nobody", "workingDirectory": f"{area}/etc/c", "output": {}}


@pytest.mark.parametrize("lines, expected, findings", [
    ("startsecs=0\nautorestart=true\n", {"startLimit": None, "backoff": {"initial": "1s", "factor": 1, "max": "1s"}}, []),
    ("startsecs=10\nstartretries=10\n", {"startLimit": {"count": 11, "interval": "171111ms"}, "backoff": {"initial": "6111ms", "factor": 1, "max": "6111ms"}}, []),
    ("stopasgroup=true\n", {"stopScope": "tree"}, []), ("killasgroup=true\n", {"stopScope": None}, []), ("stopasgroup=false\n", {"stopScope": None}, []),
    ("startretries=999999\n", {"startLimit": None, "backoff": {"initial": "1s", "factor": 2, "max": "60s"}}, ["startretries"]),
    ("startretries=999999\nautorestart=false\n", {"restart": "never"}, []),
    ("exitcodes=\n", {"restart": "on-failure", "successCodes": None}, ["exitcodes"]), ("exitcodes=0,2\n", {"successCodes": [2]}, []),
    ("user=1000\n", {"user": 1000}, []),
    ("stdout_logfile=/o\n", {"output": {"file": "/o", "maxSize": 52428800, "maxFiles": 10, "stderr": {}}}, []),
    ("stdout_logfile=/o\nstderr_logfile=/o\n", {"output": {"file": "/o", "maxSize": 52428800, "maxFiles": 10}}, []),
    ("stdout_logfile=/o\nredirect_stderr=true\n", {"output": {"file": "/o", "maxSize": 52428800, "maxFiles": 10}}, []),
    ("stdout_logfile=/o\nstderr_logfile=/dev/stderr\nstderr_logfile_maxbytes=0\n",
     {"output": {"file": "/o", "maxSize": 52428800, "maxFiles": 10, "stderr": "inherit"}}, []),
    ("stdout_logfile=/dev/fd/1\nstdout_logfile_maxbytes=0\nstderr_logfile=/dev/fd/2\n", {"output": "inherit"}, []),
    ("stdout_logfile=/dev/stdout\nstderr_logfile=NONE\n", {"output": {"format": "raw", "stderr": "null"}}, []),
    ("stdout_logfile=/dev/stdout\nstderr_logfile=/e\nstderr_logfile_backups=1\n",
     {"output": {"format": "raw", "stderr": {"file": "/e", "maxSize": 52428800, "maxFiles": 1}}}, []),
    ("stdout_logfile=NONE\nstderr_logfile=/dev/stderr\n", {"output": "null"}, ["stderr_logfile"]),
    ("stdout_logfile=off\n", {"output": "null"}, []), ("stdout_logfile=/o\nstderr_logfile=Off\n",
     {"output": {"file": "/o", "maxSize": 52428800, "maxFiles": 10, "stderr": "null"}}, []),
    ("stdout_logfile=~root/log/o\nredirect_stderr=true\n", {"output": {"file": "/root/log/o", "maxSize": 52428800, "maxFiles": 10}}, ["stdout_logfile"]),
    ("[supervisord]\ndirectory=~root\n", {"workingDirectory": "/root"}, ["directory"]),
    ("[supervisord]\nnodaemon=true\numask=077\ndirectory=/x\n", {"umask": None, "workingDirectory": None}, []),
    ("[supervisord]\numask=077\ndirectory=/x\n", {"umask": "0077", "workingDirectory": "/x"}, []),
    ("[group:g]\nprograms=a,b\n", {"groups": ["g"]}, ["[group:g]"]),
])
def test_settings_of_supervisord_keep_their_meaning(area, lines, expected, findings):
    program = program_of(area, "[program:a]\ncommand=/a\n" + lines, findings=findings)
    assert {key: program.get(key) for key in expected} == expected


@pytest.mark.parametrize("name", ["program:a", "supervisord"])
def test_a_variable_that_extends_itself_of_supervisord_is_expanded_once(area, name):
    own = "[program:a]\ncommand=/a %(ENV_OPTS)s\n" + ("" if name == "program:a" else f"[{name}]\n")
    (area / "s.conf").write_text(own + 'environment=OPTS="-b %(ENV_OPTS)s"\n')
    done = subprocess.run(["/usr/bin/python3", CONVERT, area / "s.conf"], capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env={"PATH": os.environ["PATH"], "OPTS": "-a"})
    program = json.loads(done.stdout)["programs"]["a"]
    assert program["environment"] == {"OPTS": "-b -a"}
    assert program["command"] == ["/a", "-b", "-a"]


def test_a_program_that_gets_another_name_keeps_its_priority(area):
    (area / "s.conf").write_text("[program:web]\ncommand=a\npriority=2\n[program:triton-db]\ncommand=b\npriority=1\n")
    assert json.loads(convert(area / "s.conf").stdout)["programs"]["web"]["after"] == ["x-triton-db"]


@pytest.mark.parametrize("name, text, findings", [
    ("s.conf", "[program:a]\ncommand=/a\nuser=UID\n", ["user"]),
    ("a.service", "[Service]\nExecStart=/a\nUser=UID\n", ["User", "User"]),
], ids=["supervisord", "systemd"])
def test_a_user_by_number_has_its_groups(area, name, text, findings):
    member = next(((name, user.pw_uid) for group in grp.getgrall() for name in group.gr_mem for user in pwd.getpwall() if user.pw_name == name), None)
    if member is None:
        pytest.skip("no user of this machine has a further group")
    program = program_of(area, text.replace("UID", str(member[1])), name=name, findings=findings)
    assert program["supplementaryGroups"] == sorted(group.gr_name for group in grp.getgrall() if member[0] in group.gr_mem)


def test_commands_that_name_what_supervisord_tells_them_get_it(area):
    program = program_of(area, "[program:a]\ncommand=sh -c 'a $SUPERVISOR_PROCESS_NAME'\nenvironment=A=1,SUPERVISOR_ENABLED=0\n[group:g]\nprograms=a\n")
    assert program["environment"] == {"SUPERVISOR_ENABLED": "0", "SUPERVISOR_PROCESS_NAME": "a", "SUPERVISOR_GROUP_NAME": "g", "A": "1"}
    program = program_of(area, "[program:a]\ncommand=sh -c 'a $SUPERVISOR_PROCESS_NAME'\nnumprocs=2\nprocess_name=%(program_name)s_%(process_num)02d\n")
    assert program["environment"]["SUPERVISOR_PROCESS_NAME"] == {"type": "Concatenate", "values": ["a_", {"type": "ProcessNumber", "width": 2, "offset": -1}]}


def compose_of(area, lines, **more):
    pytest.importorskip("yaml", reason="needs python3-yaml")
    return program_of(area, "services:\n  a:\n    entrypoint: a\n" + "".join(f"    {line}\n" for line in lines), name="compose.yml", **more)


@pytest.mark.parametrize("text, expected", [
    ("${A:-${B:-c}}-${PATH:+${X:-y}}z", "c-yz"), ("$$A $${A} ${A-}$$$$", "$A ${A} $$"), ("${A:-a b} }${A:-{}}", "a b }{}"), ("x${A:-$$B}", "x$B"),
])
def test_variables_of_compose_are_replaced_as_it_does(area, text, expected):
    assert compose_of(area, [f"environment: {{V: '{text}'}}"])["environment"] == {"V": expected}


def test_a_variable_in_braces_that_are_left_open_is_refused(area):
    pytest.importorskip("yaml", reason="needs python3-yaml")
    (area / "c.yml").write_text("services:\n  a: {entrypoint: a, environment: {V: '${A:-b'}}\n")
    assert convert(area / "c.yml").stderr == f"triton-launch-convert: {area}/c.yml:2: V: '${{A:-b' is not a variable\n"
    (area / "c.yml").write_text("services:\n  a: {entrypoint: a, environment: {V: '" + "${A:-" * 5000 + "'}}\n")
    assert convert(area / "c.yml").stderr == f"triton-launch-convert: {area}/c.yml:2: V: variables are nested more than 20 deep\n"


def test_the_environment_comes_before_the_file_env_of_compose(area):
    program = compose_of(area, ["environment: [A, 'P=${PATH}', B, 'C=${C}']"], files={".env": "A=1\nPATH=no\nC='x $A'\n"})
    assert program["environment"] == {"A": "1", "P": os.environ["PATH"], "C": "x $A"}


def test_a_file_of_variables_is_read_as_compose_does(area):
    text = ("# c\nexport A=1 # one\nB='a $A\n#b' # c\nC=\"x\\ty $A ${Z:-z} \\$A \\\"q\\\" \\w\"\nD = a#b\nE=\nF\nG: h\n  H=$A-${A}  \nI=a 'b' $\n")
    assert compose_of(area, ["env_file: e.env"], files={"e.env": text})["environment"] == {
        "A": "1", "B": "a $A\n#b", "C": "x\ty 1 z $A \"q\" \\w", "D": "a#b", "E": "", "G": "h", "H": "1-1", "I": "a 'b' $"}


@pytest.mark.parametrize("lines, expected, findings", [
    (["profiles: [debug]"], {"autoStart": False}, ["profiles"]), (["tty: true", "stdin_open: true"], {"tty": True, "output": {}}, []),
    (["stdin_open: true"], {"tty": None}, ["stdin_open"]), (["stdin_open: false"], {"tty": None}, []), (["restart: 'on-failure:5'"], {"startLimit": {"count": 6, "interval": "1h"}}, []),
    (["scale: '${N:-3}'", "pids_limit: '${N:-30}'", "oom_score_adj: '${N:--5}'", "ulimits: {nofile: {soft: '${N:-1}', hard: '${N:--1}'}}"],
     {"count": 3, "cgroup": {"pidsMax": 30}, "oomScoreAdj": -5, "limits": {"nofile": {"soft": 1, "hard": "unlimited"}}}, ["oom_score_adj", "pids_limit", "nofile"]),
    (["deploy: {replicas: '${N:-3}'}"], {"count": 3}, []),
    (["healthcheck: {test: b, retries: '${N:-2000}', interval: 1s, timeout: 2s}"],
     {"health": {"command": ["sh", "-c", "b"], "interval": "1s", "timeout": "2s", "action": "report", "retries": 1000}}, ["retries"]),
    (["healthcheck: {test: b, retries: 0}"], {"health": {"command": ["sh", "-c", "b"], "interval": "30s", "timeout": "30s", "action": "report"}}, []),
    (["oom_score_adj: -5"], {"oomScoreAdj": -5}, ["oom_score_adj"]), (["oom_score_adj: 5"], {"oomScoreAdj": 5}, []),
    (["ulimits: {nofile: 1024, memlock: 65536, core: -1, rtprio: 0}"],
     {"limits": {"nofile": 1024, "memlock": 65536, "core": "unlimited", "rtprio": 0}}, ["memlock", "core"]),
    (["deploy: {resources: {limits: {memory: 1g, cpus: '2', pids: 3}}}"], {"cgroup": {"memoryMax": "1Gi", "cpuMax": "200%", "pidsMax": 3}}, ["memory", "cpus", "pids"]),
    (["user: '1000:1000'"], {"user": 1000, "group": 1000}, ["user"]), (["user: root"], {"user": "root"}, []),
    (["mem_limit: 1.5g", "cpus: .5"], {"cgroup": {"memoryMax": 1610612736, "cpuMax": "50%"}}, ["mem_limit", "cpus"]), (["mem_limit: 512MiB"], {"cgroup": {"memoryMax": "512Mi"}}, ["mem_limit"]),
    (["mem_limit: 1 T"], {"cgroup": {"memoryMax": "1Ti"}}, ["mem_limit"]), (["mem_limit: 0", "cpus: 0", "pids_limit: 0"], {"cgroup": None}, []),
    (["pids_limit: 5000000"], {"cgroup": {"pidsMax": 4194304}}, ["pids_limit"]), (["mem_limit: 300b"], {"cgroup": {"memoryMax": 300}}, ["mem_limit"]), (["user: app", "environment: {HOME: /app}"], {"user": "app"}, []), (["cpuset: '0'", "cpu_shares: 5"], {"cpuAffinity": None}, ["cpuset", "cpu_shares"]),
])
def test_settings_of_compose_keep_their_meaning(area, lines, expected, findings):
    program = compose_of(area, lines, findings=findings)
    assert {key: program.get(key) for key in expected} == expected


@pytest.mark.parametrize("text, line", [("A" + " " * 900000 + "B\n", 1), ("A='x'" + " " * 900000 + "B\n", 1), ("".join(f"A{n}=1\n" for n in range(80000)) + "=", 80001),
                                        ("A=\"" + "\\a" * 400000, 1), ("A='\n", 1)], ids=["spaces", "more", "lines", "escapes", "quote"])
def test_a_bad_file_of_variables_of_compose_is_told_soon(area, text, line):
    pytest.importorskip("yaml", reason="needs python3-yaml")
    (area / "c.yml").write_text("services:\n  a: {entrypoint: a, env_file: e}\n")
    (area / "e").write_text(text)
    assert convert(area / "c.yml").stderr == f"triton-launch-convert: {area}/e:{line}: is not of the form NAME=VALUE\n"


@pytest.mark.parametrize("address", ["udp://10.01", "tcp://1.2.3.4:70000", "tcp://[1::2::3]:5", "udp://1.2.3.4.5:5", "udp://[1.2.3.4]"])
def test_an_address_that_is_none_is_told(area, address):
    lines = [f"logging: {{driver: syslog, options: {{syslog-address: '{address}'}}}}"]
    assert compose_of(area, lines, findings=["syslog-address"])["output"] == {}


def test_a_service_that_is_healthy_by_its_image_is_told(area):
    pytest.importorskip("yaml", reason="needs python3-yaml")
    (area / "c.yml").write_text("services:\n  a: {entrypoint: a, depends_on: {b: {condition: service_healthy}}}\n  b: {entrypoint: b}\n")
    assert convert(area / "c.yml").stderr == (f"{area}/c.yml:2: b: its healthcheck is that of its image; "
                                              'write it into "readiness"; until then it counts as healthy when it runs\n')


def process_of(area, lines, top="", **more):
    pytest.importorskip("yaml", reason="needs python3-yaml")
    return program_of(area, top + "processes:\n  a:\n" + "".join(f"    {line}\n" for line in lines), name="process-compose.yaml", **more)


def test_variables_and_templates_of_process_compose_are_replaced(area):
    """A shell replaces $NAME of a command; what it does not read is replaced now."""
    program = process_of(area, ["command: 'echo $$HOME {{.WHO}} {{ .N }} ${X:-y} {{.PC_REPLICA_NUM}}'", "vars: {N: 5}", "working_dir: '/srv/${D}'",
                                "environment: ['DATA=${D}/{{.WHO}}', 'COST=$$5']"], "vars: {WHO: me, N: 4}\n", files={".env": "D='dir'\n"}, findings=[".env"])
    assert program["command"] == ["bash", "-c", "trap 'exit 143' TERM\necho $HOME me 5 ${X:-y} 0"]
    assert (program["workingDirectory"], program["environment"]) == ("/srv/dir", {"D": "dir", "DATA": "dir/me", "COST": "$5"})
    assert process_of(area, ["command: 'echo $$$$'"], "disable_env_expansion: true\n", findings=[".env"])["command"][2] == "echo $$$$"


@pytest.mark.parametrize("lines, expected, findings", [
    (["command: a", "availability: {restart: exit_on_failure}"],
     {"restart": "on-failure", "startLimit": {"count": 1, "interval": "31536000s", "action": "exit"}, "critical": None}, ["restart"]),
    (["command: a", "availability: {restart: on_failure, backoff_seconds: 3}"], {"backoff": {"initial": "3s", "factor": 1, "max": "3s", "always": True}}, []),
    (["command: a", "ready_log_line: 'up (1.5)'"], {"readiness": {"type": "log", "pattern": "up\\ \\(1\\.5\\)"}}, []),
    (["command: a", "is_tty: true"], {"tty": True}, []), (["command: a", "is_interactive: true"], {"tty": True}, []), (["command: a", "is_interactive: false"], {"tty": None}, []),
    (["command: a", "replicas: '${N:-2}'", "availability: {restart: always, backoff_seconds: '${N:-3}', max_restarts: '${N:-5}'}", "shutdown: {signal: '${N:-2}', timeout_seconds: '${N:-7}'}",
      "liveness_probe: {http_get: {port: '${N:-80}', status_code: '${N:-204}'}}"],
     {"count": 2, "backoff": {"initial": "3s", "factor": 1, "max": "3s", "always": True}, "startLimit": {"count": 6, "interval": "1h"}, "stopSignal": "2", "stopTimeout": "7s",
      "health": {"type": "http", "url": "http://127.0.0.1:80/", "status": 204, "timeout": "1s", "retries": 3}}, []),
    (["command: a", "is_foreground: true"], {"autoStart": False}, ["is_foreground"]),
    (["command: a", "extends: b"], {}, ["extends"]),
    (["command: a", "readiness_probe: {http_get: {port: '80', path: /x, headers: {Host: [b]}, scheme: http}, initial_delay_seconds: 4, failure_threshold: 2}"],
     {"readiness": {"type": "http", "url": "http://127.0.0.1:80/x", "status": 200, "headers": {"Host": "b"}, "timeout": "1s"}, "startTimeout": "24s"}, []),
    (["command: a", "liveness_probe: {exec: {command: b, working_dir: /}, timeout_seconds: 7, nothing: 1}"],
     {"health": {"type": "exec", "command": ["bash", "-c", "b"], "timeout": "7s", "retries": 3}}, ["working_dir", "nothing"]),
    (["command: a $PC_REPLICA_NUM", "replicas: 2", "log_location: /log/a"],
     {"count": 2, "environment": {"PC_PROC_NAME": "a", "PC_REPLICA_NUM": {"type": "ProcessNumber", "offset": -1}},
      "output": {"file": {"type": "Concatenate", "values": ["/log/a.", {"type": "ProcessNumber", "offset": -1}]}}}, []),
    (["command: \"a '{{.PC_REPLICA_NUM}}' b\"", "replicas: 2", "working_dir: '/w/{{.PC_REPLICA_NUM}}'", "environment: ['ID=n{{.PC_REPLICA_NUM}}']",
      "log_location: '/log/{{.PC_REPLICA_NUM}}.log'", "liveness_probe: {http_get: {path: '/{{.PC_REPLICA_NUM}}'}}"],
     {"command": ["bash", "-c", {"type": "Concatenate", "values": ["a '", REPLICA, "' b"]}],
      "workingDirectory": {"type": "Concatenate", "values": ["/w/", REPLICA]},
      "environment": {"PC_PROC_NAME": "a", "PC_REPLICA_NUM": REPLICA, "ID": {"type": "Concatenate", "values": ["n", REPLICA]}},
      "output": {"file": {"type": "Concatenate", "values": ["/log/", REPLICA, ".log"]}},
      "health": {"type": "http", "url": {"type": "Concatenate", "values": ["http://127.0.0.1:80/", REPLICA]}, "status": 200, "timeout": "1s", "retries": 3}}, []),
    (["command: a", "schedule: {cron: '30 2 ? * mon-fri', timezone: UTC, max_concurrent: 3}"],
     {"schedule": {"cron": "30 2 * * mon-fri", "timeZone": "UTC"}, "count": 3, "restart": "never"}, []),
    (["command: a", "schedule: {cron: 'CRON_TZ=Europe/Berlin 0 3 * * *', interval: 5s}"],
     {"schedule": {"cron": "0 3 * * *", "timeZone": "Europe/Berlin"}, "count": 1}, []),
    (["command: a", "schedule: {cron: '@daily'}"], {"schedule": {"cron": "@daily"}}, ["cron"]),
    (["command: a", "schedule: {cron: '@every 1h30m'}"], {"schedule": {"every": "5400s"}}, []),
    (["command: a", "schedule: {interval: 1h30m, run_on_start: true}", "availability: {restart: on_failure}"],
     {"schedule": {"every": "5400s", "onStart": True}, "restart": "on-failure"}, []),
    (["command: a", "schedule: {interval: 30s}", "availability: {restart: always}", "replicas: 2"],
     {"schedule": {"every": "30s"}, "restart": "on-failure", "count": 1}, ["replicas", "restart"]),
    (["command: a", "log_location: '/log/{PC_REPLICA_NUM}'"], {"output": {"file": {"type": "Concatenate", "values": ["/log/", {"type": "ProcessNumber", "offset": -1}]}}}, []),
])
def test_settings_of_process_compose_keep_their_meaning(area, lines, expected, findings):
    program = process_of(area, lines, findings=findings)
    assert {key: program.get(key) for key in expected} == expected



def test_services_have_the_names_of_their_links_and_may_be_programs(area):
    (area / "real").mkdir()
    (area / "real/run").write_bytes(b"\x7fELF\xff\0")
    (area / "real/run").chmod(0o755)
    (area / "sv").mkdir()
    (area / "sv/web").symlink_to(area / "real")
    done = convert(area / "sv")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["programs"] == {"web": {"command": [f"{area}/real/run"], "workingDirectory": f"{area}/real", "backoff": ONE_SECOND}}


def test_the_stderr_of_a_script_is_joined_where_it_says_so(area):
    for name, line in {"a": "command -v x >/dev/null 2>&1", "b": "exec 2>&1", "c": "exec x 2>&1"}.items():
        (area / name / "log").mkdir(parents=True)
        (area / name / "run").write_text(f"#!/bin/sh\n{line}\n")
        (area / name / "log/run").write_text(f"#!/bin/sh\nexec svlogd {area}\n")
        for path in (area / name / "run", area / name / "log/run"):
            path.chmod(0o755)
    programs = json.loads(convert("--from", "runit", area).stdout)["programs"]
    assert {name: program["output"].get("stderr") for name, program in programs.items()} == {"a": "inherit", "b": None, "c": None}


def test_pipelines_of_s6_rc_are_pipes(area):
    """Two producers, a filter, and a logger that no output replaces; what no output does is told."""
    for path, text in {"a/run": "#!/bin/sh\n", "a/producer-for": "filter", "b/run": "#!/bin/sh\n", "b/producer-for": "filter\n", "b/timeout-down": "5",
                       "filter/run": "#!/bin/sh\n", "filter/consumer-for": "a\nb\n", "filter/producer-for": "log", "log/run": "#!/bin/sh\nlogger -t a\n",
                       "log/consumer-for": "filter", "c/run": "#!/bin/sh\n", "c/producer-for": "gone", "c/max-death-tally": "3", "c/flag-newpidns": ""}.items():
        (area / path).parent.mkdir(exist_ok=True)
        (area / path).write_text(text)
        (area / path).chmod(0o755)
        (area / path).with_name("type").write_text("longrun\n")
    done = convert("--json", area)
    assert [finding["key"] for finding in json.loads(done.stderr)["findings"]] == ["timeout-down", "max-death-tally", "flag-newpidns", "producer-for"]
    programs = json.loads(done.stdout)["programs"]
    assert {name: program.get("output") for name, program in programs.items()} == {
        "a": {"to": "filter", "stderr": "inherit"}, "b": {"to": "filter", "stderr": "inherit"}, "filter": {"to": "log", "stderr": "inherit"}, "log": None, "c": None}
    check(done.stdout)



def test_what_only_a_shell_has_is_not_executed(area):
    (area / "Procfile").write_text("a: eval $X\nb: ulimit -n $N\nc: . ./env $X\nd: 'cd' $X\ne: A+=1 b\nf: time a *\ng: serve *\n")
    programs = json.loads(convert(area / "Procfile").stdout)["programs"]
    assert [name for name, program in programs.items() if program["command"][2].startswith("exec ")] == ["g"]


def test_a_file_that_is_there_stays(area):
    (area / "Procfile").write_text("a: b\n")
    (area / "out").write_text("mine")
    done = convert("-o", area / "out", area / "Procfile")
    assert (done.returncode, done.stderr) == (1, f"triton-launch-convert: {area}/out: exists; --force overwrites it\n")
    assert (area / "out").read_text() == "mine"
    assert convert("--force", "-o", area / "out", area / "Procfile").returncode == 0
    check((area / "out").read_text())


def test_what_is_not_a_file_is_written_to_and_links_are_followed(area):
    (area / "c.service").write_text("[Service]\nExecStart=/a\nPrivateTmp=yes\n")
    os.mkfifo(area / "pipe")
    reader = os.open(area / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    done = convert("--report", area / "pipe", area / "c.service")
    assert (done.returncode, done.stderr) == (3, "")
    assert b"PrivateTmp" in os.read(reader, 65536) and (area / "pipe").is_fifo()
    (area / "there").write_text("old")
    (area / "link").symlink_to("there")
    (area / "nowhere").symlink_to("made")
    assert convert("--force", "-o", area / "link", "--report", area / "nowhere", area / "c.service").returncode == 3
    assert (area / "link").is_symlink() and (area / "nowhere").is_symlink()
    check((area / "there").read_text())
    assert "PrivateTmp" in (area / "made").read_text()
    done = convert("-o", area / "pipe", area / "c.service")
    assert done.returncode == 1 and "pipe: exists; --force overwrites it" in done.stderr
    os.close(reader)


def test_a_report_may_go_where_the_configuration_goes(area):
    (area / "c.service").write_text("[Service]\nExecStart=/a\nPrivateTmp=yes\n")
    done = convert("--report", "/dev/stdout", area / "c.service")
    with open(area / "out", "w", encoding="utf-8") as file:
        code = subprocess.run(["/usr/bin/python3", CONVERT, "--report", "/dev/stdout", area / "c.service"], stdout=file,
                              timeout=TIMEOUT, check=False).returncode
    assert code == done.returncode == 3
    assert (area / "out").read_text() == done.stdout
    assert "PrivateTmp" in done.stdout and '"programs"' in done.stdout


def test_the_page_has_the_options_of_the_help():
    page = (SOURCE / "docs/triton-launch-convert.1.scd").read_text()
    found = set(re.findall(r"--[a-z]+", convert("--help").stdout))
    assert found | {"--version"} == set(re.findall(r"\*(--[a-z]+)\*", page))


def test_thirty_systemd_units_of_this_machine_are_converted_and_checked():
    units = [path for path in sorted(Path("/lib/systemd/system").glob("*.service"))
             if path.is_file() and "\nExecStart=" in path.read_text()][:30]
    if len(units) < 30:
        pytest.skip("fewer than 30 systemd units are installed")
    for unit in units:
        done = convert("--instance", "x", unit)
        assert done.returncode in (0, 3), done.stderr
        check(done.stdout)

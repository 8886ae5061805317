"""triton-launch-convert: exact configurations, exact findings, bad and hostile input, and units that this machine has."""

import json
import os
import re
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


CASES = [
    ("s.conf", "[program:web]\ncommand=/srv/web --in %(here)s -p 80%%\nautorestart=true\nstopsignal=QUIT\nstopwaitsecs=20\npriority=2\n"
               "[program:init]\ncommand=/srv/init\nautorestart=false\nstartsecs=0\npriority=1\n", "",
     {"web": {"command": ["/srv/web", "--in", "AREA", "-p", "80%"], "restart": "always",
              "startLimit": {"count": 4, "interval": "11s"}, "stopSignal": "QUIT", "stopTimeout": "20s", "output": {}, "after": ["init"]},
      "init": {"command": ["/srv/init"], "oneShot": True, "output": {}}}),
    ("Procfile", "web: serve --port 80\njob: a && b\n", "",
     {"web": {"command": ["serve", "--port", "80"], "output": {}}, "job": {"command": ["sh", "-c", "trap 'exit 143' TERM\na && b"], "output": {}, "stopScope": "tree"}}),
    ("a.service", "[Service]\nType=notify\nExecStart=/usr/bin/a -v\nUser=nobody\nRestart=always\nRestartSec=2\nPrivateTmp=yes\n",
     'AREA/a.service:7: PrivateTmp: its sandbox of mounts and filters has other keys; use "seccomp", "landlock", "capabilities", or what runs the container\n',
     {"a": {"command": ["/usr/bin/a", "-v"], "readiness": {"type": "notify"}, "restart": "always",
            "backoff": {"initial": "2s", "factor": 1, "max": "2s"}, "stopScope": "tree", "user": "nobody"}}),
    ("process-compose.yaml", "processes:\n  web:\n    command: serve $PORT\n    availability: {restart: always}\n", "",
     {"web": {"command": ["sh", "-c", "serve $PORT"], "output": {}, "restart": "always", "stopScope": "tree"}}),
    ("s.conf", "[program:web]\ncommand=/srv/web\nautorestart=true\nstartsecs=0\nstartretries=0\nstdout_logfile=/log/out\nstderr_logfile=/log/err\n"
               "stderr_logfile_maxbytes=1MB\nstderr_logfile_backups=2\n", "",
     {"web": {"command": ["/srv/web"], "restart": "always", "startLimit": {"count": 1, "interval": "1s"},
              "output": {"file": "/log/out", "maxSize": 52428800, "maxFiles": 10,
                         "stderr": {"file": "/log/err", "maxSize": 1048576, "maxFiles": 2}}}}),
    ("a.service", "[Service]\nType=oneshot\nExecStart=/sbin/up\nRemainAfterExit=yes\nExecStop=/sbin/down\nTimeoutStartSec=5\nTimeoutStopSec=3\n"
                  "StandardInput=file:/in\nStandardOutput=append:/out\nStandardError=append:/err\n", "",
     {"a": {"command": ["/sbin/up"], "oneShot": True, "stopScope": "tree", "stopTimeout": "3s", "timeout": "5s",
            "onStop": {"command": ["/sbin/down"], "timeout": "3s"}, "stdin": {"file": "/in"},
            "output": {"file": "/out", "stderr": {"file": "/err"}}}}),
    ("compose.yml", "services:\n  db:\n    entrypoint: db\n    restart: always\n    mem_limit: 1g\n    ulimits: {nofile: {soft: 10, hard: 20}, core: -1}\n"
                    "    deploy:\n      replicas: 2\n      resources: {limits: {memory: 512M, cpus: '1.5', pids: 30}}\n", "",
     {"db": {"command": ["db"], "output": {}, "restart": "always", "count": 2,
             "cgroup": {"memoryMax": "512Mi", "cpuMax": "150%", "pidsMax": 30},
             "limits": {"nofile": {"soft": 10, "hard": 20}, "core": "unlimited"}}}),
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
        "db": {"command": [f"{area}/db/run"], "workingDirectory": f"{area}/db", "readiness": {"type": "fd", "fd": 3}, "requires": ["setup"]},
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
]


@pytest.mark.parametrize("name, text, message", BAD)
def test_bad_input_is_told_exactly_and_leaves_nothing(area, name, text, message):
    if name.endswith("yml"):
        pytest.importorskip("yaml", reason="needs python3-yaml")
    (area / name).write_text(text)
    done = convert("-o", area / "out.json", area / name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"triton-launch-convert: {area}/{name}{message}\n"
    assert os.listdir(area) == [name]


def test_a_file_that_is_there_stays(area):
    (area / "Procfile").write_text("a: b\n")
    (area / "out").write_text("mine")
    done = convert("-o", area / "out", area / "Procfile")
    assert (done.returncode, done.stderr) == (1, f"triton-launch-convert: {area}/out: exists; --force overwrites it\n")
    assert (area / "out").read_text() == "mine"
    assert convert("--force", "-o", area / "out", area / "Procfile").returncode == 0
    check((area / "out").read_text())


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

"""What programs say cannot command the terminal of whoever reads the log or asks by ctl."""

from harness.process import Exit
from harness.programs import run, service

CONTROL = {*range(32), 127, *range(0x80, 0xa0)} - {10}


def test_what_programs_say_cannot_command_a_terminal(as_pid1):
    """In lines of JSON, states and arguments. What ctl logs shows are the bytes of the program."""
    evil = "\x1b]0;evil\x07\x1b[2J\x9b31m\r\x08\x7f\u202e\ufeff"
    path = as_pid1.area / "say"
    path.write_text(f"import os, socket, sys, time\nsys.stdout.reconfigure(encoding='utf-8')\nprint({evil!r}, flush=True)\n"
                    "os.write(1, b'\\x9b2J\\xff\\n')\nto = os.environ['NOTIFY_SOCKET']\n"
                    "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                    "s.connect('\\0' + to[1:] if to[0] == '@' else to)\n"
                    f"s.send(('STATUS=' + {evil!r} + '\\nREADY=1\\nMAINPID=1').encode())\n"
                    "open('/proc/self/comm', 'wb').write(b'\\x1b[2J\\x9b')\ntime.sleep(1000)\n")
    program = {"command": ["/usr/bin/python3", str(path), evil], "readiness": {"type": "notify"}, "output": {"format": "json"}}
    log = as_pid1.area / "log"
    with open(log, "wb") as file:
        launcher = run(as_pid1, {"web": service("web"), "evil": program}, stdout=file.fileno())
    launcher.wait_up(tag="web")
    launcher.ctl("wait", "evil", "--for", "ready", "--timeout", "10s")
    for words in (("status",), ("status", "evil"), ("describe", "evil"), ("top",), ("status", "--json")):
        shown = launcher.ctl(*words)
        bad = {hex(ord(c)) for c in shown if ord(c) in CONTROL}
        assert not bad, (words, bad, shown)
    assert launcher.stop() == Exit(code=0)
    text = log.read_text(encoding="utf-8")
    assert "evil" in text and "\\u009b31m" in text
    bad = {hex(ord(c)) for c in text if ord(c) in CONTROL}
    assert not bad, (bad, text)

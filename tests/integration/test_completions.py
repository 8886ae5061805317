"""What the completion scripts offer: options of the mode, their values, behind `ctl` what a running launcher has."""

import shutil
import subprocess

import pytest

from harness.control import Controlled
from harness.process import BINARY, TIMEOUT

# What stands on the line, and all that is offered for its last word.
LINES = {
    "ctl st": {"stage", "status", "start", "stop"},
    "ctl restart --socket {socket} ": {"db", "web"},
    "ctl --socket {socket} restart web d": {"db"},
    "ctl --socket={socket} status w": {"web"},
    "ctl --socket {socket} signal HUP w": {"web"},
    "ctl --socket {socket} describe web ": set(),
    "ctl --socket /nowhere restart ": set(),
    "ctl signal USR": {"USR1", "USR2"},
    "ctl wait web --for d": {"down", "done"},
    "ctl logs --f": {"--follow"},
    "schema --m": {"--markdown"},
    "ctl stage ": {"files", "binaries", "libraries", "monitor-conf"},
    "--kubernetes o": {"on", "off"},
    "--listen :8080 --kubernetes a": {"auto"},
    "--listen :8080 --agent-u": {"--agent-user"},
    "--mode sidecar --listen :8080 --tls-c": {"--tls-certificate-file", "--tls-ca-file"},
    "--mode sidecar --kub": set(),
    "--agent-user daem": {"daemon"},
}

# Readline makes words of their own of = and what is around it.
BASH = r"""
source <("$0" completion bash)
compopt() { :; }
read -r -a COMP_WORDS <<<"${1//=/ = }"
[[ $1 != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_triton_launch
printf '%s\n' "${COMPREPLY[@]}"
"""
FISH = """
$argv[1] completion fish | source
complete -C $argv[2] | string split -f1 \\t
"""


def in_bash(binary, line):
    """The words that bash offers."""
    return ["bash", "--norc", "-c", BASH, binary, line]


def in_fish(binary, line):
    """The words that fish offers."""
    if not shutil.which("fish"):
        pytest.skip("needs fish")
    return ["fish", "--no-config", "-c", FISH, binary, line]


@pytest.mark.parametrize("shell", [in_bash, in_fish])
def test_commands_options_and_names_are_offered(as_child, area, shell):
    (area / "triton-launch").symlink_to(BINARY)
    controlled = Controlled(as_child, {"db": ["sleep:100000"], "web": ["sleep:100000"]})
    for line, expected in LINES.items():
        text = f"{area}/triton-launch " + line.format(socket=controlled.socket)
        done = subprocess.run(shell(str(area / "triton-launch"), text), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=TIMEOUT, check=False)
        assert set(done.stdout.split()) == expected, f"{line}: {done}"
        assert done.stderr == ""

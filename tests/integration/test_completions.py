"""What the completion scripts offer: options of the mode, their values, behind `ctl` what a running launcher has."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.control import Controlled
from harness.process import BINARY, TIMEOUT

# What stands on the line, and all that is offered for its last word.
LINES = {
    "c": {"check", "completion", "ctl"},
    "ctl st": {"stage", "status", "start", "stop"},
    "ctl restart --socket {socket} ": {"db", "web"},
    "ctl --socket {socket} restart web d": {"db"},
    "ctl --socket={socket} status w": {"web"},
    "ctl --socket {socket} signal HUP w": {"web"},
    "ctl --socket {socket} describe web ": set(),
    "ctl --socket {socket} history d": {"db"},
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
# A terminal types the line and a Tab. What would be offered is written to a file, and the shell ends.
ZSH = r"""
zmodload zsh/zpty
export offered=$(mktemp)
export setup='
    PS1=
    autoload -Uz compinit && compinit -u -D && source <($program completion zsh)
    compadd() {
        if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
            local -a matches
            builtin compadd -A matches "$@"
            (($#matches)) && print -rl -- $matches >>$offered
        fi
        builtin compadd "$@"
    }
    quit() { exit }
    comppostfuncs=(quit)'
export program=$0
zpty typed zsh -f -i
zpty -w typed 'eval $setup'
zpty -w -n typed "$1"$'\t'
while zpty -r typed piece; do :; done
# Where no word can stand, zsh offers the options.
if [[ ${1##* } == -* ]]; then cat $offered; else grep -v ^- $offered; fi
rm $offered
"""


def in_bash(binary, line):
    """The words that bash offers."""
    return ["bash", "--norc", "-c", BASH, binary, line]


def in_fish(binary, line):
    """The words that fish offers."""
    if not shutil.which("fish"):
        pytest.skip("needs fish")
    return ["fish", "--no-config", "-c", FISH, binary, line]


def in_zsh(binary, line):
    """The words that zsh offers."""
    if not shutil.which("zsh"):
        pytest.skip("needs zsh")
    return ["zsh", "-f", "-c", ZSH, binary, line]


@pytest.mark.parametrize("shell", [in_bash, in_fish, in_zsh])
def test_commands_options_and_names_are_offered(as_child, area, shell):
    (area / "triton-launch").symlink_to(BINARY)
    controlled = Controlled(as_child, {"db": ["sleep:100000"], "web": ["sleep:100000"]})
    for line, expected in LINES.items():
        text = f"{area}/triton-launch " + line.format(socket=controlled.socket)
        done = subprocess.run(shell(str(area / "triton-launch"), text), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=TIMEOUT, check=False)
        assert set(done.stdout.split()) == expected, f"{line}: {done}"
        assert done.stderr == ""


def test_bash_does_not_expand_names(area):
    """What answers at a socket may be a program of the container that only says it is a launcher."""
    (area / "names").write_text("web\n$(touch ran)\nw`touch ran`\n")
    program = area / "triton-launch"
    program.write_text(f'#!/bin/sh\ncase $* in *__names) exec cat {area}/names ;; esac\nexec {BINARY} "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(in_bash(str(program), f"{program} ctl start "), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=TIMEOUT, check=False, cwd=area)
    assert done.stdout.splitlines() == ["web", "\\$\\(touch\\ ran\\)", "w\\`touch\\ ran\\`"], done
    assert not (area / "ran").exists()


# --- triton-launch-convert

CONVERT = Path(__file__).resolve().parents[2] / "programs/triton-launch-convert/triton-launch-convert"
needs_convert = pytest.mark.skipif(not CONVERT.exists(), reason="only the tests were copied, not the program")

# In a directory with the files units and processes.json.
CONVERT_LINES = {
    "--f": {"--from", "--force"},
    "--from s6": {"s6", "s6-rc"},
    "--from=sys": {"systemd"},
    "-o pro": {"processes.json"},
    "--report=uni": {"units"},
    "--instance u": set(),
    "--strict uni": {"units"},
    "uni": {"units"},
    "com": {"completion"},
    "completion ": {"bash", "zsh", "fish"},
    "units com": set(),
    "-- --f": set(),
}
CONVERT_BASH = BASH.replace("_triton_launch\n", "_triton_launch_convert\n")


def in_fish_as_typed(binary, line):
    """The words that fish offers, whole: of a value behind = it says option and value."""
    command = in_fish(binary, line)
    return [*command[:3], command[3].replace("\\t", "\\t | string replace -r '^--[a-z]+=' ''"), *command[4:]]


@needs_convert
@pytest.mark.parametrize("shell", [in_bash, in_fish_as_typed])
def test_what_is_converted_and_how_is_offered(area, shell):
    (area / "units").write_text("")
    (area / "processes.json").write_text("")
    (area / "triton-launch-convert").symlink_to(CONVERT)
    for line, expected in CONVERT_LINES.items():
        command = shell(str(area / "triton-launch-convert"), f"{area}/triton-launch-convert {line}")
        command = [CONVERT_BASH if word == BASH else word for word in command]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=area)
        assert set(done.stdout.split()) == expected, f"{line}: {done}"
        assert done.stderr == ""


@needs_convert
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_has_all_options(shell):
    """And is one that the shell can read, where there is that shell."""
    def printed(*arguments):
        return subprocess.run([CONVERT, *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=True,
                              env={"PATH": os.environ["PATH"]}).stdout
    script = printed("completion", shell)
    found = re.findall(r" -l ([a-z]+)", script) if shell == "fish" else re.findall(r"--([a-z]+)", script)
    assert set(found) == set(re.findall(r"--([a-z]+)", printed("--help")))
    if reader := shutil.which(shell):
        done = subprocess.run([reader, "-n"], input=script, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

"""The completions of the host's programs: those in completions/ are what the programs print, and bash offers what they say."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TRITON_BUILD", SOURCE / "build/dev"))
PROGRAMS = ["criadm", "imgadm", "vmadm", "vminfo", "volumeadm"]
SHELLS = ["bash", "zsh", "fish"]

# Readline makes words of their own of = and what is around it.
BASH = r"""
source "$2"
compopt() { echo "compopt $*"; }
read -r -a COMP_WORDS <<<"${1//=/ = }"
[[ $1 != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
"_${COMP_WORDS[0]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
# What stands for vmadm where the script asks it for VMs, and for imgadm and vminfo likewise. An alias is any text.
ALIASES = ["web0", "my own", "it's", "cost $HOME", "$(touch ran)", "`touch ran`", "*", ""]
VMS = f"""#!/bin/sh
case $* in
*list*) cat <<'END'
1af640c5-9042
{chr(10).join(ALIASES)}
END
;;
*vms*) cat <<'END'
[
{"".join(f'  {{{chr(10)}    "uuid": "1af640c5-9042",{chr(10)}    "alias": "{alias}"{chr(10)}  }},{chr(10)}' for alias in ALIASES)}]
END
;;
esac
"""

# What stands on the line, some of what is offered for its last word, and some of what is not.
LINES = {
    "vmadm st": ({"start", "stats", "stop"}, {"list"}),
    "vmadm --root /x st": ({"start", "stop"}, set()),
    "vmadm de": ({"delete", "destroy", "delete-snapshot"}, set()),
    "vmadm start w": ({"web0"}, {"1af640c5-9042"}),
    "vmadm boot ": ({"web0", "1af640c5-9042", "alias=", "state="}, {"uuid", "--root"}),
    "vmadm start ": ({"my\\ own", "it\\'s", "cost\\ \\$HOME", "\\$\\(touch\\ ran\\)", "\\`touch\\ ran\\`", "\\*"}, {"my", "own", "''"}),
    "vmadm start m": ({"my\\ own"}, {"web0", "compopt -o default"}),
    "vmadm start my\\": ({"my\\ own"}, {"web0"}),
    "vmadm -q stop -": ({"-F", "-t"}, {"web0"}),
    "vmadm list -o uuid,al": ({"uuid,alias"}, {"uuid,ram", "web0"}),
    "vmadm list -s ra": ({"ram"}, {"ram="}),
    "vmadm list ali": ({"alias=", "compopt -o nospace"}, {"alias"}),
    "vmadm list alias=": (set(), {"alias=", "web0", "compopt -o default"}),
    "vmadm update web0 cpu_": ({"cpu_cap=", "cpu_shares="}, set()),
    "vmadm update web0 uui": (set(), {"uuid="}),
    "vmadm kill -s SIGUS": ({"SIGUSR1", "SIGUSR2"}, {"web0"}),
    "vmadm validate ": ({"create", "update"}, {"web0"}),
    "vmadm create -f ": ({"compopt -o default"}, {"-f"}),
    "vmadm logs -f w": ({"web0"}, set()),
    "imgadm im": ({"import"}, {"image"}),
    "imgadm get w": ({"web0"}, set()),
    "imgadm --progress j": ({"json"}, {"import"}),
    "imgadm list -o uuid,na": ({"uuid,name"}, set()),
    "imgadm list na": ({"name="}, set()),
    "imgadm create -c z": ({"zstd"}, set()),
    "imgadm sources --signature r": ({"required"}, set()),
    "vminfo vm ": ({"1af640c5-9042", "web0", "my\\ own", "\\$\\(touch\\ ran\\)"}, {"my", "''"}),
    "vminfo vms -o sta": ({"state"}, set()),
    "vminfo events --type c": ({"create"}, set()),
}


def printed(program, shell):
    done = subprocess.run([BUILD / program, "completion", shell], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_files_are_what_the_programs_print(program, shell):
    """After a change: for p in imgadm vmadm vminfo; do for s in bash zsh fish; do build/dev/$p completion $s >completions/$p.$s; done; done"""
    assert (SOURCE / f"completions/{program}.{shell}").read_text() == printed(program, shell)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_shells_can_read_them(program, shell):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not here")
    subprocess.run([shell, "-n", SOURCE / f"completions/{program}.{shell}"], check=True)


@pytest.mark.parametrize("line", LINES)
def test_bash_offers(line, tmp_path):
    for name in PROGRAMS:
        (tmp_path / name).write_text(VMS)
        (tmp_path / name).chmod(0o755)
    program = line.split()[0]
    done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", line, SOURCE / f"completions/{program}.bash"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, cwd=tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert not (tmp_path / "ran").exists(), "the shell has run a command that is an alias"
    offered = set(done.stdout.splitlines())
    wanted, unwanted = LINES[line]
    assert done.stderr == "" and wanted <= offered and not unwanted & offered, f"{line}: {done}"

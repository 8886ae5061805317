"""The programs of triton-host, as they are shipped: bound at once, read-only where that is possible, and with the C library's checks."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TRITON_BUILD", SOURCE / "build/dev"))
INSTALLED = re.findall(r"install\(TARGETS ([^)]*?)\s+RUNTIME DESTINATION [^)]*COMPONENT host\)", (SOURCE / "CMakeLists.txt").read_text())
PROGRAMS = sorted({name for names in INSTALLED for name in names.split()})
CACHE = BUILD / "CMakeCache.txt"

pytestmark = [
    pytest.mark.skipif(not shutil.which("readelf"), reason="needs readelf"),
    pytest.mark.skipif(not CACHE.exists() or "CMAKE_BUILD_TYPE:STRING=Release" not in CACHE.read_text(), reason="is about the release build"),
]


def elf(option, program):
    return subprocess.run(["readelf", option, "--wide", BUILD / program], check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_hardened(program):
    if not (BUILD / program).exists():
        pytest.skip("is not built here")
    dynamic, segments = elf("--dynamic", program), elf("--program-headers", program)
    assert "DYN (Position-Independent Executable file)" in elf("--file-header", program)
    assert "GNU_RELRO" in segments
    stack = next(line for line in segments.splitlines() if "GNU_STACK" in line)
    assert " E " not in stack and "RWE" not in stack
    if "INTERP" not in segments:
        return  # it is static: nothing of it is bound later
    assert "NOW" in dynamic, "it is bound when a function is called first"
    assert re.search(r"__\w+_chk", elf("--dyn-syms", program)), "it calls no function with a check"


def test_there_are_programs():
    assert {"vmadm", "imgadm", "vminfod", "volumemgr", "tritoncrid", "triton-machine-network"} <= set(PROGRAMS)

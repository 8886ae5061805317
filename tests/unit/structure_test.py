#!/usr/bin/env python3
"""Three promises of the tree that no compiler checks:

1. includes follow base <- config <- launcher, sidecar <- program, and host; nothing includes tests or bench;
2. every *_test.cpp and *_fuzz.cpp below tests/ is listed in a CMakeLists.txt there, so that none is silently not built;
3. the objects of the CMake library `wrap`, which run before libc has started, need nothing that they do not bring.

usage: structure_test.py SOURCE_DIR [--nm NM OBJECT...]
"""

import re
import subprocess
import sys
from pathlib import Path

# folder -> what it may include of ours
MAY_INCLUDE = {
    "base": {"base"},
    "config": {"base", "config"},
    "launcher": {"base", "config", "launcher"},
    "sidecar": {"base", "config", "sidecar"},
    "program": {"base", "config", "launcher", "sidecar", "program"},
    "host": {"base", "config", "host"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
COMMENT = re.compile(r"#[^\n]*")
# The entry point of early.cpp jumps there, into libc, when the command line is not the wrap mode's.
PROVIDED_BY_LIBC_START = {"_start"}


def wrong_includes(root: Path) -> list[str]:
    ours = {entry.name for entry in root.iterdir() if entry.is_dir()}
    found = []
    for folder, allowed in MAY_INCLUDE.items():
        for source in sorted((root / folder).rglob("*")):
            if source.suffix not in {".h", ".hpp", ".cpp", ".cc", ".c", ".inc"}:
                continue
            for name in INCLUDE.findall(source.read_text()):
                where = f"{source.relative_to(root)} includes {name}"
                if name.startswith("."):
                    found.append(f"{where}: ours are named from the root")
                elif (top := name.split("/")[0]) in ours and top not in allowed:
                    found.append(f"{where}: {folder} may include {', '.join(sorted(allowed))} only")
    return found


def unlisted_tests(root: Path) -> list[str]:
    tests = root / "tests"
    listed = set()
    for lists in tests.rglob("CMakeLists.txt"):
        words = re.split(r'[\s()"]+', COMMENT.sub("", lists.read_text()))
        listed |= {(lists.parent / word).resolve() for word in words if word.endswith(".cpp")}
    sources = {source for kind in ("*_test.cpp", "*_fuzz.cpp") for source in tests.rglob(kind)}
    return [f"{source.relative_to(root)} is built by no target" for source in sorted(sources) if source.resolve() not in listed]


def foreign_symbols(nm: str, objects: list[str]) -> list[str]:
    def symbols(kind: str) -> dict[str, str]:
        of_object = {}
        for file in objects:
            output = subprocess.run([nm, "--format=posix", kind, file], check=True, capture_output=True, text=True).stdout
            of_object |= {line.split()[0]: Path(file).name for line in output.splitlines() if line}
        return of_object

    defined = symbols("--defined-only")
    if not defined:
        return ["the objects of the wrap library define nothing at all"]
    known = defined.keys() | PROVIDED_BY_LIBC_START
    undefined = symbols("--undefined-only")
    return [f"{file} needs {name}, and libc has not started there" for name, file in sorted(undefined.items()) if name not in known]


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]).resolve()
    found = wrong_includes(root) + unlisted_tests(root)
    if arguments[1:2] == ["--nm"]:
        found += foreign_symbols(arguments[2], arguments[3:])
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

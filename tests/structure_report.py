#!/usr/bin/env python3
"""Prints the structure of the source: files and lines of each folder, the longest functions, the largest classes, and circles
of includes between folders. It reads the text as clang-format leaves it: a body ends at the first brace of its own column.

usage: structure_report.py [SOURCE_DIR]
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

NOT_PRODUCT = {"tests", "bench", "build", "packaging", "examples"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
FUNCTION = re.compile(r"^( *)(?!.*\b(?:if|for|while|switch|else|do|catch|namespace|class|struct|enum|union)\b *[({]?)\S.*\(.*$")
NAME = re.compile(r"([\w~:]+)\(")
CLASS = re.compile(r"^(?:class|struct) (?:\[\[\w+\]\] )?(\w+)[^;]*\{$")
MEMBER = re.compile(r"\b\w+_(?:\{.*\}| = .*)?;")
SHOWN = 10


def sources(root: Path) -> list[Path]:
    found = [path for kind in ("*.h", "*.cpp") for path in root.rglob(kind)]
    return sorted(path for path in found if path.relative_to(root).parts[0] not in NOT_PRODUCT)


def functions(lines: list[str]):
    """(lines, name) of each body; a function inside another one counts with it."""
    at = 0
    while at < len(lines):
        line = lines[at]
        if not (line.rstrip().endswith("{") and (match := FUNCTION.match(signature := head(lines, at)))):
            at += 1
            continue
        indent = len(match[1])
        end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith(" " * indent + "}")), at)
        name = NAME.search(signature)
        yield end - at + 1, name[1] if name else signature.strip()
        at = end + 1


def head(lines: list[str], at: int) -> str:
    """The declaration that ends in this line: a wrapped one begins at the last line above that is indented less."""
    first = at
    while first > 0 and not re.match(r"^ *[\w~\[:<].*\(", lines[first]) and lines[first].startswith(" ") and at - first < 8:
        first -= 1
    return " ".join([lines[first].rstrip(), *(line.strip() for line in lines[first + 1 : at + 1])])


def classes(root: Path, texts: dict[Path, list[str]]):
    """(functions, members, lines of the declaration, name) of each class."""
    defined = defaultdict(set)
    for path, lines in texts.items():
        for line in lines:
            if match := re.match(r"^\S[^;=]*?\b(\w+)::(~?\w+)\(", line):
                defined[path.parent, match[1]].add(match[2])
    for path, lines in texts.items():
        for at, line in enumerate(lines):
            if not (match := CLASS.match(line)):
                continue
            end = next((i for i in range(at, len(lines)) if lines[i].startswith("}")), at)
            body = lines[at:end]
            declared = {name for row in body if re.match(r"^    \S.*\(", row) and "///" not in row for name in NAME.findall(row)[:1]}
            members = sum(bool(MEMBER.search(row)) for row in body if re.match(r"^    \S", row))
            yield len(declared | defined[path.parent, match[1]]), members, end - at + 1, f"{match[1]} ({path.relative_to(root)})"


def circles(root: Path, texts: dict[Path, list[str]]) -> list[str]:
    uses = defaultdict(set)
    folders = {str(path.parent.relative_to(root)) for path in texts}
    for path, lines in texts.items():
        folder = str(path.parent.relative_to(root))
        uses[folder] |= {name.rsplit("/", 1)[0] for name in INCLUDE.findall("\n".join(lines)) if "/" in name}
    uses = {folder: (others & folders) - {folder} for folder, others in uses.items()}

    def reaches(start: str, wanted: str) -> bool:
        seen, todo = set(), [start]
        while todo:
            folder = todo.pop()
            if folder == wanted and folder is not start:
                return True
            todo += [other for other in uses.get(folder, ()) if other not in seen]
            seen |= uses.get(folder, set())
        return wanted in seen

    return sorted({" <-> ".join(sorted((a, b))) for a, others in uses.items() for b in others if reaches(b, a)})


def main(arguments: list[str]) -> int:
    root = Path(arguments[0] if arguments else Path(__file__).parents[1]).resolve()
    texts = {path: path.read_text().splitlines() for path in sources(root)}
    folders = defaultdict(list)
    for path, lines in texts.items():
        folders[str(path.parent.relative_to(root))].append(len(lines))
    print(f"{'folder':32} {'files':>5} {'lines':>6} {'longest':>7}")
    for folder, counts in sorted(folders.items()):
        print(f"{folder:32} {len(counts):5} {sum(counts):6} {max(counts):7}")
    print(f"{'all':32} {len(texts):5} {sum(map(sum, folders.values())):6}")
    bodies = sorted(((length, f"{name} ({path.relative_to(root)})") for path, lines in texts.items() for length, name in functions(lines)), reverse=True)
    print("\nlongest functions, in lines")
    for length, name in bodies[:SHOWN]:
        print(f"{length:5}  {name}")
    lengths = [length for length, _ in bodies]
    print(f"{sum(length > 75 for length in lengths)} of {len(lengths)} are longer than 75 lines; the median is {lengths[len(lengths) // 2]}")
    print("\nlargest classes: functions, members, lines of the declaration")
    largest = sorted((one for one in classes(root, texts) if one[1] > 0 and one[2] > 20), reverse=True)[:SHOWN]
    for functions_, members, length, name in largest:
        print(f"{functions_:5} {members:4} {length:5}  {name}")
    found = circles(root, texts)
    print(f"\n{len(found)} pairs of folders in circles" + "".join(f"\n  {circle}" for circle in found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

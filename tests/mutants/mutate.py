#!/usr/bin/env python3
"""Changes the product in small ways, one at a time, and tells which changes no test notices.

On demand, not in CI: each mutant costs a build and a run of the tests. The files must be committed; each is as it was when the
script ends, however that is. A mutant that does not compile is not counted.

example: tests/mutants/mutate.py --count 40 --build 'cmake --build --preset dev --target unit_tests' \\
           --test "build/dev/tests/unit_tests --gtest_brief=1 --gtest_filter='Rotating*:OutputCapture*'" launcher/output/*.cpp
"""

import argparse
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

# A pattern, and what stands in its place. Words and operators with blanks around them, so that types and templates stay.
RULES = [
    (r" == ", " != "), (r" != ", " == "), (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
    (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "), (r" \+= ", " -= "), (r" -= ", " += "),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"\bif \((?!constexpr)", "if (!("), (r"\breturn -1;", "return 0;"),
    (r"(?<![\w.\"'])0(?![\w.\"'])", "1"), (r"(?<![\w.\"'])1(?![\w.\"'])", "2"), (r"!(?=[\w:(])", ""),
    (r"^(\s+)(?!return|if|for|while|else|case|using|auto|const|\w+ const|std::|int |bool |struct|constexpr)([\w.>:-]+\(.*\);)$",
     r"\1;  // \2"),
]
COMMENT = re.compile(r"^\s*(//|#|\*|/\*)")


class Mutant(NamedTuple):
    """One change of one line."""
    path: Path
    line: int  # from 0
    text: str


def close_condition(text):
    """Ends the negation of "if (!(": at the bracket that closes the condition, if it is on that line."""
    start = text.index("if (!(") + len("if (!(")
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[:at] + ")" + text[at:]
    return None


def mutants_of(path):
    """All changes of a file."""
    for number, line in enumerate(path.read_text().splitlines()):
        if COMMENT.match(line) or "static_assert" in line:
            continue
        code = line.split("  //")[0]
        for pattern, replacement in RULES:
            for found in re.finditer(pattern, code):
                text = code[:found.start()] + found.expand(replacement) + code[found.end():]
                if replacement == "if (!(":
                    text = close_condition(text)
                if text is not None:
                    yield Mutant(path, number, text)


def run(command, limit):
    """Whether it succeeds in time."""
    try:
        return subprocess.run(command, shell=True, capture_output=True, timeout=limit, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def try_one(mutant, options):
    """"survived", "noticed", or "does not compile"."""
    original = mutant.path.read_text()
    lines = original.splitlines(keepends=True)
    lines[mutant.line] = mutant.text + "\n"
    try:
        mutant.path.write_text("".join(lines))
        if not run(options.build, 1800):
            return "does not compile"
        return "survived" if run(options.test, options.limit) else "noticed"
    finally:
        mutant.path.write_text(original)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--build", required=True, help="what builds the tests")
    parser.add_argument("--test", required=True, help="what must fail")
    parser.add_argument("--count", type=int, default=50, help="how many mutants (default: 50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300, help="seconds for one run of the tests; longer counts as noticed")
    options = parser.parse_args()
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *options.files], check=False).returncode != 0:
        sys.exit("commit the files first")
    if not run(options.build, 1800) or not run(options.test, options.limit):
        sys.exit("the tests must pass before anything is changed")
    found = [mutant for path in options.files for mutant in mutants_of(path)]
    random.Random(options.seed).shuffle(found)
    results = {"survived": 0, "noticed": 0, "does not compile": 0}
    for mutant in found:
        if results["survived"] + results["noticed"] == options.count:
            break
        result = try_one(mutant, options)
        results[result] += 1
        if result == "survived":
            print(f"{mutant.path}:{mutant.line + 1}: {mutant.text.strip()}", flush=True)
    tried = results["survived"] + results["noticed"]
    print(f"{results['noticed']} of {tried} noticed ({100 * results['noticed'] // max(tried, 1)} %)")
    run(options.build, 1800)


if __name__ == "__main__":
    main()

"""Procfile: a line for each program, `name: command`, which a shell runs."""

import re

from .common import Failure, Place, shell_command, words

# What only a shell understands.
SHELL = re.compile(r"[$`;&|<>()*?\[\]~#!{}=\\\n]")


def convert(conversion, path):
    """Adds the programs of a Procfile."""
    for number, line in enumerate(conversion.read(path).split("\n"), 1):
        text = line.strip()
        place = Place(str(path), number)
        if not text or text.startswith("#"):
            continue
        match = re.fullmatch(r"([A-Za-z0-9_.-]+):\s*(.+)", text)
        if not match:
            raise Failure(place, "is not of the form NAME: COMMAND")
        name, command = match.groups()
        argv = shell_command("exec " + command if is_simple(command) else command) if SHELL.search(command) else words(place, command)
        program = {"command": argv, "output": {}}
        if name == "release":
            program.update(oneShot=True)
        if "$PORT" in command or "${PORT" in command:
            conversion.find(place, "$PORT", "nobody gives each program a port of its own",
                            'set it: "environment": {"PORT": "5000"}')
        conversion.add(place, name, program)
    if "release" in conversion.programs:
        for name, program in conversion.programs.items():
            if name != "release":
                program["requires"] = ["release"]


def is_simple(command):
    """One command, which a shell may be replaced by."""
    return not re.search(r"[;&|()`\n{}!]", command) and not re.match(r"\w+=|(cd|exec|if|while|for|case|set|export)\b", command)

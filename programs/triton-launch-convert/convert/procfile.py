"""Procfile: a line for each program, `name: command`, which a shell runs."""

import re
from pathlib import Path

from .common import Failure, Place, is_simple, shell_command, waiting, words

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
        if not SHELL.search(command):
            program = {"command": words(place, command), "output": {}}
        elif is_simple(command):
            program = {"command": shell_command("exec " + command), "output": {}}
        else:  # the shell stays, and its signal is for what it runs
            program = {"command": shell_command(waiting(command)), "output": {}, "stopScope": "tree"}
        if name == "release":
            program.update(oneShot=True)
        if "$PORT" in command or "${PORT" in command:
            conversion.find(place, "$PORT", "nobody gives each program a port of its own",
                            'set it: "environment": {"PORT": "5000"}')
        conversion.add(place, name, program)
    if (Path(path).parent / ".env").is_file():
        conversion.find(Place(str(Path(path).parent / ".env")), ".env", "foreman reads it, Heroku does not",
                        'give it as "environmentFile" where it has no quotes, or write it into "environment"')
    if "release" in conversion.programs:
        for name, program in conversion.programs.items():
            if name != "release":
                program["requires"] = ["release"]

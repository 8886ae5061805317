"""A content store of a test's own, and the command that drives it."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TRITON_BUILD", Path(__file__).parents[2] / "build/dev"))
TOOL = BUILD / "tests/host/tool/content_tool"
PATIENCE = 60

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start roles")


class Place:
    def __init__(self, directory):
        self.directory = Path(directory)
        self.store = self.directory / "content"

    def command(self, command, **words):
        """content_tool's words; a list becomes several, and an underscore a hyphen."""
        line = [str(TOOL), str(self.store), command]
        for name, value in words.items():
            for each in value if isinstance(value, list) else [value]:
                line.append(f"{name.replace('_', '-')}={each}")
        return line

    def start(self, command, prefix=(), **words):
        return subprocess.Popen(
            [*prefix, *self.command(command, **words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TRITON_LIBEXEC": str(BUILD)},
        )

    def finish(self, process):
        """Its lines, as JSON; the last one is the result or {"error":...}."""
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode in (0, 1), f"exit code {process.returncode}: {output}{errors}"
        return [json.loads(line) for line in output.splitlines()]

    def run(self, command, **words):
        return self.finish(self.start(command, **words))

    def fetch(self, **words):
        """The blob, or {"error":...}."""
        return self.run("fetch", **words)[-1]

    def blobs(self):
        return sorted(path.name for path in (self.store / "blobs/sha256").iterdir())

    def ingests(self):
        return sorted(path.name for path in (self.store / "ingest").iterdir())

    def content(self, digest):
        return (self.store / "blobs/sha256" / digest.removeprefix("sha256:")).read_bytes()


@pytest.fixture
def place():
    directory = tempfile.mkdtemp(prefix="triton-content.")
    yield Place(directory)
    shutil.rmtree(directory)

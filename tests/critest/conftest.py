"""Fixtures of critest's suite. It needs what `tests/kubernetes/build critest` makes, containerd, and tritoncrid."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from critest_place import CRITEST
from containerd_place import missing as missing_of_containerd


def missing():
    lacking = [] if os.access(CRITEST, os.X_OK) else [str(CRITEST)]
    lacking += [name for name in ("crun", "cc", "skopeo", "umoci", "docker-registry") if not shutil.which(name)]
    return ", ".join(lacking + missing_of_containerd() + (["root"] if os.geteuid() else []))


def pytest_sessionstart(session):
    if lacking := missing():
        pytest.exit(f"not here: {lacking}; ./dev test critest brings everything", returncode=1 if os.environ.get("CI") else 77)


@pytest.fixture
def area():
    place = tempfile.mkdtemp(prefix="triton-critest.")
    yield Path(place)
    shutil.rmtree(place)

"""Fixtures of the tests with a real kubelet. They need what `tests/kubernetes/build kubelet` makes, etcd, and tritoncrid."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from cluster_place import ClusterNode
from node_place import PROGRAMS, Node


def missing():
    wanted = [PROGRAMS / name for name in ("kubelet", "kube-apiserver", "kubectl")]
    lacking = [str(one) for one in wanted if not os.access(one, os.X_OK)]
    return ", ".join(lacking + [name for name in ("etcd", "crun", "curl", "openssl") if not shutil.which(name)] + (["root"] if os.geteuid() else []))


def pytest_sessionstart(session):
    if lacking := missing():
        pytest.exit(f"not here: {lacking}; ./dev test kubelet brings everything", returncode=1 if os.environ.get("CI") else 77)


@pytest.fixture
def area():
    place = tempfile.mkdtemp(prefix="triton-node.")
    yield Path(place)
    shutil.rmtree(place)


def checked(made):
    """What a fixture gives, which is looked at behind the test."""
    yield made
    try:
        made.check_nothing_is_left()
    finally:
        made.close()


@pytest.fixture
def node(area):
    yield from checked(Node(area))


@pytest.fixture
def cluster(area):
    yield from checked(ClusterNode(area))

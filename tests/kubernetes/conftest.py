"""Fixtures of the tests against a real API server. They need what tests/kubernetes/build makes, etcd, the launcher
(TRITON_LAUNCH) and its agent (TRITON_AGENT); helper programs as tests/harness builds them."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import rig
from harness.agent import AGENT
from harness.fixtures import area, programs  # noqa: F401 (fixtures)
from harness.process import BINARY


def missing():
    """What is not there, in words; nothing when all is."""
    wanted = [BINARY, AGENT, rig.PROGRAMS / "kube-apiserver", rig.PROGRAMS / "kubectl"]
    lacking = [str(program) for program in wanted if not os.access(program, os.X_OK)]
    lacking += [name for name in ("etcd", "etcdctl", "openssl", "ip", "unshare") if not shutil.which(name)]
    return ", ".join(lacking)


def pytest_sessionstart(session):
    # CTest takes 77 for a skipped test; where a green run is taken for a tested tree, that must not be green.
    lacking = missing()
    if lacking:
        pytest.exit(f"not here: {lacking}; ./dev test brings everything", returncode=1 if os.environ.get("CI") else 77)
    try:
        rig.enter_network_namespace()
    except OSError as error:
        pytest.exit(f"no network namespace here: {error}", returncode=1 if os.environ.get("CI") else 77)


@pytest.fixture(scope="session")
def running_cluster():
    """The cluster of all tests; they take `cluster`."""
    with tempfile.TemporaryDirectory(prefix="triton-kubernetes.") as area:
        started = rig.Cluster(area)
        try:
            started.start()
            yield started
        finally:
            started.close()


@pytest.fixture
def cluster(running_cluster):
    """The cluster, which serves again after the test."""
    yield running_cluster
    running_cluster.recover()


@pytest.fixture(scope="session")
def fresh_name():
    """Makes names that no other test has had."""
    numbers = iter(range(1, 1000))
    return lambda prefix: f"{prefix}-{next(numbers)}"


@pytest.fixture
def namespace(cluster, fresh_name):
    """A namespace of the test's own, with the account and the roles of the example."""
    return rig.Namespace(cluster, fresh_name("test"))


@pytest.fixture
def make_pod(namespace, programs, area):
    """Makes pods; their launchers end with the test."""
    made = []

    def make(name="servers-0", **how):
        made.append(rig.Pod(how.pop("namespace", namespace), programs, area, name, **how))
        return made[-1]

    yield make
    for pod in made:
        pod.close()


@pytest.fixture
def pod(make_pod):
    """A pod whose launcher is still to be started."""
    return make_pod()


@pytest.fixture
def reporting(pod):
    """A pod whose launcher runs and has reported its configuration; `pod.first` is its text."""
    pod.first = pod.configure("say:up", "trap", "until:15")
    pod.start()
    pod.launcher.wait_for_event("configuration-loaded")
    pod.wait_reported(pod.first)
    return pod

"""Fixtures of the integration tests; see tests/harness."""

from harness.fixtures import (  # noqa: F401 (fixtures)
    area,
    as_child,
    as_pid1,
    namespaces_work,
    needs_root,
    needs_static,
    place,
    programs,
    require_binary,
    start_faulty,
)


def pytest_sessionstart(session):
    require_binary()

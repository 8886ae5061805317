"""Fixtures of the attacks: each test plays somebody who wants to hold up, weaken or misuse the launcher or its agent. See
SECURITY.md for who may do what, and tests/harness for what the tests are written with."""

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

"""Fixtures of the attacks: each test plays somebody who wants to hold up, weaken or misuse the launcher or its agent. See
SECURITY.md for who may do what, and tests/harness for what the tests are written with."""

from harness.fixtures import *  # noqa: F403 (what its __all__ names)

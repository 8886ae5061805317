"""Fixtures of the integration tests; see tests/harness."""

from harness.fixtures import *  # noqa: F403 (what its __all__ names)

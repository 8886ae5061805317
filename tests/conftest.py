"""What all suites have in common: no phase of a test takes for ever."""

import signal
import sys
import traceback

import pytest

from harness.slowness import FACTOR

# A shell that is not interactive ignores these for what it starts behind "&". Commands under test would inherit that, and
# live where they are to die.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

PHASE_SECONDS = 300  # the slowest phase takes 40 on two processors; a test may have the mark phase_seconds(SECONDS)


def pytest_configure(config):
    config.addinivalue_line("markers", "phase_seconds(seconds): how long a phase of this test may take")


class HangError(Exception):
    """Not an AssertionError: nothing that waits for a condition may take it for one that is not met yet."""


def _guarded(item, phase):
    mark = item.get_closest_marker("phase_seconds")
    limit = int((mark.args[0] if mark else PHASE_SECONDS) * FACTOR)

    def too_long(_signal, frame):
        sys.stderr.write(f"\n{item.nodeid}: {phase} hangs\n")
        traceback.print_stack(frame)
        raise HangError(f"{phase} took more than {limit} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(limit)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    yield from _guarded(item, "setup")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    yield from _guarded(item, "call")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield from _guarded(item, "teardown")

"""Which of many like cases a run takes. Kills before and after each step of a command are a hundred cases that differ little: a
run takes a third of them, and the next day another third; with TRITON_ALL_STEPS=1, as in `./dev nightly`, it takes all."""

import os
import time

STRIDE = 1 if os.environ.get("TRITON_ALL_STEPS") else 3


def steps(end):
    """Of the steps 1 to end, without that."""
    return range(1 + int(time.time()) // 86400 % STRIDE, end, STRIDE)

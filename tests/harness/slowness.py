"""How many times slower than usual the processor is that the programs under test have: all deadlines of tests grow with it."""

import os

FACTOR = float(os.environ.get("TRITON_TEST_SLOWNESS", "1"))

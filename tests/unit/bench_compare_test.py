#!/usr/bin/env python3
"""What bench/run --against calls worse, better and the same."""

import pathlib
import random
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import compare  # noqa: E402


def only_row(key, ours, theirs):
    (row,) = compare.rows_of({key: {"triton-launch": ours, "against": theirs}}, "triton-launch", "against")
    return row


def noisy(median, spread, rounds, chance):
    return [median * chance.uniform(1 - spread, 1 + spread) for _ in range(rounds)]


class Comparison(unittest.TestCase):
    def setUp(self):
        self.chance = random.Random(7)

    def noisy(self, median, spread, rounds=60):
        return noisy(median, spread, rounds, self.chance)

    def test_a_time_that_is_clearly_longer_is_worse(self):
        row = only_row("start.1.last", self.noisy(110, 0.05), self.noisy(100, 0.05))
        self.assertEqual(row.verdict, "worse")
        self.assertLess(row.interval[0], row.ratio)
        self.assertGreater(row.interval[1], row.ratio)

    def test_a_rate_that_is_clearly_lower_is_worse(self):
        row = only_row("capture.raw", self.noisy(90, 0.02), self.noisy(100, 0.02))
        self.assertEqual(row.verdict, "worse")
        self.assertGreater(row.ratio, 1.03)

    def test_a_time_that_is_clearly_shorter_is_better(self):
        self.assertEqual(only_row("kill.1", self.noisy(90, 0.02), self.noisy(100, 0.02)).verdict, "better")

    def test_two_percent_are_the_same_however_sure(self):
        self.assertEqual(only_row("kill.1", self.noisy(102, 0.001), self.noisy(100, 0.001)).verdict, "same")

    def test_a_ratio_that_chance_may_have_made_is_the_same(self):
        row = only_row("kill.1", self.noisy(104, 0.9, 10), self.noisy(100, 0.9, 10))
        self.assertLess(row.interval[0], 1)
        self.assertEqual(row.verdict, "same")

    def test_load_that_met_both_in_the_same_rounds_hides_nothing(self):
        load = [self.chance.choice((1, 1, 10)) for _ in range(100)]
        row = only_row("kill.1", [11 * factor for factor in load], [10 * factor for factor in load])
        self.assertEqual(row.verdict, "worse")

    def test_one_sample_is_its_own_interval(self):
        row = only_row("size", [2_400_000], [3_000_000])
        self.assertEqual(row.interval, (0.8, 0.8))
        self.assertEqual(row.verdict, "better")

    def test_nothing_twice_is_the_same(self):
        self.assertEqual(only_row("switches.1", [0], [0]).verdict, "same")
        self.assertEqual(only_row("switches.1", [3], [0]).verdict, "worse")

    def test_what_one_of_them_lacks_has_no_row(self):
        self.assertEqual(compare.rows_of({"kill.1": {"against": [1, 2]}}, "triton-launch", "against"), [])


if __name__ == "__main__":
    unittest.main()

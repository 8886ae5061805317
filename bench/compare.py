"""Two builds of triton-launch beside each other: for each row the ratio of the medians, and how sure that is."""

import dataclasses
import random
import statistics

from report import HIGHER, markdown, unit_of

WORSE = 1.03      # a ratio of times, or of memory; of rates its inverse
RESAMPLES = 1000
LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Row:
    """One key of the samples. The ratio is above 1 where the build that is measured needs more: time, memory, or for rates the
    part of the other's rate that it lacks."""

    key: str
    ours: float
    theirs: float
    samples: int
    ratio: float
    interval: tuple  # of the ratio; both ends are the ratio where there is one sample

    @property
    def verdict(self):
        low, high = self.interval
        if self.ratio > WORSE and low > 1:
            return "worse"
        return "better" if self.ratio < 1 / WORSE and high < 1 else "same"


def ratio_of(key, ours, theirs):
    """The ratio of two medians, above 1 where ours is worse."""
    above, below = statistics.median(ours), statistics.median(theirs)
    if key.startswith(HIGHER):
        above, below = below, above
    if below == 0:
        return 1.0 if above == 0 else float("inf")
    return above / below


def interval_of(key, ours, theirs, chance):
    """The middle 95 % of the ratios of samples drawn again with replacement. Samples of one round stay together, because both
    builds have met the same load of the machine."""
    rounds = range(min(len(ours), len(theirs)))
    ratios = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(rounds, k=len(rounds))
        ratios.append(ratio_of(key, [ours[i] for i in drawn], [theirs[i] for i in drawn]))
    ratios.sort()
    tail = int(RESAMPLES * (1 - LEVEL) / 2)
    return ratios[tail], ratios[-1 - tail]


def rows_of(samples, ours, theirs):
    """A row for each key that both have samples of."""
    chance = random.Random(1)
    return [Row(key, statistics.median(by[ours]), statistics.median(by[theirs]), min(len(by[ours]), len(by[theirs])),
                ratio_of(key, by[ours], by[theirs]), interval_of(key, by[ours], by[theirs], chance))
            for key, by in samples.items() if by.get(ours) and by.get(theirs)]


def table_of(rows):
    """The rows as Markdown."""
    lines = [["row", "this", "against", "ratio", "95 % interval", "samples", "result"]]
    for row in rows:
        unit = unit_of(row.key)
        lines.append([row.key, unit(row.ours), unit(row.theirs), f"{row.ratio:.3f}", "{:.3f} to {:.3f}".format(*row.interval),
                      str(row.samples), row.verdict])
    return markdown(lines)


def json_of(rows):
    return [{**dataclasses.asdict(row), "result": row.verdict} for row in rows]


def page_of(rows, refused, machine):
    """The whole of what `bench/run --against` prints."""
    parts = ["# Two builds compared", "\n".join(f"- {name}: {value}" for name, value in machine.items()), table_of(rows),
             "A ratio above 1 is to the disadvantage of this build, of rates too. Worse is a ratio of the medians above "
             f"{WORSE:g} whose\n95 % interval (bootstrap over the rounds) excludes 1."]
    failed = [f"- {key}, {name}: {reason}" for key, reasons in refused.items() for name, reason in reasons.items()]
    return "\n\n".join([*parts, *(["Not measured:\n" + "\n".join(failed)] if failed else [])]) + "\n"

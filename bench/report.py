"""The targets, and the tables that results.md shows."""

import dataclasses
import math
import statistics


def median(samples):
    return statistics.median(samples)


def percentile_99(samples):
    return sorted(samples)[math.ceil(0.99 * len(samples)) - 1]


STATISTICS = {"p50": median, "p99": percentile_99}
SPAWN = ("limit-spawn",)
LIMITS = ("limit-spawn", "limit-fork")
MEGABYTE = 1_000_000


@dataclasses.dataclass(frozen=True)
class Target:
    """What triton-launch has to reach: at most so many times the best of the contenders named, or so much itself."""

    text: str
    key: str
    at_most: float
    against: tuple = ()
    statistic: str = "p50"
    below: bool = False  # not even equal


TARGETS = [
    Target("wrap `true`", "wrap.time", 1.0, ("tini-static", "catatonit"), below=True),
    Target("start, N = 1, last child", "start.1.last", 1.15, LIMITS),
    Target("start, N = 10, last child", "start.10.last", 1.15, LIMITS),
    Target("start, N = 100, last child", "start.100.last", 1.15, LIMITS),
    Target("start, N = 1000, last child", "start.1000.last", 1.15, LIMITS),
    Target("start, N = 1, first child", "start.1.first", 2.0, SPAWN, below=True),
    Target("kill to replacement, p50", "kill.1", 1.25, SPAWN),
    Target("kill to replacement, p99", "kill.1", 2.0, SPAWN, statistic="p99"),
    Target("100 killed at once", "kill.100", 0.9, SPAWN),
    Target("signal to the child's handler", "signal", 1.0, SPAWN),
    Target("10,000 orphans", "orphans", 0.75, SPAWN),
    Target("orderly stop of 100", "stop.100", 1.1, SPAWN),
    Target("context switches when idle, N = 1", "switches.1", 0),
    Target("context switches when idle, N = 100", "switches.100", 0),
    Target("context switches when idle, N = 1000", "switches.1000", 0),
    Target("memory, wrap mode", "memory.wrap", 0.7 * MEGABYTE),
    Target("memory, N = 1", "memory.1", 1.2 * MEGABYTE),
    Target("memory, N = 1000", "memory.1000", 2.2 * MEGABYTE),
    Target("binary size", "size", 2.5 * MEGABYTE),
]


def duration(ns):
    """Three digits of a time."""
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e3:.3g} µs"


def megabytes(value):
    return f"{value / MEGABYTE:.2f} MB"


def plain(value):
    return f"{value:,.0f}"


def unit_of(key):
    """How values under a key are written."""
    if key.startswith("memory.") or key == "size":
        return megabytes
    if key.startswith(("switches.", "processes.")) or key in ("wrap.instructions", "wrap.calls"):
        return plain
    return duration


@dataclasses.dataclass(frozen=True)
class Column:
    title: str
    key: str
    statistic: str = "p50"


@dataclasses.dataclass(frozen=True)
class Table:
    """One measure. Times are followed by their ratios: to what is named in `base`, and to the better limit."""

    title: str
    measure: str      # as --only names it
    kind: str         # which contenders have a row
    columns: tuple
    base: str = ""


TABLES = [
    Table("Wrap mode: `X -- true`, start to reaped", "wrap", "wraps",
          (Column("p50", "wrap.time"), Column("p99", "wrap.time", "p99"),
           Column("user instructions", "wrap.instructions"), Column("system calls", "wrap.calls")), base="no init"),
    Table("Start to the first instruction of the last child", "start", "launches",
          tuple(Column(f"N = {n}", f"start.{n}.last") for n in (1, 10, 100, 1000)), base="limit-spawn"),
    Table("Start to the first instruction of the first child", "start", "launches",
          tuple(Column(f"N = {n}", f"start.{n}.first") for n in (1, 10, 100, 1000)), base="limit-spawn"),
    Table("SIGKILL to the replacement's first instruction", "kill", "launches",
          (Column("p50", "kill.1"), Column("p99", "kill.1", "p99")), base="limit-spawn"),
    Table("100 killed at once, to the last replacement's first instruction", "kill100", "launches",
          (Column("p50", "kill.100"), Column("p99", "kill.100", "p99")), base="limit-spawn"),
    Table("SIGUSR1 to the init, to its child's handler", "signal", "wraps",
          (Column("p50", "signal"), Column("p99", "signal", "p99")), base="limit-spawn"),
    Table("10,000 dead orphans handed over at once, to the last one reaped", "orphans", "wraps",
          (Column("p50", "orphans"),), base="limit-spawn"),
    Table("Orderly stop of 100 children", "stop", "launches",
          (Column("p50", "stop.100"), Column("p99", "stop.100", "p99")), base="limit-spawn"),
    Table("Idle: context switches in 10 s", "idle", "launches",
          tuple(Column(f"N = {n}", f"switches.{n}") for n in (1, 100, 1000))),
    Table("Idle: memory (PSS) without the children", "idle", "launches",
          tuple(Column(f"N = {n}", f"memory.{n}") for n in (1, 100, 1000))),
    Table("Idle: processes without the children", "idle", "launches",
          tuple(Column(f"N = {n}", f"processes.{n}") for n in (1, 100, 1000))),
    Table("Idle in wrap mode", "idle", "wraps",
          (Column("context switches in 10 s", "switches.wrap"), Column("memory (PSS)", "memory.wrap"))),
    Table("Size of the program files", "size", "all", (Column("bytes", "size"),)),
]


class Results:
    """Samples with questions one asks of them."""

    def __init__(self, samples, reasons, absent):
        self.samples, self.reasons, self.absent = samples, reasons, absent

    def value(self, key, name, statistic="p50"):
        samples = self.samples.get(key, {}).get(name)
        return STATISTICS[statistic](samples) if samples else None

    def best(self, key, names, statistic="p50"):
        values = [v for v in (self.value(key, name, statistic) for name in names) if v is not None]
        return min(values, default=None)

    def judge(self, target):
        """A row (figure, ours, reference, ratio, target, verdict)."""
        ours = self.value(target.key, "triton-launch", target.statistic)
        reference = self.best(target.key, target.against, target.statistic) if target.against else None
        unit = unit_of(target.key)
        word = "below" if target.below else "at most"
        goal = f"{word} {target.at_most:g} x" if target.against else f"{word} {unit(target.at_most)}"
        row = [target.text, "-", "-", "-", goal]
        if reference is not None:
            row[2] = f"{unit(reference)} ({' or '.join(target.against)})"
        if ours is None or (target.against and reference is None):
            why = self.reasons.get(target.key, {}).get("triton-launch")
            return [*row, f"not measured{': ' + why if why else ''}"]
        reached = ours / reference if target.against else ours
        row[1] = unit(ours)
        row[3] = f"{reached:.2f} x" if target.against else "-"
        met = reached < target.at_most if target.below else reached <= target.at_most
        return [*row, "met" if met else "missed"]

    def cell(self, column, name, base):
        value = self.value(column.key, name, column.statistic)
        if value is None:
            return self.reasons.get(column.key, {}).get(name, "-")
        text = unit_of(column.key)(value)
        if unit_of(column.key) is not duration:
            return text
        references = [self.value(column.key, base, column.statistic), self.best(column.key, LIMITS, column.statistic)]
        ratios = [f"{value / reference:.2f}" if reference else "-" for reference in references]
        return f"{text} ({', '.join(ratios)})"

    def table(self, table, contenders):
        rows = [["", *(column.title for column in table.columns), "samples"]]
        for contender in contenders:
            if table.kind != "all" and not getattr(contender, table.kind):
                continue
            if contender.name in self.absent:
                rows.append([contender.name, self.absent[contender.name], *[""] * len(table.columns)])
                continue
            cells = [self.cell(column, contender.name, table.base) for column in table.columns]
            if set(cells) == {"-"}:
                continue
            samples = [self.samples.get(column.key, {}).get(contender.name, []) for column in table.columns]
            counts = [str(len(values)) for values in samples]
            name = contender.name
            if table.measure == "size":
                name += " (static)" if contender.static else " (needs shared libraries)"
            rows.append([name, *cells, "/".join(dict.fromkeys(counts))])
        return rows


def markdown(rows):
    """Rows as a table; the first is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def write(results, machine, contenders, measures):
    """The whole of results.md."""
    parts = ["# Benchmark results", "\n".join(f"- {name}: {value}" for name, value in machine.items())]
    head = ["figure", "triton-launch", "reference", "ratio", "target", "result"]
    wanted = {column.key for table in TABLES if table.measure in measures for column in table.columns}
    parts += ["## Targets", markdown([head, *(results.judge(target) for target in TARGETS if target.key in wanted)])]
    parts.append("Times are medians unless a column says p99. In brackets stand their ratios to the posix_spawn limit "
                 "(in wrap\nmode: to a bare spawn) and to the better of the two limits.")
    for table in TABLES:
        rows = results.table(table, contenders) if table.measure in measures else []
        if len(rows) > 1:
            parts += [f"## {table.title}", markdown(rows)]
    return "\n\n".join(parts) + "\n"

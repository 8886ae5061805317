"""The targets, and the tables that results.md shows."""

import dataclasses
import json
import math
import pathlib
import statistics


def median(samples):
    return statistics.median(samples)


def percentile_99(samples):
    return sorted(samples)[math.ceil(0.99 * len(samples)) - 1]


STATISTICS = {"p50": median, "p99": percentile_99}
SPAWN = ("limit-spawn",)
LIMITS = ("limit-spawn", "limit-fork")
SUPERVISORS = ("s6", "runit", "daemontools", "supervisor")
OURS = ("triton-launch",)
MEGABYTE = 1_000_000
HIGHER = ("capture.", "control.rate.", "copy.", "hash.", "serve.http.rate", "serve.https.rate",
          "handshake.")  # keys of which more is better
BASELINE = pathlib.Path(__file__).parent / "baseline.json"
WORSE = 0.05  # than published: marked


@dataclasses.dataclass(frozen=True)
class Target:
    """What triton-launch has to reach: at most (where more is better: at least) so many times the best of the
    contenders named, or so much itself. Without a goal the figure stands for itself."""

    text: str
    key: str
    goal: float | None
    against: tuple = ()
    statistic: str = "p50"
    below: bool = False  # not even equal
    reference: str = ""  # the key of the others, when it is another one

    @property
    def reference_key(self):
        return self.reference or self.key


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
    Target("10,000 dead orphans", "orphans", 1.05, SPAWN),
    Target("10,000 orphans that end at once", "orphans.end", 0.4, SPAWN),
    Target("orderly stop of 100", "stop.100", 1.1, SPAWN),
    Target("context switches when idle, N = 1", "switches.1", 0),
    Target("context switches when idle, N = 100", "switches.100", 0),
    Target("context switches when idle, N = 1000", "switches.1000", 0),
    Target("memory, wrap mode", "memory.wrap", 0.7 * MEGABYTE),
    Target("memory, wrap mode, anonymous", "anonymous.wrap", None),
    Target("memory, N = 1", "memory.1", 1.2 * MEGABYTE),
    Target("memory, N = 1, anonymous", "anonymous.1", None),
    Target("memory, N = 1000", "memory.1000", 2.2 * MEGABYTE),
    Target("memory, N = 1000, anonymous", "anonymous.1000", None),
    Target("100 programs, captured: start, last child", "programs.last", 1.0, SUPERVISORS),
    Target("100 programs, captured: start, to 100 copies", "programs.last", None, OURS, reference="start.100.last"),
    Target("100 programs, captured: memory", "programs.memory", 1.0, SUPERVISORS),
    Target("100 programs, captured: memory, to 100 copies", "programs.memory", None, OURS, reference="memory.100"),
    Target("captured output, raw", "capture.raw", 1.0, SUPERVISORS),
    Target("captured output, raw, to the limit", "capture.raw", None, LIMITS),
    Target("captured output, lines with a prefix", "capture.prefix", 1.0, SUPERVISORS),
    Target("captured output, JSON, to our raw", "capture.json", None, OURS, reference="capture.raw"),
    Target("asked what 100 programs do", "control.ask.every", 1.0, SUPERVISORS),
    Target("asked what one of 100 does", "control.ask.one", 1.0, SUPERVISORS),
    Target("status command, 100 programs", "control.status.every", None, SUPERVISORS),
    Target("status command, one of 100", "control.status.one", None, SUPERVISORS),
    Target("self-upgrade with 100 processes", "upgrade", 1.0, ("systemd --user",)),
    Target("copy of 1 GiB, in memory", "copy.memory.large", 0.95, ("cp",)),
    Target("copy of 10,000 files, in memory", "copy.memory.small", 0.95, ("cp",)),
    Target("copy of 1 GiB, durable", "copy.disk.large", 0.95, ("cp",)),
    Target("copy of 10,000 files, durable", "copy.disk.small", 0.95, ("cp",)),
    Target("hash of 1 GiB, `init --format json`", "hash.command", 0.95, ("openssl",)),
    Target("hash of 1 GiB, agent", "hash.agent", 0.95, ("openssl",), reference="hash.command"),
    Target("known hash over HTTP", "serve.http.rate", None, ("nginx",)),
    Target("known hash over HTTP, p99", "serve.http.p99", None, ("nginx",)),
    Target("known hash over TLS", "serve.https.rate", None, ("nginx",)),
    Target("known hash over TLS, p99", "serve.https.p99", None, ("nginx",)),
    Target("TLS handshakes", "handshake.rate", None, ("nginx",)),
    Target("agent's memory, idle", "agent.plain", 6.0 * MEGABYTE),
    Target("agent's memory, idle, TLS", "agent.tls", 6.0 * MEGABYTE),
    Target("agent's memory, 200 TLS connections", "agent.connections", None, ("nginx",)),
    Target("configuration active after a swap, p99", "swap.off", None, statistic="p99"),
    Target("the same, Kubernetes API hung, p99", "swap.hung", 5e6, statistic="p99"),
    Target("annotation visible after a swap, p50", "annotation.time", 20e6),
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


def rate(value):
    return f"{value:,.0f} MB/s"


def plain(value):
    return f"{value:,.0f}"


def fraction(value):
    return f"{value:.2f}"


def per_second(what):
    return lambda value: f"{value:,.0f} {what}/s"


PER_SECOND = {"copy.memory.small": "files", "copy.disk.small": "files", "serve.http.rate": "requests",
              "serve.https.rate": "requests", "handshake.rate": "connections"}
PER_SECOND = {key: per_second(what) for key, what in PER_SECOND.items()}


def unit_of(key):
    """How values under a key are written."""
    if key in PER_SECOND:
        return PER_SECOND[key]
    if (key.startswith(("memory.", "anonymous.", "agent."))
            or key in ("programs.memory", "programs.anonymous", "size")):
        return megabytes
    if key.startswith(("capture.", "copy.", "hash.")):
        return rate
    if key in ("annotation.pod", "annotation.all"):
        return fraction
    if (key.startswith(("switches.", "processes.", "control.rate."))
            or key in ("wrap.instructions", "wrap.calls", "programs.processes")):
        return plain
    return duration


@dataclasses.dataclass(frozen=True)
class Column:
    title: str
    key: str
    statistic: str = "p50"


@dataclasses.dataclass(frozen=True)
class Table:
    """One measure. Times and rates are followed by their ratios to what is named in `base`, and where this is not
    ours, also to the better limit."""

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
    Table("10,000 orphans that end at once, to the last one reaped", "orphans", "wraps",
          (Column("p50", "orphans.end"),), base="limit-spawn"),
    Table("Orderly stop of 100 children", "stop", "launches",
          (Column("p50", "stop.100"), Column("p99", "stop.100", "p99")), base="limit-spawn"),
    Table("Idle: context switches in 10 s", "idle", "launches",
          tuple(Column(f"N = {n}", f"switches.{n}") for n in (1, 100, 1000))),
    Table("Idle: memory without the children: PSS, and the anonymous part of it", "idle", "launches",
          tuple(column for n in (1, 100, 1000)
                for column in (Column(f"N = {n}", f"memory.{n}"), Column("anonymous", f"anonymous.{n}")))),
    Table("Idle: processes without the children", "idle", "launches",
          tuple(Column(f"N = {n}", f"processes.{n}") for n in (1, 100, 1000))),
    Table("Idle in wrap mode", "idle", "wraps",
          (Column("context switches in 10 s", "switches.wrap"), Column("memory (PSS)", "memory.wrap"),
           Column("anonymous", "anonymous.wrap"))),
    Table("100 programs, each with its output captured: start to the last child's first instruction, memory (PSS)",
          "programs", "captures",
          (Column("start", "programs.last"), Column("start of 100 copies, not captured", "start.100.last"),
           Column("memory", "programs.memory"), Column("anonymous", "programs.anonymous"),
           Column("memory of 100 copies", "memory.100"), Column("anonymous", "anonymous.100"),
           Column("processes", "programs.processes")), base="triton-launch"),
    Table("Captured output into a rotated file, lines of 100 bytes", "capture", "captures",
          (Column("raw", "capture.raw"), Column("prefixed lines", "capture.prefix"), Column("JSON", "capture.json")),
          base="triton-launch"),
    Table("Asked over one open connection what 100 programs do", "control", "answers",
          (Column("p50", "control.ask.every"), Column("p99", "control.ask.every", "p99"),
           Column("requests per second", "control.rate.every")), base="triton-launch"),
    Table("Asked over one open connection what one of 100 programs does", "control", "answers",
          (Column("p50", "control.ask.one"), Column("p99", "control.ask.one", "p99"),
           Column("requests per second", "control.rate.one")), base="triton-launch"),
    Table("The status command, start to reaped", "control", "answers",
          (Column("100 programs, p50", "control.status.every"), Column("p99", "control.status.every", "p99"),
           Column("one of them, p50", "control.status.one"), Column("p99", "control.status.one", "p99")),
          base="triton-launch"),
    Table("Self-upgrade with 100 processes, the command's start to its end", "upgrade", "upgrades",
          (Column("p50", "upgrade"), Column("p99", "upgrade", "p99")), base="triton-launch"),
    Table("Copies with one command", "copy", "copies",
          (Column("1 GiB, in memory", "copy.memory.large"), Column("10,000 files, in memory", "copy.memory.small"),
           Column("1 GiB, durable", "copy.disk.large"), Column("10,000 files, durable", "copy.disk.small")),
          base="triton-launch"),
    Table("SHA-256 of a file of 1 GiB", "hash", "hashes",
          (Column("command", "hash.command"), Column("the agent's answer", "hash.agent")), base="triton-launch"),
    Table("A known hash (nginx: a file of that size) over 16 kept connections", "serve", "serves",
          (Column("HTTP", "serve.http.rate"), Column("p99", "serve.http.p99"), Column("TLS", "serve.https.rate"),
           Column("p99", "serve.https.p99")), base="triton-launch"),
    Table("New TLS connections, one request each, 16 at a time", "handshake", "serves",
          (Column("connections", "handshake.rate"),), base="triton-launch"),
    Table("Private memory of the agent (nginx: of both processes)", "agent", "serves",
          (Column("idle", "agent.plain"), Column("idle, TLS", "agent.tls"),
           Column("200 TLS connections", "agent.connections"))),
    Table("Swap of a ConfigMap's link, to the configuration being active", "swap", "reports",
          (Column("p50", "swap.off"), Column("p99", "swap.off", "p99"),
           Column("Kubernetes API hung, p50", "swap.hung"), Column("p99", "swap.hung", "p99"))),
    Table("Swap of a ConfigMap's link, to the pod's annotation as a client of kube-apiserver sees it", "annotation",
          "reports",
          (Column("p50", "annotation.time"), Column("p99", "annotation.time", "p99"),
           Column("writes of the pod per swap", "annotation.pod"),
           Column("all API writes per swap", "annotation.all"))),
    Table("Size of the program files", "size", "all", (Column("bytes", "size"),)),
]


class Results:
    """Samples with questions one asks of them."""

    def __init__(self, samples, reasons, absent):
        self.samples, self.reasons, self.absent = samples, reasons, absent
        self.baseline = json.loads(BASELINE.read_text())["figures"]

    def value(self, key, name, statistic="p50"):
        samples = self.samples.get(key, {}).get(name)
        return STATISTICS[statistic](samples) if samples else None

    def best(self, key, names, statistic="p50"):
        """The best value under a key and whose it is, of those contenders; (None, "") when there is none."""
        values = [(v, name) for name in names if (v := self.value(key, name, statistic)) is not None]
        choose = max if key.startswith(HIGHER) else min
        return choose(values, default=(None, ""))

    def reached(self, target):
        """Our value, the best reference's value and name, and what the target is about: their ratio, or our value."""
        ours = self.value(target.key, "triton-launch", target.statistic)
        reference, name = self.best(target.reference_key, target.against, target.statistic)
        if ours is None or (target.against and reference is None):
            return ours, reference, name, None
        return ours, reference, name, ours / reference if target.against else ours

    def judge(self, target):
        """A row (figure, ours, reference, ratio, target, result, change)."""
        unit = unit_of(target.key)
        higher = target.key.startswith(HIGHER)
        ours, reference, name, reached = self.reached(target)
        word = "below" if target.below else "at least" if higher else "at most"
        goal = "-" if target.goal is None else f"{word} {f'{target.goal:g} x' if target.against else unit(target.goal)}"
        row = [target.text, "-" if ours is None else unit(ours),
               "-" if reference is None else f"{unit(reference)} ({name})", "-", goal]
        if reached is None:
            why = self.reasons.get(target.key, {}).get("triton-launch")
            return [*row, f"not measured{': ' + why if why else ''}", "-"]
        if target.against:
            row[3] = f"{reached:.2f} x"
        if target.goal is None:
            verdict = "no target"
        elif reached == target.goal:
            verdict = "missed" if target.below else "met"
        else:
            verdict = "met" if (reached > target.goal) == higher else "missed"
        return [*row, verdict, self.change(target, reached, higher)]

    def figures(self):
        """What each target is about, as baseline.json holds it."""
        values = {target.text: self.reached(target)[3] for target in TARGETS}
        return {text: round(value, 4) for text, value in values.items() if value is not None}

    def change(self, target, reached, higher):
        """The ratio, or the value where there is no ratio, against that of the run that was published last."""
        published = self.baseline.get(target.text)
        if published is None:
            return "-"
        if not published:
            return "same" if not reached else "WORSE"
        change = reached / published - 1
        worse = -change if higher else change
        return f"{change:+.0%}{' WORSE' if worse > WORSE else ''}"

    def cell(self, column, name, base):
        value = self.value(column.key, name, column.statistic)
        if value is None:
            return self.reasons.get(column.key, {}).get(name, "-")
        text = unit_of(column.key)(value)
        if not base or unit_of(column.key) not in (duration, rate, *PER_SECOND.values()):
            return text
        references = [self.value(column.key, base, column.statistic)]
        if base not in OURS:
            references.append(self.best(column.key, LIMITS, column.statistic)[0])
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
    head = ["figure", "triton-launch", "reference", "ratio", "target", "result", "to published"]
    wanted = {column.key for table in TABLES if table.measure in measures for column in table.columns}
    parts += ["## Targets", markdown([head, *(results.judge(target) for target in TARGETS if target.key in wanted)])]
    parts.append("The reference is the best of the contenders that the target compares with. \"To published\" is the "
                 "change of the\nratio, or of the value where there is no ratio, against the run that was published "
                 "last; more than 5 % in the\nwrong direction is WORSE.")
    parts.append("Times and rates are medians unless a column says p99. In brackets stand their ratios to the "
                 "posix_spawn limit\n(in wrap mode: to a bare spawn) and to the better of the two limits; where there "
                 "is not a limit, the ratio to\ntriton-launch.")
    for table in TABLES:
        rows = results.table(table, contenders) if table.measure in measures else []
        if len(rows) > 1:
            parts += [f"## {table.title}", markdown(rows)]
    return "\n\n".join(parts) + "\n"

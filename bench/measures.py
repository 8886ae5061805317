"""The measurements. Each takes a Bench and adds samples under a key such as `start.100.last`. Contenders take turns in
every round, in an order that is shuffled, so that the noise of the machine hits all of them alike and nobody always
follows the same predecessor."""

import random
import signal
import subprocess
import time

import serving
import staging
from meter import (MeasureError, Session, anonymous_size, context_switches, descendants, end_everything, processes,
                   proportional_size, supervisor_processes)
from peers import FILE_SIZE, JSON, PREFIX, RAW


class Bench:
    """What is measured with what, and the samples so far."""

    def __init__(self, meter, contenders, quick, progress, settled_rounds=1, least_rounds=1):
        self.meter, self.contenders, self.quick, self.progress = meter, contenders, quick, progress
        self.least_rounds = least_rounds  # of a measure that has several
        self.settled_rounds = settled_rounds  # how often memory is measured, after the time that it needs to settle
        self.shuffle = random.Random(1)
        self.samples = {}   # key -> contender -> list of numbers
        self.reasons = {}   # key -> contender -> why there is no number

    def amount(self, full, quick):
        return quick if self.quick else full

    def add(self, key, contender, value):
        self.samples.setdefault(key, {}).setdefault(contender.name, []).append(value)

    def refuse(self, keys, contender, reason):
        for key in keys:
            self.reasons.setdefault(key, {})[contender.name] = str(reason)

    def able(self, kind):
        """The contenders that can do this kind of work and are here."""
        return [c for c in self.contenders if getattr(c, kind) and c.missing() is None]

    def rounds(self, count, contenders, keys, measure):
        """Calls measure(contender, round) in turns. A contender that fails is refused and left out from then on."""
        alive = list(contenders)
        count = max(count, self.least_rounds) if count > 1 else count
        for i in range(count):
            self.progress(f"{keys[0]}: round {i + 1} of {count}")
            for contender in self.shuffle.sample(alive, len(alive)):
                try:
                    measure(contender, i)
                except (MeasureError, OSError, subprocess.SubprocessError) as error:
                    self.refuse(keys, contender, error)
                    alive.remove(contender)


def skipped(contender, i):
    """Contenders that take much longer take part in every fifth round only."""
    return contender.slow and i % 5 != 0


def wrap(bench):
    """Start of `X -- true` to X being reaped, and X's own instructions and system calls."""
    true = [str(bench.meter.built / "true")]
    warm = 5

    def once(contender, i):
        elapsed = bench.meter.run(contender.wrap(true))
        if i >= warm:
            bench.add("wrap.time", contender, elapsed)

    def count(contender, _):
        bench.add("wrap.instructions", contender, bench.meter.count(contender.wrap(true), steps=True))
        bench.add("wrap.calls", contender, bench.meter.count(contender.wrap(true), steps=False))

    contenders = bench.able("wraps")
    bench.rounds(warm + bench.amount(500, 50), contenders, ["wrap.time"], once)
    bench.rounds(1, [c for c in contenders if c.name != "no init"],
                 ["wrap.instructions", "wrap.calls"], count)


def start(bench):
    """Start of the supervisor to the first instruction of the first and of the last of N children."""
    for count, rounds in bench.amount(((1, 100), (10, 50), (100, 20), (1000, 10)), ((1, 10), (10, 3), (100, 2))):
        def once(contender, i, count=count):
            if skipped(contender, i):
                return
            session = Session(bench.meter, contender, count * 2)
            try:
                first, last = session.launch(count)
            finally:
                end_everything()
                session.close()
            bench.add(f"start.{count}.first", contender, first)
            bench.add(f"start.{count}.last", contender, last)
        bench.rounds(rounds, bench.able("launches"), [f"start.{count}.last", f"start.{count}.first"], once)


def fleet(bench, key, kind, capacity, begin):
    """Starts all contenders side by side, each with its own area. They only wait, but for the one whose turn it is.
    Returns the session of each."""
    sessions = {}

    def open_one(contender, _):
        sessions[contender] = Session(bench.meter, contender, capacity)
        begin(sessions[contender])

    contenders = [c for c in bench.able(kind) if c.name != "no init"]
    bench.rounds(1, contenders, [key], open_one)
    refused = bench.reasons.get(key, {})
    return {c: s for c, s in sessions.items() if c.name not in refused}


def rest(session):
    """Lets the youngest child become older than a second: after shorter runs s6, runit and daemontools wait."""
    time.sleep(max(0.0, session.touched + 1.1 - time.monotonic()))


def _kill(bench, key, count, rounds):
    sessions = fleet(bench, key, "launches", count * (rounds + 2), lambda session: session.launch(count))

    def once(contender, i):
        if skipped(contender, i):
            return
        session = sessions[contender]
        rest(session)
        bench.add(key, contender, session.signal(session.children(count), signal.SIGKILL))

    try:
        bench.rounds(rounds, sessions, [key], once)
    finally:
        end_everything()


def kill(bench):
    """SIGKILL of the one child to the first instruction of its replacement."""
    _kill(bench, "kill.1", 1, bench.amount(100, 5))


def kill100(bench):
    """The first of 100 SIGKILLs in a row to the first instruction of the last replacement."""
    _kill(bench, "kill.100", 100, bench.amount(20, 2))


def signals(bench):
    """SIGUSR1 to the init to the first instruction on the clock in its child's handler."""
    rounds = bench.amount(1000, 100)
    sessions = fleet(bench, "signal", "wraps", rounds + 8, lambda session: session.wrap("signal"))
    try:
        bench.rounds(rounds, sessions, ["signal"],
                     lambda c, _: bench.add("signal", c, sessions[c].signal([sessions[c].pid], signal.SIGUSR1, 5)))
    finally:
        end_everything()


def orphans(bench):
    """10,000 orphans (1,000 when quick) handed over dead, or that end at once, to the last being reaped by X as PID 1."""
    count = bench.amount(10000, 1000)
    contenders = [c for c in bench.able("wraps") if c.name != "no init"]
    bench.rounds(bench.amount(15, 5), contenders, ["orphans"],
                 lambda c, _: bench.add("orphans", c, bench.meter.orphans(c, count)))
    bench.rounds(bench.amount(15, 5), contenders, ["orphans.end"],
                 lambda c, _: bench.add("orphans.end", c, bench.meter.orphans(c, count, "end")))


def stop(bench):
    """The request to stop to the end of the last process, with 100 children."""
    def once(contender, i):
        if skipped(contender, i):
            return
        session = Session(bench.meter, contender, 200)
        try:
            session.launch(100)
            rest(session)
            bench.add("stop.100", contender, session.stop())
        finally:
            end_everything()
            session.close()
    bench.rounds(bench.amount(40, 2), bench.able("launches"), ["stop.100"], once)


def idle(bench):
    """Memory of a supervisor without its children, and its context switches in 10 s of nothing (0.7 s when quick)."""
    settle, seconds = bench.amount((2, 10), (0.3, 0.7))

    def memory(key, count, begin):
        """One after the other, because pages that contenders share would count less."""
        def measure(contender, _):
            session = Session(bench.meter, contender, count * 2)
            try:
                begin(session)
                time.sleep(settle)
                supervisor = supervisor_processes(session.children(count))
                bench.add(f"memory.{key}", contender, proportional_size(supervisor))
                bench.add(f"anonymous.{key}", contender, anonymous_size(supervisor))
                bench.add(f"processes.{key}", contender, len(supervisor))
            finally:
                end_everything()
                session.close()
        return measure

    def switches(key, kind, count, begin):
        """All side by side, because nobody does anything."""
        sessions = fleet(bench, f"switches.{key}", kind, count * 2, begin)
        supervisors, before = {}, {}

        def find(contender, _):
            supervisors[contender] = descendants(sessions[contender].pid, sessions[contender].children(count))

        def begin_count(contender, _):
            before[contender] = context_switches(supervisors[contender])

        def end_count(contender, _):
            after = context_switches(supervisors[contender])
            bench.add(f"switches.{key}", contender, after - before[contender])

        try:
            time.sleep(settle + 1)
            bench.rounds(1, sessions, [f"switches.{key}"], find)
            bench.rounds(1, supervisors, [f"switches.{key}"], begin_count)
            time.sleep(seconds)
            bench.rounds(1, before, [f"switches.{key}"], end_count)
        finally:
            end_everything()
            for session in sessions.values():
                session.close()

    def both(key, kind, count, begin):
        contenders = [c for c in bench.able(kind) if c.name != "no init"]
        bench.rounds(bench.settled_rounds, contenders, [f"memory.{key}", f"anonymous.{key}", f"processes.{key}"],
                     memory(key, count, begin))
        switches(key, kind, count, begin)

    both("wrap", "wraps", 1, lambda session: session.wrap())
    for count in bench.amount((1, 100, 1000), (1, 100)):
        both(str(count), "launches", count, lambda session, count=count: session.launch(count))


def size(bench):
    """Bytes of the files that have to be shipped."""
    for contender in bench.contenders:
        if contender.missing() is None and contender.files():
            bench.add("size", contender, sum(file.stat().st_size for file in contender.files()))


def programs(bench):
    """100 programs in one configuration, each with captured output: start to the last one's first instruction, memory.
    The output goes to a rotated file for each, with prefixed lines where the contender has them."""
    settle = bench.amount(2, 0.3)
    keys = [f"programs.{what}" for what in ("first", "last", "memory", "anonymous", "processes")]

    def once(contender, i):
        if skipped(contender, i):
            return
        session = Session(bench.meter, contender, 200)
        try:
            form = PREFIX if PREFIX in contender.captures else contender.captures[0]
            argv = contender.capture(session.directory, 100, form, contender.worker())
            first, last = session.start(argv, 100)
            bench.add("programs.first", contender, first)
            bench.add("programs.last", contender, last)
            if i < bench.settled_rounds:
                time.sleep(settle)
                supervisor = supervisor_processes(session.children(100))
                bench.add("programs.memory", contender, proportional_size(supervisor))
                bench.add("programs.anonymous", contender, anonymous_size(supervisor))
                bench.add("programs.processes", contender, len(supervisor))
        finally:
            end_everything()
            session.close()

    bench.rounds(bench.amount(15, 2), [c for c in bench.able("captures") if not c.is_limit], keys, once)


def capture(bench):
    """Lines of 100 bytes, written for a second as fast as they are taken, into a file that is rotated: MB/s."""
    def once(contender, form):
        session = Session(bench.meter, contender, 3)
        try:
            argv = contender.capture(session.directory, 1, form, bench.meter.built / "worker-write")
            session.start(argv, 3)
            begin, end, count = (value for value, _ in session.records(0, 3))
            kept = sum(file.stat().st_size for file in session.directory.rglob("*") if file.is_file())
            if kept < min(count, FILE_SIZE) / 2:
                raise MeasureError(f"of {count} bytes only {kept} are in files")
            bench.add(f"capture.{form}", contender, count / (end - begin) * 1e3)
        finally:
            end_everything()
            session.close()

    for form in (RAW, PREFIX, JSON):
        bench.rounds(bench.amount(5, 1), [c for c in bench.able("captures") if form in c.captures],
                     [f"capture.{form}"], lambda contender, _, form=form: once(contender, form))


def control(bench):
    """What runs of 100 programs, and how one of them does: asked over one open connection, and by a command."""
    sessions = fleet(bench, "control.status.one", "answers", 200,
                     lambda session: session.start(session.contender.capture(
                         session.directory, 100, session.contender.captures[0], session.contender.worker()), 100))
    clients, batch = {}, 10

    def connect(contender, _):
        client = contender.client(sessions[contender].directory)
        if client is not None:
            for request in (client.every, client.one):
                if b"worker-0" not in (answer := client.ask(request)):
                    raise MeasureError(f"answered {answer[:200]}")
            clients[contender] = client

    def ask(contender, i):
        if skipped(contender, i):
            return
        client = clients[contender]
        for what, request in (("every", client.every), ("one", client.one)):
            times = [timed(client, request) for _ in range(batch)]
            for elapsed in times:
                bench.add(f"control.ask.{what}", contender, elapsed)
            bench.add(f"control.rate.{what}", contender, batch / sum(times) * 1e9)

    def command(contender, i):
        if skipped(contender, i):
            return
        for what in ("every", "one"):
            argv = contender.status(sessions[contender].directory, what == "every")
            bench.add(f"control.status.{what}", contender, bench.meter.run(argv))

    asked, commanded = ([f"control.{kind}.{what}" for what in ("every", "one")] for kind in ("ask", "status"))
    try:
        bench.rounds(1, sessions, asked, connect)
        bench.rounds(bench.amount(100, 10), clients, asked, ask)
        bench.rounds(bench.amount(50, 5), sessions, commanded, command)
        for client in clients.values():
            client.close()
    finally:
        end_everything()
        for session in sessions.values():
            session.close()


def timed(client, request):
    before = time.monotonic_ns()
    client.ask(request)
    return time.monotonic_ns() - before


def upgrade(bench):
    """The command that replaces a supervisor while its 100 children run, to its end: the new one has taken over."""
    def begin(session):
        session.launch(100)

    def once(contender, i):
        if skipped(contender, i):
            return
        session = sessions[contender]
        elapsed = bench.meter.run(contender.upgrade(session.directory))
        if session.seen != 100 or not set(session.children(100)) <= set(processes()):
            raise MeasureError("children were lost or started again")
        bench.add("upgrade", contender, elapsed)

    sessions = fleet(bench, "upgrade", "upgrades", 200, begin)
    try:
        bench.rounds(bench.amount(50, 5), sessions, ["upgrade"], once)
    finally:
        end_everything()
        for session in sessions.values():
            session.close()


MEASURES = {"wrap": wrap, "start": start, "kill": kill, "kill100": kill100, "signal": signals, "orphans": orphans,
            "stop": stop, "idle": idle, "programs": programs, "capture": capture, "control": control,
            "upgrade": upgrade, "copy": staging.copy, "hash": staging.hash_, "serve": serving.serve,
            "handshake": serving.handshake, "agent": serving.agent, "swap": serving.swap,
            "annotation": serving.annotation, "size": size}

"""Store with several runs, one of them running, and its dashboard on a free port."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from atoll import cluster, control, evaluation, function, store
from atoll.dashboard import server
from atoll.journal import Record
from tests import fixtures
from tests.runs import samples
from tests.store.samples import applied, founded, judged

TOKEN = "a token for tests"
FINISHED, OTHER, LLM_RUN, FAILING, HOSTILE, ELITES, LIVE = (
    "walk",
    "again",
    "asked",
    "failing",
    "hostile",
    "elites",
    "live",
)
TRAP = "globalThis.trapped = true"
MARKUP = (
    f"<img src=x onerror='{TRAP}'><script>{TRAP}</script><svg onload='{TRAP}'><a href='javascript:{TRAP}'>x</a></svg>"
    f"<iframe srcdoc='<script>parent.{TRAP}</script>'></iframe> [md](javascript:{TRAP}) ![i](http://example.org/x.png)"
)
BIDI = "total = 0 \u202e} ;cba\u202c \u2066if admin\u2069 \x1b[31mred\x1b[0m \x00 zero\u200bwidth \ud800"
LONG = "x = '" + "9" * 5_000_000 + "'"


class Stage:
    """A served store.

    Attributes:
        url: Address of the page.
        run_store: The store behind it.
        moves: Set while the live run makes steps.
    """

    def __init__(self, run_store: store.Store, running_server: server.DashboardServer, moves: threading.Event) -> None:
        self.run_store, self.login, self.moves = run_store, running_server.address, moves
        parts = urlsplit(running_server.address)
        self.host = parts.netloc
        self.url = f"{parts.scheme}://{parts.netloc}"

    def at(self, path: str) -> str:
        return f"{self.url}/ui/#/{path}"


def fill_hostile(run_store: store.Store) -> None:
    """Adds a run with markup, hidden characters and very long lines in all texts."""
    run_store.create_run(HOSTILE, samples.plan(folder=f"/tasks/{MARKUP.replace('/', '')}"))
    blob = run_store.blobs().put(f"{MARKUP}\n{BIDI}\n{LONG}".encode("utf-8", "replace"))
    written = [samples.started(MARKUP), founded(1.0, "start\n")]
    for step, text in enumerate((MARKUP, BIDI, LONG), 1):
        data = dict(judged(f"{step}.0", 1.0 + step, content=f"{text}\nline two\n", parents=[f"{step - 1}.0"]).data)
        result = evaluation.Evaluation(1.0 + step, (1.0, 2.0), {MARKUP: 1.0}, MARKUP, {f"note {BIDI}": blob})
        data |= {"evaluation": evaluation.to_data(result), "meta": {"engine": MARKUP}}
        reply = {"text": text, "prompt": f"{MARKUP}\n{text}", "model": MARKUP, "call": "0", "request": "x"}
        decision = {"id": f"{step}.0", "decision": ["accept", MARKUP, BIDI, None]}
        written += [Record("replied", step, 0, reply), Record("judged", step, 0, data), applied(step, decision)]
    written += [judged("4.0", None), applied(4, {"id": "4.0", "decision": ["reject", MARKUP, "judge", None]})]
    run_store.journal(HOSTILE).write(*written, Record("ended", 4, -1, {"reason": MARKUP}))


def fill_elites(run_store: store.Store) -> None:
    """Adds a run with feature cells and a Pareto front."""
    run_store.create_run(ELITES, samples.plan(system="programs"))
    records = run_store.journal(ELITES)
    records.write(samples.started())

    def evaluate(skeleton: function.AnySkeleton) -> evaluation.Evaluation:
        value = float(str(skeleton))
        metrics = {"value": value, "size": float(len(str(skeleton))), "cheap": -abs(value)}
        return evaluation.Evaluation(-((value - 3.0) ** 2), (value, -value), metrics)

    fixtures.make_evolver(
        start=fixtures.make_initial(evaluator=evaluate), records=records, ordered=True, window=2, iterations=40
    ).run()


class CalmWalker(fixtures.Walker):
    """Walks a few steps, and then only while `moves` is set: a page that follows steps takes half a core."""

    def __init__(self, steps: int = 20) -> None:
        super().__init__(delays=0.3)
        self.moves = threading.Event()
        self._steps = iter(range(steps))

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        if next(self._steps, None) is None:
            self.moves.wait()
        return super().propose(context)


class Live:
    """A cheap live run that obeys commands."""

    def __init__(self, run_store: store.Store, name: str = LIVE, walker: fixtures.Walker | None = None) -> None:
        section = {"danger_threshold": 0.7, "exploration_bonus": 1.0, "log_detail": "normal", "notifications": "all"}
        section |= {"tick_delay": None}
        plan = samples.plan(system="survival", survival=section)
        run_store.create_run(name, plan)
        self._claim = run_store.lock_run(name)
        records, budget = run_store.journal(name), control.Budget(iterations=5000)
        written = {"sandbox": "L0", "llm": "none", "workers": 1, "plan": plan, "budget": asdict(budget)}
        records.write(Record("started", 0, -1, written))
        self.evolver: cluster.Evolver = fixtures.make_evolver(
            walker or fixtures.Walker(delays=0.3), records=records, inbox=run_store.inbox(name), budget=budget
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._claim:
            self.evolver.run()

    def close(self) -> None:
        self.evolver.stop("stopped")
        self._thread.join(60)


@contextmanager
def serve(run_store: store.Store) -> Iterator[server.DashboardServer]:
    """Serves a store in a thread."""
    running_server = server.DashboardServer(run_store, host="127.0.0.1", port=0, token=TOKEN)
    thread = threading.Thread(target=running_server.run, daemon=True)
    thread.start()
    try:
        yield running_server
    finally:
        running_server.stop()
        thread.join(30)


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Creates and serves the store."""
    with store.Store(folder / "stage.db") as run_store:
        samples.walk(run_store, FINISHED, iterations=150)
        samples.walk(run_store, OTHER, seed=1)
        samples.ask(run_store, LLM_RUN)
        samples.fail(run_store, FAILING)
        fill_elites(run_store)
        fill_hostile(run_store)
        walker = CalmWalker()
        live = Live(run_store, walker=walker)
        with serve(run_store) as running_server:
            yield Stage(run_store, running_server, walker.moves)
        walker.moves.set()  # a stop waits for the step
        live.close()


def wait(condition: Any, seconds: float = 60.0) -> None:
    fixtures.wait_until(condition, seconds)

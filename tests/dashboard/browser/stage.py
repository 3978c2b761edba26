"""A store with runs of all kinds, one of them under way, and its dashboard on a free port."""

import threading
from collections.abc import Iterator
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
FINISHED, OTHER, ASKED, FAILING, HOSTILE, ELITES, LIVE = (
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
    """What the tests look at.

    Attributes:
        url: Where the page is.
        kept: The store behind it.
    """

    def __init__(self, kept: store.Store, served: server.DashboardServer) -> None:
        self.kept, self.login = kept, served.address
        parts = urlsplit(served.address)
        self.host = parts.netloc
        self.url = f"{parts.scheme}://{parts.netloc}"

    def at(self, path: str) -> str:
        return f"{self.url}/ui/#/{path}"


def hostile(kept: store.Store) -> None:
    """Stores candidates, an artifact, a prompt and a reply that want to be markup, and lines that want to be long."""
    kept.create_run(HOSTILE, samples.plan(folder=f"/tasks/{MARKUP.replace('/', '')}"))
    blob = kept.blobs().put(f"{MARKUP}\n{BIDI}\n{LONG}".encode("utf-8", "replace"))
    written = [samples.started(MARKUP), founded(1.0, "start\n")]
    for step, text in enumerate((MARKUP, BIDI, LONG), 1):
        data = dict(judged(f"{step}.0", 1.0 + step, content=f"{text}\nline two\n", parents=[f"{step - 1}.0"]).data)
        found = evaluation.Evaluation(1.0 + step, (1.0, 2.0), {MARKUP: 1.0}, MARKUP, {f"note {BIDI}": blob})
        data |= {"evaluation": evaluation.to_data(found), "meta": {"engine": MARKUP}}
        reply = {"text": text, "prompt": f"{MARKUP}\n{text}", "model": MARKUP, "call": "0", "request": "x"}
        decision = {"id": f"{step}.0", "decision": ["accept", MARKUP, BIDI, None]}
        written += [Record("replied", step, 0, reply), Record("judged", step, 0, data), applied(step, decision)]
    written += [judged("4.0", None), applied(4, {"id": "4.0", "decision": ["reject", MARKUP, "judge", None]})]
    kept.journal(HOSTILE).write(*written, Record("ended", 4, -1, {"reason": MARKUP}))


def elites(kept: store.Store) -> None:
    """Runs with cells by two features, and a front of two measures."""
    kept.create_run(ELITES, samples.plan(system="programs"))
    records = kept.journal(ELITES)
    records.write(samples.started())

    def judge(skeleton: function.AnySkeleton) -> evaluation.Evaluation:
        value = float(str(skeleton))
        metrics = {"value": value, "size": float(len(str(skeleton))), "cheap": -abs(value)}
        return evaluation.Evaluation(-((value - 3.0) ** 2), (value, -value), metrics)

    fixtures.make_evolver(start=fixtures.make_initial(evaluator=judge), records=records, ordered=True, window=2, iterations=40).run()


class Live:
    """A run under way that costs nothing: its engine sleeps most of the time, and it can be steered."""

    def __init__(self, kept: store.Store, name: str = LIVE) -> None:
        section = {"danger_threshold": 0.7, "exploration_bonus": 1.0, "log_detail": "normal", "notifications": "all"}
        section |= {"tick_delay": None}
        plan = samples.plan(system="survival", survival=section)
        kept.create_run(name, plan)
        self._claim = kept.lock_run(name)
        records, budget = kept.journal(name), control.Budget(iterations=5000)
        written = {"sandbox": "L0", "llm": "none", "workers": 1, "plan": plan, "budget": asdict(budget)}
        records.write(Record("started", 0, -1, written))
        self.evolver: cluster.Evolver = fixtures.make_evolver(
            fixtures.Walker(delays=0.3), records=records, inbox=kept.inbox(name), budget=budget
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
def served(kept: store.Store) -> Iterator[server.DashboardServer]:
    """Serves a store from a thread of its own."""
    found = server.DashboardServer(kept, host="127.0.0.1", port=0, token=TOKEN)
    thread = threading.Thread(target=found.run, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.stop()
        thread.join(30)


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Makes everything, and takes it away."""
    with store.Store(folder / "stage.db") as kept:
        samples.walk(kept, FINISHED, iterations=150)
        samples.walk(kept, OTHER, seed=1)
        samples.ask(kept, ASKED)
        samples.fail(kept, FAILING)
        elites(kept)
        hostile(kept)
        live = Live(kept)
        with served(kept) as found:
            yield Stage(kept, found)
        live.close()


def wait(condition: Any, seconds: float = 60.0) -> None:
    fixtures.wait_until(condition, seconds)

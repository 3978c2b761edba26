"""A run seen from outside: a live table on a terminal, elsewhere one line per improvement."""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from atoll import archipelago, config, control, errors, function, runs, system
from atoll.cli import output
from atoll.runs import looks, text

REFRESH_SECONDS = 0.1
QUIET_SECONDS = 10.0  # after which a pipe hears that the run is still alive
MANY_ISLANDS = 12  # more do not fit on a screen; the best of them are shown


class Watch(Protocol):
    """Shows a run while it is entered."""

    def refresh(self) -> None:
        """Draws what is new; to be called often."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...


def make_watch(session: runs.Session, console: Console) -> Watch:
    """Returns what suits the console."""
    is_live = console.is_terminal and not console.is_dumb_terminal
    return Board(session, console) if is_live else Lines(session, console)


def gist(program: str, start: str, system: str = "") -> str:
    """Returns what a program has that the start has not, on one line; of the start itself its last line, no comment."""
    if program != start or config.look(system) is not None:
        return looks.news(system, program, start)
    lines = [line.strip() for line in program.strip().split("\n")]
    return text.visible(next((line for line in reversed(lines) if line and not line.startswith("#")), lines[-1]))


def excerpt(program: str, num_lines: int = 30) -> str:
    """Returns a program, or its beginning where it is long."""
    lines = program.strip().splitlines()
    rest = [f"... {len(lines) - num_lines} more lines"] if len(lines) > num_lines else []
    return "\n".join([*lines[:num_lines], *rest])


def captions(session: runs.Session) -> Callable[[function.Function], system.Caption]:
    """Returns what tells of a candidate: the system, or what its text has that the start has not."""

    def tell(fn: function.Function) -> system.Caption:
        if session.caption is None:
            return system.Caption("", gist(str(fn.skeleton()), session.start, session.plan.system))
        rivals, told = session.caption(fn)
        return system.Caption(rivals, text.visible(told))

    return tell


class Silence:
    """Shows nothing."""

    def refresh(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass


class Board:
    """A table of the islands that changes in place."""

    def __init__(self, session: runs.Session, console: Console) -> None:
        self._evolver, self._budget, self._caption = session.evolver, session.budget, captions(session)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False)
        self._began_at = self._drawn_at = time.monotonic()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.update(self._draw(), refresh=True)
        self._live.stop()

    def refresh(self) -> None:
        if time.monotonic() - self._drawn_at >= REFRESH_SECONDS:
            self._live.update(self._draw(), refresh=True)
            self._drawn_at = time.monotonic()

    def _draw(self) -> Group:
        table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
        for heading in ("island", "resets", "best", "step"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
        with suppress(errors.NotFound):  # nothing is kept before the first judgement
            self._fill(table)
        return Group(table, Text(), Text(self._status(), style="dim", no_wrap=True, overflow="ellipsis"), Text())

    def _fill(self, table: Table) -> None:
        best = self._evolver.best_fn().evaluation
        rows = [(island, island.best_fn()) for island in self._evolver.islands]
        if len(rows) > MANY_ISLANDS:
            rows = sorted(rows, key=lambda row: function.rank_of(row[1]), reverse=True)[:MANY_ISLANDS]
        for island, fn in rows:
            numbers = (str(island.index), str(island.epoch), text.number(fn.score()), str(_step(fn)))
            is_best = fn.evaluation is best
            table.add_row(*numbers, Text(self._caption(fn).text), style="bold green" if is_best else "")

    def _status(self) -> str:
        spent, seconds = self._evolver.spending, time.monotonic() - self._began_at
        rate = spent.evaluations / max(seconds, 0.001)
        parts = [f"{spent.iterations:,} steps", f"{spent.evaluations:,} judged", f"{rate:,.0f}/s", f"{seconds:.0f} s"]
        if spent.cost.calls:
            tokens = spent.cost.tokens_in + spent.cost.tokens_out
            parts[2:2] = [f"{spent.cost.calls:,} calls", f"{tokens:,} tokens", f"${spent.cost.usd:.4f}"]
        left = seconds_left(self._budget, spent, seconds)
        return "   ".join([*parts, *([f"{left:.0f} s left"] if left is not None else [])])


def seconds_left(budget: control.Budget, spent: control.Spending, seconds: float) -> float | None:
    """Estimates when the first limit will be reached, or None if no limit is near enough to tell."""
    cost = spent.cost
    used = {"iterations": spent.iterations, "evaluations": spent.evaluations, "calls": cost.calls, "usd": cost.usd}
    used |= {"seconds": seconds, "tokens": cost.tokens_in + cost.tokens_out}
    limits = {name: getattr(budget, name) for name in used}
    shares = [value / limit for name, value in used.items() if (limit := limits[name])]
    share = max(shares, default=0.0)
    return max(0.0, seconds / share - seconds) if share > 0.01 else None


class Lines:
    """One line for each candidate that is better than all its rivals before, and now and then a sign of life."""

    def __init__(self, session: runs.Session, console: Console) -> None:
        self._evolver, self._caption, self._console = session.evolver, captions(session), console
        self._bests, self._began_at = dict[str, float](), time.monotonic()
        self._said_at = self._began_at
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        self._exits.callback(self._evolver.islands[0].use_profiler(self._hear))  # one hears the whole ring
        return self

    def __exit__(self, *raised: object) -> None:
        self._exits.close()

    def refresh(self) -> None:
        if time.monotonic() - self._said_at >= QUIET_SECONDS:
            spent, best = self._evolver.spending, max(self._bests.values(), default=None)
            self._say(spent.iterations, f"{spent.evaluations:,} judged, best {text.number(best)}")

    def _say(self, step: int, told: str) -> None:
        self._said_at = time.monotonic()
        output.say(self._console, f"{self._said_at - self._began_at:7.1f} s  step {step:>6,}  {told}")

    def _hear(self, event: archipelago.IslandEvent) -> None:
        fn = event.payload
        if not self._bests:
            self._remember(_step(fn))
        if self._is_news(fn):
            self._say(_step(fn), f"best {text.number(fn.score()):>12}  {self._caption(fn).text[:100]}")

    def _remember(self, step: int) -> None:
        """Notes what a run that goes on had found before that step, which others are to beat."""
        with suppress(errors.NotFound):
            for best in (self._evolver.best_fn(), *(island.best_fn() for island in self._evolver.islands)):
                if _step(best) < step:
                    self._is_news(best)

    def _is_news(self, fn: function.Function) -> bool:
        """Notes the score of a candidate and says whether it is better than all its rivals before."""
        score, rivals = fn.evaluation.score if fn.evaluation else None, self._caption(fn).rivals
        if score is None or score <= self._bests.get(rivals, -float("inf")):
            return False
        self._bests[rivals] = score
        return True


def _step(fn: function.Function) -> int:
    return fn.candidate.step if fn.candidate else 0

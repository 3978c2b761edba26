"""A run seen from outside: a live table on a terminal, elsewhere one line per improvement."""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from atoll import archipelago, cluster, errors, function

REFRESH_SECONDS = 0.1


class Words(NamedTuple):
    """A function in words: how far off it is, and how it reads."""

    off_by: str
    text: str


type Describe = Callable[[function.Function], Words]


class Watch(Protocol):
    """Shows a run while it is entered."""

    def refresh(self) -> None:
        """Draws what is new; to be called often."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...


def make_watch(evolver: cluster.Evolver, describe: Describe, console: Console) -> Watch:
    """Returns what suits the console."""
    is_live = console.is_terminal and not console.is_dumb_terminal
    return Board(evolver, describe, console) if is_live else Lines(evolver, describe, console)


class Board:
    """A table of the islands that changes in place."""

    def __init__(self, evolver: cluster.Evolver, describe: Describe, console: Console) -> None:
        self._evolver, self._describe = evolver, describe
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
        for heading in ("island", "resets"):
            table.add_column(heading, justify="right")
        table.add_column("best is off by", min_width=16)
        table.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
        with suppress(errors.NotFound):  # nothing is kept before the first judgement
            best = self._evolver.best_fn().evaluation
            for island in self._evolver.islands:
                fn = island.best_fn()
                style = "bold green" if fn.evaluation is best else ""
                table.add_row(str(island.index + 1), str(island.epoch), *self._describe(fn), style=style)
        spent, seconds = self._evolver.spending, time.monotonic() - self._began_at
        parts = (f"{spent.iterations:,} steps", f"{spent.iterations / max(seconds, 0.001):,.0f} steps/s")
        status = "   ".join((*parts, f"{spent.evaluations:,} judged", f"{seconds:.1f} s"))
        return Group(table, Text(), Text(status, style="dim"), Text())


class Lines:
    """One line for each function that is better than all before."""

    def __init__(self, evolver: cluster.Evolver, describe: Describe, console: Console) -> None:
        self._evolver, self._describe, self._console = evolver, describe, console
        self._best, self._began_at = -float("inf"), time.monotonic()
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        self._exits.callback(self._evolver.islands[0].use_profiler(self._hear))  # one hears the whole ring
        return self

    def __exit__(self, *raised: object) -> None:
        self._exits.close()

    def refresh(self) -> None:
        pass

    def _hear(self, event: archipelago.IslandEvent) -> None:
        fn = event.payload
        score = fn.evaluation.score if fn.evaluation else None
        if score is None or score <= self._best:
            return
        self._best = score
        step, words = fn.candidate.step if fn.candidate else 0, self._describe(fn)
        when = f"{time.monotonic() - self._began_at:6.1f} s  step {step:>6,}"
        self._console.print(f"{when}  off by {words.off_by:16}  {words.text}", soft_wrap=True)

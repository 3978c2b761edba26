"""A real run for somebody who sees Atoll for the first time: the example `funsearch_clusters`, explained and saved."""

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from atoll import cluster, function, store
from atoll.cli import examples, watching

EXAMPLE, NEXT = "funsearch_clusters.py", "map_elites.py"


class Limits(NamedTuple):
    """When to stop at the latest."""

    steps: int
    seconds: float


def show(limits: Limits, *, seed: int, workers: int, store_url: str, as_json: bool) -> int:
    """Explains, runs, saves and sums up; returns the exit status.

    What happens on the way goes to stderr, and the result to stdout; with `as_json` that is one line for a program.
    """
    kernel_dir = examples.examples_dir() / "kernel"
    example, screen = examples.load(kernel_dir / EXAMPLE), Console(stderr=True, highlight=False)

    def describe(fn: function.Function) -> watching.Words:
        return watching.Words(off_by(score_of(fn)), f"energy = {example.formula_of(fn)}")

    start = example.make_start()
    start.evaluate()
    with store.Store(store_url) as kept:
        explain(screen, example.TABLE, describe(start))
        run = kept.create(config={"example": EXAMPLE, "seed": seed, "workers": workers, **limits._asdict()})
        evolver = example.build(limits.steps, seed=seed, workers=workers, records=kept.journal(run))
        since = time.monotonic()
        with kept.claim(run), watching.make_watch(evolver, describe, screen) as watch:
            status = follow(evolver, watch, limits.seconds, screen)
        seconds = time.monotonic() - since
    best, spent = evolver.best_fn(), evolver.spending
    out = screen if as_json else Console(highlight=False)
    ending = "An exact formula" if score_of(best) == 0.0 else f"Stopped ({evolver.reason})"
    say(out, f"{ending} after {seconds:.1f} s: {spent.iterations:,} steps, {spent.evaluations:,} formulas judged.\n")
    compare(out, {"start": describe(start), "best": describe(best)})
    say(out, f"\nSaved as run {run} in {store_url}. Next:")
    for why, command in next_commands(seed, kernel_dir / NEXT):
        say(out, f"  {why + ':':32}  {command}")
    if as_json:
        scores = {"initial_score": score_of(start), "best_score": score_of(best)}
        took = {"evaluations": spent.evaluations, "seconds": round(seconds, 3)}
        print(json.dumps({"run": run, "status": status, **scores, **took}))
    return 0


def explain(screen: Console, rows: Iterable[Any], start: watching.Words) -> None:
    """Says what is looked for and shows the data."""
    say(screen, "Which formula gives the energy of a moving thing from its mass and its speed?")
    say(screen, "No key, no LLM: formulas are rewritten at random; what fits better lives on.\n")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for heading in ("mass (kg)", "speed (m/s)", "energy (J)"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(row.thing, f"{row.mass:,}", f"{row.speed:,}", f"{row.energy:,}")
    screen.print(table)
    say(screen, f"\nWe start with {start.text}, which is off by {start.off_by} on average.\n")


def follow(evolver: cluster.Evolver, watch: watching.Watch, seconds: float, screen: Console) -> str:
    """Runs to the end, or to the end of the time, or to Ctrl-C; a second Ctrl-C passes through."""
    try:
        evolver.start()
        deadline = time.monotonic() + seconds
        while not evolver.reason and time.monotonic() < deadline:
            time.sleep(0.02)
            watch.refresh()
        evolver.stop(f"{seconds:g} s are over")
    except KeyboardInterrupt:
        say(screen, "Finishing the steps at work; Ctrl-C again stops at once.")
        evolver.stop("interrupted")
        return "interrupted"
    return "done"


def compare(out: Console, lines: dict[str, watching.Words]) -> None:
    width = max(len(words.text) for words in lines.values())
    for name, words in lines.items():
        say(out, f"  {name:5}  {words.text:{width}}  off by {words.off_by}")


def score_of(fn: function.Function) -> float:
    found = fn.evaluation
    return -float("inf") if found is None or found.score is None else found.score


def off_by(score: float) -> str:
    """Says in words what a score of this example means."""
    factor = 2.0**-score
    return "nothing" if score == 0.0 else f"{factor - 1:.2%}" if factor < 1.1 else f"a factor of {factor:.3g}"


def next_commands(seed: int, example: Path) -> Iterable[tuple[str, str]]:
    """Returns what to do next, with commands that work as they stand."""
    yield "another way to the same law", f"{own_name()} demo --seed {seed + 7}"
    yield "other parts on the same evolver", f"{shown(Path(sys.executable))} {shown(example)}"


def own_name() -> str:
    """Returns how this program is started from here."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        is_wrapped = Path("atoll").is_file() and os.access("atoll", os.X_OK)
        return "./atoll" if is_wrapped else f"{shown(Path(sys.executable))} -m atoll"
    on_path = shutil.which(program.name)
    return program.name if on_path and program.exists() and program.samefile(on_path) else shown(program)


def shown(path: Path) -> str:
    """Returns a path as one would type it here."""
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def say(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, markup=False)

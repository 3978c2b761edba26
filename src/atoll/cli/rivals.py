"""Baselines as the command line runs them: one after the other, after the run that they are compared with."""

import os
from collections.abc import Callable, Sequence

from rich.console import Console

from atoll import errors, runs, store
from atoll.cli import options, output
from atoll.runs import baselines, text

type Play = Callable[[runs.Session], None]  # runs a session to its end


def play(
    kept: store.Store, run: str, allowed: runs.Allowed, screen: Console, is_quiet: bool, go: Play
) -> Sequence[baselines.Baseline]:
    """Runs all baselines of a run and returns them, those that cannot be run with the reason."""
    found = list[baselines.Baseline]()
    for each in baselines.find(kept, run):
        try:
            session = baselines.start(kept, run, each.name, allowed=allowed)
        except errors.SetupError as error:
            found.append(baselines.Baseline(each.name, None, str(error)))
            continue
        if not is_quiet:
            output.say(screen, f"Baseline {each.title}: run {session.run}.")
        with session:
            go(session)
        summary = runs.summarise(kept, session.run)
        found.append(baselines.Baseline(each.name, summary, summary.reason))
        if summary.status == "interrupted":
            break
    known = {each.name for each in found}
    return [*found, *(each for each in baselines.find(kept, run) if each.name not in known)]


def tell(console: Console, kept: store.Store, found: Sequence[baselines.Baseline], summary: runs.Summary) -> None:
    """Says what the baselines reached, or how to run them."""
    if all(each.summary is None and not each.why for each in found):
        how = f": {output.own_name()} resume {summary.run} --baselines{place_of(kept)}" if found else "."
        output.say(console, f"\nBaselines: not run{how}")
        return
    command = f"{output.own_name()} resume {summary.run} --baselines{place_of(kept)}"
    output.say(console, f"\n{baselines.heading(found, command)}:")
    for each in found:
        if each.summary is None:
            output.say(console, f"  {each.title:24} not run{f': {each.why}' if each.why else ''}")
            continue
        used, end = each.summary.totals, "" if each.summary.status == "done" else f", {each.summary.reason}"
        took = f"{used.evaluations:,} judged" + (f", {used.cost.calls:,} calls" if used.cost.calls else "")
        score = text.number(each.summary.best_score)
        output.say(console, f"  {each.title:24} {score:>12}  {took}, run {each.summary.run}{end}")
    if (best := baselines.winner(found, summary.best_score)) is not None and best.summary is not None:
        look = f"{output.own_name()} best {best.summary.run}{place_of(kept)}"
        output.say(console, f"  {best.title} found more than this run: {look}")


def place_of(kept: store.Store) -> str:
    """Returns what a command needs to find the store, where it is not the usual one."""
    where = kept.database.name
    return "" if where == os.environ.get("ATOLL_STORE", options.DEFAULT_STORE) else f" --store {output.quoted(where)}"

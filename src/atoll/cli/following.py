"""A session from its start to its last line: shown while it runs, summed up at its end."""

import gc
import logging
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from rich.console import Console

from atoll import archipelago, errors, runs, store, system
from atoll.candidate import NOTHING
from atoll.cli import output, rivals, watching
from atoll.runs import baselines, failures, looks, results, text

WORDS = ("comment", "description", "docstring")  # of the task's own, in the header: whoever wrote them knows them


def follow(
    session: runs.Session,
    kept: store.Store,
    *,
    as_json: bool,
    quiet: bool = False,
    compared: runs.Allowed | None = None,
) -> int:
    """Runs a session to its end and tells how it went; returns the exit status.

    What happens on the way goes to stderr, the result to stdout. Ctrl-C once lets the steps at work finish and saves;
    a second one passes through.

    Args:
        session: The run.
        kept: Where it is.
        as_json: Whether the result is one line of JSON.
        quiet: Whether nothing is shown on the way.
        compared: What its baselines may do; None: there are none.

    Raises:
        RunFailed: It ended before its time; everything until then is saved, and told if a program listens.
        StoreFailed: The store is no longer where it was.
    """
    screen, since = output.err(), time.monotonic()
    failure: errors.RunFailed | None = None
    result: Mapping[str, Any] = {}
    if not quiet:
        _introduce(session, kept, screen, is_compared=compared is not None)
    with session, _warnings_told(screen, quiet), output.terminated_as_interrupted():
        try:
            _watch(session, screen, quiet)
            result = session.conclude()
        except errors.RunFailed as error:
            failure = error
    kept.database.check_place()
    seconds = time.monotonic() - since
    summary = runs.summarise(kept, session.run)
    found = baselines.find(kept, session.run)
    if compared is not None and summary.status == "done":
        found = _rivals(session, kept, compared, quiet)
    end = _End(session, kept, summary, seconds, found, result)
    if not (quiet or failure):
        end.tell(screen if as_json else output.out())
    if as_json:
        output.print_json({**end.to_data(), "status": "failed", "error": str(failure)} if failure else end.to_data())
    if failure is not None:
        raise failure
    return 1 if summary.status == "failed" else 0


def _introduce(session: runs.Session, kept: store.Store, screen: Console, *, is_compared: bool) -> None:
    """Says which run begins where, and has its set-up explained once it has started."""
    output.say(screen, f"Run {session.run} in {kept.database.name}, sandbox {session.sandbox}.")
    rivalry = {"baselines": baselines.told(session.budget, session.plan.run.llm)} if is_compared else {}
    session.evolver.use_profiler(lambda event: explain(screen, event, rivalry))


class _End(NamedTuple):
    """How a session ended."""

    session: runs.Session
    kept: store.Store
    summary: runs.Summary
    seconds: float
    found: Sequence[baselines.Baseline]
    result: Mapping[str, Any]

    def tell(self, console: Console) -> None:
        tell(console, self.kept, self.summary, self.seconds, self.found, results.candidates(self.result))
        for line in results.lines(self.result):
            output.say(console, line)
        if self.session.tally is not None:
            output.say(console, f"ray: {self.session.tally}.")

    def to_data(self) -> dict[str, Any]:
        data = {**self.summary.to_data(), "seconds": round(self.seconds, 3), **self.result}
        if self.session.tally is not None:
            data["executor"] = self.session.tally.to_data()
        data["baselines"] = {each.name: each.to_data() for each in self.found}
        return data


def _rivals(session: runs.Session, kept: store.Store, allowed: runs.Allowed, quiet: bool) -> list[baselines.Baseline]:
    """Runs the baselines of a run that has ended well; one that fails does not undo the run."""
    screen = output.err()

    def go(rival: runs.Session) -> None:
        with _warnings_told(screen, quiet), output.terminated_as_interrupted(), suppress(errors.RunFailed):
            _watch(rival, screen, quiet)

    return list(rivals.play(kept, session.run, allowed, screen, quiet, go))


class _Teller(logging.Handler):
    """Writes the warnings of a run where its progress is written."""

    def __init__(self, screen: Console) -> None:
        super().__init__()
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        output.say(self._screen, f"  {record.getMessage()}")


@contextmanager
def _warnings_told(screen: Console, quiet: bool) -> Iterator[None]:
    log, teller = logging.getLogger("atoll"), logging.NullHandler() if quiet else _Teller(screen)
    log.addHandler(teller)
    try:
        yield
    finally:
        log.removeHandler(teller)


def _watch(session: runs.Session, screen: Console, quiet: bool) -> None:
    watch = watching.Silence() if quiet else watching.make_watch(session, screen)
    gc.freeze()  # what was imported stays, and need not be looked through again and again
    with watch:
        try:
            session.go(watch.refresh)
        except KeyboardInterrupt:
            output.say(screen, "Finishing the steps at work; Ctrl-C again stops at once.")
            session.evolver.stop("interrupted")
        finally:
            gc.unfreeze()


def explain(
    screen: Console, event: archipelago.EvolverEvent | system.OnStarted, more: Mapping[str, str] = NOTHING
) -> None:
    """Prints the set-up when a run starts, as wide as the screen.

    Words of the task are cut where they are long, facts go on below themselves, and texts of several lines stand below
    their title.
    """
    if not isinstance(event, system.OnStarted):
        return
    facts = {title: str(value).rstrip() for title, value in {**more, **event.payload}.items()}
    if "source" in facts:
        facts.pop("docstring", None)  # it stands in the source
    width = max((len(title) for title, told in facts.items() if told and "\n" not in told), default=0)
    for title, told in facts.items():
        if "\n" in told:
            lines = textwrap.indent(told, "      ").splitlines()
            output.say(screen, f"  {title}")
            for line in lines:
                output.say(screen, output.cut(line, screen.width) if title in WORDS else line)
        elif told:
            room = max(screen.width - width - 4, output.LEAST)
            first, *rest = [output.cut(text.visible(told), room)] if title in WORDS else _wrapped(told, room)
            output.say(screen, f"  {title:{width}}  {first}")
            for line in rest:
                output.say(screen, f"  {'':{width}}  {line}")
    output.say(screen, "")


def _wrapped(told: str, room: int) -> list[str]:
    return textwrap.wrap(text.visible(told), room, break_long_words=False, break_on_hyphens=False) or [""]


def tell(
    console: Console,
    kept: store.Store,
    summary: runs.Summary,
    seconds: float,
    found: Sequence[baselines.Baseline] = (),
    several: Sequence[str] = (),
) -> None:
    """Says how a run ended: best against start, where it is, what it cost, what to do next.

    Of a run that searched for several things none is printed in place of all: a table follows.
    """
    used, cost = summary.totals, summary.totals.cost
    took = [f"{used.steps:,} steps", f"{used.evaluations:,} judged", f"{used.failures:,} failed"]
    if cost.calls:
        took += [f"{cost.calls:,} calls", f"{cost.tokens_in + cost.tokens_out:,} tokens", f"${cost.usd:.4f}"]
    said = summary.status.capitalize() + (f" ({summary.reason})" if summary.reason != summary.status else "")
    output.say(console, f"{said} after {seconds:.1f} s: {', '.join(took)}.")
    _warn(console, kept, summary)
    best = kept.candidates(summary.run).get(summary.best) if summary.best else None
    where = f"  {summary.best}, island {best.island}, step {best.step}" if best else ""
    output.say(console, f"\n  start  {text.number(summary.initial_score)}")
    output.say(console, f"  best   {text.number(summary.best_score)}{where}\n")
    shown = looks.shown(summary.system, best.content) if best and best.step and not several else ""
    for line in watching.excerpt(shown).splitlines():
        output.say(console, f"    {line}")
    rivals.tell(console, kept, found, summary)
    output.say(console, f"Saved as run {summary.run} in {kept.database.name}. Next:")
    for why, command in next_commands(kept, summary, several):
        output.say(console, f"  {why + ':':26} {command}")


def _warn(console: Console, kept: store.Store, summary: runs.Summary) -> None:
    """Says so where most of the work was in vain, with the commonest reason."""
    if summary.totals.failures * 2 > summary.totals.steps:
        commonest = failures.losses(kept, summary.run).failures[0]
        told = f"More than half of the steps failed; the commonest reason ({commonest.count}): {commonest.text[:300]}"
        output.say(console, told)


def next_commands(kept: store.Store, summary: runs.Summary, several: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Returns the things to do next, with commands that work as they stand."""
    name, run, rest = output.own_name(), summary.run, rivals.place_of(kept)
    found = [("what was found", f"{name} best {run}{rest}")]
    found += [("one of them, by its id", f"{name} show {run} {several[0]}{rest}")] if several else []
    if summary.status != "done" and "shared" not in kept.run(run).config:  # what its coordinators ended is over
        return [*found, ("go on", f"{name} resume {run}{rest}")]
    return [*found, ("how it came about", f"{name} lineage {run}{rest}")]

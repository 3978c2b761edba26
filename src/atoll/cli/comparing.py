"""The verbs `diff`, `compare` and `report`."""

from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import exporting, options

ENDS = "RUN, which stands for its best, or RUN:CANDIDATE"


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help=f"{ENDS}.")],
    second: Annotated[str | None, typer.Argument(metavar="B", help=f"{ENDS}.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Shows what changed between two candidates, of one run or of two.

    One RUN alone: from its start to its best. One RUN:CANDIDATE alone: from its best parent to it.

    \b
    Examples:
      atoll diff latest
      atoll diff latest:12.0
      atoll diff latest:start latest:12.0
      atoll diff 20261115-142233-x7k2 20261115-150107-p3fe
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import drawing, output
    from atoll.runs import looks, progress, text

    with options.opened(store) as kept:
        ends = [_end(kept, each) for each in (first, second) if each is not None]
        if second is None:
            ends.insert(0, _before(kept, *ends[0], is_run=":" not in first))
        texts = [looks.shown(looks.system_of(kept, run), row.content) for run, row in ends]
    (old_run, old), (new_run, new) = ends
    names = [f"{run}:{row.id}  score {text.number(row.score)}" for run, row in ends]
    lines = list(text.patch(*texts, *names))
    if as_json:
        sides = {"a": {"run": old_run, **progress.row_data(old)}, "b": {"run": new_run, **progress.row_data(new)}}
        output.print_json({**sides, "diff": "\n".join(lines)})
    elif lines:
        drawing.patch(output.out(), lines)
    else:
        output.say(output.err(), f"{names[0]} and {names[1]} have the same content.")


def _end(kept: Any, name: str) -> tuple[str, Any]:
    """Finds the candidate that one end of a diff names, with its run."""
    from atoll import runs
    from atoll.runs import progress

    run, colon, candidate = name.rpartition(":")
    found = runs.find(kept, run if colon else name)
    return found, progress.candidate(kept, found, candidate if colon else progress.BEST)


def _before(kept: Any, run: str, row: Any, *, is_run: bool) -> tuple[str, Any]:
    """Finds what a lonely end is compared with."""
    from atoll.runs import progress

    if is_run:
        return run, progress.candidate(kept, run, progress.START)
    parent = progress.link(kept.candidates(run), row).parent
    if parent is None:
        raise errors.SetupError(f"{row.id} has no parent in run {run}: name what to compare it with.")
    return run, parent


def compare(
    names: Annotated[list[str], typer.Argument(metavar="RUN", help="Two runs or more.")],
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Puts runs side by side: what they reached and what it took.

    \b
    Examples:
      atoll compare 20261115-142233-x7k2 latest
      atoll compare x7k2 p3fe 9wdn --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import runs  # with SQLAlchemy and rich: help need not wait for them
    from atoll.cli import drawing, output
    from atoll.runs import comparison

    with options.opened(store) as kept:
        found_runs = list(dict.fromkeys(runs.find(kept, name) for name in names))
        if len(found_runs) < 2:
            raise errors.SetupError(f"One run compares with nothing: 'atoll compare {names[0]} ANOTHER'.")
        found = comparison.compare(kept, found_runs)
    if as_json:
        output.print_json(found.to_data())
    else:
        drawing.comparison(output.out(), found)


def report(
    run: options.RunArgument, to: exporting.ToOption = None, store: options.StoreOption = options.DEFAULT_STORE
) -> None:
    """Writes a report of a run in Markdown.

    \b
    Examples:
      atoll report latest
      atoll report latest -o report.md
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import runs  # with SQLAlchemy: help need not wait for it
    from atoll.runs import report as reports

    with options.opened(store) as kept:
        exporting.deliver((f"{line}\n" for line in reports.report(kept, runs.find(kept, run))), to)

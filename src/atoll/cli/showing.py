"""The verbs `show`, `best` and `lineage`."""

from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import exporting, options

CandidateArgument = Annotated[
    str | None, typer.Argument(metavar="CANDIDATE", help="A candidate's id such as 12.0, or 'best' or 'start'.")
]
IslandOption = Annotated[int | None, typer.Option(min=0, metavar="N", help="The best of one island, from 0 on.")]


def show(
    run: options.RunArgument,
    candidate: CandidateArgument = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="Also what a model was asked and replied.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Shows a run, or one candidate of it.

    A run with its islands and its best candidate; a candidate with all that is known about it.

    \b
    Examples:
      atoll show latest
      atoll show latest 12.0
      atoll show latest best --prompt
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import runs  # with SQLAlchemy and rich: help need not wait for them
    from atoll.cli import output, sheets
    from atoll.runs import progress

    if prompt and candidate is None:
        raise errors.SetupError(f"--prompt goes with a candidate: 'atoll show {run} best --prompt'.")
    with options.opened(store) as kept:
        found = runs.find(kept, run)
        if candidate is None:
            if as_json:
                output.print_json(sheets.run_data(kept, found))
            else:
                sheets.show_run(output.out(), kept, found)
            return
        row = progress.candidate(kept, found, candidate)
        if as_json:
            asked = {"replies": sheets.replies(kept, found, row.step)} if prompt else {}
            output.print_json({**progress.row_data(row), **asked})
        else:
            sheets.show_candidate(output.out(), kept, found, row, with_prompt=prompt)


def best(
    run: options.RunArgument,
    to: exporting.ToOption = None,
    island: IslandOption = None,
    number: Annotated[int | None, typer.Option("-n", min=1, metavar="N", help="A table of the N best.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Prints the best candidate, and nothing else; of a run for several problems the best of each.

    A playbook is printed as one reads it; -o and --json give what is kept.

    \b
    Examples:
      atoll best latest
      atoll best latest -o best.py
      atoll best latest -n 10
      atoll best latest --island 3
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import runs  # with SQLAlchemy and rich: help need not wait for them
    from atoll.cli import drawing, output
    from atoll.runs import looks, progress, results

    if number is not None and to is not None:
        raise errors.SetupError("-o writes one candidate, -n shows several: leave one of them out.")
    with options.opened(store) as kept:
        found = runs.find(kept, run)
        if number is None:
            row, result = _best(kept, found, island), results.find(kept, found)
            several = [kept.candidates(found).get(id) for id in results.candidates(result) if island is None]
            if as_json:
                each = {"instances": [progress.row_data(one) for one in several]} if several else {}
                output.print_json({**progress.row_data(row), **each})
            else:
                system = looks.system_of(kept, found)
                shown = (one.content if to else looks.shown(system, one.content) for one in several or [row])
                exporting.deliver(["\n".join(f"{each.removesuffix('\n')}\n" for each in shown)], to, is_foreign=True)
            if law := result.get("law"):
                output.say(output.err(), f"This fits the training rows best; rows that were held out choose {law}")
            return
        _check(kept, found, island)
        rows, start = kept.candidates(found).best(number, island=island), kept.candidates(found).find("0.0")
        if as_json:
            output.print_json([progress.row_data(row) for row in rows])
        elif rows:
            drawing.candidates(output.out(), rows, start.content if start else "", looks.system_of(kept, found))
        else:
            output.say(output.err(), f"Run {found} has no candidate with a score yet.")


def lineage(
    run: options.RunArgument,
    candidate: CandidateArgument = None,
    island: IslandOption = None,
    diffs: Annotated[bool, typer.Option("--diffs", help="Show what each step changed.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All ancestors, not only the best parent each time.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Shows how the best came about.

    The line goes back to the start, over the best parent each time.

    The gain is that against the best parent.

    \b
    Examples:
      atoll lineage latest
      atoll lineage latest 12.0 --diffs
      atoll lineage latest --island 3 --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import runs  # with SQLAlchemy and rich: help need not wait for them
    from atoll.cli import drawing, output
    from atoll.runs import looks, progress, text

    if candidate is not None and island is not None:
        raise errors.SetupError("A candidate has its island already: leave out --island or the candidate.")
    with options.opened(store) as kept:
        found = runs.find(kept, run)
        rows = kept.candidates(found)
        row = progress.candidate(kept, found, candidate) if candidate else _best(kept, found, island)
        line = progress.ancestors(rows, row) if every else progress.descent(rows, row)
        system = looks.system_of(kept, found)
    if as_json:
        output.print_json([link.to_data() for link in line])
        return
    console = output.out()
    drawing.links(console, line)
    for link in line if diffs else ():
        if link.parent is not None:
            drawing.heading(console, f"{link.row.id} from {link.parent.id}")
            before, after = (looks.shown(system, row.content) for row in (link.parent, link.row))
            drawing.patch(console, text.patch(before, after, link.parent.id, link.row.id))


def _best(kept: Any, run: str, island: int | None) -> Any:
    """Returns the best of a run or of one of its islands."""
    from atoll.runs import progress

    if island is None:
        return progress.candidate(kept, run, progress.BEST)
    _check(kept, run, island)
    return progress.best_of_island(kept, run, island)


def _check(kept: Any, run: str, island: int | None) -> None:
    from atoll.runs import progress

    if island is not None and island >= (number := progress.num_islands(kept, run)):
        there = f"there are 0 to {number - 1}" if number else "it has not begun"
        raise errors.SetupError(f"Run {run} has no island {island}: {there}.")

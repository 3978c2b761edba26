"""Commands `diff`, `compare` and `report`."""

from typing import TYPE_CHECKING, Annotated

import typer

from atoll import errors
from atoll.cli.data import export
from atoll.cli.terminal import options

if TYPE_CHECKING:
    from atoll import store as stores

SIDE_HELP = "RUN for its best candidate, or RUN:CANDIDATE."


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help=SIDE_HELP)],
    second: Annotated[str | None, typer.Argument(metavar="B", help=SIDE_HELP)] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Show what changed between two candidates.

    RUN alone compares its initial with its best candidate. RUN:CANDIDATE alone compares it with its best parent.

    \b
    Examples:
      atoll diff latest
      atoll diff latest:12.0
      atoll diff latest:initial latest:12.0
      atoll diff 20261115-142233-x7k2 20261115-150107-p3fe
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console, tables
    from atoll.runs import progress, text_format

    with options.open_existing_store(store) as run_store:
        candidates = [_find_candidate(run_store, name) for name in (first, second) if name is not None]
        if second is None:
            candidates.insert(0, _find_comparison(run_store, *candidates[0], is_run=":" not in first))
        texts = [
            text_format.format_candidate(text_format.get_system_name(run_store, run), row.content)
            for run, row in candidates
        ]
    (old_run, old), (new_run, new) = candidates
    names = [f"{run}:{row.id}  score {text_format.format_number(row.score)}" for run, row in candidates]
    lines = list(text_format.iter_diff_lines(*texts, *names))
    if as_json:
        sides = {"a": {"run": old_run, **progress.row_to_data(old)}, "b": {"run": new_run, **progress.row_to_data(new)}}
        console.print_json({**sides, "diff": "\n".join(lines)})
    elif lines:
        tables.print_patch(console.get_stdout_console(), lines)
    else:
        console.print_note(f"{names[0]} and {names[1]} have the same content.")


def _find_candidate(run_store: "stores.Store", name: str) -> tuple[str, "stores.Row"]:
    """Finds the run and candidate named by one side of a diff."""
    from atoll import runs

    run, colon, candidate = name.rpartition(":")
    run_id = runs.find_run(run_store, run if colon else name)
    return run_id, options.find_candidate(run_store, run_id, candidate if colon else "best")


def _find_comparison(
    run_store: "stores.Store", run: str, row: "stores.Row", *, is_run: bool
) -> tuple[str, "stores.Row"]:
    """Finds the candidate to compare with a single side."""
    from atoll.runs import progress

    if is_run:
        return run, progress.find_candidate(run_store, run, progress.INITIAL)
    parent = progress.make_lineage_entry(run_store.candidates(run), row).parent
    if parent is None:
        raise errors.SetupError(f"Candidate {row.id} has no parent in run {run}. Name a second candidate.")
    return run, parent


def compare(
    names: Annotated[list[str], typer.Argument(metavar="RUN", help="Two or more runs.")],
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Compare runs side by side.

    \b
    Examples:
      atoll compare 20261115-142233-x7k2 latest
      atoll compare x7k2 p3fe 9wdn --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs  # slow imports: SQLAlchemy, rich
    from atoll.cli.terminal import console, tables
    from atoll.runs import comparison

    with options.open_existing_store(store) as run_store:
        run_ids = list(dict.fromkeys(runs.find_run(run_store, name) for name in names))
        if len(run_ids) < 2:
            raise errors.SetupError(f"compare needs two runs: 'atoll compare {names[0]} ANOTHER'.")
        result = comparison.compare(run_store, run_ids)
    if as_json:
        console.print_json(result.to_data())
    else:
        tables.print_comparison(console.get_stdout_console(), result)


def report(
    run: options.RunArgument,
    output_path: options.OutputOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Write a Markdown report.

    \b
    Examples:
      atoll report latest
      atoll report latest -o report.md
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs  # slow import: SQLAlchemy
    from atoll.runs import markdown_report

    with options.open_existing_store(store) as run_store:
        export.write_output(
            (f"{line}\n" for line in markdown_report.iter_report_lines(run_store, runs.find_run(run_store, run))),
            output_path,
        )

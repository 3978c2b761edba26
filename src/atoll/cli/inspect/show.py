"""The verbs `show`, `best` and `lineage`."""

from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.data import export
from atoll.cli.terminal import options

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
    from atoll.cli.terminal import console, tables
    from atoll.runs import progress

    if prompt and candidate is None:
        raise errors.SetupError(f"--prompt goes with a candidate: 'atoll show {run} best --prompt'.")
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)
        if candidate is None:
            if as_json:
                console.print_json(tables.run_to_json(run_store, run_id))
            else:
                tables.print_run(console.get_stdout_console(), run_store, run_id)
            return
        row = progress.find_candidate(run_store, run_id, candidate)
        if as_json:
            llm_calls = {"replies": tables.load_llm_calls(run_store, run_id, row.step)} if prompt else {}
            console.print_json({**progress.row_to_data(row), **llm_calls})
        else:
            tables.print_candidate(console.get_stdout_console(), run_store, run_id, row, with_prompt=prompt)


def best(
    run: options.RunArgument,
    output_path: export.OutputOption = None,
    island: IslandOption = None,
    limit: Annotated[int | None, typer.Option("-n", min=1, metavar="N", help="A table of the N best.")] = None,
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
    from atoll.cli.terminal import console, tables
    from atoll.runs import progress, summary, text_format

    if limit is not None and output_path is not None:
        raise errors.SetupError("-o writes one candidate, -n shows several: leave one of them out.")
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)
        if limit is None:
            row, result = _find_best(run_store, run_id, island), summary.find_result(run_store, run_id)
            instance_rows = [
                run_store.candidates(run_id).get(id) for id in summary.list_best_candidates(result) if island is None
            ]
            if as_json:
                instances = (
                    {"instances": [progress.row_to_data(instance_row) for instance_row in instance_rows]}
                    if instance_rows
                    else {}
                )
                console.print_json({**progress.row_to_data(row), **instances})
            else:
                system = text_format.get_system_name(run_store, run_id)
                contents = (
                    instance_row.content if output_path else text_format.format_candidate(system, instance_row.content)
                    for instance_row in instance_rows or [row]
                )
                export.write_output(
                    ["\n".join(f"{content.removesuffix('\n')}\n" for content in contents)],
                    output_path,
                    is_untrusted=True,
                )
            if law := result.get("law"):
                console.print_line(
                    console.get_stderr_console(),
                    f"This fits the training rows best; rows that were held out choose {law}",
                )
            return
        _check_island(run_store, run_id, island)
        rows, initial = (
            run_store.candidates(run_id).best(limit, island=island),
            run_store.candidates(run_id).find("0.0"),
        )
        if as_json:
            console.print_json([progress.row_to_data(row) for row in rows])
        elif rows:
            tables.print_candidates(
                console.get_stdout_console(),
                rows,
                initial.content if initial else "",
                text_format.get_system_name(run_store, run_id),
            )
        else:
            console.print_line(console.get_stderr_console(), f"Run {run_id} has no candidate with a score yet.")


def lineage(
    run: options.RunArgument,
    candidate: CandidateArgument = None,
    island: IslandOption = None,
    diffs: Annotated[bool, typer.Option("--diffs", help="Show what each step changed.")] = False,
    include_all: Annotated[
        bool, typer.Option("--all", help="All ancestors, not only the best parent each time.")
    ] = False,
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
    from atoll.cli.terminal import console as terminal_console
    from atoll.cli.terminal import tables
    from atoll.runs import progress, text_format

    if candidate is not None and island is not None:
        raise errors.SetupError("A candidate has its island already: leave out --island or the candidate.")
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)
        rows = run_store.candidates(run_id)
        row = (
            progress.find_candidate(run_store, run_id, candidate)
            if candidate
            else _find_best(run_store, run_id, island)
        )
        entries = progress.get_lineage(rows, row) if include_all else progress.get_best_lineage(rows, row)
        system = text_format.get_system_name(run_store, run_id)
    if as_json:
        terminal_console.print_json([entry.to_data() for entry in entries])
        return
    console = terminal_console.get_stdout_console()
    tables.print_lineage(console, entries)
    for link in entries if diffs else ():
        if link.parent is not None:
            tables.print_heading(console, f"{link.row.id} from {link.parent.id}")
            before, after = (text_format.format_candidate(system, row.content) for row in (link.parent, link.row))
            tables.print_patch(console, text_format.iter_diff_lines(before, after, link.parent.id, link.row.id))


def _find_best(run_store: Any, run: str, island: int | None) -> Any:
    """Returns the best of a run or of one of its islands."""
    from atoll.runs import progress

    if island is None:
        return progress.find_candidate(run_store, run, progress.BEST)
    _check_island(run_store, run, island)
    return progress.get_best_of_island(run_store, run, island)


def _check_island(run_store: Any, run: str, island: int | None) -> None:
    from atoll.runs import progress

    if island is not None and island >= (num_islands := progress.count_islands(run_store, run)):
        available = f"there are 0 to {num_islands - 1}" if num_islands else "it has not begun"
        raise errors.SetupError(f"Run {run} has no island {island}: {available}.")


TREE_LEVELS = {"islands": 1, "generations": 2, "worldlines": 3, "turns": 4}


def tree(
    run: options.RunArgument,
    level: Annotated[
        str, typer.Option(metavar="LEVEL", help="How deep: islands, generations, worldlines or turns.")
    ] = "turns",
    island: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only one island, from 0 on.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Shows a run as a tree: island, generation, worldline, turn, each with its summary.

    A turn tells what the judge and the critic said of it; 'atoll show RUN CANDIDATE --prompt' has every word.

    \b
    Examples:
      atoll tree latest --level generations
      atoll tree latest --island 0
      atoll tree latest --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import errors, runs  # with SQLAlchemy and rich: help need not wait for them
    from atoll.cli.terminal import console
    from atoll.runs import conversation_tree as runs_conversation_tree

    if level not in TREE_LEVELS:
        raise errors.SetupError(f"There is no level {level!r:.40}: there are {', '.join(TREE_LEVELS)}.")
    with options.open_existing_store(store) as run_store:
        conversation_tree = runs_conversation_tree.build_tree(run_store, runs.find_run(run_store, run), island=island)
    if as_json:
        console.print_json(conversation_tree.to_data())
        return
    for line in conversation_tree.iter_lines(TREE_LEVELS[level]):
        console.print_line(console.get_stdout_console(), line)

"""Commands `list`, `show`, `best`, `lineage` and `tree`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atoll import errors
from atoll.cli.data import export
from atoll.cli.terminal import options

if TYPE_CHECKING:
    from atoll import store as stores


def list_runs(
    limit: options.LimitOption = 20,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """List runs, newest first.

    \b
    Examples:
      atoll list
      atoll list -n 5 --store /tmp/demo.db
      atoll list --json
    """  # noqa: D301 - \b keeps line breaks
    with options.open_existing_store(store) as run_store:
        all_runs = run_store.list_runs()
        if not all_runs:
            note = f"{run_store.database.name} has no runs yet. Start one with 'atoll run TASK'."
            print("[]") if as_json else print(note, file=sys.stderr)
            return
        from atoll import runs  # slow imports: pydantic, rich
        from atoll.cli.terminal import console, tables
        from atoll.runs import baselines, text_format

        summaries = [runs.summarize(run_store, run.id) for run in all_runs[:limit]]
        roles = {run.id: baselines.describe_baseline(run.config) for run in all_runs[:limit]}
    if as_json:
        console.print_json([summary.to_data() for summary in summaries])
        return
    headings = ("run", "created", "system", "task", "status", "initial", "best", "evaluations", "cost")
    rows = [
        (
            summary.run,
            tables.format_local_time(summary.created_at),
            summary.system or "-",
            ", ".join(part for part in (Path(summary.task).name or "-", roles[summary.run]) if part),
            summary.status,
            text_format.format_number(summary.initial_score),
            text_format.format_number(summary.best_score),
            f"{summary.totals.evaluations:,}",
            tables.format_dollars(summary.totals.cost),
        )
        for summary in summaries
    ]
    console.print_result_table(
        headings,
        rows,
        right_aligned=headings[5:],
        flexible="task",
        optional=("system", "created", "initial", "cost", "evaluations"),
    )
    if len(all_runs) > limit:
        console.print_note(f"{limit:,} of {len(all_runs):,} runs. Show more with -n.", "dim")


TREE_LEVELS = {"islands": 1, "generations": 2, "worldlines": 3, "turns": 4}


def show(
    run: options.RunArgument,
    candidate: options.CandidateArgument = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="Include the prompt and the LLM response.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Show a run or one of its candidates.

    \b
    Examples:
      atoll show latest
      atoll show latest 12.0
      atoll show latest best --prompt
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs  # slow imports: SQLAlchemy, rich
    from atoll.cli.terminal import console, tables
    from atoll.runs import progress

    if prompt and candidate is None:
        raise errors.SetupError(f"--prompt needs a candidate: 'atoll show {run} best --prompt'.")
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)
        if candidate is None:
            if as_json:
                console.print_json(tables.run_to_json(run_store, run_id))
            else:
                tables.print_run(console.get_stdout_console(), run_store, run_id)
            return
        row = options.find_candidate(run_store, run_id, candidate)
        if as_json:
            llm_calls = {"replies": tables.load_llm_calls(run_store, run_id, row.step)} if prompt else {}
            console.print_json({**progress.row_to_data(row), **llm_calls})
        else:
            tables.print_candidate(console.get_stdout_console(), run_store, run_id, row, with_prompt=prompt)


def best(
    run: options.RunArgument,
    output_path: options.OutputOption = None,
    island: options.IslandOption = None,
    limit: Annotated[
        int | None, typer.Option("-n", min=1, metavar="N", help="List the N best candidates instead.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Print the best candidate.

    Runs with several problems print the best candidate of each. Playbooks are formatted for reading; -o and --json
    give the stored text.

    \b
    Examples:
      atoll best latest
      atoll best latest -o best.py
      atoll best latest -n 10
      atoll best latest --island 3
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs  # slow imports: SQLAlchemy, rich
    from atoll.cli.terminal import console, tables
    from atoll.runs import progress, summary, text_format

    if limit is not None and output_path is not None:
        raise errors.SetupError("-o writes one candidate, -n lists several. Leave out one of them.")
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
                law = result.get("law") if output_path is None and island is None else None
                export.write_output(
                    [f"{law}\n"] if law else ["\n".join(f"{content.removesuffix('\n')}\n" for content in contents)],
                    output_path,
                    is_untrusted=True,
                )
            if result.get("law"):
                console.print_note(
                    f"Held-out rows chose the law {result['law']}. Candidate {row.id} has the best training score."
                )
            return
        _check_island(run_store, run_id, island)
        rows, initial = (
            run_store.candidates(run_id).list_best(limit, island=island),
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
            console.print_note(f"Run {run_id} has no candidate with a score yet.")


def lineage(
    run: options.RunArgument,
    candidate: options.CandidateArgument = None,
    island: options.IslandOption = None,
    diffs: Annotated[bool, typer.Option("--diffs", help="Show the change of each generation.")] = False,
    include_all: Annotated[
        bool, typer.Option("--all", help="Include all ancestors, not only the best parents.")
    ] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Show the ancestors of a candidate.

    The default is the best candidate. The lineage follows the best parents. The gain is relative to the best parent.

    \b
    Examples:
      atoll lineage latest
      atoll lineage latest 12.0 --diffs
      atoll lineage latest --island 3 --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs  # slow imports: SQLAlchemy, rich
    from atoll.cli.terminal import console as terminal
    from atoll.cli.terminal import tables
    from atoll.runs import progress, text_format

    if candidate is not None and island is not None:
        raise errors.SetupError("--island and a candidate exclude each other. Leave out one of them.")
    with options.open_existing_store(store) as run_store:
        run_id = runs.find_run(run_store, run)
        rows = run_store.candidates(run_id)
        row = (
            options.find_candidate(run_store, run_id, candidate) if candidate else _find_best(run_store, run_id, island)
        )
        entries = progress.get_lineage(rows, row) if include_all else progress.get_best_lineage(rows, row)
        system = text_format.get_system_name(run_store, run_id)
    if as_json:
        terminal.print_json([entry.to_data() for entry in entries])
        return
    console = terminal.get_stdout_console()
    tables.print_lineage(console, entries)
    for link in entries if diffs else ():
        if link.parent is not None:
            tables.print_heading(console, f"{link.row.id} from {link.parent.id}")
            before, after = (text_format.format_candidate(system, row.content) for row in (link.parent, link.row))
            tables.print_patch(console, text_format.iter_diff_lines(before, after, link.parent.id, link.row.id))


def _find_best(run_store: "stores.Store", run: str, island: int | None) -> "stores.Row":
    """Returns the best candidate of a run or of one island."""
    from atoll.runs import progress

    if island is None:
        return progress.find_candidate(run_store, run, progress.BEST)
    _check_island(run_store, run, island)
    row = progress.get_best_of_island(run_store, run, island)
    if row is None:
        raise errors.SetupError(f"Island {island} of run {run} has no candidate with a score yet.")
    return row


def _check_island(run_store: "stores.Store", run: str, island: int | None) -> None:
    from atoll.runs import progress

    if island is not None and island >= (num_islands := progress.count_islands(run_store, run)):
        available = f"It has islands 0 to {num_islands - 1}" if num_islands else "It has no candidates yet"
        raise errors.SetupError(f"Run {run} has no island {island}. {available}.")


def tree(
    run: options.RunArgument,
    level: Annotated[
        str, typer.Option("--level", metavar="LEVEL", help="Depth: islands, generations, worldlines or turns.")
    ] = "turns",
    island: options.IslandOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Show islands, generations and conversations as a tree.

    Turns show the feedback of the evaluator and the critic. 'atoll show RUN CANDIDATE --prompt' prints all of it.

    \b
    Examples:
      atoll tree latest --level generations
      atoll tree latest --island 0
      atoll tree latest --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs  # slow imports: SQLAlchemy, rich
    from atoll.cli.terminal import console
    from atoll.runs import worldline_review

    if level not in TREE_LEVELS:
        raise errors.SetupError(f"Level {level!r:.40} is unknown. Use one of {', '.join(TREE_LEVELS)}.")
    with options.open_existing_store(store) as run_store:
        root = worldline_review.build_tree(run_store, runs.find_run(run_store, run), island=island)
    if as_json:
        console.print_json(root.to_data())
        return
    for line in root.iter_lines(TREE_LEVELS[level]):
        console.print_result(line)

"""The verb `tree`."""

from typing import Annotated

import typer

from atoll.cli import options

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
    from atoll.cli import output
    from atoll.runs import dialogue

    if level not in TREE_LEVELS:
        raise errors.SetupError(f"There is no level {level!r:.40}: there are {', '.join(TREE_LEVELS)}.")
    with options.open_existing_store(store) as run_store:
        conversation_tree = dialogue.build_tree(run_store, runs.find_run(run_store, run), island=island)
    if as_json:
        output.print_json(conversation_tree.to_data())
        return
    for line in conversation_tree.iter_lines(TREE_LEVELS[level]):
        output.print_line(output.get_stdout_console(), line)

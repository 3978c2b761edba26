"""The verb `atoll import`."""

from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.terminal import options


def import_checkpoint(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="DIR", help="A checkpoint of OpenEvolve, or its output folder.")
    ],
    task: Annotated[
        Path | None, typer.Argument(metavar="[TASK]", show_default=False, help="Its folder, if DIR is not in it.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="YAML", help="Another configuration of OpenEvolve's.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """Makes a run of a checkpoint of OpenEvolve's.

    Its programs are the first steps of the run, in the order in which they were found, with the scores that they have
    there; only the folder's initial program is judged. Then 'atoll resume RUN --iterations 100' goes on with them.

    \b
    Examples:
      atoll import my_task/openevolve_output
      atoll import checkpoints/checkpoint_100 my_task
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import config, runs  # with SQLAlchemy and pydantic: help need not wait for them
    from atoll import store as stores
    from atoll.cli.run import session_output
    from atoll.cli.terminal import console

    run_config = config.with_checkpoint(
        config.load(task or config.find_task_folder(checkpoint), settings=settings), checkpoint, only_checkpoint=True
    )
    with stores.Store(store) as run_store:
        session = runs.Session(run_store, run_config)
        status = session_output.run_session(session, run_store, as_json=as_json, quiet=True)
        message = f"Imported {run_config.run.iterations} programs as run {session.run_id} in {run_store.database.name}. To go on:"
        store_option = (
            "" if store == options.DEFAULT_STORE else f" --store {console.quote_shell(run_store.database.name)}"
        )
        console.print_line(
            console.get_stderr_console(),
            f"{message}\n  {console.get_program_name()} resume {session.run_id} --iterations 100{store_option}",
        )
    return status

"""Command `import`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.terminal import options


def import_checkpoint(
    checkpoint: Annotated[Path, typer.Argument(metavar="DIR", help="OpenEvolve checkpoint or output folder.")],
    task: Annotated[
        Path | None, typer.Argument(metavar="[TASK]", show_default=False, help="Task folder, if DIR is not inside it.")
    ] = None,
    settings: options.ConfigOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """Create a run from an OpenEvolve checkpoint.

    Its programs become the first iterations of the run, in their order and with their scores. Only the initial program
    of the folder is evaluated. Continue with 'atoll resume RUN --iterations 100'.

    \b
    Examples:
      atoll import my_task/openevolve_output
      atoll import checkpoints/checkpoint_100 my_task
    """  # noqa: D301 - \b keeps line breaks
    from atoll import config, runs  # slow imports: SQLAlchemy, pydantic
    from atoll import store as stores
    from atoll.cli.run import session_output
    from atoll.cli.terminal import console

    run_config = config.with_checkpoint(
        config.load(task or config.find_task_folder(checkpoint), settings=settings), checkpoint, only_checkpoint=True
    )
    with stores.Store(store) as run_store:
        session = runs.Session(run_store, run_config)
        status = session_output.run_session(session, run_store, as_json=as_json, quiet=True)
        name = run_store.database.name
        message = f"Imported {run_config.run.iterations} programs as run {session.run_id} in {name}. Continue:"
        store_option = "" if store == options.DEFAULT_STORE else f" --store {shlex.quote(name)}"
        console.print_note(
            f"{message}\n  {console.get_program_name()} resume {session.run_id} --iterations 100{store_option}"
        )
    return status

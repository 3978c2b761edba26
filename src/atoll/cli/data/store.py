"""The verbs `atoll store copy`, `atoll store check` and `atoll store upgrade`."""

from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Copy a store to a file or a server, check one, bring one up to date.",
)
UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="A file, or postgresql://USER@HOST/DATABASE.")]


@app.command("copy")
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The store to copy: a file, or a URL.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Where to: a file, or an existing database of a server.")],
    as_json: options.JsonOption = False,
) -> None:
    """Copies all runs, parameters, logs and bodies into another store, and reads them back before they count.

    Whatever happens on the way, the target has all of it or nothing. It may hold other runs already. The source is
    read as it stands at one moment: runs may go on meanwhile.

    \b
    Examples:
      atoll store copy atoll.db postgresql://me@db.example/atoll
      atoll store copy postgresql:///atoll?host=/var/run/postgresql laptop.db
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import store
    from atoll.cli.terminal import console
    from atoll.store import transfer

    screen = console.get_stderr_console()
    with options.open_existing_store(source) as source_store, store.Store(target) as target_store:
        result = transfer.copy_store(
            source_store.database,
            target_store.database,
            lambda progress: console.print_line(screen, f"  copied {progress}"),
        )
        target_name = target_store.database.name
    data: dict[str, Any] = {
        "to": target_name,
        "runs": [run._asdict() for run in result.runs],
        "changes": result.changes,
    }
    data |= {"hash": result.hash, "blobs": result.blobs, "moments": result.moments}
    if as_json:
        console.print_json(data)
        return
    num_candidates = sum(run.candidates for run in result.runs)
    console.print_line(
        console.get_stdout_console(),
        f"Copied {len(result.runs):,} runs with {num_candidates:,} candidates, {result.changes:,} changes, "
        f"{result.moments:,} moments and {result.blobs:,} bodies to {target_name}; read back, they are the same.",
    )


@app.command("check")
def check(url: UrlArgument = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> None:
    """Reads all of a store, and says what is lost or damaged; exits 1 if anything is.

    Each run comes with a hash over all its rows: copies of a run have the same, in whatever store.

    \b
    Examples:
      atoll store check atoll.db
      atoll store check postgresql://me@db.example/atoll --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console
    from atoll.store import transfer
    from atoll.store.versions import audit

    runs = list[transfer.RunContents]()
    with options.open_existing_store(url) as run_store, run_store.database.snapshot() as connection:
        last_change = audit.verify(transfer.iter_entries(connection))
        problems = transfer.find_damage(connection, runs.append)
        name = run_store.database.name
    if as_json:
        data = {"runs": [run._asdict() for run in runs], "changes": last_change.seq, "hash": last_change.hash}
        console.print_json({**data, "wrong": problems})
    else:
        for run in runs:
            counts = f"{run.records:,} records, {run.candidates:,} candidates"
            console.print_line(console.get_stdout_console(), f"{run.run}  {counts}  {run.digest}")
        console.print_line(console.get_stdout_console(), f"{last_change.seq:,} changes, ending in {last_change.hash}.")
    if problems:
        raise errors.StoreFailed(" ".join(problems))
    if not as_json:
        console.print_line(console.get_stdout_console(), f"{name} is whole.")


@app.command("upgrade")
def upgrade(url: UrlArgument = options.DEFAULT_STORE) -> None:
    """Brings the tables of a store up to date, as every verb does that opens it.

    \b
    Examples:
      atoll store upgrade atoll.db
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console
    from atoll.store.database import schema

    with options.open_existing_store(url) as run_store:
        old_version, name = run_store.database.original_version, run_store.database.name
    change_note = (
        "as it was" if old_version == schema.VERSION else f"brought up from {old_version}" if old_version else "made"
    )
    console.print_line(console.get_stdout_console(), f"{name} has schema {schema.VERSION}, {change_note}.")

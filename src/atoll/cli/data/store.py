"""Commands `store copy`, `store check` and `store upgrade`."""

from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options

app = options.make_group("Copy, check and upgrade stores.")
UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="Store: a file or postgresql://USER@HOST/DB.")]


@app.command("copy")
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Store to copy: a file or a URL.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Target: a file, or an existing database on a server.")],
    as_json: options.JsonOption = False,
) -> None:
    """Copy a store and verify the copy.

    Copies runs, parameters, logs and blobs in one transaction: the target gets all of them or nothing. The target may
    already hold other runs. Runs may continue in the source during the copy.

    \b
    Examples:
      atoll store copy atoll.db postgresql://me@db.example/atoll
      atoll store copy postgresql:///atoll?host=/var/run/postgresql laptop.db
    """  # noqa: D301 - \b keeps line breaks
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
    console.print_result(
        f"Copied {len(result.runs):,} runs with {num_candidates:,} candidates, {result.changes:,} changes, "
        f"{result.moments:,} events and {result.blobs:,} blobs to {target_name}; verified."
    )


@app.command("check")
def check(url: UrlArgument = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> None:
    """Verify every row of a store.

    Lists missing and damaged rows, and exits with status 1 if any exist. The hash of a run covers all its rows; copies
    of a run have the same hash.

    \b
    Examples:
      atoll store check atoll.db
      atoll store check postgresql://me@db.example/atoll --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.store import transfer
    from atoll.store.versions import audit

    runs = list[transfer.RunContents]()
    with options.open_existing_store(url) as run_store, run_store.database.begin_snapshot() as connection:
        last_change = audit.verify(transfer.iter_entries(connection))
        problems = transfer.find_damage(connection, runs.append)
        name = run_store.database.name
    if as_json:
        data = {"runs": [run._asdict() for run in runs], "changes": last_change.seq, "hash": last_change.hash}
        console.print_json({**data, "wrong": problems})
    else:
        for run in runs:
            counts = f"{run.records:,} records, {run.candidates:,} candidates"
            if run.unchained:
                counts += f", {run.unchained:,} of the records not chained: an older version wrote them"
            console.print_result(f"{run.run}  {counts}  {run.digest}")
        console.print_result(f"{last_change.seq:,} changes, last hash {last_change.hash}.")
    if problems:
        raise errors.StoreFailed(" ".join(problems))
    if not as_json:
        console.print_result(f"{name} is intact.")


@app.command("upgrade")
def upgrade(url: UrlArgument = options.DEFAULT_STORE) -> None:
    """Upgrade the tables of a store.

    Every command that opens a store for writing does the same.

    \b
    Examples:
      atoll store upgrade atoll.db
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.store.database import schema

    with options.open_existing_store(url) as run_store:
        old_version, name = run_store.database.original_version, run_store.database.name
    change_note = (
        "unchanged" if old_version == schema.VERSION else f"upgraded from {old_version}" if old_version else "created"
    )
    console.print_result(f"{name} has schema {schema.VERSION}, {change_note}.")

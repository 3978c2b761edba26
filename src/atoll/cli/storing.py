"""The verbs `atoll store copy`, `atoll store check` and `atoll store upgrade`."""

from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import options

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
    from atoll.cli import output
    from atoll.store import copying

    screen = output.err()
    with options.opened(source) as old, store.Store(target) as new:
        told = copying.copy(old.database, new.database, lambda done: output.say(screen, f"  copied {done}"))
        where = new.database.name
    data: dict[str, Any] = {"to": where, "runs": [run._asdict() for run in told.runs], "changes": told.changes}
    data |= {"hash": told.hash, "blobs": told.blobs, "moments": told.moments}
    if as_json:
        output.print_json(data)
        return
    num_candidates = sum(run.candidates for run in told.runs)
    output.say(
        output.out(),
        f"Copied {len(told.runs):,} runs with {num_candidates:,} candidates, {told.changes:,} changes, "
        f"{told.moments:,} moments and {told.blobs:,} bodies to {where}; read back, they are the same.",
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
    from atoll.cli import output
    from atoll.store import audit, contents

    runs = list[contents.Kept]()
    with options.opened(url) as kept, kept.database.snapshot() as connection:
        changes = audit.verify(contents.entries(connection))
        wrong = contents.check(connection, runs.append)
        name = kept.database.name
    if as_json:
        data = {"runs": [run._asdict() for run in runs], "changes": changes.seq, "hash": changes.hash}
        output.print_json({**data, "wrong": wrong})
    else:
        for run in runs:
            numbers = f"{run.records:,} records, {run.candidates:,} candidates"
            output.say(output.out(), f"{run.run}  {numbers}  {run.digest}")
        output.say(output.out(), f"{changes.seq:,} changes, ending in {changes.hash}.")
    if wrong:
        raise errors.StoreFailed(" ".join(wrong))
    if not as_json:
        output.say(output.out(), f"{name} is whole.")


@app.command("upgrade")
def upgrade(url: UrlArgument = options.DEFAULT_STORE) -> None:
    """Brings the tables of a store up to date, as every verb does that opens it.

    \b
    Examples:
      atoll store upgrade atoll.db
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.store import schema

    with options.opened(url) as kept:
        before, name = kept.database.found_version, kept.database.name
    was = "as it was" if before == schema.VERSION else f"brought up from {before}" if before else "made"
    output.say(output.out(), f"{name} has schema {schema.VERSION}, {was}.")

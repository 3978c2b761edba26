"""The verbs `atoll playbook show`, `history`, `held`, `apply`, `reject`, `rollback`, `stats`, `export` and `import`."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look after playbooks: what agents have learnt, how it came about, and how to go back.",
)

COUNT_NAMES = ("applied", "held", "rejected", "retired")
PREFIX = "playbook/"
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Which playbook, or which run's, e.g. latest; needless where it is one."),
]


def open_playbook(run_store: Any, key: str | None) -> Any:
    """Opens the playbook that is meant.

    Raises:
        SetupError: There is none, or several and none was named.
    """
    from atoll import playbook  # with pydantic: help need not wait for it

    keys = run_store.versions().list(PREFIX)
    if key is None and len(keys) != 1:
        problem = (
            f"there are {', '.join(keys)}: name one with --key" if keys else "there is none yet: run an agent first"
        )
        raise errors.SetupError(f"Which playbook of {run_store.database.name}? {problem.capitalize()}.")
    playbook_key = keys[0] if key is None else _find_key(run_store, key, keys)
    return playbook.PlaybookStore(run_store.versions(), key=playbook_key)


def _find_key(run_store: Any, name: str, keys: Sequence[str]) -> str:
    """Returns the key that somebody named: itself, or the run whose playbook it is.

    Raises:
        SetupError: There is none of that name.
    """
    from atoll import runs

    if name in run_store.versions().list(name):
        return name
    with suppress(errors.NotFound):
        run_key = f"{PREFIX}{runs.find_run(run_store, name.removeprefix(PREFIX))}"
        if run_key in keys:
            return run_key
    available = f"there are {', '.join(keys)}" if keys else "there is none yet: run an agent first"
    raise errors.SetupError(f"There is no playbook {name} in {run_store.database.name}; {available}.")


@app.command("show")
def show(
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="Show only what an agent would be given.")
    ] = None,
    version: Annotated[int | None, typer.Option("--version", "-v", min=1, metavar="N", help="As it was then.")] = None,
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Shows a playbook, or the bullets of it that fit a query.

    \b
    Examples:
      atoll playbook show
      atoll playbook show "wolves at night"
      atoll playbook show --version 12 --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        playbook_store = open_playbook(run_store, key)
        content = playbook_store.at(version) if version else playbook_store.current()
        excerpts = playbook_store.retrieve(query) if query else None
    if as_json:
        bullets = content.bullets.values() if excerpts is None else [excerpt.bullet for excerpt in excerpts]
        console.print_json(
            {"key": playbook_store.key, "turn": content.turn, "bullets": [bullet.to_data() for bullet in bullets]}
        )
    elif excerpts is not None:
        for each in excerpts:
            console.print_line(console.get_stdout_console(), each.bullet.line)
        if not excerpts:
            console.print_line(console.get_stderr_console(), "No bullet has anything to do with it.")
    else:
        console.print_line(console.get_stdout_console(), content.text() or "It is empty.")


@app.command("history")
def history(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Show so many at most.")] = 20,
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Lists the versions of a playbook, newest first, with what was applied, held and rejected.

    \b
    Examples:
      atoll playbook history
      atoll playbook history -n 3 --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        changes = list(open_playbook(run_store, key).history())[: -limit - 1 : -1]
    if as_json:
        console.print_json([_change_to_json(change) for change in changes])
        return
    rows = []
    for each in changes:
        description = f"back to {each.restored}: {each.reason}" if each.restored else each.reason
        rows.append(
            (str(each.n), *(str(each.counts.get(name) or "-") for name in COUNT_NAMES), each.author, description)
        )
    headings = ("version", *COUNT_NAMES, "by", "why")
    console.print_table(
        console.get_stdout_console(),
        headings,
        rows,
        right_aligned=headings[:5],
        flexible="why",
        optional=("by", "retired"),
    )


@app.command("held")
def list_held(
    key: KeyOption = None, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Lists the deltas that wait for more evidence or for somebody who decides, with why.

    \b
    Examples:
      atoll playbook held
      atoll playbook held --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        held_deltas = open_playbook(run_store, key).list_held()
    if as_json:
        console.print_json([held_delta._asdict() | {"delta": held_delta.delta.to_data()} for held_delta in held_deltas])
        return
    rows = [
        (held_delta.id, str(held_delta.times), _format_delta(held_delta.delta), held_delta.reason)
        for held_delta in held_deltas
    ]
    if rows:
        console.print_table(
            console.get_stdout_console(),
            ("id", "times", "what", "why it waits"),
            rows,
            right_aligned=("times",),
            flexible="what",
        )
    else:
        console.print_line(console.get_stderr_console(), "Nothing waits.")


HeldArgument = Annotated[str, typer.Argument(metavar="ID", help="A held delta, as 'atoll playbook held' names it.")]
RequiredReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it stays in the history.")]


@app.command("apply")
def apply(
    held_id: HeldArgument,
    reason: RequiredReasonOption,
    author: options.AuthorOption = None,
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Applies a delta that waits: your reason is the evidence that it lacked.

    \b
    Examples:
      atoll playbook held
      atoll playbook apply 3f2a --reason "tried it twice, it holds"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    _decide(held_id, reason, author, key, store, as_json, is_applied=True)


@app.command("reject")
def reject(
    held_id: HeldArgument,
    reason: RequiredReasonOption,
    author: options.AuthorOption = None,
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Rejects a delta that waits; the history keeps it.

    \b
    Examples:
      atoll playbook reject 3f2a --reason "that was another world"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    _decide(held_id, reason, author, key, store, as_json, is_applied=False)


def _decide(
    held_id: str, reason: str, author: str | None, key: str | None, store: str, as_json: bool, *, is_applied: bool
) -> None:
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        playbook_store = open_playbook(run_store, key)
        change = playbook_store.settle(held_id, reason, parsing.resolve_author(author), is_applied=is_applied)
    (verdict,) = change.verdicts
    if as_json:
        console.print_json({"key": playbook_store.key, "version": change.n, **verdict.to_data()})
        return
    console.print_line(
        console.get_stdout_console(),
        f"{verdict.outcome} ({verdict.reason}), as version {change.n} of {playbook_store.key}.",
    )


def _format_delta(delta: Any) -> str:
    """Returns a delta in a line."""
    return " ".join(part for part in (delta.kind, delta.section, *delta.ids, delta.content) if part)


@app.command("rollback")
def rollback(
    version: Annotated[int, typer.Argument(min=1, metavar="N", help="The version to go back to.")],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for the history.")
    ] = "rolled back by hand",
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Makes an old version of a playbook the newest one; the history keeps everything.

    \b
    Examples:
      atoll playbook history
      atoll playbook rollback 12 --reason "it got worse after that"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        playbook_store = open_playbook(run_store, key)
        restored = playbook_store.rollback(version, reason, "user")
        new_version = playbook_store.version
    if as_json:
        console.print_json(
            {"key": playbook_store.key, "version": new_version, "restored": version, "bullets": len(restored)}
        )
        return
    console.print_line(
        console.get_stdout_console(),
        f"{playbook_store.key} is as it was in version {version}, as version {new_version}: {len(restored)} bullets.",
    )


@app.command("stats")
def stats(
    key: KeyOption = None, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Tells how large a playbook is, and what it covers.

    \b
    Examples:
      atoll playbook stats
      atoll playbook stats --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        playbook_store = open_playbook(run_store, key)
        statistics, version = playbook_store.stats(), playbook_store.version
    if as_json:
        console.print_json({"key": playbook_store.key, "version": version, **statistics.to_data()})
        return
    rows = [(name, f"{value:,}") for name, value in statistics.to_data().items() if isinstance(value, int)]
    rows += [(f"bullets of {name}", f"{count:,}") for name, count in statistics.coverage.items()]
    console.print_table(
        console.get_stdout_console(),
        ("what", "how many"),
        [("version", f"{version:,}"), *rows],
        right_aligned=("how many",),
    )


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Gets deltas/, current/ and archive/.")] = Path(
        "data/playbook"
    ),
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Writes a playbook as files: Markdown and JSON, which 'atoll playbook import' reads back.

    \b
    Examples:
      atoll playbook export
      atoll playbook export my_folder --key playbook/survival
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import playbook
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        playbook.export_folder(open_playbook(run_store, key), folder)
    console.print_line(console.get_stdout_console(), f"Wrote {console.format_value(folder)}.")


@app.command("import")
def import_playbook(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What 'export' wrote, edited or not.")],
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Which playbook it becomes; else the one it was.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Makes the playbook in a folder the newest version of the one that it was exported from.

    \b
    Examples:
      atoll playbook import data/playbook
      atoll playbook import data/playbook --key playbook/copy
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import playbook
    from atoll import store as stores
    from atoll.cli.terminal import console
    from atoll.playbook import files

    with stores.Store(store) as run_store:
        playbook_store = playbook.PlaybookStore(run_store.versions(), key=key or files.read_key(folder) or playbook.KEY)
        imported = playbook.import_folder(playbook_store, folder)
        new_version = playbook_store.version
    console.print_line(
        console.get_stdout_console(), f"{playbook_store.key} has {len(imported)} bullets, as version {new_version}."
    )


def _change_to_json(change: Any) -> dict[str, Any]:
    data = {"version": change.n, "parent": change.parent, "reason": change.reason, "author": change.author}
    data["restored"], data["retired"] = change.restored, [retired.bullet.id for retired in change.retired]
    return data | {
        "counts": {name: change.counts.get(name, 0) for name in COUNT_NAMES},
        "deltas": [verdict.to_data() for verdict in change.verdicts],
    }

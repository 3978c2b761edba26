"""Commands of `playbook`."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

if TYPE_CHECKING:
    from atoll import playbook as playbooks
    from atoll import store as stores

app = options.make_group("Show and edit playbooks.")

COUNT_NAMES = ("applied", "held", "rejected", "retired")
PREFIX = "playbook/"
KeyOption = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Playbook key, or a run.")]


def open_playbook(run_store: "stores.Store", key: str | None) -> "playbooks.PlaybookStore":
    """Opens a playbook by its key or run. A store with one playbook needs no key.

    Raises:
        SetupError: The playbook is not found, or the key is missing.
    """
    from atoll import playbook  # slow import: pydantic

    keys = run_store.versions().list(PREFIX)
    if key is None and len(keys) != 1:
        problem = f"has several: {', '.join(keys)}. Name one with --key." if keys else "has none. Run an agent first."
        raise errors.SetupError(f"No playbook is named, and {run_store.database.name} {problem}")
    playbook_key = keys[0] if key is None else _find_key(run_store, key, keys)
    return playbook.PlaybookStore(run_store.versions(), key=playbook_key)


def _find_key(run_store: "stores.Store", name: str, keys: Sequence[str]) -> str:
    """Returns the key of a playbook by its key or run.

    Raises:
        SetupError: The playbook is not found.
    """
    from atoll import runs

    for stored_key in (name, f"{PREFIX}{name}"):
        if stored_key in run_store.versions().list(stored_key):
            return stored_key
    with suppress(errors.NotFound):
        run_key = f"{PREFIX}{runs.find_run(run_store, name.removeprefix(PREFIX))}"
        if run_key in keys:
            return run_key
    available = f"Playbooks: {', '.join(keys)}." if keys else "Run an agent first."
    raise errors.SetupError(f"Playbook {name} not found in {run_store.database.name}. {available}")


@app.command("show")
def show(
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="Show only the bullets that an agent would get.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", "-v", min=1, metavar="N", help="Show an older version.")
    ] = None,
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Show a playbook, or the bullets that match a query.

    \b
    Examples:
      atoll playbook show
      atoll playbook show "wolves at night"
      atoll playbook show --version 12 --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        playbook_store = open_playbook(run_store, key)
        content = playbook_store.get_version(version) if version else playbook_store.current()
        excerpts = playbook_store.retrieve(query) if query else None
    if as_json:
        bullets = content.bullets.values() if excerpts is None else [excerpt.bullet for excerpt in excerpts]
        console.print_json(
            {"key": playbook_store.key, "turn": content.turn, "bullets": [bullet.to_data() for bullet in bullets]}
        )
    elif excerpts is not None:
        for excerpt in excerpts:
            console.print_result(excerpt.bullet.line)
        if not excerpts:
            console.print_note("No bullet matches the query.")
    else:
        console.print_result(content.to_text() or "The playbook is empty.")


@app.command("history")
def history(
    limit: options.LimitOption = 20,
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """List versions, newest first.

    Counts the applied, held, rejected and retired deltas of each version.

    \b
    Examples:
      atoll playbook history
      atoll playbook history -n 3 --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        changes = list(open_playbook(run_store, key).history())[: -limit - 1 : -1]
    if as_json:
        console.print_json([_change_to_json(change) for change in changes])
        return
    rows = []
    for change in changes:
        description = f"restored {change.restored}: {change.reason}" if change.restored else change.reason
        counts = (str(change.counts.get(name) or "-") for name in COUNT_NAMES)
        rows.append((str(change.n), *counts, change.author, description))
    headings = ("version", *COUNT_NAMES, "author", "reason")
    console.print_result_table(
        headings, rows, right_aligned=headings[:5], flexible="reason", optional=("author", "retired")
    )


@app.command("held")
def list_held(
    key: KeyOption = None, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """List held deltas and the reason for each.

    \b
    Examples:
      atoll playbook held
      atoll playbook held --json
    """  # noqa: D301 - \b keeps line breaks
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
        console.print_result_table(("id", "times", "delta", "reason"), rows, right_aligned=("times",), flexible="delta")
    else:
        console.print_note("No deltas are held.")


HeldArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a held delta.")]


@app.command("approve")
def approve(
    held_id: HeldArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Apply a held delta.

    Your reason is recorded as the missing evidence.

    \b
    Examples:
      atoll playbook held
      atoll playbook approve 3f2a --reason "tried it twice"
    """  # noqa: D301 - \b keeps line breaks
    _decide(held_id, reason, author, key, store, as_json, is_approved=True)


@app.command("reject")
def reject(
    held_id: HeldArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Reject a held delta.

    \b
    Examples:
      atoll playbook reject 3f2a --reason "it belongs to another world"
    """  # noqa: D301 - \b keeps line breaks
    _decide(held_id, reason, author, key, store, as_json, is_approved=False)


def _decide(
    held_id: str, reason: str, author: str | None, key: str | None, store: str, as_json: bool, *, is_approved: bool
) -> None:
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        playbook_store = open_playbook(run_store, key)
        change = playbook_store.decide_held(held_id, reason, parsing.resolve_author(author), is_approved=is_approved)
    (verdict,) = change.verdicts
    if as_json:
        console.print_json({"key": playbook_store.key, "version": change.n, **verdict.to_data()})
        return
    console.print_result(f"{verdict.outcome} ({verdict.reason}), as version {change.n} of {playbook_store.key}.")


def _format_delta(delta: Any) -> str:
    return " ".join(part for part in (delta.kind, delta.section, *delta.ids, delta.content) if part)


@app.command("rollback")
def rollback(
    version: Annotated[int, typer.Argument(min=1, metavar="N", help="Version to restore.")],
    reason: options.ReasonOption = "rolled back by hand",
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Restore version N as a new version.

    \b
    Examples:
      atoll playbook history
      atoll playbook rollback 12 --reason "it got worse after that"
    """  # noqa: D301 - \b keeps line breaks
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
    console.print_result(
        f"Restored version {version} of {playbook_store.key} as version {new_version}: {len(restored)} bullets."
    )


@app.command("stats")
def stats(
    key: KeyOption = None, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Show the size, and the number of bullets of each section.

    \b
    Examples:
      atoll playbook stats
      atoll playbook stats --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        playbook_store = open_playbook(run_store, key)
        statistics, version = playbook_store.stats(), playbook_store.version
    if as_json:
        console.print_json({"key": playbook_store.key, "version": version, **statistics.to_data()})
        return
    rows = [(name, f"{value:,}") for name, value in statistics.to_data().items() if isinstance(value, int)]
    rows += [(f"bullets of {name}", f"{count:,}") for name, count in statistics.coverage.items()]
    console.print_result_table(("statistic", "count"), [("version", f"{version:,}"), *rows], right_aligned=("count",))


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for deltas/, current/ and archive/.")] = Path(
        "data/playbook"
    ),
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Write a playbook as Markdown and JSON files.

    \b
    Examples:
      atoll playbook export
      atoll playbook export my_folder --key playbook/survival
    """  # noqa: D301 - \b keeps line breaks
    from atoll import playbook
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        playbook.export_folder(open_playbook(run_store, key), folder)
    console.print_result(f"Wrote {console.format_path(folder)}.")


@app.command("import")
def import_playbook(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Exported folder, edited or not.")],
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Import an exported playbook as a new version.

    --key names another playbook than the exported one.

    \b
    Examples:
      atoll playbook import data/playbook
      atoll playbook import data/playbook --key playbook/copy
    """  # noqa: D301 - \b keeps line breaks
    from atoll import playbook
    from atoll import store as stores
    from atoll.cli.terminal import console
    from atoll.playbook import files

    with stores.Store(store) as run_store:
        playbook_store = playbook.PlaybookStore(run_store.versions(), key=key or files.read_key(folder) or playbook.KEY)
        imported = playbook.import_folder(playbook_store, folder)
        new_version = playbook_store.version
    console.print_result(f"{playbook_store.key} has {len(imported)} bullets, version {new_version}.")


def _change_to_json(change: Any) -> dict[str, Any]:
    data = {"version": change.n, "parent": change.parent, "reason": change.reason, "author": change.author}
    data["restored"], data["retired"] = change.restored, [retired.bullet.id for retired in change.retired]
    return data | {
        "counts": {name: change.counts.get(name, 0) for name in COUNT_NAMES},
        "deltas": [verdict.to_data() for verdict in change.verdicts],
    }

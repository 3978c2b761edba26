"""The verbs `atoll playbook show`, `history`, `held`, `apply`, `reject`, `rollback`, `stats`, `export` and `import`."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import options, proposing

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look after playbooks: what agents have learnt, how it came about, and how to go back.",
)

COUNTS = ("applied", "held", "rejected", "retired")
PREFIX = "playbook/"
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Which playbook, or which run's, e.g. latest; needless where it is one."),
]


def opened(kept: Any, key: str | None) -> Any:
    """Opens the playbook that is meant.

    Raises:
        SetupError: There is none, or several and none was named.
    """
    from atoll import playbook  # with pydantic: help need not wait for it

    keys = kept.versions().list(PREFIX)
    if key is None and len(keys) != 1:
        named = f"there are {', '.join(keys)}: name one with --key" if keys else "there is none yet: run an agent first"
        raise errors.SetupError(f"Which playbook of {kept.database.name}? {named.capitalize()}.")
    chosen = keys[0] if key is None else _chosen(kept, key, keys)
    return playbook.Store(kept.versions(), key=chosen)


def _chosen(kept: Any, name: str, keys: Sequence[str]) -> str:
    """Returns the key that somebody named: itself, or the run whose playbook it is.

    Raises:
        SetupError: There is none of that name.
    """
    from atoll import runs

    if name in kept.versions().list(name):
        return name
    with suppress(errors.NotFound):
        found = f"{PREFIX}{runs.find(kept, name.removeprefix(PREFIX))}"
        if found in keys:
            return found
    there = f"there are {', '.join(keys)}" if keys else "there is none yet: run an agent first"
    raise errors.SetupError(f"There is no playbook {name} in {kept.database.name}; {there}.")


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
    from atoll.cli import output

    with options.opened(store) as kept:
        notes = opened(kept, key)
        found = notes.at(version) if version else notes.current()
        excerpts = notes.retrieve(query) if query else None
    if as_json:
        bullets = found.bullets.values() if excerpts is None else [each.bullet for each in excerpts]
        output.print_json({"key": notes.key, "turn": found.turn, "bullets": [each.to_data() for each in bullets]})
    elif excerpts is not None:
        for each in excerpts:
            output.say(output.out(), each.bullet.line)
        if not excerpts:
            output.say(output.err(), "No bullet has anything to do with it.")
    else:
        output.say(output.out(), found.text() or "It is empty.")


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
    from atoll.cli import output

    with options.opened(store) as kept:
        events = list(opened(kept, key).history())[: -limit - 1 : -1]
    if as_json:
        output.print_json([_event(each) for each in events])
        return
    rows = []
    for each in events:
        told = f"back to {each.restored}: {each.reason}" if each.restored else each.reason
        rows.append((str(each.n), *(str(each.counts.get(name) or "-") for name in COUNTS), each.author, told))
    headings = ("version", *COUNTS, "by", "why")
    output.table(output.out(), headings, rows, right=headings[:5], flexible="why", spare=("by", "retired"))


@app.command("held")
def held(
    key: KeyOption = None, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Lists the deltas that wait for more evidence or for somebody who decides, with why.

    \b
    Examples:
      atoll playbook held
      atoll playbook held --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output

    with options.opened(store) as kept:
        found = opened(kept, key).waiting()
    if as_json:
        output.print_json([each._asdict() | {"delta": each.delta.to_data()} for each in found])
        return
    rows = [(each.id, str(each.times), _said(each.delta), each.reason) for each in found]
    if rows:
        output.table(output.out(), ("id", "times", "what", "why it waits"), rows, right=("times",), flexible="what")
    else:
        output.say(output.err(), "Nothing waits.")


HeldArgument = Annotated[str, typer.Argument(metavar="ID", help="A held delta, as 'atoll playbook held' names it.")]
DecidedOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it stays in the history.")]


@app.command("apply")
def apply(
    held_id: HeldArgument,
    reason: DecidedOption,
    by: proposing.ByOption = "",
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
    _settle(held_id, reason, by, key, store, as_json, is_applied=True)


@app.command("reject")
def reject(
    held_id: HeldArgument,
    reason: DecidedOption,
    by: proposing.ByOption = "",
    key: KeyOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Rejects a delta that waits; the history keeps it.

    \b
    Examples:
      atoll playbook reject 3f2a --reason "that was another world"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    _settle(held_id, reason, by, key, store, as_json, is_applied=False)


def _settle(
    held_id: str, reason: str, by: str, key: str | None, store: str, as_json: bool, *, is_applied: bool
) -> None:
    from atoll.cli import output

    with options.opened(store) as kept:
        notes = opened(kept, key)
        change = notes.settle(held_id, reason, by or proposing.me(), is_applied=is_applied)
    (verdict,) = change.verdicts
    if as_json:
        output.print_json({"key": notes.key, "version": change.n, **verdict.to_data()})
        return
    output.say(output.out(), f"{verdict.outcome} ({verdict.reason}), as version {change.n} of {notes.key}.")


def _said(delta: Any) -> str:
    """Returns a delta in a line."""
    return " ".join(each for each in (delta.kind, delta.section, *delta.ids, delta.content) if each)


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
    from atoll.cli import output

    with options.opened(store) as kept:
        notes = opened(kept, key)
        found = notes.rollback(version, reason, "user")
        made = notes.version
    if as_json:
        output.print_json({"key": notes.key, "version": made, "restored": version, "bullets": len(found)})
        return
    output.say(output.out(), f"{notes.key} is as it was in version {version}, as version {made}: {len(found)} bullets.")


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
    from atoll.cli import output

    with options.opened(store) as kept:
        notes = opened(kept, key)
        found, version = notes.stats(), notes.version
    if as_json:
        output.print_json({"key": notes.key, "version": version, **found.to_data()})
        return
    rows = [(name, f"{value:,}") for name, value in found.to_data().items() if isinstance(value, int)]
    rows += [(f"bullets of {name}", f"{count:,}") for name, count in found.coverage.items()]
    output.table(output.out(), ("what", "how many"), [("version", f"{version:,}"), *rows], right=("how many",))


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
    from atoll.cli import output

    with options.opened(store) as kept:
        playbook.export(opened(kept, key), folder)
    output.say(output.out(), f"Wrote {output.shown(folder)}.")


@app.command("import")
def adopt(
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
    from atoll.cli import output
    from atoll.playbook import files

    with stores.Store(store) as kept:
        notes = playbook.Store(kept.versions(), key=key or files.key_of(folder) or playbook.KEY)
        found = playbook.adopt(notes, folder)
        made = notes.version
    output.say(output.out(), f"{notes.key} has {len(found)} bullets, as version {made}.")


def _event(event: Any) -> dict[str, Any]:
    data = {"version": event.n, "parent": event.parent, "reason": event.reason, "author": event.author}
    data["restored"], data["retired"] = event.restored, [each.bullet.id for each in event.retired]
    return data | {
        "counts": {name: event.counts.get(name, 0) for name in COUNTS},
        "deltas": [verdict.to_data() for verdict in event.verdicts],
    }

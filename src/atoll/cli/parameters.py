"""The verbs `atoll params get`, `list`, `history`, `diff`, `watch` and `export`; `governing` has those that change."""

import difflib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import binding, governing, options, values

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look after parameters: values with a history, a reason, locks, aliases and an audit log.",
)
for name, verb in {**governing.VERBS, "evolvable": binding.evolvable}.items():
    app.command(name)(verb)

MOST = 2**63 - 1  # the greatest number that a store can hold
PrefixArgument = Annotated[str, typer.Argument(metavar="[PREFIX]", show_default=False, help="Keys that begin so.")]


@app.command("get")
def get(
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key, KEY@3 for a version, KEY@production for an alias.")],
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="WHEN", help="After so many changes, or at a time.")
    ] = None,
    default: Annotated[str | None, typer.Option(metavar="VALUE", help="What to print if there is no such key.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Prints a value: a text as it is, all else as JSON.

    \b
    Examples:
      atoll params get ema/alpha
      atoll params get ema/alpha@production --json
      atoll params get ema/alpha --as-of 2026-11-15T12:00
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.config import parameters

    with parameters.open(store) as kept:
        try:
            value, version = parameters.value(kept, key, as_of)
        except errors.NotFound:
            if default is None:
                raise
            value, version = values.value(default), 0
    if as_json:
        output.print_json({"key": key, "value": value, "version": version})
    else:
        print(shown(value))


@app.command("list")
def list_keys(
    prefix: PrefixArgument = "",
    every: Annotated[
        bool, typer.Option("--all", help="Also what other verbs keep: proposals, rollouts, playbooks, tools, skills.")
    ] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Lists parameters with their values, versions, aliases and locks.

    \b
    Examples:
      atoll params list
      atoll params list --all
      atoll params list ema/ --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.config import parameters

    with parameters.open(store) as kept:
        held = kept.snapshot(prefix).values
        keys = [key for key in held if every or not _is_kept_elsewhere(key, prefix)]
        found = [
            {"key": key, "value": value, "version": version, "aliases": dict(kept.aliases(key)),
             "locked": None if (lock := kept.lock_of(key)) is None else f"{lock.author}: {lock.reason}"}
            for key, (value, version) in ((key, held[key]) for key in keys)
        ]  # fmt: skip
    if as_json:
        output.print_json(found)
        return
    rows = [
        [each["key"], str(each["version"]), shown(each["value"]), _pointers(each["aliases"]), each["locked"] or ""]
        for each in found
    ]
    headings = ["key", "version", "value", "aliases", "locked"]
    output.table(output.out(), headings, rows, right=["version"], flexible="value")
    if len(keys) < len(held):
        output.say(output.err(), f"{len(held) - len(keys):,} more are kept by other verbs; --all lists them.", "dim")


def _is_kept_elsewhere(key: str, prefix: str) -> bool:
    """Whether another verb looks after a key, and nobody asked for its kind."""
    from atoll.governed import reserved

    return any(key.startswith(each) and not prefix.startswith(each) for each in reserved.PREFIXES)


@app.command("history")
def history(
    key: governing.KeyArgument,
    limit: Annotated[int, typer.Option("-n", "--limit", metavar="N", max=MOST, help="Only the newest; 0 is all.")] = 0,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Lists the versions of a parameter, the oldest first: who, when and why.

    \b
    Examples:
      atoll params history ema/alpha -n 10
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.config import parameters

    with parameters.open(store) as kept:
        found = [told(change) for change in kept.history(key, limit)]
    if as_json:
        output.print_json(found)
        return
    rows = [
        [str(each["version"]), each["timestamp"][:19].replace("T", " "), each["kind"], each["author"],
         shown(each["value"]), each["reason"]] for each in found
    ]  # fmt: skip
    headings = ["version", "when (UTC)", "kind", "author", "value", "reason"]
    output.table(output.out(), headings, rows, right=["version"], flexible="value", spare=["kind"])


@app.command("diff")
def diff(
    key: governing.KeyArgument,
    old: Annotated[
        str | None, typer.Argument(metavar="[OLD]", help="A version or an alias; else the one before.")
    ] = None,
    new: Annotated[str | None, typer.Argument(metavar="[NEW]", help="A version or an alias; else the newest.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Shows what changed between two versions of a parameter.

    \b
    Examples:
      atoll params diff prompt/system
      atoll params diff prompt/system production 7
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.config import parameters

    with parameters.open(store) as kept:
        after = parameters.value(kept, key if new is None else f"{key}@{new}")
        before = parameters.value(kept, f"{key}@{max(after.version - 1, 1) if old is None else old}")
    if as_json:
        sides = {"old": before, "new": after}
        output.print_json({"key": key} | {side: each._asdict() for side, each in sides.items()})
        return
    one, other = (shown(each.value, indent=2).splitlines() for each in (before, after))
    for line in difflib.unified_diff(one, other, f"{key}@{before.version}", f"{key}@{after.version}", lineterm=""):
        output.say(output.out(), line)


@app.command("watch")
def watch(
    prefix: PrefixArgument = "",
    after: Annotated[
        int | None, typer.Option(metavar="N", max=MOST, help="Begin behind so many changes; 0 shows all.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, metavar="S", help="End when nothing comes for so long.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Prints changes as they are made, by whichever process, until Ctrl-C.

    \b
    Examples:
      atoll params watch
      atoll params watch ema/ --after 0 --timeout 1 --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.config import parameters

    with parameters.open(store) as kept:
        try:
            for each in kept.watch(prefix, after=after, timeout=timeout, buffer=None):
                data = told(each)
                line = json.dumps(data) if as_json else _line(data)
                output.say(output.out(), line) if not as_json else print(line, flush=True)
        except KeyboardInterrupt:
            return


@app.command("export")
def export(
    prefix: PrefixArgument = "",
    is_log: Annotated[bool, typer.Option("--log", help="The whole audit log, a line per change.")] = False,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="WHEN", help="As it stood then.")] = None,
    to: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Writes values as one JSON object, or the audit log as lines of JSON.

    'atoll params import FILE' reads the former; 'atoll audit verify --log FILE' checks the latter.

    \b
    Examples:
      atoll params export > values.json
      atoll params export --log -o audit.jsonl
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.config import parameters
    from atoll.store import audit

    if is_log and (prefix or as_of):
        raise errors.SetupError("The log is exported whole, or its chain would not hold: leave out the rest.")
    with parameters.open(store) as kept:
        if is_log:
            lines = [audit.line(each) for each in kept.ledger.entries()]
        else:
            held = kept.snapshot(prefix, as_of=parameters.moment(as_of)).values
            found = {key: value for key, (value, _) in held.items() if not _is_kept_elsewhere(key, prefix)}
            lines = [json.dumps(found, indent=1, ensure_ascii=False)]
    text = "".join(f"{line}\n" for line in lines)
    if to is None:
        sys.stdout.write(text)
    else:
        to.write_text(text, encoding="utf-8")


def told(change: Any) -> dict[str, Any]:
    """Returns a change as plain data."""
    names = ("seq", "key", "kind", "version", "value", "reason", "author", "target", "hash")
    return {name: getattr(change, name) for name in names} | {"timestamp": change.timestamp.isoformat()}


def shown(value: Any, indent: int | None = None) -> str:
    """Returns a text as it is, and all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)


def _pointers(aliases: Mapping[str, int]) -> str:
    return " ".join(f"@{name}={version}" for name, version in aliases.items())


def _line(data: Mapping[str, Any]) -> str:
    value = "" if data["value"] is None else f" {shown(data['value'])}"
    what = f"{data['kind']} {data['key']}@{data['version']}{value}"
    return f"{data['seq']} {data['timestamp'][:19]} {what} ({data['author']}: {data['reason']})"

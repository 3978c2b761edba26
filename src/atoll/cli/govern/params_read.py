"""The verbs `atoll params get`, `list`, `history`, `diff`, `watch` and `export`; `governing` has those that change."""

import difflib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.govern import params_write
from atoll.cli.terminal import options, parsing

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look after parameters: values with a history, a reason, locks, aliases and an audit log.",
)
for command_name, command in {**params_write.COMMANDS, "evolvable": params_write.list_settings}.items():
    app.command(command_name)(command)

MAX_INTEGER = 2**63 - 1  # the greatest number that a store can hold
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
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        try:
            value, version = parameter_stores.read_value(param_store, key, as_of)
        except errors.NotFound:
            if default is None:
                raise
            value, version = parsing.parse_value(default), 0
    if as_json:
        console.print_json({"key": key, "value": value, "version": version})
    else:
        print(format_value(value))


@app.command("list")
def list_keys(
    prefix: PrefixArgument = "",
    include_all: Annotated[
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
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        all_values = param_store.snapshot(prefix).values
        keys = [key for key in all_values if include_all or not _is_reserved(key, prefix)]
        parameter_rows = [
            {"key": key, "value": value, "version": version, "aliases": dict(param_store.aliases(key)),
             "locked": None if (lock := param_store.get_lock(key)) is None else f"{lock.author}: {lock.reason}"}
            for key, (value, version) in ((key, all_values[key]) for key in keys)
        ]  # fmt: skip
    if as_json:
        console.print_json(parameter_rows)
        return
    cells = [
        [
            row["key"],
            str(row["version"]),
            format_value(row["value"]),
            _format_aliases(row["aliases"]),
            row["locked"] or "",
        ]
        for row in parameter_rows
    ]
    headings = ["key", "version", "value", "aliases", "locked"]
    console.print_table(console.get_stdout_console(), headings, cells, right_aligned=["version"], flexible="value")
    if len(keys) < len(all_values):
        console.print_line(
            console.get_stderr_console(),
            f"{len(all_values) - len(keys):,} more are kept by other verbs; --all lists them.",
            "dim",
        )


def _is_reserved(key: str, prefix: str) -> bool:
    """Whether another verb looks after a key, and nobody asked for its kind."""
    from atoll.governed import reserved_keys

    return any(
        key.startswith(reserved_prefix) and not prefix.startswith(reserved_prefix)
        for reserved_prefix in reserved_keys.RESERVED_PREFIXES
    )


@app.command("history")
def history(
    key: params_write.KeyArgument,
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", max=MAX_INTEGER, help="Only the newest; 0 is all.")
    ] = 0,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Lists the versions of a parameter, the oldest first: who, when and why.

    \b
    Examples:
      atoll params history ema/alpha -n 10
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        changes = [change_to_json(change) for change in param_store.history(key, limit)]
    if as_json:
        console.print_json(changes)
        return
    cells = [
        [str(change["version"]), change["timestamp"][:19].replace("T", " "), change["kind"], change["author"],
         format_value(change["value"]), change["reason"]] for change in changes
    ]  # fmt: skip
    headings = ["version", "when (UTC)", "kind", "author", "value", "reason"]
    console.print_table(
        console.get_stdout_console(), headings, cells, right_aligned=["version"], flexible="value", optional=["kind"]
    )


@app.command("diff")
def diff(
    key: params_write.KeyArgument,
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
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        new_value = parameter_stores.read_value(param_store, key if new is None else f"{key}@{new}")
        old_value = parameter_stores.read_value(
            param_store, f"{key}@{max(new_value.version - 1, 1) if old is None else old}"
        )
    if as_json:
        sides = {"old": old_value, "new": new_value}
        console.print_json({"key": key} | {side: parameter._asdict() for side, parameter in sides.items()})
        return
    old_lines, new_lines = (
        format_value(parameter.value, indent=2).splitlines() for parameter in (old_value, new_value)
    )
    for line in difflib.unified_diff(
        old_lines, new_lines, f"{key}@{old_value.version}", f"{key}@{new_value.version}", lineterm=""
    ):
        console.print_line(console.get_stdout_console(), line)


@app.command("watch")
def watch(
    prefix: PrefixArgument = "",
    after: Annotated[
        int | None, typer.Option(metavar="N", max=MAX_INTEGER, help="Begin behind so many changes; 0 shows all.")
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
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        try:
            for change in param_store.watch(prefix, after=after, timeout=timeout, buffer=None):
                data = change_to_json(change)
                line = json.dumps(data) if as_json else _format_change(data)
                console.print_line(console.get_stdout_console(), line) if not as_json else print(line, flush=True)
        except KeyboardInterrupt:
            return


@app.command("export")
def export(
    prefix: PrefixArgument = "",
    is_log: Annotated[bool, typer.Option("--log", help="The whole audit log, a line per change.")] = False,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="WHEN", help="As it stood then.")] = None,
    output_path: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Writes values as one JSON object, or the audit log as lines of JSON.

    'atoll params import FILE' reads the former; 'atoll audit verify --log FILE' checks the latter.

    \b
    Examples:
      atoll params export > values.json
      atoll params export --log -o audit.jsonl
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.config import parameter_stores
    from atoll.store.versions import audit

    if is_log and (prefix or as_of):
        raise errors.SetupError("The log is exported whole, or its chain would not hold: leave out the rest.")
    with parameter_stores.open_parameters(store) as param_store:
        if is_log:
            lines = [audit.format_line(entry) for entry in param_store.ledger.iter_entries()]
        else:
            values_by_key = param_store.snapshot(prefix, as_of=parameter_stores.parse_as_of(as_of)).values
            exported = {key: value for key, (value, _) in values_by_key.items() if not _is_reserved(key, prefix)}
            lines = [json.dumps(exported, indent=1, ensure_ascii=False)]
    text = "".join(f"{line}\n" for line in lines)
    if output_path is None:
        sys.stdout.write(text)
    else:
        output_path.write_text(text, encoding="utf-8")


def change_to_json(change: Any) -> dict[str, Any]:
    """Returns a change as plain data."""
    names = ("seq", "key", "kind", "version", "value", "reason", "author", "target", "hash")
    return {name: getattr(change, name) for name in names} | {"timestamp": change.timestamp.isoformat()}


def format_value(value: Any, indent: int | None = None) -> str:
    """Returns a text as it is, and all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)


def _format_aliases(aliases: Mapping[str, int]) -> str:
    return " ".join(f"@{name}={version}" for name, version in aliases.items())


def _format_change(data: Mapping[str, Any]) -> str:
    value = "" if data["value"] is None else f" {format_value(data['value'])}"
    description = f"{data['kind']} {data['key']}@{data['version']}{value}"
    return f"{data['seq']} {data['timestamp'][:19]} {description} ({data['author']}: {data['reason']})"

"""Commands `params get`, `list`, `history`, `diff`, `watch` and `export`; `params_write` has the others."""

import difflib
import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.govern import params_write
from atoll.cli.terminal import options, parsing

app = options.make_group("Manage versioned parameters.")
for command_name, command in params_write.COMMANDS.items():
    app.command(command_name)(command)

MAX_INTEGER = 2**63 - 1  # largest integer of a store
AsOfOption = Annotated[
    str | None, typer.Option("--as-of", metavar="TIME", help="Read the state at a time or after N changes.")
]
PrefixArgument = Annotated[
    str, typer.Argument(metavar="[PREFIX]", show_default=False, help="Only keys with this prefix.")
]


@app.command("get")
def get(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Key; KEY@3 for a version, KEY@NAME for an alias.")],
    as_of: AsOfOption = None,
    default: Annotated[
        str | None, typer.Option("--default", metavar="VALUE", help="Value to print if the key does not exist.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Print a value; KEY@3 and KEY@production work too.

    Strings are printed without quotes, other values as JSON.

    \b
    Examples:
      atoll params get ema/alpha
      atoll params get ema/alpha@production --json
      atoll params get ema/alpha --as-of 2026-11-15T12:00
    """  # noqa: D301 - \b keeps line breaks
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
    include_all: Annotated[bool, typer.Option("--all", help="Include keys managed by other commands.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """List parameters.

    \b
    Examples:
      atoll params list
      atoll params list --all
      atoll params list ema/ --json
    """  # noqa: D301 - \b keeps line breaks
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
    console.print_result_table(headings, cells, right_aligned=["version"], flexible="value")
    if len(keys) < len(all_values):
        console.print_note(f"{len(all_values) - len(keys):,} more with --all: keys of other commands.", "dim")


def _is_reserved(key: str, prefix: str) -> bool:
    """Tells whether another command manages a key that the prefix does not name."""
    from atoll.governed import reserved_keys

    return any(
        key.startswith(reserved_prefix) and not prefix.startswith(reserved_prefix)
        for reserved_prefix in reserved_keys.RESERVED_PREFIXES
    )


@app.command("history")
def history(
    key: options.KeyArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", max=MAX_INTEGER, help="Show at most N rows.")] = 0,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """List the versions of a parameter.

    The oldest is first. -n N shows the newest N.

    \b
    Examples:
      atoll params history ema/alpha -n 10
    """  # noqa: D301 - \b keeps line breaks
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
    headings = ["version", "time (UTC)", "kind", "author", "value", "reason"]
    console.print_result_table(headings, cells, right_aligned=["version"], flexible="value", optional=["kind"])


@app.command("diff")
def diff(
    key: options.KeyArgument,
    old: Annotated[
        str | None, typer.Argument(metavar="[OLD]", help="Version or alias; default: the previous version.")
    ] = None,
    new: Annotated[
        str | None, typer.Argument(metavar="[NEW]", help="Version or alias; default: the current version.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Compare two versions.

    \b
    Examples:
      atoll params diff prompt/system
      atoll params diff prompt/system production 7
    """  # noqa: D301 - \b keeps line breaks
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
        console.print_result(line)


@app.command("watch")
def watch(
    prefix: PrefixArgument = "",
    after: Annotated[
        int | None, typer.Option("--after", metavar="N", max=MAX_INTEGER, help="Start after change N.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="S", help="Stop after S seconds without changes.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Print changes as they happen.

    Shows changes by all processes, until Ctrl-C.

    \b
    Examples:
      atoll params watch
      atoll params watch ema/ --after 0 --timeout 1 --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        try:
            for change in param_store.watch(prefix, after=after, timeout=timeout, buffer=None):
                data = change_to_json(change)
                line = json.dumps(data) if as_json else _format_change(data)
                console.print_result(line) if not as_json else print(line, flush=True)
        except KeyboardInterrupt:
            return


@app.command("export")
def export(
    prefix: PrefixArgument = "",
    is_audit_log: Annotated[bool, typer.Option("--audit-log", help="Write the audit log instead of values.")] = False,
    as_of: AsOfOption = None,
    output_path: options.OutputOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
) -> None:
    """Write values as JSON.

    'atoll params import FILE' reads the values. 'atoll audit verify --exported FILE' verifies the audit log.

    \b
    Examples:
      atoll params export > values.json
      atoll params export --audit-log -o audit.jsonl
    """  # noqa: D301 - \b keeps line breaks
    from atoll.config import parameter_stores
    from atoll.store.versions import audit

    if is_audit_log and (prefix or as_of):
        raise errors.SetupError("--audit-log always exports the full log. Leave out PREFIX and --as-of.")
    with parameter_stores.open_parameters(store) as param_store:
        if is_audit_log:
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
    names = ("seq", "key", "kind", "version", "value", "reason", "author", "target", "hash")
    return {name: getattr(change, name) for name in names} | {"timestamp": change.timestamp.isoformat()}


def format_value(value: Any, indent: int | None = None) -> str:
    """Returns a string unchanged, and other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)


def _format_aliases(aliases: Mapping[str, int]) -> str:
    return " ".join(f"@{name}={version}" for name, version in aliases.items())


def _format_change(data: Mapping[str, Any]) -> str:
    value = "" if data["value"] is None else f" {format_value(data['value'])}"
    description = f"{data['kind']} {data['key']}@{data['version']}{value}"
    return f"{data['seq']} {data['timestamp'][:19]} {description} ({data['author']}: {data['reason']})"

"""The verbs of `atoll params` that change: set, rollback, lock, unlock, alias, import."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import options, values

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="Which parameter.")]
ExpectOption = Annotated[
    int | None, typer.Option("--expect", metavar="N", help="Only if the newest version is this one; 0: none yet.")
]
RulesOption = Annotated[
    Path | None, typer.Option("--rules", metavar="FILE", envvar="ATOLL_RULES", help="JSON Schemas by prefix.")
]


def set_value(
    key: KeyArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or a plain text; @FILE reads a file.")],
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    expect: ExpectOption = None,
    rules: RulesOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Makes a new version of a parameter.

    \b
    Examples:
      atoll params set ema/alpha 0.3 -m "a start"
      atoll params set ema/alpha 0.4 -m "faster" --expect 1
      atoll params set prompt/system @prompt.txt -m "shorter" --store params/
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.config import parameters

    _check_change(reason, key)
    parsed_value = values.parse_value(value)
    values.refuse_secrets(parsed_value, reason)
    with parameters.open_parameters(store, rules=rules, create=True) as param_store:
        version = param_store.set(key, parsed_value, reason, author=values.resolve_author(author), expected_version=expect)
    _print_result(f"{key} is at version {version} now.", as_json, {"key": key, "version": version})


def rollback(
    key: KeyArgument,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="Whose value shall hold again.")],
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Makes an old value the newest again, as a new version; of a locked parameter too.

    \b
    Examples:
      atoll params rollback ema/alpha 1 -m "0.4 was worse"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.config import parameters

    _check_change(reason, key)
    with parameters.open_parameters(store) as param_store:
        new_version = param_store.rollback(key, version, reason, author=values.resolve_author(author))
    _print_result(f"{key} is at version {new_version} now, with the value of {version}.", as_json, {"key": key, "version": new_version})


def lock(
    key: KeyArgument,
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Refuses changes of a parameter, but for rollbacks, until it is unlocked.

    \b
    Examples:
      atoll params lock ema/alpha -m "release week"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.config import parameters

    values.check_reason(reason)
    with parameters.open_parameters(store) as param_store:
        param_store.lock(key, reason, author=values.resolve_author(author))
    _print_result(f"{key} is locked.", as_json, {"key": key, "locked": True})


def unlock(
    key: KeyArgument,
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Lets changes of a parameter in again.

    \b
    Examples:
      atoll params unlock ema/alpha -m "released"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.config import parameters

    values.check_reason(reason)
    with parameters.open_parameters(store) as param_store:
        param_store.unlock(key, reason, author=values.resolve_author(author))
    _print_result(f"{key} is not locked.", as_json, {"key": key, "locked": False})


def alias(
    key: KeyArgument,
    name: Annotated[str, typer.Argument(metavar="ALIAS", help="E.g. production, canary.")],
    version: Annotated[str, typer.Argument(metavar="VERSION", help="What it stands for; 'none' takes it away.")],
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    expect: Annotated[
        int | None, typer.Option("--expect", metavar="N", help="Only if it points there; 0: nowhere.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Lets KEY@ALIAS stand for a version.

    \b
    Examples:
      atoll params alias ema/alpha production 2 -m "the canary held"
      atoll params get ema/alpha@production
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.config import parameters

    _check_change(reason, key)
    if version != "none" and not version.isdigit():
        raise errors.SetupError(f"{version!r} is no version: give a number, or 'none' to take the alias away.")
    target = None if version == "none" else int(version)
    with parameters.open_parameters(store) as param_store:
        param_store.alias(key, name, target, reason, author=values.resolve_author(author), expected_version=expect)
    message = f"{key}@{name} is gone." if target is None else f"{key}@{name} stands for version {target} now."
    _print_result(message, as_json, {"key": key, "alias": name, "version": target})


def import_values(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", show_default=False, help="What 'export' wrote.")
    ] = None,
    flyto: Annotated[
        Path | None, typer.Option("--flyto", metavar="DIR", help="A folder of the original layout, with its history.")
    ] = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Put before the keys of --flyto.")] = "",
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    rules: RulesOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Takes parameters in: values from a file, all of them or none, or a folder with its history and locks.

    Values that are the same already make no version. A folder keeps its reasons, authors and times; its keys must be
    new here.

    \b
    Examples:
      atoll params import values.json -m "from the test system"
      atoll params import --flyto evolve/params --store params.db
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.config import parameters

    if (file is None) == (flyto is None):
        raise errors.SetupError("import needs one source: a FILE that 'atoll params export' wrote, or --flyto DIR.")
    if flyto is not None:
        with parameters.open_parameters(store, create=True) as param_store:
            keys = parameters.import_folder(param_store, flyto, prefix)
    else:
        values.check_reason(reason)
        imported = values.load_mapping(file or Path())
        for key in imported:
            _check_change(reason, key)
        values.refuse_secrets(imported, reason)
        with parameters.open_parameters(store, rules=rules, create=True) as param_store:
            keys = parameters.import_values(param_store, imported, reason, values.resolve_author(author))
    _print_result(f"Imported {len(keys)} parameters.", as_json, {"keys": list(keys)})


COMMANDS: Mapping[str, Callable[..., None]] = {
    "set": set_value,
    "rollback": rollback,
    "lock": lock,
    "unlock": unlock,
    "alias": alias,
    "import": import_values,
}


def _check_change(reason: str, key: str) -> None:
    """Asks for a reason and the key of a parameter before anything is made.

    Raises:
        SetupError: There is none, or other verbs look after the key.
    """
    from atoll.governed import reserved
    from atoll.store import entry

    values.check_reason(reason)
    entry.check_key(key)
    reserved.check_not_reserved(key)


def _print_result(sentence: str, as_json: bool, data: Mapping[str, Any]) -> None:
    from atoll.cli import output

    output.print_json(data) if as_json else output.print_line(output.get_stdout_console(), sentence)

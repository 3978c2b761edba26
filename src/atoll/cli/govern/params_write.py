"""The verbs of `atoll params` that change: set, rollback, lock, unlock, alias, import."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

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
    from atoll.config import parameter_stores

    _check_change(reason, key)
    parsed_value = parsing.parse_value(value)
    parsing.refuse_secrets(parsed_value, reason)
    with parameter_stores.open_parameters(store, rules=rules, create=True) as param_store:
        version = param_store.set(
            key, parsed_value, reason, author=parsing.resolve_author(author), expected_version=expect
        )
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
    from atoll.config import parameter_stores

    _check_change(reason, key)
    with parameter_stores.open_parameters(store) as param_store:
        new_version = param_store.rollback(key, version, reason, author=parsing.resolve_author(author))
    _print_result(
        f"{key} is at version {new_version} now, with the value of {version}.",
        as_json,
        {"key": key, "version": new_version},
    )


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
    from atoll.config import parameter_stores

    parsing.check_reason(reason)
    with parameter_stores.open_parameters(store) as param_store:
        param_store.lock(key, reason, author=parsing.resolve_author(author))
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
    from atoll.config import parameter_stores

    parsing.check_reason(reason)
    with parameter_stores.open_parameters(store) as param_store:
        param_store.unlock(key, reason, author=parsing.resolve_author(author))
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
    from atoll.config import parameter_stores

    _check_change(reason, key)
    if version != "none" and not version.isdigit():
        raise errors.SetupError(f"{version!r} is no version: give a number, or 'none' to take the alias away.")
    target = None if version == "none" else int(version)
    with parameter_stores.open_parameters(store) as param_store:
        param_store.alias(key, name, target, reason, author=parsing.resolve_author(author), expected_version=expect)
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
    from atoll.config import parameter_stores

    if (file is None) == (flyto is None):
        raise errors.SetupError("import needs one source: a FILE that 'atoll params export' wrote, or --flyto DIR.")
    if flyto is not None:
        with parameter_stores.open_parameters(store, create=True) as param_store:
            keys = parameter_stores.import_folder(param_store, flyto, prefix)
    else:
        parsing.check_reason(reason)
        imported = parsing.load_mapping(file or Path())
        for key in imported:
            _check_change(reason, key)
        parsing.refuse_secrets(imported, reason)
        with parameter_stores.open_parameters(store, rules=rules, create=True) as param_store:
            keys = parameter_stores.import_values(param_store, imported, reason, parsing.resolve_author(author))
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
    from atoll.governed import reserved_keys
    from atoll.store.versions import change

    parsing.check_reason(reason)
    change.check_key(key)
    reserved_keys.check_not_reserved(key)


def _print_result(sentence: str, as_json: bool, data: Mapping[str, Any]) -> None:
    from atoll.cli.terminal import console

    console.print_json(data) if as_json else console.print_line(console.get_stdout_console(), sentence)


def list_settings(
    system_or_task: Annotated[
        str | None, typer.Argument(metavar="[SYSTEM|TASK]", show_default=False, help="A system, or a task's folder.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Lists the settings of runs that may be parameters, with their values: of a system, of a task, or of all.

    A task says "@param:KEY" or "@param:KEY@production" in place of a value; a run reads it when it begins. For a task
    the list says which parameter a setting is, and which version of it the next run would use.

    \b
    Examples:
      atoll params evolvable mind
      atoll params evolvable examples/mind_natural_plan --json
      atoll run examples/mind_natural_plan --set mind.weights=@param:mind/weights
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import config
    from atoll.cli.terminal import console

    if system_or_task is None or system_or_task in config.list_systems():
        names = config.list_systems() if system_or_task is None else [system_or_task]
        rows = [
            _make_row(setting, value)
            for name in names
            for setting, value in _iter_system_settings(name, include_common=system_or_task is not None)
        ]
    else:
        rows = list(_iter_task_settings(Path(system_or_task), store))
    if as_json:
        console.print_json(rows)
        return
    cells = [
        (row["setting"], _format_one_line(row["value"]), row["parameter"] or "", row["version"] or "") for row in rows
    ]
    headings = ("setting", "value", "parameter", "version")
    console.print_table(
        console.get_stdout_console(),
        headings,
        [tuple(map(str, cell_row)) for cell_row in cells],
        right_aligned=["version"],
        flexible="value",
    )


def _iter_system_settings(name: str, *, include_common: bool) -> Iterator[tuple[str, Any]]:
    """Yields what a system offers; what all share only where it stands alone."""
    from atoll import config

    return (
        (setting, value)
        for setting, value in config.iter_bindable_settings(name)
        if include_common or setting.startswith(f"{name}.")
    )


def _iter_task_settings(folder: Path, url: str) -> Iterator[dict[str, Any]]:
    from atoll import config

    run_config = config.load(folder)
    config_data = run_config.to_data()
    parameter_values = _read_parameters(url, set(run_config.bindings.values()))
    for setting, _ in config.iter_bindable_settings(run_config.system):
        section, key = setting.split(".")
        bindings = {
            bound_setting: name
            for bound_setting, name in run_config.bindings.items()
            if bound_setting == setting or bound_setting.startswith(f"{setting}.")
        }
        if setting not in bindings:
            yield _make_row(setting, config_data[section][key])
        for each, name in bindings.items():
            value, version = parameter_values.get(name, ("not set yet", None))
            yield _make_row(each, value, name, version)


def _read_parameters(url: str, names: set[str]) -> dict[str, tuple[Any, int]]:
    """Returns what the parameters are that a store has."""
    from atoll import errors
    from atoll.config import parameter_stores

    values: dict[str, tuple[Any, int]] = {}
    if not names or not (parameter_stores.is_folder(url) or Path(url.removeprefix("sqlite:///")).exists()):
        return values
    with parameter_stores.open_parameters(url) as param_store:
        for name in names:
            try:
                values[name] = tuple(param_store.get(name))
            except errors.NotFound:
                continue
    return values


def _make_row(setting: str, value: Any, name: str | None = None, version: int | None = None) -> dict[str, Any]:
    return {"setting": setting, "value": value, "parameter": name, "version": version}


def _format_one_line(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())

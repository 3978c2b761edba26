"""Commands `params set`, `rollback`, `lock`, `unlock`, `alias`, `import`, `settings` and `suggest`."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

ExpectOption = Annotated[
    int | None, typer.Option("--expect", metavar="N", help="Fail unless the current version is N.")
]
RulesOption = Annotated[
    Path | None, typer.Option("--rules", metavar="FILE", envvar="ATOLL_RULES", help="JSON Schemas by key prefix.")
]


def set_value(
    key: options.KeyArgument,
    value: options.ValueArgument,
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    expect: ExpectOption = None,
    rules: RulesOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Set a value; creates a new version.

    \b
    Examples:
      atoll params set ema/alpha 0.3 -m "initial value"
      atoll params set ema/alpha 0.4 -m "faster" --expect 1
      atoll params set prompt/system @prompt.txt -m "shorter" --store params/
    """  # noqa: D301 - \b keeps line breaks
    from atoll.config import parameter_stores

    _check_change(reason, key)
    parsed_value = parsing.parse_value(value)
    parsing.refuse_secrets(parsed_value, reason)
    with parameter_stores.open_parameters(store, rules=rules, create=True) as param_store:
        version = param_store.set(
            key, parsed_value, reason, author=parsing.resolve_author(author), expected_version=expect
        )
    _print_result(f"Set {key}, version {version}.", as_json, {"key": key, "version": version})


def rollback(
    key: options.KeyArgument,
    version: Annotated[int, typer.Argument(metavar="N", help="Version to restore.")],
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Restore version N as a new version.

    Works for locked parameters, too.

    \b
    Examples:
      atoll params rollback ema/alpha 1 -m "0.4 was worse"
    """  # noqa: D301 - \b keeps line breaks
    from atoll.config import parameter_stores

    _check_change(reason, key)
    with parameter_stores.open_parameters(store) as param_store:
        new_version = param_store.rollback(key, version, reason, author=parsing.resolve_author(author))
    _print_result(
        f"Restored version {version} of {key} as version {new_version}.", as_json, {"key": key, "version": new_version}
    )


def lock(
    key: options.KeyArgument,
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Block changes until unlocked.

    Rollbacks still work.

    \b
    Examples:
      atoll params lock ema/alpha -m "release week"
    """  # noqa: D301 - \b keeps line breaks
    from atoll.config import parameter_stores

    _check_change(reason, key)
    with parameter_stores.open_parameters(store) as param_store:
        param_store.lock(key, reason, author=parsing.resolve_author(author))
    _print_result(f"{key} is locked.", as_json, {"key": key, "locked": True})


def unlock(
    key: options.KeyArgument,
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Allow changes again.

    \b
    Examples:
      atoll params unlock ema/alpha -m "released"
    """  # noqa: D301 - \b keeps line breaks
    from atoll.config import parameter_stores

    parsing.check_reason(reason)
    with parameter_stores.open_parameters(store) as param_store:
        param_store.unlock(key, reason, author=parsing.resolve_author(author))
    _print_result(f"{key} is unlocked.", as_json, {"key": key, "locked": False})


def alias(
    key: options.KeyArgument,
    name: Annotated[str, typer.Argument(metavar="ALIAS", help="Name such as production or canary.")],
    version: Annotated[str, typer.Argument(metavar="N", help="Version; none removes the alias.")],
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    expect: ExpectOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Point KEY@ALIAS at version N.

    --expect is the version that the alias points at now; 0 means none.

    \b
    Examples:
      atoll params alias ema/alpha production 2 -m "the canary was better"
      atoll params get ema/alpha@production
    """  # noqa: D301 - \b keeps line breaks
    from atoll.config import parameter_stores

    _check_change(reason, key)
    if version != "none" and not version.isdigit():
        raise errors.SetupError(f"{version!r} is not a version. Give a number, or 'none' to remove the alias.")
    target = None if version == "none" else int(version)
    with parameter_stores.open_parameters(store) as param_store:
        param_store.alias(key, name, target, reason, author=parsing.resolve_author(author), expected_version=expect)
    message = f"Removed {key}@{name}." if target is None else f"{key}@{name} is version {target}."
    _print_result(message, as_json, {"key": key, "alias": name, "version": target})


def import_values(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", show_default=False, help="File written by 'params export'.")
    ] = None,
    flyto: Annotated[
        Path | None, typer.Option("--flyto", metavar="DIR", help="Import a Flyto parameter folder with its history.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Prefix for imported keys.")] = "",
    reason: options.ReasonOption = "",
    author: options.AuthorOption = None,
    rules: RulesOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Import exported values, all or none.

    Unchanged values create no version. --flyto keeps reasons, authors, times and locks; its keys must be new.

    \b
    Examples:
      atoll params import values.json -m "from the test system"
      atoll params import --flyto evolve/params --store params.db
    """  # noqa: D301 - \b keeps line breaks
    from atoll.config import parameter_stores

    if (file is None) == (flyto is None):
        raise errors.SetupError("import needs one source: a FILE written by 'atoll params export', or --flyto DIR.")
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


def _check_change(reason: str, key: str) -> None:
    """Raises SetupError if the reason is empty, or the key is invalid or managed by another command."""
    from atoll.governed import reserved_keys
    from atoll.store.versions import change

    parsing.check_reason(reason)
    change.check_key(key)
    reserved_keys.check_not_reserved(key)


def _print_result(sentence: str, as_json: bool, data: Mapping[str, Any]) -> None:
    from atoll.cli.terminal import console

    console.print_json(data) if as_json else console.print_result(sentence)


def list_settings(
    system_or_task: Annotated[
        str | None, typer.Argument(metavar="[SYSTEM|TASK]", show_default=False, help="System or task folder.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """List run settings that can be parameters.

    A task sets "@param:KEY" or "@param:KEY@production" in place of a value. A run reads the parameter when it starts.
    For a task the list shows the parameter of each setting and the version that the next run uses.

    \b
    Examples:
      atoll params settings mind
      atoll params settings examples/mind_natural_plan --json
      atoll run examples/mind_natural_plan --set mind.weights=@param:mind/weights
    """  # noqa: D301 - \b keeps line breaks
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
    console.print_result_table(
        headings, [tuple(map(str, cell_row)) for cell_row in cells], right_aligned=["version"], flexible="value"
    )


def _iter_system_settings(name: str, *, include_common: bool) -> Iterator[tuple[str, Any]]:
    """Yields the settings of a system, optionally with the settings common to all systems."""
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
        for bound_setting, name in bindings.items():
            value, version = parameter_values.get(name, ("not set yet", None))
            yield _make_row(bound_setting, value, name, version)


def _read_parameters(url: str, names: set[str]) -> dict[str, tuple[Any, int]]:
    """Returns value and version of the parameters that exist in a store."""
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


def suggest(
    key: options.KeyArgument,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="Proposer: ema, pid, thompson or llm.")
    ] = "ema",
    feedback: options.FeedbackOption = None,
    metric: Annotated[str, typer.Option("--metric", metavar="NAME", help="Use feedback of this metric only.")] = "",
    setpoint: Annotated[
        float | None, typer.Option("--setpoint", metavar="X", help="Desired value of the metric (pid).")
    ] = None,
    llm: options.LLMOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Propose a value from feedback.

    Nothing is changed. ema follows the metric, and pid moves the metric to --setpoint. thompson chooses among the
    values in the field 'value' of the feedback's meta data. llm asks --llm.

    \b
    Examples:
      atoll params suggest risk/penalty --feedback feedback --metric late
      atoll params suggest risk/penalty -f feedback --method pid --metric late --setpoint 0.02
      atoll params suggest risk/penalty -f feedback --method llm --llm openai:gpt-5-mini
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.govern import rollout_actions  # slow imports: SQLAlchemy, numpy
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores

    with parameter_stores.open_parameters(store) as param_store:
        suggestion = rollout_actions.suggest_value(
            param_store, key, feedback or store, method=method, metric=metric, setpoint=setpoint, llm_name=llm
        )
    if as_json:
        console.print_json(suggestion)
        return
    value = json.dumps(suggestion["value"])
    evidence = f"confidence {suggestion['confidence']:.2f}, {suggestion['evidence']:,} measurements"
    console.print_result(f"{key}: {value} instead of {json.dumps(suggestion['current'])} ({evidence})")
    if suggestion["rationale"]:
        console.print_result(suggestion["rationale"])
    console.print_note(f"Test it: atoll rollout shadow {key} {shlex.quote(value)} --with FILE.py", "dim")


COMMANDS: Mapping[str, Callable[..., None]] = {
    "set": set_value,
    "rollback": rollback,
    "lock": lock,
    "unlock": unlock,
    "alias": alias,
    "import": import_values,
    "settings": list_settings,
    "suggest": suggest,
}

"""The verb `atoll params evolvable`: which settings of runs may be parameters, and which are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli import options


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
    from atoll.cli import output

    if system_or_task is None or system_or_task in config.SYSTEMS:
        names = list(config.SYSTEMS) if system_or_task is None else [system_or_task]
        rows = [_make_row(setting, value) for name in names for setting, value in _iter_system_settings(name, include_common=system_or_task is not None)]
    else:
        rows = list(_iter_task_settings(Path(system_or_task), store))
    if as_json:
        output.print_json(rows)
        return
    cells = [(row["setting"], _format_one_line(row["value"]), row["parameter"] or "", row["version"] or "") for row in rows]
    headings = ("setting", "value", "parameter", "version")
    output.print_table(output.get_stdout_console(), headings, [tuple(map(str, cell_row)) for cell_row in cells], right_aligned=["version"], flexible="value")


def _iter_system_settings(name: str, *, include_common: bool) -> Iterator[tuple[str, Any]]:
    """Yields what a system offers; what all share only where it stands alone."""
    from atoll import config

    return ((setting, value) for setting, value in config.iter_bindable_settings(name) if include_common or setting.startswith(f"{name}."))


def _iter_task_settings(folder: Path, url: str) -> Iterator[dict[str, Any]]:
    from atoll import config

    run_config = config.load(folder)
    config_data = run_config.to_data()
    parameter_values = _read_parameters(url, set(run_config.bindings.values()))
    for setting, _ in config.iter_bindable_settings(run_config.system):
        section, key = setting.split(".")
        bindings = {bound_setting: name for bound_setting, name in run_config.bindings.items() if bound_setting == setting or bound_setting.startswith(f"{setting}.")}
        if setting not in bindings:
            yield _make_row(setting, config_data[section][key])
        for each, name in bindings.items():
            value, version = parameter_values.get(name, ("not set yet", None))
            yield _make_row(each, value, name, version)


def _read_parameters(url: str, names: set[str]) -> dict[str, tuple[Any, int]]:
    """Returns what the parameters are that a store has."""
    from atoll import errors
    from atoll.config import parameters

    values: dict[str, tuple[Any, int]] = {}
    if not names or not (parameters.is_folder(url) or Path(url.removeprefix("sqlite:///")).exists()):
        return values
    with parameters.open_parameters(url) as param_store:
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

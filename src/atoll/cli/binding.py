"""The verb `atoll params evolvable`: which settings of runs may be parameters, and which are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli import options


def evolvable(
    what: Annotated[
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

    if what is None or what in config.SYSTEMS:
        names = list(config.SYSTEMS) if what is None else [what]
        rows = [_row(setting, value) for name in names for setting, value in _own(name, is_alone=what is not None)]
    else:
        rows = list(_of_task(Path(what), store))
    if as_json:
        output.print_json(rows)
        return
    cells = [(each["setting"], _short(each["value"]), each["parameter"] or "", each["version"] or "") for each in rows]
    headings = ("setting", "value", "parameter", "version")
    output.table(output.out(), headings, [tuple(map(str, each)) for each in cells], right=["version"], flexible="value")


def _own(name: str, *, is_alone: bool) -> Iterator[tuple[str, Any]]:
    """Yields what a system offers; what all share only where it stands alone."""
    from atoll import config

    return ((setting, value) for setting, value in config.evolvable(name) if is_alone or setting.startswith(f"{name}."))


def _of_task(folder: Path, url: str) -> Iterator[dict[str, Any]]:
    from atoll import config

    plan = config.load(folder)
    said = plan.to_data()
    held = _held(url, set(plan.named.values()))
    for setting, _ in config.evolvable(plan.system):
        section, key = setting.split(".")
        named = {each: name for each, name in plan.named.items() if each == setting or each.startswith(f"{setting}.")}
        if setting not in named:
            yield _row(setting, said[section][key])
        for each, name in named.items():
            value, version = held.get(name, ("not set yet", None))
            yield _row(each, value, name, version)


def _held(url: str, names: set[str]) -> dict[str, tuple[Any, int]]:
    """Returns what the parameters are that a store has."""
    from atoll import errors
    from atoll.config import parameters

    found: dict[str, tuple[Any, int]] = {}
    if not names or not (parameters.is_folder(url) or Path(url.removeprefix("sqlite:///")).exists()):
        return found
    with parameters.open(url) as kept:
        for name in names:
            try:
                found[name] = tuple(kept.get(name))
            except errors.NotFound:
                continue
    return found


def _row(setting: str, value: Any, name: str | None = None, version: int | None = None) -> dict[str, Any]:
    return {"setting": setting, "value": value, "parameter": name, "version": version}


def _short(value: Any) -> str:
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(said.split())

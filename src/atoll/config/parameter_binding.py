"""Settings that are parameters: `weights = "@param:mind/weights@production"` in place of a value.

The value is read when a run begins, checked like any other, and stored with the run together with its version; a run
that goes on keeps what it began with. So a parameter changes how the next run works, never one that is under way.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from atoll import errors
from atoll.system import Settings, format_value, validate_settings

PARAMETER_PREFIX = "@param:"
PROMPT_KEYS = ("description", "comment")  # keys of [task] that are words for a model
SAMPLING_KEYS = ("temperature", "top_p", "top_k", "max_tokens", "thinking", "route", "plateau_steps")  # keys of [llm]


class BoundParameter(NamedTuple):
    """What a parameter was when it was read."""

    key: str
    version: int
    value: Any


type ReadParameter = Callable[[str], BoundParameter]  # raises NotFound


def iter_bindable(system: str, models: Mapping[str, type[Settings]]) -> Iterator[tuple[str, Any]]:
    """Yields the settings that may be parameters, with their defaults: how a system evolves and what a model is told.

    What judges, what a jail lets in and what a run may use are none: no search may loosen its own bounds.
    """
    allowed = {system: tuple(models[system].model_fields), "task": PROMPT_KEYS, "llm": SAMPLING_KEYS}
    for section, names in allowed.items():
        for name in names:
            if field := models[section].model_fields.get(name):
                yield f"{section}.{name}", field.get_default(call_default_factory=True)


def extract_bindings(
    system: str, sections: Mapping[str, Mapping[str, Any]], models: Mapping[str, type[Settings]]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Parts what is said from what names a parameter; a table of texts may name one for each.

    Raises:
        SetupError: A setting names one that cannot be a parameter, or is no setting.
    """
    values: dict[str, dict[str, Any]] = {}
    bindings: dict[str, str] = {}
    for section, keys in sections.items():
        values[section] = {}
        for key, value in keys.items():
            entries = value.items() if isinstance(value, Mapping) else ()
            nested = {f"{section}.{key}.{name}": entry for name, entry in entries if is_binding(entry)}
            bindings |= nested
            if is_binding(value):
                bindings[f"{section}.{key}"] = value
            elif nested:
                values[section][key] = {name: entry for name, entry in value.items() if not is_binding(entry)}
            else:
                values[section][key] = value
    for setting in bindings:
        _check_bindable(setting, system, models)
    return values, {setting: name.removeprefix(PARAMETER_PREFIX).strip() for setting, name in bindings.items()}


def is_binding(value: object) -> bool:
    """Says whether a value stands for a parameter."""
    return isinstance(value, str) and value.startswith(PARAMETER_PREFIX)


def _check_bindable(setting: str, system: str, models: Mapping[str, type[Settings]]) -> None:
    section, key, *_ = setting.split(".")
    if key not in models[section].model_fields:
        validate_settings(section, models[section], {key: None})  # says so, with the nearest
    if f"{section}.{key}" not in dict(iter_bindable(system, models)):
        raise errors.SetupError(
            f"{section}.{key} cannot be a parameter: it judges, bounds or identifies the run. 'atoll params evolvable "
            f"{system}' lists those that can."
        )


def read_parameter(setting: str, name: str, read_value: ReadParameter) -> BoundParameter:
    """Returns what a setting's parameter is now.

    Raises:
        SetupError: There is none, or it names another one.
    """
    try:
        parameter = read_value(name)
    except errors.NotFound as error:
        raise errors.SetupError(
            f"{setting} is the parameter {name}, which is not in this store: {error} Set it with "
            f"'atoll params set {name.partition('@')[0]} VALUE -m WHY'."
        ) from error
    if is_binding(parameter.value):
        raise errors.SetupError(
            f"{setting} is the parameter {name}, which is {format_value(parameter.value)} again: set a value."
        )
    return parameter


def apply_bindings(sections: Mapping[str, Any], setting: str, value: Any) -> dict[str, Any]:
    """Returns sections with one value at its place."""
    section, key, *entry = setting.split(".", 2)
    keys = dict(sections.get(section, {}))
    keys[key] = {**(keys.get(key) or {}), entry[0]: value} if entry else value
    return {**sections, section: keys}

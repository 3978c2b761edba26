"""Settings bound to parameters: `weights = "@param:mind/weights@production"` instead of a value.

The value is read when a run starts, validated like any other, and stored with the run and its version. A resumed run
keeps its value, so a changed parameter affects only new runs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from atoll import errors, strategies
from atoll.system import Settings, format_value, validate_settings

PARAMETER_PREFIX = "@param:"
PROMPT_KEYS = ("description", "comment")  # keys of [task] that are prompt text
SAMPLING_KEYS = ("temperature", "top_p", "top_k", "max_tokens", "thinking", "route", "plateau_steps")  # keys of [llm]


class BoundParameter(NamedTuple):
    """Value of a parameter when it was read."""

    key: str
    version: int
    value: Any


type ReadParameter = Callable[[str], BoundParameter]  # raises NotFound


def iter_bindable(system: str, models: Mapping[str, type[Settings]]) -> Iterator[tuple[str, Any]]:
    """Yields the settings that can be parameters, with their defaults: options of the system and of LLM calls.

    Settings of the evaluation, the sandbox and the budget are excluded: a search must not change its own limits.
    """
    allowed = {system: tuple(models[system].model_fields), "task": PROMPT_KEYS, "llm": SAMPLING_KEYS}
    for section, names in allowed.items():
        for name in names:
            if field := models[section].model_fields.get(name):
                yield f"{section}.{name}", field.get_default(call_default_factory=True)


def extract_bindings(
    system: str, sections: Mapping[str, Mapping[str, Any]], models: Mapping[str, type[Settings]]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Separates values from bindings. Each entry of a table may be bound too.

    Raises:
        SetupError: A bound setting is unknown, or cannot be a parameter.
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
    """Says whether a value names a parameter."""
    return isinstance(value, str) and value.startswith(PARAMETER_PREFIX)


def _check_bindable(setting: str, system: str, models: Mapping[str, type[Settings]]) -> None:
    section, key, *_ = setting.split(".")
    if key not in models[section].model_fields:
        validate_settings(section, models[section], {key: None})  # raises, with the nearest key
    if f"{section}.{key}" not in dict(iter_bindable(system, models)):
        raise errors.SetupError(
            f"{section}.{key} cannot be a parameter: it evaluates, limits or identifies the run. 'atoll params "
            f"settings {system}' lists the settings that can."
        )


def read_parameter(setting: str, name: str, read_value: ReadParameter) -> BoundParameter:
    """Returns the current value of the parameter of a setting.

    Raises:
        SetupError: The parameter does not exist, names another parameter, or names a file with code.
    """
    try:
        parameter = read_value(name)
    except errors.NotFound as error:
        raise errors.SetupError(
            f"{setting} is bound to {name}, which is not in this store: {error} Set it with "
            f"'atoll params set {name.partition('@')[0]} VALUE -m REASON'."
        ) from error
    if is_binding(parameter.value) or strategies.is_file(parameter.value):
        kind = "another parameter" if is_binding(parameter.value) else "a file with code"
        raise errors.SetupError(
            f"{setting} is bound to {name}, which is {format_value(parameter.value)}, {kind}. Set a value."
        )
    return parameter


def apply_bindings(sections: Mapping[str, Any], setting: str, value: Any) -> dict[str, Any]:
    """Returns sections with one setting replaced."""
    section, key, *entry = setting.split(".", 2)
    keys = dict(sections.get(section, {}))
    keys[key] = {**(keys.get(key) or {}), entry[0]: value} if entry else value
    return {**sections, section: keys}

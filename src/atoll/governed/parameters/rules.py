"""Rules for parameter values by key prefix: JSON Schemas, types or functions."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pydantic

from atoll import errors
from atoll.governed.errors import InvalidValue

TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": lambda value: _is_number(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
}
NUMBER_LIMITS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("is below", lambda value, limit: value < limit),
    "maximum": ("is above", lambda value, limit: value > limit),
    "exclusiveMinimum": ("is not above", lambda value, limit: value <= limit),
    "exclusiveMaximum": ("is not below", lambda value, limit: value >= limit),
}
LENGTH_LIMITS = {"minLength": str, "maxLength": str, "minItems": list, "maxItems": list}
KEYWORDS = {"type", "enum", "const", "pattern", "items", "properties", "required", "additionalProperties"}
ANNOTATIONS = {"title", "description", "default", "examples", "$schema"}

type Rule = Mapping[str, Any] | type | Callable[[Any], None]


class Rules:
    """Checks each new value against all rules whose prefix matches its key.

    Args:
        rules: Rule by prefix. A rule is a JSON Schema (`type`, `enum`, `const`, limits of numbers, lengths,
            `pattern`, `items`, `properties`, `required`, `additionalProperties`), a type or pydantic model, or a
            function that raises `ValueError`.

    Raises:
        SetupError: A schema uses an unsupported keyword.
    """

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._checks = {prefix: _make_checker(prefix, rule) for prefix, rule in rules.items()}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Rules":
        """Reads schemas by prefix from a JSON file.

        Raises:
            SetupError: The file does not exist or has another format.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise errors.SetupError(f"The rules in {path} cannot be read: {error}.") from error
        if not isinstance(data, dict):
            raise errors.SetupError(f"{path} must be a JSON object with a schema for each prefix.")
        return cls(data)

    def __call__(self, key: str, value: Any) -> None:
        """Checks a value.

        Raises:
            InvalidValue: The value breaks a rule.
        """
        for prefix, check in self._checks.items():
            if key.startswith(prefix):
                try:
                    check(value)
                except ValueError as error:
                    raise InvalidValue(f"{key} was not set: {error}") from error


def _make_checker(prefix: str, rule: Rule) -> Callable[[Any], None]:
    if isinstance(rule, Mapping):
        _check_schema(prefix, rule)
        return lambda value: _validate(value, rule)
    if isinstance(rule, type):
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(rule)
        return lambda value: _validate_type(adapter, value)
    return rule


def _validate_type(adapter: pydantic.TypeAdapter[Any], value: Any) -> None:
    try:
        adapter.validate_json(json.dumps(value), strict=True)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        path = "".join(f"[{part!r}]" for part in first["loc"])
        raise ValueError(f"value{path}: {first['msg']}.") from error


def _check_schema(prefix: str, schema: Any) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise errors.SetupError(f"The rule for {prefix!r} is not a JSON Schema: {schema!r:.80}.")
    unsupported = schema.keys() - KEYWORDS - ANNOTATIONS - NUMBER_LIMITS.keys() - LENGTH_LIMITS.keys()
    kinds = schema.get("type", [])
    unsupported |= {kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind not in TYPES}
    if unsupported:
        raise errors.SetupError(
            f"The rule for {prefix!r} uses unsupported keywords: {', '.join(sorted(unsupported))}. Remove them."
        )
    subschemas = [schema.get("items", True), schema.get("additionalProperties", True)]
    for subschema in (*subschemas, *schema.get("properties", {}).values()):
        _check_schema(prefix, subschema)


def _validate(value: Any, schema: Mapping[str, Any]) -> None:
    if (problem := next(_find_problems(value, schema, "value"), None)) is not None:
        raise ValueError(f"{problem}.")


def _find_problems(value: Any, schema: Any, path: str) -> Iterator[str]:
    """Yields the problems of a value with their paths."""
    if isinstance(schema, bool):
        if not schema:
            yield f"{path} is not allowed"
        return
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(TYPES[kind](value) for kind in kinds):
        yield f"{path} is not a valid {' or '.join(kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} is not one of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{path} is not {schema['const']!r}"
    if _is_number(value):
        yield from (f"{path} {message} {schema[keyword]}" for keyword, (message, is_wrong) in NUMBER_LIMITS.items()
                    if keyword in schema and is_wrong(value, schema[keyword]))  # fmt: skip
    yield from _find_nested_problems(value, schema, path)


def _find_nested_problems(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for keyword, kind in LENGTH_LIMITS.items():
        if keyword in schema and isinstance(value, kind):
            is_wrong = len(value) < schema[keyword] if keyword.startswith("min") else len(value) > schema[keyword]
            if is_wrong:
                yield f"{path} has {len(value)} elements, which breaks {keyword} {schema[keyword]}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{path} does not match {schema['pattern']}"
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _find_problems(item, schema.get("items", True), f"{path}[{index}]")
    if isinstance(value, Mapping):
        yield from (f"{path} has no {name!r}" for name in schema.get("required", ()) if name not in value)
        properties = schema.get("properties", {})
        for name, item in value.items():
            yield from _find_problems(
                item, properties.get(name, schema.get("additionalProperties", True)), f"{path}[{name!r}]"
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

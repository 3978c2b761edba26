"""JSON Schema of parameter values: the keywords that rules and policies use."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from atoll import errors

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


def check_schema(prefix: str, schema: Any) -> None:
    """Checks that a schema uses supported keywords only.

    Raises:
        SetupError: It does not.
    """
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
        check_schema(prefix, subschema)


def validate(value: Any, schema: Mapping[str, Any]) -> None:
    """Raises ValueError for the first problem of a value."""
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

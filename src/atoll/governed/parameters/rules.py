"""Rules for parameter values by key prefix: JSON Schemas, types or functions."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pydantic

from atoll import errors
from atoll.governed.errors import InvalidValue
from atoll.store.access import policy

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
        policy.check_schema(prefix, rule)
        return lambda value: policy.validate(value, rule)
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

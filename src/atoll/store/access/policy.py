"""Policy of keys: who may set, propose and approve, the stages of a change, and JSON Schemas of values."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from atoll import errors
from atoll.store.versions.errors import InvalidValue

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


type Stage = Literal["proposal", "shadow", "canary"]

STAGES: tuple[Stage, ...] = ("proposal", "shadow", "canary")
_LISTS = ("set", "propose", "approve", "needs")


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Rule for all keys with a prefix. The empty prefix matches every key.

    Attributes:
        prefix: Beginning of the keys.
        set: Roles and names that may set the keys directly; empty: admins.
        propose: Roles and names that may propose changes; empty: all but services.
        approve: Roles and names that may approve changes; empty: approvers and admins.
        quorum: Number of different approvers that a change needs.
        schema: JSON Schema of the values.
        max_chars: Maximum length of a value as JSON text; 0: no limit.
        needs: Stages that a change must pass: proposal, shadow, canary. A shadow run or a canary needs a proposal.
        plan: Guardrails and steps of the canary, which starts with the approval, as JSON data.

    Raises:
        SetupError: A field has a wrong value.
    """

    prefix: str
    set: tuple[str, ...] = ()
    propose: tuple[str, ...] = ()
    approve: tuple[str, ...] = ()
    quorum: int = 1
    schema: Mapping[str, Any] = field(default_factory=dict)
    max_chars: int = 0
    needs: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.prefix, str):
            raise errors.SetupError("A rule of the policy needs a prefix. Write one; an empty one matches every key.")
        for name, minimum in (("quorum", 1), ("max_chars", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < minimum:
                raise errors.SetupError(
                    f"{name} of the rule for {self.prefix!r} is {value!r:.40}. Use a number of at least {minimum}."
                )
        if unknown := [stage for stage in self.needs if stage not in STAGES]:
            raise errors.SetupError(f"A rule cannot need {unknown[0]!r:.40}. Use {', '.join(STAGES)}.")
        if self.plan and not (isinstance(self.plan, dict) and self.plan.get("guardrails")):
            raise errors.SetupError(f'The plan of the rule for {self.prefix!r} needs guardrails: ["METRIC", ...].')
        check_schema(self.prefix, self.schema)

    def matches(self, key: str) -> bool:
        return key.startswith(self.prefix)

    def to_json(self) -> Mapping[str, Any]:
        """Returns the rule as JSON data, without fields that have their default."""
        data = {name: getattr(self, name) for name in (item.name for item in fields(self))}
        retained = {name: list(value) if name in _LISTS else value for name, value in data.items() if value}
        return {
            "prefix": self.prefix,
            **{name: value for name, value in retained.items() if (name, value) != ("quorum", 1)},
        }


def parse_rule(data: Any) -> KeyRule:
    """Reads a rule from JSON data.

    Raises:
        SetupError: The data is not a rule.
    """
    names = [item.name for item in fields(KeyRule)]
    if not isinstance(data, Mapping) or not set(data) <= set(names):
        raise errors.SetupError(f"{data!r:.80} is not a rule of the policy. Use the fields {', '.join(names)}.")
    lists = {name: _parse_list(name, data[name]) for name in _LISTS if name in data}
    return KeyRule(**{"prefix": None, **data, **lists})


def _parse_list(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise errors.SetupError(f"{name} of a rule is {value!r:.60}. Use a list of texts.")
    return tuple(value)


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """All rules that match one key, combined. The strictest limits and the most specific lists of users apply."""

    key: str
    rules: Sequence[KeyRule]

    @property
    def quorum(self) -> int:
        return max((rule.quorum for rule in self.rules), default=1)

    @property
    def plan(self) -> Mapping[str, Any]:
        """Plan of the rule with the longest prefix that has one."""
        by_length = sorted(self.rules, key=lambda rule: -len(rule.prefix))
        return next((rule.plan for rule in by_length if rule.plan), {})

    def needs(self, stage: Stage) -> bool:
        stages = {name for rule in self.rules for name in rule.needs}
        return bool(stages) if stage == "proposal" else stage in stages

    def get_users(self, action: Literal["set", "propose", "approve"], default: Sequence[str]) -> Sequence[str]:
        """Returns the roles and names that may do something. The longest prefix that names some decides."""
        for rule in sorted(self.rules, key=lambda rule: -len(rule.prefix)):
            users: Sequence[str] = getattr(rule, action)
            if users:
                return users
        return default

    def check_value(self, value: Any) -> None:
        """Checks a value.

        Raises:
            InvalidValue: The value breaks a rule.
        """
        for rule in self.rules:
            if rule.max_chars and (length := len(json.dumps(value, ensure_ascii=False))) > rule.max_chars:
                raise InvalidValue(
                    f"{self.key} was not set: the value has {length:,} characters; the policy allows {rule.max_chars:,}"
                )
            try:
                validate(value, rule.schema)
            except ValueError as error:
                raise InvalidValue(f"{self.key} was not set, by the policy: {error}") from error

"""Rules for parameter values (G32)."""

from typing import Any

import pydantic
import pytest

from atoll import errors, governed
from atoll.governed.errors import InvalidValue

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]+$"},
        "share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        "mode": {"enum": ["a", "b", None]},
        "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"name": "abc", "share": 0, "mode": None, "list": [1, 2.0]}, None),
        ([], "value is not a valid object"),
        ({}, "value has no 'name'"),
        ({"name": ""}, "breaks minLength 1"),
        ({"name": "abcd"}, "breaks maxLength 3"),
        ({"name": "A"}, "does not match"),
        ({"name": "a", "share": 1}, "is not below 1"),
        ({"name": "a", "share": -0.1}, "is below 0"),
        ({"name": "a", "share": True}, "is not a valid number"),
        ({"name": "a", "mode": "c"}, "is not one of"),
        ({"name": "a", "list": [1, "x"]}, r"value\['list'\]\[1\] is not a valid integer"),
        ({"name": "a", "list": [1, 2, 3]}, "breaks maxItems 2"),
        ({"name": "a", "else": 1}, r"value\['else'\] is not allowed"),
    ],
)
def test_rules_check_values_against_schema(value, message):
    store = governed.MemoryParameters(check=governed.Rules({"x/": SCHEMA}))
    if message is None:
        assert store.set("x/key", value, "because", author="ann") == 1
        return
    with pytest.raises(InvalidValue, match=message):
        store.set("x/key", value, "because", author="ann")
    assert list(store.list()) == []


def test_rules_check_only_their_prefix():
    store = governed.MemoryParameters(check=governed.Rules({"x/": {"type": "number"}, "x/y/": {"minimum": 3}}))
    store.set("y", "text", "because", author="ann")
    with pytest.raises(InvalidValue):
        store.set("x/y/z", 2, "because", author="ann")
    with pytest.raises(InvalidValue):
        store.set("x/y/z", "text", "because", author="ann")
    store.set("x/y/z", 3, "because", author="ann")


def test_rules_reject_unsupported_schema():
    schemas: list[dict[str, Any]] = [{"oneOf": []}, {"type": "numbr"}, {"items": {"format": "date"}}]
    for schema in schemas:
        with pytest.raises(errors.SetupError, match="unsupported keywords"):
            governed.Rules({"x": schema})


def test_rule_can_be_type_or_model():
    class Weights(pydantic.BaseModel):
        novelty: float
        score: float = 1.0

    store = governed.MemoryParameters(check=governed.Rules({"share": float, "weights": Weights}))
    store.set("share", 0.5, "because", author="ann")
    store.set("weights", {"novelty": 0.1}, "because", author="ann")
    for key, value in (("share", "0.5"), ("weights", {}), ("weights", {"novelty": "much"})):
        with pytest.raises(InvalidValue, match=f"{key} was not set: value"):
            store.set(key, value, "because", author="ann")


def test_transaction_with_invalid_value_changes_nothing():
    store = governed.MemoryParameters(check=governed.Rules({"n": {"type": "integer"}}))

    def change() -> None:
        with store.transaction("together", author="ann") as draft:
            draft.set("other", 1)
            draft.set("n", 1.5)

    with pytest.raises(InvalidValue):
        change()
    assert list(store.list()) == []


def test_rollback_ignores_changed_rules():
    store = governed.MemoryParameters()
    store.set("n", "old", "because", author="ann")
    strict = governed.Parameters(store.ledger.change_log, check=governed.Rules({"n": {"type": "integer"}}))
    strict.set("n", 1, "because", author="ann")
    assert strict.rollback("n", 1, "worse", author="ann") == 3

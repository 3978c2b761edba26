"""Candidates: proposals with an id, their content and their parents."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

type JSON = str | int | float | bool | Sequence[JSON] | Mapping[str, JSON] | None

EMPTY: Mapping[str, Any] = MappingProxyType({})  # shared: thousands of candidates need no dict of their own
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # zero bytes, and surrogates without their other half


def clean_text(text: str) -> str:
    """Returns a text that every store, process and LLM accepts: U+FFFD replaces lone surrogates and zero bytes."""
    return _UNSTORABLE.sub("\ufffd", text)


def content_hash(content: str) -> str:
    """Returns the SHA-256 of a text, the key of cached evaluations."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def normalize_json(data: Mapping[str, JSON]) -> Mapping[str, Any]:
    """Returns the data as the journal returns it, so that live and resumed runs see the same values.

    Raises:
        TypeError: A value is not plain data.
        ValueError: A number is not finite.
    """
    return json.loads(json.dumps(dict(data), allow_nan=False)) if data else EMPTY


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposal, immutable.

    Attributes:
        id: `"{iteration}.{k}"`; an initial one is `"0.{k}"`, a version `"{key}@{n}"`. Unique in a run, not random.
        content: Text, or JSON for structured candidates.
        parents: Ids of the parents.
        island: Index of the island that proposed it.
        iteration: Iteration that proposed it.
        meta: Small notes on its origin (mutator, advice, fitted constants); learners read them on resume.
    """

    id: str
    content: str
    parents: tuple[str, ...] = ()
    island: int = 0
    iteration: int = 0
    meta: Mapping[str, JSON] = EMPTY

"""What was proposed."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

type JSON = str | int | float | bool | Sequence[JSON] | Mapping[str, JSON] | None

EMPTY: Mapping[str, Any] = MappingProxyType({})  # one shared empty mapping: a candidate costs bytes, not dicts


def content_hash(content: str) -> str:
    """Returns the SHA-256 of a text: the key under which evaluations are remembered."""
    return hashlib.sha256(content.encode()).hexdigest()


def normalize_json(data: Mapping[str, JSON]) -> Mapping[str, Any]:
    """Returns data as the journal will give it back, so that a live run and a resumed one see the same.

    Raises:
        TypeError: Something in it is no plain data.
        ValueError: A number in it is not finite.
    """
    return json.loads(json.dumps(dict(data), allow_nan=False)) if data else EMPTY


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposal, frozen at birth.

    Attributes:
        id: `"{step}.{k}"`; a founder is `"0.{k}"`, a version `"{key}@{n}"`. Unique in a run, never random.
        content: Canonical text; JSON where it is structured.
        parents: Ids of what it was made from.
        island: Index of the island it was proposed on.
        step: The step that proposed it.
        meta: Small facts about its making (engine, advice, constants found), also what a learner needs on resume.
    """

    id: str
    content: str
    parents: tuple[str, ...] = ()
    island: int = 0
    iteration: int = 0
    meta: Mapping[str, JSON] = EMPTY

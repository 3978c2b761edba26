"""A change that somebody proposes to a playbook, and what became of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from atoll.candidate import JSON

type Kind = Literal["add", "update", "merge", "remove", "tag"]
type Tag = Literal["helpful", "harmful", "neutral"]
type Priority = Literal["low", "normal", "high"]
type Outcome = Literal["applied", "held", "rejected"]

KINDS: tuple[Kind, ...] = get_args(Kind.__value__)
TAGS: tuple[Tag, ...] = get_args(Tag.__value__)
PRIORITIES: tuple[Priority, ...] = get_args(Priority.__value__)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome.__value__)


@dataclass(frozen=True, slots=True)
class Delta:
    """One proposed change. The functions `add`, `update`, `merge`, `remove` and `tag` make them.

    Attributes:
        kind: What is to be done.
        section: Where a new bullet belongs.
        ids: The bullets that are meant.
        content: The new text of an `add`, `update` or `merge`.
        evidence: What was seen that speaks for it.
        priority: A high one may take the place of what is worth less when the playbook is full.
        tag: What a `tag` says.
        heading: The dated part of the section; empty: that of the turn.
        source: Who proposes it, for the bullet's provenance.
    """

    kind: Kind
    section: str = ""
    ids: tuple[str, ...] = ()
    content: str = ""
    evidence: str = ""
    priority: Priority = "normal"
    tag: Tag = "neutral"
    heading: str = ""
    source: str = ""

    def to_data(self) -> dict[str, JSON]:
        """Returns plain data without what is as usual."""
        data: dict[str, JSON] = {"kind": self.kind}
        for name in ("section", "content", "evidence", "heading", "source"):
            if value := getattr(self, name):
                data[name] = value
        if self.ids:
            data["ids"] = list(self.ids)
        if self.kind == "tag":
            data["tag"] = self.tag
        return data | ({"priority": self.priority} if self.priority != "normal" else {})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Delta":
        """Reads what `to_data` returned, or anything like it: whether it makes sense is for the curator to say.

        Raises:
            KeyError, TypeError: It is no delta at all.
        """
        texts = {name: str(data.get(name, "")) for name in ("section", "content", "evidence", "heading", "source")}
        ids = data.get("ids", ())
        id_tuple = (ids,) if isinstance(ids, str) else tuple(map(str, ids))
        kind, priority, tag_value = data["kind"], data.get("priority", "normal"), data.get("tag", "neutral")
        return cls(kind=kind, ids=id_tuple, priority=priority, tag=tag_value, **texts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a curator decided on a delta.

    Attributes:
        delta: What was proposed.
        outcome: `held` waits: for more evidence, for room, or for a person.
        reason: Why, in words for a person.
        ids: The bullets that it touched, or that stand against it.
    """

    delta: Delta
    outcome: Outcome
    reason: str
    ids: tuple[str, ...] = ()

    def to_data(self) -> dict[str, JSON]:
        return {"delta": self.delta.to_data(), "outcome": self.outcome, "reason": self.reason, "ids": list(self.ids)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Verdict":
        outcome, ids = data["outcome"], tuple(map(str, data.get("ids", ())))
        return cls(Delta.from_data(data["delta"]), outcome, str(data["reason"]), ids)


def add(
    section: str,
    content: str,
    *,
    evidence: str = "",
    priority: Priority = "normal",
    heading: str = "",
    source: str = "",
) -> Delta:
    """Proposes a new bullet."""
    return Delta("add", section, content=content, evidence=evidence, priority=priority, heading=heading, source=source)


def update(id: str, content: str, *, evidence: str = "", priority: Priority = "normal", source: str = "") -> Delta:
    """Proposes another text for a bullet, which keeps its id and its counters."""
    return Delta("update", ids=(id,), content=content, evidence=evidence, priority=priority, source=source)


def merge(
    ids: Iterable[str], content: str = "", *, evidence: str = "", priority: Priority = "normal", source: str = ""
) -> Delta:
    """Proposes that the first bullet takes in the others; without a text the first one's stays."""
    return Delta("merge", ids=tuple(ids), content=content, evidence=evidence, priority=priority, source=source)


def remove(*ids: str, evidence: str = "", priority: Priority = "normal", source: str = "") -> Delta:
    """Proposes that bullets go."""
    return Delta("remove", ids=ids, evidence=evidence, priority=priority, source=source)


def tag(id: str, value: Tag, *, evidence: str = "", source: str = "") -> Delta:
    """Says that a bullet helped, did harm, or was merely used."""
    return Delta("tag", ids=(id,), tag=value, evidence=evidence, source=source)

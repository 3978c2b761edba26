"""Delta: a proposed change to a playbook. Verdict: the curator's decision on it."""

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


@dataclass(frozen=True, slots=True)
class Delta:
    """One proposed change. Create it with `add`, `update`, `merge`, `remove` or `tag`.

    Attributes:
        kind: Type of change.
        section: Section of a new bullet.
        ids: Bullets to change.
        content: New text of an `add`, `update` or `merge`.
        evidence: Observation that supports the change.
        priority: A higher priority may replace more valuable bullets when the playbook is full.
        tag: Value of a `tag`.
        heading: Dated heading in the section; empty means that of the turn.
        source: Proposer, recorded in the bullet's provenance.
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
        """Returns plain data; defaults are left out."""
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
        """Creates a delta from the result of `to_data`. The curator checks the values.

        Raises:
            KeyError, TypeError: The data is not a delta.
        """
        texts = {name: str(data.get(name, "")) for name in ("section", "content", "evidence", "heading", "source")}
        ids = data.get("ids", ())
        id_tuple = (ids,) if isinstance(ids, str) else tuple(map(str, ids))
        kind, priority, tag_value = data["kind"], data.get("priority", "normal"), data.get("tag", "neutral")
        return cls(kind=kind, ids=id_tuple, priority=priority, tag=tag_value, **texts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision of a curator on a delta.

    Attributes:
        delta: The proposed change.
        outcome: A `held` delta needs more evidence, room, or approval.
        reason: Why, as display text.
        ids: Bullets that were changed or that conflict with the delta.
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
    """Proposes a new text for a bullet. The bullet keeps its id."""
    return Delta("update", ids=(id,), content=content, evidence=evidence, priority=priority, source=source)


def merge(
    ids: Iterable[str], content: str = "", *, evidence: str = "", priority: Priority = "normal", source: str = ""
) -> Delta:
    """Proposes to merge the other bullets into the first. Without content the first text stays."""
    return Delta("merge", ids=tuple(ids), content=content, evidence=evidence, priority=priority, source=source)


def remove(*ids: str, evidence: str = "", priority: Priority = "normal", source: str = "") -> Delta:
    """Proposes to remove bullets."""
    return Delta("remove", ids=ids, evidence=evidence, priority=priority, source=source)


def tag(id: str, value: Tag, *, evidence: str = "", source: str = "") -> Delta:
    """Reports that a bullet was helpful, harmful, or used without effect."""
    return Delta("tag", ids=(id,), tag=value, evidence=evidence, source=source)

"""Description of a proposal for its approvers: word-level differences, base versions, and who may still approve."""

import difflib
import json
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from atoll import errors
from atoll.governed import principals
from atoll.governed.approval.proposal import Proposal
from atoll.governed.parameters import ParameterStore
from atoll.store.access import proposal_checks

MAX_WORK = 4_000_000  # pairs of words to compare; longer texts are compared by lines

_WORDS = re.compile(r"\s+|\d+(?:[.,]\d+)*|\w+|[^\w\s]")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


class Segment(NamedTuple):
    """Part of a comparison: text that both have, that only the old value has, or that only the new one has."""

    kind: Literal["same", "removed", "added"]
    text: str


class ChangeDescription(NamedTuple):
    """Change of one parameter as approvers see it.

    Attributes:
        before: Current value; None if the key does not exist.
        base_version: Version on which the proposal is based; 0: the key did not exist.
        current_version: Version now. If it differs, the proposal needs a rebase.
        segments: Differences by words.
    """

    key: str
    before: Any
    after: Any
    base_version: int
    current_version: int
    segments: Sequence[Segment]

    @property
    def is_stale(self) -> bool:
        return self.base_version != self.current_version


def describe_changes(store: ParameterStore, proposal: Proposal) -> Sequence[ChangeDescription]:
    """Returns the changes of parameters that a proposal makes."""
    return [_describe_change(store, proposal, key, value) for key, value in proposal.changes]


def _describe_change(store: ParameterStore, proposal: Proposal, key: str, value: Any) -> ChangeDescription:
    try:
        before, version = store.get(key)
    except errors.NotFound:
        before, version = None, 0
    segments = compare_words(format_value(before) if version else "", format_value(value))
    return ChangeDescription(key, before, value, proposal.base.get(key, version), version, segments)


def format_value(value: Any) -> str:
    """Returns a text unchanged, and other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def compare_words(before: str, after: str) -> Sequence[Segment]:
    """Returns the differences of two texts by words, or by lines if the texts are long."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) * len(new) > MAX_WORK:
        old, new = _LINES.findall(before), _LINES.findall(after)
    if len(old) * len(new) > MAX_WORK:
        old, new = [before], [after]
    segments: list[Segment] = []
    for kind, old_start, old_end, new_start, new_end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if kind == "equal":
            segments.append(Segment("same", "".join(old[old_start:old_end])))
            continue
        if old_end > old_start:
            segments.append(Segment("removed", "".join(old[old_start:old_end])))
        if new_end > new_start:
            segments.append(Segment("added", "".join(new[new_start:new_end])))
    return segments


def list_possible_approvers(store: ParameterStore, proposal: Proposal) -> Sequence[str]:
    """Returns the principals who may still approve a proposal; empty in single-user mode."""
    return proposal_checks.list_approvers(principals.get_control(store), proposal.to_json())

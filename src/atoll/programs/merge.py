"""Merging two candidates that are best on different instances: part by part, by which line changed what."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll import function

type ChangeTags = Mapping[str, Sequence[str]]  # by part: the changes that its text went through, oldest first


def are_complementary(first: function.Function, second: function.Function) -> bool:
    """Says whether each of two is better than the other on some instance: then both know something."""
    if first is second or first.evaluation is None or second.evaluation is None:
        return False
    pairs = list(zip(first.evaluation.scores, second.evaluation.scores, strict=False))
    return any(first_score > second_score for first_score, second_score in pairs) and any(second_score > first_score for first_score, second_score in pairs)


def get_tags(fn: function.Function) -> ChangeTags:
    """Returns the changes that each part of a candidate went through."""
    meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
    return dict(meta.get("tags", {}))


def merge_parts(
    ours: Mapping[str, str], our_tags: ChangeTags, theirs: Mapping[str, str], their_tags: ChangeTags
) -> tuple[Mapping[str, str], ChangeTags]:
    """Takes each part from the line that changed it.

    Where one line went on from what the other has, the later text is taken; where both changed it apart from each
    other, that of `ours`, the better candidate.
    """
    parts, tags = dict(ours), {name: list(chain) for name, chain in our_tags.items()}
    for name, text in theirs.items():
        our_chain, their_chain = list(our_tags.get(name, ())), list(their_tags.get(name, ()))
        if len(their_chain) > len(our_chain) and their_chain[: len(our_chain)] == our_chain:
            parts[name], tags[name] = text, their_chain
    return parts, tags

"""Merging two candidates that are best on different instances: part by part, by which line changed what."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll import function

type Tags = Mapping[str, Sequence[str]]  # by part: the changes that its text went through, oldest first


def complement(first: function.Function, second: function.Function) -> bool:
    """Says whether each of two is better than the other on some instance: then both know something."""
    if first is second or first.evaluation is None or second.evaluation is None:
        return False
    pairs = list(zip(first.evaluation.scores, second.evaluation.scores, strict=False))
    return any(one > two for one, two in pairs) and any(two > one for one, two in pairs)


def tags_of(fn: function.Function) -> Tags:
    """Returns the changes that each part of a candidate went through."""
    meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
    return dict(meta.get("tags", {}))


def merged_parts(
    ours: Mapping[str, str], our_tags: Tags, theirs: Mapping[str, str], their_tags: Tags
) -> tuple[Mapping[str, str], Tags]:
    """Takes each part from the line that changed it.

    Where one line went on from what the other has, the later text is taken; where both changed it apart from each
    other, that of `ours`, the better candidate.
    """
    parts, tags = dict(ours), {name: list(chain) for name, chain in our_tags.items()}
    for name, text in theirs.items():
        mine, other = list(our_tags.get(name, ())), list(their_tags.get(name, ()))
        if len(other) > len(mine) and other[: len(mine)] == mine:
            parts[name], tags[name] = text, other
    return parts, tags

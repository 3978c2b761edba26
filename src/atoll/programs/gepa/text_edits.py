"""Random edits of texts without an LLM: drop, double, swap, shuffle and borrow sentences or lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from atoll.programs.gepa.text_mutator import RewriteRequest, RewrittenText

_MAX_ATTEMPTS = 8  # swapping two equal sentences changes nothing
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+")


@dataclass(frozen=True, slots=True)
class RandomTextWriter:
    """Makes one random edit. Most are useless; an LLM does far better, but needs a key."""

    name: str = "edits"

    def write(self, request: RewriteRequest) -> RewrittenText:
        """Returns the part with one edit."""
        text = request.parts[request.part]
        segments, separator = _split_segments(text)
        other_segments, _ = _split_segments(request.other[request.part]) if request.other else ([], "")
        kinds = ["drop", "double", "swap", "shuffle"] if len(segments) > 1 else ["double"]
        kinds += ["borrow", "cross"] if other_segments else []
        for _ in range(_MAX_ATTEMPTS):
            kind = request.rng.choice(kinds)
            new_text = separator.join(_apply_edit(kind, segments, other_segments, request.rng))
            if new_text.split() != text.split():
                break
        return RewrittenText(new_text, f"{kind} in {request.part}")

    def merge(self, request: RewriteRequest) -> RewrittenText:
        """Returns the first half of one text with the second half of the other."""
        assert request.other is not None
        segments, separator = _split_segments(request.parts[request.part])
        other_segments, _ = _split_segments(request.other[request.part])
        crossed = _apply_edit("cross", segments, other_segments, request.rng)
        return RewrittenText(separator.join(crossed), "crossed with another")


def _split_segments(text: str) -> tuple[list[str], str]:
    """Returns lines, or the sentences of a single line, or its words, and their separator."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        return lines, "\n"
    sentences = [sentence for sentence in _SENTENCE.split(text.strip()) if sentence]
    return (sentences, " ") if len(sentences) > 1 else (text.split(), " ")


def _apply_edit(kind: str, segments: Sequence[str], other_segments: Sequence[str], rng: Random) -> list[str]:
    result = list(segments)
    index = rng.randrange(len(result)) if result else 0
    match kind:
        case "drop":
            del result[index]
        case "double":
            result.insert(rng.randrange(len(result) + 1), result[index] if result else "")
        case "swap":
            other_index = (index + 1 + rng.randrange(len(result) - 1)) % len(result)
            result[index], result[other_index] = result[other_index], result[index]
        case "shuffle":
            rng.shuffle(result)
        case "borrow":
            result.insert(index, rng.choice(other_segments))
        case "cross":
            result = result[: rng.randrange(len(result) + 1)] + list(
                other_segments[rng.randrange(len(other_segments) + 1) :]
            )
    return result or list(segments)

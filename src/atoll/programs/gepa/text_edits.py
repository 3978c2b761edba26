"""Random edits of texts without an LLM: drop, double, swap, shuffle and borrow sentences or lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from atoll import function

_MAX_ATTEMPTS = 8  # swapping two equal sentences changes nothing
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+")


@dataclass(frozen=True, slots=True)
class RandomTextProposer:
    """Makes one random edit. Most are useless; an LLM does far better, but needs a key."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the parent with one edit."""
        parent, rng = context.parents[-1], context.rng
        text = str(parent.skeleton())
        other_texts = [str(fn.skeleton()) for fn in context.parents[:-1] if str(fn.skeleton()) != text]
        segments, separator = _split_segments(text)
        other_segments = _split_segments(rng.choice(other_texts))[0] if other_texts else []
        kinds = ["drop", "double", "swap", "shuffle"] if len(segments) > 1 else ["double"]
        kinds += ["borrow", "cross"] if other_segments else []
        for _ in range(_MAX_ATTEMPTS):
            kind = rng.choice(kinds)
            new_text = separator.join(_apply_edit(kind, segments, other_segments, rng))
            if new_text.split() != text.split():
                break
        return [function.derive_child(parent, function.Text(new_text), parents=[parent], engine="edits", idea=kind)]


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

"""Texts without a model: sentences and lines are dropped, doubled, swapped, shuffled and borrowed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from atoll.programs.texts import Order, Written

_TRIES = 8  # swapping two equal sentences changes nothing
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+")


@dataclass(frozen=True, slots=True)
class Edits:
    """Makes one generic edit, of which most are worth nothing: it runs with no key, and a model does far better."""

    name: str = "edits"

    def write(self, order: Order) -> Written:
        """Returns the part with one edit."""
        text = order.parts[order.part]
        units, glue = _units(text)
        lent, _ = _units(order.other[order.part]) if order.other else ([], "")
        kinds = ["drop", "double", "swap", "shuffle"] if len(units) > 1 else ["double"]
        kinds += ["borrow", "cross"] if lent else []
        for _ in range(_TRIES):
            kind = order.rng.choice(kinds)
            made = glue.join(_edited(kind, units, lent, order.rng))
            if made.split() != text.split():
                break
        return Written(made, f"{kind} in {order.part}")

    def merge(self, order: Order) -> Written:
        """Returns the first half of one text with the second half of the other."""
        assert order.other is not None
        units, glue = _units(order.parts[order.part])
        lent, _ = _units(order.other[order.part])
        return Written(glue.join(_edited("cross", units, lent, order.rng)), "crossed with another")


def _units(text: str) -> tuple[list[str], str]:
    """Returns lines, or the sentences of the only line, or its words, and what joins them."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        return lines, "\n"
    sentences = [each for each in _SENTENCE.split(text.strip()) if each]
    return (sentences, " ") if len(sentences) > 1 else (text.split(), " ")


def _edited(kind: str, units: Sequence[str], lent: Sequence[str], rng: Random) -> list[str]:
    made = list(units)
    at = rng.randrange(len(made)) if made else 0
    match kind:
        case "drop":
            del made[at]
        case "double":
            made.insert(rng.randrange(len(made) + 1), made[at] if made else "")
        case "swap":
            with_ = (at + 1 + rng.randrange(len(made) - 1)) % len(made)
            made[at], made[with_] = made[with_], made[at]
        case "shuffle":
            rng.shuffle(made)
        case "borrow":
            made.insert(at, rng.choice(lent))
        case "cross":
            made = made[: rng.randrange(len(made) + 1)] + list(lent[rng.randrange(len(lent) + 1) :])
    return made or list(units)

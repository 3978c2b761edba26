"""A dict of parameters: the numeric tuner asks for points, a step each, and is told what they scored."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import errors, function, mutation
from atoll.candidate import JSON
from atoll.mutation import tuner

POINT = "point"


def tunables(given: Mapping[str, Any]) -> Sequence[tuner.Tunable]:
    """Reads a dict: `(start, low, high)`, `(start, [choices])`, True or False, or a number, which gets bounds.

    Raises:
        SetupError: A value is none of these.
    """
    return [_tunable(name, value) for name, value in given.items()]


def _tunable(name: str, value: Any) -> tuner.Tunable:
    match value:
        case (start, low, high) if all(_is_number(each) for each in value):
            is_whole = all(isinstance(each, int) for each in value)
            return tuner.Tunable(name, start, float(low), float(high), is_whole)
        case (start, [*choices]) if not isinstance(choices, str):
            return tuner.Tunable(name, start, choices=tuple(choices))
        case bool():
            return tuner.Tunable(name, value, choices=(False, True))
        case int() | float():
            reach = 10 * abs(value) or 1.0
            return tuner.Tunable(name, value, -reach if value <= 0 else 0.0, reach, isinstance(value, int))
    raise errors.SetupError(
        f"The parameter {name} is {value!r:.60}: give (start, low, high), (start, [choices]) or a number."
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def written(found: Sequence[tuner.Tunable], point: Sequence[Any]) -> str:
    """Returns values as the text of a candidate: JSON by name."""
    return json.dumps({each.name: value for each, value in zip(found, point, strict=True)})


class Searching:
    """The learner: holds the search, since an engine remembers nothing."""

    def __init__(self, found: Sequence[tuner.Tunable], seed: int) -> None:
        self._search = tuner.Optimiser(found, seed)
        self._names = [each.name for each in found]

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Names the point of the next step: the start first, whose score is known and costs nothing."""
        point = self._search.ask()
        return {} if point is None else {POINT: list(point)}

    def learn(self, outcome: function.Outcome) -> None:
        """Tells the search what its point scored."""
        for fn, _ in outcome.children:
            values = json.loads(str(fn.skeleton()))
            score = fn.evaluation.score if fn.evaluation else None
            self._search.tell(tuple(values[name] for name in self._names), score)


@dataclass(frozen=True, slots=True)
class Pointing:
    """The engine: writes down the point that the learner named."""

    found: Sequence[tuner.Tunable]

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns one child; none when no point is left that is new."""
        point: Any = task.advice.get(POINT)
        if point is None:
            return []
        parent = task.parents[-1]
        text = written(self.found, point)
        return [function.draft(parent, mutation.skeleton_of(parent, text), parents=[parent], engine="tuner")]

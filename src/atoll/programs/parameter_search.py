"""Search over a dict of parameters: the optimizer proposes one point per iteration and learns its score."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import errors, function, mutation
from atoll.candidate import JSON
from atoll.mutation import tuner

POINT_KEY = "point"


def parse_tunables(parameters: Mapping[str, Any]) -> Sequence[tuner.Tunable]:
    """Parses a dict of `(initial, low, high)`, `(initial, [choices])`, bools, or numbers, which get default bounds.

    Raises:
        SetupError: A value has another form.
    """
    return [_parse_tunable(name, value) for name, value in parameters.items()]


def _parse_tunable(name: str, value: Any) -> tuner.Tunable:
    match value:
        case (start, low, high) if all(_is_number(item) for item in value):
            is_integer = all(isinstance(item, int) for item in value)
            return tuner.Tunable(name, start, float(low), float(high), is_integer)
        case (start, [*choices]) if not isinstance(choices, str):
            return tuner.Tunable(name, start, choices=tuple(choices))
        case bool():
            return tuner.Tunable(name, value, choices=(False, True))
        case int() | float():
            bound = 10 * abs(value) or 1.0
            return tuner.Tunable(name, value, -bound if value <= 0 else 0.0, bound, isinstance(value, int))
    raise errors.SetupError(
        f"Parameter {name} is {value!r:.60}: use (initial, low, high), (initial, [choices]) or a number."
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_point(tunables: Sequence[tuner.Tunable], point: Sequence[Any]) -> str:
    """Returns the candidate's text: the values as JSON by name."""
    return json.dumps({tunable.name: value for tunable, value in zip(tunables, point, strict=True)})


class SearchLearner:
    """The learner that holds the optimizer, since proposers are stateless."""

    def __init__(self, tunables: Sequence[tuner.Tunable], seed: int) -> None:
        self._optimizer = tuner.Optimizer(tunables, seed)
        self._names = [tunable.name for tunable in tunables]

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Returns the next point; the first one is the initial point, whose score is known."""
        point = self._optimizer.ask()
        return {} if point is None else {POINT_KEY: list(point)}

    def learn(self, result: function.IterationResult) -> None:
        """Tells the optimizer the score of its point."""
        for fn, _ in result.children:
            values = json.loads(str(fn.skeleton()))
            score = fn.evaluation.score if fn.evaluation else None
            self._optimizer.tell(tuple(values[name] for name in self._names), score)


@dataclass(frozen=True, slots=True)
class PointProposer:
    """The proposer that turns the learner's point into a child."""

    tunables: Sequence[tuner.Tunable]

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child, or none if no new point is left."""
        point: Any = context.advice.get(POINT_KEY)
        if point is None:
            return []
        parent = context.parents[-1]
        text = format_point(self.tunables, point)
        return [function.derive_child(parent, mutation.with_text(parent, text), parents=[parent], engine="tuner")]

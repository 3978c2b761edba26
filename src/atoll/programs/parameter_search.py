"""Search over a dict of parameters: points from the optimizer, one per iteration, or from an LLM."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import errors, function, mutation
from atoll.candidate import JSON
from atoll.llm import json_output
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


def describe_parameters(parameters: Mapping[str, Any]) -> str:
    """Describes the range of each parameter in a line."""
    lines = ["Write one JSON object with these keys:"]
    for tunable in parse_tunables(parameters):
        if tunable.choices:
            lines.append(f"- {tunable.name}: one of {', '.join(json.dumps(choice) for choice in tunable.choices)}")
        else:
            kind = "a whole number" if tunable.is_integer else "a number"
            lines.append(f"- {tunable.name}: {kind} from {tunable.low:g} to {tunable.high:g}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ParameterReader(mutation.ResponseReader):
    """Reads a JSON object of parameters. Missing keys keep the values of the parent."""

    tunables: Sequence[tuner.Tunable] = ()

    def read(self, parent: str, response: str) -> mutation.ReadProgram:
        """Returns the new point.

        Raises:
            UnusableResponse: The response has no object with these keys, a value is out of range, or nothing changed.
        """
        values = _find_object(response, {tunable.name for tunable in self.tunables})
        if values is None:
            names = ", ".join(tunable.name for tunable in self.tunables)
            raise mutation.UnusableResponse(f"The answer has no JSON object with the keys {names}.")
        old = json.loads(parent)
        point = [_check_value(tunable, values.get(tunable.name, old[tunable.name])) for tunable in self.tunables]
        text = format_point(self.tunables, point)
        if text == parent:
            raise mutation.UnusableResponse("The values are unchanged.", "unchanged", text)
        return mutation.ReadProgram(text, "program")


def _find_object(response: str, names: set[str]) -> Mapping[str, Any] | None:
    """Returns the likeliest JSON object in a text that has one of the keys."""
    values = json_output.extract_json(response)
    return next((value for value in values if isinstance(value, Mapping) and names & set(value)), None)


def _check_value(tunable: tuner.Tunable, value: Any) -> Any:
    if tunable.choices:
        if value not in tunable.choices:
            raise mutation.UnusableResponse(f"{tunable.name} is {value!r:.40}, which is not one of its choices.")
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not tunable.low <= value <= tunable.high:
        raise mutation.UnusableResponse(
            f"{tunable.name} is {value!r:.40}. Use a number from {tunable.low:g} to {tunable.high:g}."
        )
    return round(value) if tunable.is_integer else float(value)

"""An LLM that proposes parameters: the description of their ranges, and the reader of its responses."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll import mutation
from atoll.llm import json_output
from atoll.mutation import tuner
from atoll.programs import parameter_search


def describe_parameters(parameters: Mapping[str, Any]) -> str:
    """Describes the range of each parameter in a line."""
    lines = ["Write one JSON object with these keys:"]
    for tunable in parameter_search.parse_tunables(parameters):
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
        text = parameter_search.format_point(self.tunables, point)
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

"""Candidates that only answer: outputs are made in the jail and scored outside, where no candidate ever was."""

import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from atoll import errors, function
from atoll.candidate import JSON, NOTHING
from atoll.evaluation import Evaluation
from atoll.sandbox import breaches, plain, scoring
from atoll.sandbox.judge import Read, SandboxJudge, read_scores
from atoll.sandbox.sandbox import Sandbox


class Calling:
    """Calls the source of a Python function with every input and returns what it returned.

    Given to a sandbox as the maker of its job. It holds nothing that a candidate must not see: the expected answers
    and the scorer stay outside.

    Args:
        inputs: The arguments of one call each; every candidate gets copies of its own.
        names: What the source finds without importing it: modules, constants, helpers.

    Raises:
        SetupError: There are no inputs.
    """

    def __init__(self, inputs: Sequence[Sequence[Any]], names: Mapping[str, Any] = NOTHING) -> None:
        if not inputs:
            raise errors.SetupError("there are no inputs: give at least one")
        self._copy, self._names = scoring.copier([tuple(each) for each in inputs]), names
        scoring.seed()  # loads the dice, which would count as time of the first candidate

    def __call__(self, source: str) -> list[dict[str, JSON]]:
        """Returns for each input `{"output": plain data}`, or `{"failure": "ValueError: ..."}`."""
        scoring.seed()
        linecache.cache[scoring.FILE] = (len(source), None, source.splitlines(keepends=True), scoring.FILE)
        skeleton = function.PyAstSkeleton(source, self._names)
        results: list[dict[str, JSON]] = []
        for where, arguments in enumerate(self._copy()):
            try:
                results.append({"output": plain.pack(skeleton(*arguments))})
            except BaseException as error:  # the boundary to the candidate: exit() is a failure of this input
                if not any("failure" in result for result in results):
                    scoring.show(where, error)
                results.append({"failure": breaches.told(error)})
        return results


@dataclass(frozen=True, slots=True)
class OutputsJudge:
    """Has a sandbox make the outputs and scores them here.

    A candidate can forge its outputs and nothing else: whatever it returns is scored like an honest answer.

    Attributes:
        sandbox: Its job is a `Calling`.
        score: Scores (output, case) here: it gets plain data and arrays, made of what a candidate returned, and may
            raise for what it cannot score.
        cases: What the scorer knows of each input, in the order of the inputs: expected answers, say.
        reduce: Makes one score of those of the inputs.
        partial: Whether inputs without a score are left out.

    Raises:
        SetupError: The sandbox cannot make its job.
    """

    sandbox: Sandbox
    score: Callable[[Any, Any], float]
    cases: Sequence[Any]
    reduce: Callable[[Sequence[float]], float] = fmean
    partial: bool = False

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        read = read_outputs(self.score, self.cases, self.reduce, partial=self.partial)
        return SandboxJudge(self.sandbox, read)(skeleton)


def read_outputs(
    score: Callable[[Any, Any], float],
    cases: Sequence[Any],
    reduce: Callable[[Sequence[float]], float],
    *,
    partial: bool,
) -> Read:
    """Returns what scores the lists of `Calling`; see `OutputsJudge`."""
    read = read_scores(reduce, partial=partial)

    def scored(entry: Any, case: Any) -> JSON:
        match entry:
            case {"output": output}:
                found = errors.attempt(lambda: score(plain.unpack(output), case))
                failed = {"failure": f"its output cannot be scored: {found}"}
                return failed if isinstance(found, errors.Caught) else {"score": found}
            case {"failure": _}:
                return entry  # type: ignore[no-any-return]  # it came out of the sandbox as JSON
        return {"failure": f"expected an output, not {entry!r:.80}"}  # a score from inside is no score

    def read_all(value: JSON) -> Evaluation:
        if not isinstance(value, list) or len(value) != len(cases):
            raise TypeError(f"expected one output for each of {len(cases)} inputs, not {value!r:.80}")
        return read([scored(entry, case) for entry, case in zip(value, cases, strict=True)])

    return read_all

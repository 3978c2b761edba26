"""Candidates that only answer: outputs are made in the jail and scored outside, where no candidate ever was."""

import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from atoll import errors, function
from atoll.candidate import JSON, EMPTY
from atoll.evaluation import Evaluation
from atoll.sandbox import breaches, plain, scoring
from atoll.sandbox.judge import ResultReader, SandboxEvaluator, make_score_reader
from atoll.sandbox.sandbox import Sandbox


class CallJob:
    """Calls the source of a Python function with every input and returns what it returned.

    Given to a sandbox as the maker of its job. It holds nothing that a candidate must not see: the expected answers
    and the scorer stay outside.

    Args:
        inputs: The arguments of one call each; every candidate gets copies of its own.
        names: What the source finds without importing it: modules, constants, helpers.

    Raises:
        SetupError: There are no inputs.
    """

    def __init__(self, inputs: Sequence[Sequence[Any]], names: Mapping[str, Any] = EMPTY) -> None:
        if not inputs:
            raise errors.SetupError("there are no inputs: give at least one")
        self._copy_inputs, self._names = scoring.make_copier([tuple(arguments) for arguments in inputs]), names
        scoring.seed_random()  # loads the dice, which would count as time of the first candidate

    def __call__(self, source: str) -> list[dict[str, JSON]]:
        """Returns for each input `{"output": plain data}`, or `{"failure": "ValueError: ..."}`."""
        scoring.seed_random()
        linecache.cache[scoring.SOURCE_NAME] = (len(source), None, source.splitlines(keepends=True), scoring.SOURCE_NAME)
        skeleton = function.PyAstSkeleton(source, self._names)
        results: list[dict[str, JSON]] = []
        for index, arguments in enumerate(self._copy_inputs()):
            try:
                results.append({"output": plain.to_plain(skeleton(*arguments))})
            except BaseException as error:  # the boundary to the candidate: exit() is a failure of this input
                if not any("failure" in result for result in results):
                    scoring.print_failure(index, error)
                results.append({"failure": breaches.describe_error(error)})
        return results


@dataclass(frozen=True, slots=True)
class OutputEvaluator:
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
        read = make_output_reader(self.score, self.cases, self.reduce, partial=self.partial)
        return SandboxEvaluator(self.sandbox, read)(skeleton)


def make_output_reader(
    score: Callable[[Any, Any], float],
    cases: Sequence[Any],
    reduce: Callable[[Sequence[float]], float],
    *,
    partial: bool,
) -> ResultReader:
    """Returns what scores the lists of `Calling`; see `OutputsJudge`."""
    score_reader = make_score_reader(reduce, partial=partial)

    def score_entry(entry: Any, case: Any) -> JSON:
        match entry:
            case {"output": output}:
                result = errors.capture(lambda: score(plain.from_plain(output), case))
                failure = {"failure": f"its output cannot be scored: {result}"}
                return failure if isinstance(result, errors.CaughtException) else {"score": result}
            case {"failure": _}:
                return entry  # type: ignore[no-any-return]  # it came out of the sandbox as JSON
        return {"failure": f"expected an output, not {entry!r:.80}"}  # a score from inside is no score

    def read_all(value: JSON) -> Evaluation:
        if not isinstance(value, list) or len(value) != len(cases):
            raise TypeError(f"expected one output for each of {len(cases)} inputs, not {value!r:.80}")
        return score_reader([score_entry(entry, case) for entry, case in zip(value, cases, strict=True)])

    return read_all

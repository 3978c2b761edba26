"""Judges that let a sandbox do the work."""

import json
import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from atoll import errors, evaluation, function
from atoll.candidate import EMPTY, JSON
from atoll.evaluation import Cost, Evaluation
from atoll.sandbox import plain_values, score_job, violations
from atoll.sandbox.base import Sandbox, run_job

# Turns what a job returned into an evaluation; may raise for what it cannot read.
type ResultReader = Callable[[JSON], Evaluation]

_MAX_FEEDBACK_CHARS = 2000  # characters of what was printed: the end of a traceback, and no more than a prompt can hold


@dataclass(frozen=True, slots=True)
class SandboxEvaluator:
    """Sends the text of a skeleton to a sandbox and reads the answer.

    What was printed meanwhile ends the feedback.

    Raises:
        SetupError: The sandbox cannot make its job.
    """

    sandbox: Sandbox
    read: ResultReader

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        sandbox_result = run_job(self.sandbox, str(skeleton))
        if sandbox_result.failure is None:
            result = errors.capture(lambda: evaluation.validate(self.read(_replace_surrogates(sandbox_result.value))))
        else:
            result = evaluation.failed(str(_replace_surrogates(sandbox_result.failure)))
        if isinstance(result, errors.CaughtException):
            result = evaluation.failed(f"what it returned cannot be read: {result}")
        feedback = "\n".join(
            part for part in (result.feedback, sandbox_result.output[-_MAX_FEEDBACK_CHARS:].strip()) if part
        )
        return replace(result, feedback=feedback, cost=result.cost + Cost(seconds=sandbox_result.seconds))


def _replace_surrogates(value: JSON) -> JSON:
    """Returns a value without halves of characters, which can be neither printed nor sent to a model."""
    text = json.dumps(value)
    if "\\ud" not in text:
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))  # type: ignore[no-any-return]


def make_score_reader(reduce: Callable[[Sequence[float]], float], *, partial: bool) -> ResultReader:
    """Returns what reads the lists of `Scoring`.

    Args:
        reduce: Makes one score of those of the inputs.
        partial: Whether inputs without a score are left out, as in FunSearch, as long as there is one with a score;
            otherwise the first of them fails the whole.
    """

    def read(value: JSON) -> Evaluation:
        results = [_parse_entry(item) for item in _require_list(value)]
        failures = [
            f"input {index}: {result.failure}" for index, result in enumerate(results) if result.failure is not None
        ]
        scores = tuple(result.score for result in results if result.score is not None)
        if not scores or (failures and not partial):
            return evaluation.failed(failures[0] if failures else "no input was scored")
        return evaluation.validate(Evaluation(reduce(scores), scores, feedback="\n".join(failures)))

    return read


def _require_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list with one entry per input, not {value!r:.80}")
    return value


def _parse_entry(entry: Any) -> Evaluation:
    match entry:
        case {"score": score}:
            return evaluation.validate(score)
        case {"failure": failure}:
            return evaluation.failed(str(failure))
    raise TypeError(f"expected a score or a failure, not {entry!r:.80}")


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
        self._copy_inputs, self._names = score_job.make_copier([tuple(arguments) for arguments in inputs]), names
        score_job.seed_random()  # loads the dice, which would count as time of the first candidate

    def __call__(self, source: str) -> list[dict[str, JSON]]:
        """Returns for each input `{"output": plain data}`, or `{"failure": "ValueError: ..."}`."""
        score_job.seed_random()
        linecache.cache[score_job.SOURCE_NAME] = (
            len(source),
            None,
            source.splitlines(keepends=True),
            score_job.SOURCE_NAME,
        )
        skeleton = function.PyAstSkeleton(source, self._names)
        results: list[dict[str, JSON]] = []
        for index, arguments in enumerate(self._copy_inputs()):
            try:
                results.append({"output": plain_values.to_plain(skeleton(*arguments))})
            except BaseException as error:  # the boundary to the candidate: exit() is a failure of this input
                if not any("failure" in result for result in results):
                    score_job.print_failure(index, error)
                results.append({"failure": violations.describe_error(error)})
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
                result = errors.capture(lambda: score(plain_values.from_plain(output), case))
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

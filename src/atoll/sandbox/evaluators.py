"""Evaluators that run candidates in a sandbox."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from atoll import errors, evaluation, function
from atoll.candidate import EMPTY, JSON
from atoll.evaluation import Cost, Evaluation
from atoll.sandbox import plain_values, score_job, violations
from atoll.sandbox.base import Sandbox, run_job

# Converts the value of a job to an evaluation; may raise if it cannot.
type ResultReader = Callable[[JSON], Evaluation]

_MAX_FEEDBACK_CHARS = 2000  # of the output: enough for the end of a traceback, little enough for a prompt


@dataclass(frozen=True, slots=True)
class SandboxEvaluator:
    """Sends the text of a skeleton to a sandbox and converts the result.

    The feedback ends with the printed output.

    Raises:
        SetupError: The sandbox cannot create its job.
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
            result = evaluation.failed(f"its result cannot be read: {result}")
        feedback = "\n".join(
            part for part in (result.feedback, sandbox_result.output[-_MAX_FEEDBACK_CHARS:].strip()) if part
        )
        return replace(result, feedback=feedback, cost=result.cost + Cost(seconds=sandbox_result.seconds))


def _replace_surrogates(value: JSON) -> JSON:
    """Replaces lone surrogates, which can be neither printed nor sent to an LLM."""
    text = json.dumps(value)
    if "\\ud" not in text:
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))  # type: ignore[no-any-return]


def make_score_reader(reduce: Callable[[Sequence[float]], float], *, partial: bool) -> ResultReader:
    """Returns a reader for the results of `ScoreJob`.

    Args:
        reduce: Combines the scores of the inputs.
        partial: Whether failed inputs are ignored if at least one has a score, as in FunSearch; otherwise the first
            failure fails the evaluation.
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
    """Calls a Python function with every input and returns the outputs.

    The expected answers and the score function stay outside, where candidates cannot see them.

    Args:
        inputs: Arguments of each call; every candidate gets its own copies.
        names: Global names of the function: modules, constants, helpers.

    Raises:
        SetupError: `inputs` is empty.
    """

    def __init__(self, inputs: Sequence[Sequence[Any]], names: Mapping[str, Any] = EMPTY) -> None:
        if not inputs:
            raise errors.SetupError("The evaluation has no inputs. Pass at least one.")
        self._copy_inputs, self._names = score_job.make_copier([tuple(arguments) for arguments in inputs]), names
        score_job.seed_random()  # loads the modules, whose time would count for the first candidate

    def __call__(self, source: str) -> list[dict[str, JSON]]:
        """Returns for each input `{"output": plain data}`, or `{"failure": "ValueError: ..."}`."""
        score_job.seed_random()
        score_job.show_source(source)
        skeleton = function.PyAstSkeleton(source, self._names)
        results: list[dict[str, JSON]] = []
        for index, arguments in enumerate(self._copy_inputs()):
            try:
                results.append({"output": plain_values.to_plain(skeleton(*arguments))})
            except BaseException as error:  # exit() in a candidate is a failure of this input
                if not any("failure" in result for result in results):
                    score_job.print_failure(index, error)
                results.append({"failure": violations.describe_error(error)})
        return results


@dataclass(frozen=True, slots=True)
class OutputEvaluator:
    """Computes outputs in a sandbox and scores them in this process.

    A candidate can forge only its outputs, which are scored like any other.

    Attributes:
        sandbox: Sandbox with a `CallJob`.
        score: Function of (output, case); gets plain data and arrays, and may raise.
        cases: Data of the score function for each input, e.g. expected answers.
        reduce: Combines the scores of the inputs.
        partial: Whether failed inputs are ignored.

    Raises:
        SetupError: The sandbox cannot create its job.
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
    """Returns a reader that scores the results of `CallJob`; see `OutputEvaluator`."""
    score_reader = make_score_reader(reduce, partial=partial)

    def score_entry(entry: Any, case: Any) -> JSON:
        match entry:
            case {"output": output}:
                result = errors.capture(lambda: score(plain_values.from_plain(output), case))
                failure = {"failure": f"its output cannot be scored: {result}"}
                return failure if isinstance(result, errors.CaughtException) else {"score": result}
            case {"failure": _}:
                return entry  # type: ignore[no-any-return]  # it came out of the sandbox as JSON
        return {"failure": f"expected an output, not {entry!r:.80}"}  # a score from inside the sandbox is not trusted

    def read_all(value: JSON) -> Evaluation:
        if not isinstance(value, list) or len(value) != len(cases):
            raise TypeError(f"expected one output for each of {len(cases)} inputs, not {value!r:.80}")
        return score_reader([score_entry(entry, case) for entry, case in zip(value, cases, strict=True)])

    return read_all

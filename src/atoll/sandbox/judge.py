"""Judges that let a sandbox do the work."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from atoll import errors, evaluation, function
from atoll.candidate import JSON
from atoll.evaluation import Cost, Evaluation
from atoll.sandbox.sandbox import Sandbox, run_job

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
        feedback = "\n".join(part for part in (result.feedback, sandbox_result.output[-_MAX_FEEDBACK_CHARS:].strip()) if part)
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
        failures = [f"input {index}: {result.failure}" for index, result in enumerate(results) if result.failure is not None]
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

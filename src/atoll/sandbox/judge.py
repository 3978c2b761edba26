"""Judges that let a sandbox do the work."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from atoll import errors, evaluation, function
from atoll.candidate import JSON
from atoll.evaluation import Cost, Evaluation
from atoll.sandbox.sandbox import Sandbox, ask

# Turns what a job returned into an evaluation; may raise for what it cannot read.
type Read = Callable[[JSON], Evaluation]

_LONGEST_FEEDBACK = 2000  # characters of what was printed: the end of a traceback, and no more than a prompt can hold


@dataclass(frozen=True, slots=True)
class SandboxJudge:
    """Sends the text of a skeleton to a sandbox and reads the answer.

    What was printed meanwhile ends the feedback.

    Raises:
        SetupError: The sandbox cannot make its job.
    """

    sandbox: Sandbox
    read: Read

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        answer = ask(self.sandbox, str(skeleton))
        if answer.failure is None:
            found = errors.attempt(lambda: evaluation.clean(self.read(_whole(answer.value))))
        else:
            found = evaluation.failed(str(_whole(answer.failure)))
        if isinstance(found, errors.Caught):
            found = evaluation.failed(f"what it returned cannot be read: {found}")
        feedback = "\n".join(part for part in (found.feedback, answer.output[-_LONGEST_FEEDBACK:].strip()) if part)
        return replace(found, feedback=feedback, cost=found.cost + Cost(seconds=answer.seconds))


def _whole(value: JSON) -> JSON:
    """Returns a value without halves of characters, which can be neither printed nor sent to a model."""
    text = json.dumps(value)
    if "\\ud" not in text:
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))  # type: ignore[no-any-return]


def read_scores(reduce: Callable[[Sequence[float]], float], *, partial: bool) -> Read:
    """Returns what reads the lists of `Scoring`.

    Args:
        reduce: Makes one score of those of the inputs.
        partial: Whether inputs without a score are left out, as in FunSearch, as long as there is one with a score;
            otherwise the first of them fails the whole.
    """

    def read(value: JSON) -> Evaluation:
        found = [_entry(each) for each in _list(value)]
        failures = [f"input {where}: {each.failure}" for where, each in enumerate(found) if each.failure is not None]
        scores = tuple(each.score for each in found if each.score is not None)
        if not scores or (failures and not partial):
            return evaluation.failed(failures[0] if failures else "no input was scored")
        return evaluation.clean(Evaluation(reduce(scores), scores, feedback="\n".join(failures)))

    return read


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list with one entry per input, not {value!r:.80}")
    return value


def _entry(entry: Any) -> Evaluation:
    match entry:
        case {"score": score}:
            return evaluation.clean(score)
        case {"failure": failure}:
            return evaluation.failed(str(failure))
    raise TypeError(f"expected a score or a failure, not {entry!r:.80}")

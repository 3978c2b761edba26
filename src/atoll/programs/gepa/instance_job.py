"""Job that calls an evaluator with candidates and instances. Imported by worker processes, so imports are few."""

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll import errors
from atoll.candidate import EMPTY, JSON
from atoll.evaluation import ZERO_COST, Evaluation
from atoll.programs.evaluation.cascade import COMBINED_METRIC
from atoll.programs.evaluation.evaluator_job import to_plain_result

_PACKAGE = str(Path(errors.__file__).parent)
_MAX_TRACEBACK_CHARS = 3000
_TRAIN = "train"  # as in `dataset_evaluator`, which imports this module

type DecodeCandidate = Callable[[str], Any]  # from the text to the evaluator's argument


class InstanceJob:
    """Calls an evaluator with a candidate, and with one instance at a time if there is data.

    Runs in a sandbox, or in this process with `InProcessExecutor`.

    Args:
        evaluator: Takes (candidate) or (candidate, instance); may be a coroutine function.
        decode: Converts the text to the candidate.
        parts: Instances by split; empty: no data.
    """

    def __init__(
        self, evaluator: Callable[..., Any], decode: DecodeCandidate, parts: Mapping[str, Sequence[Any]] = EMPTY
    ) -> None:
        self._evaluator, self._decode, self._parts = evaluator, decode, parts

    def __call__(self, request: Mapping[str, Any]) -> list[JSON]:
        """Returns the result of each call as plain data; of a failed one `failure`, and the traceback as `feedback`."""
        return self.run(request, run_coroutine, lambda call, items: [call(item) for item in items])

    def run(self, request: Mapping[str, Any], await_result: Callable[[Any], Any], map_calls: Any) -> list[JSON]:
        """Calls the evaluator.

        Args:
            await_result: Waits for the result of a coroutine.
            map_calls: Calls a function with each item of a list, such as in several threads.
        """
        candidate = errors.capture(lambda: self._decode(request["content"]), reraise=())
        if isinstance(candidate, errors.CaughtException):
            return [{"failure": str(candidate)} for _ in request["at"]]

        def call(index: int) -> JSON:
            arguments = [self._parts[request["part"]][index]] if self._parts else []
            result = errors.capture(lambda: self._call_evaluator(await_result, candidate, *arguments), reraise=())
            if not isinstance(result, errors.CaughtException):
                return result
            failure = self._describe_failure(result)
            # Prompts show only training instances; tracebacks of a large validation set would fill the store.
            is_hidden = bool(self._parts) and request["part"] != _TRAIN
            return {"failure": failure["failure"]} if is_hidden else failure

        results: list[JSON] = map_calls(call, request["at"])
        return results

    def _describe_failure(self, caught: errors.CaughtException) -> dict[str, JSON]:
        """Returns the exception with its line of the evaluator, and its traceback as feedback."""
        result = errors.capture(lambda: self._format_failure(caught), reraise=())
        # The exception of a candidate may fail when it is formatted.
        return {"failure": type(caught.error).__name__} if isinstance(result, errors.CaughtException) else result

    def _format_failure(self, caught: errors.CaughtException) -> dict[str, JSON]:
        report = traceback.TracebackException.from_exception(caught.error, limit=-20, compact=True)
        frames = [frame for frame in report.stack if not frame.filename.startswith(_PACKAGE)]
        report.stack = traceback.StackSummary.from_list(frames)
        text = "".join(report.format())[-_MAX_TRACEBACK_CHARS:].strip()
        for path in {frame.filename for frame in frames}:
            text = text.replace(f'File "{path}"', f'File "{Path(path).name}"')
        file = getattr(getattr(inspect.unwrap(self._evaluator), "__code__", None), "co_filename", "")
        lines = [frame.lineno for frame in frames if frame.filename == file]
        place = f" ({Path(file).name}, line {lines[-1]})" if lines else ""
        return {"failure": f"{caught}{place}", "feedback": text}

    def _call_evaluator(self, await_result: Callable[[Any], Any], *arguments: Any) -> dict[str, Any]:
        result = self._evaluator(*arguments)
        return _to_plain_result(await_result(result) if inspect.isawaitable(result) else result)


def _to_plain_result(result: Any) -> dict[str, Any]:
    """Like `evaluator_job.to_plain_result`, but fast for the common results: a score, or a score and feedback."""
    score, feedback = result if type(result) is tuple and len(result) == 2 else (result, "")
    if type(score) is float and type(feedback) is str:
        return {"metrics": {COMBINED_METRIC: score}, "scores": (), "feedback": feedback, "artifacts": {}}
    plain = to_plain_result(result)
    cost = result.cost if isinstance(result, Evaluation) else ZERO_COST
    return {**plain, "cost": list(cost.to_data())} if cost != ZERO_COST else plain


def run_coroutine(awaitable: Any) -> Any:
    """Waits for an awaitable in an event loop of its own."""
    import asyncio  # slow to import; few evaluators are coroutines

    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())

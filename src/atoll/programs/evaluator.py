"""The evaluator of a folder, run beside the program that it judges; imported by the workers, so it needs little."""

import importlib.util
import inspect
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from atoll.candidate import JSON
from atoll.sandbox import files

MODULE = "evaluation_module"  # what OpenEvolve calls it; some evaluators look themselves up
SHOWN_CHARS = 4000  # of an artifact


class Evaluating:
    """Writes each program to a file and hands its path to the evaluator's `evaluate`.

    Args:
        path: The evaluator's file.
        suffix: What the program's file ends with.

    Raises:
        AttributeError: The file has no `evaluate`.
    """

    def __init__(self, path: str, suffix: str) -> None:
        _offer_results()
        module = files.load(path, MODULE)
        if not callable(getattr(module, "evaluate", None)):
            raise AttributeError(f"{os.path.basename(path)} has no function evaluate(path); write one")
        self._evaluate, self._suffix = module.evaluate, suffix

    def __call__(self, program: str) -> JSON:
        path = Path(f"program{self._suffix}").absolute()  # in the empty folder in which every request starts
        path.write_text(program, encoding="utf-8")
        found = self._evaluate(str(path))
        return _plain(_wait(found) if inspect.isawaitable(found) else found)


def _wait(found: Any) -> Any:
    import asyncio  # half of a worker's start, for the few evaluators that are coroutines

    async def wait() -> Any:
        return await found

    return asyncio.run(wait())


def _plain(found: Any) -> JSON:
    """Returns what an evaluator found as plain data: a number, a dict of metrics, or an `EvaluationResult`."""
    artifacts: Mapping[str, Any] = {}
    if not isinstance(found, Mapping) and hasattr(found, "metrics"):
        found, artifacts = found.metrics, getattr(found, "artifacts", None) or {}
    if not isinstance(found, Mapping):
        found = {"combined_score": found}
    metrics = {str(name): number for name, value in found.items() if (number := _number(value)) is not None}
    odd = {str(name): value for name, value in found.items() if str(name) not in metrics}
    shown = {**odd, **artifacts}
    return {"metrics": metrics, "artifacts": {str(name): str(text)[:SHOWN_CHARS] for name, text in shown.items()}}


def _number(value: Any) -> float | None:
    if isinstance(value, bool | str | bytes) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _offer_results() -> None:
    """Lets evaluators import `openevolve.evaluation_result` where OpenEvolve is not installed."""
    if importlib.util.find_spec("openevolve") is not None:
        return
    package, module = ModuleType("openevolve"), ModuleType("openevolve.evaluation_result")
    package.__path__ = []
    module.EvaluationResult = EvaluationResult  # type: ignore[attr-defined]
    package.evaluation_result = module  # type: ignore[attr-defined]
    sys.modules |= {"openevolve": package, "openevolve.evaluation_result": module}


class EvaluationResult:
    """Metrics and artifacts, by the name under which OpenEvolve's evaluators import them."""

    def __init__(self, metrics: Mapping[str, Any], artifacts: Mapping[str, Any] | None = None) -> None:
        self.metrics, self.artifacts = dict(metrics), dict(artifacts or {})

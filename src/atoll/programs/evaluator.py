"""The evaluator of a folder, run beside the program that it judges; imported by the workers, so it needs little."""

import base64
import importlib.util
import json
import os
import sys
from collections.abc import Awaitable, Mapping, Sequence
from types import ModuleType
from typing import Any

from atoll.programs import bundle
from atoll.sandbox import loading

MODULE = "evaluation_module"  # what OpenEvolve calls it; some evaluators look themselves up
PROGRAM = "{program}"  # in a command: where the program's path goes
_REST = ("metrics", "artifacts", "feedback", "scores")


class Evaluating:
    """Writes each program to a file and hands its path to a function of the evaluator.

    A request says which function: `evaluate`, or a stage of a cascade.

    Args:
        path: The evaluator's file.
        suffix: What the program's file ends with; `bundle.FOLDER`: it is a folder.

    Raises:
        AttributeError: The file has no `evaluate`, and no stage either.
    """

    def __init__(self, path: str, suffix: str) -> None:
        _offer_results()
        self._module, self._suffix = loading.load(path, MODULE), suffix
        if not any(callable(getattr(self._module, name, None)) for name in ("evaluate", "evaluate_stage1")):
            raise AttributeError(f"{os.path.basename(path)} has no function evaluate(path); write one")

    def __call__(self, request: Mapping[str, str]) -> dict[str, Any]:
        found = getattr(self._module, request["call"])(_written(request["program"], self._suffix))
        return plain(_wait(found) if isinstance(found, Awaitable) else found)

    def rehearse(self) -> None:
        """Does what comes before and after every call of the evaluator; asked for by the zygote, in an empty folder."""
        if self._suffix != bundle.FOLDER:
            os.unlink(_written("x = 1\n", self._suffix))
        plain({"combined_score": 1.0})


class Commanding:
    """Writes each program to a file and runs a command on it, which prints its findings as JSON in its last line.

    Args:
        command: Its words; `{program}` stands for the program's path, which is added at the end if none does.
        suffix: What the program's file ends with; `bundle.FOLDER`: it is a folder.
    """

    def __init__(self, command: Sequence[str], suffix: str) -> None:
        self._command = [*command] if any(PROGRAM in word for word in command) else [*command, PROGRAM]
        self._suffix = suffix

    def __call__(self, request: Mapping[str, str]) -> dict[str, Any]:
        import subprocess  # with `threading`, which makes every fork slower, also where there is no command

        path = _written(request["program"], self._suffix)
        words = [word.replace(PROGRAM, path) for word in self._command]
        ended = subprocess.run(words, stdout=subprocess.PIPE, text=True, errors="replace", check=False)
        lines = ended.stdout.strip().splitlines()
        sys.stdout.write("\n".join(lines[:-1]))
        if ended.returncode != 0:
            sys.stdout.write("\n".join(lines[-1:]))
            raise ChildProcessError(f"{self._command[0]} ended with exit status {ended.returncode}")
        if not lines:
            raise ValueError(f"{self._command[0]} printed nothing: its last line must be JSON with its findings")
        return plain(json.loads(lines[-1]))


def plain(found: Any) -> dict[str, Any]:
    """Returns what an evaluator found as plain data.

    Takes a number, a pair of number and feedback, a dict of metrics, and whatever has `metrics` and `artifacts`, as
    OpenEvolve's result, or `score`, `scores` and `feedback`, as ours.
    """
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], str):
        found = {"combined_score": found[0], "feedback": found[1]}
    if not isinstance(found, Mapping) and hasattr(found, "metrics"):
        found = _of_object(found)
    if not isinstance(found, Mapping):
        found = {"combined_score": found}
    metrics = {str(name): number for name, value in found.items() if (number := _number(value)) is not None}
    artifacts = found.get("artifacts")
    odd = {str(name): value for name, value in found.items() if str(name) not in metrics and name not in _REST}
    shown = {**odd, **(artifacts if isinstance(artifacts, Mapping) else {})}
    return {
        "metrics": metrics,
        "scores": _scores(found.get("scores")),
        "feedback": str(found.get("feedback") or ""),
        "artifacts": {str(name): _body(value) for name, value in shown.items()},
    }


def _of_object(found: Any) -> Mapping[str, Any]:
    """Returns the fields of an `EvaluationResult` or an `Evaluation`, by duck typing: both come from anywhere."""
    metrics = {str(name): value for name, value in dict(found.metrics or {}).items() if name not in _REST[1:]}
    if getattr(found, "score", None) is not None:
        metrics = {"combined_score": found.score, **metrics}
    rest = {name: getattr(found, name, None) for name in _REST[1:]}
    return {**metrics, **{name: value for name, value in rest.items() if value}}


def _scores(found: Any) -> Any:
    """Returns the scores per instance, if each is a number: kept in their order, or by the names of the instances."""
    values = list(found.values()) if isinstance(found, Mapping) else found
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        return []
    numbers = [_number(each) for each in values]
    return [] if None in numbers else numbers


def _body(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode()}
    return value if isinstance(value, str) else _text(value)


def _text(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool | str | bytes) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _written(program: str, suffix: str) -> str:
    path = os.path.abspath(f"program{suffix}")  # in the empty folder in which every request starts
    if suffix == bundle.FOLDER:
        bundle.write(program, path)
        return path
    with open(path, "wb", buffering=0) as file:
        file.write(program.encode())
    return path


def _wait(found: Any) -> Any:
    import asyncio  # half of a worker's start, for the few evaluators that are coroutines

    async def wait() -> Any:
        return await found

    return asyncio.run(wait())


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
    """Metrics and artifacts, by the name and with the methods under which OpenEvolve's evaluators know them."""

    def __init__(self, metrics: Mapping[str, Any], artifacts: Mapping[str, Any] | None = None) -> None:
        self.metrics, self.artifacts = dict(metrics), dict(artifacts or {})

    @classmethod
    def from_dict(cls, metrics: Mapping[str, Any]) -> "EvaluationResult":
        return cls(metrics)

    def to_dict(self) -> dict[str, Any]:
        return self.metrics

    def has_artifacts(self) -> bool:
        return bool(self.artifacts)

    def get_artifact_keys(self) -> list[str]:
        return list(self.artifacts)

    def get_artifact_size(self, key: str) -> int:
        value = self.artifacts.get(key, "")
        return len(value if isinstance(value, bytes) else str(value).encode())

    def get_total_artifact_size(self) -> int:
        return sum(self.get_artifact_size(key) for key in self.artifacts)

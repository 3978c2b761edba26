"""Jobs that run a folder's evaluator in worker processes. Imported there, so imports are few."""

import base64
import importlib.util
import json
import os
import sys
from collections.abc import Awaitable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

from atoll.programs.evaluation import folder_text
from atoll.sandbox import module_loader
from atoll.sandbox.apart import seeds, stand_in

MODULE_NAME = "evaluation_module"  # OpenEvolve's name; some evaluators look themselves up by it
PROGRAM_PLACEHOLDER = "{program}"  # in a command: the program's path
_RESULT_FIELDS = ("metrics", "artifacts", "feedback", "scores")


class FunctionJob:
    """Writes each program to a file and passes its path to a function of the evaluator.

    The request names the function: `evaluate`, or a stage of a cascade.

    Args:
        path: The evaluator's file.
        suffix: Suffix of the program's file; `folder_text.FOLDER` for a folder.

    Raises:
        AttributeError: The file has neither `evaluate` nor a stage.
    """

    def __init__(self, path: str, suffix: str) -> None:
        _install_openevolve_stub()
        sys.dont_write_bytecode = True  # a program is loaded once, in a new folder
        self._module, self._suffix = module_loader.load_module(path, MODULE_NAME), suffix
        if not any(callable(getattr(self._module, name, None)) for name in ("evaluate", "evaluate_stage1")):
            raise AttributeError(f"{os.path.basename(path)} has no function evaluate(path); write one")

    def __call__(self, request: Mapping[str, Any]) -> dict[str, Any]:
        module_loader.renew_numpy_random()
        path = self._write(request)
        if not request.get("watch"):
            return self._call(request["call"], path)
        watch = FileWatch(os.path.dirname(os.path.abspath(str(self._module.__file__))), path)
        return {"result": self._call(request["call"], path), **watch.to_data(), "obstacles": stand_in.obstacles}

    def _write(self, request: Mapping[str, Any]) -> str:
        return _write_program(request["program"], self._suffix)

    def _call(self, name: str, path: str) -> dict[str, Any]:
        return _to_result(getattr(self._module, name)(path))

    def warm_up(self) -> None:
        """Runs the code around a call of the evaluator once; the fork server calls it in an empty folder."""
        if self._suffix != folder_text.FOLDER:
            path = self._write({"program": "x = 1\n"})
            self._load(path)
            os.unlink(path)
        _to_result({"combined_score": 1.0})

    def _load(self, path: str) -> None:
        """Loads a harmless program, as most evaluators do."""
        spec = importlib.util.spec_from_file_location("program", path)
        if spec is not None and spec.loader is not None:  # it is Python
            spec.loader.exec_module(importlib.util.module_from_spec(spec))


class ApartFunctionJob(FunctionJob):
    """Passes the path of a stand-in to the evaluator; the program runs in another sandbox (`sandbox.apart`)."""

    def __init__(self, path: str, suffix: str) -> None:
        super().__init__(path, suffix)
        seeds.forward_seeds(os.path.dirname(os.path.abspath(path)))

    def _load(self, path: str) -> None:
        stand_in.warm_up(path)

    def _write(self, request: Mapping[str, Any]) -> str:
        return _write_program(stand_in.SOURCE, self._suffix)


class FileWatch:
    """Records the files that an evaluator opens in a dry run, for the rest of this process.

    Args:
        folder: The evaluator's folder.
        program: Path of the program.
    """

    def __init__(self, folder: str, program: str) -> None:
        self._folder, self._program = folder, program
        self._opened, self._reads_source = set[str](), False
        sys.addaudithook(self._record)

    def to_data(self) -> dict[str, Any]:
        """Returns paths of opened files and listed folders, and whether the evaluator read the program's source."""
        return {"opened": sorted(self._opened), "reads_source": self._reads_source}

    def _record(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            self._add(args[0])
            if args[0] == self._program and not self._reads_source:
                self._reads_source = _is_read_by_evaluator()
        elif event in ("os.listdir", "os.scandir", "sqlite3.connect"):
            self._add(args[0])
        elif event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
            for word in args[1] if isinstance(args[1], Sequence) else ():
                self._add(word)

    def _add(self, name: Any) -> None:
        if not isinstance(name, str | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(name))
        if path.startswith(self._folder + os.sep):
            self._opened.add(path)


def _is_read_by_evaluator() -> bool:
    """Returns whether the file that is being opened is read by the evaluator, not imported or shown in a traceback."""
    files = list[str]()
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and len(files) < 10:
        files.append(os.path.basename(frame.f_code.co_filename))
        frame = frame.f_back
    is_traceback = "linecache.py" in files and "inspect.py" not in files
    return not files[0].startswith("<frozen importlib") and not is_traceback and files[0] != "evaluator_job.py"


class CommandJob:
    """Writes each program to a file and runs a command on it. The command prints its metrics as JSON in its last line.

    Args:
        command: Words of the command; `{program}` is the program's path, added at the end if missing.
        suffix: Suffix of the program's file; `folder_text.FOLDER` for a folder.
    """

    def __init__(self, command: Sequence[str], suffix: str) -> None:
        has_placeholder = any(PROGRAM_PLACEHOLDER in word for word in command)
        self._command, self._suffix = [*command, *(() if has_placeholder else (PROGRAM_PLACEHOLDER,))], suffix

    def __call__(self, request: Mapping[str, str]) -> dict[str, Any]:
        import subprocess  # imports `threading`, which slows every fork

        path = _write_program(request["program"], self._suffix)
        arguments = [word.replace(PROGRAM_PLACEHOLDER, path) for word in self._command]
        process = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, errors="replace", check=False)
        lines = process.stdout.strip().splitlines()
        sys.stdout.write("\n".join(lines[:-1]))
        if process.returncode != 0:
            sys.stdout.write("\n".join(lines[-1:]))
            raise ChildProcessError(f"{self._command[0]} ended with exit status {process.returncode}")
        if not lines:
            raise ValueError(f"{self._command[0]} printed nothing: its last line must be JSON with the metrics")
        return to_plain_result(json.loads(lines[-1]))


def _to_result(result: Any) -> dict[str, Any]:
    return to_plain_result(_run_coroutine(result) if isinstance(result, Awaitable) else result)


def to_plain_result(result: Any) -> dict[str, Any]:
    """Converts the result of an evaluator to plain data.

    Accepts a number, a pair of number and feedback, a dict of metrics, and objects with `metrics` and `artifacts`
    (OpenEvolve) or with `score`, `scores` and `feedback` (ours).
    """
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str):
        result = {"combined_score": result[0], "feedback": result[1]}
    if not isinstance(result, Mapping) and hasattr(result, "metrics"):
        result = _read_result_object(result)
    if not isinstance(result, Mapping):
        result = {"combined_score": result}
    metrics = {str(name): metric for name, value in result.items() if (metric := _parse_number(value)) is not None}
    artifacts = result.get("artifacts")
    other_values = {
        str(name): value for name, value in result.items() if str(name) not in metrics and name not in _RESULT_FIELDS
    }
    all_artifacts = {**other_values, **(artifacts if isinstance(artifacts, Mapping) else {})}
    return {
        "metrics": metrics,
        "scores": _parse_scores(result.get("scores")),
        "feedback": str(result.get("feedback") or ""),
        "artifacts": {str(name): _encode_artifact(value) for name, value in all_artifacts.items()},
    }


def _read_result_object(result: Any) -> Mapping[str, Any]:
    """Returns the fields of an `EvaluationResult` or an `Evaluation`, by duck typing."""
    metrics = {str(name): value for name, value in dict(result.metrics or {}).items() if name not in _RESULT_FIELDS[1:]}
    if getattr(result, "score", None) is not None:
        metrics = {"combined_score": result.score, **metrics}
    extra_fields = {name: getattr(result, name, None) for name in _RESULT_FIELDS[1:]}
    return {**metrics, **{name: value for name, value in extra_fields.items() if value}}


def _parse_scores(raw_scores: Any) -> Any:
    """Returns the scores per instance, from a list or a dict, if all are numbers."""
    values = list(raw_scores.values()) if isinstance(raw_scores, Mapping) else raw_scores
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        return []
    scores = [_parse_number(value) for value in values]
    return [] if None in scores else scores


def _encode_artifact(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode()}
    return value if isinstance(value, str) else _to_text(value)


def _to_text(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return str(value)


def _parse_number(value: Any) -> float | None:
    if isinstance(value, bool | str | bytes) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _write_program(program: str, suffix: str) -> str:
    path = os.path.abspath(f"program{suffix}")  # every request starts in an empty folder
    if suffix == folder_text.FOLDER:
        folder_text.write_files(program, path)
        return path
    with open(path, "wb", buffering=0) as file:
        file.write(program.encode())
    return path


def _run_coroutine(awaitable: Any) -> Any:
    import asyncio  # slow to import; few evaluators are coroutines

    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())


def _install_openevolve_stub() -> None:
    """Lets evaluators import `openevolve.evaluation_result` without OpenEvolve."""
    if importlib.util.find_spec("openevolve") is not None:
        return
    package, module = ModuleType("openevolve"), ModuleType("openevolve.evaluation_result")
    package.__path__ = []
    module.EvaluationResult = EvaluationResult  # type: ignore[attr-defined]
    package.evaluation_result = module  # type: ignore[attr-defined]
    sys.modules |= {"openevolve": package, "openevolve.evaluation_result": module}


class EvaluationResult:
    """Metrics and artifacts, with the interface of OpenEvolve's class."""

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

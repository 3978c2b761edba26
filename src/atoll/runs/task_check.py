"""Check of a task before its first run: evaluates the initial candidate several times, without an LLM."""

import math
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from atoll import config, errors, llm, noise, sandbox, store, system
from atoll.evaluation import Evaluation
from atoll.runs import executor_config
from atoll.runs.session import Session
from atoll.runs.text_format import format_error, format_number
from atoll.sandbox import missing_modules

_MIN_SECONDS, _MAX_SECONDS = 60, 3600  # of the suggested budget
_EVALUATIONS = 1000  # that the suggested budget allows without an LLM, if they fit
_MEASURED_SYSTEMS = ("programs", "llmsr")  # systems whose evaluations take most of the time
_MIN_MEAN = 1e-3  # seconds of an evaluation; below it the search takes more time than the evaluations
_LLM_CALLS = 100  # a first run with an LLM


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """Result of a check.

    Attributes:
        scores: Score of each evaluation of the initial candidate.
        seconds: Time of each evaluation.
        failure: Why the initial candidate has no score; empty if it has one.
        missing: Modules that the task imports and that are not installed.
        needs_llm: Whether a run of the task needs an LLM.
    """

    task: str
    system: str
    sandbox: str
    scores: Sequence[float]
    seconds: Sequence[float]
    failure: str
    missing: Sequence[str]
    workers: int
    needs_llm: bool = False

    @property
    def is_noisy(self) -> bool:
        return len(set(self.scores)) > 1

    @property
    def is_ok(self) -> bool:
        return not self.failure and not self.missing

    @property
    def deviation(self) -> float:
        return statistics.stdev(self.scores) if len(self.scores) > 1 else 0.0

    def suggest_seconds(self) -> int:
        """Returns a budget for a run without an LLM: a thousand evaluations, between a minute and an hour."""
        if not self.seconds:
            return _MIN_SECONDS
        needed = _EVALUATIONS * statistics.fmean(self.seconds) / self.workers
        return int(min(max(math.ceil(needed / 60) * 60, _MIN_SECONDS), _MAX_SECONDS))

    def to_data(self) -> dict[str, Any]:
        """Returns plain data, as `--json` prints it."""
        data = {**asdict(self), "is_noisy": self.is_noisy, "deviation": self.deviation, "ok": self.is_ok}
        return {**data, "budget_seconds": self.suggest_seconds(), "install": self._get_install_command()}

    def _get_install_command(self) -> str:
        return missing_modules.get_install_command(self.missing) if self.missing else ""

    def describe(self) -> Mapping[str, str]:
        """Returns the findings by title, for the terminal."""
        facts = {"system": self.system}
        if self.sandbox:  # empty if no sandbox started
            facts["sandbox"] = f"{self.sandbox}: {sandbox.LEVELS.get(self.sandbox, '')}".rstrip(": ")
        if self.missing:
            facts["missing"] = f"{', '.join(self.missing)}. Install: {self._get_install_command()}"
        if self.failure:
            facts["failure"] = self.failure
        if self.scores:
            facts["score"] = self._describe_score()
        if self.seconds:
            mean = statistics.fmean(self.seconds)
            facts["time"] = f"{mean:.3g} s per evaluation ({min(self.seconds):.3g} to {max(self.seconds):.3g})"
        if self.is_ok and self.system in _MEASURED_SYSTEMS:
            facts |= {"noise": self._describe_noise(), "budget": self._describe_budget()}
        return facts

    def _describe_score(self) -> str:
        mean, count = statistics.fmean(self.scores), len(self.scores)
        times = "once" if count == 1 else f"{count} times"
        if not self.is_noisy:
            return f"{format_number(mean)}, evaluated {times}"
        low, high = format_number(min(self.scores)), format_number(max(self.scores))
        error = format_error(noise.compute_error(self.scores))
        return f"{format_number(mean)}{error}, {low} to {high} in {count} evaluations"

    def _describe_noise(self) -> str:
        if len(self.scores) < 2:
            return "not measured: evaluate it at least twice"
        if not self.is_noisy:
            return "none: every evaluation of the initial candidate has the same score"
        chance = format_number(2 * self.deviation)
        remedy = (
            "New bests are evaluated up to 5 times" if self.system in _MEASURED_SYSTEMS else "Evaluate on more inputs"
        )
        return f"standard deviation {self.deviation:.2g}. Differences below {chance} may be chance. {remedy}."

    def _describe_budget(self) -> str:
        seconds, mean = self.suggest_seconds(), statistics.fmean(self.seconds)
        without = f"--budget {seconds}s without an LLM"
        if mean >= _MIN_MEAN:
            workers = f"{self.workers} worker{'s' if self.workers > 1 else ''}"
            without += f", up to {_round(seconds * self.workers / mean)} evaluations with {workers}"
        wait = _LLM_CALLS * mean / self.workers
        wait_note = f" ({wait:,.0f} s of evaluations)" if wait >= 1 else ""
        with_llm = f"--budget {_LLM_CALLS}calls with an LLM{wait_note}"
        return f"{with_llm}, which this task needs" if self.needs_llm else f"{without}; {with_llm}"

    def suggest_options(self) -> str:
        """Returns options for a first run; empty if the system needs none."""
        if not self.is_ok or self.system not in _MEASURED_SYSTEMS:
            return ""
        return f" --llm LLM --budget {_LLM_CALLS}calls" if self.needs_llm else f" --budget {self.suggest_seconds()}s"


def _round(count: float) -> str:
    digits = max(0, int(math.log10(max(count, 1))) - 1)
    return f"{int(round(count, -digits)):,}"


def check_task(
    run_config: config.RunConfig,
    repeats: int = 5,
    *,
    allowed: executor_config.UnsafeOptions = executor_config.SAFE_OPTIONS,
) -> TaskCheck:
    """Evaluates the initial candidate of a task several times in its sandbox.

    Raises:
        SetupError: The task cannot be built.
    """
    missing = _find_missing(run_config)
    built_systems = list[system.BuiltSystem]()
    needs_llm = False

    def build(context: system.BuildContext) -> system.BuiltSystem:
        nonlocal needs_llm
        try:
            built_systems.append(run_config.build(context))
        except errors.LLMRequired:  # the check proposes nothing, so any LLM will do
            needs_llm = True
            built_systems.append(run_config.build(context._replace(llm=llm.FunctionLLM(_refuse))))
        return built_systems[0]

    def make_result(level: str, results: Sequence[tuple[Evaluation, float]], failure: str) -> TaskCheck:
        scores = [result.score for result, _ in results if result.score is not None]
        failure = failure or next((result.failure for result, _ in results if result.failure), "")
        seconds = [seconds for _, seconds in results]
        task = str(run_config.folder)
        workers = run_config.run.workers
        return TaskCheck(task, run_config.system, level, scores, seconds, failure, missing, workers, needs_llm)

    with tempfile.TemporaryDirectory() as folder, store.Store(str(Path(folder, "check.db"))) as run_store:
        try:
            session = Session(run_store, run_config, allowed=allowed, build_system=build)
        except errors.SetupError as error:
            if not missing:
                raise
            return make_result("", (), str(error))
        with session:
            results = list[tuple[Evaluation, float]]()
            initial = built_systems[0].config.island_config.initial_fn
            try:
                initial.clone(initial.skeleton()).evaluate() if repeats > 1 else None  # starts the worker processes
                while len(results) < repeats and not any(result.failure for result, _ in results):
                    results.append(_evaluate(initial))
            except errors.SetupError as error:
                return make_result(session.sandbox, results, str(error))
            return make_result(session.sandbox, results, "")


def _refuse(prompt: str) -> str:
    raise errors.SetupError("A check calls no LLM.")


def _evaluate(initial: Any) -> tuple[Evaluation, float]:
    fn, started_at = initial.clone(initial.skeleton()), time.monotonic()
    fn.evaluate()
    return fn.evaluation or Evaluation(None, failure="it was not evaluated"), time.monotonic() - started_at


def _find_missing(run_config: config.RunConfig) -> Sequence[str]:
    """Returns the missing modules of the Python files that the task names."""
    names = set[str]()
    for value in run_config.to_data()["task"].values():
        path = run_config.folder / value if isinstance(value, str) and value.endswith(".py") else None
        if path is not None and path.is_file():
            names.update(missing_modules.find_missing(path.read_text("utf-8", "replace"), path.parent))
    return sorted(names)

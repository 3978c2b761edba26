"""Evaluates a program with its folder's evaluator: in stages, repeated if noisy, with artifacts."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from atoll import errors, evaluation, function, noise, sandbox, system
from atoll.candidate import EMPTY, JSON, clean_text
from atoll.evaluation import ZERO_COST, Cost, Evaluation
from atoll.programs.evaluation import failures
from atoll.programs.evaluation.cascade import SINGLE_STAGE, ScoreFunction, describe_missing_score, passes_threshold
from atoll.sandbox import missing_modules

_MAX_FEEDBACK_CHARS, _MAX_ARTIFACT_CHARS = 4000, 2000  # in total, and of one artifact
STDOUT_ARTIFACT = "stdout"  # name of the artifact with the end of the printed output
OUTPUT_ARTIFACT = "output"  # name of the artifact with the full output, if `stdout` has only its end


@dataclass(slots=True)
class StageResults:
    """Merged results of the stages so far; later stages override earlier ones."""

    metrics: dict[str, float] = field(default_factory=dict)
    scores: Sequence[float] = ()
    feedback: list[str] = field(default_factory=list)
    artifacts: dict[str, JSON] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    failure_artifacts: Mapping[str, str] = EMPTY
    failure: str | None = None
    cost: Cost = ZERO_COST

    def add(self, value: Mapping[str, Any], response: sandbox.SandboxResult) -> None:
        self.metrics |= value["metrics"]
        self.scores = value["scores"] or self.scores
        self.feedback += [value["feedback"]] if value["feedback"] else []
        self.artifacts |= value["artifacts"]
        self._add_output(response.output, response.seconds)

    def add_failure(
        self, stage: str, response: sandbox.SandboxResult, program: str, *, is_first: bool, attempt: int
    ) -> None:
        """Adds a failed stage. A failed first stage fails the evaluation; later ones keep the earlier results."""
        failure = str(response.failure)
        self.failure_artifacts, printed = failures.make_failure_artifacts(response, program, stage, attempt)
        self.feedback.append(f"{stage} failed: {failure}")
        if is_first:
            self.failure = failure
        else:
            self.metrics[f"{stage.removeprefix('evaluate_')}_passed"] = 0.0
        self._add_output(printed, response.seconds)

    def format_feedback(self) -> str:
        """Returns feedback, short artifacts and the end of the output, for the next prompt."""
        artifact_lines = [f"{name}: {body}" for name, body in self.artifacts.items() if isinstance(body, str)]
        parts = [*self.feedback, *(text[:_MAX_ARTIFACT_CHARS] for text in artifact_lines), *self.printed]
        parts.append(self.failure_artifacts.get("traceback", ""))
        return "\n".join(part for part in parts if part)[-_MAX_FEEDBACK_CHARS:]

    def collect_artifacts(self) -> Mapping[str, bytes]:
        """Returns all artifacts, at least one: those of the failure, of the evaluator, and the printed output."""
        artifacts = {name: text.encode() for name, text in self.failure_artifacts.items()}
        artifacts |= {name: _decode_artifact(body) for name, body in self.artifacts.items() if name not in artifacts}
        printed = clean_text("\n".join(self.printed))
        if printed and artifacts.setdefault(STDOUT_ARTIFACT, _cut_output(printed)) != printed.encode():
            artifacts.setdefault(OUTPUT_ARTIFACT, printed.encode())
        if not artifacts:
            artifacts[OUTPUT_ARTIFACT] = b"It printed nothing."
        return artifacts

    def _add_output(self, printed: str, seconds: float) -> None:
        self.printed += [printed.strip()] if printed.strip() else []
        self.cost += Cost(seconds=seconds)


@dataclass(frozen=True, slots=True)
class FolderEvaluator:
    """Runs the evaluator on a program and combines the results into one evaluation.

    Each stage is its own request, so a killed stage keeps the results before it. The next stage is decided here,
    outside the process of the candidate.

    Attributes:
        executor: Runs the evaluator.
        blobs: Stores artifacts.
        stages: Functions of the evaluator, in order.
        thresholds: Scores that start the next stage; without one, the cascade ends.
        score_function: Computes the score.
        repeats: Evaluations per program; the score is their mean.
        hint: Hint about missing environment variables.
        initial: Text of the initial program. An evaluator that cannot evaluate it is a mistake in the set-up.
        fail_on_error: Whether a score of zero with an error artifact is a failure.

    Raises:
        SetupError: The evaluator, or the initial program, imports a module that is not installed.
    """

    executor: sandbox.Sandbox
    blobs: system.BlobStore
    stages: Sequence[str] = SINGLE_STAGE
    thresholds: Sequence[float] = ()
    score_function: ScoreFunction = ScoreFunction()  # noqa: RUF009  # frozen
    repeats: int = 1
    hint: str = ""
    initial: str | None = None
    fail_on_error: bool = True

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        program = str(skeleton)
        evaluations = [self._run_stages(program)]
        while evaluations[-1].score is not None and len(evaluations) < self.repeats:
            evaluations.append(self._run_stages(program, len(evaluations) + 1))
        return noise.average(evaluations)

    def _run_stages(self, program: str, attempt: int = 1) -> Evaluation:
        results = StageResults()
        for index, stage in enumerate(self.stages):
            response = self._run_stage(program, stage)
            if response.failure is not None:
                results.add_failure(stage, response, program, is_first=index == 0, attempt=attempt)
                break
            value: Any = response.value
            results.add(value, response)
            if index >= len(self.thresholds) or not passes_threshold(value["metrics"], self.thresholds[index]):
                break
        return self._make_evaluation(results, is_initial=program == self.initial)

    def _run_stage(self, program: str, stage: str) -> sandbox.SandboxResult:
        try:
            return sandbox.run_job(self.executor, {"program": program, "call": stage})
        except errors.SetupError as error:
            remedy = missing_modules.describe_missing(str(error))
            raise errors.SetupError(f"{error} {remedy}".strip()) from error

    def _make_evaluation(self, results: StageResults, *, is_initial: bool) -> Evaluation:
        score = self.score_function.score(results.metrics)
        failure = results.failure or (None if score is not None else self._describe_missing_score(results))
        if failure is not None and self.hint and "KeyError" in failure:
            failure = f"{failure} ({self.hint})"
        if failure is not None and is_initial:  # the person who wrote the evaluator reads it
            failure += failures.find_place(results.failure_artifacts.get("traceback", ""))
        scores = tuple(results.scores) or ((score,) if score is not None else ())
        result = Evaluation(
            score if failure is None else None,
            scores if failure is None else (),
            results.metrics,
            results.format_feedback(),
            {name: self.blobs.save_blob(body) for name, body in results.collect_artifacts().items()},
            failure,
            results.cost,
        )
        return self._check_error(evaluation.validate(result), is_initial)

    def _check_error(self, result: Evaluation, is_initial: bool) -> Evaluation:
        """Makes a score of zero with an error artifact a failure. In the initial program a missing module is one.

        The initial program may have a score of zero with another error: evolution can repair it.
        """
        error = failures.find_error(result)
        if is_initial and error and not result.score and (remedy := missing_modules.describe_missing(error)):
            raise errors.SetupError(f"The initial program cannot be evaluated: {error.rstrip('.')}. {remedy}")
        if result.score != 0 or not error or is_initial or not self.fail_on_error:
            return result
        return replace(result, score=None, scores=(), failure=error)

    def _describe_missing_score(self, results: StageResults) -> str:
        if self.score_function.metric is None:
            return describe_missing_score(results.artifacts)
        returned = ", ".join(results.metrics) or "no number"
        return f"the evaluator returned no {self.score_function.metric}; it returned {returned}"


def _cut_output(printed: str) -> bytes:
    return printed[-failures.MAX_STDOUT_CHARS :].encode()


def _decode_artifact(body: JSON) -> bytes:
    if isinstance(body, Mapping):
        return base64.b64decode(str(body["base64"]))
    return clean_text(str(body)).encode()

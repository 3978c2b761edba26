"""Shadow runs: compare a candidate value with the current one without changing anything."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

from atoll import errors
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.governed.rollout import evaluators
from atoll.governed.rollout.shadow_result import (
    FITNESS,
    Comparison,
    Guardrail,
    ShadowResult,
    Verdict,
    compute_divergence,
)
from atoll.governed.statistics import Evidence, Moments, RatioCheck, check_ratio

type Sampler = Callable[[float], Iterable[Candidate]]
type Applier = Callable[[Candidate, Any], Candidate]

SCORED_METRIC = "scored"  # metric: 1 or 0 for a failed sample; always guarded
TOLERANCE = 1e-12


class ParameterReader(Protocol):
    """Reads parameters."""

    def get(self, key: str, /) -> tuple[Any, int]: ...


@runtime_checkable
class SizedSampler(Protocol):
    """Sampler that knows the number of its candidates, so that the sampled fraction can be checked."""

    @property
    def num_offered(self) -> int: ...


class VerdictRules(NamedTuple):
    """Conditions of a verdict.

    Attributes:
        min_effect: Smallest gain in fitness worth a change.
        guardrails: Metrics that must not become worse.
    """

    min_effect: float
    guardrails: Sequence[Guardrail]


class ShadowRunner:
    """Scores every sample twice, with the current value of a parameter and with a candidate value.

    Writes nothing. The run ends as soon as the verdict is clear. The intervals are valid at any time, so checking
    after every pair is allowed.

    Args:
        store: Only read.
        evaluator: Scores; called from several threads only if it is `ConcurrencySafe`.
        sampler: Returns the samples for a fraction of the traffic; an iterator is read no further than needed.
        applier: Returns a new candidate with the value applied; a pure function.
        min_effect: Smallest gain in fitness worth a change.
        guardrails: Metrics that must not become worse by their margins; failures are always guarded.
        alpha: Probability of a wrong verdict.
        expected: Approximate number of pairs until a verdict.
        stop_early: False scores all samples.
        repeats: Number of samples to score again, to measure the noise of the evaluator.
        workers: Pairs scored in parallel.
    """

    def __init__(
        self,
        store: ParameterReader,
        evaluator: evaluators.Evaluator,
        sampler: Sampler,
        applier: Applier,
        *,
        min_effect: float = 0.0,
        guardrails: Sequence[Guardrail] = (),
        alpha: float = 0.05,
        expected: float = 200.0,
        min_count: int = 20,
        stop_early: bool = True,
        repeats: int = 0,
        workers: int = 1,
        seed: int = 0,
    ) -> None:
        required = {"store": store, "evaluator": evaluator, "sampler": sampler, "applier": applier}
        if missing := [name for name, argument in required.items() if argument is None]:
            raise errors.SetupError(f"ShadowRunner needs {', '.join(missing)}.")
        if min_effect < 0:
            raise errors.SetupError(f"min_effect={min_effect}: use 0 or more.")
        self._store, self._evaluator = store, evaluator
        self._sampler, self._applier = sampler, applier
        self._rules = VerdictRules(min_effect, tuple(guardrails))
        self._comparison_args = (alpha, expected, min_count)
        Comparison(*self._comparison_args)  # validates the arguments
        self._stop_early, self._repeats = stop_early, repeats
        self._workers, self._seed = max(workers, 1), seed

    def run_shadow(
        self, key: str, candidate_value: Any, traffic: float = 1.0, *, meta: Mapping[str, Any] | None = None
    ) -> ShadowResult:
        """Compares a candidate value with the current value of a parameter.

        Args:
            traffic: Fraction of the samples to use, 0 to 1.

        Raises:
            SetupError: The fraction is not from 0 to 1.
            ParameterNotFound: The parameter does not exist.
        """
        if not 0 <= traffic <= 1:
            raise errors.SetupError(f"traffic={traffic}: use a fraction from 0 to 1.")
        current_value = self._store.get(key)[0]
        samples = self._sampler(traffic)
        arms = ArmScores(
            Comparison(*self._comparison_args), self._evaluator, self._applier, current_value, candidate_value
        )
        verdict: Verdict = "extend"
        reason, remaining_samples = "no samples", iter(samples)
        while batch := list(islice(remaining_samples, self._workers)):
            arms.score(batch, self._workers, self._repeats)
            guardrails = [item.resolve(arms.comparison.get_deviation(item.metric)) for item in self._rules.guardrails]
            rules = self._rules._replace(guardrails=tuple(guardrails))
            verdict, reason = decide_verdict(arms.comparison.get_evidence(), rules)
            if verdict != "extend" and self._stop_early:
                break
        if verdict == "extend" and arms.first_failure and FITNESS not in arms.comparison.get_evidence():
            reason = f"{reason}: {arms.first_failure.rstrip('.')}"
        num_planned = 2 * len(samples) if isinstance(samples, Sized) else arms.num_calls
        ratio = self._check_share(samples, traffic)
        if ratio is not None and ratio.is_off and verdict == "promote":
            verdict, reason = "extend", f"the sample is {ratio.share:.3g} of the candidates instead of {traffic:.3g}"
        return arms.make_result(self._seed, verdict, reason, max(num_planned - arms.num_calls, 0), ratio, meta or {})

    def _check_share(self, samples: Iterable[Candidate], traffic: float) -> RatioCheck | None:
        if not isinstance(self._sampler, SizedSampler) or not isinstance(samples, Sized) or not 0 < traffic < 1:
            return None
        return check_ratio(self._sampler.num_offered - len(samples), len(samples), traffic)


class ArmScores:
    """Scores of both arms during a run."""

    def __init__(
        self,
        comparison: Comparison,
        evaluator: evaluators.Evaluator,
        applier: Applier,
        current_value: Any,
        candidate_value: Any,
    ) -> None:
        self.comparison, self._evaluator, self._applier = comparison, evaluator, applier
        self._values = (current_value, candidate_value)
        self.num_calls = self._num_samples = self._num_differing = 0
        self.first_failure = ""
        self._failed = {"baseline": 0, "candidate": 0}
        self._noise = Moments()

    def score(self, batch: Sequence[Candidate], workers: int, repeats: int) -> None:
        pairs = [self._applier(sample, value) for sample in batch for value in self._values]
        evaluations = evaluators.score_all(self._evaluator, pairs, workers=2 * workers if workers > 1 else 1)
        self.num_calls += len(pairs)
        for index in range(len(batch)):
            baseline, candidate = evaluations[2 * index : 2 * index + 2]
            if self._noise.count < repeats and baseline.score is not None:
                self._repeat(pairs[2 * index], baseline.score)
            self._add_pair(baseline, candidate)

    def _repeat(self, applied: Candidate, score: float) -> None:
        repeated_score = self._evaluator.score(applied).score
        if repeated_score is not None:
            self._noise.add((repeated_score - score) ** 2 / 2)  # their mean is the variance of one score

    def _add_pair(self, baseline: Evaluation, candidate: Evaluation) -> None:
        self._num_samples += 1
        scored = baseline.score is not None, candidate.score is not None
        for arm, is_scored in zip(self._failed, scored, strict=True):
            self._failed[arm] += not is_scored
        self.first_failure = self.first_failure or baseline.failure or candidate.failure or ""
        metrics = [{SCORED_METRIC: float(was_scored)} for was_scored in scored]
        if baseline.score is not None and candidate.score is not None:
            for evaluation, values in zip((baseline, candidate), metrics, strict=True):
                values.update({**evaluation.metrics, FITNESS: float(evaluation.score or 0.0)})
        self._num_differing += scored[0] != scored[1] or any(
            abs(value - metrics[1].get(name, value)) > TOLERANCE for name, value in metrics[0].items()
        )
        self.comparison.add(*metrics)

    def make_result(
        self,
        seed: int,
        verdict: Verdict,
        reason: str,
        num_saved: int,
        ratio: RatioCheck | None,
        meta: Mapping[str, Any],
    ) -> ShadowResult:
        dimensions = self.comparison.compute_dimensions(seed=seed)
        fitness = dimensions.get(FITNESS)
        baseline_mean, candidate_mean = (fitness.baseline, fitness.candidate) if fitness else (0.0, 0.0)
        metrics = [name for name in dimensions if name not in (FITNESS, SCORED_METRIC)]
        return ShadowResult(
            baseline_fitness=baseline_mean,
            candidate_fitness=candidate_mean,
            baseline_breakdown={name: dimensions[name].baseline for name in metrics},
            candidate_breakdown={name: dimensions[name].candidate for name in metrics},
            sample_size=fitness.count if fitness else 0,
            divergence=compute_divergence(baseline_mean, candidate_mean),
            disagreement=self._num_differing / self._num_samples if self._num_samples else 0.0,
            verdict=verdict,
            reason=reason,
            dimensions=dimensions,
            num_failed=dict(self._failed),
            noise=self._noise.mean if self._noise.count else None,
            num_calls=self.num_calls,
            num_saved=num_saved,
            ratio=ratio,
            meta=dict(meta),
        )


def decide_verdict(evidence: Mapping[str, Evidence], rules: VerdictRules) -> tuple[Verdict, str]:
    """Returns the verdict that the evidence supports, and the reason."""
    guardrails = [*rules.guardrails, Guardrail(SCORED_METRIC, 0.0)]
    for guardrail in guardrails:
        if guardrail.metric in evidence and guardrail.is_breached(evidence[guardrail.metric].interval):
            return "reject", f"{guardrail.metric} is worse by more than {guardrail.allowed_loss:g}"
    fitness = evidence.get(FITNESS)
    if fitness is None:
        return "extend", "no sample was scored by both arms"
    if fitness.interval.high < rules.min_effect:
        return "reject", f"fitness gains less than {rules.min_effect:g}"
    if not fitness.interval.low > rules.min_effect:
        return "extend", f"after {fitness.count} pairs fitness may gain more or less than {rules.min_effect:g}"
    for guardrail in rules.guardrails:
        if guardrail.metric not in evidence:
            return "extend", f"guarded metric {guardrail.metric} was never measured"
        if not guardrail.is_satisfied(evidence[guardrail.metric].interval):
            return "extend", f"{guardrail.metric} may be worse by {guardrail.allowed_loss:g} or more"
    return "promote", f"fitness gains more than {rules.min_effect:g}, and no guarded metric is worse"

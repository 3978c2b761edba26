"""Runs a candidate value beside the present one."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

from atoll import errors
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.governed.evaluators import evaluator as evaluators
from atoll.governed.shadow.comparison import Comparison
from atoll.governed.shadow.guardrail import FITNESS, Guardrail
from atoll.governed.shadow.result import ShadowResult, Verdict, divergence
from atoll.governed.statistics import Evidence, Moments, RatioCheck, check_ratio

type Sampler = Callable[[float], Iterable[Candidate]]
type Applier = Callable[[Candidate, Any], Candidate]

SCORED = "scored"  # 1 or 0: whether an arm could score the sample; a guardrail of its own
SAME = 1e-12


class Values(Protocol):
    """What a shadow run needs of a store of parameters: to read."""

    def get(self, key: str, /) -> tuple[Any, int]: ...


@runtime_checkable
class Offering(Protocol):
    """A sampler that says how many candidates it chose from, so that its share can be checked."""

    @property
    def num_offered(self) -> int: ...


class Terms(NamedTuple):
    """When a verdict falls.

    Attributes:
        min_effect: The least gain in fitness that is worth a change.
        guardrails: What must not become worse.
    """

    min_effect: float
    guardrails: Sequence[Guardrail]


class ShadowRunner:
    """Scores every sample twice, with the present value of a parameter and with a candidate value.

    Nothing is ever written: what to do about the result is for somebody else to decide. The verdict may be looked for
    after every pair, and the run ends as soon as it is clear, since the intervals hold at all looks together.

    Args:
        store: Only read.
        evaluator: Scores; from several threads only if it says that it may be.
        sampler: Returns the samples for a share of the traffic; an iterator is read no further than needed.
        applier: Returns a new candidate as it would be under a value; pure.
        min_effect: The least gain in fitness that is worth a change.
        guardrails: Metrics that must not become worse by their margins; failures are guarded always.
        alpha: The probability of a wrong verdict.
        expected: After about how many pairs the verdict should fall.
        stop_early: False scores all samples whatever they say.
        repeats: Scores so many samples once more, to tell the noise of the evaluator.
        workers: Pairs that are scored at the same time.
    """

    def __init__(
        self,
        store: Values,
        evaluator: evaluators.Evaluator,
        sampler: Sampler,
        applier: Applier,
        *,
        min_effect: float = 0.0,
        guardrails: Sequence[Guardrail] = (),
        alpha: float = 0.05,
        expected: float = 200.0,
        start: int = 20,
        stop_early: bool = True,
        repeats: int = 0,
        workers: int = 1,
        seed: int = 0,
    ) -> None:
        needed = {"store": store, "evaluator": evaluator, "sampler": sampler, "applier": applier}
        if missing := [name for name, given in needed.items() if given is None]:
            raise errors.SetupError(f"A shadow run needs {', '.join(missing)}: give it.")
        if min_effect < 0:
            raise errors.SetupError(f"min_effect={min_effect}: a change must bring 0 or more.")
        self._store, self._evaluator, self._sampler, self._applier = store, evaluator, sampler, applier
        self._terms = Terms(min_effect, tuple(guardrails))
        self._levels = (alpha, expected, start)
        Comparison(*self._levels)  # refuses what cannot be, now
        self._stop_early, self._repeats, self._workers, self._seed = stop_early, repeats, max(workers, 1), seed

    def run_shadow(
        self, key: str, candidate_value: Any, traffic: float = 1.0, *, meta: Mapping[str, Any] | None = None
    ) -> ShadowResult:
        """Compares a candidate value with the one that a parameter has.

        Args:
            traffic: The share to sample, 0 to 1; 1 is a pure replay.

        Raises:
            SetupError: The share is not from 0 to 1.
            ParameterNotFound: There is no such parameter.
        """
        if not 0 <= traffic <= 1:
            raise errors.SetupError(f"traffic={traffic}: give a share from 0 to 1.")
        present = self._store.get(key)[0]
        samples = self._sampler(traffic)
        arms = Arms(Comparison(*self._levels), self._evaluator, self._applier, present, candidate_value)
        verdict: Verdict = "extend"
        reason, waiting = "there is no sample", iter(samples)
        while batch := list(islice(waiting, self._workers)):
            arms.score(batch, self._workers, self._repeats)
            verdict, reason = judge(arms.comparison.look(), self._terms)
            if verdict != "extend" and self._stop_early:
                break
        planned = 2 * len(samples) if isinstance(samples, Sized) else arms.num_calls
        ratio = self._ratio(samples, traffic)
        if ratio is not None and ratio.is_off and verdict == "promote":
            verdict, reason = "extend", f"the sample is {ratio.share:.3g} of what was offered, not {traffic:.3g}"
        return arms.result(self._seed, verdict, reason, max(planned - arms.num_calls, 0), ratio, meta or {})

    def _ratio(self, samples: Iterable[Candidate], traffic: float) -> RatioCheck | None:
        if not isinstance(self._sampler, Offering) or not isinstance(samples, Sized) or not 0 < traffic < 1:
            return None
        return check_ratio(self._sampler.num_offered - len(samples), len(samples), traffic)


class Arms:
    """Both arms of a run under way."""

    def __init__(
        self,
        comparison: Comparison,
        evaluator: evaluators.Evaluator,
        applier: Applier,
        present: Any,
        candidate_value: Any,
    ) -> None:
        self.comparison, self._evaluator, self._applier = comparison, evaluator, applier
        self._values = (present, candidate_value)
        self.num_calls = self._num_samples = self._num_different = 0
        self._failed = {"baseline": 0, "candidate": 0}
        self._noise = Moments()

    def score(self, batch: Sequence[Candidate], workers: int, repeats: int) -> None:
        pairs = [self._applier(each, value) for each in batch for value in self._values]
        found = evaluators.score_all(self._evaluator, pairs, workers=2 * workers if workers > 1 else 1)
        self.num_calls += len(pairs)
        for place in range(len(batch)):
            baseline, candidate = found[2 * place : 2 * place + 2]
            if self._noise.count < repeats and baseline.score is not None:
                self._repeat(pairs[2 * place], baseline.score)
            self._take(baseline, candidate)

    def _repeat(self, applied: Candidate, score: float) -> None:
        again = self._evaluator.score(applied).score
        if again is not None:
            self._noise.add((again - score) ** 2 / 2)  # the mean of these is the variance of one score

    def _take(self, baseline: Evaluation, candidate: Evaluation) -> None:
        self._num_samples += 1
        scored = baseline.score is not None, candidate.score is not None
        for arm, is_scored in zip(self._failed, scored, strict=True):
            self._failed[arm] += not is_scored
        metrics = [{SCORED: float(each)} for each in scored]
        if baseline.score is not None and candidate.score is not None:
            for each, values in zip((baseline, candidate), metrics, strict=True):
                values.update({**each.metrics, FITNESS: float(each.score or 0.0)})
        self._num_different += scored[0] != scored[1] or any(
            abs(value - metrics[1].get(name, value)) > SAME for name, value in metrics[0].items()
        )
        self.comparison.add(*metrics)

    def result(
        self,
        seed: int,
        verdict: Verdict,
        reason: str,
        num_saved: int,
        ratio: RatioCheck | None,
        meta: Mapping[str, Any],
    ) -> ShadowResult:
        dimensions = self.comparison.dimensions(seed=seed)
        fitness = dimensions.get(FITNESS)
        before, after = (fitness.baseline, fitness.candidate) if fitness else (0.0, 0.0)
        metrics = [name for name in dimensions if name not in (FITNESS, SCORED)]
        return ShadowResult(
            baseline_fitness=before,
            candidate_fitness=after,
            baseline_breakdown={name: dimensions[name].baseline for name in metrics},
            candidate_breakdown={name: dimensions[name].candidate for name in metrics},
            sample_size=fitness.count if fitness else 0,
            divergence=divergence(before, after),
            disagreement=self._num_different / self._num_samples if self._num_samples else 0.0,
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


def judge(found: Mapping[str, Evidence], terms: Terms) -> tuple[Verdict, str]:
    """Returns the verdict that the evidence allows, and why."""
    guardrails = [*terms.guardrails, Guardrail(SCORED)]
    for each in guardrails:
        if each.metric in found and each.is_breached(found[each.metric].interval):
            return "reject", f"{each.metric} is worse by more than {each.margin:g}"
    fitness = found.get(FITNESS)
    if fitness is None:
        return "extend", "no sample was scored by both arms"
    if fitness.interval.high < terms.min_effect:
        return "reject", f"fitness gains less than {terms.min_effect:g}"
    if not fitness.interval.low > terms.min_effect:
        return "extend", f"after {fitness.count} pairs fitness may gain more or less than {terms.min_effect:g}"
    for each in terms.guardrails:
        if each.metric not in found:
            return "extend", f"{each.metric} is guarded, and nobody measured it"
        if not each.is_kept(found[each.metric].interval):
            return "extend", f"{each.metric} may be worse by {each.margin:g} or more"
    return "promote", f"fitness gains more than {terms.min_effect:g}, and nothing guarded is worse"
